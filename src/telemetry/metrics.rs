//! The series of the contract.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use prometheus::core::Collector;
use prometheus::proto::MetricFamily;
use prometheus::{Gauge, GaugeVec, HistogramOpts, HistogramVec, IntCounterVec, Opts, Registry, TextEncoder};

use super::process;
use crate::protocol::{CampaignOutcome, GuardCause, LossReason, ReleaseReason, RenewalOutcome, RoleName, Token};

/// Upper bounds in seconds, from a local Redis (a quarter of a millisecond) to a command timeout of several seconds.
const SECONDS_BUCKETS: [f64; 14] =
    [0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0];

/// What a role is at the moment of a scrape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    /// Which role.
    pub role: RoleName,
    /// Its term's token and the time until its deadline, while this replica leads.
    pub leading: Option<(Token, Duration)>,
}

/// The commands of a store, as a label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StoreCommand {
    /// R1.
    Campaign,
    /// R4.
    Renew,
    /// R7.
    Release,
    /// Forgetting a removed role.
    Purge,
}

impl StoreCommand {
    /// Every command, for registering series at zero.
    pub const ALL: [Self; 4] = [Self::Campaign, Self::Renew, Self::Release, Self::Purge];

    /// The word in metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Campaign => "campaign",
            Self::Renew => "renew",
            Self::Release => "release",
            Self::Purge => "purge",
        }
    }
}

/// How a store command ended, as a label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CommandOutcome {
    /// It was answered.
    Ok,
    /// It was not answered in time.
    Unknown,
    /// There was no connection, or it broke.
    Unreachable,
    /// The store answered that it will not.
    Refused,
    /// A key holds what Baton did not write.
    Garbage,
}

impl CommandOutcome {
    /// Every outcome, for registering series at zero.
    pub const ALL: [Self; 5] = [Self::Ok, Self::Unknown, Self::Unreachable, Self::Refused, Self::Garbage];

    /// The word in metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Unknown => "unknown",
            Self::Unreachable => "unreachable",
            Self::Refused => "refused",
            Self::Garbage => "garbage",
        }
    }
}

/// What became of a changed configuration file, as a label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ReloadOutcome {
    /// It is in force.
    Ok,
    /// It has problems; the old one stays.
    Refused,
}

impl ReloadOutcome {
    /// Every outcome, for registering series at zero.
    pub const ALL: [Self; 2] = [Self::Ok, Self::Refused];

    /// The word in metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Refused => "refused",
        }
    }
}

/// Every series of elections and the store, in a registry of its own. Shared by reference; counts from any thread.
pub struct Metrics {
    registry: Registry,
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
    store_command_duration: HistogramVec,
    config_reloads: IntCounterVec,
    /// The roles that have series, and the greatest token of each whose beginning was counted.
    roles: Mutex<BTreeMap<RoleName, Token>>,
    started_at_s: f64,
}

impl std::fmt::Debug for Metrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Metrics").field("roles", &self.roles).finish_non_exhaustive()
    }
}

/// Builds one family and registers it. Names, labels and helps are constants below.
struct Builder(Registry);

impl Builder {
    fn register<C: Collector + Clone + 'static>(&self, metric: prometheus::Result<C>) -> C {
        metric
            .and_then(|metric| self.0.register(Box::new(metric.clone())).map(|()| metric))
            // Only a malformed or doubled name among the constants of this file fails, and every test would see it.
            .expect("metric names and labels are well-formed and unique")
    }

    fn counters(&self, name: &str, help: &str, labels: &[&str]) -> IntCounterVec {
        self.register(IntCounterVec::new(Opts::new(name, help), labels))
    }

    fn seconds(&self, name: &str, help: &str, labels: &[&str]) -> HistogramVec {
        let options = HistogramOpts::new(name, help).buckets(SECONDS_BUCKETS.to_vec());
        self.register(HistogramVec::new(options, labels))
    }
}

impl Metrics {
    /// The series without a role at zero; [`Self::add_role`] adds the others. `started_at`: when this process began.
    pub fn new(started_at: Timestamp) -> Self {
        let build = Builder(Registry::new());
        let metrics = Self {
            campaigns: build.counters(
                "baton_campaigns_total",
                "Campaigns of this replica by outcome: granted, held by another, guarded (the store may have forgotten a \
                 lease), or error (no usable answer).",
                &["role", "outcome"],
            ),
            contention: build.counters(
                "baton_contention_total",
                "Terms that another replica won while this one was trying to win them.",
                &["role"],
            ),
            renewals: build.counters(
                "baton_renewals_total",
                "Renewals by outcome: ok, reasserted (the store had lost the lease), lost (the term is over) or error (no \
                 usable answer).",
                &["role", "outcome"],
            ),
            renewal_duration: build.seconds(
                "baton_renewal_duration_seconds",
                "Time from sending a renewal to its answer, or to giving it up.",
                &["role"],
            ),
            lost_leases: build.counters(
                "baton_lost_leases_total",
                "Terms of this replica that ended against its will: expired, superseded by another, or given up because \
                 the app was unhealthy.",
                &["role", "reason"],
            ),
            releases: build.counters(
                "baton_releases_total",
                "Leases that this replica gave back, by reason.",
                &["role", "reason"],
            ),
            transitions: build.counters(
                "baton_transitions_total",
                "Terms of any replica that this one has seen: each fencing token counts once, when it is first seen, \
                 including the term that stood when this replica started.",
                &["role"],
            ),
            store_guards: build.counters(
                "baton_store_guards_total",
                "Times that the store was closed to new leaders because it may have forgotten a lease that still stands, \
                 by cause.",
                &["role", "cause"],
            ),
            identity_clashes: build.counters(
                "baton_identity_clashes_total",
                "Times that another process was seen to campaign under this replica's identity.",
                &["role"],
            ),
            store_clock_steps: build.counters(
                "baton_store_clock_steps_total",
                "Times that the store's clock moved against this replica's.",
                &["role"],
            ),
            store_command_duration: build.seconds(
                "baton_store_command_duration_seconds",
                "Time from sending a command to the store to its answer, or to giving it up.",
                &["command", "outcome"],
            ),
            config_reloads: build.counters(
                "baton_config_reloads_total",
                "Changed configuration files by outcome: ok (in force), or refused (it has problems, the old one stays).",
                &["outcome"],
            ),
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

    fn role_counters(&self) -> [(&IntCounterVec, Vec<&'static str>); 9] {
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

    /// Registers every series of a role at zero. A role that has them already keeps its counts.
    pub fn add_role(&self, role: &RoleName) {
        self.lock().entry(role.clone()).or_default();
        for (family, words) in self.role_counters() {
            if words.is_empty() {
                family.with_label_values(&[role.as_str()]);
            }
            for word in words {
                family.with_label_values(&[role.as_str(), word]);
            }
        }
        self.renewal_duration.with_label_values(&[role.as_str()]);
    }

    /// Removes every series of a role that is no longer configured.
    pub fn remove_role(&self, role: &RoleName) {
        self.lock().remove(role);
        // Removing what is not there is what was asked for.
        for (family, words) in self.role_counters() {
            if words.is_empty() {
                let _ = family.remove_label_values(&[role.as_str()]);
            }
            for word in words {
                let _ = family.remove_label_values(&[role.as_str(), word]);
            }
        }
        let _ = self.renewal_duration.remove_label_values(&[role.as_str()]);
    }

    /// Counts a store command. `took`: from sending to the answer, or to giving it up.
    pub fn store_command(&self, command: StoreCommand, outcome: CommandOutcome, took: Duration) {
        let series = self.store_command_duration.with_label_values(&[command.as_str(), outcome.as_str()]);
        series.observe(took.as_secs_f64());
    }

    pub(super) fn campaigned(&self, role: &RoleName, outcome: CampaignOutcome) {
        self.campaigns.with_label_values(&[role.as_str(), outcome.as_str()]).inc();
    }

    pub(super) fn contended(&self, role: &RoleName) {
        self.contention.with_label_values(&[role.as_str()]).inc();
    }

    pub(super) fn renewed(&self, role: &RoleName, outcome: RenewalOutcome, took: Duration) {
        self.renewals.with_label_values(&[role.as_str(), outcome.as_str()]).inc();
        self.renewal_duration.with_label_values(&[role.as_str()]).observe(took.as_secs_f64());
    }

    pub(super) fn lost(&self, role: &RoleName, reason: LossReason) {
        self.lost_leases.with_label_values(&[role.as_str(), reason.as_str()]).inc();
    }

    pub(super) fn released(&self, role: &RoleName, reason: ReleaseReason) {
        self.releases.with_label_values(&[role.as_str(), reason.as_str()]).inc();
    }

    pub(super) fn guarded(&self, role: &RoleName, cause: GuardCause) {
        self.store_guards.with_label_values(&[role.as_str(), cause.as_str()]).inc();
    }

    pub(super) fn identity_clashed(&self, role: &RoleName) {
        self.identity_clashes.with_label_values(&[role.as_str()]).inc();
    }

    pub(super) fn store_clock_stepped(&self, role: &RoleName) {
        self.store_clock_steps.with_label_values(&[role.as_str()]).inc();
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
            self.transitions.with_label_values(&[role.as_str()]).inc();
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
            #[allow(clippy::cast_precision_loss)]
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
            ("baton_releases_total{", 4),
            ("baton_store_guards_total{", 4),
            ("baton_contention_total{", 1),
            ("baton_transitions_total{", 1),
            ("baton_renewal_duration_seconds_count{", 1),
            ("baton_store_command_duration_seconds_count{", 20),
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
