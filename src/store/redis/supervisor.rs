//! Keeps a connection open: opens one, checks who answers, lets it be used until it ends, opens the next. For ever,
//! with a growing pause that is different on every replica.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio::sync::watch;

use super::info::Info;
use super::link::Link;
use super::nodes::Target;
use super::settings::Settings;
use super::subscriber::Listeners;
use crate::protocol::Dice;
use crate::store::{ShortestLease, StoreError, StoreHealth};

/// The first pause between two attempts to connect.
const PAUSE_MIN: Duration = Duration::from_millis(25);
/// No pause is longer, however long the leases.
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// How a connection is, as it changes.
pub(super) type Health = watch::Receiver<StoreHealth>;

/// The connection for commands, or why there is none.
pub(super) enum Slot {
    /// Connected, and checked.
    Up(Arc<Link>),
    /// Not, and this is what commands are answered with.
    Down(StoreError),
}

/// What the supervisor and the store share.
pub(super) struct Shared {
    /// Swapped as a whole, read by every command.
    pub slot: ArcSwap<Slot>,
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
pub(super) struct Common {
    pub listeners: Arc<Listeners>,
    /// What was noticed at the last connect of each that works, but not as well as it should: by the words, for as a
    /// rule there is nothing, and every role asks at every turn.
    notes: Mutex<BTreeMap<String, BTreeSet<Target>>>,
}

impl Common {
    fn by_note(&self) -> MutexGuard<'_, BTreeMap<String, BTreeSet<Target>>> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
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

impl Shared {
    pub fn new() -> Self {
        let error = StoreError::Unreachable { reason: "not connected yet".to_owned() };
        let (health, _) = watch::channel(StoreHealth::Down { reason: error.to_string() });
        Self { slot: ArcSwap::from_pointee(Slot::Down(error)), health, known: Mutex::default() }
    }

    /// What commands are answered with while there is no connection.
    pub fn trouble(&self) -> Option<StoreError> {
        match &**self.slot.load() {
            Slot::Up(_) => None,
            Slot::Down(error) => Some(error.clone()),
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
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn up(&self, link: &Arc<Link>, found: Known) {
        *self.known() = found;
        self.slot.store(Arc::new(Slot::Up(Arc::clone(link))));
        self.health.send_replace(StoreHealth::Up);
    }

    fn down(&self, error: StoreError) {
        let reason = error.to_string();
        self.slot.store(Arc::new(Slot::Down(error)));
        let health = StoreHealth::Down { reason };
        // Told once per reason, not once per attempt.
        self.health.send_if_modified(|present| {
            let changed = *present != health;
            if changed {
                tracing::debug!(?health, "Redis cannot be used");
                present.clone_from(&health);
            }
            changed
        });
    }
}

/// Runs until it is aborted.
pub(super) async fn run(
    settings: Arc<Settings>,
    target: Target,
    shared: Arc<Shared>,
    common: Arc<Common>,
    mut pauses: Pauses,
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
                shared.up(&link, found);
                // In a cluster the two need not be at the same node.
                let doubt = settings.nodes.is_none().then_some(&common.listeners.doubt);
                let why = link.kept(doubt).await;
                // One that opens and is then refused at every command would be opened forty times a second.
                if link.is_replaced() || link.age() >= PAUSE_MAX {
                    pauses.reset();
                }
                if link.is_replaced() {
                    // Only commands are told, until the next connection is there or cannot be made.
                    tracing::debug!(reason = %why, "the connection is replaced");
                    shared.slot.store(Arc::new(Slot::Down(why)));
                } else {
                    shared.down(why);
                }
            }
            Err(error) => shared.down(error),
        }
        tokio::time::sleep(pauses.next()).await;
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
        info.check_master()?;
    }
    let in_cluster = info.mode() == Some("cluster");
    Ok((link, Known { run_id: info.process(), replicas: info.replicas(), in_cluster }, info.notes(acks)))
}

/// Asks a server who it is.
pub(super) async fn fetch_info(link: &Link, timeout: Duration) -> Result<Info, StoreError> {
    let reply = link.command("INFO", Vec::new(), timeout).await.map_err(|failure| failure.error)?;
    let text: String = reply.convert().map_err(|_| StoreError::Refused { reason: "INFO has no text".to_owned() })?;
    Ok(Info::parse(&text))
}

/// Growing, random pauses. Seeded: randomness is handed in, and a run can be repeated.
pub(super) struct Pauses {
    dice: Dice,
    limit: Duration,
    lease_min: ShortestLease,
}

impl Pauses {
    /// A Redis that comes back shall be found well before the shortest lease has run out.
    pub fn new(seed: u64, lease_min: ShortestLease) -> Self {
        Self { dice: Dice::new(seed), limit: PAUSE_MIN, lease_min }
    }

    pub fn reset(&mut self) {
        self.limit = PAUSE_MIN;
    }

    /// Between half the limit and the limit, which doubles.
    pub fn next(&mut self) -> Duration {
        let limit = self.limit.min((self.lease_min.get() / 8).clamp(PAUSE_MIN, PAUSE_MAX));
        self.limit = limit * 2;
        self.dice.between(limit / 2, limit)
    }
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

    #[test]
    fn pauses_grow_to_a_second_and_differ_between_replicas() {
        let lease = Duration::from_secs(15);
        let (mut one, mut other) = (Pauses::new(1, lease.into()), Pauses::new(2, lease.into()));
        let first: Vec<Duration> = (0..10).map(|_| one.next()).collect();
        let second: Vec<Duration> = (0..10).map(|_| other.next()).collect();
        assert!(first.iter().all(|pause| *pause <= PAUSE_MAX) && first[9] >= PAUSE_MAX / 2);
        assert!(first[0] <= PAUSE_MIN);
        assert_ne!(first, second);
        let shortest = ShortestLease::from(lease);
        let mut hasty = Pauses::new(1, shortest.clone());
        assert!((0..10).map(|_| hasty.next()).last() >= Some(PAUSE_MAX / 2));
        shortest.set(Duration::from_secs(1));
        assert!((0..10).all(|_| hasty.next() <= Duration::from_millis(125)), "a short lease cannot wait for a second");
        one.reset();
        assert!(one.next() <= PAUSE_MIN);
    }
}
