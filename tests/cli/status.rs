//! `baton status` and `baton resign` beside a sidecar.

use testkit::ports::free_port;

use crate::bench::{Bench, PATIENCE, Running, ask, dev_port, role_at};

/// A sidecar over memory, or over `store`, with a token file when one is named.
fn sidecar(bench: &Bench, port: u16, store: &str, more: &str) -> Running {
    let listen = format!("listen: '127.0.0.1:{port}'{more}");
    let telemetry = format!("telemetry: {{ listen: '127.0.0.1:{}' }}", port + 100);
    let text = format!("api: {{ {listen} }}\n{telemetry}\nstore: {store}\nroles: [{{ name: a }}]\n");
    bench.start(&["run", "--config", &bench.file("run.yaml", &text)])
}

#[tokio::test]
async fn a_leader_is_shown_with_its_token_and_status_ends_with_0() {
    let port = dev_port();
    let bench = Bench::new().with("BATON_API", &format!("127.0.0.1:{port}"));
    let running = sidecar(&bench, port, "{ memory: {} }", "");
    running.says("this replica leads").await;
    let said = bench.baton(&["status"]).await.ends_with(0);
    let lines: Vec<Vec<&str>> = said.out.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[0][..3], ["ROLE", "STATE", "HOLDER"], "{}", said.out);
    assert_eq!(lines[1][..3], ["a", "leading", "web-0"], "{}", said.out);
    let json = bench.baton(&["status", "-o", "json"]).await.ends_with(0).json();
    let role = &json["roles"][0];
    assert_eq!((&role["leads"], role["token"].to_string()), (&true.into(), lines[1][3].to_owned()));
    assert!(said.out.contains("\nLAST CHANGES ") && lines[1][4].parse::<f64>().is_ok(), "{}", said.out);
    assert_eq!((&json["jobs"], &json["locks"]["locks"]), (&serde_json::json!([]), &serde_json::json!([])));
}

#[tokio::test]
async fn locks_are_shown_with_their_holder_and_who_waits() {
    let port = dev_port();
    let bench = Bench::new().with("BATON_API", &format!("127.0.0.1:{port}"));
    let running = sidecar(&bench, port, "{ memory: {} }\nlocks: { guard: 1s }", "");
    running.says("this replica leads").await;
    let took = ask(port, "POST /locks/orders%2F42", r#"{"owner":"worker-7","lease":"1m"}"#).await.unwrap();
    assert!(took.contains("201 Created"), "{took}");
    let said = bench.baton(&["status"]).await.ends_with(0);
    let row = said.out.lines().find(|line| line.starts_with("orders/42")).map(str::to_owned);
    let cells: Vec<String> = row.expect("a row").split_whitespace().map(str::to_owned).collect();
    assert_eq!((cells[1].as_str(), cells[2].as_str(), cells[6].as_str()), ("worker-7", "web-0", "0"), "{}", said.out);
    assert!(cells[4].parse::<f64>().unwrap() > 1.0, "{cells:?}");
}

#[tokio::test]
async fn all_locks_are_shown_and_one_is_ended_by_its_token() {
    let port = dev_port();
    let bench = Bench::new().with("BATON_API", &format!("127.0.0.1:{port}"));
    let running = sidecar(&bench, port, "{ memory: {} }\nlocks: { guard: 1s }", "");
    running.says("this replica leads").await;
    assert_eq!(bench.baton(&["locks"]).await.ends_with(0).out, "no lock is held\n");
    assert_eq!(bench.baton(&["locks", "-o", "json"]).await.ends_with(0).out, "[]\n");
    for (line, body) in
        [("POST /locks/orders%2F42%20%C3%BC", r#"{"owner":"worker-7","lease":"1m"}"#), ("POST /locks/b", "{}")]
    {
        assert!(ask(port, line, body).await.unwrap().contains("201 Created"), "{line}");
    }
    let said = bench.baton(&["locks"]).await.ends_with(0);
    let first: Vec<&str> = said.out.lines().map(|line| line.split(' ').next().unwrap()).collect();
    assert_eq!(first, ["LOCK", "b", "orders/42"], "{}", said.out);
    let json = bench.baton(&["locks", "-o", "json"]).await.ends_with(0).json();
    let token = json[1]["holders"][0]["token"].as_u64().unwrap();
    let unlock = |token: u64| {
        let token = token.to_string();
        let bench = &bench;
        async move { bench.baton(&["unlock", "orders/42 ü", "--token", &token]).await }
    };
    let refused = unlock(token + 1).await.ends_with(1);
    assert!(refused.err.contains(&format!("but under {token}")), "{}", refused.err);
    assert_eq!(unlock(token).await.ends_with(0).out, "orders/42 ü: taken from worker-7 on web-0\n");
    assert_eq!(unlock(token).await.ends_with(0).out, "orders/42 ü: it was ended before\n");
    assert_eq!(bench.baton(&["locks", "-o", "json"]).await.ends_with(0).json().as_array().unwrap().len(), 1);
    for bad in [&["unlock", "b"][..], &["unlock", "b", "--token", "0"], &["unlock", "", "--token", "7"]] {
        bench.baton(bad).await.ends_with(64);
    }
}

#[tokio::test]
async fn on_a_terminal_watch_draws_the_tables_anew_until_the_sidecar_ends() {
    let port = dev_port();
    let bench = Bench::new().with("BATON_API", &format!("127.0.0.1:{port}"));
    let mut running = sidecar(&bench, port, "{ memory: {} }", "");
    running.says("this replica leads").await;
    let mut watching = bench.on_terminal(&["status", "--watch"]);
    watching.says("\u{1b}[2J\u{1b}[HThe sidecar at").await;
    watching.says("leading").await;
    let seen = watching.lines().len();
    bench.baton(&["resign", "a", "--cooldown", "60s"]).await.ends_with(0);
    watching.says_after(seen, "stays out").await;
    running.signal(rustix::process::Signal::TERM);
    assert_eq!((running.ends().await, watching.ends().await), (0, 69));
}

#[tokio::test]
async fn jobs_are_shown_below_the_roles_and_alone() {
    let port = dev_port();
    let bench = Bench::new().with("BATON_API", &format!("127.0.0.1:{port}"));
    let job = "jobs: [{ name: tick, schedule: '@every 1s', run: { exec: { command: ['true'] } } }]";
    let running = sidecar(&bench, port, &format!("{{ memory: {{}} }}\n{job}"), "");
    running.says("a run succeeded").await;
    let said = bench.baton(&["status"]).await.ends_with(0);
    assert!(said.out.contains("\n\nJOB ") && said.out.contains("\ntick  a "), "{}", said.out);
    let alone = bench.baton(&["status", "--jobs"]).await.ends_with(0);
    let cells: Vec<&str> = alone.out.lines().nth(1).unwrap().split_whitespace().collect();
    assert_eq!((cells[..2].to_vec(), cells[4], cells.len()), (vec!["tick", "a"], "succeeded", 6), "{}", alone.out);
    let json = bench.baton(&["status", "--jobs", "-o", "json"]).await.ends_with(0).json();
    assert_eq!((&json[0]["job"], &json[0]["leader"]), (&"tick".into(), &true.into()));
}

#[tokio::test]
async fn a_role_that_is_not_settled_ends_status_with_1_and_the_reason() {
    let (bench, port) = (Bench::new(), dev_port());
    let store = format!("{{ redis: {{ url: 'redis://127.0.0.1:{}/0' }} }}", free_port());
    let running = sidecar(&bench, port, &store, "");
    running.says("baton runs").await;
    let address = format!("127.0.0.1:{port}");
    let mut said = bench.baton(&["status", "--api", &address]).await.ends_with(1);
    // In its first moments it campaigns.
    let begun = std::time::Instant::now();
    while said.out.lines().nth(1).is_some_and(|row| row.contains("campaigning")) {
        assert!(begun.elapsed() < PATIENCE, "{}", said.out);
        said = bench.baton(&["status", "--api", &address]).await.ends_with(1);
    }
    assert!(said.out.contains("unreachable") && said.out.contains("cannot be reached"), "{}", said.out);
}

#[tokio::test]
async fn where_nothing_answers_status_and_resign_end_with_69() {
    let bench = Bench::new();
    let address = format!("127.0.0.1:{}", free_port());
    let unlock = ["unlock", "a", "--token", "7"];
    for command in [&["status"][..], &["status", "--watch"], &["resign", "a"], &["locks"], &unlock] {
        let said = bench.baton(&[command, &["--api", &address]].concat()).await.ends_with(69);
        assert!(said.err.contains(&format!("no sidecar answers at {address}")), "{}", said.err);
        assert_eq!(said.out, "");
    }
    bench.baton(&["status", "--api", "localhost"]).await.ends_with(64);
}

#[tokio::test]
async fn watch_prints_what_is_and_then_every_change() {
    let port = dev_port();
    let bench = Bench::new().with("BATON_API", &format!("127.0.0.1:{port}"));
    let mut running = sidecar(&bench, port, "{ memory: {} }", "");
    running.says("this replica leads").await;
    let mut watching = bench.start(&["status", "--watch"]);
    watching.says("leading").await;
    let mut json = bench.start(&["status", "--watch", "-o", "json"]);
    json.says("\"state\":\"leading\"").await;
    // Without a promise there is nothing to drain.
    assert_eq!(role_at(port).await.unwrap()["leader"], true);
    let said = bench.baton(&["resign", "a", "--cooldown", "60s"]).await.ends_with(0);
    assert_eq!(said.out, "a: web-0 hands over\n");
    watching.says("handing over: resigned").await;
    watching.says("stays out").await;
    json.says("\"state\":\"standby\"").await;
    running.signal(rustix::process::Signal::TERM);
    assert_eq!((running.ends().await, watching.ends().await, json.ends().await), (0, 69, 69));
}

#[tokio::test]
async fn resign_ends_with_64_for_a_role_or_a_cooldown_that_cannot_be() {
    let port = dev_port();
    let bench = Bench::new().with("BATON_API", &format!("127.0.0.1:{port}"));
    let running = sidecar(&bench, port, "{ memory: {} }", "");
    running.says("this replica leads").await;
    assert!(bench.baton(&["resign", "b"]).await.ends_with(64).err.contains("no role \"b\""));
    assert!(bench.baton(&["resign", "a", "--cooldown", "25h"]).await.ends_with(64).err.contains("at most 24h"));
}

#[tokio::test]
async fn a_sidecar_that_wants_a_token_gets_it_from_a_file_and_nobody_sees_it() {
    let (bench, port) = (Bench::new(), dev_port());
    let secret = "0123456789abcdef0123456789abcdef";
    let token_file = bench.file("token", &format!("{secret}\n"));
    let running = sidecar(&bench, port, "{ memory: {} }", &format!(", tokenFile: {token_file}"));
    running.says("this replica leads").await;
    let address = format!("127.0.0.1:{port}");
    let said = bench.baton(&["status", "--api", &address]).await.ends_with(64);
    assert!(said.err.contains("--token-file"), "{}", said.err);
    let said = bench.baton(&["status", "--api", &address, "--token-file", &token_file]).await.ends_with(0);
    assert!(said.out.contains("leading"), "{}", said.out);
    let wrong = bench.file("wrong", "another-secret-that-is-not-it\u{7}\n");
    let said = bench.baton(&["status", "--api", &address, "--token-file", &wrong]).await.ends_with(64);
    assert!(!said.err.contains("another-secret"), "{}", said.err);
    bench.baton(&["status", "--api", &address, "--token-file", "/no/such"]).await.ends_with(64);
    assert!(!running.lines().join("\n").contains(secret));
}
