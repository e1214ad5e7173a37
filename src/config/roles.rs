//! `roles:`

use std::collections::BTreeMap;
use std::time::Duration;

use super::section::{AnyKey, Group, Key, Or, Reader, Section, key, required};
use super::value::{Count, Form, LABEL, List, Span, Text, Words};
use crate::protocol::{AppVersion, Policy, Rank, RoleName, SHARDS_MAX, Timing, TimingProblem};

/// One of `roles:`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoleConfig {
    pub name: RoleName,
    pub timing: Timing,
    /// The app's health check that gates campaign and renewal.
    pub app_check: Option<AppCheck>,
    /// By what some replicas are preferred to lead it; none where all are alike.
    pub preference: Option<Preference>,
}

impl RoleConfig {
    /// Whether a role that runs as the other says may go on as this one says.
    pub fn is_run_as(&self, other: &Self) -> bool {
        let run = |config: &Self| Self { preference: None, ..config.clone() };
        run(self) == run(other)
    }
}

/// `roles[].priority:`, `prefer:` and `preferAfter:`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Preference {
    pub priority: u32,
    /// What this replica runs, if the newest is preferred.
    pub version: Option<String>,
    /// How long one that is preferred has been there, and another has led, when the lead is handed over.
    pub after: Duration,
}

impl Preference {
    /// For a replica that began then, in microseconds since 1970.
    pub fn policy(&self, since: u64) -> Policy {
        let version = self.version.as_deref().map(|name| AppVersion::new(name, since));
        Policy::Preferred { rank: Rank { priority: self.priority, version }, after: self.after }
    }
}

/// `roles[].appCheck:`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppCheck {
    /// `httpGet.host`, 127.0.0.1 when absent; the app is in the same pod.
    pub host: String,
    pub port: u16,
    /// `httpGet.path`, beginning with a slash.
    pub path: String,
    pub period: Duration,
    pub timeout: Duration,
    pub failure_threshold: u32,
}

/// How many roles a sidecar takes, shards counted: as many as renewals, streams and the page are measured with.
const ROLES_MAX: usize = 1_000;

pub(super) const ROLES: Key<List<Group>> = required(
    "roles",
    List { item: Group(&ROLE), min: 1, max: ROLES_MAX },
    "The roles to campaign for; at least one. Names are unique.",
);

pub(super) const ROLE_NAME: Form<RoleName> = Form { pattern: LABEL, parse: role_name };

pub(super) const NAME: Key<Form<RoleName>> = required("name", ROLE_NAME, "Its name: a DNS label.");
// What these may be is for `Timing` to say.
const LEASE_DURATION: Key<Or<Span>> = key(
    "leaseDuration",
    Or(Span::ANY, Duration::from_secs(15)),
    "How long the store keeps a lease that is not renewed: 100ms to 24h, and more than 2 x renewPeriod + \
     stepDownMargin.",
);
const RENEW_PERIOD: Key<Span> =
    key("renewPeriod", Span::ANY, "How often the leader renews. Default: leaseDuration / 3.");
const STEP_DOWN_MARGIN: Key<Span> = key(
    "stepDownMargin",
    Span::ANY,
    "How long before the lease's end the leader steps down; at least 2 % of it. Default: leaseDuration / 15.",
);
const ANSWER_VALIDITY: Key<Span> = key(
    "answerValidity",
    Span::ANY,
    "The longest promise that one answer makes. At most leaseDuration - stepDownMargin. Default: renewPeriod, at most \
     5s.",
);
pub(super) const SHARDS: Key<Or<Count>> = key(
    "shards",
    Or(Count(1, SHARDS_MAX as u32), 1),
    "Split over so many shards, each with a leader of its own, spread evenly over the replicas; up to {max}.",
);
const APP_CHECK: Key<Group> =
    key("appCheck", Group(&CHECK), "The app's health check: an app that hangs loses the role.");

const PRIORITY: Key<Count> = key(
    "priority",
    Count(0, 1_000_000),
    "Where the lead goes: to the replica of the greatest priority, up to {max}. Default: 0, which all have.",
);
const PREFER: Key<Words<Prefer>> = key(
    "prefer",
    Words::of(&[("newest", Prefer::Newest)]),
    "`newest`: among replicas of equal priority the lead goes to those of the `version` that was there last, so that \
     a rollout costs one handover.",
);
const PREFER_AFTER: Key<Or<Span>> = key(
    "preferAfter",
    Or(Span::up_to(Duration::from_secs(24 * 3_600)), Duration::from_secs(60)),
    "How long a replica that is preferred has been there, and another has led, when the lead is handed over to it; up \
     to {max}.",
);

/// Each of them makes a role go to who is preferred.
pub(super) const PREFERENCES: [&AnyKey; 2] = [&PRIORITY, &PREFER];

/// `roles[].prefer:`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Prefer {
    Newest,
}

const ROLE: Section = Section::new(
    "Role",
    "One role.",
    &[
        &NAME,
        &LEASE_DURATION,
        &RENEW_PERIOD,
        &STEP_DOWN_MARGIN,
        &ANSWER_VALIDITY,
        &SHARDS,
        &PRIORITY,
        &PREFER,
        &PREFER_AFTER,
        &APP_CHECK,
    ],
);

const HTTP_GET: Key<Group> = required("httpGet", Group(&REQUEST), "What to ask.");
const PERIOD: Key<Or<Span>> =
    key("period", Or(Span::up_to(Duration::from_secs(3_600)), Duration::from_secs(2)), "How often; up to {max}.");
const TIMEOUT: Key<Span> = key(
    "timeout",
    Span::POSITIVE,
    "When one check counts as failed; at most the period. Default: 1s, or the period when that is less.",
);
const TIMEOUT_USUAL: Duration = Duration::from_secs(1);
const FAILURE_THRESHOLD: Key<Or<Count>> = key(
    "failureThreshold",
    Or(Count(1, 1_000), 3),
    "How many failures in a row make the app unhealthy; one success makes it healthy again.",
);

const CHECK: Section = Section::new(
    "AppCheck",
    "A check of the app over HTTP; any status from 200 to 399 is well.",
    &[&HTTP_GET, &PERIOD, &TIMEOUT, &FAILURE_THRESHOLD],
);

const HOST: Key<Or<Text>> =
    key("host", Or(Text::ANY, "127.0.0.1"), "The host; the app is in the same pod, so rarely anything else.");
const PORT: Key<Count> = required("port", Count(1, u16::MAX as u32), "The port.");
const PATH: Key<Or<Text>> = key("path", Or(Text::like("^/"), "/"), "The path, and the query if any.");

const REQUEST: Section = Section::new("HttpGet", "A GET request over plain HTTP.", &[&HOST, &PORT, &PATH]);

/// The roles that are right, in the file's order; of one that is split, its shards.
pub(super) fn read(top: &Reader<'_>, version: Option<&str>) -> Vec<RoleConfig> {
    let Some(places) = top.given(&ROLES) else { return Vec::new() };
    let list = top.at(&ROLES);
    if places.is_empty() {
        list.problem("is empty; at least one role is needed, such as `- name: scheduler`");
    }
    let mut names: BTreeMap<RoleName, usize> = BTreeMap::new();
    let mut roles = Vec::new();
    for (index, s) in places.iter().enumerate() {
        let name = s.given(&NAME);
        if let Some(name) = &name {
            let first = *names.entry(name.clone()).or_insert(index);
            if first != index {
                s.at(&NAME).problem(format!("{name} is the name of roles[{first}] too; each role needs its own"));
            }
        }
        let (timing, app_check, shards) = (timing(s), s.given(&APP_CHECK), s.get(&SHARDS));
        let app_check = app_check.and_then(|check| read_check(&check));
        let preference = read_preference(s, shards, version);
        let (Some(name), Some(timing)) = (name, timing) else { continue };
        let names = match u16::try_from(shards) {
            Ok(shards @ 2..) => (0..shards).map(|number| name.shard(number)).collect(),
            _ => vec![name],
        };
        let role = |name| RoleConfig { name, timing, app_check: app_check.clone(), preference: preference.clone() };
        roles.extend(names.into_iter().map(role));
    }
    if roles.len() > ROLES_MAX {
        list.problem(format!(
            "make {} roles, with each shard counted; a sidecar takes {ROLES_MAX} at most: use fewer, or spread them \
             over several deployments",
            roles.len()
        ));
    }
    // They stay for as long as the process.
    roles.shrink_to_fit();
    roles
}

/// By what a role prefers who leads it. One that is split has a leader for each shard, so that none is preferred.
fn read_preference(s: &Reader<'_>, shards: u32, version: Option<&str>) -> Option<Preference> {
    if let Some(key) = PREFERENCES.into_iter().find(|key| s.has(key)).filter(|_| shards > 1) {
        s.at(key).problem("cannot be had with shards, which are spread evenly; remove one of the two");
        return None;
    }
    if !PREFERENCES.iter().any(|key| s.has(key)) {
        if s.has(&PREFER_AFTER) {
            s.at(&PREFER_AFTER).problem("says nothing without `priority` or `prefer`; add one of them, or remove it");
        }
        return None;
    }
    let newest = s.given(&PREFER).is_some();
    if newest && version.is_none() {
        s.at(&PREFER).problem(
            "needs to know which version this replica runs: set POD_VERSION from the downward API (fieldRef \
             metadata.labels['pod-template-hash']), or write `version: …` at the top",
        );
        return None;
    }
    let version = version.filter(|_| newest).map(str::to_owned);
    Some(Preference { priority: s.given(&PRIORITY).unwrap_or(0), version, after: s.get(&PREFER_AFTER) })
}

fn role_name(text: &str) -> Result<RoleName, String> {
    RoleName::new(text).map_err(|_| {
        "is not a role name; use a DNS label: 1 to 63 of a-z, 0-9 and `-`, beginning and ending with a letter or digit"
            .to_owned()
    })
}

fn timing(s: &Reader<'_>) -> Option<Timing> {
    let keys: [&AnyKey; 4] = [&LEASE_DURATION, &RENEW_PERIOD, &STEP_DOWN_MARGIN, &ANSWER_VALIDITY];
    let lease = s.get(&LEASE_DURATION);
    let renew = s.given(&RENEW_PERIOD).unwrap_or_else(|| Timing::default_renew_period(lease));
    let margin = s.given(&STEP_DOWN_MARGIN).unwrap_or_else(|| Timing::default_step_down_margin(lease));
    let validity = s.given(&ANSWER_VALIDITY).unwrap_or_else(|| Timing::default_answer_validity(renew));
    if s.any_bad(&keys) {
        return None;
    }
    let written: Vec<&AnyKey> = keys.into_iter().filter(|key| s.has(key)).collect();
    Timing::new(lease, renew, margin, validity).map_err(|problems| timing_problems(s, &problems, &written)).ok()
}

/// Reports what is wrong with timings where it can be put right: at the keys that are written in the file. What
/// follows only from a default that was derived from a wrong value is not worth telling.
fn timing_problems(s: &Reader<'_>, problems: &[TimingProblem], written: &[&AnyKey]) {
    let key_of = |problem: &TimingProblem| written.iter().find(|key| key.name == problem.field());
    let any_written = problems.iter().any(|problem| key_of(problem).is_some());
    for problem in problems.iter().filter(|problem| !any_written || key_of(problem).is_some()) {
        let place = key_of(problem).or(written.first()).map_or_else(|| s.clone(), |key| s.at(key));
        place.problem(problem.to_string());
    }
}

fn read_check(s: &Reader<'_>) -> Option<AppCheck> {
    let get = s.at(&HTTP_GET);
    let (host, path) = (get.get(&HOST), get.get(&PATH));
    if url::Host::parse(&host).is_err() {
        let message = "is not a host; write a name or an IP address without scheme and port, IPv6 in brackets";
        get.at(&HOST).problem(message);
    }
    if !path.starts_with('/') || !path.bytes().all(|b| b.is_ascii_graphic() && b != b'#') {
        get.at(&PATH).problem(
            "is not the path of a request; write one that begins with `/`, such as `/healthz`, other characters \
             percent-encoded",
        );
    }
    let port = get.given(&PORT);
    let (period, timeout) = (s.get(&PERIOD), s.given(&TIMEOUT));
    let timeout = timeout.unwrap_or(TIMEOUT_USUAL.min(period));
    if timeout > period && !s.at(&PERIOD).is_bad() {
        s.at(&TIMEOUT).problem(format!(
            "is {timeout:?}; it must be at most the period, {period:?}, so that checks do not overlap"
        ));
    }
    Some(AppCheck {
        host,
        port: u16::try_from(port?).ok()?,
        path,
        period,
        timeout,
        failure_threshold: s.get(&FAILURE_THRESHOLD),
    })
}
