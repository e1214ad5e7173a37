//! The rules of the protocol on every store that Debian's packages suffice for: in memory, on one Redis with a replica,
//! behind Sentinels and in a cluster; and on Lease objects of an API service.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use async_trait::async_trait;
use baton::base::clock::BootClock;
use baton::protocol::Rules;
use baton::store::memory::MemoryStore;
use testkit::cluster::Cluster;
use testkit::profile::{Profile, Profiled};
use testkit::redis::{Data, RedisServer};
use testkit::resp::Reply;
use testkit::sentinel::SentinelSet;
use testkit::services::{SERVICES, Service};
use testkit::{block_on, wait_until};

use super::lease_api::LeaseApi;
use super::*;
use crate::suite::{ALL, Fault, Place, Rule, run};

const PATIENCE: Duration = Duration::from_secs(60);

/// What may happen to Redis, however many there are.
const EVERYTHING: &[Fault] = &[
    Fault::LeaseGone,
    Fault::AllForgotten,
    Fault::LeaseStretched,
    Fault::AnotherServer,
    Fault::YoungServer,
    Fault::ReplicasSilent,
];

/// What may happen to it behind this: without WAIT nobody waits for replicas.
fn profile_faults(profile: Profile) -> &'static [Fault] {
    let (last, others) = EVERYTHING.split_last().expect("there are some");
    assert_eq!(*last, Fault::ReplicasSilent);
    if profile.refused.contains(&"WAIT") { others } else { EVERYTHING }
}

/// It lives and dies with its users: nothing is ever evicted, forgotten or restarted.
struct InMemory(Arc<MemoryStore>);

#[async_trait(?Send)]
impl Place for InMemory {
    fn store(&self) -> Arc<dyn LeaseStore> {
        Arc::clone(&self.0) as Arc<dyn LeaseStore>
    }

    fn presence(&self) -> Arc<dyn PresenceStore> {
        Arc::clone(&self.0) as Arc<dyn PresenceStore>
    }

    fn faults(&self) -> &'static [Fault] {
        &[]
    }

    async fn inflict(&mut self, fault: Fault, _role: &RoleName) {
        panic!("it has no {fault:?}");
    }
}

/// The servers behind a Redis store.
enum Servers {
    /// A master and its replica.
    Pair(Box<[RedisServer; 2]>),
    Sentinels(SentinelSet),
    Cluster(Cluster),
}

struct OnRedis {
    store: Arc<RedisStore>,
    servers: Servers,
    url: String,
    faults: &'static [Fault],
    /// What stands before the servers.
    _proxies: Vec<Profiled>,
}

fn key(role: &RoleName, what: &str) -> String {
    format!("baton:{{{role}}}:{what}")
}

impl OnRedis {
    async fn place(servers: Servers, url: String) -> Box<dyn Place> {
        Self::place_behind(servers, url, Vec::new(), EVERYTHING).await
    }

    async fn place_behind(
        servers: Servers,
        url: String,
        proxies: Vec<Profiled>,
        faults: &'static [Fault],
    ) -> Box<dyn Place> {
        Box::new(Self { store: Arc::new(connected(&url).await), servers, url, faults, _proxies: proxies })
    }

    async fn pair() -> Box<dyn Place> {
        let master = RedisServer::start();
        let replica = RedisServer::start_with(&["--replicaof", "127.0.0.1", &master.port().to_string()]);
        let url = master.url();
        Self::place(Servers::Pair(Box::new([master, replica])), url).await
    }

    /// The same behind what refuses something.
    async fn pair_behind(profile: Profile) -> Box<dyn Place> {
        let master = RedisServer::start();
        let replica = RedisServer::start_with(&["--replicaof", "127.0.0.1", &master.port().to_string()]);
        let proxy = Profiled::start(master.port(), profile).await;
        let (servers, url) = (Servers::Pair(Box::new([master, replica])), proxy.url());
        Self::place_behind(servers, url, vec![proxy], profile_faults(profile)).await
    }

    /// A cluster, with the same before every node.
    async fn cluster_behind(profile: Profile) -> Box<dyn Place> {
        let cluster = Cluster::start(&[]).await;
        let ports: Vec<u16> = cluster.nodes.iter().map(RedisServer::port).collect();
        let proxies = Profiled::start_all(Ipv4Addr::LOCALHOST, &ports, profile).await;
        let others: Vec<String> = proxies[1..].iter().map(|it| format!("node=127.0.0.1:{}", it.port())).collect();
        let url = format!("redis-cluster://127.0.0.1:{}?{}", proxies[0].port(), others.join("&"));
        Self::place_behind(Servers::Cluster(cluster), url, proxies, profile_faults(profile)).await
    }

    async fn sentinels() -> Box<dyn Place> {
        let set = SentinelSet::start().await;
        let url = set.url();
        Self::place(Servers::Sentinels(set), url).await
    }

    async fn cluster() -> Box<dyn Place> {
        let cluster = Cluster::start(&[]).await;
        let url = cluster.url();
        Self::place(Servers::Cluster(cluster), url).await
    }

    /// The server that has the role's keys, and those that follow it.
    fn servers_of(&self, role: &RoleName) -> (&RedisServer, Vec<&RedisServer>) {
        match &self.servers {
            Servers::Pair(pair) => (&pair[0], vec![&pair[1]]),
            Servers::Sentinels(set) => {
                let master = set.master();
                (set.server(master), set.servers.iter().filter(|server| server.port() != master).collect())
            }
            Servers::Cluster(cluster) => {
                let owners = cluster.owners(cluster.slot_of(&key(role, "lease")));
                let node = |at: &usize| &cluster.nodes[*at];
                (node(&owners[0]), owners[1..].iter().map(node).collect())
            }
        }
    }

    /// Another process has everything: a restart, or a failover to a replica that has it.
    async fn another_server(&mut self, role: &RoleName) {
        let (master, _) = self.servers_of(role);
        master.command(&["SET", &format!("mark:{{{role}}}"), "1"]);
        assert!(master.command(&["WAIT", "1", "10000"]).number() >= 1, "a replica has all of it");
        match &mut self.servers {
            Servers::Pair(pair) => pair[0].restart(Data::Kept),
            Servers::Sentinels(set) => {
                let old = set.master();
                set.fail_over().await;
                set.switched_from(old).await;
                set.settled().await;
            }
            Servers::Cluster(cluster) => {
                let slot = cluster.slot_of(&key(role, "lease"));
                wait_until(PATIENCE, "the replica is fit to take over", || cluster.owners(slot).len() == 2).await;
                let owners = cluster.owners(slot);
                let begun = cluster.nodes[owners[1]].command(&["CLUSTER", "FAILOVER"]);
                assert_eq!(begun, Reply::Text("OK".to_owned()));
                cluster.moved_from(owners[0], slot).await;
            }
        }
    }
}

#[async_trait(?Send)]
impl Place for OnRedis {
    fn store(&self) -> Arc<dyn LeaseStore> {
        Arc::clone(&self.store) as Arc<dyn LeaseStore>
    }

    fn presence(&self) -> Arc<dyn PresenceStore> {
        Arc::clone(&self.store) as Arc<dyn PresenceStore>
    }

    fn faults(&self) -> &'static [Fault] {
        self.faults
    }

    async fn inflict(&mut self, fault: Fault, role: &RoleName) {
        if let (Servers::Cluster(cluster), Fault::ReplicasSilent) = (&self.servers, fault) {
            let slot = cluster.slot_of(&key(role, "lease"));
            wait_until(PATIENCE, "the nodes know of the replica", || cluster.owners(slot).len() == 2).await;
        }
        let (server, replicas) = self.servers_of(role);
        let (lease, record) = (key(role, "lease"), key(role, "record"));
        match fault {
            Fault::LeaseGone => assert_eq!(server.command(&["DEL", &lease]), Reply::Number(1)),
            Fault::AllForgotten => assert_eq!(server.command(&["DEL", &lease, &record]), Reply::Number(2)),
            Fault::LeaseStretched => {
                assert_eq!(server.command(&["PEXPIRE", &lease, "9000000"]), Reply::Number(1));
            }
            Fault::AnotherServer => self.another_server(role).await,
            Fault::YoungServer => {}
            Fault::ReplicasSilent => {
                assert!(!replicas.is_empty());
                replicas.iter().for_each(|replica| replica.pause());
            }
        }
    }

    async fn relieve(&mut self, fault: Fault, role: &RoleName) {
        assert_eq!(fault, Fault::ReplicasSilent);
        let (_, replicas) = self.servers_of(role);
        replicas.iter().for_each(|replica| replica.resume());
        match &self.servers {
            Servers::Pair(_) => {}
            Servers::Sentinels(set) => drop(set.settled().await),
            Servers::Cluster(cluster) => cluster.settled().await,
        }
    }

    async fn acknowledged(&self) -> Arc<dyn LeaseStore> {
        let replication = Replication { acks: 1, mode: AckMode::Wait, timeout: ms(300) };
        let store = store_with(&RedisConfig { replication, ..config(&self.url) });
        until_up(&store).await;
        Arc::new(store)
    }
}

/// What may happen to a Lease object. Its server keeps what it has written, and has no TTL.
const TO_A_LEASE: &[Fault] = &[Fault::LeaseGone, Fault::AllForgotten];

struct OnKubernetes {
    store: Arc<KubernetesStore>,
    api: LeaseApi,
}

#[async_trait(?Send)]
impl Place for OnKubernetes {
    fn store(&self) -> Arc<dyn LeaseStore> {
        Arc::clone(&self.store) as Arc<dyn LeaseStore>
    }

    fn faults(&self) -> &'static [Fault] {
        TO_A_LEASE
    }

    async fn inflict(&mut self, fault: Fault, role: &RoleName) {
        let name = format!("baton-{role}");
        match fault {
            // Somebody empties it by hand.
            Fault::LeaseGone => self.api.edit(&name, |lease| lease["spec"]["holderIdentity"] = "".into()),
            Fault::AllForgotten => assert!(self.api.delete(&name)),
            other => panic!("it has no {other:?}"),
        }
    }
}

#[tokio::test]
async fn every_rule_holds_on_lease_objects() {
    let api = LeaseApi::start();
    let place = OnKubernetes { store: Arc::new(api.store()), api };
    assert_eq!(run(Box::new(place)).await, Rule::WITHOUT_REPLICAS);
}

#[test]
fn every_rule_has_cases_and_every_fault_a_case_that_needs_it() {
    let rules: BTreeSet<Rule> = ALL.iter().flat_map(|case| case.rules()).collect();
    assert_eq!(rules.into_iter().collect::<Vec<_>>(), Rule::ALL);
    let mut faults: Vec<Fault> = ALL.iter().flat_map(|case| case.needs).copied().collect();
    faults.sort();
    faults.dedup();
    assert_eq!(faults, EVERYTHING);
    let stores = [Rules::REDIS, Rules::QUORUM, Rules::KUBERNETES];
    assert!(ALL.iter().all(|case| stores.into_iter().any(|rules| (case.concerns)(rules))), "no case is nobody's");
}

#[tokio::test]
async fn every_rule_holds_in_memory_but_for_faults_that_it_cannot_have() {
    let memory = InMemory(Arc::new(MemoryStore::new(Arc::new(BootClock))));
    assert_eq!(run(Box::new(memory)).await, Rule::WITHOUT_REPLICAS);
}

#[tokio::test]
async fn every_rule_holds_on_one_redis() {
    assert_eq!(run(OnRedis::pair().await).await, Rule::ALL);
}

#[tokio::test]
async fn every_rule_holds_where_scripts_may_not_ask_which_server_it_is() {
    let profile = Profile { refused: &["SELECT"], refused_in_scripts: &["INFO"], ..Profile::NONE };
    assert_eq!(run(OnRedis::pair_behind(profile).await).await, Rule::ALL);
}

#[tokio::test]
async fn every_rule_holds_without_resp3() {
    let profile = Profile { has_resp3: false, ..Profile::NONE };
    assert_eq!(run(OnRedis::pair_behind(profile).await).await, Rule::ALL);
}

/// Whether Baton elects behind it: docs/compatibility.md has why not.
fn lets_elect(profile: &Profile) -> bool {
    let refuses = profile.refused.contains(&"EVAL") || profile.refused_in_scripts.contains(&"TIME");
    let is_one_of_several = |(field, _): &(&str, &str)| ["role", "crdt_config_version"].contains(field);
    !refuses && !profile.told.iter().any(is_one_of_several)
}

#[test]
#[ignore = "takes minutes, and make test has those that differ most: make compat"]
fn every_rule_holds_behind_what_services_refuse() {
    let services: Vec<&Service> = SERVICES.iter().filter(|service| lets_elect(&service.profile)).collect();
    assert!(services.len() > 8 && services.iter().any(|service| service.is_cluster), "{services:?}");
    let hold = |service: &Service| {
        let profile = service.profile;
        let rules = block_on(async {
            let behind = if service.is_cluster {
                OnRedis::cluster_behind(profile).await
            } else {
                OnRedis::pair_behind(profile).await
            };
            run(behind).await
        });
        let wanted = if profile.refused.contains(&"WAIT") { &Rule::WITHOUT_REPLICAS[..] } else { &Rule::ALL };
        assert_eq!(rules, wanted, "{}", profile.name);
        println!("{}: {rules:?}", profile.name);
    };
    // Each has several servers, and most of the time is waiting.
    for some in services.chunks(5) {
        std::thread::scope(|scope| some.iter().for_each(|service| drop(scope.spawn(|| hold(service)))));
    }
}

#[tokio::test]
async fn every_rule_holds_behind_sentinels() {
    assert_eq!(run(OnRedis::sentinels().await).await, Rule::ALL);
}

#[tokio::test]
async fn every_rule_holds_in_a_cluster() {
    assert_eq!(run(OnRedis::cluster().await).await, Rule::ALL);
}
