//! Which connection a role's commands use: the only one, or in a cluster one for each slot that has a role, each with a
//! supervisor of its own. So a node that fails, or a WAIT that takes its time, holds up the roles of that node alone.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::task::AbortHandle;

use super::link::Link;
use super::nodes::Target;
use super::settings::Settings;
use super::supervisor::{self, Pauses, Shared, Slot};
use crate::store::{ShortestLease, StoreError};

/// The connections for commands.
pub(super) struct Routes {
    settings: Arc<Settings>,
    lease_min: ShortestLease,
    seed: u64,
    /// The only connection; in a cluster one to any node, which tells whether there is a cluster at all.
    pub base: Arc<Shared>,
    base_task: AbortHandle,
    by_slot: Mutex<HashMap<u16, Route>>,
}

struct Route {
    shared: Arc<Shared>,
    task: AbortHandle,
}

impl Drop for Routes {
    fn drop(&mut self) {
        self.base_task.abort();
        let by_slot = self.by_slot.get_mut().unwrap_or_else(PoisonError::into_inner);
        by_slot.values().for_each(|route| route.task.abort());
    }
}

impl Routes {
    pub fn new(settings: Arc<Settings>, lease_min: ShortestLease, seed: u64) -> Self {
        let base = start(&settings, Target::AnyNode, Pauses::new(seed, lease_min.clone()));
        let by_slot = Mutex::default();
        Self { settings, lease_min, seed, base: base.shared, base_task: base.task, by_slot }
    }

    /// The connection to whom the slot belongs, where that needs no looking for: outside of a cluster.
    pub fn only_link(&self) -> Option<Result<Arc<Link>, StoreError>> {
        self.settings.nodes.is_none().then(|| link_of(&self.base))
    }

    /// The connection to whom the slot belongs.
    ///
    /// # Errors
    /// Why there is none. The first time in a cluster it is waited for, for at most `patience`: nothing is sent
    /// meanwhile, and the caller may leave at any time.
    pub async fn link(&self, slot: u16, patience: Duration) -> Result<Arc<Link>, StoreError> {
        if self.settings.nodes.is_none() {
            return link_of(&self.base);
        }
        let (shared, first_news) = self.route(slot);
        if let Some(mut news) = first_news {
            // Whatever it is, the slot says it, too.
            let _ = tokio::time::timeout(patience, news.changed()).await;
        }
        link_of(&shared)
    }

    /// The slot's connection, and when it is new how to wait for it.
    fn route(&self, slot: u16) -> (Arc<Shared>, Option<supervisor::Health>) {
        let mut by_slot = self.by_slot.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(route) = by_slot.get(&slot) {
            return (Arc::clone(&route.shared), None);
        }
        let pauses = Pauses::new(self.seed ^ u64::from(slot), self.lease_min.clone());
        let route = start(&self.settings, Target::MasterOf(slot), pauses);
        let found = (Arc::clone(&route.shared), Some(route.shared.health.subscribe()));
        by_slot.insert(slot, route);
        found
    }

    /// What every connection has to remark.
    pub fn notes(&self) -> Vec<String> {
        let by_slot = self.by_slot.lock().unwrap_or_else(PoisonError::into_inner);
        let mut notes = self.base.notes();
        notes.extend(by_slot.values().flat_map(|route| route.shared.notes()));
        notes.sort_unstable();
        notes.dedup();
        notes
    }
}

fn start(settings: &Arc<Settings>, target: Target, pauses: Pauses) -> Route {
    let shared = Arc::new(Shared::new());
    let task = tokio::spawn(supervisor::run(Arc::clone(settings), target, Arc::clone(&shared), pauses));
    Route { shared, task: task.abort_handle() }
}

fn link_of(shared: &Shared) -> Result<Arc<Link>, StoreError> {
    match &**shared.slot.load() {
        Slot::Up(link) => Ok(Arc::clone(link)),
        Slot::Down(error) => Err(error.clone()),
    }
}
