//! What is told to somebody who may be slow. Nobody waits for that one: it loses messages then, and hears that it did.

use tokio::sync::mpsc;

/// How many messages a subscriber may be behind before it loses some.
pub const BEHIND_MAX: usize = 256;

/// The side that hears.
pub type Subscription<N> = mpsc::Receiver<N>;

/// What subscribers hear.
pub trait Lossy: Clone {
    /// Messages may have been missed.
    const GAP: Self;
}

/// One subscriber, as seen by whoever tells it. By `&mut` only: two who tell at once could both take the last place.
#[derive(Debug)]
pub struct Publisher<N>(mpsc::Sender<N>);

impl<N: Lossy> Publisher<N> {
    /// A subscriber more, who has heard of nothing yet.
    pub fn open() -> (Self, Subscription<N>) {
        let (sender, subscription) = mpsc::channel(BEHIND_MAX + 1);
        (Self(sender), subscription)
    }

    /// Tells it this, or that it missed something. The last place is only ever the gap's, so what finds no place at all
    /// is behind a gap that is still to be heard.
    pub fn tell(&mut self, message: N) {
        let message = if self.0.capacity() > 1 { message } else { N::GAP };
        // It may have gone, or hear of a gap after all that it has not heard yet.
        let _ = self.0.try_send(message);
    }

    /// Tells it that it missed something.
    pub fn tell_gap(&mut self) {
        let _ = self.0.try_send(N::GAP);
    }

    /// Whether nobody hears any more.
    pub fn is_gone(&self) -> bool {
        self.0.is_closed()
    }

    /// Waits until nobody hears any more. Cancel-safe.
    pub async fn gone(&self) {
        self.0.closed().await;
    }
}

/// All who hear the same.
#[derive(Debug)]
pub struct Subscribers<N>(Vec<Publisher<N>>);

impl<N> Default for Subscribers<N> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<N: Lossy> Subscribers<N> {
    /// One more. `live`: it hears of everything from now on, and so of a gap first.
    pub fn add(&mut self, live: bool) -> Subscription<N> {
        let (mut publisher, subscription) = Publisher::open();
        if live {
            publisher.tell_gap();
        }
        self.0.push(publisher);
        subscription
    }

    pub fn tell(&mut self, message: &N) {
        self.0.iter_mut().for_each(|publisher| publisher.tell(message.clone()));
    }

    /// Tells all of them that they missed something.
    pub fn tell_gap(&mut self) {
        self.0.iter_mut().for_each(Publisher::tell_gap);
    }

    /// How many there are. Those who have gone are forgotten.
    pub fn count(&mut self) -> usize {
        self.0.retain(|publisher| !publisher.is_gone());
        self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[derive(Clone, Debug, PartialEq, Eq)]
    enum Word {
        Said(usize),
        Gap,
    }

    impl Lossy for Word {
        const GAP: Self = Self::Gap;
    }

    fn heard(subscription: &mut Subscription<Word>) -> Vec<Word> {
        std::iter::from_fn(|| subscription.try_recv().ok()).collect()
    }

    #[test]
    fn who_is_behind_hears_of_a_gap_after_what_was_kept_and_then_of_all_that_comes() {
        let (mut publisher, mut subscription) = Publisher::open();
        (0..BEHIND_MAX * 2).for_each(|n| publisher.tell(Word::Said(n)));
        publisher.tell_gap();
        let kept = heard(&mut subscription);
        let expected: Vec<Word> = (0..BEHIND_MAX).map(Word::Said).chain([Word::Gap]).collect();
        assert_eq!(kept, expected);
        publisher.tell(Word::Said(7));
        assert_eq!(heard(&mut subscription), [Word::Said(7)]);
    }

    #[test]
    fn whatever_the_pace_nothing_is_lost_without_a_gap_behind_it() {
        for pace in 1..40 {
            let (mut publisher, mut subscription) = Publisher::open();
            let mut next = 0;
            let mut check = |words: Vec<Word>, gapped: &mut bool| {
                for word in words {
                    match word {
                        Word::Gap => *gapped = true,
                        Word::Said(n) => {
                            assert!(n == next || (n > next && *gapped), "{n} after {next} at a pace of {pace}");
                            (next, *gapped) = (n + 1, false);
                        }
                    }
                }
                next
            };
            let mut gapped = false;
            for n in 0..3_000 {
                publisher.tell(Word::Said(n));
                if n % pace == 0 {
                    check(subscription.try_recv().into_iter().collect(), &mut gapped);
                }
            }
            let last = check(heard(&mut subscription), &mut gapped);
            assert!(last == 3_000 || gapped, "the end is missing at a pace of {pace}");
        }
    }

    #[tokio::test]
    async fn who_is_new_hears_of_a_gap_once_it_is_live_and_who_has_gone_is_forgotten() {
        let mut subscribers = Subscribers::default();
        let (mut live, mut early) = (subscribers.add(true), subscribers.add(false));
        assert_eq!((heard(&mut live), heard(&mut early)), (vec![Word::Gap], vec![]));
        subscribers.tell(&Word::Said(1));
        subscribers.tell_gap();
        assert_eq!(heard(&mut live), [Word::Said(1), Word::Gap]);
        assert_eq!(heard(&mut early), [Word::Said(1), Word::Gap]);
        assert_eq!(subscribers.count(), 2);
        drop(live);
        assert_eq!(subscribers.count(), 1);
        let (publisher, subscription) = Publisher::<Word>::open();
        drop(subscription);
        tokio::time::timeout(Duration::from_secs(10), publisher.gone()).await.expect("it is told");
        assert!(publisher.is_gone());
    }
}
