//! Answers the requests of a job at <http://127.0.0.1:8080/jobs/nightly>.

use std::sync::Arc;

use axum::extract::Request;
use axum::{Router, routing::post};
use baton_sidecar::{Job, Run};

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let nightly = Arc::new(Job::new(report));
    let app = Router::new().route("/jobs/nightly", post(async move |request: Request| nightly.handle(request).await));
    axum::serve(tokio::net::TcpListener::bind("127.0.0.1:8080").await?, app).await
}

async fn report(run: Run) -> Result<String, std::io::Error> {
    println!("{}, attempt {}, with token {}", run.id, run.attempt, run.token);
    Ok(format!("the report of {}", run.scheduled_time))
}
