//! Learns from the API server that another replica's process has ended, so that nobody has to wait for the end of its
//! lease (`kubernetes.fastFailover`).
//!
//! ```text
//!   roles ──who leads each──▶ one watch for each such pod ──▶ proof: which sessions have ended? ──▶ roles
//!   this process ──its session, before it campaigns──▶ termination message of its container
//! ```
//!
//! * *A proof, not a guess*: see [`proof`]. Without one, and without an API server, nothing happens: leases end.
//! * *Level-triggered*: a watch begins with the pod as it is, so what happened before it was opened, or while there was
//!   none, is in what it begins with. Roles are told again and again, and take it once.
//! * *Little load*: a replica watches the pods of those who lead what it does not, one watch for each, however many
//!   roles; it asks for nothing else.
//!
//! What follows from an end is the election's ([`crate::protocol::Input::Departed`]).

mod pod_status;
mod proof;
mod termination_message;
#[cfg(test)]
mod tests;

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinHandle, JoinSet};

use crate::base::clock::SharedClock;
use crate::base::{Backoff, Complaint, Turn};
use crate::config::{Config, is_object_name};
use crate::kube::{Change, Failure, KubeClient, Object, Reopening, Resource, Watch};
use crate::protocol::Mono;
use crate::role::{Command, RoleHandle, Roles, any_changed};

pub use termination_message::TerminationMessageFile;

use super::sleep;
use pod_status::Pod;

/// When a request counts as unanswered.
const TIMEOUT: Duration = Duration::from_secs(5);
/// How long a watch lasts before it is opened anew.
const WATCH_SECONDS: u32 = 120;
/// The first pause after a watch, and the longest.
const PAUSE_MIN: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// A name is looked at this much after it is out of date, so that it is by then.
const GRAIN: Duration = Duration::from_millis(1);

/// See the module. Ends when dropped.
pub struct Failover {
    roles: watch::Sender<Vec<RoleHandle>>,
    task: JoinHandle<()>,
}

impl Drop for Failover {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Failover {
    /// Starts to look, where `kubernetes.fastFailover` is on. Must be called inside a tokio runtime; roles are followed
    /// once [`Self::follow`] names them. `seed` spreads what replicas ask.
    pub fn start(config: &Config, clock: &SharedClock, seed: u64) -> Option<Self> {
        Self::with_kubeconfig(config, None, clock, seed)
    }

    /// The same with this kubeconfig.
    pub fn with_kubeconfig(
        config: &Config,
        kubeconfig: Option<PathBuf>,
        clock: &SharedClock,
        seed: u64,
    ) -> Option<Self> {
        let pod = config.kubernetes.pod.as_ref().filter(|_| config.kubernetes.fast_failover.is_some())?;
        let (roles, watched) = watch::channel(Vec::new());
        let lookout = Arc::new(Lookout {
            client: KubeClient::new(kubeconfig, Some(pod.namespace.clone()), TIMEOUT),
            roles: watched,
            clock: Arc::clone(clock),
            complaint: Mutex::default(),
            seed,
        });
        let task = tokio::spawn(lookout.run());
        Some(Self { roles, task })
    }

    /// Looks after these roles from now on.
    pub fn follow(&self, roles: &Roles) {
        self.roles.send_replace(roles.all());
    }
}

struct Lookout {
    client: KubeClient,
    roles: watch::Receiver<Vec<RoleHandle>>,
    clock: SharedClock,
    complaint: Mutex<Complaint>,
    seed: u64,
}

impl Lookout {
    /// Keeps a watch for each pod that leads something, until its owner is gone.
    async fn run(self: Arc<Self>) {
        let mut roles = self.roles.clone();
        let mut tasks = JoinSet::new();
        let mut watches: BTreeMap<Arc<str>, AbortHandle> = BTreeMap::new();
        loop {
            let handles = roles.borrow_and_update().clone();
            let mut changes: Vec<_> = handles.iter().map(RoleHandle::changes).collect();
            loop {
                // Before they are looked at: what happens in between is looked at again.
                changes.iter_mut().for_each(watch::Receiver::mark_unchanged);
                let now = self.clock.now();
                let leaders = leaders(&handles, now);
                watches.retain(|pod, watch| {
                    let leads = leaders.contains_key(pod);
                    if !leads {
                        watch.abort();
                    }
                    leads
                });
                for pod in leaders.keys().filter(|pod| is_object_name(pod)) {
                    if !watches.contains_key(pod) {
                        let task = tasks.spawn(Arc::clone(&self).watch(Arc::clone(pod)));
                        watches.insert(Arc::clone(pod), task);
                    }
                }
                while tasks.try_join_next().is_some() {}
                let next = leaders.values().min().map(|until| until.since(now) + GRAIN);
                tokio::select! {
                    changed = roles.changed() => match changed {
                        Ok(()) => break,
                        Err(_) => return,
                    },
                    () = any_changed(&mut changes) => {}
                    () = sleep(next) => {}
                }
            }
        }
    }

    /// Watches one pod, until nobody is interested any more.
    async fn watch(self: Arc<Self>, pod: Arc<str>) {
        let seed = pod.bytes().fold(self.seed, |seed, byte| seed.rotate_left(5) ^ u64::from(byte));
        let mut reopening = Reopening::new(Backoff::new(seed, PAUSE_MIN));
        let object = Object { resource: Resource::PODS, name: &pod };
        loop {
            let opened = self.client.by(self.client.deadline(), self.client.watch(object, WATCH_SECONDS)).await;
            self.say(opened.as_ref().err());
            if let Ok(mut watch) = opened {
                self.listen(&mut watch).await;
                reopening.ended(&watch);
            }
            tokio::time::sleep(reopening.pause(PAUSE_MAX)).await;
        }
    }

    /// Takes what a watch tells until it ends.
    async fn listen(&self, watch: &mut Watch<Pod>) {
        // The last state of an object that goes is as good as any.
        while let Ok(Change::Present(pod) | Change::Gone(pod)) = watch.next().await {
            self.tell(&pod).await;
        }
    }

    async fn tell(&self, pod: &Pod) {
        for end in proof::ends(pod) {
            tracing::debug!(session = %end.session, promise = ?end.promise, "a process of Baton has ended");
            let handles = self.roles.borrow().clone();
            for role in handles {
                role.tell(Command::Departed { session: end.session, promise: end.promise }).await;
            }
        }
    }

    /// Says once what is wrong, and once that it is well.
    fn say(&self, failure: Option<&Failure>) {
        // The words may name the pod, and those of an outage change while it lasts.
        let sort = failure.map(|failure| match failure {
            Failure::Denied { why, .. } => format!("{why:?}"),
            Failure::Missing | Failure::Conflict | Failure::Unanswered { .. } => "no answer".to_owned(),
        });
        match (self.complaint.lock().note(sort), failure) {
            (Some(Turn::Wrong(_)), Some(reason)) => {
                tracing::warn!(%reason, "pods cannot be watched: a failover takes as long as the lease");
            }
            (Some(Turn::Well), _) => tracing::info!("pods can be watched again"),
            (_, _) => {}
        }
    }
}

/// Who leads what this replica does not, by name, and until when that is worth telling.
fn leaders(roles: &[RoleHandle], now: Mono) -> BTreeMap<Arc<str>, Mono> {
    let mut leaders = BTreeMap::new();
    for role in roles.iter().filter(|role| !role.leads()) {
        if let Some((name, until)) = &role.snapshot().view.holder
            && now < *until
        {
            let latest: &mut Mono = leaders.entry(Arc::clone(name)).or_insert(*until);
            *latest = (*latest).max(*until);
        }
    }
    leaders
}
