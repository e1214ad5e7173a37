//! When to end: SIGTERM or SIGINT asks for a drain, a second one for the end at once.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// The signals that end the process.
#[derive(Debug)]
pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    /// From now on the signals are caught.
    ///
    /// # Errors
    /// When the operating system refuses the handler.
    pub fn catch() -> io::Result<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    /// Waits for the next one. Cancel-safe.
    pub async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
