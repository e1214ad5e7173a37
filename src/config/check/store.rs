//! `store:`

use std::time::Duration;

use secrecy::SecretString;

use super::Checker;
use super::scalar::not_empty;
use super::url::{Deployment, UrlFacts, inspect};
use crate::config::model::{
    AckMode, Guard, PREFIX, RedisConfig, Replication, RoleConfig, Secret, StoreConfig, TlsConfig,
};
use crate::config::position::Path;
use crate::config::raw::{RawOwnStore, RawRedis, RawReplication, RawStore, RawTls, Scalar};

const KEY_PREFIX_BYTES_MAX: usize = 64;
const COMMAND_TIMEOUT: Duration = Duration::from_secs(1);
const ACK_TIMEOUT: Duration = Duration::from_millis(500);
const ACKS_MAX: u32 = 16;

/// What is kept in a store, by which its timeout and its risks are judged.
#[derive(Clone, Copy)]
pub(super) enum Kept<'c> {
    /// The leases of these roles, and whatever else it has.
    Leases(&'c [RoleConfig]),
    /// Locks alone.
    Locks {
        /// How often one is renewed, whose request names no lease, as long as it is held.
        renewed_every: Duration,
    },
    /// Ledgers of jobs alone. Nothing ends because one of them is not answered for a while.
    Ledgers,
}

impl Kept<'_> {
    /// The shortest time within which a command must have been given up.
    fn period(self) -> Option<Duration> {
        match self {
            Self::Leases(roles) => roles.iter().map(|role| role.timing.renew_period()).min(),
            Self::Locks { renewed_every } => Some(renewed_every),
            Self::Ledgers => None,
        }
    }

    /// What is wrong with a command timeout.
    fn objections(self, timeout: Duration) -> Vec<String> {
        match self {
            Self::Leases(roles) => {
                let of_role = |role: &RoleConfig| {
                    let problem = role.timing.check_command_timeout(timeout).err()?;
                    Some(format!("{problem} (role {})", role.name))
                };
                roles.iter().filter_map(of_role).collect()
            }
            Self::Locks { renewed_every } if timeout >= renewed_every => vec![format!(
                "is {timeout:?}; it must be less than a third of locks.lease, {renewed_every:?}, after which a lock is \
                 renewed"
            )],
            Self::Locks { .. } | Self::Ledgers => Vec::new(),
        }
    }

    /// What `guard: off` costs.
    fn without_guard(self) -> &'static str {
        match self {
            Self::Leases(_) => "off: when Redis loses its data or fails over, two replicas may lead at once",
            Self::Locks { .. } => "off: when Redis loses its data or fails over, a lock may be granted to two at once",
            Self::Ledgers => {
                "off: ledgers have no guard; it only lets in a Redis that does not tell the generation of its data"
            }
        }
    }

    /// What a Redis with replicas costs, none of which has to acknowledge.
    fn without_acks(self) -> &'static str {
        match self {
            Self::Leases(_) => {
                "with replicas behind it, Redis can be split, and each part can have a leader; set acks to 1 or more"
            }
            Self::Locks { .. } => {
                "with replicas behind it, Redis can be split, and each part can grant a lock; set acks to 1 or more"
            }
            Self::Ledgers => {
                "with replicas behind it, a failover can forget claims, so that a run is repeated; set acks to 1 or \
                 more"
            }
        }
    }
}

impl Checker<'_> {
    /// Exactly one store.
    pub(super) fn store(&mut self, raw: Option<&RawStore>, roles: &[RoleConfig], path: &Path) -> Option<StoreConfig> {
        let raw = raw?;
        let given = [
            ("redis", raw.redis.is_some()),
            ("quorum", raw.quorum.is_some()),
            ("kubernetes", raw.kubernetes.is_some()),
            ("memory", raw.memory.is_some()),
        ];
        let given: Vec<&str> = given.into_iter().filter_map(|(name, given)| given.then_some(name)).collect();
        if given.len() > 1 {
            let (count, names) = (if given.len() == 2 { "two" } else { "several" }, given.join(" and "));
            self.problem(path, format!("has {count} stores, {names}; keep exactly one"));
            return None;
        }
        match (&raw.redis, &raw.quorum, &raw.kubernetes, &raw.memory) {
            (Some(redis), ..) => {
                let redis = self.redis(redis, Kept::Leases(roles), &path.key("redis"))?;
                Some(StoreConfig::Redis(Box::new(redis)))
            }
            (_, Some(quorum), ..) => {
                let quorum = self.quorum(quorum, roles, &path.key("quorum"))?;
                Some(StoreConfig::Quorum(Box::new(quorum)))
            }
            (_, _, Some(leases), _) => {
                let leases = self.leases(leases, roles, &path.key("kubernetes"))?;
                Some(StoreConfig::Kubernetes(leases))
            }
            (.., Some(_)) => {
                let message =
                    "the memory store is inside this process: other replicas do not see it, and each would lead";
                self.warning(&path.key("memory"), message.to_owned());
                Some(StoreConfig::Memory)
            }
            (None, None, None, None) => {
                if !self.has_bad_within(path) {
                    let message = "names no store; write exactly one, such as `redis: { url: redis://redis:6379/0 }`";
                    self.problem(path, message.to_owned());
                }
                None
            }
        }
    }

    /// A store for locks or ledgers alone.
    pub(super) fn own_store(&mut self, raw: &RawOwnStore, kept: Kept<'_>, path: &Path) -> Option<StoreConfig> {
        let redis = self.redis(raw.redis.as_ref()?, kept, &path.key("redis"))?;
        Some(StoreConfig::Redis(Box::new(redis)))
    }

    fn redis(&mut self, raw: &RawRedis, kept: Kept<'_>, path: &Path) -> Option<RedisConfig> {
        let (url, facts) = self.url(raw.url.as_ref(), &path.key("url")).unzip();
        let username = self.credential("username", (&raw.username, &raw.username_file), path);
        let password = self.credential("password", (&raw.password, &raw.password_file), path);
        if let Some(facts) = facts {
            self.credentials_agree(raw, facts, path);
        }
        let tls = self.tls(raw.tls.as_ref(), facts, &path.key("tls"));
        let key_prefix = self.key_prefix(raw.key_prefix.as_ref(), &path.key("keyPrefix"));
        let command_timeout =
            self.command_timeout(raw.command_timeout.as_ref(), COMMAND_TIMEOUT, kept, &path.key("commandTimeout"));
        let replication = self.replication(raw.replication.as_ref(), command_timeout, &path.key("replication"));
        let guard = self.guard(raw.guard.as_ref(), kept.without_guard(), &path.key("guard"));
        let may_split = facts.is_some_and(|facts| facts.deployment != Deployment::Single);
        if may_split && replication.is_some_and(|replication| replication.acks == 0) {
            self.warning(&path.key("replication"), kept.without_acks().to_owned());
        }
        Some(RedisConfig {
            url: url?,
            username,
            password,
            tls: tls?,
            key_prefix: key_prefix?,
            command_timeout: command_timeout?,
            replication: replication?,
            guard,
        })
    }

    pub(super) fn url(&mut self, given: Option<&Scalar>, path: &Path) -> Option<(SecretString, UrlFacts)> {
        let text = self.text(given, path)?;
        match inspect(text) {
            Ok(facts) => {
                if facts.holds_secret && !self.sources.contains_key(path) {
                    let message = "holds a password in plain text; better passwordFile, or `${ENV}` in its place";
                    self.warning(path, message.to_owned());
                }
                Some((SecretString::from(text), facts))
            }
            Err(problems) => {
                for problem in problems {
                    self.problem(path, problem);
                }
                None
            }
        }
    }

    /// A user's name or a password: by value or from a file, not both.
    pub(super) fn credential(
        &mut self,
        key: &'static str,
        (value, file): (&Option<Scalar>, &Option<Scalar>),
        path: &Path,
    ) -> Option<Secret> {
        let (value_path, file_path) = (path.key(key), path.key(&format!("{key}File")));
        if value.is_some() && file.is_some() {
            self.problem(&file_path, format!("is given beside {key}; keep one of the two"));
        }
        if value.is_some() && key == "password" && !self.sources.contains_key(&value_path) {
            self.warning(&value_path, "is written in plain text; better passwordFile, or `${ENV}`".to_owned());
        }
        match self.text(value.as_ref(), &value_path) {
            Some(text) => Some(Secret::Value(SecretString::from(text))),
            None => self.file(file.as_ref(), &file_path, not_empty).map(Secret::File),
        }
    }

    /// The URL and the keys beside it must not both name a user or a password.
    pub(super) fn credentials_agree(&mut self, raw: &RawRedis, facts: UrlFacts, path: &Path) {
        let user = [("username", raw.username.is_some()), ("usernameFile", raw.username_file.is_some())];
        let password = [("password", raw.password.is_some()), ("passwordFile", raw.password_file.is_some())];
        let in_url = [(user, facts.names_user, "user"), (password, facts.has_password, "password")];
        for (key, what) in in_url
            .into_iter()
            .filter(|(_, in_url, _)| *in_url)
            .flat_map(|(keys, _, what)| keys.into_iter().filter(|(_, given)| *given).map(move |(key, _)| (key, what)))
        {
            self.problem(&path.key(key), format!("the url names a {what} too; keep one of the two"));
        }
        let has_user = facts.names_user || user.iter().any(|(_, given)| *given);
        let has_password = facts.has_password || password.iter().any(|(_, given)| *given);
        if has_user && !has_password && !self.has_bad_within(path) {
            let message = "a user is named but no password is given; Redis will be asked without either";
            self.warning(path, message.to_owned());
        }
    }

    pub(super) fn tls(&mut self, raw: Option<&RawTls>, facts: Option<UrlFacts>, path: &Path) -> Option<TlsConfig> {
        let Some(raw) = raw else { return (!self.has_bad_within(path)).then(TlsConfig::default) };
        if facts.is_some_and(|facts| !facts.tls) {
            let message = "is given, but the url does not ask for TLS, so nothing would be encrypted; begin the url \
                           with `rediss`, or remove tls";
            self.problem(path, message.to_owned());
        }
        let ca_file = self.file(raw.ca_file.as_ref(), &path.key("caFile"), pem);
        let cert_file = self.file(raw.cert_file.as_ref(), &path.key("certFile"), pem);
        let key_file = self.file(raw.key_file.as_ref(), &path.key("keyFile"), pem);
        for (given, key, absent, other) in [
            (&raw.cert_file, "certFile", &raw.key_file, "keyFile"),
            (&raw.key_file, "keyFile", &raw.cert_file, "certFile"),
        ] {
            if given.is_some() && absent.is_none() && !self.is_bad(&path.key(other)) {
                self.problem(&path.key(key), format!("needs {other} beside it: a client has both or neither"));
            }
        }
        Some(TlsConfig { ca_file, client: cert_file.zip(key_file) })
    }

    pub(super) fn key_prefix(&mut self, given: Option<&Scalar>, path: &Path) -> Option<String> {
        let Some(value) = given else { return Some(PREFIX.to_owned()) };
        let text = self.text(given, path)?;
        let fits = text.len() <= KEY_PREFIX_BYTES_MAX
            && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"_.:-".contains(&b));
        if !fits {
            let shown = self.shown(value, path);
            let message = format!(
                "{shown} cannot begin a key; use 1 to {KEY_PREFIX_BYTES_MAX} of A-Z, a-z, 0-9, `_`, `.`, `:` and `-`"
            );
            self.problem(path, message);
            return None;
        }
        Some(text.to_owned())
    }

    /// As given, else `usual`, or half the shortest period where `usual` would not be shorter than it.
    pub(super) fn command_timeout(
        &mut self,
        given: Option<&Scalar>,
        usual: Duration,
        kept: Kept<'_>,
        path: &Path,
    ) -> Option<Duration> {
        if self.is_bad(path) {
            return None;
        }
        if given.is_none() {
            return Some(kept.period().filter(|shortest| *shortest <= usual).map_or(usual, |s| s / 2));
        }
        let timeout = self.positive_duration(given, path)?;
        let objections = kept.objections(timeout);
        let fits = objections.is_empty();
        for objection in objections {
            self.problem(path, objection);
        }
        fits.then_some(timeout)
    }

    fn replication(
        &mut self,
        raw: Option<&RawReplication>,
        command_timeout: Option<Duration>,
        path: &Path,
    ) -> Option<Replication> {
        let modes = [("wait", AckMode::Wait), ("waitaof", AckMode::WaitAof)];
        let timeout_path = path.key("timeout");
        let acks = self.count(raw.and_then(|raw| raw.acks.as_ref()), &path.key("acks"), 0..=ACKS_MAX);
        let mode = self.word(raw.and_then(|raw| raw.mode.as_ref()), &path.key("mode"), &modes);
        let given = self.positive_duration(raw.and_then(|raw| raw.timeout.as_ref()), &timeout_path);
        // Without a command timeout there is a problem of that already.
        let command_timeout = command_timeout?;
        let timeout = given.unwrap_or_else(|| ACK_TIMEOUT.min(command_timeout / 2));
        if timeout >= command_timeout {
            let message = format!(
                "is {timeout:?}; it must be less than commandTimeout, {command_timeout:?}, which it is a part of"
            );
            self.problem(&timeout_path, message);
        }
        Some(Replication { acks: acks.unwrap_or(0), mode: mode.unwrap_or(AckMode::Wait), timeout })
    }

    /// `careless` is what `off` costs.
    pub(super) fn guard(&mut self, given: Option<&Scalar>, careless: &str, path: &Path) -> Guard {
        // YAML 1.1 tools, and people who think in it, turn `off` into false.
        let words = [("strict", Guard::Strict), ("off", Guard::Off)];
        let guard = match given {
            Some(Scalar::Bool(false)) => Some(Guard::Off),
            _ => self.word(given, path, &words),
        };
        if guard == Some(Guard::Off) {
            self.warning(path, careless.to_owned());
        }
        guard.unwrap_or(Guard::Strict)
    }
}

/// Judges a certificate or key file.
fn pem(content: &str) -> Result<(), &'static str> {
    if content.contains("-----BEGIN ") { Ok(()) } else { Err("is not a PEM file (no `-----BEGIN …`)") }
}
