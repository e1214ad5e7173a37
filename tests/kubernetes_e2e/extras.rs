//! The leader's pod label, Events and the mirror Lease on a real API server, with leases on a real Redis: sidecars with
//! the token of the chart's ServiceAccount and the rights of its Role, and nothing more.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::{Event, Pod};
use k8s_openapi::api::rbac::v1::PolicyRule;
use kube::api::{ListParams, PostParams};
use kube::{Api, ResourceExt};
use rustix::process::Signal;
use serde_json::json;
use testkit::apiserver::Cluster;
use testkit::helm::{Charts, done, object};
use testkit::redis::RedisServer;
use testkit::sidecars::apps::Apps;
use testkit::sidecars::claims::Term;
use testkit::sidecars::replica::{Lease, ROLE, Replica, Settings};
use testkit::wait::{last_for, until, until_some};

use crate::labels::Labels;

const LABEL: &str = "baton.dev/role-scheduler";
const MIRROR: &str = "baton-scheduler";
const ALL: [&str; 3] = ["podLabels", "events", "leaseMirror"];
const HANDOVERS_DEFAULT: usize = 100;

/// The rules of the Role that the chart makes when everything of `kubernetes:` is on.
fn chart_rules() -> Vec<PolicyRule> {
    let charts = Charts::copy();
    let flags = json!({"podLabels": true, "events": true, "leaseMirror": true});
    let values = json!({"baton": {"config": {"kubernetes": flags}}});
    let answer = done(&[charts.render("baton-demo", &values)]).remove(0);
    let role = object(answer["objects"].as_array().expect("objects"), "Role", "baton").clone();
    serde_json::from_value(role["rules"].clone()).expect("rules")
}

/// Sidecars, their pods, and who watches the pods' labels. Fields end in this order.
struct Stage {
    replicas: Vec<Replica>,
    apps: Apps,
    labels: Labels,
    pods: Api<Pod>,
    cluster: Cluster,
    _redis: RedisServer,
}

impl Stage {
    async fn start(cluster: Cluster, replicas: usize) -> Self {
        let kubeconfig = cluster.account("sidecar", chart_rules()).await;
        let pods: Api<Pod> = Api::namespaced(cluster.client(), cluster.namespace());
        let labels = Labels::watch(cluster.kubeconfig(), cluster.namespace(), LABEL);
        let (redis, apps) = (RedisServer::start(), Apps::start(replicas, ROLE));
        let mut stage = Self { replicas: Vec::new(), apps, labels, pods, cluster, _redis: redis };
        for number in 0..replicas {
            let settings = stage.settings(number, kubeconfig.clone()).await;
            let replica = Replica::start(number, settings);
            stage.apps.ask_at(&replica);
            stage.replicas.push(replica);
        }
        stage
    }

    /// Of web-`number`, whose pod is made here.
    async fn settings(&self, number: usize, kubeconfig: PathBuf) -> Settings {
        let pod = make_pod(&self.pods, &format!("web-{number}")).await;
        let uid = pod.uid().expect("the server gives one");
        Settings::new(number, self._redis.url(), Lease::SHORT).telling(&ALL, kubeconfig, self.cluster.namespace(), &uid)
    }

    fn leader_after(&self, token: u64) -> Term {
        until_some("a later term begins", || self.apps.leader().filter(|term| term.token > token))
    }

    fn resign(&self, number: usize) {
        let answer = self.replicas[number].ask(&format!("POST /leader/{ROLE}/resign"), r#"{"cooldown":"1s"}"#);
        assert_eq!(answer.status, 202, "{}", answer.body);
    }

    /// When this term began at the latest and at the earliest that is sure: its leader's last answer before it.
    fn began(&self, term: &Term) -> Instant {
        let before =
            |seen: &testkit::sidecars::apps::Seen| seen.who == term.who && seen.read < term.from && !seen.told.leader;
        let last = self.apps.all_after(self.apps_origin()).into_iter().rev().find(before);
        last.map_or(term.from, |seen| seen.read)
    }

    fn apps_origin(&self) -> Instant {
        Instant::now().checked_sub(Duration::from_secs(20)).unwrap_or_else(Instant::now)
    }

    /// Waits until the label is where it belongs, and says since when.
    fn settled(&self, term: &Term) -> Instant {
        let wanted = BTreeMap::from([(format!("web-{}", term.who.replica), term.token.to_string())]);
        until_some("the label is on the leader's pod and on no other", || self.labels.since(&wanted))
    }

    fn finish(mut self) {
        self.replicas.iter_mut().for_each(Replica::kill);
        let report = self.apps.finish();
        println!("{} answers, {} terms, no promise broken", report.answers, report.terms.len());
    }
}

async fn make_pod(pods: &Api<Pod>, name: &str) -> Pod {
    let container = json!({"name": "app", "image": "registry.example.com/app:1"});
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": "web"}},
        "spec": {"serviceAccountName": "sidecar", "automountServiceAccountToken": false, "containers": [container]},
    });
    pods.create(&PostParams::default(), &serde_json::from_value(pod).expect("a pod")).await.expect("a pod")
}

/// The Events of a pod that `kubectl describe pod` shows: reasons and notes, in order.
async fn told(stage: &Stage, number: usize) -> Vec<(String, String)> {
    let pod = stage.pods.get(&format!("web-{number}")).await.expect("the pod is there");
    let events: Api<Event> = Api::namespaced(stage.cluster.client(), stage.cluster.namespace());
    let uid = pod.uid().expect("it has one");
    let fields = format!("involvedObject.kind=Pod,involvedObject.name=web-{number},involvedObject.uid={uid}");
    let mut found = events.list(&ListParams::default().fields(&fields)).await.expect("Events").items;
    found.sort_by_key(|event| event.event_time.as_ref().map(|time| time.0));
    found.into_iter().map(|event| (event.reason.unwrap_or_default(), event.message.unwrap_or_default())).collect()
}

/// Who holds the mirror, and how often it changed hands.
async fn mirrored(stage: &Stage) -> (Option<String>, Option<i32>) {
    let lease = stage.cluster.leases().get(MIRROR).await.expect("the mirror");
    let spec = lease.spec.expect("it says who leads");
    (spec.holder_identity, spec.lease_transitions)
}

#[tokio::test]
async fn label_events_and_mirror_are_what_kubectl_shows_of_a_handover_and_of_the_end() {
    let mut stage = Stage::start(Cluster::start().await, 2).await;
    let first = stage.leader_after(0);
    stage.settled(&first);
    let (old, heir) = (first.who.replica, 1 - first.who.replica);
    stage.resign(old);
    let next = stage.leader_after(first.token);
    stage.settled(&next);
    testkit::wait_until_async(Duration::from_secs(10), "all of it is told", async || {
        told(&stage, old).await.iter().any(|(reason, _)| reason == "HandedOver")
            && told(&stage, heir).await.iter().any(|(_, note)| note.contains(&next.token.to_string()))
            && mirrored(&stage).await == (Some(format!("web-{heir}")), Some(1))
    })
    .await;
    let lease = stage.cluster.leases().get(MIRROR).await.expect("the mirror");
    println!("{:?}\n{:?}", told(&stage, old).await, lease.metadata.annotations);
    for number in [old, heir] {
        stage.replicas[number].signal(Signal::TERM);
        assert!(stage.replicas[number].wait_end().success());
    }
    until("nobody has the label", || stage.labels.now().is_empty());
    let spec = stage.cluster.leases().get(MIRROR).await.expect("it stays").spec.expect("a spec");
    assert_eq!(spec.holder_identity.as_deref(), Some(""));
    stage.finish();
}

#[tokio::test]
async fn every_verb_of_the_charts_role_is_needed_and_its_absence_is_told_as_the_rule_that_is_missing() {
    let cluster = Cluster::start().await;
    let redis = RedisServer::start();
    let pods: Api<Pod> = Api::namespaced(cluster.client(), cluster.namespace());
    let rules = chart_rules();
    // Each verb of each rule, once.
    let verbs: Vec<(usize, String)> =
        rules.iter().enumerate().flat_map(|(at, rule)| rule.verbs.iter().map(move |verb| (at, verb.clone()))).collect();
    let resources: BTreeSet<String> =
        rules.iter().flat_map(|rule| rule.resources.clone().unwrap_or_default()).collect();
    assert_eq!((verbs.len(), resources.len()), (5, 3), "{rules:?}");
    for (number, (at, verb)) in verbs.iter().enumerate() {
        let mut less = rules.clone();
        less[*at].verbs.retain(|other| other != verb);
        less.retain(|rule| !rule.verbs.is_empty());
        let account = if number == 0 { "sidecar".to_owned() } else { format!("less-{number}") };
        let kubeconfig = cluster.account(&account, less).await;
        let uid = make_pod(&pods, &format!("web-{number}")).await.uid().expect("it has one");
        let settings = Settings::new(number, redis.url(), Lease::SHORT);
        let settings = settings.telling(&ALL, kubeconfig, cluster.namespace(), &uid);
        let mut replica = Replica::start(number, settings);
        until("it leads", || replica.role_metric("baton_leader", &[]) > 0.0);
        let resource = rules[*at].resources.as_ref().expect("resources")[0].clone();
        let words =
            [format!("it forbids to {verb} {resource}"), format!("verbs: [{verb}]"), cluster.namespace().to_owned()];
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        // An update comes with the end of the term.
        if verb == "update" {
            let answer = replica.ask(&format!("POST /leader/{ROLE}/resign"), "");
            assert_eq!(answer.status, 202, "{}", answer.body);
        }
        until(&format!("it says that it may not {verb} {resource}"), || {
            replica.has_logged(&[&["WARN"][..], &words].concat())
        });
        let line = replica.log().lines().find(|line| line.contains(words[0])).unwrap_or_default().to_owned();
        println!("without {verb} {resource}: {line}");
        replica.signal(Signal::TERM);
        replica.wait_end();
        // The next is to make it anew; whether there is one depends on the verb.
        let _ = cluster.leases().delete(MIRROR, &kube::api::DeleteParams::default()).await;
    }
}

/// What ends a term.
#[derive(Clone, Copy, Debug)]
enum End {
    Resign,
    Terminate,
    Kill,
    Pause,
}

/// What was measured of one sort of end, in milliseconds.
fn figures(mut ms: Vec<u128>) -> String {
    ms.sort_unstable();
    let at = |share: usize| ms[(ms.len() - 1) * share / 100];
    format!("{} times, p50 {} ms, p99 {} ms, max {} ms", ms.len(), at(50), at(99), at(100))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_label_moves_with_every_one_of_a_hundred_handovers_and_is_never_left_on_two_pods() {
    let handovers = env::var("BATON_HANDOVERS").map_or(HANDOVERS_DEFAULT, |text| text.parse().expect("a number"));
    let seed = env::var("BATON_CHAOS_SEED").map_or_else(|_| fastrand::u64(..), |text| text.parse().expect("a number"));
    println!("BATON_CHAOS_SEED={seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let mut stage = Stage::start(Cluster::start().await, 3).await;
    let mut measured: BTreeMap<String, Vec<u128>> = BTreeMap::new();
    let mut term = stage.leader_after(0);
    stage.settled(&term);
    for _ in 0..handovers {
        let (old, end) = (term.who.replica, [End::Resign, End::Terminate, End::Kill, End::Pause][random.usize(..4)]);
        match end {
            End::Resign => stage.resign(old),
            End::Terminate => stage.replicas[old].signal(Signal::TERM),
            End::Kill => stage.replicas[old].kill(),
            End::Pause => stage.replicas[old].signal(Signal::STOP),
        }
        let next = stage.leader_after(term.token);
        assert_ne!(next.who.replica, old);
        let began = stage.began(&next);
        let moved = stage.settled(&next);
        measured.entry(format!("{end:?}")).or_default().push(moved.saturating_duration_since(began).as_millis());
        match end {
            End::Resign => {}
            End::Terminate => assert!(stage.replicas[old].wait_end().success()),
            End::Kill => {}
            End::Pause => stage.replicas[old].signal(Signal::CONT),
        }
        if matches!(end, End::Terminate | End::Kill) {
            // In the same pod, as the kubelet does.
            stage.replicas[old].start_again();
            stage.apps.ask_at(&stage.replicas[old]);
        }
        // It comes back, and finds that it does not lead.
        let back = Instant::now();
        until_some("the old leader follows", || stage.apps.last_after(old, back).filter(|seen| !seen.told.leader));
        last_for(Duration::from_millis(random.u64(20..120)));
        stage.settled(&next);
        term = next;
    }
    for (end, ms) in &measured {
        println!("handover to label moved, {end}: {}", figures(ms.clone()));
    }
    println!("handover to label moved, all: {}", figures(measured.into_values().flatten().collect()));
    println!("longest time with two labelled pods: {} ms", stage.labels.longest_double().as_millis());
    stage.finish();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leadership_goes_on_while_the_api_server_stands_still_and_the_newest_state_is_shown_afterwards() {
    let mut stage = Stage::start(Cluster::start_own().await, 2).await;
    let first = stage.leader_after(0);
    stage.settled(&first);
    stage.cluster.server().expect("its own").pause();
    let mut last = first;
    for _ in 0..3 {
        stage.resign(last.who.replica);
        last = stage.leader_after(last.token);
    }
    // Long enough for requests to be given up, not only to wait.
    last_for(Duration::from_secs(7));
    let kept = until_some("it still leads", || stage.apps.leader());
    assert_eq!(kept.token, last.token);
    let resumed = Instant::now();
    stage.cluster.server().expect("its own").resume();
    let shown = stage.settled(&last);
    println!("after the API server's standstill: {} ms", shown.saturating_duration_since(resumed).as_millis());
    testkit::wait_until_async(Duration::from_secs(30), "the mirror shows it, too", async || {
        let lease = stage.cluster.leases().get(MIRROR).await.expect("the mirror");
        lease.annotations().get("baton.dev/mirror") == Some(&last.token.to_string())
    })
    .await;
    stage.finish();
}
