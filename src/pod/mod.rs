//! What the sidecar does in Kubernetes besides the store. Nothing of it decides who leads, and no election waits for
//! it:
//!
//! - [`labels`]: `baton.dev/role-<name>: leader` on the pod of whoever leads, so that a Service finds it;
//! - [`events`]: Events on this pod, which `kubectl describe pod` shows;
//! - [`mirror`]: a Lease object for each role, which shows people who leads it;
//! - [`failover`]: hears that another replica's process has ended, so that nobody waits for the end of its lease.
//!
//! ```text
//!   roles ──changes, deadlines──▶ Shown ──newest only──▶ labels of this pod     ┐
//!                                   ├──────────────────▶ labels of earlier ones ├─▶ PodClient ──▶ API server
//!                                   ├──────────────────▶ mirror                 │
//!   events of the roles ──a short queue┴───────────────▶ Events                 ┘
//!   roles ◀──ends of processes── failover ◀──watches of pods── API server
//! ```
//!
//! The first three only write, for people and Services:
//!
//! * *Level-triggered*: [`Shown`] says what is so now, and each writer makes it so, however many changes it has missed.
//!   After an outage the newest state is written, and nothing of what was in between.
//! * *Late writes do nothing*: every write is on the version of the object that was seen, or tests the token beside it.
//! * *Never longer than `/leader`*: a term is shown while `/leader` says so; draining is not leading.

mod client;
mod events;
mod failover;
mod labels;
mod mirror;
mod shown;
mod writer;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::base::clock::SharedClock;
use crate::base::process::Entropy;
use crate::config::{Config, RoleConfig};
use crate::role::Roles;
use crate::telemetry::{KubernetesKind, Telemetry};

pub use failover::{Failover, TerminationMessageFile};

use client::PodClient;
use events::Events;
use labels::{OtherLabels, OwnLabels};
use mirror::Mirror;
use shown::{Shown, Watched};

/// How long the end of the process may take because of what is still shown.
const CLOSE_MAX: Duration = Duration::from_secs(1);

/// See the module. Ends when dropped; [`Self::close`] takes back first what is shown.
pub struct Extras {
    roles: watch::Sender<Option<Vec<Watched>>>,
    writers: JoinSet<()>,
}

impl Extras {
    /// Starts what `config` switches on; none when nothing is. Must be called inside a tokio runtime, and before the
    /// roles begin: events are heard from now on, and roles followed once [`Self::follow`] names them.
    pub fn start(config: &Config, clock: &SharedClock, telemetry: &Telemetry, mut entropy: Entropy) -> Option<Self> {
        let extras = &config.kubernetes;
        // Without a pod there was only a check of the file, for another machine.
        let pod = extras.pod.clone().filter(|_| extras.any())?;
        let client = Arc::new(PodClient::new(pod.namespace.clone(), telemetry.clone()));
        let (roles, watched) = watch::channel(Some(Vec::new()));
        let (sender, seen) = watch::channel(Shown::default());
        let mut writers = JoinSet::new();
        writers.spawn(shown::observe(watched, sender));
        if extras.pod_labels {
            telemetry.add_kubernetes(KubernetesKind::Label);
            let own = OwnLabels::new(Arc::clone(&client), Arc::clone(clock), pod.clone());
            writers.spawn(writer::run(own, seen.clone(), entropy.seed()));
            let others = OtherLabels::new(Arc::clone(&client), Arc::clone(clock), pod.name.clone());
            writers.spawn(writer::run(others, seen.clone(), entropy.seed()));
        }
        if extras.events {
            telemetry.add_kubernetes(KubernetesKind::Event);
            let events = Events::new(Arc::clone(&client), Arc::clone(clock), pod, entropy.seed());
            writers.spawn(events.run(telemetry.listen(), seen.clone()));
        }
        if extras.lease_mirror {
            telemetry.add_kubernetes(KubernetesKind::Lease);
            let (store, identity) = (config.store.clone(), Arc::clone(&config.identity));
            let mirror = Mirror::new(client, Arc::clone(clock), store, identity);
            writers.spawn(writer::run(mirror, seen, entropy.seed()));
        }
        Some(Self { roles, writers })
    }

    /// Shows these roles from now on; what is shown of others is taken back.
    pub fn follow(&self, configs: &[RoleConfig], roles: &Roles) {
        let watched = configs.iter().filter_map(|config| {
            let handle = roles.get(config.name.as_str())?;
            Some(Watched { handle, lease: config.timing.lease_duration() })
        });
        self.roles.send_replace(Some(watched.collect()));
    }

    /// Takes back what is shown, and writes the last events, within a second or not at all. To be called once nothing
    /// is led any more.
    pub async fn close(mut self) {
        self.roles.send_replace(None);
        let ended = async { while self.writers.join_next().await.is_some() {} };
        if tokio::time::timeout(CLOSE_MAX, ended).await.is_err() {
            tracing::warn!("what Kubernetes shows of this replica may stay as it is: there was no time left");
        }
    }
}

/// Without a span for ever.
async fn sleep(span: Option<Duration>) {
    match span {
        Some(span) => tokio::time::sleep(span).await,
        None => std::future::pending().await,
    }
}
