//! Of docs/jobs.md: for apps written for Dapr.

use std::process::{Command, Stdio};

use testkit::redis::RedisServer;
use testkit::sidecars::jobs::App;
use testkit::sidecars::replica::{Lease, Replica, Settings};
use testkit::wait::{until, until_some};

use crate::recipe;

#[test]
fn the_jobs_of_the_page_are_scheduled_shown_deleted_and_delivered() {
    let (redis, app) = (RedisServer::start(), App::start(3));
    let page = recipe("jobs.md", "yaml", "jobsDapr");
    let (_, section) = page.split_once("\njobsDapr:\n").expect("the recipe has the section");
    let mut settings = Settings::new(0, redis.url(), Lease::SHORT);
    settings.more = format!("jobsDapr:\n{}", section.replace(":8080", &format!(":{}", app.port())));
    let replica = Replica::start(0, settings);
    until("it leads", || replica.ask("GET /leader", "").json()["leader"] == true);
    // Fifteen minutes pass in a second.
    let commands = recipe("jobs.md", "sh", "v1.0-alpha1/jobs").replace("15m", "1s");
    let commands = commands.replace("localhost:4040", &replica.api().to_string());
    let mut shell = Command::new("sh");
    let output = shell.args(["-ec", &commands]).stdin(Stdio::null()).output().expect("a shell");
    assert!(output.status.success(), "{output:?}");
    let shown: serde_json::Value = serde_json::from_slice(&output.stdout).expect("one of them answers");
    assert_eq!((&shown["name"], &shown["failurePolicy"]["constant"]["interval"]), (&"report".into(), &"10s".into()));
    let call = until_some("the job is delivered", || app.calls().into_iter().next());
    assert_eq!((call.path.as_str(), call.body.as_str()), ("/job/remind_42", r#"{"order":42}"#));
    assert_eq!(replica.ask("GET /v1.0-alpha1/jobs/report", "").status, 500, "it was deleted");
}
