//! R6: a grant or a renewal counts only with enough acknowledgements, asked for on the connection that wrote.

use baton::protocol::GuardCause;
use testkit::redis::RedisServer;
use testkit::resp::Reply;
use testkit::{wait_until, wait_until_async};

use super::rules::{free_after_the_start, win_after_the_start};
use super::*;

/// Waits for one replica, for as long as this.
pub fn with_one_ack(url: &str, mode: AckMode, timeout: Duration) -> RedisConfig {
    RedisConfig { replication: Replication { acks: 1, mode, timeout }, ..config(url) }
}

/// More than a replica on a busy machine needs.
pub const PATIENT: Duration = Duration::from_secs(5);

/// A store that waits for one replica, patiently.
pub async fn acknowledging(url: &str) -> RedisStore {
    let store = store_with(&with_one_ack(url, AckMode::Wait, PATIENT));
    until_up(&store).await;
    store
}

pub fn online(server: &RedisServer) -> usize {
    server.command(&["INFO", "replication"]).text().matches("state=online").count()
}

pub async fn pair() -> (RedisServer, RedisServer) {
    let master = RedisServer::start();
    let replica = RedisServer::start_with(&["--replicaof", "127.0.0.1", &master.port().to_string()]);
    wait_until(BOUND, "the replica is connected", || online(&master) == 1).await;
    (master, replica)
}

#[tokio::test]
async fn a_grant_and_a_renewal_count_once_the_replica_has_them() {
    let (master, replica) = pair().await;
    let store = acknowledging(&master.url()).await;
    let (token, _) = win(&store, unguarded(1, 1)).await;
    assert_eq!(replica.command(&["HGET", "baton:{scheduler}:lease", "token"]).text(), token.to_string());
    assert!(matches!(renew(&store, renewal(1, 1, token)).await, RenewReply::Renewed { .. }));
}

#[tokio::test]
async fn without_the_replica_nothing_counts_although_the_lease_may_be_there() {
    let (master, replica) = pair().await;
    let store = store_with(&with_one_ack(&master.url(), AckMode::Wait, ms(100)));
    until_up(&store).await;
    replica.pause();
    let refused = store.campaign(&role(), unguarded(1, 1)).await;
    assert!(
        matches!(&refused, Err(StoreError::Refused { reason }) if reason.contains("0 of 1 replicas")),
        "never a success: {refused:?}"
    );
    let held = master.command(&["HGET", "baton:{scheduler}:lease", "token"]).text();
    replica.resume();
    let store = acknowledging(&master.url()).await;
    let (token, _) = win(&store, unguarded(1, 1)).await;
    assert_eq!(token.to_string(), held, "the same attempt finds the lease it did not know of");
}

#[tokio::test]
async fn a_refusal_and_a_lost_term_need_no_replica() {
    let (master, replica) = pair().await;
    let plain = connected(&master.url()).await;
    let (token, _) = win(&plain, unguarded(1, 1)).await;
    let store = acknowledging(&master.url()).await;
    replica.pause();
    assert!(matches!(campaign(&store, ask(2, 1)).await, CampaignReply::Held { .. }));
    assert!(matches!(renew(&store, renewal(2, 1, token)).await, RenewReply::Lost { .. }));
    replica.resume();
}

#[tokio::test]
async fn the_acknowledgement_is_asked_for_on_the_connection_that_wrote() {
    let (master, _replica) = pair().await;
    let store = acknowledging(&master.url()).await;
    let (token, _) = win(&store, unguarded(1, 1)).await;
    let mut monitor = master.connect().expect("it answers");
    monitor.command(&["MONITOR"]).expect("it monitors");
    renew(&store, renewal(1, 1, token)).await;
    // `+1763680000.123456 [0 127.0.0.1:40001] "EVAL" …`
    let mut sender_of = |command: &str| loop {
        let line = monitor.read().expect("another command").text();
        if line.contains(&format!("] \"{command}")) {
            return line.split(['[', ']']).nth(1).map(str::to_owned).expect("an address");
        }
    };
    let (wrote, asked) = (sender_of("EVAL"), sender_of("WAIT"));
    assert!(wrote == asked && wrote.contains("127.0.0.1"), "{wrote} wrote, {asked} asked");
}

#[tokio::test]
async fn what_somebody_else_wrote_while_a_grant_is_acknowledged_is_told_as_that() {
    let (master, replica) = pair().await;
    let store = acknowledging(&master.url()).await;
    free_after_the_start(&store, 1, ms(300)).await;
    replica.pause();
    let overwritten = async {
        let is_written = async || master.command(&["EXISTS", "baton:{scheduler}:lease"]) == Reply::Number(1);
        wait_until_async(BOUND, "the grant is written", is_written).await;
        master.command(&["HSET", "baton:{scheduler}:record", "count", "x"]);
        replica.resume();
    };
    let role = role();
    let (answer, ()) = tokio::join!(store.campaign(&role, ask(2, 1)), overwritten);
    is_garbage(answer, "baton:{scheduler}:record", "field count");
}

/// Whether the tests run with a server that knows WAITAOF; Debian's redis-server does not.
pub fn knows_waitaof(server: &RedisServer) -> bool {
    match server.command(&["COMMAND", "INFO", "WAITAOF"]) {
        Reply::List(found) => matches!(found.first(), Some(Reply::List(_))),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn waitaof_on_a_redis_without_it_is_named() {
    let (master, _replica) = pair().await;
    if knows_waitaof(&master) {
        println!("notice: not tested, since this server knows WAITAOF");
        return;
    }
    let store = store_with(&with_one_ack(&master.url(), AckMode::WaitAof, ms(100)));
    until_up(&store).await;
    let refused = store.campaign(&role(), unguarded(1, 1)).await;
    assert!(matches!(&refused, Err(StoreError::Refused { reason }) if reason.contains("7.2")), "{refused:?}");
    assert_eq!(master.command(&["EXISTS", "baton:{scheduler}:lease"]), Reply::Number(1));
}

#[tokio::test]
async fn waitaof_counts_what_is_on_the_replicas_disks() {
    let (master, replica) = pair().await;
    if !knows_waitaof(&master) {
        println!(
            "notice: not tested, since this server has no WAITAOF; \
             BATON_REDIS_SERVER=\"$(.ci/server valkey-8.0)\" names one"
        );
        return;
    }
    let store = store_with(&with_one_ack(&master.url(), AckMode::WaitAof, ms(300)));
    until_up(&store).await;
    let refused = store.campaign(&role(), unguarded(1, 1)).await;
    assert!(
        matches!(&refused, Err(StoreError::Refused { reason }) if reason.contains("0 of 1 replicas")
            && reason.contains("check that they have appendonly yes")),
        "the replica has no append-only file: {refused:?}"
    );
    assert_eq!(replica.command(&["CONFIG", "SET", "appendonly", "yes"]), Reply::Text("OK".to_owned()));
    let store = store_with(&with_one_ack(&master.url(), AckMode::WaitAof, PATIENT));
    until_up(&store).await;
    let held = master.command(&["HGET", "baton:{scheduler}:lease", "token"]).text();
    let (token, _) = win(&store, unguarded(1, 1)).await;
    assert_eq!(token.to_string(), held, "the same attempt finds the lease it did not know of");
    assert!(matches!(renew(&store, renewal(1, 1, token)).await, RenewReply::Renewed { .. }));
    replica.pause();
    let store = store_with(&with_one_ack(&master.url(), AckMode::WaitAof, ms(100)));
    until_up(&store).await;
    let refused = store.renew(&role(), renewal(1, 1, token)).await;
    replica.resume();
    assert!(
        matches!(&refused, Err(StoreError::Refused { reason }) if reason.contains("0 of 1 replicas")),
        "{refused:?}"
    );
}

#[tokio::test]
async fn more_acknowledgements_than_replicas_are_told_at_the_connect_and_in_every_reason() {
    let (master, _replica) = pair().await;
    let two = Replication { acks: 2, mode: AckMode::Wait, timeout: ms(100) };
    let store = store_with(&RedisConfig { replication: two, ..config(&master.url()) });
    until_up(&store).await;
    let notes = store.notes();
    assert!(notes.len() == 1 && notes[0].contains("asks for 2 replicas and this Redis has 1"), "{notes:?}");
    assert!(notes[0].contains("lower replication.acks"), "{notes:?}");
    let refused = store.campaign(&role(), unguarded(1, 1)).await;
    assert!(
        matches!(&refused, Err(StoreError::Refused { reason }) if reason.contains("of 2 replicas")
            && reason.contains("it has 1 replicas; add replicas, or lower replication.acks")),
        "{refused:?}"
    );
    // Nothing of that is said where it is enough.
    let store = acknowledging(&master.url()).await;
    assert_eq!(store.notes(), Vec::<String>::new());
}

/// A master has one of its two replicas with it, the other was promoted elsewhere; then the first changes sides. What
/// it acknowledged for the old master a moment ago stands for one lease yet.
#[tokio::test]
async fn a_replica_that_changes_sides_opens_the_role_to_its_new_master_only_after_a_whole_lease() {
    let lease = ms(1_000);
    let (master, heir) = pair().await;
    let waverer = RedisServer::start_with(&["--replicaof", "127.0.0.1", &master.port().to_string()]);
    let online = |server: &RedisServer| server.command(&["INFO", "replication"]).text().matches("state=online").count();
    wait_until(BOUND, "both replicas are connected", || online(&master) == 2).await;
    let old = acknowledging(&master.url()).await;
    let (token, count) = win(&old, CampaignRequest { lease_duration: lease, ..unguarded(1, 1) }).await;
    let renews = || renew(&old, RenewRequest { lease_duration: lease, ..renewal(1, 1, token) });
    assert!(matches!(renews().await, RenewReply::Renewed { .. }));

    // Either replica may have acknowledged it; the one that did not knows nothing of the term yet.
    let of_the_heir = || heir.command(&["HGET", "baton:{scheduler}:record", "token"]);
    wait_until(BOUND, "the heir has the term", || of_the_heir() == Reply::Text(token.to_string())).await;
    assert_eq!(heir.command(&["REPLICAOF", "NO", "ONE"]), Reply::Text("OK".to_owned()));
    wait_until(BOUND, "one replica is left", || online(&master) == 1).await;
    let new = store_with(&with_one_ack(&heir.url(), AckMode::Wait, ms(300)));
    until_up(&new).await;
    // It has always known the record as it is, for long enough.
    let mut known = version_of(1, (token, count));
    let mut asks = async || {
        let knowledge = knows_for(known, lease);
        let request = CampaignRequest { lease_duration: lease, floor: token, knowledge, ..ask(2, 1) };
        let reply = new.campaign(&role(), request).await.map(|stamped| stamped.reply);
        if let Ok(CampaignReply::Guarded { version, .. } | CampaignReply::LookAgain { version, .. }) = reply {
            known = version;
        }
        reply
    };
    let promoted_at = std::time::Instant::now();
    while promoted_at.elapsed() < lease * 5 / 2 {
        let reply = asks().await;
        assert!(!matches!(reply, Ok(CampaignReply::Granted { .. })), "nobody acknowledged it: {reply:?}");
        assert!(matches!(renews().await, RenewReply::Renewed { .. }), "the other side renews all the while");
    }

    let renewed_at = std::time::Instant::now();
    assert!(matches!(renews().await, RenewReply::Renewed { .. }));
    let to = heir.port().to_string();
    assert_eq!(waverer.command(&["REPLICAOF", "127.0.0.1", &to]), Reply::Text("OK".to_owned()));
    wait_until(BOUND, "it follows the other master", || online(&heir) == 1).await;
    let mut replies = Vec::new();
    wait_until_async(BOUND, "the new master grants in the end", async || {
        replies.push(asks().await);
        matches!(replies.last(), Some(Ok(CampaignReply::Granted { .. })))
    })
    .await;
    let waited = renewed_at.elapsed();
    assert!(waited >= lease, "granted {waited:?} after a renewal that stands for {lease:?}: {replies:?}");
    assert!(replies.iter().any(|reply| matches!(reply, Ok(CampaignReply::Guarded { .. }))), "{replies:?}");
}

/// How many replicas a server has given everything, and how many only what they lacked.
fn synchronised(server: &RedisServer) -> (u64, u64) {
    let info = server.command(&["INFO", "stats"]).text();
    let told = |name| info.lines().find_map(|line| line.strip_prefix(name)).expect("it tells");
    let times = |name| told(name).trim().parse().expect("a number");
    (times("sync_full:"), times("sync_partial_ok:"))
}

/// What a replica has acknowledged another master, it may have lost in a crash: its disk tells of a time before that,
/// from which this master takes it on.
#[tokio::test]
async fn a_replica_that_crashed_and_goes_on_from_its_disk_shuts_the_role_for_a_lease() {
    let lease = ms(1_000);
    let (master, mut replica) = pair().await;
    let store = acknowledging(&master.url()).await;
    free_after_the_start(&store, 1, lease).await;
    let before = synchronised(&master);
    replica.kill();
    replica.start_again();
    wait_until(BOUND, "it is back", || online(&master) == 1).await;
    assert_eq!(synchronised(&master), (before.0, before.1 + 1), "it is taken for one that was only away");

    let came_at = std::time::Instant::now();
    let newcomer = CampaignRequest { lease_duration: lease, ..ask(2, 1) };
    let reply = campaign(&store, newcomer).await;
    assert!(matches!(reply, CampaignReply::Guarded { cause: GuardCause::Generation, .. }), "{reply:?}");
    win_after_the_start(&store, 3, lease).await;
    assert!(came_at.elapsed() >= lease, "granted {:?} after it came", came_at.elapsed());
}

/// An old master that was never demoted gets its replica back, which has acknowledged another's writes meanwhile.
#[tokio::test]
async fn a_replica_that_comes_back_opens_the_role_to_its_old_master_only_after_a_whole_lease() {
    let lease = ms(1_000);
    let (master, waverer) = pair().await;
    let heir = RedisServer::start_with(&["--replicaof", "127.0.0.1", &master.port().to_string()]);
    wait_until(BOUND, "both replicas are connected", || online(&master) == 2).await;
    let old = acknowledging(&master.url()).await;
    let (earlier, count) = free_after_the_start(&old, 1, lease).await;
    let lease_of = |server: &RedisServer| server.command(&["EXISTS", "baton:{scheduler}:lease"]);
    wait_until(BOUND, "the release is replicated", || lease_of(&heir) == Reply::Number(0)).await;

    heir.command(&["REPLICAOF", "NO", "ONE"]);
    waverer.command(&["REPLICAOF", "127.0.0.1", &heir.port().to_string()]);
    wait_until(BOUND, "the other master has the replica", || online(&heir) == 1).await;
    let other = acknowledging(&heir.url()).await;
    let (token, _) = win_after_the_start(&other, 2, lease).await;
    let before = synchronised(&master);
    let renewed_at = std::time::Instant::now();
    let renewed = renew(&other, RenewRequest { lease_duration: lease, ..renewal(2, 1, token) }).await;
    assert!(matches!(renewed, RenewReply::Renewed { .. }));

    // Nobody has asked the old master anything since: by its record the role is free.
    waverer.command(&["REPLICAOF", "127.0.0.1", &master.port().to_string()]);
    wait_until(BOUND, "the replica is back", || online(&master) == 1).await;
    assert_eq!(synchronised(&master), (before.0 + 1, before.1), "it brought another history along");
    let mut replies = Vec::new();
    let mut known = version_of(1, (earlier, count));
    wait_until_async(BOUND, "the old master grants in the end", async || {
        let knowledge = knows_for(known, lease);
        let request = CampaignRequest { lease_duration: lease, knowledge, ..ask(3, replies.len() as u64 + 1) };
        replies.push(old.campaign(&role(), request).await.map(|stamped| stamped.reply));
        if let Some(Ok(CampaignReply::Guarded { version, .. } | CampaignReply::LookAgain { version, .. })) =
            replies.last()
        {
            known = *version;
        }
        matches!(replies.last(), Some(Ok(CampaignReply::Granted { .. })))
    })
    .await;
    let waited = renewed_at.elapsed();
    assert!(waited >= lease, "granted {waited:?} after a renewal that stands for {lease:?}: {replies:?}");
    let is_guarded = |reply: &Result<CampaignReply, _>| {
        matches!(reply, Ok(CampaignReply::Guarded { cause: GuardCause::Generation, .. }))
    };
    assert!(is_guarded(&replies[0]), "{replies:?}");
}

#[tokio::test]
async fn a_grant_that_a_replica_acknowledges_which_came_only_then_does_not_count() {
    let (master, replica) = pair().await;
    let store = Arc::new(acknowledging(&master.url()).await);
    win_after_the_start(&store, 1, ms(300)).await;
    let (token, _) = win(&store, ask(1, 2)).await;
    assert_eq!(release(&store, giving_back(1, 2, token)).await, ReleaseReply::Released);
    replica.pause();
    let asked = {
        let store = Arc::clone(&store);
        tokio::spawn(async move { store.campaign(&role(), ask(2, 1)).await })
    };
    let held = || master.command(&["HGET", "baton:{scheduler}:lease", "attempt"]);
    wait_until(BOUND, "the grant waits for an acknowledgement", || held() == Reply::Text("1".to_owned())).await;
    let _other = RedisServer::start_with(&["--replicaof", "127.0.0.1", &master.port().to_string()]);
    let refused = asked.await.expect("no panic");
    assert!(
        matches!(&refused, Err(StoreError::Refused { reason }) if reason.contains("a replica has joined")),
        "{refused:?}"
    );
    assert!(matches!(campaign(&store, ask(2, 1)).await, CampaignReply::Guarded { cause: GuardCause::Generation, .. }));
    replica.resume();
}

/// Nobody can tell it from one that crashed. But whoever leads goes on, and later hands over at once.
#[tokio::test]
async fn after_a_replica_has_come_back_the_incumbents_release_opens_the_role_as_before() {
    let lease = ms(600);
    let (master, replica) = pair().await;
    let store = acknowledging(&master.url()).await;
    let (token, _) = win_after_the_start(&store, 1, lease).await;
    let before = synchronised(&master);
    master.command(&["CLIENT", "KILL", "TYPE", "replica"]);
    wait_until(BOUND, "it is back", || {
        replica.command(&["INFO", "replication"]).text().contains("master_link_status:up") && online(&master) == 1
    })
    .await;
    let (full, partial) = (before.0, before.1 + 1);
    assert_eq!(synchronised(&master), (full, partial), "it went on where it was");

    let mut counted = 0;
    let mut renews = async || {
        let request = RenewRequest { lease_duration: lease, count: counted, ..renewal(1, 1, token) };
        let RenewReply::Renewed { count, .. } = renew(&store, request).await else { panic!("refused") };
        counted = count;
    };
    let writer = || master.command(&["HGET", "baton:{scheduler}:record", "session"]).text();
    let count =
        || master.command(&["HGET", "baton:{scheduler}:record", "count"]).text().parse::<u64>().expect("a number");
    let counted_before = count();
    renews().await;
    let generation = master.command(&["HGET", "baton:{scheduler}:record", "generation"]).text();
    assert!(generation.ends_with(&format!("/{}", full + partial)), "whichever way they came: {generation}");
    assert_eq!(writer(), "", "a watch has begun");
    assert!(count() > counted_before + 4_096, "further than by renewals: {counted_before}, {}", count());
    wait_until_async(BOUND, "the guard is over", async || {
        renews().await;
        !writer().is_empty()
    })
    .await;
    assert_eq!(release(&store, giving_back(1, 1, token)).await, ReleaseReply::Released);
    win(&store, ask(2, 1)).await;
}
