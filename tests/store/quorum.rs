//! The store that is a quorum of independent servers: the rules, and members that are away, slow, wrong or the same.

use std::net::Ipv4Addr;
use std::time::Instant;

use async_trait::async_trait;
use baton::base::clock::BootClock;
use baton::config::Secret;
use baton::protocol::{Seats, Stamped};
use baton::store::Purge;
use baton::store::quorum::{QuorumMember, QuorumStore};
use baton::store::redis::RedisMember;
use testkit::place::Place as Here;
use testkit::quorum::Members;
use testkit::redis::{Data, RedisServer};
use testkit::resp::Reply;
use testkit::sentinel::Sentinel;
use testkit::{wait_until, wait_until_async};

use super::refusals::{LEAST_RIGHTS, as_user, rights_for};
use super::*;
use crate::suite::{Fault, Place, Rule, run};

/// When a member's answer is no longer waited for: long enough for a busy machine, and told apart from an answer.
const PATIENCE: Duration = Duration::from_millis(1_500);

fn quorum_of(configs: &[RedisConfig]) -> QuorumStore {
    let connect = |config| {
        let member = RedisMember::connect(config, Arc::from(""), LEASE, 7).expect("the configuration is good");
        Arc::new(member) as Arc<dyn QuorumMember>
    };
    let members: Vec<_> = configs.iter().map(connect).collect();
    let seats = Seats::majority(members.len());
    QuorumStore::new(members, seats, PATIENCE, Arc::new(BootClock))
}

fn configs(urls: &[String]) -> Vec<RedisConfig> {
    urls.iter().map(|url| RedisConfig { command_timeout: PATIENCE, ..config(url) }).collect()
}

async fn until_quorum(store: &dyn LeaseStore) {
    let mut health = store.health();
    let up = tokio::time::timeout(BOUND, health.wait_for(|health| *health == StoreHealth::Up)).await.is_ok();
    assert!(up, "no quorum: {:?}", *store.health().borrow());
}

async fn until_complete(store: &QuorumStore) {
    let mut members = store.members();
    let all = tokio::time::timeout(BOUND, members.wait_for(|members| !members.contains(&false))).await.is_ok();
    assert!(all, "not every member: {:?}", store.notes());
}

/// Five servers, and a store over all of them.
async fn five() -> (Members, QuorumStore) {
    let members = Members::start(5);
    let store = quorum_of(&configs(&members.urls()));
    until_complete(&store).await;
    (members, store)
}

async fn asked(store: &QuorumStore, request: CampaignRequest) -> Result<CampaignReply, StoreError> {
    store.campaign(&role(), request).await.map(|stamped| stamped.reply)
}

async fn won(store: &QuorumStore, session: u128, attempt: u64) -> Token {
    match asked(store, unguarded(session, attempt)).await {
        Ok(CampaignReply::Granted { token, .. }) => token,
        other => panic!("not granted: {other:?}"),
    }
}

struct Five {
    members: Members,
    store: Arc<QuorumStore>,
}

impl Five {
    fn on_each(&self, words: &[&str], wanted: i64) {
        for server in &self.members.servers {
            assert_eq!(server.command(words), Reply::Number(wanted), "{words:?}");
        }
    }
}

#[async_trait(?Send)]
impl Place for Five {
    fn store(&self) -> Arc<dyn LeaseStore> {
        Arc::clone(&self.store) as Arc<dyn LeaseStore>
    }

    fn faults(&self) -> &'static [Fault] {
        &[Fault::LeaseGone, Fault::AllForgotten, Fault::AnotherServer, Fault::YoungServer]
    }

    async fn inflict(&mut self, fault: Fault, role: &RoleName) {
        let key = |what| format!("baton:{{{role}}}:{what}");
        match fault {
            Fault::LeaseGone => self.on_each(&["DEL", &key("lease")], 1),
            Fault::AllForgotten => self.on_each(&["DEL", &key("lease"), &key("record")], 2),
            Fault::AnotherServer => {
                self.members.restart_all(Data::Kept);
                until_complete(&self.store).await;
            }
            other => assert_eq!(other, Fault::YoungServer),
        }
    }
}

#[tokio::test]
async fn every_rule_but_the_replicas_holds_on_a_quorum_of_five() {
    let (members, store) = five().await;
    // Past the guard of a second that some cases wait out.
    wait_until(BOUND, "the servers have run for a while", || members.have_run_for(3)).await;
    let place = Five { members, store: Arc::new(store) };
    assert_eq!(run(Box::new(place)).await, Rule::WITHOUT_REPLICAS);
}

#[tokio::test]
async fn frozen_members_do_not_slow_a_renewal_and_cost_a_campaign_one_timeout_at_most() {
    let (members, store) = five().await;
    let token = won(&store, 1, 1).await;
    members.servers[..2].iter().for_each(RedisServer::pause);
    for _ in 0..5 {
        let begun = Instant::now();
        let renewed = store.renew(&role(), renewal(1, 1, token)).await.map(|stamped| stamped.reply);
        assert!(matches!(renewed, Ok(RenewReply::Renewed { reasserted: false, .. })), "{renewed:?}");
        assert!(begun.elapsed() < PATIENCE / 2, "the frozen members were waited for: {:?}", begun.elapsed());
    }
    assert_eq!(release_of(&store, giving_back(1, 1, token)).await, Ok(ReleaseReply::Released));
    let begun = Instant::now();
    assert!(won(&store, 2, 1).await > token);
    // Every member is asked twice.
    let limit = PATIENCE * 2;
    assert!(begun.elapsed() < limit, "more than two timeouts: {:?} of {limit:?}", begun.elapsed());
    members.servers.iter().for_each(RedisServer::resume);
}

async fn release_of(store: &QuorumStore, request: ReleaseRequest) -> Result<ReleaseReply, StoreError> {
    store.release(&role(), request).await.map(|stamped| stamped.reply)
}

#[tokio::test]
async fn two_members_down_are_noted_and_three_are_an_outage_that_names_them() {
    let (mut members, store) = five().await;
    let token = won(&store, 1, 1).await;
    members.servers[0].kill();
    members.servers[3].kill();
    let names = |members: &Members, which: &[usize]| which.iter().map(|m| members.name(*m)).collect::<Vec<_>>();
    wait_until(BOUND, "both are noted", || {
        let notes = store.notes().join("");
        notes.contains("2 of 5 members are missing") && names(&members, &[0, 3]).iter().all(|name| notes.contains(name))
    })
    .await;
    assert_eq!(*store.health().borrow(), StoreHealth::Up);
    assert_eq!(*store.members().borrow(), [false, true, true, false, true]);
    let renewed = store.renew(&role(), renewal(1, 1, token)).await;
    assert!(matches!(renewed, Ok(Stamped { reply: RenewReply::Renewed { .. }, .. })), "{renewed:?}");
    members.servers[4].kill();
    let mut health = store.health();
    let down = health.wait_for(|health| matches!(health, StoreHealth::Down { .. }));
    let down = within("the outage is told", down).await.expect("the store lives").clone();
    let told = |text: &str| {
        assert!(text.contains("2 of 5 members") && text.contains("3 are needed"), "{text}");
        assert!(names(&members, &[0, 3, 4]).iter().all(|name| text.contains(name)), "{text}");
        assert!(names(&members, &[1, 2]).iter().all(|name| !text.contains(name)), "{text}");
    };
    told(&format!("{down:?}"));
    let refused = asked(&store, unguarded(2, 1)).await;
    assert!(matches!(refused, Err(StoreError::Unreachable { .. })), "{refused:?}");
    told(&refused.expect_err("no quorum").to_string());
    for member in [0, 3, 4] {
        members.servers[member].start_again();
    }
    until_complete(&store).await;
    assert!(store.notes().is_empty(), "{:?}", store.notes());
    let renewed = store.renew(&role(), renewal(1, 1, token)).await;
    assert!(matches!(renewed, Ok(Stamped { reply: RenewReply::Renewed { .. }, .. })), "{renewed:?}");
}

#[tokio::test]
async fn one_member_that_refuses_is_noted_and_a_majority_that_refuses_is_named_with_the_remedy() {
    let mut servers = Members::start(2);
    servers.servers.extend((0..3).map(|_| RedisServer::start_with(&["--requirepass", "right-one"])));
    let password = |text: &str| Some(Secret::Value(SecretString::from(text)));
    let with = |passwords: [&str; 3]| {
        let mut configs = configs(&servers.urls());
        for (config, given) in configs[2..].iter_mut().zip(passwords) {
            config.password = password(given);
        }
        configs
    };
    let store = quorum_of(&with(["right-one", "right-one", "wrong-one"]));
    until_quorum(&store).await;
    wait_until(BOUND, "the refusal is noted", || {
        let notes = store.notes().join("");
        notes.contains(&servers.name(4)) && notes.contains("wrong user or password") && !notes.contains("-one")
    })
    .await;
    won(&store, 1, 1).await;
    let store = quorum_of(&with(["wrong-one", "wrong-one", "wrong-one"]));
    let mut health = store.health();
    let down = health.wait_for(|health| format!("{health:?}").contains("passwordFile"));
    let down = format!("{:?}", within("the refusals are told", down).await.expect("the store lives").clone());
    assert!(down.contains("2 of 5 members answer and 3 are needed") && !down.contains("-one"), "{down}");
    let refused = asked(&store, unguarded(2, 1)).await.expect_err("three refuse");
    assert!(matches!(&refused, StoreError::Refused { reason } if reason.contains("passwordFile")), "{refused:?}");
}

#[tokio::test]
async fn a_member_that_can_be_reached_and_renews_nothing_is_missing_until_it_does() {
    let (servers, store) = five().await;
    let token = won(&store, 1, 1).await;
    let renews = || async {
        let renewed = store.renew(&role(), renewal(1, 1, token)).await.map(|stamped| stamped.reply);
        assert!(matches!(renewed, Ok(RenewReply::Renewed { .. })), "{renewed:?}");
    };
    renews().await;

    type Commands = &'static [&'static [&'static str]];
    let ills: [(&str, Commands, Commands); 3] = [
        ("OOM", &[&["CONFIG", "SET", "maxmemory", "1"]], &[&["CONFIG", "SET", "maxmemory", "0"]]),
        ("NOPERM", &[&["ACL", "SETUSER", "default", "-hset"]], &[&["ACL", "SETUSER", "default", "+hset"]]),
        (
            "redis",
            &[&["HSET", "baton:{scheduler}:record", "v", "1"]],
            &[&["HSET", "baton:{scheduler}:record", "v", "q1"]],
        ),
    ];
    for (ill, begin, end) in ills {
        let sick = &servers.servers[3];
        begin.iter().for_each(|command| drop(sick.command(command)));
        for (what, is_there) in [("is missing", true), ("is back", false)] {
            if !is_there {
                end.iter().for_each(|command| drop(sick.command(command)));
            }
            let mut members = store.members();
            let noticed = async {
                // Each renewal tells anew.
                while members.borrow_and_update()[3] == is_there {
                    renews().await;
                    let _ = tokio::time::timeout(ms(50), members.changed()).await;
                }
            };
            within(&format!("{ill} {what}"), noticed).await;
            let notes = store.notes().join("");
            let is_told = notes.contains("1 of 5 members is missing") && notes.contains(&servers.name(3));
            assert_eq!(is_told && notes.contains(ill), is_there, "{ill}: {notes}");
            assert_eq!(*store.health().borrow(), StoreHealth::Up, "{ill}");
        }
    }
}

#[tokio::test]
async fn missing_rights_on_every_member_are_a_refusal_that_says_which() {
    let (members, store) = five().await;
    for server in &members.servers {
        server.command(&["ACL", "SETUSER", "default", "-info"]);
    }
    let refused = asked(&store, ask(1, 1)).await.expect_err("INFO is forbidden");
    let StoreError::Refused { reason } = &refused else { panic!("{refused:?}") };
    assert!(reason.contains("NOPERM") && reason.contains("docs/redis.md"), "{reason}");
    assert!((0..5).all(|member| reason.contains(&members.name(member))), "{reason}");
}

#[tokio::test]
async fn half_the_urls_wrong_are_named_with_what_is_wrong_with_them() {
    let members = Members::start(2);
    let replica = RedisServer::start_with(&["--replicaof", "127.0.0.1", &members.servers[0].port().to_string()]);
    let host = Ipv4Addr::LOCALHOST;
    let sentinel = Sentinel::start_at(&Here::here(), host, members.servers[0].port(), 1, Duration::from_secs(1));
    let sentinel = format!("redis://127.0.0.1:{}", sentinel.port());
    let urls = [members.urls(), vec![replica.url(), "redis://127.0.0.1:1".into(), sentinel]];
    let store = quorum_of(&configs(&urls.concat()));
    let mut health = store.health();
    // Each member says what is wrong with it in its own time.
    let words =
        ["3 are needed", "2 of 5 members", "127.0.0.1:1: Connection refused", "it is a Sentinel", "read-only replica"];
    for word in words {
        let told = format!("it is told: {word}");
        within(&told, health.wait_for(|health| format!("{health:?}").contains(word))).await.expect("the store lives");
    }
}

#[tokio::test]
async fn a_member_that_is_a_node_of_a_cluster_is_noted() {
    let members = Members::start(2);
    let node = RedisServer::start_with(&["--cluster-enabled", "yes"]);
    let store = quorum_of(&configs(&[members.urls(), vec![node.url()]].concat()));
    until_quorum(&store).await;
    let noted = || store.notes().iter().any(|note| note.contains("is a node of a Redis Cluster"));
    wait_until(BOUND, "it is noted", noted).await;
}

#[tokio::test]
async fn two_members_that_lead_to_one_server_are_one_vote() {
    let servers = Members::start(2);
    let mut urls = servers.urls();
    // The same server under another name, which no look at the URLs can find out.
    urls.push(urls[1].replace("127.0.0.1", "localhost"));
    let store = quorum_of(&configs(&urls));
    until_quorum(&store).await;
    let names_it = |text: &str| text.contains("localhost") && text.contains("is the same server as 127.0.0.1");
    wait_until(BOUND, "it is noted", || names_it(&store.notes().join(""))).await;
    won(&store, 1, 1).await;
    // With the first gone, two of three would still be a majority if the one server counted twice.
    servers.servers[0].pause();
    let refused = asked(&store, unguarded(1, 2)).await;
    assert!(refused.as_ref().is_err_and(|error| names_it(&error.to_string())), "{refused:?}");
    servers.servers[0].resume();
}

#[tokio::test]
async fn neither_store_reads_or_overwrites_the_keys_of_the_other() {
    let (members, store) = five().await;
    let single = connected(&members.urls()[0]).await;
    let token = won(&store, 1, 1).await;
    let refused = single.campaign(&role(), unguarded(2, 1)).await.expect_err("a quorum's key");
    assert!(refused.to_string().contains("a replica whose store is quorum, and this one's is redis"), "{refused}");
    assert!(single.purge(&role()).await.is_err());
    assert_eq!(release_of(&store, giving_back(1, 1, token)).await, Ok(ReleaseReply::Released));
    assert_eq!(store.purge(&role()).await, Ok(Purge::Purged));
    let (token, _) = win(&single, unguarded(2, 1)).await;
    // One of five, but whoever leads by it may not have heard of the others.
    let objection = asked(&store, unguarded(3, 1)).await;
    let Ok(CampaignReply::Held { holder, token: theirs, .. }) = objection else { panic!("{objection:?}") };
    assert_eq!((holder.session, theirs), (candidate(2, 1).session, token));
    // Once that lease is gone the other four are enough.
    assert_eq!(release(&single, giving_back(2, 1, token)).await, ReleaseReply::Released);
    won(&store, 3, 2).await;
    let purged = store.purge(&role()).await;
    assert_eq!(purged, Ok(Purge::InUse), "{purged:?}");
    let noted = members.servers[0].command(&["HGET", "baton:{scheduler}:record", "v"]);
    assert_eq!(noted, Reply::Text("1".to_owned()), "left as it is");
}

#[tokio::test]
async fn a_purge_asks_every_member_and_says_which_was_away() {
    let (mut members, store) = five().await;
    assert_eq!(store.purge(&role()).await, Ok(Purge::Absent));
    let token = won(&store, 1, 1).await;
    assert_eq!(store.purge(&role()).await, Ok(Purge::InUse));
    assert_eq!(release_of(&store, giving_back(1, 1, token)).await, Ok(ReleaseReply::Released));
    members.servers[2].kill();
    let refused = store.purge(&role()).await.expect_err("one is away").to_string();
    assert!(refused.contains("1 of 5 members") && refused.contains(&members.name(2)), "{refused}");
    members.servers[2].start_again();
    until_complete(&store).await;
    assert_eq!(store.purge(&role()).await, Ok(Purge::Absent), "the restarted one had forgotten it");
    for server in &members.servers {
        assert_eq!(server.command(&["DBSIZE"]), Reply::Number(0));
    }
}

#[tokio::test]
async fn what_a_majority_publishes_is_heard_once_and_a_dead_minority_changes_nothing() {
    let (mut members, store) = five().await;
    let mut news = store.subscribe(&role(), None);
    assert_eq!(within("the subscription", news.recv()).await, Some(baton::store::News::Gap));
    // That was a majority, of which two are about to go.
    let listens = |server: &RedisServer| server.command(&["PUBSUB", "CHANNELS"]) != Reply::List(Vec::new());
    wait_until(BOUND, "all are listened to", || members.servers.iter().all(listens)).await;
    members.servers[0].kill();
    members.servers[1].kill();
    let token = won(&store, 1, 1).await;
    let mut count = 0;
    for _ in 0..3 {
        let request = RenewRequest { count, ..renewal(1, 1, token) };
        let renewed = store.renew(&role(), request).await.map(|stamped| stamped.reply);
        let Ok(RenewReply::Renewed { count: next, .. }) = renewed else { panic!("{renewed:?}") };
        assert!(next > count);
        count = next;
    }
    let mut heard = Vec::new();
    wait_until_async(BOUND, "three announcements", async || {
        if let Ok(baton::store::News::Said(said)) = news.try_recv() {
            assert_eq!(said.token, token);
            heard.push((said.kind, said.count));
        }
        heard.last().is_some_and(|(_, last)| *last == count)
    })
    .await;
    let grants = heard.iter().filter(|(kind, _)| *kind == baton::protocol::AnnouncementKind::Grant).count();
    let mut counts: Vec<u64> = heard.iter().map(|(_, count)| *count).collect();
    counts.dedup();
    assert!(grants == 1 && counts.len() == heard.len(), "each once: {heard:?}");
}

#[tokio::test]
async fn the_documented_rights_of_a_member_are_enough() {
    // A member has neither replicas nor locks: the rights for those come last.
    let (rights, _) = LEAST_RIGHTS.split_once(" +wait").expect("they are there");
    let docs = include_str!("../../docs/quorum.md").split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(docs.contains(&rights.split_whitespace().collect::<Vec<_>>().join(" ")), "docs/quorum.md");
    let members = Members::start(3);
    let as_sidecar = |server: &RedisServer| {
        rights_for(server, "sidecar", rights);
        RedisConfig { command_timeout: PATIENCE, ..as_user(server, "sidecar") }
    };
    let store = quorum_of(&members.servers.iter().map(as_sidecar).collect::<Vec<_>>());
    until_complete(&store).await;
    let mut news = store.subscribe(&role(), None);
    assert_eq!(within("the subscription", news.recv()).await, Some(baton::store::News::Gap));
    let token = won(&store, 1, 1).await;
    let renewed = store.renew(&role(), renewal(1, 1, token)).await;
    assert!(matches!(renewed, Ok(Stamped { reply: RenewReply::Renewed { .. }, .. })), "{renewed:?}");
    let held = asked(&store, ask(2, 1)).await;
    assert!(matches!(held, Ok(CampaignReply::Held { .. })), "{held:?}");
    assert_eq!(release_of(&store, giving_back(1, 1, token)).await, Ok(ReleaseReply::Released));
    assert_eq!(store.purge(&role()).await, Ok(Purge::Purged));
    for server in &members.servers {
        assert_eq!(server.command(&["ACL", "LOG"]), Reply::List(Vec::new()), "nothing was denied on the way");
    }
}
