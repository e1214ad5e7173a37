//! protocol (draft map)
mod clockwatch;
mod dice;
mod election;
mod event;
mod lease;
mod names;
mod rules;
mod standing;
mod timing;
mod wire;

pub use election::{Action, Election, Failure, Input, Profile, RequestId};
pub use event::{CampaignOutcome, Event, LossReason, ReleaseReason, RenewalOutcome, State, View};
pub use lease::{LeaseCell, Outcome, Server, TokensExhausted};
pub use names::{Attempt, Candidate, Mono, RoleName, RoleNameError, SessionId, StoreTime, Token};
pub use rules::Rules;
pub use standing::{Promise, Standing};
pub use timing::{LEASE_DURATION_MAX, LEASE_DURATION_MIN, Timing, TimingProblem};
pub use wire::{
    Announcement, AnnouncementKind, CampaignReply, CampaignRequest, GuardCause, Holder, Knowledge, ReleaseReply,
    ReleaseRequest, RenewReply, RenewRequest, Stamped,
};
