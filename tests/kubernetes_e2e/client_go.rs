//! What programs built on client-go see of Baton's Lease, and Baton of theirs.

use std::time::{Duration, Instant};

use hyper::http::Request;
use jiff::{SignedDuration, Timestamp};
use rustix::process::Signal;
use testkit::apiserver::Cluster;
use testkit::sidecars::replica::{Lease, ROLE, Replica, Settings};
use testkit::wait::{holds_for, until, until_some};

use crate::elector::{self, Campaign, ClientGo, Elector, Record, read_record};
use crate::group::{self, Group, LEASE_NAME, TIMINGS, settings};

/// What a busy machine may add to what the protocols take.
const SLACK: Duration = Duration::from_secs(4);

fn is_recent(time: Timestamp) -> bool {
    let age = Timestamp::now().duration_since(time);
    age > SignedDuration::from_secs(-2) && age < SignedDuration::from_secs(20)
}

#[tokio::test]
async fn a_reader_built_on_client_go_sees_who_leads_a_handover_and_a_release() {
    let mut group = group::start(Cluster::start().await, 2).await;
    let read = |group: &Group| read_record(&group.cluster, &group.client_config, LEASE_NAME);
    let first = group.leader();
    let leads = read(&group);
    assert_eq!(leads.holder_identity, format!("web-{}", first.who.replica));
    assert_eq!((leads.lease_duration_seconds, leads.leader_transitions), (TIMINGS.duration / 1_000, 0));
    assert!(is_recent(leads.acquire_time) && is_recent(leads.renew_time), "{leads:?}");
    let renewed = until_some("it is renewed", || Some(read(&group)).filter(|now| now.renew_time > leads.renew_time));
    assert_eq!(renewed, Record { renew_time: renewed.renew_time, ..leads.clone() });

    group.replicas[first.who.replica].signal(Signal::TERM);
    let second = group.leader_after(&first);
    let follows = until_some("the new term is written", || {
        Some(read(&group)).filter(|now| now.holder_identity == format!("web-{}", second.who.replica))
    });
    assert_eq!((follows.lease_duration_seconds, follows.leader_transitions), (TIMINGS.duration / 1_000, 1));
    assert!(follows.acquire_time >= leads.acquire_time && is_recent(follows.acquire_time), "{follows:?}");
    assert_eq!(group.replicas[first.who.replica].wait_end().code(), Some(0));

    group.replicas[second.who.replica].signal(Signal::TERM);
    assert_eq!(group.replicas[second.who.replica].wait_end().code(), Some(0));
    let released = read(&group);
    assert_eq!((released.holder_identity.as_str(), released.lease_duration_seconds), ("", 1));
    assert_eq!((released.leader_transitions, released.acquire_time), (1, released.renew_time));
    group.finish("a reader built on client-go", "");
}

#[tokio::test]
async fn an_elector_built_on_client_go_waits_for_batons_release_and_is_waited_for() {
    let mut group = group::start(Cluster::start().await, 1).await;
    let first = group.leader();
    let mut elector = Elector::start(&Campaign::new(&group.cluster, &group.client_config, LEASE_NAME, "theirs"));
    until("it knows who leads", || elector.leader().as_deref() == Some("web-0"));
    group.still_leads(&first, TIMINGS.duration() * 2);
    assert!(elector.terms().is_empty(), "it led beside Baton");

    group.replicas[0].signal(Signal::TERM);
    assert_eq!(group.replicas[0].wait_end().code(), Some(0));
    let released_at = Instant::now();
    until("it takes over", || elector.leads());
    let took = elector.terms()[0].0.saturating_duration_since(released_at);
    assert!(took < elector::LEASE + SLACK, "it took {took:?}");
    group.start_again(0);
    let since = Instant::now();
    let seen = group.answer_after(0, since, "Baton knows it", |seen| seen.told.holder.as_deref() == Some("theirs"));
    assert_eq!(seen.told.state, "standby");
    holds_for(elector::LEASE * 2, "it is honoured", || elector.leads());
    assert!(group.apps.all_after(since).iter().all(|seen| !seen.told.leader), "Baton led beside it");
    assert_eq!(read_record(&group.cluster, &group.client_config, LEASE_NAME).leader_transitions, 1);

    elector.resign();
    let second = group.leader_after(&first);
    let theirs = elector.terms()[0].1.expect("it has stopped");
    assert!(second.from >= theirs, "Baton led before it had stopped");
    until("it knows who leads now", || elector.leader().as_deref() == Some("web-0"));
    assert_eq!(read_record(&group.cluster, &group.client_config, LEASE_NAME).leader_transitions, 2);
    group.still_leads(&second, TIMINGS.duration());
    assert_eq!(elector.terms().len(), 1);
    let measured = format!("taken over {} ms after Baton's release, ", took.as_millis());
    group.finish("an elector built on client-go", &measured);
}

#[tokio::test]
async fn an_elector_that_dies_is_followed_after_its_lease_and_not_before() {
    let mut group = group::prepare(Cluster::start().await, 2).await;
    let mut elector = Elector::start(&Campaign::new(&group.cluster, &group.client_config, LEASE_NAME, "theirs"));
    until("it leads", || elector.leads());
    group::start_all(&mut group);
    let now = Instant::now();
    for replica in 0..2 {
        group.answer_after(replica, now, "it is known", |seen| seen.told.holder.as_deref() == Some("theirs"));
    }
    elector.kill();
    let killed_at = Instant::now();
    let first = group.leader();
    let took = first.from.saturating_duration_since(killed_at);
    // Its last renewal is at most so old when it dies.
    let renewed_max = Duration::from_secs(2);
    assert!(took + renewed_max > elector::LEASE, "followed after {took:?}");
    assert!(took < elector::LEASE + TIMINGS.duration() + SLACK, "it took {took:?}");
    group.finish("an elector that dies", &format!("followed after {} ms, ", took.as_millis()));
}

/// A leader that is well, beside an elector with a lease of its own that is shorter than the time between two renewals.
async fn beside_a_shorter_lease(built_on: ClientGo) -> (Group, Elector) {
    let mut group = group::prepare(Cluster::start().await, 1).await;
    let seldom = Lease { renew: 1_400, ..TIMINGS };
    let usual = settings(0, group.cluster.namespace(), &group.sidecar_config);
    let replica = Replica::start(0, Settings { roles: seldom.role(ROLE, ""), ..usual });
    group.apps.ask_at(&replica);
    group.replicas.push(replica);
    let first = group.leader();
    let elector = Elector::start(&Campaign {
        built_on,
        lease: Duration::from_secs(1),
        renew_deadline: Duration::from_millis(700),
        retry_period: Duration::from_millis(200),
        ..Campaign::new(&group.cluster, &group.client_config, LEASE_NAME, "theirs")
    });
    until("it takes part", || elector.leader().is_some());
    assert_eq!(group.leader().token, first.token);
    (group, elector)
}

#[tokio::test]
async fn an_elector_of_today_waits_for_batons_lease_though_its_own_is_shorter() {
    let (group, elector) = beside_a_shorter_lease(ClientGo::Current).await;
    group.still_leads(&group.leader(), TIMINGS.duration() * 3);
    assert!(elector.terms().is_empty(), "it led beside Baton");
    group.finish("a shorter lease of today's client-go", "");
}

/// What docs/kubernetes.md warns of, and why the chaos beside 1.26 is run with equal leases.
#[tokio::test]
async fn an_elector_of_1_26_goes_by_its_own_shorter_lease_and_baton_warns_of_it() {
    let (group, elector) = beside_a_shorter_lease(ClientGo::V1_26).await;
    until("it takes the Lease from a leader that is well", || elector.leads());
    let seen = group.answer_after(0, Instant::now(), "the reason warns", |seen| {
        seen.told.reason.as_deref().is_some_and(|reason| reason.contains("client-go before 0.27"))
    });
    let reason = seen.told.reason.unwrap_or_default();
    assert!(reason.contains("theirs") && reason.contains("leaseDurationSeconds are 1"), "{reason}");
    assert!(group.replicas[0].has_logged(&["WARN", "client-go before 0.27"]));
    group.finish("a shorter lease of client-go 1.26", "");
}

#[tokio::test]
async fn kubectl_shows_the_holder_and_the_age() {
    let group = group::start(Cluster::start().await, 1).await;
    group.leader();
    let path = format!("/apis/coordination.k8s.io/v1/namespaces/{}/leases/{LEASE_NAME}", group.cluster.namespace());
    // What kubectl asks for.
    let request = Request::get(path).header("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io");
    let request = request.body(Vec::new()).expect("a request");
    let table: serde_json::Value = group.cluster.client().request(request).await.expect("a table");
    let columns = table["columnDefinitions"].as_array().expect("columns");
    let at = |name: &str| columns.iter().position(|column| column["name"] == name).expect("the column is there");
    let cells = &table["rows"][0]["cells"];
    assert_eq!((&cells[at("Name")], &cells[at("Holder")]), (&LEASE_NAME.into(), &"web-0".into()));
    let age = cells[at("Age")].as_str().expect("an age");
    assert!(age.ends_with('s') && age.starts_with(|first: char| first.is_ascii_digit()), "{age}");
    group.finish("kubectl's table", "");
}
