//! Who listens to an object, and whether it is watched for them.

use crate::base::Subscription;
use crate::base::subscription::{Lossy, Subscribers};

/// See the module.
pub(super) struct ObjectListeners<N> {
    each: Subscribers<N>,
    /// Somebody watches, or is about to.
    watched: bool,
    /// The watch is open, so that a change is heard.
    live: bool,
}

impl<N: Lossy> ObjectListeners<N> {
    pub fn new() -> Self {
        Self { each: Subscribers::default(), watched: false, live: false }
    }

    /// A listener more, which hears of a gap once the watch is open; true when nobody watches yet and the caller shall.
    pub fn add(&mut self) -> (Subscription<N>, bool) {
        (self.each.add(self.live), !std::mem::replace(&mut self.watched, true))
    }

    /// Whether anybody still listens; when not, the watch ends.
    pub fn any(&mut self) -> bool {
        self.watched = self.each.count() > 0;
        self.watched
    }

    /// The watch is open: what happened before may have been missed.
    pub fn open(&mut self) {
        self.live = true;
        self.each.tell_gap();
    }

    /// The watch has ended.
    pub const fn close(&mut self) {
        self.live = false;
    }

    pub const fn is_live(&self) -> bool {
        self.live
    }

    pub fn tell(&mut self, said: &N) {
        self.each.tell(said);
    }

    pub fn tell_gap(&mut self) {
        self.each.tell_gap();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::JobNews;

    #[test]
    fn who_listens_hears_of_a_gap_once_the_watch_is_open_and_the_last_to_leave_ends_it() {
        let mut listeners = ObjectListeners::new();
        let (mut early, first) = listeners.add();
        assert!(first && early.try_recv().is_err(), "the watch is not open yet");
        listeners.open();
        assert_eq!(early.try_recv(), Ok(JobNews::Gap));
        let (mut late, first) = listeners.add();
        assert_eq!((late.try_recv(), first), (Ok(JobNews::Gap), false));
        drop((early, late));
        assert!(!listeners.any());
        assert!(listeners.add().1, "the watch ends when nobody listens any more");
    }
}
