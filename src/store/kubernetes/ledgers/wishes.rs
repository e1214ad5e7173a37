//! The object that is touched when a wish was written in a ledger, and who hears of that.

use parking_lot::Mutex;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use tokio::sync::Notify;

use super::object::{REVISION, check_mark, garbage, named};
use crate::base::Subscription;
use crate::protocol::Mono;
use crate::protocol::jobs::{JobName, Revision};
use crate::protocol::lease_object::Source;
use crate::store::kubernetes::listeners::ObjectListeners;
use crate::store::kubernetes::observed::{Sighting, version_of};
use crate::store::kubernetes::watch::{Silence, WatchedObject};
use crate::store::{JobNews, StoreError};

/// Nothing is to be heard for days, and a watch can die in silence: so the object is looked at now and then.
const LOOK_EVERY: Duration = Duration::from_secs(30);

/// Whose wish it was, last.
const WISH: &str = "baton.dev/wish";

/// The object. No job's: those have `job.` there.
pub(crate) fn name(prefix: &str) -> String {
    format!("{prefix}-jobs.wishes")
}

/// `seen`, or a new object, with the ledger that was written. The revision makes every wish another.
pub(super) fn write(seen: Option<&Lease>, name: &str, job: &JobName, revision: Revision) -> Result<Lease, StoreError> {
    if let Some(seen) = seen {
        check_mark(seen).map_err(|why| garbage(seen, why))?;
    }
    let new = || Lease { metadata: named(name), spec: Some(LeaseSpec::default()) };
    let mut lease = seen.cloned().unwrap_or_else(new);
    // The server keeps its own account of who wrote what.
    lease.metadata.managed_fields = None;
    let annotations = lease.metadata.annotations.get_or_insert_default();
    annotations.insert(WISH.to_owned(), job.to_string());
    annotations.insert(REVISION.to_owned(), revision.get().to_string());
    Ok(lease)
}

fn read(lease: &Lease) -> Option<JobName> {
    JobName::stored(lease.metadata.annotations.as_ref()?.get(WISH)?.as_str())
}

/// What this replica has heard.
pub(in crate::store::kubernetes) struct Wishes {
    name: String,
    state: Mutex<State>,
    changed: Notify,
}

struct State {
    /// The version that was seen last.
    seen: Option<u64>,
    listeners: ObjectListeners<JobNews>,
}

impl Wishes {
    pub fn new(prefix: &str) -> Self {
        let state = State { seen: None, listeners: ObjectListeners::new() };
        Self { name: name(prefix), state: Mutex::new(state), changed: Notify::new() }
    }

    /// A listener more; true when nobody watches yet and the caller shall.
    pub fn listen(&self) -> (Subscription<JobNews>, bool) {
        self.state.lock().listeners.add()
    }
}

impl WatchedObject for Wishes {
    fn name(&self) -> &str {
        &self.name
    }

    fn take(&self, sight: Sighting, source: Source, _now: Mono) {
        let (version, wish) = match sight {
            Sighting::Object(lease) => (version_of(&lease), read(&lease)),
            // Nobody wishes anything by that. Another object will have a greater version.
            Sighting::Gone(_) => return,
        };
        let mut state = self.state.lock();
        if version.is_some() && version <= state.seen {
            return;
        }
        state.seen = version;
        if !state.listeners.is_live() {
            // The opened watch begins with a gap.
            return;
        }
        match (source, wish) {
            (Source::Watch, Some(job)) => state.listeners.tell(&JobNews::Changed(job)),
            // The watch has not told of it, nor perhaps of those before.
            (Source::Asked(_), _) | (Source::Watch, None) => state.listeners.tell_gap(),
        }
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
        Silence::Look(LOOK_EVERY)
    }

    fn changed(&self) -> &Notify {
        &self.changed
    }

    fn without_watch(&self) -> &'static str {
        "what is asked of a job is found when its leader next writes in its ledger"
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc::error::TryRecvError;

    use super::*;

    fn wish(job: &str, version: u64) -> Sighting {
        let (job, revision) = (JobName::new(job).unwrap(), Revision::new(version).unwrap());
        let mut lease = write(None, &name("baton"), &job, revision).unwrap();
        lease.metadata.resource_version = Some(version.to_string());
        Sighting::Object(Box::new(lease))
    }

    fn changed(job: &str) -> Result<JobNews, TryRecvError> {
        Ok(JobNews::Changed(JobName::new(job).unwrap()))
    }

    #[test]
    fn each_wish_is_told_once_and_what_was_there_before_the_watch_is_not() {
        let (wishes, now) = (Wishes::new("baton"), Mono::from_nanos(0));
        let (mut ear, first) = wishes.listen();
        assert!(first);
        wishes.take(wish("old", 3), Source::Asked(now), now);
        assert!(ear.try_recv().is_err(), "nothing is open yet");
        wishes.open();
        assert_eq!(ear.try_recv(), Ok(JobNews::Gap));
        // Every watch begins with what there is.
        wishes.take(wish("old", 3), Source::Watch, now);
        wishes.take(wish("a", 5), Source::Watch, now);
        wishes.take(wish("b", 9), Source::Watch, now);
        wishes.take(Sighting::Gone(Some(10)), Source::Watch, now);
        wishes.take(wish("b", 12), Source::Watch, now);
        assert_eq!([ear.try_recv(), ear.try_recv(), ear.try_recv()], [changed("a"), changed("b"), changed("b")]);
        assert!(ear.try_recv().is_err());
        let (mut late, first) = wishes.listen();
        assert_eq!((late.try_recv(), first), (Ok(JobNews::Gap), false));
    }

    #[test]
    fn a_wish_that_the_watch_did_not_tell_of_is_a_gap() {
        let (wishes, now) = (Wishes::new("baton"), Mono::from_nanos(0));
        let (mut ear, _) = wishes.listen();
        wishes.open();
        assert_eq!(ear.try_recv(), Ok(JobNews::Gap));
        wishes.take(wish("a", 5), Source::Asked(now), now);
        assert_eq!(ear.try_recv(), Ok(JobNews::Gap));
        wishes.take(wish("a", 5), Source::Watch, now);
        wishes.take(wish("a", 5), Source::Asked(now), now);
        wishes.take(Sighting::Gone(None), Source::Asked(now), now);
        assert!(ear.try_recv().is_err(), "once");
        wishes.close();
        wishes.take(wish("a", 7), Source::Asked(now), now);
        assert!(ear.try_recv().is_err(), "the next watch begins with one");
    }

    #[test]
    fn a_strangers_object_is_left_alone() {
        let job = JobName::new("a").unwrap();
        let theirs = Lease { metadata: named("baton-jobs.wishes"), spec: None };
        let refused = write(Some(&theirs), "baton-jobs.wishes", &job, Revision::new(7).unwrap());
        assert!(matches!(refused, Err(StoreError::Garbage { key, .. }) if key == "the Lease baton-jobs.wishes"));
    }
}
