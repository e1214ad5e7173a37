//! `roles:` and `defaultRole:`.

use std::collections::BTreeMap;
use std::time::Duration;

use super::Checker;
use crate::config::model::{AppCheck, RoleConfig, StoreConfig};
use crate::config::position::Path;
use crate::config::raw::{RawAppCheck, RawHttpGet, RawRole, Scalar};
use crate::protocol::{RoleName, SHARDS_MAX, Timing, TimingProblem};

/// How many roles a sidecar takes, shards counted: as many as renewals, streams and the page are measured with.
const ROLES_MAX: usize = 1_000;
const LEASE_DURATION: Duration = Duration::from_secs(15);
const CHECK_PERIOD: Duration = Duration::from_secs(2);
const CHECK_PERIOD_MAX: Duration = Duration::from_secs(3_600);
const CHECK_TIMEOUT: Duration = Duration::from_secs(1);
const CHECK_FAILURES: u32 = 3;

impl Checker<'_> {
    /// The roles that are right, in the file's order; of one that is split, its shards.
    pub(super) fn roles(&mut self, raw: Option<&[Option<RawRole>]>, path: &Path) -> Vec<RoleConfig> {
        let Some(raw) = raw else { return Vec::new() };
        if raw.is_empty() {
            self.problem(path, "is empty; at least one role is needed, such as `- name: scheduler`".to_owned());
        }
        let mut names: BTreeMap<RoleName, usize> = BTreeMap::new();
        let mut roles = Vec::new();
        for (index, raw) in raw.iter().enumerate() {
            let Some(raw) = raw else { continue };
            let path = path.index(index);
            let name = self.role_name(raw.name.as_ref(), &path.key("name"));
            if let Some(name) = &name {
                match names.get(name) {
                    Some(first) => {
                        let message = format!("{name} is the name of roles[{first}] too; each role needs its own");
                        self.problem(&path.key("name"), message);
                    }
                    None => drop(names.insert(name.clone(), index)),
                }
            }
            let timing = self.timing(raw, &path);
            let app_check = raw.app_check.as_ref().and_then(|check| self.app_check(check, &path.key("appCheck")));
            let shards = self.count_of_shards(raw.shards.as_ref(), &path.key("shards"));
            let (Some(name), Some(timing)) = (name, timing) else { continue };
            let names = match shards {
                Some(shards @ 2..) => (0..shards).map(|number| name.shard(number)).collect(),
                _ => vec![name],
            };
            roles.extend(names.into_iter().map(|name| RoleConfig { name, timing, app_check: app_check.clone() }));
        }
        if roles.len() > ROLES_MAX {
            let message = format!(
                "make {} roles, with each shard counted; a sidecar takes {ROLES_MAX} at most: use fewer, or spread \
                 them over several deployments",
                roles.len()
            );
            self.problem(path, message);
        }
        // They stay for as long as the process.
        roles.shrink_to_fit();
        roles
    }

    /// Shards need a store that tells the replicas of each other.
    pub(super) fn shards(&mut self, raw: Option<&[Option<RawRole>]>, store: Option<&StoreConfig>, path: &Path) {
        let Some(reason) = store.and_then(StoreConfig::without_shards) else { return };
        for (index, raw) in raw.unwrap_or_default().iter().enumerate() {
            let path = path.index(index).key("shards");
            let given = raw.as_ref().and_then(|raw| raw.shards.as_ref()).filter(|_| !self.is_bad(&path));
            if self.count_of_shards(given, &path).is_some_and(|shards| shards > 1) {
                self.problem(&path, format!("more than 1 cannot be had with this store: {reason}"));
            }
        }
    }

    /// `defaultRole:` must be one of the roles.
    pub(super) fn default_role(
        &mut self,
        given: Option<&Scalar>,
        roles: &[RoleConfig],
        root: &Path,
    ) -> Option<RoleName> {
        let path = root.key("defaultRole");
        let name = self.role_name(given, &path)?;
        let name_of_split = |role: &RoleConfig| role.name.shard_number().is_some() && role.name.role() == name;
        if roles.iter().any(name_of_split) {
            let message = format!(
                "{name} is split over shards, which have a leader each, so that /leader could not name one; remove it, \
                 and let apps ask for /leader/{name}/0 and so on"
            );
            self.problem(&path, message);
            return None;
        }
        // With a role missing from the list because something is wrong with it, nobody knows.
        if !roles.iter().any(|role| role.name == name) && !self.has_bad_within(&root.key("roles")) {
            let known: Vec<String> = roles.iter().map(|role| format!("`{}`", role.name)).collect();
            let shown = given.map(|given| self.shown(given, &path)).unwrap_or_default();
            self.problem(&path, format!("{shown} is not one of the roles; they are {}", known.join(", ")));
        }
        Some(name)
    }

    fn role_name(&mut self, given: Option<&Scalar>, path: &Path) -> Option<RoleName> {
        let text = self.text(given, path)?;
        let name = RoleName::new(text).ok();
        if name.is_none() {
            let shown = given.map(|given| self.shown(given, path)).unwrap_or_default();
            self.problem(
                path,
                format!(
                    "{shown} is not a role name; use a DNS label: 1 to 63 of a-z, 0-9 and `-`, beginning and ending \
                     with a letter or digit"
                ),
            );
        }
        name
    }

    fn timing(&mut self, raw: &RawRole, path: &Path) -> Option<Timing> {
        let keys = ["leaseDuration", "renewPeriod", "stepDownMargin", "answerValidity"];
        let values = [&raw.lease_duration, &raw.renew_period, &raw.step_down_margin, &raw.answer_validity];
        let mut given = [None; 4];
        for ((key, value), slot) in keys.iter().zip(values).zip(&mut given) {
            *slot = self.duration(value.as_ref(), &path.key(key));
        }
        if keys.iter().any(|key| self.is_bad(&path.key(key))) {
            return None;
        }
        let [lease, renew, margin, validity] = given;
        let lease = lease.unwrap_or(LEASE_DURATION);
        let renew = renew.unwrap_or_else(|| Timing::default_renew_period(lease));
        let margin = margin.unwrap_or_else(|| Timing::default_step_down_margin(lease));
        let validity = validity.unwrap_or_else(|| Timing::default_answer_validity(renew));
        match Timing::new(lease, renew, margin, validity) {
            Ok(timing) => Some(timing),
            Err(problems) => {
                let written: Vec<&str> =
                    keys.into_iter().zip(values).filter_map(|(key, value)| value.as_ref().map(|_| key)).collect();
                self.timing_problems(&problems, &written, path);
                None
            }
        }
    }

    /// Reports what is wrong with timings where it can be put right: at the keys that are written in the file. What
    /// follows only from a default that was derived from a wrong value is not worth telling.
    fn timing_problems(&mut self, problems: &[TimingProblem], written: &[&str], path: &Path) {
        let (mut of_written, others): (Vec<&TimingProblem>, Vec<&TimingProblem>) =
            problems.iter().partition(|problem| written.contains(&problem.field()));
        if of_written.is_empty() {
            of_written = others;
        }
        for problem in of_written {
            let key = if written.contains(&problem.field()) { Some(problem.field()) } else { written.first().copied() };
            let at = key.map_or_else(|| path.clone(), |key| path.key(key));
            self.problem(&at, problem.to_string());
        }
    }

    fn count_of_shards(&mut self, given: Option<&Scalar>, path: &Path) -> Option<u16> {
        let shards = self.count(given, path, 1..=u32::from(SHARDS_MAX))?;
        u16::try_from(shards).ok()
    }

    fn app_check(&mut self, raw: &RawAppCheck, path: &Path) -> Option<AppCheck> {
        let target = raw.http_get.as_ref().and_then(|http_get| self.http_get(http_get, &path.key("httpGet")));
        let (period_path, timeout_path) = (path.key("period"), path.key("timeout"));
        let period = self.positive_duration(raw.period.as_ref(), &period_path);
        let timeout = self.positive_duration(raw.timeout.as_ref(), &timeout_path);
        let failures = self.count(raw.failure_threshold.as_ref(), &path.key("failureThreshold"), 1..=1000);
        if self.has_bad_within(path) {
            return None;
        }
        let period = period.unwrap_or(CHECK_PERIOD);
        if period > CHECK_PERIOD_MAX {
            self.problem(&period_path, format!("is {period:?}; it must be at most 1h"));
        }
        let timeout = timeout.unwrap_or(CHECK_TIMEOUT.min(period));
        if timeout > period {
            let message =
                format!("is {timeout:?}; it must be at most the period, {period:?}, so that checks do not overlap");
            self.problem(&timeout_path, message);
        }
        let (host, port, http_path) = target?;
        let failure_threshold = failures.unwrap_or(CHECK_FAILURES);
        Some(AppCheck { host, port, path: http_path, period, timeout, failure_threshold })
    }

    fn http_get(&mut self, raw: &RawHttpGet, path: &Path) -> Option<(String, u16, String)> {
        let host = self.text(raw.host.as_ref(), &path.key("host")).unwrap_or("127.0.0.1").to_owned();
        if ::url::Host::parse(&host).is_err() {
            let message = "is not a host; write a name or an IP address without scheme and port, IPv6 in brackets";
            self.problem(&path.key("host"), message.to_owned());
        }
        let http_path = self.text(raw.path.as_ref(), &path.key("path")).unwrap_or("/").to_owned();
        if !http_path.starts_with('/') || !http_path.bytes().all(|b| b.is_ascii_graphic() && b != b'#') {
            let message = "is not the path of a request; write one that begins with `/`, such as `/healthz`, other \
                           characters percent-encoded";
            self.problem(&path.key("path"), message.to_owned());
        }
        let port = self.count(raw.port.as_ref(), &path.key("port"), 1..=u32::from(u16::MAX));
        Some((host, u16::try_from(port?).ok()?, http_path))
    }
}
