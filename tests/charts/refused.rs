//! Values that contradict each other: each stops Helm with a message that says what to do.

use serde_json::{Value, json};
use testkit::helm::ask;

use crate::stage::{charts, over};

/// What is set below `baton`, and words of the message.
type Refused = (Value, &'static [&'static str]);

fn contradictions() -> Vec<Refused> {
    let store = |store: Value| json!({"config": {"store": over(&json!({"redis": null}), &store)}});
    let and = |base: Value, more: Value| over(&base, &more);
    let kubernetes = || store(json!({"kubernetes": {}}));
    let quorum =
        || store(json!({"quorum": {"members": [{"url": "redis://a"}, {"url": "redis://b"}, {"url": "redis://c"}]}}));
    let secret = |more: Value| json!({"redis": over(&json!({"existingSecret": "login"}), &more)});
    vec![
        (store(json!({})), &["config.store is empty", "name one store"]),
        (
            json!({"config": {"store": {"kubernetes": {}}}}),
            &["names kubernetes and redis: leave one", "with --reuse-values or", "give all values anew"],
        ),
        (json!({"config": {"roles": []}}), &["config.roles is empty", "name a role"]),
        (json!({"config": {"store": {"redis": {"url": null}}}}), &["store.redis.url is missing", "baton.redis.urlKey"]),
        (secret(json!({})), &["none of its keys"]),
        (json!({"redis": {"urlKey": "url"}}), &["name it in baton.redis.existingSecret"]),
        (json!({"redis": {"passwordKey": "password"}}), &["name it in baton.redis.existingSecret"]),
        (secret(json!({"urlKey": "url"})), &["store says `url`", "leave one out"]),
        (
            and(secret(json!({"passwordKey": "p"})), json!({"config": {"store": {"redis": {"password": "${P}"}}}})),
            &["store says `password`", "leave one out"],
        ),
        (
            and(
                json!({"redis": {"tls": {"existingSecret": "ca"}}}),
                json!({"config": {"store": {"redis": {"tls": {"caFile": "/ca"}}}}}),
            ),
            &["store says `tls`", "leave one out"],
        ),
        (and(kubernetes(), secret(json!({"passwordKey": "p"}))), &["neither redis nor quorum"]),
        (and(quorum(), secret(json!({"urlKey": "url"}))), &["every member", "has its own"]),
        (json!({"redis": {"tls": {"existingSecret": "t", "certKey": "c"}}}), &["belong together"]),
        (
            json!({"config": {"locks": {"store": {"redis": {}}}}}),
            &["config.locks.store.redis.url is missing", "baton.locksRedis.urlKey"],
        ),
        (json!({"config": {"jobsStore": {"redis": {}}}}), &["config.jobsStore.redis.url is missing"]),
        (
            json!({"locksRedis": {"existingSecret": "login", "passwordKey": "p"}}),
            &["baton.locksRedis names a Secret", "no locks.store.redis"],
        ),
        (json!({"jobsRedis": {"passwordKey": "p"}}), &["name it in baton.jobsRedis.existingSecret"]),
        (
            json!({
                "config": {"jobsStore": {"redis": {"url": "redis://jobs", "password": "${P}"}}},
                "jobsRedis": {"existingSecret": "login", "passwordKey": "p"},
            }),
            &["baton.config.jobsStore says `password`", "baton.jobsRedis takes it", "leave one out"],
        ),
        (
            and(kubernetes(), json!({"serviceAccount": {"create": false}})),
            &["needs rights", "baton.serviceAccount.name"],
        ),
        (
            and(kubernetes(), json!({"config": {"store": {"kubernetes": {"namePrefix": "${PREFIX}"}}}})),
            &["write roles, jobs, keyPrefix, namePrefix and namespace out", "baton.rbac.create"],
        ),
        (json!({"leaderService": {"enabled": true}}), &["selects the leader by its label", "podLabels"]),
        (json!({"config": {"telemetry": {"listen": "127.0.0.1:4041"}}}), &["telemetry.listen is loopback", "use [::]"]),
        (json!({"config": {"telemetry": {"listen": "0.0.0.0:${PORT}"}}}), &["written out", "the probes need the port"]),
    ]
}

/// Passwords that would stand in a ConfigMap.
fn passwords() -> Vec<Refused> {
    let redis = |redis: Value| json!({"config": {"store": {"redis": redis}}});
    let members = json!([{"url": "redis://a"}, {"url": "redis://:s3cret@b"}, {"url": "redis://c"}]);
    vec![
        (redis(json!({"url": "redis://web:s3cret@redis:6379/0"})), &["store has a password in plain text", "a Secret"]),
        (redis(json!({"url": "redis://:s3cret@redis"})), &["store has a password in plain text", "baton.redis."]),
        (redis(json!({"password": "s3cret"})), &["store has a password in plain text", "write ${NAME} in its place"]),
        (
            redis(json!({"url": "redis-sentinel://a?sentinelServiceName=b&sentinelPassword=s3cret"})),
            &["store has a password in plain text"],
        ),
        (
            json!({"config": {"store": {"redis": null, "quorum": {"members": members}}}}),
            &["store has a password in plain text"],
        ),
        (
            json!({"config": {"jobsStore": {"redis": {"url": "redis://:s3cret@jobs"}}}}),
            &["jobsStore has a password in plain text", "baton.jobsRedis.existingSecret"],
        ),
    ]
}

/// Services for a leader that there is not.
fn leader_services() -> Vec<Refused> {
    vec![
        (
            leader_service("", json!([{"name": "stock", "shards": 4}])),
            &["would select nobody", "the role stock has 4 shards", "such as stock/0, or leave the Service out"],
        ),
        (leader_service("stock/4", json!([{"name": "stock", "shards": 4}])), &["the role stock has shards 0 to 3"]),
        (leader_service("stock/0", json!([{"name": "stock"}])), &["the role stock has no shards"]),
        (leader_service("a", json!([{"name": "b"}, {"name": "c"}])), &["role is a, but", "roles has b, c"]),
        (leader_service("", json!([{"name": "${ROLE}"}])), &["selects by the role's name", "write it out"]),
    ]
}

/// A Service for the leader of one of these roles.
fn leader_service(role: &str, roles: Value) -> Value {
    json!({
        "config": {"kubernetes": {"podLabels": true}, "roles": roles},
        "leaderService": {"enabled": true, "role": role},
    })
}

#[test]
fn contradictions_are_refused_with_what_to_do() {
    let charts = charts();
    let cases = [contradictions(), passwords(), leader_services()].concat();
    let requests: Vec<Value> =
        cases.iter().map(|(values, _)| charts.render("baton-demo", &json!({"baton": values}))).collect();
    for ((values, words), answer) in cases.iter().zip(ask(&requests)) {
        let why = answer.expect_err(&format!("{values} is not refused"));
        for word in *words {
            assert!(why.contains(word), "{values}: no \"{word}\" in: {why}");
        }
    }
}

#[test]
fn no_refusal_tells_a_password_and_a_variable_in_its_place_is_taken() {
    let charts = charts();
    let render = |redis: Value| charts.render("baton-demo", &json!({"baton": {"config": {"store": {"redis": redis}}}}));
    let sentinels = "redis-sentinel://u:${P}@a?sentinelServiceName=b&sentinelUsername=c&sentinelPassword=${Q}";
    let answers = ask(&[
        render(json!({"url": "redis://web:s3cret@redis:6379/0"})),
        render(json!({"password": "s3cret"})),
        render(json!({"url": "redis://web:${P}@redis:6379/0"})),
        render(json!({"url": "redis://web@redis:6379/0", "password": "${P}"})),
        render(json!({"url": sentinels})),
        render(json!({"url": "redis://[::1]:6379/0"})),
    ]);
    for refused in &answers[..2] {
        assert!(refused.as_ref().is_err_and(|why| !why.contains("s3cret")), "{refused:?}");
    }
    for taken in &answers[2..] {
        assert!(taken.is_ok(), "{taken:?}");
    }
}

/// A chart whose only template is this, and which depends on the library.
fn chart_with(charts: &testkit::helm::Charts, template: &str, dependency: &str) -> Value {
    let folder = charts.folder().join("caller");
    std::fs::create_dir_all(folder.join("templates")).unwrap();
    let manifest = format!("apiVersion: v2\nname: caller\nversion: 1.0.0\ndependencies:\n{dependency}");
    std::fs::write(folder.join("Chart.yaml"), manifest).unwrap();
    std::fs::write(folder.join("templates/all.yaml"), template).unwrap();
    json!({"do": "depend", "chart": folder})
}

#[test]
fn a_template_in_the_wrong_place_says_so() {
    let dependency = "  - { name: baton, version: 0.1.0, repository: \"file://../baton\" }\n";
    let aliased = "  - { name: baton, version: 0.1.0, repository: \"file://../baton\", alias: elector }\n";
    let values = json!({"baton": {"config": {
        "store": {"redis": {"url": "redis://redis"}}, "roles": [{"name": "scheduler"}],
    }}});
    let plain = over(&values, &json!({"baton": {"nativeSidecar": false}}));
    let cases = [
        ("x: {{ include \"baton.container\" . | toJson }}\n", dependency, &values, "baton.nativeSidecar is true"),
        ("x: {{ include \"baton.sidecar\" . | toJson }}\n", dependency, &plain, "baton.nativeSidecar is false"),
        (
            "{{ range .Values.baton.config.roles }}{{ include \"baton.objects\" . }}{{ end }}\n",
            dependency,
            &values,
            "the chart's root ($)",
        ),
        ("x: {{ include \"baton.annotations\" . | toJson }}\n", aliased, &json!({}), "without an alias"),
    ];
    for (template, dependency, values, words) in cases {
        let charts = charts();
        let render = charts.render("caller", values);
        let answers = ask(&[chart_with(&charts, template, dependency), render]);
        assert_eq!(answers[0], Ok(Value::Null));
        assert!(answers[1].as_ref().is_err_and(|why| why.contains(words)), "{template}: {:?}", answers[1]);
    }
}
