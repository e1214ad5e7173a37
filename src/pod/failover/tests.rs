//! What counts as the end of a process, and what does not.

use serde_json::{Value, json};

use super::proof::{End, ends};
use super::termination_message::{Reach, TerminationMessage};
use super::*;
use crate::protocol::SessionId;

const PROMISE: Duration = Duration::from_secs(5);

fn session(number: u128) -> SessionId {
    SessionId::from_u128(number)
}

fn left(number: u128) -> TerminationMessage {
    TerminationMessage { pod: "1b3f-22".to_owned(), session: session(number), promise: PROMISE, reach: Reach::Pod }
}

fn message(number: u128) -> String {
    left(number).to_string()
}

fn terminated(reason: &str, message: &str) -> Value {
    with_code(1, reason, message)
}

fn with_code(code: i32, reason: &str, message: &str) -> Value {
    json!({"terminated": {"exitCode": code, "reason": reason, "message": message}})
}

/// A container's status in which it has ended.
fn ended(name: &str, message: &str) -> Value {
    json!({"name": name, "ready": false, "restartCount": 0, "image": "", "imageID": "",
           "state": terminated("Error", message)})
}

fn running(name: &str) -> Value {
    json!({"name": name, "ready": true, "restartCount": 0, "image": "", "imageID": "",
           "state": {"running": {"startedAt": "2026-11-20T10:00:00Z"}}})
}

/// A pod of an app and a sidecar.
fn pod(phase: &str, sidecar: Value, app: Value) -> Value {
    json!({
        "metadata": {"name": "web-0", "uid": "1b3f-22"},
        "spec": {"containers": [{"name": "app"}, {"name": "sidecar"}]},
        "status": {"phase": phase, "containerStatuses": [app, sidecar]},
    })
}

fn read(pod: &Value) -> Vec<End> {
    ends(&serde_json::from_value(pod.clone()).unwrap())
}

fn with_promise(number: u128) -> Vec<End> {
    vec![End { session: session(number), promise: PROMISE }]
}

fn at_once(number: u128) -> Vec<End> {
    vec![End { session: session(number), promise: Duration::ZERO }]
}

#[test]
fn a_sidecar_that_has_ended_is_told_with_the_promise_that_its_app_may_still_act_on() {
    assert_eq!(read(&pod("Running", ended("sidecar", &message(7)), running("app"))), with_promise(7));
    // Also once it has been started again, whatever it is called, and as a native sidecar.
    let mut again = running("anything");
    again["lastState"] = terminated("OOMKilled", &message(7));
    let mut pod = pod("Running", again.clone(), running("app"));
    assert_eq!(read(&pod), with_promise(7));
    pod["status"]["containerStatuses"] = json!([running("app")]);
    pod["status"]["initContainerStatuses"] = json!([again]);
    assert_eq!(read(&pod), with_promise(7));
}

#[test]
fn of_a_pod_that_has_ended_as_a_whole_nobody_is_left_to_act() {
    let over = pod("Failed", ended("sidecar", &message(7)), ended("app", "bye"));
    assert_eq!(read(&over), at_once(7));
    let still_there: [(&str, Value); 6] = [
        ("/status/phase", json!("Running")),
        ("/status/containerStatuses/0", running("app")),
        ("/status/containerStatuses/0/state", json!({"waiting": {"reason": "CrashLoopBackOff"}})),
        ("/status/containerStatuses/0/state", terminated("ContainerStatusUnknown", "")),
        ("/status/containerStatuses/0/name", json!("other")),
        ("/spec/containers/0/name", json!("late")),
    ];
    for (at, value) in still_there {
        let mut pod = over.clone();
        *pod.pointer_mut(at).unwrap() = value.clone();
        assert_eq!(read(&pod), with_promise(7), "{at} is {value}");
    }
    for shared in ["hostNetwork", "hostPID", "shareProcessNamespace"] {
        let mut pod = over.clone();
        pod["spec"][shared] = json!(true);
        assert_eq!(read(&pod), with_promise(7), "{shared}");
    }
    for kind in ["initContainers", "ephemeralContainers"] {
        let mut pod = over.clone();
        pod["spec"][kind] = json!([{"name": "debugger"}]);
        assert_eq!(read(&pod), with_promise(7), "{kind}");
    }
}

#[test]
fn one_that_others_could_ask_over_the_network_may_be_acted_on_after_its_pod() {
    let message = TerminationMessage { reach: Reach::Network, ..left(7) };
    let over = pod("Succeeded", ended("sidecar", &message.to_string()), ended("app", ""));
    assert_eq!(read(&over), with_promise(7));
}

#[test]
fn an_end_that_a_runtime_may_have_made_up_proves_nothing() {
    let of_code = |name: &str, code, reason, message: &str| {
        let mut status = ended(name, "");
        status["state"] = with_code(code, reason, message);
        status
    };
    for (code, reason, is_seen) in [
        (137, "Error", false),
        (255, "Error", false),
        (137, "OOMKilled", true),
        (143, "Error", true),
        (0, "Completed", true),
    ] {
        let sidecar = of_code("sidecar", code, reason, &message(7));
        let alone = read(&pod("Running", sidecar.clone(), running("app")));
        assert_eq!(alone, if is_seen { with_promise(7) } else { vec![] }, "{code} {reason}");
        let whole = read(&pod("Failed", sidecar, ended("app", "")));
        assert_eq!(whole, if is_seen { at_once(7) } else { vec![] }, "{code} {reason}");
        // The sidecar was seen to end; its app may live.
        let app = read(&pod("Failed", ended("sidecar", &message(7)), of_code("app", code, reason, "")));
        assert_eq!(app, if is_seen { at_once(7) } else { with_promise(7) }, "{code} {reason} of the app");
    }
    let mut untold = ended("sidecar", &message(7));
    untold["state"]["terminated"].as_object_mut().unwrap().remove("exitCode");
    assert_eq!(read(&pod("Running", untold, running("app"))), vec![]);
}

#[test]
fn nothing_else_is_taken_for_an_end() {
    let told_by = |sidecar| read(&pod("Failed", sidecar, ended("app", "")));
    assert_eq!(told_by(running("sidecar")), vec![], "not ready, failed, unknown: the container may run");
    let mut waiting = running("sidecar");
    waiting["state"] = json!({"waiting": {"reason": "CrashLoopBackOff", "message": message(7)}});
    assert_eq!(told_by(waiting), vec![]);
    for reason in ["ContainerStatusUnknown", "Unknown", "StartError", "Evicted", ""] {
        let mut made_up = ended("sidecar", &message(7));
        made_up["state"] = terminated(reason, &message(7));
        assert_eq!(told_by(made_up), vec![], "{reason}");
    }
    let mut nameless = ended("sidecar", &message(7));
    nameless["state"]["terminated"].as_object_mut().unwrap().remove("reason");
    assert_eq!(told_by(nameless), vec![]);
    for other in ["", "panicked", "baton/1", "out of memory\n"] {
        assert_eq!(told_by(ended("sidecar", other)), vec![], "{other}");
    }
    assert_eq!(read(&json!({"metadata": {"name": "web-0"}})), vec![], "no status at all");
}

#[test]
fn a_message_that_two_containers_have_or_that_comes_from_another_pod_is_nobodys() {
    let mut other = pod("Failed", ended("sidecar", &message(7)), ended("app", ""));
    other["metadata"]["uid"] = json!("1b3f-23");
    assert_eq!(read(&other), vec![], "a later pod of that name, or a copy");
    let copied = pod("Failed", ended("sidecar", &message(7)), ended("app", &message(7)));
    assert_eq!(read(&copied), vec![]);
    let two = pod("Running", ended("sidecar", &message(7)), ended("second", &message(8)));
    assert_eq!(read(&two), [with_promise(7), with_promise(8)].concat(), "two sidecars of one pod");
}

#[test]
fn each_instance_of_a_container_ends_for_itself() {
    let mut twice = ended("sidecar", &message(8));
    twice["lastState"] = terminated("Error", &message(7));
    assert_eq!(read(&pod("Running", twice, running("app"))), [with_promise(7), with_promise(8)].concat());
}

#[test]
fn a_message_is_whole_and_to_the_letter_or_it_is_none() {
    let whole = message(7);
    let read: TerminationMessage = whole.parse().unwrap();
    assert_eq!(read, left(7));
    for length in 0..whole.len() {
        assert!(whole[..length].parse::<TerminationMessage>().is_err(), "a beginning: {}", &whole[..length]);
    }
    for wrong in [
        format!("{whole}\n"),
        format!(" {whole}"),
        format!("{whole}0"),
        whole.replace("5000", "05000"),
        whole.replace("5000", "+5000"),
        whole.replace("5000", "-5000"),
        whole.replace("5000", "0"),
        whole.replace("5000", "86400001"),
        whole.replace("5000", "99999999999999999999"),
        whole.replace("reach=pod", "reach=moon"),
        whole.replace("baton/1", "baton/2"),
        whole.replace('7', "G"),
        whole.replace("1b3f-22", ""),
        whole.replace("1b3f-22", "1b3f 22"),
        TerminationMessage { session: session(0xabc), ..read }.to_string().replace("abc", "ABC"),
    ] {
        assert!(wrong.parse::<TerminationMessage>().is_err(), "{wrong:?}");
    }
}

/// A configuration with these roles, further keys, and this file for the message.
fn config(roles: &str, more: &str, file: &std::path::Path) -> Config {
    let text = format!(
        "telemetry: {{ listen: 127.0.0.1:4041 }}\nstore: {{ redis: {{ url: redis://redis:6379 }} }}\nroles: {roles}\n\
         kubernetes: {{ fastFailover: true, terminationMessagePath: {file:?} }}\n{more}"
    );
    let environment =
        crate::config::Environment::new(|name| name.starts_with("POD_").then(|| "web-0".to_owned()), None);
    crate::config::check_text(&text, "t.yaml", &environment).unwrap_or_else(|error| panic!("{error}")).config
}

fn read_back(file: &std::path::Path) -> TerminationMessage {
    std::fs::read_to_string(file).unwrap().parse().unwrap()
}

#[test]
fn a_process_leaves_the_longest_promise_of_its_roles_and_never_takes_a_longer_one_back() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("end");
    let short = config("[{ name: a, answerValidity: 2s }, { name: b, answerValidity: 3s }]", "", &file);
    assert!(
        TerminationMessageFile::leave(&short, session(7)).is_none(),
        "a file that is not there is not the kubelet's"
    );
    assert!(!file.exists());
    std::fs::write(&file, "something longer than the message, as it is when a message is written over it".repeat(3))
        .unwrap();
    let mut will = TerminationMessageFile::leave(&short, session(7)).unwrap();
    let first = TerminationMessage {
        pod: "web-0".to_owned(),
        session: session(7),
        promise: Duration::from_secs(3),
        reach: Reach::Pod,
    };
    assert_eq!(read_back(&file), first);
    let longer = config("[{ name: a, answerValidity: 4s }]", "", &file);
    will.cover(&longer).unwrap();
    let second = TerminationMessage { promise: Duration::from_secs(4), ..first };
    assert_eq!(read_back(&file), second);
    will.cover(&short).unwrap();
    assert_eq!(read_back(&file), second, "what was promised stands");
    std::fs::remove_file(&file).unwrap();
    will.cover(&short).unwrap();
    let longest = config("[{ name: a, answerValidity: 100ms, stepDownMargin: 4500ms }]", "", &file);
    assert!(will.cover(&longest).is_err(), "and it must not be put in force");
    std::fs::write(&file, "").unwrap();
    will.cover(&longest).unwrap();
    assert_eq!(read_back(&file).promise, Duration::from_millis(4_500), "a job's app has the margin for noticing");
}

#[test]
fn who_listens_to_others_or_sends_them_jobs_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("end");
    std::fs::write(&file, "").unwrap();
    let job =
        |url: &str| format!("jobs: [{{ name: j, role: a, schedule: '@daily', run: {{ http: {{ url: '{url}' }} }} }}]");
    let here = [String::new(), job("http://127.0.0.1:8080/j"), job("http://localhost/j"), job("http://[::1]:80/j")];
    for more in here {
        TerminationMessageFile::leave(&config("[{ name: a }]", &more, &file), session(7)).unwrap();
        assert_eq!(read_back(&file).reach, Reach::Pod, "{more}");
    }
    let token = dir.path().join("token");
    std::fs::write(&token, "correct-horse-battery-staple").unwrap();
    let open = format!("api: {{ listen: 0.0.0.0:4040, tokenFile: {token:?} }}");
    let mut will = None;
    for more in [open, job("http://reports/j"), job("http://10.0.0.1/j")] {
        will = TerminationMessageFile::leave(&config("[{ name: a }]", &more, &file), session(7));
        assert_eq!(read_back(&file).reach, Reach::Network, "{more}");
    }
    will.unwrap().cover(&config("[{ name: a }]", "", &file)).unwrap();
    assert_eq!(read_back(&file).reach, Reach::Network, "whom it has told may act on");
}
