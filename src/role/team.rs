//! The roles that one replica runs: started, retired while the others go on, and ended together.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::app_check::watch_app;
use super::driver::{RoleSpec, Surroundings, role};
use super::handle::{Command, RoleHandle, Roles};
use super::shards::{Shards, SpreadSpec, spread};
use crate::config::{AppCheck, RoleConfig};
use crate::process::Entropy;
use crate::protocol::{Balance, RoleName, SessionId, Timing};

/// What all roles of a replica have in common.
#[derive(Clone, Debug)]
pub struct Membership {
    /// This replica's name for people.
    pub identity: Arc<str>,
    /// This start of this process, or of this replica where one process plays several.
    pub session: SessionId,
    /// False for `guard: off`.
    pub guard: bool,
}

/// See the module.
pub struct Team {
    membership: Membership,
    surroundings: Surroundings,
    entropy: Entropy,
    roles: Roles,
    running: BTreeMap<RoleName, RoleHandle>,
    /// The roles that are split over shards, each with its timings and the way to the task that spreads it.
    split: BTreeMap<RoleName, (Timing, watch::Sender<Shards>)>,
    /// One for each role, each health check and each role that is split. A role's task yields its name when it ends.
    tasks: JoinSet<Option<RoleName>>,
    /// Roles that were told to end.
    leaving: Vec<RoleName>,
}

/// A role's task ended though nobody had asked it to, or panicked: a bug, after which the process must not go on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a role's task ended by itself: {what}")]
pub struct Broken {
    /// Which, or the panic.
    pub what: String,
}

impl Team {
    /// Nobody yet.
    pub fn new(membership: Membership, surroundings: Surroundings, entropy: Entropy) -> Self {
        Self {
            membership,
            surroundings,
            entropy,
            roles: Roles::default(),
            running: BTreeMap::new(),
            split: BTreeMap::new(),
            tasks: JoinSet::new(),
            leaving: Vec::new(),
        }
    }

    /// The roles as the listeners see them, now and after every change.
    pub fn roles(&self) -> &Roles {
        &self.roles
    }

    /// Runs these roles from now on: starts new ones, retires those that are gone, and hands over those whose timings
    /// or health check are others before it starts them anew. The rest is left alone.
    pub async fn run(&mut self, old: &[RoleConfig], new: &[RoleConfig], default_role: Option<RoleName>) {
        self.unite(new);
        self.retire(old.iter().filter(|config| !new.contains(config)), new).await;
        let mut watched: BTreeMap<RoleName, (AppCheck, Vec<RoleHandle>)> = BTreeMap::new();
        for config in new.iter().filter(|config| !old.contains(config)) {
            let handle = self.start(config);
            if let Some(check) = &config.app_check {
                let (_, handles) = watched.entry(config.name.role()).or_insert_with(|| (check.clone(), Vec::new()));
                handles.push(handle);
            }
        }
        for (check, handles) in watched.into_values() {
            self.tasks.spawn(async move {
                watch_app(check, handles).await;
                None
            });
        }
        self.roles.replace(self.running.values().cloned().collect(), default_role);
        self.split(new);
    }

    fn start(&mut self, config: &RoleConfig) -> RoleHandle {
        self.surroundings.telemetry.metrics().add_role(&config.name);
        let is_shard = config.name.shard_number().is_some();
        let spec = RoleSpec {
            name: config.name.clone(),
            identity: Arc::clone(&self.membership.identity),
            session: self.membership.session,
            timing: config.timing,
            guard: self.membership.guard,
            app_checked: config.app_check.is_some(),
            patience: if is_shard { Balance::patience_at_first(&config.timing) } else { Duration::ZERO },
            seed: self.entropy.seed(),
        };
        let (handle, task) = role(spec, self.surroundings.clone());
        let name = config.name.clone();
        // Mapped, since a block that awaits it would be twice as large.
        self.tasks.spawn(task.map(|()| Some(name)));
        self.running.insert(config.name.clone(), handle.clone());
        handle
    }

    /// Ends roles by the drain of R7. One that comes back under its name is waited for: two tasks of one session would
    /// take each other's lease for their own.
    async fn retire(&mut self, gone: impl Iterator<Item = &RoleConfig>, new: &[RoleConfig]) {
        let mut awaited = Vec::new();
        for RoleConfig { name, .. } in gone {
            let Some(handle) = self.running.remove(name) else { continue };
            self.leaving.push(name.clone());
            handle.tell(Command::Shutdown).await;
            if new.iter().any(|other| other.name == *name) {
                awaited.push(handle);
            } else {
                self.surroundings.telemetry.metrics().remove_role(name);
            }
        }
        for handle in awaited {
            handle.ended().await;
        }
    }

    /// Ends the spreading of roles that are split no longer, or with other timings.
    fn unite(&mut self, new: &[RoleConfig]) {
        self.split.retain(|role, (timing, shards)| {
            let stays = new.iter().any(|config| {
                config.name.shard_number().is_some() && config.name.role() == *role && config.timing == *timing
            });
            if !stays {
                shards.send_modify(|shards| shards.leaving = true);
            }
            stays
        });
    }

    /// Has the shards of every role that is split spread over the replicas.
    fn split(&mut self, new: &[RoleConfig]) {
        let mut roles: BTreeMap<RoleName, (Timing, Shards)> = BTreeMap::new();
        for config in new.iter().filter(|config| config.name.shard_number().is_some()) {
            let (_, shards) = roles.entry(config.name.role()).or_insert((config.timing, Shards::default()));
            shards.handles.extend(self.running.get(&config.name).cloned());
            shards.count += 1;
        }
        for (role, (timing, shards)) in roles {
            if let Some((_, known)) = self.split.get(&role) {
                known.send_replace(shards);
                continue;
            }
            let (sender, receiver) = watch::channel(shards);
            let (session, seed) = (self.membership.session, self.entropy.seed());
            let spec = SpreadSpec { role: role.clone(), session, timing, seed };
            let surroundings = self.surroundings.clone();
            self.tasks.spawn(async move {
                spread(spec, surroundings, receiver).await;
                None
            });
            self.split.insert(role, (timing, sender));
        }
    }

    /// Drains and releases every role; [`Self::all_ended`] tells when that is done.
    pub async fn shut_down(&mut self) {
        self.tell_all(|| Command::Shutdown).await;
    }

    /// Ends every role at once: a lease whose promises still stand is left to its TTL.
    pub async fn abandon(&mut self) {
        self.tell_all(|| Command::Abandon).await;
    }

    async fn tell_all(&mut self, command: impl Fn() -> Command) {
        // First, so that the others know to whom each shard goes by the time it is given back.
        for (_, shards) in self.split.values() {
            shards.send_modify(|shards| shards.leaving = true);
        }
        self.leaving.extend(self.running.keys().cloned());
        for handle in self.running.values() {
            handle.tell(command()).await;
        }
    }

    /// Waits until a role's task ends by itself, which none should. Cancel-safe; never completes otherwise.
    pub async fn broken(&mut self) -> Broken {
        loop {
            match self.tasks.join_next().await {
                Some(Ok(Some(name))) => match self.leaving.iter().position(|leaving| *leaving == name) {
                    Some(at) => drop(self.leaving.swap_remove(at)),
                    None => return Broken { what: name.to_string() },
                },
                Some(Ok(None)) => {}
                Some(Err(error)) => return Broken { what: error.to_string() },
                None => std::future::pending().await,
            }
        }
    }

    /// Waits until every task has ended, after [`Self::shut_down`] or [`Self::abandon`]. Cancel-safe.
    ///
    /// # Errors
    /// A task panicked.
    pub async fn all_ended(&mut self) -> Result<(), Broken> {
        while let Some(end) = self.tasks.join_next().await {
            end.map_err(|error| Broken { what: error.to_string() })?;
        }
        Ok(())
    }
}
