//! What a pod must be: safe by the `restricted` level of Pod Security, and right for the sidecar.

use serde_json::{Value, json};

/// The kinds of volumes that `restricted` allows.
const VOLUMES: [&str; 7] =
    ["configMap", "csi", "downwardAPI", "emptyDir", "persistentVolumeClaim", "projected", "secret"];

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// The pod's own part of an object, if it has one.
pub fn pod(object: &Value) -> Option<&Value> {
    match object["kind"].as_str()? {
        "Pod" => Some(object),
        "Deployment" | "StatefulSet" | "DaemonSet" => Some(&object["spec"]["template"]),
        _ => None,
    }
}

/// All containers, in the order in which they start.
pub fn containers(pod: &Value) -> Vec<&Value> {
    list(&pod["spec"]["initContainers"]).iter().chain(list(&pod["spec"]["containers"])).collect()
}

/// The sidecar, if there is one.
pub fn sidecar(pod: &Value) -> Option<&Value> {
    containers(pod).into_iter().find(|container| container["name"] == "baton")
}

/// Complaints about what `restricted` forbids, and about what this project asks for besides.
pub fn check_security(pod: &Value) -> Vec<String> {
    let spec = &pod["spec"];
    let mut complaints = Vec::new();
    for shared in ["hostNetwork", "hostPID", "hostIPC"] {
        if !spec[shared].is_null() {
            complaints.push(shared.to_owned());
        }
    }
    if spec["automountServiceAccountToken"] != false {
        complaints.push("a token of the service account for every container".to_owned());
    }
    for volume in list(&spec["volumes"]) {
        let kinds = volume.as_object().unwrap().keys().filter(|key| *key != "name");
        complaints.extend(kinds.filter(|kind| !VOLUMES.contains(&kind.as_str())).map(|kind| format!("volume {kind}")));
    }
    for container in containers(pod) {
        let name = &container["name"];
        complaints.extend(check_container(container).into_iter().map(|complaint| format!("{name}: {complaint}")));
    }
    complaints
}

fn check_container(container: &Value) -> Vec<String> {
    let context = &container["securityContext"];
    let mut complaints = Vec::new();
    let mut check = |good: bool, complaint: &str| {
        if !good {
            complaints.push(complaint.to_owned());
        }
    };
    check(context["runAsNonRoot"] == true, "may run as root");
    check(context["runAsUser"].is_null() || context["runAsUser"].as_u64().is_some_and(|user| user > 0), "is root");
    check(context["allowPrivilegeEscalation"] == false, "may gain privileges");
    check(context["privileged"].is_null(), "is privileged");
    check(context["readOnlyRootFilesystem"] == true, "may write to its root file system");
    check(context["capabilities"] == json!({"drop": ["ALL"]}), "has capabilities");
    check(context["seccompProfile"] == json!({"type": "RuntimeDefault"}), "has no seccomp profile");
    check(container["resources"]["limits"]["memory"].is_string(), "has no limit of memory");
    check(container["resources"]["limits"]["cpu"].is_null(), "has a limit of CPU");
    check(list(&container["ports"]).iter().all(|port| port["hostPort"].is_null()), "has a port of the node");
    complaints
}

/// Complaints about mounts and volumes that do not belong together, and about names that exist twice.
pub fn check_mounts(pod: &Value) -> Vec<String> {
    let mut complaints = Vec::new();
    let names: Vec<&str> = list(&pod["spec"]["volumes"]).iter().filter_map(|volume| volume["name"].as_str()).collect();
    for (at, name) in names.iter().enumerate() {
        if names[..at].contains(name) {
            complaints.push(format!("two volumes {name}"));
        }
    }
    let mounts = |container: &Value| -> Vec<(String, String)> {
        let text = |mount: &Value, key: &str| mount[key].as_str().unwrap_or_default().to_owned();
        list(&container["volumeMounts"]).iter().map(|mount| (text(mount, "name"), text(mount, "mountPath"))).collect()
    };
    let mounted: Vec<(String, String)> = containers(pod).into_iter().flat_map(mounts).collect();
    let lost = mounted.iter().filter(|(name, _)| !names.contains(&name.as_str()));
    complaints.extend(lost.map(|(name, path)| format!("{path} has no volume {name}")));
    let unused = names.iter().filter(|name| !mounted.iter().any(|(mounted, _)| mounted == *name));
    complaints.extend(unused.map(|name| format!("nobody mounts {name}")));
    complaints
}

/// Complaints about what tells the sidecar which version it is beside. A variable that stands for another is filled in
/// only if that one is before it.
pub fn check_version(pod: &Value, prefers_newest: bool) -> Vec<String> {
    let variables = sidecar(pod).map_or(&[][..], |sidecar| list(&sidecar["env"]));
    let names: Vec<&str> = variables.iter().filter_map(|variable| variable["name"].as_str()).collect();
    let told = names.windows(3).any(|three| three == ["POD_TEMPLATE_HASH", "POD_REVISION_HASH", "POD_VERSION"]);
    let is_right = told == prefers_newest && names.contains(&"POD_VERSION") == prefers_newest;
    if is_right { Vec::new() } else { vec!["POD_VERSION where it is not needed, or none where it is".to_owned()] }
}

/// Complaints about the sidecar's place in the pod, its probes and its token.
pub fn check_sidecar(pod: &Value, native: bool, needs_token: bool, needs_pod: bool) -> Vec<String> {
    let Some(sidecar) = sidecar(pod) else { return vec!["no sidecar".to_owned()] };
    let mut complaints = Vec::new();
    let mut check = |good: bool, complaint: &str| {
        if !good {
            complaints.push(complaint.to_owned());
        }
    };
    let first = &pod["spec"]["initContainers"][0];
    let place = if native { first == sidecar } else { list(&pod["spec"]["containers"]).contains(sidecar) };
    check(place, "not in its place");
    check(sidecar["restartPolicy"] == if native { json!("Always") } else { Value::Null }, "the wrong restart policy");
    let port = &sidecar["ports"][0];
    check(port["name"] == "baton-telemetry" && port["name"].as_str().unwrap().len() <= 15, "no named port");
    for (probe, path) in [("startupProbe", "/livez"), ("livenessProbe", "/livez"), ("readinessProbe", "/readyz")] {
        let asked = &sidecar[probe]["httpGet"];
        let wanted = asked["path"] == path && asked["port"] == "baton-telemetry";
        check(wanted || (probe == "readinessProbe" && sidecar[probe].is_null()), probe);
    }
    for (variable, field, needed) in [
        ("POD_NAME", "metadata.name", true),
        ("POD_NAMESPACE", "metadata.namespace", needs_pod),
        ("POD_UID", "metadata.uid", needs_pod),
    ] {
        let env = list(&sidecar["env"]).iter().find(|given| given["name"] == variable);
        let given = env.map(|given| given["valueFrom"]["fieldRef"]["fieldPath"].as_str());
        check(given == needed.then_some(Some(field)), variable);
    }
    for container in containers(pod) {
        let token = list(&container["volumeMounts"]).iter().any(|mount| mount["name"] == "baton-token");
        check(
            token == (needs_token && container["name"] == "baton"),
            "a token where none is needed, or none where one is",
        );
    }
    complaints
}

#[test]
fn the_pod_checkers_complain_about_bad_pods() {
    let container = json!({
        "name": "baton", "restartPolicy": "Always",
        "env": [{"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
        "ports": [{"name": "baton-telemetry", "containerPort": 4041}],
        "startupProbe": {"httpGet": {"path": "/livez", "port": "baton-telemetry"}},
        "livenessProbe": {"httpGet": {"path": "/livez", "port": "baton-telemetry"}},
        "resources": {"limits": {"memory": "64Mi"}},
        "securityContext": {
            "runAsNonRoot": true, "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true,
            "capabilities": {"drop": ["ALL"]}, "seccompProfile": {"type": "RuntimeDefault"},
        },
        "volumeMounts": [{"name": "baton-config", "mountPath": "/etc/baton"}],
    });
    let good = json!({"spec": {
        "automountServiceAccountToken": false, "initContainers": [container],
        "volumes": [{"name": "baton-config", "configMap": {"name": "x"}}],
    }});
    let check = |pod: &Value| [check_security(pod), check_mounts(pod), check_sidecar(pod, true, false, false)].concat();
    assert_eq!(check(&good), Vec::<String>::new());
    let in_container = |pointer: &str| format!("/spec/initContainers/0{pointer}");
    let bad = [
        ("/spec/automountServiceAccountToken".to_owned(), Value::Null),
        ("/spec/volumes/0".to_owned(), json!({"name": "baton-config", "hostPath": {"path": "/"}})),
        ("/spec/volumes/0/name".to_owned(), json!("other")),
        (in_container("/securityContext/runAsNonRoot"), json!(false)),
        (in_container("/securityContext/allowPrivilegeEscalation"), json!(true)),
        (in_container("/securityContext/readOnlyRootFilesystem"), Value::Null),
        (in_container("/securityContext/capabilities"), json!({"drop": ["ALL"], "add": ["NET_ADMIN"]})),
        (in_container("/securityContext/seccompProfile/type"), json!("Unconfined")),
        (in_container("/resources/limits"), json!({"memory": "64Mi", "cpu": "1"})),
        (in_container("/restartPolicy"), Value::Null),
        (in_container("/livenessProbe/httpGet/port"), json!(4040)),
        (in_container("/startupProbe/httpGet/path"), json!("/readyz")),
        (in_container("/env"), json!([])),
        (in_container("/volumeMounts/0/name"), json!("baton-token")),
    ];
    for (pointer, value) in bad {
        let mut pod = good.clone();
        *pod.pointer_mut(&pointer).unwrap() = value;
        assert!(!check(&pod).is_empty(), "{pointer} is not noticed");
    }
}
