//! What must hold of the objects of every case, whatever the values.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use testkit::helm::{Charts, ask, object};
use testkit::root;

use crate::matrix::rendered;
use crate::pods::{check_mounts, check_security, check_sidecar, check_version, containers, pod, sidecar};

fn of_kind<'a>(objects: &'a [Value], kind: &str) -> Vec<&'a Value> {
    objects.iter().filter(|object| object["kind"] == kind).collect()
}

/// Whether labels have all of a selector's.
fn selects(selector: &Value, labels: &Value) -> bool {
    selector
        .as_object()
        .is_some_and(|wanted| !wanted.is_empty() && wanted.iter().all(|(key, value)| labels[key] == *value))
}

#[test]
fn every_pod_is_restricted_and_the_sidecar_is_where_and_what_it_should_be() {
    for (case, _, objects) in rendered() {
        let mut pods = 0;
        for object in objects {
            let Some(pod) = pod(object) else { continue };
            pods += 1;
            let mut complaints = [check_security(pod), check_mounts(pod)].concat();
            if sidecar(pod).is_some() {
                let native = case.values["baton"]["nativeSidecar"] != false;
                let needs_token = matches!(case.name, "kubernetes" | "extras" | "failover");
                let knows_its_pod = matches!(case.name, "extras" | "failover");
                complaints.extend(check_sidecar(pod, native, needs_token, knows_its_pod));
                complaints.extend(check_version(pod, case.name == "preferences"));
            }
            assert!(complaints.is_empty(), "{}: {} {complaints:#?}", case.name, object["metadata"]["name"]);
        }
        assert_eq!(pods, 3, "worker, ledger and test");
        let worker =
            pod(of_kind(objects, "Deployment").into_iter().find(|d| pod(d).and_then(sidecar).is_some()).unwrap());
        let seconds = worker.unwrap()["spec"]["terminationGracePeriodSeconds"].as_u64().unwrap();
        // The app's 25, then: the longest promise (5 s at most by default, however long the lease), a command's
        // timeout, and one more.
        let sidecars = match case.name {
            "sentinel" => 5 + 5 + 1,
            "quorum" => 5 + 1 + 1,
            "own-stores" => 5 + 2 + 1,
            "extras" => 5 + 5 + 1 + 1,
            _ => 5 + 5 + 1,
        };
        assert_eq!(seconds, 25 + sidecars, "{}", case.name);
    }
}

#[test]
fn names_and_labels_are_short_enough_and_no_object_is_there_twice() {
    for (case, _, objects) in rendered() {
        let mut seen = BTreeSet::new();
        for object in objects {
            let name = object["metadata"]["name"].as_str().unwrap();
            assert!(name.len() <= 63 && !name.ends_with('-'), "{}: {name}", case.name);
            assert!(seen.insert((object["kind"].to_string(), name)), "{}: {name} twice", case.name);
            assert!(object["metadata"]["namespace"].is_null() || object["kind"].as_str().unwrap().starts_with("Role"));
            for (key, value) in object["metadata"]["labels"].as_object().unwrap() {
                assert!(value.as_str().unwrap().len() <= 63, "{}: {name}: {key}: {value}", case.name);
            }
            let kind = object["kind"].as_str().unwrap();
            assert!(!kind.starts_with("Cluster") && !kind.contains("Webhook"), "{}: {kind}", case.name);
            let asked_for = case.values["baton"]["rbac"]["admissionPolicy"] == true;
            assert!(asked_for || !kind.contains("AdmissionPolicy"), "{}: {kind}", case.name);
        }
    }
}

/// The rule that docs/kubernetes.md tells people to grant for a faster failover.
fn documented_failover() -> Value {
    let page = std::fs::read_to_string(root().join("docs/kubernetes.md")).unwrap();
    let (_, section) = page.split_once("## A faster failover").unwrap();
    let text = section.split("```yaml\n").nth(1).unwrap().split("```").next().unwrap();
    let role: Value = serde_yaml::from_str(text).unwrap();
    assert_eq!(role["rules"], json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["watch"]}]));
    role["rules"].clone()
}

#[test]
fn rights_are_the_least_and_only_where_something_needs_them() {
    let lease = |prefix: &str, verbs: &[&str]| {
        json!([
            {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["create"]},
            {
                "apiGroups": ["coordination.k8s.io"],
                "resources": ["leases"],
                "resourceNames": [format!("{prefix}-scheduler")],
                "verbs": verbs,
            },
        ])
    };
    for (case, _, objects) in rendered() {
        let wanted = match case.name {
            "kubernetes" => {
                let mut rules = lease("shop", &["get", "watch", "update"]);
                let names = rules[1]["resourceNames"].as_array_mut().unwrap();
                names.extend(["shop-job.nightly-report", "shop-job.all.jobs", "shop-jobs.wishes"].map(Value::from));
                rules
            }
            "extras" => {
                let mut rules = lease("baton", &["get", "update"]);
                let more = [
                    json!({"apiGroups": [""], "resources": ["pods"], "verbs": ["patch"]}),
                    json!({"apiGroups": ["events.k8s.io"], "resources": ["events"], "verbs": ["create"]}),
                ];
                rules.as_array_mut().unwrap().extend(more);
                rules
            }
            "failover" => documented_failover(),
            _ => {
                assert!(
                    of_kind(objects, "Role").is_empty() && of_kind(objects, "RoleBinding").is_empty(),
                    "{}",
                    case.name
                );
                continue;
            }
        };
        let role = object(objects, "Role", "baton");
        assert_eq!(role["rules"], wanted, "{}", case.name);
        let binding = object(objects, "RoleBinding", "baton");
        assert_eq!(binding["roleRef"]["name"], role["metadata"]["name"]);
        let worker = pod(object(objects, "Deployment", "baton-demo")).unwrap();
        assert_eq!(binding["subjects"][0]["name"], worker["spec"]["serviceAccountName"]);
        let account = object(objects, "ServiceAccount", "baton");
        assert_eq!(account["metadata"]["name"], worker["spec"]["serviceAccountName"]);
        assert_eq!(account["automountServiceAccountToken"], false);
    }
}

#[test]
fn mirrors_and_shards_have_rights_by_the_names_of_their_objects_in_the_namespace_of_the_pods() {
    let charts = Charts::copy();
    let extras = json!({"leaseMirror": true, "events": true});
    let roles = json!([{"name": "scheduler", "shards": 2}, {"name": "outbox"}]);
    let sharded = json!({"kubernetes": extras, "roles": roles, "store": {"redis": {"keyPrefix": "shop"}}});
    let leases = json!({"redis": null, "kubernetes": {"namespace": "elsewhere"}});
    let elsewhere = json!({"kubernetes": extras, "store": leases});
    let render = |config| charts.render("baton-demo", &json!({"baton": {"config": config}}));
    let answers: Vec<Value> = ask(&[render(sharded), render(elsewhere)]).into_iter().map(Result::unwrap).collect();
    let roles: Vec<Vec<&Value>> =
        answers.iter().map(|answer| of_kind(answer["objects"].as_array().unwrap(), "Role")).collect();
    assert_eq!(roles[0].len(), 1);
    let names = json!(["shop-scheduler.0", "shop-scheduler.1", "shop-outbox"]);
    assert_eq!(roles[0][0]["rules"][1]["resourceNames"], names);
    // The leases' rights where they are, the others with the pods.
    let places: Vec<&Value> = roles[1].iter().map(|role| &role["metadata"]["namespace"]).collect();
    assert_eq!((places.len(), places[0]), (2, &json!("elsewhere")));
    assert_ne!(places[0], places[1]);
    let groups = |role: &Value| {
        role["rules"].as_array().unwrap().iter().map(|rule| rule["apiGroups"][0].clone()).collect::<Vec<_>>()
    };
    assert_eq!(groups(roles[1][0]), ["coordination.k8s.io", "coordination.k8s.io"]);
    assert_eq!(groups(roles[1][1]), ["coordination.k8s.io", "coordination.k8s.io", "events.k8s.io"]);
    assert_eq!(roles[1][0]["rules"][1]["verbs"], json!(["get", "watch", "update"]));
    assert_eq!(roles[1][1]["rules"][1]["verbs"], json!(["get", "update"]));
    let bindings = of_kind(answers[1]["objects"].as_array().unwrap(), "RoleBinding");
    assert!(bindings.iter().all(|binding| binding["subjects"][0]["namespace"] == *places[1]), "{bindings:?}");
}

#[test]
fn the_rights_of_what_kubernetes_is_told_are_the_documented_ones() {
    let page = std::fs::read_to_string(root().join("docs/kubernetes-integration.md")).unwrap();
    let text = page.split("```yaml fragment\n").filter_map(|rest| rest.split("```").next());
    let text = text.into_iter().find(|text| text.starts_with("rules:")).unwrap();
    let documented: Value = serde_yaml::from_str(text).unwrap();
    let (.., objects) = rendered().iter().find(|(case, ..)| case.name == "extras").unwrap();
    assert_eq!(object(objects, "Role", "baton")["rules"], documented["rules"]);
}

#[test]
fn the_policy_for_the_right_to_patch_pods_is_the_documented_one() {
    let page = std::fs::read_to_string(root().join("docs/kubernetes-integration.md")).unwrap();
    let blocks = page.split("```yaml fragment\n").filter_map(|rest| rest.split("```").next());
    let text = blocks.into_iter().find(|text| text.contains("kind: ValidatingAdmissionPolicy\n")).unwrap();
    let (.., objects) = rendered().iter().find(|(case, ..)| case.name == "extras").unwrap();
    let account = object(objects, "ServiceAccount", "baton")["metadata"]["name"].as_str().unwrap();
    let policy = object(objects, "ValidatingAdmissionPolicy", ".shop");
    let name = policy["metadata"]["name"].as_str().unwrap();
    let text = text.replace("serviceaccount:shop:web", &format!("serviceaccount:shop:{account}"));
    let documented: Vec<Value> = text
        .replace("baton-pods", name)
        .split("\n---\n")
        .map(|document| serde_yaml::from_str(document).unwrap())
        .collect();
    let binding = object(objects, "ValidatingAdmissionPolicyBinding", ".shop");
    assert_eq!([&policy["spec"], &binding["spec"]], [&documented[0]["spec"], &documented[1]["spec"]]);
}

#[test]
fn the_role_of_a_kubernetes_store_is_the_documented_one() {
    let page = std::fs::read_to_string(root().join("docs/kubernetes.md")).unwrap();
    let blocks = page.split("```yaml\n").skip(1).filter_map(|rest| rest.split("```").next());
    let text = blocks.flat_map(|block| block.split("\n---\n")).find(|text| text.contains("kind: Role\n")).unwrap();
    let mut documented: Value = serde_yaml::from_str(text).unwrap();
    assert_eq!(documented["rules"][1]["resourceNames"], json!(["baton-scheduler"]));
    let with_jobs =
        page.lines().find(|line| line.contains("resourceNames: [") && line.contains("-jobs.wishes")).unwrap();
    let with_jobs: Value = serde_yaml::from_str(&with_jobs.replace("baton-", "shop-")).unwrap();
    documented["rules"][1]["resourceNames"] = with_jobs["resourceNames"].clone();
    let (.., objects) = rendered().iter().find(|(case, ..)| case.name == "kubernetes").unwrap();
    assert_eq!(object(objects, "Role", "baton")["rules"], documented["rules"]);
}

#[test]
fn whatever_selects_pods_selects_the_workers_and_ports_have_the_names_that_others_use() {
    for (case, _, objects) in rendered() {
        let deployments = of_kind(objects, "Deployment");
        let worker = *deployments.iter().find(|deployment| pod(deployment).and_then(sidecar).is_some()).unwrap();
        let template = pod(worker).unwrap();
        let labels = &template["metadata"]["labels"];
        assert!(selects(&worker["spec"]["selector"]["matchLabels"], labels));
        let ledger = *deployments.iter().find(|deployment| pod(deployment).and_then(sidecar).is_none()).unwrap();
        let ledger_labels = &pod(ledger).unwrap()["metadata"]["labels"];
        assert!(
            !selects(&worker["spec"]["selector"]["matchLabels"], ledger_labels),
            "{}: the ledger is a worker",
            case.name
        );
        let port = sidecar(template).unwrap()["ports"][0].clone();
        for kind in ["PodMonitor", "PodDisruptionBudget"] {
            for object in of_kind(objects, kind) {
                assert!(selects(&object["spec"]["selector"]["matchLabels"], labels), "{}: {kind}", case.name);
            }
        }
        for policy in of_kind(objects, "NetworkPolicy") {
            assert!(selects(&policy["spec"]["podSelector"]["matchLabels"], labels), "{}", case.name);
            assert_eq!(policy["spec"]["ingress"][0]["ports"][0]["port"], port["containerPort"]);
        }
        for service in of_kind(objects, "Service") {
            let name = service["metadata"]["name"].as_str().unwrap();
            let mut leader = labels.clone();
            leader["baton.dev/role-scheduler"] = json!("leader");
            let (selected, others) = match name.rsplit('-').next() {
                Some("ledger") => (ledger_labels, labels),
                Some("leader") => (&leader, labels),
                _ => (labels, ledger_labels),
            };
            let selector = &service["spec"]["selector"];
            assert!(selects(selector, selected) && !selects(selector, others), "{}: {name}", case.name);
        }
        let config_maps: BTreeSet<&str> =
            of_kind(objects, "ConfigMap").iter().map(|map| map["metadata"]["name"].as_str().unwrap()).collect();
        for pod in objects.iter().filter_map(pod) {
            for volume in pod["spec"]["volumes"].as_array().unwrap() {
                if let Some(name) = volume["configMap"]["name"].as_str() {
                    assert!(config_maps.contains(name), "{}: there is no ConfigMap {name}", case.name);
                }
            }
            assert!(containers(pod).iter().all(|container| container["image"].is_string()));
        }
    }
}

#[test]
fn a_network_policy_that_shuts_leaves_names_and_the_api_server_open() {
    let charts = Charts::copy();
    let policy = |more: Value| charts.render("baton-demo", &json!({"baton": {"networkPolicy": more}}));
    let redis = json!({"to": [{"podSelector": {"matchLabels": {"app": "redis"}}}], "ports": [{"port": 6379}]});
    let peers = json!([{"ipBlock": {"cidr": "10.0.0.1/32"}}]);
    let dns = json!({"ports": [{"port": 53, "protocol": "UDP"}, {"port": 53, "protocol": "TCP"}]});
    let tcp = |ports: &[u16]| ports.iter().map(|port| json!({"port": port, "protocol": "TCP"})).collect::<Vec<_>>();
    let server = |ports: &[u16]| json!({"to": peers, "ports": tcp(ports)});
    let cases = [
        (json!({"enabled": true}), Value::Null),
        (json!({"enabled": true, "egress": [redis]}), json!([dns, redis])),
        (json!({"enabled": true, "egress": [redis], "dns": false}), json!([redis])),
        (json!({"enabled": true, "apiServer": peers}), json!([dns, server(&[443, 6443])])),
        (
            json!({"enabled": true, "egress": [redis], "apiServer": peers, "apiServerPorts": [16443]}),
            json!([dns, server(&[16443]), redis]),
        ),
    ];
    let requests: Vec<Value> = cases.iter().map(|(values, _)| policy(values.clone())).collect();
    for ((values, wanted), answer) in cases.iter().zip(ask(&requests)) {
        let answer = answer.unwrap();
        let spec = &object(answer["objects"].as_array().unwrap(), "NetworkPolicy", "baton")["spec"];
        let types = if wanted.is_null() { json!(["Ingress"]) } else { json!(["Ingress", "Egress"]) };
        assert_eq!([&spec["egress"], &spec["policyTypes"]], [wanted, &types], "{values}");
    }
}

#[test]
fn a_service_for_the_leader_of_a_shard_selects_by_the_shards_label() {
    let roles = json!([{"name": "scheduler"}, {"name": "stock", "shards": 12}]);
    let values = json!({"baton": {
        "config": {"kubernetes": {"podLabels": true}, "roles": roles},
        "leaderService": {"enabled": true, "role": "stock/11"},
    }});
    let answer = ask(&[Charts::copy().render("baton-demo", &values)]).remove(0).unwrap();
    let service = object(answer["objects"].as_array().unwrap(), "Service", "leader");
    assert_eq!(service["spec"]["selector"]["baton.dev/role-stock.11"], "leader", "{service}");
}

#[test]
fn the_prometheus_operator_gets_what_it_reads() {
    let (.., objects) = rendered().iter().find(|(case, ..)| case.name == "monitoring").unwrap();
    let monitor = object(objects, "PodMonitor", "baton");
    assert_eq!(monitor["apiVersion"], "monitoring.coreos.com/v1");
    let endpoint = json!({"port": "baton-telemetry", "path": "/metrics", "interval": "15s", "scrapeTimeout": "5s"});
    assert_eq!(monitor["spec"]["podMetricsEndpoints"], json!([endpoint]));
    let keys: Vec<&String> = monitor["spec"].as_object().unwrap().keys().collect();
    assert_eq!(keys, ["podMetricsEndpoints", "selector"]);
    let rule = object(objects, "PrometheusRule", "baton");
    for object in [monitor, rule] {
        assert_eq!(object["metadata"]["labels"]["release"], "prometheus");
    }
    assert_eq!(object(objects, "ConfigMap", "dashboards")["metadata"]["labels"]["grafana_dashboard"], "1");
}

#[test]
fn the_alerts_of_the_project_reach_prometheus_as_they_are_and_link_to_where_the_runbooks_are() {
    let charts = Charts::copy();
    let values = |url: &str| json!({"baton": {"prometheusRule": {"enabled": true, "runbookUrl": url}}});
    let requests = ["", "https://git.example.com/runbooks/"].map(|url| charts.render("baton-demo", &values(url)));
    let specs = ask(&requests).into_iter().map(|answer| {
        object(answer.unwrap()["objects"].as_array().unwrap(), "PrometheusRule", "baton")["spec"].clone()
    });
    let text = std::fs::read_to_string(root().join("dashboards/alerts.yaml")).unwrap();
    let linked = text.replace("docs/runbooks/", "https://git.example.com/runbooks/");
    // Prometheus's templates are not Helm's.
    let wanted = [text, linked].map(|text| serde_yaml::from_str::<Value>(&text).unwrap());
    assert_eq!(specs.collect::<Vec<_>>(), wanted);
}

#[test]
fn the_documented_values_give_everything_that_is_looked_at() {
    let page = std::fs::read_to_string(root().join("docs/monitoring.md")).unwrap();
    let block = page.split("```yaml fragment\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let values: Value = serde_yaml::from_str(block).unwrap();
    let answer = ask(&[Charts::copy().render("baton-demo", &values)]).remove(0).unwrap();
    let objects = answer["objects"].as_array().unwrap();
    for (kind, ending) in [("PodMonitor", "baton"), ("PrometheusRule", "baton"), ("ConfigMap", "baton-dashboards")] {
        object(objects, kind, ending);
    }
    let rules = object(objects, "PrometheusRule", "baton").to_string();
    let url = values["baton"]["prometheusRule"]["runbookUrl"].as_str().unwrap();
    assert!(rules.contains(&format!("{url}/BatonNoLeader.md")) && !rules.contains("\"docs/runbooks/"));
}

#[test]
fn the_dashboards_of_the_project_reach_grafana_as_they_are() {
    let charts = Charts::copy();
    let values = json!({"baton": {"dashboards": {"enabled": true}}});
    let answer = ask(&[charts.render("baton-demo", &values)]).remove(0).unwrap();
    let data = object(answer["objects"].as_array().unwrap(), "ConfigMap", "dashboards")["data"].clone();
    let names: Vec<String> =
        crate::stage::names_in("dashboards").into_iter().filter(|name| name.ends_with(".json")).collect();
    assert_eq!(data.as_object().unwrap().keys().collect::<Vec<_>>(), names.iter().collect::<Vec<_>>());
    for name in &names {
        let wanted: Value =
            serde_json::from_str(&std::fs::read_to_string(root().join("dashboards").join(name)).unwrap()).unwrap();
        assert_eq!(serde_json::from_str::<Value>(data[name].as_str().unwrap()).unwrap(), wanted, "{name}");
    }
    // A ConfigMap holds a mebibyte.
    assert!(data.to_string().len() < 500_000, "{}", data.to_string().len());
}
