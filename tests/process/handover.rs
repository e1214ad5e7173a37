//! A leader that resigns over HTTP, and how the successor's app hears of it.

use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use testkit::sidecars::apps::Told;
use testkit::sidecars::http::Connection;
use testkit::sidecars::replica::Lease;

use crate::group::{self, ROLE, ms_between};

/// Follows by long poll until this replica leads; when, and with which token.
fn follow_by_long_poll(address: SocketAddr, mut index: u64) -> (Instant, u64) {
    let mut connection = Connection::open(address).expect("the sidecar listens");
    loop {
        let line = format!("GET /leader/{ROLE}?wait=30s&index={index}");
        let answer = connection.ask(&line, "").expect("an answer");
        let told: Told = serde_json::from_str(&answer.body).expect("an object");
        if let Some(token) = told.token {
            return (Instant::now(), token);
        }
        index = told.index;
    }
}

/// The same by Server-Sent Events.
fn follow_by_events(address: SocketAddr) -> (Instant, u64) {
    let mut connection = Connection::open(address).expect("the sidecar listens");
    connection.send("GET /events", "").expect("sent");
    assert_eq!(connection.head().expect("an answer").status, 200);
    loop {
        let line = connection.line().expect("the stream goes on");
        let told = line.strip_prefix("data:").map(|data| serde_json::from_str::<Told>(data).expect("an object"));
        if let Some(token) = told.and_then(|told| told.token) {
            return (Instant::now(), token);
        }
    }
}

#[test]
fn a_resignation_is_heard_by_long_poll_and_by_events_on_the_successor() {
    let mut group = group::start(2, Lease::SHORT);
    let first = group.leader();
    let (old, heir) = (first.who.replica, 1 - first.who.replica);
    let standby = group.answer_after(heir, first.from, "the other stands by", |seen| seen.told.state == "standby");
    let (address, index) = (group.replicas[heir].api(), standby.told.index);
    let by_poll = thread::spawn(move || follow_by_long_poll(address, index));
    let by_events = thread::spawn(move || follow_by_events(address));
    let resigned_at = Instant::now();
    let cooldown = Duration::from_secs(5);
    let answer = group.replicas[old].ask(&format!("POST /leader/{ROLE}/resign"), r#"{"cooldown":"5s"}"#);
    assert_eq!(answer.status, 202, "{}", answer.body);
    let next = group.leader_after(&first);
    assert_eq!(next.who.replica, heir);
    let (polled_at, polled) = by_poll.join().expect("the long poll ends well");
    let (told_at, told) = by_events.join().expect("the events end well");
    assert_eq!((polled, told), (next.token, next.token));
    let promised_until = group.apps.terms()[0].until;
    assert!(polled_at.min(told_at) >= promised_until, "a promise still stood");
    let refused = group.replicas[old].ask(&format!("POST /leader/{ROLE}/resign"), "");
    assert_eq!(refused.status, 409, "only the leader can resign: {}", refused.body);

    // Nobody else is left, and yet the cooldown holds.
    group.replicas[heir].kill();
    let again = group.leader_after(&next);
    assert_eq!(again.who.replica, old);
    assert!(again.from >= resigned_at + cooldown, "it came back {:?} too early", resigned_at + cooldown - again.from);
    let after = |moment| ms_between(promised_until, moment);
    let measured = format!(
        "after the last promise: first answer {} ms, long poll {} ms, event {} ms, ",
        after(next.from),
        after(polled_at),
        after(told_at)
    );
    group.finish("resign", &measured);
}
