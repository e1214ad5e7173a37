//! When what acts for a term must go: a command of `baton exec`, or an attempt of a job's run. Pure, so that every case
//! can be looked at.
//!
//! ```text
//!   renewed                        next renewals fail            deadline       the lease's end at the store
//!      |------------------------------------|<----- grace ----->|<-- margin -->|
//!                                          TERM                KILL
//! ```

use std::fmt;
use std::time::Duration;

use super::super::ids::{Mono, Token};
use super::super::timing::Timing;

/// The longest grace that is chosen unasked.
const GRACE_MAX: Duration = Duration::from_secs(5);
/// How often to look at the least, and at the most: a machine that wakes up has slept past every timer.
const LOOK_MAX: Duration = Duration::from_millis(250);
const LOOK_MIN: Duration = Duration::from_millis(5);
/// KILL comes so long before the deadline, and before the last promise's end: what a timer and a signal may take.
const LAST: Duration = Duration::from_millis(10);

/// How long a command has between TERM and KILL; or, of what ends without a fight, how long before the deadline it
/// does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grace {
    span: Duration,
    look: Duration,
}

/// A grace that leaves no time to work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GraceError {
    /// What was asked for.
    pub given: Duration,
    /// What is too much.
    pub less_than: Duration,
}

impl fmt::Display for GraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { given, less_than } = self;
        write!(
            f,
            "grace is {given:?}; it must be less than {less_than:?} (leaseDuration - stepDownMargin - renewPeriod), or \
             the command would be ended before the next renewal is due"
        )
    }
}

impl std::error::Error for GraceError {}

impl Grace {
    /// The given grace, or half a term's span and at most 5 s. Half is always less than what is left when a
    /// renewal is due.
    ///
    /// # Errors
    /// It is as long as the time that is left when a renewal is due.
    pub fn new(given: Option<Duration>, timing: &Timing) -> Result<Self, GraceError> {
        let span = given.unwrap_or((timing.term_span() / 2).min(GRACE_MAX));
        let less_than = timing.term_span() - timing.renew_period();
        if span >= less_than {
            return Err(GraceError { given: span, less_than });
        }
        Ok(Self { span, look: look(timing) })
    }

    /// For what is ended by letting go of it, such as a request: that takes no time here, so this is only what the
    /// other side has for noticing it before the deadline. The step-down margin is the time that an app is given for
    /// its last action; where that is most of a lease, half a term.
    pub fn of_request(timing: &Timing) -> Self {
        Self { span: timing.step_down_margin().min(timing.term_span() / 2), look: look(timing) }
    }

    /// The span between TERM and KILL.
    pub fn span(&self) -> Duration {
        self.span
    }

    /// Whether a term with so much time left is worth starting a command in.
    pub fn allows(&self, remaining: Duration) -> bool {
        remaining > self.span
    }

    /// How long until the next look, when so much time is left.
    pub fn next_look(&self, remaining: Option<Duration>) -> Duration {
        let Some(remaining) = remaining else { return LOOK_MIN };
        let to_grace = remaining.saturating_sub(self.span);
        let next = if to_grace.is_zero() { remaining.saturating_sub(LAST) } else { to_grace };
        next.clamp(LOOK_MIN, self.look)
    }
}

fn look(timing: &Timing) -> Duration {
    // A look that comes late costs part of the margin, never all of it.
    (timing.step_down_margin() / 4).clamp(LOOK_MIN, LOOK_MAX)
}

/// What the role says at one moment.
#[derive(Clone, Copy, Debug)]
pub struct Sight {
    /// When that is.
    pub now: Mono,
    /// The term's token and the time until its deadline, while leading.
    pub term: Option<(Token, Duration)>,
    /// The role keeps the lease until the promises have run out.
    pub draining: bool,
}

/// What is to be done with the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It may go on.
    Stay,
    /// It is to end: TERM.
    Leave,
    /// It must be gone: KILL.
    Kill,
}

/// The judge of one command, which was started for one term.
#[derive(Clone, Copy, Debug)]
pub struct TermGuard {
    token: Token,
    grace: Grace,
    /// How long it may go on once the role is drained, if the lease is kept for so long.
    finish_within: Duration,
    drained_at: Option<Mono>,
    promised_until: Mono,
    told_at: Option<Mono>,
}

impl TermGuard {
    /// For a command that is started now, for the term with this token.
    pub fn new(token: Token, grace: Grace, finish_within: Duration) -> Self {
        Self { token, grace, finish_within, drained_at: None, promised_until: Mono::default(), told_at: None }
    }

    /// The role has promised that it leads, until then (R7).
    pub fn promised(&mut self, token: Token, until: Mono) {
        if token == self.token {
            self.promised_until = self.promised_until.max(until);
        }
    }

    /// It is told to end for another reason than its lease: it has its grace from now on, or what is left of it.
    pub fn tell(&mut self, now: Mono) {
        self.told_at.get_or_insert(now);
    }

    /// Whether the command was told to end.
    pub fn has_told(&self) -> bool {
        self.told_at.is_some()
    }

    /// Judges. A later term of the same replica is not the command's: between the two another may have led.
    pub fn look(&mut self, sight: Sight) -> Verdict {
        let ours = sight.term.filter(|(token, _)| *token == self.token);
        let verdict = match (ours, self.told_at) {
            (Some((_, remaining)), _) if remaining <= LAST => Verdict::Kill,
            (Some((_, remaining)), None) if remaining <= self.grace.span => Verdict::Leave,
            // It leads again, but the command was told to end, and has had its time.
            (Some(_), Some(told_at)) if sight.now.since(told_at) >= self.grace.span => Verdict::Kill,
            (Some(_), _) => Verdict::Stay,
            (None, _) if !sight.draining || sight.now + LAST >= self.promised_until => Verdict::Kill,
            (None, None) => {
                let drained_at = *self.drained_at.get_or_insert(sight.now);
                let end = self.promised_until.min(drained_at + self.finish_within);
                if sight.now + self.grace.span < end { Verdict::Stay } else { Verdict::Leave }
            }
            (None, Some(_)) => Verdict::Stay,
        };
        if verdict == Verdict::Leave {
            self.told_at = Some(sight.now);
        }
        verdict
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Mono {
        Mono::from_nanos(ms * 1_000_000)
    }

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn token(value: u64) -> Token {
        Token::new(value).unwrap()
    }

    fn grace() -> Grace {
        Grace::new(Some(ms(400)), &Timing::from_lease(ms(1_500)).unwrap()).unwrap()
    }

    fn leading(now: u64, of: u64, remaining: u64) -> Sight {
        Sight { now: at(now), term: Some((token(of), ms(remaining))), draining: false }
    }

    #[test]
    fn the_usual_grace_is_half_a_term_and_at_most_five_seconds() {
        let usual = |lease| Grace::new(None, &Timing::from_lease(ms(lease)).unwrap()).unwrap().span;
        assert_eq!((usual(1_500), usual(15_000)), (ms(700), ms(5_000)));
        let timing = Timing::new(ms(10_000), ms(4_499), ms(1_000), ms(4_499)).unwrap();
        assert!(Grace::new(None, &timing).is_ok(), "every timing that is accepted leaves room for it");
        let error = Grace::new(Some(ms(900)), &Timing::from_lease(ms(1_500)).unwrap()).unwrap_err();
        assert_eq!(error.less_than, ms(900));
    }

    #[test]
    fn a_command_stays_while_there_is_time_and_is_told_to_leave_once() {
        let mut watch = TermGuard::new(token(7), grace(), Duration::ZERO);
        assert_eq!(watch.look(leading(0, 7, 1_400)), Verdict::Stay);
        assert_eq!(watch.look(leading(999, 7, 401)), Verdict::Stay);
        assert!(!watch.has_told());
        assert_eq!(watch.look(leading(1_000, 7, 400)), Verdict::Leave);
        assert_eq!(watch.look(leading(1_001, 7, 399)), Verdict::Stay, "it has been told");
        assert!(watch.has_told());
        assert_eq!(watch.look(leading(1_389, 7, 11)), Verdict::Stay);
        assert_eq!(watch.look(leading(1_390, 7, 10)), Verdict::Kill, "just before the deadline");
    }

    #[test]
    fn past_the_deadline_it_is_killed_at_once_told_or_not() {
        let lost = Sight { now: at(1_400), term: None, draining: false };
        for told in [true, false] {
            let mut watch = TermGuard::new(token(7), grace(), Duration::ZERO);
            if told {
                assert_eq!(watch.look(leading(1_000, 7, 400)), Verdict::Leave);
            }
            assert_eq!(watch.look(lost), Verdict::Kill);
        }
    }

    #[test]
    fn a_new_term_of_the_same_replica_is_not_the_commands() {
        let mut watch = TermGuard::new(token(7), grace(), Duration::ZERO);
        assert_eq!(watch.look(leading(60_000, 8, 1_400)), Verdict::Kill);
    }

    #[test]
    fn a_command_that_was_told_has_its_grace_even_if_the_lease_is_renewed() {
        let mut watch = TermGuard::new(token(7), grace(), Duration::ZERO);
        assert_eq!(watch.look(leading(1_000, 7, 400)), Verdict::Leave);
        assert_eq!(watch.look(leading(1_399, 7, 1_400)), Verdict::Stay);
        assert_eq!(watch.look(leading(1_400, 7, 1_400)), Verdict::Kill);
    }

    #[test]
    fn a_drain_gives_it_until_the_last_promise() {
        let mut watch = TermGuard::new(token(7), grace(), Duration::ZERO);
        watch.promised(token(7), at(500));
        watch.promised(token(8), at(9_000));
        let draining = |now| Sight { now: at(now), term: None, draining: true };
        assert_eq!(watch.look(draining(100)), Verdict::Leave);
        assert_eq!(watch.look(draining(489)), Verdict::Stay);
        assert_eq!(watch.look(draining(490)), Verdict::Kill, "the lease is given back when the promise ends");
    }

    #[test]
    fn what_may_finish_stays_until_its_grace_begins_before_the_end_of_its_time_or_of_the_promise() {
        let draining = |now| Sight { now: at(now), term: None, draining: true };
        for (finish_within, promised, leaves) in [(1_000, 9_000, 700), (9_000, 1_000, 600), (300, 9_000, 100)] {
            let mut watch = TermGuard::new(token(7), grace(), ms(finish_within));
            watch.promised(token(7), at(promised));
            for now in (100..leaves).step_by(50) {
                assert_eq!(watch.look(draining(now)), Verdict::Stay, "{now}");
            }
            assert_eq!(watch.look(draining(leaves)), Verdict::Leave);
            assert_eq!(watch.look(draining(promised - 11)), Verdict::Stay);
            assert_eq!(watch.look(draining(promised - 10)), Verdict::Kill);
        }
    }

    #[test]
    fn what_was_told_by_somebody_else_has_its_grace_or_what_the_lease_leaves_of_it() {
        let mut watch = TermGuard::new(token(7), grace(), Duration::ZERO);
        assert_eq!(watch.look(leading(100, 7, 1_300)), Verdict::Stay);
        watch.tell(at(100));
        watch.tell(at(400));
        assert!(watch.has_told());
        assert_eq!(watch.look(leading(499, 7, 901)), Verdict::Stay);
        assert_eq!(watch.look(leading(500, 7, 900)), Verdict::Kill, "the second word gives no second grace");

        let mut watch = TermGuard::new(token(7), grace(), Duration::ZERO);
        watch.tell(at(1_300));
        assert_eq!(watch.look(leading(1_300, 7, 100)), Verdict::Stay, "it has been told");
        assert_eq!(watch.look(leading(1_390, 7, 10)), Verdict::Kill);
    }

    #[test]
    fn a_request_is_let_go_one_margin_before_the_deadline() {
        let grace = Grace::of_request(&Timing::from_lease(ms(15_000)).unwrap());
        assert_eq!((grace.span(), grace.allows(ms(1_001)), grace.allows(ms(1_000))), (ms(1_000), true, false));
        let wide = Grace::of_request(&Timing::new(ms(10_000), ms(1_000), ms(7_000), ms(1_000)).unwrap());
        assert_eq!(wide.span(), ms(1_500), "half a term, or it would be let go as soon as it begins");
    }

    #[test]
    fn it_is_looked_at_when_something_may_have_become_due() {
        let grace = grace();
        assert_eq!(grace.look, ms(25));
        assert_eq!(grace.next_look(Some(ms(1_400))), ms(25));
        assert_eq!(grace.next_look(Some(ms(410))), ms(10), "at the moment of TERM");
        assert_eq!(grace.next_look(Some(ms(32))), ms(22), "just before the deadline");
        assert_eq!(grace.next_look(None), LOOK_MIN);
    }
}
