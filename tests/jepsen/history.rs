//! What the workers told, as operations for the judge.
//!
//! A library that says yes at two moments and no in between has told its caller that it holds the lock all that time: a
//! hold is from when the first yes was read to when the last one was asked for, or until the end of the claim, where
//! the library tells that. That is the least that was promised, so two holds that overlap are two holders, however slow
//! a process or this machine was.

use std::collections::BTreeMap;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

/// A line of a worker; times are of [`now_ns`].
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(tag = "is", rename_all = "lowercase")]
pub enum Event {
    /// The library says that it holds the lock; until when, where it tells.
    Held { call: u64, back: u64, until: Option<u64> },
    /// It says that it does not.
    Lost { call: u64 },
    /// An increment that was read for at `call` is about to be written.
    Begin { call: u64, epoch: usize, plain: u64, fenced: Option<u64> },
    /// It was written; whether to the fenced register, too.
    End { back: u64, accepted: bool },
}

/// Who told what. A client is one start of a worker.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    pub client: usize,
    pub event: Event,
}

/// The time of one fault.
#[derive(Clone, Copy, Debug)]
pub struct Epoch {
    pub number: usize,
    pub from: u64,
    pub to: u64,
}

/// As the judge reads it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Operation {
    pub history: String,
    pub client: usize,
    pub call: u64,
    #[serde(rename = "return")]
    pub back: u64,
    pub kind: &'static str,
    pub read: u64,
}

/// When something that did not return returns. The judge counts in 63 bits.
const NEVER: u64 = i64::MAX as u64;

/// The machine's monotonic clock, which every process reads alike, in nanoseconds.
pub fn now_ns() -> u64 {
    let now = Duration::try_from(clock_gettime(ClockId::Monotonic)).expect("time since the machine's start");
    u64::try_from(now.as_nanos()).expect("less than centuries")
}

/// All of it. `killed`: when a client was.
pub fn operations(entries: &[Entry], epochs: &[Epoch], killed: &BTreeMap<usize, u64>) -> Vec<Operation> {
    let mut of_clients: BTreeMap<usize, Vec<Event>> = BTreeMap::new();
    for Entry { client, event } in entries {
        of_clients.entry(*client).or_default().push(*event);
    }
    let mut all = Vec::new();
    for (client, events) in &of_clients {
        let killed = killed.get(client).copied().unwrap_or(NEVER);
        epochs.iter().for_each(|epoch| holds(*client, events, *epoch, killed, &mut all));
        increments(*client, events, &mut all);
    }
    all
}

fn holds(client: usize, events: &[Event], epoch: Epoch, killed: u64, all: &mut Vec<Operation>) {
    let mut since = epoch.from;
    // When the first yes was read, and how long it is held at the least.
    let mut term: Option<(u64, u64)> = None;
    let mut close = |term: Option<(u64, u64)>| {
        let Some((first, last)) = term else { return };
        let operation = |kind, call, back| {
            let history = format!("{} lock", epoch.number);
            Operation { history, client, call, back, kind, read: 0 }
        };
        let last = last.min(killed);
        all.push(operation("acquire", since.min(first), first));
        all.push(operation("release", last, NEVER));
        since = last;
    };
    for event in events {
        match *event {
            Event::Held { call, back, until } if (epoch.from..epoch.to).contains(&call) => {
                let last = until.unwrap_or(call);
                term = Some(term.map_or((back, last), |(first, longest)| (first, longest.max(last))));
            }
            Event::Lost { call } if (epoch.from..epoch.to).contains(&call) => close(term.take()),
            _ => {}
        }
    }
    close(term);
}

fn increments(client: usize, events: &[Event], all: &mut Vec<Operation>) {
    let steps = events.iter().filter(|event| matches!(event, Event::Begin { .. } | Event::End { .. }));
    let steps: Vec<Event> = steps.copied().collect();
    for (at, event) in steps.iter().enumerate() {
        let Event::Begin { call, epoch, plain, fenced } = *event else { continue };
        let ended = match steps.get(at + 1) {
            Some(Event::End { back, accepted }) => Some((*back, *accepted)),
            _ => None,
        };
        let mut push = |register: &str, read| {
            let (kind, back) = ended.map_or(("perhaps", NEVER), |(back, _)| ("increment", back));
            all.push(Operation { history: format!("{epoch} {register}"), client, call, back, kind, read });
        };
        push("plain", plain);
        if let Some(read) = fenced.filter(|_| ended.is_none_or(|(_, accepted)| accepted)) {
            push("fenced", read);
        }
    }
}

/// The longest time of an epoch in which nobody was told that it holds the lock.
pub fn longest_without(entries: &[Entry], epoch: Epoch) -> Duration {
    let held = entries.iter().filter_map(|entry| match entry.event {
        Event::Held { call, .. } => Some(call),
        Event::Lost { .. } | Event::Begin { .. } | Event::End { .. } => None,
    });
    let mut moments: Vec<u64> = held.filter(|call| (epoch.from..epoch.to).contains(call)).collect();
    moments.extend([epoch.from, epoch.to]);
    moments.sort_unstable();
    Duration::from_nanos(moments.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or_default())
}
