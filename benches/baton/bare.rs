//! The yardsticks of polls: an HTTP/1 server and nothing else, with the answer that it is given. A process of its own,
//! as Baton is, on one thread, as Baton's listener is.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// The running yardstick; killed when dropped.
pub struct Bare {
    child: Child,
    address: SocketAddr,
}

impl Bare {
    /// A peer's program, which answers every request with the body behind these two headers.
    pub fn of(program: &Path, answer: &[String; 3]) -> Self {
        let mut command = Command::new(program);
        let mut child = command.args(answer).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
        let mut line = String::new();
        let stdout = child.stdout.take().expect("piped above");
        BufReader::new(stdout).read_line(&mut line).expect("the yardstick says its address");
        Self { child, address: line.trim().parse().expect("an address") }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Bare {
    fn drop(&mut self) {
        // Both fail only when it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
