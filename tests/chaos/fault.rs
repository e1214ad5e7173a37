//! What goes wrong, each by its name.

/// A kind of fault. Which of them a store can have is told by [`crate::stage::Kind::faults`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// SIGSTOP and SIGCONT of a replica.
    Pause,
    /// SIGKILL of a replica, and another start.
    Kill,
    /// SIGTERM of a replica, as a rollout sends it, and another start.
    Term,
    /// The leader is asked over HTTP to hand over.
    Resign,
    /// A replica's network is cut.
    Cut,
    /// SIGSTOP and SIGCONT of the Redis, or of the current master.
    StorePause,
    /// SIGKILL of it, and another start with its data.
    StoreRestart,
    /// SIGKILL of it, and another start without data.
    StoreLoss,
    /// Its network is cut.
    StoreCut,
    /// The network breaks in two: the master, and perhaps one of its replicas and a Sentinel, with some of the app's
    /// replicas on one side; all others on the other (R6).
    Split,
    /// `SENTINEL FAILOVER` or `CLUSTER FAILOVER`.
    Failover,
    /// SIGSTOP and SIGCONT of a Sentinel.
    WatcherPause,
    /// SIGKILL of a Sentinel, and another start.
    WatcherKill,
    /// `FLUSHALL`.
    Flush,
    /// `DEL` of the lease.
    Delete,
    /// So little memory that keys are evicted, with a policy that picks any key.
    Evict,
    /// So little memory that writes are refused.
    Full,
    /// The wall clock of Redis is stepped, forth or back.
    Clock,
    /// A script or a command that takes seconds.
    Slow,
    /// All of them that are promised to be harmless together, some at a time.
    Mixed,
}

impl Fault {
    /// In the order of the table.
    pub const ALL: [Self; 20] = [
        Self::Pause,
        Self::Kill,
        Self::Term,
        Self::Resign,
        Self::Cut,
        Self::StorePause,
        Self::StoreRestart,
        Self::StoreLoss,
        Self::StoreCut,
        Self::Split,
        Self::Failover,
        Self::WatcherPause,
        Self::WatcherKill,
        Self::Flush,
        Self::Delete,
        Self::Evict,
        Self::Full,
        Self::Clock,
        Self::Slow,
        Self::Mixed,
    ];

    /// For `BATON_CHAOS_FAULT`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pause => "pause",
            Self::Kill => "kill",
            Self::Term => "term",
            Self::Resign => "resign",
            Self::Cut => "cut",
            Self::StorePause => "store-pause",
            Self::StoreRestart => "store-restart",
            Self::StoreLoss => "store-loss",
            Self::StoreCut => "store-cut",
            Self::Split => "split",
            Self::Failover => "failover",
            Self::WatcherPause => "sentinel-pause",
            Self::WatcherKill => "sentinel-kill",
            Self::Flush => "flush",
            Self::Delete => "delete",
            Self::Evict => "evict",
            Self::Full => "full",
            Self::Clock => "clock",
            Self::Slow => "slow",
            Self::Mixed => "mixed",
        }
    }

    /// For the table.
    pub fn title(self) -> &'static str {
        match self {
            Self::Pause => "replica paused",
            Self::Kill => "replica killed",
            Self::Term => "replica ended by SIGTERM",
            Self::Resign => "leader resigns",
            Self::Cut => "replica cut off",
            Self::StorePause => "Redis (the master) paused",
            Self::StoreRestart => "Redis (the master) killed, data kept",
            Self::StoreLoss => "Redis (the master) killed, data lost",
            Self::StoreCut => "Redis (the master) cut off",
            Self::Split => "split, old master still served",
            Self::Failover => "failover asked for",
            Self::WatcherPause => "a Sentinel paused",
            Self::WatcherKill => "a Sentinel killed",
            Self::Flush => "`FLUSHALL`",
            Self::Delete => "`DEL` of the lease",
            Self::Evict => "lease evicted",
            Self::Full => "memory full",
            Self::Clock => "Redis's clock stepped",
            Self::Slow => "slow script",
            Self::Mixed => "mixed",
        }
    }

    /// Whether it befalls one replica rather than the store or the network between.
    pub fn is_of_a_replica(self) -> bool {
        matches!(self, Self::Pause | Self::Kill | Self::Term | Self::Resign | Self::Cut)
    }

    /// Whether it takes a network that can be cut.
    pub fn needs_network(self) -> bool {
        matches!(self, Self::Cut | Self::StoreCut | Self::Split)
    }

    /// Whether the store forgets a lease that stands, or loses its clock. Together with a leader that is cut off or
    /// paused in the same moment, or with each other, more is lost than the protocol can tell (docs/guarantees.md).
    pub fn must_be_alone(self) -> bool {
        matches!(self, Self::Flush | Self::Delete | Self::Evict | Self::Clock)
    }
}
