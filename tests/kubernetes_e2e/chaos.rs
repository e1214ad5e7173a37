//! Random faults, many at a time, on five replicas and the real API server. `BATON_CHAOS_SEED` repeats a run's faults,
//! though not the moments at which the processes meet them; `BATON_CHAOS_SECONDS` makes the runs longer, or
//! `BATON_CHAOS_FAULTS`, which says how many faults there are to be.

use std::env;
use std::time::{Duration, Instant};

use kube::api::{DeleteParams, Patch, PatchParams};
use rustix::process::Signal;
use serde_json::{Value, json};
use testkit::apiserver::Cluster;
use testkit::sidecars::claims::Claim;
use testkit::wait::{last_for, until};

use crate::elector::{self, Campaign, ClientGo, Elector};
use crate::group::{self, Group, LEASE_NAME, TIMINGS};

const REPLICAS: usize = 5;
const SECONDS_DEFAULT: u64 = 100;
/// Between two looks at everything that was claimed.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// An edit waits for the API server no longer.
const EDIT_MAX: Duration = Duration::from_secs(5);
/// What a busy machine may add to what the protocol takes.
const SLACK: Duration = Duration::from_secs(4);

/// What can be made good later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ill {
    ReplicaDown(usize),
    ReplicaPaused(usize),
    ServerDown,
    ServerPaused,
}

impl Ill {
    fn is_of_the_server(self) -> bool {
        matches!(self, Self::ServerDown | Self::ServerPaused)
    }
}

/// What was done, and when; printed if the test panics.
struct FaultLog {
    seed: u64,
    begun: Instant,
    lines: Vec<String>,
}

impl FaultLog {
    fn note(&mut self, what: &str) {
        let at = self.begun.elapsed().as_millis();
        self.lines.push(format!("{at:>7} ms  {what}"));
    }
}

impl Drop for FaultLog {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- faults of BATON_CHAOS_SEED={}\n{}", self.seed, self.lines.join("\n"));
        }
    }
}

struct Chaos {
    group: Group,
    elector: Option<Elector>,
    dice: fastrand::Rng,
    /// What is wrong, and when it will be made good.
    ills: Vec<(Instant, Ill)>,
    faults: usize,
    /// Last, so that it is printed after the replicas' logs.
    log: FaultLog,
}

fn from_environment(name: &str) -> Option<u64> {
    let text = env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text}: a whole number is wanted")))
}

impl Chaos {
    async fn start() -> Self {
        let seed = from_environment("BATON_CHAOS_SEED").unwrap_or_else(|| fastrand::u64(..));
        println!("BATON_CHAOS_SEED={seed}");
        Self {
            group: group::start(Cluster::start().await, REPLICAS).await,
            elector: None,
            dice: fastrand::Rng::with_seed(seed),
            ills: Vec::new(),
            faults: 0,
            log: FaultLog { seed, begun: Instant::now(), lines: Vec::new() },
        }
    }

    fn fall_ill(&mut self, ill: Ill, ms: std::ops::Range<u64>) {
        let for_ms = self.dice.u64(ms);
        self.log.note(&format!("{ill:?} for {for_ms} ms"));
        self.ills.push((Instant::now() + Duration::from_millis(for_ms), ill));
    }

    /// One random fault, on something that is well.
    async fn strike(&mut self) {
        self.faults += 1;
        let replica = self.dice.usize(0..REPLICAS);
        // Whoever leads is hurt as often as all others together.
        let replica = self.group.apps.leads().filter(|_| self.dice.bool()).map_or(replica, |who| who.replica);
        let is_well = |ill| !self.ills.iter().any(|(_, other)| *other == ill);
        let replica_is_well = is_well(Ill::ReplicaDown(replica)) && is_well(Ill::ReplicaPaused(replica));
        let server_is_well = !self.ills.iter().any(|(_, ill)| ill.is_of_the_server());
        match self.dice.u8(0..20) {
            0..3 if replica_is_well => {
                self.group.replicas[replica].kill();
                self.fall_ill(Ill::ReplicaDown(replica), 50..3_000);
            }
            3..7 if replica_is_well => {
                self.group.replicas[replica].signal(Signal::STOP);
                self.fall_ill(Ill::ReplicaPaused(replica), 50..8_000);
            }
            7..9 if replica_is_well => self.terminate(replica),
            9..13 if server_is_well => self.strike_server(),
            13..18 if server_is_well => self.edit().await,
            _ if server_is_well => self.contend().await,
            _ => self.faults -= 1,
        }
    }

    /// As a rollout does.
    fn terminate(&mut self, replica: usize) {
        self.log.note(&format!("SIGTERM to replica {replica}"));
        self.group.replicas[replica].signal(Signal::TERM);
        let status = self.group.replicas[replica].wait_end();
        assert_eq!(status.code(), Some(0), "replica {replica} ended badly");
        self.fall_ill(Ill::ReplicaDown(replica), 50..2_000);
    }

    /// Shorter and longer than the lease. A cluster of the user's is left alone.
    fn strike_server(&mut self) {
        let (long, down) = (self.dice.bool(), self.dice.u8(0..3) == 0);
        let Some(server) = self.group.cluster.server() else { return };
        let ms = if long { TIMINGS.duration..2 * TIMINGS.duration } else { 50..TIMINGS.duration };
        if down {
            server.kill();
            self.fall_ill(Ill::ServerDown, 1..ms.end);
        } else {
            server.pause();
            self.fall_ill(Ill::ServerPaused, ms);
        }
    }

    /// As people do it with kubectl: who knows what they are about. Beside client-go only what leaves it a record to
    /// wait for: it takes an empty holder for a release, and a shorter lease for what was promised.
    async fn edit(&mut self) {
        let number = self.dice.u32(..);
        let kinds = if self.elector.is_some() { 6 } else { 9 };
        let edit: Value = match self.dice.u8(0..kinds) {
            0 => json!({"metadata": {"labels": {"team": format!("t{number}")}}}),
            1 => json!({"metadata": {"annotations": {"note": format!("n{number}")}}}),
            2 => json!({"spec": {"holderIdentity": format!("somebody-{number}")}}),
            3 => json!({"spec": {"renewTime": "2001-02-03T04:05:06.000000Z"}}),
            4 => json!({"spec": {"renewTime": null, "acquireTime": null}}),
            5 => json!({"spec": {"leaseTransitions": self.dice.i32(0..9)}}),
            6 => json!({"spec": {"holderIdentity": ""}}),
            7 => json!({"spec": {"holderIdentity": null}}),
            _ => json!({"spec": {"leaseDurationSeconds": self.dice.i32(1..9)}}),
        };
        self.log.note(&format!("edited: {edit}"));
        let leases = self.group.cluster.leases();
        let (with, edit) = (PatchParams::default(), Patch::Merge(&edit));
        let edited = tokio::time::timeout(EDIT_MAX, leases.patch(LEASE_NAME, &with, &edit)).await;
        if !matches!(edited, Ok(Ok(_))) {
            self.log.note(&format!("the edit was not done: {edited:?}"));
        }
    }

    /// Every replica, for longer than the lease: client-go takes over.
    fn pause_all(&mut self) {
        for replica in 0..REPLICAS {
            let (down, paused) = (Ill::ReplicaDown(replica), Ill::ReplicaPaused(replica));
            if !self.ills.iter().any(|(_, ill)| *ill == down || *ill == paused) {
                self.group.replicas[replica].signal(Signal::STOP);
                self.fall_ill(paused, TIMINGS.duration..2 * TIMINGS.duration);
            }
        }
    }

    /// What else takes part: client-go, or somebody who deletes the object. Not both: client-go does not wait when the
    /// object is gone, and leads beside whoever had it.
    async fn contend(&mut self) {
        match &mut self.elector {
            Some(elector) if elector.leads() => {
                self.log.note("the elector resigns");
                elector.resign();
                return;
            }
            Some(_) => return self.pause_all(),
            None => {}
        }
        let leases = self.group.cluster.leases();
        let deleted = tokio::time::timeout(EDIT_MAX, leases.delete(LEASE_NAME, &DeleteParams::default())).await;
        self.log.note(&format!("deleted: {}", matches!(deleted, Ok(Ok(_)))));
    }

    fn heal(&mut self, ill: Ill) {
        self.log.note(&format!("{ill:?} is over"));
        match ill {
            Ill::ReplicaDown(replica) => self.group.start_again(replica),
            Ill::ReplicaPaused(replica) => self.group.replicas[replica].signal(Signal::CONT),
            Ill::ServerDown => self.group.cluster.server().expect("it was ours").start_again(),
            Ill::ServerPaused => self.group.cluster.server().expect("it was ours").resume(),
        }
    }

    fn heal_those_due(&mut self) {
        let now = Instant::now();
        while let Some(at) = self.ills.iter().position(|(due, _)| *due <= now) {
            let (_, ill) = self.ills.swap_remove(at);
            self.heal(ill);
        }
    }

    /// Nothing is wrong with what was claimed so far.
    fn look(&self) {
        let mut found = self.group.apps.breaches();
        if let Some(elector) = &self.elector {
            found.extend(overlaps(&self.group.apps.claims(), &elector.terms(), self.log.begun));
        }
        assert!(found.is_empty(), "{} breaches: {}", found.len(), found[..found.len().min(10)].join("\n"));
    }

    async fn run(&mut self) {
        let wanted = from_environment("BATON_CHAOS_FAULTS");
        let seconds = from_environment("BATON_CHAOS_SECONDS").or(wanted.map(|_| 0));
        let span = Duration::from_secs(seconds.unwrap_or(SECONDS_DEFAULT));
        let (mut next, mut next_look) = (Instant::now(), Instant::now() + LOOK_EVERY);
        while self.log.begun.elapsed() < span || (self.faults as u64) < wanted.unwrap_or(0) {
            self.heal_those_due();
            if Instant::now() >= next {
                self.strike().await;
                next = Instant::now() + Duration::from_millis(self.dice.u64(200..3_500));
            }
            if Instant::now() >= next_look {
                self.look();
                next_look = Instant::now() + LOOK_EVERY;
            }
            let due = self.ills.iter().map(|(due, _)| *due).fold(next.min(next_look), Instant::min);
            last_for(due.saturating_duration_since(Instant::now()));
        }
        while let Some((_, ill)) = self.ills.pop() {
            self.heal(ill);
        }
    }

    /// In the end somebody leads, and nothing was wrong.
    fn finish(mut self, scenario: &str) {
        let (mut healed_at, mut longest) = (Instant::now(), 2 * TIMINGS.duration() + SLACK);
        let mut theirs = String::new();
        if let Some(elector) = &mut self.elector {
            elector.kill();
            healed_at = Instant::now();
            longest += elector::LEASE;
            theirs = format!("{} terms of client-go's, ", elector.terms().len());
        }
        let last = self.group.leader_that("somebody leads in the end", |term| term.until > healed_at);
        let took = last.from.saturating_duration_since(healed_at);
        assert!(took < longest, "no leader for {took:?} after the last fault");
        self.look();
        let server = self.group.cluster.server();
        let memory = server.map_or("left alone".to_owned(), |server| format!("{} MiB", server.resident_kib() / 1024));
        let (seed, seconds) = (self.log.seed, self.log.begun.elapsed().as_secs());
        let faults = self.faults;
        let measured = format!(
            "seed {seed}, {seconds} s, {faults} faults, API server {memory}, a leader {} ms after the last, {theirs}",
            took.as_millis()
        );
        self.group.finish(scenario, &measured);
    }
}

/// Claims of Baton's while client-go led.
fn overlaps(claims: &[Claim], terms: &[(Instant, Option<Instant>)], origin: Instant) -> Vec<String> {
    let ms = |at: Instant| at.saturating_duration_since(origin).as_millis();
    let mut found = Vec::new();
    for (from, until) in terms {
        let at_once = claims.iter().filter(|claim| claim.until > *from && until.is_none_or(|until| claim.from < until));
        found.extend(at_once.map(|claim| {
            let (who, to) = (claim.who.replica, until.map(ms));
            let (ours, theirs) = (ms(claim.from)..ms(claim.until), ms(*from));
            format!("P1, two leaders: replica {who} {ours:?} ms and client-go {theirs}..{to:?} ms")
        }));
    }
    found
}

#[tokio::test]
async fn whatever_happens_on_a_real_api_server_at_most_one_replica_leads() {
    let mut chaos = Chaos::start().await;
    chaos.group.leader();
    chaos.run().await;
    chaos.finish("chaos on the API server");
}

/// With the same lease duration, as client-go before 1.27 needs it: beside a longer one nothing is promised.
async fn whatever_happens_beside(built_on: ClientGo) {
    assert_eq!(TIMINGS.duration(), elector::LEASE);
    let mut chaos = Chaos::start().await;
    chaos.group.leader();
    let marks = json!({"metadata": {"labels": {"kept": "label"}, "annotations": {"kept": "annotation"}}});
    let leases = chaos.group.cluster.leases();
    leases.patch(LEASE_NAME, &PatchParams::default(), &Patch::Merge(&marks)).await.expect("the Lease is there");
    let campaign = Campaign::new(&chaos.group.cluster, &chaos.group.client_config, LEASE_NAME, "theirs");
    let elector = Elector::start(&Campaign { built_on, ..campaign });
    until("it takes part", || elector.leader().is_some());
    chaos.elector = Some(elector);
    chaos.run().await;
    let metadata = chaos.group.lease().await.metadata;
    let kept = |map: Option<std::collections::BTreeMap<String, String>>| map.and_then(|map| map.get("kept").cloned());
    assert_eq!((kept(metadata.labels), kept(metadata.annotations)), (Some("label".into()), Some("annotation".into())));
    chaos.finish(&format!("chaos with client-go, {built_on:?}"));
}

#[tokio::test]
async fn whatever_happens_beside_an_elector_built_on_client_go_at_most_one_leads() {
    whatever_happens_beside(ClientGo::Current).await;
}

#[tokio::test]
async fn whatever_happens_beside_an_elector_built_on_client_go_1_26_at_most_one_leads() {
    whatever_happens_beside(ClientGo::V1_26).await;
}

#[test]
fn the_checker_sees_a_claim_beside_an_elector() {
    let origin = Instant::now();
    let at = |ms| origin + Duration::from_millis(ms);
    let who = testkit::sidecars::claims::Who { replica: 0, start: 1 };
    let claim = |from, until| Claim { who, token: 1, from: at(from), until: at(until) };
    let count = |claims: &[Claim]| overlaps(claims, &[(at(100), Some(at(200))), (at(300), None)], origin).len();
    assert_eq!(count(&[claim(0, 100), claim(200, 300)]), 0);
    assert_eq!(count(&[claim(0, 101), claim(199, 250), claim(120, 130)]), 3);
    assert_eq!(count(&[claim(250, 301), claim(900, 1_000)]), 2);
}
