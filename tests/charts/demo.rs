//! The demo's scripts as they stand in the chart, on real sidecars: one works at a time, and the ledger refuses a
//! former leader.

use std::fs::File;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use testkit::helm::{Charts, done};
use testkit::ports::free_port;
use testkit::redis::RedisServer;
use testkit::root;
use testkit::sidecars::http::ask;
use testkit::sidecars::replica::{Lease, ROLE, Replica, Settings};
use testkit::wait::{until, until_some};

/// With promises that are longer than a step of the worker.
const TIMINGS: Lease = Lease { duration: 6_000, renew: 2_000, margin: 400, validity: 2_000 };

/// A script of the chart. Killed when dropped.
struct Script(Child);

impl Script {
    fn start(name: &str, arguments: &[String], env: &[(&str, String)], log: &Path) -> Self {
        let mut command = Command::new("python3");
        command.arg("-u").arg(root().join("charts/baton-demo/files").join(name)).args(arguments).stdin(Stdio::null());
        let file = File::create(log).unwrap();
        command.stdout(file.try_clone().unwrap()).stderr(file).env("PYTHONDONTWRITEBYTECODE", "1");
        command.env("http_proxy", "http://127.0.0.1:9"); // it is not asked
        Self(command.envs(env.iter().map(|(key, value)| (key, value))).spawn().unwrap())
    }

    fn terminate(&self) {
        kill_process(Pid::from_child(&self.0), Signal::TERM).unwrap();
    }

    fn wait_end(&mut self, what: &str) -> Option<i32> {
        until_some(what, || self.0.try_wait().unwrap()).code()
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        // Both fail only when it has ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Tokens of the ledger's entries, in their order. Empty while it does not listen.
fn tokens(ledger: SocketAddr) -> Vec<u64> {
    let Ok(mut connection) = testkit::sidecars::http::Connection::open(ledger) else { return Vec::new() };
    let Ok(answer) = connection.ask("GET /entries", "") else { return Vec::new() };
    let entries: Vec<Value> = serde_json::from_str(&answer.body).unwrap();
    entries.iter().map(|entry| entry["token"].as_u64().unwrap()).collect()
}

#[test]
fn one_worker_writes_at_a_time_and_the_ledger_refuses_a_former_leader() {
    let redis = RedisServer::start();
    let replicas: Vec<Replica> =
        (0..2).map(|number| Replica::start(number, Settings::new(number, redis.url(), TIMINGS))).collect();
    let folder = tempfile::tempdir().unwrap();
    let ledger = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let url = format!("http://{ledger}/entries");
    let _ledger =
        Script::start("ledger.py", &[], &[("PORT", ledger.port().to_string())], &folder.path().join("ledger"));
    until("the ledger listens", || testkit::sidecars::http::Connection::open(ledger).is_ok());
    let mut workers: Vec<Script> = replicas
        .iter()
        .enumerate()
        .map(|(number, replica)| {
            let leader_url = format!("http://{}/leader/{ROLE}", replica.api());
            let pause = ("PAUSE_SECONDS", "0.02".to_owned());
            let env = [("BATON_LEADER_URL", leader_url), ("LEDGER_URL", url.clone()), pause];
            Script::start("worker.py", &[], &env, &folder.path().join(format!("worker-{number}")))
        })
        .collect();
    let first = until_some("the leader's worker writes", || tokens(ledger).first().copied());

    let telemetry = replicas.iter().map(|replica| replica.telemetry().to_string());
    let arguments: Vec<String> = [ROLE.to_owned(), url.clone()].into_iter().chain(telemetry).collect();
    let log = folder.path().join("check");
    let code = Script::start("check.py", &arguments, &[], &log).wait_end("the chart's test ends");
    let said = std::fs::read_to_string(&log).unwrap();
    assert_eq!(code, Some(0), "{said}");
    assert!(said.starts_with("leaders: ['127.0.0.1:") && said.contains(&format!("tokens [{first}]")), "{said}");

    // The leader's worker ends, and hands over.
    let leads = |replica: &Replica| replica.role_metric("baton_leader", &[]) > 0.0;
    let leader = replicas.iter().position(leads).unwrap();
    workers[leader].terminate();
    assert_eq!(workers[leader].wait_end("the leader's worker ends"), Some(0));
    let second = until_some("the other's writes", || tokens(ledger).last().copied().filter(|token| *token > first));
    let all = tokens(ledger);
    assert!(all.is_sorted() && all.iter().all(|token| [first, second].contains(token)), "{all:?}");

    // One that was asleep for all of that.
    let late = format!("{{\"token\": {first}, \"text\": \"late\"}}");
    let answer = ask(ledger, "POST /entries", &late);
    assert_eq!(answer.status, 409, "{}", answer.body);
    assert!(answer.body.contains("former leader"), "{}", answer.body);
    let malformed = ask(ledger, "POST /entries", "{\"text\": \"no token\"}");
    assert_eq!(malformed.status, 400, "{}", malformed.body);
}

#[test]
fn the_charts_test_fails_when_nobody_leads() {
    let source = std::fs::read_to_string(root().join("charts/baton-demo/files/check.py")).unwrap();
    // As it stands it looks for a minute.
    let impatient = source.replace("time.monotonic() + 60", "time.monotonic() + 1");
    assert_ne!(source, impatient);
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("check.py");
    std::fs::write(&script, impatient).unwrap();
    let nobody = format!("127.0.0.1:{}", free_port());
    let arguments = [ROLE.to_owned(), format!("http://{nobody}/entries"), nobody];
    let log = folder.path().join("log");
    // An absolute path replaces the folder that it is joined to.
    let code = Script::start(script.to_str().unwrap(), &arguments, &[], &log).wait_end("it ends");
    assert_eq!(code, Some(1), "{}", std::fs::read_to_string(&log).unwrap());
}

#[test]
fn the_notes_ask_for_what_a_mirror_tells_and_for_what_the_test_found() {
    let mirror = json!({"baton": {"config": {"kubernetes": {"leaseMirror": true}}}});
    let answer = done(&[Charts::copy().render("baton-demo", &mirror)]).remove(0);
    let notes = answer["notes"].as_str().unwrap();
    for words in ["test demo --logs\n", "SINCE:.spec.acquireTime", "CHANGES:.spec.leaseTransitions"] {
        assert!(notes.contains(words), "no {words} in {notes}");
    }
}
