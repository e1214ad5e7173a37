//! What is asked of jobs and their runs over HTTP, by whoever does not lead as well.

use serde_json::{Value, json};

use crate::client::{Reply, ask, ask_until, ask_with};
use crate::jobs::{check, openapi, post, run, until_phase};
use crate::stage::{follower_fixture, leader_fixture};

#[tokio::test]
async fn a_run_is_cancelled_and_retried() {
    let openapi = openapi();
    let (_role, server) = leader_fixture().await;
    let id = run(server.address, "slow").await;
    until_phase(server.address, "slow", &id, "running").await;
    let order = async |verb: &str, id: &str, status: u16| {
        let reply = post(server.address, &format!("/jobs/slow/runs/{id}/{verb}"), &json!({})).await;
        check(&openapi, &format!("/jobs/{{name}}/runs/{{id}}/{verb}"), "post", &reply);
        assert_eq!(reply.status, status, "{reply:?}");
        reply
    };
    assert_eq!(order("retry", &id, 409).await.problem(), "run-not-failed");
    let cancelled = order("cancel", &id, 202).await;
    assert_eq!((&cancelled.json()["run"], cancelled.header("location")), (&json!(id), Some("/jobs/slow/runs")));
    let failed = until_phase(server.address, "slow", &id, "failed").await;
    assert_eq!((&failed["reason"], &failed["attempts"][0]["outcome"]), (&json!("cancelled"), &json!("cancelled")));
    assert_eq!(failed["ordered"], json!(null));
    order("cancel", &id, 202).await;
    order("retry", &id, 202).await;
    let again = until_phase(server.address, "slow", &id, "running").await;
    assert_eq!(again["attempts"][1]["attempt"], 2, "{again}");
    // The attempt is being started.
    ask_until(server.address, &format!("POST /jobs/slow/runs/{id}/heartbeat"), |reply| reply.status == 204).await;
    let done = json!({ "succeeded": true, "attempt": 2 });
    assert_eq!(post(server.address, &format!("/jobs/slow/runs/{id}/complete"), &done).await.status, 204);
    until_phase(server.address, "slow", &id, "succeeded").await;
    assert_eq!(order("cancel", &id, 409).await.problem(), "run-ended");
    assert_eq!(order("retry", &id, 409).await.problem(), "run-not-failed");
    for verb in ["cancel", "retry"] {
        for unknown in ["slow-manual-1", "slow-7", "other-7", "7"] {
            assert_eq!(order(verb, unknown, 404).await.problem(), "unknown-run");
        }
        let reply = post(server.address, &format!("/jobs/slow/runs/{id}/{verb}"), &json!({ "why": "so" })).await;
        assert_eq!((reply.status, reply.problem().as_str()), (400, "bad-body"));
    }
}

#[tokio::test]
async fn a_request_for_a_run_is_repeated_under_its_key() {
    let openapi = openapi();
    let (_role, server) = leader_fixture().await;
    let asking = async |key: &str, body: &str| {
        let headers = [("Content-Type", "application/json"), ("Idempotency-Key", key)];
        let reply = ask_with(server.address, "POST /jobs/works/run", &headers, body.as_bytes()).await;
        check(&openapi, "/jobs/{name}/run", "post", &reply);
        reply
    };
    let first = asking("k-1", r#"{"rows": [7]}"#).await;
    assert_eq!(first.status, 202, "{first:?}");
    until_phase(server.address, "works", first.json()["run"].as_str().unwrap(), "succeeded").await;
    let again = asking("k-1", r#"{"rows": [7]}"#).await;
    assert_eq!((again.status, again.json()), (202, first.json()));
    for other in [r#"{"rows": [8]}"#, r#"{"rows":[7]}"#, ""] {
        let reply = asking("k-1", other).await;
        assert_eq!((reply.status, reply.problem().as_str()), (422, "idempotency-key-reused"), "{other}");
    }
    let second = asking("k-2", r#"{"rows": [7]}"#).await;
    assert!(second.status == 202 && second.json() != first.json(), "{second:?}");
    let runs = ask(server.address, "GET /jobs/works/runs").await.json();
    assert_eq!(runs["runs"].as_array().unwrap().len(), 2, "{runs}");
    let reply = asking(&"k".repeat(129), "").await;
    assert_eq!((reply.status, reply.problem().as_str()), (400, "bad-header"));
    let reply = asking("k-3", &format!("\"{}\"", "x".repeat(4_096))).await;
    assert_eq!((reply.status, reply.problem().as_str()), (413, "body-too-large"));
    let reply = asking("k-3", "{").await;
    assert_eq!((reply.status, reply.problem().as_str()), (400, "bad-body"));
}

#[tokio::test]
async fn what_was_asked_of_a_run_is_shown_until_a_leader_has_done_it() {
    let (_role, server) = follower_fixture().await;
    let id = run(server.address, "works").await;
    let path = format!("/jobs/works/runs/{id}/cancel");
    assert_eq!(post(server.address, &path, &json!({})).await.status, 202);
    let job = ask(server.address, "GET /jobs/works").await.json();
    assert_eq!((&job["active"][0]["phase"], &job["active"][0]["ordered"]), (&json!("asked"), &json!("cancel")));
}

#[tokio::test]
async fn all_jobs_are_suspended_and_resumed_beside_the_word_of_each() {
    let openapi = openapi();
    let (_role, server) = leader_fixture().await;
    let order = async |path: &str, template: &str| {
        let reply = post(server.address, path, &json!({})).await;
        check(&openapi, template, "post", &reply);
        assert_eq!(reply.status, 204, "{reply:?}");
    };
    let shown = async |paused: bool| {
        let all = |reply: &Reply| {
            let jobs = reply.json();
            jobs.as_array().unwrap().iter().all(|job| {
                job["paused"] == paused && job["next"].is_null() == (paused || job["suspended"] == json!(true))
            })
        };
        let reply = ask_until(server.address, "GET /jobs", all).await;
        check(&openapi, "/jobs", "get", &reply);
        reply.json().as_array().unwrap().iter().map(|job| job["suspended"] == true).collect::<Vec<_>>()
    };
    order("/jobs/works/suspend", "/jobs/{name}/suspend").await;
    order("/jobs/suspend", "/jobs/suspend").await;
    assert_eq!(shown(true).await, [false, false, true]);
    // A run that is asked for begins all the same.
    let id = run(server.address, "works").await;
    until_phase(server.address, "works", &id, "succeeded").await;
    order("/jobs/resume", "/jobs/resume").await;
    assert_eq!(shown(false).await, [false, false, true], "what was suspended by itself stays so");
    let reply = post(server.address, "/jobs/suspend", &json!({ "for": "1h" })).await;
    assert_eq!((reply.status, reply.problem().as_str()), (400, "bad-body"));
    // Jobs may have these names.
    let reply = ask(server.address, "GET /jobs/suspend").await;
    assert_eq!((reply.status, reply.problem().as_str()), (404, "unknown-job"));
    let reply = ask(server.address, "DELETE /jobs/resume").await;
    assert_eq!((reply.status, reply.problem().as_str()), (501, "jobs-disabled"), "nothing is made at run time here");
}

#[tokio::test]
async fn slots_of_the_past_are_run_and_a_range_that_cannot_be_is_told() {
    let openapi = openapi();
    let (_role, server) = leader_fixture().await;
    let asking = async |body: &Value| {
        let reply = post(server.address, "/jobs/works/backfill", body).await;
        check(&openapi, "/jobs/{name}/backfill", "post", &reply);
        reply
    };
    // The job is due once a year.
    let range = json!({ "from": "2023-12-31T00:00:00Z", "to": "2025-06-01T00:00:00Z" });
    // The ledger must be there: only what it has decided is of the past.
    let seen = |reply: &Reply| reply.json()["next"].is_string();
    ask_until(server.address, "GET /jobs/works", seen).await;
    let reply = asking(&range).await;
    let backfill = reply.json();
    assert_eq!((reply.status, &backfill["slots"], &backfill["last"]), (202, &json!(2), &json!("2025-01-01T00:00:00Z")));
    for year in ["1704067200", "1735689600"] {
        let run = until_phase(server.address, "works", &format!("works-backfill-{year}"), "succeeded").await;
        assert_eq!(run["manual"], true, "{run}");
    }
    let idle = |reply: &Reply| reply.json()["backfill"].is_null();
    let job = ask_until(server.address, "GET /jobs/works", idle).await;
    check(&openapi, "/jobs/{name}", "get", &job);
    let again = asking(&range).await;
    assert_eq!((again.status, &again.json()["slots"]), (202, &json!(2)), "the same answer, and no run more");
    let runs = ask(server.address, "GET /jobs/works/runs").await.json();
    assert_eq!(runs["runs"].as_array().unwrap().len(), 2, "{runs}");
    let other = asking(&json!({ "from": "2024-01-01T00:00:00Z", "to": "2025-01-01T00:00:00Z" })).await;
    assert_eq!((other.status, other.problem().as_str()), (409, "backfill-refused"));
    for (from, to, word) in [
        ("2025-02-01T00:00:00Z", "2025-03-01T00:00:00Z", "has no slot"),
        ("2025-02-01T00:00:00Z", "2025-01-01T00:00:00Z", "is after"),
        ("2025-02-01T00:00:00Z", "2125-01-01T00:00:00Z", "is to come"),
    ] {
        let reply = asking(&json!({ "from": from, "to": to })).await;
        assert_eq!((reply.status, reply.problem().as_str()), (400, "bad-body"));
        assert!(reply.text().contains(word), "{}", reply.text());
    }
}
