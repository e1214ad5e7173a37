//! Jobs under bad input and faults, on real sidecars and a real Redis: what is out of bounds is refused with the bound,
//! a Redis that is full costs nobody the role, and an app that answers badly fails its run and nothing else.

use std::collections::BTreeMap;
use std::thread;

use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::redis::RedisServer;
use testkit::sidecars::callbacks::Callbacks;
use testkit::sidecars::http::{Answer, Connection};
use testkit::sidecars::jobs::{job, json, leader, runs};
use testkit::sidecars::replica::{Lease, ROLE, Replica, Settings};
use testkit::wait::{until, until_some};

fn start(redis: &RedisServer, jobs: &str) -> Replica {
    let roles = Lease::LONGER.role(ROLE, "") + jobs;
    let replica = Replica::start(0, Settings { roles, ..Settings::new(0, redis.url(), Lease::LONGER) });
    until("it leads", || leader(std::slice::from_ref(&replica)).is_some());
    replica
}

fn put(replica: &Replica, name: &str, body: &Value) -> Answer {
    replica.ask(&format!("PUT /jobs/{name}"), &body.to_string())
}

/// A one-shot of tomorrow, with other words in the place of some of its own.
fn with(words: &Value) -> Value {
    let mut job = json!({"in": "24h", "run": {"http": {"url": "http://127.0.0.1:1/"}}});
    for (word, value) in words.as_object().expect("an object") {
        job[word] = value.clone();
    }
    job.as_object_mut().expect("an object").retain(|_, value| !value.is_null());
    job
}

fn token(replica: &Replica) -> Option<u64> {
    json(&replica.ask("GET /leader", ""))["token"].as_u64()
}

/// In bytes.
fn memory(replica: &Replica) -> f64 {
    replica.metric("process_resident_memory_bytes", &[]).expect("a process")
}

#[test]
fn what_is_out_of_bounds_is_refused_with_its_place_and_the_bound() {
    let redis = RedisServer::start();
    let replica = start(&redis, "");
    let schedule = |text: &str| json!({"in": null, "schedule": text});
    let http = |word: &str, value: Value| {
        let mut http = json!({"url": "http://127.0.0.1:1/"});
        http[word] = value;
        json!({"run": {"http": http}})
    };
    for (words, path, bound) in [
        (json!({"in": "10001h"}), "in", "10000h"),
        (json!({"in": null, "at": "2199-01-01T00:00:00Z"}), "at", "10000h"),
        (json!({"in": null, "at": "1969-12-31T23:59:59Z"}), "at", "1970"),
        (json!({"ttl": "0s"}), "ttl", "longer"),
        (json!({"ttl": "10001h"}), "ttl", "10000h"),
        (json!({"in": null, "schedule": "@daily", "repeats": 0}), "repeats", "from 1 to 1000000000"),
        (json!({"in": null, "schedule": "@daily", "repeats": 1_000_000_001}), "repeats", "from 1 to 1000000000"),
        (schedule("* * *"), "schedule", "write five"),
        (schedule("60 * * * *"), "schedule", "59"),
        (schedule("0 0 31 2 *"), "schedule", "never"),
        (schedule("@every 500ms"), "schedule", "whole seconds"),
        (json!({"in": null, "schedule": "@daily", "timeZone": "Mars/Base"}), "timeZone", "zone"),
        (json!({"backoffLimit": 1_000_000_001}), "backoffLimit", "from 0 to 1000000000"),
        (json!({"backoff": {"initial": "25h"}}), "backoff.initial", "24h"),
        (json!({"startingDeadlineSeconds": 0}), "startingDeadlineSeconds", "from 1 to 31536000"),
        (json!({"activeDeadlineSeconds": 31_536_001}), "activeDeadlineSeconds", "from 1 to 31536000"),
        (json!({"finishWithin": "61m"}), "finishWithin", "1h"),
        (json!({"data": "x".repeat(8_192)}), "data", "8192"),
        (http("body", json!("x".repeat(16_384))), "", "16384"),
        (http("timeout", json!("25h")), "run.http.timeout", "24h"),
        (http("url", json!("ftp://127.0.0.1/")), "run.http.url", "http"),
    ] {
        let answer = put(&replica, "bad", &with(&words));
        let told = json(&answer);
        assert_eq!((answer.status, &told["type"]), (400, &json!("urn:baton:problem:bad-body")), "{words}: {told}");
        let problems = told["problems"].as_array().expect("problems");
        let says = |problem: &Value| {
            problem["path"] == path && problem["message"].as_str().is_some_and(|message| message.contains(bound))
        };
        assert!(problems.len() == 1 && says(&problems[0]), "{path}, {bound}: {told}");
    }
    for (name, body, status, words) in [
        ("n".repeat(53).as_str(), with(&json!({})).to_string(), 400, "1 to 52"),
        ("No", with(&json!({})).to_string(), 400, "1 to 52"),
        ("bad", String::new(), 400, "JSON"),
        ("bad", "[]".to_owned(), 400, "object"),
        ("bad", format!("{{\"data\":\"{}\"}}", "x".repeat(66_000)), 413, "65536"),
    ] {
        let answer = replica.ask(&format!("PUT /jobs/{name}"), &body);
        let detail = json(&answer)["detail"].as_str().unwrap_or_default().to_owned();
        assert!(answer.status == status && detail.contains(words), "{name}: {answer:?}");
    }
    assert_eq!(json(&replica.ask("GET /jobs", "")), json!([]), "nothing of it is stored");
}

#[test]
fn a_moment_that_is_past_is_due_at_once_and_missed_where_a_deadline_says_so() {
    let redis = RedisServer::start();
    let (replica, app) = (start(&redis, ""), Callbacks::start());
    let past = |words: Value| {
        let mut job = with(&json!({"in": null, "at": "2020-01-01T00:00:00Z"}));
        job["run"]["http"]["url"] = app.url("done").into();
        job.as_object_mut().expect("an object").extend(words.as_object().expect("an object").clone());
        job
    };
    for (name, words) in [
        ("late", json!({"startingDeadlineSeconds": 60})),
        ("expired", json!({"ttl": "2020-01-02T00:00:00Z"})),
        ("due", json!({})),
    ] {
        assert_eq!(put(&replica, name, &past(words)).status, 201, "{name}");
        until("it is done with", || replica.ask(&format!("GET /jobs/{name}"), "").status == 404);
    }
    assert_eq!(app.calls(), [("done".to_owned(), 1)], "the last alone");
}

/// So many jobs for a Redis that has room for some of them, on eight connections; then one as every other time.
fn fill(jobs: usize, room: usize) {
    const CONNECTIONS: usize = 8;
    let redis = RedisServer::start();
    let replica = start(&redis, "");
    let info = redis.command(&["INFO", "memory"]).text();
    let used: usize = info
        .lines()
        .find_map(|line| line.strip_prefix("used_memory:"))
        .and_then(|used| used.trim().parse().ok())
        .expect("bytes");
    redis.command(&["CONFIG", "SET", "maxmemory", &(used + room).to_string()]);
    let (leads_under, before) = (token(&replica), memory(&replica));
    let address = replica.api();
    let body = with(&json!({"data": "x".repeat(200)})).to_string();
    let threads: Vec<_> = (0..CONNECTIONS)
        .map(|part| {
            let body = body.clone();
            thread::spawn(move || {
                let mut connection = Connection::open(address).expect("the sidecar listens");
                let mut told: BTreeMap<(u16, String), usize> = BTreeMap::new();
                for number in (part..jobs).step_by(CONNECTIONS) {
                    let answer = connection.ask(&format!("PUT /jobs/one-{number}"), &body).expect("an answer");
                    let kind = json(&answer)["type"].as_str().unwrap_or_default().to_owned();
                    *told.entry((answer.status, kind)).or_default() += 1;
                }
                told
            })
        })
        .collect();
    let mut told: BTreeMap<(u16, String), usize> = BTreeMap::new();
    for thread in threads {
        thread.join().expect("it ends").into_iter().for_each(|(kind, times)| *told.entry(kind).or_default() += times);
    }
    let full = (507, "urn:baton:problem:store-full".to_owned());
    let made = told.get(&(201, String::new())).copied().unwrap_or(0);
    let refused = told.get(&full).copied().unwrap_or(0);
    let grown = (memory(&replica) - before) / f64::from(1 << 20);
    println!(
        "{jobs} jobs, room for {room} bytes: {made} made, {refused} refused; the sidecar has grown by {grown:.1} MiB"
    );
    assert!(made > 0 && refused > 0 && made + refused == jobs, "{told:?}");
    let renewals = || replica.role_metric("baton_renewals_total", &[("outcome", "ok")]);
    let renewed = renewals();
    until("renewals go on", || renewals() >= renewed + 3.0);
    assert_eq!(token(&replica), leads_under, "the role is led as before");
    assert!(grown < 16.0, "{grown} MiB");
    let failed = |outcome: &str| replica.role_metric("baton_renewals_total", &[("outcome", outcome)]);
    assert_eq!((failed("error"), failed("lost")), (0.0, 0.0), "what is left is kept for leases");
    // By now some bytes may be free again.
    let mut number = 0;
    let refused = until_some("the next is refused", || {
        number += 1;
        let answer = put(&replica, &format!("another-{number}"), &with(&json!({"data": "x".repeat(2_000)})));
        (answer.status != 201).then_some(answer)
    });
    assert!(refused.status == 507 && refused.body.contains("maxmemory"), "{refused:?}");
    assert_eq!(replica.ask("DELETE /jobs/one-0", "").status, 204, "whoever deletes makes room");
    redis.command(&["CONFIG", "SET", "maxmemory", "0"]);
    assert_eq!(put(&replica, "another", &with(&json!({}))).status, 201);
}

#[test]
fn a_full_redis_refuses_new_jobs_and_nothing_else_suffers() {
    fill(4_000, 1 << 20);
}

#[test]
#[ignore = "takes minutes"]
fn a_hundred_thousand_jobs_for_a_full_redis() {
    fill(100_000, 16 << 20);
}

#[test]
fn an_app_that_answers_slowly_hugely_never_or_with_a_redirect_fails_its_run_alone() {
    let redis = RedisServer::start();
    let app = Callbacks::start();
    let hows = [
        ("slow", "was not whole within 1s"),
        ("huge", "was not whole within 1s"),
        ("never", "no answer from 127.0.0.1:"),
        ("moved", "status 302 Found: it leads to http://127.0.0.1:"),
    ];
    let entry = |how: &str| {
        let run = format!("{{ http: {{ url: '{}', timeout: 1s }} }}", app.url(how));
        format!("  - {{ name: {how}, schedule: '@yearly', backoffLimit: 0, run: {run} }}\n")
    };
    let jobs: String = hows.map(|(how, _)| entry(how)).concat();
    let well = format!(
        "  - {{ name: well, schedule: '@every 1s', run: {{ http: {{ url: '{}', timeout: 1s }} }} }}\n",
        app.url("done")
    );
    let replica = start(&redis, &format!("jobs:\n{jobs}{well}"));
    let (leads_under, before) = (token(&replica), memory(&replica));
    for (how, _) in hows {
        assert_eq!(replica.ask(&format!("POST /jobs/{how}/run"), "").status, 202);
    }
    for (how, wanted) in hows {
        let run = until_some("the run has failed", || {
            runs(&replica, how).into_iter().next().filter(|run| run["phase"] == "failed")
        });
        assert!(run["attempts"][0]["note"].as_str().is_some_and(|note| note.contains(wanted)), "{how}: {run}");
    }
    let mut bad: Vec<String> = app.calls().into_iter().map(|(how, _)| how).filter(|how| how != "done").collect();
    bad.sort();
    assert_eq!(bad, ["huge", "moved", "never", "slow"], "once each");
    let last = job(&replica, "well")["last_success"].clone();
    until("the other job goes on", || job(&replica, "well")["last_success"] != last);
    let grown = (memory(&replica) - before) / f64::from(1 << 20);
    assert!(token(&replica) == leads_under && grown < 16.0, "{grown} MiB");
    // What was made at run time is run in the same way, and forgotten when it has failed for good.
    let body = with(&json!({"in": "1ms", "backoffLimit": 0, "run": {"http": {"url": app.url("moved")}}}));
    assert_eq!(put(&replica, "made", &body).status, 201);
    until("it is done with", || replica.ask("GET /jobs/made", "").status == 404);
    let failed = [("job_name", "(runtime)"), ("outcome", "backoff_limit_exceeded")];
    assert_eq!(replica.metric("baton_job_runs_total", &failed), Some(1.0));
}

/// The clock changes of a year ago, made up for.
#[test]
fn a_daily_job_runs_once_on_the_days_on_which_clocks_change() {
    let (redis, dir) = (RedisServer::start(), TempDir::new().expect("a temporary directory"));
    let journal = dir.path().join("journal");
    let replica = start(
        &redis,
        &format!(
            "jobs:\n  - {{ name: daily, schedule: '30 2 * * *', timeZone: Europe/Berlin, run: {{ exec: {{ command: \
             [sh, -c, 'echo $BATON_SCHEDULED_TIME >>{}'] }} }} }}\n",
            journal.display()
        ),
    );
    until("the job is known", || job(&replica, "daily")["next"].is_string());
    for (days, wanted) in [
        (["2025-03-29", "2025-04-01"], ["2025-03-29T01:30:00Z", "2025-03-30T01:00:00Z", "2025-03-31T00:30:00Z"]),
        (["2025-10-25", "2025-10-28"], ["2025-10-25T00:30:00Z", "2025-10-26T00:30:00Z", "2025-10-27T01:30:00Z"]),
    ] {
        std::fs::write(&journal, "").expect("a file");
        let [from, to] = days.map(|day| format!("{day}T00:00:00Z"));
        let asked = replica.ask("POST /jobs/daily/backfill", &json!({"from": from, "to": to}).to_string());
        assert_eq!((asked.status, &json(&asked)["slots"]), (202, &json!(3)), "{asked:?}");
        let ran = || std::fs::read_to_string(&journal).expect("a journal");
        until("all have run", || ran().lines().count() >= wanted.len());
        until("it is done", || job(&replica, "daily")["backfill"].is_null());
        until("nothing goes on", || job(&replica, "daily")["active"].as_array().is_some_and(Vec::is_empty));
        // Whatever else was due has begun when a run that is asked for now is done.
        assert_eq!(replica.ask("POST /jobs/daily/run", "").status, 202);
        until("that is done, too", || ran().lines().count() > wanted.len());
        assert_eq!(ran().lines().collect::<Vec<_>>()[..wanted.len()], wanted);
        assert_eq!(ran().lines().count(), wanted.len() + 1);
    }
}
