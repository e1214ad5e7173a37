//! Who listens to an object, each with a bounded queue: a listener that is new, or was too slow, hears of a gap before
//! anything else; and whether the object is watched for them.

use crate::base::mailbox;

/// How many messages a listener may be behind before it is told of a gap instead.
const LISTENER_BUFFER: usize = 256;

/// See the module. `gap` is the message that something may have been missed.
pub(super) struct Listeners<N> {
    each: Vec<Listener<N>>,
    gap: N,
    /// Somebody watches, or is about to.
    watched: bool,
    /// The watch is open, so that a change is heard.
    live: bool,
}

struct Listener<N> {
    news: mailbox::Sender<N>,
    missed: bool,
}

impl<N: Clone> Listener<N> {
    fn settle(&mut self, gap: &N) -> bool {
        if self.missed {
            self.missed = self.news.try_send(gap.clone()).is_err();
        }
        !self.missed
    }
}

impl<N: Clone> Listeners<N> {
    pub fn new(gap: N) -> Self {
        Self { each: Vec::new(), gap, watched: false, live: false }
    }

    /// A listener more, which hears of its gap once the watch is open; true when nobody watches yet and the caller
    /// shall.
    pub fn add(&mut self) -> (mailbox::Receiver<N>, bool) {
        let (news, listener) = mailbox::channel(LISTENER_BUFFER);
        self.each.push(Listener { news, missed: true });
        if self.live {
            self.settle();
        }
        (listener, !std::mem::replace(&mut self.watched, true))
    }

    /// Whether anybody still listens; when not, the watch ends.
    pub fn any(&mut self) -> bool {
        self.each.retain(|listener| !listener.news.is_closed());
        self.watched = !self.each.is_empty();
        self.watched
    }

    /// The watch is open: what happened before may have been missed.
    pub fn open(&mut self) {
        self.live = true;
        self.tell_gap();
    }

    /// The watch has ended.
    pub const fn close(&mut self) {
        self.live = false;
    }

    pub const fn is_live(&self) -> bool {
        self.live
    }

    pub fn tell(&mut self, said: &N) {
        for listener in &mut self.each {
            if listener.settle(&self.gap) {
                listener.missed = listener.news.try_send(said.clone()).is_err();
            }
        }
    }

    pub fn tell_gap(&mut self) {
        self.each.iter_mut().for_each(|listener| listener.missed = true);
        self.settle();
    }

    /// Tells of the gaps that are still to be told of, where there is room.
    fn settle(&mut self) {
        for listener in &mut self.each {
            listener.settle(&self.gap);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_new_or_was_too_slow_hears_of_a_gap_first() {
        let mut listeners = Listeners::new("gap");
        let (mut ear, first) = listeners.add();
        assert!(first && ear.try_recv().is_err(), "the watch is not open yet");
        listeners.tell(&"first");
        assert_eq!((ear.try_recv(), ear.try_recv()), (Ok("gap"), Ok("first")));
        for _ in 0..=LISTENER_BUFFER {
            listeners.tell(&"many");
        }
        assert_eq!(std::iter::from_fn(|| ear.try_recv().ok()).collect::<Vec<_>>(), ["many"; LISTENER_BUFFER]);
        listeners.tell(&"later");
        assert_eq!((ear.try_recv(), ear.try_recv()), (Ok("gap"), Ok("later")));
        listeners.tell_gap();
        assert_eq!(ear.try_recv(), Ok("gap"));
        listeners.open();
        assert_eq!(ear.try_recv(), Ok("gap"));
        let (mut late, first) = listeners.add();
        assert_eq!((late.try_recv(), first), (Ok("gap"), false));
        drop((ear, late));
        assert!(!listeners.any());
        assert!(listeners.add().1, "the watch ends when nobody listens any more");
    }
}
