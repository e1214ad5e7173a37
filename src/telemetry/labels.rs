//! What a scrape reads, and the words of labels that no other floor has.

use std::time::Duration;

use crate::protocol::{RoleName, Token};

/// What a role is at the moment of a scrape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    /// Which role.
    pub role: RoleName,
    /// Its term's token and the time until its deadline, while this replica leads.
    pub leading: Option<(Token, Duration)>,
}

/// The commands of a store, as a label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StoreCommand {
    /// R1.
    Campaign,
    /// R4.
    Renew,
    /// R7.
    Release,
    /// Forgetting a removed role.
    Purge,
    /// Who takes part in a role that is split over shards.
    Presence,
}

impl StoreCommand {
    /// Every command, for registering series at zero.
    pub const ALL: [Self; 5] = [Self::Campaign, Self::Renew, Self::Release, Self::Purge, Self::Presence];

    /// The word in metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Campaign => "campaign",
            Self::Renew => "renew",
            Self::Release => "release",
            Self::Purge => "purge",
            Self::Presence => "presence",
        }
    }
}

/// How a store command ended, as a label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CommandOutcome {
    /// It was answered.
    Ok,
    /// It was not answered in time.
    Unknown,
    /// There was no connection, or it broke.
    Unreachable,
    /// The store answered that it will not.
    Refused,
    /// A key holds what Baton did not write.
    Garbage,
}

impl CommandOutcome {
    /// Every outcome, for registering series at zero.
    pub const ALL: [Self; 5] = [Self::Ok, Self::Unknown, Self::Unreachable, Self::Refused, Self::Garbage];

    /// The word in metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Unknown => "unknown",
            Self::Unreachable => "unreachable",
            Self::Refused => "refused",
            Self::Garbage => "garbage",
        }
    }
}

/// What became of a changed configuration file, as a label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ReloadOutcome {
    /// It is in force.
    Ok,
    /// It has problems; the old one stays.
    Refused,
}

impl ReloadOutcome {
    /// Every outcome, for registering series at zero.
    pub const ALL: [Self; 2] = [Self::Ok, Self::Refused];

    /// The word in metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Refused => "refused",
        }
    }
}
