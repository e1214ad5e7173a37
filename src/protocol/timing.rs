//! The timings of one role. A [`Timing`] that exists is one under which the promises can hold: the constructor refuses
//! the others, with every reason at once.

use std::fmt;
use std::time::Duration;

/// The shortest lease that is accepted: below it, ordinary scheduling delays would end leases all the time.
pub const LEASE_DURATION_MIN: Duration = Duration::from_millis(100);
/// The longest lease that is accepted.
pub const LEASE_DURATION_MAX: Duration = Duration::from_secs(24 * 3600);
/// The longest promise of an answer by default: a drain may last for as long, and whoever uses long leases does not ask
/// less often.
const ANSWER_VALIDITY_DEFAULT_MAX: Duration = Duration::from_secs(5);
/// The lease must be at least this many step-down margins wide and the margin at least this fraction of the lease: two
/// clocks, each up to 1 % off, differ by 2 % of the lease at its end.
const MARGIN_FRACTION: u32 = 50;

/// The validated timings of one role (section 3 of the configuration). All in real time, none zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Timing {
    lease_duration: Duration,
    renew_period: Duration,
    step_down_margin: Duration,
    answer_validity: Duration,
}

/// One reason why timings are impossible. `field` is the configuration key to change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimingProblem {
    /// The lease is shorter than [`LEASE_DURATION_MIN`] or longer than [`LEASE_DURATION_MAX`].
    LeaseOutOfRange { given: Duration },
    /// A period is zero.
    Zero { field: &'static str },
    /// `leaseDuration > 2 × renewPeriod + stepDownMargin` does not hold: one lost renewal would end the term.
    LeaseTooShort { lease_duration: Duration, needed_more_than: Duration },
    /// The margin does not cover clocks that run up to 1 % fast or slow.
    MarginTooSmall { given: Duration, needed: Duration },
    /// An answer would promise more than a lease can hold.
    ValidityTooLong { given: Duration, at_most: Duration },
    /// A store command may take as long as a renewal period, so renewals would queue up behind a slow one.
    CommandTimeoutTooLong { given: Duration, less_than: Duration },
}

impl TimingProblem {
    /// The configuration key that the problem is about.
    pub fn field(&self) -> &'static str {
        match self {
            Self::LeaseOutOfRange { .. } | Self::LeaseTooShort { .. } => "leaseDuration",
            Self::Zero { field } => field,
            Self::MarginTooSmall { .. } => "stepDownMargin",
            Self::ValidityTooLong { .. } => "answerValidity",
            Self::CommandTimeoutTooLong { .. } => "commandTimeout",
        }
    }
}

impl fmt::Display for TimingProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LeaseOutOfRange { given } => write!(
                f,
                "leaseDuration is {given:?}; it must be between {LEASE_DURATION_MIN:?} and {LEASE_DURATION_MAX:?}"
            ),
            Self::Zero { field } => write!(f, "{field} is zero; it must be a positive duration"),
            Self::LeaseTooShort { lease_duration, needed_more_than } => write!(
                f,
                "leaseDuration is {lease_duration:?}; it must be more than 2 x renewPeriod + stepDownMargin, which is \
                 {needed_more_than:?}, so that one lost renewal does not end the term"
            ),
            Self::MarginTooSmall { given, needed } => write!(
                f,
                "stepDownMargin is {given:?}; it must be at least {needed:?} (2 % of leaseDuration), which clocks up \
                 to 1 % fast or slow may cost"
            ),
            Self::ValidityTooLong { given, at_most } => write!(
                f,
                "answerValidity is {given:?}; it must be at most {at_most:?} (leaseDuration - stepDownMargin), the \
                 most that an answer can promise"
            ),
            Self::CommandTimeoutTooLong { given, less_than } => write!(
                f,
                "commandTimeout is {given:?}; it must be less than every role's renewPeriod, here {less_than:?}, or a \
                 slow renewal delays the next"
            ),
        }
    }
}

impl Timing {
    /// Checks the four timings against each other.
    ///
    /// # Errors
    /// Every problem found, never an empty list.
    pub fn new(
        lease_duration: Duration,
        renew_period: Duration,
        step_down_margin: Duration,
        answer_validity: Duration,
    ) -> Result<Self, Vec<TimingProblem>> {
        let mut problems = Vec::new();
        if !(LEASE_DURATION_MIN..=LEASE_DURATION_MAX).contains(&lease_duration) {
            problems.push(TimingProblem::LeaseOutOfRange { given: lease_duration });
        }
        for (field, given) in [("renewPeriod", renew_period), ("answerValidity", answer_validity)] {
            if given.is_zero() {
                problems.push(TimingProblem::Zero { field });
            }
        }
        let needed_more_than = renew_period.saturating_mul(2).saturating_add(step_down_margin);
        if lease_duration <= needed_more_than {
            problems.push(TimingProblem::LeaseTooShort { lease_duration, needed_more_than });
        }
        let margin_min = lease_duration / MARGIN_FRACTION;
        if step_down_margin < margin_min {
            problems.push(TimingProblem::MarginTooSmall { given: step_down_margin, needed: margin_min });
        }
        let validity_max = lease_duration.saturating_sub(step_down_margin);
        if answer_validity > validity_max {
            problems.push(TimingProblem::ValidityTooLong { given: answer_validity, at_most: validity_max });
        }
        if problems.is_empty() {
            Ok(Self { lease_duration, renew_period, step_down_margin, answer_validity })
        } else {
            Err(problems)
        }
    }

    /// The timings with the defaults for everything but the lease: renewed every third of it, stepping down a fifteenth
    /// before its end, each answer good for one renewal period, but at most 5 s.
    pub fn from_lease(lease_duration: Duration) -> Result<Self, Vec<TimingProblem>> {
        let renew_period = Self::default_renew_period(lease_duration);
        let answer_validity = Self::default_answer_validity(renew_period);
        Self::new(lease_duration, renew_period, Self::default_step_down_margin(lease_duration), answer_validity)
    }

    /// `renewPeriod` when it is not given: `leaseDuration / 3`.
    pub fn default_renew_period(lease_duration: Duration) -> Duration {
        lease_duration / 3
    }

    /// `stepDownMargin` when it is not given: `leaseDuration / 15`, which is 1 s for the default lease of 15 s.
    pub fn default_step_down_margin(lease_duration: Duration) -> Duration {
        lease_duration / 15
    }

    /// `answerValidity` when it is not given: `renewPeriod`, at most 5 s. Never more than a lease can promise, for that
    /// is longer than two renewal periods and the margin.
    pub fn default_answer_validity(renew_period: Duration) -> Duration {
        renew_period.min(ANSWER_VALIDITY_DEFAULT_MAX)
    }

    /// Checks that a store command is given up before the next renewal is due.
    pub fn check_command_timeout(&self, command_timeout: Duration) -> Result<(), TimingProblem> {
        if command_timeout < self.renew_period {
            Ok(())
        } else {
            Err(TimingProblem::CommandTimeoutTooLong { given: command_timeout, less_than: self.renew_period })
        }
    }

    /// How long the store keeps a lease that is not renewed.
    pub fn lease_duration(&self) -> Duration {
        self.lease_duration
    }

    /// How often the incumbent renews.
    pub fn renew_period(&self) -> Duration {
        self.renew_period
    }

    /// How long before the lease's end the incumbent stops leading: what clock drift and the app's last action may
    /// cost.
    pub fn step_down_margin(&self) -> Duration {
        self.step_down_margin
    }

    /// The longest promise that one answer makes (R7).
    pub fn answer_validity(&self) -> Duration {
        self.answer_validity
    }

    /// How long after a request was sent its grant may be acted upon (R2).
    pub fn term_span(&self) -> Duration {
        self.lease_duration - self.step_down_margin
    }

    /// How long a replica listens before its first grant, and how long it waits before it looks again (R5, R8).
    pub fn listen_span(&self) -> Duration {
        self.lease_duration / 2
    }

    /// How recent a candidate's knowledge of the record must be to be worth sending (R5 *vanished*): 1.25 leases.
    pub fn knowledge_span(&self) -> Duration {
        self.lease_duration + self.lease_duration / 4
    }

    /// The longest that news keep a candidate from looking by itself (R8): 10 leases.
    pub fn quiet_span(&self) -> Duration {
        self.lease_duration * 10
    }

    /// The longest a candidate that hears nothing goes without looking (R8): 0.85 leases.
    pub fn look_span(&self) -> Duration {
        self.lease_duration * 17 / 20
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn a_lease_is_of_a_tenth_of_a_second_to_a_day() {
        assert_eq!([LEASE_DURATION_MIN, LEASE_DURATION_MAX], [ms(100), ms(86_400_000)]);
    }

    #[test]
    fn the_defaults_of_every_sane_lease_are_accepted() {
        for lease in [100, 1_000, 10_000, 15_000, 60_000, 3_600_000] {
            let timing = Timing::from_lease(ms(lease)).unwrap();
            assert!(timing.term_span() > timing.renew_period() * 2);
        }
        let timing = Timing::from_lease(ms(15_000)).unwrap();
        assert_eq!((timing.renew_period(), timing.step_down_margin()), (ms(5_000), ms(1_000)));
    }

    #[test]
    fn an_answer_is_good_for_a_renewal_period_and_not_for_minutes() {
        for (lease, validity) in [(3_000, 1_000), (15_000, 5_000), (15_300, 5_000), (600_000, 5_000)] {
            assert_eq!(Timing::from_lease(ms(lease)).unwrap().answer_validity(), ms(validity), "{lease}");
        }
    }

    #[test]
    fn every_impossible_timing_is_named_at_once() {
        let fields = |lease, renew, margin, validity| -> Vec<&str> {
            match Timing::new(ms(lease), ms(renew), ms(margin), ms(validity)) {
                Ok(_) => vec![],
                Err(problems) => problems.iter().map(TimingProblem::field).collect(),
            }
        };
        assert_eq!(fields(15_000, 5_000, 1_000, 5_000), Vec::<&str>::new());
        assert_eq!(fields(15_000, 7_000, 1_000, 5_000), ["leaseDuration"], "2 x 7 + 1 is the whole lease");
        assert_eq!(fields(15_000, 5_000, 299, 5_000), ["stepDownMargin"]);
        assert_eq!(fields(15_000, 5_000, 1_000, 14_001), ["answerValidity"]);
        assert_eq!(fields(50, 0, 0, 0), ["leaseDuration", "renewPeriod", "answerValidity", "stepDownMargin"]);
        assert_eq!(fields(1_000, 2_000, 0, 9_000), ["leaseDuration", "stepDownMargin", "answerValidity"]);
    }

    #[test]
    fn a_command_may_not_take_a_whole_renewal_period() {
        let timing = Timing::from_lease(ms(15_000)).unwrap();
        assert!(timing.check_command_timeout(ms(4_999)).is_ok());
        assert_eq!(timing.check_command_timeout(ms(5_000)).unwrap_err().field(), "commandTimeout");
    }

    #[test]
    fn what_is_known_of_a_record_is_worth_sending_for_a_lease_and_a_quarter() {
        assert_eq!(Timing::from_lease(ms(10_000)).unwrap().knowledge_span(), ms(12_500));
    }
}
