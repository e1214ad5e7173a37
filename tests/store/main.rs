//! The Redis store on real servers: the rules, random operations against the reference, faults, refusals.

mod audit;
mod cluster;
mod conformance;
mod databases;
mod differential;
mod evidence;
mod faults;
mod garbage;
mod lease_api;
mod leases;
mod leases_edited;
mod leases_random;
mod leases_refused;
mod leases_shared;
mod ledgers;
mod listening;
mod live;
mod locks;
mod members;
mod members_kept;
mod presence;
mod quorum;
mod random;
mod refusals;
mod registry;
mod registry_kept;
mod renewals;
mod replication;
mod requests;
mod rules;
mod sentinel;
mod short_ways;
mod suite;
mod tls;

use std::sync::Arc;
use std::time::Duration;

use baton::config::{AckMode, Durability, Guard, KubernetesConfig, RedisConfig, Replication, TlsConfig};
use baton::protocol::{
    CampaignReply, CampaignRequest, KnownRecord, RecordVersion, ReleaseReply, ReleaseRequest, RenewReply, RenewRequest,
    RoleName, SessionId, Token,
};
use baton::store::kubernetes::KubernetesStore;
use baton::store::redis::RedisStore;
use baton::store::{LeaseStore, PresenceStore, ShortestLease, StoreError, StoreHealth};
use secrecy::SecretString;
use testkit::kubernetes::FakeApi;
use testkit::redis::RedisServer;
use testkit::sidecars::clock::ClockControl;
use testkit::{BOUND, within};

use requests::{LEASE, NOTHING, ask, candidate, giving_back, knows_for, ms, renewal, unguarded, version_of};

fn config(url: &str) -> RedisConfig {
    RedisConfig {
        url: SecretString::from(url),
        username: None,
        password: None,
        auth: None,
        tls: TlsConfig::default(),
        durability: Durability::Asynchronous,
        key_prefix: "baton".to_owned(),
        // Patient, for machines that are busy; see `impatient`.
        command_timeout: ms(8_000),
        replication: Replication { acks: 0, mode: AckMode::Wait, timeout: ms(200) },
        guard: Guard::Strict,
    }
}

fn store_with(config: &RedisConfig) -> RedisStore {
    RedisStore::connect(config, LEASE, 7).expect("the configuration is good")
}

/// A store that does not ask its server which it is.
async fn heard(url: &str) -> RedisStore {
    let store = store_with(&RedisConfig { guard: Guard::Heard, ..config(url) });
    until_up(&store).await;
    store
}

/// A store that gives a command up after 300 ms and takes a silent connection for dead after a second: for tests in
/// which nothing answers.
async fn impatient(url: &str) -> RedisStore {
    let config = RedisConfig { command_timeout: ms(300), ..config(url) };
    let store = RedisStore::connect(&config, ms(4_000), 7).expect("the configuration is good");
    until_up(&store).await;
    store
}

async fn connected(url: &str) -> RedisStore {
    let store = store_with(&config(url));
    until_up(&store).await;
    store
}

/// A store on this API service.
fn leases_of(api: &FakeApi) -> KubernetesStore {
    leases_at(api.kubeconfig(), &leases_config())
}

fn leases_at(kubeconfig: std::path::PathBuf, config: &KubernetesConfig) -> KubernetesStore {
    KubernetesStore::with_kubeconfig(config, kubeconfig, LEASE, 7)
}

fn leases_config() -> KubernetesConfig {
    KubernetesConfig {
        namespace: None,
        name_prefix: "baton".to_owned(),
        command_timeout: ms(8_000),
        guard: Guard::Strict,
    }
}

async fn until_up(store: &RedisStore) {
    let mut health = store.health();
    let up = tokio::time::timeout(BOUND, health.wait_for(|health| *health == StoreHealth::Up)).await.is_ok();
    assert!(up, "the store is not up: {:?}", *store.health().borrow());
}

/// Waits until the store is down for a reason with this word in it.
async fn until_down(store: &RedisStore, word: &str) -> String {
    let mut health = store.health();
    let down = health.wait_for(|health| matches!(health, StoreHealth::Down { reason } if reason.contains(word)));
    let Ok(down) = tokio::time::timeout(BOUND, down).await else {
        panic!("the store is not down because of {word:?}: {:?}", *store.health().borrow());
    };
    match &*down.expect("the store lives") {
        StoreHealth::Down { reason } => reason.clone(),
        StoreHealth::Up => unreachable!("waited for"),
    }
}

fn role() -> RoleName {
    RoleName::new("scheduler").expect("a DNS label")
}

async fn campaign(store: &RedisStore, request: CampaignRequest) -> CampaignReply {
    store.campaign(&role(), request).await.expect("an answer").reply
}

async fn renew(store: &RedisStore, request: RenewRequest) -> RenewReply {
    store.renew(&role(), request).await.expect("an answer").reply
}

async fn release(store: &RedisStore, request: ReleaseRequest) -> ReleaseReply {
    store.release(&role(), request).await.expect("an answer").reply
}

/// Wins a term and says its token and count.
async fn win(store: &RedisStore, request: CampaignRequest) -> (Token, u64) {
    match campaign(store, request).await {
        CampaignReply::Granted { token, count } => (token, count),
        other => panic!("not granted: {other:?}"),
    }
}

/// How often commands that begin like this were called; of all, without a beginning.
fn calls(redis: &RedisServer, command: &str) -> u64 {
    let stats = redis.command(&["INFO", "commandstats"]).text();
    let calls = |line: &str| -> Option<u64> { line.split("calls=").nth(1)?.split(',').next()?.parse().ok() };
    stats.lines().filter(|line| line.starts_with(&format!("cmdstat_{command}"))).filter_map(calls).sum()
}

/// What its clock shows, in microseconds.
fn now_us(redis: &RedisServer) -> u64 {
    let [seconds, micros] = <[String; 2]>::try_from(redis.command(&["TIME"]).texts()).expect("two numbers");
    let number = |text: &str| text.parse::<u64>().expect("a number");
    number(&seconds) * 1_000_000 + number(&micros)
}

#[track_caller]
fn is_garbage<T: std::fmt::Debug>(reply: Result<T, StoreError>, key: &str, word: &str) {
    match &reply {
        Err(StoreError::Garbage { key: k, why }) => assert!(k == key && why.contains(word), "{key} {word}: {reply:?}"),
        other => panic!("{key} {word}: {other:?}"),
    }
}

/// Steps the server's clock to so many seconds ahead of ours, and waits until scripts are told that time: not every
/// server looks at every call.
async fn step_clock(redis: &RedisServer, control: &ClockControl, offset: i64) {
    control.set(offset);
    testkit::wait_until(BOUND, "scripts are told that time", || {
        let told = redis.command(&["EVAL", "return tonumber(redis.call('TIME')[1])", "0"]).number();
        (told - jiff::Timestamp::now().as_second() - offset).abs() < 60
    })
    .await;
}

fn is_unreachable<T>(result: &Result<T, StoreError>) -> bool {
    matches!(result, Err(StoreError::Unreachable { .. }))
}
