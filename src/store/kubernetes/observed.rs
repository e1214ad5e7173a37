//! What this replica knows of one role's object, and who listens to it. Shared between the requests, which read and
//! write, and the watch.

use parking_lot::Mutex;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use tokio::sync::Notify;

use super::lease_object;
use super::listeners::ObjectListeners;
use super::rest::Rest;
use super::watch::{Silence, WatchedObject};
use crate::base::Subscription;
use crate::base::clock::{BootClock, Clock};
use crate::protocol::Mono;
use crate::protocol::lease_object::{Caution, LeaseRecord, Observation, Seen, Source, Tenure, news};
use crate::store::{News, StoreError};

/// One role's.
pub(super) struct ObservedLease {
    /// The object's.
    pub name: String,
    state: Mutex<State>,
    changed: Notify,
}

struct State {
    observation: Observation,
    /// The object as it was last seen, for the next write.
    object: Option<Lease>,
    /// The shortest lease anybody here asked for.
    lease: Duration,
    /// The object holds what Baton did not write.
    garbage: Option<StoreError>,
    /// What fails for this role, though the server does its work.
    campaigns: Rest,
    renewals: Rest,
    /// What to mind about another program that takes part, and has had the object at some time.
    hasty: Option<String>,
    listeners: ObjectListeners<News>,
}

/// Who pauses after a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asks {
    Campaign,
    Renewal,
}

/// What there is.
pub(super) enum Sighting {
    /// The object.
    Object(Box<Lease>),
    /// None; as of this version, if that was told.
    Gone(Option<u64>),
}

/// What a decision is made on.
pub(super) struct LeaseView {
    pub observation: Observation,
    pub object: Option<Lease>,
    pub live: bool,
}

impl ObservedLease {
    /// `seed` spreads the replicas' rests.
    pub fn new(name: String, lease: Duration, seed: u64) -> Self {
        let state = State {
            observation: Observation::new(Caution::ALL),
            object: None,
            lease,
            garbage: None,
            campaigns: Rest::new(seed),
            renewals: Rest::new(!seed),
            hasty: None,
            listeners: ObjectListeners::new(),
        };
        Self { name, state: Mutex::new(state), changed: Notify::new() }
    }

    /// What is known now.
    ///
    /// # Errors
    /// [`StoreError::Garbage`] while the object holds what Baton did not write.
    pub fn view(&self) -> Result<LeaseView, StoreError> {
        let state = self.state.lock();
        match &state.garbage {
            Some(garbage) => Err(garbage.clone()),
            None => {
                let (observation, object) = (state.observation.clone(), state.object.clone());
                Ok(LeaseView { observation, object, live: state.listeners.is_live() })
            }
        }
    }

    /// A create has no answer.
    pub fn create_unanswered(&self) {
        self.state.lock().observation.create_unanswered();
    }

    /// An update was done.
    pub fn updated(&self) {
        self.state.lock().observation.updated();
    }

    /// For how long these requests pause, and why.
    pub fn resting(&self, asks: Asks) -> Option<(Duration, StoreError)> {
        self.state.lock().rest(asks).left(BootClock.now())
    }

    /// One of them failed: they pause, for up to `longest`.
    pub fn failed(&self, asks: Asks, error: &StoreError, longest: Duration) {
        self.state.lock().rest(asks).begin(BootClock.now(), error.clone(), None, longest);
    }

    /// One of them was answered.
    pub fn worked(&self, asks: Asks) {
        self.state.lock().rest(asks).end();
    }

    /// What to mind about another program that takes part.
    pub fn hasty(&self) -> Option<String> {
        self.state.lock().hasty.clone()
    }

    /// Somebody asks for leases of this length.
    pub fn wants(&self, lease: Duration) {
        self.state.lock().lease = lease;
    }

    /// A listener more; true when nobody watches yet and the caller shall.
    pub fn listen(&self) -> (Subscription<News>, bool) {
        let added = self.state.lock().listeners.add();
        self.changed.notify_one();
        added
    }
}

impl WatchedObject for ObservedLease {
    fn name(&self) -> &str {
        &self.name
    }

    /// Takes what was read, written or heard, and tells the listeners what it means.
    fn take(&self, sight: Sighting, source: Source, now: Mono) {
        let (lease, version) = match sight {
            Sighting::Object(lease) => {
                let version = version_of(&lease);
                (Some(*lease), version)
            }
            Sighting::Gone(version) => (None, version),
        };
        let mut state = self.state.lock();
        if !state.observation.admit(version, lease.is_some(), source, now) {
            return;
        }
        match lease.as_ref().map(lease_object::read).transpose() {
            Ok(record) => {
                if state.garbage.take().is_some() {
                    state.campaigns.end();
                    state.renewals.end();
                }
                if let Some(hasty) = record.as_ref().and_then(|record| hasty_stranger(record, state.lease))
                    && state.hasty.as_ref() != Some(&hasty)
                {
                    tracing::warn!(lease = self.name, note = hasty, "the API server works, with a reservation");
                    state.hasty = Some(hasty);
                }
                state.see(record, now);
            }
            Err(why) => {
                state.garbage = Some(StoreError::Garbage { key: format!("the Lease {}", self.name), why });
                // Its listeners shall look, and find out.
                state.listeners.tell_gap();
            }
        }
        state.object = lease;
        drop(state);
        self.changed.notify_one();
    }

    fn is_heard(&self) -> bool {
        self.state.lock().listeners.any()
    }

    fn open(&self) {
        self.state.lock().listeners.open();
    }

    fn close(&self) {
        self.state.lock().listeners.close();
    }

    fn silence(&self) -> Silence {
        let state = self.state.lock();
        match state.observation.seen() {
            // Looked at twice as often as it has to be.
            Some(Seen::Absent) => Silence::Look(state.lease / (2 * Observation::LOOKS_PER_LEASE)),
            Some(Seen::Present(record)) if record.holder().is_some() => {
                let ours = record.mark.as_ref().map(|mark| mark.lease_duration);
                let theirs = record.lease_seconds.map(|seconds| Duration::from_secs(seconds.into()));
                Silence::Heartbeat(ours.max(theirs).unwrap_or(state.lease))
            }
            Some(Seen::Present(_)) | None => Silence::Endless,
        }
    }

    fn changed(&self) -> &Notify {
        &self.changed
    }

    fn without_watch(&self) -> &'static str {
        "replicas look by themselves"
    }
}

impl State {
    fn rest(&mut self, asks: Asks) -> &mut Rest {
        match asks {
            Asks::Campaign => &mut self.campaigns,
            Asks::Renewal => &mut self.renewals,
        }
    }

    fn see(&mut self, record: Option<LeaseRecord>, now: Mono) {
        // What is seen for the first time has been there before: no news, but what every watch begins with.
        let first = self.observation.seen().is_none();
        let before = self.observation.record().cloned();
        let seen = record.map_or(Seen::Absent, Seen::Present);
        let same = self.observation.seen() == Some(&seen);
        let lease = self.lease;
        self.observation.see(seen, lease, now);
        if same || first {
            return;
        }
        match self.observation.record().and_then(|record| news(before.as_ref(), record)) {
            Some(announcement) => self.listeners.tell(&News::Said(Box::new(announcement))),
            // Who opens the watch tells of the gap before it.
            None if self.listeners.is_live() => self.listeners.tell_gap(),
            None => {}
        }
    }
}

/// Versions of one object rise. They are texts to everybody but for their order, which Kubernetes promises of numbers.
pub(super) fn version_of(lease: &Lease) -> Option<u64> {
    lease.metadata.resource_version.as_deref()?.parse().ok()
}

/// What to mind about another program that takes part in this election, if its lease is shorter than ours.
fn hasty_stranger(record: &LeaseRecord, ours: Duration) -> Option<String> {
    let Tenure::Foreign(Some(theirs)) = record.tenure() else { return None };
    (theirs < ours).then(|| {
        format!(
            "{} takes part with another program, whose leaseDurationSeconds are {}, and leaseDuration here is \
             {ours:?}: client-go before 0.27 and other languages' libraries wait for their own only, and may lead \
             while this replica still does; set leaseDuration to that or less, and renewPeriod well below",
            record.identity,
            theirs.as_secs()
        )
    })
}
