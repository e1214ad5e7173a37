//! What a stranger reads who has set something up wrong: the app's `reason`, the log and `baton audit` name the thing
//! and what to do about it.

use std::process::{Command, Output};
use std::time::Duration;

use testkit::ports::free_port;
use testkit::redis::RedisServer;
use testkit::resp::Reply;
use testkit::sentinel::{SERVICE, Sentinel};
use testkit::sidecars::replica::{Lease, Replica, Settings};
use testkit::tls;
use testkit::wait::{found_within, until, until_some};

/// A mistake, and the words that it is told with.
struct Wrong {
    url: String,
    /// Further keys of `store.redis`, each with a comma before it.
    more: String,
    /// In `reason` and in a warning of the log; none where Baton works all the same, until it needs what is missing.
    says: Vec<&'static str>,
    /// In `baton audit`.
    audit: Vec<&'static str>,
}

impl Wrong {
    /// Told everywhere with the same words.
    fn new(url: impl Into<String>, more: impl Into<String>, says: &[&'static str]) -> Self {
        Self { url: url.into(), more: more.into(), says: says.to_vec(), audit: says.to_vec() }
    }
}

/// Runs a sidecar with the mistake, and the audit.
fn judge(what: &str, wrong: &Wrong) {
    let settings = Settings { redis_more: wrong.more.clone(), ..Settings::new(0, wrong.url.clone(), Lease::SHORT) };
    let replica = Replica::start(0, settings);
    let has_all = |text: &str, words: &[&str]| words.iter().all(|word| text.contains(word));
    if !wrong.says.is_empty() {
        let mut told = String::new();
        until_told(what, &wrong.says, &mut told, |told| {
            let answer = replica.ask("GET /leader", "");
            *told = serde_json::from_str::<serde_json::Value>(&answer.body).expect("JSON")["reason"].to_string();
            has_all(told, &wrong.says)
        });
        let warns = |line: &str| line.contains("WARN") && has_all(line, &wrong.says);
        until(&format!("the log says so, too: {what}"), || replica.log().lines().any(warns));
    }
    let audited = baton(&["audit", "--config", &replica.config.display().to_string()]);
    let report = format!("{}{}", text(&audited.stdout), text(&audited.stderr));
    assert!(has_all(&report, &wrong.audit), "{what}: {:?} in {report}", wrong.audit);
    assert!(!audited.status.success(), "{what}: {report}");
    assert!(!report.contains("wrong-secret") && !replica.log().contains("wrong-secret"), "{what}: a secret is told");
}

/// Like `until`, but shows what was told last.
fn until_told(what: &str, words: &[&str], told: &mut String, mut look: impl FnMut(&mut String) -> bool) {
    let found = found_within(Duration::from_secs(20), || look(told).then_some(()));
    assert!(found.is_some(), "{what}: {words:?} is not told, but {told}");
}

fn baton(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_baton")).args(arguments).output().expect("it runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The keys for an authority and a client's certificate with its key.
fn files(ca: &str, client: Option<&str>) -> String {
    let client = client.map(|name| {
        let (certificate, key) = tls::pair(name);
        format!(", certFile: \"{}\", keyFile: \"{}\"", certificate.display(), key.display())
    });
    format!(", tls: {{ caFile: \"{}\"{} }}", tls::pair(ca).0.display(), client.unwrap_or_default())
}

#[test]
fn a_wrong_certificate_is_named_with_its_remedy() {
    let (plain, port) = tls::start("server", "ca");
    let (_other, other) = tls::start("elsewhere", "other-ca");
    let (_expired, expired) = tls::start("expired-server", "other-ca");
    let (_suspicious, suspicious) = tls::start("server", "other-ca");
    let url = |port: u16| format!("rediss://127.0.0.1:{port}/0");
    let theirs = Some("other-client");
    for (what, wrong) in [
        (
            "another authority",
            Wrong::new(url(port), files("other-ca", Some("client")), &["not trusted", "check caFile"]),
        ),
        (
            "another host",
            Wrong::new(
                url(other),
                files("other-ca", theirs),
                &["is for another host", "the host in the URL", "it names elsewhere.example"],
            ),
        ),
        (
            "an expired server",
            Wrong::new(url(expired), files("expired-server", theirs), &["its certificate has expired", "renewed"]),
        ),
        ("no client", Wrong::new(url(port), files("ca", None), &["asks for a client", "set certFile and keyFile"])),
        (
            "a foreign client",
            Wrong::new(url(port), files("ca", theirs), &["does not trust", "certFile", "tls-ca-cert-file"]),
        ),
        (
            "an expired client",
            Wrong::new(url(suspicious), files("ca", Some("expired")), &["certFile has expired", "renew it"]),
        ),
        (
            "no encryption where there must be",
            Wrong::new(url(port).replace("rediss", "redis"), "", &["if that port speaks TLS", "rediss:"]),
        ),
        (
            "encryption where there is none",
            Wrong::new(url(plain.port()), files("ca", Some("client")), &["no answer", "a port that speaks TLS"]),
        ),
    ] {
        judge(what, &wrong);
    }
}

#[test]
fn tls_files_that_cannot_be_used_are_named_at_the_start_and_by_check_config() {
    let directory = tempfile::tempdir().expect("a directory");
    let config = directory.path().join("config.yaml");
    let path = |name: &str| tls::fixture(name).display().to_string();
    let absent = directory.path().join("absent.pem").display().to_string();
    for (what, ca, certificate, key, words) in [
        (
            "a key of another certificate",
            "ca.pem",
            path("client.pem"),
            path("other-client.key"),
            "keyFile and certFile belong together",
        ),
        (
            "a key where a certificate belongs",
            "ca.pem",
            path("client.key"),
            path("client.key"),
            "certFile want some in PEM",
        ),
        (
            "a certificate where a key belongs",
            "ca.pem",
            path("client.pem"),
            path("client.pem"),
            "keyFile wants a private key",
        ),
        ("no such file", "ca.pem", absent.clone(), path("client.key"), "absent.pem"),
        ("no authority in the file", "client.key", path("client.pem"), path("client.key"), "caFile and certFile want"),
    ] {
        let tls = format!("caFile: '{}', certFile: '{certificate}', keyFile: '{key}'", path(ca));
        let yaml = format!(
            "store: {{ redis: {{ url: 'rediss://127.0.0.1:1/0', tls: {{ {tls} }} }} }}\nroles: [{{ name: a }}]\n"
        );
        std::fs::write(&config, yaml).expect("written");
        let file = config.display().to_string();
        let run = baton(&["run", "--config", &file]);
        let said = text(&run.stderr);
        assert_eq!(run.status.code(), Some(64), "{what}: {said}");
        assert!(said.contains(words) && said.contains("tls"), "{what}: {said}");
        let checked = baton(&["check-config", &file]);
        let said = text(&checked.stderr);
        assert!(said.contains(words) && said.contains("tls"), "check-config, {what}: {said}");
    }
}

/// The rights of docs/redis.md without this one.
fn all_but(right: &str) -> String {
    let all = "~baton:* resetchannels &baton:* -@all +hello +auth +select +ping +info +time +client|id +evalsha +eval \
               +hmget +hset +exists +del +pexpire +pttl +publish +subscribe +unsubscribe +wait";
    let rights = all.split_whitespace().filter(|other| *other != right);
    rights.collect::<Vec<_>>().join(" ")
}

#[test]
fn a_missing_right_is_named_with_what_gives_it() {
    let master = RedisServer::start();
    let replica = RedisServer::start_with(&["--replicaof", "127.0.0.1", &master.port().to_string()]);
    until("the replica is connected", || master.command(&["INFO", "replication"]).text().contains("state=online"));
    // What a script lacks the server names only since 7.2; before, the audit is what tells.
    const SCRIPT: &str = "may not run";
    let tells: &[(&str, &[&str], &str)] = &[
        ("+evalsha", &["add +evalsha"], "add +evalsha"),
        ("+eval", &["add +eval"], "add +eval"),
        ("+info", &["add +info"], "add +info"),
        ("+select", &["add +select"], "add +select"),
        ("+wait", &["add +wait"], "add +wait"),
        ("~baton:*", &["add ~<keyPrefix>:*"], "add ~<keyPrefix>:*"),
        ("+time", &[SCRIPT, "docs/redis.md lists"], "add +time"),
        ("+hmget", &[SCRIPT, "docs/redis.md lists"], "add +hmget"),
        ("+hset", &[SCRIPT, "docs/redis.md lists"], "add +hset"),
        ("+exists", &[SCRIPT, "docs/redis.md lists"], "add +exists"),
        ("+pexpire", &[SCRIPT, "docs/redis.md lists"], "add +pexpire"),
        ("+publish", &[SCRIPT, "docs/redis.md lists"], "add +publish"),
        ("+pttl", &[], "add +pttl"),
        ("+del", &[], "add +del"),
        ("+ping", &[], "add +ping"),
        ("+subscribe", &[], "add +subscribe"),
        ("&baton:*", &["add &<keyPrefix>:*"], "add &<keyPrefix>:*"),
    ];
    for (right, says, audit) in tells {
        let user = format!("all-but-{}", right.trim_matches(|c: char| !c.is_alphanumeric()).replace(":*", ""));
        let rights = all_but(right);
        let words: Vec<&str> =
            ["ACL", "SETUSER", &user, "on", ">secret-password"].into_iter().chain(rights.split_whitespace()).collect();
        for server in [&master, &replica] {
            assert_eq!(server.command(&words), Reply::Text("OK".to_owned()));
        }
        // Neither what the last one left nor the scripts that it brought.
        master.command(&["FLUSHALL"]);
        master.command(&["SCRIPT", "FLUSH"]);
        let more = format!(", username: {user}, password: secret-password, replication: {{ acks: 1, timeout: 100ms }}");
        // One that the URL does not name is not selected.
        let url = if *right == "+select" { master.url().replace("/0", "/1") } else { master.url() };
        judge(right, &Wrong { url, more, says: says.to_vec(), audit: vec![audit] });
    }
}

#[test]
fn wrong_credentials_and_a_redis_that_takes_no_writes_are_named_with_a_remedy() {
    let closed = RedisServer::start_with(&["--requirepass", "right"]);
    let master = RedisServer::start();
    let replica = RedisServer::start_with(&["--replicaof", "127.0.0.1", &master.port().to_string()]);
    let careful = RedisServer::start_with(&["--min-replicas-to-write", "1"]);
    until("the replica is connected", || master.command(&["INFO", "replication"]).text().contains("state=online"));
    for (what, wrong) in [
        (
            "a wrong password",
            Wrong::new(closed.url(), ", password: wrong-secret", &["WRONGPASS", "check passwordFile"]),
        ),
        (
            "a wrong user",
            Wrong::new(closed.url(), ", username: nobody, password: wrong-secret", &["WRONGPASS", "usernameFile"]),
        ),
        ("no password", Wrong::new(closed.url(), "", &["NOAUTH", "set passwordFile"])),
        ("a wrong database", Wrong::new(master.url().replace("/0", "/99"), "", &["no such database", "of the URL"])),
        (
            "more acknowledgements than replicas",
            Wrong {
                audit: vec!["1 replicas are connected, 2 must acknowledge", "add replicas"],
                ..Wrong::new(
                    master.url(),
                    ", replication: { acks: 2, timeout: 100ms }",
                    &["1 of 2 replicas", "add replicas, or lower replication.acks"],
                )
            },
        ),
        (
            "a replica",
            Wrong::new(replica.url(), "", &["read-only replica", "point the URL at the master", "redis-sentinel:"]),
        ),
        (
            "too few replicas for a write",
            Wrong::new(careful.url(), "", &["NOREPLICAS", "add replicas, or lower its min-replicas-to-write"]),
        ),
        (
            "nobody there",
            Wrong::new(
                format!("redis://127.0.0.1:{}/0", free_port()),
                "",
                &["cannot be reached", "Connection refused"],
            ),
        ),
    ] {
        judge(what, &wrong);
    }
}

#[test]
fn a_wrong_topology_is_named_with_the_url_that_fits() {
    let plain = RedisServer::start();
    let sentinel = Sentinel::start(plain.port(), 1, Duration::from_secs(5));
    until_some("the Sentinel knows its master", || sentinel.master());
    let locked = Sentinel::start(plain.port(), 1, Duration::from_secs(5));
    until_some("this one, too", || locked.master());
    locked.command(&["ACL", "SETUSER", "default", "resetpass", ">opensesame"]);
    let node = RedisServer::start_with(&["--cluster-enabled", "yes", "--cluster-announce-ip", "127.0.0.1"]);
    let closed = RedisServer::start_with(&["--requirepass", "right"]);
    let of_closed = Sentinel::start(closed.port(), 1, Duration::from_secs(5));
    until_some("and this one", || of_closed.master());
    let at = |port: u16, name: &str| format!("redis-sentinel://127.0.0.1:{port}/0?sentinelServiceName={name}");
    let cluster = |port: u16| format!("redis-cluster://127.0.0.1:{port}");
    let nobody = free_port();
    for (what, wrong) in [
        (
            "a name that no Sentinel knows",
            Wrong::new(at(sentinel.port(), "other"), "", &["knows a master called other", "check sentinelServiceName"]),
        ),
        (
            "no Sentinel there",
            Wrong::new(at(nobody, SERVICE), "", &["no Sentinel names a master", "Connection refused"]),
        ),
        (
            "a Sentinel that asks for a password",
            Wrong::new(at(locked.port(), SERVICE), "", &["the Sentinel asks", "set sentinelPassword in the URL"]),
        ),
        (
            "a wrong password for the Sentinel",
            Wrong::new(
                format!("{}&sentinelPassword=wrong-secret", at(locked.port(), SERVICE)),
                "",
                &["for the Sentinel (WRONGPASS)", "check sentinelUsername and sentinelPassword"],
            ),
        ),
        (
            "no password for the master behind the Sentinel",
            Wrong::new(at(of_closed.port(), SERVICE), "", &["the master that the Sentinels name", "set passwordFile"]),
        ),
        ("a Redis for a Sentinel", Wrong::new(at(plain.port(), SERVICE), "", &["no Sentinel", "use a redis:"])),
        (
            "a Sentinel for a Redis",
            Wrong::new(
                format!("redis://127.0.0.1:{}/0", sentinel.port()),
                "",
                &["it is a Sentinel", "redis-sentinel:"],
            ),
        ),
        (
            "a Redis for a cluster",
            Wrong::new(cluster(plain.port()), "", &["not part of a cluster", "use a redis: URL"]),
        ),
        (
            "a cluster without slots",
            Wrong::new(cluster(node.port()), "", &["no master of its cluster", "ADDSLOTSRANGE"]),
        ),
        ("a cluster for a Redis", Wrong::new(node.url(), "", &["CLUSTERDOWN", "see CLUSTER INFO"])),
        (
            "a cluster with a database",
            Wrong::new(node.url().replace("/0", "/1"), "", &["it is part of a cluster", "use a redis-cluster: URL"]),
        ),
    ] {
        judge(what, &wrong);
    }
}

#[test]
fn half_of_the_sentinels_wrong_does_no_harm() {
    let plain = RedisServer::start();
    let sentinel = Sentinel::start(plain.port(), 1, Duration::from_secs(5));
    until_some("the Sentinel knows its master", || sentinel.master());
    let url = format!(
        "redis-sentinel://127.0.0.1:{}/0?sentinelServiceName={SERVICE}&node=127.0.0.1:{}",
        free_port(),
        sentinel.port()
    );
    let replica = Replica::start(0, Settings::new(0, url, Lease::SHORT));
    until("it leads", || replica.ask("GET /leading", "").status == 200);
}
