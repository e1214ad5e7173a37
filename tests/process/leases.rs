//! The promises on Lease objects: `baton run` on an API service, with faults of both.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use testkit::kubernetes::{FakeApi, Fault};
use testkit::sidecars::apps::{Apps, Seen};
use testkit::sidecars::claims::Term;
use testkit::sidecars::replica::{Lease, Replica, Settings};
use testkit::wait::{SLACK, last_for, until, until_some};

use crate::group::{ROLE, ms_between};

const NAME: &str = "baton-scheduler";
/// An API service, replicas on it, and the apps that watch whether the promises are kept.
struct Cluster {
    replicas: Vec<Replica>,
    apps: Apps,
    api: FakeApi,
}

impl Cluster {
    fn start(count: usize, lease: Lease) -> Self {
        Self::start_on(FakeApi::start(), count, lease)
    }

    fn start_on(api: FakeApi, count: usize, lease: Lease) -> Self {
        let apps = Apps::start(count, ROLE);
        let replicas = (0..count).map(|number| {
            let replica = Replica::start(number, Settings::on_kubernetes(number, api.kubeconfig(), lease));
            apps.ask_at(&replica);
            replica
        });
        Self { replicas: replicas.collect(), apps, api }
    }

    fn leader_that(&self, what: &str, wanted: impl Fn(&Term) -> bool) -> Term {
        until_some(what, || self.apps.leader().filter(|term| wanted(term)))
    }

    fn leader(&self) -> Term {
        self.leader_that("somebody leads", |_| true)
    }

    fn leader_after(&self, earlier: &Term) -> Term {
        self.leader_that("a later term begins", |term| term.token > earlier.token)
    }

    fn answer_after(&self, replica: usize, moment: Instant, what: &str, wanted: impl Fn(&Seen) -> bool) -> Seen {
        until_some(what, || self.apps.last_after(replica, moment).filter(|seen| wanted(seen)))
    }

    fn start_again(&mut self, replica: usize) {
        self.replicas[replica].start_again();
        self.apps.ask_at(&self.replicas[replica]);
    }

    fn finish(mut self, scenario: &str, measured: &str) {
        self.replicas.iter_mut().for_each(Replica::kill);
        let found = self.apps.breaches();
        assert!(found.is_empty(), "{} breaches: {}", found.len(), found[..found.len().min(10)].join("\n"));
        let report = self.apps.finish();
        let (answers, terms, leaderless) = (report.answers, report.terms.len(), report.leaderless.as_millis());
        println!("leases, {scenario}: {measured}{answers} answers, {terms} terms, leaderless {leaderless} ms");
    }
}

#[test]
fn a_release_that_is_forbidden_is_told_once_and_not_asked_for_again() {
    let mut cluster = Cluster::start(1, Lease::LONGER);
    cluster.leader();
    // As when an uninstall takes the rights away before the pods have ended.
    cluster.api.forbid(&["update"]);
    let before = cluster.api.count("update", NAME);
    cluster.replicas[0].signal(Signal::TERM);
    assert!(cluster.replicas[0].wait_end().success());
    let more = cluster.api.count("update", NAME) - before;
    assert!(more <= 2, "{more} requests: the release, and a renewal that may have been due before");
    let log = cluster.replicas[0].log();
    assert_eq!(
        log.lines().filter(|line| line.contains("WARN") && line.contains("verbs: [update]")).count(),
        1,
        "{log}"
    );
    assert!(log.contains("the lease is left to run out"), "{log}");
    cluster.finish("a release that is forbidden", "");
}

#[test]
fn only_who_has_jobs_watches_the_wishes_for_them() {
    let (api, lease) = (FakeApi::start(), Lease::SHORT);
    let replica = Replica::start(0, Settings::on_kubernetes(0, api.kubeconfig(), lease));
    until("it leads", || replica.ask("GET /leading", "").status == 200);
    let watches = || api.count("watch", "baton-jobs.wishes");
    assert_eq!(watches(), 0, "nothing is to be heard, and nobody gave the right to");
    let job = "jobs:\n  - { name: once, schedule: '@yearly', run: { exec: { command: ['true'] } } }\n";
    let config = replica.config_with(&(lease.role(ROLE, "") + job));
    std::fs::write(&replica.config, config).expect("a configuration");
    until("a reload brings a job", || watches() == 1);
    assert_eq!(replica.ask("POST /jobs/once/run", "").status, 202);
    until("it has run", || replica.ask("GET /jobs/once", "").body.contains("\"phase\":\"succeeded\""));
    assert!(api.lease("baton-job.once").is_some_and(|lease| lease["metadata"]["labels"]["baton.dev/job"] == "once"));
}

#[test]
fn a_killed_leader_is_followed_when_its_lease_was_watched_to_its_end() {
    let mut cluster = Cluster::start(3, Lease::SHORT);
    let first = cluster.leader();
    let lease = cluster.api.lease(NAME).expect("the leader's");
    assert_eq!(lease["spec"]["holderIdentity"], format!("web-{}", first.who.replica));
    assert_eq!(lease["metadata"]["annotations"]["baton.dev/token"], first.token.to_string());
    let killed_at = Instant::now();
    cluster.replicas[first.who.replica].kill();
    let next = cluster.leader_after(&first);
    assert_ne!(next.who.replica, first.who.replica);
    let took = next.from - killed_at;
    assert!(took < Lease::SHORT.duration() + SLACK, "it took {took:?}");
    cluster.start_again(first.who.replica);
    let name = format!("web-{}", next.who.replica);
    cluster.answer_after(first.who.replica, Instant::now(), "the first one follows", |seen| {
        seen.told.holder.as_deref() == Some(&name)
    });
    cluster.finish("kill -9", &format!("handover {} ms, ", took.as_millis()));
}

#[test]
fn locks_are_answered_with_why_lease_objects_have_none() {
    let cluster = Cluster::start(1, Lease::SHORT);
    cluster.leader();
    for line in ["POST /locks/a", "GET /locks/a/hold"] {
        let answer = cluster.replicas[0].ask(line, "");
        assert_eq!(answer.status, 501, "{line}: {}", answer.body);
        assert!(
            answer.body.contains("locks-disabled") && answer.body.contains("an API server is no place"),
            "{answer:?}"
        );
    }
    cluster.finish("asked for locks", "");
}

#[test]
fn a_leader_paused_for_longer_than_its_lease_never_leads_with_its_old_token_again() {
    let cluster = Cluster::start(3, Lease::SHORT);
    let first = cluster.leader();
    cluster.replicas[first.who.replica].signal(Signal::STOP);
    let next = cluster.leader_after(&first);
    let resumed_at = Instant::now();
    cluster.replicas[first.who.replica].signal(Signal::CONT);
    cluster.answer_after(first.who.replica, resumed_at, "the first leader follows the new one", |seen| {
        seen.told.holder.as_deref() == Some(&format!("web-{}", next.who.replica))
    });
    let stale = cluster.apps.all_after(resumed_at).into_iter().find(|seen| seen.told.token == Some(first.token));
    assert!(stale.is_none(), "{stale:?}");
    cluster.finish("SIGSTOP for more than a lease", "");
}

#[test]
fn a_resigned_leader_and_a_terminated_one_hand_over_by_the_watch() {
    let mut cluster = Cluster::start(3, Lease::LONG);
    let first = cluster.leader();
    let answer =
        cluster.replicas[first.who.replica].ask(&format!("POST /leader/{ROLE}/resign"), "{\"cooldown\":\"30s\"}");
    assert_eq!(answer.status, 202, "{}", answer.body);
    let second = cluster.leader_after(&first);
    cluster.replicas[second.who.replica].signal(Signal::TERM);
    let third = cluster.leader_after(&second);
    assert_eq!(cluster.replicas[second.who.replica].wait_end().code(), Some(0));
    let terms = cluster.apps.terms();
    let ended = |token| terms.iter().find(|term| term.token == token).expect("it was seen").until;
    for (earlier, later) in [(&first, &second), (&second, &third)] {
        assert!(later.from >= ended(earlier.token), "a promise still stood");
        let took = later.from - ended(earlier.token);
        assert!(took < Lease::LONG.duration() / 2, "not by the watch, but by the lease's end: {took:?}");
    }
    let handover = ms_between(ended(first.token), second.from);
    let transitions = cluster.api.lease(NAME).expect("the third's")["spec"]["leaseTransitions"].clone();
    assert_eq!(transitions, 2, "as client-go counts them");
    cluster.finish("resign, SIGTERM", &format!("{handover} ms after the last promise, "));
}

#[test]
fn an_outage_shorter_than_the_lease_costs_no_leadership_and_a_longer_one_ends_it_in_time() {
    let cluster = Cluster::start(3, Lease::LONG);
    let first = cluster.leader();
    for fault in [Fault::Silent, Fault::Answer(503), Fault::CutAfter] {
        cluster.api.fail(&[], fault);
        last_for(Duration::from_millis(1_200));
        cluster.api.heal();
        let healed_at = Instant::now();
        let seen = cluster.answer_after(first.who.replica, healed_at, "it leads", |seen| seen.told.leader);
        assert_eq!(seen.told.token, Some(first.token));
        let updates = cluster.api.count("update", NAME);
        until("it renews again", || cluster.api.count("update", NAME) > updates + 1);
    }
    cluster.api.fail(&[], Fault::Silent);
    let silent_at = Instant::now();
    for replica in 0..3 {
        cluster.answer_after(replica, silent_at, "nobody leads, and the reason says why", |seen| {
            !seen.told.leader && seen.told.state == "unreachable"
        });
    }
    cluster.api.heal();
    cluster.leader_after(&first);
    cluster.finish("API outages", "");
}

#[test]
fn a_deleted_lease_is_put_back_under_the_same_token_and_nobody_else_leads_meanwhile() {
    let cluster = Cluster::start(3, Lease::SHORT);
    let first = cluster.leader();
    for _ in 0..3 {
        assert!(cluster.api.delete(NAME));
        until("it is put back", || cluster.api.lease(NAME).is_some());
        let annotations = &cluster.api.lease(NAME).expect("just seen")["metadata"]["annotations"];
        assert_eq!(annotations["baton.dev/token"], first.token.to_string());
    }
    let moment = Instant::now();
    let seen = cluster.answer_after(first.who.replica, moment, "it still leads", |seen| seen.told.leader);
    assert_eq!(seen.told.token, Some(first.token));
    assert_eq!(
        cluster.replicas[first.who.replica].role_metric("baton_lost_leases_total", &[("reason", "superseded")]),
        0.0
    );
    cluster.finish("Lease deleted under its leader", "");
}

#[test]
fn missing_rights_are_named_to_the_app_and_in_the_log_and_granted_ones_are_used() {
    let api = FakeApi::start();
    api.forbid(&["get", "watch", "create", "update"]);
    let cluster = Cluster::start_on(api, 1, Lease::SHORT);
    let seen = cluster.answer_after(0, Instant::now(), "the right that is missing is named", |seen| {
        seen.told.reason.as_deref().is_some_and(|reason| reason.contains("forbids to get"))
    });
    let reason = seen.told.reason.unwrap_or_default();
    for word in ["namespace shop", "resources: [leases]", "verbs: [get]"] {
        assert!(reason.contains(word), "{word}: {reason}");
    }
    assert_eq!(seen.told.state, "unreachable");
    until("the log says so, too", || cluster.replicas[0].has_logged(&["WARN", "forbids to get"]));
    let log = cluster.replicas[0].log();
    assert!(!log.contains("correct-horse"), "a credential in the log");
    assert!(!log.contains("kube_client"), "the client's own lines: {log}");
    cluster.api.forbid(&[]);
    cluster.leader();
    cluster.finish("wrong RBAC", "");
}

#[test]
fn whatever_an_api_server_answers_is_told_nobody_leads_on_it_and_it_is_asked_again() {
    let outages = [
        (Fault::Answer(401), "does not accept these credentials (401"),
        (Fault::Answer(403), "it forbids to"),
        (Fault::Answer(409), "changed the Lease first"),
        (Fault::Answer(410), "answers 410"),
        (Fault::Answer(429), "too many requests (429"),
        // For how long it asks to wait is told where the answer was not to a watch.
        (Fault::TooMany(1), "too many requests (429"),
        (Fault::Answer(500), "answers 500"),
        (Fault::Answer(503), "answers 503"),
        (Fault::CutBefore, "cannot be reached"),
        (Fault::Silent, "no answer from the store"),
    ];
    let meet = |fault: Fault, word: &str| {
        let cluster = Cluster::start(2, Lease::SHORT);
        let first = cluster.leader();
        cluster.api.fail(&[], fault.clone());
        let since = Instant::now();
        for replica in 0..2 {
            cluster.answer_after(replica, since, &format!("{word:?} is the reason"), |seen| {
                let reason = seen.told.reason.as_deref().unwrap_or_default();
                !seen.told.leader && seen.told.state == "unreachable" && reason.contains(word)
            });
        }
        cluster.api.heal();
        cluster.leader_after(&first);
        cluster.finish(&format!("{fault:?}"), "");
    };
    std::thread::scope(|scope| {
        for (fault, word) in outages {
            scope.spawn(move || meet(fault, word));
        }
    });
}
