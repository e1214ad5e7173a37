//! What every world of the simulation needs: a queue of what happens when, clocks that are off, and apps.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use baton::protocol::Mono;
use fastrand::Rng;

/// True time since the start, in nanoseconds. Nobody in a world can read it.
pub type Nanos = u64;

pub const MS: Nanos = 1_000_000;
pub const SECOND: Nanos = 1_000 * MS;

/// What happens when. Of what happens at one moment, what was planned first comes first.
#[derive(Debug)]
pub struct Timeline<H> {
    queue: BinaryHeap<Reverse<(Nanos, u64)>>,
    happenings: BTreeMap<u64, H>,
    sequence: u64,
}

impl<H> Timeline<H> {
    pub fn new() -> Self {
        Self { queue: BinaryHeap::new(), happenings: BTreeMap::new(), sequence: 0 }
    }

    pub fn plan(&mut self, when: Nanos, happening: H) {
        self.sequence += 1;
        self.queue.push(Reverse((when, self.sequence)));
        self.happenings.insert(self.sequence, happening);
    }

    /// How much has been planned so far, what has happened included, and how much of it is to come.
    pub fn extent(&self) -> (u64, usize) {
        (self.sequence, self.queue.len())
    }

    /// Takes the next happening that is due before `end`.
    pub fn next(&mut self, end: Nanos) -> Option<(Nanos, H)> {
        let Reverse((when, sequence)) = *self.queue.peek()?;
        if when > end {
            return None;
        }
        self.queue.pop();
        Some((when, self.happenings.remove(&sequence)?))
    }
}

/// A replica's clock: it began long ago and runs up to 1 % fast or slow.
#[derive(Clone, Copy, Debug)]
pub struct LocalClock {
    offset: u64,
    ppm: i64,
}

impl LocalClock {
    pub fn any(rng: &mut Rng) -> Self {
        let ppm = rng.i64(-10_000..=10_000);
        Self { offset: rng.u64(1_000 * SECOND..100_000 * SECOND), ppm }
    }

    /// What it shows at this true time.
    pub fn shows(self, now: Nanos) -> Mono {
        let drift = i128::from(now) * i128::from(self.ppm) / 1_000_000;
        let local = i128::from(self.offset) + i128::from(now) + drift;
        Mono::from_nanos(u64::try_from(local).expect("clocks start far enough from zero"))
    }

    /// The first moment of true time at which it shows `at`, or `now` when it does already.
    pub fn when(self, at: Mono, now: Nanos) -> Nanos {
        let left = i128::from(at.since(self.shows(now)).as_nanos() as u64);
        now + u64::try_from(left * 1_000_000 / i128::from(1_000_000 + self.ppm)).expect("positive") + 1
    }
}

/// How an app asks its sidecar.
#[derive(Clone, Copy, Debug)]
pub enum AppHabit {
    /// At every opportunity: a promise is always outstanding while it leads.
    Always,
    /// Now and then.
    Sometimes,
    /// At every opportunity, and it says `/drained` soon after it has read `leader: false`.
    Drains,
}

impl AppHabit {
    pub fn any(rng: &mut Rng) -> Self {
        match rng.u8(0..4) {
            0 => Self::Sometimes,
            1 => Self::Drains,
            _ => Self::Always,
        }
    }
}
