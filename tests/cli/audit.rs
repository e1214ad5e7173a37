//! `baton audit` and `baton purge` on a real Redis.

use testkit::ports::free_port;
use testkit::quorum::Members;
use testkit::redis::RedisServer;
use testkit::resp::Reply;
use testkit::{BOUND, wait_until};

use crate::bench::Bench;

fn config(bench: &Bench, url: &str, more: &str) -> String {
    bench.file("c.yaml", &format!("store: {{ redis: {{ url: '{url}'{more} }} }}\nroles: [{{ name: a }}]\n"))
}

#[tokio::test]
async fn a_sound_redis_is_reported_finding_by_finding() {
    let (bench, server) = (Bench::new(), RedisServer::start());
    let file = config(&bench, &server.url(), "");
    let said = bench.baton(&["audit", "--config", &file]).await.ends_with(0);
    for part in [&format!("The Redis at 127.0.0.1:{}", server.port()), "ok       Redis ", "note     ", "problems: 0"] {
        assert!(said.out.contains(part), "{part:?} in {}", said.out);
    }
    assert_eq!(server.command(&["DBSIZE"]), Reply::Number(0), "nothing is left of it");
}

#[tokio::test]
async fn a_problem_is_graded_as_one_and_ends_with_1() {
    let (bench, server) = (Bench::new(), RedisServer::start());
    let file = config(&bench, &server.url(), ", replication: { acks: 1 }");
    let said = bench.baton(&["audit", "--config", &file]).await.ends_with(1);
    assert!(said.out.contains("PROBLEM  0 replicas are connected, 1 must acknowledge"), "{}", said.out);
    let json = bench.baton(&["audit", "--config", &file, "-o", "json"]).await.ends_with(1).json();
    let findings = json["findings"].as_array().unwrap();
    assert!(findings.iter().any(|finding| finding["severity"] == "problem"), "{json}");
}

#[tokio::test]
async fn a_redis_that_does_not_answer_ends_audit_and_purge_with_69() {
    let bench = Bench::new();
    let file = config(&bench, &format!("redis://127.0.0.1:{}/0", free_port()), "");
    let said = bench.baton(&["audit", "--config", &file]).await.ends_with(69);
    assert!(said.err.contains("cannot be reached"), "{}", said.err);
    let said = bench.baton(&["purge", "old", "--config", &file]).await.ends_with(69);
    assert!(said.err.contains("cannot be reached"), "{}", said.err);
}

#[tokio::test]
async fn a_wrong_password_is_told_and_not_shown() {
    let (bench, server) = (Bench::new(), RedisServer::start_with(&["--requirepass", "right"]));
    let file = config(&bench, &format!("redis://:hunter2@127.0.0.1:{}/0", server.port()), "");
    let said = bench.baton(&["audit", "--config", &file]).await.ends_with(69);
    assert!(said.err.contains("password") && !said.err.contains("hunter2"), "{}", said.err);
}

#[tokio::test]
async fn where_there_is_no_redis_there_is_nothing_to_audit_or_purge() {
    let bench = Bench::new();
    let file = bench.file("c.yaml", "store: { memory: {} }\nroles: [{ name: a }]\n");
    assert!(bench.baton(&["audit", "--config", &file]).await.ends_with(64).err.contains("no Redis"));
    assert!(bench.baton(&["purge", "b", "--config", &file]).await.ends_with(64).err.contains("memory"));
}

#[tokio::test]
async fn purge_forgets_a_role_that_nobody_runs_and_no_other() {
    let (bench, server) = (Bench::new(), RedisServer::start());
    let file = config(&bench, &server.url(), "");
    let said = bench.baton(&["purge", "a", "--config", &file]).await.ends_with(64);
    assert!(said.err.contains("configures a"), "{}", said.err);
    assert!(bench.baton(&["purge", "old", "--config", &file]).await.ends_with(0).out.contains("nothing is known"));

    let exec = |lease: &str, script: &str| {
        let store = format!("store: {{ redis: {{ url: '{}', commandTimeout: 400ms }} }}", server.url());
        let other = bench.file("old.yaml", &format!("{store}\nroles: [{{ name: old, leaseDuration: {lease} }}]\n"));
        bench.start(&["exec", "--config", &other, "--role", "old", "--", "sh", "-c", script])
    };
    // The first term ever is waited for; the next begins at once, and its lease outlives a machine that is busy.
    assert_eq!(exec("1500ms", "true").ends().await, 0);
    let mut running = exec("1m", "echo ready; while [ -e alive ]; do sleep 0.02; done");
    running.says("ready").await;
    let said = bench.baton(&["purge", "old", "--config", &file]).await.ends_with(1);
    assert!(said.err.contains("has a lease"), "{}", said.err);
    running.signal(rustix::process::Signal::TERM);
    assert_eq!(running.ends().await, 143);

    assert_eq!(server.command(&["EXISTS", "baton:{old}:record"]), Reply::Number(1));
    assert_eq!(bench.baton(&["purge", "old", "--config", &file]).await.ends_with(0).out, "old: forgotten\n");
    assert_eq!(server.command(&["EXISTS", "baton:{old}:record"]), Reply::Number(0));
}

#[tokio::test]
async fn keys_that_are_not_batons_are_left_alone_by_purge() {
    let (bench, server) = (Bench::new(), RedisServer::start());
    server.command(&["SET", "baton:{old}:record", "mine"]);
    let file = config(&bench, &server.url(), "");
    let said = bench.baton(&["purge", "old", "--config", &file]).await.ends_with(1);
    assert!(said.err.contains("not Baton's"), "{}", said.err);
    assert_eq!(server.command(&["GET", "baton:{old}:record"]), Reply::Text("mine".to_owned()));
}

#[tokio::test]
async fn purge_forgets_the_ledger_of_a_job_and_no_other() {
    let (bench, server) = (Bench::new(), RedisServer::start());
    let run = "run: { http: { url: 'http://127.0.0.1:8080/' } }";
    let jobs = format!("jobs: [{{ name: configured, role: a, schedule: '@every 1h', {run} }}]\n");
    let store = format!("store: {{ redis: {{ url: '{}' }} }}\nroles: [{{ name: a }}]\n", server.url());
    let file = bench.file("jobs.yaml", &(store + &jobs));
    let purge = async |job: &str| bench.baton(&["purge", "--job", job, "--config", &file]).await;
    assert!(purge("old").await.ends_with(0).out.contains("nothing is known"));
    for job in ["old", "other"] {
        let key = format!("baton:{{jobs}}:ledger:{job}");
        server.command(&["HSET", &key, "v", "1", "fence", "7", "revision", "8", "body", "{}"]);
    }
    assert_eq!(purge("old").await.ends_with(0).out, "old: forgotten\n");
    assert_eq!(server.command(&["KEYS", "*"]).texts(), ["baton:{jobs}:ledger:other"]);
    server.command(&["HSET", "baton:{jobs}:ledger:other", "v", "9"]);
    assert!(purge("other").await.ends_with(1).err.contains("not Baton's"));
    assert!(purge("configured").await.ends_with(64).err.contains("configures configured"));
    assert!(purge("Not-A-Job").await.ends_with(64).err.contains("DNS label"));
    assert!(bench.baton(&["purge", "--config", &file]).await.ends_with(64).err.contains("ROLE"));
    let both = bench.baton(&["purge", "a", "--job", "old", "--config", &file]).await.ends_with(64);
    assert!(both.err.contains("cannot be used with"), "{}", both.err);
    let quorum = on_quorum(&bench, &["redis://a:6379/0", "redis://b:6379/0", "redis://c:6379/0"].map(str::to_owned));
    assert!(bench.baton(&["purge", "--job", "old", "--config", &quorum]).await.ends_with(64).err.contains("jobsStore"));
}

fn on_quorum(bench: &Bench, urls: &[String]) -> String {
    let members: Vec<String> = urls.iter().map(|url| format!("{{ url: '{url}' }}")).collect();
    // As long as its roles allow: what is down is refused at once, and a busy machine takes its time.
    let store = format!("store: {{ quorum: {{ members: [{}], commandTimeout: 2s }} }}", members.join(", "));
    bench.file("q.yaml", &format!("{store}\nroles: [{{ name: a }}]\n"))
}

#[tokio::test]
async fn each_member_of_a_quorum_is_looked_at_and_what_they_are_together() {
    let (bench, mut members) = (Bench::new(), Members::start(3));
    let file = on_quorum(&bench, &members.urls());
    let said = bench.baton(&["audit", "--config", &file]).await.ends_with(0);
    for part in [
        "3 of 3 members answer and 2 are needed",
        "different servers",
        "it has no replicas",
        "its user may do all",
        "problems: 0",
        &members.name(2),
    ] {
        assert!(said.out.contains(part), "{part:?} in {}", said.out);
    }
    assert!(members.servers.iter().all(|server| server.command(&["DBSIZE"]) == Reply::Number(0)), "nothing is left");
    let replica = RedisServer::start_with(&["--replicaof", &format!("127.0.0.1 {}", members.servers[0].port())]);
    let mut urls = members.urls();
    urls[2] = urls[1].replace("127.0.0.1", "localhost");
    urls.extend([replica.url(), "redis://127.0.0.1:1".to_owned()]);
    let file = on_quorum(&bench, &urls);
    // The replica must be connected to its master, of which that is the finding.
    wait_until(BOUND, "the replica follows", || {
        members.servers[0].command(&["INFO", "replication"]).text().contains("connected_slaves:1")
    })
    .await;
    let said = bench.baton(&["audit", "--config", &file]).await.ends_with(1);
    for part in [
        "4 of 5 members answer and 3 are needed",
        "are the same server",
        "PROBLEM  1 replicas are connected",
        "PROBLEM  it is a replica",
        "Connection refused",
    ] {
        assert!(said.out.contains(part), "{part:?} in {}", said.out);
    }
    let json = bench.baton(&["audit", "--config", &file, "-o", "json"]).await.ends_with(1).json();
    assert_eq!((json["members"].as_array().unwrap().len(), &json["answered"]), (5, &4.into()), "{json}");
    members.servers.iter_mut().for_each(RedisServer::kill);
    let gone = on_quorum(&bench, &members.urls());
    bench.baton(&["audit", "--config", &gone]).await.ends_with(69);
}

/// A file with stores of their own for locks and jobs.
fn with_own_stores(bench: &Bench, election: &str, locks: &str, jobs: &str) -> String {
    let text = format!(
        "store: {{ redis: {{ url: '{election}' }} }}\nroles: [{{ name: a }}]\n\
         locks: {{ store: {{ redis: {{ url: '{locks}' }} }} }}\njobsStore: {{ redis: {{ url: '{jobs}' }} }}\n"
    );
    bench.file("own.yaml", &text)
}

#[tokio::test]
async fn each_store_is_audited_by_what_is_kept_in_it() {
    let (bench, election) = (Bench::new(), RedisServer::start());
    let (mut locks, jobs) = (RedisServer::start_with(&["--maxmemory-policy", "allkeys-lru"]), RedisServer::start());
    let file = with_own_stores(&bench, &election.url(), &locks.url(), &jobs.url());
    let said = bench.baton(&["audit", "--config", &file]).await.ends_with(0);
    let at = |server: &RedisServer| format!("127.0.0.1:{}", server.port());
    let (before, rest) = said.out.split_once("The Redis of the locks (locks.store) at ").expect("a chapter");
    let (of_locks, of_jobs) = rest.split_once("The Redis of the jobs (jobsStore) at ").expect("a chapter");
    assert!(before.starts_with(&format!("The Redis at {}", at(&election))) && before.contains("leases and tokens"));
    assert!(of_locks.starts_with(&at(&locks)) && of_locks.contains("whose holder still relies on it"), "{of_locks}");
    assert!(of_jobs.starts_with(&at(&jobs)) && of_jobs.contains("writes its ledgers again"), "{of_jobs}");
    assert_eq!(said.out.matches("problems: ").count(), 1, "one sum of all");
    let json = bench.baton(&["audit", "--config", &file, "-o", "json"]).await.ends_with(0).json();
    let ends = [&json["endpoint"], &json["locksStore"]["endpoint"], &json["jobsStore"]["endpoint"]];
    assert_eq!(ends, [&at(&election), &at(&locks), &at(&jobs)], "{json}");
    for server in [&election, &locks, &jobs] {
        assert_eq!(server.command(&["DBSIZE"]), Reply::Number(0), "nothing is left of it");
    }
    // What a Redis without locks need not allow.
    let rights = "on >p ~baton:* resetchannels &baton:* -@all +hello +auth +select +ping +info +time +client|id \
                  +evalsha +eval +hmget +hset +exists +del +pexpire +pttl +publish +subscribe +unsubscribe";
    for server in [&election, &locks] {
        let words: Vec<&str> = ["ACL", "SETUSER", "few"].into_iter().chain(rights.split_whitespace()).collect();
        assert_eq!(server.command(&words), Reply::Text("OK".to_owned()));
    }
    let few = |server: &RedisServer| server.url().replace("redis://", "redis://few:p@");
    let file = with_own_stores(&bench, &few(&election), &few(&locks), &jobs.url());
    let said = bench.baton(&["audit", "--config", &file]).await.ends_with(1);
    assert!(said.out.contains("locks do not work") && !said.out.contains("roles work, locks do not"), "{}", said.out);
    locks.kill();
    let said = bench.baton(&["audit", "--config", &file]).await.ends_with(69);
    assert!(said.err.contains("locks.store: ") && said.err.contains("cannot be reached"), "{}", said.err);
    assert!(said.out.contains("The Redis of the jobs"), "{}", said.out);
}

#[tokio::test]
async fn purge_forgets_a_job_where_its_ledger_is_and_a_role_where_its_lease_is() {
    let (bench, election, jobs) = (Bench::new(), RedisServer::start(), RedisServer::start());
    let nowhere = format!("redis://127.0.0.1:{}/0", free_port());
    let ledger = ["HSET", "baton:{jobs}:ledger:old", "v", "1", "fence", "7", "revision", "8", "body", "{}"];
    for server in [&election, &jobs] {
        server.command(&ledger);
    }
    let file = with_own_stores(&bench, &election.url(), &nowhere, &jobs.url());
    assert_eq!(bench.baton(&["purge", "--job", "old", "--config", &file]).await.ends_with(0).out, "old: forgotten\n");
    assert_eq!((jobs.command(&["DBSIZE"]), election.command(&["DBSIZE"])), (Reply::Number(0), Reply::Number(1)));
    let gone = with_own_stores(&bench, &election.url(), &nowhere, &nowhere);
    assert!(bench.baton(&["purge", "old", "--config", &gone]).await.ends_with(0).out.contains("nothing is known"));
    bench.baton(&["purge", "--job", "old", "--config", &gone]).await.ends_with(69);
}

#[tokio::test]
async fn check_config_names_the_stores_and_looks_at_the_certificates_of_each() {
    let bench = Bench::new();
    let file = with_own_stores(&bench, "redis://a", "redis://b", "redis://c");
    let said = bench.baton(&["check-config", &file]).await.ends_with(0);
    assert!(said.out.contains("store redis, locks in redis of their own, jobs in redis of their own"), "{}", said.out);
    let pem = bench.file("ca.pem", "-----BEGIN NOTHING-----\n");
    let text = std::fs::read_to_string(&file)
        .unwrap()
        .replace("redis://c'", &format!("rediss://c', tls: {{ caFile: '{pem}' }}"));
    let file = bench.file("tls.yaml", &text);
    let said = bench.baton(&["check-config", &file]).await.ends_with(64);
    assert!(said.err.contains("jobsStore.redis.tls: "), "{}", said.err);
}

#[tokio::test]
async fn purge_forgets_a_role_on_every_member() {
    let (bench, mut members) = (Bench::new(), Members::start(3));
    for server in &members.servers {
        let fields = "v q1 token 7 over 7 confirmed 7 lease_ms 9 until 0 listed_until 0 lists  count 1 released 1 \
                      session  attempt 0 generation x guard_until 0 guard_cause ";
        let record: Vec<&str> = ["HSET", "baton:{old}:record"].into_iter().chain(fields.split(' ')).collect();
        server.command(&record);
    }
    let file = on_quorum(&bench, &members.urls());
    assert!(bench.baton(&["purge", "old", "--config", &file]).await.ends_with(0).out.contains("forgotten"));
    assert!(members.servers.iter().all(|server| server.command(&["DBSIZE"]) == Reply::Number(0)));
    members.servers[1].kill();
    let said = bench.baton(&["purge", "old", "--config", &file]).await.ends_with(69);
    assert!(said.err.contains("1 of 3 members") && said.err.contains(&members.name(1)), "{}", said.err);
}
