//! One Redis.

use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use fastrand::Rng;
use testkit::place::Place;
use testkit::profile::{Front, Recording};
use testkit::redis::{Data, RedisServer};
use testkit::resp::Reply;
use testkit::sidecars::clock::{self, ClockControl};
use testkit::sidecars::replica::LEASE_KEY;
use testkit::wait::until;

use crate::fault::Fault;
use crate::run::Plan;
use crate::stage::Stage;
use crate::traced::{self, Befell, wall_us};

/// How far its clock is stepped, in seconds from the right time.
pub const STEPS_S: [i64; 8] = [1, -1, 3, -3, 30, -30, 3_600, -3_600];

/// See the module.
pub struct OneRedis {
    redis: RedisServer,
    guard: &'static str,
    /// What stands before it, where that is a service, or where what passes is recorded.
    front: Option<Front>,
    recording: Option<Recording>,
    befell: Vec<(u64, Befell)>,
    clock: Option<ClockControl>,
    slow: Vec<JoinHandle<()>>,
}

impl OneRedis {
    /// Starts what a plan wants: with a clock that can be stepped, behind what a service refuses, or behind a recorder.
    pub fn start(place: &Place, plan: &Plan, durable: bool, guard: &'static str) -> Self {
        let (clock, service) = (plan.fault == Fault::Clock, plan.service);
        let options = ["--enable-debug-command", "yes", "--appendonly", if durable { "yes" } else { "no" }];
        let clock = clock.then(ClockControl::started);
        let environment = clock.as_ref().zip(clock::library()).map(|(clock, library)| clock.environment(library));
        let environment = environment.unwrap_or_default();
        let pairs: Vec<(&str, &str)> = environment.iter().map(|(name, value)| (&**name, &**value)).collect();
        let redis = RedisServer::start_at(place, &pairs, &options);
        let (front, recording) = match service {
            Some(service) => (Some(Front::start(place, &[redis.port()], service.profile)), None),
            None if plan.recorded => {
                let (front, recording) = Front::recording(place, redis.port());
                (Some(front), Some(recording))
            }
            None => (None, None),
        };
        Self { redis, guard, front, recording, befell: Vec::new(), clock, slow: Vec::new() }
    }

    /// A command, and when it is done by the server's clock.
    fn at_one_moment(&mut self, words: &[&str], befell: Befell) {
        let mut connection = self.redis.connect().expect("the test's Redis answers");
        let mut command = |words: &[&str]| connection.command(words).expect("the test's Redis answers");
        command(&["MULTI"]);
        command(&["TIME"]);
        command(words);
        let Reply::List(done) = command(&["EXEC"]) else { panic!("{words:?}: it was not done") };
        let clock: Vec<u64> = done[0].clone().texts().iter().map(|word| word.parse().expect("a number")).collect();
        self.befell.push((clock[0] * 1_000_000 + clock[1], befell));
    }

    fn evict(&self) -> String {
        set(&self.redis, "maxmemory-policy", "allkeys-random");
        let used = self.redis.command(&["INFO", "memory"]).text();
        let used = used.lines().find_map(|line| line.strip_prefix("used_memory:")?.parse::<u64>().ok());
        set(&self.redis, "maxmemory", &(used.unwrap_or(1_000_000) + 300_000).to_string());
        let begun = Instant::now();
        let (filler, mut written) = ("x".repeat(4_096), 0_u32);
        while self.redis.command(&["EXISTS", LEASE_KEY]) == Reply::Number(1) && begun.elapsed() < EVICTING_MAX {
            // Refused when there is nothing left to evict, which is as good.
            self.redis.command(&["SET", &format!("filler:{written}"), &filler]);
            written += 1;
        }
        format!("the lease was evicted by {written} other keys")
    }
}

/// Far longer than it takes to fill what is left.
const EVICTING_MAX: Duration = Duration::from_secs(2);

/// `CONFIG SET`.
pub fn set(redis: &RedisServer, key: &str, value: &str) {
    assert_eq!(redis.command(&["CONFIG", "SET", key, value]), Reply::Text("OK".to_owned()), "{key} {value}");
}

/// Keeps a Redis busy for so long, by a command or by a script; the thread ends with it.
pub fn slow_down(redis: &RedisServer, dice: &mut Rng, slow: &mut Vec<JoinHandle<()>>) -> String {
    let mut connection = redis.connect().expect("the test's Redis answers");
    let (ms, script) = (dice.u64(100..3_000), dice.bool());
    let words = if script {
        // A script sees the clock stand still, so that it can only count.
        let rounds = (ms * ROUNDS_PER_MS).to_string();
        ["EVAL".to_owned(), "for i = 1, ARGV[1] do end".to_owned(), "0".to_owned(), rounds].to_vec()
    } else {
        ["DEBUG".to_owned(), "SLEEP".to_owned(), format!("{:.3}", ms as f64 / 1_000.0)].to_vec()
    };
    slow.push(thread::spawn(move || {
        // Fails when the server is killed first, which ends it as well.
        let _ = connection.command(&words.iter().map(String::as_str).collect::<Vec<_>>());
    }));
    format!("{} for about {ms} ms", if script { "a script" } else { "DEBUG SLEEP" })
}

/// Of an empty loop in Lua, roughly.
const ROUNDS_PER_MS: u64 = 60_000;

impl Stage for OneRedis {
    fn store(&self) -> String {
        let url = self.front.as_ref().map_or_else(|| self.redis.url(), Front::url);
        let guard = self.guard;
        format!("{{ redis: {{ url: \"{url}\", commandTimeout: 400ms, guard: {guard} }} }}")
    }

    fn begin(&mut self, fault: Fault, dice: &mut Rng) -> Result<String, String> {
        match fault {
            Fault::StorePause => self.redis.pause(),
            Fault::StoreRestart => {
                self.redis.kill();
                self.befell.push((wall_us(), Befell::Killed));
            }
            Fault::StoreLoss => {
                self.redis.stop(Data::Lost);
                self.befell.extend([Befell::Killed, Befell::Forgotten].map(|befell| (wall_us(), befell)));
            }
            Fault::Flush => self.at_one_moment(&["FLUSHALL"], Befell::Forgotten),
            Fault::Delete => self.at_one_moment(&["DEL", LEASE_KEY], Befell::Deleted),
            Fault::Evict => return Ok(self.evict()),
            Fault::Full => {
                set(&self.redis, "maxmemory-policy", "noeviction");
                set(&self.redis, "maxmemory", "1");
            }
            Fault::Clock => {
                let step = STEPS_S[dice.usize(0..STEPS_S.len())];
                self.clock.as_ref().expect("it was asked for").set(step);
                return Ok(format!("now {step} s from the right time"));
            }
            Fault::Slow => return Ok(slow_down(&self.redis, dice, &mut self.slow)),
            other => unreachable!("one Redis has no {other:?}"),
        }
        Ok(String::new())
    }

    fn end(&mut self, fault: Fault) {
        match fault {
            Fault::StorePause => self.redis.resume(),
            Fault::StoreRestart | Fault::StoreLoss => self.redis.start_again(),
            Fault::Evict | Fault::Full => {
                set(&self.redis, "maxmemory", "0");
                self.redis.command(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]);
            }
            Fault::Slow => self.slow.drain(..).for_each(|thread| thread.join().expect("it does not panic")),
            _ => {}
        }
    }

    fn to_cut_off(&self, _: &mut Rng) -> Vec<usize> {
        vec![0]
    }

    fn trace(&self) -> Vec<String> {
        let recorded = self.recording.as_ref().map(|kept| kept.lock().expect("no panic while it is held").clone());
        recorded.map_or_else(Vec::new, |recorded| traced::lines(&recorded, &self.befell))
    }

    fn settle(&mut self) {
        until("Redis answers", || matches!(self.redis.command(&["PING"]), Reply::Text(_)));
    }
}
