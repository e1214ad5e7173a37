//! What an error of fred or of Redis means, in words for the person who has to do something about it. No text here
//! repeats a password, a user's name or a URL.

use std::time::Duration;

use fred::error::{Error, ErrorKind};

use super::cluster::NodeAddress;
use crate::store::StoreError;

/// Why a [`RedisStore`](super::RedisStore) cannot be made at all. Everything else is tried again in the background.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SetupError {
    /// `store.redis.url` is not one. The URL is not repeated, since it may hold a password.
    #[error("store.redis.url: {reason}")]
    Url {
        /// What is wrong, and what would be right.
        reason: String,
    },
    /// A file of `store.redis.tls` cannot be used.
    #[error("store.redis.tls: {reason}")]
    Tls {
        /// Which file, and why.
        reason: String,
    },
    /// The same of a Redis that another section names.
    #[error("{path}: {reason}")]
    Elsewhere {
        /// Which key it is.
        path: String,
        /// What is wrong with it.
        reason: String,
    },
}

impl SetupError {
    /// The same of the Redis of this section, which has its URL under the key `url`.
    #[must_use]
    pub fn in_section(self, section: &str, url: &str) -> Self {
        match self {
            Self::Url { reason } => Self::Elsewhere { path: format!("{section}.{url}"), reason },
            Self::Tls { reason } => Self::Elsewhere { path: format!("{section}.tls"), reason },
            Self::Elsewhere { .. } => self,
        }
    }
}

/// A failed command, and what follows from it for the connection.
#[derive(Clone, Debug)]
pub struct CommandFailure {
    /// What the caller is told.
    pub error: StoreError,
    /// The server does not know the script (any more).
    pub script_unknown: bool,
    /// The connection is of no more use: another one may reach another server, or use another password.
    pub reconnect: bool,
    /// A script asked for what scripts may not ask for on this server.
    pub not_from_scripts: bool,
    /// The server has no RESP3.
    pub no_resp3: bool,
    /// The slot is moving, and this node has the keys already (ASK).
    pub moving_to: Option<NodeAddress>,
}

impl CommandFailure {
    pub fn unreachable(reason: impl Into<String>) -> Self {
        Self::because(StoreError::Unreachable { reason: reason.into() }, true)
    }

    fn refused(reason: String, reconnect: bool) -> Self {
        Self::because(StoreError::Refused { reason }, reconnect)
    }

    /// A failure of which nothing else is to be said.
    pub fn because(error: StoreError, reconnect: bool) -> Self {
        Self { error, script_unknown: false, not_from_scripts: false, no_resp3: false, reconnect, moving_to: None }
    }
}

/// What Redis says first, what that means, and whether a new connection may help.
const REPLIES: &[(&str, &str, bool)] = &[
    (
        "WRONGPASS",
        "wrong user or password (WRONGPASS): check passwordFile, usernameFile and that user in Redis's ACL",
        true,
    ),
    (
        "NOAUTH",
        "it asks for a password and got none (NOAUTH): set passwordFile, and usernameFile if it has users",
        true,
    ),
    (
        "READONLY",
        "it is a read-only replica (READONLY): a failover may be under way; if this stays, point the URL at the \
         master, or use a redis-sentinel: URL",
        true,
    ),
    ("LOADING", "it is loading its data (LOADING): wait until it has started", true),
    ("BUSY", "it is busy with a script that does not end (BUSY): SCRIPT KILL on the Redis ends it", false),
    ("MASTERDOWN", "it is a replica that has lost its master (MASTERDOWN): point the URL at the master", true),
    (
        "CLUSTERDOWN",
        "its cluster is down (CLUSTERDOWN): a part of the slots has no master; see CLUSTER INFO, and bring a failed \
         master or its replica back",
        true,
    ),
    ("OOM", "its memory is full (OOM): raise maxmemory, or give Baton a Redis of its own", false),
    ("MISCONF", "it cannot save its data and so takes no writes (MISCONF): see its log; its disk may be full", false),
    (
        "NOREPLICAS",
        "it takes no writes with so few replicas (NOREPLICAS): add replicas, or lower its min-replicas-to-write",
        false,
    ),
    ("MOVED", "another node of its cluster has this role (MOVED): use a redis-cluster: URL", true),
    ("ASK", MOVING, false),
    ("TRYAGAIN", MOVING, false),
    ("DENIED", "it is in protected mode (DENIED): give it a password, or bind it to its network", true),
    ("NOPROTO", TOO_OLD, true),
];

const MOVING: &str = "its cluster is moving the slot of this role to another node: it works again when that is done";
/// Of a service that refuses it.
pub const NO_WAIT: &str = "it has no WAIT, which replication.acks needs: set acks: 0, under which a split network can \
                           make two leaders, or use a Redis that has it";
const TOO_OLD: &str = "it is too old: Baton needs Redis 6.2 or later";

/// Words anywhere in an `ERR …` reply.
const ERR_REPLIES: &[(&str, &str, bool)] = &[
    ("DB index is out of range", "it has no such database: check the number at the end of the URL", true),
    ("invalid DB index", "it has no such database: check the number at the end of the URL", true),
    ("SELECT is not allowed in cluster mode", "it is part of a cluster: use a redis-cluster: URL", true),
    ("max number of clients reached", "it has no room for another client: raise its maxclients", true),
    ("cluster support disabled", "it is not part of a cluster: use a redis: URL", true),
];

/// Explains an error of the connection to `endpoint`, for a command that was waited for during `waited`.
pub(super) fn explain(error: &Error, endpoint: &str, waited: Duration) -> CommandFailure {
    let details = error.details();
    if *error.kind() == ErrorKind::Timeout {
        return CommandFailure::because(StoreError::Unknown { after: waited }, false);
    }
    if let Some(failure) = explain_reply(details, endpoint) {
        return failure;
    }
    #[expect(clippy::wildcard_enum_match_arm, reason = "a foreign enum: the others tell of themselves")]
    let what = match error.kind() {
        ErrorKind::Tls => format!("TLS: {details}"),
        ErrorKind::Sentinel => format!("no Sentinel knows a master: {}", plain(details)),
        ErrorKind::Canceled => "the connection was closed".to_owned(),
        _ => plain(details),
    };
    CommandFailure::unreachable(format!("{endpoint}: {what}"))
}

/// What the server at `endpoint` itself answered; none when these are not its words.
fn explain_reply(details: &str, endpoint: &str) -> Option<CommandFailure> {
    if let Some(refused) = refused_in_script(details) {
        return explain_reply(refused, endpoint).or_else(|| Some(explain_err(refused)));
    }
    let code = details.split_whitespace().next().unwrap_or_default();
    let known = REPLIES.iter().find(|(word, ..)| *word == code);
    if let Some((_, says, reconnect)) = known {
        let moving_to = if code == "ASK" { new_place(details, endpoint) } else { None };
        let no_resp3 = code == "NOPROTO";
        return Some(CommandFailure { moving_to, no_resp3, ..CommandFailure::refused((*says).to_owned(), *reconnect) });
    }
    match code {
        "NOSCRIPT" => {
            let error = StoreError::Refused { reason: "it does not know the script (NOSCRIPT)".to_owned() };
            Some(CommandFailure { script_unknown: true, ..CommandFailure::because(error, false) })
        }
        "NOPERM" => Some(CommandFailure::refused(no_permission(details), false)),
        "ERR" => Some(explain_err(details)),
        _ => None,
    }
}

/// Up to Redis 6.2, a refusal inside a script comes behind the script's line, whether the script ends by it or hands it
/// on.
fn refused_in_script(details: &str) -> Option<&str> {
    let (_, refused) = details.split_once("@user_script:")?.1.split_once(": ")?;
    Some(refused.trim_start_matches('-'))
}

/// The node that `ASK <slot> <host>:<port>` names. Without a host (`cluster-preferred-endpoint-type unknown-endpoint`)
/// that is the one of whom it was asked.
fn new_place(details: &str, asked: &str) -> Option<NodeAddress> {
    let (host, port) = details.split_whitespace().nth(2)?.rsplit_once(':')?;
    let host = if host.is_empty() { asked.rsplit_once(':')?.0 } else { host };
    Some(NodeAddress { host: host.to_owned(), port: port.parse().ok()? })
}

fn explain_err(details: &str) -> CommandFailure {
    // What NOPERM is called inside a script.
    if details.contains("The user executing the script can't") || details.contains("ACL failure in script") {
        return CommandFailure::refused(no_permission(&details.replace("can't", "cannot")), false);
    }
    if let Some((_, says, reconnect)) = ERR_REPLIES.iter().find(|(words, ..)| details.contains(words)) {
        return CommandFailure::refused((*says).to_owned(), *reconnect);
    }
    if let Some(command) = details.split("unknown command").nth(1) {
        let name = between_quotes(command).unwrap_or_default();
        return match name.to_ascii_uppercase().as_str() {
            "HELLO" => CommandFailure { no_resp3: true, ..CommandFailure::refused(TOO_OLD.to_owned(), true) },
            "WAIT" => CommandFailure::refused(NO_WAIT.to_owned(), false),
            "WAITAOF" => CommandFailure::refused(
                "replication.mode waitaof needs Redis 7.2 or later: use mode wait, or a newer Redis".to_owned(),
                false,
            ),
            // What one does not know, the other begins with.
            "SENTINEL" => {
                CommandFailure::refused("it is no Sentinel: use a redis: or redis-cluster: URL".to_owned(), true)
            }
            "SELECT" => CommandFailure::refused(
                "it is a Sentinel, not a Redis: use a redis-sentinel: URL with sentinelServiceName".to_owned(),
                true,
            ),
            "EVAL" | "EVALSHA" => CommandFailure::refused(
                "it runs no scripts (EVAL), of which Baton's steps are made: some services refuse them where keys are \
                 sharded; use another Redis, or store.kubernetes"
                    .to_owned(),
                false,
            ),
            // The connection works: services refuse what `baton audit` can do without.
            name => CommandFailure::refused(format!("it has no command {name}: is it renamed or too old?"), false),
        };
    }
    if details.contains("not allowed from script") {
        let reason = "its scripts may not ask for the time (TIME), by which Baton's keep leases: use another Redis, \
                      or store.kubernetes";
        return CommandFailure { not_from_scripts: true, ..CommandFailure::refused(reason.to_owned(), false) };
    }
    CommandFailure::refused(details.to_owned(), false)
}

/// What the words of NOPERM, in and outside of a script, say that the user lacks. They may name the user, and a key or
/// channel in quotes, which a command is not mistaken for.
fn no_permission(details: &str) -> String {
    let words = details.split_once("has no permissions").map_or(details, |(_, rest)| rest);
    let what = if words.contains("channel") {
        " use Baton's channels (NOPERM): add &<keyPrefix>:* to its rights, as docs/redis.md lists them".to_owned()
    } else if words.contains("key") {
        " use Baton's keys (NOPERM): add ~<keyPrefix>:* to its rights, as docs/redis.md lists them".to_owned()
    } else if let Some(command) = between_quotes(words) {
        format!(" run {command} (NOPERM): add +{command} to its rights, as docs/redis.md lists them")
    } else {
        " run a command that Baton's scripts need (NOPERM): give it the rights that docs/redis.md lists; `baton audit` \
         says which it lacks"
            .to_owned()
    };
    format!("its user may not{what}")
}

fn between_quotes(text: &str) -> Option<&str> {
    let mut parts = text.split(['\'', '`']);
    parts.next()?;
    parts.next().filter(|word| !word.is_empty())
}

/// What is wrong with the server's certificate, as we see it.
const TLS_THEIRS: &[(&str, &str)] = &[
    ("NotValidForName", "its certificate is for another host: correct the host in the URL, or have it issued anew"),
    ("Expired", "its certificate has expired: have it renewed"),
    ("NotValidYet", "its certificate is not valid yet: see both machines' clocks"),
    ("UnknownIssuer", "its certificate is not accepted, for its authority is not trusted: check caFile"),
];

/// What is wrong with our certificate, as the server sees it.
const TLS_OURS: &[(&str, &str)] = &[
    ("CertificateRequired", "it asks for a client certificate: set certFile and keyFile"),
    ("CertificateExpired", "the certificate in certFile has expired: renew it; the file is read at every connection"),
    ("UnknownCA", "it does not trust the authority that issued certFile: see its tls-ca-cert-file"),
    ("BadCertificate", "it does not take the certificate in certFile: is it one for clients?"),
    ("UnsupportedCertificate", "it does not take the certificate in certFile: is it one for clients?"),
];

/// The names that a certificate was issued for, from `presented: ["DnsName(\"a\")", …]`.
fn names_in(why: &str) -> String {
    let Some((_, presented)) = why.split_once("presented: [") else { return String::new() };
    let names: Vec<&str> = presented.split("Name(").skip(1).chain(presented.split("IpAddress(").skip(1)).collect();
    let names: Vec<String> = names
        .iter()
        .map(|name| name.chars().skip_while(|c| "\\\"".contains(*c)).take_while(|c| !"\\\")".contains(*c)).collect())
        .collect();
    if names.is_empty() { String::new() } else { format!("it names {}: ", names.join(", ")) }
}

/// fred tells an I/O error by its `Debug`; this is the message in it.
fn plain(details: &str) -> String {
    if let Some((_, why)) = details.split_once("InvalidCertificate(") {
        let why = why.trim_end_matches([' ', '}', ')']);
        return match TLS_THEIRS.iter().find(|(word, _)| why.starts_with(word)) {
            // What rustls tells besides is the time, which would make every reason another, or the names.
            Some((word, says)) => format!("TLS: {says} ({}{word})", names_in(why)),
            None => format!("TLS: its certificate is not accepted ({why}): check caFile, and the host in the URL"),
        };
    }
    if let Some((_, why)) = details.split_once("AlertReceived(") {
        let why = why.trim_end_matches([' ', '}', ')']);
        return match TLS_OURS.iter().find(|(word, _)| why == *word) {
            Some((_, says)) => format!("TLS: {says} ({why})"),
            None => format!("TLS: it broke off ({why}): check certFile and keyFile"),
        };
    }
    for opening in ["message: \"", "error: \""] {
        if let Some((_, rest)) = details.split_once(opening) {
            return rest.split('"').next().unwrap_or(rest).to_owned();
        }
    }
    details.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reason(details: &str) -> String {
        let failure = explain(&Error::new(ErrorKind::Unknown, details.to_owned()), "redis:6379", Duration::ZERO);
        match failure.error {
            StoreError::Refused { reason } | StoreError::Unreachable { reason } => reason,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn each_refusal_of_redis_says_what_would_help() {
        for (reply, help) in [
            ("WRONGPASS invalid username-password pair or user is disabled.", "passwordFile"),
            ("NOAUTH HELLO must be called with the client already authenticated", "passwordFile"),
            ("ERR DB index is out of range", "the number at the end of the URL"),
            ("READONLY You can't write against a read only replica. script: 0a, on @user_script:1.", "master"),
            ("ERR Error running script (call to f_0a): @user_script:1: -READONLY You can't write against", "master"),
            ("ERR unknown command `HELLO`, with args beginning with: `3`, ", "6.2"),
            ("ERR unknown command 'WAITAOF', with args beginning with: ", "7.2"),
            ("OOM command not allowed when used memory > 'maxmemory'.", "maxmemory"),
            ("NOPERM User x has no permissions to run the 'info' command", "add +info"),
            ("NOPERM User x has no permissions to run the 'client|id' command", "add +client|id"),
            ("NOPERM No permissions to access a key", "add ~<keyPrefix>:*"),
            ("NOPERM User key has no permissions to run the 'cluster|slots' command", "add +cluster|slots"),
            ("ERR ACL failure in script: User x has no permissions to run the 'time' command script: 56", "add +time"),
            ("ERR ACL failure in script: User x has no permissions to access the 'a:b' key", "add ~<keyPrefix>:*"),
            ("ERR ACL failure in script: User x has no permissions to access the 'a' channel", "add &<keyPrefix>:*"),
            ("NOPERM No permissions to access a channel", "channels"),
            (
                "ERR The user executing the script can't publish to the channel mentioned in the command script",
                "channels",
            ),
            ("ERR The user executing the script can't run this command or subcommand script: 8d", "scripts need"),
            ("@user_script: 18: The user executing the script can't run this command or subcommand", "scripts need"),
            ("@user_script: 18: -OOM command not allowed when used memory > 'maxmemory'.", "maxmemory"),
            ("ERR Error running script (call to f_0a): @user_script:1: -OOM command not allowed when", "maxmemory"),
        ] {
            assert!(reason(reply).contains(help), "{reply}: {}", reason(reply));
        }
    }

    #[test]
    fn a_slot_on_its_way_names_the_node_that_has_it() {
        let place = |reply: &str| explain_reply(reply, "redis:6379").and_then(|failure| failure.moving_to);
        let node = |host: &str| Some(NodeAddress { host: host.to_owned(), port: 6381 });
        assert_eq!(place("ASK 3999 10.0.0.7:6381"), node("10.0.0.7"));
        assert_eq!(place("ASK 3999 fd00::7:6381"), node("fd00::7"));
        assert_eq!(place("ASK 3999 :6381"), node("redis"));
        assert_eq!((place("MOVED 3999 10.0.0.7:6381"), place("ASK")), (None, None));
    }

    #[test]
    fn an_operating_system_error_is_told_in_its_own_words() {
        let details = "Os { code: 111, kind: ConnectionRefused, message: \"Connection refused\" }";
        assert_eq!(reason(details), "redis:6379: Connection refused");
        for (why, says) in [
            ("InvalidCertificate(UnknownIssuer)", "check caFile (UnknownIssuer)"),
            ("InvalidCertificate(BadEncoding)", "is not accepted (BadEncoding)"),
            (
                "InvalidCertificate(ExpiredContext { time: UnixTime(1795265211), not_after: UnixTime(1)",
                "renewed (Expired)",
            ),
            (
                r#"InvalidCertificate(NotValidForNameContext { presented: ["DnsName(\"elsewhere.example\")"]"#,
                "(it names elsewhere.example: NotValidForName)",
            ),
            ("AlertReceived(CertificateRequired)", "set certFile and keyFile (CertificateRequired)"),
            ("AlertReceived(InternalError)", "broke off (InternalError)"),
        ] {
            let details = format!("Custom {{ kind: InvalidData, error: {why} }}");
            assert!(reason(&details).contains(says), "{}", reason(&details));
        }
    }

    #[test]
    fn a_users_name_is_not_repeated() {
        for reply in ["NOPERM User", "ERR ACL failure in script: User"] {
            for lacks in ["run the 'info' command", "access the 'x' key", "access the 'x' channel"] {
                let reply = format!("{reply} secret-user has no permissions to {lacks}");
                assert!(!reason(&reply).contains("secret-user"), "{}", reason(&reply));
            }
        }
    }
}
