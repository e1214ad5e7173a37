//! Who takes part in a sharded role, and what each leads: the store's side. The reference for `presence.lua`.

use std::collections::BTreeMap;
use std::time::Duration;

use super::super::ids::{SessionId, StoreTime};
use super::super::shards::{Rank, ShardSet};

/// What a replica says of itself. Nothing that must be safe rests on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Portion {
    /// The shards it leads.
    pub leads: ShardSet,
    /// The shards that it would not take now: it resigned them, or is handing them over.
    pub shuns: ShardSet,
    /// What it is preferred by; none in a role that is split.
    pub rank: Option<Rank>,
}

/// A replica's sign of life, and its question who else there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PresenceRequest {
    pub session: SessionId,
    /// What it says; none when it takes no part (any more): its app is unwell, or it ends.
    pub portion: Option<Portion>,
    /// How long that stands unless it is repeated.
    pub span: Duration,
}

/// One of those that take part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Participant {
    pub session: SessionId,
    /// What it last said.
    pub portion: Portion,
}

#[derive(Clone, Copy, Debug)]
struct Sign {
    at: StoreTime,
    span: Duration,
    portion: Portion,
}

impl Sign {
    /// A sign from the future was given before this clock was stepped back: its sender gives another soon.
    fn stands(&self, now: StoreTime) -> bool {
        self.at <= now && now < self.at.plus(self.span)
    }
}

#[derive(Clone, Debug, Default)]
pub struct Presence(BTreeMap<SessionId, Sign>);

impl Presence {
    /// One atomic step: notes what this replica says, forgets whose time is over, and tells who takes part, in the
    /// order of their sessions.
    pub fn note(&mut self, now: StoreTime, request: &PresenceRequest) -> Vec<Participant> {
        match request.portion {
            Some(portion) => drop(self.0.insert(request.session, Sign { at: now, span: request.span, portion })),
            None => drop(self.0.remove(&request.session)),
        }
        self.0.retain(|_, sign| sign.stands(now));
        self.0.iter().map(|(session, sign)| Participant { session: *session, portion: sign.portion }).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPAN: Duration = Duration::from_micros(100);

    fn note(presence: &mut Presence, now: u64, session: u128, says: bool) -> Vec<u128> {
        let session = SessionId::from_u128(session);
        let portion = says.then(Portion::default);
        let members = presence.note(StoreTime(now), &PresenceRequest { session, portion, span: SPAN });
        members
            .iter()
            .map(|member| (1..9).find(|bits| SessionId::from_u128(*bits) == member.session).unwrap())
            .collect()
    }

    #[test]
    fn those_are_present_that_said_so_within_their_span() {
        let mut presence = Presence::default();
        assert_eq!(note(&mut presence, 1_000, 2, true), [2]);
        assert_eq!(note(&mut presence, 1_050, 1, true), [1, 2]);
        assert_eq!(note(&mut presence, 1_099, 1, true), [1, 2]);
        assert_eq!(note(&mut presence, 1_100, 1, true), [1], "its time is over");
        assert_eq!(note(&mut presence, 1_110, 2, true), [1, 2]);
        assert_eq!(note(&mut presence, 1_120, 2, false), [1], "who leaves is gone at once");
        assert_eq!(note(&mut presence, 1_050, 3, true), [3], "the clock was stepped back: others say so again soon");
    }
}
