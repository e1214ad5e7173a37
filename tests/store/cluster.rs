//! Three masters with a replica each: the same store, another URL.

use std::time::Duration;

use baton::store::News;
use baton::store::redis::Severity;
use testkit::cluster::{Cluster, add_slots};
use testkit::redis::RedisServer;
use testkit::resp::Reply;
use testkit::{holds_for, wait_until, wait_until_async};

use super::audit::{report, severity};
use super::live::{Live, acknowledged, long_timing, short_timing};
use super::refusals::{LEAST_RIGHTS, rights_for};
use super::*;

const PATIENCE: Duration = Duration::from_secs(30);
const LEASE_KEY: &str = "baton:{scheduler}:lease";
const RECORD_KEY: &str = "baton:{scheduler}:record";

/// Waits until the incumbent has renewed at this node.
async fn renewed_at(node: &RedisServer, token: Token, live: &Live) {
    let count = || match node.command(&["HGET", RECORD_KEY, "count"]) {
        Reply::Text(count) => count,
        other => format!("{other:?}"),
    };
    let before = count();
    wait_until(PATIENCE, &format!("the incumbent has renewed there ({})", live.reasons()), || count() != before).await;
    assert_eq!(live.token(), Some(token), "{:?}", live.seen());
}

#[tokio::test]
async fn a_cluster_serves_roles_of_every_node_and_messages_cross_it() {
    let cluster = Cluster::start(&[]).await;
    let store = connected(&cluster.url()).await;
    let (mut owners, mut roles) = (std::collections::BTreeSet::new(), Vec::new());
    for name in ["a", "b", "c", "d", "e", "f", "g", "h"] {
        owners.insert(cluster.owners(cluster.slot_of(&format!("baton:{{{name}}}:lease")))[0]);
        roles.push(RoleName::new(name).expect("a label"));
    }
    assert_eq!(owners.len(), 3, "the names are spread over all masters");
    for role in &roles {
        let mut news = store.subscribe(role, None);
        assert_eq!(within("a gap", news.recv()).await, Some(baton::store::News::Gap));
        let granted = store.campaign(role, unguarded(1, 1)).await.expect("an answer").reply;
        assert!(matches!(granted, CampaignReply::Granted { .. }), "{granted:?}");
        assert!(matches!(within("news", news.recv()).await, Some(baton::store::News::Said(_))));
        let held = store.campaign(role, ask(2, 1)).await.expect("an answer").reply;
        assert!(matches!(held, CampaignReply::Held { .. }), "{held:?}");
    }
    // One acknowledgement is asked for where the write was, and there is one replica; two there are not.
    let one = store_with(&acknowledged(&cluster.url()));
    until_up(&one).await;
    assert!(matches!(campaign(&one, unguarded(1, 1)).await, CampaignReply::Granted { .. }));
    let two = Replication { acks: 2, mode: AckMode::Wait, timeout: ms(100) };
    let two = store_with(&RedisConfig { replication: two, ..config(&cluster.url()) });
    until_up(&two).await;
    let refused = two.campaign(&role(), unguarded(1, 1)).await;
    assert!(
        matches!(&refused, Err(StoreError::Refused { reason }) if reason.contains("of 2 replicas")
            && reason.contains("it has 1 replicas; add replicas, or lower replication.acks")),
        "{refused:?}"
    );
}

#[tokio::test]
async fn those_who_listen_are_spread_over_the_nodes_that_all_of_them_name() {
    let cluster = Cluster::start(&[]).await;
    let mut stores = Vec::new();
    for seed in 0..12 {
        let store = RedisStore::connect(&config(&cluster.url()), LEASE, seed).expect("the configuration is good");
        until_up(&store).await;
        let mut news = store.subscribe(&role(), None);
        assert_eq!(within("a gap", news.recv()).await, Some(News::Gap));
        stores.push((store, news));
    }
    let listening = |node: &RedisServer| node.command(&["CLIENT", "LIST", "TYPE", "pubsub"]).text().lines().count();
    assert_eq!(cluster.nodes.iter().map(listening).collect::<Vec<_>>(), [2; 6]);
}

#[tokio::test]
async fn the_audit_of_a_cluster_looks_at_a_master_with_its_replicas() {
    let cluster = Cluster::start(&[]).await;
    let report = report(&acknowledged(&cluster.url())).await;
    for (words, expected) in [
        ("it is part of a cluster", Severity::Note),
        ("it is a master", Severity::Ok),
        ("1 replicas are connected, 1 must acknowledge", Severity::Ok),
        ("may do all", Severity::Ok),
    ] {
        assert_eq!(severity(&report, words), expected, "{words}");
    }
}

#[tokio::test]
async fn the_incumbent_keeps_its_token_through_failovers_of_its_node() {
    let mut cluster = Cluster::start(&[]).await;
    let (live, token) = Live::led_on(&acknowledged(&cluster.url()), long_timing(), 1).await;
    let slot = cluster.slot_of(LEASE_KEY);

    wait_until(PATIENCE, "the replica is fit to take over", || cluster.owners(slot).len() == 2).await;
    let [first, replica] = cluster.owners(slot)[..] else { panic!("a master and a replica") };
    assert_eq!(cluster.nodes[replica].command(&["CLUSTER", "FAILOVER"]), Reply::Text("OK".to_owned()));
    let second = cluster.moved_from(first, slot).await;
    renewed_at(&cluster.nodes[second], token, &live).await;
    cluster.settled().await;

    cluster.nodes[second].kill();
    let third = cluster.moved_from(second, slot).await;
    assert_eq!(third, first);
    // Alone it cannot acknowledge anything; the replica is back before the lease is over.
    cluster.nodes[second].start_again();
    renewed_at(&cluster.nodes[third], token, &live).await;

    let seen = live.seen();
    assert_eq!(seen.tokens, [token], "one term through all of it: {seen:#?}");
    live.assert_sound();
}

#[tokio::test]
async fn a_master_that_is_paused_until_its_replica_took_over_makes_no_second_leader() {
    let cluster = Cluster::start(&[]).await;
    let (live, token) = Live::led_on(&acknowledged(&cluster.url()), long_timing(), 1).await;
    let slot = cluster.slot_of(LEASE_KEY);
    for round in 0..2 {
        wait_until(PATIENCE, "the replica is fit to take over", || cluster.owners(slot).len() == 2).await;
        let paused = cluster.owners(slot)[0];
        // Longer than cluster-node-timeout: it ends when the others have another master.
        cluster.nodes[paused].pause();
        let next = cluster.moved_from(paused, slot).await;
        // It wakes as a master that knows of nothing.
        cluster.nodes[paused].resume();
        renewed_at(&cluster.nodes[next], token, &live).await;
        cluster.settled().await;
        let seen = live.seen();
        assert_eq!(seen.tokens, [token], "one term through round {round}: {seen:#?}");
        live.assert_sound();
    }
}

#[tokio::test]
async fn a_leader_that_is_lost_while_its_master_is_paused_is_followed_under_a_greater_token() {
    let cluster = Cluster::start(&[]).await;
    // The lease ends in the pause, so the role is led anew after it.
    let (live, token) = Live::led_on(&acknowledged(&cluster.url()), short_timing(), 1).await;
    let slot = cluster.slot_of(LEASE_KEY);
    wait_until(PATIENCE, "the replica is fit to take over", || cluster.owners(slot).len() == 2).await;
    let paused = cluster.owners(slot)[0];
    cluster.nodes[paused].pause();
    cluster.moved_from(paused, slot).await;
    cluster.nodes[paused].resume();
    cluster.settled().await;
    wait_until(PATIENCE, "somebody leads again", || live.token().is_some_and(|now| now > token)).await;
    let seen = live.seen();
    assert!(seen.tokens.is_sorted(), "tokens rise: {seen:#?}");
    live.assert_sound();
}

#[tokio::test]
async fn a_slot_moves_under_a_live_role_which_keeps_its_token() {
    let cluster = Cluster::start(&[]).await;
    let (live, token) = Live::led_on(&acknowledged(&cluster.url()), long_timing(), 1).await;
    let slot = cluster.slot_of(LEASE_KEY);
    let from = cluster.owners(slot)[0];
    let to = (from + 1) % 3;

    // Announced: the keys are where they were.
    cluster.begin_migration(slot, from, to);
    renewed_at(&cluster.nodes[from], token, &live).await;
    // On its way: the keys are there, the slot is not (ASK).
    cluster.migrate(&[LEASE_KEY, RECORD_KEY], from, to);
    let stored = || {
        let mut asking = cluster.nodes[to].connect().expect("it answers");
        asking.command(&["ASKING"]).expect("an answer");
        asking.command(&["HGET", RECORD_KEY, "count"]).expect("an answer")
    };
    let before = stored();
    wait_until(PATIENCE, &format!("renewed where the keys are ({})", live.reasons()), || stored() != before).await;
    assert_eq!(live.token(), Some(token));
    // Done (MOVED).
    cluster.end_migration(slot, to);
    renewed_at(&cluster.nodes[to], token, &live).await;

    let seen = live.seen();
    assert_eq!(seen.tokens, [token], "one term through all of it: {seen:#?}");
    live.assert_sound();
}

#[tokio::test]
async fn keys_that_are_apart_are_an_error_until_they_are_together_again() {
    let cluster = Cluster::start(&[]).await;
    let store = connected(&cluster.url()).await;
    let (token, _) = win(&store, unguarded(1, 1)).await;
    let slot = cluster.slot_of(LEASE_KEY);
    let from = cluster.owners(slot)[0];
    let to = (from + 1) % 3;
    cluster.begin_migration(slot, from, to);
    cluster.migrate(&[RECORD_KEY], from, to);
    for refused in [
        store.renew(&role(), renewal(1, 1, token)).await.map(drop),
        store.campaign(&role(), unguarded(2, 1)).await.map(drop),
    ] {
        assert!(matches!(&refused, Err(StoreError::Refused { reason }) if reason.contains("moving")), "{refused:?}");
    }
    cluster.migrate(&[LEASE_KEY], from, to);
    assert!(matches!(renew(&store, renewal(1, 1, token)).await, RenewReply::Renewed { reasserted: false, .. }));
    cluster.end_migration(slot, to);
    wait_until_async(PATIENCE, "renewed at the new node", async || {
        matches!(store.renew(&role(), renewal(1, 1, token)).await.map(|r| r.reply), Ok(RenewReply::Renewed { .. }))
    })
    .await;
}

#[tokio::test]
async fn the_documented_rights_are_enough_for_a_cluster() {
    let node = RedisServer::start_with(&["--cluster-enabled", "yes", "--cluster-announce-ip", "127.0.0.1"]);
    add_slots(&node, 0..=16383);
    wait_until(BOUND, "the cluster is ok", || node.command(&["CLUSTER", "INFO"]).text().contains("cluster_state:ok"))
        .await;
    rights_for(&node, "sidecar", &format!("{LEAST_RIGHTS} +cluster|slots +asking"));
    let user = RedisConfig {
        username: Some(baton::config::Secret::Value(SecretString::from("sidecar"))),
        password: Some(baton::config::Secret::Value(SecretString::from("secret-password"))),
        ..config(&format!("redis-cluster://127.0.0.1:{}", node.port()))
    };
    let store = store_with(&user);
    until_up(&store).await;
    let mut news = store.subscribe(&role(), None);
    assert_eq!(within("a gap", news.recv()).await, Some(baton::store::News::Gap));
    let (token, _) = win(&store, unguarded(1, 1)).await;
    assert!(matches!(renew(&store, renewal(1, 1, token)).await, RenewReply::Renewed { .. }));
    assert_eq!(node.command(&["ACL", "LOG"]), Reply::List(Vec::new()), "nothing was denied on the way");
}

#[tokio::test]
async fn a_subscription_at_a_node_that_its_cluster_has_forgotten_is_made_elsewhere() {
    let cluster = Cluster::start(&[]).await;
    // The first that is named so is the one that is subscribed to.
    let (ear, others) = cluster.nodes.split_last().expect("there are six");
    let url = cluster.url().replace('?', &format!("?node={}:{}&", ear.host(), ear.port()));
    let (leads, waits) = (connected(&url).await, connected(&url).await);
    let mut news = [leads.subscribe(&role(), None), waits.subscribe(&role(), None)];
    for news in &mut news {
        assert_eq!(within("a gap", news.recv()).await, Some(News::Gap));
    }
    let heard_at = |node: &RedisServer| node.command(&["PUBSUB", "NUMSUB", "baton:{scheduler}:news"]);
    let where_heard: Vec<_> = cluster.nodes.iter().map(heard_at).collect();
    assert!(matches!(&where_heard[5], Reply::List(found) if found[1] == Reply::Number(2)), "{where_heard:?}");
    let (token, mut count) = win(&leads, unguarded(1, 1)).await;
    let id = ear.command(&["CLUSTER", "MYID"]).text();
    for node in others {
        assert_eq!(node.command(&["CLUSTER", "FORGET", &id]), Reply::Text("OK".to_owned()));
    }
    // Each finds out by what it asks for anyway, and neither by the other.
    let short = ms(500);
    for (news, name) in news.iter_mut().zip(["who leads", "who waits"]) {
        wait_until_async(PATIENCE, &format!("{name} notices that it is deaf"), async || {
            let renewal = RenewRequest { lease_duration: short, count, ..renewal(1, 1, token) };
            let RenewReply::Renewed { count: renewed, .. } = renew(&leads, renewal).await else { panic!("lost") };
            count = renewed;
            let look = CampaignRequest { lease_duration: short, ..ask(2, 1) };
            assert!(matches!(campaign(&waits, look).await, CampaignReply::Held { .. }));
            std::iter::from_fn(|| news.try_recv().ok()).any(|news| news == News::Gap)
        })
        .await;
        renew(&leads, RenewRequest { count, ..renewal(1, 1, token) }).await;
        assert!(matches!(within("the heartbeat", news.recv()).await, Some(News::Said(_))), "{name} hears again");
    }
}

#[tokio::test]
async fn the_connection_of_a_slot_is_closed_when_its_last_role_has_gone() {
    let cluster = Cluster::start(&[]).await;
    let lease = ms(500);
    let store = RedisStore::connect(&config(&cluster.url()), lease, 7).expect("a good configuration");
    until_up(&store).await;
    let names = ["a", "b", "c", "d", "e", "f"].map(|name| RoleName::new(name).expect("a label"));
    let connections = || {
        let clients = |node: &RedisServer| node.command(&["CLIENT", "LIST", "TYPE", "normal"]).text();
        // But for the one that asks.
        cluster.nodes.iter().map(|node| clients(node).lines().count() - 1).sum::<usize>()
    };
    let ask_all = async |names: &[RoleName]| {
        for name in names {
            // With so short a lease a busy machine is soon taken for a dead one, and the connection is made anew.
            let _ = store.campaign(name, unguarded(1, 1)).await;
        }
    };
    let mut news: Vec<_> = names.iter().map(|name| store.subscribe(name, None)).collect();
    for news in &mut news {
        assert_eq!(within("a gap", news.recv()).await, Some(News::Gap));
    }
    // To any node, for news of the whole. That for the subscriptions is of another type.
    let none = 1;
    wait_until_async(BOUND, "nothing is asked yet", async || connections() == none).await;
    let until = async |asked: &[RoleName], count: usize| {
        wait_until_async(BOUND, &format!("there are {count} connections"), async || {
            ask_all(asked).await;
            connections() == none + count
        })
        .await;
    };
    until(&names, names.len()).await;
    // Two roles go. Of those that stay one leads and the others wait, and ask nothing.
    news.truncate(4);
    until(&names[..1], 4).await;
    // Closed at the second sweep, if at all, and there is one in four leases.
    holds_for(lease * 12, "those that wait keep theirs", async || {
        ask_all(&names[..1]).await;
        connections() >= none + 3
    })
    .await;
    // What is asked for again is opened again.
    until(&names, names.len()).await;
}
