//! A job's handler, called by the real sidecar.

use std::sync::{Arc, Mutex};

use crate::support::{Dev, until};
use axum::Router;
use axum::extract::Request;
use axum::routing::post;
use baton_sidecar::{Job, Run};

#[tokio::test]
async fn a_run_that_fails_is_tried_again_with_a_greater_token() {
    let dev = Dev::start().await;
    let seen: Arc<Mutex<Vec<Run>>> = Arc::default();
    let job = Job::new({
        let seen = Arc::clone(&seen);
        move |run: Run| {
            let attempt = run.attempt;
            seen.lock().unwrap().push(run);
            async move { if attempt == 1 { Err("not yet") } else { Ok("done") } }
        }
    });
    let job = Arc::new(job);
    let app = Router::new().route("/remind", post(async move |request: Request| job.handle(request).await));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/remind", listener.local_addr().unwrap());
    let server = tokio::spawn(async move { axum::serve(listener, app).await });

    let spec = serde_json::json!({
        "in": "10ms",
        "backoffLimit": 3,
        "backoff": {"initial": "100ms"},
        "data": {"order": 42},
        "run": {"http": {"url": url, "body": "{{data}}"}},
    });
    let spec = spec.to_string();
    assert_eq!(dev.call(0, "PUT", "/jobs/remind", &spec).map(|(status, _)| status), Some(201), "{spec}");
    until("it was tried twice", || seen.lock().unwrap().len() == 2).await;
    until("it has succeeded, and is gone", || {
        dev.call(0, "GET", "/jobs/remind", "").is_some_and(|(status, _)| status == 404)
    })
    .await;
    let seen = seen.lock().unwrap().clone();
    let [first, second] = &*seen else { panic!("{seen:?}") };
    assert_eq!((first.attempt, second.attempt), (1, 2));
    assert_eq!((&first.id, &first.scheduled_time), (&second.id, &second.scheduled_time));
    assert!(first.id.starts_with("remind-"), "{}", first.id);
    assert!(first.token < second.token);
    assert_eq!((&first.body[..], first.shard), (&br#"{"order":42}"#[..], None));
    server.abort();
}
