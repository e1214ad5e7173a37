//! What an election tells about itself: its state for readers, and events for logs and counters.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::super::ids::{Mono, SessionId, Token};
use super::super::messages::GuardCause;

/// The state words of the contract (section 4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum State {
    /// Another leads, or this replica stays out for a cooldown.
    Standby,
    /// Nobody is known to lead; this replica tries to, or listens before it tries.
    Campaigning,
    /// This replica has the lease.
    Leading,
    /// It has the lease but no longer leads: its promises run out.
    Draining,
    /// R5 holds the store shut.
    Guarded,
    /// The app's health check fails.
    Unhealthy,
    /// The store does not answer.
    Unreachable,
}

impl State {
    /// The word in JSON, logs and messages.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Standby => "standby",
            Self::Campaigning => "campaigning",
            Self::Leading => "leading",
            Self::Draining => "draining",
            Self::Guarded => "guarded",
            Self::Unhealthy => "unhealthy",
            Self::Unreachable => "unreachable",
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What readers see of an election besides its [`Leadership`](super::Leadership), which says whether it leads *now*.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    /// The state when this view was made.
    pub state: State,
    /// The last known leader's name, and until when that is worth telling. Never a stale name.
    pub holder: Option<(Arc<str>, Mono)>,
    /// Why this replica does not lead, in words; none while it leads.
    pub reason: Option<Cow<'static, str>>,
    /// It would not take the role now if that were free: it resigned a while ago, hands it over, or ends.
    pub stays_out: bool,
}

/// How a campaign ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CampaignOutcome {
    /// It was won.
    Granted,
    /// Another has the lease.
    Held,
    /// R5 holds the role shut, or asks to look again.
    Guarded,
    /// No answer, or an error.
    Error,
}

impl CampaignOutcome {
    /// Every outcome, for registering series at zero.
    pub const ALL: [Self; 4] = [Self::Granted, Self::Held, Self::Guarded, Self::Error];

    /// The word in metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Granted => "granted",
            Self::Held => "held",
            Self::Guarded => "guarded",
            Self::Error => "error",
        }
    }
}

/// How a renewal ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RenewalOutcome {
    /// Extended.
    Ok,
    /// Put back after the store lost it (R4).
    Reasserted,
    /// The term is over.
    Lost,
    /// No answer, or an error.
    Error,
}

impl RenewalOutcome {
    /// Every outcome, for registering series at zero.
    pub const ALL: [Self; 4] = [Self::Ok, Self::Reasserted, Self::Lost, Self::Error];

    /// The word in metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Reasserted => "reasserted",
            Self::Lost => "lost",
            Self::Error => "error",
        }
    }
}

/// Why a term ended that was not given back of its own will.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LossReason {
    /// It could not be renewed before its deadline.
    Expired,
    /// The store says that another's term, or a later one, stands.
    Superseded,
    /// The app's health check failed.
    Unhealthy,
}

impl LossReason {
    /// Every reason, for registering series at zero.
    pub const ALL: [Self; 3] = [Self::Expired, Self::Superseded, Self::Unhealthy];

    /// The word in metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Expired => "expired",
            Self::Superseded => "superseded",
            Self::Unhealthy => "unhealthy",
        }
    }
}

/// Why a lease was given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ReleaseReason {
    /// The process ends.
    Shutdown,
    /// Asked for over HTTP.
    Resigned,
    /// Another replica leads fewer shards of the role.
    Balanced,
    /// The app's health check failed.
    Unhealthy,
    /// The app closed the connection by which it showed that it lives, or died.
    AppLeft,
    /// The grant came too late to be used.
    Unused,
    /// By another, in the place of the leader's process, which has ended.
    Departed,
}

impl ReleaseReason {
    /// Every reason, for registering series at zero.
    pub const ALL: [Self; 7] =
        [Self::Shutdown, Self::Resigned, Self::Balanced, Self::Unhealthy, Self::AppLeft, Self::Unused, Self::Departed];

    /// The word in metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Shutdown => "shutdown",
            Self::Resigned => "resigned",
            Self::Balanced => "balanced",
            Self::Unhealthy => "unhealthy",
            Self::AppLeft => "app_left",
            Self::Unused => "unused",
            Self::Departed => "departed",
        }
    }
}

/// What happened. One event type owns its log line and its counter (see `telemetry`).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// A campaign got its answer, or none.
    Campaigned { outcome: CampaignOutcome },
    /// Another won a term that this replica was trying to win at the time.
    Contended { winner: Arc<str>, token: Token },
    /// A term of this replica begins.
    Elected { token: Token },
    /// A renewal got its answer, or none. `took`: from sending to the answer. `failure`: why there is no usable one.
    Renewed { outcome: RenewalOutcome, took: Duration, token: Token, failure: Option<String> },
    /// A term ended against this replica's will. `held_for`: since its grant.
    Lost { token: Token, reason: LossReason, held_for: Duration },
    /// A term no longer leads and waits for its promises to run out; at most for `remaining`.
    Draining { token: Token, reason: ReleaseReason, remaining: Duration },
    /// The lease was given back. `held_for`: since its grant.
    Released { token: Token, reason: ReleaseReason, held_for: Duration },
    /// The leader's process has ended, and this replica gave its lease back in its place.
    Departed { holder: Arc<str>, token: Token },
    /// A process that was said to have ended was heard of afterwards: its lease is not given back.
    DepartureRefuted { holder: Arc<str>, session: SessionId },
    /// The lease was left to its TTL because promises stand that nobody waits for (a second signal), or because the
    /// store does not let this replica give it back.
    Abandoned { token: Token, remaining: Duration },
    /// R5 closed the role, as this replica sees it. The first time nothing is amiss: neither the store nor this replica
    /// knows of any term.
    Guarded { cause: GuardCause, remaining: Duration, is_first: bool },
    /// Another replica leads.
    Following { holder: Arc<str>, token: Token },
    /// Another process with this replica's name campaigns for the same role.
    IdentityClash { session: SessionId },
    /// The store's clock moved against this replica's by this much, forwards when positive.
    StoreClockStepped { by_ms: i64 },
}

#[cfg(test)]
mod tests {
    use super::*;

    /// They stand in answers, metrics and lines of logs.
    #[test]
    fn words_are_part_of_the_contract() {
        use State::{Campaigning, Draining, Guarded, Leading, Standby, Unhealthy, Unreachable};
        let states = [Standby, Campaigning, Leading, Draining, Guarded, Unhealthy, Unreachable].map(State::as_str);
        assert_eq!(states, ["standby", "campaigning", "leading", "draining", "guarded", "unhealthy", "unreachable"]);
        assert_eq!(CampaignOutcome::ALL.map(CampaignOutcome::as_str), ["granted", "held", "guarded", "error"]);
        assert_eq!(RenewalOutcome::ALL.map(RenewalOutcome::as_str), ["ok", "reasserted", "lost", "error"]);
        assert_eq!(LossReason::ALL.map(LossReason::as_str), ["expired", "superseded", "unhealthy"]);
        assert_eq!(
            ReleaseReason::ALL.map(ReleaseReason::as_str),
            ["shutdown", "resigned", "balanced", "unhealthy", "app_left", "unused", "departed"]
        );
    }
}
