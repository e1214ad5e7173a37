//! What a changed configuration asks for: a restart, or changes while running.

use std::collections::{BTreeMap, BTreeSet};

use super::{Config, StoreUse};
use crate::protocol::RoleName;
use crate::protocol::jobs::JobName;

/// What can be applied without a restart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LiveChanges {
    /// Those that are gone are drained and released; one with other timings or another health check is changed.
    pub roles: Differences<RoleName>,
    /// Whether `defaultRole` is another.
    pub default_role: bool,
    /// Whether `maxConcurrentRuns` is another.
    pub max_concurrent_runs: bool,
    /// One of which anything is different (schedule, policy, role or what a run is) is changed.
    pub jobs: Differences<JobName>,
}

/// What differs between two lists, by the names of their items.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Differences<N> {
    pub added: Vec<N>,
    pub removed: Vec<N>,
    pub changed: Vec<N>,
}

impl<N> Default for Differences<N> {
    fn default() -> Self {
        Self { added: Vec::new(), removed: Vec::new(), changed: Vec::new() }
    }
}

impl Config {
    /// The sections that differ in `new` and are only read at start. Until then the old ones are in force.
    pub fn restart_needed(&self, new: &Self) -> Vec<&'static str> {
        // Taken apart, so that a new section cannot be forgotten here.
        let Self {
            identity,
            api,
            telemetry,
            store,
            roles: _,
            default_role: _,
            kubernetes,
            locks,
            jobs: _,
            max_concurrent_runs: _,
            jobs_store,
            jobs_dapr,
            log,
        } = self;
        let sections = [
            ("identity", *identity != new.identity),
            ("api.listen", api.listen != new.api.listen),
            ("api.tokenFile", api.token != new.api.token),
            ("telemetry.listen", telemetry.listen != new.telemetry.listen),
            ("store", *store != new.store),
            ("kubernetes", *kubernetes != new.kubernetes),
            ("locks", *locks != new.locks),
            ("jobsStore", *jobs_store != new.jobs_store),
            ("jobsDapr", *jobs_dapr != new.jobs_dapr),
            ("log", *log != new.log),
        ];
        sections.into_iter().filter(|(_, differs)| *differs).map(|(section, _)| section).collect()
    }

    /// What changes in `new` that is applied while running.
    pub fn live_changes(&self, new: &Self) -> LiveChanges {
        // Without ledgers none runs before the restart that brings a store which has them.
        let runs_jobs = self.store_of(StoreUse::Jobs).without_jobs().is_none();
        LiveChanges {
            roles: differences(&self.roles, &new.roles, |role| &role.name),
            default_role: self.default_role != new.default_role,
            max_concurrent_runs: self.max_concurrent_runs != new.max_concurrent_runs,
            jobs: differences(&self.jobs, if runs_jobs { &new.jobs } else { &self.jobs }, |job| &job.name),
        }
    }
}

/// What differs between two lists whose items are told apart by their names.
fn differences<T: PartialEq, N: Clone + Ord>(old: &[T], new: &[T], name: impl Fn(&T) -> &N) -> Differences<N> {
    let known: BTreeMap<&N, &T> = old.iter().map(|item| (name(item), item)).collect();
    let kept: BTreeSet<&N> = new.iter().map(&name).collect();
    let names = |items: Vec<&T>| items.into_iter().map(|item| name(item).clone()).collect();
    let changed = |item: &&T| known.get(name(item)).is_some_and(|old| old != item);
    Differences {
        added: names(new.iter().filter(|item| !known.contains_key(name(item))).collect()),
        removed: names(old.iter().filter(|item| !kept.contains(name(item))).collect()),
        changed: names(new.iter().filter(changed).collect()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Environment, check_text};

    const BASE: &str = "
identity: web-0
api: { listen: 127.0.0.1:4040 }
telemetry: { listen: 0.0.0.0:4041 }
store: { redis: { url: redis://redis:6379, password: '${PW:-one}', guard: strict } }
roles: [{ name: a }, { name: b }]
defaultRole: a
log: { level: info }
locks: { lease: 20s }
kubernetes: { events: false }
jobsDapr: { url: 'http://app', role: a }
";

    fn config(text: &str) -> Config {
        let environment = Environment::new(|name| name.starts_with("POD_").then(|| "web-0".to_owned()), None);
        check_text(text, "t.yaml", &environment).unwrap_or_else(|error| panic!("{error}")).config
    }

    #[test]
    fn sections_read_at_start_ask_for_a_restart() {
        let base = config(BASE);
        assert!(base.restart_needed(&config(BASE)).is_empty());
        for (from, to, section) in [
            ("web-0", "web-1", "identity"),
            ("127.0.0.1:4040", "127.0.0.1:4050", "api.listen"),
            ("0.0.0.0:4041", "0.0.0.0:4051", "telemetry.listen"),
            ("redis://redis:6379", "redis://other:6379", "store"),
            (":-one", ":-two", "store"),
            ("strict", "off", "store"),
            ("redis: { url: redis://redis:6379, password: '${PW:-one}', guard: strict }", "memory: {}", "store"),
            ("info", "debug", "log"),
            ("lease: 20s", "lease: 25s", "locks"),
            ("events: false", "events: true", "kubernetes"),
            ("http://app", "http://other", "jobsDapr"),
        ] {
            let changed = config(&BASE.replace(from, to));
            assert_eq!(base.restart_needed(&changed), [section], "{from} to {to}");
            assert_eq!(base.live_changes(&changed), LiveChanges::default(), "{from} to {to}");
        }
    }

    #[test]
    fn roles_change_while_running() {
        let base = config(BASE);
        let changed =
            config(&BASE.replace("[{ name: a }, { name: b }]", "[{ name: a, leaseDuration: 30s }, { name: c }]"));
        let changes = base.live_changes(&changed);
        let names = |names: &[RoleName]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(names(&changes.roles.added), ["c"]);
        assert_eq!(names(&changes.roles.removed), ["b"]);
        assert_eq!(names(&changes.roles.changed), ["a"]);
        assert!(!changes.default_role && base.restart_needed(&changed).is_empty());
        let other_default = config(&BASE.replace("defaultRole: a", "defaultRole: b"));
        assert!(base.live_changes(&other_default).default_role);
        let bounded = config(&format!("{BASE}maxConcurrentRuns: 3\n"));
        assert!(base.live_changes(&bounded).max_concurrent_runs && base.restart_needed(&bounded).is_empty());
    }

    #[test]
    fn jobs_change_while_running() {
        let job = |name: &str, more: &str| {
            format!("{{ name: {name}, role: a, run: {{ http: {{ url: 'http://app' }} }}, schedule: '@daily'{more} }}")
        };
        let with = |jobs: &[String]| config(&format!("{BASE}jobs: [{}]\n", jobs.join(", ")));
        let base = with(&[job("a", ""), job("b", ""), job("c", "")]);
        let reordered = with(&[job("c", ""), job("b", ""), job("a", "")]);
        assert_eq!(base.live_changes(&reordered), LiveChanges::default(), "another order");
        let names = |names: &[JobName]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
        for more in [", timeZone: Europe/Berlin", ", suspend: true", ", backoffLimit: 1", ", catchUp: all"] {
            let changed = with(&[job("a", ""), job("c", more), job("d", "")]);
            let changes = base.live_changes(&changed);
            assert_eq!(names(&changes.jobs.added), ["d"]);
            assert_eq!(names(&changes.jobs.removed), ["b"]);
            assert_eq!(names(&changes.jobs.changed), ["c"], "{more}");
            assert!(changes.roles.added.is_empty() && base.restart_needed(&changed).is_empty());
        }
    }
}
