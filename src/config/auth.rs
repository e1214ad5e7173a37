//! `auth:` of a Redis: credentials that end, and where the next one comes from.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use super::redis_url::UrlFacts;
use super::runs::{Argument, arguments};
use super::secret::read_small;
use super::section::{AnyKey, Group, Key, Or, Reader, Rule, Section, key, required};
use super::value::{Flag, List, Span, Text, Words};

/// `auth:`, exactly one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AuthConfig {
    /// A file that something else writes anew before its token ends.
    File(PathBuf),
    /// A program that prints a token.
    Command(TokenCommand),
    /// A signed request to connect, as ElastiCache and MemoryDB take for a password.
    AwsIam(AwsIamConfig),
    /// A token of Entra ID, as Azure's caches take.
    Entra(EntraConfig),
    /// The access token of the service account, as Memorystore takes.
    Gcp,
}

impl AuthConfig {
    /// Its key.
    pub fn name(&self) -> &'static str {
        match self {
            Self::File(_) => FILE.name,
            Self::Command(_) => COMMAND.name,
            Self::AwsIam(_) => AWS_IAM.name,
            Self::Entra(_) => ENTRA.name,
            Self::Gcp => GCP.name,
        }
    }
}

/// `auth.command:`
#[derive(Clone, PartialEq, Eq)]
pub struct TokenCommand {
    /// The program and its arguments.
    pub argv: Vec<String>,
    /// When it counts as hung.
    pub timeout: Duration,
    /// How long a token lasts that does not say so itself.
    pub lifetime: Duration,
}

/// Only the program: an argument may be a secret.
impl fmt::Debug for TokenCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenCommand")
            .field("argv", &self.argv.first())
            .field("timeout", &self.timeout)
            .field("lifetime", &self.lifetime)
            .finish()
    }
}

/// `auth.awsIam:`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AwsIamConfig {
    /// The replication group's, serverless cache's or MemoryDB cluster's name.
    pub cluster: String,
    /// Where it is; else where this pod is, as AWS_REGION says.
    pub region: Option<String>,
    pub service: AwsService,
    /// Whether it is a serverless cache.
    pub serverless: bool,
}

/// `auth.awsIam.service:`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AwsService {
    ElastiCache,
    MemoryDb,
}

impl AwsService {
    /// As AWS calls it where requests are signed.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ElastiCache => "elasticache",
            Self::MemoryDb => "memorydb",
        }
    }
}

/// `auth.entra:`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntraConfig {
    /// The application or managed identity; else as AZURE_CLIENT_ID says.
    pub client_id: Option<String>,
    /// The directory; else as AZURE_TENANT_ID says.
    pub tenant_id: Option<String>,
    /// What the token is to be good for.
    pub scope: String,
}

const FILE: Key<Text> = key(
    "file",
    Text::ANY,
    "A file with a token, which something else writes anew before it ends. It is looked at all the time.",
);
const COMMAND: Key<Group> = key("command", Group(&TOKEN_COMMAND), "A program that prints a token.");
const AWS_IAM: Key<Group> =
    key("awsIam", Group(&SIGNED), "Amazon ElastiCache and MemoryDB with IAM: signed with the pod's role.");
const ENTRA: Key<Group> =
    key("entra", Group(&DIRECTORY), "Azure's caches with Entra ID: workload identity, or a managed identity.");
const GCP: Key<Group> =
    key("gcp", Group(&METADATA), "Google Memorystore with IAM: the token of the pod's service account.");

pub(super) const AUTH: Key<Group> = key(
    "auth",
    Group(&SOURCES),
    "Credentials that end, in place of a password: exactly one source. Live connections are told of each new one.",
);

const SOURCES: Section = Section::new(
    "Auth",
    "Where credentials that end come from: exactly one source.",
    &[&FILE, &COMMAND, &AWS_IAM, &ENTRA, &GCP],
)
.with(Rule::ExactlyOne);

const ARGV: Key<List<Argument>> = required(
    "argv",
    List { item: Argument, min: 1, max: usize::MAX },
    "The program and its arguments. No shell reads them. It prints a token, or \
     `{\"token\": …, \"username\": …, \"expiresAt\": …}`, of which only the token must be there.",
);
const TIMEOUT: Key<Or<Span>> = key(
    "timeout",
    Or(Span::up_to(Duration::from_secs(60)), Duration::from_secs(10)),
    "After how long it is killed; at most {max}.",
);
const LIFETIME: Key<Or<Span>> = key(
    "lifetime",
    Or(Span::between(Duration::from_secs(1), Duration::from_secs(24 * 60 * 60)), Duration::from_secs(10 * 60)),
    "How long a token lasts that does not say so: {min} to {max}.",
);
const TOKEN_COMMAND: Section =
    Section::new("TokenCommand", "A program that prints a token.", &[&ARGV, &TIMEOUT, &LIFETIME]);

const CLUSTER: Key<Text> = required(
    "cluster",
    Text::like("^[A-Za-z][A-Za-z0-9-]*$"),
    "The name of the replication group, of the serverless cache, or of the MemoryDB cluster: no host.",
);
const REGION: Key<Text> =
    key("region", Text::like("^[a-z0-9-]+$"), "Where it is, such as eu-central-1. Default: what AWS_REGION says.");
const SERVICE: Key<Or<Words<AwsService>>> = key(
    "service",
    Or(
        Words::of(&[("elasticache", AwsService::ElastiCache), ("memorydb", AwsService::MemoryDb)]),
        AwsService::ElastiCache,
    ),
    "Whose it is: `elasticache` or `memorydb`.",
);
const SERVERLESS: Key<Or<Flag>> =
    key("serverless", Or(Flag, false), "Whether it is a serverless cache of ElastiCache.");
const SIGNED: Section =
    Section::new("AwsIam", "Amazon ElastiCache and MemoryDB with IAM.", &[&CLUSTER, &REGION, &SERVICE, &SERVERLESS]);

const CLIENT_ID: Key<Text> =
    key("clientId", Text::ANY, "The application or managed identity. Default: what AZURE_CLIENT_ID says.");
const TENANT_ID: Key<Text> = key(
    "tenantId",
    Text::like("^[A-Za-z0-9.-]+$"),
    "The directory, with workload identity. Default: what AZURE_TENANT_ID says.",
);
const SCOPE: Key<Or<Text>> =
    key("scope", Or(Text::ANY, "https://redis.azure.com/.default"), "What the token is to be good for.");
const DIRECTORY: Section =
    Section::new("Entra", "Azure's caches with Entra ID.", &[&CLIENT_ID, &TENANT_ID, &SCOPE]).with(Rule::MayBeEmpty);

const METADATA: Section =
    Section::new("Gcp", "Google Memorystore with IAM; nothing to set.", &[]).with(Rule::MayBeEmpty);

/// Where credentials come from, if not from a password. `s` is the Redis; `names_user`: whether a user is named there.
pub(super) fn read(s: &Reader<'_>, facts: Option<UrlFacts>, names_user: bool) -> Option<AuthConfig> {
    let at = s.given(&AUTH)?;
    let keys: [&AnyKey; 5] = [&FILE, &COMMAND, &AWS_IAM, &ENTRA, &GCP];
    let names: Vec<&str> = keys.into_iter().filter(|key| at.has(key)).map(|key| key.name).collect();
    if names.len() > 1 {
        at.problem(format!("has {} sources, {}; keep exactly one", names.len(), names.join(" and ")));
        return None;
    }
    if names.is_empty() && at.is_sound() {
        at.problem("names no source; write exactly one, such as `file: /var/run/secrets/redis/token`");
    }
    let auth = if let Some(path) = at.given(&FILE) {
        Some(AuthConfig::File(file(&at.at(&FILE), path)))
    } else if let Some(command) = at.given(&COMMAND) {
        token_command(&command).map(AuthConfig::Command)
    } else if let Some(signed) = at.given(&AWS_IAM) {
        if !names_user {
            signed.problem("signs for one user: name it, as username beside auth");
        }
        aws_iam(&signed).map(AuthConfig::AwsIam)
    } else if let Some(directory) = at.given(&ENTRA) {
        let (client_id, tenant_id) = (directory.given(&CLIENT_ID), directory.given(&TENANT_ID));
        Some(AuthConfig::Entra(EntraConfig { client_id, tenant_id, scope: directory.get(&SCOPE) }))
    } else {
        at.given(&GCP).map(|_| AuthConfig::Gcp)
    };
    let is_of_a_cloud =
        matches!(auth, Some(AuthConfig::AwsIam(_) | AuthConfig::Entra(_) | AuthConfig::Gcp)) && at.is_sound();
    if is_of_a_cloud && facts.is_some_and(|facts| !facts.tls) {
        at.warning(
            "sends tokens that anybody on the way could use: begin the url with `rediss`, as these services ask",
        );
    }
    auth
}

/// It may be written only after Baton has started, by a container beside it.
fn file(at: &Reader<'_>, path: String) -> PathBuf {
    let path = PathBuf::from(path);
    if let Err(error) = read_small(&path) {
        at.warning(format!("{} cannot be read yet: {error}; until it can, nobody connects", path.display()));
    }
    path
}

fn token_command(s: &Reader<'_>) -> Option<TokenCommand> {
    let (timeout, lifetime) = (s.get(&TIMEOUT), s.get(&LIFETIME));
    Some(TokenCommand { argv: arguments(s, &ARGV)?, timeout, lifetime })
}

fn aws_iam(s: &Reader<'_>) -> Option<AwsIamConfig> {
    let (service, serverless) = (s.get(&SERVICE), s.get(&SERVERLESS));
    if serverless && service == AwsService::MemoryDb {
        s.at(&SERVERLESS).problem("is for ElastiCache: MemoryDB has no serverless clusters; remove it");
    }
    // It is signed as a host, and AWS keeps names in lower case.
    let cluster = s.given(&CLUSTER)?.to_ascii_lowercase();
    if !cluster.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
        s.at(&CLUSTER).problem("is no name of a cluster: give its name as AWS shows it, not the host of its endpoint");
        return None;
    }
    Some(AwsIamConfig { cluster, region: s.given(&REGION), service, serverless })
}
