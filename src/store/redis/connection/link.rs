//! One connection to Redis, from its opening to its end. It never reconnects: [`supervisor`](super::supervisor) opens
//! another.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use fred::clients::Client;
use fred::interfaces::{ClientLike, PubsubInterface};
use fred::types::config::Options;
use fred::types::{ClusterHash, CustomCommand, Key, Message, Value};
use futures_util::future::OptionFuture;
use tokio::sync::{Mutex, MutexGuard, Notify, Semaphore, SemaphorePermit, broadcast, watch};
use tokio::task::AbortHandle;

use super::addresses::PassedOver;
use super::cluster::{NodeAddress, Target};
use super::errors::{CommandFailure, explain};
use super::evidence::Evidence;
use super::info::Info;
use super::settings::{Settings, Timeouts};
use crate::base::clock::{BootClock, Clock};
use crate::config::Guard;
use crate::protocol::Mono;
use crate::store::StoreError;
use crate::store::redis::credentials::{CredentialSource, Issued};

/// So many commands in a row without any answer, and the connection is given up: a new one may get through, and what is
/// stuck in this one must not arrive later.
const UNANSWERED_MAX: u32 = 2;
/// fred tells of a connection once; a look at its state in between covers the moment before we listened.
const STATE_POLL: Duration = Duration::from_millis(20);
/// The least time that a connection in doubt has for a sign of life.
const PING_TIMEOUT_MIN: Duration = Duration::from_millis(50);
/// How many scripts may be out. More would not be answered any sooner, and those at the end might wait for longer than
/// their timeout, which would look as if Redis had stopped answering.
const OUT_MAX: usize = 256;

/// One connection. Closed when dropped.
pub struct Link {
    client: Client,
    endpoint: String,
    /// Where that was when it was opened; none behind Sentinels.
    address: Option<SocketAddr>,
    task: AbortHandle,
    /// Why it ended, once it has.
    end: Arc<watch::Sender<Option<StoreError>>>,
    unanswered: AtomicU32,
    /// How many answers have come, over and again.
    answers: AtomicU32,
    timeouts: Timeouts,
    command_timeout: Duration,
    /// A command has got no answer, and the one before it had one.
    in_doubt: Notify,
    /// For each script that may be out besides those that are.
    places: Semaphore,
    opened_at: Mono,
    replaced: AtomicBool,
    /// Of which generation the server is, as far as a script has told here.
    generation: parking_lot::Mutex<Option<Bytes>>,
    /// How many replicas must acknowledge (R6).
    pub acks: u32,
    /// How much of R5 is in force.
    pub guard: Guard,
    /// Its scripts may not ask of which generation it is.
    is_told: AtomicBool,
    /// What it told when it was asked last.
    evidence: parking_lot::Mutex<Option<Evidence>>,
    /// The scripts' texts that went over it.
    pub texts: Texts,
    /// Where its credentials come from, if they change.
    credentials: Option<Arc<CredentialSource>>,
    /// Which of them it was told last.
    told_version: AtomicU64,
}

impl Link {
    /// Connects, authenticates and selects the database. Ends by itself, within fred's timeouts for that.
    ///
    /// In a cluster `target` says which node; elsewhere there is only one place.
    pub async fn open(settings: &Settings, target: Target) -> Result<Self, StoreError> {
        match &settings.nodes {
            Some(nodes) => nodes.open(settings, target).await,
            None => match (Self::open_at(settings, None).await, &settings.sentinels) {
                (Err(error), Some(sentinels)) => Err(sentinels.explain(settings, error).await),
                (opened, _) => opened,
            },
        }
    }

    /// The same to this node of a cluster.
    pub async fn open_at(settings: &Settings, node: Option<&NodeAddress>) -> Result<Self, StoreError> {
        let Some(node) = node.or(settings.server.as_ref()) else {
            return Self::open_to(settings, None).await;
        };
        let begun = BootClock.now();
        let mut addresses = settings.addresses_of(node).await?.into_iter();
        let mut opened = Err(StoreError::Unreachable { reason: format!("{node}: its name has no address") });
        for address in addresses.by_ref() {
            opened = Self::open_to(settings, Some((node, address))).await;
            // A server that refuses has been reached. Time that is used up is not another address's.
            if !matches!(opened, Err(StoreError::Unreachable { .. })) {
                break;
            }
            settings.passed_over.add(address);
            if BootClock.now().since(begun) >= settings.connect_timeout() {
                break;
            }
        }
        opened
    }

    /// The same to this address of a server, or to where the Sentinels say.
    async fn open_to(settings: &Settings, server: Option<(&NodeAddress, SocketAddr)>) -> Result<Self, StoreError> {
        let endpoint = server.map_or_else(|| settings.endpoint.clone(), |(node, _)| node.to_string());
        let had_resp3 = settings.has_resp3();
        let none = |why| StoreError::Unreachable { reason: format!("there is no credential for it: {why}") };
        let issued = match &settings.credentials {
            Some(credentials) => Some(credentials.present().await.map_err(none)?),
            None => None,
        };
        let issued = issued.as_ref();
        let opened = match Self::connect(settings, settings.client(server, issued)?, endpoint.clone(), issued).await {
            Err(_) if had_resp3 && !settings.has_resp3() => {
                Self::connect(settings, settings.client(server, issued)?, endpoint, issued).await
            }
            opened => opened,
        };
        match (opened, &settings.credentials) {
            (Ok(mut link), _) => {
                link.address = server.map(|(_, address)| address);
                Ok(link)
            }
            (Err(StoreError::Refused { reason }), Some(credentials)) => {
                Err(StoreError::Refused { reason: credentials.explain(reason) })
            }
            (Err(error), _) => Err(error),
        }
    }

    /// To one of the Sentinels, to ask it what it knows.
    pub async fn open_sentinel(settings: &Settings, node: &NodeAddress) -> Result<Self, StoreError> {
        Self::connect(settings, settings.sentinel_client(node)?, node.to_string(), None).await
    }

    /// `issued`: by which credential it is let in, if that may change.
    async fn connect(
        settings: &Settings,
        client: Client,
        endpoint: String,
        issued: Option<&Issued>,
    ) -> Result<Self, StoreError> {
        let handle = client.connect();
        let end = Arc::new(watch::Sender::new(None));
        let link = Self {
            client: client.clone(),
            endpoint: endpoint.clone(),
            address: None,
            task: handle.abort_handle(),
            end: Arc::clone(&end),
            unanswered: AtomicU32::new(0),
            answers: AtomicU32::new(0),
            timeouts: settings.timeouts.clone(),
            command_timeout: settings.command_timeout,
            in_doubt: Notify::new(),
            places: Semaphore::new(OUT_MAX),
            opened_at: BootClock.now(),
            replaced: AtomicBool::new(false),
            generation: parking_lot::Mutex::default(),
            acks: settings.acks,
            guard: settings.guard,
            is_told: AtomicBool::new(false),
            evidence: parking_lot::Mutex::default(),
            texts: Texts::default(),
            credentials: issued.and(settings.credentials.clone()),
            told_version: AtomicU64::new(issued.map_or(0, |issued| issued.version)),
        };
        let timeout = settings.command_timeout;
        let no_resp3 = Arc::clone(&settings.no_resp3);
        tokio::spawn(async move {
            let why = match handle.await.map(|ended| ended.map_err(|error| explain(&error, &endpoint, timeout))) {
                Ok(Ok(())) | Err(_) => {
                    StoreError::Unreachable { reason: format!("{endpoint}: the connection was closed") }
                }
                Ok(Err(failure)) if failure.no_resp3 => {
                    no_resp3.store(true, Ordering::Relaxed);
                    failure.error
                }
                Ok(Err(failure)) => match failure.error {
                    // Not a command's timeout, but that of the connection's first steps.
                    StoreError::Unknown { after } => {
                        StoreError::Unreachable { reason: format!("{endpoint}: no answer within {after:?}") }
                    }
                    error @ (StoreError::Unreachable { .. }
                    | StoreError::Refused { .. }
                    | StoreError::Denied { .. }
                    | StoreError::Garbage { .. }) => error,
                },
            };
            end_for(&end, why);
        });
        loop {
            if client.is_connected() {
                return Ok(link);
            }
            tokio::select! {
                why = link.ended() => return Err(with_encryption_in_doubt(why, settings.uses_tls())),
                _ = client.wait_for_connect() => {}
                () = tokio::time::sleep(STATE_POLL) => {}
            }
        }
    }

    /// Sends one command and waits for its reply for at most `timeout`.
    ///
    /// Dropping the future does not undo the command.
    pub async fn command(
        &self,
        name: &'static str,
        args: Vec<Value>,
        timeout: Duration,
    ) -> Result<Value, CommandFailure> {
        let result = self.exchange(name, args, timeout).await?;
        self.judge(result, timeout)
    }

    /// What came of it, unjudged; a failure when the connection has ended.
    async fn exchange(
        &self,
        name: &'static str,
        args: Vec<Value>,
        timeout: Duration,
    ) -> Result<Result<Value, fred::error::Error>, CommandFailure> {
        let options = Options { timeout: Some(timeout), max_attempts: Some(1), ..Options::default() };
        let client = self.client.with_options(&options);
        let reply = client.custom(CustomCommand::new_static(name, ClusterHash::Random, false), args);
        // Apart, for it is large, and rare: most commands are given up sooner.
        let silence = (timeout > self.timeouts.unresponsive()).then(|| Box::pin(self.silence()));
        tokio::select! {
            biased;
            result = reply => Ok(result),
            // After its end nobody serves the client's queue, now or later: the command is as good as dropped.
            why = self.ended() => Err(CommandFailure::because(why, true)),
            Some(()) = OptionFuture::from(silence) => {
                let after = self.timeouts.unresponsive();
                self.close(format!("{}: no answer to anything within {after:?}", self.endpoint));
                Err(CommandFailure::because(StoreError::Unknown { after }, true))
            }
        }
    }

    /// Completes when nothing was answered for as long as it may be.
    async fn silence(&self) {
        let answers = || self.answers.load(Ordering::Relaxed);
        loop {
            let before = answers();
            tokio::time::sleep(self.timeouts.unresponsive()).await;
            if answers() == before {
                return;
            }
        }
    }

    /// A place among the scripts that may be out, for whoever sends them, if there is one.
    pub fn free_place(&self) -> Option<SemaphorePermit<'_>> {
        self.places.try_acquire().ok()
    }

    /// The same, when there is one. Waits for half of the timeout at most, so that what is sent then has time to be
    /// answered.
    pub async fn place(&self, timeout: Duration) -> Result<SemaphorePermit<'_>, StoreError> {
        let patience = timeout / 2;
        tokio::select! {
            biased;
            // Nobody closes it.
            Ok(place) = self.places.acquire() => Ok(place),
            why = self.ended() => Err(why),
            () = tokio::time::sleep(patience) => {
                let before = format!("{OUT_MAX} scripts before it have no answer after {patience:?}");
                Err(StoreError::Unreachable { reason: format!("{}: {before}", self.endpoint) })
            }
        }
    }

    fn judge(&self, result: Result<Value, fred::error::Error>, waited: Duration) -> Result<Value, CommandFailure> {
        let failure = match result {
            Ok(value) => {
                self.answered();
                return Ok(value);
            }
            Err(error) => explain(&error, &self.endpoint, waited),
        };
        match &failure.error {
            StoreError::Unknown { .. } => {
                if self.unanswered.fetch_add(1, Ordering::Relaxed) + 1 >= UNANSWERED_MAX {
                    self.close(format!("{}: it has stopped answering", self.endpoint));
                } else {
                    self.in_doubt.notify_one();
                }
            }
            error if failure.reconnect => self.close_because(error.clone()),
            StoreError::Unreachable { .. }
            | StoreError::Refused { .. }
            | StoreError::Denied { .. }
            | StoreError::Garbage { .. } => self.answered(),
        }
        Err(failure)
    }

    fn answered(&self) {
        self.unanswered.store(0, Ordering::Relaxed);
        self.answers.fetch_add(1, Ordering::Relaxed);
    }

    /// Waits until the connection has ended, and says why.
    pub async fn ended(&self) -> StoreError {
        let mut end = self.end.subscribe();
        let ended = end.wait_for(Option::is_some).await.ok().and_then(|why| why.clone());
        // The sender lives as long as this link, so there always is a reason.
        ended.unwrap_or_else(|| StoreError::Unreachable { reason: "the connection was closed".to_owned() })
    }

    /// Waits for the same, and has the connection that is in doubt answer a PING, though nobody else may have anything
    /// to ask: one that is dead shall be found so before it is needed. `doubt`: somebody else has his. While all is
    /// well, nothing here wakes up.
    pub async fn kept(&self, doubt: Option<&Notify>) -> StoreError {
        loop {
            tokio::select! {
                biased;
                why = self.ended() => return why,
                () = self.in_doubt.notified() => {}
                Some(()) = OptionFuture::from(doubt.map(Notify::notified)) => {}
                issued = self.outdated() => {
                    self.authenticate(&issued).await;
                    continue;
                }
            }
            // What follows from a second command without an answer is done where that is noticed.
            let left = self.timeouts.unresponsive().saturating_sub(self.command_timeout).max(PING_TIMEOUT_MIN);
            let _ = self.ping(left).await;
        }
    }

    /// Waits until there is a later credential than the one that this connection was told, for ever where there never
    /// is.
    pub async fn outdated(&self) -> Issued {
        match &self.credentials {
            Some(credentials) => credentials.later_than(self.told_version.load(Ordering::Relaxed)).await,
            None => std::future::pending().await,
        }
    }

    /// Notes that it was told this credential, or is not to be.
    pub fn note_told(&self, issued: &Issued) {
        self.told_version.store(issued.version, Ordering::Relaxed);
    }

    /// Says anew who we are. Where that is refused, Redis leaves the connection as it was, and so do we: the next
    /// credential may be taken.
    pub async fn authenticate(&self, issued: &Issued) {
        self.note_told(issued);
        let Some(credentials) = &self.credentials else { return };
        let words = issued.credential.words().into_iter().map(Value::from).collect();
        // That it has ended is told where it is kept.
        let Ok(result) = self.exchange("AUTH", words, self.command_timeout).await else { return };
        let failure = result.as_ref().err().map(|error| explain(error, &self.endpoint, self.command_timeout));
        match failure.map(|failure| failure.error) {
            Some(StoreError::Refused { reason } | StoreError::Denied { reason }) => {
                self.answered();
                credentials.shown(Some(credentials.explain(reason)));
            }
            Some(StoreError::Unknown { .. } | StoreError::Unreachable { .. } | StoreError::Garbage { .. }) => {
                let _ = self.judge(result, self.command_timeout);
            }
            None => {
                self.answered();
                credentials.shown(None);
            }
        }
    }

    /// Closes the connection. What waits for an answer gets an error.
    pub fn close(&self, reason: String) {
        self.close_because(StoreError::Unreachable { reason });
    }

    /// Closes it though it works, so that the next one may lead elsewhere. That is no news for people.
    pub fn replace(&self, reason: String) {
        self.replaced.store(true, Ordering::Relaxed);
        self.close(reason);
    }

    /// Whether it ended by [`Self::replace`].
    pub fn is_replaced(&self) -> bool {
        self.replaced.load(Ordering::Relaxed)
    }

    /// Of which generation (R5) the server was when it was last asked here.
    pub fn generation(&self) -> Option<Bytes> {
        self.generation.lock().clone()
    }

    /// It was asked.
    pub fn told(&self, generation: Bytes) {
        *self.generation.lock() = Some(generation);
    }

    /// Whether the scripts here are told of which generation the server is.
    pub fn is_told(&self) -> bool {
        self.is_told.load(Ordering::Relaxed)
    }

    /// From now on they are: they may not ask.
    pub fn tell_scripts(&self) {
        self.is_told.store(true, Ordering::Relaxed);
    }

    /// What it told of its generation when it was asked last, if it was.
    pub fn evidence(&self) -> Option<Evidence> {
        self.evidence.lock().clone()
    }

    /// Asks for it. `acks`: and who has synchronised with it.
    pub async fn ask_evidence(&self, acks: bool, timeout: Duration) -> Result<Evidence, CommandFailure> {
        let reply = self.command("INFO", Vec::new(), timeout).await?;
        let text = reply.as_string().unwrap_or_default();
        let evidence = Evidence::of(&Info::parse(&text), acks);
        *self.evidence.lock() = Some(evidence.clone());
        Ok(evidence)
    }

    /// The next connection to this name is to begin with another of its addresses, if it has one.
    pub fn pass_over(&self, passed_over: &PassedOver) {
        if let Some(address) = self.address {
            passed_over.add(address);
        }
    }

    /// Where it leads: a host and a port, or several of which one is meant.
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// For how long it has been there.
    pub fn age(&self) -> Duration {
        BootClock.now().since(self.opened_at)
    }

    fn close_because(&self, why: StoreError) {
        end_for(&self.end, why);
        self.task.abort();
    }

    /// The messages of every subscribed channel.
    pub fn messages(&self) -> broadcast::Receiver<Message> {
        use fred::interfaces::EventInterface;
        self.client.message_rx()
    }

    /// Subscribes and waits until that is confirmed: a later command's answer comes after the confirmation.
    pub async fn subscribe(&self, channels: &[Arc<str>], timeout: Duration) -> Result<(), CommandFailure> {
        // fred answers a SUBSCRIBE itself and gives a refusal to whichever command is next in line; without one it
        // drops it. So the PING is in line before the refusal can come: neither future waits for anything
        // before it sends.
        let (sent, confirmed) = tokio::join!(biased; self.client.subscribe(keys(channels)), self.ping(timeout));
        self.judge(sent.map(|()| Value::Null), timeout)?;
        confirmed
    }

    /// Ends subscriptions; messages may still come for a moment.
    pub async fn unsubscribe(&self, channels: &[Arc<str>], timeout: Duration) -> Result<(), CommandFailure> {
        let sent = self.client.unsubscribe(keys(channels)).await;
        self.judge(sent.map(|()| Value::Null), timeout).map(drop)
    }

    /// Asks for a sign of life, on the connection that has the subscriptions.
    pub async fn ping(&self, timeout: Duration) -> Result<(), CommandFailure> {
        self.command("PING", Vec::new(), timeout).await.map(drop)
    }
}

fn keys(channels: &[Arc<str>]) -> Vec<Key> {
    channels.iter().map(|channel| Key::from(&**channel)).collect()
}

/// Whose turn it is to bring a script's text to a server that does not know it.
#[derive(Default)]
pub struct Texts {
    turn: Mutex<()>,
    brought: AtomicU32,
}

impl Texts {
    /// How many were brought, over and again; a change means that one was.
    pub fn brought(&self) -> u32 {
        self.brought.load(Ordering::Relaxed)
    }

    /// One was brought, by whose turn it is.
    pub fn bring(&self) {
        self.brought.fetch_add(1, Ordering::Relaxed);
    }

    /// Waits until nobody else brings one.
    pub async fn turn(&self, timeout: Duration) -> Result<MutexGuard<'_, ()>, CommandFailure> {
        tokio::time::timeout(timeout, self.turn.lock()).await.map_err(|_| {
            let reason = format!("the scripts could not be loaded within {timeout:?}");
            CommandFailure::because(StoreError::Unreachable { reason }, false)
        })
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// What an end says that comes before anything was said: one side may speak TLS, and the other not.
fn with_encryption_in_doubt(why: StoreError, uses_tls: bool) -> StoreError {
    let StoreError::Unreachable { reason } = why else { return why };
    let silent = reason.contains("no answer within");
    let hung_up = ["reset", "closed", "aborted", "Broken pipe"].iter().any(|word| reason.contains(word));
    let reason = match (uses_tls, silent, hung_up) {
        (true, true, _) => format!("{reason}; a rediss: URL needs a port that speaks TLS: is it one?"),
        (false, _, true) => format!("{reason}; if that port speaks TLS, use a rediss: URL"),
        _ => reason,
    };
    StoreError::Unreachable { reason }
}

/// The first reason stays: what follows are its consequences.
fn end_for(end: &watch::Sender<Option<StoreError>>, why: StoreError) {
    end.send_if_modified(|present| {
        let first = present.is_none();
        if first {
            *present = Some(why);
        }
        first
    });
}
