//! The series of the contract.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;
use prometheus::core::Collector;
use prometheus::proto::MetricFamily;
use prometheus::{
    Gauge, GaugeVec, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts,
    Registry, TextEncoder,
};

use super::help;
use super::jobs::JobFamilies;
use super::kubernetes::KubernetesFamilies;
use super::labels::{CommandOutcome, CredentialOutcome, Reading, ReloadOutcome, StoreCommand};
use super::locks::LockFamilies;
use super::process;
use super::roles::{RoleCount, RoleFamily, RoleTable};
use crate::config::StoreUse;
use crate::protocol::RoleName;

/// Upper bounds in seconds, from a local Redis (a quarter of a millisecond) to a command timeout of several seconds.
pub(super) const SECONDS_BUCKETS: [f64; 14] =
    [0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0];

/// Every series of elections and the store, in a registry of its own. Shared by reference; counts from any thread.
pub struct Metrics {
    registry: Registry,
    store_command_duration: HistogramVec,
    store_member_up: IntGaugeVec,
    /// Families without a label, so that they are absent until they are told of.
    locks_store_up: IntGaugeVec,
    jobs_store_up: IntGaugeVec,
    /// Of stores whose credentials change, and absent of others.
    credential_renewals: IntCounterVec,
    credential_expiry: GaugeVec,
    config_reloads: IntCounterVec,
    config_is_good: IntGauge,
    of_locks: LockFamilies,
    of_jobs: JobFamilies,
    of_kubernetes: KubernetesFamilies,
    roles: Mutex<RoleTable>,
    started_at_s: f64,
}

impl std::fmt::Debug for Metrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Metrics").field("roles", &self.roles).finish_non_exhaustive()
    }
}

/// Builds families and registers them. Names, labels and helps are constants of this file.
pub(super) struct Builder(Registry);

impl Builder {
    fn register<C: Collector + Clone + 'static>(&self, metric: prometheus::Result<C>) -> C {
        metric
            .and_then(|metric| self.0.register(Box::new(metric.clone())).map(|()| metric))
            // Only a malformed or doubled name among the constants of this file fails, and every test would see it.
            .expect("metric names and labels are well-formed and unique")
    }

    pub(super) fn counters(&self, name: &str, labels: &[&str], help: &str) -> IntCounterVec {
        self.register(IntCounterVec::new(Opts::new(name, help), labels))
    }

    fn seconds(&self, name: &str, labels: &[&str], help: &str) -> HistogramVec {
        self.histograms(name, labels, &SECONDS_BUCKETS, help)
    }

    pub(super) fn gauges(&self, name: &str, labels: &[&str], help: &str) -> IntGaugeVec {
        self.register(IntGaugeVec::new(Opts::new(name, help), labels))
    }

    pub(super) fn histograms(&self, name: &str, labels: &[&str], buckets: &[f64], help: &str) -> HistogramVec {
        self.register(HistogramVec::new(HistogramOpts::new(name, help).buckets(buckets.to_vec()), labels))
    }

    pub(super) fn counter(&self, name: &str, help: &str) -> IntCounter {
        self.register(IntCounter::new(name, help))
    }

    pub(super) fn gauge(&self, name: &str, help: &str) -> IntGauge {
        self.register(IntGauge::new(name, help))
    }

    pub(super) fn histogram(&self, name: &str, buckets: &[f64], help: &str) -> Histogram {
        self.register(Histogram::with_opts(HistogramOpts::new(name, help).buckets(buckets.to_vec())))
    }
}

impl Metrics {
    /// The series without a role at zero; [`Self::add_role`] adds the others. `started_at`: when this process began.
    pub fn new(started_at: Timestamp) -> Self {
        let build = Builder(Registry::new());
        let command_labels = ["command", "outcome"];
        let metrics = Self {
            store_command_duration: build.seconds(
                "baton_store_command_duration_seconds",
                &command_labels,
                help::STORE_COMMAND_DURATION,
            ),
            store_member_up: build.gauges("baton_store_member_up", &["member"], help::STORE_MEMBER_UP),
            locks_store_up: build.gauges("baton_locks_store_up", &[], help::LOCKS_STORE_UP),
            jobs_store_up: build.gauges("baton_jobs_store_up", &[], help::JOBS_STORE_UP),
            credential_renewals: build.counters(
                "baton_credential_renewals_total",
                &["store", "outcome"],
                help::CREDENTIAL_RENEWALS,
            ),
            credential_expiry: build.register(GaugeVec::new(
                Opts::new("baton_credential_expiry_timestamp_seconds", help::CREDENTIAL_EXPIRY),
                &["store"],
            )),
            config_reloads: build.counters("baton_config_reloads_total", &["outcome"], help::CONFIG_RELOADS),
            config_is_good: build.gauge("baton_config_last_reload_successful", help::CONFIG_IS_GOOD),
            of_locks: LockFamilies::new(&build),
            of_jobs: JobFamilies::new(&build),
            of_kubernetes: KubernetesFamilies::new(&build),
            roles: Mutex::default(),
            started_at_s: started_at.as_duration().as_secs_f64(),
            registry: build.0,
        };
        metrics.zero_what_has_no_role();
        metrics
    }

    fn zero_what_has_no_role(&self) {
        for command in StoreCommand::ALL {
            for outcome in CommandOutcome::ALL {
                self.store_command_duration.with_label_values(&[command.as_str(), outcome.as_str()]);
            }
        }
        // The file that this process started with was good.
        self.config_is_good.set(1);
        for outcome in ReloadOutcome::ALL {
            self.config_reloads.with_label_values(&[outcome.as_str()]);
        }
    }

    /// Registers every series of a role at zero. A role that has them already keeps its counts.
    pub fn add_role(&self, role: &RoleName) {
        self.roles.lock().add(role);
    }

    /// Removes every series of a role that is no longer configured.
    pub fn remove_role(&self, role: &RoleName) {
        self.roles.lock().remove(role);
    }

    /// Counts what happened to a role. Nothing, once the role is removed.
    pub(super) fn count(&self, role: &RoleName, what: RoleCount) {
        self.roles.lock().count(role, what);
    }

    pub(super) fn of_jobs(&self) -> &JobFamilies {
        &self.of_jobs
    }

    pub(super) fn of_kubernetes(&self) -> &KubernetesFamilies {
        &self.of_kubernetes
    }

    pub(super) fn of_locks(&self) -> &LockFamilies {
        &self.of_locks
    }

    /// Counts a store command. `took`: from sending to the answer, or to giving it up.
    pub fn store_command(&self, command: StoreCommand, outcome: CommandOutcome, took: Duration) {
        let series = self.store_command_duration.with_label_values(&[command.as_str(), outcome.as_str()]);
        series.observe(took.as_secs_f64());
    }

    /// Which members of a quorum answer, in the order of the configuration.
    pub fn store_members(&self, members: &[bool]) {
        for (member, up) in members.iter().enumerate() {
            self.store_member_up.with_label_values(&[&member.to_string()]).set(i64::from(*up));
        }
    }

    /// Whether a store answers that locks or jobs have for themselves. That of the leases is asked at the scrape.
    pub fn own_store_up(&self, of: StoreUse, up: bool) {
        let family = match of {
            StoreUse::Leases => return,
            StoreUse::Locks => &self.locks_store_up,
            StoreUse::Jobs => &self.jobs_store_up,
        };
        family.with_label_values::<&str>(&[]).set(i64::from(up));
    }

    /// How often renewals of a store's credentials have had this outcome so far.
    pub fn credential_renewals(&self, of: StoreUse, outcome: CredentialOutcome, total: u64) {
        let series = self.credential_renewals.with_label_values(&[of.as_str(), outcome.as_str()]);
        series.inc_by(total.saturating_sub(series.get()));
    }

    /// When the present credential of a store ends.
    pub fn credential_expiry(&self, of: StoreUse, at: Timestamp) {
        self.credential_expiry.with_label_values(&[of.as_str()]).set(at.as_duration().as_secs_f64());
    }

    pub(super) fn config_reloaded(&self, outcome: ReloadOutcome) {
        self.config_reloads.with_label_values(&[outcome.as_str()]).inc();
        self.config_is_good.set(i64::from(outcome == ReloadOutcome::Ok));
    }

    /// Everything, in Prometheus' text format, in pieces that are written as they are taken: of a thousand roles all of
    /// it is several megabytes. `readings` says who leads now, `store_up` whether the store answers.
    ///
    /// # Errors
    /// Only when two families of one name disagree, which is a bug.
    pub fn pieces(
        &self,
        readings: Vec<Reading>,
        store_up: bool,
    ) -> prometheus::Result<impl Iterator<Item = prometheus::Result<String>> + Send + Sync + use<>> {
        let mut families = self.registry.gather();
        families.extend(of_this_build(store_up)?);
        families.extend(process::families(self.started_at_s));
        let of_process = TextEncoder::new().encode_to_string(&families);
        // A copy, so that no role waits for a scrape.
        let roles = self.roles.lock().clone();
        let leading: BTreeMap<_, _> =
            readings.into_iter().filter_map(|reading| Some((reading.role, reading.leading?))).collect();
        // The encoder refuses families with nothing in them.
        let of_roles: &[RoleFamily] = if roles.is_empty() { &[] } else { &RoleFamily::ALL };
        let of_roles =
            of_roles.iter().map(move |family| TextEncoder::new().encode_to_string(&[roles.family(*family, &leading)]));
        Ok(std::iter::once(of_process).chain(of_roles))
    }

    /// All pieces as one text.
    ///
    /// # Errors
    /// As [`Self::pieces`].
    pub fn render(&self, readings: Vec<Reading>, store_up: bool) -> prometheus::Result<String> {
        self.pieces(readings, store_up)?.collect()
    }
}

fn of_this_build(store_up: bool) -> prometheus::Result<Vec<MetricFamily>> {
    let up = Gauge::new("baton_store_up", "1 while the store answers, else 0.")?;
    up.set(if store_up { 1.0 } else { 0.0 });
    let build = GaugeVec::new(Opts::new("baton_build_info", "Always 1; the labels tell the build."), &["version"])?;
    build.with_label_values(&[env!("CARGO_PKG_VERSION")]).set(1.0);
    Ok([up.collect(), build.collect()].concat())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::Token;
    use crate::telemetry::TermReading;

    fn role(name: &str) -> RoleName {
        RoleName::new(name).unwrap()
    }

    fn lines<'a>(text: &'a str, start: &str) -> Vec<&'a str> {
        text.lines().filter(|line| line.starts_with(start)).collect()
    }

    #[test]
    fn every_series_of_a_role_is_there_at_zero_before_anything_happens() {
        let metrics = Metrics::new(Timestamp::UNIX_EPOCH);
        metrics.add_role(&role("a"));
        let text = metrics.render(Vec::new(), false).unwrap();
        for (series, count) in [
            ("baton_campaigns_total{", 4),
            ("baton_renewals_total{", 4),
            ("baton_lost_leases_total{", 3),
            ("baton_releases_total{", 7),
            ("baton_store_guards_total{", 4),
            ("baton_contention_total{", 1),
            ("baton_transitions_total{", 1),
            ("baton_renewal_duration_seconds_count{", 1),
            ("baton_store_command_duration_seconds_count{", 115),
            ("baton_config_reloads_total{", 2),
            ("baton_leader{", 1),
            ("baton_leader_since_timestamp_seconds{", 1),
            ("baton_fencing_token{", 1),
            ("baton_lease_remaining_seconds{", 1),
            ("leader_election_master_status{", 1),
            ("baton_store_up ", 1),
        ] {
            let found = lines(&text, series);
            assert_eq!(found.len(), count, "{series} in {text}");
            assert!(found.iter().all(|line| line.ends_with(" 0")), "{found:?}");
        }
    }

    #[test]
    fn a_store_of_their_own_is_told_of_where_there_is_one() {
        let metrics = Metrics::new(Timestamp::UNIX_EPOCH);
        let told = |family: &str| {
            let text = metrics.render(Vec::new(), true).unwrap();
            lines(&text, family).first().map(|line| (*line).to_owned())
        };
        metrics.own_store_up(StoreUse::Leases, false);
        assert_eq!((told("baton_locks_store_up"), told("baton_jobs_store_up")), (None, None));
        metrics.own_store_up(StoreUse::Locks, false);
        assert_eq!(
            (told("baton_locks_store_up").as_deref(), told("baton_jobs_store_up")),
            (Some("baton_locks_store_up 0"), None)
        );
        metrics.own_store_up(StoreUse::Jobs, true);
        assert_eq!(told("baton_jobs_store_up").as_deref(), Some("baton_jobs_store_up 1"));
    }

    #[test]
    fn credentials_are_told_of_where_they_change() {
        let metrics = Metrics::new(Timestamp::UNIX_EPOCH);
        let told = || {
            let text = metrics.render(Vec::new(), true).unwrap();
            lines(&text, "baton_credential").into_iter().map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(told(), Vec::<String>::new());
        metrics.credential_renewals(StoreUse::Locks, CredentialOutcome::Refused, 0);
        for total in [2, 3, 3] {
            metrics.credential_renewals(StoreUse::Leases, CredentialOutcome::Ok, total);
        }
        metrics.credential_expiry(StoreUse::Leases, Timestamp::from_millisecond(1_500).unwrap());
        assert_eq!(
            told(),
            [
                "baton_credential_expiry_timestamp_seconds{store=\"leases\"} 1.5",
                "baton_credential_renewals_total{outcome=\"ok\",store=\"leases\"} 3",
                "baton_credential_renewals_total{outcome=\"refused\",store=\"locks\"} 0",
            ]
        );
    }

    #[test]
    fn a_removed_role_leaves_no_series_behind() {
        let metrics = Metrics::new(Timestamp::UNIX_EPOCH);
        metrics.add_role(&role("gone"));
        metrics.add_role(&role("kept"));
        metrics.remove_role(&role("gone"));
        let text = metrics.render(Vec::new(), true).unwrap();
        assert!(!text.contains("\"gone\"") && text.contains("\"kept\""), "{text}");
    }

    #[test]
    fn leadership_is_what_the_reading_says_at_the_scrape() {
        let metrics = Metrics::new(Timestamp::UNIX_EPOCH);
        metrics.add_role(&role("a"));
        let token = Token::new((1 << 53) - 1).unwrap();
        let term = TermReading {
            token,
            remaining: Duration::from_millis(1_500),
            since: Timestamp::from_millisecond(1_763_680_000_250).unwrap(),
        };
        let reading = Reading { role: role("a"), leading: Some(term) };
        let text = metrics.render(vec![reading], true).unwrap();
        assert_eq!(lines(&text, "baton_fencing_token{"), ["baton_fencing_token{role=\"a\"} 9007199254740991"]);
        assert_eq!(lines(&text, "baton_lease_remaining"), ["baton_lease_remaining_seconds{role=\"a\"} 1.5"]);
        assert_eq!(lines(&text, "baton_leader{"), ["baton_leader{role=\"a\"} 1"]);
        let since = "baton_leader_since_timestamp_seconds";
        assert_eq!(lines(&text, since), [format!("{since}{{role=\"a\"}} 1763680000.25")]);
        let text = metrics.render(Vec::new(), true).unwrap();
        assert_eq!(lines(&text, "baton_leader{"), ["baton_leader{role=\"a\"} 0"]);
    }

    #[test]
    fn a_term_counts_once_however_often_it_is_seen() {
        let metrics = Metrics::new(Timestamp::UNIX_EPOCH);
        metrics.add_role(&role("a"));
        for token in [5, 5, 7, 6, 7] {
            metrics.count(&role("a"), RoleCount::Term(Token::new(token).unwrap()));
        }
        let text = metrics.render(Vec::new(), true).unwrap();
        assert_eq!(lines(&text, "baton_transitions_total{"), ["baton_transitions_total{role=\"a\"} 2"]);
    }
}
