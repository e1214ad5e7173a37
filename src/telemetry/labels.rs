//! What a scrape reads, and the words of labels that no other floor has.

use std::time::Duration;

use jiff::Timestamp;

use crate::protocol::{RoleName, Token};

/// What a role is at the moment of a scrape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    pub role: RoleName,
    /// Its term, while this replica leads.
    pub leading: Option<TermReading>,
}

/// A term of this replica's at the moment of a scrape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TermReading {
    pub token: Token,
    /// The time until its deadline.
    pub remaining: Duration,
    /// When it began.
    pub since: Timestamp,
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
    LockAcquire,
    LockExtend,
    LockRelease,
    /// Ending a request for a lock that waited, or whose answer never came.
    LockCancel,
    /// A sign of life while requests for locks wait.
    LockBeat,
    LockInspect,
    /// An operator ends a lock.
    LockUnlock,
    /// Looking for names of locks.
    LockNames,
    /// A leader's first look at a job's ledger.
    JobOpen,
    JobWrite,
    /// Looking at a job's ledger.
    JobRead,
    /// Making a job at run time.
    RegistryPut,
    RegistryGet,
    RegistryList,
    RegistryDelete,
    /// A run now, suspending and resuming.
    RegistryWish,
    /// A leader takes what is due.
    RegistryTake,
    /// A leader ends an attempt that it has taken.
    RegistrySettle,
}

impl StoreCommand {
    /// Every command, for registering series at zero.
    pub const ALL: [Self; 23] = [
        Self::Campaign,
        Self::Renew,
        Self::Release,
        Self::Purge,
        Self::Presence,
        Self::LockAcquire,
        Self::LockExtend,
        Self::LockRelease,
        Self::LockCancel,
        Self::LockBeat,
        Self::LockInspect,
        Self::LockUnlock,
        Self::LockNames,
        Self::JobOpen,
        Self::JobWrite,
        Self::JobRead,
        Self::RegistryPut,
        Self::RegistryGet,
        Self::RegistryList,
        Self::RegistryDelete,
        Self::RegistryWish,
        Self::RegistryTake,
        Self::RegistrySettle,
    ];

    /// The word in metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Campaign => "campaign",
            Self::Renew => "renew",
            Self::Release => "release",
            Self::Purge => "purge",
            Self::Presence => "presence",
            Self::LockAcquire => "lock_acquire",
            Self::LockExtend => "lock_extend",
            Self::LockRelease => "lock_release",
            Self::LockCancel => "lock_cancel",
            Self::LockBeat => "lock_beat",
            Self::LockInspect => "lock_inspect",
            Self::LockUnlock => "lock_unlock",
            Self::LockNames => "lock_names",
            Self::JobOpen => "job_open",
            Self::JobWrite => "job_write",
            Self::JobRead => "job_read",
            Self::RegistryPut => "registry_put",
            Self::RegistryGet => "registry_get",
            Self::RegistryList => "registry_list",
            Self::RegistryDelete => "registry_delete",
            Self::RegistryWish => "registry_wish",
            Self::RegistryTake => "registry_take",
            Self::RegistrySettle => "registry_settle",
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

/// How the renewal of a store's credential went, as a label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CredentialOutcome {
    /// There is another.
    Ok,
    /// None could be had.
    Failed,
    /// Redis refused it on a live connection.
    Refused,
}

impl CredentialOutcome {
    /// The word in metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Failed => "failed",
            Self::Refused => "refused",
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
