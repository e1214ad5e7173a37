//! Jobs over HTTP: each call, and each way to ask for too much.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use baton::base::process::Entropy;
use baton::config::{Environment, check_text};
use baton::http::{Client, Content, Router};
use baton::jobs::{self, JobService};
use baton::role::Roles;
use baton::store::memory::MemoryStore;
use baton::telemetry::{Metrics, Telemetry};
use hyper::{HeaderMap, Method};
use serde_json::{Value, json};

use crate::client::{Reply, ask, ask_until, ask_with};
use crate::contract::check_reply;
use crate::schema::OpenApi;
use crate::stage::{Cue, IDENTITY, Server, Staged, clock, follower_fixture, leader_fixture};

const JSON: (&str, &str) = ("Content-Type", "application/json");

pub async fn post(address: SocketAddr, path: &str, body: &Value) -> Reply {
    ask_with(address, &format!("POST {path}"), &[JSON], body.to_string().as_bytes()).await
}

pub fn openapi() -> OpenApi {
    OpenApi::parse(include_str!("../../src/api/openapi.yaml"))
}

pub fn check(openapi: &OpenApi, template: &str, method: &str, reply: &Reply) {
    let operation = &openapi.root["paths"][template][method];
    check_reply(openapi, operation, reply, false, template);
}

/// Asks for a run of a job; its id.
pub async fn run(address: SocketAddr, job: &str) -> String {
    let reply = post(address, &format!("/jobs/{job}/run"), &json!({})).await;
    assert_eq!(reply.status, 202, "{reply:?}");
    reply.json()["run"].as_str().unwrap().to_owned()
}

/// Waits until the last run of a job that was asked for is in this phase; the run.
pub async fn until_phase(address: SocketAddr, job: &str, id: &str, phase: &str) -> Value {
    let found = |reply: &Reply| {
        let runs = reply.json()["runs"].as_array().cloned().unwrap_or_default();
        runs.into_iter().find(|run| run["run"] == id && run["phase"] == phase)
    };
    let reply = ask_until(address, &format!("GET /jobs/{job}/runs"), |reply| found(reply).is_some()).await;
    found(&reply).unwrap()
}

#[tokio::test]
async fn a_run_that_is_asked_for_begins_at_once_and_is_remembered() {
    let openapi = openapi();
    let (_role, server) = leader_fixture().await;
    let asked = post(server.address, "/jobs/works/run", &json!({})).await;
    check(&openapi, "/jobs/{name}/run", "post", &asked);
    let id = asked.json()["run"].as_str().unwrap().to_owned();
    assert!(id.starts_with("works-manual-"), "{id}");
    let done = until_phase(server.address, "works", &id, "succeeded").await;
    assert_eq!((&done["manual"], &done["attempts"][0]["identity"]), (&json!(true), &json!(IDENTITY)), "{done}");
    assert_eq!(done["attempts"][0]["outcome"], "succeeded");

    let failed = run(server.address, "fails").await;
    let failed = until_phase(server.address, "fails", &failed, "failed").await;
    assert_eq!(
        (&failed["reason"], failed["attempts"].as_array().unwrap().len()),
        (&json!("backoff_limit_exceeded"), 2)
    );
    let tokens: Vec<u64> = (0..2).map(|at| failed["attempts"][at]["token"].as_u64().unwrap()).collect();
    assert!(tokens[0] < tokens[1], "{tokens:?}");

    let job = ask(server.address, "GET /jobs/works").await;
    check(&openapi, "/jobs/{name}", "get", &job);
    let job = job.json();
    assert_eq!((&job["leader"], &job["holder"], &job["last"]["run"]), (&json!(true), &json!(IDENTITY), &done["run"]));
    assert!(job["next"].is_string() && job["last_success"].is_string(), "{job}");
    let all = ask(server.address, "GET /jobs").await;
    check(&openapi, "/jobs", "get", &all);
    let names: Vec<Value> = all.json().as_array().unwrap().iter().map(|job| job["job"].clone()).collect();
    assert_eq!(names, ["fails", "slow", "works"]);
}

#[tokio::test]
async fn runs_come_in_pages_newest_first() {
    let openapi = openapi();
    let (_role, server) = leader_fixture().await;
    let mut ids = Vec::new();
    for _ in 0..3 {
        let id = run(server.address, "works").await;
        until_phase(server.address, "works", &id, "succeeded").await;
        ids.insert(0, id);
    }
    let mut seen: Vec<String> = Vec::new();
    let mut before = String::new();
    loop {
        let page = ask(server.address, &format!("GET /jobs/works/runs?limit=1{before}")).await;
        check(&openapi, "/jobs/{name}/runs", "get", &page);
        seen.push(page.json()["runs"][0]["run"].as_str().unwrap().to_owned());
        let Some(next) = page.json()["next"].as_str().map(str::to_owned) else { break };
        before = format!("&before={next}");
    }
    assert_eq!(seen, ids);
}

#[tokio::test]
async fn a_job_is_suspended_and_resumed_also_through_a_replica_that_does_not_lead() {
    let openapi = openapi();
    let (_leader, leading) = leader_fixture().await;
    let (_follower, following) = follower_fixture().await;
    for server in [&leading, &following] {
        for (verb, suspended) in [("suspend", true), ("resume", false)] {
            let reply = post(server.address, &format!("/jobs/works/{verb}"), &json!({})).await;
            check(&openapi, &format!("/jobs/{{name}}/{verb}"), "post", &reply);
            assert_eq!(reply.status, 204);
            let seen = |reply: &Reply| reply.json()["suspended"] == suspended;
            let job = ask_until(server.address, "GET /jobs/works", seen).await.json();
            assert_eq!(job["next"].is_null(), suspended, "{job}");
        }
    }
    let job = ask(following.address, "GET /jobs/works").await.json();
    assert_eq!((&job["leader"], &job["holder"]), (&json!(false), &json!("web-2")));
}

#[tokio::test]
async fn the_apps_word_is_taken_for_the_attempt_that_goes_on_and_for_no_other() {
    let openapi = openapi();
    let (_role, server) = leader_fixture().await;
    let id = run(server.address, "slow").await;
    until_phase(server.address, "slow", &id, "running").await;
    let path = format!("/jobs/slow/runs/{id}");
    let beat = |attempt: u32| json!({ "attempt": attempt });
    let over = post(server.address, &format!("{path}/heartbeat"), &beat(2)).await;
    check(&openapi, "/jobs/{name}/runs/{id}/heartbeat", "post", &over);
    assert_eq!((over.status, over.problem().as_str()), (410, "run-over"));
    // The attempt is being started.
    let beating = format!("POST {path}/heartbeat");
    ask_until(server.address, &beating, |reply| reply.status == 204).await;
    let done = post(server.address, &format!("{path}/complete"), &json!({"succeeded": true, "note": "41 rows"})).await;
    check(&openapi, "/jobs/{name}/runs/{id}/complete", "post", &done);
    assert_eq!(done.status, 204);
    let run = until_phase(server.address, "slow", &id, "succeeded").await;
    assert_eq!(run["attempts"][0]["note"], "41 rows");
    let again = post(server.address, &format!("{path}/complete"), &json!({"succeeded": true})).await;
    assert_eq!((again.status, again.problem().as_str()), (410, "run-over"));
}

#[tokio::test]
async fn what_is_unknown_is_told_with_what_is_known() {
    let (_role, server) = leader_fixture().await;
    let known = json!(["fails", "slow", "works"]);
    for line in ["GET /jobs/other", "GET /jobs/other/runs", "GET /jobs/", "GET /jobs/a%00b", "GET /jobs/..%2f"] {
        let reply = ask(server.address, line).await;
        assert_eq!((reply.status, reply.problem().as_str()), (404, "unknown-job"), "{line}");
        assert_eq!(reply.json()["known"], known, "{line}");
    }
    for call in ["run", "suspend", "resume", "runs/other-1/complete"] {
        let reply = post(server.address, &format!("/jobs/other/{call}"), &json!({"succeeded": true})).await;
        // A run may be given anything.
        let takes_it = call == "run" || call.contains('/');
        let wanted = if takes_it { (404, "unknown-job") } else { (400, "bad-body") };
        assert_eq!((reply.status, reply.problem().as_str()), wanted, "{call}");
    }
    let reply = post(server.address, "/jobs/works/runs/slow-1/heartbeat", &json!({})).await;
    assert_eq!((reply.status, reply.problem().as_str()), (404, "unknown-run"));
    let reply = ask(server.address, "GET /jobs/works/runs?limit=1000").await;
    assert_eq!((reply.status, reply.problem().as_str()), (400, "bad-parameter"));
    let reply = ask(server.address, "DELETE /jobs/works").await;
    assert_eq!((reply.status, reply.problem().as_str()), (501, "jobs-disabled"), "nothing is made at run time here");
    let reply = post(server.address, "/jobs/works/runs/works-1/complete", &json!({})).await;
    assert_eq!((reply.status, reply.problem().as_str()), (400, "bad-body"));
}

#[tokio::test]
async fn no_more_runs_are_asked_for_than_may_wait() {
    let openapi = openapi();
    // Nobody leads, so nothing that is asked for begins.
    let (_role, server) = follower_fixture().await;
    for _ in 0..10 {
        run(server.address, "works").await;
    }
    let reply = post(server.address, "/jobs/works/run", &json!({})).await;
    check(&openapi, "/jobs/{name}/run", "post", &reply);
    assert_eq!((reply.status, reply.problem().as_str()), (429, "too-many-runs"));
    let asked = ask(server.address, "GET /jobs/works").await.json();
    assert_eq!(asked["active"].as_array().unwrap().len(), 10);
}

#[tokio::test]
async fn without_ledgers_every_call_says_so() {
    let openapi = openapi();
    let role = Staged::new("scheduler", Duration::from_secs(3), Cue::Grant);
    let server = Server::start_with(&[&role], |plan| plan.no_jobs = Some("there is no place for ledgers")).await;
    for (template, method) in [
        ("/jobs", "get"),
        ("/jobs/{name}", "get"),
        ("/jobs/{name}", "put"),
        ("/jobs/{name}", "delete"),
        ("/jobs/{name}/runs", "get"),
        ("/jobs/{name}/run", "post"),
        ("/jobs/{name}/suspend", "post"),
        ("/jobs/{name}/runs/{id}/complete", "post"),
    ] {
        let line = format!("{} {}", method.to_uppercase(), template.replace("{name}", "a").replace("{id}", "a-1"));
        let reply = ask(server.address, &line).await;
        check(&openapi, template, method, &reply);
        assert_eq!((reply.status, reply.problem().as_str()), (501, "jobs-disabled"), "{line}");
    }
}

/// The answer is made on the thread that renews.
#[tokio::test]
async fn a_long_list_of_jobs_lets_others_have_their_turn() {
    const JOBS: usize = 400;
    let role = Staged::new("scheduler", Duration::from_secs(3), Cue::Grant);
    role.until_leading().await;
    let roles = Roles::default();
    roles.replace(vec![role.handle.clone()], None);
    let job =
        |n| format!("  - {{ name: job-{n:03}, schedule: '@yearly', run: {{ exec: {{ command: ['true'] }} }} }}\n");
    let wanted: String = (0..JOBS).map(job).collect();
    let text = format!("identity: web-0\nstore: {{ memory: {{}} }}\nroles: [{{ name: scheduler }}]\njobs:\n{wanted}");
    let config = check_text(&text, "jobs.yaml", &Environment::new(|_| None, None)).unwrap().config;
    let telemetry = Telemetry::new(Arc::new(Metrics::new(jiff::Timestamp::now())));
    let store = Arc::new(MemoryStore::new(clock()));
    let (service, _listener) = JobService::open(store, IDENTITY.into(), clock(), telemetry, Entropy::from_system());
    service.run(config.jobs(), config.roles(), &roles).await;
    let turns = Arc::new(AtomicUsize::new(0));
    let taken = Arc::clone(&turns);
    let other = tokio::spawn(async move {
        loop {
            taken.fetch_add(1, Ordering::Relaxed);
            tokio::task::yield_now().await;
        }
    });
    let router = Router::new("").mount(jobs::routes(Ok(service)));
    let list = router.find(&Method::GET, "/jobs", &HeaderMap::new()).unwrap();
    let before = turns.load(Ordering::Relaxed);
    let answer = list.answer(String::new(), HeaderMap::new(), Vec::new(), Client::default()).await.unwrap();
    let turns = turns.load(Ordering::Relaxed) - before;
    other.abort();
    let Content::Whole(body) = answer.into_body() else { panic!("a body in one piece") };
    let list: Vec<Value> = serde_json::from_slice(&body).unwrap();
    assert_eq!(list.len(), JOBS);
    assert!(turns >= JOBS / 32, "others had {turns} turns");
}
