//! The command, in a process group of its own.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::Command;

/// A running command. Dropping it kills its group.
#[derive(Debug)]
pub struct Child {
    process: tokio::process::Child,
    group: Pid,
    gone: bool,
}

impl Child {
    /// Starts `command` with these variables besides our own.
    ///
    /// # Errors
    /// What the operating system says. An empty command is not found.
    pub fn start(command: &[OsString], variables: &[(&str, String)]) -> io::Result<Self> {
        let not_found = || io::Error::from(io::ErrorKind::NotFound);
        let (program, arguments) = command.split_first().ok_or_else(not_found)?;
        let mut command = Command::new(program);
        command.args(arguments).envs(variables.iter().map(|(name, value)| (*name, value)));
        // A group of its own: what it starts in turn is signalled with it, and the terminal's Ctrl-C comes once,
        // through us.
        let process = command.process_group(0).kill_on_drop(true).spawn()?;
        let id = process.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw).ok_or_else(not_found)?;
        Ok(Self { process, group: id, gone: false })
    }

    /// Sends a signal to the whole group.
    pub fn signal(&self, signal: Signal) {
        // A group that has ended meanwhile needs none.
        let _ = kill_process_group(self.group, signal);
    }

    /// Waits for the command's end, and then ends what it left running in its group: nothing of it may outlive the
    /// lease. Cancel-safe.
    ///
    /// # Errors What the operating system says.
    pub async fn ended(&mut self) -> io::Result<ExitStatus> {
        let status = self.process.wait().await?;
        if !self.gone {
            self.gone = true;
            self.signal(Signal::KILL);
        }
        Ok(status)
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if !self.gone {
            self.signal(Signal::KILL);
        }
    }
}

/// The exit code as a shell tells it: 128 + the signal, where one killed it.
pub fn code_of(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX)
}

/// The exit code for a command that cannot be started, as a shell tells it.
pub fn code_of_failure(error: &io::Error) -> u8 {
    if error.kind() == io::ErrorKind::NotFound { 127 } else { 126 }
}
