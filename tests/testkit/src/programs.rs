//! Programs of other people beside the sidecars: what they need, and what they print.

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use rustix::process::{Pid, Signal, kill_process};

use crate::root;

/// A Python that has what `.ci/LIST.txt` names, installed if it is not there.
///
/// # Panics
/// When it cannot be had, saying why.
pub fn python_with(list: &str) -> PathBuf {
    let script = root().join(".ci/python");
    let output = Command::new(&script).arg(list).stdin(Stdio::null()).output().expect("the script is there");
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    assert!(output.status.success(), "there is no Python with {list}: {}", said(&output.stderr));
    PathBuf::from(said(&output.stdout))
}

/// Whether a program is there: it is run, and ends well.
pub fn is_installed(command: &mut Command) -> bool {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|s| s.success())
}

/// A program that runs, and the lines it has printed. Killed when dropped.
pub struct Running {
    child: Child,
    input: Option<ChildStdin>,
    lines: Arc<Mutex<Vec<String>>>,
}

impl Running {
    /// # Panics
    /// When it cannot be started.
    pub fn start(mut command: Command) -> Self {
        command.stdin(Stdio::null());
        Self::run(command)
    }

    /// One that is told something, too: see [`Running::say`].
    ///
    /// # Panics
    /// When it cannot be started.
    pub fn start_with_input(mut command: Command) -> Self {
        command.stdin(Stdio::piped());
        Self::run(command)
    }

    fn run(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().expect("it starts");
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().expect("piped"));
        let lines = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&lines);
        thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                sink.lock().unwrap_or_else(PoisonError::into_inner).push(line);
            }
        });
        Self { child, input, lines }
    }

    /// A line on its standard input.
    ///
    /// # Panics
    /// When it has none, or does not read it.
    pub fn say(&mut self, line: &str) {
        let input = self.input.as_mut().expect("started with an input");
        writeln!(input, "{line}").and_then(|()| input.flush()).expect("it listens");
    }

    /// What it has printed so far.
    pub fn lines(&self) -> Vec<String> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn has_printed(&self, line: &str) -> bool {
        self.lines().iter().any(|printed| printed == line)
    }

    /// SIGTERM.
    ///
    /// # Panics
    /// When it cannot be sent.
    pub fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    /// # Panics
    /// When it cannot be sent.
    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("our own child takes signals");
    }

    /// Its exit code once it has ended; none if a signal ended it.
    ///
    /// # Panics
    /// When it cannot be asked.
    pub fn ended(&mut self) -> Option<Option<i32>> {
        self.child.try_wait().expect("our own child can be asked").map(|status| status.code())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Both fail only when it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
