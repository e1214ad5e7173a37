//! Jobs on real sidecars, a real Redis and a small app in Python, while leaders are killed, paused and asked to resign:
//! every slot has one run that succeeded, or a reason why not, and no attempt is made twice.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};
use serde::Deserialize;
use serde_json::Value;
use tempfile::TempDir;

use crate::http::Answer;
use crate::replica::{LEASE_KEY, Lease, ROLE, Replica, Settings};
use crate::support::redis::RedisServer;
use crate::wait::{last_for, until, until_some};

const REPLICAS: usize = 3;
/// The schedule of the job, in seconds.
const PERIOD_S: u64 = 2;

/// The app. Killed when dropped.
struct App {
    child: Child,
    port: u16,
    dir: TempDir,
}

/// A call that the app got.
#[derive(Clone, Debug, Deserialize)]
struct Call {
    run: String,
    attempt: u32,
    token: u64,
    key: String,
}

impl App {
    fn start(seed: u64) -> Self {
        let dir = TempDir::new().expect("a temporary directory");
        let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/process/jobs_app.py");
        let mut command = Command::new("python3");
        command.arg(script).arg(dir.path().join("journal")).arg(seed.to_string());
        let mut child = command.stdout(Stdio::piped()).stdin(Stdio::null()).spawn().expect("Python");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("piped")).read_line(&mut line).expect("the app's port");
        Self { port: line.trim().parse().expect("a port"), child, dir }
    }

    /// What it was asked for, in order.
    fn calls(&self) -> Vec<Call> {
        let text = std::fs::read_to_string(self.dir.path().join("journal")).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).expect("a call")).collect()
    }
}

impl Drop for App {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// `jobs:` with one job that is due every two seconds.
fn jobs(app: &App) -> String {
    format!(
        "jobs:\n  - {{ name: tick, schedule: '@every {PERIOD_S}s', concurrencyPolicy: Forbid, catchUp: all, \
         backoffLimit: 20, backoff: {{ initial: 50ms, max: 400ms }}, successfulJobsHistoryLimit: 1000, \
         failedJobsHistoryLimit: 1000, run: {{ http: {{ url: 'http://127.0.0.1:{}/tick', timeout: 2s }} }} }}\n",
        app.port
    )
}

fn start(count: usize, redis: &RedisServer, jobs: &str) -> Vec<Replica> {
    let lease = Lease::SHORT;
    let settings =
        |number| Settings { roles: lease.role(ROLE, "") + jobs, ..Settings::new(number, redis.url(), lease) };
    (0..count).map(|number| Replica::start(number, settings(number))).collect()
}

fn json(answer: &Answer) -> Value {
    serde_json::from_str(&answer.body).unwrap_or_else(|error| panic!("{error}: {answer:?}"))
}

fn job(replica: &Replica, name: &str) -> Value {
    json(&replica.ask(&format!("GET /jobs/{name}"), ""))
}

fn leader(replicas: &[Replica]) -> Option<usize> {
    let leads = |replica: &Replica| json(&replica.ask("GET /leader", ""))["leader"] == true;
    replicas.iter().position(leads)
}

/// Every run of a job that is remembered, oldest first.
fn runs(replica: &Replica, name: &str) -> Vec<Value> {
    let (mut all, mut before) = (Vec::new(), String::new());
    loop {
        let page = json(&replica.ask(&format!("GET /jobs/{name}/runs?limit=100{before}"), ""));
        all.extend(page["runs"].as_array().expect("runs").iter().cloned());
        match page["next"].as_str() {
            Some(next) => before = format!("&before={next}"),
            None => break,
        }
    }
    all.reverse();
    all
}

fn seconds(time: &Value) -> u64 {
    let time: jiff::Timestamp = time.as_str().expect("a time").parse().expect("a time");
    u64::try_from(time.as_second()).expect("after 1970")
}

/// What a time of faults came to.
#[derive(Debug, Default)]
struct Account {
    succeeded: usize,
    failed: usize,
    without_run: u64,
    attempts: usize,
    interrupted: usize,
}

/// Every slot has one run, or is counted among those that have none; every attempt has its own, greater token.
fn audit(replica: &Replica) -> Account {
    let mut account = Account::default();
    let mut slots: BTreeMap<u64, String> = BTreeMap::new();
    let runs = runs(replica, "tick");
    let mut last_token = 0;
    for run in &runs {
        let phase = run["phase"].as_str().expect("a phase");
        assert!(["succeeded", "failed"].contains(&phase), "{run}");
        assert!(phase == "succeeded" || run["reason"].is_string(), "{run}");
        let twice = slots.insert(seconds(&run["scheduled"]), phase.to_owned());
        assert_eq!(twice, None, "a slot has two runs: {run}");
        let attempts = run["attempts"].as_array().expect("attempts");
        for (attempt, number) in attempts.iter().rev().zip((1..=attempts.len()).rev()) {
            assert!(attempt["attempt"].as_u64() >= Some(number as u64), "{run}");
        }
        for attempt in attempts {
            let token = attempt["token"].as_u64().expect("a token");
            assert!(token > last_token, "a token that does not rise: {run}");
            last_token = token;
            account.interrupted += usize::from(attempt["outcome"] == "interrupted");
        }
        let successes = attempts.iter().filter(|attempt| attempt["outcome"] == "succeeded").count();
        assert_eq!(successes, usize::from(phase == "succeeded"), "{run}");
        account.attempts += attempts.len();
        account.succeeded += usize::from(phase == "succeeded");
        account.failed += usize::from(phase == "failed");
    }
    for gap in job(replica, "tick")["without_run"].as_array().expect("stretches") {
        account.without_run += gap["slots"].as_u64().expect("a number");
        for slot in (seconds(&gap["first"])..=seconds(&gap["last"])).step_by(PERIOD_S as usize) {
            let twice = slots.insert(slot, gap["reason"].to_string());
            assert_eq!(twice, None, "a slot has a run and a reason for none: {gap}");
        }
    }
    let (first, last) = (slots.keys().next().expect("slots"), slots.keys().next_back().expect("slots"));
    let all: Vec<u64> = (*first..=*last).step_by(PERIOD_S as usize).collect();
    assert_eq!(slots.keys().copied().collect::<Vec<_>>(), all, "every slot has a run or a reason");
    account
}

/// What the app saw: no attempt twice, and tokens that rise from attempt to attempt.
fn audit_calls(calls: &[Call]) {
    let mut attempts: BTreeMap<&str, Vec<(u32, u64)>> = BTreeMap::new();
    for call in calls {
        assert_eq!(call.key, call.run);
        attempts.entry(&call.run).or_default().push((call.attempt, call.token));
    }
    for (run, mut seen) in attempts {
        let numbers: BTreeSet<u32> = seen.iter().map(|(number, _)| *number).collect();
        assert_eq!(numbers.len(), seen.len(), "{run}: an attempt was made twice: {seen:?}");
        seen.sort_unstable();
        assert!(seen.windows(2).all(|pair| pair[0].1 < pair[1].1), "{run}: tokens do not rise: {seen:?}");
    }
}

/// Faults on whoever leads, one after the other, for so long; then quiet. How many there were of each.
fn torment(replicas: &mut [Replica], span: Duration, seed: u64) -> [usize; 3] {
    let mut dice = fastrand::Rng::with_seed(seed);
    let mut faults = [0; 3];
    let begun = Instant::now();
    while begun.elapsed() < span {
        last_for(Duration::from_millis(dice.u64(500..4_000)));
        let at = until_some("somebody leads", || leader(replicas));
        let fault = dice.usize(0..3);
        faults[fault] += 1;
        match fault {
            0 => {
                replicas[at].kill();
                last_for(Duration::from_millis(dice.u64(0..1_500)));
                replicas[at].start_again();
            }
            1 => {
                replicas[at].signal(Signal::STOP);
                last_for(Duration::from_millis(dice.u64(500..5_000)));
                replicas[at].signal(Signal::CONT);
            }
            _ => {
                // It may have stopped leading meanwhile.
                replicas[at].ask("POST /leader/scheduler/resign", r#"{"cooldown":"500ms"}"#);
            }
        }
    }
    faults
}

fn torment_and_audit(span: Duration, seed: u64) -> (Account, [usize; 3], usize) {
    let redis = RedisServer::start();
    let app = App::start(seed);
    let mut replicas = start(REPLICAS, &redis, &jobs(&app));
    until("a run has succeeded", || job(&replicas[0], "tick")["last_success"].is_string());
    let faults = torment(&mut replicas, span, seed);
    // No slot is due for a while, then: what was begun ends.
    for _ in 0..2 {
        until("the job is suspended", || replicas[0].ask("POST /jobs/tick/suspend", "").status == 204);
    }
    until("nothing goes on", || {
        let job = job(&replicas[0], "tick");
        job["suspended"] == true && job["active"].as_array().is_some_and(Vec::is_empty)
    });
    let account = audit(&replicas[0]);
    let calls = app.calls();
    audit_calls(&calls);
    (account, faults, calls.len())
}

#[test]
fn every_slot_has_one_success_or_a_reason_while_leaders_come_and_go() {
    let (account, faults, calls) = torment_and_audit(Duration::from_secs(20), 7);
    assert!(account.succeeded >= 5 && calls >= account.succeeded, "{account:?} {faults:?}");
}

/// `BATON_JOBS_SECONDS`: how long, 300 if it is not said.
#[test]
#[ignore = "takes five minutes"]
fn five_minutes_of_leaders_that_come_and_go() {
    let span = std::env::var("BATON_JOBS_SECONDS").ok().map_or(300, |text| text.parse().expect("seconds"));
    let seed = std::env::var("BATON_JOBS_SEED").ok().map_or(11, |text| text.parse().expect("a number"));
    let (account, faults, calls) = torment_and_audit(Duration::from_secs(span), seed);
    let [killed, paused, resigned] = faults;
    println!("seed {seed}, {span} s: {killed} kills, {paused} pauses, {resigned} resigns; {calls} calls; {account:?}");
    assert!(account.succeeded as u64 >= span / PERIOD_S / 2, "{account:?}");
}

/// A leader is stopped in the middle of a run; its successor finishes the run; then the first goes on. What it still
/// wants to write is refused.
#[test]
fn a_stale_leaders_word_on_a_run_is_refused() {
    let redis = RedisServer::start();
    // The app's first answer comes late, all others at once.
    let script = "sleep \"$([ \"$BATON_ATTEMPT\" = 1 ] && echo 3 || echo 0)\"";
    let job_of = format!(
        "jobs:\n  - {{ name: once, schedule: '@yearly', run: {{ exec: {{ command: [sh, -c, '{script}'], \
         terminationGracePeriod: 300ms }} }} }}\n"
    );
    let replicas = start(2, &redis, &job_of);
    let first = until_some("somebody leads", || leader(&replicas));
    assert_eq!(replicas[first].ask("POST /jobs/once/run", "").status, 202);
    let other = &replicas[1 - first];
    let phase = |wanted: &str| runs(other, "once").first().is_some_and(|run| run["phase"] == wanted);
    until("the first attempt runs", || phase("running"));
    replicas[first].signal(Signal::STOP);
    until("the successor has finished the run", || phase("succeeded"));
    let written = runs(other, "once");
    replicas[first].signal(Signal::CONT);
    until("the first has noticed", || job(&replicas[first], "once")["leader"] == false);
    let active = || replicas[first].metric("baton_job_active_runs", &[("job_name", "once")]);
    until("nothing goes on there", || active() == Some(0.0));
    last_for(Duration::from_millis(500));
    assert_eq!(runs(other, "once"), written, "nothing that the first leader knew came in between");
    let attempts = written[0]["attempts"].as_array().expect("attempts").clone();
    let outcomes: Vec<&Value> = attempts.iter().map(|attempt| &attempt["outcome"]).collect();
    assert_eq!(outcomes, ["interrupted", "succeeded"]);
    assert_ne!(attempts[0]["identity"], attempts[1]["identity"]);
}

#[test]
fn a_reload_adds_changes_and_removes_jobs() {
    let redis = RedisServer::start();
    let entry = |name: &str, command: &str| {
        format!("  - {{ name: {name}, schedule: '@every 1s', run: {{ exec: {{ command: {command} }} }} }}\n")
    };
    let replicas = start(1, &redis, &format!("jobs:\n{}", entry("kept", "['true']")));
    let replica = &replicas[0];
    until("the first job runs", || job(replica, "kept")["last_success"].is_string());
    let write = |jobs: &str| {
        let roles = Lease::SHORT.role(ROLE, "") + jobs;
        std::fs::write(&replica.config, replica.config_with(&roles)).expect("a configuration");
    };
    let term = json(&replica.ask("GET /leader", ""))["token"].clone();
    write(&format!("jobs:\n{}{}", entry("kept", "['false']"), entry("new", "['true']")));
    until("the new job runs", || job(replica, "new")["last_success"].is_string());
    until("the other has changed", || {
        job(replica, "kept")["last"]["phase"] == "failed"
            || job(replica, "kept")["active"]
                .as_array()
                .is_some_and(|runs| runs.iter().any(|run| run["phase"] == "waiting"))
    });
    write(&format!("jobs:\n{}", entry("new", "['true']")));
    until("the first job is gone", || replica.ask("GET /jobs/kept", "").status == 404);
    // What it was running is ended first.
    until("its series are gone, too", || replica.metric("baton_job_active_runs", &[("job_name", "kept")]).is_none());
    assert_eq!(json(&replica.ask("GET /leader", ""))["token"], term, "the role was left alone");
}

/// One replica with a job that starts this program, and has run it, and the process that wrote its id into `pid`.
fn with_program(roles: &str, grace: &str, script: &str, dir: &TempDir) -> (RedisServer, Replica, Pid) {
    with_program_and(roles, grace, script, "", dir)
}

/// The same beside other jobs.
fn with_program_and(
    roles: &str,
    grace: &str,
    script: &str,
    others: &str,
    dir: &TempDir,
) -> (RedisServer, Replica, Pid) {
    let redis = RedisServer::start();
    let script = format!("cd {}; echo $$$$ >pid; {script}", dir.path().display());
    let jobs = format!(
        "jobs:\n  - {{ name: work, role: {ROLE}, schedule: '@every 1s', concurrencyPolicy: Forbid, run: {{ exec: {{ \
         command: [sh, -c, \"{script}\"], terminationGracePeriod: {grace} }} }} }}\n{others}"
    );
    let settings = Settings { roles: roles.to_owned() + &jobs, ..Settings::new(0, redis.url(), Lease::SHORT) };
    let replica = Replica::start(0, settings);
    let read = || std::fs::read_to_string(dir.path().join("pid")).unwrap_or_default();
    let pid = until_some("the program runs", || read().strip_suffix('\n').and_then(|pid| pid.parse().ok()));
    (redis, replica, Pid::from_raw(pid).expect("a process"))
}

/// Whether a process is there, and has not ended.
fn is_alive(pid: Pid) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with(['Z', 'X']))
}

#[test]
fn whatever_signal_ends_a_sidecar_its_runs_programs_are_gone_before_it() {
    for signal in [Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT] {
        let dir = TempDir::new().expect("a temporary directory");
        let deaf = "trap '' TERM INT HUP QUIT; while [ -e pid ]; do sleep 0.02; done";
        let (_redis, mut replica, pid) = with_program(&Lease::SHORT.role(ROLE, ""), "200ms", deaf, &dir);
        replica.signal(signal);
        let status = replica.wait_end();
        let left = is_alive(pid);
        std::fs::remove_file(dir.path().join("pid")).expect("the file that it looks at");
        assert!(!left, "{signal:?}: the program goes on without a lease");
        assert!(status.success(), "{signal:?} asks for a drain: {status}");
    }
}

#[test]
fn a_signal_that_means_nothing_ends_neither_the_sidecar_nor_its_runs_program() {
    let dir = TempDir::new().expect("a temporary directory");
    let idle = "while [ -e pid ]; do sleep 0.02; done";
    let (_redis, mut replica, pid) = with_program(&Lease::SHORT.role(ROLE, ""), "200ms", idle, &dir);
    for signal in [Signal::USR1, Signal::USR2, Signal::ALARM] {
        replica.signal(signal);
        assert_eq!(json(&replica.ask("GET /leader", ""))["leader"], true, "{signal:?}");
        assert!(is_alive(pid), "{signal:?}");
    }
    replica.signal(Signal::TERM);
    assert!(replica.wait_end().success());
    assert!(!is_alive(pid));
}

/// The app says that it acts no longer; the sidecar's own run does until it has ended.
#[test]
fn the_apps_word_does_not_cut_short_the_grace_of_a_run() {
    let dir = TempDir::new().expect("a temporary directory");
    let lease = Lease { validity: 5_000, ..Lease::LONGER };
    let tidy = "trap 'sleep 1; echo tidied >tidy; exit 0' TERM; while [ -e pid ]; do sleep 0.02; done";
    let (redis, replica, pid) = with_program(&lease.role(ROLE, ""), "3s", tidy, &dir);
    assert_eq!(json(&replica.ask("GET /leader", ""))["leader"], true);
    assert_eq!(replica.ask("POST /leader/scheduler/resign", r#"{"cooldown":"60s"}"#).status, 202);
    assert_eq!(replica.ask("POST /leader/scheduler/drained", "").status, 202);
    let held = || redis.command(&["EXISTS", LEASE_KEY]).number() == 1;
    until("the program has ended", || {
        let held = held();
        assert!(held || !is_alive(pid), "the lease was given back, and the program runs");
        !is_alive(pid)
    });
    assert_eq!(std::fs::read_to_string(dir.path().join("tidy")).unwrap_or_default(), "tidied\n", "it was killed");
    let released = || replica.role_metric("baton_releases_total", &[("reason", "resigned")]) == 1.0;
    until("the lease is given back", || !held() && released());
    let left = json(&replica.ask("GET /leader", ""))["state"].clone();
    assert_eq!(left, "standby", "it waits for no promise of the program's");
}

#[test]
fn a_signal_is_heard_while_a_reload_waits_for_the_end_of_a_removed_jobs_program() {
    let dir = TempDir::new().expect("a temporary directory");
    let deaf = "trap '' TERM; while [ -e pid ]; do sleep 0.02; done";
    let role = Lease { validity: 5_000, ..Lease::LONGER }.role(ROLE, "");
    let (_redis, mut replica, pid) = with_program(&role, "4s", deaf, &dir);
    std::fs::write(&replica.config, replica.config_with(&role)).expect("a configuration");
    until("the job's program is told to end", || replica.has_logged(&["the job is gone", "TERM"]));
    replica.signal(Signal::TERM);
    until("the signal is heard", || replica.has_logged(&["shutting down"]));
    assert!(is_alive(pid), "the signal had to wait for the program's grace");
    assert!(replica.wait_end().success());
    assert!(!is_alive(pid));
}

#[test]
fn a_removed_jobs_program_keeps_no_other_job_waiting_whose_role_has_changed() {
    let dir = TempDir::new().expect("a temporary directory");
    let deaf = "trap '' TERM; while [ -e pid ]; do sleep 0.02; done";
    let role = Lease { duration: 8_000, validity: 6_000, ..Lease::LONGER }.role(ROLE, "");
    let roles = |validity| role.clone() + &Lease { validity, ..Lease::SHORT }.role("other", "");
    let kept = "  - { name: kept, role: other, schedule: '@every 1s', run: { exec: { command: ['true'] } } }\n";
    let (_redis, replica, pid) = with_program_and(&roles(500), "6s", deaf, kept, &dir);
    until("the other job runs", || job(&replica, "kept")["last_success"].is_string());
    let config = replica.config_with(&format!("{}jobs:\n{kept}", roles(400)));
    std::fs::write(&replica.config, config).expect("a configuration");
    until("the removed job's program is told to end", || replica.has_logged(&["the job is gone", "TERM"]));
    let last = || job(&replica, "kept")["last"]["run"].clone();
    let before = last();
    until("the other job goes on", || last() != before);
    assert!(is_alive(pid), "the other job waited for the end of the removed one's program");
}
