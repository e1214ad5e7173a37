//! Candidates for one role, as many as wanted, in this process: each with what a sidecar has inside, which is the
//! driver, the election and a Redis store with connections of its own, and without its HTTP.
//!
//! They share a thread for each processor. A thousand machines would hear a message at once; here one thread hears it
//! for hundreds, one after the other, so that what depends on that is worse here than there.

use std::sync::Arc;
use std::time::{Duration, Instant};

use baton::base::clock::{BootClock, SharedClock, wall_time};
use baton::base::process::StallWatch;
use baton::config::{AckMode, Durability, Guard, RedisConfig, Replication, TlsConfig};
use baton::protocol::{
    Attempt, CampaignReply, CampaignRequest, Candidate, KnownRecord, RecordVersion, ReleaseRequest, RoleName,
    SessionId, Timing, Token,
};
use baton::role::{RoleContext, RoleHandle, RoleSpec, role};
use baton::store::LeaseStore;
use baton::store::redis::RedisStore;
use baton::telemetry::{Metrics, Telemetry};
use secrecy::SecretString;
use testkit::redis::RedisServer;
use tokio::runtime::{Builder, Handle};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;
use tokio::task::AbortHandle;

use crate::replica::ROLE;

/// No state takes longer to come about.
const BOUND: Duration = Duration::from_secs(60);
/// How many start at once: as many as Redis takes up without making any wait.
const START_TOGETHER: usize = 50;
/// Before a handover counts as over, nothing more comes of it for so long.
const QUIET: Duration = Duration::from_millis(200);

/// A runtime on a thread of its own, which ends when this is dropped.
pub struct Worker {
    pub runtime: Handle,
    pub context: (SharedClock, Arc<StallWatch>),
    stop: Option<oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Worker {
    /// One for each processor, and no more than so many.
    pub fn start_all(most: usize) -> Vec<Self> {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        (0..cores.min(most)).map(|_| Self::start()).collect()
    }

    fn start() -> Self {
        let runtime = Builder::new_current_thread().enable_all().build().expect("the operating system gives a runtime");
        let clock: SharedClock = Arc::new(BootClock);
        let stall = Arc::new(StallWatch::new(Arc::clone(&clock)));
        let (watch, handle) = (Arc::clone(&stall), runtime.handle().clone());
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::spawn(move || {
            runtime.spawn(async move { watch.run().await });
            // An error means that the worker was dropped: the same.
            let _ = runtime.block_on(stopped);
        });
        Self { runtime: handle, context: (clock, stall), stop: Some(stop), thread: Some(thread) }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            // Fails only when it has ended already.
            let _ = stop.send(());
        }
        if let Some(thread) = self.thread.take() {
            // It panics only when a candidate does, which was told on standard error.
            let _ = thread.join();
        }
    }
}

/// One candidate.
struct Member {
    handle: RoleHandle,
    task: AbortHandle,
}

/// That a candidate begins to lead: which one, and when whoever waits for that beside it was woken.
#[derive(Clone, Copy, Debug)]
struct Led {
    by: usize,
    at: Instant,
}

/// What a failover came to.
#[derive(Clone, Copy, Debug)]
pub struct Failover {
    /// From its cause to the next leader, less what was left of the lease.
    pub beyond: Duration,
    /// All scripts that Redis ran, the release included.
    pub scripts: f64,
    /// Processor time of Redis, without what it takes at rest.
    pub redis_cpu_ms: f64,
}

/// What happened on the Redis of a crew until now.
#[derive(Clone, Copy, Debug)]
pub struct Meter {
    pub at: Instant,
    pub scripts: f64,
    pub redis_cpu_ms: f64,
}

/// See the module. They have a Redis of their own.
pub struct Crew {
    redis: RedisServer,
    timing: Timing,
    members: Vec<Member>,
    leader: usize,
    led: UnboundedReceiver<Led>,
    tell: UnboundedSender<Led>,
    /// Milliseconds of Redis' processor time for each millisecond at rest.
    redis_cpu_at_rest: f64,
    seed: u64,
    workers: Vec<Worker>,
}

impl Crew {
    /// Starts the candidates, the leader first, and waits until all know who that is.
    pub async fn start(size: usize, timing: Timing) -> Self {
        let (tell, led) = unbounded_channel();
        let workers = Worker::start_all(size);
        let redis = RedisServer::start();
        let mut crew =
            Self { redis, timing, members: Vec::new(), leader: 0, led, tell, redis_cpu_at_rest: 0.0, seed: 0, workers };
        crew.free_the_role().await;
        let first = crew.hire(0).await;
        crew.members.push(first);
        crew.leader = crew.next_leader().await.by;
        while crew.members.len() < size {
            for at in crew.members.len()..(crew.members.len() + START_TOGETHER).min(size) {
                let member = crew.hire(at).await;
                crew.members.push(member);
            }
            crew.all_know().await;
        }
        crew
    }

    /// A first term that is over at once, and given back: the role is free from now on for whoever asks, as in an
    /// installation that has run before.
    async fn free_the_role(&self) {
        let store = RedisStore::connect(&self.config(), self.timing.lease_duration(), 1).expect("a good URL");
        let (name, candidate) = (name(), Candidate { session: SessionId::from_u128(1), attempt: Attempt(1) });
        let mut request = CampaignRequest {
            candidate,
            identity: Arc::from("first"),
            lease_duration: Duration::from_millis(100),
            floor: Token::NONE,
            knowledge: None,
            guard: true,
            released: None,
        };
        let begun = Instant::now();
        // What is known of the role, and since when it has stood still: it has to for a lease.
        let mut known: Option<(RecordVersion, Instant)> = None;
        loop {
            let reply = store.campaign(&name, request.clone()).await.map(|stamped| stamped.reply);
            match reply {
                Ok(CampaignReply::Granted { token, .. }) => {
                    let release = ReleaseRequest { candidate, token, audience: 0 };
                    store.release(&name, release).await.expect("Redis answers");
                    return;
                }
                Ok(CampaignReply::Guarded { version, .. } | CampaignReply::LookAgain { version, .. }) => {
                    let since = known.filter(|(before, _)| *before == version).map_or_else(Instant::now, |(_, at)| at);
                    known = Some((version, since));
                    let (age, unchanged_for, remaining) = (Duration::ZERO, since.elapsed(), Duration::ZERO);
                    request.knowledge = Some(KnownRecord { version, age, unchanged_for, remaining });
                }
                // A connection that is only being made.
                Ok(_) | Err(_) => {}
            }
            assert!(begun.elapsed() < BOUND, "no first term within {BOUND:?}: {reply:?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    fn config(&self) -> RedisConfig {
        RedisConfig {
            url: SecretString::from(self.redis.url()),
            username: None,
            password: None,
            auth: None,
            tls: TlsConfig::default(),
            durability: Durability::Asynchronous,
            key_prefix: "replicas".to_owned(),
            command_timeout: Duration::from_secs(1),
            replication: Replication { acks: 0, mode: AckMode::Wait, timeout: Duration::from_millis(500) },
            guard: Guard::Strict,
        }
    }

    /// A new candidate, and somebody who waits beside it for its lead.
    async fn hire(&mut self, at: usize) -> Member {
        self.seed += 1;
        let (seed, config, timing) = (self.seed, self.config(), self.timing);
        let worker = &self.workers[at % self.workers.len()];
        let ((clock, stall), tell) = (worker.context.clone(), self.tell.clone());
        let starting = worker.runtime.spawn(async move {
            let store = RedisStore::connect(&config, timing.lease_duration(), seed).expect("a good URL");
            let metrics = Arc::new(Metrics::new(wall_time()));
            metrics.add_role(&name());
            let context = RoleContext { store: Arc::new(store), clock, telemetry: Telemetry::new(metrics), stall };
            let spec = RoleSpec {
                name: name(),
                identity: Arc::from(format!("candidate-{seed}")),
                session: SessionId::from_u128(u128::from(seed) + 100),
                attempts: Default::default(),
                timing,
                guard: true,
                app_checked: false,
                shard_stagger: Duration::ZERO,
                role_stagger: Duration::ZERO,
                seed,
            };
            let (handle, task) = role(spec, context);
            let task = tokio::spawn(task).abort_handle();
            tokio::spawn(wait_beside(handle.clone(), at, tell));
            Member { handle, task }
        });
        starting.await.expect("a candidate starts")
    }

    async fn next_leader(&mut self) -> Led {
        let led = tokio::time::timeout(BOUND, self.led.recv()).await;
        led.unwrap_or_else(|_| panic!("nobody leads within {BOUND:?}")).expect("we hold a sender")
    }

    /// Waits until every candidate has heard who leads.
    async fn all_know(&self) {
        let leader = self.members[self.leader].handle.holder();
        let begun = Instant::now();
        while !self.members.iter().all(|member| member.handle.holder() == leader) {
            assert!(begun.elapsed() < BOUND, "not all know who leads within {BOUND:?}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Lets time pass in which nothing happens. Returns the share of a core that Redis takes meanwhile.
    pub async fn rest(&mut self, span: Duration) -> f64 {
        let before = self.meter();
        tokio::time::sleep(span).await;
        let after = self.meter();
        let took_ms = (after.at - before.at).as_secs_f64() * 1_000.0;
        self.redis_cpu_at_rest = (after.redis_cpu_ms - before.redis_cpu_ms) / took_ms;
        self.redis_cpu_at_rest
    }

    /// The leader resigns.
    pub async fn hand_over(&mut self) -> Failover {
        let before = self.meter();
        let begun = Instant::now();
        let resigned = self.members[self.leader].handle.resign(Some(Duration::from_millis(50))).await;
        assert_eq!(resigned, Ok(()), "the leader resigns when asked");
        self.settle(before, begun).await
    }

    /// The leader's task and connections end without a word, and another takes its place once that is over.
    pub async fn crash(&mut self) -> Failover {
        let dead = self.leader;
        self.members[dead].task.abort();
        let key = format!("replicas:{{{ROLE}}}:lease");
        let begun = Instant::now();
        let left = self.redis.command(&["PTTL", &key]).number();
        let left = u64::try_from(left).unwrap_or_else(|_| panic!("{key} has no time to live: {left}"));
        let before = self.meter();
        let failover = self.settle(before, begun + Duration::from_millis(left)).await;
        self.members[dead] = self.hire(dead).await;
        self.all_know().await;
        failover
    }

    /// Waits for the next leader, and until nothing more comes of that.
    async fn settle(&mut self, before: Meter, from: Instant) -> Failover {
        let led = self.next_leader().await;
        let old = std::mem::replace(&mut self.leader, led.by);
        let leader = self.members[led.by].handle.holder();
        let begun = Instant::now();
        // One that was killed knows nothing any more.
        let know = |member: &Member| member.task.is_finished() || member.handle.holder() == leader;
        while !self.members.iter().all(know) {
            assert!(begun.elapsed() < BOUND, "not all know who leads within {BOUND:?}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        tokio::time::sleep(QUIET).await;
        let after = self.meter();
        let took_ms = (after.at - before.at).as_secs_f64() * 1_000.0;
        assert!(self.led.is_empty() && old != self.leader, "one leader after the other");
        Failover {
            beyond: led.at.saturating_duration_since(from),
            scripts: after.scripts - before.scripts,
            redis_cpu_ms: after.redis_cpu_ms - before.redis_cpu_ms - took_ms * self.redis_cpu_at_rest,
        }
    }

    fn meter(&self) -> Meter {
        let info = |section: &str| self.redis.command(&["INFO", section]).text();
        let cpu = info("cpu");
        let seconds = |name: &str| {
            let value = cpu.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            value.and_then(|value| value.trim().parse::<f64>().ok()).expect("Redis tells its processor time")
        };
        let calls =
            |line: &str| line.strip_prefix("cmdstat_eval")?.split_once("calls=")?.1.split(',').next()?.parse().ok();
        let scripts = info("commandstats").lines().filter_map(calls).map(|calls: f64| calls).sum();
        let redis_cpu_ms = (seconds("used_cpu_user") + seconds("used_cpu_sys")) * 1_000.0;
        Meter { at: Instant::now(), scripts, redis_cpu_ms }
    }
}

fn name() -> RoleName {
    RoleName::new(ROLE).expect("a good name")
}

/// Waits as an app's long poll would, and says each time when the candidate has begun to lead.
async fn wait_beside(handle: RoleHandle, by: usize, tell: UnboundedSender<Led>) {
    let mut changes = handle.changes();
    let mut led = false;
    // An error means that the candidate has ended.
    while changes.changed().await.is_ok() {
        let leads = handle.leads();
        if leads && !led && tell.send(Led { by, at: Instant::now() }).is_err() {
            return;
        }
        led = leads;
    }
}
