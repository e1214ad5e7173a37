//! The values that the charts are rendered with.

use serde_json::{Value, json};

/// One set of values for the demo chart.
pub struct Case {
    pub name: &'static str,
    pub values: Value,
}

/// What `BATON_REDIS_URL` is where a Secret has the URL.
pub const SECRET_URL: &str = "rediss://redis.example.com:6380/0";

fn case(name: &'static str, values: Value) -> Case {
    Case { name, values }
}

/// A configuration with another store than the demo's own.
fn store(store: Value, more: Value) -> Value {
    let mut baton = json!({"config": {"store": {"redis": null}}});
    baton["config"]["store"][store["kind"].as_str().unwrap()] = store["is"].clone();
    json!({"baton": crate::stage::over(&baton, &more)})
}

/// All of them.
pub fn cases() -> Vec<Case> {
    vec![
        case("default", json!({})),
        case("secret", from_a_secret()),
        case("sentinel", sentinel()),
        case("quorum", quorum()),
        case("own-stores", own_stores()),
        case("kubernetes", store(json!({"kind": "kubernetes", "is": {"namePrefix": "shop"}}), jobs())),
        case("container", container()),
        case("monitoring", monitoring()),
        case("openshift", json!({"baton": {"platformUser": true}})),
        case("long-names", long_names()),
        case("extras", extras()),
        case("preferences", preferences()),
        case("failover", json!({"baton": {"config": {"kubernetes": {"fastFailover": true}}}})),
    ]
}

/// Two roles prefer the newest, one a place.
fn preferences() -> Value {
    let roles = json!([
        {"name": "scheduler", "prefer": "newest", "preferAfter": "30s"},
        {"name": "outbox", "prefer": "newest"},
        {"name": "reports", "priority": "${ZONE_PRIORITY:-0}"},
    ]);
    json!({"baton": {"config": {"roles": roles, "defaultRole": "scheduler"}}})
}

fn from_a_secret() -> Value {
    json!({"baton": {
        "config": {"store": {"redis": {"url": null, "replication": {"acks": 1}}}},
        "redis": {
            "existingSecret": "redis-login", "urlKey": "url", "usernameKey": "user", "passwordKey": "redis-password",
            "tls": {"existingSecret": "redis-tls", "certKey": "tls.crt", "keyKey": "tls.key"},
        },
    }})
}

fn sentinel() -> Value {
    let url = "redis-sentinel://sentinel-0:26379/0?sentinelServiceName=main&node=sentinel-1:26379";
    json!({"baton": {
        "config": {
            "store": {"redis": {"url": url, "replication": {"acks": 1, "timeout": "500ms"}}},
            "roles": [
                {"name": "scheduler", "leaseDuration": "30s", "answerValidity": "2s"},
                {"name": "outbox", "leaseDuration": "10m", "appCheck": null},
            ],
            "defaultRole": "scheduler",
            "locks": {"maxWaiters": 100000, "maxLease": "2h"},
            "log": {"level": "debug"},
        },
        "redis": {"existingSecret": "redis", "passwordKey": "redis-password"},
    }})
}

fn quorum() -> Value {
    let members: Vec<Value> = (0..3).map(|n| json!({"url": format!("rediss://redis-{n}:6379/0")})).collect();
    let more = json!({"redis": {"existingSecret": "redis", "passwordKey": "p", "tls": {"existingSecret": "ca"}}});
    store(json!({"kind": "quorum", "is": {"members": members, "commandTimeout": "500ms"}}), more)
}

/// A quorum, and a Redis each for locks and for jobs.
fn own_stores() -> Value {
    let members: Vec<Value> = (0..3).map(|n| json!({"url": format!("redis://redis-{n}:6379/0")})).collect();
    let run = json!({"http": {"url": "http://127.0.0.1:8080/nightly"}});
    let more = json!({
        "config": {
            "locks": {"lease": "20s", "store": {"redis": {"commandTimeout": "2s", "replication": {"acks": 1}}}},
            "jobsStore": {"redis": {"url": "redis://redis-jobs:6379/0"}},
            "jobs": [{"name": "nightly", "schedule": "@daily", "run": run}],
        },
        "redis": {"existingSecret": "redis", "passwordKey": "p"},
        "locksRedis": {
            "existingSecret": "locks", "urlKey": "url", "passwordKey": "p",
            "tls": {"existingSecret": "ca", "certKey": "tls.crt", "keyKey": "tls.key"},
        },
        "jobsRedis": {"existingSecret": "jobs", "usernameKey": "u", "passwordKey": "p"},
    });
    store(json!({"kind": "quorum", "is": {"members": members, "commandTimeout": "500ms"}}), more)
}

fn jobs() -> Value {
    let run = json!({"http": {"url": "http://127.0.0.1:8080/nightly"}});
    json!({"config": {"jobs": [{"name": "nightly-report", "schedule": "0 2 * * *", "run": run}]}})
}

fn container() -> Value {
    json!({"baton": {
        "nativeSidecar": false,
        "waitForStore": true,
        "reloadRoles": false,
        "config": {
            "telemetry": {"listen": "[::]:9090"},
            "api": {"listen": "127.0.0.1:4141"},
            "identity": "${POD_NAME}.${ZONE}",
        },
        "env": [{"name": "ZONE", "value": "a"}],
        "extraVolumes": [{"name": "more", "emptyDir": {}}],
        "extraVolumeMounts": [{"name": "more", "mountPath": "/more", "readOnly": true}],
        "image": {
            "repository": "registry.example.com:5000/tools/baton",
            "digest": format!("sha256:{}", "0a".repeat(32)),
        },
    }})
}

fn monitoring() -> Value {
    json!({
        "networkPolicy": {"enabled": true},
        "podLabels": {"team": "shop"},
        "podAnnotations": {"example.com/owner": "shop"},
        "imagePullSecrets": [{"name": "registry"}],
        "nodeSelector": {"kubernetes.io/arch": "amd64"},
        "tolerations": [{"key": "spot", "operator": "Exists"}],
        "podDisruptionBudget": {"maxUnavailable": "34%"},
        "baton": {
            "podMonitor": {"enabled": true, "scrapeTimeout": "5s", "labels": {"release": "prometheus"}},
            "prometheusRule": {"enabled": true, "labels": {"release": "prometheus"}},
            "dashboards": {"enabled": true},
            "networkPolicy": {
                "enabled": true,
                "metricsFrom": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}],
                "egress": [{"to": [{"podSelector": {"matchLabels": {"app": "redis"}}}], "ports": [{"port": 6379}]}],
            },
        },
    })
}

fn long_names() -> Value {
    json!({"nameOverride": "n".repeat(56), "baton": {
        "config": {"kubernetes": {"podLabels": false}},
        "serviceAccount": {"create": false, "name": "workers"},
    }})
}

/// Whatever the API server may be told about who leads.
fn extras() -> Value {
    json!({"baton": {
        "config": {"kubernetes": {"podLabels": true, "events": true, "leaseMirror": true}},
        "rbac": {"admissionPolicy": true},
        "leaderService": {"enabled": true, "ports": [{"name": "http", "port": 80, "targetPort": 8080}]},
    }})
}
