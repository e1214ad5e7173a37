//! What a sidecar logs: the fields that people and alerts read, on a real process.

use serde_json::Value;
use testkit::redis::RedisServer;
use testkit::{wait_until, wait_until_async};

use crate::bench::{Bench, PATIENCE, Running, ask, dev_port, role_at};

/// The states that `/status` remembers, oldest first.
/// The states that the role has had: a change of only its holder is none.
async fn states(port: u16) -> Vec<String> {
    let answer = ask(port, "GET /status", "").await.unwrap();
    let status: Value = serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap();
    let changes = status["roles"][0]["changes"].as_array().unwrap().iter().rev();
    let mut states: Vec<String> = changes.map(|change| change["state"].as_str().unwrap().to_owned()).collect();
    states.dedup();
    states
}

/// The lines that tell a role's state.
fn told(running: &Running) -> Vec<Value> {
    let lines = running.lines();
    let lines = lines.iter().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")));
    lines.filter(|line: &Value| line["state"].is_string()).collect()
}

#[tokio::test]
async fn every_change_of_a_roles_state_is_a_line_with_the_same_fields() {
    let (bench, port, mut redis) = (Bench::new(), dev_port(), RedisServer::start());
    let text = format!(
        "api: {{ listen: '127.0.0.1:{port}' }}\ntelemetry: {{ listen: '127.0.0.1:{}' }}\n\
         store: {{ redis: {{ url: '{}', commandTimeout: 400ms }} }}\n\
         roles: [{{ name: a, leaseDuration: 2s, renewPeriod: 600ms, stepDownMargin: 200ms, answerValidity: 500ms }}]\n",
        port + 100,
        redis.url()
    );
    let running = bench.start(&["run", "--config", &bench.file("run.yaml", &text)]);
    running.says("this replica leads").await;
    // A promise makes it drain.
    assert_eq!(role_at(port).await.unwrap()["leader"], true);
    assert!(ask(port, "POST /leader/a/resign", "").await.unwrap().contains("202 Accepted"));
    running.says("the lease is given back").await;
    wait_until_async(PATIENCE, "it leads again", async || {
        role_at(port).await.is_some_and(|role| role["leader"] == true)
    })
    .await;
    redis.kill();
    running.says("the lease is lost").await;
    wait_until_async(PATIENCE, "the store is out of reach", async || {
        role_at(port).await.is_some_and(|role| role["state"] == "unreachable")
    })
    .await;
    let wanted = states(port).await;
    for state in ["guarded", "leading", "draining", "standby", "unreachable"] {
        assert!(wanted.iter().any(|change| change == state), "{state} in {wanted:?}");
    }
    // Every state that the role had after its first is told, in their order. The last lines may be on their way.
    wait_until(PATIENCE, &format!("{wanted:?} is told"), || {
        let told = told(&running);
        let mut said = told.iter().map(|line| line["state"].as_str().unwrap());
        wanted[1..].iter().all(|state| said.any(|word| word == state))
    })
    .await;
    for line in told(&running) {
        for field in ["timestamp", "level", "message", "target", "role"] {
            assert!(line[field].is_string(), "{field} of {line}");
        }
        assert!(line["duration_ms"].is_u64(), "{line}");
        let own_term = ["this replica leads", "the lease is lost", "the lease is given back"];
        if own_term.contains(&line["message"].as_str().unwrap()) {
            assert!(line["token"].as_str().is_some_and(|token| token.parse::<u64>().is_ok()), "{line}");
        }
        assert!(line["state"] == "leading" || line["reason"].is_string(), "{line}");
    }
}
