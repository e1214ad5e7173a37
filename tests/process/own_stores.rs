//! Locks and jobs on a Redis of their own beside an election on a quorum, or on Lease objects: what befalls the one
//! store is no matter to the others.

use std::time::{Duration, Instant};

use serde_json::Value;
use testkit::kubernetes::FakeApi;
use testkit::quorum::Members;
use testkit::redis::{Data, RedisServer};
use testkit::sidecars::apps::Apps;
use testkit::sidecars::claims::Term;
use testkit::sidecars::replica::{Lease, Replica, Settings};
use testkit::wait::{until, until_some};

use crate::group::ROLE;

const REPLICAS: usize = 2;
const LEASE: Lease = Lease::SHORT;
/// A Redis that is new, or has lost everything, grants no lock for as long.
const LOCKS_LEASE: Duration = Duration::from_secs(2);

/// Replicas, the apps that watch whether the promises are kept, and what locks and jobs are on. Fields end in this
/// order: the replicas before what they use.
struct Fleet {
    replicas: Vec<Replica>,
    apps: Apps,
    locks: RedisServer,
    jobs: RedisServer,
}

impl Fleet {
    fn start(settings: impl Fn(usize) -> Settings) -> Self {
        let (locks, jobs) = (RedisServer::start(), RedisServer::start());
        let apps = Apps::start(REPLICAS, ROLE);
        let replica = |number| {
            let more = format!(
                "locks: {{ lease: {LOCKS_LEASE:?}, store: {{ redis: {{ url: '{}', commandTimeout: 400ms }} }} }}\n\
                 jobsStore: {{ redis: {{ url: '{}', commandTimeout: 400ms }} }}\n\
                 jobs: [{{ name: tick, schedule: '@every 1s', run: {{ exec: {{ command: ['true'] }} }} }}]\n",
                locks.url(),
                jobs.url()
            );
            let replica = Replica::start(number, Settings { more, ..settings(number) });
            apps.ask_at(&replica);
            replica
        };
        Self { replicas: (0..REPLICAS).map(replica).collect(), apps, locks, jobs }
    }

    fn leader(&self) -> Term {
        until_some("somebody leads", || self.apps.leader())
    }

    /// Waits until this term's holder says, `later` from now, that it still leads with the same token.
    fn still_leads(&self, term: &Term, later: Duration) {
        let moment = Instant::now() + later;
        until("the leader keeps its token", || {
            let Some(seen) = self.apps.last_after(term.who.replica, moment) else { return false };
            assert!(!seen.told.leader || seen.told.token == Some(term.token), "another token: {seen:?}");
            seen.told.leader
        });
    }

    /// Has the leader resign, and waits for the next.
    fn hands_over(&self, term: &Term) -> Term {
        let answer =
            self.replicas[term.who.replica].ask(&format!("POST /leader/{ROLE}/resign"), r#"{"cooldown":"1s"}"#);
        assert_eq!(answer.status, 202, "{}", answer.body);
        until_some("a later term begins", || self.apps.leader().filter(|next| next.token > term.token))
    }

    /// Takes a lock and gives it back.
    fn uses_a_lock(&self) {
        until("a lock is granted", || {
            let answer = self.replicas[0].ask("POST /locks/order-42", r#"{"wait":"5s"}"#);
            // 503: guarded, or not connected again.
            assert!(matches!(answer.status, 201 | 503), "{answer:?}");
            let Ok(grant) = serde_json::from_str::<Value>(&answer.body) else { panic!("{answer:?}") };
            grant["lock"]
                .as_str()
                .is_some_and(|id| self.replicas[0].ask(&format!("DELETE /locks/order-42/{id}"), "").status == 204)
        });
    }

    /// How many runs have succeeded, as their leaders count them.
    fn runs(&self) -> f64 {
        let of = |replica: &Replica| {
            let labels = [("job_name", "tick"), ("outcome", "succeeded")];
            replica.metric("baton_job_runs_total", &labels).expect("it is there from the start")
        };
        self.replicas.iter().map(of).sum()
    }

    fn runs_a_job(&self) {
        let before = self.runs();
        until("a run succeeds", || self.runs() > before);
    }

    /// Waits until every replica tells that the stores of these are up, or down.
    fn tells(&self, locks_up: bool, jobs_up: bool) {
        for (family, up) in [("baton_locks_store_up", locks_up), ("baton_jobs_store_up", jobs_up)] {
            let told = |replica: &Replica| replica.metric(family, &[]) == Some(f64::from(u8::from(up)));
            until(&format!("{family} is {up}"), || self.replicas.iter().all(told));
        }
    }

    fn is_ready(&self) {
        for replica in &self.replicas {
            assert_eq!(testkit::sidecars::http::ask(replica.telemetry(), "GET /readyz", "").status, 200);
        }
    }

    fn finish(mut self, scenario: &str) {
        self.replicas.iter_mut().for_each(Replica::kill);
        let found = self.apps.breaches();
        assert!(found.is_empty(), "{} breaches: {}", found.len(), found[..found.len().min(10)].join("\n"));
        let report = self.apps.finish();
        let (answers, terms, leaderless) = (report.answers, report.terms.len(), report.leaderless.as_millis());
        println!("{scenario}: {answers} answers, {terms} terms, leaderless {leaderless} ms");
    }
}

/// One is stopped, the other frozen, then the other way round. The leader keeps its term, roles are handed over, and
/// what is asked of a store that is well is done.
fn whatever_befalls_them_the_election_goes_on(fleet: &mut Fleet) {
    let term = fleet.leader();
    fleet.uses_a_lock();
    fleet.runs_a_job();
    fleet.tells(true, true);

    fleet.locks.stop(Data::Lost);
    fleet.tells(false, true);
    fleet.still_leads(&term, LEASE.duration() * 2);
    fleet.is_ready();
    let answer = fleet.replicas[0].ask("POST /locks/order-42", "{}");
    assert!(answer.status == 503 && answer.body.contains("store-unavailable"), "{answer:?}");
    fleet.runs_a_job();
    fleet.jobs.pause();
    fleet.tells(false, false);
    let next = fleet.hands_over(&term);
    fleet.still_leads(&next, LEASE.duration());
    fleet.locks.start_again();
    fleet.jobs.resume();
    fleet.tells(true, true);
    fleet.uses_a_lock();
    fleet.runs_a_job();

    // Nobody asks anything of the locks' store now.
    fleet.locks.pause();
    fleet.jobs.stop(Data::Lost);
    fleet.tells(false, false);
    fleet.still_leads(&next, LEASE.duration());
    let last = fleet.hands_over(&next);
    fleet.locks.resume();
    fleet.jobs.start_again();
    fleet.tells(true, true);
    fleet.uses_a_lock();
    fleet.runs_a_job();
    fleet.still_leads(&last, Duration::ZERO);
    let warned = |words: &str| fleet.replicas.iter().all(|replica| replica.has_logged(&["WARN", words]));
    assert!(warned("the store of locks does not answer") && warned("the store of jobs does not answer"));
    assert!(!warned("the store does not answer"));
}

#[test]
fn a_quorum_elects_whatever_befalls_the_stores_of_locks_and_jobs_and_the_other_way_round() {
    let mut members = Members::start(3);
    let urls = members.urls();
    let mut fleet = Fleet::start(|number| Settings::on_quorum(number, &urls, LEASE));
    whatever_befalls_them_the_election_goes_on(&mut fleet);
    // Two of three: nobody is elected, and locks are no worse for it.
    members.servers[0].stop(Data::Kept);
    members.servers[1].pause();
    until("nobody leads", || fleet.replicas.iter().all(|replica| replica.metric("baton_store_up", &[]) == Some(0.0)));
    fleet.tells(true, true);
    fleet.uses_a_lock();
    members.servers[0].start_again();
    members.servers[1].resume();
    fleet.leader();
    fleet.runs_a_job();
    fleet.finish("a quorum, locks and jobs elsewhere");
}

#[test]
fn lease_objects_elect_whatever_befalls_the_stores_of_locks_and_jobs() {
    let api = FakeApi::start();
    let mut fleet = Fleet::start(|number| Settings::on_kubernetes(number, api.kubeconfig(), LEASE));
    whatever_befalls_them_the_election_goes_on(&mut fleet);
    fleet.finish("Lease objects, locks and jobs elsewhere");
}

#[test]
fn locks_and_jobs_may_share_a_redis_that_is_also_the_elections() {
    let redis = RedisServer::start();
    let mut settings = Settings::new(0, redis.url(), LEASE);
    let own = format!("{{ redis: {{ url: '{}' }} }}", redis.url());
    settings.more = format!("locks: {{ lease: {LOCKS_LEASE:?}, store: {own} }}\njobsStore: {own}\n");
    let replica = Replica::start(0, settings);
    until("both are reached", || {
        ["baton_locks_store_up", "baton_jobs_store_up"].iter().all(|name| replica.metric(name, &[]) == Some(1.0))
    });
    until("a lock is granted", || replica.ask("POST /locks/a", r#"{"wait":"5s"}"#).status == 201);
    assert_eq!(redis.command(&["EXISTS", "baton:{locks}:lock:a"]).number(), 1);
}

#[test]
fn a_store_of_their_own_comes_and_goes_with_a_restart_and_says_so() {
    let (redis, own) = (RedisServer::start(), RedisServer::start());
    let replica = Replica::start(0, Settings::new(0, redis.url(), LEASE));
    assert_eq!(replica.metric("baton_jobs_store_up", &[]), None, "absent where there is none");
    let more = format!("jobsStore: {{ redis: {{ url: '{}' }} }}\n", own.url());
    let text = replica.config_with(&LEASE.role(ROLE, "")) + &more;
    std::fs::write(&replica.config, text).expect("a configuration");
    until("the restart is asked for", || replica.has_logged(&["WARN", "jobsStore", "needs a restart"]));
    assert_eq!(replica.metric("baton_jobs_store_up", &[]), None);
}
