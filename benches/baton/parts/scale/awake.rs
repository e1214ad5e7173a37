//! Cores that do not sleep while something is measured.

use std::process::{Child, Command, Stdio};
use std::thread::available_parallelism;

/// Ends by itself with the process that started it.
const SPIN: &str = "while kill -0 $PPID; do n=0; while [ $n -lt 100000 ]; do n=$((n + 1)); done; done";

/// What keeps every core awake and yields to everything else. Whoever wakes a core that sleeps, by writing to a socket
/// that somebody there waits for, pays for that, on a virtual machine many times what the write takes. A Redis that has
/// little to do would look dearer by that than one that has much, and its sidecars live on other machines anyway.
pub struct Awake(Vec<Child>);

impl Awake {
    pub fn all_cores() -> Self {
        let spin = |_| {
            let mut command = Command::new("chrt");
            command.args(["--idle", "0", "sh", "-c", SPIN]).stdin(Stdio::null()).stderr(Stdio::null());
            command.spawn().expect("chrt, of util-linux, starts")
        };
        Self((0..available_parallelism().map_or(1, usize::from)).map(spin).collect())
    }
}

impl Drop for Awake {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // It is ours and not waited for yet, so both succeed.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
