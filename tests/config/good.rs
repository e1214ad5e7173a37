//! Good configurations: what they become.

use std::time::Duration;

use baton::config::{AckMode, Guard, LogFormat, LogLevel, RedisConfig, Secret, StoreConfig, check_text};
use secrecy::ExposeSecret;

use crate::support::{BASE, check, environment, good, good_with};

fn redis(text: &str) -> RedisConfig {
    match good(text).store() {
        StoreConfig::Redis(redis) => (**redis).clone(),
        other => panic!("{other:?}:\n{text}"),
    }
}

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

#[test]
fn what_is_not_given_has_its_default() {
    let config = good(BASE);
    assert_eq!(&**config.identity(), "web-0");
    assert_eq!(config.api().listen.to_string(), "127.0.0.1:4040");
    assert!(config.api().token.is_none());
    assert_eq!(config.telemetry().listen.to_string(), "[::]:4041");
    assert_eq!((config.log().level, config.log().format), (LogLevel::Info, LogFormat::Json));
    assert_eq!(config.default_role(), None);
    let role = &config.roles()[0];
    assert_eq!((role.name.as_str(), &role.app_check), ("scheduler", &None));
    let timing = role.timing;
    assert_eq!((timing.lease_duration(), timing.renew_period()), (ms(15_000), ms(5_000)));
    assert_eq!((timing.step_down_margin(), timing.answer_validity()), (ms(1_000), ms(5_000)));
    let redis = redis(BASE);
    assert_eq!(redis.url.expose_secret(), "redis://redis:6379/0");
    assert_eq!((redis.key_prefix.as_str(), redis.command_timeout, redis.guard), ("baton", ms(1_000), Guard::Strict));
    let replication = redis.replication;
    assert_eq!((replication.acks, replication.mode, replication.timeout), (0, AckMode::Wait, ms(500)));
    assert!(redis.username.is_none() && redis.password.is_none());
    assert!(check(BASE).unwrap().warnings.is_empty());
}

#[test]
fn a_long_lease_makes_no_long_promises_unless_it_is_told_to() {
    let validity = |more: &str| good(&format!("{BASE}    leaseDuration: {more}\n")).roles()[0].timing.answer_validity();
    for (more, expected) in [
        ("6s", ms(2_000)),
        ("10m", ms(5_000)),
        ("10m\n    renewPeriod: 3s", ms(3_000)),
        ("10m\n    answerValidity: 200s", ms(200_000)),
    ] {
        assert_eq!(validity(more), expected, "{more}");
    }
}

#[test]
fn locks_are_there_with_their_defaults_and_guarded_for_a_lease() {
    let locks = |more: &str| good(&format!("{BASE}{more}\n")).locks().clone();
    let config = locks("");
    assert_eq!((config.lease, config.max_lease, config.guard), (ms(30_000), ms(3_600_000), ms(30_000)));
    assert_eq!(config.max_waiters, 1_000);
    let config = locks("locks: { lease: 2h, maxWaiters: 7 }");
    assert_eq!((config.lease, config.max_lease, config.guard), (ms(7_200_000), ms(7_200_000), ms(7_200_000)));
    assert_eq!(config.max_waiters, 7);
    assert!(config.dapr_stores.is_empty(), "Dapr's lock API is not answered unless it is asked for");
    assert_eq!(locks("locks: { dapr: { stores: [lockstore, other.one] } }").dapr_stores, ["lockstore", "other.one"]);
    let doubtful = check(&format!("{BASE}locks: {{ guard: 10s }}\n")).unwrap();
    assert_eq!(doubtful.config.locks().guard, ms(10_000));
    assert_eq!(doubtful.warnings.len(), 1, "{:?}", doubtful.warnings);
    assert!(doubtful.warnings[0].message.contains("less than lease"));
}

#[test]
fn daprs_jobs_are_delivered_where_it_is_said_for_the_role_that_is_meant() {
    assert_eq!(good(BASE).jobs_dapr(), None, "Dapr's Jobs API is not answered unless it is asked for");
    let dapr = |more: &str| good(&format!("{BASE}{more}\n")).jobs_dapr().cloned().unwrap();
    let config = dapr("jobsDapr: { url: 'http://127.0.0.1:8080' }");
    assert_eq!((config.url.as_str(), config.timeout), ("http://127.0.0.1:8080/", ms(30_000)));
    let config = dapr("jobsDapr: { url: 'https://app/base', role: scheduler, timeout: 1h }");
    assert_eq!((config.url.as_str(), config.role.as_str()), ("https://app/base", "scheduler"));
    assert_eq!(config.timeout, ms(3_600_000));
}

#[test]
fn what_is_given_is_taken() {
    let config = good(
        "
identity: web-0
api: { listen: '[::1]:5050' }
telemetry: { listen: 127.0.0.1:0 }
store:
  redis:
    url: rediss-sentinel://sentinel:26379/1?sentinelServiceName=main
    username: app
    password: pass
    keyPrefix: shop:baton
    commandTimeout: 800ms
    replication: { acks: 2, mode: waitaof, timeout: 300ms }
    guard: off
roles:
  - name: a
    leaseDuration: 1m
    renewPeriod: 10s
    stepDownMargin: 2s
    answerValidity: 1.5s
    shards: 1
    appCheck: { httpGet: { host: '[::1]', port: 8080, path: '/ok?full=1' }, period: 500ms, failureThreshold: 5 }
  - name: b
defaultRole: b
kubernetes: { podLabels: false, events: false, leaseMirror: false }
jobs: []
log: { level: debug, format: text }
",
    );
    assert_eq!(config.api().listen.to_string(), "[::1]:5050");
    assert_eq!(config.default_role().as_ref().map(|name| name.as_str()), Some("b"));
    assert_eq!((config.log().level, config.log().format), (LogLevel::Debug, LogFormat::Text));
    let role = &config.roles()[0];
    assert_eq!((role.timing.lease_duration(), role.timing.answer_validity()), (ms(60_000), ms(1_500)));
    let check = role.app_check.as_ref().unwrap();
    assert_eq!((check.host.as_str(), check.port, check.path.as_str()), ("[::1]", 8080, "/ok?full=1"));
    assert_eq!(
        (check.period, check.timeout, check.failure_threshold),
        (ms(500), ms(500), 5),
        "a check ends before the next"
    );
    let StoreConfig::Redis(redis) = config.store() else { panic!("not redis") };
    assert_eq!((redis.key_prefix.as_str(), redis.command_timeout, redis.guard), ("shop:baton", ms(800), Guard::Off));
    let replication = redis.replication;
    assert_eq!((replication.acks, replication.mode, replication.timeout), (2, AckMode::WaitAof, ms(300)));
    let value = |secret: &Option<Secret>| secret.as_ref().unwrap().read().unwrap().expose_secret().to_owned();
    assert_eq!((value(&redis.username), value(&redis.password)), ("app".to_owned(), "pass".to_owned()));
}

#[test]
fn the_command_timeout_shrinks_with_the_fastest_role_unless_it_is_given() {
    let with = |role: &str| BASE.replace("- name: scheduler", role);
    assert_eq!(redis(&with("- {name: a, leaseDuration: 3003ms}")).command_timeout, ms(1_000));
    let fast = redis(&with("- {name: a, leaseDuration: 3s}\n  - {name: b, leaseDuration: 600ms}\n  - name: c"));
    assert_eq!(fast.command_timeout, ms(100));
    assert_eq!(fast.replication.timeout, ms(50), "the acknowledgements are waited for within it");
}

#[test]
fn two_listeners_on_any_free_port_or_on_two_addresses_do_not_collide() {
    for (api, telemetry) in [("127.0.0.1:0", "127.0.0.1:0"), ("127.0.0.1:4040", "127.0.0.2:4040")] {
        let config = good(&format!("api: {{listen: '{api}'}}\ntelemetry: {{listen: '{telemetry}'}}\n{BASE}"));
        assert_eq!(
            (config.api().listen.to_string(), config.telemetry().listen.to_string()),
            (api.into(), telemetry.into())
        );
    }
}

#[test]
fn the_identity_is_the_pods_name_else_the_hosts() {
    let unnamed = BASE.replace("identity: web-0\n", "");
    assert_eq!(&**good_with(&unnamed, &[("POD_NAME", "web-7")]).identity(), "web-7");
    assert_eq!(&**good_with(&unnamed, &[("POD_NAME", "")]).identity(), "host-0");
    assert_eq!(&**good(&unnamed).identity(), "host-0");
    assert_eq!(&**good_with(BASE, &[("POD_NAME", "web-7")]).identity(), "web-0");
}

#[test]
fn values_come_from_the_environment_as_values_never_as_yaml() {
    let text = "
identity: ${WHO:-web}-${N}
store: { redis: { url: 'redis://:${PASSWORD}@redis', keyPrefix: '${PREFIX:-baton}', replication: { acks: '${ACKS}' } } }
roles:
  - name: ${ROLE}
    leaseDuration: ${LEASE:-20s}
    appCheck: { httpGet: { port: '${PORT}' } }
";
    let variables = [("N", "0"), ("PASSWORD", "a%3A"), ("ACKS", "2"), ("ROLE", "r"), ("PORT", "8080")];
    let config = good_with(text, &variables);
    assert_eq!((&**config.identity(), config.roles()[0].name.as_str()), ("web-0", "r"));
    assert_eq!(config.roles()[0].timing.lease_duration(), ms(20_000));
    assert_eq!(config.roles()[0].app_check.as_ref().unwrap().port, 8080);
    let StoreConfig::Redis(redis) = config.store() else { panic!("not redis") };
    assert_eq!(redis.url.expose_secret(), "redis://:a%3A@redis");
    assert_eq!(redis.replication.acks, 2);
    let injected = [("N", "0\nroles: []"), ("PASSWORD", "p"), ("ACKS", "1"), ("ROLE", "r"), ("PORT", "8080")];
    let error = check_text(text, "config.yaml", &environment(&injected)).unwrap_err();
    assert_eq!(error.problems().len(), 1, "a line break in a name is a bad name, no more: {error}");
}

#[test]
fn both_spellings_of_off_switch_the_guard_off() {
    for (text, guard) in [("off", Guard::Off), ("'off'", Guard::Off), ("false", Guard::Off), ("strict", Guard::Strict)]
    {
        let text = BASE.replace("/0\n", &format!("/0\n    guard: {text}\n"));
        assert_eq!(redis(&text).guard, guard, "{text}");
    }
}

#[test]
fn yaml_may_be_written_in_its_other_ways() {
    let anchored = "store: {memory: }\nroles:\n- &a {name: a}\n- {name: b}\nlog: &log {level: warn}\n";
    assert_eq!(good(anchored).roles().len(), 2);
    let aliased =
        BASE.replace("identity: web-0", "identity: &name scheduler").replace("name: scheduler", "name: *name");
    assert_eq!(good(&aliased).roles()[0].name.as_str(), "scheduler");
    assert_eq!(&**good(&BASE.replace('\n', "\r\n")).identity(), "web-0");
    assert_eq!(&**good(&format!("\u{feff}{BASE}")).identity(), "web-0");
    assert_eq!(&**good(&format!("---\n{BASE}...\n")).identity(), "web-0");
    assert_eq!(&**good(r#"{"store":{"memory":{}},"roles":[{"name":"a"}],"identity":"json"}"#).identity(), "json");
}

#[test]
fn doubtful_choices_are_warnings() {
    let redis = "redis:\n    url: redis://redis:6379/0";
    for (to, path, fragment) in [
        ("memory: {}", "store.memory", "each would lead"),
        ("redis: {url: 'redis://:p@a'}", "store.redis.url", "password in plain text"),
        ("redis: {url: 'redis://a', password: p}", "store.redis.password", "plain text"),
        ("redis: {url: 'redis://a', username: u}", "store.redis", "no password"),
        ("redis: {url: 'redis://a', guard: off}", "store.redis.guard", "two replicas may lead"),
        ("redis: {url: 'redis://a', guard: heard}", "store.redis.guard", "when Redis fails over"),
        ("kubernetes: {guard: off}", "store.kubernetes.guard", "two replicas may lead"),
        ("redis: {url: 'redis-sentinel://a?sentinelServiceName=m'}", "store.redis.replication", "set acks"),
    ] {
        let told = warnings(&BASE.replace(redis, to));
        assert_eq!(told.len(), 1, "{to}: {told:?}");
        assert_eq!(told[0].0, path, "{told:?}");
        assert!(told[0].1.contains(fragment), "{told:?}");
    }
}

fn warnings(text: &str) -> Vec<(String, String)> {
    let loaded = check(text).unwrap_or_else(|error| panic!("{error}"));
    loaded.warnings.into_iter().map(|warning| (warning.path, warning.message)).collect()
}

#[test]
fn a_store_that_acknowledges_by_a_log_needs_no_acknowledgements_and_no_generation() {
    let set = |more: &str| BASE.replace("url: redis://redis:6379/0", &format!("url: {more}"));
    let sentinels = "redis-sentinel://a?sentinelServiceName=m\n    durability: synchronous";
    for (more, guard, in_force) in [
        ("redis://a", Guard::Strict, Guard::Strict),
        ("redis://a\n    durability: asynchronous", Guard::Strict, Guard::Strict),
        ("redis://a\n    durability: synchronous", Guard::Strict, Guard::Heard),
        (sentinels, Guard::Strict, Guard::Heard),
        ("redis://a\n    durability: synchronous\n    guard: heard", Guard::Heard, Guard::Heard),
    ] {
        let config = redis(&set(more));
        assert_eq!((config.guard, config.guard_in_force()), (guard, in_force), "{more}");
        assert_eq!(warnings(&set(more)), vec![], "{more}");
    }
    let off = set("redis://a\n    durability: synchronous\n    guard: off");
    assert_eq!(redis(&off).guard_in_force(), Guard::Off);
    assert_eq!(warnings(&off).len(), 1);
}

#[test]
fn leases_in_kubernetes_need_no_key_and_take_them_all() {
    let leases = |store: &str, lease: &str| {
        let text = format!("store: {store}\nroles: [{{name: a, leaseDuration: {lease}}}]\nidentity: web-0\n");
        match good(&text).store() {
            StoreConfig::Kubernetes(leases) => leases.clone(),
            other => panic!("{other:?}"),
        }
    };
    let unset = leases("{kubernetes: }", "30s");
    assert_eq!((unset.namespace, unset.name_prefix.as_str(), unset.guard), (None, "baton", Guard::Strict));
    assert_eq!(unset.command_timeout, ms(5_000));
    assert_eq!(leases("{kubernetes: {}}", "15s").command_timeout, ms(2_500), "half of the renewal period");
    let set = leases("{kubernetes: {namespace: shop, namePrefix: app, commandTimeout: 1s, guard: off}}", "15s");
    assert_eq!((set.namespace.as_deref(), set.name_prefix.as_str()), (Some("shop"), "app"));
    assert_eq!((set.command_timeout, set.guard), (ms(1_000), Guard::Off));
}

#[test]
fn a_role_goes_to_who_is_preferred_by_priority_and_by_a_version_that_the_pod_tells() {
    let of = |keys: &str, variables: &[(&str, &str)]| {
        let config = good_with(&BASE.replace("- name: scheduler", &format!("- {{name: a, {keys}}}")), variables);
        config.roles()[0].preference.clone().expect("a preference")
    };
    let zone = [("ZONE_PRIORITY", "7"), ("POD_VERSION", "5f7c9")];
    let by_place = of("priority: \"${ZONE_PRIORITY}\"", &zone);
    assert_eq!((by_place.priority, by_place.version, by_place.after), (7, None, ms(60_000)), "only where it is wanted");
    let newest = of("prefer: newest, preferAfter: 5s", &zone);
    assert_eq!((newest.priority, newest.version.as_deref(), newest.after), (0, Some("5f7c9"), ms(5_000)));
    let own =
        BASE.replace("- name: scheduler", "- {name: a, prefer: newest}").replace("store:", "version: '2'\nstore:");
    assert_eq!(good_with(&own, &zone).roles()[0].preference.as_ref().and_then(|it| it.version.as_deref()), Some("2"));
    assert_eq!(good(BASE).roles()[0].preference, None);
}

#[test]
fn shards_are_roles_with_the_timings_and_the_check_of_theirs() {
    let role = "- {name: a, shards: 3, leaseDuration: 9s, appCheck: {httpGet: {port: 80}}}\n  - {name: b, shards: 1}";
    let config = good(&BASE.replace("- name: scheduler", role));
    let names: Vec<&str> = config.roles().iter().map(|role| role.name.as_str()).collect();
    assert_eq!(names, ["a/0", "a/1", "a/2", "b"]);
    assert!(config.roles()[..3].iter().all(|role| role.timing == config.roles()[0].timing && role.app_check.is_some()));
    assert!(config.roles()[3].app_check.is_none());
}
