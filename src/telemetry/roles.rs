//! The series of roles. A process may have a thousand roles, with some thirty series each. In a registry these would
//! take 19 MB, and 12 MB more while they are gathered; so they are plain numbers here, and become families when they
//! are scraped, one after the other.

use std::collections::BTreeMap;
use std::time::Duration;

use prometheus::proto::{Bucket, Counter, Gauge, Histogram, LabelPair, Metric, MetricFamily, MetricType};

use super::help;
use super::labels::TermReading;
use super::metrics::SECONDS_BUCKETS;
use crate::protocol::{CampaignOutcome, GuardCause, LossReason, ReleaseReason, RenewalOutcome, RoleName, Token};

/// What is counted of one role.
#[derive(Clone, Debug, Default)]
struct Counts {
    campaigns: [u64; CampaignOutcome::ALL.len()],
    contention: u64,
    renewals: [u64; RenewalOutcome::ALL.len()],
    renewal_durations: Durations,
    lost_leases: [u64; LossReason::ALL.len()],
    releases: [u64; ReleaseReason::ALL.len()],
    transitions: u64,
    store_guards: [u64; GuardCause::ALL.len()],
    departures_refuted: u64,
    identity_clashes: u64,
    store_clock_steps: u64,
    /// The greatest token whose beginning was counted; tokens only grow.
    greatest: Token,
}

/// One histogram. The last bucket is for what is longer than every bound.
#[derive(Clone, Debug, Default)]
struct Durations {
    buckets: [u64; SECONDS_BUCKETS.len() + 1],
    sum_s: f64,
}

impl Durations {
    fn observe(&mut self, took: Duration) {
        let seconds = took.as_secs_f64();
        self.buckets[SECONDS_BUCKETS.partition_point(|bound| *bound < seconds)] += 1;
        self.sum_s += seconds;
    }

    fn metric(&self) -> Metric {
        let mut cumulative = 0;
        let mut buckets = Vec::with_capacity(SECONDS_BUCKETS.len());
        for (count, bound) in self.buckets.iter().zip(SECONDS_BUCKETS) {
            cumulative += count;
            let mut bucket = Bucket::default();
            bucket.set_cumulative_count(cumulative);
            bucket.set_upper_bound(bound);
            buckets.push(bucket);
        }
        let mut histogram = Histogram::default();
        histogram.set_sample_count(self.buckets.iter().sum());
        histogram.set_sample_sum(self.sum_s);
        histogram.set_bucket(buckets);
        let mut metric = Metric::default();
        metric.set_histogram(histogram);
        metric
    }
}

/// What happened to a role, to be counted.
#[derive(Clone, Copy, Debug)]
pub(super) enum RoleCount {
    Campaign(CampaignOutcome),
    Contention,
    Renewal(RenewalOutcome, Duration),
    LostLease(LossReason),
    Release(ReleaseReason),
    StoreGuard(GuardCause),
    DepartureRefuted,
    IdentityClash,
    StoreClockStep,
    /// A term was seen: counts when its token is the greatest so far.
    Term(Token),
}

/// The counts of every role that this process has.
#[derive(Clone, Debug, Default)]
pub(super) struct RoleTable(BTreeMap<RoleName, Counts>);

impl RoleTable {
    /// Counts from zero, unless the role is there already.
    pub(super) fn add(&mut self, role: &RoleName) {
        self.0.entry(role.clone()).or_default();
    }

    pub(super) fn remove(&mut self, role: &RoleName) {
        self.0.remove(role);
    }

    pub(super) fn count(&mut self, role: &RoleName, what: RoleCount) {
        // What a role that was just removed still says counts for nothing.
        let Some(counts) = self.0.get_mut(role) else { return };
        match what {
            RoleCount::Campaign(outcome) => counts.campaigns[place(&CampaignOutcome::ALL, outcome)] += 1,
            RoleCount::Contention => counts.contention += 1,
            RoleCount::Renewal(outcome, took) => {
                counts.renewals[place(&RenewalOutcome::ALL, outcome)] += 1;
                counts.renewal_durations.observe(took);
            }
            RoleCount::LostLease(reason) => counts.lost_leases[place(&LossReason::ALL, reason)] += 1,
            RoleCount::Release(reason) => counts.releases[place(&ReleaseReason::ALL, reason)] += 1,
            RoleCount::StoreGuard(cause) => counts.store_guards[place(&GuardCause::ALL, cause)] += 1,
            RoleCount::DepartureRefuted => counts.departures_refuted += 1,
            RoleCount::IdentityClash => counts.identity_clashes += 1,
            RoleCount::StoreClockStep => counts.store_clock_steps += 1,
            RoleCount::Term(token) => {
                if token > counts.greatest {
                    counts.greatest = token;
                    counts.transitions += 1;
                }
            }
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// One family, with a metric or several for each role. `leading`: the terms of this replica at this moment.
    pub(super) fn family(&self, family: RoleFamily, leading: &BTreeMap<RoleName, TermReading>) -> MetricFamily {
        let (name, help, kind) = family.describe();
        let mut metrics = Vec::new();
        for (role, counts) in &self.0 {
            family.metrics(role.as_str(), counts, leading.get(role).copied(), &mut metrics);
        }
        let mut built = MetricFamily::default();
        built.set_name(name.to_owned());
        built.set_help(help.to_owned());
        built.set_field_type(kind);
        built.set_metric(metrics);
        built
    }
}

/// Where `one` is in the list that has every one of its kind.
fn place<T: PartialEq>(all: &[T], one: T) -> usize {
    // It has every one, and the first would be a wrong count, not a crash.
    all.iter().position(|each| *each == one).unwrap_or(0)
}

/// The families that have series for each role.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RoleFamily {
    Campaigns,
    Contention,
    DeparturesRefuted,
    FencingToken,
    IdentityClashes,
    Leader,
    LeaderSince,
    LeaseRemaining,
    LostLeases,
    MasterStatus,
    Releases,
    RenewalDuration,
    Renewals,
    StoreClockSteps,
    StoreGuards,
    Transitions,
}

impl RoleFamily {
    pub(super) const ALL: [Self; 16] = [
        Self::Campaigns,
        Self::Contention,
        Self::DeparturesRefuted,
        Self::FencingToken,
        Self::IdentityClashes,
        Self::Leader,
        Self::LeaderSince,
        Self::LeaseRemaining,
        Self::LostLeases,
        Self::MasterStatus,
        Self::Releases,
        Self::RenewalDuration,
        Self::Renewals,
        Self::StoreClockSteps,
        Self::StoreGuards,
        Self::Transitions,
    ];

    /// Its name, help and type.
    pub(super) const fn describe(self) -> (&'static str, &'static str, MetricType) {
        use MetricType::{COUNTER, GAUGE, HISTOGRAM};
        match self {
            Self::Campaigns => ("baton_campaigns_total", help::CAMPAIGNS, COUNTER),
            Self::Contention => ("baton_contention_total", help::CONTENTION, COUNTER),
            Self::DeparturesRefuted => ("baton_departures_refuted_total", help::DEPARTURES_REFUTED, COUNTER),
            Self::FencingToken => ("baton_fencing_token", help::FENCING_TOKEN, GAUGE),
            Self::IdentityClashes => ("baton_identity_clashes_total", help::IDENTITY_CLASHES, COUNTER),
            Self::Leader => ("baton_leader", help::LEADER, GAUGE),
            Self::LeaderSince => ("baton_leader_since_timestamp_seconds", help::LEADER_SINCE, GAUGE),
            Self::LeaseRemaining => ("baton_lease_remaining_seconds", help::LEASE_REMAINING, GAUGE),
            Self::LostLeases => ("baton_lost_leases_total", help::LOST_LEASES, COUNTER),
            Self::MasterStatus => ("leader_election_master_status", help::MASTER_STATUS, GAUGE),
            Self::Releases => ("baton_releases_total", help::RELEASES, COUNTER),
            Self::RenewalDuration => ("baton_renewal_duration_seconds", help::RENEWAL_DURATION, HISTOGRAM),
            Self::Renewals => ("baton_renewals_total", help::RENEWALS, COUNTER),
            Self::StoreClockSteps => ("baton_store_clock_steps_total", help::STORE_CLOCK_STEPS, COUNTER),
            Self::StoreGuards => ("baton_store_guards_total", help::STORE_GUARDS, COUNTER),
            Self::Transitions => ("baton_transitions_total", help::TRANSITIONS, COUNTER),
        }
    }

    fn metrics(self, role: &str, counts: &Counts, leading: Option<TermReading>, into: &mut Vec<Metric>) {
        let mut words = |label: &str, words: &[&str], counts: &[u64]| {
            for (word, count) in words.iter().zip(counts) {
                into.push(labelled(counter(*count), &[(label, word), ("role", role)]));
            }
        };
        let alone = match self {
            Self::Campaigns => {
                return words("outcome", &CampaignOutcome::ALL.map(CampaignOutcome::as_str), &counts.campaigns);
            }
            Self::Renewals => {
                return words("outcome", &RenewalOutcome::ALL.map(RenewalOutcome::as_str), &counts.renewals);
            }
            Self::LostLeases => return words("reason", &LossReason::ALL.map(LossReason::as_str), &counts.lost_leases),
            Self::Releases => return words("reason", &ReleaseReason::ALL.map(ReleaseReason::as_str), &counts.releases),
            Self::StoreGuards => return words("cause", &GuardCause::ALL.map(GuardCause::as_str), &counts.store_guards),
            Self::Contention => counter(counts.contention),
            Self::Transitions => counter(counts.transitions),
            Self::DeparturesRefuted => counter(counts.departures_refuted),
            Self::IdentityClashes => counter(counts.identity_clashes),
            Self::StoreClockSteps => counter(counts.store_clock_steps),
            Self::RenewalDuration => counts.renewal_durations.metric(),
            // A role without a reading does not lead.
            Self::Leader | Self::MasterStatus => gauge(if leading.is_some() { 1.0 } else { 0.0 }),
            Self::LeaseRemaining => gauge(leading.map_or(0.0, |term| term.remaining.as_secs_f64())),
            Self::LeaderSince => gauge(leading.map_or(0.0, |term| term.since.as_duration().as_secs_f64())),
            // Tokens stay below 2^53, so a double holds them exactly.
            Self::FencingToken => gauge(leading.map_or(Token::NONE, |term| term.token).get() as f64),
        };
        let label = if self == Self::MasterStatus { "name" } else { "role" };
        into.push(labelled(alone, &[(label, role)]));
    }
}

fn counter(value: u64) -> Metric {
    let mut counter = Counter::default();
    // Exact up to 2^53.
    counter.set_value(value as f64);
    let mut metric = Metric::default();
    metric.set_counter(counter);
    metric
}

fn gauge(value: f64) -> Metric {
    let mut gauge = Gauge::default();
    gauge.set_value(value);
    Metric::from_gauge(gauge)
}

fn labelled(mut metric: Metric, labels: &[(&str, &str)]) -> Metric {
    let pairs = labels.iter().map(|(name, value)| {
        let mut pair = LabelPair::default();
        pair.set_name((*name).to_owned());
        pair.set_value((*value).to_owned());
        pair
    });
    metric.set_label(pairs.collect());
    metric
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_counted_under_the_first_bound_that_it_does_not_exceed() {
        let mut durations = Durations::default();
        for ms in [0, 1, 2, 5_000, 5_001, 60_000] {
            durations.observe(Duration::from_millis(ms));
        }
        let metric = durations.metric();
        let histogram = metric.get_histogram();
        let cumulative: Vec<_> =
            histogram.get_bucket().iter().map(|b| (b.upper_bound(), b.cumulative_count())).collect();
        assert_eq!(cumulative[0], (0.000_25, 1));
        assert_eq!(cumulative[2], (0.001, 2), "a bound is inclusive");
        assert_eq!(cumulative[3], (0.002_5, 3));
        assert_eq!(cumulative[13], (5.0, 4));
        assert_eq!((histogram.get_sample_count(), histogram.get_sample_sum()), (6, 70.004));
    }

    #[test]
    fn a_role_that_was_removed_is_not_counted_back_in() {
        let (mut table, role) = (RoleTable::default(), RoleName::new("a").unwrap());
        table.add(&role);
        table.count(&role, RoleCount::Contention);
        table.add(&role);
        let metrics = table.family(RoleFamily::Contention, &BTreeMap::new());
        assert_eq!(metrics.get_metric()[0].get_counter().get_value(), 1.0, "a role that is there keeps its counts");
        table.remove(&role);
        table.count(&role, RoleCount::Contention);
        assert!(table.family(RoleFamily::Contention, &BTreeMap::new()).get_metric().is_empty());
    }
}
