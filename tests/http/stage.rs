//! Real elections and real listeners, with the store's side played by the test: so that a role does what a test wants,
//! when it wants it.

use std::net::SocketAddr;
use std::sync::{Arc, Weak};
use std::time::Duration;

use baton::api::{self, ApiOptions};
use baton::base::clock::{BootClock, SharedClock};
use baton::base::process::Entropy;
use baton::config::{DaprJobsConfig, Environment, check_text};
use baton::jobs::{self, JobService};
use baton::locks::{self, LockService, LockSettings};
use baton::protocol::{
    Action, CampaignReply, Election, Holder, Input, NoReply, Profile, RecordVersion, ReleaseReply, RenewReply,
    RoleName, Rules, SessionId, Stamped, StoreTime, Timing, Token,
};
use baton::role::{self, Command, CommandError, Heartbeat, RoleHandle, Roles, Snapshot};
use baton::store::memory::MemoryStore;
use baton::telemetry::{Metrics, Telemetry};
use testkit::wait_until;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;

use crate::client::PATIENCE;

pub const IDENTITY: &str = "web-0";
/// How many requests may wait for locks.
pub const WAITERS_MAX: usize = 20;
/// What Dapr's lock API is answered for.
pub const LOCK_STORE: &str = "lockstore";
pub const FIRST_TOKEN: u64 = 1_763_680_000_123_456;

pub fn clock() -> SharedClock {
    Arc::new(BootClock)
}

pub fn name(role: &str) -> RoleName {
    role.parse().unwrap()
}

/// What the store would say.
#[derive(Clone, Debug)]
pub enum Cue {
    /// The lease is this replica's for the asking.
    Grant,
    /// Another has it.
    Rival(&'static str),
    /// No answer.
    Silence,
}

/// A role whose election runs, and the store's side of it.
pub struct Staged {
    pub handle: RoleHandle,
    cues: mpsc::Sender<Cue>,
    /// The task's own, so that its end is seen by who watches.
    published: Weak<watch::Sender<Arc<Snapshot>>>,
    task: JoinHandle<()>,
}

impl Drop for Staged {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Staged {
    /// Leases of `lease`, promises of a third of it.
    pub fn new(role: &str, lease: Duration, cue: Cue) -> Self {
        Self::by(clock(), role, lease, cue)
    }

    /// The same by another clock.
    pub fn by(clock: SharedClock, role: &str, lease: Duration, cue: Cue) -> Self {
        let timing = Timing::from_lease(lease).unwrap();
        let profile = Profile {
            session: SessionId::from_u128(7),
            attempts: Default::default(),
            identity: IDENTITY.into(),
            timing,
            guard: false,
            app_checked: false,
            // No listening before the first grant: the store's side is the test's, and knows what it does.
            rules: Rules::NONE,
            role_stagger: Duration::ZERO,
            seed: 1,
        };
        let election = Election::new(profile, clock.now());
        let first = Snapshot::first(election.view(clock.now()), jiff::Timestamp::now());
        let snapshot = Arc::new(Snapshot { index: 0, ..first });
        let (published, snapshots) = watch::channel(snapshot);
        let published = Arc::new(published);
        let watched = Arc::downgrade(&published);
        let (sender, commands) = mpsc::channel(4);
        let (cues, cue_receiver) = mpsc::channel(4);
        let leadership = Arc::clone(election.leadership());
        let heartbeat = Arc::new(Heartbeat::new(clock.now(), PATIENCE));
        let handle =
            RoleHandle::new(name(role), IDENTITY.into(), Arc::clone(&clock), leadership, snapshots, sender, heartbeat);
        let play = Play {
            role: name(role),
            election,
            clock,
            published: Arc::clone(&published),
            cue,
            token: FIRST_TOKEN - 1,
            lease,
        };
        Self { handle, cues, published: watched, task: tokio::spawn(play.run(commands, cue_receiver)) }
    }

    /// Changes what the store says, and has the election look.
    pub async fn cue(&self, cue: Cue) {
        self.cues.send(cue).await.unwrap();
    }

    /// Waits until the role is as wanted.
    pub async fn until(&self, wanted: impl FnMut(&Arc<Snapshot>) -> bool) {
        let mut changes = self.handle.changes();
        tokio::time::timeout(PATIENCE, changes.wait_for(wanted)).await.unwrap().unwrap();
    }

    /// Waits until this replica leads.
    pub async fn until_leading(&self) {
        self.until(|snapshot| snapshot.view.state == baton::protocol::State::Leading).await;
    }

    /// How many wait for this role to change.
    pub fn watchers(&self) -> usize {
        self.published.upgrade().map_or(0, |published| published.receiver_count())
    }

    /// Waits until as many as wanted do.
    pub async fn until_watchers(&self, wanted: impl Fn(usize) -> bool) {
        wait_until(PATIENCE, "as many watchers as wanted", || wanted(self.watchers())).await;
    }

    /// Ends the role's task, as a crash or a removal would.
    pub fn end(&self) {
        self.task.abort();
    }
}

struct Play {
    role: RoleName,
    election: Election,
    clock: SharedClock,
    published: Arc<watch::Sender<Arc<Snapshot>>>,
    cue: Cue,
    token: u64,
    lease: Duration,
}

impl Play {
    async fn run(mut self, mut commands: mpsc::Receiver<Command>, mut cues: mpsc::Receiver<Cue>) {
        loop {
            let now = self.clock.now();
            self.election.handle_timeout(now);
            while let Some(action) = self.election.poll_action() {
                self.act(action);
            }
            self.publish();
            let wait = self.election.poll_timeout().map_or(PATIENCE, |at| at.since(self.clock.now()));
            let heard = async {
                tokio::select! {
                    Some(command) = commands.recv() => self.obey(command),
                    Some(cue) = cues.recv() => {
                        self.cue = cue;
                        self.election.handle_input(self.clock.now(), Input::Gap);
                    }
                    // Nobody is left who could say anything.
                    else => std::future::pending().await,
                }
            };
            // Silence is when the election's own timeout is due.
            let _ = tokio::time::timeout(wait.max(Duration::from_millis(1)), heard).await;
        }
    }

    fn rival(&self, identity: &str) -> Holder {
        Holder { session: SessionId::from_u128(99), identity: identity.into() }
    }

    fn stamped<T>(&self, reply: T) -> Result<Stamped<T>, NoReply> {
        Ok(Stamped { reply, store_time: StoreTime(self.clock.now().as_nanos() / 1_000) })
    }

    fn act(&mut self, action: Action) {
        let silence = || NoReply::new("the store does not answer");
        let current = Token::new(self.token).unwrap();
        let input = match (action, self.cue.clone()) {
            (Action::Campaign { id, .. }, Cue::Grant) => {
                self.token += 1;
                let token = Token::new(self.token).unwrap();
                Input::Campaigned { id, reply: self.stamped(CampaignReply::Granted { token, count: 1 }) }
            }
            (Action::Campaign { id, .. }, Cue::Rival(rival)) => {
                let holder = self.rival(rival);
                let version = RecordVersion { token: current, count: 1, writer: Some(holder.session) };
                let reply = CampaignReply::Held { holder, token: current, remaining: self.lease, version };
                Input::Campaigned { id, reply: self.stamped(reply) }
            }
            (Action::Campaign { id, .. }, Cue::Silence) => Input::Campaigned { id, reply: Err(silence()) },
            (Action::Renew { id, .. }, Cue::Grant) => {
                let reply = RenewReply::Renewed { count: 2, reasserted: false, audience: 0 };
                Input::Renewed { id, reply: self.stamped(reply) }
            }
            (Action::Renew { id, .. }, Cue::Rival(rival)) => {
                let reply = RenewReply::Lost { token: current, holder: Some(self.rival(rival)) };
                Input::Renewed { id, reply: self.stamped(reply) }
            }
            (Action::Renew { id, .. }, Cue::Silence) => Input::Renewed { id, reply: Err(silence()) },
            (Action::Release { id, .. }, _) => Input::Released { id, reply: self.stamped(ReleaseReply::Released) },
            (Action::Tell(_), _) => return,
        };
        self.election.handle_input(self.clock.now(), input);
    }

    fn obey(&mut self, command: Command) {
        let now = self.clock.now();
        let role = self.role.clone();
        let (input, done, refusal) = match command {
            Command::Resign { cooldown, done } => {
                let leads = self.election.leadership().leads(now);
                let holder = self.election.view(now).holder.map(|(name, _)| name);
                let cooldown = cooldown.unwrap_or(self.lease);
                (Input::Resign { cooldown }, done, (!leads).then_some(CommandError::NotLeading { role, holder }))
            }
            Command::Drained { done } => {
                let draining = self.election.is_draining();
                (Input::Drained, done, (!draining).then_some(CommandError::NotDraining { role }))
            }
            Command::AppLeft => return self.election.handle_input(now, Input::AppLeft { cooldown: self.lease }),
            // Of a job's program.
            Command::WorkEnded => return self.election.handle_input(now, Input::WorkEnded),
            other => panic!("no listener sends {other:?}"),
        };
        if refusal.is_none() {
            self.election.handle_input(now, input);
            self.publish();
        }
        let _ = done.send(refusal.map_or(Ok(()), Err));
    }

    fn publish(&self) {
        let view = self.election.view(self.clock.now());
        let token = self.election.leadership().remaining(self.clock.now()).map(|(token, _)| token);
        self.published.send_if_modified(|snapshot| {
            let next = snapshot.next(view, token, jiff::Timestamp::now());
            let changed = next.index != snapshot.index;
            *snapshot = Arc::new(next);
            changed
        });
    }
}

/// The jobs of every listener here: nothing is due by itself while a test lasts.
const JOBS: &str = "
identity: web-0
store: { memory: {} }
roles: [{ name: scheduler, leaseDuration: 3s }]
jobs:
  - { name: works, schedule: '@yearly', run: { exec: { command: ['true'] } } }
  - name: fails
    schedule: '@yearly'
    backoffLimit: 1
    backoff: { initial: 10ms, max: 10ms }
    run: { exec: { command: ['false'] } }
  - { name: slow, schedule: '@yearly', run: { http: { url: 'http://127.0.0.1:1/slow', heartbeatTimeout: 1m } } }
";

/// Jobs over a store in memory, with an app that answers `slow` with 202.
async fn job_service(
    telemetry: &Telemetry,
    roles: &Roles,
    at_run_time: bool,
) -> (Arc<JobService>, [JoinHandle<()>; 2]) {
    let app = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = app.local_addr().unwrap().port();
    let text = JOBS.replace(":1/", &format!(":{port}/"));
    let config = check_text(&text, "jobs.yaml", &Environment::new(|_| None, None)).unwrap().config;
    let store = Arc::new(MemoryStore::new(clock()));
    let entropy = Entropy::from_system();
    let (jobs, listener) = JobService::open(store.clone(), IDENTITY.into(), clock(), telemetry.clone(), entropy);
    if at_run_time {
        jobs.add_registry(store);
    }
    jobs.run(config.jobs(), config.roles(), roles).await;
    (jobs, [listener, tokio::spawn(accept_all(app))])
}

/// Where jobs are delivered that are made through Dapr's API: nobody listens.
fn dapr_jobs() -> DaprJobsConfig {
    let url = "http://127.0.0.1:1".parse().unwrap();
    DaprJobsConfig { role: name("scheduler"), url, timeout: Duration::from_secs(30) }
}

/// An app that accepts every run.
async fn accept_all(app: TcpListener) {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    while let Ok((mut client, _)) = app.accept().await {
        let mut head = [0; 4_096];
        if client.read(&mut head).await.is_ok_and(|bytes| bytes > 0) {
            let _ = client.write_all(b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n").await;
        }
    }
}

/// How a listener is set up.
pub struct Plan {
    pub api: ApiOptions,
    pub heartbeat: Duration,
    /// Why there are none, where there are none.
    pub no_locks: Option<&'static str>,
    pub no_jobs: Option<&'static str>,
    /// Whether jobs can be made at run time. Whoever runs them watches the roles.
    pub at_run_time: bool,
}

/// The app's listener on a free port.
pub struct Server {
    pub address: SocketAddr,
    pub roles: Roles,
    pub locks: Arc<LockService>,
    /// How many of the app's health checks fail.
    pub failing: watch::Sender<usize>,
    /// Every path with its methods, as `Allow` lists them.
    pub routes: Vec<(&'static str, String)>,
    /// Kept, so that its jobs go on.
    _jobs: Arc<JobService>,
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<()>,
    helpers: Vec<JoinHandle<()>>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
        self.helpers.iter().for_each(JoinHandle::abort);
    }
}

/// Locks over a store in memory, with room for a few who wait, for an app of which so many checks fail.
fn lock_service(telemetry: &Telemetry, failing_checks: watch::Receiver<usize>) -> (Arc<LockService>, JoinHandle<()>) {
    let settings = LockSettings {
        identity: IDENTITY.into(),
        lease: Duration::from_secs(30),
        lease_max: Duration::from_secs(3_600),
        guard: None,
        waiters_max: WAITERS_MAX,
        failing_checks,
    };
    let store = Arc::new(MemoryStore::new(clock()));
    LockService::open(store, settings, clock(), telemetry.clone(), Entropy::from_system())
}

impl Server {
    pub async fn start(staged: &[&Staged]) -> Self {
        Self::start_with(staged, |_| {}).await
    }

    pub async fn start_with(staged: &[&Staged], tweak: impl FnOnce(&mut Plan)) -> Self {
        let roles = Roles::default();
        roles.replace(staged.iter().map(|staged| staged.handle.clone()).collect(), None);
        let metrics = Arc::new(Metrics::new(jiff::Timestamp::now()));
        let telemetry = Telemetry::new(metrics);
        let (failing, failing_checks) = watch::channel(0);
        let (locks, wakes) = lock_service(&telemetry, failing_checks);
        let options = ApiOptions::new(None, clock(), telemetry.clone());
        let heartbeat = role::http::HEARTBEAT;
        let mut plan = Plan { api: options, heartbeat, no_locks: None, no_jobs: None, at_run_time: false };
        tweak(&mut plan);
        let (jobs, [wishes, app]) = job_service(&telemetry, &roles, plan.at_run_time).await;
        let router = api::router();
        let stopping = router.stopping();
        let mut router = router
            .mount(role::http::routes(roles.clone(), Arc::clone(&plan.api.clock), plan.heartbeat, stopping))
            .mount(locks::routes(plan.no_locks.map_or_else(|| Ok(Arc::clone(&locks)), Err), clock()))
            .mount(jobs::routes(plan.no_jobs.map_or_else(|| Ok(Arc::clone(&jobs)), Err)));
        if plan.no_locks.is_none() {
            let (stores, of) = (vec![LOCK_STORE.to_owned()], Arc::clone(&locks));
            router = router
                .mount(api::dapr_routes(IDENTITY.into(), stores.clone(), move || of.is_stopping()))
                .mount(locks::dapr_routes(Arc::clone(&locks), stores))
                .mount(jobs::dapr_routes(Arc::clone(&jobs), dapr_jobs()));
        }
        let routes = router.list();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let serving = api::serve(listener, router, plan.api, async {
            let _ = stopped.await;
        });
        let (helpers, task) = (vec![wakes, wishes, app], tokio::spawn(serving));
        Self { address, roles, locks, failing, routes, _jobs: jobs, stop: Some(stop), task, helpers }
    }

    /// Asks the listener to stop and waits until it has.
    pub async fn shut_down(mut self) {
        drop(self.stop.take());
        tokio::time::timeout(PATIENCE, &mut self.task).await.unwrap().unwrap();
    }
}

/// A leader of `scheduler` and its listener.
pub async fn leader_fixture() -> (Staged, Server) {
    let role = Staged::new("scheduler", Duration::from_secs(3), Cue::Grant);
    role.until_leading().await;
    let server = Server::start(&[&role]).await;
    (role, server)
}

/// A follower of `web-2` in `scheduler` and its listener.
pub async fn follower_fixture() -> (Staged, Server) {
    let role = Staged::new("scheduler", Duration::from_secs(3), Cue::Rival("web-2"));
    role.until(|snapshot| snapshot.view.holder.is_some()).await;
    let server = Server::start(&[&role]).await;
    (role, server)
}
