//! Notices that the configuration has changed.
//!
//! Kubernetes updates a mounted ConfigMap by moving a symbolic link, which file watches on the file itself miss and
//! which keeps modification times meaningless. So the content is read again and again, which for a small file costs
//! nothing. The content of the secrets and certificates it names counts too, as a hash that is never shown.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

use super::environment::Environment;
use super::load::{Loaded, check_bytes, read};
use super::problem::ConfigError;

/// How many looks in a row must miss a file before it counts as gone: an update may remove it for a moment.
const MISSED_LOOKS_MAX: u32 = 3;

/// What became of a change.
#[derive(Debug)]
pub enum Reload {
    /// A good configuration, to be applied.
    Changed(Box<Loaded>),
    /// A bad one; the old one stays. Told once per content.
    Refused(ConfigError),
}

/// Watches one configuration file and the files that it names, for whoever says when to look.
#[derive(Debug)]
pub struct Watcher {
    path: PathBuf,
    environment: Arc<Environment>,
    seen: Seen,
    missed_looks: u32,
}

/// What a watcher tells that looks by itself, for as long as this is there.
#[derive(Debug)]
pub struct Changes {
    reloads: tokio::sync::mpsc::Receiver<Reload>,
    /// Dropped, it ends the thread that looks.
    _watching: Sender<()>,
}

/// The content of every watched file by its hash; none for a file that could not be read.
type Contents = BTreeMap<PathBuf, Option<u64>>;

/// What was told last.
#[derive(Debug)]
struct Seen {
    main: Option<u64>,
    others: Contents,
}

/// What one look found.
enum Look {
    /// All as it was.
    Same,
    /// A file that was there is not.
    Missing,
    /// Something else, to be told.
    New(Reload, Seen),
}

impl Watcher {
    /// How often to look, unless there is a reason for another period.
    pub const PERIOD: Duration = Duration::from_secs(2);

    /// Watches `path`, which was loaded as `loaded`. What changed in the file since then is told first.
    pub fn new(path: &Path, environment: Arc<Environment>, loaded: &Loaded) -> Self {
        let seen = Seen { main: loaded.content, others: contents(loaded.files.iter()) };
        Self { path: path.to_owned(), environment, seen, missed_looks: 0 }
    }

    /// Looks once, now, and tells what has changed.
    pub fn look(&mut self) -> Option<Reload> {
        let believe_missing = self.missed_looks + 1 >= MISSED_LOOKS_MAX;
        match look(&self.path, &self.environment, &self.seen, believe_missing) {
            Look::Same => {
                self.missed_looks = 0;
                None
            }
            Look::Missing => {
                self.missed_looks += 1;
                None
            }
            Look::New(reload, seen) => {
                self.missed_looks = 0;
                self.seen = seen;
                Some(reload)
            }
        }
    }

    /// Looks once every `period` from now on, on a thread of its own: a slow disk must not delay a renewal, and a look
    /// that finds nothing shall wake nobody else up.
    ///
    /// # Errors
    /// When the operating system refuses the thread.
    pub fn every(mut self, period: Duration) -> std::io::Result<Changes> {
        let (watching, end) = channel::<()>();
        // One that has not been taken yet is enough: the next look finds what has changed since.
        let (news, reloads) = tokio::sync::mpsc::channel(1);
        std::thread::Builder::new().name("config".to_owned()).spawn(move || {
            loop {
                if let Some(reload) = self.look()
                    && news.blocking_send(reload).is_err()
                {
                    return;
                }
                if end.recv_timeout(period) != Err(RecvTimeoutError::Timeout) {
                    return;
                }
            }
        })?;
        Ok(Changes { reloads, _watching: watching })
    }
}

impl Changes {
    /// Waits for the next change. Dropping the future loses nothing.
    pub async fn next(&mut self) -> Reload {
        match self.reloads.recv().await {
            Some(reload) => reload,
            // The thread only ends with this, or in a panic, which ends the process.
            None => std::future::pending().await,
        }
    }
}

fn look(path: &Path, environment: &Environment, seen: &Seen, believe_missing: bool) -> Look {
    let main = read(path);
    let main_hash = main.as_ref().ok().map(|bytes| hash_of(bytes));
    let others = contents(seen.others.keys());
    if main_hash == seen.main && others == seen.others {
        return Look::Same;
    }
    let vanished = (seen.main.is_some() && main_hash.is_none())
        || others.iter().any(|(file, hash)| hash.is_none() && seen.others.get(file).is_some_and(Option::is_some));
    if vanished && !believe_missing {
        return Look::Missing;
    }
    let rotated = others.iter().filter(|(file, hash)| seen.others.get(*file) != Some(hash));
    let rotated: Vec<PathBuf> = rotated.map(|(file, _)| file.clone()).collect();
    let checked = main.map_err(|problem| ConfigError::single(path, problem));
    match checked.and_then(|bytes| check_bytes(&bytes, path, environment)) {
        Ok(mut loaded) => {
            loaded.rotated = rotated.into_iter().filter(|file| loaded.files.contains(file)).collect();
            let seen = Seen { main: main_hash, others: contents(loaded.files.iter()) };
            Look::New(Reload::Changed(Box::new(loaded)), seen)
        }
        Err(error) => {
            // What the refused content names may be what it lacks; what was named before may come back.
            let seen = Seen { main: main_hash, others: contents(others.keys().chain(&error.files)) };
            Look::New(Reload::Refused(error), seen)
        }
    }
}

fn contents<'f>(files: impl Iterator<Item = &'f PathBuf>) -> Contents {
    files.map(|file| (file.clone(), read(file).ok().map(|bytes| hash_of(&bytes)))).collect()
}

/// Good enough to notice a change, and nothing of a secret can be read from it.
pub(super) fn hash_of(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    hasher.finish()
}
