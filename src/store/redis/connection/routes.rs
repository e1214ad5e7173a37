//! Which connection a role's commands use: the only one, or in a cluster one for each slot that has a role, each with a
//! supervisor of its own. So a node that fails, or a WAIT that takes its time, holds up the roles of that node alone.
//! The connection of a slot whose roles are gone is closed.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::AbortHandle;

use super::cluster::Target;
use super::link::Link;
use super::settings::{Settings, Timeouts};
use super::supervisor::{self, Common, Connection};
use crate::base::clock::{BootClock, Clock};
use crate::protocol::Mono;
use crate::store::StoreError;

/// The connections for commands.
pub struct CommandRoutes {
    settings: Arc<Settings>,
    seed: u64,
    /// The only connection; in a cluster one to any node, which tells whether there is a cluster at all.
    pub base: Arc<Connection>,
    _base: Route,
    pub common: Arc<Common>,
    slots: Mutex<Slots>,
}

struct Slots {
    routes: HashMap<u16, Route>,
    swept_at: Mono,
}

/// A connection, which ends when this is dropped.
struct Route {
    connection: Arc<Connection>,
    task: AbortHandle,
    /// Somebody asked for it since the last sweep.
    used: bool,
}

impl Drop for Route {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl CommandRoutes {
    pub fn new(settings: Arc<Settings>, seed: u64) -> Self {
        let common = Arc::new(Common::default());
        let base = start(&settings, Target::AnyNode, &common, seed);
        let slots = Mutex::new(Slots { routes: HashMap::new(), swept_at: BootClock.now() });
        Self { settings, seed, base: Arc::clone(&base.connection), _base: base, common, slots }
    }

    /// The connection to whom the slot belongs, where that needs neither looking for nor waiting: outside of a cluster,
    /// once it was opened for the first time.
    pub fn only_link(&self) -> Option<Result<Arc<Link>, StoreError>> {
        (self.settings.nodes.is_none() && !self.base.is_opening()).then(|| self.base.link())
    }

    /// The connection to whom the slot belongs.
    ///
    /// # Errors
    /// Why there is none. The first one is waited for, for at most `timeout`: nothing is sent meanwhile, and the caller
    /// may leave at any time.
    pub async fn link(&self, slot: u16, timeout: Duration) -> Result<Arc<Link>, StoreError> {
        let connection = if self.settings.nodes.is_none() { Arc::clone(&self.base) } else { self.route(slot) };
        connection.opened(timeout).await;
        connection.link()
    }

    /// The slot's connection.
    fn route(&self, slot: u16) -> Arc<Connection> {
        let mut slots = self.slots.lock();
        self.sweep(&mut slots);
        if let Some(route) = slots.routes.get_mut(&slot) {
            route.used = true;
            return Arc::clone(&route.connection);
        }
        let seed = self.seed ^ u64::from(slot);
        let route = start(&self.settings, Target::MasterOf(slot), &self.common, seed);
        let connection = Arc::clone(&route.connection);
        slots.routes.insert(slot, route);
        connection
    }

    /// Closes the connections of slots that nobody listens to nor has asked anything of for a while: their roles are no
    /// longer configured. A waiting replica asks nothing for as long as it hears the leader, and is to find its
    /// connection open when the role becomes free.
    fn sweep(&self, slots: &mut Slots) {
        let now = BootClock.now();
        if now.since(slots.swept_at) < self.settings.timeouts.idle_max() {
            return;
        }
        slots.swept_at = now;
        let heard = self.common.listeners.slots();
        slots.routes.retain(|slot, route| {
            let kept = std::mem::take(&mut route.used) || heard.contains(slot);
            if !kept {
                self.common.note(Target::MasterOf(*slot), Vec::new(), &self.settings.endpoint);
            }
            kept
        });
    }
}

fn start(settings: &Arc<Settings>, target: Target, common: &Arc<Common>, seed: u64) -> Route {
    let connection = Arc::new(Connection::new());
    let backoff = Timeouts::backoff(seed);
    let supervisor =
        supervisor::run(Arc::clone(settings), target, Arc::clone(&connection), Arc::clone(common), backoff);
    let task = tokio::spawn(supervisor).abort_handle();
    Route { connection, task, used: true }
}
