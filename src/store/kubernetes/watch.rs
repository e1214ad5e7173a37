//! Listens to one object for as long as somebody here wants to know of it (R8): a role's Lease, or the wishes for jobs.
//!
//! What a watch tells counts from when it came, never from when it claims to have happened.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use tokio::sync::Notify;

use super::api::LeaseApi;
use super::observed::{Sighting, version_of};
use super::{Notes, look};
use crate::base::Backoff;
use crate::base::clock::{BootClock, Clock};
use crate::kube::{Change, Denial, Failure, Reopening, Watch};
use crate::protocol::Mono;
use crate::protocol::lease_object::Source;
use crate::store::{ShortestLease, StoreError};

/// The first pause between two watches. Each that ended soon makes the next pause four times as long.
const PAUSE_MIN: Duration = Duration::from_millis(25);
/// No pause is longer, however long the leases.
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// One that ends sooner than this has been opened for nothing: nothing is read beside it.
const SETTLE: Duration = Duration::from_millis(50);
/// How often a watch looks whether anybody still listens.
const ROUND: Duration = Duration::from_secs(5);

/// An object that is watched, and what is known of it.
pub(super) trait WatchedObject: Send + Sync + 'static {
    /// The object's.
    fn name(&self) -> &str;

    /// Takes what was read or heard.
    fn take(&self, sight: Sighting, source: Source, now: Mono);

    /// Whether anybody still listens; when not, the watch ends.
    fn is_heard(&self) -> bool;

    /// The watch is open, and what was there before it has been read.
    fn open(&self);

    /// The watch has ended.
    fn close(&self);

    /// How long the watch may be silent before something should have been heard, and when it shall look for itself.
    fn silence(&self) -> Silence;

    /// Something changed that the watch may have to know of.
    fn changed(&self) -> &Notify;

    /// What follows for who may not watch, in words.
    fn without_watch(&self) -> &'static str;
}

/// See [`WatchedObject::silence`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Silence {
    /// Nothing is to be expected.
    Endless,
    /// Look again after this.
    Look(Duration),
    /// A heartbeat should come within this; if not, the watch may be dead.
    Heartbeat(Duration),
}

/// Runs until nobody listens any more.
pub(super) async fn run<W: WatchedObject>(
    api: Arc<LeaseApi>,
    object: Arc<W>,
    notes: Arc<Notes>,
    lease_min: ShortestLease,
    seed: u64,
) {
    let mut reopening = Reopening::new(Backoff::new(seed, PAUSE_MIN).growing_by(4));
    while object.is_heard() {
        if let Some((left, _)) = api.admit() {
            wait(&*object, left).await;
            continue;
        }
        match api.watch(object.name()).await {
            Ok(mut watch) => {
                let why = listen(&api, &*object, &notes, &mut watch).await;
                object.close();
                reopening.ended(&watch);
                tracing::debug!(lease = object.name(), why, "the watch ended");
            }
            Err(failure) => {
                tracing::debug!(lease = object.name(), reason = %failure, "the watch cannot be opened");
                if matches!(failure, Failure::Denied { why: Denial::Forbidden, .. }) {
                    let so = object.without_watch();
                    notes.keep(object.name(), format!("it does not let us watch, {so}: {failure}"));
                }
            }
        }
        // Where the server itself is in trouble, its rest is the pause.
        if api.resting().is_none() {
            pause(&api, &*object, reopening.pause(lease_min.get().min(PAUSE_MAX))).await;
        }
    }
}

/// Reads what happened before the watch was open, then takes events until it ends, and says why it did.
async fn listen(api: &LeaseApi, object: &impl WatchedObject, notes: &Notes, watch: &mut Watch<Lease>) -> String {
    let mut settles_at = Some(BootClock.now() + SETTLE);
    loop {
        let silence = match settles_at {
            Some(at) => Silence::Look(at.since(BootClock.now())),
            None => object.silence(),
        };
        let span = match silence {
            Silence::Endless => ROUND,
            Silence::Look(after) | Silence::Heartbeat(after) => after,
        };
        tokio::select! {
            change = watch.next() => {
                let sight = match change {
                    Ok(Change::Present(lease)) => Sighting::Object(Box::new(lease)),
                    Ok(Change::Gone(lease)) => Sighting::Gone(version_of(&lease)),
                    Err(why) => return why,
                };
                object.take(sight, Source::Watch, BootClock.now());
            }
            // What was learned otherwise may change what there is to wait for.
            () = object.changed().notified() => {}
            () = tokio::time::sleep(span) => match silence {
                Silence::Endless => {}
                Silence::Look(_) => {
                    if let Err(failure) = look(api, object).await {
                        return StoreError::from(failure).to_string();
                    }
                    if settles_at.take().is_some() {
                        notes.forget(object.name());
                        object.open();
                    }
                }
                Silence::Heartbeat(_) => return "no heartbeat for a whole lease: it may be dead".to_owned(),
            },
        }
        if !object.is_heard() {
            return "nobody listens any more".to_owned();
        }
    }
}

/// Sleeps between two watches, and looks meanwhile where absence has to be looked at to count.
async fn pause(api: &LeaseApi, object: &impl WatchedObject, pause: Duration) {
    let mut left = pause;
    while !left.is_zero() {
        let look_after = match object.silence() {
            Silence::Look(after) => after,
            Silence::Heartbeat(_) | Silence::Endless => Duration::MAX,
        };
        let part = left.min(look_after);
        wait(object, part).await;
        left -= part;
        if !object.is_heard() || (part == look_after && look(api, object).await.is_err()) {
            return;
        }
    }
}

/// Sleeps, unless the last listener goes meanwhile.
async fn wait(object: &impl WatchedObject, pause: Duration) {
    let mut left = pause;
    while !left.is_zero() && object.is_heard() {
        let part = left.min(ROUND);
        tokio::time::sleep(part).await;
        left -= part;
    }
}
