//! What belongs to this start of this process: its session, its seeds, its exit codes, and whether it has stood still.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::io::Write;
use std::process::ExitCode;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit, setrlimit};
use uuid::Uuid;

use super::kill_groups;
use crate::base::clock::SharedClock;
use crate::protocol::{LockId, Mono, SessionId};

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

/// How often the watch ticks, between these two: a fifteenth of the shortest lease. All three are multiples of 64 ms,
/// the second step of tokio's timers: see [`StallWatch::run`].
const TICK_MIN: Duration = Duration::from_millis(256);
const TICK_MAX: Duration = Duration::from_millis(960);
const TICK_STEP: Duration = Duration::from_millis(64);
/// A tick that is later than this means that the process has stood still: stopped, suspended, or starved of CPU.
const LATE_MAX: Duration = Duration::from_millis(750);

/// Notices that the whole process stood still, so that what waited in its sockets meanwhile is not taken for news.
///
/// Every standstill is noticed that is longer than a tick and [`LATE_MAX`] together: a second where leases are short,
/// 1.7 seconds where all of them last for 15 or longer. A shorter one is noticed when a tick falls into it.
#[derive(Debug)]
pub struct StallWatch {
    clock: SharedClock,
    /// The beginning, from which ticks are counted.
    zero: Mono,
    /// From one tick to the next, in nanoseconds.
    tick: AtomicU64,
    /// When the next one is due.
    due_at: AtomicU64,
    /// Standstills that the watch itself has noticed.
    noticed: AtomicU64,
}

impl StallWatch {
    /// A watch that has just ticked. It goes on ticking in [`Self::run`].
    pub fn new(clock: SharedClock) -> Self {
        let now = clock.now();
        let tick = AtomicU64::new(nanos(TICK_MAX));
        let due_at = AtomicU64::new((now + TICK_MAX).as_nanos());
        // tokio rounds up to whole milliseconds from the start of its runtime, which is less than one ago.
        let zero = Mono::from_nanos(now.as_nanos().saturating_sub(nanos(Duration::from_millis(1))));
        Self { clock, zero, tick, due_at, noticed: AtomicU64::new(0) }
    }

    /// There is a lease of this length: from the next tick on it ticks often enough for that.
    pub fn mind(&self, lease: Duration) {
        let steps = lease.as_millis() / 15 / TICK_STEP.as_millis();
        let tick = TICK_STEP.saturating_mul(u32::try_from(steps).unwrap_or(u32::MAX)).clamp(TICK_MIN, TICK_MAX);
        self.tick.fetch_min(nanos(tick), Ordering::SeqCst);
    }

    /// Ticks for ever, at multiples of a tick since the beginning. A process at rest does little else, and each time
    /// that it wakes up costs more than what it does then: tokio sets a timer in steps of 4 s, 64 ms and 1 ms, and
    /// wakes up at each of them that is not the last already, so that one which ends on a step of 64 ms costs half.
    pub async fn run(&self) {
        loop {
            let nap = self.tick(self.clock.now());
            tokio::time::sleep(nap).await;
        }
    }

    /// Says how long it is until the next one.
    fn tick(&self, now: Mono) -> Duration {
        self.noticed.store(self.standstills(now), Ordering::SeqCst);
        let tick = self.tick.load(Ordering::SeqCst).max(1);
        let nap = Duration::from_nanos(tick - nanos(now.since(self.zero)) % tick);
        self.due_at.store((now + nap).as_nanos(), Ordering::SeqCst);
        nap
    }

    /// How often the process has stood still so far, the standstill that has just ended included: after one, whoever
    /// asks first sees the number rise, be it the watch or a task that woke up before it.
    pub fn standstills(&self, now: Mono) -> u64 {
        let due_at = Mono::from_nanos(self.due_at.load(Ordering::SeqCst));
        self.noticed.load(Ordering::SeqCst) + u64::from(now.since(due_at) > LATE_MAX)
    }
}

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

/// From now on a panic on any thread ends the process with [`Exit::Bug`]: a part that is gone must not leave the others
/// answering for it, nor a program running without a lease, and a supervisor shall read why in the exit code, and in
/// the log, of which `flush` writes the end. With RUST_BACKTRACE the line tells the calls as well.
pub fn end_on_panic(flush: fn()) {
    std::panic::set_hook(Box::new(move |panic| {
        kill_groups();
        let backtrace = Backtrace::capture();
        let backtrace = (backtrace.status() == BacktraceStatus::Captured).then(|| backtrace.to_string());
        if tracing::dispatcher::has_been_set() {
            let ends = "this is a bug in Baton; the process ends, and leases run out by their TTL";
            tracing::error!(%panic, backtrace, "{ends}");
        } else {
            // A terminal that is gone cannot be told.
            let backtrace = backtrace.unwrap_or_default();
            let _ = writeln!(std::io::stderr(), "this is a bug in Baton: {panic}\n{backtrace}");
        }
        flush();
        std::process::exit(i32::from(Exit::Bug.code()));
    }));
}

/// The limit of open files as this process was started with, once it is another.
static FILE_LIMIT_GIVEN: OnceLock<Rlimit> = OnceLock::new();

/// Lets this process open as many files and connections as its hard limit allows: a waiting client is one each, and the
/// usual soft limit is from a time when `select` counted them.
pub fn raise_file_limit() {
    let given = getrlimit(Resource::Nofile);
    let Rlimit { current, maximum } = given;
    if current == maximum {
        return;
    }
    match setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
        // Called twice, it was raised the first time.
        Ok(()) => _ = FILE_LIMIT_GIVEN.set(given),
        Err(error) => tracing::debug!(%error, "the limit of open files stays as it is"),
    }
}

/// Gives a program that has just been started the limit that this process was started with: `select` fails above the
/// usual one, and who closes every file that may be open takes long. What it starts in turn has it from there.
pub(super) fn restore_file_limit(program: Pid) {
    if let Some(given) = FILE_LIMIT_GIVEN.get() {
        // One that has ended already needs none.
        let _ = prlimit(Some(program), Resource::Nofile, *given);
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
    use std::path::Path;
    use std::sync::Arc;

    use super::*;
    use crate::base::Child;
    use crate::base::clock::{BootClock, Clock};

    /// Names the file that this test, run once more by itself, writes its program's id to before it panics.
    const PANICS: &str = "BATON_TEST_PANICS";

    #[test]
    fn a_panic_kills_every_program_with_all_of_its_group() {
        if let Some(file) = std::env::var_os(PANICS) {
            panic_beside_a_program(Path::new(&file));
        }
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("pids");
        let name = "base::process::tests::a_panic_kills_every_program_with_all_of_its_group";
        let mut command = std::process::Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", name, "--nocapture"]).env(PANICS, &file).env("RUST_BACKTRACE", "1");
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(i32::from(Exit::Bug.code())), "{said}");
        assert!(said.contains("as a bug would") && said.contains("panic_beside_a_program"), "{said}");
        let text = std::fs::read_to_string(&file).unwrap();
        let pids: Vec<i32> = text.lines().map(|line| line.parse().unwrap()).collect();
        assert_eq!(pids.len(), 2, "{text}");
        let begun = BootClock.now();
        while pids.iter().any(|pid| runs(*pid)) {
            // The kernel may take a moment.
            assert!(BootClock.now().since(begun) < Duration::from_secs(30), "{pids:?} run on");
            std::thread::yield_now();
        }
    }

    /// Tells this test, run once more by itself, that it is under a limit of its own.
    const LIMITED: &str = "BATON_TEST_FILE_LIMIT";

    #[test]
    fn a_program_has_the_file_limit_that_this_process_was_started_with() {
        if std::env::var_os(LIMITED).is_some() {
            return start_a_program_under_a_raised_limit();
        }
        let name = "base::process::tests::a_program_has_the_file_limit_that_this_process_was_started_with";
        let script = format!("ulimit -Sn 200 && exec \"$0\" --exact {name} --nocapture");
        let mut command = std::process::Command::new("sh");
        let output = command.args(["-c", &script]).arg(std::env::current_exe().unwrap()).env(LIMITED, "").output();
        let output = output.unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && said.contains("1 passed"), "{said}");
    }

    fn start_a_program_under_a_raised_limit() {
        raise_file_limit();
        assert!(getrlimit(Resource::Nofile).current.is_none_or(|most| most > 200), "it is raised");
        let dir = tempfile::tempdir().unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut command = tokio::process::Command::new("sh");
            let script = "while [ ! -e go ]; do sleep 0.02; done; ulimit -Sn >limit";
            command.args(["-c", script]).current_dir(dir.path());
            let mut child = Child::start(command).unwrap();
            std::fs::write(dir.path().join("go"), "").unwrap();
            assert!(child.ended().await.unwrap().success());
        });
        assert_eq!(std::fs::read_to_string(dir.path().join("limit")).unwrap().trim(), "200");
    }

    /// With a program that is deaf to every signal, and another that it started.
    fn panic_beside_a_program(file: &Path) -> ! {
        end_on_panic(|| {});
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let one = "trap '' TERM HUP INT QUIT; echo $$ >>pids; while [ -e pids ]; do sleep 0.02; done";
            let script = format!("sh -c \"{}\" & {one}", one.replace('$', "\\$"));
            let mut command = tokio::process::Command::new("sh");
            command.args(["-c", &script]).current_dir(file.parent().unwrap());
            let _child = Child::start(command).unwrap();
            let both_run = || std::fs::read_to_string(file).unwrap_or_default().lines().count() >= 2;
            testkit::wait_until(Duration::from_secs(30), "both programs start", both_run).await;
            panic!("as a bug would");
        })
    }

    /// Whether a process is there, and has not ended.
    fn runs(pid: i32) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with(['Z', 'X']))
    }

    #[test]
    fn a_standstill_is_counted_once_whoever_notices_it_first() {
        let watch = StallWatch::new(Arc::new(BootClock));
        let begun = watch.zero;
        let later = |ms| begun + Duration::from_millis(ms);
        assert_eq!(watch.standstills(later(1_700)), 0, "a tick that is not yet late");
        assert_eq!(watch.standstills(later(5_000)), 1, "a task that wakes up before the watch");
        watch.tick(later(5_001));
        assert_eq!(watch.standstills(later(5_002)), 1, "and one that wakes up after it");
        watch.tick(later(5_251));
        assert_eq!(watch.standstills(later(9_000)), 2);
    }

    #[test]
    fn a_short_lease_has_the_watch_tick_more_often_and_none_is_missed_in_between() {
        let watch = StallWatch::new(Arc::new(BootClock));
        let later = |ms| watch.zero + Duration::from_millis(ms);
        watch.mind(Duration::from_secs(15));
        assert_eq!(watch.tick(later(1_000)), Duration::from_millis(920), "at a multiple of 960 ms");
        watch.mind(Duration::from_secs(2));
        watch.mind(Duration::from_secs(60));
        assert_eq!(watch.standstills(later(1_920 + 750)), 0, "what was announced before counts");
        assert_eq!(watch.tick(later(1_921)), Duration::from_millis(127), "at one of 256 ms");
        assert_eq!(watch.tick(later(2_048)), Duration::from_millis(256));
        assert_eq!((watch.standstills(later(3_054)), watch.standstills(later(3_055))), (0, 1));
    }
}
