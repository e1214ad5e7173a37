//! The one place that reads clocks.

use std::fmt;
use std::sync::Arc;

use rustix::time::{ClockId, clock_gettime};

use crate::protocol::Mono;

/// A source of moments. Production has one ([`BootClock`]); tests may bring their own.
pub trait Clock: Send + Sync + fmt::Debug + 'static {
    fn now(&self) -> Mono;
}

/// A clock to hand around.
pub type SharedClock = Arc<dyn Clock>;

/// CLOCK_BOOTTIME: goes on while the machine sleeps, as the lease does. `std::time::Instant` and tokio's do not, so a
/// laptop that wakes up would still believe in a lease that ended hours ago.
///
/// A snapshot of a virtual machine that is resumed later escapes this clock too; only the fencing token covers that.
#[derive(Clone, Copy, Debug, Default)]
pub struct BootClock;

impl Clock for BootClock {
    #[expect(clippy::disallowed_methods, reason = "this is the one place that reads clocks")]
    fn now(&self) -> Mono {
        let time = clock_gettime(ClockId::Boottime);
        let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
        let nanos = u64::try_from(time.tv_nsec).unwrap_or(0);
        Mono::from_nanos(seconds * 1_000_000_000 + nanos)
    }
}

/// The time of day, for people: in answers and logs. It can be stepped, so nothing is ever decided by it.
#[expect(clippy::disallowed_methods, reason = "this is the one place that reads clocks")]
pub fn wall_time() -> jiff::Timestamp {
    jiff::Timestamp::now()
}
