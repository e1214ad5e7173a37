//! Waiting for states, with a bound.

use std::thread;
use std::time::{Duration, Instant};

/// How long any state may take to come about. Far more than it takes, for machines that are busy.
pub const PATIENCE: Duration = Duration::from_secs(30);
/// What a busy machine may add to what the protocol takes.
pub const SLACK: Duration = Duration::from_secs(4);

/// Waits until `reached`, looking every few milliseconds.
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
pub fn until_some<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begun.elapsed() < PATIENCE, "waited too long: {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Lets a fault last this long.
pub fn last_for(duration: Duration) {
    thread::sleep(duration);
}
