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
    /// A replica and some of the members of a quorum do not reach each other.
    PartCut,
    /// SIGSTOP and SIGCONT of the server: the Redis, the current master, one or two members, or the API server.
    StorePause,
    /// SIGKILL of it, and another start with its data.
    StoreRestart,
    /// SIGKILL of it, and another start without data.
    StoreLoss,
    /// Its network is cut.
    StoreCut,
    /// SIGKILL of three members of five, and another start, with their data or without.
    Majority,
    /// The network breaks in two: the master, and perhaps one of its replicas and a Sentinel, with some of the app's
    /// replicas on one side; all others on the other (R6). Of a quorum: one or two members on one side.
    Split,
    /// `SENTINEL FAILOVER` or `CLUSTER FAILOVER`.
    Failover,
    /// SIGSTOP and SIGCONT of a Sentinel.
    WatcherPause,
    /// SIGKILL of a Sentinel, and another start.
    WatcherKill,
    /// `FLUSHALL`.
    Flush,
    /// `DEL` of the lease, or the Lease object deleted.
    Delete,
    /// The Lease object changed by somebody who knows nothing of Baton.
    Edit,
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
    pub const ALL: [Self; 23] = [
        Self::Pause,
        Self::Kill,
        Self::Term,
        Self::Resign,
        Self::Cut,
        Self::PartCut,
        Self::StorePause,
        Self::StoreRestart,
        Self::StoreLoss,
        Self::StoreCut,
        Self::Majority,
        Self::Split,
        Self::Failover,
        Self::WatcherPause,
        Self::WatcherKill,
        Self::Flush,
        Self::Delete,
        Self::Edit,
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
            Self::PartCut => "part-cut",
            Self::StorePause => "store-pause",
            Self::StoreRestart => "store-restart",
            Self::StoreLoss => "store-loss",
            Self::StoreCut => "store-cut",
            Self::Majority => "majority",
            Self::Split => "split",
            Self::Failover => "failover",
            Self::WatcherPause => "sentinel-pause",
            Self::WatcherKill => "sentinel-kill",
            Self::Flush => "flush",
            Self::Delete => "delete",
            Self::Edit => "edit",
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
            Self::PartCut => "replica cut off from some members",
            Self::StorePause => "server paused",
            Self::StoreRestart => "server killed, data kept",
            Self::StoreLoss => "server killed, data lost",
            Self::StoreCut => "server cut off",
            Self::Majority => "three of five members killed, then back",
            Self::Split => "split, old master still served",
            Self::Failover => "failover asked for",
            Self::WatcherPause => "a Sentinel paused",
            Self::WatcherKill => "a Sentinel killed",
            Self::Flush => "`FLUSHALL`",
            Self::Delete => "lease deleted",
            Self::Edit => "Lease object edited by a stranger",
            Self::Evict => "lease evicted",
            Self::Full => "memory full",
            Self::Clock => "server's clock stepped",
            Self::Slow => "slow script",
            Self::Mixed => "mixed",
        }
    }

    /// Whether it befalls one replica rather than the store or the network between.
    pub fn is_of_a_replica(self) -> bool {
        matches!(self, Self::Pause | Self::Kill | Self::Term | Self::Resign | Self::Cut | Self::PartCut)
    }

    /// Whether it takes a network that can be cut.
    pub fn needs_network(self) -> bool {
        matches!(self, Self::Cut | Self::PartCut | Self::StoreCut | Self::Split)
    }

    /// Whether the store forgets a lease that stands, or loses its clock. Together with a leader that is cut off or
    /// paused in the same moment, or with each other, more is lost than the protocol can tell (docs/guarantees.md).
    pub fn must_be_alone(self) -> bool {
        matches!(self, Self::Flush | Self::Delete | Self::Evict | Self::Clock)
    }
}
