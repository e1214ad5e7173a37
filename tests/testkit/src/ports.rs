//! Ports that a test gives to the processes it starts.
//!
//! Not what the system gives for port 0: once let go of, that may go to the next who asks, or to a connection that goes
//! out meanwhile, before the process that it is for has bound it.

use std::net::{Ipv4Addr, TcpListener};
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

/// Linux gives ports from 32768 on by itself, and the nodes of a Redis Cluster talk to each other 10,000 further up.
const ALL: Range<u16> = 10_000..20_000;
const BLOCK: usize = 100;

/// A port of 127.0.0.1 that nobody listens on at the moment, that no other test program of this machine gets while
/// this process lives, that this process gets once only, and that the system gives to nobody by itself.
///
/// # Panics
/// When none of them is free.
pub fn free_port() -> u16 {
    static OWN: Mutex<Own> = Mutex::new(Own::NONE);
    OWN.lock().unwrap_or_else(PoisonError::into_inner).free_port()
}

/// What one process has for itself, so that a server which is killed finds its port free when it is started again.
struct Own {
    /// The first port of each of its blocks, listened on: the system lets nobody else do that, and lets go of it
    /// however the process ends.
    held: Vec<TcpListener>,
    /// What is left of the last block.
    unused: Range<u16>,
}

impl Own {
    const NONE: Self = Self { held: Vec::new(), unused: 0..0 };

    fn free_port(&mut self) -> u16 {
        loop {
            match self.unused.find(|port| listen(*port).is_some()) {
                Some(port) => return port,
                None => self.hold_another(),
            }
        }
    }

    fn hold_another(&mut self) {
        // Not where the last process began: what that started may still be ending.
        let blocks = ALL.step_by(BLOCK).len();
        let begin = std::process::id() as usize % blocks;
        let mut firsts = ALL.step_by(BLOCK).cycle().skip(begin).take(blocks);
        let (first, listener) = firsts.find_map(|first| Some((first, listen(first)?))).expect("a free port");
        self.held.push(listener);
        self.unused = first + 1..first + BLOCK as u16;
    }
}

fn listen(port: u16) -> Option<TcpListener> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_processes_have_no_port_in_common() {
        let (mut one, mut other) = (Own::NONE, Own::NONE);
        let mut ports: Vec<u16> = (0..250).flat_map(|_| [one.free_port(), other.free_port()]).collect();
        let given = ports.len();
        ports.sort_unstable();
        ports.dedup();
        assert_eq!(ports.len(), given);
    }
}
