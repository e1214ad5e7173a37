//! Wrong configurations: each mistake makes one problem, at its line, with what would be right.

use baton::config::{AbsentFiles, Config, check_text};
use secrecy::ExposeSecret;

use crate::support::{BASE, check, environment, problems};

/// What to replace in [`BASE`], by what, and the expected problems: line, path, part of the message.
type Case<'c> = (&'c str, &'c str, &'c [(usize, &'c str, &'c str)]);

fn expect_each(cases: &[Case<'_>]) {
    for (from, to, expected) in cases {
        assert!(BASE.contains(from), "{from:?} is not in the base");
        let text = BASE.replace(from, to);
        let told = problems(&text, &[]);
        assert_eq!(told.len(), expected.len(), "{to:?} makes {told:#?}");
        for ((line, path, message), (line_expected, path_expected, fragment)) in told.iter().zip(*expected) {
            assert_eq!((line, path.as_str()), (line_expected, *path_expected), "{to:?}: {message}");
            assert!(message.contains(fragment), "{to:?}: {message:?} lacks {fragment:?}");
        }
    }
}

#[test]
fn unknown_missing_and_misplaced_keys_are_told() {
    expect_each(&[
        ("identity", "identty", &[(1, "identty", "did you mean `identity`?")]),
        ("identity: web-0", "leader: web-0", &[(1, "leader", "unknown key; here belong some of the keys `api`")]),
        ("identity: web-0", "Roles: []", &[(1, "Roles", "did you mean `roles`?")]),
        ("identity: web-0", "<<: {a: 1}", &[(1, "\"<<\"", "`<<` is not supported")]),
        ("identity: web-0", "1: 2", &[(1, "1", "unknown key")]),
        ("identity: web-0", "? [a, b]\n: 1", &[(1, "\"?\"", "unknown key")]),
        ("url", "uri", &[(3, "store.redis.url", "is missing; add it (Where it is"), (4, "store.redis.uri", "`url`?")]),
        ("    url: redis://redis:6379/0\n", "", &[(3, "store.redis", "is empty; write a mapping with")]),
        ("  - name: scheduler", "  - leaseDuration: 15s", &[(6, "roles[0].name", "is missing; add it (Its name")]),
        (
            "  - name: scheduler",
            "  - scheduler",
            &[(6, "roles[0]", "is a text; write a mapping with some of the keys")],
        ),
        ("\n  - name: scheduler", " {name: scheduler}", &[(5, "roles", "is a mapping; write a list")]),
        ("\n  - name: scheduler", " []", &[(5, "roles", "at least one role is needed")]),
        ("\n  - name: scheduler", "", &[(5, "roles", "is empty; write a list")]),
        ("roles:\n  - name: scheduler\n", "", &[(1, "roles", "is missing; add it (The roles")]),
        ("store:\n  redis:\n    url: redis://redis:6379/0\n", "", &[(1, "store", "is missing; add it (Where leases")]),
        ("identity: web-0", "identity:", &[(1, "identity", "has no value; give it one, or remove the key")]),
        ("identity: web-0", "api:", &[(1, "api", "is empty; write a mapping with some of the keys `listen`")]),
        ("identity: web-0", "identity: [web-0]", &[(1, "identity", "is a list; write a single value")]),
        ("identity: web-0", "identity: !x web-0", &[(1, "identity", "is a tagged value")]),
        ("identity: web-0", "log: info", &[(1, "log", "is a text; write a mapping")]),
    ]);
}

#[test]
fn a_file_that_is_no_mapping_at_all_is_told() {
    for (text, fragment) in [
        ("", "the file is empty"),
        ("# nothing yet\n", "the file is empty"),
        ("just words", "is a text; write a mapping with some of the keys"),
        ("- a\n- b\n", "is a list; write a mapping"),
        ("~", "is empty; write a mapping"),
        ("a: [1, 2", "this is not YAML"),
        ("a: 1\n\tb: 2\n", "this is not YAML"),
    ] {
        let told = problems(text, &[]);
        assert_eq!(told.len(), 1, "{text:?}: {told:?}");
        assert!(told[0].2.contains(fragment), "{text:?}: {:?}", told[0].2);
    }
    assert_eq!(problems(&format!("{BASE}---\n{BASE}"), &[])[0].0, 7, "the second document's line");
}

#[test]
fn keys_given_twice_are_told() {
    expect_each(&[
        ("identity: web-0", "identity: web-0\nidentity: web-1", &[(2, "identity", "is given twice, first on line 1")]),
        (
            "  - name: scheduler",
            "  - name: scheduler\n    leaseDuration: 15s\n    name: b\n    leaseDuration: 16s",
            &[(8, "roles[0].name", "first on line 6"), (9, "roles[0].leaseDuration", "first on line 7")],
        ),
        (
            "  - name: scheduler",
            "  - name: a\n  - name: b\n  - name: a\n  - name: a",
            &[(8, "roles[2].name", "the name of roles[0] too"), (9, "roles[3].name", "the name of roles[0] too")],
        ),
    ]);
}

#[test]
fn durations_without_a_unit_or_sense_are_told() {
    let role = "  - name: scheduler";
    let lease = "roles[0].leaseDuration";
    expect_each(&[
        (role, "  - {name: a, leaseDuration: 15}", &[(6, lease, "`15` has no unit; write seconds as `15s`")]),
        (role, "  - {name: a, leaseDuration: 60, renewPeriod: 20s}", &[(6, lease, "`60` has no unit")]),
        (role, "  - {name: a, leaseDuration: '15'}", &[(6, lease, "`15` has no unit")]),
        (role, "  - {name: a, leaseDuration: 1.5}", &[(6, lease, "`1.5` has no unit")]),
        (role, "  - {name: a, leaseDuration: -5}", &[(6, lease, "`-5` is not a duration")]),
        (role, "  - {name: a, leaseDuration: true}", &[(6, lease, "`true` is not a duration")]),
        (role, "  - {name: a, leaseDuration: 15 s}", &[(6, lease, "`15 s` is not a duration")]),
        (role, "  - {name: a, leaseDuration: 15sec}", &[(6, lease, "unknown unit")]),
        (role, "  - {name: a, leaseDuration: 30s1m}", &[(6, lease, "larger ones first")]),
        (role, "  - {name: a, leaseDuration: 1.5ms}", &[(6, lease, "finer than a millisecond")]),
        (role, "  - {name: a, leaseDuration: {s: 15}}", &[(6, lease, "is a mapping; write a single value")]),
        (role, "  - {name: a, leaseDuration: }", &[(6, lease, "has no value")]),
        ("0\nroles", "0\n    commandTimeout: 0s\nroles", &[(5, "store.redis.commandTimeout", "is zero")]),
    ]);
}

#[test]
fn impossible_timings_are_told() {
    let role = "  - name: scheduler";
    let command_timeout = "store.redis.commandTimeout";
    expect_each(&[
        (
            role,
            "  - name: a\n    leaseDuration: 15s\n    renewPeriod: 7s",
            &[(7, "roles[0].leaseDuration", "more than 2 x renewPeriod + stepDownMargin, which is 15s")],
        ),
        (
            role,
            "  - name: a\n    renewPeriod: 8s",
            &[(7, "roles[0].renewPeriod", "leaseDuration is 15s; it must be more")],
        ),
        (
            role,
            "  - name: a\n    stepDownMargin: 299ms\n    answerValidity: 14900ms",
            &[(7, "roles[0].stepDownMargin", "at least 300ms"), (8, "roles[0].answerValidity", "at most 14.701s")],
        ),
        (
            role,
            "  - name: a\n    leaseDuration: 50ms\n    renewPeriod: 0s",
            &[(7, "roles[0].leaseDuration", "between 100ms and 86400s"), (8, "roles[0].renewPeriod", "is zero")],
        ),
        (
            "0\nroles:\n  - name: scheduler",
            "0\n    commandTimeout: 2s\nroles: [{name: a, leaseDuration: 6s}, {name: b}, {name: c, leaseDuration: 3s}]",
            &[(5, command_timeout, "less than every role's renewPeriod, here 2s"), (5, command_timeout, "(role c)")],
        ),
        (
            "0\nroles",
            "0\n    replication: {acks: 1, timeout: 1s}\nroles",
            &[(5, "store.redis.replication.timeout", "less than commandTimeout, 1s")],
        ),
        (
            role,
            "  - name: a\n    appCheck:\n      httpGet: {port: 1}\n      timeout: 3s\n",
            &[(9, "roles[0].appCheck.timeout", "at most the period, 2s")],
        ),
        (
            role,
            "  - name: a\n    appCheck:\n      httpGet: {port: 1}\n      period: 2h\n",
            &[(9, "roles[0].appCheck.period", "at most 1h")],
        ),
    ]);
}

#[test]
fn single_values_of_the_wrong_sort_are_told() {
    let role = "  - name: scheduler";
    let name = "roles[0].name";
    let redis = "0\nroles";
    let acks = "store.redis.replication.acks";
    let check = "roles[0].appCheck";
    let host = &[(6, "roles[0].appCheck.httpGet.host", "is not a host")];
    expect_each(&[
        (role, "  - name: Scheduler", &[(6, name, "`Scheduler` is not a role name; use a DNS label")]),
        (role, "  - name: a/0", &[(6, name, "DNS label")]),
        (role, "  - name: 7", &[(6, name, "is a number where a text belongs; put it in quotes")]),
        (role, "  - name: true", &[(6, name, "put it in quotes")]),
        (role, "  - name: ''", &[(6, name, "is empty")]),
        (role, "  - name: a\ndefaultRole: b", &[(7, "defaultRole", "`b` is not one of the roles; they are `a`")]),
        (role, "  - name: A\ndefaultRole: b", &[(6, name, "DNS label")]),
        (redis, "0\n    keyPrefix: 'a{b}'\nroles", &[(5, "store.redis.keyPrefix", "`a{b}` cannot begin a key")]),
        (redis, "0\n    keyPrefix: ''\nroles", &[(5, "store.redis.keyPrefix", "is empty")]),
        (redis, "0\n    guard: loose\nroles", &[(5, "store.redis.guard", "write one of `strict`, `heard`, `off`")]),
        (redis, "0\n    guard: true\nroles", &[(5, "store.redis.guard", "`true` is not known here")]),
        (
            redis,
            "0\n    replication: {acks: 1}\n    durability: synchronous\nroles",
            &[(6, "store.redis.durability", "keep one of the two")],
        ),
        (redis, "0\n    replication: {acks: 17}\nroles", &[(5, acks, "`17` is not right here; write a whole number")]),
        (redis, "0\n    replication: {acks: -1}\nroles", &[(5, acks, "from 0 to 16")]),
        (redis, "0\n    replication: {acks: 1.5}\nroles", &[(5, acks, "whole number")]),
        (redis, "0\n    replication: {acks: '1'}\nroles", &[(5, acks, "without quotes")]),
        (redis, "0\n    replication: {acks: many}\nroles", &[(5, acks, "write a whole number from 0 to 16")]),
        (redis, "0\n    replication: {acks: 1e99}\nroles", &[(5, acks, "whole number")]),
        (
            redis,
            "0\n    replication: {mode: sync}\nroles",
            &[(5, "store.redis.replication.mode", "write one of `wait`, `waitaof`")],
        ),
        (
            "identity: web-0",
            "log: {level: loud, format: xml}",
            &[(1, "log.level", "`loud`"), (1, "log.format", "`xml`")],
        ),
        (role, "  - {name: a, appCheck: {}}", &[(6, "roles[0].appCheck.httpGet", "is missing; add it (What to ask)")]),
        (role, "  - {name: a, appCheck: {httpGet: {port: 0}}}", &[(6, "roles[0].appCheck.httpGet.port", "1 to 65535")]),
        (role, "  - {name: a, appCheck: {httpGet: {port: 1, host: 'http://a'}}}", host),
        (role, "  - {name: a, appCheck: {httpGet: {port: 1, host: 'a b'}}}", host),
        (
            role,
            "  - {name: a, appCheck: {httpGet: {port: 1, path: healthz}}}",
            &[(6, "roles[0].appCheck.httpGet.path", "begins with `/`")],
        ),
        (
            role,
            "  - {name: a, appCheck: {httpGet: {port: 1}, failureThreshold: 0}}",
            &[(6, "roles[0].appCheck.failureThreshold", "from 1 to 1000")],
        ),
        (role, "  - {name: a, appCheck: 8080}", &[(6, check, "is a number; write a mapping with")]),
    ]);
}

#[test]
fn identities_that_name_nobody_are_told() {
    expect_each(&[
        ("web-0", "''", &[(1, "identity", "is empty")]),
        ("web-0", "$(POD_NAME)", &[(1, "identity", "unexpanded `$(`")]),
        ("web-0", "web 0", &[(1, "identity", "spaces or control characters")]),
        ("web-0", "\"web\\n0\"", &[(1, "identity", "spaces or control characters")]),
        ("web-0", "7", &[(1, "identity", "put it in quotes")]),
        ("web-0", "${NO_SUCH_VARIABLE}", &[(1, "identity", "NO_SUCH_VARIABLE is not set")]),
        ("web-0", "${NO", &[(1, "identity", "no closing")]),
    ]);
    let unnamed = BASE.replace("identity: web-0\n", "");
    let told = problems(&unnamed, &[("POD_NAME", "$(metadata.name)")]);
    assert!(told.len() == 1 && told[0].1 == "identity" && told[0].2.contains("fieldRef"), "{told:?}");
    let nowhere = baton::config::Environment::new(|_| None, None);
    let error = check_text(&unnamed, "config.yaml", &nowhere).unwrap_err().to_string();
    assert!(error.contains("neither POD_NAME nor a hostname"), "{error}");
}

#[test]
fn listeners_that_cannot_be_or_should_not_be_are_told() {
    let id = "identity: web-0";
    let (api, telemetry) = ("api.listen", "telemetry.listen");
    expect_each(&[
        (id, "api: {listen: '0.0.0.0:4040'}", &[(1, api, "anybody could make a leader resign; write 127.0.0.1:4040")]),
        (id, "api: {listen: '[::]:4040'}", &[(1, api, "or add `tokenFile`")]),
        (id, "api: {listen: 10.1.2.3:4040}", &[(1, api, "reached from outside")]),
        (
            id,
            "api: {listen: 4040}",
            &[(1, api, "`4040` is not an address to listen on; for port 4040 of the same pod")],
        ),
        (id, "api: {listen: ':4040'}", &[(1, api, "write 127.0.0.1:4040, for all addresses [::]:4040")]),
        (id, "api: {listen: 'localhost:4040'}", &[(1, api, "instead of a name write 127.0.0.1:4040")]),
        (id, "api: {listen: '127.0.0.1'}", &[(1, api, "such as 127.0.0.1:4040 or [::1]:4040")]),
        (id, "api: {listen: '127.0.0.1:70000'}", &[(1, api, "is not an address")]),
        (id, "telemetry: {listen: nonsense}", &[(1, telemetry, "such as [::]:4041 or [::1]:4041")]),
        (id, "telemetry: {listen: '0.0.0.0:4040'}", &[(1, telemetry, "are the same port; give them two")]),
    ]);
    // The default of the other side counts too; its place is then the file's beginning.
    expect_each(&[(id, "api: {listen: '127.0.0.1:4041'}", &[(1, telemetry, "are the same port")])]);
}

#[test]
fn stores_are_one_that_is_known() {
    let redis = "  redis:\n    url: redis://redis:6379/0";
    expect_each(&[
        (redis, "  {}", &[(2, "store", "names no store; write exactly one")]),
        (redis, "  redis: {url: 'redis://a'}\n  memory: {}", &[(2, "store", "has two stores")]),
        (redis, "  quorum: {}", &[(3, "store.quorum.members", "is missing; add it")]),
        (redis, "  quorum:", &[(3, "store.quorum", "is empty")]),
        (
            redis,
            "  kubernetes: {}\n  memory: {}",
            &[(2, "store", "has two stores, kubernetes and memory; keep exactly one")],
        ),
        (redis, "  kubernetes: {namespace: A}", &[(3, "store.kubernetes.namespace", "`A` is not a DNS label")]),
        (redis, "  kubernetes: {namePrefix: a.b}", &[(3, "store.kubernetes.namePrefix", "`a.b` is not a DNS label")]),
        (redis, "  kubernetes: {guard: lax}", &[(3, "store.kubernetes.guard", "`lax`")]),
        (
            redis,
            "  kubernetes: {commandTimeout: 5s}",
            &[(3, "store.kubernetes.commandTimeout", "less than every role's renewPeriod")],
        ),
        (redis, "  kubernetes: {kubeconfig: a}", &[(3, "store.kubernetes.kubeconfig", "unknown key; here belong")]),
        (redis, "  memory: {size: 1}", &[(3, "store.memory.size", "unknown key; there is nothing to set here")]),
        (redis, "  memory: 1", &[(3, "store.memory", "is a number; write {}")]),
        (redis, "  redis: redis://:hunter2@a", &[(3, "store.redis", "is a text; write a mapping")]),
        (redis, "  etcd: {}", &[(3, "store.etcd", "unknown key; here belong")]),
        ("identity: web-0", "kubernetes: {events: 1}", &[(1, "kubernetes.events", "neither true nor false")]),
        ("identity: web-0", "kubernetes: {event: true}", &[(1, "kubernetes.event", "did you mean `events`")]),
        ("- name: scheduler", "- {name: a, shards: 257}", &[(6, "roles[0].shards", "write a whole number")]),
        ("- name: scheduler", "- {name: a/0}", &[(6, "roles[0].name", "is not a role name")]),
        (
            "- name: scheduler",
            "- {name: a, shards: 2}\ndefaultRole: a",
            &[(7, "defaultRole", "a is split over shards, which have a leader each")],
        ),
        ("- name: scheduler", "- {name: a, shards: 0}", &[(6, "roles[0].shards", "write a whole number")]),
        ("- name: scheduler", "- {name: a, priority: -1}", &[(6, "roles[0].priority", "from 0 to 1000000")]),
        ("- name: scheduler", "- {name: a, prefer: oldest}", &[(6, "roles[0].prefer", "write one of `newest`")]),
        ("- name: scheduler", "- {name: a, prefer: newest}", &[(6, "roles[0].prefer", "set POD_VERSION")]),
        (
            "- name: scheduler",
            "- {name: a, shards: 2, priority: 1}",
            &[(6, "roles[0].priority", "cannot be had with shards")],
        ),
        (
            "- name: scheduler",
            "- {name: a, preferAfter: 1m}",
            &[(6, "roles[0].preferAfter", "says nothing without `priority` or `prefer`")],
        ),
        ("- name: scheduler", "- {name: a, priority: 1, preferAfter: 0s}", &[(6, "roles[0].preferAfter", "is zero")]),
        ("identity: web-0", "identity: web-0\nversion: $(HASH)", &[(2, "version", "holds an unexpanded `$(`")]),
    ]);
}

#[test]
fn daprs_jobs_that_cannot_be_are_told() {
    let redis = "  redis:\n    url: redis://redis:6379/0";
    expect_each(&[
        ("identity: web-0", "jobsDapr: {}", &[(1, "jobsDapr.url", "is missing; add it")]),
        ("identity: web-0", "jobsDapr: {url: 'ftp://a'}", &[(1, "jobsDapr.url", "neither http: nor https:")]),
        ("identity: web-0", "jobsDapr: {url: 'http://u:p@a'}", &[(1, "jobsDapr.url", "a user or a password")]),
        ("identity: web-0", "jobsDapr: {url: 'http://a/?b'}", &[(1, "jobsDapr.url", "write the address alone")]),
        (
            "identity: web-0",
            "jobsDapr: {url: 'http://a', role: other, timeout: 25h}",
            &[(1, "jobsDapr.role", "is not one of the roles"), (1, "jobsDapr.timeout", "at most 24h")],
        ),
        (
            redis,
            "  kubernetes: {}\njobsDapr: {url: 'http://a'}",
            &[(4, "jobsDapr", "cannot be had with this store: jobs that are made at run time are kept in Redis")],
        ),
    ]);
}

#[test]
fn locks_that_cannot_be_are_told() {
    expect_each(&[
        ("identity: web-0", "locks: {leese: 30s}", &[(1, "locks.leese", "did you mean `lease`")]),
        ("identity: web-0", "locks: {lease: 30}", &[(1, "locks.lease", "has no unit")]),
        ("identity: web-0", "locks: {lease: 50ms}", &[(1, "locks.lease", "between 100ms and 24h")]),
        ("identity: web-0", "locks: {lease: 25h}", &[(1, "locks.lease", "between 100ms and 24h")]),
        ("identity: web-0", "locks: {lease: 1m, maxLease: 30s}", &[(1, "locks.maxLease", "between lease")]),
        ("identity: web-0", "locks: {guard: 0s}", &[(1, "locks.guard", "is zero")]),
        ("identity: web-0", "locks: {guard: 25h}", &[(1, "locks.guard", "at most 24h")]),
        ("identity: web-0", "locks: {maxWaiters: 0}", &[(1, "locks.maxWaiters", "from 1 to 100000")]),
        ("identity: web-0", "locks: {dapr: {}}", &[(1, "locks.dapr.stores", "is missing; add it")]),
        (
            "identity: web-0",
            "locks: {dapr: {stores: []}}",
            &[(1, "locks.dapr.stores", "is empty; name the lock stores")],
        ),
        ("identity: web-0", "locks: {dapr: {stores: lockstore}}", &[(1, "locks.dapr.stores", "write a list")]),
        (
            "identity: web-0",
            "locks: {dapr: {stores: [a, 'b/c', a, 7]}}",
            &[
                (1, "locks.dapr.stores[1]", "cannot be a lock store's name"),
                (1, "locks.dapr.stores[2]", "a is named before"),
                (1, "locks.dapr.stores[3]", "put it in quotes"),
            ],
        ),
        ("identity: web-0", "locks: 1", &[(1, "locks", "is a number")]),
        (
            "  redis:\n    url: redis://redis:6379/0",
            "  kubernetes: {}\nlocks: {lease: 30s}",
            &[(4, "locks", "cannot be had with this store: an API server is no place for short locks")],
        ),
    ]);
}

#[test]
fn redis_urls_and_credentials_that_contradict_each_other_are_told() {
    let url = "url: redis://redis:6379/0";
    let at = "store.redis.url";
    expect_each(&[
        (url, "url: redis:6379", &[(4, at, "names no host; write it as redis://host:6379/0")]),
        (url, "url: http://redis", &[(4, at, "unknown scheme; use redis:, rediss: (TLS)")]),
        (url, "url: redis", &[(4, at, "has no scheme")]),
        (url, "url: redis-sentinel://s", &[(4, at, "sentinelServiceName")]),
        (url, "url: 6379", &[(4, at, "put it in quotes")]),
        (
            url,
            "url: redis://u:p@redis\n    username: v\n    password: q",
            &[
                (5, "store.redis.username", "the url names a user too"),
                (6, "store.redis.password", "names a password too"),
            ],
        ),
        (
            url,
            "url: redis://redis\n    password: q\n    passwordFile: /nowhere/password",
            &[(6, "store.redis.passwordFile", "is given beside password; keep one of the two")],
        ),
        (
            url,
            "url: redis://redis\n    passwordFile: /nowhere/p",
            &[(5, "store.redis.passwordFile", "/nowhere/p cannot be read")],
        ),
        (url, "url: redis://redis\n    password: 12345", &[(5, "store.redis.password", "put it in quotes")]),
        (url, "url: redis://redis\n    tls: {}", &[(5, "store.redis.tls", "begin the url with `rediss`")]),
        (
            url,
            "url: rediss://redis\n    tls: {caFile: /nowhere/ca}",
            &[(5, "store.redis.tls.caFile", "/nowhere/ca cannot be read")],
        ),
        (
            url,
            "url: rediss://redis\n    tls: {caFile: /dev/zero}",
            &[(5, "store.redis.tls.caFile", "not a regular file")],
        ),
    ]);
}

#[test]
fn files_of_secrets_are_looked_into() {
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str, content: &[u8]| {
        let path = directory.path().join(name);
        std::fs::write(&path, content).unwrap();
        path.display().to_string()
    };
    let (empty, good, pem) =
        (file("empty", b"\n"), file("good", b"s3cret\n"), file("pem", b"-----BEGIN CERTIFICATE-----\n"));
    let binary = file("binary", b"\xff\xfe");
    let redis = |more: &str| BASE.replace("redis://redis:6379/0", &format!("rediss://redis:6379/0\n    {more}"));
    for (text, path, fragment) in [
        (redis(&format!("passwordFile: {empty}")), "store.redis.passwordFile", "is empty; it must hold the secret"),
        (redis(&format!("passwordFile: {binary}")), "store.redis.passwordFile", "cannot be read"),
        (redis(&format!("tls: {{caFile: {good}}}")), "store.redis.tls.caFile", "is not a PEM file"),
        (redis(&format!("tls: {{certFile: {pem}}}")), "store.redis.tls.certFile", "needs keyFile beside it"),
        (redis(&format!("tls: {{keyFile: {pem}}}")), "store.redis.tls.keyFile", "needs certFile beside it"),
        (format!("api: {{tokenFile: {empty}}}\n{BASE}"), "api.tokenFile", "must hold the token"),
        (
            format!("api: {{tokenFile: {}}}\n{BASE}", file("spaced", b"two words")),
            "api.tokenFile",
            "no header can carry",
        ),
    ] {
        let told = problems(&text, &[]);
        assert_eq!(told.len(), 1, "{text}: {told:?}");
        assert_eq!(told[0].1, path, "{told:?}");
        assert!(told[0].2.contains(fragment), "{told:?}");
    }
    let open = format!("api: {{listen: '0.0.0.0:4040', tokenFile: {good}}}\n{BASE}");
    let token = check(&open).unwrap().config.api().token.as_ref().unwrap().read().unwrap();
    assert_eq!(token.expose_secret(), "s3cret");
}

#[test]
fn absent_files_are_warnings_where_the_file_is_only_checked() {
    let text = BASE.replace("redis://redis:6379/0", "redis://redis:6379/0\n    passwordFile: /nowhere/password");
    let elsewhere = environment(&[]).absent_files(AbsentFiles::Warn);
    let loaded = check_text(&text, "config.yaml", &elsewhere).unwrap();
    assert_eq!(loaded.warnings.len(), 1);
    assert_eq!((loaded.warnings[0].line, loaded.warnings[0].path.as_str()), (Some(5), "store.redis.passwordFile"));
    assert!(loaded.warnings[0].message.contains("not on this machine"));
}

#[test]
fn every_problem_is_told_at_once_in_the_order_of_the_file() {
    let text = "\
identity: $(hostname)
api:
  listen: 0.0.0.0:4040
  tokn: x
telemetry: { listen: '0.0.0.0:4040' }
store:
  redis:
    url: http://redis
    comandTimeout: 1s
    replication: { acks: many }
  etcd: {}
roles:
  - name: Scheduler
    leaseDuration: 15
  - name: b
    leaseDuration: 10s
    renewPeriod: 5s
jobs: [{}]
jobs: []
";
    let error = check(text).unwrap_err();
    let lines: Vec<usize> = error.problems().iter().map(|problem| problem.line.unwrap()).collect();
    assert_eq!(lines, [1, 3, 4, 5, 8, 9, 10, 11, 13, 14, 16, 19], "{error}");
    let shown = error.to_string();
    assert!(shown.contains("\nconfig.yaml:14:5: roles[0].leaseDuration: `15` has no unit; write"), "{shown}");
    assert!(shown.ends_with("\n12 problems in config.yaml"), "{shown}");
}

#[test]
fn no_message_holds_a_secret() {
    let variables = [("SECRET", "hunter2"), ("EMPTY", "")];
    let good = "redis://redis:6379/0";
    for text in [
        BASE.replace(good, "redis://:${SECRET}@redis:x"),
        BASE.replace(good, "redis://:${SECRET}#@redis"),
        BASE.replace(good, "redis://redis/${SECRET}"),
        BASE.replace(good, "${SECRET}"),
        BASE.replace(good, "redis://:hunter2@redis:port"),
        BASE.replace("url: redis", "password: {a: hunter2}\n    url: redis"),
        BASE.replace("url: redis", "password: [hunter2]\n    url: redis"),
        BASE.replace("url: redis", "keyPrefix: ${SECRET}!\n    url: redis"),
        BASE.replace("url: redis", "keyPrefix: redis://:hunter2@redis\n    url: redis"),
        BASE.replace("url: redis", "guard: ${SECRET}\n    url: redis"),
        BASE.replace("url: redis", "commandTimeout: ${SECRET}\n    url: redis"),
        BASE.replace("url: redis", "passwordd: hunter2\n    url: redis"),
        BASE.replace("name: scheduler", "name: ${SECRET}!"),
        BASE.replace("name: scheduler", "name: a\ndefaultRole: ${SECRET}"),
        BASE.replace("identity: web-0", "identity: ${SECRET} x"),
        BASE.replace("identity: web-0", "api: {listen: '${SECRET}'}"),
        BASE.replace("identity: web-0", "log: {level: '${SECRET}'}"),
        BASE.replace("identity: web-0", "identity: '${SECRET}${'"),
    ] {
        let error = check_text(&text, "config.yaml", &environment(&variables)).expect_err(&text);
        assert!(!error.to_string().contains("hunter2"), "{text}\n{error}");
        assert!(!format!("{error:?}").contains("hunter2"), "{text}\n{error:?}");
    }
    let text = BASE.replace(good, "redis://u:${SECRET}@redis\n    guard: 'off'");
    let loaded = check_text(&text, "config.yaml", &environment(&variables)).unwrap();
    assert!(!format!("{loaded:?}").contains("hunter2"));
}

#[test]
fn files_that_are_no_configuration_are_refused_as_such() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("config.yaml");
    let refused = |content: &[u8]| {
        std::fs::write(&path, content).unwrap();
        Config::load(&path, &environment(&[])).unwrap_err().to_string()
    };
    assert!(refused(b"identity: a\nstore: \xff\n").contains("config.yaml:2: is not UTF-8 here"));
    let huge = format!("{BASE}#{}", "x".repeat(1 << 20));
    assert!(refused(huge.as_bytes()).contains("larger than 1 MiB"));
    let load = |path: &std::path::Path| Config::load(path, &environment(&[])).unwrap_err().to_string();
    assert!(load(directory.path()).contains("is not a regular file"));
    assert!(load(&directory.path().join("absent.yaml")).contains("cannot be read"));
}

#[test]
fn shards_are_refused_with_the_reason_where_the_store_cannot_spread_them() {
    for (store, why) in [
        ("kubernetes: {}", "writes to the etcd"),
        ("quorum: {members: [{url: 'redis://a'}, {url: 'redis://b'}, {url: 'redis://c'}]}", "independent masters"),
    ] {
        let text = |shards| format!("identity: b\nstore: {{{store}}}\nroles: [{{name: a, shards: {shards}}}]\n");
        let environment = baton::config::Environment::new(|_| None, None);
        let error = baton::config::check_text(&text(2), "t.yaml", &environment).expect_err("refused").to_string();
        assert!(error.contains("roles[0].shards") && error.contains(why) && error.lines().count() <= 2, "{error}");
        assert!(baton::config::check_text(&text(1), "t.yaml", &environment).is_ok());
    }
}

#[test]
fn preferences_are_refused_with_the_reason_where_replicas_cannot_know_of_each_other() {
    for (keys, path) in [("priority: 0", "priority"), ("prefer: newest", "prefer")] {
        let text = format!("identity: b\nversion: a\nstore: {{kubernetes: {{}}}}\nroles: [{{name: a, {keys}}}]\n");
        let told = problems(&text, &[]);
        let [(4, place, message)] = told.as_slice() else { panic!("{told:?}") };
        assert!(*place == format!("roles[0].{path}") && message.contains("writes to the etcd"), "{place}: {message}");
    }
}

#[test]
fn more_roles_than_a_sidecar_takes_are_refused_with_each_shard_counted() {
    let roles = |count: usize| (0..count).map(|n| format!("  - name: role-{n}\n")).collect::<String>();
    let with = |more: &str| BASE.replace("  - name: scheduler\n", more);
    assert_eq!(check(&with(&roles(1_000))).map(|loaded| loaded.config.roles().len()).ok(), Some(1_000));
    let split = "  - { name: a, shards: 256 }\n  - { name: b, shards: 256 }\n  - { name: c, shards: 256 }\n";
    assert!(check(&with(&(split.to_owned() + &roles(232)))).is_ok());
    for (text, count) in [(roles(1_001), 1_001), (split.to_owned() + &roles(233), 1_001), (roles(20_000), 20_000)] {
        let told = problems(&with(&text), &[]);
        let [(5, path, message)] = told.as_slice() else { panic!("{told:?}") };
        assert_eq!(path, "roles");
        assert!(message.contains(&format!("make {count} roles")) && message.contains("1000 at most"), "{message}");
    }
}
