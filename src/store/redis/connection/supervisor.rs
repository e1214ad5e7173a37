//! Keeps a connection open: opens one, checks who answers, lets it be used until it ends, opens the next. For ever,
//! with a growing pause that is different on every replica.

use parking_lot::{Mutex, MutexGuard};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio::sync::watch;

use super::cluster::Target;
use super::info::Info;
use super::link::Link;
use super::settings::{PAUSE_MAX, Settings};
use crate::base::Backoff;
use crate::store::redis::subscriber::Listeners;
use crate::store::{StoreError, StoreHealth, push_change};

/// What commands are answered with that could not wait for the first connection.
fn not_connected_yet() -> StoreError {
    StoreError::Unreachable { reason: "not connected yet".to_owned() }
}

/// The connection for commands, or why there is none.
pub enum LinkState {
    /// The first connection is being opened.
    Opening,
    /// Connected, and checked.
    Up(Arc<Link>),
    /// Not, and this is what commands are answered with.
    Down(StoreError),
}

/// What the supervisor and the store share.
pub struct Connection {
    /// Swapped as a whole, read by every command.
    pub state: ArcSwap<LinkState>,
    /// The same for people.
    pub health: watch::Sender<StoreHealth>,
    known: Mutex<Known>,
}

/// What a server told of itself at the last connect.
#[derive(Default)]
struct Known {
    run_id: Option<String>,
    replicas: Option<u64>,
    in_cluster: bool,
}

/// What all connections of a store share.
#[derive(Default)]
pub struct Common {
    pub listeners: Arc<Listeners>,
    /// What was noticed at the last connect of each that works, but not as well as it should: by the words, for as a
    /// rule there is nothing, and every role asks at every turn.
    notes: Mutex<BTreeMap<String, BTreeSet<Target>>>,
}

impl Common {
    fn by_note(&self) -> MutexGuard<'_, BTreeMap<String, BTreeSet<Target>>> {
        self.notes.lock()
    }

    /// Each once.
    pub fn notes(&self) -> Vec<String> {
        self.by_note().keys().cloned().collect()
    }

    /// What there is to be noted of a connection from now on.
    pub fn note(&self, target: Target, notes: Vec<String>, endpoint: &str) {
        let mut by_note = self.by_note();
        by_note.retain(|note, targets| {
            if !notes.contains(note) {
                targets.remove(&target);
            }
            !targets.is_empty()
        });
        for note in notes {
            by_note
                .entry(note)
                .or_insert_with_key(|note| {
                    // Once per note, not once per connection.
                    tracing::warn!(endpoint, note, "Redis works, with a reservation");
                    BTreeSet::new()
                })
                .insert(target);
        }
    }
}

impl Connection {
    pub fn new() -> Self {
        let (health, _) = watch::channel(StoreHealth::Down { reason: not_connected_yet().to_string() });
        Self { state: ArcSwap::from_pointee(LinkState::Opening), health, known: Mutex::default() }
    }

    /// The connection, or what commands are answered with while there is none.
    pub fn link(&self) -> Result<Arc<Link>, StoreError> {
        match &**self.state.load() {
            LinkState::Opening => Err(not_connected_yet()),
            LinkState::Up(link) => Ok(Arc::clone(link)),
            LinkState::Down(error) => Err(error.clone()),
        }
    }

    /// Whether the first connection is still being opened.
    pub fn is_opening(&self) -> bool {
        matches!(**self.state.load(), LinkState::Opening)
    }

    /// Waits until the first connection is there, or cannot be had, for at most `timeout`.
    pub async fn opened(&self, timeout: Duration) {
        let mut news = self.health.subscribe();
        // The state is another before it is told.
        if self.is_opening() {
            // Whatever the news is, the state says it, too.
            let _ = tokio::time::timeout(timeout, news.changed()).await;
        }
    }

    /// Which process it was.
    pub fn run_id(&self) -> Option<String> {
        self.known().run_id.clone()
    }

    /// How many replicas it had.
    pub fn replicas(&self) -> Option<u64> {
        self.known().replicas
    }

    /// Whether it was a node of a cluster.
    pub fn is_in_cluster(&self) -> bool {
        self.known().in_cluster
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock()
    }

    fn up(&self, link: &Arc<Link>, found: Known) {
        *self.known() = found;
        self.state.store(Arc::new(LinkState::Up(Arc::clone(link))));
        self.health.send_replace(StoreHealth::Up);
    }

    fn down(&self, error: StoreError) {
        let reason = error.to_string();
        self.state.store(Arc::new(LinkState::Down(error)));
        // Told once per reason, not once per attempt.
        if push_change(&self.health, StoreHealth::Down { reason: reason.clone() }) {
            tracing::debug!(reason, "Redis cannot be used");
        }
    }
}

/// Runs until it is aborted.
pub(super) async fn run(
    settings: Arc<Settings>,
    target: Target,
    connection: Arc<Connection>,
    common: Arc<Common>,
    mut backoff: Backoff,
) {
    loop {
        match open(&settings, target).await {
            Ok((link, found, notes)) => {
                let link = Arc::new(link);
                common.note(target, notes, &settings.endpoint);
                // In a cluster the two need not be at the same node.
                if let (None, Some(process)) = (&settings.nodes, &found.run_id) {
                    common.listeners.follow(process);
                }
                connection.up(&link, found);
                // In a cluster the two need not be at the same node.
                let doubt = settings.nodes.is_none().then_some(&common.listeners.doubt);
                let why = link.kept(doubt).await;
                // One that opens and is then refused at every command would be opened forty times a second.
                if link.is_replaced() || link.age() >= PAUSE_MAX {
                    backoff.reset();
                }
                if link.is_replaced() {
                    // Only commands are told, until the next connection is there or cannot be made.
                    tracing::debug!(reason = %why, "the connection is replaced");
                    connection.state.store(Arc::new(LinkState::Down(why)));
                } else {
                    connection.down(why);
                }
            }
            Err(error) => connection.down(error),
        }
        tokio::time::sleep(backoff.next(settings.timeouts.pause_max())).await;
    }
}

async fn open(settings: &Settings, target: Target) -> Result<(Link, Known, Vec<String>), StoreError> {
    let link = Link::open(settings, target).await?;
    let info = fetch_info(&link, settings.command_timeout).await?;
    // Any node of a cluster will do for the map and for messages, its replicas included.
    let only_tells = settings.nodes.is_some() && target == Target::AnyNode;
    let acks = if only_tells { 0 } else { settings.acks };
    info.check(settings.guard, acks)?;
    if !only_tells {
        // Its name may have the master's address, too.
        info.check_master().inspect_err(|_| link.pass_over(&settings.passed_over))?;
    }
    let in_cluster = info.mode() == Some("cluster");
    Ok((
        link,
        Known { run_id: info.process(), replicas: info.replicas(), in_cluster },
        info.notes(settings.guard, acks),
    ))
}

/// Asks a server who it is.
pub async fn fetch_info(link: &Link, timeout: Duration) -> Result<Info, StoreError> {
    let reply = link.command("INFO", Vec::new(), timeout).await.map_err(|failure| failure.error)?;
    let text: String = reply.convert().map_err(|_| StoreError::Refused { reason: "INFO has no text".to_owned() })?;
    Ok(Info::parse(&text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_told_once_for_as_long_as_any_connection_has_it() {
        let common = Common::default();
        let note = |slot, notes: &[&str]| {
            common.note(Target::MasterOf(slot), notes.iter().map(|&note| note.to_owned()).collect(), "redis:6379");
            common.notes()
        };
        assert_eq!(note(1, &[]), Vec::<String>::new());
        assert_eq!(note(1, &["evicts"]), ["evicts"]);
        assert_eq!(note(2, &["evicts", "alone"]), ["alone", "evicts"]);
        assert_eq!(note(2, &["evicts"]), ["evicts"]);
        assert_eq!(note(1, &[]), ["evicts"], "the other has it still");
        assert_eq!(note(2, &[]), Vec::<String>::new());
    }
}
