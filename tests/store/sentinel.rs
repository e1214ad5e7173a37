//! A master, two replicas and three Sentinels: the same store, another URL.

use std::time::Duration;

use super::live::{Live, Seen, acknowledged, long_timing, make_free, short_timing};
use super::refusals::{LEAST_RIGHTS, rights_for};
use super::support::resp::Reply;
use super::support::sentinel::SentinelSet;
use super::support::{wait_until, wait_until_async};
use super::*;

const PATIENCE: Duration = Duration::from_secs(30);

/// Waits until the incumbent has renewed at the present master.
async fn renewed(set: &SentinelSet, token: Token, live: &Live) {
    let count = || set.server(set.master()).command(&["HGET", "baton:{scheduler}:record", "count"]);
    let before = count();
    wait_until(PATIENCE, &format!("the incumbent has renewed there ({})", live.reasons()), || count() != before).await;
    assert_eq!(live.token(), Some(token), "{:?}", live.seen());
}

#[tokio::test]
async fn the_incumbent_keeps_its_token_when_the_master_is_replaced_killed_or_paused() {
    let mut set = SentinelSet::start().await;
    let config = acknowledged(&set.url());
    let store = store_with(&config);
    until_up(&store).await;
    make_free(&store).await;
    let live = Live::start(&config, long_timing(), 3, 1);
    let token = live.led().await;

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
    // The old master takes itself for the master for some seconds yet; nothing that it grants counts.
    set.server(third).resume();
    assert!(set.server(third).command(&["INFO", "replication"]).text().contains("role:master"));
    let stale = store_with(&acknowledged(&set.server(third).url()));
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

/// How many failovers there are in all; more for a longer run.
fn failovers() -> u64 {
    let wanted = std::env::var("BATON_FAILOVERS").ok().and_then(|number| number.parse().ok());
    wanted.unwrap_or(20)
}

/// What happens to the master.
#[derive(Clone, Copy, Debug)]
enum Fault {
    Asked,
    Killed,
    Paused,
}

/// A series of failovers on a set of its own, from one seed.
async fn failovers_of(seed: u64, count: u64) -> Seen {
    let mut dice = fastrand::Rng::with_seed(seed);
    let mut set = SentinelSet::start().await;
    let config = acknowledged(&set.url());
    let store = store_with(&config);
    until_up(&store).await;
    make_free(&store).await;
    let timing = if seed.is_multiple_of(2) { short_timing() } else { long_timing() };
    let live = Live::start(&config, timing, 3, seed);
    live.led().await;
    for number in 0..count {
        let fault = [Fault::Asked, Fault::Killed, Fault::Paused][dice.usize(0..3)];
        let old = set.master();
        match fault {
            Fault::Asked => set.fail_over().await,
            Fault::Killed => set.server_mut(old).kill(),
            Fault::Paused => set.server(old).pause(),
        }
        set.switched_from(old).await;
        match fault {
            Fault::Asked => {}
            Fault::Killed => set.server_mut(old).start_again(),
            Fault::Paused => set.server(old).resume(),
        }
        // For a while there are two that take themselves for the master.
        tokio::time::sleep(ms(dice.u64(0..1_500))).await;
        set.settled().await;
        wait_until(PATIENCE, &format!("a leader: seed {seed}, {number}: {fault:?}"), || live.token().is_some()).await;
        let seen = live.seen();
        assert!(seen.broken.is_empty(), "seed {seed}, failover {number} ({fault:?}): {seen:#?}");
    }
    live.seen()
}

#[tokio::test]
async fn no_two_replicas_lead_through_twenty_failovers_with_one_acknowledgement() {
    // Side by side, since most of the time is the Sentinels' waiting.
    let sets = (failovers() / 4).clamp(1, 8);
    let each = failovers().div_ceil(sets);
    let runs = (0..sets).map(|seed| {
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(failovers_of(seed, each))
        })
    });
    let runs: Vec<_> = runs.collect();
    // All of them end before one is judged, and with them their servers.
    let ended: Vec<_> = runs.into_iter().map(std::thread::JoinHandle::join).collect();
    for run in ended {
        let Seen { answers, tokens, leaderless_max, .. } = run.expect("see above");
        println!("{each} failovers: {} terms, nobody led for at most {leaderless_max:?}", tokens.len());
        assert!(answers > 100, "the checker saw leaders: {answers} answers");
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
    let mut news = store.listen(&role());
    assert_eq!(within("a gap", news.recv()).await, Some(baton::store::News::Gap));
    let master = set.server(set.sentinels[1].master().expect("it answers"));
    assert_eq!(master.command(&["ACL", "LOG"]), Reply::List(Vec::new()), "nothing was denied on the way");
    for sentinel in &set.sentinels[1..] {
        assert_eq!(sentinel.command(&["ACL", "LOG"]), Some(Reply::List(Vec::new())), "nor by a Sentinel");
    }
}
