//! One connection to Redis, from its opening to its end. It never reconnects: [`supervisor`](super::supervisor) opens
//! another.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use fred::clients::Client;
use fred::interfaces::{ClientLike, PubsubInterface};
use fred::types::config::Options;
use fred::types::{ClusterHash, CustomCommand, Message, Value};
use tokio::sync::{broadcast, watch};
use tokio::task::AbortHandle;

use super::errors::{Failure, explain};
use super::settings::Settings;
use crate::store::StoreError;

/// So many commands in a row without any answer, and the connection is given up: a new one may get through, and what is
/// stuck in this one must not arrive later.
const UNANSWERED_MAX: u32 = 2;
/// fred tells of a connection once; a look at its state in between covers the moment before we listened.
const STATE_POLL: Duration = Duration::from_millis(20);

/// One connection. Closed when dropped.
pub(super) struct Link {
    client: Client,
    endpoint: String,
    task: AbortHandle,
    /// Why it ended, once it has.
    end: Arc<watch::Sender<Option<StoreError>>>,
    unanswered: AtomicU32,
}

impl Link {
    /// Connects, authenticates and selects the database. Ends by itself, within fred's timeouts for that.
    pub async fn open(settings: &Settings) -> Result<Self, StoreError> {
        let client = settings.client()?;
        let handle = client.connect();
        let end = Arc::new(watch::Sender::new(None));
        let link = Self {
            client: client.clone(),
            endpoint: settings.endpoint.clone(),
            task: handle.abort_handle(),
            end: Arc::clone(&end),
            unanswered: AtomicU32::new(0),
        };
        let endpoint = settings.endpoint.clone();
        let timeout = settings.command_timeout;
        tokio::spawn(async move {
            let why = match handle.await {
                Ok(Ok(())) | Err(_) => {
                    StoreError::Unreachable { reason: format!("{endpoint}: the connection was closed") }
                }
                Ok(Err(error)) => match explain(&error, &endpoint, timeout).error {
                    // Not a command's timeout, but that of the connection's first steps.
                    StoreError::Unknown { after } => {
                        StoreError::Unreachable { reason: format!("{endpoint}: no answer within {after:?}") }
                    }
                    other => other,
                },
            };
            end_for(&end, why);
        });
        loop {
            if client.is_connected() {
                return Ok(link);
            }
            tokio::select! {
                why = link.ended() => return Err(why),
                _ = client.wait_for_connect() => {}
                () = tokio::time::sleep(STATE_POLL) => {}
            }
        }
    }

    /// Sends one command and waits for its reply for at most `timeout`; `slot` is the cluster slot of its key.
    ///
    /// Dropping the future does not undo the command.
    pub async fn command(
        &self,
        name: &'static str,
        slot: Option<u16>,
        args: Vec<Value>,
        timeout: Duration,
    ) -> Result<Value, Failure> {
        let options = Options { timeout: Some(timeout), max_attempts: Some(1), ..Options::default() };
        let hash = slot.map_or(ClusterHash::Random, ClusterHash::Custom);
        let client = self.client.with_options(&options);
        let reply = client.custom(CustomCommand::new_static(name, hash, false), args);
        let result = tokio::select! {
            biased;
            result = reply => result,
            // After its end nobody serves the client's queue, now or later: the command is as good as dropped.
            why = self.ended() => return Err(Failure { error: why, script_unknown: false, reconnect: true }),
        };
        self.judge(result, timeout)
    }

    fn judge(&self, result: Result<Value, fred::error::Error>, waited: Duration) -> Result<Value, Failure> {
        let failure = match result {
            Ok(value) => {
                self.unanswered.store(0, Ordering::Relaxed);
                return Ok(value);
            }
            Err(error) => explain(&error, &self.endpoint, waited),
        };
        match &failure.error {
            StoreError::Unknown { .. } => {
                if self.unanswered.fetch_add(1, Ordering::Relaxed) + 1 >= UNANSWERED_MAX {
                    self.close(format!("{}: it has stopped answering", self.endpoint));
                }
            }
            error if failure.reconnect => self.close_because(error.clone()),
            _ => self.unanswered.store(0, Ordering::Relaxed),
        }
        Err(failure)
    }

    /// Waits until the connection has ended, and says why.
    pub async fn ended(&self) -> StoreError {
        let mut end = self.end.subscribe();
        let ended = end.wait_for(Option::is_some).await.ok().and_then(|why| why.clone());
        // The sender lives as long as this link, so there always is a reason.
        ended.unwrap_or_else(|| StoreError::Unreachable { reason: "the connection was closed".to_owned() })
    }

    /// Closes the connection. What waits for an answer gets an error.
    pub fn close(&self, reason: String) {
        self.close_because(StoreError::Unreachable { reason });
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
    pub async fn subscribe(&self, channels: Vec<String>, timeout: Duration) -> Result<(), Failure> {
        let sent = self.client.subscribe(channels).await;
        self.judge(sent.map(|()| Value::Null), timeout)?;
        self.ping(timeout).await
    }

    /// Ends subscriptions; messages may still come for a moment.
    pub async fn unsubscribe(&self, channels: Vec<String>, timeout: Duration) -> Result<(), Failure> {
        let sent = self.client.unsubscribe(channels).await;
        self.judge(sent.map(|()| Value::Null), timeout).map(drop)
    }

    /// Asks for a sign of life, on the connection that has the subscriptions.
    pub async fn ping(&self, timeout: Duration) -> Result<(), Failure> {
        // fred subscribes at the node of a cluster that its own name hashes to.
        let slot = fred::util::redis_keyslot(self.client.id().as_bytes());
        self.command("PING", Some(slot), Vec::new(), timeout).await.map(drop)
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.task.abort();
    }
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
