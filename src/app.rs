//! The only file that knows all parts: a checked configuration becomes a store, roles, listeners and a watcher, and any
//! task's death ends the process.

mod stores;
#[cfg(test)]
mod tests;

use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::select_all;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::task::AbortOnDropHandle;

use crate::admin::{self, Liveness, Sources};
use crate::api::{self, ApiOptions};
use crate::base::clock::{BootClock, SharedClock, wall_time};
use crate::base::process::{Entropy, Exit, StallWatch};
use crate::base::signals::Signals;
use crate::config::{Changes, Config, Environment, Guard, Loaded, Reload, RoleConfig, StoreConfig, StoreUse, Watcher};
use crate::http::{ListenerThread, Router, listen};
use crate::jobs::{self, JobService};
use crate::locks::{self, LockService, LockSettings};
use crate::pod::{Extras, Failover, TerminationMessageFile};
use crate::protocol::State;
use crate::role::{self, Membership, RoleContext, RoleHandle, Roles, Team};
use crate::store::redis::{CredentialCounts, SetupError};
use crate::store::{LedgerStore, LockStore, RegistryStore, ShortestLease, StoreHealth};
use crate::telemetry::{ConfigReload, CredentialOutcome, Metrics, SystemEvent, Telemetry, Traces};

use stores::lease_min;
pub use stores::{Opened, OwnStore, Stores, open_store, open_stores};

/// Why a replica cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Exit code 69.
    #[error("{section} cannot listen on {address}: {error}")]
    Listen {
        /// Which key names the address.
        section: &'static str,
        address: SocketAddr,
        /// What the operating system says.
        error: std::io::Error,
    },
    /// Exit code 64.
    #[error(transparent)]
    Store(#[from] SetupError),
    /// Exit code 70: a thread or a signal handler is refused.
    #[error("the operating system refuses {what}: {error}")]
    System {
        /// What was asked of it.
        what: &'static str,
        /// What it says.
        error: std::io::Error,
    },
}

impl StartError {
    /// The exit code that belongs to it.
    pub fn exit(&self) -> Exit {
        match self {
            Self::Listen { .. } => Exit::Unavailable,
            Self::Store(_) => Exit::Usage,
            Self::System { .. } => Exit::Bug,
        }
    }
}

/// What a process needs once, however many replicas it plays.
#[derive(Clone)]
pub struct AppContext {
    pub clock: SharedClock,
    /// Whether the process stood still.
    pub stall: Arc<StallWatch>,
}

impl AppContext {
    /// The real clock, watched for standstills. Must be called inside a tokio runtime.
    pub fn real() -> Self {
        let clock: SharedClock = Arc::new(BootClock);
        let stall = Arc::new(StallWatch::new(Arc::clone(&clock)));
        let ticking = Arc::clone(&stall);
        tokio::spawn(async move { ticking.run().await });
        Self { clock, stall }
    }
}

/// The roles of one replica over one store, without any listener: what `exec` needs, and the core of [`App`].
pub struct Replica {
    config: Config,
    telemetry: Telemetry,
    clock: SharedClock,
    health: watch::Receiver<StoreHealth>,
    team: Team,
    /// A configuration whose roles are not all running yet, and what it changes.
    next: Option<(Config, ConfigReload)>,
    extras: Option<Extras>,
    /// What is left behind for the case that this process ends without a word.
    termination_message: Option<TerminationMessageFile>,
    /// Who looks whether others have.
    failover: Option<Failover>,
}

impl Replica {
    /// Starts to campaign for the roles of `config` in this store.
    pub async fn start(config: Config, store: &Opened, context: &AppContext) -> Self {
        let metrics = Arc::new(Metrics::new(wall_time()));
        let traces = Traces::from_env(&config.identity);
        let telemetry = Telemetry::new(Arc::clone(&metrics)).with_traces(traces);
        let (health, store_health) = (store.leases.health(), store.leases.health());
        if let Some(members) = &store.members {
            metrics.store_members(&members.borrow());
            tokio::spawn(count_members(members.clone(), Arc::clone(&metrics)));
        }
        tokio::spawn(count_credentials(StoreUse::Leases, store.credentials.clone(), metrics));
        let of_roles = RoleContext {
            store: Arc::clone(&store.leases),
            clock: Arc::clone(&context.clock),
            telemetry: telemetry.clone(),
            stall: Arc::clone(&context.stall),
        };
        let mut entropy = Entropy::from_system();
        let session = entropy.session();
        let guard = guards(&config.store);
        let (identity, presence) = (Arc::clone(&config.identity), store.presence.clone());
        let since = u64::try_from(wall_time().as_microsecond()).unwrap_or(0);
        let membership = Membership { identity, session, guard, presence, since };
        // Before it campaigns: whoever leads has left it.
        let termination_message = TerminationMessageFile::leave(&config, session);
        let failover = Failover::start(&config, &context.clock, entropy.seed());
        tokio::spawn(tell_health(StoreUse::Leases, store_health, telemetry.clone()));
        // Before the roles, whose first events it is to hear.
        let extras = Extras::start(&config, &context.clock, &telemetry, Entropy::from_system());
        let mut team = Team::new(membership, of_roles, entropy);
        team.change(&[], &config.roles, config.default_role.clone()).await;
        team.settle();
        let clock = Arc::clone(&context.clock);
        let replica =
            Self { config, telemetry, clock, health, team, next: None, extras, termination_message, failover };
        replica.show();
        replica
    }

    /// Shows the roles as they are configured now in Kubernetes, and looks after those who lead them, where that is
    /// switched on.
    fn show(&self) {
        if let Some(failover) = &self.failover {
            failover.follow(self.team.roles());
        }
        if let Some(extras) = &self.extras {
            extras.follow(&self.config.roles, self.team.roles());
        }
    }

    /// Takes back what Kubernetes shows of this replica, once it leads nothing any more. Takes a second at most.
    pub async fn take_back(&mut self) {
        if let Some(extras) = self.extras.take() {
            extras.close().await;
        }
    }

    /// Hands the last spans to the collector, where there is one. Takes a second at most.
    pub async fn flush_traces(&self) {
        self.telemetry.traces().flush().await;
    }

    pub fn roles(&self) -> Roles {
        self.team.roles().clone()
    }

    pub fn health(&self) -> watch::Receiver<StoreHealth> {
        self.health.clone()
    }

    pub fn team(&mut self) -> &mut Team {
        &mut self.team
    }

    /// Begins to apply what can be applied while running, and says what needs a restart. False when it is refused.
    /// [`Self::settle`] completes it.
    async fn reload(&mut self, loaded: Loaded) -> bool {
        let Loaded { config: new, rotated, .. } = loaded;
        for section in self.config.restart_needed(&new) {
            tracing::warn!(section, "this change needs a restart; until then the old value is in force");
        }
        let reload = ConfigReload { changes: self.config.live_changes(&new), rotated };
        let timeout = command_timeout(&self.config);
        let too_fast = |role: &&RoleConfig| timeout.is_some_and(|t| role.timing.check_command_timeout(t).is_err());
        if let Some(role) = new.roles.iter().find(too_fast) {
            let problem = format!("role {} renews faster than the store's commandTimeout in force: restart", role.name);
            self.telemetry.record_system(&SystemEvent::ConfigRefused { problems: vec![problem] });
            return false;
        }
        if let Some(Err(error)) =
            self.termination_message.as_mut().map(|termination_message| termination_message.cover(&new))
        {
            let problem = format!("the termination message for kubernetes.fastFailover cannot be written: {error}");
            self.telemetry.record_system(&SystemEvent::ConfigRefused { problems: vec![problem] });
            return false;
        }
        self.team.change(&self.config.roles, &new.roles, new.default_role.clone()).await;
        self.next = Some((new, reload));
        true
    }

    /// Completes a reload as soon as the roles that it changes have drained. True when it just has.
    fn settle(&mut self) -> bool {
        let Some((new, reload)) = self.next.take_if(|_| self.team.settle()) else { return false };
        self.config.roles = new.roles;
        self.config.default_role = new.default_role;
        self.config.jobs = new.jobs;
        self.config.max_concurrent_runs = new.max_concurrent_runs;
        self.show();
        self.telemetry.record_system(&SystemEvent::ConfigReloaded(reload));
        true
    }
}

fn guards(store: &StoreConfig) -> bool {
    match store {
        StoreConfig::Redis(redis) => redis.guard != Guard::Off,
        StoreConfig::Quorum(quorum) => quorum.guard() != Guard::Off,
        StoreConfig::Kubernetes(leases) => leases.guard != Guard::Off,
        StoreConfig::Memory => true,
    }
}

fn command_timeout(config: &Config) -> Option<Duration> {
    match &config.store {
        StoreConfig::Redis(redis) => Some(redis.command_timeout),
        // A campaign asks every member twice.
        StoreConfig::Quorum(quorum) => Some(quorum.command_timeout() * 2),
        StoreConfig::Kubernetes(leases) => Some(leases.command_timeout),
        StoreConfig::Memory => None,
    }
}

/// A replica with its two listeners: the sidecar.
pub struct App {
    replica: Replica,
    api: ListenerThread,
    telemetry_server: ListenerThread,
    locks: Option<Locks>,
    jobs: Option<Jobs>,
    /// What the store goes by.
    lease_min: ShortestLease,
    /// The jobs of a reload are being changed: those that are gone may take their grace.
    jobs_change: Option<JoinHandle<()>>,
}

/// Locks for the app, where the store has them.
struct Locks {
    service: Arc<LockService>,
    listener: AbortOnDropHandle<()>,
}

impl Locks {
    /// Begins to take requests for locks.
    fn open(store: Arc<dyn LockStore>, replica: &Replica) -> Self {
        let config = &replica.config;
        let settings = LockSettings {
            identity: Arc::clone(&config.identity),
            lease: config.locks.lease,
            lease_max: config.locks.max_lease,
            guard: guards(config.store_of(StoreUse::Locks)).then_some(config.locks.guard),
            waiters_max: config.locks.max_waiters as usize,
            failing_checks: replica.team.failing_checks(),
        };
        let clock = Arc::clone(&replica.clock);
        let (service, listener) =
            LockService::open(store, settings, clock, replica.telemetry.clone(), Entropy::from_system());
        Self { service, listener: AbortOnDropHandle::new(listener) }
    }
}

/// Runs on a schedule, where the store has ledgers for them.
struct Jobs {
    service: Arc<JobService>,
    listener: AbortOnDropHandle<()>,
}

impl Jobs {
    /// Begins to run the jobs of the configuration.
    async fn open(store: Arc<dyn LedgerStore>, registry: Option<Arc<dyn RegistryStore>>, replica: &Replica) -> Self {
        let identity = Arc::clone(&replica.config.identity);
        let (clock, telemetry) = (Arc::clone(&replica.clock), replica.telemetry.clone());
        let (service, listener) = JobService::open(store, identity, clock, telemetry, Entropy::from_system());
        if let Some(registry) = registry {
            service.add_registry(registry);
        }
        let jobs = Self { service, listener: AbortOnDropHandle::new(listener) };
        jobs.follow(replica).await;
        jobs
    }

    /// Runs the jobs as the configuration has them now.
    fn follow(&self, replica: &Replica) -> impl Future<Output = ()> + Send + use<> {
        let (service, roles) = (Arc::clone(&self.service), replica.roles());
        let Config { jobs, roles: configs, max_concurrent_runs, .. } = replica.config.clone();
        service.limit(max_concurrent_runs);
        async move { service.run(&jobs, &configs, &roles).await }
    }
}

impl App {
    /// Binds both listeners, then starts to campaign: whoever is told of a leader can ask it.
    ///
    /// # Errors
    /// [`StartError::Listen`] when an address is taken, [`StartError::System`].
    pub async fn build(config: Config, stores: Stores, context: &AppContext) -> Result<Self, StartError> {
        let api_listener = bind("api.listen", config.api.listen)?;
        let telemetry_listener = bind("telemetry.listen", config.telemetry.listen)?;
        let token = config.api.token.clone();
        let Stores { opened, own, lease_min } = stores;
        let replica = Replica::start(config, &opened, context).await;
        for OwnStore { of, health, credentials } in own {
            tokio::spawn(count_credentials(of, credentials, Arc::clone(replica.telemetry.metrics())));
            replica.telemetry.metrics().own_store_up(of, *health.borrow() == StoreHealth::Up);
            tokio::spawn(tell_health(of, health, replica.telemetry.clone()));
        }
        let locks = opened.locks.map(|store| Locks::open(store, &replica));
        let jobs = match opened.ledgers {
            Some(store) => Some(Jobs::open(store, opened.registry, &replica).await),
            None => None,
        };
        let telemetry_server = serve_telemetry(telemetry_listener, &replica)?;
        let mut options = ApiOptions::new(token, Arc::clone(&replica.clock), replica.telemetry.clone());
        if locks.is_some() {
            // A request that waits has a connection to itself, and must not take one from those who ask who leads.
            options.limits.connections += replica.config.locks.max_waiters as usize;
        }
        let api = api::spawn(api_listener, routes(&replica, &locks, &jobs), options)
            .map_err(|error| StartError::System { what: "a thread", error })?;
        Ok(Self { replica, api, telemetry_server, locks, jobs, lease_min, jobs_change: None })
    }

    pub fn roles(&self) -> Roles {
        self.replica.roles()
    }

    /// Runs until a signal, a bug, or `stop` completes (which drains like the first signal).
    pub async fn run(mut self, signals: Option<Signals>, mut changes: Option<Changes>, stop: impl Future) -> Exit {
        let mut signals = signals;
        let mut stop = std::pin::pin!(stop);
        loop {
            tokio::select! {
                ended = self.replica.team.one_ended() => if let Err(broken) = ended { return bug(&broken.to_string()) },
                () = self.telemetry_server.ended() => return bug("the telemetry listener's thread ended"),
                end = or_never(self.locks.as_mut().map(|locks| &mut locks.listener)) => {
                    return bug(&format!("the locks' listener ended: {end:?}"));
                }
                end = or_never(self.jobs.as_mut().map(|jobs| &mut jobs.listener)) => {
                    return bug(&format!("the jobs' listener ended: {end:?}"));
                }
                () = self.api.ended() => return bug("the thread of the app's listener ended"),
                () = or_never(signals.as_mut().map(Signals::next)) => break,
                _ = &mut stop => break,
                _ = or_never(self.jobs_change.as_mut()) => self.jobs_change = None,
                // One after the other, and nobody here waits for one: a drain may take minutes.
                reload = or_never(changes.as_mut().map(Changes::next)), if !self.is_reloading() => match reload {
                    Reload::Changed(loaded) => self.reload(*loaded).await,
                    Reload::Refused(error) => self.refuse(&error),
                },
            }
            self.settle();
        }
        self.end(signals).await
    }

    fn is_reloading(&self) -> bool {
        self.replica.next.is_some() || self.jobs_change.is_some()
    }

    async fn reload(&mut self, loaded: Loaded) {
        let lease_min = lease_min(&loaded.config.roles);
        if self.replica.reload(loaded).await {
            // Before the new roles begin, and not longer until the old ones have ended.
            self.lease_min.set(self.lease_min.get().min(lease_min));
        }
    }

    /// Completes a reload as soon as that can be.
    fn settle(&mut self) {
        if self.replica.settle() {
            self.jobs_change = self.jobs.as_ref().map(|jobs| tokio::spawn(jobs.follow(&self.replica)));
        }
        // Roles that the reload has removed may still be draining.
        if self.replica.next.is_none() && !self.replica.team.is_draining() {
            self.lease_min.set(lease_min(&self.replica.config.roles));
        }
    }

    /// Drains and releases, and answers meanwhile; a second signal ends at once.
    async fn end(mut self, mut signals: Option<Signals>) -> Exit {
        let team = &mut self.replica.team;
        tell_end(team);
        if let Some(locks) = &self.locks {
            locks.service.begin_shutdown();
        }
        team.shut_down().await;
        let mut asked_again = false;
        let ended = loop {
            tokio::select! {
                ended = team.all_ended() => break ended,
                () = or_never(signals.as_mut().map(Signals::next)), if !asked_again => {
                    asked_again = true;
                    tracing::warn!("a second signal: ending at once");
                    team.abandon().await;
                }
            }
        };
        if let Some(locks) = self.locks.as_ref().filter(|_| !asked_again) {
            locks.service.all_ended().await;
        }
        if let Some(jobs) = self.jobs.as_ref().filter(|_| !asked_again) {
            if let Some(change) = self.jobs_change.take() {
                // One that panics ends the process.
                let _ = change.await;
            }
            jobs.service.all_ended().await;
        }
        if !asked_again {
            self.replica.take_back().await;
        }
        if !asked_again {
            tokio::join!(self.api.shutdown(), self.telemetry_server.shutdown(), self.replica.flush_traces());
        }
        match ended {
            Ok(()) => Exit::Well,
            Err(broken) => bug(&broken.to_string()),
        }
    }

    fn refuse(&self, error: &crate::config::ConfigError) {
        let problems = error.problems().iter().map(|problem| problem.in_file(error.file())).collect();
        self.replica.telemetry.record_system(&SystemEvent::ConfigRefused { problems });
    }
}

/// Says that the process ends, and what is handed over before that.
fn tell_end(team: &Team) {
    let is_held = |role: &&RoleHandle| role.leads() || role.snapshot().view.state == State::Draining;
    let held: Vec<String> = team.roles().all().iter().filter(is_held).map(|role| role.name().to_string()).collect();
    if held.is_empty() && !team.is_draining() {
        tracing::info!("shutting down: this replica leads nothing");
    } else {
        tracing::info!(roles = held.join(","), "shutting down: handing over what this replica leads");
    }
}

/// Tells how a store is, whenever that changes, for as long as there is that store.
async fn tell_health(of: StoreUse, mut health: watch::Receiver<StoreHealth>, telemetry: Telemetry) {
    if *health.borrow() == StoreHealth::Up {
        // Not being connected yet is no news at a start.
        health.mark_changed();
    }
    while health.changed().await.is_ok() {
        let event = match health.borrow_and_update().clone() {
            StoreHealth::Up => SystemEvent::StoreUp { of },
            StoreHealth::Down { reason } => SystemEvent::StoreDown { of, reason },
        };
        telemetry.record_system(&event);
    }
}

/// Shows which members of a quorum answer, for as long as there is a store.
async fn count_members(mut members: watch::Receiver<Vec<bool>>, metrics: Arc<Metrics>) {
    while members.changed().await.is_ok() {
        metrics.store_members(&members.borrow_and_update());
    }
}

/// Shows how the renewals of a store's credentials go, for as long as there is that store. A quorum has several.
async fn count_credentials(of: StoreUse, mut sources: Vec<watch::Receiver<CredentialCounts>>, metrics: Arc<Metrics>) {
    while !sources.is_empty() {
        let counts: Vec<CredentialCounts> =
            sources.iter_mut().map(|source| source.borrow_and_update().clone()).collect();
        let total = |of: fn(&CredentialCounts) -> u64| counts.iter().map(of).sum();
        metrics.credential_renewals(of, CredentialOutcome::Ok, total(|counts| counts.renewed));
        metrics.credential_renewals(of, CredentialOutcome::Failed, total(|counts| counts.failed));
        metrics.credential_renewals(of, CredentialOutcome::Refused, total(|counts| counts.refused));
        if let Some(first) = counts.iter().filter_map(|counts| counts.ends_at).min() {
            metrics.credential_expiry(of, first);
        }
        let changes = sources.iter_mut().map(|source| Box::pin(source.changed()));
        if let (Err(_), ..) = select_all(changes).await {
            return;
        }
    }
}

fn bug(what: &str) -> Exit {
    tracing::error!(what, "this is a bug in Baton; the process ends, and leases run out by their TTL");
    Exit::Bug
}

fn bind(section: &'static str, address: SocketAddr) -> Result<TcpListener, StartError> {
    listen(address).map_err(|error| StartError::Listen { section, address, error })
}

fn serve_telemetry(listener: TcpListener, replica: &Replica) -> Result<ListenerThread, StartError> {
    let roles = replica.roles();
    let liveness = |role: &RoleHandle| {
        let (last, within, knows_state) = role.heartbeat().read();
        Liveness { role: role.name().clone(), last, within, knows_state }
    };
    let sources = Sources {
        metrics: Arc::clone(replica.telemetry.metrics()),
        roles: replica.roles(),
        store: replica.health(),
        progress: Arc::new(move || roles.all().iter().map(liveness).collect::<Vec<_>>()),
        clock: Arc::clone(&replica.clock),
        limits: admin::default_limits(),
    };
    admin::spawn(listener, sources).map_err(|error| StartError::System { what: "a thread", error })
}

/// What the app's listener answers.
fn routes(replica: &Replica, locks: &Option<Locks>, jobs: &Option<Jobs>) -> Router {
    let (config, clock) = (&replica.config, &replica.clock);
    // Locks and jobs ask their stores, whose connections stay on this thread.
    let here = Handle::current();
    let no_locks =
        || config.store_of(StoreUse::Locks).without_locks().unwrap_or("the store of this replica has no locks");
    let no_jobs = || {
        config.store_of(StoreUse::Jobs).without_jobs().unwrap_or("the store of this replica has no ledgers for jobs")
    };
    let of_locks = locks.as_ref().map(|locks| Arc::clone(&locks.service));
    let of_jobs = jobs.as_ref().map(|jobs| Arc::clone(&jobs.service));
    let router = api::router();
    let stopping = router.stopping();
    let mut router = router
        .mount(role::http::routes(replica.roles(), Arc::clone(clock), role::http::HEARTBEAT, stopping.clone()))
        .mount(locks::routes(of_locks.clone().ok_or_else(no_locks), Arc::clone(clock)).on(&here))
        .mount(jobs::routes(of_jobs.clone().ok_or_else(no_jobs)).on(&here));
    let stores = of_locks.as_ref().map(|_| config.locks.dapr_stores.clone()).unwrap_or_default();
    let dapr_jobs = of_jobs.zip(config.jobs_dapr.clone());
    if !stores.is_empty() || dapr_jobs.is_some() {
        let locks = of_locks.clone();
        let is_stopping = move || stopping.has_begun() || locks.as_ref().is_some_and(|locks| locks.is_stopping());
        router = router.mount(api::dapr_routes(Arc::clone(&config.identity), stores.clone(), is_stopping));
    }
    if let Some(service) = of_locks.filter(|_| !stores.is_empty()) {
        router = router.mount(locks::dapr_routes(service, stores).on(&here));
    }
    if let Some((service, dapr)) = dapr_jobs {
        router = router.mount(jobs::dapr_routes(service, dapr).on(&here));
    }
    router
}

/// What it comes to, if there is any; else this never ends.
async fn or_never<F: Future>(future: Option<F>) -> F::Output {
    match future {
        Some(future) => future.await,
        None => std::future::pending().await,
    }
}

/// `baton run`: the sidecar from a configuration file to its exit code.
pub async fn run(path: PathBuf, loaded: Loaded, environment: Arc<Environment>) -> Result<Exit, StartError> {
    let signals = Signals::catch().map_err(|error| StartError::System { what: "a signal handler", error })?;
    for warning in &loaded.warnings {
        tracing::warn!("{}", warning.in_file(&path.display().to_string()));
    }
    crate::base::process::raise_file_limit();
    let context = AppContext::real();
    let watcher = Watcher::new(&path, environment, &loaded);
    let config = loaded.config;
    let store = open_stores(&config, &context.clock)?;
    let app = App::build(config, store, &context).await?;
    let roles: Vec<String> = app.roles().all().iter().map(|role| role.name().to_string()).collect();
    tracing::info!(version = env!("CARGO_PKG_VERSION"), roles = roles.join(","), "baton runs");
    let changes = watcher.every(Watcher::PERIOD).map_err(|error| StartError::System { what: "a thread", error })?;
    Ok(app.run(Some(signals), Some(changes), std::future::pending::<()>()).await)
}
