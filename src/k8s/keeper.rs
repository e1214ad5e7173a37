//! The loop of everything that is kept as the board says: only the newest state is ever written, and after a failure
//! that is tried again, with growing pauses.

use std::future::Future;
use std::time::Duration;

use tokio::sync::watch;

use super::board::Board;
use super::desk::Refusal;
use crate::protocol::Dice;

/// The first pause after a failure.
pub(super) const PAUSE_MIN: Duration = Duration::from_millis(100);
/// No pause is longer.
const PAUSE_MAX: Duration = Duration::from_secs(15);
/// What nobody will allow soon is not asked for more often.
const PAUSE_DENIED_MIN: Duration = Duration::from_secs(5);

/// Brings something up to date.
pub(super) trait Keeper: Send {
    /// Makes it as the board says. Returns when to look again although nothing has changed here.
    ///
    /// # Errors
    /// Something was not done: to be called again after a pause.
    fn keep(&mut self, board: &Board) -> impl Future<Output = Result<Option<Duration>, Refusal>> + Send;
}

/// Keeps it so until the board closes, and what the last board said is done.
pub(super) async fn run(mut keeper: impl Keeper, mut board: watch::Receiver<Board>, seed: u64) {
    let mut pauses = Pauses::new(seed);
    loop {
        let newest = board.borrow_and_update().clone();
        let (pause, deaf) = match keeper.keep(&newest).await {
            Ok(_) if newest.closing => return,
            Ok(again) => {
                pauses.reset();
                (again, false)
            }
            Err(refusal) => {
                let rest = refusal.rest();
                (Some(pauses.next(refusal, newest.closing).max(rest.unwrap_or_default())), rest.is_some())
            }
        };
        let sleep = async {
            match pause {
                Some(pause) => tokio::time::sleep(pause).await,
                None => std::future::pending().await,
            }
        };
        if deaf {
            // The server asked for it; what changes meanwhile is seen afterwards.
            sleep.await;
            continue;
        }
        tokio::select! {
            // After the last word there is none, but what it says may still have to be tried again.
            changed = board.changed(), if !newest.closing => if changed.is_err() { return },
            () = sleep => {}
        }
    }
}

/// Growing, random pauses, seeded.
pub(super) struct Pauses {
    dice: Dice,
    limit: Duration,
}

impl Pauses {
    pub fn new(seed: u64) -> Self {
        Self { dice: Dice::new(seed), limit: PAUSE_MIN }
    }

    pub fn reset(&mut self) {
        self.limit = PAUSE_MIN;
    }

    /// `hurry`: this is the last that will be tried.
    pub fn next(&mut self, refusal: Refusal, hurry: bool) -> Duration {
        if hurry {
            return PAUSE_MIN;
        }
        if matches!(refusal, Refusal::Denied { .. } | Refusal::Invalid) {
            self.limit = self.limit.max(PAUSE_DENIED_MIN);
        }
        let limit = self.limit;
        self.limit = (limit * 2).min(PAUSE_MAX);
        self.dice.between(limit / 2, limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_quarter_of_a_minute_and_differ_between_replicas() {
        let (mut one, mut other) = (Pauses::new(1), Pauses::new(2));
        let open = Refusal::Open { rest: None };
        let first: Vec<Duration> = (0..12).map(|_| one.next(open, false)).collect();
        let second: Vec<Duration> = (0..12).map(|_| other.next(open, false)).collect();
        assert!(first[0] <= PAUSE_MIN && first[11] <= PAUSE_MAX && first[11] >= PAUSE_MAX / 2, "{first:?}");
        assert_ne!(first, second);
        one.reset();
        assert!(one.next(open, false) <= PAUSE_MIN);
        assert!(one.next(Refusal::Denied { rest: None }, false) >= PAUSE_DENIED_MIN / 2);
        assert_eq!(one.next(open, true), PAUSE_MIN);
    }
}
