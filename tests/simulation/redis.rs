//! One Redis server as replication sees it: its history, whom it follows, who follows it and how far they are.

use std::collections::VecDeque;
use std::ops::{Deref, DerefMut};

use baton::protocol::{LeaseCell, Rules, StoreTime};

use crate::clockwork::{Nanos, SECOND};
use crate::network::Exchange;
use crate::scenario::Mark;

/// How long a history of itself a server keeps, for restarts that lose the end of it: longer than any guard, as what a
/// replica has on its disk may be as old as its last full synchronisation.
pub const SAVED: Nanos = 30 * SECOND;

/// A replica that is linked to its master.
#[derive(Clone, Copy, Debug)]
pub struct Attached {
    pub server: usize,
    /// Which link this is.
    pub link: u64,
    /// How far it says that it is; nothing before its first word.
    pub acked: Option<u64>,
    /// What is sent arrives in order: not before this.
    pub arrives_from: Nanos,
}

/// A `WAIT` that is not over.
#[derive(Clone, Debug)]
pub struct Waiting {
    pub number: u64,
    pub exchange: Box<Exchange>,
}

/// What a server keeps of the role, and after which line of the run's trace it did.
#[derive(Clone, Debug)]
pub struct Kept {
    cell: LeaseCell,
    pub step: usize,
}

impl Kept {
    fn nothing(rules: Rules) -> Self {
        Self { cell: LeaseCell::new(rules), step: 0 }
    }

    pub fn forget(&mut self) {
        self.cell.forget();
        self.step = 0;
    }
}

impl Deref for Kept {
    type Target = LeaseCell;

    fn deref(&self) -> &LeaseCell {
        &self.cell
    }
}

impl DerefMut for Kept {
    fn deref_mut(&mut self) -> &mut LeaseCell {
        &mut self.cell
    }
}

/// What a server has on its disk.
#[derive(Clone, Debug)]
struct Saved {
    at: Nanos,
    replid: u64,
    before: Option<(u64, u64)>,
    offset: u64,
    cell: Kept,
}

#[derive(Clone, Debug)]
pub struct Redis {
    pub cell: Kept,
    pub up: bool,
    /// It never comes back.
    pub gone: bool,
    /// It stands still; what waits in its sockets it does afterwards.
    pub frozen_until: Nanos,
    /// The other servers cannot reach it.
    pub alone_until: Nanos,
    /// As a replica, it applies nothing of what comes.
    pub stalled_until: Nanos,
    pub skew_us: i64,
    /// Changes with whatever breaks connections to it: a stop, a start, a change of its role.
    pub epoch: u64,
    /// None for a master.
    pub follows: Option<usize>,
    /// Its last link to a master; what is on its way there still arrives when the link is broken.
    pub link: Option<u64>,
    pub attached: Vec<Attached>,
    pub waits: Vec<Waiting>,
    pub born: i128,
    /// How many writes its history has.
    pub offset: u64,
    /// A new one for every process.
    run_id: u64,
    /// Which history it is: `master_replid`.
    replid: u64,
    /// `master_replid2`, and up to which offset that history is this one, too.
    before: Option<(u64, u64)>,
    sync_full: u64,
    sync_partial: u64,
    saved: VecDeque<Saved>,
    mark: Mark,
    generation: String,
}

impl Redis {
    pub fn new(rules: Rules, mark: Mark, id: u64) -> Self {
        let mut new = Self {
            cell: Kept::nothing(rules),
            up: true,
            gone: false,
            frozen_until: 0,
            alone_until: 0,
            stalled_until: 0,
            skew_us: 0,
            epoch: 0,
            follows: None,
            link: None,
            attached: Vec::new(),
            waits: Vec::new(),
            born: -i128::from(100 * SECOND),
            offset: 0,
            run_id: id,
            replid: id,
            before: None,
            sync_full: 0,
            sync_partial: 0,
            saved: VecDeque::new(),
            mark,
            generation: String::new(),
        };
        new.write_generation();
        new
    }

    /// What its scripts are told of which server, and which history, this is.
    pub fn generation(&self) -> &str {
        &self.generation
    }

    fn write_generation(&mut self) {
        // As different from each other as Redis makes them.
        let replid = format!("{:016x}", self.replid.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        self.generation = match self.mark {
            Mark::RunId => self.run_id.to_string(),
            Mark::Replid => replid,
            Mark::Unasked => String::new(),
            Mark::ReplidAndFullSyncs => format!("{replid}/{}", self.sync_full),
            Mark::ReplidAndSyncs => format!("{replid}/{}", self.sync_full + self.sync_partial),
        };
    }

    pub fn is_master(&self) -> bool {
        self.up && self.follows.is_none()
    }

    /// Another history begins here; `id` names it.
    pub fn shift(&mut self, id: u64) {
        self.before = Some((self.replid, self.offset));
        self.replid = id;
        self.write_generation();
    }

    /// A process of another name starts with this state.
    pub fn starts_as(&mut self, id: u64, now: Nanos) {
        self.run_id = id;
        self.born = i128::from(now);
        (self.sync_full, self.sync_partial) = (0, 0);
        self.write_generation();
    }

    /// It wrote; whoever restarts it may find this on its disk.
    pub fn wrote(&mut self, now: Nanos) {
        self.offset += 1;
        self.save(now);
    }

    fn save(&mut self, now: Nanos) {
        while self.saved.get(1).is_some_and(|next| next.at + SAVED < now) {
            self.saved.pop_front();
        }
        let (replid, before, offset) = (self.replid, self.before, self.offset);
        self.saved.push_back(Saved { at: now, replid, before, offset, cell: self.cell.clone() });
    }

    /// What was on its disk then; nothing when that is longer ago than its history.
    pub fn restore(&mut self, then: Nanos) {
        while self.saved.back().is_some_and(|last| last.at > then) {
            self.saved.pop_back();
        }
        if let Some(last) = self.saved.back() {
            (self.replid, self.before, self.offset) = (last.replid, last.before, last.offset);
            self.cell = last.cell.clone();
        }
    }

    /// Nothing was on its disk.
    pub fn empties(&mut self) {
        self.cell.forget();
        self.saved.clear();
    }

    /// What it was part of before is not written there either.
    pub fn forgets_its_history(&mut self, id: u64) {
        (self.replid, self.before) = (id, None);
        self.write_generation();
    }

    /// What its own clock shows.
    pub fn shows(&self, now: Nanos) -> StoreTime {
        let wall = 1_700_000_000_000_000 + i128::from(now / 1_000) + i128::from(self.skew_us);
        StoreTime(u64::try_from(wall).expect("after 1970"))
    }

    /// Whether a replica with this history may go on from where it is, as `PSYNC` asks.
    pub fn continues(&self, replica: &Self) -> bool {
        let mine = replica.replid == self.replid && replica.offset <= self.offset;
        let earlier = self.before.is_some_and(|(id, until)| id == replica.replid && replica.offset <= until);
        mine || earlier
    }

    /// A replica comes.
    pub fn serve_sync(&mut self, full: bool) {
        *(if full { &mut self.sync_full } else { &mut self.sync_partial }) += 1;
        self.write_generation();
    }

    /// It goes on in this master's history, from where it is.
    pub fn goes_on_in(&mut self, master_replid: u64) {
        if self.replid != master_replid {
            self.before = Some((self.replid, self.offset));
            self.replid = master_replid;
        }
    }

    /// It takes over what a master sent.
    pub fn takes_over(&mut self, replid: u64, full: bool, offset: u64, cell: Kept, now: Nanos) {
        if full {
            (self.replid, self.before) = (replid, None);
        }
        (self.offset, self.cell) = (offset, cell);
        self.save(now);
    }

    pub fn replid(&self) -> u64 {
        self.replid
    }

    /// How many replicas say that they have so much.
    pub fn acknowledgements(&self, offset: u64) -> usize {
        self.attached.iter().filter(|replica| replica.acked.is_some_and(|acked| acked >= offset)).count()
    }
}
