//! Waiting for states, with a bound.

use std::sync::{Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// How long any state may take to come about. Far more than it takes, for machines that are busy.
pub const PATIENCE: Duration = Duration::from_secs(30);
/// What a busy machine may add to what the protocol takes.
pub const SLACK: Duration = Duration::from_secs(4);

/// What is found, looking every few milliseconds; none after `bound`.
pub fn found_within<T>(bound: Duration, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let begun = Instant::now();
    loop {
        let found = look();
        if found.is_some() || begun.elapsed() >= bound {
            return found;
        }
        thread::sleep(Duration::from_millis(5));
    }
}

/// Waits until `reached`.
///
/// # Panics
/// When it does not come about, naming `what`.
pub fn until(what: &str, mut reached: impl FnMut() -> bool) {
    until_some(what, || reached().then_some(()));
}

/// The same for a state that has a value.
///
/// # Panics
/// When it does not come about, naming `what`.
pub fn until_some<T>(what: &str, look: impl FnMut() -> Option<T>) -> T {
    found_within(PATIENCE, look).unwrap_or_else(|| panic!("waited too long: {what}"))
}

/// The same for what takes longer than any state should.
///
/// # Panics
/// When it has not come about after `patience`, naming `what`.
pub fn until_within(patience: Duration, what: &str, mut reached: impl FnMut() -> bool) {
    let found = found_within(patience, || reached().then_some(()));
    assert!(found.is_some(), "waited too long: {what}");
}

/// Looks again and again, for this long, at what must not change.
///
/// # Panics
/// When `condition` does not hold at a look, naming `what`.
pub fn holds_for(span: Duration, what: &str, mut condition: impl FnMut() -> bool) {
    let found = found_within(span, || (!condition()).then_some(()));
    assert!(found.is_none(), "within {span:?} no more: {what}");
}

/// Lets a fault last this long.
pub fn last_for(duration: Duration) {
    thread::sleep(duration);
}

/// The end of a test, which those wait for who do something beside it again and again.
#[derive(Debug, Default)]
pub struct Ending {
    has_come: Mutex<bool>,
    changed: Condvar,
}

impl Ending {
    /// Waits for the end, for one period at the most; whether it has come.
    pub fn within(&self, period: Duration) -> bool {
        let has_come = self.has_come.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.changed.wait_timeout_while(has_come, period, |has_come| !*has_come);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }

    /// Tells whoever waits.
    pub fn tell(&self) {
        *self.has_come.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.changed.notify_all();
    }
}
