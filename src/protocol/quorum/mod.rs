//! A lease on several independent masters: Redlock made fenceable.
//!
//! No member knows of the others. Each keeps a [`MemberCell`]; a [`Round`] on the replica's side asks all of them and
//! counts. Three things close what Redlock leaves open:
//!
//! * **Confirmation.** Each member grants a token of its own, so the greatest one, T, is the term's; then every granter
//!   is raised to T. Only a majority that was raised makes a leader, so any two terms share a member that has seen the
//!   first one's token.
//! * **Objection.** A member that reports a live, confirmed lease of another vetoes the grant, however many others
//!   granted: a member whose clock stepped, or that lost the lease, cannot help to a second leader while one of the
//!   rest still knows better. That is why a round waits for every member, within the command timeout. Members are not
//!   asked at one moment, so that a grant to another may have been confirmed since it was told of: it is an objection,
//!   too, where only one of those who grant knows of the newest term.
//! * **Silence.** A member that restarted grants nobody new for one lease (R5 *generation*, *empty*). Renewals rejoin
//!   it at once (R4), so a member is back before it could be missed.
//!
//! ```text
//!   campaign ──► every member grants? ── a majority, nobody objects ──► raise granters to T ── a majority ──► leads
//!                                │                                                   │
//!                                └── no ──► release everywhere ◄── no ────────────┘    and come back later
//! ```
//!
//! A grant that was not raised holds its member only for a third of a lease: a candidate that dies between the two
//! steps does not cost a whole one. Of several candidates that share the members among them, one is ahead by grants,
//! then by session; the others give way to it, so that one leads after a few rounds.
//!
//! # Invariants
//!
//! 1. A member confirms nothing but what it granted to the same attempt, since it started, under no smaller token.
//! 2. An incumbent's renewal is refused only by a later term's confirmed lease or by the holder's own release: never by
//!    a grant, an earlier term, or a confirmation that came to nothing. So every member that can be reached follows the
//!    incumbent within a lease.
//! 3. A term's token is not smaller than any that a member reported to its campaign, whoever granted it (P2).
//! 4. No more than a whole lease is ever left of a lease, and of a guard, wherever the member's clock is stepped.
//! 5. A round takes back what it got before it says that it came to nothing, by its attempt alone: that ends no term.

mod heard;
mod round;
mod seats;

pub use super::reference::quorum_member::{MemberCell, lists_agree};
pub use heard::Heard;
pub use round::{Ballot, CampaignRound, ReleaseRound, RenewRound, Round, RoundStep, Vote};
pub use seats::{Seat, Seats};

use std::sync::Arc;
use std::time::Duration;

use super::ids::{Candidate, Token};
use super::messages::{CampaignRequest, GuardCause, Holder, ReleaseReply, ReleaseRequest, RenewReply, RenewRequest};

/// What a member is asked; each is one atomic step there.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum MemberRequest {
    /// Grant a lease for a third of its time.
    Campaign(CampaignRequest),
    /// Confirm it.
    Raise(RaiseRequest),
    /// Extend it, or put it back.
    Renew(RenewRequest),
    /// Take it back.
    Release(ReleaseRequest),
}

/// What a member says to an [`MemberRequest`] of the same name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum MemberReply {
    /// To [`MemberRequest::Campaign`].
    Campaign(MemberCampaignReply),
    /// To [`MemberRequest::Raise`].
    Raise(RaiseReply),
    /// To [`MemberRequest::Renew`].
    Renew(RenewReply),
    /// To [`MemberRequest::Release`].
    Release(ReleaseReply),
}

/// What a member knows of the last term that was confirmed there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LastTerm {
    /// Nothing: there was none since it has its data.
    Unknown,
    /// Its holder gave it back.
    GivenBack,
    /// It had this token, and nobody has said that it is over.
    Of(Token),
}

/// One member's answer to a campaign.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum MemberCampaignReply {
    /// Its lease is the candidate's for a third of a lease, under this token of its own. `last`: what became of the
    /// last term that was confirmed here.
    Granted { token: Token, last: LastTerm },
    /// Another has it; `confirmed` when that one was raised or renewed here, and so may lead.
    Held { holder: Holder, token: Token, remaining: Duration, confirmed: bool },
    /// R5 holds it shut for new grants.
    Guarded { cause: GuardCause, remaining: Duration, token: Token },
    /// The attempt is over already.
    Stale { token: Token },
    /// Somebody with another list of the members was granted or renewed here a moment ago: an objection, which names
    /// that list.
    Unlisted { theirs: Arc<str>, remaining: Duration, token: Token },
}

/// Confirms a grant under the term's token.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RaiseRequest {
    /// Who was granted.
    pub candidate: Candidate,
    /// Its name for people.
    pub identity: Arc<str>,
    /// The greatest token that any member granted.
    pub token: Token,
    /// How long the lease shall last from now.
    pub lease_duration: Duration,
    /// False for `guard: off`.
    pub guard: bool,
}

/// The answer to a [`RaiseRequest`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RaiseReply {
    /// The lease is the candidate's for its whole time. `count`: the renewal count after it.
    Raised { count: u64 },
    /// The grant is not there (any more), or the member has restarted since.
    Gone { token: Token },
}

#[cfg(test)]
mod tests;
