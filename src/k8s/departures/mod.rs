//! Learns from the API server that another replica's process has ended, so that nobody has to wait for the end of its
//! lease (`kubernetes.fastFailover`).
//!
//! ```text
//!   roles ──who leads each──▶ one watch for each such pod ──▶ account: which sessions have ended? ──▶ roles
//!   this process ──its session, before it campaigns──▶ termination message of its container
//! ```
//!
//! * *A proof, not a guess*: see [`account`]. Without one, and without an API server, nothing happens: leases end.
//! * *Level-triggered*: a watch begins with the pod as it is, so what happened before it was opened, or while there was
//!   none, is in what it begins with. Roles are told again and again, and take it once.
//! * *Little load*: a replica watches the pods of those who lead what it does not, one watch for each, however many
//!   roles; it asks for nothing else.
//!
//! What follows from an end is the election's ([`crate::protocol::Input::Departed`]).

mod account;
mod pod;
mod testament;
#[cfg(test)]
mod tests;

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use k8s_openapi::api::core::v1 as core;
use kube::core::params::WatchParams;
use kube::core::{Request, Resource as _, WatchEvent};
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinHandle, JoinSet};

use crate::base::clock::SharedClock;
use crate::config::{Config, is_object_name};
use crate::kube_api::{Connector, Resource, Trouble, missing_rule};
use crate::protocol::{Dice, Mono};
use crate::role::{Command, RoleHandle, Roles, any_changed};

pub use testament::Will;

use pod::Pod;

/// When a request counts as unanswered.
const TIMEOUT: Duration = Duration::from_secs(5);
/// How long a watch lasts before it is opened anew.
const WATCH_SECONDS: u32 = 120;
/// One that lasts so much longer than the server was asked for is dead.
const WATCH_MAX: Duration = Duration::from_secs(WATCH_SECONDS as u64 + 10);
/// The first pause after a watch, and the longest.
const PAUSE_MIN: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// A watch that lived for so long works; one that ended sooner is opened anew after a longer pause.
const STEADY: Duration = Duration::from_secs(1);
/// A name is looked at this much after it is out of date, so that it is by then.
const GRAIN: Duration = Duration::from_millis(1);

type Events = BoxStream<'static, Result<WatchEvent<Pod>, kube::Error>>;

/// See the module. Ends when dropped.
pub struct Departures {
    roles: watch::Sender<Vec<RoleHandle>>,
    task: JoinHandle<()>,
}

impl Drop for Departures {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Departures {
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
            connector: Connector::new(kubeconfig, TIMEOUT),
            namespace: pod.namespace.clone(),
            roles: watched,
            clock: Arc::clone(clock),
            trouble: Mutex::default(),
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
    connector: Connector,
    namespace: String,
    roles: watch::Receiver<Vec<RoleHandle>>,
    clock: SharedClock,
    /// What was said to be wrong.
    trouble: Mutex<Option<String>>,
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
        let mut dice = Dice::new(seed);
        let mut limit = PAUSE_MIN;
        loop {
            match self.open(&pod).await {
                Ok(events) => {
                    self.say(None);
                    let opened_at = self.clock.now();
                    // Its time is up, or it is dead: either way it is opened anew.
                    let _ = tokio::time::timeout(WATCH_MAX, self.listen(&pod, events)).await;
                    if self.clock.now().since(opened_at) >= STEADY {
                        limit = PAUSE_MIN;
                    }
                }
                Err(reason) => self.say(Some(reason)),
            }
            tokio::time::sleep(dice.between(limit / 2, limit)).await;
            limit = (limit * 2).min(PAUSE_MAX);
        }
    }

    /// Opens a watch on this one pod, which begins with what it is now.
    async fn open(&self, pod: &str) -> Result<Events, String> {
        let connection = self.connector.connection().await?;
        let params = WatchParams {
            field_selector: Some(format!("metadata.name={pod}")),
            timeout: Some(WATCH_SECONDS),
            bookmarks: false,
            ..WatchParams::default()
        };
        let request = Request::new(core::Pod::url_path(&(), Some(&self.namespace))).watch(&params, "");
        let request = request.map_err(|error| format!("the request cannot be made: {error}"))?;
        let opened = connection.client().request_events::<Pod>(request);
        match tokio::time::timeout(TIMEOUT, opened).await {
            Ok(Ok(events)) => Ok(events.boxed()),
            Ok(Err(error)) => Err(match Trouble::of(&error, connection.endpoint()) {
                Trouble::Status { code: 403, .. } => missing_rule("watch", Resource::PODS, &self.namespace, "", None),
                trouble => trouble.to_string(),
            }),
            Err(_) => Err(format!("no answer within {TIMEOUT:?}")),
        }
    }

    /// Takes what a watch tells until it ends.
    async fn listen(&self, pod: &str, mut events: Events) {
        while let Some(Ok(event)) = events.next().await {
            match event {
                // The last state of an object that goes is as good as any.
                WatchEvent::Added(object) | WatchEvent::Modified(object) | WatchEvent::Deleted(object) => {
                    if object.metadata.name.as_deref() == Some(pod) {
                        self.tell(&object).await;
                    }
                }
                WatchEvent::Bookmark(_) => {}
                // 410: the server no longer knows what happened since. The next watch begins with what is.
                WatchEvent::Error(_) => return,
            }
        }
    }

    async fn tell(&self, pod: &Pod) {
        for end in account::ends(pod) {
            tracing::debug!(session = %end.session, promise = ?end.promise, "a process of Baton has ended");
            let handles = self.roles.borrow().clone();
            for role in handles {
                role.tell(Command::Departed { session: end.session, promise: end.promise }).await;
            }
        }
    }

    /// Says what is wrong, once for each reason; none: nothing any more.
    fn say(&self, trouble: Option<String>) {
        let mut said = self.trouble.lock();
        match &trouble {
            Some(reason) if said.as_ref() != Some(reason) => {
                tracing::warn!(%reason, "pods cannot be watched: a failover takes as long as the lease");
            }
            None if said.is_some() => tracing::info!("pods can be watched again"),
            _ => {}
        }
        *said = trouble;
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

async fn sleep(span: Option<Duration>) {
    match span {
        Some(span) => tokio::time::sleep(span).await,
        None => std::future::pending().await,
    }
}
