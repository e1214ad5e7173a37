//! The signals that `baton exec` passes on.

use std::io;

use rustix::process::Signal;
use tokio::signal::unix::{self, SignalKind};

#[derive(Debug)]
pub struct Forwarded {
    terminate: unix::Signal,
    interrupt: unix::Signal,
    quit: unix::Signal,
    hang_up: unix::Signal,
    user1: unix::Signal,
    user2: unix::Signal,
}

impl Forwarded {
    /// From now on the signals are caught.
    ///
    /// # Errors
    /// When the operating system refuses a handler.
    pub fn catch() -> io::Result<Self> {
        Ok(Self {
            terminate: unix::signal(SignalKind::terminate())?,
            interrupt: unix::signal(SignalKind::interrupt())?,
            quit: unix::signal(SignalKind::quit())?,
            hang_up: unix::signal(SignalKind::hangup())?,
            user1: unix::signal(SignalKind::user_defined1())?,
            user2: unix::signal(SignalKind::user_defined2())?,
        })
    }

    /// Waits for the next one. Cancel-safe.
    pub async fn next(&mut self) -> Signal {
        tokio::select! {
            _ = self.terminate.recv() => Signal::TERM,
            _ = self.interrupt.recv() => Signal::INT,
            _ = self.quit.recv() => Signal::QUIT,
            _ = self.hang_up.recv() => Signal::HUP,
            _ = self.user1.recv() => Signal::USR1,
            _ = self.user2.recv() => Signal::USR2,
        }
    }
}

/// Whether the signal asks baton itself to end, and not only its command. Many programs reload on HUP.
pub fn asks_to_end(signal: Signal) -> bool {
    [Signal::TERM, Signal::INT, Signal::QUIT].contains(&signal)
}
