//! What the sidecars of a namespace log, read as it is written, and kept when their pods are gone.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;
use testkit::wait::Ending;

use crate::node;

/// How often it is looked for new files and lines.
const LOOK: Duration = Duration::from_millis(20);

/// One line of one sidecar.
#[derive(Clone, Debug)]
pub struct Line {
    /// By the sidecar, whose clock is the machine's.
    pub at: Timestamp,
    pub pod: String,
    pub fields: Value,
}

impl Line {
    pub fn says(&self, message: &str) -> bool {
        self.fields["message"] == message
    }

    fn text(&self, field: &str) -> &str {
        self.fields[field].as_str().unwrap_or_default()
    }

    pub fn is_complaint(&self) -> bool {
        ["WARN", "ERROR"].contains(&self.text("level"))
    }
}

/// A term of the role `scheduler`.
#[derive(Clone, Debug)]
pub struct Term {
    pub pod: String,
    pub token: u64,
    pub begun: Timestamp,
    /// When its leader stopped saying so, of its own accord.
    pub ended: Option<Timestamp>,
}

/// See the module.
pub struct Follower {
    lines: Arc<Mutex<Vec<Line>>>,
    ending: Arc<Ending>,
    thread: Option<JoinHandle<()>>,
}

impl Follower {
    pub fn start(namespace: &str) -> Self {
        let (lines, ending) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Ending::default()));
        let mut reader =
            Reader { namespace: format!("{namespace}_"), files: HashMap::new(), lines: Arc::clone(&lines) };
        let end = Arc::clone(&ending);
        let thread = thread::spawn(move || {
            while !end.within(LOOK) {
                reader.read();
            }
        });
        Self { lines, ending, thread: Some(thread) }
    }

    pub fn lines(&self) -> Vec<Line> {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner).clone();
        lines.sort_by_key(|line| line.at);
        lines
    }

    /// All terms so far, oldest first.
    pub fn terms(&self) -> Vec<Term> {
        let mut terms: Vec<Term> = Vec::new();
        for line in self.lines().iter().filter(|line| line.text("role") == "scheduler") {
            let token = line.text("token").parse().unwrap_or(0);
            if line.says("this replica leads") {
                terms.push(Term { pod: line.pod.clone(), token, begun: line.at, ended: None });
            } else if (line.says("handing over, once the promises given have run out")
                || line.says("the lease is lost"))
                && let Some(term) = terms.iter_mut().find(|term| term.token == token && term.pod == line.pod)
            {
                term.ended.get_or_insert(line.at);
            }
        }
        terms
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.ending.tell();
        if let Some(thread) = self.thread.take() {
            // It has nothing to say.
            let _ = thread.join();
        }
    }
}

struct Reader {
    namespace: String,
    /// The files that were found, open: a pod that is gone takes its files away. And what is not yet a whole line. By
    /// inode: after a lost sandbox the kubelet counts restarts from 0 again, and another file has the first one's name.
    files: HashMap<u64, (String, File, Vec<u8>)>,
    lines: Arc<Mutex<Vec<Line>>>,
}

impl Reader {
    fn read(&mut self) {
        self.find();
        for (pod, file, rest) in self.files.values_mut() {
            // What cannot be read now is read at the next look.
            let _ = file.read_to_end(rest);
            let Some(end) = rest.iter().rposition(|byte| *byte == b'\n') else { continue };
            let whole: Vec<u8> = rest.drain(..=end).collect();
            let whole = String::from_utf8_lossy(&whole);
            let lines = whole.lines().filter_map(|line| parse(pod, line));
            self.lines.lock().unwrap_or_else(PoisonError::into_inner).extend(lines);
        }
    }

    /// `NAMESPACE_POD_UID/baton/RESTARTS.log`
    fn find(&mut self) {
        let Ok(pods) = fs::read_dir(node::folder().join("log/pods")) else { return };
        for pod in pods.flatten() {
            let name = pod.file_name().to_string_lossy().into_owned();
            let Some(rest) = name.strip_prefix(&self.namespace) else { continue };
            let pod_name = rest.split('_').next().unwrap_or_default();
            let Ok(files) = fs::read_dir(pod.path().join("baton")) else { continue };
            for file in files.flatten() {
                let Ok(open) = File::open(file.path()) else { continue };
                let Ok(inode) = open.metadata().map(|metadata| metadata.ino()) else { continue };
                self.files.entry(inode).or_insert_with(|| (pod_name.to_owned(), open, Vec::new()));
            }
        }
    }
}

/// A line of a container's log: when, which stream, whether it is whole, and what was written.
fn parse(pod: &str, line: &str) -> Option<Line> {
    let fields: Value = serde_json::from_str(line.splitn(4, ' ').nth(3)?).ok()?;
    let at = fields["timestamp"].as_str()?.parse().ok()?;
    Some(Line { at, pod: pod.to_owned(), fields })
}
