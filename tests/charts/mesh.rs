//! What a service mesh's proxy is kept out of: the pod's annotations.

use serde_json::{Map, Value, json};
use testkit::helm::{Charts, ask, done, object};

use crate::stage::over;

/// The annotations of the demo's workers that are a mesh's.
fn annotations(answer: &Value) -> Map<String, Value> {
    let worker = object(answer["objects"].as_array().unwrap(), "Deployment", "baton-demo");
    let all = worker["spec"]["template"]["metadata"]["annotations"].as_object().unwrap().clone();
    all.into_iter().filter(|(name, _)| name.contains("istio.io/") || name.contains("linkerd.io/")).collect()
}

/// Values below `baton` for this mesh, and further ones.
fn on(kind: &str, more: &Value) -> Value {
    json!({"baton": over(&json!({"mesh": {"kind": kind}}), more)})
}

fn at_redis(url: &str) -> Value {
    json!({"config": {"store": {"redis": {"url": url}}}})
}

#[test]
fn a_meshs_proxy_is_kept_out_of_telemetry_and_of_every_redis() {
    let charts = Charts::copy();
    let (inbound, outbound) = ("config.linkerd.io/skip-inbound-ports", "config.linkerd.io/skip-outbound-ports");
    let members = json!([{"url": "redis://a:7001"}, {"url": "redis://b:7002"}, {"url": "redis://c"}]);
    let stores = json!({"config": {
        "store": {"redis": null, "quorum": {"members": members}},
        "locks": {"store": {"redis": {"url": "rediss://user:${P}@locks:7003/0"}}},
        "jobsStore": {"redis": {"url": "redis://[::1]:7004"}},
    }});
    let own_ports = json!({
        "config": {"telemetry": {"listen": "[::]:9090"}},
        "mesh": {"inboundPorts": [8080, 9090], "outboundPorts": [443]},
    });
    let sentinels = "redis-sentinel://a/0?sentinelServiceName=main&node=b:26380";
    let cases = [
        (json!({}), "4041", "6379"),
        (stores, "4041", "7001,7002,6379,7003,7004"),
        (own_ports, "9090,8080", "6379,443"),
        (at_redis("redis://${HOST}:7000"), "4041", "7000"),
        (at_redis("redis-cluster://a:7000?node=b:7001&node=c:7000"), "4041", "7000,7001"),
        (over(&at_redis(sentinels), &json!({"mesh": {"outboundPorts": [6379]}})), "4041", "26379,26380,6379"),
    ];
    let requests = cases.each_ref().map(|(more, ..)| charts.render("baton-demo", &on("linkerd", more)));
    for ((more, before, behind), answer) in cases.iter().zip(done(&requests)) {
        let wanted = json!({inbound: before, outbound: behind});
        assert_eq!(Value::from(annotations(&answer)), wanted, "{more}");
    }
}

#[test]
fn istio_leaves_the_probes_of_a_sidecar_that_starts_before_its_proxy_alone() {
    let charts = Charts::copy();
    let container = json!({"nativeSidecar": false});
    let leases = json!({"config": {"store": {"redis": null, "kubernetes": {}}}});
    let (inbound, outbound) =
        ("traffic.sidecar.istio.io/excludeInboundPorts", "traffic.sidecar.istio.io/excludeOutboundPorts");
    let probes = "sidecar.istio.io/rewriteAppHTTPProbers";
    let cases = [
        (json!({}), json!({probes: "false", inbound: "4041", outbound: "6379"})),
        (container, json!({inbound: "4041", outbound: "6379"})),
        (leases, json!({probes: "false", inbound: "4041"})),
    ];
    let mut requests: Vec<Value> =
        cases.iter().map(|(more, _)| charts.render("baton-demo", &on("istio", more))).collect();
    requests.push(charts.render("baton-demo", &json!({})));
    let answers = done(&requests);
    for ((more, wanted), answer) in cases.iter().zip(&answers) {
        assert_eq!(&Value::from(annotations(answer)), wanted, "{more}");
    }
    assert_eq!(annotations(&answers[cases.len()]), Map::new(), "without a mesh");
}

#[test]
fn a_port_that_is_not_written_out_is_asked_for() {
    let charts = Charts::copy();
    let secret = json!({
        "redis": {"existingSecret": "login", "urlKey": "url"}, "config": {"store": {"redis": {"url": null}}},
    });
    let jobs = json!({
        "jobsRedis": {"existingSecret": "login", "urlKey": "url"}, "config": {"jobsStore": {"redis": {}}},
    });
    let cases = [
        (secret, "of store.redis:"),
        (jobs, "of jobsStore.redis:"),
        (at_redis("redis://${HOST}/0"), "of store.redis:"),
        (at_redis("redis-sentinel://a?sentinelServiceName=main"), "behind the Sentinels of store.redis:"),
    ];
    let listed = json!({"mesh": {"outboundPorts": [6379]}});
    for (more, words) in cases {
        let asked = [more.clone(), over(&more, &listed)].map(|more| charts.render("baton-demo", &on("istio", &more)));
        let answers = ask(&asked);
        let why = answers[0].as_ref().expect_err("it is not asked for");
        assert!(why.contains(words) && why.contains("list them in baton.mesh.outboundPorts"), "{more}: {why}");
        assert!(answers[1].is_ok(), "{more}: {:?}", answers[1]);
    }
}
