//! A job, the small app that does its work, and a checker of what came of every slot.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use serde::Deserialize;
use serde_json::Value;
use tempfile::TempDir;

use crate::sidecars::http::Answer;
use crate::sidecars::replica::Replica;

/// The job.
#[derive(Clone, Copy, Debug)]
pub struct Job {
    /// Its schedule, in seconds.
    pub period_s: u64,
    /// Whether a slot may begin while a run of another goes on.
    pub overlaps: bool,
    /// How many runs of each outcome are remembered.
    pub history: [u32; 2],
}

impl Job {
    /// `jobs:` with this job alone.
    pub fn section(&self, app: &App) -> String {
        let Self { period_s, overlaps, history: [succeeded, failed] } = self;
        let (policy, port) = (if *overlaps { "Allow" } else { "Forbid" }, app.port);
        format!(
            "jobs:\n  - {{ name: tick, schedule: '@every {period_s}s', concurrencyPolicy: {policy}, catchUp: all, \
             backoffLimit: 20, backoff: {{ initial: 50ms, max: 400ms }}, successfulJobsHistoryLimit: {succeeded}, \
             failedJobsHistoryLimit: {failed}, run: {{ http: {{ url: 'http://127.0.0.1:{port}/tick', timeout: 2s }} }} \
             }}\n"
        )
    }
}

/// The app. Killed when dropped.
pub struct App {
    child: Child,
    port: u16,
    dir: TempDir,
}

/// A call that the app got.
#[derive(Clone, Debug, Deserialize)]
pub struct Call {
    pub path: String,
    /// Its `Content-Type`.
    #[serde(rename = "type")]
    pub media_type: Option<String>,
    pub body: String,
    pub run: String,
    pub attempt: u32,
    token: u64,
    key: String,
}

impl App {
    pub fn start(seed: u64) -> Self {
        let dir = TempDir::new().expect("a temporary directory");
        let script = crate::root().join("tests/testkit/src/sidecars/jobs_app.py");
        let mut command = Command::new("python3");
        command.arg(script).arg(dir.path().join("journal")).arg(seed.to_string());
        let mut child = command.stdout(Stdio::piped()).stdin(Stdio::null()).spawn().expect("Python");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("piped")).read_line(&mut line).expect("the app's port");
        Self { port: line.trim().parse().expect("a port"), child, dir }
    }

    /// Where it listens, whatever the path.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Where it is asked for work.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}/work", self.port)
    }

    /// What it was asked for, in order.
    pub fn calls(&self) -> Vec<Call> {
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

pub fn json(answer: &Answer) -> Value {
    serde_json::from_str(&answer.body).unwrap_or_else(|error| panic!("{error}: {answer:?}"))
}

pub fn job(replica: &Replica, name: &str) -> Value {
    json(&replica.ask(&format!("GET /jobs/{name}"), ""))
}

pub fn leader(replicas: &[Replica]) -> Option<usize> {
    let leads = |replica: &Replica| json(&replica.ask("GET /leader", ""))["leader"] == true;
    replicas.iter().position(leads)
}

/// Every run of a job that is remembered, oldest first.
pub fn runs(replica: &Replica, name: &str) -> Vec<Value> {
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

pub fn seconds(time: &Value) -> u64 {
    let time: jiff::Timestamp = time.as_str().expect("a time").parse().expect("a time");
    u64::try_from(time.as_second()).expect("after 1970")
}

/// What a time of faults came to.
#[derive(Debug, Default)]
pub struct Account {
    pub succeeded: usize,
    pub failed: usize,
    /// How many slots had none, for each reason.
    pub without_run: BTreeMap<String, u64>,
    pub attempts: usize,
    pub interrupted: usize,
}

/// Every slot has one run, or is counted among those that have none; every attempt has its own, greater token.
pub fn audit(replica: &Replica, kept: Job) -> Account {
    let mut account = Account::default();
    let mut slots: BTreeMap<u64, String> = BTreeMap::new();
    let runs = runs(replica, "tick");
    let mut last_token = 0;
    for run in &runs {
        if kept.overlaps {
            // Attempts of two runs may come in turns.
            last_token = 0;
        }
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
        let reason = gap["reason"].as_str().expect("a reason").to_owned();
        *account.without_run.entry(reason).or_default() += gap["slots"].as_u64().expect("a number");
        for slot in (seconds(&gap["first"])..=seconds(&gap["last"])).step_by(kept.period_s as usize) {
            let twice = slots.insert(slot, gap["reason"].to_string());
            assert_eq!(twice, None, "a slot has a run and a reason for none: {gap}");
        }
    }
    let (first, last) = (slots.keys().next().expect("slots"), slots.keys().next_back().expect("slots"));
    let all: Vec<u64> = (*first..=*last).step_by(kept.period_s as usize).collect();
    assert_eq!(slots.keys().copied().collect::<Vec<_>>(), all, "every slot has a run or a reason");
    account
}

/// What the app saw: no attempt twice, and tokens that rise from attempt to attempt.
pub fn audit_calls(calls: &[Call]) {
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
