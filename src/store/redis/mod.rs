//! Leases, locks and the ledgers of jobs in Redis: one atomic script per request, a subscription for the waiting.
//!
//! ```text
//!   RedisStore ── commands ──> CommandRoutes ──> Link (one connection) <── opened, checked, replaced by a supervisor
//!       │                                 EVALSHA campaign | renew | release | …, then WAIT if asked for
//!       └── subscribe ───────> Listeners <── fed by the subscriber, over a Link of its own
//! ```
//!
//! Three properties everything else rests on:
//! - *One client of fred is one connection*, also in a cluster, where `Nodes` finds the way. It has no policy to
//!   reconnect; a supervisor makes another client. So a command that got an error, or no answer, cannot be sent again
//!   later behind our back.
//! - *Nothing waits for a connection*, but for the first one, which is opened at the start, or in a cluster for a slot.
//!   Afterwards, without one, a command is answered at once with the reason.
//! - *Every command ends* within the command timeout, by fred's own means, and no future that has sent something is
//!   dropped while its connection lives.
//!
//! The rules themselves are in the scripts, which agree with `protocol/reference/lease.rs`,
//! `protocol/reference/locks.rs` and `protocol/reference/ledger.rs` step by step; tests with random operations hold
//! them to that. Nothing of fred leaves this folder.

mod audit;
mod connection;
mod credentials;
mod in_time;
mod ledgers;
mod locks;
mod member;
mod messages;
mod namespace;
mod registry;
mod scripts;
mod subscriber;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use fred::types::Value;
use tokio::sync::watch;
use tokio::task::AbortHandle;

pub use audit::{AuditReport, Finding, QuorumReport, Severity, audit, audit_quorum};
pub use connection::{SetupError, check_files};
pub use credentials::CredentialCounts;
pub use member::RedisMember;

use self::connection::{CommandFailure, CommandRoutes, Info, Link, NodeAddress, Settings, Timeouts};
use self::in_time::StoreClock;
use self::scripts::{Asked, CAMPAIGN, CONFIRM, Call, Keys, Last, PURGE, RELEASE, RENEW, Script};
use self::subscriber::Listeners;
use super::{LeaseStore, News, PresenceStore, Purge, ShortestLease, StoreError, StoreHealth};
use crate::base::Subscription;
use crate::base::clock::{BootClock, Clock};
use crate::config::{AckMode, Guard, RedisConfig, Replication};
use crate::protocol::{
    CampaignReply, CampaignRequest, Mono, Participant, PresenceRequest, RecordVersion, ReleaseReply, ReleaseRequest,
    RenewReply, RenewRequest, RoleName, Rules, SessionId, Stamped,
};

/// See the module.
pub struct RedisStore {
    settings: Arc<Settings>,
    replication: Replication,
    routes: CommandRoutes,
    listeners: Arc<Listeners>,
    subscriber: AbortHandle,
    lock_clock: StoreClock,
    ledger_clock: StoreClock,
}

/// No URL, no user, no password.
impl fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisStore")
            .field("endpoint", &self.settings.endpoint)
            .field("namespace", &self.settings.namespace)
            .finish()
    }
}

impl Drop for RedisStore {
    fn drop(&mut self) {
        self.subscriber.abort();
    }
}

impl RedisStore {
    /// Begins to connect, and goes on trying in the background for as long as the store lives; [`LeaseStore::health`]
    /// tells how that goes. A connection that is silent for a quarter of the shortest lease is replaced. `seed` spreads
    /// the reconnects of many replicas, and which node of a cluster they begin with. Must be called inside a tokio
    /// runtime.
    ///
    /// # Errors
    /// [`SetupError`] when the URL or a TLS file is unusable. A Redis that is down, or a password file that is not
    /// there yet, is no error.
    pub fn connect(config: &RedisConfig, lease_min: impl Into<ShortestLease>, seed: u64) -> Result<Self, SetupError> {
        let lease_min = lease_min.into();
        let settings = Arc::new(Settings::new(config, lease_min, seed)?);
        if let Some(nodes) = &settings.nodes {
            nodes.begin_at(seed);
        }
        let routes = CommandRoutes::new(Arc::clone(&settings), seed);
        let listeners = Arc::clone(&routes.common.listeners);
        let (commands, backoff) = (routes.base.health.subscribe(), Timeouts::backoff(!seed));
        let subscriber = subscriber::run(Arc::clone(&settings), Arc::clone(&listeners), commands, backoff);
        let subscriber = tokio::spawn(subscriber).abort_handle();
        let (lock_clock, ledger_clock) = (StoreClock::default(), StoreClock::default());
        let replication = config.replication;
        Ok(Self { settings, replication, routes, listeners, subscriber, lock_clock, ledger_clock })
    }

    /// How the renewals of its credentials go; none where they never change.
    pub fn credentials(&self) -> Option<watch::Receiver<CredentialCounts>> {
        self.settings.credentials.as_ref().map(|credentials| credentials.counts())
    }

    /// What scripts ask of the server.
    fn asked(&self) -> Asked {
        match (self.settings.guard, self.replication.acks) {
            (Guard::Heard, _) => Asked::Nothing,
            (Guard::Strict | Guard::Off, 0) => Asked::Replication,
            (Guard::Strict | Guard::Off, _) => Asked::Synchronisations,
        }
    }

    /// Runs a script of a role and reads its answer.
    async fn run<R>(
        &self,
        role: &RoleName,
        script: &Script,
        args: Vec<String>,
        read: fn(Value) -> Result<R, StoreError>,
    ) -> Result<Done<R>, StoreError> {
        let deadline = Deadline::after(self.settings.command_timeout);
        let done = self.call(Keys::new(&self.settings.namespace, role).into_call(script, args), deadline).await?;
        done.read(read)
    }

    /// Runs a renewal, and notes of the connection what was told of the server there.
    async fn renewed(&self, call: Call<'_>, request: &RenewRequest) -> Result<Done<Stamped<RenewReply>>, StoreError> {
        let Done { reply, link, deadline, asking } =
            self.call(call, Deadline::after(self.settings.command_timeout)).await?;
        let (reply, generation) = scripts::renew_reply(reply, request)?;
        if let Some(generation) = generation {
            link.told(generation);
        }
        Ok(Done { reply, link, deadline, asking })
    }

    /// Runs a script where its keys are.
    async fn call(&self, call: Call<'_>, deadline: Deadline) -> Result<Done<Value>, StoreError> {
        // Whatever is rare is apart, here and below: a future is as large as the largest of what it may have to do.
        let mut link = match self.routes.only_link() {
            Some(link) => link?,
            None => Box::pin(self.routes.link(call.slot, deadline.left())).await?,
        };
        let reply = {
            let _place = match link.free_place() {
                Some(place) => place,
                None => Box::pin(link.place(deadline.left())).await?,
            };
            // What waits for its place costs little, and what has one much: there may be thousands of the former.
            Box::pin(send(&call, &link, deadline, false)).await
        };
        let mut asking = false;
        let reply = match reply {
            Err(CommandFailure { moving_to: Some(node), .. }) => {
                let (other, reply) = Box::pin(self.call_there(&node, &call, deadline)).await?;
                (link, asking) = (other, true);
                reply
            }
            reply => reply.map_err(|failure| failure.error)?,
        };
        Ok(Done { reply, link, deadline, asking })
    }

    /// The same at the node that the slot is on its way to, and these keys have reached already. On a connection of its
    /// own, so that nobody's command comes between ASKING and the script.
    async fn call_there(
        &self,
        node: &NodeAddress,
        call: &Call<'_>,
        deadline: Deadline,
    ) -> Result<(Arc<Link>, Value), StoreError> {
        let opened = tokio::time::timeout(deadline.left(), Link::open_at(&self.settings, Some(node))).await;
        let waited = StoreError::Unreachable { reason: format!("{}:{}: no answer", node.host, node.port) };
        let link = Arc::new(opened.unwrap_or(Err(waited))?);
        let reply = send(call, &link, deadline, true).await.map_err(|failure| failure.error)?;
        Ok((link, reply))
    }

    /// R6: a grant counts once enough replicas have acknowledged it, and if none of them has come since: that one may
    /// have acknowledged another master's grant a moment ago. `confirm` asks for that, on the same connection. Whoever
    /// has a lease already needs only the former: nobody else was granted meanwhile (R5 *generation*).
    async fn confirmed<R>(&self, confirm: Call<'_>, guard: bool, done: Done<R>) -> Result<R, StoreError> {
        if !guard || self.asked() != Asked::Synchronisations {
            return self.acknowledged(done).await;
        }
        let (link, deadline, asking) = (Arc::clone(&done.link), done.deadline, done.asking);
        let reply = self.acknowledged(done).await?;
        if link.is_told() {
            // Since the acknowledgements.
            Box::pin(link.ask_evidence(true, deadline.left())).await.map_err(|failure| failure.error)?;
        }
        let answer = Box::pin(send(&confirm, &link, deadline, asking)).await.map_err(|failure| failure.error)?;
        if scripts::confirm_reply(answer)? {
            return Ok(reply);
        }
        let reason = "a replica has joined it in this moment, and may have acknowledged another master's writes, so \
                      that the grant counts for nothing";
        Err(StoreError::Refused { reason: reason.to_owned() })
    }

    /// What an answer told of a role's record is held against what was heard.
    fn compare(&self, role: &RoleName, count: u64, lease: Duration) {
        self.listeners.compare(&scripts::news(&self.settings.namespace, role.as_str()), count, lease);
    }

    /// R6: waits until enough replicas have what was written on this connection so far. A link is one connection to one
    /// server and never becomes another, so these are the acknowledgements of the very write.
    async fn acknowledged<R>(&self, done: Done<R>) -> Result<R, StoreError> {
        if self.replication.acks == 0 {
            return Ok(done.reply);
        }
        Box::pin(self.enough_acks(done)).await
    }

    async fn enough_acks<R>(&self, done: Done<R>) -> Result<R, StoreError> {
        let Replication { acks, mode, timeout } = self.replication;
        let timeout_ms = timeout.min(done.deadline.left()).as_millis().max(1).to_string();
        let (command, args): (_, Vec<Value>) = match mode {
            AckMode::Wait => ("WAIT", vec![acks.to_string().into(), timeout_ms.into()]),
            AckMode::WaitAof => ("WAITAOF", vec!["0".into(), acks.to_string().into(), timeout_ms.into()]),
        };
        let reply = done.link.command(command, args, done.deadline.left()).await;
        let reached = acks_of(&reply.map_err(|failure: CommandFailure| failure.error)?);
        if reached >= u64::from(acks) {
            return Ok(done.reply);
        }
        let reason = format!(
            "{reached} of {acks} replicas had the write within {timeout:?} (replication.acks), so that it counts for \
             nothing: {}",
            done.why_so_few(acks, mode).await
        );
        if done.link.age() >= self.settings.timeouts.second_look() {
            // A master that its replicas have left is the first sign of a failover; a new connection asks anew: the
            // Sentinels, the cluster, or where the name or the address of a service leads by now.
            done.link.replace(format!("its replicas may have left it: {reason}"));
            self.listeners.suspect();
        }
        Err(StoreError::Refused { reason })
    }
}

/// Runs a script by its hash, or by its text when the server has not seen it yet. `asking`: at a node that the slot is
/// moving to.
async fn send(call: &Call<'_>, link: &Link, deadline: Deadline, asking: bool) -> Result<Value, CommandFailure> {
    let seen = link.texts.brought();
    let reply = attempt(call, link, deadline, asking, "EVALSHA").await;
    // Apart, and so are other things that are rare: this is as large as the largest of what it may have to do.
    if is_known(&reply) { reply } else { Box::pin(bring(call, link, deadline, asking, seen)).await }
}

fn is_known(reply: &Result<Value, CommandFailure>) -> bool {
    !matches!(reply, Err(failure) if failure.script_unknown)
}

async fn attempt(
    call: &Call<'_>,
    link: &Link,
    deadline: Deadline,
    asking: bool,
    command: &'static str,
) -> Result<Value, CommandFailure> {
    if call.script.asks() && link.is_told() {
        return Box::pin(attempt_told(call, link, deadline, asking, command)).await;
    }
    if asking {
        Box::pin(link.command("ASKING", Vec::new(), deadline.left())).await?;
    }
    let (body, sha) = call.script.text();
    let script = if command == "EVAL" { body } else { sha };
    let reply = link.command(command, call.arguments(script, link.generation(), None), deadline.left()).await;
    match &reply {
        // It has done nothing yet: scripts ask before they write.
        Err(failure) if failure.not_from_scripts && call.script.asks() => {
            link.tell_scripts();
            Box::pin(attempt_told(call, link, deadline, asking, command)).await
        }
        Ok(_) | Err(_) => reply,
    }
}

/// The same with a script that may not ask of which generation the server is (R5): it is told what the connection was,
/// and its answer counts if the server still says so behind it.
async fn attempt_told(
    call: &Call<'_>,
    link: &Link,
    deadline: Deadline,
    asking: bool,
    command: &'static str,
) -> Result<Value, CommandFailure> {
    let acks = link.acks > 0;
    let before = match link.evidence() {
        Some(evidence) => evidence,
        None => link.ask_evidence(acks, deadline.left()).await?,
    };
    if asking {
        // It is for the next command only.
        link.command("ASKING", Vec::new(), deadline.left()).await?;
    }
    let (body, sha) = call.script.told_text();
    let script = if command == "EVAL" { body } else { sha };
    let arguments = call.arguments(script, link.generation(), Some(before.words()));
    let script = link.command(command, arguments, deadline.left());
    if matches!(call.last, Some(Last::Generation)) || link.guard == Guard::Heard {
        // A renewal, which does not ask either (renew_again.lua); or nobody wants to know, where each answer may come
        // from another server.
        return script.await;
    }
    // Neither future waits for anything before it sends, so that they arrive in this order.
    let (reply, after) = tokio::join!(biased; script, link.ask_evidence(acks, deadline.left()));
    let reply = reply?;
    if after?.is_still(&before) {
        return Ok(reply);
    }
    let reason = "it has become another server's master, or a replica has joined it, in this moment, so that its \
                  answer counts for nothing";
    Err(CommandFailure::because(StoreError::Refused { reason: reason.to_owned() }, false))
}

/// The same for a script that the server did not know, when so many texts had been brought as were `seen`.
async fn bring(
    call: &Call<'_>,
    link: &Link,
    deadline: Deadline,
    asking: bool,
    seen: u32,
) -> Result<Value, CommandFailure> {
    // With many roles there are as many calls whose script is unknown. One brings the text and the others wait for it:
    // all of their texts at once would keep a Redis that has just started busy for seconds.
    let turn = link.texts.turn(deadline.left()).await?;
    if link.texts.brought() == seen {
        let reply = attempt(call, link, deadline, asking, "EVAL").await;
        link.texts.bring();
        return reply;
    }
    drop(turn);
    let reply = attempt(call, link, deadline, asking, "EVALSHA").await;
    // It was another script's text that came.
    if is_known(&reply) { reply } else { attempt(call, link, deadline, asking, "EVAL").await }
}

/// A script's answer, and what it takes to go on with it.
struct Done<R> {
    reply: R,
    link: Arc<Link>,
    deadline: Deadline,
    /// Its keys are on their way to the server that answered.
    asking: bool,
}

impl Done<Value> {
    fn read<R>(self, read: impl FnOnce(Value) -> Result<R, StoreError>) -> Result<Done<R>, StoreError> {
        let Self { reply, link, deadline, asking } = self;
        Ok(Done { reply: read(reply)?, link, deadline, asking })
    }
}

impl<R> Done<R> {
    /// What the server knows of its replicas: too few of them, or too slow.
    async fn why_so_few(&self, acks: u32, mode: AckMode) -> String {
        // Without much time left a question would only be one more command that is not answered.
        let replicas = if self.deadline.left() < REASON_TIME {
            None
        } else {
            let info = self.link.command("INFO", vec!["replication".into()], self.deadline.left()).await;
            info.ok().and_then(|info| info.as_string()).and_then(|text| Info::parse(&text).replicas())
        };
        match replicas {
            Some(connected) if connected < u64::from(acks) => {
                format!("it has {connected} replicas; add replicas, or lower replication.acks")
            }
            Some(connected) if mode == AckMode::WaitAof => {
                format!("it has {connected} replicas; check that they have appendonly yes, and are not slow or paused")
            }
            Some(connected) => format!("it has {connected} replicas; check whether they are slow or paused"),
            None => "check its replicas".to_owned(),
        }
    }
}

/// The least time that a question of why is worth.
const REASON_TIME: Duration = Duration::from_millis(50);

/// WAIT answers a number; WAITAOF the local one and then that of the replicas.
fn acks_of(reply: &Value) -> u64 {
    let number = if let Value::Array(numbers) = reply { numbers.last() } else { Some(reply) };
    number.and_then(Value::as_u64).unwrap_or(0)
}

/// Several commands, one timeout.
#[derive(Clone, Copy)]
struct Deadline(Mono);

impl Deadline {
    fn after(span: Duration) -> Self {
        Self(BootClock.now() + span)
    }

    fn is_ahead(self) -> bool {
        BootClock.now() < self.0
    }

    /// Never zero, which fred takes for "no timeout".
    fn left(self) -> Duration {
        self.0.since(BootClock.now()).max(Duration::from_millis(1))
    }
}

#[async_trait]
impl LeaseStore for RedisStore {
    async fn campaign(&self, role: &RoleName, request: CampaignRequest) -> Result<Stamped<CampaignReply>, StoreError> {
        let args = scripts::campaign_args(&request, self.asked());
        let done = self.run(role, &CAMPAIGN, args, scripts::campaign_reply).await?;
        match done.reply.reply {
            CampaignReply::Granted { token, .. } => {
                let confirm = Keys::new(&self.settings.namespace, role).into_call(&CONFIRM, vec![token.to_string()]);
                self.confirmed(confirm, request.guard, done).await
            }
            CampaignReply::Held { version: RecordVersion { count, .. }, .. } => {
                self.compare(role, count, request.lease_duration);
                Ok(done.reply)
            }
            CampaignReply::Guarded { .. }
            | CampaignReply::LookAgain { .. }
            | CampaignReply::Divided { .. }
            | CampaignReply::Stale { .. } => Ok(done.reply),
        }
    }

    async fn renew(&self, role: &RoleName, request: RenewRequest) -> Result<Stamped<RenewReply>, StoreError> {
        let keys = Keys::new(&self.settings.namespace, role);
        let call = scripts::renewal(&RENEW, keys, &request, self.asked(), None);
        let done = self.renewed(call, &request).await?;
        if let RenewReply::Renewed { count, .. } = done.reply.reply {
            self.compare(role, count, request.lease_duration);
        }
        match done.reply.reply {
            RenewReply::Renewed { .. } => self.acknowledged(done).await,
            RenewReply::Lost { .. } => Ok(done.reply),
        }
    }

    async fn release(&self, role: &RoleName, request: ReleaseRequest) -> Result<Stamped<ReleaseReply>, StoreError> {
        let args = scripts::release_args(&request);
        Ok(self.run(role, &RELEASE, args, scripts::release_reply).await?.reply)
    }

    /// Without `but` a leader hears each of its own renewals.
    fn subscribe(&self, role: &RoleName, but: Option<SessionId>) -> Subscription<News> {
        self.listeners.add(scripts::news(&self.settings.namespace, role.as_str()), but)
    }

    fn health(&self) -> watch::Receiver<StoreHealth> {
        self.routes.base.health.subscribe()
    }

    /// As noticed at the last connect. That nothing is heard of a Redis that cannot be used at all is no news.
    fn notes(&self) -> Vec<String> {
        let is_up = *self.routes.base.health.borrow() == StoreHealth::Up;
        let credential = self.settings.credentials.as_ref().and_then(|credentials| credentials.note());
        let notes = self.routes.common.notes().into_iter().chain(credential);
        notes.chain(self.listeners.refusal().filter(|_| is_up)).collect()
    }

    fn rules(&self) -> Rules {
        Rules::REDIS
    }

    async fn purge(&self, role: &RoleName) -> Result<Purge, StoreError> {
        Ok(self.run(role, &PURGE, Vec::new(), scripts::purge_reply).await?.reply)
    }
}

#[async_trait]
impl PresenceStore for RedisStore {
    async fn presence(&self, role: &RoleName, request: PresenceRequest) -> Result<Vec<Participant>, StoreError> {
        let deadline = Deadline::after(self.settings.command_timeout);
        let done =
            self.call(scripts::presence::call(&self.settings.namespace.prefix, role, &request), deadline).await?;
        Ok(done.read(scripts::presence::reply)?.reply)
    }
}
