//! The workers: `worker.py` and the library beside it, in one process group, so that both stand still together and die
//! together. What they tell is kept.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;

use rustix::process::{Pid, Signal, kill_process_group};
use testkit::place::Place;
use testkit::root;

use crate::history::{Entry, Event};

/// What all workers told, in the order in which it was read.
pub type Record = Arc<Mutex<Vec<Entry>>>;

/// See the module. Killed when dropped.
pub struct Worker {
    /// A number that no other start of a worker has.
    pub client: usize,
    child: Child,
}

impl Worker {
    /// Starts one with the words of `worker.py`.
    ///
    /// # Panics
    /// When there is no Python.
    pub fn start(client: usize, place: &Place, words: &[String], record: &Record, log: &Path) -> Self {
        let log = File::options().create(true).append(true).open(log).expect("a log file");
        let mut command = Command::new("python3");
        command.arg(root().join("tests/jepsen/worker.py")).args(words).process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log);
        let mut child = place.run(|| command.spawn()).expect("python3 starts");
        let (output, record) = (BufReader::new(child.stdout.take().expect("piped")), Arc::clone(record));
        thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                // The last line of one that is killed may be cut short.
                if let Ok(event) = serde_json::from_str::<Event>(&line) {
                    record.lock().expect("nobody panics with it").push(Entry { client, event });
                }
            }
        });
        Self { client, child }
    }

    pub fn signal(&self, signal: Signal) {
        kill_process_group(Pid::from_child(&self.child), signal).expect("our own children take signals");
    }

    /// Whether it has ended by itself, as it does with its library.
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().expect("our own child can be asked").is_some()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // Both fail only when it has ended already.
        let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
        let _ = self.child.wait();
    }
}
