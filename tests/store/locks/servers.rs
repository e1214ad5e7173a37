//! Locks where servers fail over: what is held stays held, what waits is woken.

use baton::store::StoreError;
use testkit::cluster::Cluster;
use testkit::profile::{Profile, Profiled};
use testkit::resp::Reply;
use testkit::sentinel::SentinelSet;
use testkit::{wait_until, wait_until_async};

use super::super::live::acknowledged;
use super::super::{heard, ms, store_with, until_up};
use super::*;

const PATIENCE: Duration = Duration::from_secs(30);

/// The answer to a request, once there is one. While servers change places, replicas may not acknowledge a write in
/// time, and then it counts for nothing: whoever asks asks again.
async fn answered(store: &RedisStore, request: AcquireRequest) -> AcquireReply {
    let mut reply = None;
    wait_until_async(PATIENCE, "an answer", async || {
        match store.acquire(request.clone()).await {
            Ok(answer) => reply = Some(answer),
            Err(error) => println!("not yet: {error}"),
        }
        reply.is_some()
    })
    .await;
    reply.expect("waited for")
}

/// Gives the lock back, and again where another failover, that a busy machine's Sentinels may come to by themselves,
/// has taken that back: nothing waits for a release to be replicated.
async fn give_back(store: &RedisStore) {
    wait_until_async(PATIENCE, "the lock is given back", async || store.release(giving_back("a", 1)).await.is_ok())
        .await;
}

/// A lock that is held and one that waits for it, as the failover finds them.
async fn before_the_failover(store: &RedisStore) -> (LockGrant, Subscription<WakeNews>) {
    let mut grant = None;
    wait_until_async(PATIENCE, "the lock is granted", async || {
        match answered(store, AcquireRequest { guard: Some(ms(1)), ..ask("a", 1) }).await {
            AcquireReply::Granted(granted) => grant = Some(granted),
            other => println!("not yet: {other:?}"),
        }
        grant.is_some()
    })
    .await;
    let wakes = listening(store, 2).await;
    assert!(matches!(answered(store, waiting("a", 2)).await, AcquireReply::Held { .. }));
    (grant.expect("waited for"), wakes)
}

async fn after_the_failover(store: &RedisStore, grant: LockGrant, mut wakes: Subscription<WakeNews>) {
    let extend = ExtendRequest { restore: known(1, grant.token), ..extension("a", 1) };
    wait_until_async(PATIENCE, "the lock is extended at the new master", async || {
        match store.extend(extend.clone()).await {
            Ok(ExtendReply::Extended { token, .. }) => {
                assert_eq!(token, grant.token);
                true
            }
            Ok(ExtendReply::Lost) => panic!("lost"),
            Err(_) => false,
        }
    })
    .await;
    // Another server process has it now: nobody new for a guard, but for whoever asks without one.
    let guarded = AcquireRequest { guard: Some(LEASE), ..ask("b", 3) };
    assert!(matches!(answered(store, guarded).await, AcquireReply::Guarded { .. }));
    let ticket = AcquireRequest { guard: Some(ms(1)), ..waiting("a", 2) };
    assert!(matches!(answered(store, ticket.clone()).await, AcquireReply::Held { .. }));
    store.beat(session(2)).await.expect("alive");
    // Where the subscription went with the old master, its end is told.
    while wakes.try_recv().is_ok() {}
    give_back(store).await;
    loop {
        match next(&mut wakes).await {
            // Who looks after a gap, and need not wait for others, does not wait for a wake either.
            WakeNews::Gap => {
                if !matches!(answered(store, ticket.clone()).await, AcquireReply::Held { .. }) {
                    break;
                }
                give_back(store).await;
            }
            woken => {
                assert_eq!(woken, wake("a", 2));
                break;
            }
        }
    }
    let mut next = None;
    wait_until_async(PATIENCE, "the waiter has the lock", async || {
        match answered(store, ticket.clone()).await {
            AcquireReply::Granted(granted) => next = Some(granted),
            AcquireReply::Held { .. } => give_back(store).await,
            other => println!("not yet: {other:?}"),
        }
        next.is_some()
    })
    .await;
    assert!(next.expect("waited for").token > grant.token);
}

#[tokio::test]
async fn a_lock_and_its_waiter_outlive_a_failover_by_sentinels() {
    let mut set = SentinelSet::start().await;
    let store = store_with(&acknowledged(&set.url()));
    until_up(&store).await;
    let (grant, wakes) = before_the_failover(&store).await;
    let first = set.master();
    set.server_mut(first).kill();
    set.switched_from(first).await;
    after_the_failover(&store, grant, wakes).await;
}

#[tokio::test]
async fn a_lock_and_its_waiter_outlive_a_failover_of_their_node_of_a_cluster() {
    let cluster = Cluster::start(&[]).await;
    let store = store_with(&acknowledged(&cluster.url()));
    until_up(&store).await;
    let (grant, wakes) = before_the_failover(&store).await;
    let slot = cluster.slot_of("baton:{locks}:store");
    wait_until(PATIENCE, "the replica is fit to take over", || cluster.owners(slot).len() == 2).await;
    let [first, replica] = cluster.owners(slot)[..] else { panic!("a master and a replica") };
    cluster.nodes[replica].command(&["CLUSTER", "FAILOVER"]);
    cluster.moved_from(first, slot).await;
    after_the_failover(&store, grant, wakes).await;
}

/// `guard: heard`: neither scripts nor the sidecar learn which server it is, and the first request's guard is for a
/// store that may have forgotten everything.
#[tokio::test]
async fn a_server_that_tells_nothing_of_itself_grants_locks_where_nobody_asks() {
    let redis = RedisServer::start();
    let proxy = Profiled::start(redis.port(), Profile { untold: &["master_replid"], ..Profile::MUTE }).await;
    let store = heard(&proxy.url()).await;
    let request = AcquireRequest { guard: Some(Duration::from_secs(3)), ..ask("a", 1) };
    assert!(matches!(acquire(&store, request.clone()).await, AcquireReply::Guarded { .. }));
    wait_until_async(PATIENCE, "the guard ends", async || {
        matches!(acquire(&store, request.clone()).await, AcquireReply::Granted(_))
    })
    .await;
    assert!(is_held(&store, AcquireRequest { guard: request.guard, ..ask("a", 2) }).await);
    release(&store, "a", 1).await;
}

/// It told the connection: a script that may grant something asks again.
#[tokio::test]
async fn a_server_that_tells_no_script_its_generation_grants_no_lock() {
    let redis = RedisServer::start();
    let profile = Profile { untold_in_scripts: &["master_replid"], ..Profile::NONE };
    let proxy = Profiled::start(redis.port(), profile).await;
    let refused = connected(&proxy.url()).await.acquire(ask_guarded("a", 1)).await;
    assert!(matches!(&refused, Err(StoreError::Refused { reason }) if reason.contains("master_replid")), "{refused:?}");
    assert_eq!(redis.command(&["DBSIZE"]), Reply::Number(0));
}
