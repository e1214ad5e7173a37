//! The series of the contract.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use prometheus::core::Collector;
use prometheus::proto::MetricFamily;
use prometheus::{
    Gauge, GaugeVec, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts,
    Registry, TextEncoder,
};

use super::jobs::JobFamilies;
use super::kubernetes::KubernetesFamilies;
use super::labels::{CommandOutcome, Reading, ReloadOutcome, StoreCommand};
use super::locks::LockFamilies;
use super::process;
use crate::protocol::{CampaignOutcome, GuardCause, LossReason, ReleaseReason, RenewalOutcome, RoleName, Token};

/// What each family means.
mod help {
    pub(super) const CAMPAIGNS: &str = "Campaigns of this replica by outcome: granted, held by another, guarded (the \
        store may have forgotten a lease), or error (no usable answer).";
    pub(super) const CONTENTION: &str = "Terms that another replica won while this one was trying to win them.";
    pub(super) const RENEWALS: &str = "Renewals by outcome: ok, reasserted (the store had lost the lease), lost (the \
        term is over) or error (no usable answer).";
    pub(super) const RENEWAL_DURATION: &str = "Time from sending a renewal to its answer, or to giving it up.";
    pub(super) const LOST_LEASES: &str = "Terms of this replica that ended against its will: expired, superseded by \
        another, or given up because the app was unhealthy.";
    pub(super) const RELEASES: &str = "Leases that this replica gave back, by reason.";
    pub(super) const TRANSITIONS: &str = "Terms of any replica that this one has seen: each fencing token counts once, \
        when it is first seen, including the term that stood when this replica started.";
    pub(super) const STORE_GUARDS: &str = "Times that the store was closed to new leaders because it may have \
        forgotten a lease that still stands, by cause.";
    pub(super) const IDENTITY_CLASHES: &str =
        "Times that another process was seen to campaign under this replica's identity.";
    pub(super) const STORE_CLOCK_STEPS: &str = "Times that the store's clock moved against this replica's.";
    pub(super) const STORE_COMMAND_DURATION: &str =
        "Time from sending a command to the store to its answer, or to giving it up.";
    pub(super) const STORE_MEMBER_UP: &str =
        "1 while this member of the quorum answers and counts, else 0; members in the order of store.quorum.members.";
    pub(super) const CONFIG_RELOADS: &str =
        "Changed configuration files by outcome: ok (in force), or refused (it has problems, the old one stays).";
}

/// Upper bounds in seconds, from a local Redis (a quarter of a millisecond) to a command timeout of several seconds.
const SECONDS_BUCKETS: [f64; 14] =
    [0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0];

/// The families with a series for each role.
struct RoleFamilies {
    campaigns: IntCounterVec,
    contention: IntCounterVec,
    renewals: IntCounterVec,
    renewal_duration: HistogramVec,
    lost_leases: IntCounterVec,
    releases: IntCounterVec,
    transitions: IntCounterVec,
    store_guards: IntCounterVec,
    identity_clashes: IntCounterVec,
    store_clock_steps: IntCounterVec,
}

/// Every series of elections and the store, in a registry of its own. Shared by reference; counts from any thread.
pub struct Metrics {
    registry: Registry,
    of_roles: RoleFamilies,
    store_command_duration: HistogramVec,
    store_member_up: IntGaugeVec,
    config_reloads: IntCounterVec,
    of_locks: LockFamilies,
    of_jobs: JobFamilies,
    of_kubernetes: KubernetesFamilies,
    /// The roles that have series, and the greatest token of each whose beginning was counted.
    roles: Mutex<BTreeMap<RoleName, Token>>,
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

impl RoleFamilies {
    fn new(build: &Builder) -> Self {
        Self {
            campaigns: build.counters("baton_campaigns_total", &["role", "outcome"], help::CAMPAIGNS),
            contention: build.counters("baton_contention_total", &["role"], help::CONTENTION),
            renewals: build.counters("baton_renewals_total", &["role", "outcome"], help::RENEWALS),
            renewal_duration: build.seconds("baton_renewal_duration_seconds", &["role"], help::RENEWAL_DURATION),
            lost_leases: build.counters("baton_lost_leases_total", &["role", "reason"], help::LOST_LEASES),
            releases: build.counters("baton_releases_total", &["role", "reason"], help::RELEASES),
            transitions: build.counters("baton_transitions_total", &["role"], help::TRANSITIONS),
            store_guards: build.counters("baton_store_guards_total", &["role", "cause"], help::STORE_GUARDS),
            identity_clashes: build.counters("baton_identity_clashes_total", &["role"], help::IDENTITY_CLASHES),
            store_clock_steps: build.counters("baton_store_clock_steps_total", &["role"], help::STORE_CLOCK_STEPS),
        }
    }

    /// The counters, each with the words of its second label, if it has one.
    fn counters(&self) -> [(&IntCounterVec, Vec<&'static str>); 9] {
        [
            (&self.campaigns, CampaignOutcome::ALL.map(CampaignOutcome::as_str).to_vec()),
            (&self.renewals, RenewalOutcome::ALL.map(RenewalOutcome::as_str).to_vec()),
            (&self.lost_leases, LossReason::ALL.map(LossReason::as_str).to_vec()),
            (&self.releases, ReleaseReason::ALL.map(ReleaseReason::as_str).to_vec()),
            (&self.store_guards, GuardCause::ALL.map(GuardCause::as_str).to_vec()),
            (&self.contention, Vec::new()),
            (&self.transitions, Vec::new()),
            (&self.identity_clashes, Vec::new()),
            (&self.store_clock_steps, Vec::new()),
        ]
    }
}

impl Metrics {
    /// The series without a role at zero; [`Self::add_role`] adds the others. `started_at`: when this process began.
    pub fn new(started_at: Timestamp) -> Self {
        let build = Builder(Registry::new());
        let command_labels = ["command", "outcome"];
        let metrics = Self {
            of_roles: RoleFamilies::new(&build),
            store_command_duration: build.seconds(
                "baton_store_command_duration_seconds",
                &command_labels,
                help::STORE_COMMAND_DURATION,
            ),
            store_member_up: build.gauges("baton_store_member_up", &["member"], help::STORE_MEMBER_UP),
            config_reloads: build.counters("baton_config_reloads_total", &["outcome"], help::CONFIG_RELOADS),
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
        for outcome in ReloadOutcome::ALL {
            self.config_reloads.with_label_values(&[outcome.as_str()]);
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<RoleName, Token>> {
        // Nothing panics while it is held.
        self.roles.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers every series of a role at zero. A role that has them already keeps its counts.
    pub fn add_role(&self, role: &RoleName) {
        self.lock().entry(role.clone()).or_default();
        for (family, words) in self.of_roles.counters() {
            if words.is_empty() {
                family.with_label_values(&[role.as_str()]);
            }
            for word in words {
                family.with_label_values(&[role.as_str(), word]);
            }
        }
        self.of_roles.renewal_duration.with_label_values(&[role.as_str()]);
    }

    /// Removes every series of a role that is no longer configured.
    pub fn remove_role(&self, role: &RoleName) {
        self.lock().remove(role);
        // Removing what is not there is what was asked for.
        for (family, words) in self.of_roles.counters() {
            if words.is_empty() {
                let _ = family.remove_label_values(&[role.as_str()]);
            }
            for word in words {
                let _ = family.remove_label_values(&[role.as_str(), word]);
            }
        }
        let _ = self.of_roles.renewal_duration.remove_label_values(&[role.as_str()]);
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

    pub(super) fn campaigned(&self, role: &RoleName, outcome: CampaignOutcome) {
        self.of_roles.campaigns.with_label_values(&[role.as_str(), outcome.as_str()]).inc();
    }

    pub(super) fn contended(&self, role: &RoleName) {
        self.of_roles.contention.with_label_values(&[role.as_str()]).inc();
    }

    pub(super) fn renewed(&self, role: &RoleName, outcome: RenewalOutcome, took: Duration) {
        self.of_roles.renewals.with_label_values(&[role.as_str(), outcome.as_str()]).inc();
        self.of_roles.renewal_duration.with_label_values(&[role.as_str()]).observe(took.as_secs_f64());
    }

    pub(super) fn lost(&self, role: &RoleName, reason: LossReason) {
        self.of_roles.lost_leases.with_label_values(&[role.as_str(), reason.as_str()]).inc();
    }

    pub(super) fn released(&self, role: &RoleName, reason: ReleaseReason) {
        self.of_roles.releases.with_label_values(&[role.as_str(), reason.as_str()]).inc();
    }

    pub(super) fn guarded(&self, role: &RoleName, cause: GuardCause) {
        self.of_roles.store_guards.with_label_values(&[role.as_str(), cause.as_str()]).inc();
    }

    pub(super) fn identity_clashed(&self, role: &RoleName) {
        self.of_roles.identity_clashes.with_label_values(&[role.as_str()]).inc();
    }

    pub(super) fn store_clock_stepped(&self, role: &RoleName) {
        self.of_roles.store_clock_steps.with_label_values(&[role.as_str()]).inc();
    }

    pub(super) fn config_reloaded(&self, outcome: ReloadOutcome) {
        self.config_reloads.with_label_values(&[outcome.as_str()]).inc();
    }

    /// Counts a term the first time that its token is seen; tokens only grow.
    pub(super) fn term_seen(&self, role: &RoleName, token: Token) {
        let mut roles = self.lock();
        let counted = roles.entry(role.clone()).or_default();
        if token > *counted {
            *counted = token;
            self.of_roles.transitions.with_label_values(&[role.as_str()]).inc();
        }
    }

    /// Everything, in Prometheus' text format. `readings` says who leads now, `store_up` whether the store answers.
    ///
    /// # Errors
    /// Only when two families of one name disagree, which is a bug.
    pub fn render(&self, readings: &[Reading], store_up: bool) -> prometheus::Result<String> {
        let mut families = self.registry.gather();
        families.extend(self.scraped(readings, store_up)?);
        families.extend(process::families(self.started_at_s));
        families.sort_by(|a, b| a.name().cmp(b.name()));
        TextEncoder::new().encode_to_string(&families)
    }

    /// The gauges that are computed when they are scraped. A role without a reading does not lead.
    fn scraped(&self, readings: &[Reading], store_up: bool) -> prometheus::Result<Vec<MetricFamily>> {
        let gauges = |name, help, label| GaugeVec::new(Opts::new(name, help), &[label]);
        let leader = gauges("baton_leader", "1 while this replica leads the role, else 0.", "role")?;
        let token = gauges(
            "baton_fencing_token",
            "The fencing token of this replica's term, 0 while it does not lead. A token only protects a resource that \
             itself refuses smaller tokens.",
            "role",
        )?;
        let remaining = gauges(
            "baton_lease_remaining_seconds",
            "Time until this replica stops leading unless it renews, 0 while it does not lead.",
            "role",
        )?;
        let status = gauges(
            "leader_election_master_status",
            "1 while this replica leads the role of this name, else 0; as client-go reports it.",
            "name",
        )?;
        for role in self.lock().keys() {
            let leading = readings.iter().find(|reading| reading.role == *role).and_then(|reading| reading.leading);
            let is_leader = if leading.is_some() { 1.0 } else { 0.0 };
            let (held, left) = leading.unwrap_or((Token::NONE, Duration::ZERO));
            let label = [role.as_str()];
            leader.with_label_values(&label).set(is_leader);
            status.with_label_values(&label).set(is_leader);
            remaining.with_label_values(&label).set(left.as_secs_f64());
            // Tokens stay below 2^53, so a double holds them exactly.
            token.with_label_values(&label).set(held.get() as f64);
        }
        let up = Gauge::new("baton_store_up", "1 while the store answers, else 0.")?;
        up.set(if store_up { 1.0 } else { 0.0 });
        let build = GaugeVec::new(Opts::new("baton_build_info", "Always 1; the labels tell the build."), &["version"])?;
        build.with_label_values(&[env!("CARGO_PKG_VERSION")]).set(1.0);
        let collectors: [&dyn Collector; 6] = [&leader, &token, &remaining, &status, &up, &build];
        // A family without a role yet has nothing to say, and its encoder refuses to say it.
        Ok(collectors.into_iter().flat_map(Collector::collect).filter(|f| !f.get_metric().is_empty()).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let text = metrics.render(&[], false).unwrap();
        for (series, count) in [
            ("baton_campaigns_total{", 4),
            ("baton_renewals_total{", 4),
            ("baton_lost_leases_total{", 3),
            ("baton_releases_total{", 6),
            ("baton_store_guards_total{", 4),
            ("baton_contention_total{", 1),
            ("baton_transitions_total{", 1),
            ("baton_renewal_duration_seconds_count{", 1),
            ("baton_store_command_duration_seconds_count{", 70),
            ("baton_config_reloads_total{", 2),
            ("baton_leader{", 1),
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
    fn a_removed_role_leaves_no_series_behind() {
        let metrics = Metrics::new(Timestamp::UNIX_EPOCH);
        metrics.add_role(&role("gone"));
        metrics.add_role(&role("kept"));
        metrics.remove_role(&role("gone"));
        let text = metrics.render(&[], true).unwrap();
        assert!(!text.contains("\"gone\"") && text.contains("\"kept\""), "{text}");
    }

    #[test]
    fn leadership_is_what_the_reading_says_at_the_scrape() {
        let metrics = Metrics::new(Timestamp::UNIX_EPOCH);
        metrics.add_role(&role("a"));
        let token = Token::new((1 << 53) - 1).unwrap();
        let reading = Reading { role: role("a"), leading: Some((token, Duration::from_millis(1_500))) };
        let text = metrics.render(&[reading], true).unwrap();
        assert_eq!(lines(&text, "baton_fencing_token{"), ["baton_fencing_token{role=\"a\"} 9007199254740991"]);
        assert_eq!(lines(&text, "baton_lease_remaining"), ["baton_lease_remaining_seconds{role=\"a\"} 1.5"]);
        assert_eq!(lines(&text, "baton_leader{"), ["baton_leader{role=\"a\"} 1"]);
        let text = metrics.render(&[], true).unwrap();
        assert_eq!(lines(&text, "baton_leader{"), ["baton_leader{role=\"a\"} 0"]);
    }

    #[test]
    fn a_term_counts_once_however_often_it_is_seen() {
        let metrics = Metrics::new(Timestamp::UNIX_EPOCH);
        metrics.add_role(&role("a"));
        for token in [5, 5, 7, 6, 7] {
            metrics.term_seen(&role("a"), Token::new(token).unwrap());
        }
        let text = metrics.render(&[], true).unwrap();
        assert_eq!(lines(&text, "baton_transitions_total{"), ["baton_transitions_total{role=\"a\"} 2"]);
    }
}
