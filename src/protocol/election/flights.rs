//! The requests that are out.

use super::super::ids::{Attempt, Mono};

/// Ties a reply to its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub(super) u64);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    Campaign,
    Renew,
    Release,
    /// A release in the place of another.
    Vacate,
}

#[derive(Clone, Copy, Debug, Hash)]
pub(super) struct Flight {
    id: RequestId,
    kind: Kind,
    pub(super) attempt: Attempt,
    pub(super) sent_at: Mono,
}

#[derive(Clone, Debug, Default, Hash)]
pub(super) struct Flights {
    out: Vec<Flight>,
    /// How many there have been.
    sent: u64,
}

impl Flights {
    /// A request goes out now. The deadline it may earn is counted from here (R2).
    pub(super) fn depart(&mut self, now: Mono, kind: Kind, attempt: Attempt) -> RequestId {
        self.sent += 1;
        let id = RequestId(self.sent);
        self.out.push(Flight { id, kind, attempt, sent_at: now });
        id
    }

    /// None for an answer that was not asked for, or came twice.
    pub(super) fn arrive(&mut self, id: RequestId, kind: Kind) -> Option<Flight> {
        let at = self.out.iter().position(|flight| flight.id == id && flight.kind == kind)?;
        Some(self.out.swap_remove(at))
    }

    pub(super) fn has(&self, kind: Kind, attempt: Attempt) -> bool {
        self.out.iter().any(|flight| flight.kind == kind && flight.attempt == attempt)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.out.is_empty()
    }
}
