//! What breaks between a leader and its ledgers: nothing hangs, and nothing is written later than its sender's end.

use baton::protocol::jobs::{OpenReply, WriteReply};
use baton::store::StoreError;
use testkit::proxy::{Network, Proxy};
use testkit::redis::Data;
use testkit::sidecars::clock;
use testkit::{BOUND, wait_until, wait_until_async, within};

use super::super::{calls, impatient, is_unreachable, step_clock};
use super::*;
use crate::suite::ledgers::{request, stale, stored, term};

fn is_unknown<T>(reply: &Result<T, StoreError>) -> bool {
    matches!(reply, Err(StoreError::Unknown { .. }))
}

/// A leader behind a proxy with a ledger that it has written, and the same desk for whoever reaches the Redis directly.
async fn leader_behind(redis: &RedisServer, proxy: &Proxy) -> (Desk, Desk, baton::protocol::jobs::Revision) {
    let leader = desk(&Arc::new(impatient(&proxy.url()).await));
    let direct = Desk { store: Arc::new(connected(&redis.url()).await), job: leader.job.clone() };
    // By who waits for answers, however busy this machine is.
    direct.open(7).await;
    let first = direct.written(Some(7), None, "a").await;
    // So that the leader has brought its script.
    let mut written = None;
    wait_until_async(BOUND, "the leader has written", async || {
        written = match leader.store.write(&leader.job, request(Some(7), Some(first), "b")).await {
            Ok(WriteReply::Written { revision }) => Some(revision),
            // Its answer before came too late.
            Ok(WriteReply::Diverged(Some(stored))) => Some(stored.revision),
            _ => None,
        };
        written.is_some()
    })
    .await;
    (leader, direct, written.expect("waited for"))
}

#[tokio::test]
async fn a_write_that_was_stuck_on_the_way_is_not_written_after_its_sender_gave_it_up() {
    let redis = RedisServer::start();
    let proxy = Proxy::start(redis.entry_port()).await;
    let (leader, direct, base) = leader_behind(&redis, &proxy).await;
    proxy.set(Network::Stalled);
    let write = leader.store.write(&leader.job, request(Some(7), Some(base), "late"));
    let unknown = within("it ends by itself", write).await;
    assert!(is_unknown(&unknown), "{unknown:?}");
    let run = calls(&redis, "eval");
    proxy.set(Network::Good);
    wait_until(BOUND, "it arrives", || calls(&redis, "eval") > run).await;
    assert_eq!(direct.read().await, stored(base, "b"), "although it had the right term and the right version");
}

#[tokio::test]
async fn a_write_that_seems_late_because_the_stores_clock_was_stepped_is_sent_again() {
    let Some((redis, control)) = clock::redis() else { return };
    let desk = desk(&Arc::new(connected(&redis.url()).await));
    let mut base = desk.written(Some(7), None, "0").await;
    for offset in [3_600, -3_600, 0] {
        step_clock(&redis, &control, offset).await;
        base = desk.written(Some(7), Some(base), &offset.to_string()).await;
    }
}

#[tokio::test]
async fn a_lost_answer_is_unknown_and_the_next_write_finds_out() {
    let redis = RedisServer::start();
    let proxy = Proxy::start(redis.entry_port()).await;
    let (leader, direct, base) = leader_behind(&redis, &proxy).await;
    proxy.set(Network::AnswersLost);
    let unknown = leader.store.write(&leader.job, request(Some(7), Some(base), "c")).await;
    assert!(is_unknown(&unknown), "{unknown:?}");
    let written = direct.read().await.expect("it is there");
    assert!(written.revision > base && written.body == "c", "{written:?}");
    proxy.set(Network::Good);
    let mut reply = None;
    wait_until_async(BOUND, "the store answers again", async || {
        reply = leader.store.write(&leader.job, request(Some(7), Some(base), "c")).await.ok();
        reply.is_some()
    })
    .await;
    assert_eq!(reply, Some(WriteReply::Diverged(Some(written))));
}

#[tokio::test]
async fn a_leader_that_was_stuck_writes_nothing_after_its_successor_has_looked() {
    let redis = RedisServer::start();
    let proxy = Proxy::start(redis.entry_port()).await;
    let (leader, successor, base) = leader_behind(&redis, &proxy).await;
    proxy.set(Network::Stalled);
    let unknown = leader.store.write(&leader.job, request(Some(7), Some(base), "old")).await;
    assert!(is_unknown(&unknown), "{unknown:?}");
    assert_eq!(successor.open(9).await, OpenReply::Opened(stored(base, "b")));
    let claimed = successor.written(Some(9), Some(base), "claimed").await;
    let run = calls(&redis, "eval");
    proxy.set(Network::Good);
    wait_until(BOUND, "the old request arrives", || calls(&redis, "eval") > run).await;
    let mut reply = None;
    wait_until_async(BOUND, "the old leader is answered again", async || {
        reply = leader.store.write(&leader.job, request(Some(7), Some(claimed), "old")).await.ok();
        reply.is_some()
    })
    .await;
    assert_eq!(reply, Some(stale(9)), "however much it knows");
    assert_eq!(successor.read().await, stored(claimed, "claimed"));
}

#[tokio::test]
async fn a_redis_that_stands_still_makes_the_outcome_unknown_within_the_command_timeout() {
    let redis = RedisServer::start();
    let desk = desk(&Arc::new(impatient(&redis.url()).await));
    let patient = Desk { store: Arc::new(connected(&redis.url()).await), job: desk.job.clone() };
    let base = patient.written(Some(7), None, "a").await;
    redis.pause();
    let written = within("it ends by itself", desk.store.write(&desk.job, request(Some(7), Some(base), "b"))).await;
    let opened = within("it ends by itself", desk.store.open(&desk.job, &term(9))).await;
    redis.resume();
    assert!(is_unknown(&written), "{written:?}");
    assert!(is_unknown(&opened) || is_unreachable(&opened), "{opened:?}");
    let mut reply = None;
    wait_until_async(BOUND, "it is written again", async || {
        reply = desk.store.write(&desk.job, request(Some(7), Some(base), "b")).await.ok();
        reply.is_some()
    })
    .await;
    // What waited in its socket was read when its sender had gone, and did nothing: neither the write nor the look.
    assert!(matches!(reply, Some(WriteReply::Written { .. })), "{reply:?}");
}

#[tokio::test]
async fn a_ledger_and_its_fence_outlive_a_restart_and_what_was_lost_or_set_back_is_written_again() {
    let mut redis = RedisServer::start();
    let store = Arc::new(connected(&redis.url()).await);
    let (desk, mut news) = (desk(&store), listening(&store).await);
    desk.open(9).await;
    let first = desk.written(Some(9), None, "a").await;
    redis.restart(Data::Kept);
    until_answered(&desk).await;
    assert_eq!(next(&mut news).await, JobNews::Gap, "wishes may have been missed");
    assert_eq!(desk.write(Some(7), Some(first), "old").await, stale(9));
    let base = desk.written(Some(9), Some(first), "b").await;

    redis.command(&["FLUSHALL"]);
    assert_eq!(desk.write(Some(9), Some(base), "c").await, WriteReply::Diverged(None));
    let again = desk.written(Some(9), None, "c").await;
    assert!(again > base);
    assert_eq!(desk.write(Some(7), Some(again), "old").await, stale(9));

    redis.kill();
    wait_until_async(BOUND, "its end is noticed", async || is_unreachable(&desk.store.read(&desk.job).await)).await;
    let refused = desk.store.write(&desk.job, request(Some(9), Some(again), "d")).await;
    assert!(is_unreachable(&refused), "{refused:?}");
    redis.start_again();
    until_answered(&desk).await;
    assert_eq!(next(&mut news).await, JobNews::Gap);
    // It was killed, and has what was saved before the first restart.
    assert_eq!(desk.write(Some(9), Some(again), "d").await, WriteReply::Diverged(stored(first, "a")));
    assert!(desk.written(Some(9), Some(first), "d").await > again, "no version comes twice");
}

async fn until_answered(desk: &Desk) {
    wait_until_async(BOUND, "the store answers again", async || desk.store.read(&desk.job).await.is_ok()).await;
}
