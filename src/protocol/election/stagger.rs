//! What is spread over time, so that not all ask the store at once: the candidates for one role, the rounds of a quorum
//! that was divided among them, and the roles of one process.

use std::time::Duration;

use super::super::ids::Mono;
use super::Election;

/// Where no more listen than this nobody waits after a release: one of a few asks in vain, and the next leads sooner.
const FEW: u32 = 6;
/// How far those who look are spread for each replica that listens (R8): all of three hundred hear a grant within some
/// milliseconds, so a handful asks before that, and the first of them a fraction of a millisecond after it may.
const SPREAD_PER_LISTENER: Duration = Duration::from_micros(600);
/// As wide as a thousand listeners need.
const SPREAD_MAX: Duration = Duration::from_millis(600);
/// The least that a round of a quorum is taken for.
const ROUND_MIN: Duration = Duration::from_millis(2);
/// Enough for pauses of hours.
const DOUBLINGS_MAX: u32 = 24;
/// Staggered roles are renewed at multiples of this, so that those of one moment go out, and are answered,
/// together: waking up costs as much as a renewal does.
const RENEWED_TOGETHER: Duration = Duration::from_millis(10);

impl Election {
    /// A random span, the longer the more replicas listen: the first of all looks as soon however many they are.
    pub(super) fn stagger(&mut self) -> Duration {
        let widest = SPREAD_PER_LISTENER.saturating_mul(self.knowledge.audience.max(2)).min(SPREAD_MAX);
        self.random.between(Duration::ZERO, widest)
    }

    /// The same after a release. On a quorum those who ask at once would divide the members among themselves.
    pub(super) fn stagger_after_release(&mut self) -> Duration {
        if self.knowledge.audience <= FEW && !self.profile.rules.is_quorum() { Duration::ZERO } else { self.stagger() }
    }

    /// Soon, but not all at once: between a twentieth and a sixth of the renewal period.
    pub(super) fn retry_delay(&mut self) -> Duration {
        let period = self.profile.timing.renew_period();
        self.random.between(period / 20, period / 6)
    }

    /// How long after a quorum was divided, for the `divided`th time in a row, it is asked again. What is waited for is
    /// another's round, which takes about as long as the last one of this candidate (`round`), and each time twice as
    /// long, where that was too short. `after`: for how long the grants of another that is ahead may stand; that one
    /// comes back before the others do.
    pub(super) fn pause_between_rounds(&mut self, divided: u32, round: Duration, after: Option<Duration>) -> Duration {
        let period = self.profile.timing.renew_period();
        let round = round.max(ROUND_MIN) * 2u32.pow(divided.min(DOUBLINGS_MAX));
        match after {
            None => self.random.between(Duration::ZERO, round).min(self.retry_delay()),
            Some(after) => {
                let soonest = (round * 2).min(period / 4);
                self.random.between(soonest, soonest * 2).min(after + period / 20)
            }
        }
    }

    /// How long after a grant the first renewal goes out. Staggered roles are granted one after the other in a
    /// part of a period, and renewed all over it from then on.
    pub(super) fn first_period(&mut self) -> Duration {
        let period = self.profile.timing.renew_period();
        if self.profile.role_stagger.is_zero() { period } else { self.random.between(Duration::ZERO, period) }
    }

    /// This moment, or, for a staggered role, one a little before it at which others are renewed, too.
    pub(super) fn with_others(&self, due: Mono) -> Mono {
        if self.profile.role_stagger.is_zero() {
            return due;
        }
        let together = RENEWED_TOGETHER.min(self.profile.timing.renew_period() / 100);
        let early = u128::from(due.as_nanos()) % together.as_nanos().max(1);
        due - Duration::from_nanos(u64::try_from(early).unwrap_or(0))
    }
}
