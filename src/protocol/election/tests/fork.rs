use super::*;

#[test]
fn a_fork_takes_no_attempt_from_the_other() {
    let mut one = Stage::new();
    let mut other = Stage { election: one.election.fork(), now: one.now, events: Vec::new() };
    let attempts = [&mut one, &mut other].map(|stage| stage.campaign().1.candidate.attempt);
    assert_eq!(attempts[0], attempts[1]);
}
