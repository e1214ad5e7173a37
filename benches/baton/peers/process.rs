//! A peer's program: lines go in, and come out with the moment at which they were read.

use std::fs::File;
use std::process::Stdio;
use std::time::Instant;

use testkit::peers::Peer;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::mpsc::UnboundedSender;

/// One line of a process, or its end.
#[derive(Debug)]
pub struct Said {
    /// Which process.
    pub by: u64,
    pub at: Instant,
    /// None at its end.
    pub line: Option<String>,
}

/// Killed when dropped.
pub struct Process {
    child: Child,
    stdin: ChildStdin,
}

impl Process {
    /// Starts it. `by` is what its lines are marked with.
    pub fn start(peer: &Peer, args: &[&str], by: u64, tell: UnboundedSender<Said>) -> Result<Self, String> {
        let failed = |error: std::io::Error| format!("{}: {error}", peer.name);
        let log = File::options().create(true).append(true).open(peer.folder.join("log")).map_err(failed)?;
        let mut command = Command::new(peer.folder.join("run"));
        command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log).kill_on_drop(true);
        let mut child = command.spawn().map_err(failed)?;
        let (stdin, stdout) = (child.stdin.take().expect("piped"), child.stdout.take().expect("piped"));
        tokio::spawn(async move {
            let mut lines = BufReader::new(stdout).lines();
            loop {
                let line = lines.next_line().await.unwrap_or(None);
                let is_over = line.is_none();
                // Whoever started it may have gone.
                if tell.send(Said { by, at: Instant::now(), line }).is_err() || is_over {
                    return;
                }
            }
        });
        Ok(Self { child, stdin })
    }

    pub async fn order(&mut self, line: &str) -> Result<(), String> {
        let told = self.stdin.write_all(format!("{line}\n").as_bytes()).await;
        told.map_err(|error| format!("it takes no order: {error}"))
    }

    /// SIGKILL, and only that: it is collected when dropped.
    pub fn kill(&mut self) {
        // Fails only when it has ended already.
        let _ = self.child.start_kill();
    }
}
