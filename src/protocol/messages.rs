//! What a replica and the store say to each other. Every request is one atomic step on the store.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::ids::{Attempt, Candidate, SessionId, StoreTime, Token};

/// A reply with the store's clock at the moment it answered.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Stamped<T> {
    pub reply: T,
    /// The store's clock when it answered. For reporting steps of that clock; nothing is timed by it.
    pub store_time: StoreTime,
}

impl<T> Stamped<T> {
    /// The same moment, and the reply in other words.
    pub fn map<R>(self, words: impl FnOnce(T) -> R) -> Stamped<R> {
        Stamped { reply: words(self.reply), store_time: self.store_time }
    }
}

/// Which state of a role's record this is: another after every grant, renewal and release, and after a guard has begun
/// (R5). One part alone would not tell: both sides of a split may count alike, and even give the same token, where the
/// clock is behind both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RecordVersion {
    /// The last term's token.
    pub token: Token,
    /// How many grants, renewals and releases there have been.
    pub count: u64,
    /// Who had the last term; none since a guard began that nobody has written after.
    pub writer: Option<SessionId>,
}

/// What a candidate last knew of a role's record, and how long ago (R5 *vanished*).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct KnownRecord {
    /// What it saw or heard.
    pub version: RecordVersion,
    /// Time since then on the candidate's own clock.
    pub age: Duration,
    /// Time since it first knew just this version, on the same clock: for that long nobody has renewed.
    pub unchanged_for: Duration,
    /// For how much longer the lease that it knew of should stand, as far as it can tell: after a heartbeat a whole
    /// lease, less the time since and some slack. Zero when it knows of none. A lease that is gone earlier,
    /// without a release, vanished.
    pub remaining: Duration,
}

/// Who has a lease, as far as the store tells.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Holder {
    /// The process that has it.
    pub session: SessionId,
    /// Its name for people: the pod's name as a rule. Never decides anything.
    pub identity: Arc<str>,
}

/// R1: asks for the lease.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CampaignRequest {
    pub candidate: Candidate,
    /// The asker's name for people.
    pub identity: Arc<str>,
    /// How long the lease shall last when granted.
    pub lease_duration: Duration,
    /// The greatest token this replica ever saw (R3).
    pub floor: Token,
    /// What it knows of the record.
    pub knowledge: Option<KnownRecord>,
    /// The last term that it knows to be over, by its release or the end of its process: a quorum's member that has
    /// not heard of that yet does not keep others out for it.
    pub released: Option<(SessionId, Token)>,
    /// False for `guard: off`: R5 is not asked for.
    pub guard: bool,
}

/// The answer to a [`CampaignRequest`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum CampaignReply {
    /// The lease is the candidate's, under this token.
    Granted { token: Token, count: u64 },
    /// Another has it, under this token.
    Held { holder: Holder, token: Token, remaining: Duration, version: RecordVersion },
    /// R5 holds the role shut for new grants.
    Guarded { cause: GuardCause, remaining: Duration, version: RecordVersion },
    /// The role was not released, and this candidate has not known the record to stand still for so long (R5): it shall
    /// ask again when it has.
    LookAgain { version: RecordVersion, span: Duration },
    /// A quorum only: the members did not agree on anybody, because others campaign too or some do not answer. What was
    /// granted is taken back; come again after a random pause. `after`: first let another try that is ahead, for as
    /// long as its grants stand at most.
    Divided { token: Token, after: Option<Duration> },
    /// The attempt is over already: a later attempt of the session has the lease, or this one released it. Only a
    /// request that was delayed on its way is answered so.
    Stale { token: Token, count: u64 },
}

impl CampaignReply {
    /// Who has the lease, if another has.
    pub(super) fn holder(&self) -> Option<SessionId> {
        match self {
            Self::Held { holder, .. } => Some(holder.session),
            Self::Granted { .. }
            | Self::Guarded { .. }
            | Self::LookAgain { .. }
            | Self::Divided { .. }
            | Self::Stale { .. } => None,
        }
    }
}

/// Why R5 holds a role shut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum GuardCause {
    /// The record was written under another generation of the server: a restart, a failover, or a replica that came.
    Generation,
    /// There is no record: everything was lost, or this is the role's first election.
    Empty,
    /// The record's token is below one that a replica has seen.
    Regression,
    /// The lease is gone without a release although it was renewed a moment ago.
    Vanished,
}

impl GuardCause {
    /// Every cause, for registering series at zero.
    pub const ALL: [Self; 4] = [Self::Generation, Self::Empty, Self::Regression, Self::Vanished];

    /// The word in metrics, messages and keys.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Generation => "generation",
            Self::Empty => "empty",
            Self::Regression => "regression",
            Self::Vanished => "vanished",
        }
    }

    /// The cause with this word.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|cause| cause.as_str() == word)
    }
}

impl fmt::Display for GuardCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Extends the lease, or puts it back when the store lost it (R4).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RenewRequest {
    /// The incumbent.
    pub candidate: Candidate,
    /// Its name for people.
    pub identity: Arc<str>,
    /// The token of its term.
    pub token: Token,
    /// The renewal count as the incumbent knows it.
    pub count: u64,
    /// How long the lease shall last from now.
    pub lease_duration: Duration,
    /// How many listened to the last heartbeat: passed on, so that candidates spread their wake-ups (R8).
    pub audience: u32,
    /// False for `guard: off`.
    pub guard: bool,
}

/// The answer to a [`RenewRequest`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum RenewReply {
    /// Extended. `reasserted` when the store had lost the lease (R4). `audience`: how many heard the heartbeat.
    Renewed { count: u64, reasserted: bool, audience: u32 },
    /// The term is over: another's lease, a later token, or a release.
    Lost { token: Token, holder: Option<Holder> },
}

/// R7: compare-and-delete.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ReleaseRequest {
    /// Whose lease. [`Attempt::ANY`] when another asks in the place of a process that has ended: session and token
    /// name the term alone then.
    pub candidate: Candidate,
    /// Its token; [`Token::NONE`] when the reply that would have told it never came: session and attempt name the
    /// lease alone. One of the two must be told.
    pub token: Token,
    /// How many listened to the last heartbeat.
    pub audience: u32,
}

impl ReleaseRequest {
    /// Whether this candidate's lease is meant, if the token fits as well.
    pub fn is_of(&self, holder: Candidate) -> bool {
        let any = self.candidate.attempt == Attempt::ANY && self.token != Token::NONE;
        holder.session == self.candidate.session && (any || holder.attempt == self.candidate.attempt)
    }
}

/// The answer to a [`ReleaseRequest`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReleaseReply {
    /// The lease was the candidate's and is free now.
    Released,
    /// It was not the candidate's (any more); nothing changed.
    NotHeld,
}

/// What the store publishes with every change of a lease (R8).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Announcement {
    pub kind: AnnouncementKind,
    pub token: Token,
    /// The renewal count after it.
    pub count: u64,
    pub holder: Holder,
    /// How many listened last time.
    pub audience: u32,
}

/// What an [`Announcement`] is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AnnouncementKind {
    /// A new term began.
    Grant,
    /// A lease was renewed or put back: the heartbeat.
    Heartbeat,
    /// A lease was released.
    Release,
}

impl AnnouncementKind {
    /// The word in the message.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Grant => "grant",
            Self::Heartbeat => "heartbeat",
            Self::Release => "release",
        }
    }

    /// The kind with this word.
    pub fn parse(word: &str) -> Option<Self> {
        [Self::Grant, Self::Heartbeat, Self::Release].into_iter().find(|kind| kind.as_str() == word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_and_kinds_are_what_their_words_say_and_other_words_are_none() {
        for cause in GuardCause::ALL {
            assert_eq!(GuardCause::parse(cause.as_str()), Some(cause));
        }
        for kind in [AnnouncementKind::Grant, AnnouncementKind::Heartbeat, AnnouncementKind::Release] {
            assert_eq!(AnnouncementKind::parse(kind.as_str()), Some(kind));
        }
        assert_eq!((GuardCause::parse("grant"), AnnouncementKind::parse("empty")), (None, None));
    }

    #[test]
    fn only_a_lease_that_another_has_has_a_holder() {
        let session = SessionId::from_u128(1);
        let version = RecordVersion { token: Token::NONE, count: 0, writer: None };
        let holder = Holder { session, identity: Arc::from("pod-1") };
        let held = CampaignReply::Held { holder, token: Token::NONE, remaining: Duration::ZERO, version };
        assert_eq!(held.holder(), Some(session));
        assert_eq!(CampaignReply::Granted { token: Token::NONE, count: 1 }.holder(), None);
    }
}
