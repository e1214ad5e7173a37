//! What a process leaves behind for the case that it ends without a word: its session, in the termination message of
//! its container.
//!
//! The kubelet makes a new, empty file for each instance of a container, reads it when it has seen that instance end,
//! and copies it into the record of that end. So a record with this message is about this process and no other.

use std::fmt;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use crate::config::{Config, JobConfig, RoleConfig, RunConfig, is_object_name};
use crate::protocol::{LEASE_DURATION_MAX, SessionId};

const BEGINNING: &str = "baton/1 pod=";
const PROMISE: &str = " promise_ms=";
const REACH: &str = " reach=";
const SESSION: &str = " session=";
const SESSION_DIGITS: usize = 32;

/// Who can have acted on what the process said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// Only containers of its pod: it listened on loopback, and its jobs went there.
    Pod,
    /// Anybody on the network.
    Network,
}

impl Reach {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Pod => "pod",
            Self::Network => "network",
        }
    }
}

/// The message. Its session comes last and has a fixed length, so that no beginning of it, which a process that dies
/// while it writes may leave, is taken for the whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TerminationMessage {
    /// The UID of the process's pod: in another pod's status this is a copy.
    pub pod: String,
    pub session: SessionId,
    /// The longest time for which anybody may act on what it said (R7), or go on with a job that it began; in whole
    /// milliseconds, not zero.
    pub promise: Duration,
    /// Who may do so.
    pub reach: Reach,
}

impl fmt::Display for TerminationMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pod, session, promise, reach } = self;
        write!(f, "{BEGINNING}{pod}{PROMISE}{}{REACH}{}{SESSION}{session}", promise.as_millis(), reach.as_str())
    }
}

/// The text is not a message of Baton's, or not a whole one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a termination message of Baton")]
pub(super) struct NotOurs;

impl FromStr for TerminationMessage {
    type Err = NotOurs;

    fn from_str(text: &str) -> Result<Self, NotOurs> {
        let rest = text.strip_prefix(BEGINNING).ok_or(NotOurs)?;
        let (pod, rest) = rest.split_once(PROMISE).ok_or(NotOurs)?;
        let (promise, rest) = rest.split_once(REACH).ok_or(NotOurs)?;
        let (reach, session) = rest.split_once(SESSION).ok_or(NotOurs)?;
        let promise = Duration::from_millis(promise.parse().map_err(|_| NotOurs)?);
        let reach = [Reach::Pod, Reach::Network].into_iter().find(|known| known.as_str() == reach).ok_or(NotOurs)?;
        let parsed: SessionId = session.parse().map_err(|_| NotOurs)?;
        let message = Self { pod: pod.to_owned(), session: parsed, promise, reach };
        // One text for one message: no signs, no leading zeros, no capitals.
        let same = session.len() == SESSION_DIGITS && message.to_string() == text;
        let sane = is_object_name(pod) && !promise.is_zero() && promise <= LEASE_DURATION_MAX;
        if same && sane { Ok(message) } else { Err(NotOurs) }
    }
}

/// Where the message is kept, and what it says at present.
#[derive(Debug)]
pub struct TerminationMessageFile {
    path: PathBuf,
    message: TerminationMessage,
}

impl TerminationMessageFile {
    /// Leaves the message of this process, where `kubernetes.fastFailover` is on. To be called before it campaigns for
    /// anything: whoever leads without it is waited for until its lease ends.
    ///
    /// None when it is off, or when the file cannot be written, which is logged: the process goes on without.
    pub fn leave(config: &Config, session: SessionId) -> Option<Self> {
        let path = config.kubernetes.fast_failover.clone()?;
        let pod = config.kubernetes.pod.as_ref()?.uid.clone();
        let message = TerminationMessage { pod, session, promise: longest_promise(config), reach: reach(config) };
        let file = Self { path, message };
        if let Err(error) = file.write(&file.message) {
            let path = file.path.display();
            tracing::warn!(
                %path, %error,
                "the termination message cannot be written: others file wait for this replica's leases to end"
            );
            return None;
        }
        Some(file)
    }

    /// Makes the message good for what will be promised under `new` as well. Promises that were given stand, so it
    /// never says less than before. To be called before any role runs under `new`.
    ///
    /// # Errors
    /// The file cannot be written; then `new` must not be put in force if it promises more.
    pub fn cover(&mut self, new: &Config) -> io::Result<()> {
        let promise = longest_promise(new).max(self.message.promise);
        let reach = if reach(new) == Reach::Network { Reach::Network } else { self.message.reach };
        let message = TerminationMessage { promise, reach, ..self.message.clone() };
        if message != self.message {
            self.write(&message)?;
            self.message = message;
        }
        Ok(())
    }

    /// In place, since the file is mounted from outside; never made, for then it would not be the one that is read.
    fn write(&self, message: &TerminationMessage) -> io::Result<()> {
        let mut file = OpenOptions::new().write(true).truncate(true).open(&self.path)?;
        file.write_all(message.to_string().as_bytes())
    }
}

/// Of any role, rounded up: an answer's validity, or the time that an app has for noticing that the connection of a job
/// is closed.
fn longest_promise(config: &Config) -> Duration {
    let promise = |role: &RoleConfig| role.timing.answer_validity().max(role.timing.step_down_margin());
    let longest = config.roles.iter().map(promise).max().unwrap_or_default();
    Duration::from_millis(u64::try_from(longest.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX))
}

/// The listener's address is the old one until a restart, which [`TerminationMessageFile::cover`] allows for.
fn reach(config: &Config) -> Reach {
    let listens_here = config.api.listen.ip().to_canonical().is_loopback();
    let goes_elsewhere = |job: &JobConfig| match &job.run {
        RunConfig::Http(http) => !is_loopback(&http.url),
        RunConfig::Exec(_) => false,
    };
    if listens_here && !config.jobs.iter().any(goes_elsewhere) { Reach::Pod } else { Reach::Network }
}

fn is_loopback(url: &url::Url) -> bool {
    match url.host() {
        Some(url::Host::Ipv4(address)) => address.is_loopback(),
        Some(url::Host::Ipv6(address)) => address.to_canonical().is_loopback(),
        Some(url::Host::Domain(name)) => name == "localhost",
        None => false,
    }
}
