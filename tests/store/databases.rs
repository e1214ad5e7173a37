//! Two databases of one Redis are two stores, also with the same prefix: Redis passes every message on to all of them.

use baton::store::News;
use baton::store::quorum::QuorumMember;
use baton::store::redis::RedisMember;
use testkit::redis::RedisServer;
use testkit::wait_until;

use super::live::{Live, short_timing};
use super::*;

/// The configuration for this database of the server.
pub fn in_database(redis: &RedisServer, number: u8) -> RedisConfig {
    config(&redis.url().replace("/0", &format!("/{number}")))
}

#[tokio::test]
async fn two_databases_with_one_prefix_elect_each_for_itself() {
    let redis = RedisServer::start();
    let of = |number| RedisConfig { command_timeout: ms(600), ..in_database(&redis, number) };
    let both = [of(0), of(1)];
    let live = Live::start_each(move |replica| both[usize::from(replica == 1)].clone(), short_timing(), 2, 1);
    let each_leads = || live.answers().iter().all(|answer| answer.leader);
    wait_until(Duration::from_secs(20), "each leads", each_leads).await;
    // Several renewals later, all of which the other could hear, each names itself.
    let named = || live.answers().iter().map(|answer| answer.holder.as_deref().map(str::to_owned)).collect::<Vec<_>>();
    assert_eq!(named(), [Some("web-0".to_owned()), Some("web-1".to_owned())]);
}

#[tokio::test]
async fn news_stay_in_their_database_and_the_first_one_has_the_plain_name() {
    let redis = RedisServer::start();
    let stores = [store_with(&in_database(&redis, 0)), store_with(&in_database(&redis, 1))];
    let member = RedisMember::connect(&in_database(&redis, 2), Arc::from(""), LEASE, 7).expect("a good configuration");
    let mut ears = stores.each_ref().map(|store| store.subscribe(&role(), None));
    let _member = QuorumMember::subscribe(&member, &role());
    for (store, ear) in stores.iter().zip(&mut ears) {
        until_up(store).await;
        assert_eq!(within("a gap", ear.recv()).await, Some(News::Gap));
    }
    let channels = || {
        let mut names = redis.command(&["PUBSUB", "CHANNELS"]).texts();
        names.sort_unstable();
        names
    };
    let expected = ["", ":1", ":2"].map(|number| format!("baton:{{scheduler}}:news{number}"));
    wait_until(BOUND, "each listens to its own", || channels() == expected).await;
    let mut tokens = Vec::new();
    for store in &stores {
        tokens.push(win(store, unguarded(1, 1)).await.0);
    }
    for (ear, token) in ears.iter_mut().zip(tokens) {
        let said = within("the grant", ear.recv()).await;
        assert!(matches!(&said, Some(News::Said(said)) if said.token == token), "{said:?}");
        assert!(ear.try_recv().is_err(), "the other's grant");
    }
}

#[tokio::test]
async fn the_documented_rights_are_enough_in_every_database() {
    let redis = RedisServer::start_with(&["--appendonly", "yes", "--appendfsync", "always"]);
    super::refusals::rights_for(&redis, "sidecar", super::refusals::LEAST_RIGHTS);
    let second = super::refusals::as_user(&redis, "sidecar");
    let second = RedisConfig { url: in_database(&redis, 1).url, ..second };
    let report = super::audit::report(&second).await;
    assert_eq!(super::audit::severity(&report, "may do all"), baton::store::redis::Severity::Ok, "{report:#?}");
}
