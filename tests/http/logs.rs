//! Where log lines go.

use std::process::Command;

use baton::config::{LogConfig, LogFormat, LogLevel};
use baton::telemetry::logging;

/// Set for the child that [`everything_is_logged_to_standard_error_and_the_redis_client_only_when_something_is_wrong`]
/// makes of itself: logging is set up once for a whole process.
const CHILD: &str = "BATON_TEST_LOGS";

#[test]
fn everything_is_logged_to_standard_error_and_the_redis_client_only_when_something_is_wrong() {
    if std::env::var_os(CHILD).is_some() {
        logging::init(LogConfig { level: LogLevel::Trace, format: LogFormat::Json }).unwrap();
        log::error!(target: "fred::router", "connection refused");
        log::debug!(target: "fred::protocol", "AUTH hunter2");
        tracing::info!(target: "baton::role", role = "scheduler", "this replica leads");
        assert!(logging::init(LogConfig { level: LogLevel::Info, format: LogFormat::Text }).is_err(), "only once");
        // As every command does at its end: lines are written by a thread of their own.
        logging::flush();
        return;
    }
    let name = "logs::everything_is_logged_to_standard_error_and_the_redis_client_only_when_something_is_wrong";
    let mut child = Command::new(std::env::current_exe().unwrap());
    let output = child.args(["--exact", name, "--nocapture"]).env(CHILD, "1").output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let (out, err) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    let lines = err.lines().filter(|line| line.starts_with('{'));
    let lines: Vec<serde_json::Value> = lines.map(|line| serde_json::from_str(line).unwrap()).collect();
    let messages: Vec<_> = lines.iter().map(|line| line["message"].as_str().unwrap()).collect();
    assert_eq!(messages, ["connection refused", "this replica leads"]);
    assert_eq!((&lines[0]["level"], &lines[1]["role"]), (&"ERROR".into(), &"scheduler".into()));
    assert!(!out.contains("this replica leads"), "standard output belongs to a command's result");
    assert!(!out.contains("hunter2") && !err.contains("hunter2"));
}
