//! Failovers as services do them: one name, which leads to another server afterwards, while the old one is demoted
//! under its connections, left by its replicas, hung or gone.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use serde_json::Value;
use testkit::dns::{NameServer, Said, loopback};
use testkit::ports::free_port;
use testkit::proxy::Network;
use testkit::redis::RedisServer;
use testkit::resp::Reply;
use testkit::sidecars::group::{self, ms_between};
use testkit::sidecars::replica::{Lease, Replica, Settings};
use testkit::wait::{SLACK, last_for, until, until_some};

use crate::group::{LEASE_KEY, RECORD_KEY, ROLE};
use crate::proxies::Proxies;

const NAME: &str = "redis.test";
const NEWS: &str = "baton:{scheduler}:news";

/// A master and its replicas, each reached at an address of its own, and a name that leads to one of them.
struct Service {
    names: NameServer,
    port: u16,
    ips: Vec<Ipv4Addr>,
    fronts: Proxies,
    /// The first began as the master.
    servers: Vec<RedisServer>,
}

type Group = group::Group<Service>;

impl Service {
    /// So many servers; none, with a word about it, where this machine does not allow a name server of one's own.
    fn start(servers: usize) -> Option<Self> {
        let names = match NameServer::start(Said::Nothing) {
            Ok(names) => names,
            Err(error) => {
                println!("left out: a name that leads elsewhere, which takes root here ({error})");
                return None;
            }
        };
        let mut servers: Vec<RedisServer> = (0..servers).map(|_| RedisServer::start()).collect();
        let (port, ips): (u16, Vec<Ipv4Addr>) = (free_port(), servers.iter().map(|_| loopback()).collect());
        let places = ips.iter().zip(&mut servers).map(|(ip, server)| (SocketAddr::from((*ip, port)), server.port()));
        let fronts = Proxies::at(&places.collect::<Vec<_>>());
        let service = Self { names, port, ips, fronts, servers };
        (1..service.servers.len()).for_each(|replica| service.follow(replica, 0));
        service.lead_to(&[0]);
        Some(service)
    }

    fn lead_to(&self, servers: &[usize]) {
        self.names.say(Said::Addresses(servers.iter().map(|server| self.ips[*server]).collect()));
    }

    /// Has one server replicate from another, and waits until it does.
    fn follow(&self, replica: usize, master: usize) {
        let port = self.servers[master].port().to_string();
        assert_eq!(self.servers[replica].command(&["REPLICAOF", "127.0.0.1", &port]), Reply::Text("OK".to_owned()));
        let follows = || self.servers[replica].command(&["INFO", "replication"]).text();
        until("the replica follows", || follows().contains("master_link_status:up"));
    }

    fn promote(&self, server: usize) {
        assert_eq!(self.servers[server].command(&["REPLICAOF", "NO", "ONE"]), Reply::Text("OK".to_owned()));
    }

    fn renewals(&self, server: usize) -> Reply {
        self.servers[server].command(&["HGET", RECORD_KEY, "count"])
    }

    fn listeners(&self, server: usize) -> i64 {
        let Reply::List(told) = self.servers[server].command(&["PUBSUB", "NUMSUB", NEWS]) else { panic!("no list") };
        told[1].clone().number()
    }

    fn settings(&self, number: usize, lease: Lease, redis_more: &str) -> Settings {
        let url = format!("redis://{NAME}:{}/0", self.port);
        Settings {
            redis_more: redis_more.to_owned(),
            resolv_conf: Some(self.names.resolv_conf()),
            ..Settings::new(number, url, lease)
        }
    }

    /// Replicas of Baton on it.
    fn with_replicas(self, replicas: usize, lease: Lease, redis_more: &str) -> Group {
        self.with_replicas_that(replicas, lease, redis_more, "")
    }

    /// The same with further sections.
    fn with_replicas_that(self, replicas: usize, lease: Lease, redis_more: &str, more: &str) -> Group {
        let settings = |number| Settings { more: more.to_owned(), ..self.settings(number, lease, redis_more) };
        let settings: Vec<Settings> = (0..replicas).map(settings).collect();
        let mut group = Group::new(self, replicas);
        settings.into_iter().for_each(|settings| group.add(settings));
        group
    }
}

/// Takes a lock; its id and token.
fn take(replica: &Replica, name: &str) -> (String, u64) {
    until_some("a lock is granted", || {
        let answer = replica.ask(&format!("POST /locks/{name}"), "");
        // 503: guarded, or not connected again.
        assert!(matches!(answer.status, 201 | 503), "{answer:?}");
        let grant: Value = serde_json::from_str(&answer.body).ok()?;
        Some((grant["lock"].as_str()?.to_owned(), grant["token"].as_u64()?))
    })
}

fn runs(group: &Group) -> f64 {
    let labels = [("job_name", "tick"), ("outcome", "succeeded")];
    group.replicas.iter().map(|replica| replica.metric("baton_job_runs_total", &labels).expect("it is there")).sum()
}

#[test]
fn a_master_that_is_demoted_under_its_connections_costs_neither_the_leader_nor_its_token_nor_a_lock() {
    let Some(service) = Service::start(2) else { return };
    let more = "locks: { lease: 6s, guard: 6s }\n\
                jobs: [{ name: tick, schedule: '@every 1s', run: { exec: { command: ['true'] } } }]\n";
    let group = service.with_replicas_that(3, Lease::LONGER, "", more);
    let first = group.leader();
    let leader = &group.replicas[first.who.replica];
    let (lock, token) = take(leader, "orders");
    until("a job runs", || runs(&group) > 0.0);
    until("all listen", || group.listeners(0) == 3);

    let demoted_at = Instant::now();
    group.promote(1);
    group.follow(0, 1);
    // The name lags behind.
    last_for(Duration::from_millis(500));
    group.lead_to(&[1]);
    let before = group.renewals(1);
    until("it is renewed at the new master", || group.renewals(1) != before);
    let renewed_at = Instant::now();
    until("the leader listens there", || group.listeners(1) >= 1);
    let ran = runs(&group);
    until("jobs go on", || runs(&group) > ran);
    until("the lock was not forgotten", || leader.ask(&format!("DELETE /locks/orders/{lock}"), "").status == 204);
    assert!(take(leader, "orders").1 > token);
    group.still_leads(&first, Lease::LONGER.duration());
    assert_eq!(group.servers[1].command(&["HGET", LEASE_KEY, "token"]), Reply::Text(first.token.to_string()));
    assert_eq!(group.apps.terms().len(), 1, "P5: {:?}", group.apps.terms());

    // The others hear nothing of the new master any more, and what the old one holds is out of date.
    assert_eq!(group.servers[0].command(&["REPLICAOF", "127.0.0.1", "1"]), Reply::Text("OK".to_owned()));
    let resigned_at = Instant::now();
    assert_eq!(group.replicas[first.who.replica].ask(&format!("POST /leader/{ROLE}/resign"), "").status, 202);
    let next = group.leader_after(&first);
    let took = next.from.saturating_duration_since(resigned_at);
    assert!(took < Lease::LONGER.duration() * 2 + SLACK, "it took {took:?}");
    until("all listen at the new one", || group.listeners(0) == 0 && group.listeners(1) == 3);
    let measured = format!(
        "renewed after {} ms, led after a resignation that nobody heard after {} ms, ",
        ms_between(demoted_at, renewed_at),
        took.as_millis()
    );
    group.finish("demoted under its connections", &measured);
}

#[test]
fn a_master_that_its_replicas_have_left_is_left_too_once_its_name_leads_elsewhere() {
    let Some(service) = Service::start(3) else { return };
    let group = service.with_replicas(3, Lease::LONGER, ", replication: { acks: 1, timeout: 200ms }");
    let first = group.leader();
    let left_at = Instant::now();
    group.promote(1);
    group.follow(2, 1);
    group.lead_to(&[1]);
    // The old one is alive, takes itself for the master, and closes nothing.
    assert!(group.servers[0].command(&["INFO", "replication"]).text().contains("role:master"));
    let before = group.renewals(1);
    until("it is renewed at the new master", || group.renewals(1) != before);
    let renewed_at = Instant::now();
    group.still_leads(&first, Lease::LONGER.duration() * 3 / 2);
    assert_eq!(group.servers[1].command(&["HGET", LEASE_KEY, "token"]), Reply::Text(first.token.to_string()));
    assert_eq!(group.apps.terms().len(), 1, "P5: {:?}", group.apps.terms());
    let measured = format!("renewed at the new master after {} ms, ", ms_between(left_at, renewed_at));
    group.finish("left by its replicas", &measured);
}

/// What becomes of the old master.
#[derive(Clone, Copy, Debug)]
enum Fate {
    Gone,
    Hung,
}

fn incumbent_stays_when_the_old_master_is(fate: Fate) {
    let Some(service) = Service::start(2) else { return };
    let mut group = service.with_replicas(3, Lease::LONGER, "");
    let first = group.leader();
    let struck_at = Instant::now();
    match fate {
        Fate::Gone => {
            group.names.say(Said::Nothing);
            group.fronts.each[0].set(Network::Cut);
            group.servers[0].kill();
        }
        Fate::Hung => group.servers[0].pause(),
    }
    last_for(Duration::from_secs(1));
    group.promote(1);
    group.lead_to(&[1]);
    let before = group.renewals(1);
    until("it is renewed at the new master", || group.renewals(1) != before);
    let renewed_at = Instant::now();
    group.still_leads(&first, Lease::LONGER.duration() * 3 / 2);
    assert_eq!(group.apps.terms().len(), 1, "P5: {:?}", group.apps.terms());
    until("all listen at the new one", || group.listeners(1) == 3);
    group.finish(&format!("{fate:?}"), &format!("renewed after {} ms, ", ms_between(struck_at, renewed_at)));
}

#[test]
fn an_incumbent_stays_when_its_master_is_gone_and_the_name_leads_nowhere_for_a_while() {
    incumbent_stays_when_the_old_master_is(Fate::Gone);
}

#[test]
fn an_incumbent_stays_when_its_master_hangs_and_the_name_leads_to_another() {
    incumbent_stays_when_the_old_master_is(Fate::Hung);
}

#[test]
fn a_name_that_leads_nowhere_is_named_and_tried_until_it_leads_somewhere() {
    let Some(service) = Service::start(1) else { return };
    service.names.say(Said::Nothing);
    let group = service.with_replicas(1, Lease::SHORT, "");
    let says = |words: &str| {
        let moment = Instant::now();
        group.answer_after(0, moment, words, |seen| {
            let reason = seen.told.reason.as_deref().unwrap_or_default();
            seen.told.state == "unreachable" && reason.contains(NAME) && reason.contains(words)
        });
    };
    says("failed to lookup address information");
    group.names.say(Said::Silence);
    says("its name was not looked up within");
    group.lead_to(&[0]);
    group.leader();
    group.finish("a name that leads nowhere", "");
}

#[test]
fn of_several_addresses_the_dead_replicas_and_black_holes_are_passed_over() {
    let Some(service) = Service::start(3) else { return };
    service.fronts.each[0].set(Network::Stalled);
    service.promote(1);
    service.follow(2, 1);
    // In either order, as name servers rotate them.
    service.lead_to(&[0, 2, 1]);
    let begun = Instant::now();
    let mut group = service.with_replicas(1, Lease::LONGER, "");
    let first = group.leader();
    let took = ms_between(begun, first.from);
    group.replicas[0].kill();
    group.lead_to(&[1, 2, 0]);
    group.start_again(0);
    let next = group.leader_after(&first);
    until("all listen at the master", || group.listeners(1) == 1);
    group.finish("several addresses", &format!("led after {took} ms, then under {}, ", next.token));
}
