//! The loop of every writer that makes something as it is to be shown: only the newest state is ever written, and after
//! a failure that is tried again, with growing pauses.

use std::future::Future;
use std::time::Duration;

use tokio::sync::watch;

use super::shown::Shown;
use super::sleep;
use crate::base::Backoff;
use crate::kube::{Denial, Failure};

/// The first pause after a failure.
pub(super) const PAUSE_MIN: Duration = Duration::from_millis(100);
/// No pause is longer.
const PAUSE_MAX: Duration = Duration::from_secs(15);
/// What nobody will allow soon is not asked for more often.
const PAUSE_DENIED_MIN: Duration = Duration::from_secs(5);

/// Brings something up to date.
pub(super) trait Writer: Send {
    /// Makes it as it is to be shown. Returns when to look again although nothing has changed here.
    ///
    /// # Errors
    /// Something was not done: to be called again after a pause.
    fn write(&mut self, shown: &Shown) -> impl Future<Output = Result<Option<Duration>, Failure>> + Send;
}

/// Keeps it so until what is to be shown closes, and its last state is written.
pub(super) async fn run(mut writer: impl Writer, mut shown: watch::Receiver<Shown>, seed: u64) {
    let mut pauses = Pauses::new(seed);
    loop {
        let newest = shown.borrow_and_update().clone();
        let (pause, deaf) = match writer.write(&newest).await {
            Ok(_) if newest.closing => return,
            // Nobody changes a rule in the second that is left; it was said.
            Err(failure) if newest.closing && failure.is_lasting() => return,
            Ok(again) => {
                pauses.reset();
                (again, false)
            }
            Err(failure) => (Some(pauses.after(&failure, newest.closing)), failure.retry_after().is_some()),
        };
        if deaf {
            // The server asked for it; what changes meanwhile is seen afterwards.
            sleep(pause).await;
            continue;
        }
        tokio::select! {
            // After the last word there is none, but what it says may still have to be tried again.
            changed = shown.changed(), if !newest.closing => if changed.is_err() { return },
            () = sleep(pause) => {}
        }
    }
}

/// The pauses after failures.
pub(super) struct Pauses(Backoff);

impl Pauses {
    pub const fn new(seed: u64) -> Self {
        Self(Backoff::new(seed, PAUSE_MIN))
    }

    pub const fn reset(&mut self) {
        self.0.reset();
    }

    /// At least as long as the server asks to wait. `hurry`: this is the last that will be tried.
    pub fn after(&mut self, failure: &Failure, hurry: bool) -> Duration {
        let asked = failure.retry_after().unwrap_or_default();
        if hurry {
            return asked.max(PAUSE_MIN);
        }
        // What keeps us from asking at all may pass at any moment.
        if matches!(failure, Failure::Denied { why, .. } if *why != Denial::Unsent) {
            self.0.raise(PAUSE_DENIED_MIN);
        }
        asked.max(self.0.next(PAUSE_MAX))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    fn unanswered(retry_after: Option<Duration>) -> Failure {
        Failure::Unanswered { waited: None, reason: String::new(), retry_after }
    }

    fn denied(why: Denial) -> Failure {
        Failure::Denied { why, code: 0, reason: String::new(), retry_after: None }
    }

    #[test]
    fn pauses_grow_to_a_quarter_of_a_minute_and_what_is_denied_is_not_asked_for_soon() {
        let mut pauses = Pauses::new(1);
        let first: Vec<Duration> = (0..12).map(|_| pauses.after(&unanswered(None), false)).collect();
        assert!(first[0] <= PAUSE_MIN && first[11] <= PAUSE_MAX && first[11] >= PAUSE_MAX / 2, "{first:?}");
        pauses.reset();
        assert!(pauses.after(&denied(Denial::Unsent), false) <= PAUSE_MIN);
        assert!(pauses.after(&denied(Denial::Forbidden), false) >= PAUSE_DENIED_MIN / 2);
    }

    /// Is denied twice what it would write, for this reason.
    struct Barred {
        why: Denial,
        tries: Arc<AtomicUsize>,
    }

    impl Writer for Barred {
        async fn write(&mut self, _: &Shown) -> Result<Option<Duration>, Failure> {
            if self.tries.fetch_add(1, Ordering::SeqCst) < 2 { Err(denied(self.why)) } else { Ok(None) }
        }
    }

    #[tokio::test]
    async fn what_is_forbidden_at_the_end_is_asked_for_once_and_what_may_pass_is_tried_again() {
        let rows = [(Denial::Unauthorized, 1), (Denial::Forbidden, 1), (Denial::Busy, 3), (Denial::Unsent, 3)];
        for (why, expected) in rows {
            let tries = Arc::new(AtomicUsize::new(0));
            let (_sender, shown) = watch::channel(Shown { closing: true, ..Shown::default() });
            run(Barred { why, tries: Arc::clone(&tries) }, shown, 1).await;
            assert_eq!(tries.load(Ordering::SeqCst), expected, "{why:?}");
        }
    }

    #[test]
    fn the_last_try_hurries_and_the_servers_wish_is_kept() {
        let mut pauses = Pauses::new(1);
        assert_eq!(pauses.after(&unanswered(None), true), PAUSE_MIN);
        let asked = Duration::from_secs(20);
        assert_eq!(pauses.after(&unanswered(Some(asked)), false), asked);
        assert_eq!(pauses.after(&unanswered(Some(asked)), true), asked);
    }
}
