//! A master, two replicas and three Sentinels: the same store, another URL.

use std::time::Duration;

use baton::base::clock::{BootClock, Clock};
use baton::protocol::Timing;
use testkit::resp::Reply;
use testkit::sentinel::{Sentinel, SentinelSet};
use testkit::{last_for, wait_until, wait_until_async};

use super::live::{Live, Seen, acknowledged, default_lease, long_timing, short_timing};
use super::refusals::{LEAST_RIGHTS, rights_for};
use super::*;

/// As long as the set itself gives the Sentinels: after a term was lost, two leases pass.
const PATIENCE: Duration = Duration::from_secs(90);

/// Waits until the incumbent has renewed at the present master.
async fn renewed(set: &SentinelSet, token: Token, live: &Live) {
    let count = || set.server(set.master()).ask(&["HGET", "baton:{scheduler}:record", "count"]);
    let before = count();
    wait_until(PATIENCE, &format!("the incumbent has renewed there ({})", live.reasons()), || count() != before).await;
    assert_eq!(live.token(), Some(token), "{:?}", live.seen());
}

#[tokio::test]
async fn the_incumbent_keeps_its_token_when_the_master_is_replaced_killed_or_paused() {
    let mut set = SentinelSet::start().await;
    let (live, token) = Live::led_on(&acknowledged(&set.url()), long_timing(), 1).await;

    let first = set.master();
    set.fail_over().await;
    set.switched_from(first).await;
    renewed(&set, token, &live).await;

    let second = set.settled().await;
    set.server_mut(second).kill();
    set.switched_from(second).await;
    renewed(&set, token, &live).await;
    set.server_mut(second).start_again();

    let third = set.settled().await;
    set.server(third).pause();
    set.switched_from(third).await;
    renewed(&set, token, &live).await;
    // The old master takes itself for the master until a Sentinel tells it otherwise; nothing that it grants counts.
    set.sentinels.iter().for_each(Sentinel::pause);
    set.server(third).resume();
    assert!(set.server(third).ask(&["INFO", "replication"]).text().contains("role:master"));
    let patient = RedisConfig { command_timeout: PATIENCE, ..acknowledged(&set.server(third).url()) };
    let stale = store_with(&patient);
    until_up(&stale).await;
    let refused = stale.campaign(&role(), unguarded(9, 1)).await;
    assert!(
        matches!(&refused, Err(StoreError::Refused { reason }) if reason.contains("0 of 1 replicas"))
            || matches!(&refused, Ok(stamped) if matches!(stamped.reply, CampaignReply::Held { .. })),
        "{refused:?}"
    );

    let seen = live.seen();
    assert_eq!(seen.tokens, [token], "one term through all of it: {seen:#?}");
    live.assert_sound();
}

/// How many failovers there are in all, unless this variable asks for more.
fn number_from(variable: &str, otherwise: u64) -> u64 {
    std::env::var(variable).ok().and_then(|number| number.parse().ok()).unwrap_or(otherwise)
}

/// What happens to the master.
#[derive(Clone, Copy, Debug)]
enum Fault {
    Asked,
    Killed,
    Paused,
}

/// What a series of failovers came to.
struct Series {
    seen: Seen,
    /// After so many of them the same leader had the same token.
    kept: u64,
    /// How long it took until the Sentinels named another master that a replica followed, of those after which it had
    /// not.
    lost_after: Vec<Duration>,
    /// The longest time from a fault to the first renewal at the new master, where the term was kept.
    took_max: Duration,
}

/// A series of failovers on a set of its own, from one seed.
async fn failovers_of(seed: u64, count: u64, faults: &[Fault], timing: Timing) -> Series {
    let mut dice = fastrand::Rng::with_seed(seed);
    let mut set = SentinelSet::start().await;
    let (live, _) = Live::led_on(&acknowledged(&set.url()), timing, seed).await;
    let (mut kept, mut took_max, mut lost_after) = (0, Duration::ZERO, Vec::new());
    for number in 0..count {
        let fault = faults[dice.usize(0..faults.len())];
        let old = set.master();
        let (token, begun) = (live.led().await, BootClock.now());
        match fault {
            Fault::Asked => set.fail_over().await,
            Fault::Killed => set.server_mut(old).kill(),
            Fault::Paused => set.server(old).pause(),
        }
        let new = set.switched_from(old).await;
        let switched_after = BootClock.now().since(begun);
        let what = format!("a leader: seed {seed}, {number}: {fault:?}");
        renewed_by_whoever_leads(&set, new, &live, &what).await;
        let renewed_after = BootClock.now().since(begun);
        match fault {
            Fault::Asked => {}
            Fault::Killed => set.server_mut(old).start_again(),
            Fault::Paused => set.server(old).resume(),
        }
        // For a while there are two that take themselves for the master.
        last_for(ms(dice.u64(0..1_500))).await;
        set.settled().await;
        wait_until(PATIENCE, &what, || live.token().is_some()).await;
        let seen = live.seen();
        assert!(seen.broken.is_empty(), "seed {seed}, failover {number} ({fault:?}): {seen:#?}");
        if seen.tokens.last() == Some(&token) {
            kept += 1;
            took_max = took_max.max(renewed_after);
        } else {
            lost_after.push(switched_after);
        }
    }
    Series { seen: live.seen(), kept, lost_after, took_max }
}

/// Waits until somebody leads and has renewed at this master: what is there came from the one before, or is a grant.
async fn renewed_by_whoever_leads(set: &SentinelSet, master: u16, live: &Live, what: &str) {
    let count = || set.server(master).ask(&["HGET", "baton:{scheduler}:record", "count"]);
    let before = count();
    wait_until(PATIENCE, what, || live.token().is_some() && count() != before).await;
}

/// Runs this many failovers on several sets side by side, since most of the time is the Sentinels' waiting.
fn series(count: u64, faults: &'static [Fault], timing_of: fn(u64) -> Timing) -> Vec<(u64, Series)> {
    let sets = (count / 4).clamp(1, 4);
    let each = count.div_ceil(sets);
    let runs = (0..sets).map(|seed| {
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(failovers_of(seed, each, faults, timing_of(seed)))
        })
    });
    let runs: Vec<_> = runs.collect();
    // All of them end before one is judged, and with them their servers.
    let ended: Vec<_> = runs.into_iter().map(std::thread::JoinHandle::join).collect();
    let mut all = Vec::new();
    for run in ended {
        let run = run.expect("see above");
        let Series { seen: Seen { answers, tokens, leaderless_max, .. }, kept, lost_after, took_max } = &run;
        println!(
            "{each} failovers: {kept} kept the term, in at most {took_max:?}; switched after {lost_after:?} where it \
             was lost; {} terms, {answers} answers, nobody led for at most {leaderless_max:?}",
            tokens.len()
        );
        assert!(*answers > 100, "the checker saw leaders: {answers} answers");
        all.push((each, run));
    }
    all
}

#[tokio::test]
async fn no_two_replicas_lead_through_twenty_failovers_with_one_acknowledgement() {
    let timing_of = |seed: u64| if seed.is_multiple_of(2) { short_timing() } else { long_timing() };
    series(number_from("BATON_FAILOVERS", 20), &[Fault::Asked, Fault::Killed, Fault::Paused], timing_of);
}

#[tokio::test]
async fn the_leader_and_its_token_stay_through_every_kill_of_the_master_that_is_shorter_than_the_lease() {
    // What is left of the lease when the master dies, less the time until the next acknowledged renewal. Sentinels that
    // did not agree try again after twelve seconds: that is longer.
    let enough = default_lease().lease_duration() * 2 / 3;
    for (count, run) in series(number_from("BATON_KILLS", 4), &[Fault::Killed], |_| default_lease()) {
        let lost = count - run.kept;
        assert_eq!(lost, u64::try_from(run.lost_after.len()).expect("few"));
        assert!(run.lost_after.iter().all(|after| *after > enough), "{:?}: {:#?}", run.lost_after, run.seen);
        assert!(run.seen.tokens.is_sorted(), "{:#?}", run.seen);
    }
}

/// The line of docs/redis.md for a user of the Sentinels' own.
const SENTINEL_RIGHTS: &str = "+auth +sentinel|get-master-addr-by-name +sentinel|sentinels";

#[tokio::test]
async fn a_set_whose_first_sentinel_hangs_is_used_all_the_same_and_with_the_least_rights() {
    let set = SentinelSet::start().await;
    for server in &set.servers {
        rights_for(server, "sidecar", &format!("{LEAST_RIGHTS} +role"));
    }
    for sentinel in &set.sentinels {
        let words = format!("ACL SETUSER asker on >asker-password resetchannels -@all {SENTINEL_RIGHTS}");
        let done = sentinel.command(&words.split_whitespace().collect::<Vec<_>>());
        assert_eq!(done, Some(Reply::Text("OK".to_owned())));
    }
    let url = format!("{}&sentinelUsername=asker&sentinelPassword=asker-password", set.url());
    set.sentinels[0].pause();
    let user = RedisConfig {
        username: Some(baton::config::Secret::Value(SecretString::from("sidecar"))),
        password: Some(baton::config::Secret::Value(SecretString::from("secret-password"))),
        ..config(&url)
    };
    let store = RedisStore::connect(&RedisConfig { command_timeout: ms(500), ..user }, LEASE, 7).expect("good");
    wait_until_async(PATIENCE, "granted", async || store.campaign(&role(), unguarded(1, 1)).await.is_ok()).await;
    let mut news = store.subscribe(&role(), None);
    assert_eq!(within("a gap", news.recv()).await, Some(baton::store::News::Gap));
    let master = set.server(set.sentinels[1].master().expect("it answers"));
    assert_eq!(master.command(&["ACL", "LOG"]), Reply::List(Vec::new()), "nothing was denied on the way");
    for sentinel in &set.sentinels[1..] {
        assert_eq!(sentinel.command(&["ACL", "LOG"]), Some(Reply::List(Vec::new())), "nor by a Sentinel");
    }
}
