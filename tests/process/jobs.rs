//! Jobs on real sidecars, a real Redis and a small app in Python, while leaders are killed, paused and asked to resign:
//! every slot has one run that succeeded, or a reason why not, and no attempt is made twice.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};
use serde_json::Value;
use tempfile::TempDir;
use testkit::redis::RedisServer;
use testkit::sidecars::jobs::{Account, App, Job, audit, audit_calls, job, json, leader, runs, seconds};
use testkit::sidecars::replica::{LEASE_KEY, Lease, ROLE, Replica, Settings};
use testkit::wait::{holds_for, last_for, until, until_some};

const REPLICAS: usize = 3;
const JOB: Job = Job { period_s: 2, overlaps: false, history: [1_000, 1_000] };

fn start(count: usize, redis: &RedisServer, jobs: &str) -> Vec<Replica> {
    let lease = Lease::SHORT;
    let settings =
        |number| Settings { roles: lease.role(ROLE, "") + jobs, ..Settings::new(number, redis.url(), lease) };
    (0..count).map(|number| Replica::start(number, settings(number))).collect()
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
    let mut replicas = start(REPLICAS, &redis, &JOB.section(&app));
    until("a run has succeeded", || job(&replicas[0], "tick")["last_success"].is_string());
    let faults = torment(&mut replicas, span, seed);
    // What the last of the faults kept from beginning would wait for as long as the job is suspended.
    let quiet = u64::try_from(jiff::Timestamp::now().as_second()).expect("after 1970");
    until("the job goes on", || seconds(&job(&replicas[0], "tick")["last_success"]) > quiet);
    // No slot is due for a while, then: what was begun ends.
    for _ in 0..2 {
        until("the job is suspended", || replicas[0].ask("POST /jobs/tick/suspend", "").status == 204);
    }
    until("nothing goes on", || {
        let job = job(&replicas[0], "tick");
        job["suspended"] == true && job["active"].as_array().is_some_and(Vec::is_empty)
    });
    let account = audit(&replicas[0], JOB);
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
    assert!(account.succeeded as u64 >= span / JOB.period_s / 2, "{account:?}");
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
    let unchanged = "nothing that the first leader knew came in between";
    holds_for(Duration::from_millis(500), unchanged, || runs(other, "once") == written);
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

/// Three jobs with one schedule, and a leader that is killed.
#[test]
fn jobs_with_a_jitter_start_apart_and_at_the_same_moments_under_every_leader() {
    const PERIOD_S: u64 = 4;
    let redis = RedisServer::start();
    let entry = |name: &str| {
        format!(
            "  - {{ name: {name}, schedule: '@every {PERIOD_S}s', jitter: 3s, successfulJobsHistoryLimit: 100, run: {{ \
             exec: {{ command: ['true'] }} }} }}\n"
        )
    };
    let names = ["reports", "sweep", "totals"];
    let mut replicas = start(2, &redis, &format!("jobs:\n{}", names.map(entry).concat()));
    let done = |replica: &Replica, name: &str, by: &str| {
        runs(replica, name).iter().filter(|run| run["attempts"][0]["identity"] == by).count()
    };
    let first = until_some("somebody leads", || leader(&replicas));
    let identity = |number: usize| replicas[number].settings.identity.clone();
    let (one, other) = (identity(first), identity(1 - first));
    until("each has run", || names.iter().all(|name| done(&replicas[first], name, &one) >= 1));
    replicas[first].kill();
    until("each has run under the other", || names.iter().all(|name| done(&replicas[1 - first], name, &other) >= 1));
    let offsets = names.map(|name| {
        let runs = runs(&replicas[1 - first], name);
        let offsets: Vec<u64> = runs.iter().map(|run| seconds(&run["scheduled"]) % PERIOD_S).collect();
        assert!(offsets.windows(2).all(|pair| pair[0] == pair[1]), "{name} moves: {runs:?}");
        offsets[0]
    });
    assert!(offsets.iter().any(|offset| *offset != offsets[0]), "all at once: {offsets:?}");
}

/// A program that ends by nothing but a signal, cancelled and retried through a replica that does not lead.
#[test]
fn a_run_is_cancelled_and_retried_through_any_replica() {
    let redis = RedisServer::start();
    let dir = TempDir::new().expect("a temporary directory");
    let script = format!("cd {}; echo $$$$ >pid; while :; do sleep 0.02; done", dir.path().display());
    let section = format!(
        "jobs:\n  - {{ name: endless, schedule: '@yearly', run: {{ exec: {{ command: [sh, -c, \"{script}\"], \
         terminationGracePeriod: 200ms }} }} }}\n"
    );
    let replicas = start(2, &redis, &section);
    let leading = until_some("somebody leads", || leader(&replicas));
    let other = &replicas[1 - leading];
    let asked = other.ask("POST /jobs/endless/run", "");
    let id = json(&asked)["run"].as_str().expect("a run").to_owned();
    let pid = || std::fs::read_to_string(dir.path().join("pid")).ok()?.strip_suffix('\n')?.parse().ok();
    let first = until_some("the program runs", || Pid::from_raw(pid()?));
    let order = |verb: &str| other.ask(&format!("POST /jobs/endless/runs/{id}/{verb}"), "").status;
    let is = |phase: &str| runs(other, "endless").first().is_some_and(|run| run["phase"] == phase);
    assert_eq!((order("retry"), order("cancel")), (409, 202));
    until("the run has failed", || is("failed"));
    assert!(!is_alive(first), "its program goes on");
    let run = runs(other, "endless").remove(0);
    assert_eq!((&run["reason"], &run["attempts"][0]["outcome"]), (&"cancelled".into(), &"cancelled".into()), "{run}");
    assert_eq!(order("retry"), 202);
    let second = until_some("the program runs again", || Pid::from_raw(pid()?).filter(|pid| *pid != first));
    // The leader is gone before it can hear of the cancel: its successor ends the run.
    replicas[leading].signal(Signal::STOP);
    assert_eq!(order("cancel"), 202);
    until("the successor has ended the run", || is("failed"));
    let run = runs(other, "endless").remove(0);
    let outcomes: Vec<&Value> = run["attempts"].as_array().expect("attempts").iter().map(|a| &a["outcome"]).collect();
    assert_eq!(outcomes, ["cancelled", "interrupted"], "{run}");
    assert_eq!(run["reason"], "cancelled", "{run}");
    replicas[leading].signal(Signal::CONT);
    until("the first has noticed", || !is_alive(second));
}

/// A request for a run is repeated while the leader that began it is killed.
#[test]
fn a_run_is_given_what_it_was_asked_for_with_also_by_the_next_leader_and_a_repeated_request_makes_no_other() {
    let redis = RedisServer::start();
    let dir = TempDir::new().expect("a temporary directory");
    // The first attempt hangs.
    let script = format!(
        "cd {}; echo $BATON_ATTEMPT $BATON_DATA >>given; \
         [ $BATON_ATTEMPT != 1 ] || exec sleep 60",
        dir.path().display()
    );
    let section = format!(
        "jobs:\n  - {{ name: import, schedule: '@yearly', run: {{ exec: {{ command: [sh, -c, \"{script}\"], \
         terminationGracePeriod: 200ms }} }} }}\n"
    );
    let mut replicas = start(2, &redis, &section);
    let leading = until_some("somebody leads", || leader(&replicas));
    let ask = |replica: &Replica, key: &str| {
        replica.ask_with("POST /jobs/import/run", &[("Idempotency-Key", key)], r#"{"file":7}"#)
    };
    let first = ask(&replicas[1 - leading], "import-7");
    let given = || std::fs::read_to_string(dir.path().join("given")).unwrap_or_default();
    until("the first attempt runs", || given().lines().count() == 1);
    replicas[leading].kill();
    let other = &replicas[1 - leading];
    until("the next leader has finished the run", || {
        assert_eq!(ask(other, "import-7").body, first.body);
        runs(other, "import").first().is_some_and(|run| run["phase"] == "succeeded")
    });
    assert_eq!(given(), "1 {\"file\":7}\n2 {\"file\":7}\n");
    assert_eq!((ask(other, "import-7").body, runs(other, "import").len()), (first.body, 1));
}

#[test]
fn a_pause_of_all_jobs_outlives_leaders_and_reaches_jobs_that_come_later() {
    let redis = RedisServer::start();
    let entry = |name: &str| {
        format!("  - {{ name: {name}, schedule: '@every 1s', run: {{ exec: {{ command: ['true'] }} }} }}\n")
    };
    let mut replicas = start(2, &redis, &format!("jobs:\n{}", ["own", "plain"].map(entry).concat()));
    let leading = until_some("somebody leads", || leader(&replicas));
    let other = 1 - leading;
    let started = |replica: &Replica, name: &str| {
        replica.metric("baton_job_last_start_timestamp_seconds", &[("job_name", name)]).is_some_and(|at| at > 0.0)
    };
    until("both run", || ["own", "plain"].iter().all(|name| started(&replicas[leading], name)));
    assert_eq!(replicas[other].ask("POST /jobs/own/suspend", "").status, 204);
    assert_eq!(replicas[other].ask("POST /jobs/suspend", "").status, 204);
    let paused = |replica: &Replica| replica.metric("baton_jobs_paused", &[]) == Some(1.0);
    until("every replica knows", || replicas.iter().all(paused));
    until("the leader has it", || {
        replicas[leading].metric("baton_job_suspended", &[("job_name", "plain")]) == Some(1.0)
    });
    // The next leader's file has one job more.
    let roles = Lease::SHORT.role(ROLE, "") + "jobs:\n" + &["own", "plain", "later"].map(entry).concat();
    std::fs::write(&replicas[other].config, replicas[other].config_with(&roles)).expect("a configuration");
    until("it has the job", || replicas[other].ask("GET /jobs/later", "").status == 200);
    replicas[leading].kill();
    until("the other leads", || job(&replicas[other], "later")["leader"] == true);
    holds_for(Duration::from_secs(3), "all are paused, and none has run", || {
        let rests = |name: &str| !started(&replicas[other], name) && job(&replicas[other], name)["paused"] == true;
        ["own", "plain", "later"].into_iter().all(rests)
    });
    assert_eq!(replicas[other].ask("POST /jobs/resume", "").status, 204);
    until("what is not suspended by itself runs", || ["plain", "later"].iter().all(|n| started(&replicas[other], n)));
    assert!(!started(&replicas[other], "own"), "what was suspended by itself has run");
}

/// Three jobs that are due together, and one place; then two by a reload.
#[test]
fn no_more_runs_go_on_at_once_than_the_replica_may_make() {
    let redis = RedisServer::start();
    let dir = TempDir::new().expect("a temporary directory");
    let journal = dir.path().join("journal");
    let entry = |name: &str| {
        let script = format!("echo + >>{0}; sleep 0.3; echo - >>{0}", journal.display());
        format!(
            "  - {{ name: {name}, schedule: '@every 1s', concurrencyPolicy: Forbid, run: {{ exec: {{ command: [sh, \
             -c, '{script}'] }} }} }}\n"
        )
    };
    let bounded = |places| format!("maxConcurrentRuns: {places}\njobs:\n{}", ["a", "b", "c"].map(entry).concat());
    let replicas = start(1, &redis, &bounded(1));
    let text = || std::fs::read_to_string(&journal).unwrap_or_default();
    let most = |from: usize| {
        let (mut now, mut most) = (0, 0);
        for (at, line) in text().lines().enumerate() {
            now += if line == "+" { 1 } else { -1 };
            most = if at >= from { most.max(now) } else { 0 };
        }
        most
    };
    until("each has run", || ["a", "b", "c"].iter().all(|name| job(&replicas[0], name)["last_success"].is_string()));
    until("some more have run", || text().lines().count() > 16);
    assert_eq!(most(0), 1, "{}", text());
    let roles = Lease::SHORT.role(ROLE, "") + &bounded(2);
    std::fs::write(&replicas[0].config, replicas[0].config_with(&roles)).expect("a configuration");
    let changed_at = text().lines().count();
    until("two go on at once", || most(changed_at) == 2);
    until("some more have run", || text().lines().count() > changed_at + 24);
    assert_eq!(most(changed_at), 2, "{}", text());
}

/// A backfill through leaders that are killed: every slot once, in order.
#[test]
fn a_backfill_goes_on_under_the_next_leader_and_runs_no_slot_twice() {
    const SLOTS: usize = 24;
    let redis = RedisServer::start();
    let dir = TempDir::new().expect("a temporary directory");
    let journal = dir.path().join("journal");
    let script = format!("echo $BATON_SCHEDULED_TIME $BATON_ATTEMPT >>{}; sleep 0.2", journal.display());
    let section = format!(
        "jobs:\n  - {{ name: import, schedule: '@hourly', run: {{ exec: {{ command: [sh, -c, '{script}'], \
         terminationGracePeriod: 200ms }} }} }}\n"
    );
    let mut replicas = start(2, &redis, &section);
    let done = || std::fs::read_to_string(&journal).unwrap_or_default();
    until_some("somebody leads", || leader(&replicas));
    let range = r#"{"from":"2024-01-01T00:00:00Z","to":"2024-01-01T23:30:00Z"}"#;
    let asking = |replicas: &[Replica]| replicas.iter().map(|r| r.ask("POST /jobs/import/backfill", range)).collect();
    until("the job is known", || job(&replicas[0], "import")["next"].is_string());
    let asked: Vec<_> = asking(&replicas);
    assert!(asked.iter().all(|answer| answer.status == 202 && json(answer)["slots"] == SLOTS), "{asked:?}");
    for mark in [5, 12] {
        until("some slots are run", || done().lines().count() >= mark);
        let leading = until_some("somebody leads", || leader(&replicas));
        replicas[leading].kill();
        replicas[leading].start_again();
    }
    until("nothing goes on", || {
        let job = job(&replicas[0], "import");
        job["backfill"].is_null() && job["active"].as_array().is_some_and(Vec::is_empty)
    });
    let asked: Vec<_> = asking(&replicas);
    assert!(asked.iter().all(|answer| answer.status == 202 && json(answer)["done"].is_string()), "{asked:?}");
    let text = done();
    holds_for(Duration::from_secs(1), "nothing is done any more", || done() == text);
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines.is_sorted_by(|a, b| a < b), "slots in their order, and no attempt twice: {text}");
    let slots: BTreeSet<&str> = lines.iter().filter_map(|line| line.split(' ').next()).collect();
    let wanted: Vec<String> = (0..SLOTS).map(|hour| format!("2024-01-01T{hour:02}:00:00Z")).collect();
    assert!(slots.into_iter().eq(wanted.iter().map(String::as_str)), "{text}");
}

/// A job of a role with three shards, on two replicas, of which one is killed.
#[test]
fn a_job_that_fans_out_runs_once_on_every_shard_in_every_slot() {
    const SHARDS: usize = 3;
    let redis = RedisServer::start();
    let dir = TempDir::new().expect("a temporary directory");
    let journal = dir.path().join("journal");
    let script = format!("echo $BATON_SCHEDULED_TIME $BATON_JOB $BATON_SHARD >>{}", journal.display());
    let lease = Lease::SHORT;
    let roles = lease.role("stock", &format!(", shards: {SHARDS}"))
        + &format!(
            "jobs:\n  - {{ name: totals, fanOut: true, schedule: '@every 1s', catchUp: all, run: {{ exec: {{ \
             command: [sh, -c, '{script}'] }} }} }}\n"
        );
    let settings = |number| Settings { roles: roles.clone(), ..Settings::new(number, redis.url(), lease) };
    let mut replicas: Vec<Replica> = (0..2).map(|number| Replica::start(number, settings(number))).collect();
    let lines = || -> Vec<String> {
        std::fs::read_to_string(&journal).unwrap_or_default().lines().map(str::to_owned).collect()
    };
    let leads =
        |replica: &Replica| (0..SHARDS).filter(|n| job(replica, &format!("totals%2F{n}"))["leader"] == true).count();
    until("the shards are spread", || replicas.iter().all(|replica| leads(replica) >= 1));
    let from = lines().len();
    until("some slots are run", || lines().len() > from + 4 * SHARDS);
    let counted = replicas.iter().filter(|replica| {
        let count = |n: usize| {
            let labels = [("job_name", &*format!("totals/{n}")), ("outcome", "succeeded")];
            replica.metric("baton_job_runs_total", &labels).unwrap_or(0.0)
        };
        (0..SHARDS).map(count).sum::<f64>() > 0.0
    });
    assert_eq!(counted.count(), 2, "both replicas do some of the work");
    replicas[0].kill();
    until("the other has all shards", || leads(&replicas[1]) == SHARDS);
    let from = lines().len();
    until("some more slots are run", || lines().len() > from + 4 * SHARDS);
    let mut runs: BTreeMap<String, usize> = BTreeMap::new();
    lines().into_iter().for_each(|line| *runs.entry(line).or_default() += 1);
    let twice: Vec<_> = runs.iter().filter(|(_, times)| **times > 1).collect();
    // An attempt that was cut off by the kill is repeated.
    assert!(twice.len() <= SHARDS && twice.iter().all(|(_, times)| **times == 2), "{twice:?}");
    for shard in 0..SHARDS {
        let slots: Vec<u64> = runs
            .keys()
            .filter_map(|line| line.strip_suffix(&format!("Z totals {shard}")))
            .map(|slot| {
                let slot: jiff::Timestamp = format!("{slot}Z").parse().expect("a time");
                u64::try_from(slot.as_second()).expect("after 1970")
            })
            .collect();
        assert!(slots.len() >= 8 && slots.windows(2).all(|pair| pair[1] == pair[0] + 1), "shard {shard}: {slots:?}");
    }
}

#[test]
fn a_job_that_a_reload_moves_to_a_role_whose_term_is_older_goes_on() {
    let redis = RedisServer::start();
    let config = |of: &str| {
        let roles = Lease::SHORT.role("older", "") + &Lease::SHORT.role("newer", "");
        let run = "run: { exec: { command: ['true'] } }";
        format!("{roles}jobs:\n  - {{ name: tick, role: {of}, schedule: '@every 1s', {run} }}\n")
    };
    let settings = Settings { roles: config("newer"), ..Settings::new(0, redis.url(), Lease::SHORT) };
    let replica = Replica::start(0, settings);
    let token = |role: &str| json(&replica.ask(&format!("GET /leader/{role}"), ""))["token"].as_u64();
    let older = until_some("the role leads", || token("older"));
    let first = until_some("the other leads, too", || token("newer"));
    // It stays out for a moment, and begins another term.
    assert_eq!(replica.ask("POST /leader/newer/resign", r#"{"cooldown":"100ms"}"#).status, 202);
    let newer = until_some("it leads again", || token("newer").filter(|token| *token > first));
    assert!(older < newer);
    let last = || job(&replica, "tick")["last"]["run"].clone();
    until("the job runs", || job(&replica, "tick")["last_success"].is_string());
    std::fs::write(&replica.config, replica.config_with(&config("older"))).expect("a configuration");
    until("the job is the other role's", || job(&replica, "tick")["role"] == "older");
    let before = last();
    until("the job goes on", || last() != before);
    assert_eq!(token("older"), Some(older), "in the same term");
    assert!(replica.has_logged(&["the job's ledger is this role's from now on"]));
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
    let promised = Instant::now();
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
    // It is told a moment after the lease is gone.
    until("it is a standby", || json(&replica.ask("GET /leader", ""))["state"] == "standby");
    assert!(promised.elapsed() < Duration::from_millis(lease.validity), "it waits for no promise of the program's");
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
