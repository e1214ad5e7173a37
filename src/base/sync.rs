//! Locks and atomics that several tasks and threads share. In a build with the cargo feature `shuttle` they are
//! shuttle's, which runs a test in many orders of what its threads do, one after the other: only the tests whose module
//! is named `schedules` work there. Everybody else has parking_lot's and std's.

#[cfg(not(feature = "shuttle"))]
pub use parking_lot::{Mutex, MutexGuard};
#[cfg(feature = "shuttle")]
pub use shuttle::sync::atomic;
#[cfg(feature = "shuttle")]
pub use shuttle_parking_lot::{Mutex, MutexGuard};
#[cfg(not(feature = "shuttle"))]
pub use std::sync::atomic;

/// How a test is run in many orders.
#[cfg(feature = "shuttle")]
#[cfg(test)]
pub mod schedules {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    /// How many orders are drawn at random, and as many again with few changes of turn (PCT), which finds what needs a
    /// thread to stand still for long.
    fn many() -> usize {
        std::env::var("BATON_SHUTTLE_SCHEDULES").map_or(10_000, |text| text.parse().expect("it is a number"))
    }

    /// How many times a schedule of PCT changes turns at moments that it draws.
    const CHANGES: usize = 3;

    /// In none of them does the test fail, nor stand still for ever.
    pub fn hold(test: fn()) {
        shuttle::check_random(test, many());
        shuttle::check_pct(test, many(), CHANGES);
    }

    /// In one of them it fails: what is wrong on purpose is noticed.
    pub fn is_caught(test: fn()) {
        let found = catch_unwind(AssertUnwindSafe(|| hold(test)));
        assert!(found.is_err(), "no order shows what is wrong");
    }
}
