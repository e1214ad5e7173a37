//! What the end of a lease does to an attempt.

use std::time::Duration;

use super::super::{Ended, grace_of, has_room};
use super::server::{Do, Server, answer};
use super::stage::{Stage, interrupted, until};
use crate::config::RunConfig;
use crate::protocol::{State, Timing, Token};

const DEAF: &str = "trap '' TERM; echo $$ >pid; while [ -e pid ]; do sleep 0.01; done";
const TIDY: &str = "trap 'sleep 0.2; echo tidied >tidy; exit 0' TERM; echo $$ >pid; \
                    while [ -e pid ]; do sleep 0.01; done";

#[tokio::test]
async fn a_program_deaf_to_term_is_gone_before_the_lease_could_be_anothers() {
    let stage = Stage::short().await;
    let running = stage.begin(stage.script(DEAF, 500));
    let process = stage.process("pid").await;
    stage.cut_off();
    assert_eq!(running.ends().await, interrupted("the lease was not renewed in time; killed by signal 9 (KILL)"));
    assert!(!process.runs());
    assert!(stage.is_held().await, "the store keeps the lease for another second");
}

#[tokio::test]
async fn a_program_that_hears_term_has_its_grace_before_the_deadline() {
    let stage = Stage::short().await;
    let running = stage.begin(stage.script(TIDY, 1_500));
    stage.process("pid").await;
    stage.cut_off();
    assert_eq!(running.ends().await, interrupted("the lease was not renewed in time; exit code 0"));
    assert_eq!(stage.written("tidy").await, "tidied");
    assert!(stage.role.leads(), "its lease had not run out");
}

#[tokio::test]
async fn a_drain_keeps_the_lease_for_a_program_until_it_has_ended() {
    let second = Duration::from_secs(1);
    let stage = Stage::leading(Timing::new(60 * second, 20 * second, 2 * second, 58 * second).unwrap()).await;
    let running = stage.begin(stage.script(TIDY, 1_500));
    stage.process("pid").await;
    stage.role.resign(None).await.unwrap();
    assert!(!stage.role.leads());
    assert_eq!(running.ends().await, interrupted("the role is handed over; exit code 0"));
    assert_eq!(stage.written("tidy").await, "tidied");
    // With its end, though most of a minute was promised.
    stage.until_given_back().await;
}

#[tokio::test]
async fn a_drain_ends_a_deaf_program_with_its_last_promise() {
    let stage = Stage::short().await;
    let running = stage.begin(stage.script(DEAF, 500));
    let process = stage.process("pid").await;
    stage.role.resign(Some(Duration::from_secs(60))).await.unwrap();
    assert_eq!(running.ends().await, interrupted("the role is handed over; killed by signal 9 (KILL)"));
    assert!(!process.runs());
}

#[tokio::test]
async fn a_request_is_dropped_at_once_when_the_role_is_handed_over_and_holds_up_nothing() {
    let second = Duration::from_secs(1);
    let stage = Stage::leading(Timing::new(60 * second, 20 * second, 2 * second, 58 * second).unwrap()).await;
    let server = Server::start(vec![Do::Hold]).await;
    let running = stage.begin(server.run().into());
    server.is_asked().await;
    stage.role.resign(Some(60 * second)).await.unwrap();
    assert_eq!(running.ends().await, interrupted("the role is handed over"));
    server.sees_it_go().await;
    // A promise would have held it for most of a minute.
    stage.until_given_back().await;
}

/// A call that takes a moment is not made twice at every rollout.
#[tokio::test]
async fn a_request_may_finish_while_the_role_is_handed_over_and_the_lease_is_kept_for_it() {
    let second = Duration::from_secs(1);
    let stage = Stage::leading(Timing::new(60 * second, 20 * second, 2 * second, 58 * second).unwrap()).await;
    let gate = stage.files.path().join("gate");
    let mut script = answer("200 OK", "done");
    script.insert(0, Do::Await(gate.clone()));
    let server = Server::start(script).await;
    let running = stage.begin_and_finish_within(server.run().into(), 50 * second);
    server.is_asked().await;
    stage.role.resign(Some(60 * second)).await.unwrap();
    assert!(!stage.role.leads() && stage.is_held().await);
    std::fs::write(gate, "").unwrap();
    assert_eq!(running.ends().await, Ended::Succeeded { note: Some("done".to_owned()) });
    // With its end, though most of a minute was promised.
    stage.until_given_back().await;
}

/// Longer than any promise, because the lease is renewed for it.
#[tokio::test]
async fn a_program_may_finish_within_several_leases_and_is_told_to_end_then() {
    let stage = Stage::short().await;
    let lease = stage.timing().lease_duration();
    let done = stage.script("sleep 4; echo done >done", 500);
    let running = stage.begin_and_finish_within(done, 10 * lease);
    stage.role.resign(Some(Duration::from_secs(60))).await.unwrap();
    assert_eq!(running.ends().await, Ended::Succeeded { note: None });
    assert_eq!(stage.written("done").await, "done");
    stage.until_given_back().await;

    let stage = Stage::short().await;
    let running = stage.begin_and_finish_within(stage.script(TIDY, 500), lease / 2);
    stage.process("pid").await;
    stage.role.resign(Some(Duration::from_secs(60))).await.unwrap();
    assert_eq!(running.ends().await, interrupted("the role is handed over; exit code 0"));
    assert_eq!(stage.written("tidy").await, "tidied");
}

#[tokio::test]
async fn a_request_is_dropped_before_the_deadline_of_a_lease_that_is_not_renewed() {
    let stage = Stage::short().await;
    let server = Server::start(vec![Do::Hold]).await;
    let running = stage.begin(server.run().into());
    server.is_asked().await;
    stage.cut_off();
    assert_eq!(running.ends().await, interrupted("the lease was not renewed in time"));
    assert!(stage.role.leads(), "the app has a margin's time to notice");
    server.sees_it_go().await;
}

#[tokio::test]
async fn an_accepted_run_ends_with_the_term() {
    let stage = Stage::calm().await;
    let server = Server::start(answer("202 Accepted", "")).await;
    let running = stage.begin(server.run().into());
    running.is_accepted().await;
    stage.role.resign(None).await.unwrap();
    assert_eq!(running.ends().await, interrupted("the role is handed over"));
}

#[tokio::test]
async fn nothing_begins_under_another_term_or_without_the_time_to_end_it() {
    let stage = Stage::short().await;
    let server = Server::start(answer("200 OK", "")).await;
    let runs: [RunConfig; 2] = [server.run().into(), stage.script("echo $$ >pid", 500)];
    for run in &runs {
        let grace = grace_of(run, &stage.timing()).unwrap();
        assert!(has_room(&stage.role, &grace));
        let mut term = stage.term(run);
        term.token = Token::new(1).unwrap();
        assert_eq!(stage.make(run, term).await, interrupted("not begun: another term has begun"));
    }
    stage.cut_off();
    until("there is no time left", || !has_room(&stage.role, &grace_of(&runs[0], &stage.timing()).unwrap())).await;
    let term = stage.term(&runs[0]);
    assert_eq!(stage.make(&runs[0], term.clone()).await, interrupted("not begun: the lease was not renewed in time"));
    until("the role knows", || stage.role.snapshot().view.state != State::Leading).await;
    assert_eq!(stage.make(&runs[0], term).await, interrupted("not begun: this replica no longer leads"));
    assert!(!has_room(&stage.role, &grace_of(&runs[1], &stage.timing()).unwrap()));
    assert!(server.requests().is_empty() && !stage.files.path().join("pid").exists());
}

#[tokio::test]
async fn a_grace_that_leaves_no_time_to_work_is_refused() {
    let stage = Stage::short().await;
    assert!(grace_of(&stage.script("", 1_999), &stage.timing()).is_ok());
    let error = grace_of(&stage.script("", 2_000), &stage.timing()).unwrap_err();
    assert!(error.to_string().starts_with("grace is 2s; it must be less than 2s"), "{error}");
}
