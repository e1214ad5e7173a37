//! Jobs whose ledgers are Lease objects of a real API server, while leaders are killed and the server is restarted and
//! paused: no attempt is made twice, and no slot is lost that `catchUp` covers. `BATON_JOBS_KILLS` says how many
//! leaders are killed (a quarter as many times each the server is restarted and paused), `BATON_JOBS_SEED` repeats the
//! faults.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use testkit::apiserver::Cluster;
use testkit::sidecars::jobs::{App, Job, audit, audit_calls, job, json, leader, runs};
use testkit::sidecars::replica::{ROLE, Replica, Settings};
use testkit::wait::{last_for, until, until_some};

use crate::group::{TIMINGS, documented_rules_with, settings};

const REPLICAS: usize = 3;
const JOB: Job = Job { period_s: 10, overlaps: true, history: [100, 35] };
const OBJECT: &str = "baton-job.tick";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    LeaderKilled,
    ServerRestarted,
    ServerPaused,
}

fn from_environment(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().expect("a whole number"))
}

/// Replicas that may do what the documentation says for this job, and no more.
async fn start(cluster: &Cluster, job: &str, section: &str) -> Vec<Replica> {
    let kubeconfig = cluster.account("sidecar", documented_rules_with(job)).await;
    let roles = TIMINGS.role(ROLE, "") + section;
    (0..REPLICAS)
        .map(|number| {
            let settings = Settings { roles: roles.clone(), ..settings(number, cluster.namespace(), &kubeconfig) };
            Replica::start(number, settings)
        })
        .collect()
}

/// Waits for a moment about the next slot, so that a fault meets its claim, its attempt or its end.
fn about_the_next_slot(dice: &mut fastrand::Rng) {
    let period_ms = JOB.period_s * 1_000;
    let now_ms = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_millis();
    let past_ms = u64::try_from(now_ms % u128::from(period_ms)).expect("below a period");
    last_for(Duration::from_millis((period_ms - past_ms + dice.u64(0..1_500)).saturating_sub(300)));
}

fn strike(fault: Fault, cluster: &mut Cluster, replicas: &mut [Replica], dice: &mut fastrand::Rng) {
    let server = cluster.server().expect("it is the tests' own");
    match fault {
        Fault::LeaderKilled => {
            let at = until_some("somebody leads", || leader(replicas));
            replicas[at].kill();
            last_for(Duration::from_millis(dice.u64(0..1_500)));
            replicas[at].start_again();
        }
        Fault::ServerRestarted => {
            server.kill();
            last_for(Duration::from_millis(dice.u64(0..2 * TIMINGS.duration)));
            server.start_again();
        }
        Fault::ServerPaused => {
            server.pause();
            last_for(Duration::from_millis(dice.u64(500..2 * TIMINGS.duration)));
            server.resume();
        }
    }
}

/// So many, in an order of chance.
fn faults(kills: usize, dice: &mut fastrand::Rng) -> Vec<Fault> {
    let others = kills.div_ceil(4);
    let mut faults = vec![Fault::LeaderKilled; kills];
    faults.extend(vec![Fault::ServerRestarted; others]);
    faults.extend(vec![Fault::ServerPaused; others]);
    dice.shuffle(&mut faults);
    faults
}

#[tokio::test]
async fn no_attempt_is_made_twice_and_no_slot_is_lost_while_leaders_and_the_server_come_and_go() {
    let kills = usize::try_from(from_environment("BATON_JOBS_KILLS", 4)).expect("a count");
    let seed = from_environment("BATON_JOBS_SEED", 5);
    let mut dice = fastrand::Rng::with_seed(seed);
    let mut cluster = Cluster::start_own().await;
    let app = App::start(seed);
    let mut replicas = start(&cluster, "tick", &JOB.section(&app)).await;
    until("a run has succeeded", || job(&replicas[0], "tick")["last_success"].is_string());
    let begun = Instant::now();
    for fault in faults(kills, &mut dice) {
        about_the_next_slot(&mut dice);
        strike(fault, &mut cluster, &mut replicas, &mut dice);
    }
    // What was missed is caught up, and what was begun ends.
    until("the last faults are made good", || {
        let told = job(&replicas[0], "tick");
        let next = told["next"].as_str().and_then(|next| next.parse::<jiff::Timestamp>().ok());
        leader(&replicas).is_some() && next.is_some_and(|next| next > jiff::Timestamp::now())
    });
    for replica in &replicas[..2] {
        until("the job is suspended", || replica.ask("POST /jobs/tick/suspend", "").status == 204);
    }
    until("nothing goes on", || {
        let job = job(&replicas[0], "tick");
        job["suspended"] == true && job["active"].as_array().is_some_and(Vec::is_empty)
    });
    let account = audit(&replicas[0], JOB);
    audit_calls(&app.calls());
    let lost: Vec<&String> = account.without_run.keys().filter(|reason| *reason != "suspended").collect();
    assert!(lost.is_empty() && account.failed == 0, "{account:?}");
    let lease = cluster.leases().get(OBJECT).await.expect("the ledger is there");
    let length = lease.metadata.annotations.and_then(|all| all.get("baton.dev/ledger").map(String::len));
    println!(
        "jobs on the API server: seed {seed}, {} s, {kills} kills, {} restarts and as many pauses of the server; {} \
         calls, a ledger of {length:?} bytes; {account:?}",
        begun.elapsed().as_secs(),
        kills.div_ceil(4),
        app.calls().len()
    );
}

#[tokio::test]
async fn what_is_asked_of_a_job_at_any_replica_is_heard_by_the_leader() {
    let cluster = Cluster::start_own().await;
    let section = "jobs:\n  - { name: once, schedule: '@yearly', run: { exec: { command: ['true'] } } }\n";
    let replicas = start(&cluster, "once", section).await;
    let leads = until_some("somebody leads", || leader(&replicas));
    for (number, replica) in replicas.iter().enumerate() {
        let asked_at = Instant::now();
        let answer = replica.ask("POST /jobs/once/run", "");
        assert_eq!(answer.status, 202, "{answer:?}");
        let run = json(&answer)["run"].clone();
        let succeeded =
            || runs(replica, "once").iter().any(|other| other["run"] == run && other["phase"] == "succeeded");
        until("it has succeeded", succeeded);
        println!("asked at replica {number}, the leader is {leads}: done after {:?}", asked_at.elapsed());
    }
}
