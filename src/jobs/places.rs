//! How many attempts this replica makes at once, over all jobs and roles (`maxConcurrentRuns`).

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The places, which are given in the order in which they are asked for. Shared by reference.
pub(super) struct Places {
    free: Arc<Semaphore>,
    state: Arc<Mutex<State>>,
}

struct State {
    /// How many there are; none: no bound, and nobody needs one.
    limit: Option<usize>,
    /// How many of those that are taken are gone as soon as they are given back.
    surplus: usize,
}

/// A place. Given back when dropped.
pub(super) struct Place {
    permit: Option<OwnedSemaphorePermit>,
    state: Arc<Mutex<State>>,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut state = self.state.lock();
        if let Some(permit) = self.permit.take_if(|_| state.surplus > 0) {
            state.surplus -= 1;
            permit.forget();
        }
    }
}

impl Places {
    /// Without a bound.
    pub(super) fn unlimited() -> Self {
        let state = Arc::new(Mutex::new(State { limit: None, surplus: 0 }));
        Self { free: Arc::new(Semaphore::new(0)), state }
    }

    /// So many from now on. What goes on is not ended for it, and what began while there was no bound has no place.
    pub(super) fn limit(&self, limit: Option<usize>) {
        let mut state = self.state.lock();
        let (old, new) = (state.limit.unwrap_or(0), limit.unwrap_or(0));
        state.limit = limit;
        let more = new.saturating_sub(old);
        let kept = more.min(state.surplus);
        state.surplus -= kept;
        self.free.add_permits(more - kept);
        let less = old.saturating_sub(new);
        state.surplus += less - self.free.forget_permits(less);
    }

    /// Whether there is a bound.
    pub(super) fn is_limited(&self) -> bool {
        self.state.lock().limit.is_some()
    }

    /// The next place that is free. Who drops this gives up its turn.
    pub(super) fn next(&self) -> impl Future<Output = Place> + Send + use<> {
        let (free, state) = (Arc::clone(&self.free), Arc::clone(&self.state));
        async move { Place { permit: free.acquire_owned().await.ok(), state } }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    fn take(places: &Places) -> Option<Place> {
        places.next().now_or_never()
    }

    #[test]
    fn there_are_as_many_as_was_said_last_once_those_beyond_are_given_back() {
        let places = Places::unlimited();
        assert!(!places.is_limited());
        places.limit(Some(3));
        assert!(places.is_limited());
        let mut taken: Vec<Place> = (0..3).filter_map(|_| take(&places)).collect();
        assert!(taken.len() == 3 && take(&places).is_none());
        places.limit(Some(1));
        taken.pop();
        assert!(take(&places).is_none(), "two go on");
        places.limit(Some(2));
        assert!(take(&places).is_none(), "two go on, and two may");
        taken.pop();
        let second = take(&places);
        assert!(second.is_some() && take(&places).is_none());
        places.limit(None);
        assert!(!places.is_limited());
        drop((taken, second));
        places.limit(Some(1));
        let one = take(&places);
        assert!(one.is_some() && take(&places).is_none());
    }
}
