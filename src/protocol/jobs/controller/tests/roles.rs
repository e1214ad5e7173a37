//! A job that is another role's from one moment on. Tokens of two roles say nothing about each other.

use super::*;

/// Far below [`TERM`].
const SMALL: u64 = 5;

fn moved_to(name: &str) -> JobEvent {
    JobEvent::Moved { to: role(name) }
}

fn taken_from(name: &str) -> JobEvent {
    JobEvent::TakenOver { from: Some(role(name)) }
}

#[test]
fn a_job_that_moves_to_a_role_with_smaller_tokens_goes_on() {
    let mut stage = Stage::new(policy(), 10);
    stage.pass(secs(10));
    let mut former = stage.move_to("theirs", SMALL);
    assert!(stage.tells(&taken_from("ours")) && stage.tells(&JobEvent::Opened { interrupted: 1 }));
    stage.end(at(10), Ending::Succeeded).pass(secs(10)).end(at(20), Ending::Succeeded);
    let tokens: Vec<u64> = stage.started.iter().map(|(.., token)| token.get()).collect();
    assert_eq!(tokens, [TERM, TERM + 1, TERM + 2], "an attempt's own token rises over all roles");
    assert_eq!(stage.starts(), [(at(10), 1), (at(10), 2), (at(20), 1)]);
    // Whose it was finds out at its next request, and ends what it runs.
    std::mem::swap(&mut stage.controller, &mut former);
    let before = stage.stored();
    stage.input(JobInput::Changed);
    assert!(stage.controller.is_over() && stage.tells(&moved_to("theirs")));
    assert_eq!(stage.cancelled, [(at(10), 1, RunFailure::Interrupted)]);
    assert_eq!((stage.stored(), stage.cell.owner()), (before, Some(&role("theirs"))));
}

#[test]
fn a_late_look_and_a_late_write_of_the_former_role_take_nothing_back() {
    let mut stage = Stage::unserved(policy(), 10);
    let look = stage.request();
    let early = stage.execute(&look);
    stage.input(early).answer().pass(secs(10));
    let claim = stage.request();
    stage.serves = true;
    stage.move_to("theirs", SMALL);
    stage.pass(secs(1));
    assert_eq!(stage.starts(), [(at(10), 1)], "the claim was not written when the ledger changed hands");
    let before = stage.cell.clone();
    for late in [look, claim] {
        let reply = stage.execute(&late);
        let refused = matches!(
            reply,
            JobInput::Opened(_, OpenReply::OtherRole { .. }) | JobInput::Wrote(_, WriteReply::OtherRole { .. })
        );
        assert!(refused && stage.cell == before, "{reply:?}");
    }
}

#[test]
fn a_ledger_is_taken_over_only_by_who_knows_what_is_written() {
    let mut stage = Stage::unserved(policy(), 10);
    stage.answer().answer().pass(secs(10)).answer();
    assert_eq!(stage.starts(), [(at(10), 1)]);
    let mut former = stage.move_to("theirs", SMALL);
    // It has looked; meanwhile the run's end is written.
    stage.answer();
    let take = stage.request();
    std::mem::swap(&mut stage.controller, &mut former);
    stage.running.push((at(10), 1));
    stage.end(at(10), Ending::Succeeded).answer();
    std::mem::swap(&mut stage.controller, &mut former);
    let refused = stage.execute(&take);
    stage.input(refused).answer().answer().pass(secs(5));
    assert!(stage.tells(&JobEvent::Opened { interrupted: 0 }));
    assert_eq!((stage.starts(), stage.phase(at(10))), (vec![], Phase::Succeeded));
}

/// Two replicas have two configurations, until the last of them has the new one.
#[test]
fn who_lost_the_job_to_another_role_asks_for_it_again_after_a_minute_while_it_leads() {
    let mut stage = Stage::new(policy(), 3_600);
    let mut former = stage.move_to("theirs", SMALL);
    std::mem::swap(&mut stage.controller, &mut former);
    stage.input(JobInput::Changed);
    assert!(stage.tells(&moved_to("theirs")));
    stage.pass(secs(60));
    assert!(stage.tells(&taken_from("theirs")));
    assert_eq!((stage.cell.owner(), stage.cell.fence()), (Some(&role("ours")), token(TERM)));
    stage.pass(secs(3_600));
    assert_eq!(stage.starts(), [(at(3_600), 1)]);
}

#[test]
fn what_the_store_lost_since_the_job_moved_is_written_again() {
    let mut stage = Stage::new(long_memory(), 10);
    stage.pass(secs(10)).end(at(10), Ending::Succeeded);
    let lagging = stage.cell.clone();
    stage.move_to("theirs", SMALL);
    stage.pass(secs(10)).end(at(20), Ending::Succeeded);
    stage.cell = lagging;
    stage.pass(secs(10));
    assert!(stage.tells(&JobEvent::Restored) && !stage.tells(&moved_to("ours")));
    assert_eq!(stage.starts(), [(at(10), 1), (at(20), 1), (at(30), 1)]);
    assert_eq!(stage.stored().runs.len(), 3);
    assert_eq!(stage.cell.owner(), Some(&role("theirs")));
}

#[test]
fn a_ledger_that_an_earlier_release_wrote_is_taken_over_by_its_next_leader() {
    let mut stage = Stage::new(policy(), 10);
    stage.cell = LedgerCell::new(None, token(TERM), stage.cell.read());
    stage.next_leader(TERM + 1).pass(secs(10));
    assert!(stage.tells(&JobEvent::TakenOver { from: None }));
    assert_eq!((stage.starts(), stage.cell.owner()), (vec![(at(10), 1)], Some(&role("ours"))));
}
