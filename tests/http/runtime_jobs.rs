//! Jobs made at run time over HTTP: each call and each answer, held against the contract.

use std::time::Duration;

use serde_json::{Value, json};

use crate::client::{Reply, ask, ask_until, ask_with};
use crate::contract::check_reply;
use crate::schema::OpenApi;
use crate::stage::{Cue, Server, Staged};

const JSON: (&str, &str) = ("Content-Type", "application/json");

struct Desk {
    openapi: OpenApi,
    server: Server,
}

impl Desk {
    /// Where jobs can be made, and the role that runs them.
    async fn new() -> (Self, Staged) {
        let role = Staged::new("scheduler", Duration::from_secs(3), Cue::Grant);
        role.until_leading().await;
        let server = Server::start_with(&[&role], |plan| plan.at_run_time = true).await;
        (Self { openapi: OpenApi::parse(include_str!("../../src/api/openapi.yaml")), server }, role)
    }

    async fn asks(&self, method: &str, path: &str, template: &str, body: &Value) -> Reply {
        let line = format!("{} {path}", method.to_uppercase());
        let reply = match body {
            Value::Null => ask(self.server.address, &line).await,
            body => ask_with(self.server.address, &line, &[JSON], body.to_string().as_bytes()).await,
        };
        let operation = &self.openapi.root["paths"][template][method];
        check_reply(&self.openapi, operation, &reply, false, template);
        reply
    }

    async fn one(&self, method: &str, name: &str, body: &Value) -> Reply {
        self.asks(method, &format!("/jobs/{name}"), "/jobs/{name}", body).await
    }
}

fn tomorrow() -> Value {
    json!({"in": "24h", "data": 7, "run": {"http": {
        "url": "http://127.0.0.1:1/x", "headers": [{"name": "Authorization", "value": "s3cret"}],
    }}})
}

#[tokio::test]
async fn a_job_is_made_shown_wished_for_and_removed() {
    let (desk, _role) = Desk::new().await;
    let none = Value::Null;
    assert_eq!(desk.one("put", "remind", &tomorrow()).await.status, 201);
    assert_eq!(desk.one("put", "remind", &tomorrow()).await.status, 200);
    let shown = desk.one("get", "remind", &none).await;
    assert_eq!((shown.status, &shown.json()["schedule"]), (200, &json!("once")));
    assert!(!shown.text().contains("s3cret"), "{shown:?}");
    let taken = desk.asks("put", "/jobs/remind?overwrite=false", "/jobs/{name}", &tomorrow()).await;
    assert_eq!((taken.status, taken.problem().as_str()), (409, "job-exists"));
    for verb in ["suspend", "resume"] {
        let template = format!("/jobs/{{name}}/{verb}");
        assert_eq!(desk.asks("post", &format!("/jobs/remind/{verb}"), &template, &none).await.status, 204);
        let shown = desk.one("get", "remind", &none).await.json();
        assert_eq!(shown["suspended"], json!(verb == "suspend"));
    }
    let list = desk.asks("get", "/jobs", "/jobs", &none).await.json();
    assert_eq!(list.as_array().expect("a list").last().expect("jobs")["job"], "remind");
    let runs = desk.asks("get", "/jobs/remind/runs", "/jobs/{name}/runs", &none).await;
    assert_eq!(runs.json()["runs"], json!([]));
    assert_eq!(desk.asks("post", "/jobs/remind/run", "/jobs/{name}/run", &none).await.status, 202);
    // Nobody answers there: it fails, and waits for its next attempt.
    let waits = |reply: &Reply| reply.json()["active"][0]["phase"] == "waiting";
    ask_until(desk.server.address, "GET /jobs/remind", waits).await;
    desk.asks("get", "/jobs/remind/runs", "/jobs/{name}/runs", &none).await;
    desk.one("get", "remind", &none).await;
    assert_eq!(desk.one("delete", "remind", &none).await.status, 204);
    assert_eq!(desk.one("delete", "remind", &none).await.problem(), "unknown-job");
    let unknown = desk.one("get", "remind", &none).await;
    assert_eq!(
        (unknown.problem().as_str(), &unknown.json()["known"]),
        ("unknown-job", &json!(["fails", "slow", "works"]))
    );
}

#[tokio::test]
async fn what_cannot_be_made_is_refused_with_every_reason() {
    let (desk, _role) = Desk::new().await;
    for method in ["put", "delete"] {
        let body = if method == "put" { tomorrow() } else { Value::Null };
        assert_eq!(desk.one(method, "works", &body).await.problem(), "configured-job", "{method}");
        assert_eq!(desk.one(method, "No-Name", &body).await.problem(), "bad-parameter", "{method}");
    }
    let wrong = desk.one("put", "bad", &json!({"ttl": "x", "run": {"exec": {"command": ["true"]}}})).await;
    assert_eq!((wrong.status, wrong.problem().as_str()), (400, "bad-body"));
    assert_eq!(wrong.json()["problems"].as_array().map(Vec::len), Some(3), "{wrong:?}");
    let large = json!({"in": "1s", "data": "x".repeat(20_000), "run": {"http": {"url": "http://a/"}}});
    assert_eq!(desk.one("put", "large", &large).await.problem(), "bad-body");
    for query in ["limit=0", "after=A", "x=1"] {
        let reply = desk.asks("get", &format!("/jobs?{query}"), "/jobs", &Value::Null).await;
        assert_eq!(reply.problem(), "bad-parameter", "{query}");
    }
}
