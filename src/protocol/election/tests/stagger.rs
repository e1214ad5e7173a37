//! One of many roles in its process.

use super::*;

const STAGGER: Duration = Duration::from_millis(300);
/// Candidates wait a random moment besides.
const SPREAD: Duration = Duration::from_millis(2);
/// Renewals go out at multiples of this.
const TOGETHER: Duration = Duration::from_millis(10);

fn one_of_many(seed: u64) -> Stage {
    Stage::with(Profile { role_stagger: STAGGER, seed, ..profile() })
}

#[test]
fn a_staggered_role_comes_later_at_the_start_and_when_all_have_watched() {
    let mut stage = one_of_many(1);
    assert!(stage.actions().is_empty(), "it does not look at once");
    assert_eq!(stage.until_due(PERIOD), STAGGER);
    let (id, _) = stage.campaign();
    stage.answer(id, look_again(Token::NONE, 0));
    let due = stage.until_due(LEASE * 2);
    assert!((LEASE + STAGGER..=LEASE + STAGGER + SPREAD).contains(&due), "{due:?}");
    assert!(stage.campaign().1.knowledge.is_some_and(|known| known.unchanged_for >= LEASE));
}

#[test]
fn it_comes_later_after_a_guard_and_a_gap_too() {
    let mut stage = one_of_many(1);
    stage.until_due(PERIOD);
    let (id, _) = stage.campaign();
    let (remaining, cause) = (ms(2_000), GuardCause::Generation);
    stage.answer(id, CampaignReply::Guarded { cause, remaining, version: version(Token::NONE, 0) });
    let due = stage.election.poll_timeout().expect("it looks again").since(stage.now);
    assert!((remaining + STAGGER..=remaining + STAGGER + SPREAD).contains(&due), "{due:?}");
    stage.input(Input::Gap);
    let due = stage.election.poll_timeout().expect("it looks sooner").since(stage.now);
    assert!((STAGGER..=STAGGER + SPREAD).contains(&due), "{due:?}");
}

#[test]
fn staggered_roles_are_renewed_all_over_the_period() {
    let mut first: Vec<Duration> = Vec::new();
    for seed in 0..200 {
        let mut stage = one_of_many(seed);
        stage.until_due(PERIOD);
        let (id, _) = stage.campaign();
        stage.answer(id, CampaignReply::Granted { token: token(7), count: 1 });
        stage.actions();
        first.push(stage.until_due(PERIOD));
        let (id, _) = stage.renewal();
        stage.answer_renewal(id, renewed(2));
        stage.actions();
        assert!(stage.until_due(PERIOD) > PERIOD - TOGETHER, "each period from then on");
    }
    for tenth in 0..10 {
        let within = |due: &&Duration| (PERIOD * tenth / 10..PERIOD * (tenth + 1) / 10).contains(*due);
        let share = first.iter().filter(within).count();
        assert!((5..=40).contains(&share), "{share} of 200 in tenth {tenth} of the period");
    }
}

#[test]
fn staggered_roles_that_are_due_in_one_moment_are_renewed_together_and_never_after_a_period() {
    for seed in 0..50 {
        let mut stage = one_of_many(seed);
        stage.until_due(PERIOD);
        let (id, _) = stage.campaign();
        stage.answer(id, CampaignReply::Granted { token: token(7), count: 1 });
        stage.actions();
        let mut last = None;
        for count in 2..20 {
            let due = stage.election.poll_timeout().expect("a renewal is due");
            if let Some(last) = last {
                assert_eq!(due.as_nanos() % 10_000_000, 0, "with others");
                let period = due.since(last);
                assert!(count == 3 || period == PERIOD, "those that go out together go on doing so: {period:?}");
            }
            last = Some(due);
            // The task wakes up a little late, and so does the answer.
            let late = Duration::from_micros(seed * 190);
            stage.pass(due.since(stage.now) + late);
            let (id, _) = stage.renewal();
            stage.pass(ms(3)).answer_renewal(id, renewed(count));
            stage.actions();
        }
    }
}
