//! What each family of elections and the store means, in words for people.

pub(super) const CAMPAIGNS: &str = "Campaigns of this replica by outcome: granted, held by another, guarded (the \
    store may have forgotten a lease), or error (no usable answer).";
pub(super) const CONTENTION: &str = "Terms that another replica won while this one was trying to win them.";
pub(super) const RENEWALS: &str = "Renewals by outcome: ok, reasserted (the store had lost the lease), lost (the \
    term is over) or error (no usable answer).";
pub(super) const RENEWAL_DURATION: &str = "Time from sending a renewal to its answer, or to giving it up.";
pub(super) const LOST_LEASES: &str = "Terms of this replica that ended against its will: expired, superseded by \
    another, or given up because the app was unhealthy.";
pub(super) const RELEASES: &str = "Leases that this replica gave back, by reason.";
pub(super) const TRANSITIONS: &str = "Terms of any replica that this one has seen: each fencing token counts once, \
    when it is first seen, including the term that stood when this replica started.";
pub(super) const STORE_GUARDS: &str = "Times that the store was closed to new leaders because it may have \
    forgotten a lease that still stands, by cause.";
pub(super) const DEPARTURES_REFUTED: &str =
    "Times that a process was heard of after its node had called it ended (kubernetes.fastFailover).";
pub(super) const IDENTITY_CLASHES: &str =
    "Times that another process was seen to campaign under this replica's identity.";
pub(super) const STORE_CLOCK_STEPS: &str = "Times that the store's clock moved against this replica's.";
pub(super) const STORE_COMMAND_DURATION: &str =
    "Time from sending a command to the store to its answer, or to giving it up.";
pub(super) const STORE_MEMBER_UP: &str =
    "1 while this member of the quorum answers and counts, else 0; members in the order of store.quorum.members.";
pub(super) const LOCKS_STORE_UP: &str =
    "1 while the store that locks have for themselves (locks.store) answers, else 0.";
pub(super) const JOBS_STORE_UP: &str = "1 while the store that jobs have for themselves (jobsStore) answers, else 0.";
pub(super) const CREDENTIAL_RENEWALS: &str = "Renewals of the credential for a store, by outcome: ok (there is \
    another), failed (none could be had) or refused (the store refused it on a live connection).";
pub(super) const CREDENTIAL_EXPIRY: &str =
    "When the present credential for a store ends, in seconds since 1970; of several the first.";
pub(super) const LEADER: &str = "1 while this replica leads the role, else 0.";
pub(super) const FENCING_TOKEN: &str = "The fencing token of this replica's term, 0 while it does not lead. A token \
    only protects a resource that itself refuses smaller tokens.";
pub(super) const LEADER_SINCE: &str = "When this replica began to lead the role, 0 while it does not lead.";
pub(super) const LEASE_REMAINING: &str =
    "Time until this replica stops leading unless it renews, 0 while it does not lead.";
pub(super) const MASTER_STATUS: &str =
    "1 while this replica leads the role of this name, else 0; as client-go reports it.";
pub(super) const CONFIG_RELOADS: &str =
    "Changed configuration files by outcome: ok (in force), or refused (it has problems, the old one stays).";
pub(super) const CONFIG_IS_GOOD: &str =
    "1 while the configuration in force is what the file says, 0 while a changed file is refused.";
