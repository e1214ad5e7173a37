//! What the sidecar has promised, and whether it still stands.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::clock::Clock;
use crate::error::Lost;

/// The least margin, unless another is given.
const MARGIN_MIN: Duration = Duration::from_millis(20);

#[derive(Clone, Copy, Debug)]
enum State {
    /// Nothing has been promised that leaves more than the margin.
    Begins,
    /// Until that moment of the clock, the margin taken off.
    Stands(Duration),
    Over(Lost),
}

/// A promise that may be extended while it stands. Once it is over, it stays so.
#[derive(Debug)]
pub struct Promise {
    token: u64,
    margin: Option<Duration>,
    clock: Clock,
    state: Mutex<State>,
    over: CancellationToken,
}

impl Promise {
    pub fn new(token: u64, margin: Option<Duration>, clock: Clock) -> Self {
        Self { token, margin, clock, state: Mutex::new(State::Begins), over: CancellationToken::new() }
    }

    /// Cancelled once it is over.
    pub fn over(&self) -> &CancellationToken {
        &self.over
    }

    /// The check: looks at the clock, whether or not anybody has noticed that the time has run out.
    pub fn token(&self) -> Result<u64, Lost> {
        let mut state = self.state();
        match *state {
            State::Begins => Ok(self.token),
            State::Stands(until) if self.clock.now() < until => Ok(self.token),
            State::Stands(_) => Err(self.set_over(&mut state, Lost::Expired)),
            State::Over(lost) => Err(lost),
        }
    }

    /// The sidecar promises so much, counted from the moment before it was asked. Whether the promise stands then: what
    /// comes too late extends nothing.
    pub fn extend(&self, asked_at: Duration, valid_for: Duration) -> bool {
        let margin = self.margin.unwrap_or_else(|| MARGIN_MIN.max(valid_for / 10));
        let promised = asked_at.saturating_add(valid_for).saturating_sub(margin);
        let mut state = self.state();
        let now = self.clock.now();
        match *state {
            State::Begins if now < promised => *state = State::Stands(promised),
            State::Stands(until) if now < until => *state = State::Stands(until.max(promised)),
            State::Stands(_) => {
                self.set_over(&mut state, Lost::Expired);
            }
            State::Begins | State::Over(_) => {}
        }
        matches!(*state, State::Stands(_))
    }

    /// What has ended it before remains the reason.
    pub fn end(&self, lost: Lost) {
        let mut state = self.state();
        if !matches!(*state, State::Over(_)) {
            self.set_over(&mut state, lost);
        }
    }

    /// Waits until it is over, and sees to it that it is when its time has run out.
    pub async fn lost(&self) -> Lost {
        loop {
            if let Err(lost) = self.token() {
                return lost;
            }
            let state = *self.state();
            let until = if let State::Stands(until) = state { until } else { Duration::MAX };
            self.clock.sleep_towards(until).await;
        }
    }

    /// Does the work, which is polled only while this stands.
    pub async fn run<T>(&self, work: impl Future<Output = T>) -> Result<T, Lost> {
        let mut work = pin!(work);
        let mut over = pin!(self.over.cancelled());
        poll_fn(|context| {
            // Wakes this when it is over. Whether it is, the clock says, which may be earlier.
            let _ = over.as_mut().poll(context);
            match self.token() {
                Ok(_) => work.as_mut().poll(context).map(Ok),
                Err(lost) => Poll::Ready(Err(lost)),
            }
        })
        .await
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set_over(&self, state: &mut State, lost: Lost) -> Lost {
        *state = State::Over(lost);
        self.over.cancel();
        lost
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// The clock stands at 1 s until it is set.
    fn promise(margin: Option<Duration>) -> (Promise, impl Fn(u64)) {
        let now = Arc::new(AtomicU64::new(1_000));
        let read = Arc::clone(&now);
        let clock = Clock::new(move || ms(read.load(Ordering::SeqCst)));
        (Promise::new(7, margin, clock), move |at| now.store(at, Ordering::SeqCst))
    }

    #[test]
    fn it_ends_a_margin_before_what_was_promised() {
        for (margin, valid_for, until) in [
            (None, 5_000, 1_000 + 4_500),
            (None, 100, 1_000 + 80),
            (Some(ms(1_000)), 5_000, 1_000 + 4_000),
            (Some(ms(0)), 100, 1_000 + 100),
        ] {
            let (promise, set) = promise(margin);
            assert!(promise.extend(ms(1_000), ms(valid_for)));
            set(until - 1);
            assert_eq!(promise.token(), Ok(7));
            assert!(!promise.over().is_cancelled());
            set(until);
            assert_eq!(promise.token(), Err(Lost::Expired), "{margin:?} of {valid_for}");
            assert!(promise.over().is_cancelled());
            set(until - 1);
            assert_eq!(promise.token(), Err(Lost::Expired), "it does not come back");
        }
    }

    #[test]
    fn it_does_not_begin_with_what_leaves_no_more_than_the_margin() {
        let (promise, set) = promise(None);
        assert!(!promise.extend(ms(1_000), ms(20)));
        assert!(!promise.extend(ms(500), ms(555)), "the answer took 500 ms");
        assert!(promise.extend(ms(500), ms(557)));
        set(1_001);
        assert_eq!(promise.token(), Ok(7));
        set(1_002);
        assert_eq!(promise.token(), Err(Lost::Expired));
    }

    #[test]
    fn it_never_shrinks() {
        let (promise, set) = promise(None);
        assert!(promise.extend(ms(1_000), ms(5_000)));
        assert!(promise.extend(ms(1_000), ms(10)));
        set(5_499);
        assert_eq!(promise.token(), Ok(7));
    }

    #[test]
    fn an_answer_that_comes_when_it_is_over_changes_nothing() {
        let (promise, set) = promise(None);
        assert!(promise.extend(ms(1_000), ms(1_000)));
        set(1_900);
        assert!(!promise.extend(ms(1_899), ms(60_000)));
        assert_eq!(promise.token(), Err(Lost::Expired));
        promise.end(Lost::Told);
        assert_eq!(promise.token(), Err(Lost::Expired), "the first reason remains");
    }

    #[test]
    fn no_number_is_too_great() {
        let (promise, _) = promise(None);
        assert!(promise.extend(ms(1_000), ms(u64::MAX)));
        assert_eq!(promise.token(), Ok(7));
    }

    #[tokio::test(start_paused = true)]
    async fn work_is_not_polled_when_it_is_over() {
        let (promise, set) = promise(None);
        assert!(promise.extend(ms(1_000), ms(1_000)));
        assert_eq!(promise.run(async { "done" }).await, Ok("done"));
        // Nobody has noticed yet that the time has run out.
        set(1_900);
        let work = async { unreachable!("it is over") };
        assert_eq!(promise.run(work).await, Err::<(), _>(Lost::Expired));
    }

    #[tokio::test(start_paused = true)]
    async fn work_that_waits_is_dropped_when_it_is_over() {
        let (promise, _) = promise(None);
        assert!(promise.extend(ms(1_000), ms(1_000)));
        let end = async {
            tokio::time::advance(ms(5)).await;
            promise.end(Lost::Told);
        };
        let (lost, ()) = tokio::join!(promise.run(std::future::pending::<()>()), end);
        assert_eq!(lost, Err(Lost::Told));
    }

    #[tokio::test(start_paused = true)]
    async fn its_end_is_noticed_without_anybody_asking() {
        let begun = tokio::time::Instant::now();
        let promise = Promise::new(7, None, Clock::new(move || begun.elapsed()));
        promise.extend(ms(0), ms(1_000));
        let extend = async {
            tokio::time::advance(ms(850)).await;
            promise.extend(ms(850), ms(1_000));
        };
        let (lost, ()) = tokio::join!(promise.lost(), extend);
        assert_eq!((lost, begun.elapsed()), (Lost::Expired, ms(1_750)));
        assert!(promise.over().is_cancelled());
    }
}
