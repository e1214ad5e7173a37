//! Five masters that know nothing of each other. Any two may fail.

use std::thread::JoinHandle;

use fastrand::Rng;
use testkit::place::Place;
use testkit::redis::{Data, RedisServer};
use testkit::resp::Reply;
use testkit::sidecars::clock::{self, ClockControl};
use testkit::sidecars::replica::{LEASE_KEY, Lease};
use testkit::wait::until;

use crate::fault::Fault;
use crate::one::{STEPS_S, slow_down};
use crate::stage::Stage;

/// How many there are.
pub const MEMBERS: usize = 5;

const ALL: [usize; MEMBERS] = [0, 1, 2, 3, 4];

/// So many of them.
pub fn some(dice: &mut Rng, count: usize) -> Vec<usize> {
    let mut members: Vec<usize> = (0..MEMBERS).collect();
    dice.shuffle(&mut members);
    members.truncate(count);
    members
}

/// See the module.
pub struct QuorumStage {
    members: Vec<RedisServer>,
    /// Only some of them are of the list, and it changes.
    changes: bool,
    /// One a member, if they can be stepped.
    clocks: Vec<ClockControl>,
    hurt: Vec<usize>,
    slow: Vec<JoinHandle<()>>,
}

impl QuorumStage {
    /// Starts them, each at its place. `clocks`: with clocks that can be stepped.
    pub fn start(place: impl Fn(usize) -> Place, clocks: bool, changes: bool) -> Self {
        let library = clock::library().filter(|_| clocks);
        let clocks: Vec<ClockControl> =
            library.iter().flat_map(|_| (0..MEMBERS).map(|_| ClockControl::started())).collect();
        let member = |at: usize| {
            let environment = library.map(|library| clocks[at].environment(library)).unwrap_or_default();
            let pairs: Vec<(&str, &str)> = environment.iter().map(|(name, value)| (&**name, &**value)).collect();
            let options = ["--enable-debug-command", "yes", "--appendonly", "yes"];
            RedisServer::start_at(&place(at), &pairs, &options)
        };
        let members = (0..MEMBERS).map(member).collect();
        Self { members, changes, clocks, hurt: Vec::new(), slow: Vec::new() }
    }

    /// The section `store` with those of two lists.
    fn listed(&self, before: &[usize], after: &[usize]) -> String {
        let member = |at: &usize| {
            let word = match (before.contains(at), after.contains(at)) {
                (true, true) => "",
                (true, false) => ", leaving: true",
                (false, true) => ", joining: true",
                (false, false) => return None,
            };
            Some(format!("{{ url: \"{}\"{word} }}", self.members[*at].url()))
        };
        let members: Vec<String> = ALL.iter().filter_map(member).collect();
        // A campaign takes up to two.
        let timeout_ms = Lease::SHORT.renew * 2 / 5;
        format!("{{ quorum: {{ members: [{}], commandTimeout: {timeout_ms}ms }} }}", members.join(", "))
    }

    fn kill(&mut self, count: usize, data: Data, dice: &mut Rng) -> String {
        self.hurt = some(dice, count);
        for member in &self.hurt {
            match data {
                Data::Kept => self.members[*member].kill(),
                Data::Lost => self.members[*member].stop(Data::Lost),
            }
        }
        format!("members {:?}, their data {}", self.hurt, if data == Data::Kept { "kept" } else { "lost" })
    }

    fn step(&self, dice: &mut Rng) -> String {
        // The others' are right again, so that only one is wrong at a time.
        self.clocks.iter().for_each(|clock| clock.set(0));
        let (member, step) = (dice.usize(0..MEMBERS), STEPS_S[dice.usize(0..STEPS_S.len())]);
        self.clocks[member].set(step);
        format!("member {member}, now {step} s from the right time")
    }

    fn tell_one(&self, words: &[&str], dice: &mut Rng) -> String {
        let member = dice.usize(0..MEMBERS);
        format!("member {member}: {:?}", self.members[member].command(words))
    }
}

impl Stage for QuorumStage {
    fn store(&self) -> String {
        self.store_in(0).unwrap_or_else(|| self.listed(&ALL, &ALL))
    }

    /// One is replaced, two come, two others go, and two are replaced: each by way of both lists.
    fn store_in(&self, step: usize) -> Option<String> {
        const LISTS: [&[usize]; 4] = [&[0, 1, 2], &[0, 1, 3], &ALL, &[2, 3, 4]];
        let (before, after) = (step / 2, step.div_ceil(2));
        self.changes.then(|| self.listed(LISTS[before % LISTS.len()], LISTS[after % LISTS.len()]))
    }

    fn begin(&mut self, fault: Fault, dice: &mut Rng) -> Result<String, String> {
        let count = dice.usize(1..3);
        Ok(match fault {
            Fault::StorePause => {
                self.hurt = some(dice, count);
                self.hurt.iter().for_each(|member| self.members[*member].pause());
                format!("members {:?}", self.hurt)
            }
            Fault::StoreRestart => self.kill(count, Data::Kept, dice),
            Fault::StoreLoss => self.kill(count, Data::Lost, dice),
            Fault::Majority => {
                let data = if dice.bool() { Data::Kept } else { Data::Lost };
                self.kill(MEMBERS / 2 + 1, data, dice)
            }
            Fault::Flush => self.tell_one(&["FLUSHALL"], dice),
            Fault::Delete => self.tell_one(&["DEL", LEASE_KEY], dice),
            Fault::Clock => self.step(dice),
            Fault::Slow => {
                let slowed: Vec<String> = some(dice, count)
                    .into_iter()
                    .map(|member| {
                        format!("member {member}: {}", slow_down(&self.members[member], dice, &mut self.slow))
                    })
                    .collect();
                slowed.join(", ")
            }
            other => unreachable!("a quorum has no {other:?}"),
        })
    }

    fn end(&mut self, fault: Fault) {
        let hurt = std::mem::take(&mut self.hurt);
        match fault {
            Fault::StorePause => hurt.iter().for_each(|member| self.members[*member].resume()),
            Fault::StoreRestart | Fault::StoreLoss | Fault::Majority => {
                hurt.iter().for_each(|member| self.members[*member].start_again());
            }
            Fault::Slow => self.slow.drain(..).for_each(|thread| thread.join().expect("it does not panic")),
            _ => {}
        }
    }

    fn to_cut_off(&self, dice: &mut Rng) -> Vec<usize> {
        let count = dice.usize(1..3);
        some(dice, count)
    }

    fn settle(&mut self) {
        let answers = |member: &RedisServer| matches!(member.command(&["PING"]), Reply::Text(_));
        until("every member answers", || self.members.iter().all(answers));
    }
}
