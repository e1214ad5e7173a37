//! Of docs/jobs.md: what people ask of schedulers.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::ports::free_port;
use testkit::programs::{Running, is_installed, python_with};
use testkit::redis::RedisServer;
use testkit::sidecars::jobs::{App, seconds};
use testkit::sidecars::replica::{Lease, ROLE, Replica, Settings};
use testkit::wait::{PATIENCE, found_within, last_for, until, until_some};

use crate::recipe;

/// Now, by the clock of the day, in whole seconds since 1970.
fn now_s() -> u64 {
    u64::try_from(jiff::Timestamp::now().as_second()).unwrap()
}

fn leads(replica: &Replica) -> bool {
    replica.ask("GET /leader", "").json()["leader"] == true
}

/// The job's runs that are remembered; none as long as nobody can say.
fn remembered(replica: &Replica) -> Vec<Value> {
    let answer = replica.ask("GET /jobs/daily-report/runs?limit=100", "");
    if answer.status == 200 { answer.json()["runs"].as_array().cloned().unwrap_or_default() } else { Vec::new() }
}

/// The tokens that a program has printed after these words, in order.
fn tokens(program: &Running, words: &str) -> Vec<u64> {
    program.lines().iter().filter_map(|line| line.split_once(words)?.1.trim().parse().ok()).collect()
}

#[test]
fn a_slot_that_passed_while_nobody_led_is_made_up_for() {
    let (redis, app) = (RedisServer::start(), App::start(7));
    let page = recipe("jobs.md", "yaml", "daily-report");
    let (_, jobs) = page.split_once("\njobs:\n").expect("the recipe has a job");
    // Ten o'clock comes every three seconds.
    let jobs = jobs.replace("0 10 * * *", "@every 3s").replace(":8080/", &format!(":{}/", app.port()));
    let mut settings = Settings::new(0, redis.url(), Lease::SHORT);
    settings.more = format!("jobs:\n{jobs}");
    let mut replica = Replica::start(0, settings);
    until("a first slot has its run", || !remembered(&replica).is_empty());
    replica.signal(Signal::TERM);
    let ended_s = now_s();
    replica.wait_end();
    // Two slots pass, and nobody is there at all.
    last_for(Duration::from_secs(7));
    let begun_s = now_s();
    replica.start_again();
    let made_up = until_some("a slot that passed has its run", || {
        remembered(&replica).into_iter().find(|run| (ended_s + 1..begun_s).contains(&seconds(&run["scheduled"])))
    });
    assert!(begun_s - seconds(&made_up["scheduled"]) <= 3, "the latest of those that passed: {made_up}");
}

#[test]
fn jobs_with_a_jitter_have_their_own_places_in_the_hour() {
    const HOUR_S: u64 = 4;
    let (redis, app) = (RedisServer::start(), App::start(7));
    let page = recipe("jobs.md", "yaml", "invoices");
    let (_, jobs) = page.split_once("\nmaxConcurrentRuns:").expect("the recipe has a bound, and jobs");
    // The hour has four seconds.
    let jobs = jobs.replace("@hourly", &format!("@every {HOUR_S}s")).replace("30m", "3s");
    let jobs = jobs.replace(":8080/", &format!(":{}/", app.port()));
    let mut settings = Settings::new(0, redis.url(), Lease::SHORT);
    settings.more = format!("maxConcurrentRuns:{jobs}");
    let replica = Replica::start(0, settings);
    let places = ["invoices", "archive", "cleanup"].map(|name| {
        let runs = || {
            let answer = replica.ask(&format!("GET /jobs/{name}/runs"), "");
            answer.json()["runs"].as_array().cloned().unwrap_or_default()
        };
        until("some slots have their runs", || runs().len() >= 2);
        let places: Vec<u64> = runs().iter().map(|run| seconds(&run["scheduled"]) % HOUR_S).collect();
        assert!(places.windows(2).all(|pair| pair[0] == pair[1]), "{name} has one place: {places:?}");
        places[0]
    });
    let distinct = |a: usize, b: usize| places[a] != places[b];
    assert!(distinct(0, 1) && distinct(1, 2) && distinct(0, 2), "each has its own: {places:?}");
}

/// A replica of Celery's beat under `baton exec`. Told to end when dropped: a `baton exec` that is killed leaves its
/// program running.
struct Beat(Running);

impl Drop for Beat {
    fn drop(&mut self) {
        self.0.terminate();
        found_within(PATIENCE, || self.0.ended());
    }
}

/// Starts one in a folder of its own.
fn beat(name: &str, redis: &RedisServer, python: &Path, folder: &TempDir) -> Beat {
    let here = folder.path().join(name);
    fs::create_dir(&here).unwrap();
    let store = format!("store: {{ redis: {{ url: '{}', commandTimeout: 400ms }} }}", redis.url());
    let roles = Lease::SHORT.role("celery-beat", "");
    fs::write(here.join("config.yaml"), format!("identity: {name}\n{store}\nroles:\n{roles}")).unwrap();
    let tasks = "import os\nfrom celery import Celery\n\
                 app = Celery('tasks', broker=os.environ['CELERY_BROKER'])\n\
                 token = os.environ['BATON_TOKEN']\n\
                 app.conf.beat_schedule = {'t': {'task': 't', 'schedule': 0.2, 'kwargs': {'token': token}}}\n";
    fs::write(here.join("tasks.py"), tasks).unwrap();
    let mut command = Command::new("sh");
    command.args(["-c", &format!("exec {}", recipe("jobs.md", "sh", "celery --app").trim())]).current_dir(&here);
    command.env("CELERY_BROKER", redis.url()).env("PATH", search_path(folder, python));
    Beat(Running::start(command))
}

/// PATH with `baton`, and with `celery` as this Python has it.
fn search_path(folder: &TempDir, python: &Path) -> String {
    let bin = folder.path().join("bin");
    if !bin.exists() {
        fs::create_dir(&bin).unwrap();
        let celery = bin.join("celery");
        fs::write(&celery, format!("#!/bin/sh\nexec '{}' -m celery \"$@\"\n", python.display())).unwrap();
        let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(&celery, executable).unwrap();
    }
    let baton = testkit::baton();
    let inherited = std::env::var("PATH").unwrap();
    format!("{}:{}:{inherited}", bin.display(), baton.parent().unwrap().display())
}

/// The terms' tokens in Celery's queue, oldest first.
fn sent(redis: &RedisServer) -> Vec<u64> {
    let queued = redis.command(&["LRANGE", "celery", "0", "-1"]).texts();
    let token = |message: &String| -> u64 {
        let message: Value = serde_json::from_str(message).unwrap();
        let kwargs = message["headers"]["kwargsrepr"].as_str().unwrap();
        kwargs.chars().filter(char::is_ascii_digit).collect::<String>().parse().unwrap()
    };
    queued.iter().rev().map(token).collect()
}

#[test]
fn one_beat_sends_at_a_time_and_the_next_takes_over() {
    let (redis, folder, python) = (RedisServer::start(), TempDir::new().unwrap(), python_with("schedulers"));
    let first = beat("one", &redis, &python, &folder);
    until("the first beat sends", || sent(&redis).len() >= 3);
    let second = beat("two", &redis, &python, &folder);
    let earlier = sent(&redis)[0];
    drop(first);
    until("the second beat sends", || sent(&redis).iter().filter(|token| **token > earlier).count() >= 3);
    let all = sent(&redis);
    assert!(all.is_sorted(), "two sent at once: {all:?}");
    drop(second);
}

#[test]
fn a_run_becomes_one_task_of_celery() {
    let (redis, folder, python) = (RedisServer::start(), TempDir::new().unwrap(), python_with("schedulers"));
    fs::write(folder.path().join("app.py"), recipe("jobs.md", "python", "apply_async")).unwrap();
    let port = free_port().to_string();
    let celery = |arguments: &[&str]| {
        let mut command = Command::new(&python);
        command.args(arguments).current_dir(&folder).env("CELERY_BROKER", redis.url()).env("PORT", &port);
        Running::start(command)
    };
    let _app = celery(&["app.py"]);
    let worker = celery(&["-m", "celery", "--app", "app", "worker", "--pool", "solo", "--logfile", "/dev/stdout"]);
    let mut settings = Settings::new(0, redis.url(), Lease::SHORT);
    settings.more = format!(
        "jobs: [{{ name: report, schedule: '@every 1s', \
         run: {{ http: {{ url: 'http://127.0.0.1:{port}/jobs/report' }} }} }}]\n"
    );
    let _replica = Replica::start(0, settings);
    until("the worker has done three", || tokens(&worker, "a report, written with token ").len() >= 3);
    let done = tokens(&worker, "a report, written with token ");
    assert!(done.is_sorted(), "{done:?}");
}

/// Two replicas, and a program beside each: only the leader's works, and after its resignation only the other's, under
/// a later term's token.
fn works_beside_the_leader(words: &str, program: impl Fn(&Replica) -> Command) {
    let redis = RedisServer::start();
    let start = |number| Replica::start(number, Settings::new(number, redis.url(), Lease::LONG));
    let replicas = [start(0), start(1)];
    let leader = until_some("somebody leads", || replicas.iter().position(leads));
    let programs = [0, 1].map(|number| Running::start(program(&replicas[number])));
    until("the leader's program works", || tokens(&programs[leader], words).len() >= 3);
    let resigned =
        replicas[leader].ask(&format!("POST /leader/{ROLE}/resign"), &json!({ "cooldown": "30s" }).to_string());
    assert_eq!(resigned.status, 202, "{resigned:?}");
    until("the other's program works", || tokens(&programs[1 - leader], words).len() >= 3);
    let [before, after] = [leader, 1 - leader].map(|number| tokens(&programs[number], words));
    assert!(before.iter().all(|token| *token == before[0]) && after.iter().all(|token| *token > before[0]));
}

#[test]
fn apschedulers_jobs_run_beside_the_leader() {
    let (folder, python) = (TempDir::new().unwrap(), python_with("schedulers"));
    let file = folder.path().join("scheduler.py");
    fs::write(&file, recipe("jobs.md", "python", "BlockingScheduler")).unwrap();
    works_beside_the_leader("report with token ", |replica| {
        let mut command = Command::new(&python);
        command.arg(&file).env("BATON_URL", format!("http://{}", replica.api()));
        command
    });
}

#[test]
fn a_poller_polls_beside_the_leader() {
    if !is_installed(Command::new("javac").arg("-version")) {
        println!("left out: there is no Java development kit here");
        return;
    }
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("Poller.java");
    fs::write(&file, recipe("jobs.md", "java", "class Poller")).unwrap();
    let compiled = Command::new("javac").arg("-d").arg(folder.path()).arg(&file).status().unwrap();
    assert!(compiled.success());
    works_beside_the_leader("polled with token ", |replica| {
        let mut command = Command::new("java");
        command.arg("-cp").arg(folder.path()).args(["Poller", &format!("http://{}/leader/{ROLE}", replica.api())]);
        command
    });
}
