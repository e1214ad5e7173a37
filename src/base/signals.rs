//! When to end: SIGTERM, SIGINT, SIGQUIT or SIGHUP asks for a drain, a second one for the end at once. Each of them
//! would else end the process without a word, and leave the programs of its jobs running without a lease.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// The signals that end the process.
#[derive(Debug)]
pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
    quit: Signal,
    hang_up: Signal,
}

impl Signals {
    /// From now on the signals are caught; USR1, USR2 and ALRM, which mean nothing here, are caught and do nothing.
    ///
    /// # Errors
    /// When the operating system refuses the handler.
    pub fn catch() -> io::Result<Self> {
        for idle in [SignalKind::user_defined1(), SignalKind::user_defined2(), SignalKind::alarm()] {
            // What is caught once stays caught, though nobody listens.
            drop(signal(idle)?);
        }
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            quit: signal(SignalKind::quit())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    /// Waits for the next one. Cancel-safe.
    pub async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
            _ = self.quit.recv() => {}
            _ = self.hang_up.recv() => {}
        }
    }
}
