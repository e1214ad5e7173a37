//! What belongs to this start of this process: its session, its seeds, its exit codes, whether it has stood still, and
//! the programs that it runs.

mod child;

use std::io::Write;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use uuid::Uuid;

use crate::clock::SharedClock;
use crate::protocol::{LockId, Mono, SessionId};

pub use child::Child;

/// Section 3 of the contract: why the process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// As it should: 0.
    Well,
    /// Bad usage or a bad configuration: 64.
    Usage,
    /// A listener cannot be bound: 69.
    Unavailable,
    /// A bug: 70.
    Bug,
}

impl Exit {
    /// The number.
    pub const fn code(self) -> u8 {
        match self {
            Self::Well => 0,
            Self::Usage => 64,
            Self::Unavailable => 69,
            Self::Bug => 70,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

/// The process's source of randomness: everything random is derived from it, and handed in.
#[derive(Debug)]
pub struct Entropy(u128);

impl Entropy {
    /// 122 random bits from the operating system.
    #[expect(clippy::disallowed_methods, reason = "this is the one source that is handed in elsewhere")]
    pub fn from_system() -> Self {
        Self(Uuid::new_v4().as_u128())
    }

    /// A new session: no other start of any process has it.
    pub fn session(&mut self) -> SessionId {
        SessionId::from_u128(self.draw())
    }

    /// A new id for a lock or for a request: nobody guesses it.
    pub fn lock_id(&mut self) -> LockId {
        LockId::from_u128(self.draw())
    }

    /// A seed for spreading retries and wake-ups.
    pub fn seed(&mut self) -> u64 {
        let bytes = self.draw().to_le_bytes();
        u64::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3], bytes[4], bytes[5], bytes[6], bytes[7]])
    }

    #[expect(clippy::disallowed_methods, reason = "this is the one source that is handed in elsewhere")]
    fn draw(&mut self) -> u128 {
        std::mem::replace(&mut self.0, Uuid::new_v4().as_u128())
    }
}

/// How often the watch ticks.
const TICK: Duration = Duration::from_millis(250);
/// Without a tick for this long, the process has stood still: stopped, suspended, or starved of CPU.
const STALL: Duration = Duration::from_secs(1);

/// Notices that the whole process stood still, so that what waited in its sockets meanwhile is not taken for news.
#[derive(Debug)]
pub struct StallWatch {
    clock: SharedClock,
    ticked_at: AtomicU64,
    /// Standstills that the watch itself has noticed.
    noticed: AtomicU64,
}

impl StallWatch {
    /// A watch that has just ticked. It goes on ticking in [`Self::run`].
    pub fn new(clock: SharedClock) -> Self {
        let ticked_at = AtomicU64::new(clock.now().as_nanos());
        Self { clock, ticked_at, noticed: AtomicU64::new(0) }
    }

    /// Ticks for ever.
    pub async fn run(&self) {
        loop {
            self.tick(self.clock.now());
            tokio::time::sleep(TICK).await;
        }
    }

    fn tick(&self, now: Mono) {
        self.noticed.store(self.standstills(now), Ordering::SeqCst);
        self.ticked_at.store(now.as_nanos(), Ordering::SeqCst);
    }

    /// How often the process has stood still so far, the standstill that has just ended included: after one, whoever
    /// asks first sees the number rise, be it the watch or a task that woke up before it.
    pub fn standstills(&self, now: Mono) -> u64 {
        let ticked_at = Mono::from_nanos(self.ticked_at.load(Ordering::SeqCst));
        self.noticed.load(Ordering::SeqCst) + u64::from(now.since(ticked_at) > STALL)
    }
}

/// From now on a panic on any thread ends the process with [`Exit::Bug`]: a part that is gone must not leave the others
/// answering for it, and a supervisor shall read why in the exit code.
pub fn end_on_panic() {
    std::panic::set_hook(Box::new(|panic| {
        if tracing::dispatcher::has_been_set() {
            tracing::error!(%panic, "this is a bug in Baton; the process ends, and leases run out by their TTL");
        } else {
            // A terminal that is gone cannot be told.
            let _ = writeln!(std::io::stderr(), "this is a bug in Baton: {panic}");
        }
        std::process::exit(i32::from(Exit::Bug.code()));
    }));
}

/// Lets this process open as many files and connections as its hard limit allows: a waiting client is one each, and the
/// usual soft limit is from a time when `select` counted them.
pub fn raise_file_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current != maximum
        && let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum })
    {
        tracing::debug!(%error, "the limit of open files stays as it is");
    }
}

/// Says which cryptography TLS uses. rustls would choose by itself only while exactly one is linked in, and otherwise
/// panic at the first TLS connection.
pub fn install_crypto_provider() {
    // Fails only where one is installed already, which is what was wanted.
    let _ = rustls::crypto::ring::default_provider().install_default();
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::clock::BootClock;

    #[test]
    fn a_standstill_is_counted_once_whoever_notices_it_first() {
        let watch = StallWatch::new(Arc::new(BootClock));
        let begun = Mono::from_nanos(watch.ticked_at.load(Ordering::SeqCst));
        let later = |ms| begun + Duration::from_millis(ms);
        assert_eq!(watch.standstills(later(900)), 0);
        assert_eq!(watch.standstills(later(5_000)), 1, "a task that wakes up before the watch");
        watch.tick(later(5_001));
        assert_eq!(watch.standstills(later(5_002)), 1, "and one that wakes up after it");
        watch.tick(later(5_251));
        assert_eq!(watch.standstills(later(9_000)), 2);
    }
}
