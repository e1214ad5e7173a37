//! `store.quorum:`

use std::time::Duration;

use secrecy::{ExposeSecret, SecretString};

use super::Checker;
use super::url::{self, Deployment, UrlFacts};
use crate::config::model::{
    AckMode, Guard, QuorumConfig, RedisConfig, Replication, Required, RoleConfig, Secret, TlsConfig,
};
use crate::config::position::Path;
use crate::config::raw::{RawMember, RawQuorum, RawRedis, Scalar};
use crate::protocol::Seat;

const MEMBERS_MIN: usize = 3;
const MEMBERS_MAX: usize = 9;
const COMMAND_TIMEOUT: Duration = Duration::from_millis(500);
/// A campaign asks every member twice.
const QUESTIONS: u32 = 2;
/// Members have no replicas.
const NO_ACKS: Replication = Replication { acks: 0, mode: AckMode::Wait, timeout: Duration::ZERO };

/// What all members share.
struct Common {
    tls: TlsConfig,
    key_prefix: String,
    command_timeout: Duration,
    guard: Guard,
}

/// One member's own keys, as far as they are right.
struct Own {
    url: SecretString,
    facts: UrlFacts,
    username: Option<Secret>,
    password: Option<Secret>,
    seat: Seat,
    /// Host, port and database.
    name: String,
}

impl Own {
    fn config(self, common: &Common) -> RedisConfig {
        RedisConfig {
            url: self.url,
            username: self.username,
            password: self.password,
            tls: common.tls.clone(),
            key_prefix: common.key_prefix.clone(),
            command_timeout: common.command_timeout,
            replication: NO_ACKS,
            guard: common.guard,
        }
    }
}

impl Checker<'_> {
    /// Every member, and how many of them it takes.
    pub(super) fn quorum(&mut self, raw: &RawQuorum, roles: &[RoleConfig], path: &Path) -> Option<QuorumConfig> {
        let members_path = path.key("members");
        let no_members = Vec::new();
        let members = raw.members.as_ref().unwrap_or(&no_members);
        let seat =
            |(index, member): (usize, &Option<RawMember>)| self.seat(member.as_ref()?, &members_path.index(index));
        let seats: Vec<Option<Seat>> = members.iter().enumerate().map(seat).collect();
        let count = |wanted| seats.iter().filter(|seat| **seat == Some(wanted)).count();
        let (joining, leaving) = (count(Seat::Joins), count(Seat::Leaves));
        let which = if joining > 0 { " that are not joining" } else { "" };
        self.member_count(members.len() - joining, which, &members_path);
        if joining + leaving > 0 {
            self.member_count(members.len() - leaving, " that are not leaving", &members_path);
        }
        self.distinct_members(members, &members_path);
        let own: Vec<Option<Own>> = members
            .iter()
            .zip(seats)
            .enumerate()
            .map(|(index, (member, seat))| self.member(member.as_ref()?, seat, &members_path.index(index)))
            .collect();
        // One url without TLS is enough for the certificates to be a mistake.
        let facts = own.iter().flatten().map(|own| own.facts);
        let tls = self.tls(raw.tls.as_ref(), facts.min_by_key(|facts| facts.tls), &path.key("tls"));
        let key_prefix = self.key_prefix(raw.key_prefix.as_ref(), &path.key("keyPrefix"));
        let command_timeout = self.member_timeout(raw.command_timeout.as_ref(), roles, &path.key("commandTimeout"));
        let required = self.required(raw.required.as_ref(), &path.key("required"));
        let careless = "off: when several members restart without their data, two replicas may lead at once";
        let guard = self.guard(raw.guard.as_ref(), careless, &path.key("guard"));
        let common = Common { tls: tls?, key_prefix: key_prefix?, command_timeout: command_timeout?, guard };
        let own: Vec<Own> = own.into_iter().collect::<Option<_>>()?;
        let (seats, names) = own.iter().map(|own| (own.seat, own.name.clone())).unzip();
        let members = own.into_iter().map(|own| own.config(&common)).collect();
        Some(QuorumConfig { members, seats, names, required })
    }

    /// How a member stands in the list.
    fn seat(&mut self, raw: &RawMember, path: &Path) -> Option<Seat> {
        let mut is = |word: &Option<Scalar>, key| match word {
            Some(given) => self.flag(Some(given), &path.key(key)),
            None => Some(false),
        };
        let (joins, leaves) = (is(&raw.joining, "joining"), is(&raw.leaving, "leaving"));
        match (joins?, leaves?) {
            (false, false) => Some(Seat::Stays),
            (true, false) => Some(Seat::Joins),
            (false, true) => Some(Seat::Leaves),
            (true, true) => {
                let message = "is joining and leaving: a member is of the list before the change (leaving), of the one \
                               after it (joining), or of both (neither word)";
                self.problem(path, message.to_owned());
                None
            }
        }
    }

    /// `which`: of one of the two lists of a change.
    fn member_count(&mut self, count: usize, which: &str, path: &Path) {
        if self.has_bad_within(path) {
            return;
        }
        if count < MEMBERS_MIN {
            let message = format!(
                "has {count}{which}; a quorum takes {MEMBERS_MIN} or more, 5 for two failures at once; with fewer \
                 servers use store.redis"
            );
            self.problem(path, message);
        } else if count > MEMBERS_MAX {
            let message = format!("has {count}{which}; more than {MEMBERS_MAX} only make every renewal dearer");
            self.problem(path, message);
        } else if count.is_multiple_of(2) {
            let fewer = count - 1;
            let message =
                format!("has {count}{which}, an even number: it bears no more failures than {fewer}, and costs more");
            self.warning(path, message);
        }
    }

    /// Two members on one host and port are one server, which would be counted twice.
    fn distinct_members(&mut self, members: &[Option<RawMember>], path: &Path) {
        let server = |member: &Option<RawMember>| match member.as_ref()?.url.as_ref()? {
            Scalar::Text(text) => url::server(text),
            Scalar::Bool(_) | Scalar::Number(_) => None,
        };
        let servers: Vec<Option<(String, u16)>> = members.iter().map(server).collect();
        for (index, server) in servers.iter().enumerate() {
            let Some(first) = servers[..index].iter().position(|other| server.is_some() && other == server) else {
                continue;
            };
            let message = format!(
                "has the host and port of members[{first}]: they are one server, which would be counted twice, \
                 whatever its databases; give each member a server of its own"
            );
            self.problem(&path.index(index).key("url"), message);
        }
    }

    /// What is wrong with one member by itself.
    fn member(&mut self, raw: &RawMember, seat: Option<Seat>, path: &Path) -> Option<Own> {
        let url_path = path.key("url");
        let config = RawRedis {
            url: raw.url.clone(),
            username: raw.username.clone(),
            username_file: raw.username_file.clone(),
            password: raw.password.clone(),
            password_file: raw.password_file.clone(),
            tls: None,
            key_prefix: None,
            command_timeout: None,
            replication: None,
            guard: None,
        };
        let url = self.url(config.url.as_ref(), &url_path);
        let username = self.credential("username", (&config.username, &config.username_file), path);
        let password = self.credential("password", (&config.password, &config.password_file), path);
        let (url, facts) = url?;
        self.credentials_agree(&config, facts, path);
        let behind = match facts.deployment {
            Deployment::Single => None,
            Deployment::Sentinel => Some("Sentinels"),
            Deployment::Cluster => Some("a cluster"),
        };
        if let Some(behind) = behind {
            let message = format!(
                "leads to {behind}; members are single, independent masters: a failover would hand on what the quorum \
                 has not agreed to. Name a redis: or rediss: URL of a Redis without replicas"
            );
            self.problem(&url_path, message);
        }
        let name = url::place(url.expose_secret());
        Some(Own { url, facts, username, password, seat: seat?, name })
    }

    /// As given, else 500 ms, or a quarter of the shortest renewal period where that is less.
    fn member_timeout(&mut self, given: Option<&Scalar>, roles: &[RoleConfig], path: &Path) -> Option<Duration> {
        if self.is_bad(path) {
            return None;
        }
        let Some(_) = given else {
            let shortest = roles.iter().map(|role| role.timing.renew_period()).min();
            return Some(shortest.map_or(COMMAND_TIMEOUT, |shortest| COMMAND_TIMEOUT.min(shortest / 4)));
        };
        let timeout = self.positive_duration(given, path)?;
        let too_long = |role: &&RoleConfig| timeout * QUESTIONS >= role.timing.renew_period();
        for role in roles.iter().filter(too_long) {
            let (name, limit) = (&role.name, role.timing.renew_period() / QUESTIONS);
            let message = format!(
                "is {timeout:?}; a campaign asks every member twice, so it must be less than {limit:?}, half of the \
                 renewPeriod (role {name})"
            );
            self.problem(path, message);
        }
        Some(timeout).filter(|_| !self.is_bad(path))
    }

    fn required(&mut self, given: Option<&Scalar>, path: &Path) -> Required {
        let required = self.word(given, path, &[("majority", Required::Majority), ("all", Required::All)]);
        if required == Some(Required::All) {
            let message = "all: while one member is down, nobody is elected and no lease renewed; what it is worth is \
                           that a leader is known to every member";
            self.warning(path, message.to_owned());
        }
        required.unwrap_or(Required::Majority)
    }
}
