//! Leases and locks in this process: for `baton dev`, and for tests that need no Redis. It lives and dies with its
//! users, so there is nothing that it could have forgotten: the first campaign of a role is granted at once, and so is
//! a lock.

mod ledgers;
mod locks;
mod registry;

use parking_lot::{Mutex, MutexGuard};
use std::collections::HashMap;

use async_trait::async_trait;
use bytes::Bytes;
use tokio::sync::watch;

use self::ledgers::MemoryLedgers;
use self::locks::MemoryLocks;
use super::{LeaseStore, News, PresenceStore, Purge, StoreError, StoreHealth};
use crate::base::Subscription;
use crate::base::clock::SharedClock;
use crate::base::subscription::Subscribers;
use crate::protocol::jobs::JobRegistry;
use crate::protocol::{
    Announcement, CampaignReply, CampaignRequest, LeaseCell, Mono, Participant, Presence, PresenceRequest,
    ReleaseReply, ReleaseRequest, RenewReply, RenewRequest, RoleName, Rules, Server, SessionId, Stamped, StoreTime,
};

/// There is one server process, and this is its name.
const GENERATION: &str = "memory";

/// See the module.
#[derive(Debug)]
pub struct MemoryStore {
    clock: SharedClock,
    born: Mono,
    health: watch::Sender<StoreHealth>,
    roles: Mutex<HashMap<RoleName, RoleCell>>,
    presences: Mutex<HashMap<RoleName, Presence>>,
    locks: Mutex<MemoryLocks>,
    ledgers: Mutex<MemoryLedgers>,
    registry: Mutex<JobRegistry<Bytes>>,
}

#[derive(Debug)]
struct RoleCell {
    cell: LeaseCell,
    listeners: Subscribers<News>,
}

impl RoleCell {
    fn new() -> Self {
        Self { cell: LeaseCell::never_held(Rules::REDIS, GENERATION), listeners: Subscribers::default() }
    }

    /// Tells every listener, and says how many there are.
    fn publish(&mut self, announcement: &Announcement) -> u32 {
        self.listeners.tell(&News::Said(Box::new(announcement.clone())));
        u32::try_from(self.listeners.count()).unwrap_or(u32::MAX)
    }
}

impl MemoryStore {
    /// A store that knows of no role and no lock. Its clock is `clock` counted from the Unix epoch's first microsecond
    /// on, so tokens are only good for this process.
    pub fn new(clock: SharedClock) -> Self {
        let born = clock.now();
        let (health, _) = watch::channel(StoreHealth::Up);
        let (roles, presences) = (Mutex::default(), Mutex::default());
        let (locks, ledgers, registry) = (Mutex::default(), Mutex::default(), Mutex::default());
        Self { clock, born, health, roles, presences, locks, ledgers, registry }
    }

    fn roles(&self) -> MutexGuard<'_, HashMap<RoleName, RoleCell>> {
        // A cell is valid after every step, also after one that another thread panicked behind.
        self.roles.lock()
    }

    fn step<R>(&self, role: &RoleName, step: impl FnOnce(&mut RoleCell, Server<'_>) -> R) -> Stamped<R> {
        let now = self.clock.now();
        let server =
            Server { now: StoreTime(now.as_nanos() / 1_000), uptime: now.since(self.born), generation: GENERATION };
        let mut roles = self.roles();
        let role = roles.entry(role.clone()).or_insert_with(RoleCell::new);
        Stamped { reply: step(role, server), store_time: server.now }
    }
}

#[async_trait]
impl LeaseStore for MemoryStore {
    async fn campaign(&self, role: &RoleName, request: CampaignRequest) -> Result<Stamped<CampaignReply>, StoreError> {
        let Stamped { reply, store_time } = self.step(role, |role, server| {
            let (reply, news) = role.cell.campaign(server, &request)?;
            news.map(|news| role.publish(&news));
            Ok::<_, StoreError>(reply)
        });
        Ok(Stamped { reply: reply?, store_time })
    }

    async fn renew(&self, role: &RoleName, request: RenewRequest) -> Result<Stamped<RenewReply>, StoreError> {
        Ok(self.step(role, |role, server| {
            let (mut reply, news) = role.cell.renew(server, &request);
            if let (Some(news), RenewReply::Renewed { audience, .. }) = (news, &mut reply) {
                *audience = role.publish(&news);
            }
            reply
        }))
    }

    async fn release(&self, role: &RoleName, request: ReleaseRequest) -> Result<Stamped<ReleaseReply>, StoreError> {
        Ok(self.step(role, |role, server| {
            let (reply, news) = role.cell.release(server, &request);
            news.map(|news| role.publish(&news));
            reply
        }))
    }

    fn subscribe(&self, role: &RoleName, _but: Option<SessionId>) -> Subscription<News> {
        self.roles().entry(role.clone()).or_insert_with(RoleCell::new).listeners.add(true)
    }

    fn health(&self) -> watch::Receiver<StoreHealth> {
        self.health.subscribe()
    }

    fn notes(&self) -> Vec<String> {
        Vec::new()
    }

    fn rules(&self) -> Rules {
        Rules::REDIS
    }

    async fn purge(&self, role: &RoleName) -> Result<Purge, StoreError> {
        let now = StoreTime(self.clock.now().as_nanos() / 1_000);
        let mut roles = self.roles();
        Ok(match roles.get_mut(role) {
            None => Purge::Absent,
            Some(role) if role.cell.is_held(now) => Purge::InUse,
            Some(role) => {
                role.cell = RoleCell::new().cell;
                Purge::Purged
            }
        })
    }
}

#[async_trait]
impl PresenceStore for MemoryStore {
    async fn presence(&self, role: &RoleName, request: PresenceRequest) -> Result<Vec<Participant>, StoreError> {
        let now = StoreTime(self.clock.now().as_nanos() / 1_000);
        let mut presences = self.presences.lock();
        Ok(presences.entry(role.clone()).or_default().note(now, &request))
    }
}
