//! Random faults, many at a time, and at the end a leader. `BATON_CHAOS_SEED` repeats a run's faults, though not the
//! moments at which the processes meet them; `BATON_CHAOS_SECONDS` makes it longer.

use std::env;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::group::{Group, ms_between};
use crate::proxies::{Proxies, behind_proxies};
use crate::replica::Lease;
use crate::support::proxy::Network;
use crate::support::redis::{Data, RedisServer};
use crate::wait::last_for;

const REPLICAS: usize = 3;
const SECONDS_DEFAULT: u64 = 25;

/// What can be made good later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ill {
    ReplicaDown(usize),
    ReplicaPaused(usize),
    ReplicaCutOff(usize, Network),
    RedisDown,
    RedisPaused,
}

impl Ill {
    /// Whose it is; none for what all suffer from.
    fn replica(self) -> Option<usize> {
        match self {
            Self::ReplicaDown(replica) | Self::ReplicaPaused(replica) | Self::ReplicaCutOff(replica, _) => {
                Some(replica)
            }
            Self::RedisDown | Self::RedisPaused => None,
        }
    }
}

struct Chaos {
    group: Group,
    proxies: Proxies,
    dice: fastrand::Rng,
    begun: Instant,
    /// What is wrong, and when it will be made good.
    ills: Vec<(Instant, Ill)>,
    /// Printed when the run fails.
    log: FaultLog,
}

/// What was done, and when; printed if the test panics.
struct FaultLog {
    seed: u64,
    lines: Vec<String>,
}

impl Drop for FaultLog {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- faults of BATON_CHAOS_SEED={}\n{}", self.seed, self.lines.join("\n"));
        }
    }
}

pub fn from_environment(name: &str) -> Option<u64> {
    let text = env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text}: a whole number is wanted")))
}

impl Chaos {
    fn new(seed: u64) -> Self {
        let redis = RedisServer::start_with(&["--appendonly", "yes", "--appendfsync", "always"]);
        let (group, proxies) = behind_proxies(redis, REPLICAS, Lease::SHORT, "");
        Self {
            group,
            proxies,
            dice: fastrand::Rng::with_seed(seed),
            begun: Instant::now(),
            ills: Vec::new(),
            log: FaultLog { seed, lines: Vec::new() },
        }
    }

    fn note(&mut self, what: &str) {
        let at = ms_between(self.begun, Instant::now());
        self.log.lines.push(format!("{at:>7} ms  {what}"));
    }

    fn fall_ill(&mut self, ill: Ill, ms_max: u64) {
        let for_ms = self.dice.u64(50..ms_max);
        self.note(&format!("{ill:?} for {for_ms} ms"));
        self.ills.push((Instant::now() + Duration::from_millis(for_ms), ill));
    }

    /// One random fault, on something that is well.
    fn strike(&mut self) {
        let redis_is_well = !self.ills.iter().any(|(_, ill)| matches!(ill, Ill::RedisDown | Ill::RedisPaused));
        let replica = self.dice.usize(0..REPLICAS);
        let replica_is_well = !self.ills.iter().any(|(_, ill)| ill.replica() == Some(replica));
        match self.dice.u8(0..15) {
            0..3 if replica_is_well => {
                self.group.replicas[replica].kill();
                self.fall_ill(Ill::ReplicaDown(replica), 2_000);
            }
            3..6 if replica_is_well => {
                self.group.replicas[replica].signal(Signal::STOP);
                self.fall_ill(Ill::ReplicaPaused(replica), 4_000);
            }
            6..9 if replica_is_well => self.terminate(replica),
            9..12 if replica_is_well => {
                let networks = [Network::Cut, Network::Stalled, Network::AnswersLost];
                let network = networks[self.dice.usize(0..networks.len())];
                self.proxies.each[replica].set(network);
                self.fall_ill(Ill::ReplicaCutOff(replica, network), 4_000);
            }
            12..14 if redis_is_well => self.strike_redis(),
            14 if redis_is_well => {
                self.group.redis.pause();
                self.fall_ill(Ill::RedisPaused, 3_000);
            }
            _ => {}
        }
    }

    /// As a rollout does.
    fn terminate(&mut self, replica: usize) {
        self.note(&format!("SIGTERM to replica {replica}"));
        self.group.replicas[replica].signal(Signal::TERM);
        let status = self.group.replicas[replica].wait_end();
        assert_eq!(status.code(), Some(0), "replica {replica} ended badly");
        self.fall_ill(Ill::ReplicaDown(replica), 2_000);
    }

    fn strike_redis(&mut self) {
        let lost = self.dice.bool();
        self.note(if lost { "Redis is killed and loses its data" } else { "Redis is killed and keeps its data" });
        if lost {
            self.group.redis.stop(Data::Lost);
        } else {
            self.group.redis.kill();
        }
        let ms_max = if self.dice.bool() { 100 } else { 3_000 };
        self.fall_ill(Ill::RedisDown, ms_max);
    }

    fn heal(&mut self, ill: Ill) {
        self.note(&format!("{ill:?} is over"));
        match ill {
            Ill::ReplicaDown(replica) => self.group.start_again(replica),
            Ill::ReplicaPaused(replica) => self.group.replicas[replica].signal(Signal::CONT),
            Ill::ReplicaCutOff(replica, _) => self.proxies.each[replica].set(Network::Good),
            Ill::RedisDown => self.group.redis.start_again(),
            Ill::RedisPaused => self.group.redis.resume(),
        }
    }

    fn heal_those_due(&mut self, now: Instant) {
        while let Some(at) = self.ills.iter().position(|(due, _)| *due <= now) {
            let (_, ill) = self.ills.swap_remove(at);
            self.heal(ill);
        }
    }

    fn run(&mut self, span: Duration) {
        let mut next = self.begun;
        while self.begun.elapsed() < span {
            let now = Instant::now();
            self.heal_those_due(now);
            if now >= next {
                self.strike();
                next = now + Duration::from_millis(self.dice.u64(100..1_800));
                // Early, so that what went wrong is near the end of the log.
                let found = self.group.apps.breaches();
                assert!(found.is_empty(), "{}", found.join("\n"));
            }
            last_for(Duration::from_millis(5));
        }
        while let Some((_, ill)) = self.ills.pop() {
            self.heal(ill);
        }
    }
}

#[test]
fn whatever_happens_at_most_one_replica_leads_and_in_the_end_one_does() {
    let seed = from_environment("BATON_CHAOS_SEED").unwrap_or_else(|| fastrand::u64(..));
    let seconds = from_environment("BATON_CHAOS_SECONDS").unwrap_or(SECONDS_DEFAULT);
    let mut chaos = Chaos::new(seed);
    chaos.group.leader();
    chaos.run(Duration::from_secs(seconds));
    let healed_at = Instant::now();
    let last = chaos.group.leader_that("somebody leads in the end", |term| term.until > healed_at);
    let took = last.from.saturating_duration_since(healed_at);
    assert!(took < Lease::SHORT.duration() * 2 + Duration::from_secs(1), "no leader for {took:?} after the last fault");
    let faults = chaos.log.lines.iter().filter(|line| !line.ends_with("over")).count();
    let measured =
        format!("seed {seed}, {seconds} s, {faults} faults, a leader {} ms after the last, ", took.as_millis());
    chaos.group.finish("chaos", &measured);
}
