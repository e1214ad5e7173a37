//! `store.redis:`, and `redis:` in a store of its own.

use std::path::PathBuf;
use std::time::Duration;

use secrecy::{ExposeSecret, SecretString};

use super::auth::{self, AUTH, AuthConfig};
use super::redis_url::{Deployment, RedisUrl, UrlFacts};
use super::secret::Secret;
use super::section::{AnyKey, Group, Key, Or, Reader, Rule, Section, key, required};
use super::value::{Count, File, Form, Span, Text, Words, not_empty, timeout_within};
use super::{Guard, PREFIX};

/// `store.redis:`
#[derive(Clone, Debug)]
pub struct RedisConfig {
    /// The URL as given, which may hold a password: it is a secret.
    pub url: SecretString,
    pub username: Option<Secret>,
    pub password: Option<Secret>,
    /// Where credentials come from that end, in place of a password.
    pub auth: Option<AuthConfig>,
    pub tls: TlsConfig,
    pub key_prefix: String,
    pub command_timeout: Duration,
    /// How many replicas must acknowledge (R6).
    pub replication: Replication,
    /// What becomes of an acknowledged write when another server takes over.
    pub durability: Durability,
    /// Whether R5 holds.
    pub guard: Guard,
}

impl RedisConfig {
    /// How much of R5 is in force: where no server forgets what another acknowledged, it is nobody's matter which of
    /// them answers.
    pub fn guard_in_force(&self) -> Guard {
        match (self.durability, self.guard) {
            (Durability::Synchronous, Guard::Strict) => Guard::Heard,
            (Durability::Asynchronous | Durability::Synchronous, guard) => guard,
        }
    }
}

/// Two are the same when they are given in the same way: a reload asks.
impl PartialEq for RedisConfig {
    fn eq(&self, other: &Self) -> bool {
        // Taken apart, so that a new key cannot be forgotten here.
        let Self { url, username, password, auth, tls, key_prefix, command_timeout, replication, durability, guard } =
            self;
        url.expose_secret() == other.url.expose_secret()
            && *username == other.username
            && *password == other.password
            && *auth == other.auth
            && *tls == other.tls
            && *key_prefix == other.key_prefix
            && *command_timeout == other.command_timeout
            && *replication == other.replication
            && *durability == other.durability
            && *guard == other.guard
    }
}

/// `store.redis.tls:`. Paths of PEM files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsConfig {
    /// Certificate authorities to trust instead of the system's.
    pub ca_file: Option<PathBuf>,
    /// The client's certificate and its key: both or none.
    pub client: Option<(PathBuf, PathBuf)>,
}

/// `store.redis.replication:` (R6)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replication {
    /// How many replicas; zero asks for none.
    pub acks: u32,
    /// WAIT (in memory) or WAITAOF (on disk).
    pub mode: AckMode,
    pub timeout: Duration,
}

/// `store.redis.replication.mode:`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AckMode {
    Wait,
    WaitAof,
}

/// `store.redis.durability:`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// A failover or a restart may forget writes that were acknowledged: every Redis.
    Asynchronous,
    /// None does, for a write is acknowledged once it is in a log that outlives the server.
    Synchronous,
}

const URL: Key<RedisUrl> = required(
    "url",
    RedisUrl,
    "Where it is: `redis://host:6379/0`, or rediss (TLS), redis-sentinel, redis-cluster. May hold a password, so it is \
     treated as a secret.",
);
pub(super) const USERNAME: Key<Text> =
    key("username", Text::ANY, "The user, when the URL names none. Excludes `usernameFile`.");
pub(super) const USERNAME_FILE: Key<File> = key("usernameFile", File(not_empty), "A file with the user's name.");
pub(super) const PASSWORD: Key<Text> = key(
    "password",
    Text::ANY,
    "The password, when the URL has none; better from `${ENV}` than written here. Excludes `passwordFile`.",
);
pub(super) const PASSWORD_FILE: Key<File> =
    key("passwordFile", File(not_empty), "A file with the password; another one is told to live connections, too.");
const TLS: Key<Group> = key("tls", Group(&TLS_FILES), "Certificates for `rediss:`.");
pub(super) const KEY_PREFIX: Key<Or<Form<String>>> = key(
    "keyPrefix",
    Or(Form { pattern: "^[A-Za-z0-9_.:-]{1,64}$", parse: key_prefix }, PREFIX),
    "What every key and channel begins with.",
);
pub(super) const COMMAND_TIMEOUT: Key<Span> = key(
    "commandTimeout",
    Span::POSITIVE,
    "When a command counts as unanswered. In `store` less than every role's renewPeriod. Default: 1s, or half the \
     shortest renewPeriod when that is 1s or less. In `locks.store` likewise with a third of `locks.lease`. In \
     `jobsStore` any; default: 1s.",
);
const COMMAND_TIMEOUT_USUAL: Duration = Duration::from_secs(1);
const REPLICATION: Key<Group> =
    key("replication", Group(&ACKNOWLEDGEMENT), "How many replicas must acknowledge a grant or renewal.");
const GUARD: Key<Or<Words<Guard>>> = key(
    "guard",
    Or(Guard::WORDS, Guard::Strict),
    "What happens when Redis may have forgotten a lease: `strict` grants nobody new for one lease (locks: for \
     `locks.guard`), `heard` only where that was heard of or everything is forgotten, `off` does.",
);
const DURABILITY: Key<Or<Words<Durability>>> = key(
    "durability",
    Or(
        Words::of(&[("asynchronous", Durability::Asynchronous), ("synchronous", Durability::Synchronous)]),
        Durability::Asynchronous,
    ),
    "`synchronous`: no failover and no restart forgets a write that was acknowledged, as of a store that acknowledges \
     by a log (MemoryDB): then none of them costs a wait. Of any other it is not true, and two may lead.",
);

pub(super) const REDIS: Section = Section::new(
    "Redis",
    "One Redis.",
    &[
        &URL,
        &USERNAME,
        &USERNAME_FILE,
        &PASSWORD,
        &PASSWORD_FILE,
        &AUTH,
        &TLS,
        &KEY_PREFIX,
        &COMMAND_TIMEOUT,
        &REPLICATION,
        &DURABILITY,
        &GUARD,
    ],
);

const CA_FILE: Key<File> = key("caFile", File(pem), "The certificate authorities to trust instead of the system's.");
const CERT_FILE: Key<File> = key("certFile", File(pem), "The client's certificate; needs `keyFile`.");
const KEY_FILE: Key<File> = key("keyFile", File(pem), "The client's key; needs `certFile`.");

pub(super) const TLS_FILES: Section =
    Section::new("Tls", "PEM files for `rediss:`.", &[&CA_FILE, &CERT_FILE, &KEY_FILE])
        .with(Rule::Together("certFile", "keyFile"));

const ACKS: Key<Or<Count>> = key(
    "acks",
    Or(Count(0, 16), 0),
    "How many replicas must have a grant or renewal before it counts; 0 asks for none.",
);
const MODE: Key<Or<Words<AckMode>>> = key(
    "mode",
    Or(Words::of(&[("wait", AckMode::Wait), ("waitaof", AckMode::WaitAof)]), AckMode::Wait),
    "`wait`: replicas have it in memory; `waitaof`: on disk (Redis 7.2).",
);
const ACK_TIMEOUT: Key<Span> = key(
    "timeout",
    Span::POSITIVE,
    "How long to wait for them. Less than commandTimeout. Default: 500ms, or half of commandTimeout when that is less.",
);
const ACK_TIMEOUT_USUAL: Duration = Duration::from_millis(500);

const ACKNOWLEDGEMENT: Section =
    Section::new("Replication", "Acknowledgement by Redis's own replicas.", &[&ACKS, &MODE, &ACK_TIMEOUT]);

/// What is kept in a Redis, by which its risks are told.
#[derive(Clone, Copy)]
pub(super) enum Kept {
    /// Leases, and whatever else.
    Leases,
    /// Locks alone.
    Locks,
    /// Ledgers of jobs alone.
    Ledgers,
}

impl Kept {
    /// What `guard: off` costs.
    fn without_guard(self) -> &'static str {
        match self {
            Self::Leases => "off: when Redis loses its data or fails over, two replicas may lead at once",
            Self::Locks => "off: when Redis loses its data or fails over, a lock may be granted to two at once",
            Self::Ledgers => {
                "off: ledgers have no guard; it only lets in a Redis that does not tell the generation of its data"
            }
        }
    }

    /// What `guard: heard` costs.
    fn with_what_is_heard(self) -> &'static str {
        match self {
            Self::Leases => {
                "heard: when Redis fails over, or restarts without its last writes, two replicas may lead at once"
            }
            Self::Locks => {
                "heard: when Redis fails over, or restarts without its last writes, two may be granted a lock"
            }
            Self::Ledgers => "heard: ledgers have no guard; it is as good as `off` here",
        }
    }

    /// What a Redis with replicas costs, none of which has to acknowledge.
    fn without_acks(self) -> String {
        let cost = match self {
            Self::Leases => "Redis can be split, and each part can have a leader",
            Self::Locks => "Redis can be split, and each part can grant a lock",
            Self::Ledgers => "a failover can forget claims, so that a run is repeated",
        };
        format!(
            "with replicas behind it, {cost}; set acks to 1 or more, or, if it acknowledges by a log (MemoryDB), \
             durability to synchronous"
        )
    }
}

/// `period`: the shortest time within which a command must have been given up, if there is one.
pub(super) fn read(s: &Reader<'_>, kept: Kept, period: Option<Duration>) -> Option<RedisConfig> {
    let access = Access::read(s, &URL);
    let facts = access.url.as_ref().map(|(_, facts)| *facts);
    let command_timeout = s.given(&COMMAND_TIMEOUT);
    let tls = tls(&s.at(&TLS), facts);
    let timeout = command_timeout.unwrap_or_else(|| timeout_within(COMMAND_TIMEOUT_USUAL, period));
    let replication = replication(&s.at(&REPLICATION), timeout, s.at(&COMMAND_TIMEOUT).is_bad());
    let guard = s.get(&GUARD);
    let durability = s.get(&DURABILITY);
    let forgets = durability == Durability::Asynchronous;
    match guard {
        Guard::Off => s.at(&GUARD).warning(kept.without_guard()),
        Guard::Heard if forgets => s.at(&GUARD).warning(kept.with_what_is_heard()),
        Guard::Strict | Guard::Heard => {}
    }
    let is_alone = facts.is_none_or(|facts| facts.deployment == Deployment::Single);
    if forgets && !is_alone && replication.acks == 0 {
        s.at(&REPLICATION).warning(kept.without_acks());
    }
    if !forgets && replication.acks > 0 {
        s.at(&DURABILITY).problem(
            "is synchronous beside replication.acks: what its log has needs no replica's word, and where replicas have \
             to be asked for it, a failover can forget; keep one of the two",
        );
    }
    let (url, _) = access.url?;
    Some(RedisConfig {
        url,
        username: access.username,
        password: access.password,
        auth: access.auth,
        tls,
        key_prefix: s.get(&KEY_PREFIX),
        command_timeout: timeout,
        replication,
        durability,
        guard,
    })
}

/// Where a Redis is, and who asks it.
pub(super) struct Access {
    pub(super) url: Option<(SecretString, UrlFacts)>,
    pub(super) username: Option<Secret>,
    pub(super) password: Option<Secret>,
    pub(super) auth: Option<AuthConfig>,
}

impl Access {
    pub(super) fn read(s: &Reader<'_>, url: &Key<RedisUrl>) -> Self {
        let url = s.given(url);
        let username = credential(s, &USERNAME, &USERNAME_FILE);
        if s.has(&PASSWORD) && !s.at(&PASSWORD).is_from_environment() {
            s.at(&PASSWORD).warning("is written in plain text; better passwordFile, or `${ENV}`");
        }
        let password = credential(s, &PASSWORD, &PASSWORD_FILE);
        let facts = url.as_ref().map(|(_, facts)| *facts);
        let auth = auth::read(s, facts, username.is_some() || facts.is_some_and(|facts| facts.names_user));
        if let Some(facts) = facts {
            contradictions(s, facts);
        }
        Self { url, username, password, auth }
    }
}

/// A user's name or a password: by value or from a file, not both.
fn credential(s: &Reader<'_>, value: &Key<Text>, file: &Key<File>) -> Option<Secret> {
    if s.has(value) && s.has(file) {
        s.at(file).problem(format!("is given beside {}; keep one of the two", value.name));
    }
    match s.given(value) {
        Some(text) => Some(Secret::Value(SecretString::from(text))),
        None => s.given(file).map(Secret::File),
    }
}

/// The URL and the keys beside it must not both name a user or a password.
fn contradictions(s: &Reader<'_>, facts: UrlFacts) {
    let user: [&AnyKey; 2] = [&USERNAME, &USERNAME_FILE];
    let password: [&AnyKey; 2] = [&PASSWORD, &PASSWORD_FILE];
    for (keys, in_url, what) in [(user, facts.names_user, "user"), (password, facts.has_password, "password")] {
        for key in keys.into_iter().filter(|key| in_url && s.has(key)) {
            s.at(key).problem(format!("the url names a {what} too; keep one of the two"));
        }
    }
    if s.has(&AUTH) && (facts.has_password || password.iter().any(|key| s.has(key))) {
        s.at(&AUTH).problem("is given beside a password; keep one of the two");
    }
    let has_user = facts.names_user || user.iter().any(|key| s.has(key));
    let has_password = s.has(&AUTH) || facts.has_password || password.iter().any(|key| s.has(key));
    if has_user && !has_password {
        s.warning("a user is named but no password is given; Redis will be asked without either");
    }
}

pub(super) fn tls(s: &Reader<'_>, facts: Option<UrlFacts>) -> TlsConfig {
    if s.node.is_some() && facts.is_some_and(|facts| !facts.tls) {
        s.problem(
            "is given, but the url does not ask for TLS, so nothing would be encrypted; begin the url with `rediss`, \
             or remove tls",
        );
    }
    for (key, other) in [(&CERT_FILE, &KEY_FILE), (&KEY_FILE, &CERT_FILE)] {
        if s.has(key) && !s.has(other) {
            s.at(key).problem(format!("needs {} beside it: a client has both or neither", other.name));
        }
    }
    TlsConfig { ca_file: s.given(&CA_FILE), client: s.given(&CERT_FILE).zip(s.given(&KEY_FILE)) }
}

fn replication(s: &Reader<'_>, command_timeout: Duration, is_unknown: bool) -> Replication {
    let timeout = s.given(&ACK_TIMEOUT).unwrap_or_else(|| ACK_TIMEOUT_USUAL.min(command_timeout / 2));
    if timeout >= command_timeout && !is_unknown {
        s.at(&ACK_TIMEOUT).problem(format!(
            "is {timeout:?}; it must be less than commandTimeout, {command_timeout:?}, which it is a part of"
        ));
    }
    Replication { acks: s.get(&ACKS), mode: s.get(&MODE), timeout }
}

fn key_prefix(text: &str) -> Result<String, String> {
    const BYTES_MAX: usize = 64;
    let fits = text.len() <= BYTES_MAX && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"_.:-".contains(&b));
    let why = || format!("cannot begin a key; use 1 to {BYTES_MAX} of A-Z, a-z, 0-9, `_`, `.`, `:` and `-`");
    if fits { Ok(text.to_owned()) } else { Err(why()) }
}

/// Judges a certificate or key file.
fn pem(content: &str) -> Result<(), &'static str> {
    if content.contains("-----BEGIN ") { Ok(()) } else { Err("is not a PEM file (no `-----BEGIN …`)") }
}
