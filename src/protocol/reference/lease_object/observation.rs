//! What one replica has seen of one role's object, and since when.

use std::time::Duration;

use super::super::super::ids::{Mono, Token};
use super::record::{LeaseRecord, Mark};

/// Which precautions are taken. All of them, outside the simulation, which switches them off to show what each is
/// worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caution {
    /// A lease ends by the observer's own clock, not by the holder's `renewTime` and the observer's time of day.
    pub own_clock: bool,
    /// An absent object is watched for a whole lease before a new one is made.
    pub absence: bool,
    /// What a create without an answer may have left behind is watched for a whole lease.
    pub doubt: bool,
}

impl Caution {
    /// Every precaution.
    pub const ALL: Self = Self { own_clock: true, absence: true, doubt: true };
}

/// What there is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen {
    /// No object.
    Absent,
    /// An object with this record.
    Present(LeaseRecord),
}

/// Where knowledge comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Asked for at this moment: what it says is at least as new.
    Asked(Mono),
    /// The watch, which may be late.
    Watch,
}

#[derive(Clone, Debug)]
pub struct Observation {
    caution: Caution,
    /// The greatest version known, where versions are numbers.
    version: Option<u64>,
    /// When something was learned last.
    learned_at: Mono,
    seen: Option<Seen>,
    /// Since when it has not changed.
    since: Mono,
    /// When it was last looked at.
    looked_at: Mono,
    /// The record before the object went away.
    lost: Option<LeaseRecord>,
    /// The greatest token seen here.
    top: Token,
    /// What Baton's annotations said last: a person may have written an object without any in its place.
    mark: Option<Mark>,
    /// A create of ours has no answer.
    unanswered: bool,
}

impl Observation {
    /// Absence counts while there are at least so many looks at it in a lease. A look from time to time would not
    /// notice an object that was made and deleted in between.
    pub const LOOKS_PER_LEASE: u32 = 4;

    /// Nothing seen yet.
    pub fn new(caution: Caution) -> Self {
        Self {
            caution,
            version: None,
            learned_at: Mono::default(),
            seen: None,
            since: Mono::default(),
            looked_at: Mono::default(),
            lost: None,
            top: Token::NONE,
            mark: None,
            unanswered: false,
        }
    }

    /// Whether this is newer than what is known; it is known from now on. `version` is the object's; of one that is
    /// missing, that of its deletion, if it was told.
    pub fn admit(&mut self, version: Option<u64>, present: bool, source: Source, now: Mono) -> bool {
        let newer = match (source, version, self.version) {
            // A server that was restored from a backup counts from an earlier version on: who asks after having
            // learned something is told what is.
            (Source::Asked(at), _, _) if at > self.learned_at => true,
            (_, Some(new), Some(known)) => new > known,
            (Source::Asked(_), None, _) => false,
            (Source::Asked(_), Some(_), None) | (Source::Watch, _, _) => true,
        };
        if newer {
            self.learned_at = now;
            // Of a missing object nothing may tell the version: events older than the last known one stay old.
            self.version = version.or(self.version.filter(|_| !present));
        }
        newer
    }

    /// Takes what was read, or what the watch told, at the moment it became known: never at the moment at which the
    /// writer or the server claims that it happened. `lease`: the longest time for which it may be unlooked at while
    /// absent, times [`Self::LOOKS_PER_LEASE`].
    pub fn see(&mut self, seen: Seen, lease: Duration, now: Mono) {
        let unlooked = now.since(self.looked_at);
        self.looked_at = now;
        let lapsed = seen == Seen::Absent && unlooked > lease / Self::LOOKS_PER_LEASE;
        if self.seen.as_ref() == Some(&seen) && !lapsed {
            return;
        }
        self.since = now;
        match &seen {
            Seen::Present(record) => {
                self.top = self.top.max(record.token());
                self.mark = record.mark.clone().or(self.mark.take());
            }
            Seen::Absent => {
                if let Some(Seen::Present(record)) = self.seen.take() {
                    self.lost = Some(record);
                }
            }
        }
        self.seen = Some(seen);
    }

    /// A create was sent and not answered: it may have been done, or be done later.
    pub fn create_unanswered(&mut self) {
        self.unanswered = true;
    }

    /// An update on a known version succeeded: it was this replica's, whatever becomes of a create before it.
    pub fn updated(&mut self) {
        self.unanswered = false;
    }

    /// Whether a create of this replica may still arrive, or have arrived over something that was gone since.
    pub fn unanswered(&self) -> bool {
        self.unanswered && self.caution.doubt
    }

    /// What was seen last; none before the first look.
    pub fn seen(&self) -> Option<&Seen> {
        self.seen.as_ref()
    }

    /// The record that was seen last.
    pub fn record(&self) -> Option<&LeaseRecord> {
        match &self.seen {
            Some(Seen::Present(record)) => Some(record),
            Some(Seen::Absent) | None => None,
        }
    }

    /// The record before the object went away.
    pub(super) fn lost(&self) -> Option<&LeaseRecord> {
        self.lost.as_ref()
    }

    /// What Baton's annotations said last.
    pub(super) fn mark(&self) -> Option<&Mark> {
        self.mark.as_ref()
    }

    /// The greatest token seen here.
    pub fn top(&self) -> Token {
        self.top
    }

    pub(super) fn caution(&self) -> Caution {
        self.caution
    }

    /// For how long it has been so, on this replica's clock.
    pub fn unchanged_for(&self, now: Mono) -> Duration {
        now.since(self.since)
    }
}
