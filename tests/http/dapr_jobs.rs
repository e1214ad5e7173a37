//! Dapr's Jobs API over HTTP: its bodies, its numbers and its errors, on the jobs that everybody sees.

use std::time::Duration;

use serde_json::json;

use crate::client::{Reply, ask, ask_with};
use crate::contract::check_reply;
use crate::schema::OpenApi;
use crate::stage::{Cue, Server, Staged};

const JSON: (&str, &str) = ("Content-Type", "application/json");
const VERSIONS: [&str; 2] = ["v1.0-alpha1", "v1.0"];

/// Where jobs can be made, and the role that runs them.
async fn fixture() -> (Server, Staged) {
    let role = Staged::new("scheduler", Duration::from_secs(3), Cue::Grant);
    role.until_leading().await;
    let server = Server::start_with(&[&role], |plan| plan.at_run_time = true).await;
    (server, role)
}

/// One call, which is answered as described.
async fn call(server: &Server, method: &str, version: &str, name: &str, body: &str) -> Reply {
    let openapi = OpenApi::parse(include_str!("../../src/api/openapi.yaml"));
    let line = format!("{method} /{version}/jobs/{name}");
    let reply = ask_with(server.address, &line, &[JSON], body.as_bytes()).await;
    let operation = &openapi.root["paths"][format!("/{version}/jobs/{{name}}")][method.to_lowercase()];
    check_reply(&openapi, operation, &reply, false, &line);
    reply
}

fn fault(reply: &Reply) -> (u16, String) {
    (reply.status, reply.json()["errorCode"].as_str().unwrap_or_default().to_owned())
}

#[tokio::test]
async fn a_job_is_scheduled_shown_overwritten_and_deleted_and_everybody_sees_it() {
    let (server, _role) = fixture().await;
    for version in VERSIONS {
        let body = json!({"dueTime": "1h", "ttl": "1h", "data": {"droid": "R2-D2"}}).to_string();
        assert_eq!(call(&server, "POST", version, "R2-D2", &body).await.status, 204);
        let shown = call(&server, "GET", version, "R2-D2", "").await.json();
        assert_eq!((&shown["name"], &shown["data"]["value"]), (&json!("R2-D2"), &json!({"droid": "R2-D2"})));
        assert_eq!(shown["data"]["@type"], "type.googleapis.com/google.protobuf.Value");
        let seen = ask(server.address, "GET /jobs/x---522-2d-442").await.json();
        assert_eq!((&seen["role"], &seen["next"]), (&json!("scheduler"), &shown["dueTime"]));
        assert_eq!(seen["runtime"]["spec"]["run"]["http"]["url"], "http://127.0.0.1:1/job/R2-D2");
        let exists = (409, "DAPR_SCHEDULER_SCHEDULE_JOB".to_owned());
        assert_eq!(fault(&call(&server, "POST", version, "R2-D2", &body).await), exists);
        let overwrite = json!({"schedule": "@daily", "overwrite": true}).to_string();
        assert_eq!(call(&server, "POST", version, "R2-D2", &overwrite).await.status, 204);
        let same = json!({"schedule": "@daily"}).to_string();
        assert_eq!(fault(&call(&server, "POST", version, "R2-D2", &same).await), exists, "the same again is another");
        assert_eq!(call(&server, "GET", version, "R2-D2", "").await.json()["schedule"], "@daily");
        for _ in 0..2 {
            assert_eq!(call(&server, "DELETE", version, "R2-D2", "").await.status, 204, "what is not there is deleted");
        }
        let gone = call(&server, "GET", version, "R2-D2", "").await;
        assert_eq!(fault(&gone), (500, "DAPR_SCHEDULER_GET_JOB".to_owned()));
    }
}

#[tokio::test]
async fn what_was_put_otherwise_is_shown_and_what_the_file_has_stays_the_files() {
    let (server, _role) = fixture().await;
    let put = json!({"schedule": "@hourly", "repeats": 3, "run": {"http": {"url": "http://127.0.0.1:1/x"}}});
    let reply = ask_with(server.address, "PUT /jobs/remind", &[JSON], put.to_string().as_bytes()).await;
    assert_eq!(reply.status, 201);
    let shown = call(&server, "GET", "v1.0", "remind", "").await.json();
    assert_eq!(shown, json!({"name": "remind", "schedule": "@hourly", "repeats": 3}));
    assert_eq!(call(&server, "DELETE", "v1.0", "remind", "").await.status, 204);
    assert_eq!(ask(server.address, "GET /jobs/remind").await.status, 404);
    let daily = json!({"schedule": "@daily"}).to_string();
    for (method, body, code) in
        [("POST", daily.as_str(), "DAPR_SCHEDULER_SCHEDULE_JOB"), ("DELETE", "", "DAPR_SCHEDULER_DELETE_JOB")]
    {
        let reply = call(&server, method, "v1.0-alpha1", "works", body).await;
        assert_eq!(fault(&reply), (409, code.to_owned()));
        assert!(reply.json()["message"].as_str().is_some_and(|message| message.contains("configuration file")));
    }
}

#[tokio::test]
async fn what_cannot_be_scheduled_is_refused_in_daprs_words() {
    let (server, _role) = fixture().await;
    const MALFORMED: &str = "ERR_MALFORMED_REQUEST";
    const SCHEDULE: &str = "DAPR_SCHEDULER_SCHEDULE_JOB";
    for (name, body, code, message) in [
        ("a", json!({}), "DAPR_SCHEDULER_SCHEDULE_EMPTY", "Schedule is empty"),
        ("a", json!([]), MALFORMED, "deserializing"),
        ("%20", json!({"dueTime": "1s"}), "DAPR_SCHEDULER_JOB_NAME_EMPTY", "Name is empty"),
        ("a%2Fb", json!({"dueTime": "1s"}), "DAPR_SCHEDULER_JOB_NAME", "none of /"),
        ("%ff", json!({"dueTime": "1s"}), "DAPR_SCHEDULER_JOB_NAME", "UTF-8"),
        ("a", json!({"dueTime": "tomorrow"}), MALFORMED, "dueTime"),
        ("a", json!({"dueTime": "2199-01-01T00:00:00Z"}), SCHEDULE, "dueTime: is too far ahead"),
        ("a", json!({"schedule": "* * *"}), SCHEDULE, "schedule: `* * *` has 3 fields"),
        ("a", json!({"schedule": "@every 500ms"}), SCHEDULE, "whole seconds"),
        ("a", json!({"schedule": "CRON_TZ=Not/AZone 0 0 9 * * *"}), SCHEDULE, "schedule: "),
        ("a", json!({"dueTime": "1s", "data": "x".repeat(9_000)}), SCHEDULE, "data: has 9002 bytes"),
        (
            "a",
            json!({"dueTime": "1s", "failurePolicy": {"constant": {"interval": "25h"}}}),
            SCHEDULE,
            "failurePolicy.constant.interval: is 90000s; it must be at most 24h",
        ),
    ] {
        let reply = call(&server, "POST", "v1.0-alpha1", name, &body.to_string()).await;
        assert_eq!(fault(&reply), (400, code.to_owned()), "{body}: {reply:?}");
        let told = reply.json()["message"].as_str().unwrap().to_owned();
        assert!(told.contains(message), "{body}: {told}");
    }
    let plain = ask_with(server.address, "POST /v1.0/jobs/a", &[("Content-Type", "text/plain")], b"{}").await;
    assert_eq!(plain.status, 415);
}

#[tokio::test]
async fn where_no_job_can_be_made_at_run_time_each_call_says_so() {
    let role = Staged::new("scheduler", Duration::from_secs(3), Cue::Grant);
    let server = Server::start_with(&[&role], |_| {}).await;
    for (method, body) in [("POST", r#"{"dueTime":"1s"}"#), ("GET", ""), ("DELETE", "")] {
        let reply = call(&server, method, "v1.0-alpha1", "a", body).await;
        assert_eq!(reply.status, 500);
        assert!(reply.json()["message"].as_str().is_some_and(|message| message.contains("keeps no jobs")), "{reply:?}");
    }
}
