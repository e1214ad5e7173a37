//! Sidecars inside this process, thousands of them: each with a Redis store of its own, and so with its connections and
//! subscriptions, and the task of its role; without its HTTP. What they ask of Redis is what a sidecar asks, because it
//! is the same code that asks it.
//!
//! Unlike a [`Crew`](crate::crew::Crew) they are many apps, each of some sidecars with one role, and share their Redis.

use std::sync::Arc;
use std::time::{Duration, Instant};

use baton::base::clock::wall_time;
use baton::config::{AckMode, Durability, Guard, RedisConfig, Replication, TlsConfig};
use baton::protocol::{RoleName, SessionId, Timing, Token};
use baton::role::{RoleContext, RoleHandle, RoleSpec, role};
use baton::store::redis::RedisStore;
use baton::store::{LeaseStore, StoreHealth};
use baton::telemetry::{Metrics, Telemetry};
use secrecy::SecretString;
use tokio::task::{AbortHandle, JoinSet};

use crate::crew::Worker;

/// No state takes longer to come about.
const BOUND: Duration = Duration::from_secs(90);
/// How many start at once: as many as Redis takes up without making any wait.
pub const START_TOGETHER: usize = 50;

/// One sidecar. Its connections end with its task.
struct Sidecar {
    role: RoleHandle,
    task: AbortHandle,
}

impl Drop for Sidecar {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// See the module.
pub struct Crowd {
    url: String,
    timing: Timing,
    /// How many sidecars have the same role.
    app: usize,
    sidecars: Vec<Sidecar>,
    /// Dropped last: the tasks of the sidecars are theirs.
    workers: Vec<Worker>,
}

impl Crowd {
    pub fn new(url: String, lease: Duration, app: usize) -> Self {
        let timing = Timing::from_lease(lease).expect("a good lease");
        Self { url, timing, app, sidecars: Vec::new(), workers: Worker::start_all(usize::MAX) }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.sidecars.len()
    }

    /// More of them, until there are so many. Returns when all are connected.
    pub async fn grow(&mut self, to: usize) {
        while self.sidecars.len() < to {
            let mut starting = JoinSet::new();
            for at in self.sidecars.len()..(self.sidecars.len() + START_TOGETHER).min(to) {
                let worker = &self.workers[at % self.workers.len()];
                starting.spawn_on(start(self.config(), self.role_of(at), worker.context.clone()), &worker.runtime);
            }
            self.sidecars.extend(starting.join_all().await);
        }
    }

    /// Waits until each knows who leads its role.
    pub async fn settled(&self) {
        let begun = Instant::now();
        let knows = |sidecar: &Sidecar| sidecar.role.holder().is_some();
        while let Some(at) = self.sidecars.iter().position(|sidecar| !knows(sidecar)) {
            assert!(begun.elapsed() < BOUND, "sidecar {at} does not know who leads within {BOUND:?}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// The terms that they have: of each sidecar the token under which it leads, if it does.
    pub fn terms(&self) -> Vec<Option<Token>> {
        self.sidecars.iter().map(|sidecar| Some(sidecar.role.remaining()?.0)).collect()
    }

    fn role_of(&self, at: usize) -> RoleSpec {
        let app = at / self.app;
        RoleSpec {
            name: RoleName::new(format!("app-{app}")).expect("a good name"),
            // As long as a pod's name.
            identity: Arc::from(format!("app-{app:05}-7d4b9c6f5-{at:05}")),
            session: SessionId::from_u128(at as u128 + 100),
            attempts: Default::default(),
            timing: self.timing,
            guard: true,
            app_checked: false,
            shard_stagger: Duration::ZERO,
            role_stagger: Duration::ZERO,
            seed: at as u64,
        }
    }

    fn config(&self) -> (RedisConfig, Duration, u64) {
        let config = RedisConfig {
            url: SecretString::from(self.url.clone()),
            username: None,
            password: None,
            auth: None,
            tls: TlsConfig::default(),
            key_prefix: "baton".to_owned(),
            command_timeout: Duration::from_secs(1),
            replication: Replication { acks: 0, mode: AckMode::Wait, timeout: Duration::from_millis(500) },
            durability: Durability::Asynchronous,
            guard: Guard::Strict,
        };
        (config, self.timing.lease_duration(), fastrand::u64(..))
    }
}

async fn start(
    (config, lease, seed): (RedisConfig, Duration, u64),
    spec: RoleSpec,
    (clock, stall): (baton::base::clock::SharedClock, Arc<baton::base::process::StallWatch>),
) -> Sidecar {
    let store = RedisStore::connect(&config, lease, seed).expect("a good URL");
    // It lives as long as the store.
    let _ = store.health().wait_for(|health| *health == StoreHealth::Up).await;
    let metrics = Arc::new(Metrics::new(wall_time()));
    metrics.add_role(&spec.name);
    let context = RoleContext { store: Arc::new(store), clock, telemetry: Telemetry::new(metrics), stall };
    let (role, task) = role(spec, context);
    Sidecar { role, task: tokio::spawn(task).abort_handle() }
}
