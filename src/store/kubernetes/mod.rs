//! Leases, and ledgers of jobs, as Lease objects of a Kubernetes API server (`coordination.k8s.io/v1`): for users
//! without Redis.
//!
//! ```text
//!   KubernetesStore ── campaign, renew, release ──> decide on what was seen ──> LeaseApi: POST, PUT on that version
//!         │                                              ▲        conflict: look again │
//!         └── subscribe ──> watch, one per role ──> ObservedLease (known, since when) ◄┘
//! ```
//!
//! The rules are in [`lease_object`](crate::protocol::lease_object); here are the requests. Three properties:
//! - *Every write is on a version that was seen*, or makes an object that was not there. A conflict is no error: it is
//!   looked again, and decided anew, within the command timeout.
//! - *Nothing is repeated*: what got no answer in time is unknown, and the election decides what follows (R2).
//! - *Steady load*: the leader writes once per `renewPeriod`, without reading first; a standby only watches. What fails
//!   is tried less and less often (`rest`): by all who can wait together, and by a leader as long as it has time.
//!
//! The requests themselves, and what an answer means, are the client's ([`crate::kube`]).

mod api;
mod audit;
mod errors;
mod lease_object;
mod ledgers;
mod listeners;
mod observed;
mod rest;
mod watch;

use parking_lot::Mutex;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::watch as channel;
use tokio::task::AbortHandle;

pub use audit::audit;

use self::api::LeaseApi;
use self::ledgers::Wishes;
use self::observed::{Asks, LeaseView, ObservedLease, Sighting};
use self::watch::WatchedObject;
use super::{LeaseStore, News, Purge, ShortestLease, StoreError, StoreHealth};
use crate::base::Subscription;
use crate::base::clock::{BootClock, Clock, wall_time};
use crate::config::KubernetesConfig;
use crate::kube::Failure;
use crate::protocol::lease_object::{self as rules, LeaseRecord, Source, Step, Tenure};
use crate::protocol::{
    CampaignReply, CampaignRequest, Mono, ReleaseReply, ReleaseRequest, RenewReply, RenewRequest, RoleName, Rules,
    SessionId, Stamped, StoreTime, TokensExhausted,
};

/// How often one request decides anew after conflicts. Each means that somebody else got through.
const DECISIONS_MAX: u32 = 8;
/// A server that fails is left alone by candidates and watches, who ask it one after the other, for up to this part of
/// a lease.
const SERVER_REST: u32 = 3;
/// Up to this part, if it does not answer: it is waited for besides.
const SILENCE_REST: u32 = 2;
/// What is refused for one role, its candidate asks for again after up to this part, beside the watch.
const CAMPAIGN_REST: u32 = 2;
/// A leader, who has a deadline, for up to this part: some eight more tries are left to it.
const RENEWAL_REST: u32 = 10;
/// A term that was not renewed for so long beyond its lease is over for `purge`, which nothing else believes a time of
/// day for: a leader whose object is purged puts it back.
const PURGE_SLACK: Duration = Duration::from_secs(60);

/// See the module.
pub struct KubernetesStore {
    api: Arc<LeaseApi>,
    prefix: String,
    lease_min: ShortestLease,
    seed: u64,
    leases: Mutex<HashMap<RoleName, Arc<ObservedLease>>>,
    wishes: Arc<Wishes>,
    notes: Arc<Notes>,
    watches: Mutex<Vec<AbortHandle>>,
}

impl fmt::Debug for KubernetesStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KubernetesStore").field("endpoint", &self.api.endpoint()).field("prefix", &self.prefix).finish()
    }
}

impl Drop for KubernetesStore {
    fn drop(&mut self) {
        let watches = self.watches.get_mut();
        watches.iter().for_each(AbortHandle::abort);
    }
}

/// What works, but not as well as it should, for each role's object.
#[derive(Default)]
struct Notes(Mutex<BTreeMap<String, String>>);

impl Notes {
    fn keep(&self, name: &str, note: String) {
        let mut notes = self.0.lock();
        // Once per reason, not once per attempt.
        if notes.get(name) != Some(&note) {
            tracing::warn!(lease = name, note, "the API server works, with a reservation");
            notes.insert(name.to_owned(), note);
        }
    }

    fn forget(&self, name: &str) {
        self.0.lock().remove(name);
    }
}

impl KubernetesStore {
    /// A store with the credentials of this pod's service account, or of the kubeconfig (`KUBECONFIG`,
    /// `~/.kube/config`). They are read at the first request; a server that is down is tried again by whoever asks.
    /// `seed` spreads the replicas' reconnects.
    pub fn new(config: &KubernetesConfig, lease_min: impl Into<ShortestLease>, seed: u64) -> Self {
        Self::with(config, None, lease_min.into(), seed)
    }

    /// The same with this kubeconfig.
    pub fn with_kubeconfig(
        config: &KubernetesConfig,
        kubeconfig: PathBuf,
        lease_min: impl Into<ShortestLease>,
        seed: u64,
    ) -> Self {
        Self::with(config, Some(kubeconfig), lease_min.into(), seed)
    }

    fn with(config: &KubernetesConfig, kubeconfig: Option<PathBuf>, lease_min: ShortestLease, seed: u64) -> Self {
        Self {
            api: Arc::new(LeaseApi::new(
                kubeconfig,
                config.namespace.clone(),
                config.command_timeout,
                lease_min.clone(),
                !seed,
            )),
            prefix: config.name_prefix.clone(),
            lease_min,
            seed,
            leases: Mutex::default(),
            wishes: Arc::new(Wishes::new(&config.name_prefix)),
            notes: Arc::default(),
            watches: Mutex::default(),
        }
    }

    fn lease(&self, role: &RoleName) -> Arc<ObservedLease> {
        let mut leases = self.leases.lock();
        let lease = leases.entry(role.clone()).or_insert_with(|| {
            let name = format!("{}-{role}", self.prefix);
            Arc::new(ObservedLease::new(name, self.lease_min.get(), self.seed_of(role.as_str())))
        });
        Arc::clone(lease)
    }

    /// Begins to watch an object, until nobody listens to it any more. `name` spreads the watches of one replica.
    fn watch(&self, object: Arc<impl WatchedObject>, name: &str) {
        let (api, notes) = (Arc::clone(&self.api), Arc::clone(&self.notes));
        let task = tokio::spawn(watch::run(api, object, notes, self.lease_min.clone(), self.seed_of(name)));
        let mut watches = self.watches.lock();
        watches.retain(|watch| !watch.is_finished());
        watches.push(task.abort_handle());
    }

    fn seed_of(&self, name: &str) -> u64 {
        name.bytes().fold(self.seed, |seed, byte| seed.rotate_left(5) ^ u64::from(byte))
    }

    /// Decides, writes, and decides anew after a conflict. What is in `lease` may be old: only a write proves that it
    /// is not, so no answer but one of `quick` is given without a look.
    async fn settle<R>(
        &self,
        lease: &ObservedLease,
        mut looked: bool,
        quick: fn(&LeaseView, &R) -> bool,
        decide: impl Fn(&LeaseView, Mono, StoreTime) -> Result<Step<R>, TokensExhausted>,
    ) -> Result<Stamped<R>, StoreError> {
        let deadline = self.api.deadline();
        for _ in 0..DECISIONS_MAX {
            if looked {
                look_until(&self.api, lease, deadline).await?;
            }
            let (view, now) = (lease.view(), BootClock.now());
            let view = match view {
                Err(_) if !looked => {
                    looked = true;
                    continue;
                }
                view => view?,
            };
            let step = decide(&view, now, wall())?;
            match step {
                Step::Reply(reply) if looked || quick(&view, &reply) => return Ok(stamped(reply)),
                Step::Reply(_) => {}
                Step::Write { record, reply } => match self.write(lease, &view, &record, deadline).await {
                    Ok(()) => return Ok(stamped(reply)),
                    Err(Failure::Conflict | Failure::Missing) => {}
                    Err(failure) => return Err(failure.into()),
                },
            }
            looked = true;
        }
        Err(too_often(&lease.name))
    }

    /// Writes a record on the version that was seen, or makes the object.
    async fn write(
        &self,
        lease: &ObservedLease,
        view: &LeaseView,
        record: &LeaseRecord,
        deadline: Mono,
    ) -> Result<(), Failure> {
        let object = lease_object::write(view.object.as_ref(), &lease.name, record);
        let sent_at = BootClock.now();
        let creates = view.object.is_none();
        let written = if creates {
            self.api.create(&lease.name, &object, deadline).await
        } else {
            self.api.update(&lease.name, &object, deadline).await
        };
        match written {
            Ok(written) => {
                lease.take(Sighting::Object(Box::new(written)), Source::Asked(sent_at), BootClock.now());
                if !creates {
                    lease.updated();
                }
                Ok(())
            }
            Err(failure) => {
                if creates && matches!(failure, Failure::Unanswered { .. }) {
                    lease.create_unanswered();
                }
                Err(failure)
            }
        }
    }
}

/// Every decision met a conflict.
fn too_often(name: &str) -> StoreError {
    StoreError::Refused { reason: format!("the Lease {name} was changed {DECISIONS_MAX} times under this request") }
}

/// Reads the object, and notes what it is.
async fn look(api: &LeaseApi, object: &impl WatchedObject) -> Result<(), Failure> {
    look_until(api, object, api.deadline()).await
}

async fn look_until(api: &LeaseApi, object: &impl WatchedObject, deadline: Mono) -> Result<(), Failure> {
    let asked_at = BootClock.now();
    let sight = match api.get(object.name(), deadline).await? {
        Some(present) => Sighting::Object(Box::new(present)),
        None => Sighting::Gone(None),
    };
    object.take(sight, Source::Asked(asked_at), BootClock.now());
    Ok(())
}

/// This machine's time of day in µs: raises tokens (R3) and tells people, and nothing is timed by it.
fn wall() -> StoreTime {
    StoreTime(u64::try_from(wall_time().as_microsecond()).unwrap_or(0))
}

/// There is no server's clock to watch, so the stamp is this machine's steady one, counted from the time of day at the
/// first stamp: a step of the time of day is no news here.
fn stamped<R>(reply: R) -> Stamped<R> {
    static AHEAD_US: OnceLock<u64> = OnceLock::new();
    let steady = StoreTime(BootClock.now().as_nanos() / 1_000);
    let ahead = *AHEAD_US.get_or_init(|| wall().0.saturating_sub(steady.0));
    Stamped { reply, store_time: steady.plus(Duration::from_micros(ahead)) }
}

#[async_trait]
impl LeaseStore for KubernetesStore {
    async fn campaign(&self, role: &RoleName, request: CampaignRequest) -> Result<Stamped<CampaignReply>, StoreError> {
        let lease = self.lease(role);
        if let Some((_, error)) = lease.resting(Asks::Campaign).or_else(|| self.api.admit()) {
            return Err(error);
        }
        lease.wants(request.lease_duration);
        // With an open watch what is known is as good as what would be read: a write proves it. But nothing proves
        // that an object is still absent.
        let known = lease.view().is_ok_and(|view| view.live && view.object.is_some());
        let quick = |view: &LeaseView, reply: &CampaignReply| view.live && matches!(reply, CampaignReply::Held { .. });
        let settled = self.settle(&lease, !known, quick, |view, now, wall| {
            rules::campaign(&view.observation, &request, self.rules(), (now, wall))
        });
        let settled = settled.await;
        match &settled {
            // What ails the server as a whole, its own rest is for; and what ails this machine, no rest helps.
            Err(error) if self.api.resting().is_none() && *error != TokensExhausted.into() => {
                lease.failed(Asks::Campaign, error, self.lease_min.get() / CAMPAIGN_REST);
            }
            Err(_) => {}
            Ok(_) => lease.worked(Asks::Campaign),
        }
        settled
    }

    async fn renew(&self, role: &RoleName, request: RenewRequest) -> Result<Stamped<RenewReply>, StoreError> {
        let lease = self.lease(role);
        if let Some((_, error)) = lease.resting(Asks::Renewal) {
            return Err(error);
        }
        let known = lease.view().is_ok_and(|view| view.object.is_some());
        let settled = self
            .settle(
                &lease,
                !known,
                |_, _| false,
                |view, _, wall| Ok(rules::renew(&view.observation, &request, self.rules(), wall)),
            )
            .await;
        match &settled {
            Err(error) => lease.failed(Asks::Renewal, error, request.lease_duration / RENEWAL_REST),
            Ok(_) => lease.worked(Asks::Renewal),
        }
        settled
    }

    async fn release(&self, role: &RoleName, request: ReleaseRequest) -> Result<Stamped<ReleaseReply>, StoreError> {
        let lease = self.lease(role);
        let known = lease.view().is_ok_and(|view| view.object.is_some());
        self.settle(&lease, !known, |_, _| false, |view, _, wall| Ok(rules::release(&view.observation, &request, wall)))
            .await
    }

    fn subscribe(&self, role: &RoleName, _but: Option<SessionId>) -> Subscription<News> {
        let lease = self.lease(role);
        let (listener, first) = lease.listen();
        if first {
            self.watch(lease, role.as_str());
        }
        listener
    }

    fn health(&self) -> channel::Receiver<StoreHealth> {
        self.api.health()
    }

    async fn purge(&self, role: &RoleName) -> Result<Purge, StoreError> {
        let lease = self.lease(role);
        let deadline = self.api.deadline();
        for _ in 0..DECISIONS_MAX {
            look_until(&self.api, &*lease, deadline).await?;
            let view = lease.view()?;
            let (Some(object), Some(record)) = (&view.object, view.observation.record()) else {
                return Ok(Purge::Absent);
            };
            if is_in_use(record, wall()) {
                return Ok(Purge::InUse);
            }
            if record.mark.is_none() {
                let why = "Baton never wrote it".to_owned();
                return Err(StoreError::Garbage { key: format!("the Lease {}", lease.name), why });
            }
            match self.api.delete(&lease.name, object, deadline).await {
                Ok(()) => return Ok(Purge::Purged),
                Err(Failure::Missing | Failure::Conflict) => {}
                Err(failure) => return Err(failure.into()),
            }
        }
        Ok(Purge::InUse)
    }

    fn notes(&self) -> Vec<String> {
        let notes: Vec<String> = self.notes.0.lock().values().cloned().collect();
        let leases = self.leases.lock();
        notes.into_iter().chain(leases.values().filter_map(|lease| lease.hasty())).collect()
    }

    fn rules(&self) -> Rules {
        Rules::KUBERNETES
    }
}

/// Whether somebody has it, or had it a moment ago by its own word and this machine's time of day.
fn is_in_use(record: &LeaseRecord, wall: StoreTime) -> bool {
    let lease = match record.tenure() {
        Tenure::Ours(mark) => mark.lease_duration,
        Tenure::Foreign(lease) => lease.unwrap_or_default(),
        Tenure::Released { .. } | Tenure::Vacant => return false,
    };
    let renewed = record.renewed_us.and_then(|us| u64::try_from(us).ok()).unwrap_or(0);
    wall < StoreTime(renewed).plus(lease + PURGE_SLACK)
}
