//! The stores that the replicas stand on, each with the faults that it can have.

use std::path::PathBuf;
use std::time::Duration;

use fastrand::Rng;
use testkit::place::{Network, Place};
use testkit::resp::Reply;
use testkit::sidecars::clock;
use testkit::sidecars::replica::Lease;

use crate::cluster::ClusterStage;
use crate::fault::Fault;
use crate::leases::LeaseStage;
use crate::one::OneRedis;
use crate::quorum::{MEMBERS, QuorumStage};
use crate::run::Plan;
use crate::sentinels::Sentinels;

/// A store that is up. Ends, with every process of it, when dropped.
pub trait Stage {
    /// The section `store` of a replica's configuration.
    fn store(&self) -> String;

    /// The same in this step of a change that never ends; none where nothing changes.
    fn store_in(&self, _step: usize) -> Option<String> {
        None
    }

    /// Which kubeconfig this replica has, where the store is Kubernetes.
    fn kubeconfig(&self, _replica: usize) -> Option<PathBuf> {
        None
    }

    /// Something goes wrong; in words. One fault at a time, and never one that takes the network: that is the run's.
    ///
    /// # Errors
    /// When nothing went wrong: in words, why not.
    fn begin(&mut self, fault: Fault, dice: &mut Rng) -> Result<String, String>;

    /// It is made good. What was over at once needs nothing.
    fn end(&mut self, fault: Fault);

    /// Which hosts of it to cut off together, so that what is left may elect another master; by number, the master
    /// first.
    fn to_cut_off(&self, dice: &mut Rng) -> Vec<usize>;

    /// Which replicas are cut off from now on, where the stage itself is the network between.
    fn cut_off(&mut self, _replicas: &[usize]) {}

    /// What its server did, as lines of a trace; nothing where that was not recorded.
    fn trace(&self) -> Vec<String> {
        Vec::new()
    }

    /// Waits until it is whole again after everything was made good.
    fn settle(&mut self);
}

/// Which store, with which settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// One Redis with its append-only file.
    Durable,
    /// One Redis that keeps nothing.
    Volatile,
    /// The same with `guard: off`.
    Unguarded,
    /// A master, two replicas and three Sentinels; without acknowledgement.
    Sentinel,
    /// The same with `replication.acks: 1`.
    SentinelAcks,
    /// Three masters with a replica each, and `replication.acks: 1`.
    Cluster,
    /// Five masters that know nothing of each other.
    Quorum,
    /// Some of the same, whose list changes all the time, replica by replica.
    Changing,
    /// Lease objects of an API server.
    Kubernetes,
}

impl Kind {
    /// In the order of the table.
    pub const ALL: [Self; 9] = [
        Self::Durable,
        Self::Volatile,
        Self::Unguarded,
        Self::Sentinel,
        Self::SentinelAcks,
        Self::Cluster,
        Self::Quorum,
        Self::Changing,
        Self::Kubernetes,
    ];

    /// For `BATON_CHAOS_STORE`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Durable => "redis",
            Self::Volatile => "redis-volatile",
            Self::Unguarded => "redis-unguarded",
            Self::Sentinel => "sentinel",
            Self::SentinelAcks => "sentinel-acks",
            Self::Cluster => "cluster",
            Self::Quorum => "quorum",
            Self::Changing => "quorum-changing",
            Self::Kubernetes => "kubernetes",
        }
    }

    /// For the table.
    pub fn title(self) -> &'static str {
        match self {
            Self::Durable => "one Redis, append-only file",
            Self::Volatile => "one Redis, no persistence",
            Self::Unguarded => "the same, `guard: off`",
            Self::Sentinel => "Sentinel, `acks: 0`",
            Self::SentinelAcks => "Sentinel, `acks: 1`",
            Self::Cluster => "Cluster, `acks: 1`",
            Self::Quorum => "quorum of five",
            Self::Changing => "quorum whose members change",
            Self::Kubernetes => "Kubernetes Lease",
        }
    }

    /// The role's timings.
    pub fn lease(self) -> Lease {
        match self {
            // An API server takes longer to answer.
            Self::Kubernetes => Lease { duration: 3_000, renew: 900, margin: 300, validity: 500 },
            _ => Lease::SHORT,
        }
    }

    /// How many hosts its servers take.
    pub fn hosts(self) -> usize {
        match self {
            // An API server listens on this machine alone.
            Self::Kubernetes => 0,
            Self::Quorum | Self::Changing => MEMBERS,
            Self::Durable | Self::Volatile | Self::Unguarded => 1,
            Self::Sentinel | Self::SentinelAcks | Self::Cluster => 6,
        }
    }

    /// Whether its servers and replicas are at places of a network.
    pub fn is_on_a_network(self) -> bool {
        self.hosts() > 0
    }

    fn supports(self, fault: Fault) -> bool {
        let (quorum, kubernetes) = (matches!(self, Self::Quorum | Self::Changing), self == Self::Kubernetes);
        let one = self.is_one_redis();
        let sentinels = matches!(self, Self::Sentinel | Self::SentinelAcks);
        match fault {
            Fault::Split => !one && !kubernetes,
            Fault::Failover => !one && !quorum && !kubernetes,
            Fault::WatcherPause | Fault::WatcherKill => sentinels,
            Fault::Majority | Fault::PartCut => quorum,
            Fault::Edit => kubernetes,
            Fault::Clock => (one || self == Self::Quorum) && clock::library().is_some(),
            Fault::StoreLoss | Fault::StoreCut | Fault::Flush | Fault::Slow => !kubernetes,
            Fault::Evict | Fault::Full => one,
            Fault::StoreRestart => !matches!(self, Self::Volatile | Self::Unguarded),
            _ => true,
        }
    }

    /// Which faults it can have, here.
    pub fn faults(self, network: bool) -> impl Iterator<Item = Fault> {
        Fault::ALL.into_iter().filter(move |fault| {
            self.supports(*fault) && (network || !self.is_on_a_network() || !fault.needs_network())
        })
    }

    /// Whether P1 and P2 are promised under this fault (docs/guarantees.md).
    pub fn is_safe(self, fault: Fault) -> bool {
        match self {
            Self::Durable
            | Self::Volatile
            | Self::SentinelAcks
            | Self::Cluster
            | Self::Quorum
            | Self::Changing
            | Self::Kubernetes => true,
            // A restart without data needs the guard, and so does whatever else makes Redis forget.
            Self::Unguarded => {
                fault.is_of_a_replica() || matches!(fault, Fault::StorePause | Fault::StoreCut | Fault::Slow)
            }
            // A master that is replaced while it serves somebody, or again, needs acknowledgements.
            Self::Sentinel => !matches!(
                fault,
                Fault::StorePause
                    | Fault::StoreCut
                    | Fault::StoreRestart
                    | Fault::StoreLoss
                    | Fault::Failover
                    | Fault::Split
                    | Fault::Slow
                    | Fault::Mixed
            ),
        }
    }

    /// What a mixed run is made of: everything but steps of the clock, which are not promised to be harmless close to a
    /// restart.
    pub fn mixture(self, network: bool) -> Vec<Fault> {
        self.faults(network).filter(|fault| !matches!(fault, Fault::Mixed | Fault::Clock)).collect()
    }

    /// Whether it can stand behind what a service refuses.
    pub fn is_one_redis(self) -> bool {
        matches!(self, Self::Durable | Self::Volatile | Self::Unguarded)
    }

    /// Starts what a plan wants, at the first hosts of the network.
    pub fn start(plan: &Plan, network: Option<&Network>) -> Box<dyn Stage> {
        let (clock, service) = (plan.fault == Fault::Clock, plan.service);
        assert!(service.is_none() || plan.kind.is_one_redis(), "{:?} has no service before it", plan.kind);
        let place = |at: usize| network.map_or_else(Place::here, |network| network.host(at));
        match plan.kind {
            Self::Durable => Box::new(OneRedis::start(&place(0), plan, true, "strict")),
            Self::Volatile => Box::new(OneRedis::start(&place(0), plan, false, "strict")),
            Self::Unguarded => Box::new(OneRedis::start(&place(0), plan, false, "off")),
            Self::Sentinel => Box::new(Sentinels::start(place, 0)),
            Self::SentinelAcks => Box::new(Sentinels::start(place, 1)),
            Self::Cluster => Box::new(ClusterStage::start(place)),
            Self::Quorum => Box::new(QuorumStage::start(place, clock, false)),
            Self::Changing => Box::new(QuorumStage::start(place, false, true)),
            Self::Kubernetes => Box::new(LeaseStage::start()),
        }
    }
}

/// Whether a server agreed to what it was asked for.
pub fn agreed(reply: &Reply) -> Result<String, String> {
    match reply {
        Reply::Text(text) => Ok(text.clone()),
        other => Err(format!("{other:?}")),
    }
}

/// How long a fault lasts: now shorter than a lease, now longer.
pub fn lasting(fault: Fault, dice: &mut Rng) -> Duration {
    let ms = match fault {
        // Sentinels and clusters take seconds to agree that a master is gone.
        Fault::Split | Fault::StoreCut => 1_000..7_000,
        Fault::StorePause if dice.bool() => 2_000..6_000,
        Fault::Slow => 100..2_500,
        Fault::Failover | Fault::Resign | Fault::Flush | Fault::Delete | Fault::Clock => 1..1_000,
        _ if dice.bool() => 50..1_500,
        _ => 1_500..4_000,
    };
    Duration::from_millis(dice.u64(ms))
}
