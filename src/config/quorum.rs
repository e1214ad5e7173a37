//! `store.quorum:`

use std::time::Duration;

use secrecy::ExposeSecret;

use super::auth::AUTH;
use super::redis::{
    Access, AckMode, KEY_PREFIX, PASSWORD, PASSWORD_FILE, RedisConfig, Replication, TLS_FILES, USERNAME, USERNAME_FILE,
    tls,
};
use super::redis_url::{self, Deployment, RedisUrl};
use super::section::{Group, Key, Or, Reader, Section, key, required};
use super::tree::Node;
use super::value::{Flag, List, Span, Words};
use super::{Durability, Guard};
use crate::protocol::{Seat, Seats};

/// `store.quorum:`
#[derive(Clone, Debug, PartialEq)]
pub struct QuorumConfig {
    /// The members: single servers, none twice. What they have in common (TLS, prefix, timeout, guard) is the same in
    /// each, and none waits for replicas.
    pub members: Vec<RedisConfig>,
    /// How each of them stands in the list.
    pub seats: Vec<Seat>,
    /// Host, port and database of each.
    pub names: Vec<String>,
    /// How many of them it takes.
    pub required: Required,
}

impl QuorumConfig {
    /// The members as votes.
    pub fn seats(&self) -> Seats {
        let seats: Vec<Option<Seat>> = self.seats.iter().copied().map(Some).collect();
        Seats::of(&seats, self.required == Required::All)
    }

    /// The list of the members in words, whatever their order; while it is being changed, the one before and the one
    /// after, with `|` between them. By this replicas tell whether they mean the same.
    pub fn lists(&self) -> String {
        let list = |without: Seat| {
            let named = self.names.iter().zip(&self.seats).filter(|(_, seat)| **seat != without);
            let mut names: Vec<&str> = named.map(|(name, _)| name.as_str()).collect();
            names.sort_unstable();
            names.join(", ")
        };
        let (before, after) = (list(Seat::Joins), list(Seat::Leaves));
        if before == after { before } else { format!("{before}|{after}") }
    }

    /// When a member's answer is no longer waited for.
    pub fn command_timeout(&self) -> Duration {
        self.members.first().map_or(Duration::ZERO, |member| member.command_timeout)
    }

    /// Whether R5 holds.
    pub fn guard(&self) -> Guard {
        self.members.first().map_or(Guard::Strict, |member| member.guard)
    }
}

/// `store.quorum.required:`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Required {
    /// `majority`
    Majority,
    /// `all`: one member down, and nobody leads.
    All,
}

const MEMBERS_MIN: usize = 3;
const MEMBERS_MAX: usize = 9;
const COMMAND_TIMEOUT_USUAL: Duration = Duration::from_millis(500);
/// Members have no replicas.
const NO_ACKS: Replication = Replication { acks: 0, mode: AckMode::Wait, timeout: Duration::ZERO };

// While a list is being changed, it holds both.
const MEMBERS: Key<List<Group>> = required(
    "members",
    List { item: Group(&MEMBER), min: MEMBERS_MIN, max: 2 * MEMBERS_MAX },
    "The members: an odd number of Redis servers, 3 to 9, on machines that do not fail together.",
);
const TLS: Key<Group> = key("tls", Group(&TLS_FILES), "Certificates for `rediss:`, the same for every member.");
pub(super) const COMMAND_TIMEOUT: Key<Span> = key(
    "commandTimeout",
    Span::POSITIVE,
    "When a member's answer is no longer waited for; twice this is less than every role's renewPeriod. Default: \
     500ms, or a quarter of the shortest renewPeriod when that is less.",
);
const REQUIRED: Key<Or<Words<Required>>> = key(
    "required",
    Or(Words::of(&[("majority", Required::Majority), ("all", Required::All)]), Required::Majority),
    "How many members must agree: `majority`, or `all`.",
);
const GUARD: Key<Or<Words<Guard>>> = key(
    "guard",
    Or(Guard::WORDS_WITHOUT_HEARD, Guard::Strict),
    "What a member does that may have forgotten a lease: `strict` grants nobody new for one lease, `off` does.",
);

pub(super) const QUORUM: Section = Section::new(
    "Quorum",
    "Several independent masters: no replicas, no Sentinels, no cluster.",
    &[&MEMBERS, &TLS, &KEY_PREFIX, &COMMAND_TIMEOUT, &REQUIRED, &GUARD],
);

const JOINING: Key<Or<Flag>> =
    key("joining", Or(Flag, false), "True while the list is being changed, for a member of the list after the change.");
const LEAVING: Key<Or<Flag>> = key(
    "leaving",
    Or(Flag, false),
    "True while the list is being changed, for a member of the list before the change.",
);
const URL: Key<RedisUrl> = required(
    "url",
    RedisUrl,
    "Where it is: `redis://host:6379/0` or `rediss:` (TLS). May hold a password, so it is treated as a secret.",
);

const MEMBER: Section = Section::new(
    "Member",
    "One member of a quorum.",
    &[&JOINING, &LEAVING, &URL, &USERNAME, &USERNAME_FILE, &PASSWORD, &PASSWORD_FILE, &AUTH],
);

/// Every member, and how many of them it takes. `period`: that within which a role renews.
pub(super) fn read(s: &Reader<'_>, period: Option<Duration>) -> Option<QuorumConfig> {
    let list = s.at(&MEMBERS);
    let places = s.given(&MEMBERS).unwrap_or_default();
    let seats: Vec<Option<Seat>> = places.iter().map(seat).collect();
    counts(&list, &seats);
    distinct(&places);
    let access: Vec<Access> = places.iter().map(access).collect();
    // One url without TLS is enough for the certificates to be a mistake.
    let facts = access.iter().filter_map(|access| access.url.as_ref()).map(|(_, facts)| *facts);
    let facts = facts.min_by_key(|facts| facts.tls);
    let tls = tls(&s.at(&TLS), facts);
    let usual = period.map_or(COMMAND_TIMEOUT_USUAL, |period| COMMAND_TIMEOUT_USUAL.min(period / 4));
    let (key_prefix, command_timeout) = (s.get(&KEY_PREFIX), s.given(&COMMAND_TIMEOUT).unwrap_or(usual));
    let (required, guard) = (s.get(&REQUIRED), s.get(&GUARD));
    if required == Required::All {
        s.at(&REQUIRED).warning(
            "all: while one member is down, nobody is elected and no lease renewed; what it is worth is that a leader \
             is known to every member",
        );
    }
    if guard == Guard::Off {
        s.at(&GUARD).warning("off: when several members restart without their data, two replicas may lead at once");
    }
    let mut names = Vec::new();
    let member = |access: Access| {
        let (url, _) = access.url.clone()?;
        names.push(redis_url::place(url.expose_secret()));
        let Access { username, password, auth, .. } = access;
        let (replication, durability) = (NO_ACKS, Durability::Asynchronous);
        let (tls, key_prefix) = (tls.clone(), key_prefix.clone());
        Some(RedisConfig {
            url,
            username,
            password,
            auth,
            tls,
            key_prefix,
            command_timeout,
            replication,
            durability,
            guard,
        })
    };
    let members = access.into_iter().map(member).collect::<Option<_>>()?;
    Some(QuorumConfig { members, seats: seats.into_iter().collect::<Option<_>>()?, names, required })
}

/// Where one member is, which is a server by itself.
fn access(s: &Reader<'_>) -> Access {
    let access = Access::read(s, &URL);
    let behind = match access.url.as_ref().map(|(_, facts)| facts.deployment) {
        Some(Deployment::Single) | None => return access,
        Some(Deployment::Sentinel) => "Sentinels",
        Some(Deployment::Cluster) => "a cluster",
    };
    s.at(&URL).problem(format!(
        "leads to {behind}; members are single, independent masters: a failover would hand on what the quorum has not \
         agreed to. Name a redis: or rediss: URL of a Redis without replicas"
    ));
    access
}

/// How a member stands in the list.
fn seat(s: &Reader<'_>) -> Option<Seat> {
    match (s.get(&JOINING), s.get(&LEAVING)) {
        _ if s.any_bad(&[&JOINING, &LEAVING]) => None,
        (false, false) => Some(Seat::Stays),
        (true, false) => Some(Seat::Joins),
        (false, true) => Some(Seat::Leaves),
        (true, true) => {
            s.problem(
                "is joining and leaving: a member is of the list before the change (leaving), of the one after it \
                 (joining), or of both (neither word)",
            );
            None
        }
    }
}

/// Each of the two lists of a change is a quorum of its own.
fn counts(list: &Reader<'_>, seats: &[Option<Seat>]) {
    let without = |seat| seats.iter().filter(|other| **other != Some(seat)).count();
    let (before, after) = (without(Seat::Joins), without(Seat::Leaves));
    let which = if before < seats.len() { " that are not joining" } else { "" };
    count(list, before, which);
    if before < seats.len() || after < seats.len() {
        count(list, after, " that are not leaving");
    }
}

fn count(list: &Reader<'_>, count: usize, which: &str) {
    if !list.is_sound() {
        return;
    }
    if count < MEMBERS_MIN {
        list.problem(format!(
            "has {count}{which}; a quorum takes {MEMBERS_MIN} or more, 5 for two failures at once; with fewer servers \
             use store.redis"
        ));
    } else if count > MEMBERS_MAX {
        list.problem(format!("has {count}{which}; more than {MEMBERS_MAX} only make every renewal dearer"));
    } else if count.is_multiple_of(2) {
        let fewer = count - 1;
        list.warning(format!(
            "has {count}{which}, an even number: it bears no more failures than {fewer}, and costs more"
        ));
    }
}

/// Two members on one host and port are one server, which would be counted twice.
fn distinct(members: &[Reader<'_>]) {
    let server = |member: &Reader<'_>| match member.at(&URL).node? {
        Node::Text { text, .. } => redis_url::server(text),
        Node::Null | Node::Bool(_) | Node::Number(_) | Node::List(_) | Node::Map(_) | Node::Tagged => None,
    };
    let servers: Vec<Option<(String, u16)>> = members.iter().map(server).collect();
    for (index, (member, server)) in members.iter().zip(&servers).enumerate() {
        let Some(first) = servers[..index].iter().position(|other| server.is_some() && other == server) else {
            continue;
        };
        member.at(&URL).problem(format!(
            "has the host and port of members[{first}]: they are one server, which would be counted twice, whatever \
             its databases; give each member a server of its own"
        ));
    }
}
