//! One mutant against some tests: up to the first that fails.

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use rustix::process::{Pid, Signal, kill_process_group};

/// What became of a mutant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// It does not compile, and counts for nothing.
    Unviable,
    /// These tests noticed.
    Killed(&'static str),
    /// It went on in circles, or took all memory, until it was stopped.
    Stopped,
    Survived,
}

#[derive(PartialEq, Eq)]
enum Outcome {
    Passed,
    /// This test failed, as the first one.
    Failed(String),
    Stopped,
}

/// So often all are run before tests that fail only among others have nothing to say.
const RUNS_MAX: usize = 3;

/// Tests, and what they may take.
#[derive(Clone, Copy)]
pub struct Tests<'a> {
    pub binary: &'a Path,
    /// How the list calls them.
    pub name: &'static str,
    /// A machine may be busy: what goes on in circles is told by this.
    pub processor_seconds: u32,
    /// And what waits for something that never comes by this.
    pub seconds: u32,
}

impl Tests<'_> {
    /// What they say in this environment. On a busy machine a test may fail because of that: only one that fails by
    /// itself as well has noticed something.
    pub fn judge(&self, arguments: &[&str], environment: &[(&str, &str)]) -> Verdict {
        for _ in 0..RUNS_MAX {
            let test = match self.run(arguments, environment) {
                Outcome::Passed => break,
                Outcome::Stopped => return Verdict::Stopped,
                Outcome::Failed(test) => test,
            };
            if self.run(&["--exact", &test], environment) != Outcome::Passed {
                return Verdict::Killed(self.name);
            }
            eprintln!("{test} has failed among others, and not by itself: all of them are run again");
        }
        Verdict::Survived
    }

    fn run(&self, arguments: &[&str], environment: &[(&str, &str)]) -> Outcome {
        let Self { binary, processor_seconds, seconds, .. } = *self;
        let script = format!(
            "ulimit -v 8000000; ulimit -t {processor_seconds}; \
             exec timeout --foreground --signal=KILL {seconds} \"$0\" \"$@\""
        );
        let mut child = Command::new("sh")
            .args(["-c", &script])
            .arg(binary)
            .args(arguments)
            .envs(environment.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .expect("a shell");
        let output = BufReader::new(child.stdout.take().expect("it is piped"));
        let failed = output.lines().map_while(Result::ok).find_map(|line| {
            let test = line.strip_prefix("test ")?.strip_suffix(" ... FAILED")?;
            Some(test.to_owned())
        });
        // With the servers that its tests have started. Fails only when all of them have ended.
        let group = Pid::from_child(&child);
        let end_all = || kill_process_group(group, Signal::KILL).is_ok();
        if failed.is_some() {
            end_all();
        }
        let status = child.wait().expect("our own child");
        end_all();
        match (failed, status.code()) {
            (Some(test), _) => Outcome::Failed(test),
            (None, Some(0)) => Outcome::Passed,
            (None, _) => Outcome::Stopped,
        }
    }
}

/// Does this for each of them, several at a time.
pub fn each<T: Send>(numbers: &[usize], at_once: usize, act: impl Fn(usize) -> T + Sync) -> Vec<(usize, T)> {
    let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..at_once {
            scope.spawn(|| {
                while let Some(number) = numbers.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let result = act(*number);
                    done.lock().expect("no panic while it is held").push((*number, result));
                }
            });
        }
    });
    done.into_inner().expect("no panic while it was held")
}
