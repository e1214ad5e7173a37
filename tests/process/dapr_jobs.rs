//! Jobs through Dapr's API, on real sidecars and a real Redis: made through any of them, delivered to the app beside
//! the leader as Dapr delivers them, and tried again as their failure policies say.

use serde_json::{Value, json};
use testkit::node;
use testkit::redis::RedisServer;
use testkit::sidecars::http::Answer;
use testkit::sidecars::jobs::{App, Call, audit_calls, json, leader};
use testkit::sidecars::replica::{Lease, Replica, Settings};
use testkit::wait::{until, until_some};

/// Two replicas that deliver to the app, and which of them does not lead.
fn start(redis: &RedisServer, app_port: u16) -> (Vec<Replica>, usize) {
    let settings = |number| {
        let mut settings = Settings::new(number, redis.url(), Lease::SHORT);
        settings.more = format!("jobsDapr: {{ url: 'http://127.0.0.1:{app_port}', timeout: 2s }}\n");
        settings
    };
    let replicas: Vec<Replica> = (0..2).map(|number| Replica::start(number, settings(number))).collect();
    let leads = until_some("somebody leads", || leader(&replicas));
    (replicas, 1 - leads)
}

fn schedule(replica: &Replica, name: &str, body: &Value) -> Answer {
    replica.ask(&format!("POST /v1.0-alpha1/jobs/{name}"), &body.to_string())
}

fn get(replica: &Replica, name: &str) -> Answer {
    replica.ask(&format!("GET /v1.0-alpha1/jobs/{name}"), "")
}

/// What was delivered for a job, in order.
fn delivered(app: &App, name: &str) -> Vec<Call> {
    let path = format!("/job/{name}");
    app.calls().into_iter().filter(|call| call.path == path).collect()
}

/// Waits until a job is done and forgotten.
fn until_gone(replica: &Replica, name: &str) {
    until("the job is done", || get(replica, name).body.contains("there is no job"));
}

#[test]
fn jobs_are_delivered_when_they_are_due_as_often_as_was_said_and_not_after_they_were_deleted() {
    let (redis, app) = (RedisServer::start(), App::start(11));
    let (replicas, other) = start(&redis, app.port());
    let any = &replicas[other];
    let droid = json!({"droid": "R2-D2", "tasks": ["oil"]});
    assert_eq!(schedule(any, "R2-D2", &json!({"dueTime": "1s", "data": droid})).status, 204);
    let ticks = json!({"schedule": "@every 1s", "repeats": 3, "data": "tick"});
    assert_eq!(schedule(any, "ticks", &ticks).status, 204);
    let mortal = json!({"schedule": "* * * * * *", "ttl": "2500ms"});
    assert_eq!(schedule(any, "mortal", &mortal).status, 204);
    assert_eq!(schedule(any, "later", &json!({"dueTime": "1h"})).status, 204);
    let exists = schedule(any, "later", &json!({"dueTime": "2h"}));
    assert_eq!((exists.status, &json(&exists)["errorCode"]), (409, &json!("DAPR_SCHEDULER_SCHEDULE_JOB")));
    let overwritten = json!({"dueTime": "1s", "overwrite": true, "data": 2});
    assert_eq!(schedule(&replicas[1 - other], "later", &overwritten).status, 204);
    assert_eq!(schedule(any, "never", &json!({"dueTime": "2s"})).status, 204);
    assert_eq!(replicas[1 - other].ask("DELETE /v1.0-alpha1/jobs/never", "").status, 204);

    for name in ["R2-D2", "ticks", "mortal", "later"] {
        until_gone(any, name);
    }
    let bodies = |name: &str| delivered(&app, name).into_iter().map(|call| call.body).collect::<Vec<_>>();
    let one = delivered(&app, "R2-D2");
    assert_eq!((one.len(), one[0].media_type.as_deref()), (1, Some("application/json")));
    assert_eq!(serde_json::from_str::<Value>(&one[0].body).expect("JSON"), droid);
    assert_eq!(bodies("ticks"), ["\"tick\""; 3]);
    assert_eq!(bodies("later"), ["2"]);
    let mortal = bodies("mortal");
    assert!((1..=3).contains(&mortal.len()) && mortal.iter().all(String::is_empty), "{mortal:?}");
    assert!(delivered(&app, "never").is_empty());
    audit_calls(&app.calls());
}

#[test]
fn what_fails_is_tried_again_as_the_failure_policy_says() {
    let (redis, app) = (RedisServer::start(), App::start(12));
    let (replicas, other) = start(&redis, app.port());
    let any = &replicas[other];
    let constant = |more: Value| json!({"dueTime": "0s", "failurePolicy": {"constant": more}});
    for (name, body) in [
        ("third-time", constant(json!({"interval": "0.2s"}))),
        ("fails-constant", constant(json!({"interval": "200ms", "maxRetries": 4}))),
        ("fails-drop", json!({"dueTime": "0s", "failurePolicy": {"drop": {}}})),
        ("fails", json!({"dueTime": "0s"})),
        ("unwanted", json!({"dueTime": "0s"})),
        ("fails-each-time", json!({"schedule": "@every 1s", "repeats": 2, "failurePolicy": {"drop": {}}})),
    ] {
        assert_eq!(schedule(any, name, &body).status, 204, "{name}");
    }
    for (name, attempts) in [
        ("third-time", vec![1, 2, 3]),
        ("fails-constant", vec![1, 2, 3, 4, 5]),
        ("fails-drop", vec![1]),
        ("fails", vec![1, 2, 3, 4]),
        ("unwanted", vec![1]),
        ("fails-each-time", vec![1, 1]),
    ] {
        until_gone(any, name);
        let made: Vec<u32> = delivered(&app, name).iter().map(|call| call.attempt).collect();
        assert_eq!(made, attempts, "{name}");
    }
    // Nothing came of them while another was made, delivered and forgotten.
    let calls = app.calls().len();
    assert_eq!(schedule(any, "afterwards", &json!({"dueTime": "1s"})).status, 204);
    until_gone(any, "afterwards");
    assert_eq!(app.calls().len(), calls + 1);
}

#[test]
#[ignore = "installs the client from npm's registry: make e2e"]
fn daprs_published_node_client_schedules_jobs_and_gets_them() {
    let (scripts, folder) = node::installed("tests/e2e/dapr");
    let redis = RedisServer::start();
    let app_port = testkit::ports::free_port();
    let (replicas, other) = start(&redis, app_port);
    let ports = [app_port, replicas[other].api().port()].map(|port| port.to_string());
    let script = scripts.join("jobs.mjs");
    println!("{}", node::run(folder.path(), "node", &[script.to_str().expect("a path"), &ports[0], &ports[1]]));
}
