//! Naps that end in time.
//!
//! tokio counts in whole milliseconds, and rounds up: half a millisecond becomes one or two. Where that is most of the
//! nap, a timer of the operating system wakes the thread instead, as any connection does.

use std::io;
use std::time::Duration;

use rustix::fd::OwnedFd;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::Semaphore;

/// From here on tokio's timers are exact enough.
const LONG: Duration = Duration::from_millis(5);
/// So many naps at once have a timer of their own, which is an open file each: the roles of a process may be thousands,
/// and a crowd has no hurry.
static TIMERS: Semaphore = Semaphore::const_new(16);

/// Sleeps for `span`: a short one to some hundredths of a millisecond, a longer one a millisecond or two more. Must be
/// called inside a tokio runtime. Cancel-safe.
pub async fn nap(span: Duration) {
    if span < LONG
        && let Ok(_timer) = TIMERS.try_acquire()
        && let Ok(timer) = set(span)
        && timer.readable().await.is_ok()
    {
        return;
    }
    // No timer is left, or the operating system refuses one more open file.
    tokio::time::sleep(span).await;
}

fn set(span: Duration) -> io::Result<AsyncFd<OwnedFd>> {
    let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)?;
    let never = Timespec { tv_sec: 0, tv_nsec: 0 };
    // Zero would switch it off.
    let value = Timespec { tv_nsec: span.subsec_nanos().max(1).into(), ..never };
    timerfd_settime(&timer, TimerfdTimerFlags::empty(), &Itimerspec { it_interval: never, it_value: value })?;
    #[expect(
        deprecated,
        reason = "what takes its place is unsafe, for what may name a file that is not open; an OwnedFd is"
    )]
    AsyncFd::with_interest(timer, Interest::READABLE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::clock::{BootClock, Clock};

    #[tokio::test]
    async fn no_nap_ends_early_whether_there_is_a_timer_for_it_or_not() {
        let one = async |us| {
            let (span, begun) = (Duration::from_micros(us), BootClock.now());
            nap(span).await;
            (span, BootClock.now().since(begun))
        };
        let naps = (0..40).map(|n| one(n * 250));
        for (span, took) in futures_util::future::join_all(naps).await {
            assert!(took >= span, "a nap of {span:?} took {took:?}");
        }
    }

    #[tokio::test]
    async fn a_short_nap_does_not_wait_for_a_whole_millisecond() {
        let span = Duration::from_micros(100);
        let mut shortest = Duration::MAX;
        for _ in 0..50 {
            let begun = BootClock.now();
            nap(span).await;
            shortest = shortest.min(BootClock.now().since(begun));
        }
        // Of fifty on a busy machine, one is undisturbed; with tokio's timers none would be this short.
        assert!((span..Duration::from_micros(900)).contains(&shortest), "{shortest:?}");
    }
}
