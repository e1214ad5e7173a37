//! Credentials that change while Baton runs: tokens that end, and passwords in files.
//!
//! ```text
//!   Origin (file, command, cloud) ── fetched well before the present one ends ──> CredentialSource, one for each store
//!       Settings ── what a new connection shows <──┤
//!       Link ────── AUTH on every live connection <┘ (without RESP3 the subscription moves to another connection)
//! ```
//!
//! A renewal that fails ends nothing: what is connected stays so, the present credential is used for as long as Redis
//! takes it, and the next attempt comes soon. What is told of it holds no credential.

mod aws;
mod command;
mod entra;
mod exchange;
mod file;
mod gcp;
mod jwt;
mod sigv4;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use secrecy::{ExposeSecret, SecretString};
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

use self::aws::AwsIam;
use self::entra::Entra;
use self::file::TokenFile;
use crate::base::clock::{BootClock, Clock, wall_time};
use crate::base::{Backoff, Complaint, Turn};
use crate::config::{AuthConfig, RedisConfig, Secret, TokenCommand};
use crate::protocol::Random;

/// How often a file is looked at.
const FILE_PERIOD: Duration = Duration::from_millis(500);
/// The pauses between attempts that fail: the first, and the longest.
const RETRY_MIN: Duration = Duration::from_millis(250);
const RETRY_MAX: Duration = Duration::from_secs(30);
/// No exchange with a metadata service, STS or Entra takes longer.
const EXCHANGE_MAX: Duration = Duration::from_secs(10);
/// No credential is renewed sooner after the one before, however soon that ends.
const RENEW_MIN: Duration = Duration::from_millis(500);
/// One without an end, or with one far away, is asked for again after so long.
const RENEW_MAX: Duration = Duration::from_secs(12 * 60 * 60);
/// tokio's timers stand still while the machine sleeps, so the clock that does not is looked at so often.
const LOOK: Duration = Duration::from_secs(10);

/// What a connection is let in by.
pub struct Credential {
    /// None for Redis's `default`.
    pub user: Option<String>,
    pub secret: SecretString,
    /// None where it does not say.
    pub ends_at: Option<Timestamp>,
}

impl Credential {
    fn is_same(&self, other: &Self) -> bool {
        self.user == other.user && self.secret.expose_secret() == other.secret.expose_secret()
    }

    /// What AUTH is told.
    pub fn words(&self) -> Vec<String> {
        self.user.iter().cloned().chain([self.secret.expose_secret().to_owned()]).collect()
    }
}

/// Only when it ends.
impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credential").field("ends_at", &self.ends_at).finish_non_exhaustive()
    }
}

/// A credential, and the how-manieth of its source it is.
#[derive(Clone, Debug)]
pub struct Issued {
    pub version: u64,
    pub credential: Arc<Credential>,
}

/// How renewals went so far, over all connections of a store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CredentialCounts {
    /// Another credential was had.
    pub renewed: u64,
    /// None was.
    pub failed: u64,
    /// Redis refused one on a live connection.
    pub refused: u64,
    /// When the present one ends, if it says so.
    pub ends_at: Option<Timestamp>,
}

/// Where credentials come from.
enum Origin {
    /// A file with a password, or with a token.
    File(TokenFile),
    Command(TokenCommand),
    AwsIam(AwsIam),
    Entra(Entra),
    Gcp,
}

impl Origin {
    /// `user`: as the configuration names it.
    async fn fetch(&self, user: Option<&str>) -> Result<Credential, String> {
        let patience = match self {
            Self::Command(command) => command.timeout,
            Self::File(_) | Self::AwsIam(_) | Self::Entra(_) | Self::Gcp => EXCHANGE_MAX,
        };
        let fetching = async {
            match self {
                Self::File(file) => return file.read(),
                Self::Command(command) => command::run(command).await,
                Self::AwsIam(aws) => aws.sign(user.unwrap_or_default()).await,
                Self::Entra(entra) => entra.fetch().await,
                Self::Gcp => gcp::fetch().await,
            }
            .map_err(|why| format!("{}: {why}", self.name()))
        };
        let fetched = tokio::time::timeout(patience, fetching).await;
        fetched.unwrap_or_else(|_| Err(format!("{}: no answer within {patience:?}", self.name())))
    }

    /// Its key.
    fn name(&self) -> &'static str {
        match self {
            Self::File(file) => file.key,
            Self::Command(_) => "auth.command",
            Self::AwsIam(_) => "auth.awsIam",
            Self::Entra(_) => "auth.entra",
            Self::Gcp => "auth.gcp",
        }
    }

    /// What is to be looked at when Redis refuses what came from here.
    fn remedy(&self) -> &'static str {
        match self {
            Self::File(file) if file.is_password() => "check passwordFile, usernameFile and that user in Redis's ACL",
            Self::File(_) => "check what writes auth.file, whether its token has ended, and the user it is for",
            Self::Command(_) => "check what auth.command prints, for which user, and whether that token has ended",
            Self::AwsIam(_) => {
                "check that the user exists in AWS with IAM as its way to authenticate and is in the cluster's user \
                 group, that this pod's role may connect (elasticache:Connect or memorydb:Connect) to both, cluster \
                 and region of auth.awsIam, and this machine's clock"
            }
            Self::Entra(_) => {
                "check that this identity has an access policy of the cache's data access configuration, that the user \
                 is its object id, and scope of auth.entra"
            }
            Self::Gcp => {
                "check that IAM authentication is on, and that the pod's service account has \
                 roles/redis.dbConnectionUser"
            }
        }
    }
}

/// What is known.
#[derive(Default)]
struct Known {
    issued: Option<Issued>,
    /// Why the last attempt failed, if it did.
    failure: Option<String>,
}

/// The credentials of a store. The next one is fetched for as long as this lives.
pub struct CredentialSource {
    shared: Arc<Shared>,
    _renewing: AbortOnDropHandle<()>,
}

struct Shared {
    origin: Origin,
    user: Option<Secret>,
    known: watch::Sender<Known>,
    counts: watch::Sender<CredentialCounts>,
    /// Why none is had, and why Redis refuses the newest on live connections.
    complaints: Mutex<[Complaint; 2]>,
}

impl CredentialSource {
    /// Of this Redis, if its credentials may change. `user`: whom its URL names. Begins to fetch at once, so it must be
    /// called inside a tokio runtime; `seed` spreads the renewals of many replicas.
    pub fn of(config: &RedisConfig, user: Option<String>, seed: u64) -> Option<Self> {
        let origin = match (&config.auth, &config.password) {
            (Some(AuthConfig::File(path)), _) => Origin::File(TokenFile::token(path)),
            (Some(AuthConfig::Command(command)), _) => Origin::Command(command.clone()),
            (Some(AuthConfig::AwsIam(aws)), _) => Origin::AwsIam(AwsIam::new(aws)),
            (Some(AuthConfig::Entra(entra)), _) => Origin::Entra(Entra::new(entra)),
            (Some(AuthConfig::Gcp), _) => Origin::Gcp,
            (None, Some(Secret::File(path))) => Origin::File(TokenFile::password(path)),
            (None, Some(Secret::Value(_)) | None) => return None,
        };
        let user = user.map(|user| Secret::Value(SecretString::from(user))).or_else(|| config.username.clone());
        let (known, counts) = (watch::Sender::default(), watch::Sender::default());
        let shared = Arc::new(Shared { origin, user, known, counts, complaints: Mutex::default() });
        let renewing = AbortOnDropHandle::new(tokio::spawn(renew(Arc::clone(&shared), seed)));
        Some(Self { shared, _renewing: renewing })
    }

    /// What a new connection shows. Waits for the first outcome, and no longer.
    ///
    /// # Errors
    /// Why there is none.
    pub async fn present(&self) -> Result<Issued, String> {
        if let Origin::File(_) = self.shared.origin {
            // What was just written counts at the next connection, as it always has.
            let _ = self.shared.fetch().await;
        }
        let mut known = self.shared.known.subscribe();
        let outcome = known.wait_for(|known| known.issued.is_some() || known.failure.is_some()).await;
        let Ok(known) = outcome else { return Err("nobody fetches it any more".to_owned()) };
        match (&known.issued, &known.failure) {
            (Some(issued), _) => Ok(issued.clone()),
            (None, failure) => Err(failure.clone().unwrap_or_default()),
        }
    }

    /// Waits until there is a later one than this.
    pub async fn later_than(&self, version: u64) -> Issued {
        let mut known = self.shared.known.subscribe();
        let is_later = |issued: &Option<Issued>| issued.as_ref().is_some_and(|issued| issued.version > version);
        let issued = known.wait_for(|known| is_later(&known.issued)).await.ok().and_then(|known| known.issued.clone());
        match issued {
            Some(issued) => issued,
            // Nobody fetches another: the sender lives as long as this.
            None => std::future::pending().await,
        }
    }

    /// A live connection was told of the newest: why Redis refused, if it did.
    pub fn shown(&self, refusal: Option<String>) {
        if refusal.is_some() {
            self.shared.counts.send_modify(|counts| counts.refused += 1);
        }
        let mut complaints = self.shared.complaints.lock();
        if let Some(Turn::Wrong(reason)) = complaints[1].note(refusal) {
            tracing::warn!(reason, "Redis refuses the new credential; connections go on with the one before");
        }
    }

    /// A refusal of what came from here, in words for whoever can change that.
    pub fn explain(&self, reason: String) -> String {
        if !reason.contains("(WRONGPASS)") {
            return reason;
        }
        let remedy = self.shared.origin.remedy();
        let what = match &self.shared.origin {
            Origin::File(file) if file.is_password() => "wrong user or password (WRONGPASS)",
            Origin::File(_) | Origin::Command(_) | Origin::AwsIam(_) | Origin::Entra(_) | Origin::Gcp => {
                "it does not take the token for this user (WRONGPASS)"
            }
        };
        match self.failing() {
            Some(failing) => format!("{what}: {failing}"),
            None => format!("{what}: {remedy}"),
        }
    }

    /// Why there is none that is newer than the present one, if that fails.
    fn failing(&self) -> Option<String> {
        let why = self.shared.complaints.lock()[0].reason().map(str::to_owned)?;
        let issued = self.shared.known.borrow().issued.clone();
        let ends_at = issued.and_then(|issued| issued.credential.ends_at);
        let until = ends_at.map(|at| format!(" (the present one ends at {at:.0})")).unwrap_or_default();
        Some(format!("no newer credential can be had{until}: {why}"))
    }

    /// What people are to know while all is not well.
    pub fn note(&self) -> Option<String> {
        let refused = || self.shared.complaints.lock()[1].reason().map(str::to_owned);
        let told = || Some(format!("the newest credential is refused on live connections: {}", refused()?));
        self.failing().or_else(told)
    }

    /// How renewals go; changes are pushed.
    pub fn counts(&self) -> watch::Receiver<CredentialCounts> {
        self.shared.counts.subscribe()
    }
}

impl Shared {
    /// Fetches one, and tells how that went; for how long it lasts, if it says so.
    async fn fetch(&self) -> Result<Option<Duration>, ()> {
        let fetched = match self.user() {
            Ok(user) => self.origin.fetch(user.as_deref()).await.and_then(|fetched| {
                let user = user.or(fetched.user);
                alive(self.origin.name(), Credential { user, ..fetched })
            }),
            Err(why) => Err(why),
        };
        let failure = fetched.as_ref().err().cloned();
        self.complain(failure.as_deref());
        match fetched {
            Ok(credential) => Ok(self.issue(credential)),
            Err(_) => {
                self.counts.send_modify(|counts| counts.failed += 1);
                self.known.send_modify(|known| known.failure = failure);
                Err(())
            }
        }
    }

    fn user(&self) -> Result<Option<String>, String> {
        let Some(user) = &self.user else { return Ok(None) };
        let read = user.read().map_err(|error| format!("usernameFile cannot be read: {error}"))?;
        Ok(Some(read.expose_secret().to_owned()))
    }

    /// From now on this is the newest, if it is another than before.
    fn issue(&self, credential: Credential) -> Option<Duration> {
        let ends_at = credential.ends_at;
        let mut is_other = false;
        self.known.send_if_modified(|known| {
            known.failure = None;
            let version = known.issued.as_ref().map_or(0, |issued| issued.version);
            is_other = !known.issued.as_ref().is_some_and(|issued| issued.credential.is_same(&credential));
            if is_other {
                known.issued = Some(Issued { version: version + 1, credential: Arc::new(credential) });
            }
            is_other
        });
        if is_other {
            self.counts.send_modify(|counts| (counts.renewed, counts.ends_at) = (counts.renewed + 1, ends_at));
        }
        let left = ends_at?.duration_since(wall_time());
        Some(Duration::try_from(left).unwrap_or_default())
    }

    fn complain(&self, failure: Option<&str>) {
        match self.complaints.lock()[0].note(failure.map(str::to_owned)) {
            Some(Turn::Wrong(reason)) => {
                tracing::warn!(reason, "no credential for Redis can be had; it is tried again");
            }
            Some(Turn::Well) => tracing::info!("there is a credential for Redis again"),
            None => {}
        }
    }
}

/// A credential that has ended is none.
fn alive(origin: &str, credential: Credential) -> Result<Credential, String> {
    let now = wall_time();
    match credential.ends_at.map(|at| now.duration_since(at)) {
        Some(over) if over >= SignedDuration::ZERO => Err(format!(
            "{origin} gives a token that ended {}s ago: what makes it has stopped, or this machine's clock is wrong",
            over.as_secs()
        )),
        Some(_) | None => Ok(credential),
    }
}

/// Runs until it is aborted.
async fn renew(shared: Arc<Shared>, seed: u64) {
    let (mut random, mut backoff) = (Random::new(seed), Backoff::new(!seed, RETRY_MIN));
    loop {
        let is_file = matches!(shared.origin, Origin::File(_));
        let pause = match shared.fetch().await {
            Ok(_) | Err(()) if is_file => FILE_PERIOD,
            Ok(left) => {
                backoff.reset();
                // Half of what it lasts is left for attempts that fail, and many replicas do not ask at once.
                let left = left.unwrap_or(RENEW_MAX).min(RENEW_MAX);
                random.between(left / 3, left / 2).max(RENEW_MIN)
            }
            Err(()) => backoff.next(RETRY_MAX),
        };
        let due = BootClock.now() + pause;
        while BootClock.now() < due {
            tokio::time::sleep(due.since(BootClock.now()).min(LOOK)).await;
        }
    }
}

/// A variable of this process, as the clouds' own tools read them; an empty one counts as none.
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// The end of what lasts so many seconds from now on.
fn after_seconds(seconds: u64) -> Option<Timestamp> {
    let span = SignedDuration::from_secs(i64::try_from(seconds).ok()?);
    wall_time().checked_add(span).ok()
}
