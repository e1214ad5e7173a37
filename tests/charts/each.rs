//! Every documented value, one by one: changing it changes what is rendered, and a wrong one is refused with a message
//! that names it.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use testkit::helm::{ask, done};

use crate::stage::{charts, over, with};
use crate::values::documented;

/// A value's path in the demo chart, another value, what else must be set for it to matter, and a wrong one.
struct Row(&'static str, Value, Value, Value);

fn images() -> Vec<Row> {
    vec![
        Row("baton.image.repository", json!("registry.example.com/baton"), json!({}), json!("Baton Image")),
        Row("baton.image.tag", json!("0.1.1"), json!({}), json!(1)),
        Row("baton.image.digest", json!(format!("sha256:{}", "ab".repeat(32))), json!({}), json!("sha256:short")),
        Row("baton.image.pullPolicy", json!("Always"), json!({}), json!("Sometimes")),
        Row("image.repository", json!("registry.example.com/python"), json!({}), json!("python 3")),
        Row("image.tag", json!("3.12-slim"), json!({}), json!("")),
        Row("image.digest", json!(format!("sha256:{}", "ab".repeat(32))), json!({}), json!("latest")),
        Row("image.pullPolicy", json!("Never"), json!({}), json!("never")),
        Row("imagePullSecrets", json!([{"name": "registry"}]), json!({}), json!(["registry"])),
    ]
}

fn configuration() -> Vec<Row> {
    let secret = json!({"baton": {"redis": {"existingSecret": "login", "usernameKey": "user"}}});
    let in_secret =
        over(&secret, &json!({"baton": {"config": {"store": {"redis": {"url": null}}}, "redis": {"urlKey": "url"}}}));
    let tls = json!({"baton": {"redis": {"tls": {"existingSecret": "tls"}}}});
    let pair = over(&tls, &json!({"baton": {"redis": {"tls": {"certKey": "c", "keyKey": "k"}}}}));
    let store = |timeout: &str| json!({"redis": {"commandTimeout": timeout}});
    let own = |config: Value| json!({"baton": {"config": config}});
    let (redis, login) = (json!({"redis": {"url": "redis://own"}}), json!({"existingSecret": "l", "passwordKey": "p"}));
    vec![
        Row("baton.config.store", store("2s"), json!({}), json!({"redis": {"comandTimeout": "2s"}})),
        Row("baton.config.store.redis.url", json!("redis://other:6379/0"), json!({}), json!("http://redis:6379")),
        Row("baton.config.roles", json!([{"name": "other"}]), json!({}), json!([{"name": "Other"}])),
        Row("baton.redis.existingSecret", json!("other"), secret.clone(), json!("No Name")),
        Row("baton.redis.urlKey", json!("other"), in_secret, json!("a/b")),
        Row("baton.redis.usernameKey", json!("other"), secret.clone(), json!(7)),
        Row("baton.redis.passwordKey", json!("password"), secret, json!(["password"])),
        Row("baton.redis.tls.existingSecret", json!("other"), tls.clone(), json!(true)),
        Row("baton.redis.tls.caKey", json!("ca.pem"), tls, json!("a b")),
        Row("baton.redis.tls.certKey", json!("other"), pair.clone(), json!("a b")),
        Row("baton.redis.tls.keyKey", json!("other"), pair, json!({})),
        Row("baton.locksRedis", login.clone(), own(json!({"locks": {"store": redis}})), json!({"urlKey": "a/b"})),
        Row("baton.jobsRedis", login, own(json!({"jobsStore": redis})), json!({"secret": "login"})),
        Row("baton.reloadRoles", json!(false), json!({}), json!("no")),
    ]
}

fn sidecar() -> Vec<Row> {
    let mount = json!([{"name": "more", "mountPath": "/more"}]);
    vec![
        Row("baton.nativeSidecar", json!(false), json!({}), json!("true")),
        Row("baton.appDrainSeconds", json!(60), json!({}), json!("60s")),
        Row("baton.waitForStore", json!(true), json!({}), json!(1)),
        Row("baton.resources", json!({"limits": {"memory": "32Mi"}}), json!({}), json!({"memory": "32Mi"})),
        Row("baton.runAsUser", json!(1000), json!({}), json!(0)),
        Row("baton.runAsGroup", json!(1000), json!({}), json!("nobody")),
        Row("baton.platformUser", json!(true), json!({}), json!("openshift")),
        Row("baton.env", json!([{"name": "ZONE", "value": "a"}]), json!({}), json!({"ZONE": "a"})),
        Row("baton.extraVolumes", json!([{"name": "more", "emptyDir": {}}]), json!({}), json!([{"emptyDir": {}}])),
        Row("baton.extraVolumeMounts", mount, json!({}), json!([{"name": "more"}])),
    ]
}

fn objects() -> Vec<Row> {
    let rights = json!({"baton": {"config": {"store": {"redis": null, "kubernetes": {}}}}});
    let on = |what: &str| json!({"baton": {what: {"enabled": true}}});
    let labelled = || json!({"release": "prometheus"});
    let leader = json!({"baton": {
        "config": {"kubernetes": {"podLabels": true}, "roles": [{"name": "scheduler"}, {"name": "outbox"}]},
        "leaderService": {"enabled": true},
    }});
    let account = json!({"baton": {"serviceAccount": {"create": false}}});
    let label = json!({"baton": {"config": {"kubernetes": {"podLabels": true}}}});
    let cidr = "10.0.0.1/32";
    let peer = json!({"ipBlock": {"cidr": cidr}});
    let shut = json!({"baton": {"networkPolicy": {"enabled": true, "apiServer": [peer]}}});
    let mesh = json!({"baton": {"mesh": {"kind": "linkerd"}}});
    vec![
        Row("baton.serviceAccount.create", json!(false), json!({}), json!("yes")),
        Row("baton.serviceAccount.name", json!("worker"), account, json!("Worker 1")),
        Row("baton.serviceAccount.annotations", json!({"a.example.com/b": "c"}), json!({}), json!({"a": 1})),
        Row("baton.rbac.create", json!(false), rights, json!("yes")),
        Row("baton.rbac.admissionPolicy", json!(true), label.clone(), json!("on")),
        Row("baton.podSelector", json!({"app": "web"}), on("podMonitor"), json!("app=web")),
        Row("baton.fullnameOverride", json!("other"), json!({}), json!("Other")),
        Row("baton.podMonitor.enabled", json!(true), json!({}), json!("true")),
        Row("baton.podMonitor.interval", json!("30s"), on("podMonitor"), json!(30)),
        Row("baton.podMonitor.scrapeTimeout", json!("5s"), on("podMonitor"), json!("5")),
        Row("baton.podMonitor.labels", labelled(), on("podMonitor"), json!(["release"])),
        Row("baton.prometheusRule.enabled", json!(true), json!({}), json!(1)),
        Row("baton.prometheusRule.labels", labelled(), on("prometheusRule"), json!({"release": 1})),
        Row(
            "baton.prometheusRule.runbookUrl",
            json!("https://git.example.com/runbooks"),
            on("prometheusRule"),
            json!("git.example.com"),
        ),
        Row("baton.dashboards.enabled", json!(true), json!({}), json!("on")),
        Row("baton.dashboards.labels", labelled(), on("dashboards"), json!("release")),
        Row("baton.networkPolicy.enabled", json!(true), json!({}), json!({})),
        Row(
            "baton.networkPolicy.metricsFrom",
            json!([{"podSelector": {}}]),
            on("networkPolicy"),
            json!({"podSelector": {}}),
        ),
        Row("baton.networkPolicy.apiServer", json!([peer]), on("networkPolicy"), json!([cidr])),
        Row("baton.networkPolicy.apiServerPorts", json!([16443]), shut.clone(), json!(["https"])),
        Row("baton.networkPolicy.dns", json!(false), shut, json!("no")),
        Row("baton.networkPolicy.egress", json!([{"ports": [{"port": 6379}]}]), on("networkPolicy"), json!(["redis"])),
        Row("baton.mesh.kind", json!("istio"), json!({}), json!("cilium")),
        Row("baton.mesh.inboundPorts", json!([8080]), mesh.clone(), json!(["http"])),
        Row("baton.mesh.outboundPorts", json!([443]), mesh, json!([0])),
        Row("baton.leaderService.enabled", json!(true), label, json!("true")),
        Row("baton.leaderService.name", json!("primary"), leader.clone(), json!("Primary")),
        Row("baton.leaderService.role", json!("outbox"), leader.clone(), json!("Out Box")),
        Row("baton.leaderService.ports", json!([{"port": 81}]), leader, json!([])),
    ]
}

fn demo() -> Vec<Row> {
    let limits = || json!({"limits": {"memory": "96Mi"}});
    vec![
        Row("replicaCount", json!(5), json!({}), json!("three")),
        Row("worker.pauseSeconds", json!(0.5), json!({}), json!(-1)),
        Row("worker.resources", limits(), json!({}), json!({"limits": "96Mi"})),
        Row("ledger.resources", limits(), json!({}), json!({"limit": {}})),
        Row("podLabels", json!({"team": "shop"}), json!({}), json!(["team"])),
        Row("podAnnotations", json!({"a.example.com/b": "c"}), json!({}), json!({"a": true})),
        Row("nodeSelector", json!({"kubernetes.io/arch": "amd64"}), json!({}), json!("amd64")),
        Row("tolerations", json!([{"operator": "Exists"}]), json!({}), json!({"operator": "Exists"})),
        Row("podDisruptionBudget.maxUnavailable", json!("50%"), json!({}), json!("half")),
        Row("networkPolicy.enabled", json!(true), json!({}), json!("true")),
        Row("fullnameOverride", json!("other"), json!({}), json!("Other!")),
        Row("nameOverride", json!("other"), json!({}), json!(["other"])),
    ]
}

fn rows() -> Vec<Row> {
    [images(), configuration(), sidecar(), objects(), demo()].into_iter().flatten().collect()
}

#[test]
fn there_is_a_row_for_every_documented_value() {
    let rows: Vec<&str> = rows().iter().map(|row| row.0).collect();
    let unique: BTreeSet<&str> = rows.iter().copied().collect();
    assert_eq!(unique.len(), rows.len());
    let library = documented("baton").into_iter().map(|value| format!("baton.{}", value.path));
    let demo = documented("baton-demo").into_iter().map(|value| value.path);
    let documented: BTreeSet<String> = library.chain(demo).collect();
    assert_eq!(documented, unique.into_iter().map(str::to_owned).collect());
}

#[test]
fn every_value_is_used() {
    let charts = charts();
    let render = |values: &Value| charts.render("baton-demo", values);
    let rows = rows();
    // Many need nothing, and share what they are compared with.
    let before: Vec<String> = rows.iter().map(|row| row.2.to_string()).collect();
    let unique: BTreeSet<&String> = before.iter().collect();
    let changed = |Row(path, value, needs, _): &Row| over(needs, &with(json!({}), path, value.clone()));
    let mut requests: Vec<Value> = rows.iter().map(|row| render(&changed(row))).collect();
    requests.extend(unique.iter().map(|needs| render(&serde_json::from_str(needs).unwrap())));
    let texts: Vec<Value> = done(&requests).into_iter().map(|mut answer| answer["text"].take()).collect();
    let unchanged: BTreeMap<&String, &Value> = unique.into_iter().zip(&texts[rows.len()..]).collect();
    for ((row, needs), text) in rows.iter().zip(&before).zip(&texts) {
        assert_ne!(text, unchanged[needs], "{} changes nothing", row.0);
    }
}

#[test]
fn every_wrong_value_is_refused_with_its_path() {
    let charts = charts();
    let wrong = |Row(path, _, needs, wrong): &Row| over(needs, &with(json!({}), path, wrong.clone()));
    let rows = rows();
    let mut requests: Vec<Value> = rows.iter().map(|row| charts.render("baton-demo", &wrong(row))).collect();
    let unknown = ["colour", "image.colour", "baton.colour", "baton.image.colour", "baton.config.roles.colour"];
    requests.extend(unknown.map(|path| charts.render("baton-demo", &with(json!({}), path, json!("red")))));
    let answers = ask(&requests);
    for (row, answer) in rows.iter().zip(&answers) {
        let why = answer.as_ref().expect_err(&format!("{} = {} is not refused", row.0, row.3));
        // Helm names the chart, and the path below it with slashes.
        let below = row.0.strip_prefix("baton.").unwrap_or(row.0).replace('.', "/");
        assert!(why.contains("values don't meet the specifications of the schema"), "{}: {why}", row.0);
        assert!(why.contains(&below), "{}: {why}", row.0);
    }
    for (path, answer) in unknown.iter().zip(&answers[rows.len()..]) {
        assert!(
            answer.as_ref().is_err_and(|why| why.contains("colour") || why.contains("roles")),
            "{path}: {answer:?}"
        );
    }
}
