//! What a run of jobs is about, what happens in it, and what was seen.

use std::collections::BTreeSet;

use baton::protocol::jobs::{
    Ending, JobEvent, JobRequestId, Ledger, LedgerTerm, OpenReply, RunFailure, Slot, Timetable, Wall, WriteReply,
    WriteRequest,
};

use super::world::Nanos;

/// What protects; switched off to show that it is missed.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// A later term shuts the ledger to earlier ones.
    pub fence: bool,
    /// An attempt starts when its claim is written.
    pub confirmed: bool,
    /// What the store lost is restored.
    pub restore: bool,
    /// An interrupted attempt counts.
    pub counted: bool,
    /// Nothing starts without the time to cancel it.
    pub room: bool,
    /// What was asked of a run is taken in, whoever has claimed it.
    pub orders: bool,
    /// The keys of requests for runs are taken in.
    pub keys: bool,
    /// A leader goes by what its predecessor had heard of a pause of all jobs.
    pub pause: bool,
    /// No more attempts go on than there are places.
    pub places: bool,
    /// Backfills that others ask for, and how far they have come, are taken in.
    pub backfills: bool,
    /// Tokens are compared within one role.
    pub roles: bool,
    /// Another role takes a ledger over by a write on what is there; else by a look.
    pub taken_by_writing: bool,
    /// What was decided for good under a clock that was ahead stays so.
    pub leaps: bool,
}

impl Rules {
    pub const ALL: Self = Self {
        fence: true,
        confirmed: true,
        restore: true,
        counted: true,
        room: true,
        orders: true,
        keys: true,
        pause: true,
        places: true,
        backfills: true,
        roles: true,
        taken_by_writing: true,
        leaps: true,
    };
}

/// What a run is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Focus {
    /// Everything.
    All,
    /// Jobs that move between roles, and requests that come late.
    Moves,
    /// Clocks that are days off, under a policy that catches up and a ledger that remembers nothing.
    Clocks,
}

#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    pub seed: u64,
    pub focus: Focus,
    pub rules: Rules,
    pub log: bool,
}

/// What was seen in one run.
#[derive(Debug, Default)]
pub struct Verdict {
    pub complaints: BTreeSet<String>,
    pub first: Option<String>,
    pub log: Vec<String>,
    pub terms: u64,
    pub starts: u64,
    pub ended: u64,
    pub passed: u64,
    pub interrupted: u64,
    pub superseded: u64,
    pub restored: u64,
    pub wishes: u64,
    pub cancelled: u64,
    pub retried: u64,
    pub backfills: u64,
    pub taken_over: u64,
    /// Jobs that stand still in the end because a clock was ahead, of which their leaders have told.
    pub waits: u64,
    /// How often slots were opened again that a clock had passed over.
    pub reopened: u64,
}

impl Verdict {
    pub fn count(&mut self, event: &JobEvent) {
        match event {
            JobEvent::Opened { interrupted } => self.interrupted += *interrupted as u64,
            JobEvent::RunEnded { failure, .. } => {
                self.ended += 1;
                self.cancelled += u64::from(*failure == Some(RunFailure::Cancelled));
            }
            JobEvent::Passed(gap) => self.passed += gap.count,
            JobEvent::Restored => self.restored += 1,
            JobEvent::Superseded { .. } => self.superseded += 1,
            JobEvent::TakenOver { .. } => self.taken_over += 1,
            JobEvent::ClockAhead { reopened: true, .. } => self.reopened += 1,
            _ => {}
        }
    }
}

/// Every so many seconds.
#[derive(Debug)]
pub struct Every(pub u64);

impl Timetable for Every {
    fn next_after(&self, after: Wall) -> Option<Wall> {
        let every = self.0 * 1_000;
        Some(Wall::from_millis((after.as_millis() / every + 1) * every))
    }

    fn name(&self) -> String {
        format!("every {} s", self.0)
    }
}

#[derive(Clone, Debug)]
pub enum Call {
    Open(LedgerTerm),
    Write(Box<WriteRequest<Ledger>>),
}

#[derive(Clone, Debug)]
pub enum Reply {
    Opened(OpenReply<Ledger>),
    Wrote(WriteReply<Ledger>),
}

#[derive(Clone, Copy, Debug)]
pub enum Wish {
    Run,
    /// With this key, which is the same when it is asked for again.
    Keyed(u64),
    Suspend,
    Resume,
    Cancel,
    Retry,
    Backfill,
}

#[derive(Clone, Debug)]
pub enum Happening {
    Tick,
    Renew(usize),
    Wake {
        leader: usize,
        job: usize,
        number: u64,
    },
    Arrives {
        leader: usize,
        job: usize,
        request: JobRequestId,
        call: Call,
        sent_at: Nanos,
        life: u64,
    },
    Answered {
        leader: usize,
        job: usize,
        request: JobRequestId,
        reply: Box<Reply>,
        life: u64,
    },
    TimedOut {
        leader: usize,
        job: usize,
        request: JobRequestId,
        life: u64,
    },
    Ends {
        leader: usize,
        job: usize,
        slot: Slot,
        attempt: u32,
        ending: Ending,
    },
    Guard {
        leader: usize,
        job: usize,
        slot: Slot,
        attempt: u32,
        wanted: Nanos,
    },
    Configured {
        leader: usize,
        job: usize,
    },
    /// The replica reads the configuration as it is now: whose the job is.
    Reloads {
        leader: usize,
        job: usize,
    },
    Changed {
        leader: usize,
        job: usize,
    },
    Wishes {
        job: usize,
    },
    Again {
        job: usize,
        wish: Wish,
    },
    Pauses,
    WishArrives {
        job: usize,
        wish: Wish,
        of: Option<Slot>,
        request: Box<WriteRequest<Ledger>>,
        tries: u32,
    },
    ClockRight(usize),
    Snapshot,
    Fault,
    StoreUp,
    Calm,
}
