//! Replicas with the real driver, on a thread of their own, and a checker that reads every answer as apps would.

use std::sync::Mutex;
use std::thread::JoinHandle;

use baton::base::clock::{BootClock, Clock, SharedClock, wall_time};
use baton::base::process::StallWatch;
use baton::protocol::{Mono, Timing};
use baton::role::{Answer, RoleContext, RoleHandle, RoleSpec, role as make_role};
use baton::telemetry::{Metrics, Telemetry};
use testkit::wait::Ending;
use tokio::sync::oneshot;

use super::*;

/// What apps were told so far.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// Two replicas led at once, or a token went back: there must be none of these.
    pub broken: Vec<String>,
    /// The tokens, in the order in which they were told.
    pub tokens: Vec<Token>,
    /// How many answers said `leader: true`.
    pub answers: u64,
    /// The longest time in which nobody led, after somebody first did.
    pub leaderless_max: Duration,
}

/// Replicas that campaign for the same role.
pub struct Live {
    handles: Vec<RoleHandle>,
    seen: Arc<Mutex<Seen>>,
    ending: Arc<Ending>,
    runner: Option<(oneshot::Sender<()>, JoinHandle<()>)>,
    checker: Option<JoinHandle<()>>,
}

impl Live {
    /// Starts `count` replicas, each with a store of its own.
    pub fn start(config: &RedisConfig, timing: Timing, count: u64, seed: u64) -> Self {
        let config = config.clone();
        Self::start_each(move |_| config.clone(), timing, count, seed)
    }

    /// Three replicas on a store whose role was made free, once one of them leads; and its token.
    pub async fn led_on(config: &RedisConfig, timing: Timing, seed: u64) -> (Self, Token) {
        let store = store_with(config);
        until_up(&store).await;
        make_free(&store).await;
        let live = Self::start(config, timing, 3, seed);
        let token = live.led().await;
        (live, token)
    }

    /// As [`Self::start`], with a configuration for each.
    pub fn start_each(
        config_of: impl Fn(u64) -> RedisConfig + Send + 'static,
        timing: Timing,
        count: u64,
        seed: u64,
    ) -> Self {
        let (tell, told) = std::sync::mpsc::channel();
        let (stop_runner, stopped) = oneshot::channel();
        let runner = std::thread::spawn(move || run(config_of, timing, count, seed, &tell, stopped));
        let handles: Vec<RoleHandle> = (0..count).map(|_| told.recv().expect("the replicas start")).collect();
        let (seen, ending) = (Arc::new(Mutex::new(Seen::default())), Arc::new(Ending::default()));
        let checker = {
            let (handles, seen, ending) = (handles.clone(), Arc::clone(&seen), Arc::clone(&ending));
            std::thread::spawn(move || check(&handles, &seen, &ending))
        };
        Self { handles, seen, ending, runner: Some((stop_runner, runner)), checker: Some(checker) }
    }

    /// What apps were told so far.
    pub fn seen(&self) -> Seen {
        self.seen.lock().expect("the checker does not panic").clone()
    }

    /// What each replica answers its app.
    pub fn answers(&self) -> Vec<Answer> {
        self.handles.iter().map(RoleHandle::answer).collect()
    }

    /// The token of who leads at this moment.
    pub fn token(&self) -> Option<Token> {
        self.handles.iter().find_map(|handle| handle.remaining().map(|(token, _)| token))
    }

    /// Waits until somebody leads, and says under which token.
    pub async fn led(&self) -> Token {
        let mut token = None;
        testkit::wait_until(Duration::from_secs(60), &format!("somebody leads: {}", self.reasons()), || {
            token = self.token();
            token.is_some()
        })
        .await;
        token.expect("waited for")
    }

    /// Why the replicas do not lead, for a failure's message.
    pub fn reasons(&self) -> String {
        let views = self.handles.iter().map(|handle| {
            let view = &handle.snapshot().view;
            format!("{}: {}", view.state, view.reason.as_deref().unwrap_or("-"))
        });
        views.collect::<Vec<_>>().join("; ")
    }

    /// Panics when a promise was broken up to now.
    pub fn assert_sound(&self) {
        let seen = self.seen();
        assert!(seen.broken.is_empty(), "{seen:#?}");
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.ending.tell();
        if let Some((stop, runner)) = self.runner.take() {
            // Fails only when it has ended already, and then the join says why.
            let _ = stop.send(());
            let ended = runner.join();
            assert!(ended.is_ok() || std::thread::panicking(), "a replica panicked");
        }
        if let Some(checker) = self.checker.take() {
            let ended = checker.join();
            assert!(ended.is_ok() || std::thread::panicking(), "the checker panicked");
        }
    }
}

fn run(
    config_of: impl Fn(u64) -> RedisConfig,
    timing: Timing,
    count: u64,
    seed: u64,
    tell: &std::sync::mpsc::Sender<RoleHandle>,
    stopped: oneshot::Receiver<()>,
) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async move {
        let clock: SharedClock = Arc::new(BootClock);
        let stall = Arc::new(StallWatch::new(Arc::clone(&clock)));
        let watch = Arc::clone(&stall);
        tokio::spawn(async move { watch.run().await });
        for replica in 0..count {
            let own_seed = seed.wrapping_mul(1_000) + replica;
            let store = RedisStore::connect(&config_of(replica), timing.lease_duration(), own_seed)
                .expect("a good configuration");
            let metrics = Arc::new(Metrics::new(wall_time()));
            metrics.add_role(&role());
            let context = RoleContext {
                store: Arc::new(store),
                clock: Arc::clone(&clock),
                telemetry: Telemetry::new(metrics),
                stall: Arc::clone(&stall),
            };
            let spec = RoleSpec {
                name: role(),
                identity: Arc::from(format!("web-{replica}")),
                session: SessionId::from_u128(u128::from(own_seed) + 100),
                attempts: Default::default(),
                timing,
                guard: true,
                app_checked: false,
                shard_stagger: Duration::ZERO,
                role_stagger: Duration::ZERO,
                seed: own_seed,
            };
            let (handle, task) = make_role(spec, context);
            tokio::spawn(task);
            if tell.send(handle).is_err() {
                return;
            }
        }
        // An error means that the test has gone: the same.
        let _ = stopped.await;
    });
}

/// Reads the answers in turn. Times are taken so that no overlap is seen that was not there: a promise is counted from
/// before the question, another's answer from after it.
fn check(handles: &[RoleHandle], seen: &Mutex<Seen>, ending: &Ending) {
    let clock = BootClock;
    let mut promised_until = vec![Mono::from_nanos(0); handles.len()];
    let (mut greatest, mut last): (Option<Token>, usize) = (None, 0);
    while !ending.within(ms(1)) {
        for (at, handle) in handles.iter().enumerate() {
            let before = clock.now();
            let answer = handle.answer();
            let after = clock.now();
            if !answer.leader {
                continue;
            }
            let (token, valid_ms) = (answer.token.expect("it leads"), answer.valid_for_ms.expect("it leads"));
            let mut seen = seen.lock().expect("nobody panics while it is held");
            let latest = promised_until.iter().copied().max().expect("there are replicas");
            if greatest.is_some() {
                seen.leaderless_max = seen.leaderless_max.max(after.since(latest));
            }
            for other in (0..handles.len()).filter(|other| *other != at) {
                if promised_until[other] > after {
                    let left = promised_until[other].since(after);
                    seen.broken.push(format!("web-{at} ({token}) led while web-{other} had {left:?} left"));
                }
            }
            if greatest.is_some_and(|greatest| token < greatest || (token == greatest && at != last)) {
                seen.broken.push(format!("web-{at} led under {token} after {greatest:?}"));
            }
            if greatest != Some(token) {
                seen.tokens.push(token);
            }
            seen.answers += 1;
            (greatest, last) = (greatest.max(Some(token)), at);
            promised_until[at] = promised_until[at].max(before + ms(valid_ms));
        }
    }
}

/// One term under a lease that is over at once, and given back: the role is free from now on for whoever asks, as in a
/// deployment that has run before. Without it the first term waits for a lease and a half.
pub async fn make_free(store: &RedisStore) {
    let mut knowledge = None;
    testkit::wait_until_async(Duration::from_secs(60), "a first term", async || {
        let request = CampaignRequest { lease_duration: ms(100), knowledge, ..ask(1, 1) };
        let reply = store.campaign(&role(), request).await.map(|stamped| stamped.reply);
        match reply {
            Ok(CampaignReply::Granted { token, .. }) => {
                let given_back = store.release(&role(), giving_back(1, 1, token)).await.map(|stamped| stamped.reply);
                // Its lease may be over by now, or the answer be late: then it takes another term.
                return given_back == Ok(ReleaseReply::Released);
            }
            Ok(CampaignReply::Guarded { version, .. } | CampaignReply::LookAgain { version, .. }) => {
                knowledge = knows_for(version, ms(100));
            }
            // Not acknowledged yet, or a connection that is only being made.
            Ok(_) | Err(_) => {}
        }
        false
    })
    .await;
}

/// A configuration with one acknowledgement, and timeouts that fit leases of seconds.
pub fn acknowledged(url: &str) -> RedisConfig {
    RedisConfig {
        command_timeout: ms(600),
        replication: Replication { acks: 1, mode: AckMode::Wait, timeout: ms(300) },
        ..config(url)
    }
}

/// A lease that no failover outlives, not even where the Sentinels must try several times, with answers that are good
/// for as long as a renewal takes.
pub fn long_timing() -> Timing {
    Timing::new(ms(120_000), ms(700), ms(2_400), ms(500)).expect("sound timings")
}

/// The lease that a configuration has by default, renewed often, so that a test sees soon that it is.
pub fn default_lease() -> Timing {
    Timing::new(ms(15_000), ms(700), ms(1_000), ms(500)).expect("sound timings")
}

/// A lease that most failovers outlive.
pub fn short_timing() -> Timing {
    Timing::new(ms(2_000), ms(700), ms(100), ms(500)).expect("sound timings")
}

#[tokio::test]
async fn the_checker_sees_two_leaders_where_there_are_two() {
    let redis = testkit::redis::RedisServer::start();
    let apart = config(&redis.url());
    // Two replicas that do not know of each other.
    let prefix = |replica| format!("apart-{replica}");
    let config_of =
        move |replica| RedisConfig { key_prefix: prefix(replica), command_timeout: ms(600), ..apart.clone() };
    let live = Live::start_each(config_of, short_timing(), 2, 1);
    testkit::wait_until(Duration::from_secs(30), "the checker notices", || !live.seen().broken.is_empty()).await;
}
