//! The roles that one replica runs: started, retired while the others go on, and ended together.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::task::JoinSet;

use super::app_check::watch_app;
use super::driver::{RoleSpec, Surroundings, role};
use super::handle::{Command, RoleHandle, Roles};
use crate::config::{AppCheck, RoleConfig};
use crate::process::Entropy;
use crate::protocol::{RoleName, SessionId};

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
    /// One for each role and each health check. A role's task yields its name when it ends.
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
        let changed = |config: &&RoleConfig| !new.contains(config);
        for config in old.iter().filter(changed) {
            self.retire(&config.name, new.iter().any(|other| other.name == config.name)).await;
        }
        for config in new.iter().filter(|config| !old.contains(config)) {
            self.start(config);
        }
        self.roles.replace(self.running.values().cloned().collect(), default_role);
    }

    fn start(&mut self, config: &RoleConfig) {
        self.surroundings.telemetry.metrics().add_role(&config.name);
        let spec = RoleSpec {
            name: config.name.clone(),
            identity: Arc::clone(&self.membership.identity),
            session: self.membership.session,
            timing: config.timing,
            guard: self.membership.guard,
            app_checked: config.app_check.is_some(),
            seed: self.entropy.seed(),
        };
        let (handle, task) = role(spec, self.surroundings.clone());
        let name = config.name.clone();
        self.tasks.spawn(async move {
            task.await;
            Some(name)
        });
        if let Some(check) = &config.app_check {
            self.watch(check.clone(), handle.clone());
        }
        self.running.insert(config.name.clone(), handle);
    }

    fn watch(&mut self, check: AppCheck, handle: RoleHandle) {
        self.tasks.spawn(async move {
            watch_app(check, handle).await;
            None
        });
    }

    /// Ends a role by the drain of R7. One that comes back under its name is waited for: two tasks of one session would
    /// take each other's lease for their own.
    async fn retire(&mut self, name: &RoleName, comes_back: bool) {
        let Some(handle) = self.running.remove(name) else { return };
        self.leaving.push(name.clone());
        handle.tell(Command::Shutdown).await;
        if comes_back {
            handle.ended().await;
        } else {
            self.surroundings.telemetry.metrics().remove_role(name);
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
