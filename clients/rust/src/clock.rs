//! The clock by which validities are counted.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Goes on while the machine sleeps, as a lease does: `std::time::Instant` and tokio's timers do not.
#[cfg(any(target_os = "android", target_os = "linux"))]
const CLOCK: ClockId = ClockId::Boottime;
#[cfg(not(any(target_os = "android", target_os = "linux")))]
const CLOCK: ClockId = ClockId::Monotonic;

/// How often the clock is looked at by who waits for a moment: timers stand still while the machine sleeps.
const LOOK: Duration = Duration::from_millis(100);

/// Tells the time since some moment, the same one for as long as the process lives.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> Duration + Send + Sync>);

impl Clock {
    pub fn new(now: impl Fn() -> Duration + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    pub fn now(&self) -> Duration {
        (self.0)()
    }

    pub async fn sleep_until(&self, moment: Duration) {
        while self.now() < moment {
            self.sleep_towards(moment).await;
        }
    }

    /// Sleeps until that moment, but not for long.
    pub async fn sleep_towards(&self, moment: Duration) {
        tokio::time::sleep(moment.saturating_sub(self.now()).min(LOOK)).await;
    }
}

impl Default for Clock {
    fn default() -> Self {
        Self::new(now)
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Clock").field(&self.now()).finish()
    }
}

/// The time since the machine was started.
#[must_use]
pub fn now() -> Duration {
    let now = clock_gettime(CLOCK);
    Duration::new(u64::try_from(now.tv_sec).unwrap_or(0), u32::try_from(now.tv_nsec).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_goes_on() {
        let clock = Clock::default();
        let before = clock.now();
        assert!((0..u32::MAX).any(|_| clock.now() > before));
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_looks_at_it_again_and_again() {
        let begun = tokio::time::Instant::now();
        // It runs a hundred times as fast as timers do, as if the machine slept most of the time.
        let clock = Clock::new(move || begun.elapsed() * 100);
        clock.sleep_until(Duration::from_secs(3600)).await;
        let waited = begun.elapsed();
        assert!(waited >= Duration::from_secs(36) && waited <= Duration::from_secs(36) + LOOK, "{waited:?}");
    }
}
