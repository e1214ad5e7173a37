//! What Kubernetes is told by real sidecars on a real Redis. The API server is a stand-in, whose faults are the test's
//! to choose; on a real one: `tests/kubernetes_e2e`.

use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};
use testkit::kubernetes::{FakeApi, Fault, NAMESPACE};
use testkit::redis::RedisServer;
use testkit::sidecars::replica::{Lease, ROLE, Replica, Settings};
use testkit::wait::{holds_for, until, until_some};

use crate::group::{self, Group};

const LABEL: &str = "baton.dev/role-scheduler";
const MIRROR: &str = "baton-scheduler";
const ALL: [&str; 3] = ["podLabels", "events", "leaseMirror"];

fn uid(number: usize) -> String {
    format!("uid-of-web-{number}")
}

fn name(number: usize) -> String {
    format!("web-{number}")
}

/// An API server that knows the pods web-0, web-1, …
fn api_with(pods: usize) -> FakeApi {
    let api = FakeApi::start();
    (0..pods).for_each(|number| api.make_pod(&name(number), &uid(number)));
    api
}

/// Replicas that tell it these things.
fn group(api: &FakeApi, replicas: usize, what: &[&str]) -> Group {
    group_with(api, replicas, what, false)
}

fn group_with(api: &FakeApi, replicas: usize, what: &[&str], guarded: bool) -> Group {
    let redis = RedisServer::start();
    let settings = |number| {
        let mut plain = Settings::new(number, redis.url(), Lease::SHORT);
        // A young Redis is closed for a lease: told in one test, waited for in no other.
        plain.redis_more = if guarded { String::new() } else { ", guard: off".to_owned() };
        plain.telling(what, api.kubeconfig(), NAMESPACE, &uid(number))
    };
    let settings = (0..replicas).map(settings).collect();
    group::start_with(redis, settings)
}

/// Whether a pod has the label, and the token beside it.
fn label(api: &FakeApi, number: usize) -> Option<u64> {
    let metadata = api.pod(&name(number))["metadata"].take();
    let token = metadata["annotations"][LABEL].as_str().and_then(|token| token.parse().ok());
    (metadata["labels"][LABEL] == "leader").then(|| token.expect("a token beside the label"))
}

/// Waits until this pod has the label under this token, and no other has it.
fn until_labelled(api: &FakeApi, pods: usize, number: usize, token: u64) {
    until("the label is on the leader's pod and on no other", || {
        (0..pods).all(|pod| label(api, pod) == (pod == number).then_some(token))
    });
}

fn until_nobody_is_labelled(api: &FakeApi, pods: usize) {
    until("no pod has the label", || (0..pods).all(|pod| label(api, pod).is_none()));
}

/// Reasons and notes of what was told of a pod, in order.
fn told(api: &FakeApi, number: usize) -> Vec<(String, String)> {
    let of_it = |event: &Value| event["regarding"]["name"] == name(number).as_str();
    let text = |event: &Value, key: &str| event[key].as_str().unwrap_or_default().to_owned();
    api.told().iter().filter(|event| of_it(event)).map(|event| (text(event, "reason"), text(event, "note"))).collect()
}

fn resign(group: &Group, number: usize) {
    let answer = group.replicas[number].ask(&format!("POST /leader/{ROLE}/resign"), r#"{"cooldown":"1s"}"#);
    assert_eq!(answer.status, 202, "{}", answer.body);
}

fn end(group: &mut Group, number: usize) -> ExitStatus {
    group.replicas[number].signal(Signal::TERM);
    group.replicas[number].wait_end()
}

#[test]
fn the_label_the_events_and_the_mirror_follow_a_handover_and_go_with_the_last_leader() {
    let api = api_with(2);
    let mut group = group_with(&api, 2, &ALL, true);
    let first = group.leader();
    let (old, heir) = (first.who.replica, 1 - first.who.replica);
    until_labelled(&api, 2, old, first.token);
    resign(&group, old);
    let next = group.leader_after(&first);
    assert_eq!(next.who.replica, heir);
    until_labelled(&api, 2, heir, next.token);
    let mirror = until_some("the mirror shows the successor", || {
        api.lease(MIRROR).filter(|lease| lease["spec"]["holderIdentity"] == name(heir).as_str())
    });
    assert_eq!(mirror["metadata"]["annotations"]["baton.dev/mirror"], next.token.to_string().as_str());
    assert_eq!((&mirror["spec"]["leaseTransitions"], &mirror["spec"]["leaseDurationSeconds"]), (&json!(1), &json!(20)));
    // A young Redis: nobody may lead at first. Who has heard of the first leader by then tells no guard.
    let of_terms = |number| told(&api, number).into_iter().filter(|(reason, _)| reason != "Guarded");
    let reasons = |number| of_terms(number).map(|(reason, _)| reason).collect::<Vec<_>>();
    until("the old leader has told", || reasons(old) == ["Elected", "HandedOver"]);
    until("and the successor", || reasons(heir) == ["Elected"]);
    let elected = of_terms(heir).next().expect("waited for").1;
    assert_eq!(elected, format!("leads the role {ROLE} with the fencing token {}", next.token));
    let event = api.told().into_iter().find(|event| event["reason"] == "Elected").expect("it was told");
    assert_eq!((&event["regarding"]["uid"], &event["type"]), (&json!(uid(old)), &json!("Normal")));
    // The standby first, so that nobody follows.
    assert!(end(&mut group, old).success() && end(&mut group, heir).success());
    until_nobody_is_labelled(&api, 2);
    assert_eq!(api.lease(MIRROR).expect("it stays")["spec"]["holderIdentity"], "");
    assert_eq!(told(&api, heir).last().map(|(reason, _)| reason.clone()), Some("HandedOver".to_owned()));
    group.finish("Kubernetes told of a handover", "");
}

#[test]
fn a_killed_leaders_label_is_taken_away_by_its_successor_unless_it_is_newer() {
    let api = api_with(3);
    let mut group = group(&api, 2, &["podLabels"]);
    let first = group.leader();
    let (old, heir) = (first.who.replica, 1 - first.who.replica);
    until_labelled(&api, 3, old, first.token);
    // One of another role, which is none of the successor's business.
    api.edit_pod(&name(old), |pod| {
        pod["metadata"]["labels"]["baton.dev/role-other"] = json!("leader");
        pod["metadata"]["annotations"]["baton.dev/role-other"] = json!("5");
    });
    group.replicas[old].kill();
    let next = group.leader_after(&first);
    until_labelled(&api, 3, heir, next.token);
    assert_eq!(api.pod(&name(old))["metadata"]["labels"]["baton.dev/role-other"], "leader");
    // The other comes back in its pod: nothing of a former start stays.
    api.edit_pod(&name(old), |pod| pod["metadata"]["labels"][LABEL] = json!("leader"));
    group.start_again(old);
    until("what was left behind is gone", || {
        let labels = api.pod(&name(old))["metadata"]["labels"].take();
        labels == json!({"app": "web"})
    });
    assert_eq!(label(&api, heir), Some(next.token));
    group.finish("a killed leader's label", "");
}

#[test]
fn a_leader_that_stood_still_for_longer_than_its_lease_does_not_keep_its_label() {
    let api = api_with(2);
    let group = group(&api, 2, &["podLabels", "leaseMirror"]);
    let first = group.leader();
    let (old, heir) = (first.who.replica, 1 - first.who.replica);
    until_labelled(&api, 2, old, first.token);
    group.replicas[old].signal(Signal::STOP);
    let next = group.leader_after(&first);
    until_labelled(&api, 2, heir, next.token);
    group.replicas[old].signal(Signal::CONT);
    group.still_leads(&next, Duration::from_millis(300));
    until_labelled(&api, 2, heir, next.token);
    until("the mirror is the successor's", || {
        api.lease(MIRROR).is_some_and(|lease| lease["spec"]["holderIdentity"] == name(heir).as_str())
    });
    group.finish("SIGSTOP with a label", "");
}

#[test]
fn leadership_goes_on_without_the_api_server_and_only_the_newest_state_is_written_afterwards() {
    let api = api_with(2);
    let group = group(&api, 2, &["podLabels", "leaseMirror"]);
    let first = group.leader();
    until_labelled(&api, 2, first.who.replica, first.token);
    until("there is a mirror", || api.lease(MIRROR).is_some());
    api.fail(&[], Fault::Answer(503));
    let before = api.lease(MIRROR).expect("it is there");
    let (mut last, mut tokens) = (first, vec![first.token]);
    for _ in 0..3 {
        resign(&group, last.who.replica);
        last = group.leader_after(&last);
        tokens.push(last.token);
    }
    assert_eq!((label(&api, first.who.replica), api.lease(MIRROR)), (Some(first.token), Some(before)));
    api.heal();
    until_labelled(&api, 2, last.who.replica, last.token);
    until("the mirror shows the newest", || {
        let lease = api.lease(MIRROR).expect("it is there");
        lease["metadata"]["annotations"]["baton.dev/mirror"] == last.token.to_string().as_str()
    });
    // One term was written over the outage, not three.
    let transitions = api.lease(MIRROR).expect("it is there")["spec"]["leaseTransitions"].as_u64();
    assert_eq!(transitions, Some(1), "{tokens:?}");
    let log = group.replicas[first.who.replica].log();
    let warned = log.lines().filter(|line| line.contains("WARN") && line.contains("kind=\"label\"")).count();
    assert_eq!(warned, 1, "{log}");
    group.finish("an outage of the API server", "");
}

#[test]
fn what_is_forbidden_is_told_once_with_the_rule_and_the_role_is_led_all_the_same() {
    let api = api_with(1);
    api.forbid(&["patch", "create", "get"]);
    let group = group(&api, 1, &ALL);
    group.leader();
    let replica = &group.replicas[0];
    for rule in [
        "apiGroups: [\"\"], resources: [pods], verbs: [patch]",
        "apiGroups: [events.k8s.io], resources: [events], verbs: [create]",
        "apiGroups: [coordination.k8s.io], resources: [leases], verbs: [get], resourceNames: [baton-scheduler]",
    ] {
        until(rule, || replica.log().contains(rule));
        let warned = || replica.log().lines().filter(|line| line.contains("WARN") && line.contains(rule)).count();
        assert_eq!(warned(), 1, "{rule}");
    }
    let denied = |kind| replica.metric("baton_kubernetes_writes_total", &[("kind", kind), ("outcome", "denied")]);
    until("each is counted", || ["label", "event", "lease"].iter().all(|kind| denied(kind) >= Some(1.0)));
    // Not hammered: an attempt every few seconds.
    let asked = api.count("patch", &name(0));
    assert!(asked <= 4, "{asked} requests");
    api.forbid(&[]);
    until("it is told once it may be", || label(&api, 0).is_some() && !api.told().is_empty());
    until("and shown", || api.lease(MIRROR).is_some());
    group.finish("no rights", "");
}

#[test]
fn a_lease_that_something_else_made_is_left_alone() {
    let api = api_with(1);
    api.edit(MIRROR, |lease| lease["spec"] = json!({"holderIdentity": "controller-7", "leaseDurationSeconds": 15}));
    let before = api.lease(MIRROR);
    let group = group(&api, 1, &["leaseMirror"]);
    group.leader();
    until("it says so", || group.replicas[0].has_logged(&["WARN", MIRROR, "something else made it"]));
    holds_for(Duration::from_millis(200), "nobody touches it", || {
        (api.lease(MIRROR), api.count("update", MIRROR)) == (before.clone(), 0)
    });
    group.finish("somebody else's Lease", "");
}

/// One leader, whose label, mirror and Event are there.
fn one_that_has_shown_all() -> (FakeApi, Group) {
    let api = api_with(1);
    let group = group(&api, 1, &ALL);
    let first = group.leader();
    until_labelled(&api, 1, 0, first.token);
    until("there is a mirror", || api.lease(MIRROR).is_some());
    until("the election was told", || told(&api, 0).len() == 1);
    (api, group)
}

#[test]
fn what_the_api_server_turns_away_at_the_end_is_tried_again_before_the_process_is_gone() {
    let (api, mut group) = one_that_has_shown_all();
    // Not so often that a busy machine needs more than the second that there is.
    for verb in ["patch", "update", "create"] {
        api.fail_times(&[verb], 2, Fault::Answer(503));
    }
    assert!(end(&mut group, 0).success());
    assert_eq!(label(&api, 0), None);
    assert_eq!(api.lease(MIRROR).expect("it stays")["spec"]["holderIdentity"], "");
    assert_eq!(told(&api, 0).last().map(|(reason, _)| reason.clone()), Some("HandedOver".to_owned()));
    group.finish("a reluctant API server at the end", "");
}

#[test]
fn what_is_forbidden_at_the_end_is_not_asked_for_again_and_again() {
    let (api, mut group) = one_that_has_shown_all();
    // As when an uninstall takes the rights away before the pods have ended.
    api.forbid(&["patch", "update", "create", "get"]);
    let asked = || api.count("patch", &name(0)) + api.count("update", MIRROR) + api.count("get", MIRROR);
    let before = asked();
    assert!(end(&mut group, 0).success());
    let more = asked() - before;
    // One for the label and one for the mirror at each step of the end: draining, given back, closing.
    assert!(more <= 8, "{more} requests");
    let log = group.replicas[0].log();
    assert!(!log.contains("there was no time left"), "{log}");
    for rule in ["verbs: [patch]", "verbs: [update]"] {
        let warned = log.lines().filter(|line| line.contains("WARN") && line.contains(rule)).count();
        assert_eq!(warned, 1, "{rule}: {log}");
    }
    group.finish("no rights at the end", "");
}

#[test]
fn shards_have_labels_and_mirrors_of_their_own_which_go_with_them() {
    let api = api_with(1);
    let redis = RedisServer::start();
    let mut settings = Settings::new(0, redis.url(), Lease::SHORT);
    settings.roles = Lease::SHORT.role(ROLE, ", shards: 2");
    let settings = settings.telling(&["podLabels", "leaseMirror"], api.kubeconfig(), NAMESPACE, &uid(0));
    let replica = Replica::start(0, settings);
    let labels = || {
        let labels = api.pod("web-0")["metadata"]["labels"].take();
        labels.as_object().expect("labels").keys().filter(|key| key.contains("baton.dev")).cloned().collect::<Vec<_>>()
    };
    let holder =
        |shard: u16| api.lease(&format!("{MIRROR}.{shard}"))?["spec"]["holderIdentity"].as_str().map(str::to_owned);
    until("both shards are shown", || {
        labels() == [format!("{LABEL}.0"), format!("{LABEL}.1")]
            && (0..2).all(|n| holder(n).as_deref() == Some("web-0"))
    });
    // A reload that takes the shards away.
    std::fs::write(&replica.config, replica.config_with(&Lease::SHORT.role(ROLE, ""))).expect("a configuration");
    until("the role is shown instead", || {
        labels() == [LABEL] && (0..2).all(|n| holder(n).as_deref() == Some("")) && api.lease(MIRROR).is_some()
    });
}

#[test]
fn a_command_is_shown_as_leading_while_it_runs_and_not_afterwards() {
    let api = api_with(1);
    let redis = RedisServer::start();
    let settings = Settings::new(0, redis.url(), Lease::SHORT);
    let settings = settings.telling(&ALL, api.kubeconfig(), NAMESPACE, &uid(0));
    let folder = tempfile::tempdir().expect("a folder");
    let (config, flag) = (folder.path().join("config.yaml"), folder.path().join("go"));
    let Settings { redis_url, roles, more, env, .. } = &settings;
    let store = format!("store: {{ redis: {{ url: \"{redis_url}\", commandTimeout: 400ms }} }}");
    std::fs::write(&config, format!("identity: web-0\n{store}\nroles:\n{roles}{more}")).expect("a configuration");
    let mut command = Command::new(env!("CARGO_BIN_EXE_baton"));
    command.args(["exec", "--role", ROLE, "--config"]).arg(&config).args(["--", "sh", "-c"]);
    command.arg(format!("until [ -e {} ]; do sleep 0.02; done", flag.display())).stdin(Stdio::null());
    command.envs(env.iter().cloned()).env("KUBECONFIG", api.kubeconfig()).env_remove("KUBERNETES_SERVICE_HOST");
    let mut child = command.stderr(Stdio::null()).spawn().expect("it starts");
    until("the command's pod has the label", || label(&api, 0).is_some());
    std::fs::write(&flag, "").expect("a file");
    assert!(child.wait().expect("our own child").success());
    assert_eq!((label(&api, 0), &api.lease(MIRROR).expect("it stays")["spec"]["holderIdentity"]), (None, &json!("")));
    assert_eq!(told(&api, 0).last().map(|(reason, _)| reason.clone()), Some("HandedOver".to_owned()));
}

#[test]
fn without_an_api_server_to_tell_the_sidecar_leads_and_ends_as_ever() {
    let redis = RedisServer::start();
    let nowhere = "/there/is/no/kubeconfig".into();
    let settings = Settings::new(0, redis.url(), Lease::SHORT).telling(&ALL, nowhere, NAMESPACE, &uid(0));
    let mut group = group::start_with(redis, vec![settings]);
    group.leader();
    until("it says what is missing", || {
        group.replicas[0].has_logged(&["WARN", "there are no credentials", "the election goes on without it"])
    });
    let asked_at = Instant::now();
    assert!(end(&mut group, 0).success());
    let took = asked_at.elapsed();
    // The promise that stands, the second for Kubernetes, and what a busy machine adds.
    assert!(took < Duration::from_secs(6), "{took:?}");
    group.finish("no API server", "");
}
