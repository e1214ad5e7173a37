//! A program in a process group of its own.

use parking_lot::{Mutex, MutexGuard};
use std::io;
use std::process::ExitStatus;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, kill_process_group, test_kill_process_group, waitpgid};
use tokio::process::{ChildStderr, ChildStdout, Command};

use super::process::restore_file_limit;

/// How long what is left of a group may take to vanish once it was killed: far more than a kernel needs.
const VANISH: Duration = Duration::from_millis(200);

/// How long the end of the process waits for a thread that is just starting a program.
const START: Duration = Duration::from_millis(500);
/// The groups that run, for an end of the process that drops nothing.
static GROUPS: Mutex<Vec<Pid>> = Mutex::new(Vec::new());

fn groups() -> MutexGuard<'static, Vec<Pid>> {
    // Each change of it is one step.
    GROUPS.lock()
}

/// Kills every group that runs, and lets nobody start another: the process ends now, and nothing of it may outlive the
/// lease.
pub fn kill_groups() {
    // Another thread holds it for as long as a start takes; or this one, should it have panicked in the middle of one.
    let Some(groups) = GROUPS.try_lock_for(START) else { return };
    for group in &*groups {
        let _ = kill_process_group(*group, Signal::KILL);
    }
    std::mem::forget(groups);
}

/// A running program. Dropping it kills its group.
#[derive(Debug)]
pub struct Child {
    process: tokio::process::Child,
    group: Pid,
    gone: bool,
}

impl Child {
    /// Starts `command` in a group of its own: what it starts in turn is signalled with it, and a terminal's Ctrl-C
    /// comes once, through us.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn start(mut command: Command) -> io::Result<Self> {
        let mut groups = groups();
        let process = command.process_group(0).kill_on_drop(true).spawn()?;
        let id = process.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        let group = id.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
        restore_file_limit(group);
        groups.push(group);
        Ok(Self { process, group, gone: false })
    }

    /// What it writes to its standard output and its standard error, once each, where `command` asked for pipes.
    pub fn output(&mut self) -> (Option<ChildStdout>, Option<ChildStderr>) {
        (self.process.stdout.take(), self.process.stderr.take())
    }

    /// Sends a signal to the whole group.
    pub fn signal(&self, signal: Signal) {
        // A group that has ended meanwhile needs none.
        let _ = kill_process_group(self.group, signal);
    }

    /// Waits for the program's end, and then ends what it left running in its group: nothing of it may outlive the
    /// lease. Cancel-safe.
    ///
    /// # Errors
    /// What the operating system says.
    pub async fn ended(&mut self) -> io::Result<ExitStatus> {
        let status = self.process.wait().await?;
        self.kill();
        Ok(status)
    }

    /// Ends what is left of the group, once: its number may be another's afterwards.
    fn kill(&mut self) {
        if !self.gone {
            self.gone = true;
            self.signal(Signal::KILL);
            groups().retain(|group| *group != self.group);
        }
    }

    /// After [`Self::ended`]: waits until nothing is left of the group, at most a fraction of a second. Where this
    /// process is the container's first, orphans are its own children, and stay as zombies unless it takes them in.
    pub async fn cleared(&self) {
        let looking = async {
            loop {
                while let Ok(Some(_)) = waitpgid(self.group, WaitOptions::NOHANG) {}
                if test_kill_process_group(self.group) == Err(Errno::SRCH) {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        // What the kernel cannot end, nobody can: a process that waits for a dead disk, or another's zombie.
        let _ = tokio::time::timeout(VANISH, looking).await;
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.kill();
    }
}
