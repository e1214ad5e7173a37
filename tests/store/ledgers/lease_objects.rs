//! Ledgers in Lease objects: the same rules and answers, and what an API server does to them. With
//! `BATON_TEST_APISERVER=real` a real one has them, but where it has to fail.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{SystemTime, UNIX_EPOCH};

use baton::config::KubernetesConfig;
use baton::protocol::Token;
use baton::protocol::jobs::{OpenReply, WriteReply};
use baton::store::StoreError;
use baton::store::kubernetes::KubernetesStore;
use serde_json::{Value, json};
use testkit::kubernetes::{FakeApi, Fault};
use testkit::{BOUND, wait_until, within};

use super::super::lease_api::LeaseApi;
use super::super::{leases_config, leases_of, ms};
use super::differential::{Behind, all_met, run};
use super::*;
use crate::suite::ledgers::{another_job, request, stale, stored, term};

const SEEDS: u64 = 60;
const WISHES: &str = "baton-jobs.wishes";
const REVISION: &str = "baton.dev/revision";
const BODY: &str = "baton.dev/ledger";

/// Where a job's ledger is.
fn name(desk: &Desk) -> String {
    format!("baton-job.{}", desk.job)
}

fn desk_of(store: KubernetesStore) -> Desk {
    Desk::new(Arc::new(store))
}

/// Listens, and waits until that has begun.
async fn ear_of(store: &dyn LedgerStore) -> Subscription<JobNews> {
    let mut news = store.changes();
    assert_eq!(next(&mut news).await, JobNews::Gap);
    news
}

#[tokio::test]
async fn what_holds_of_ledgers_holds_in_lease_objects() {
    run_ledgers(Arc::new(LeaseApi::start().store()), Bodies::Annotation).await;
}

impl Behind for LeaseApi {
    fn now(&self) -> u64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
        u64::try_from(since.as_micros()).expect("before the year 586000")
    }

    fn byte(&self, rng: &mut fastrand::Rng) -> u8 {
        rng.u8(..0x80)
    }

    fn lose(&self, desk: &Desk) {
        self.delete(&name(desk));
    }

    fn set_revision(&self, desk: &Desk, revision: u64) {
        self.edit(&name(desk), |lease| lease["metadata"]["annotations"][REVISION] = revision.to_string().into());
    }

    fn tell(&self, job: &str) {
        self.edit(WISHES, |lease| lease["metadata"]["annotations"]["baton.dev/wish"] = job.into());
    }
}

#[tokio::test]
async fn random_operations_on_ledgers_have_the_same_outcomes_in_lease_objects_and_on_the_reference() {
    let api = LeaseApi::start();
    let store: Arc<dyn LedgerStore> = Arc::new(api.store());
    let (mut news, mut seen) = (ear_of(&*store).await, BTreeMap::new());
    for seed in 0..SEEDS {
        run(&api, Arc::clone(&store), &mut news, seed, &mut seen).await;
    }
    all_met(&seen, 10);
}

#[tokio::test]
async fn of_many_who_write_on_one_version_at_once_one_has_written_and_the_others_see_it() {
    const WRITERS: usize = 12;
    let api = LeaseApi::start();
    let desk = desk_of(api.store());
    let mut base = None;
    for round in 0..10 {
        let writing = (0..WRITERS).map(|number| {
            let store = api.store();
            let (job, body) = (desk.job.clone(), format!("{round}: {number}"));
            tokio::spawn(async move { store.write(&job, request(Some(7), base, &body)).await })
        });
        let (mut written, mut seen) = (Vec::new(), BTreeSet::new());
        for writing in writing.collect::<Vec<_>>() {
            match writing.await.expect("no panic").expect("an answer") {
                WriteReply::Written { revision } => written.push(revision),
                WriteReply::Diverged(Some(other)) => drop(seen.insert(other.revision)),
                other => panic!("{other:?}"),
            }
        }
        assert_eq!((written.len(), seen.iter().collect::<Vec<_>>()), (1, vec![&written[0]]), "round {round}");
        base = Some(written[0]);
    }
}

#[tokio::test]
async fn a_write_whose_answer_is_lost_is_unknown_and_the_next_finds_out() {
    let api = FakeApi::start();
    let (patient, impatient) = (leases_config(), KubernetesConfig { command_timeout: ms(1_000), ..leases_config() });
    let store_of = |config| KubernetesStore::with_kubeconfig(config, api.kubeconfig(), ms(4_000), 7);
    for (fault, written) in
        [(Fault::SilentAfter, true), (Fault::Silent, false), (Fault::CutAfter, true), (Fault::Answer(500), false)]
    {
        let is_silent = matches!(fault, Fault::SilentAfter | Fault::Silent);
        let desk = desk_of(store_of(&patient));
        desk.open(7).await;
        let base = desk.written(Some(7), None, "a").await;
        // Only who waits for its end has a timeout that a busy machine may not keep.
        let asking = store_of(if is_silent { &impatient } else { &patient });
        api.fail_times(&["update"], 1, fault.clone());
        let lost = asking.write(&desk.job, request(Some(7), Some(base), "b")).await;
        if is_silent {
            assert_eq!(lost, Err(StoreError::Unknown { after: ms(1_000) }), "{fault:?}");
        } else {
            assert!(super::super::is_unreachable(&lost), "{fault:?}: {lost:?}");
        }
        api.heal();
        // Whoever is to be left alone for a moment is.
        let mut reply = None;
        testkit::wait_until_async(BOUND, "it is asked again", async || {
            reply = desk.store.write(&desk.job, request(Some(7), Some(base), "b")).await.ok();
            reply.is_some()
        })
        .await;
        match reply.expect("waited for") {
            WriteReply::Written { .. } => assert!(!written, "{fault:?}"),
            WriteReply::Diverged(Some(found)) => assert!(written && found.body == "b", "{fault:?}: {found:?}"),
            other => panic!("{fault:?}: {other:?}"),
        }
    }
}

/// What a request does that is executed when its sender has long given it up: it names the version that its sender
/// read.
#[tokio::test]
async fn a_write_that_comes_late_does_nothing_once_a_later_leader_has_looked() {
    let api = LeaseApi::start();
    let desk = desk_of(api.store());
    desk.open(7).await;
    let base = desk.written(Some(7), None, "a").await;
    let late = api.lease(&name(&desk)).expect("it is there");
    assert_eq!(desk.open(9).await, OpenReply::Opened(stored(base, "a")));
    let looked = api.lease(&name(&desk)).expect("it is there");
    assert_ne!(late["metadata"]["resourceVersion"], looked["metadata"]["resourceVersion"], "the look is a write");
    assert_eq!(desk.write(Some(7), Some(base), "late").await, stale(9));
    assert_eq!(desk.open(9).await, OpenReply::Opened(stored(base, "a")));
    assert_eq!(desk.read().await, stored(base, "a"));
    assert_eq!(api.lease(&name(&desk)), Some(looked), "who looks again, or just looks, writes nothing");
}

#[tokio::test]
async fn conflicts_without_end_are_told() {
    let api = FakeApi::start();
    let desk = desk_of(leases_of(&api));
    let base = desk.written(Some(7), None, "a").await;
    api.fail(&["update"], Fault::Answer(409));
    let told = desk.store.write(&desk.job, request(Some(7), Some(base), "b")).await.expect_err("conflicts").to_string();
    assert!(told.contains(&format!("the Lease {} was changed 8 times under this request", name(&desk))), "{told}");
    assert_eq!(desk.read().await, stored(base, "a"));
}

fn is_garbage<T: std::fmt::Debug>(reply: Result<T, StoreError>, desk: &Desk, word: &str) {
    match &reply {
        Err(StoreError::Garbage { key, why }) => {
            assert!(*key == format!("the Lease {}", name(desk)) && why.contains(word), "{word}: {reply:?}");
        }
        other => panic!("{word}: {other:?}"),
    }
}

/// Every request tells of it, and leaves the object as it is.
async fn all_refuse(api: &LeaseApi, desk: &Desk, word: &str) {
    let before = api.lease(&name(desk));
    is_garbage(desk.store.open(&desk.job, &term(9)).await, desk, word);
    is_garbage(desk.store.write(&desk.job, request(Some(9), None, "x")).await, desk, word);
    is_garbage(desk.store.write(&desk.job, request(None, None, "x")).await, desk, word);
    is_garbage(desk.store.read(&desk.job).await, desk, word);
    is_garbage(desk.store.forget(&desk.job).await, desk, word);
    assert!(before.is_some() && api.lease(&name(desk)) == before, "{word}");
}

#[tokio::test]
async fn lease_objects_that_are_no_ledgers_are_refused_and_left_alone() {
    let api = LeaseApi::start();
    let desk = desk_of(api.store());
    let annotated = |annotations: Value| {
        api.edit(&name(&desk), |lease| lease["metadata"]["annotations"] = annotations.clone());
    };
    for (annotations, word) in [
        (json!({}), "something else made it"),
        (json!({"team": "a"}), "something else made it"),
        (json!({"baton.dev/mirror": "7"}), "a mirror"),
        (json!({"baton.dev/token": "7"}), "baton.dev/fence is missing"),
        (json!({"baton.dev/fence": "7", BODY: "{}"}), "baton.dev/revision is missing"),
        (json!({"baton.dev/fence": "7", REVISION: "8"}), "baton.dev/ledger is missing"),
        (json!({"baton.dev/fence": "x"}), "not a number"),
        (json!({"baton.dev/fence": "7", "baton.dev/fence-role": "Ours"}), "not a role name"),
        (json!({"baton.dev/fence": Token::LIMIT.to_string()}), "not below 2^53"),
        (json!({"baton.dev/fence": "7", REVISION: "1e3", BODY: "{}"}), "not a number"),
    ] {
        annotated(annotations);
        all_refuse(&api, &desk, word).await;
    }
    let last = (Token::LIMIT - 1).to_string();
    let fence = json!({"baton.dev/fence": "7", "baton.dev/fence-role": "ours", REVISION: last, BODY: "a", "team": "a"});
    annotated(fence);
    let base = desk.read().await.expect("it is there").revision;
    let refused = desk.store.write(&desk.job, request(Some(9), Some(base), "b")).await;
    assert!(matches!(&refused, Err(StoreError::Refused { reason }) if reason.contains("2^53")), "{refused:?}");
    assert_eq!(desk.read().await, stored(base, "a"));
    assert_eq!(desk.open(9).await, OpenReply::Opened(stored(base, "a")), "another's annotation is no damage");
    assert_eq!(api.lease(&name(&desk)).expect("it is there")["metadata"]["annotations"]["team"], "a");
}

#[tokio::test]
async fn a_wish_that_cannot_be_told_is_written_and_answered_with_an_error() {
    let api = LeaseApi::start();
    let desk = desk_of(api.store());
    api.edit(WISHES, |lease| lease["metadata"]["annotations"] = json!({"team": "a"}));
    let theirs = api.lease(WISHES);
    let told = desk.store.write(&desk.job, request(None, None, "a")).await.expect_err("not told").to_string();
    assert!(told.contains("the Lease baton-jobs.wishes") && told.contains("something else made it"), "{told}");
    assert_eq!(desk.read().await.expect("it is written").body, "a");
    assert_eq!(api.lease(WISHES), theirs);
    // A leader's own write touches nothing.
    desk.open(7).await;
    let base = desk.read().await.map(|stored| stored.revision);
    desk.written(Some(7), base, "b").await;
    api.delete(WISHES);
    desk.written(None, desk.read().await.map(|stored| stored.revision), "c").await;
    let wish = api.lease(WISHES).expect("it is made");
    assert_eq!(wish["metadata"]["annotations"]["baton.dev/wish"], desk.job.to_string());
}

#[tokio::test]
async fn what_rbac_forbids_is_told_with_the_rule_and_when_it_was_written_all_the_same() {
    let api = FakeApi::start();
    let desk = desk_of(leases_of(&api));
    // The wishes are there, and the job's ledger is not.
    Desk { store: Arc::clone(&desk.store), job: another_job() }.written(None, None, "a").await;
    api.forbid(&["update"]);
    let told = desk.store.write(&desk.job, request(None, None, "a")).await.expect_err("not told").to_string();
    let rule = "verbs: [update], resourceNames: [baton-jobs.wishes]";
    assert!(told.contains("it is written, but the leader is not told of it") && told.contains(rule), "{told}");
    assert_eq!(desk.read().await.expect("it is written").body, "a");
    api.forbid(&["get"]);
    let told = desk.store.open(&desk.job, &term(9)).await.expect_err("forbidden").to_string();
    assert!(told.contains(&format!("verbs: [get], resourceNames: [{}]", name(&desk))), "{told}");
}

#[tokio::test]
async fn every_watch_of_wishes_begins_with_a_gap_and_misses_nothing() {
    let api = FakeApi::start();
    let (store, elsewhere) = (leases_of(&api), desk_of(leases_of(&api)));
    let mut news = ear_of(&store).await;
    let mut base = elsewhere.written(None, None, "a").await;
    assert_eq!(next(&mut news).await, JobNews::Changed(elsewhere.job.clone()));
    for gone in [false, true] {
        let watches = api.count("watch", WISHES);
        api.fail(&["watch"], Fault::Answer(503));
        api.end_watches(gone);
        wait_until(BOUND, "the watch is asked for again", || api.count("watch", WISHES) > watches).await;
        // What happens while nobody watches.
        base = elsewhere.written(None, Some(base), "b").await;
        api.heal();
        assert_eq!(next(&mut news).await, JobNews::Gap);
        base = elsewhere.written(None, Some(base), "c").await;
        assert_eq!(next(&mut news).await, JobNews::Changed(elsewhere.job.clone()), "the one before is in the gap");
    }
}

#[tokio::test]
async fn an_api_server_that_asks_to_wait_is_not_asked_for_ledgers_until_it_answers_somebody() {
    let api = FakeApi::start();
    let desk = desk_of(leases_of(&api));
    let base = desk.written(Some(7), None, "a").await;
    api.fail_times(&["get"], 1, Fault::TooMany(20));
    let refused = desk.store.read(&desk.job).await.expect_err("too many").to_string();
    assert!(refused.contains("too many requests (429, asks to wait 20 s)"), "{refused}");
    let gets = api.count("get", &name(&desk));
    for _ in 0..3 {
        assert!(desk.store.open(&desk.job, &term(9)).await.is_err());
        assert!(desk.store.write(&desk.job, request(Some(9), Some(base), "b")).await.is_err());
    }
    assert_eq!(api.count("get", &name(&desk)), gets, "it has its rest");
    // What cannot wait is asked, and ends the rest.
    assert_eq!(within("an answer", desk.store.forget(&another_job())).await, Ok(false));
    desk.written(Some(9), Some(base), "b").await;
}

#[tokio::test]
async fn a_run_costs_two_requests_for_each_look_and_each_write() {
    let api = FakeApi::start();
    let desk = desk_of(leases_of(&api));
    let requests = || ["get", "create", "update", "watch", "delete"].map(|verb| api.count(verb, &name(&desk)));
    desk.open(7).await;
    let base = desk.written(Some(7), None, "claimed").await;
    desk.written(Some(7), Some(base), "ended").await;
    assert_eq!(requests(), [3, 1, 2, 0, 0]);
    desk.read().await;
    assert_eq!(desk.write(Some(7), Some(base), "old").await, WriteReply::Diverged(desk.read().await));
    assert_eq!(requests(), [6, 1, 2, 0, 0]);
    assert_eq!(["get", "create", "update"].map(|verb| api.count(verb, WISHES)), [0, 0, 0]);
}
