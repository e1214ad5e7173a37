//! Jobs that are made at run time, on real sidecars, a real Redis and a small app in Python, while leaders are killed:
//! every one-shot has its run, no attempt is made twice, and nothing is left.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testkit::redis::RedisServer;
use testkit::sidecars::http::Answer;
use testkit::sidecars::jobs::{App, audit_calls, job, json, leader};
use testkit::sidecars::replica::{Lease, ROLE, Replica, Settings};
use testkit::wait::{holds_for, last_for, until, until_some, until_within};

const REPLICAS: usize = 3;
/// For so long a `PUT` is repeated.
const AGAIN: Duration = Duration::from_secs(4);
/// Longer than that: what has run before its repetition would be made anew.
const STILL_TO_COME_MS: u64 = 5_000;

fn start(count: usize, redis: &RedisServer, more: &str) -> Vec<Replica> {
    let lease = Lease::SHORT;
    let settings =
        |number| Settings { roles: lease.role(ROLE, "") + more, ..Settings::new(number, redis.url(), lease) };
    (0..count).map(|number| Replica::start(number, settings(number))).collect()
}

fn put(replica: &Replica, name: &str, body: &Value) -> Answer {
    replica.ask(&format!("PUT /jobs/{name}"), &body.to_string())
}

/// False where the store was too slow, so that it is not known whether it has the job.
fn stores(replica: &Replica, name: &str, body: &Value) -> bool {
    let answer = put(replica, name, body);
    let is_unknown = answer.status == 503 && answer.body.contains("urn:baton:problem:store-unavailable");
    assert!(is_unknown || matches!(answer.status, 200 | 201), "{} {}", answer.status, answer.body);
    !is_unknown
}

/// A one-shot after so many milliseconds, which is tried until it succeeds.
fn one_shot(app: &App, after_ms: u64) -> Value {
    json!({
        "in": format!("{after_ms}ms"), "backoffLimit": 100, "backoff": {"initial": "50ms", "max": "400ms"},
        "run": {"http": {"url": app.url(), "timeout": "2s"}},
    })
}

/// The keys of jobs that are there.
fn stored(redis: &RedisServer) -> Vec<String> {
    let keys = redis.command(&["KEYS", "baton:{jobs}:*"]).texts();
    keys.into_iter().filter(|key| !key.starts_with("baton:{jobs}:desk:")).collect()
}

/// So many one-shots over so long, and kills of whoever leads all the while.
fn kill_and_audit(jobs: u64, kills: usize, span: Duration) {
    let redis = RedisServer::start();
    let app = App::start(5);
    let mut replicas = start(REPLICAS, &redis, "");
    until_some("somebody leads", || leader(&replicas));
    let mut dice = fastrand::Rng::with_seed(5);
    let begun = Instant::now();
    let span_ms = u64::try_from(span.as_millis()).expect("a test's span");
    for number in 0..jobs {
        let body = one_shot(&app, dice.u64(STILL_TO_COME_MS..span_ms));
        let replica = &replicas[usize::try_from(number).expect("few") % REPLICAS];
        let name = format!("one-{number}");
        if number == jobs / 2 {
            redis.pause();
            assert!(!stores(replica, &name, &body), "it was stored by a store that stood still");
            redis.resume();
        }
        // As docs/http-api.md has it: a `PUT` may be repeated until it is answered.
        until_within(AGAIN, "the job is stored", || stores(replica, &name, &body));
    }
    for _ in 0..kills {
        let at = until_some("somebody leads", || leader(&replicas));
        last_for(Duration::from_millis(dice.u64(200..1_500)));
        replicas[at].kill();
        last_for(Duration::from_millis(dice.u64(0..500)));
        replicas[at].start_again();
    }
    let patience = span.saturating_sub(begun.elapsed()) + Duration::from_secs(120);
    until_within(patience, "every job is done", || stored(&redis).is_empty());
    let calls = app.calls();
    audit_calls(&calls);
    let runs: BTreeSet<&str> = calls.iter().map(|call| call.run.as_str()).collect();
    assert_eq!(runs.len() as u64, jobs, "one run each, and each has been called for");
    println!("{jobs} one-shots, {kills} kills of the leader: {} attempts", calls.len());
}

#[test]
fn every_one_shot_has_its_run_while_leaders_are_killed_and_nothing_is_left() {
    kill_and_audit(300, 5, Duration::from_secs(15));
}

#[test]
#[ignore = "takes minutes"]
fn ten_thousand_one_shots() {
    kill_and_audit(10_000, 50, Duration::from_secs(150));
}

#[test]
fn what_is_stored_outlives_every_sidecar() {
    let redis = RedisServer::start();
    let app = App::start(6);
    let mut replicas = start(1, &redis, "");
    until_some("somebody leads", || leader(&replicas));
    assert_eq!(put(&replicas[0], "later", &one_shot(&app, 4_000)).status, 201);
    replicas[0].kill();
    replicas[0].start_again();
    until("it is there", || job(&replicas[0], "later")["next"].is_string());
    until_within(Duration::from_secs(30), "it has its run", || stored(&redis).is_empty());
    assert_eq!(app.calls().iter().filter(|call| call.run.starts_with("later-manual-")).count(), app.calls().len());
}

/// An address that accepts and never answers.
fn silent() -> (std::net::TcpListener, String) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/work", listener.local_addr().expect("bound"));
    (listener, url)
}

#[test]
fn a_job_that_is_deleted_while_it_runs_is_cancelled_and_gone() {
    let redis = RedisServer::start();
    let (_listener, url) = silent();
    let replicas = start(2, &redis, "");
    let leads = until_some("somebody leads", || leader(&replicas));
    let body = json!({"in": "1ms", "run": {"http": {"url": url, "timeout": "1h"}}});
    let other = &replicas[1 - leads];
    assert_eq!(put(other, "endless", &body).status, 201);
    until("it runs", || job(other, "endless")["active"][0]["phase"] == "running");
    let active = || replicas[leads].metric("baton_job_active_runs", &[("job_name", "(runtime)")]);
    until("its leader says so", || active() == Some(1.0));
    assert_eq!(other.ask("POST /jobs/endless/run", "").status, 409);
    assert_eq!(other.ask("DELETE /jobs/endless", "").status, 204);
    until("it is cancelled", || active() == Some(0.0));
    assert_eq!(stored(&redis), Vec::<String>::new());
    assert_eq!(other.ask("DELETE /jobs/endless", "").status, 404);
    assert_eq!(other.ask("GET /jobs/endless", "").status, 404);
}

#[test]
fn a_schedule_made_at_run_time_is_suspended_resumed_asked_for_and_ends_after_its_repeats() {
    let redis = RedisServer::start();
    let app = App::start(8);
    let replicas = start(2, &redis, "");
    until_some("somebody leads", || leader(&replicas));
    let body = json!({
        "schedule": "@every 1s", "repeats": 4, "suspend": true, "backoffLimit": 100,
        "backoff": {"initial": "50ms", "max": "100ms"}, "data": {"customer": 7},
        "run": {"http": {"url": app.url(), "timeout": "2s"}},
    });
    assert_eq!(put(&replicas[0], "tick", &body).status, 201);
    assert_eq!(put(&replicas[1], "tick", &body).status, 200, "the same again changes nothing");
    assert_eq!(job(&replicas[1], "tick")["suspended"], true);
    assert_eq!(replicas[1].ask("POST /jobs/tick/run", "").status, 202);
    until("the run that was asked for has ended", || job(&replicas[0], "tick")["runtime"]["runs"] == 1);
    let suspended = || job(&replicas[0], "tick")["runtime"]["runs"] == 1;
    holds_for(Duration::from_millis(1_500), "it is suspended", suspended);
    assert_eq!(replicas[1].ask("POST /jobs/tick/resume", "").status, 204);
    until_within(Duration::from_secs(30), "it has had its runs", || stored(&redis).is_empty());
    let calls = app.calls();
    audit_calls(&calls);
    let runs: BTreeSet<&str> = calls.iter().map(|call| call.run.as_str()).collect();
    assert_eq!(runs.len(), 4, "{runs:?}");
}

#[test]
fn jobs_of_the_file_stay_the_files_and_a_list_has_both() {
    let redis = RedisServer::start();
    let app = App::start(9);
    let file = "jobs:\n  - { name: nightly, schedule: '@yearly', run: { http: { url: 'http://127.0.0.1:1/' } } }\n";
    let replicas = start(1, &redis, file);
    let replica = &replicas[0];
    until_some("somebody leads", || leader(&replicas));
    for line in ["PUT /jobs/nightly", "DELETE /jobs/nightly"] {
        let answer = replica.ask(line, if line.starts_with("PUT") { "{}" } else { "" });
        assert_eq!(
            (answer.status, &json(&answer)["type"]),
            (409, &json!("urn:baton:problem:configured-job")),
            "{line}"
        );
        assert!(json(&answer)["detail"].as_str().is_some_and(|detail| detail.contains("configuration file")));
    }
    for number in 0..5 {
        assert_eq!(put(replica, &format!("one-{number}"), &one_shot(&app, 3_600_000)).status, 201);
    }
    let names = |answer: &Answer| -> Vec<String> {
        let list = json(answer);
        list.as_array().expect("a list").iter().map(|job| job["job"].as_str().expect("a name").to_owned()).collect()
    };
    assert_eq!(names(&replica.ask("GET /jobs?limit=2", "")), ["nightly", "one-0", "one-1"]);
    assert_eq!(names(&replica.ask("GET /jobs?limit=2&after=one-1", "")), ["one-2", "one-3"]);
    assert_eq!(names(&replica.ask("GET /jobs", "")).len(), 6);
    let wrong = json!({"in": "5 s", "repeats": 0, "run": {"exec": {"command": ["rm"]}}});
    let answer = json(&put(replica, "bad", &wrong));
    let paths: Vec<&str> =
        answer["problems"].as_array().expect("problems").iter().filter_map(|p| p["path"].as_str()).collect();
    for path in ["in", "repeats", "run.exec"] {
        assert!(paths.contains(&path), "{path}: {answer}");
    }
}
