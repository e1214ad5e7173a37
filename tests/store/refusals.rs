//! A Redis that will not: named in the error and in the health, with what would help, and without a secret.

use std::sync::Mutex;

use baton::config::Secret;
use baton::protocol::{Portion, PresenceRequest};
use baton::store::redis::Severity;
use testkit::ports::free_port;
use testkit::profile::{Profile, Profiled};
use testkit::proxy::Proxy;
use testkit::redis::RedisServer;
use testkit::resp::Reply;
use testkit::{wait_until, wait_until_async};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::audit::{report, severity};
use super::replication::knows_waitaof;
use super::*;

fn secret(text: &str) -> Option<Secret> {
    Some(Secret::Value(SecretString::from(text)))
}

/// The reason of a refusal, as health, error and `Debug` tell it; none of them tells a secret.
async fn refusal(store: &RedisStore, word: &str, secrets: &[&str]) {
    let reason = until_down(store, word).await;
    let error = store.campaign(&role(), ask(1, 1)).await.expect_err("it refuses");
    assert!(matches!(&error, StoreError::Refused { .. }), "{error:?}");
    for secret in secrets {
        for told in [&reason, &error.to_string(), &format!("{error:?}"), &format!("{store:?}")] {
            assert!(!told.contains(secret), "{told}");
        }
    }
}

#[tokio::test]
async fn a_wrong_password_is_named_and_not_told() {
    let redis = RedisServer::start_with(&["--requirepass", "right-one"]);
    let wrong = RedisConfig { password: secret("wrong-one"), ..config(&redis.url()) };
    refusal(&store_with(&wrong), "passwordFile", &["right-one", "wrong-one"]).await;
    let in_url = config(&redis.url().replace("redis://", "redis://:wrong-one@"));
    refusal(&store_with(&in_url), "passwordFile", &["wrong-one"]).await;
    refusal(&store_with(&config(&redis.url())), "NOAUTH", &[]).await;
    let right = RedisConfig { password: secret("right-one"), ..config(&redis.url()) };
    until_up(&store_with(&right)).await;
}

/// Set in the process that is alone with a test.
const ALONE: &str = "BATON_TEST_ALONE";

/// What is logged, in memory.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("no panic while it is held").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn no_log_at_any_level_tells_a_secret() {
    // In a process of its own: the other tests' threads, which do not listen, would decide what is logged at all.
    if std::env::var_os(ALONE).is_none() {
        let mut alone = std::process::Command::new(std::env::current_exe().expect("this test has a file"));
        alone.args(["--exact", "refusals::no_log_at_any_level_tells_a_secret"]).env(ALONE, "1");
        let output = alone.output().expect("it runs");
        let told = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && told.contains("1 passed"), "{told}");
        return;
    }
    let log = Log::default();
    let writer = log.clone();
    let subscriber =
        tracing_subscriber::fmt().with_max_level(tracing::Level::TRACE).with_writer(move || writer.clone());
    // For this thread, which is the test's whole runtime; the `log` records of fred included.
    let guard = tracing_subscriber::util::SubscriberInitExt::set_default(subscriber.finish());
    let redis = RedisServer::start_with(&["--requirepass", "top-secret-1"]);
    let right = RedisConfig { password: secret("top-secret-1"), ..config(&redis.url()) };
    let store = store_with(&right);
    until_up(&store).await;
    win(&store, unguarded(1, 1)).await;
    let wrong = config(&redis.url().replace("redis://", "redis://somebody:top-secret-2@"));
    until_down(&store_with(&wrong), "passwordFile").await;
    drop(guard);
    let told = String::from_utf8_lossy(&log.0.lock().expect("no panic while it is held")).into_owned();
    assert!(told.contains("Redis cannot be used") && told.contains("Switching to RESP3"), "fred is heard: {told}");
    assert!(!told.contains("top-secret"), "{told}");
}

#[tokio::test]
async fn a_rotated_password_is_read_anew_at_the_next_connection() {
    let redis = RedisServer::start_with(&["--requirepass", "first"]);
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("password");
    let store = store_with(&RedisConfig { password: Some(Secret::File(file.clone())), ..config(&redis.url()) });
    until_down(&store, "passwordFile cannot be read").await;
    std::fs::write(&file, "first\n").expect("written");
    until_up(&store).await;
    let mut control = redis.connect().expect("it answers");
    control.command(&["CONFIG", "SET", "requirepass", "second"]).expect("set");
    control.command(&["CLIENT", "KILL", "TYPE", "normal"]).expect("killed");
    until_down(&store, "WRONGPASS").await;
    std::fs::write(&file, "second\n").expect("written");
    until_up(&store).await;
}

#[tokio::test]
async fn a_database_that_is_not_there_is_named() {
    let redis = RedisServer::start();
    refusal(&store_with(&config(&redis.url().replace("/0", "/99"))), "no such database", &[]).await;
}

#[tokio::test]
async fn a_replica_is_not_used_and_not_when_it_becomes_one() {
    let master = RedisServer::start();
    let port = master.port().to_string();
    let replica = RedisServer::start_with(&["--replicaof", "127.0.0.1", &port]);
    let reader = store_with(&config(&replica.url()));
    refusal(&reader, "read-only replica", &[]).await;
    let store = connected(&master.url()).await;
    let (token, _) = win(&store, unguarded(1, 1)).await;
    // The other way round, as after a failover that nobody told this client of.
    assert_eq!(replica.command(&["REPLICAOF", "NO", "ONE"]), Reply::Text("OK".to_owned()));
    until_up(&reader).await;
    master.command(&["REPLICAOF", "127.0.0.1", &replica.port().to_string()]);
    let refused = store.renew(&role(), renewal(1, 1, token)).await;
    assert!(matches!(&refused, Err(StoreError::Refused { reason }) if reason.contains("master")), "{refused:?}");
    until_down(&store, "read-only replica").await;
}

#[tokio::test]
async fn a_full_memory_is_named_changes_nothing_and_does_not_stop_a_handover() {
    let redis = RedisServer::start();
    let store = connected(&redis.url()).await;
    let (token, _) = win(&store, unguarded(1, 1)).await;
    let record = || redis.command(&["HGETALL", "baton:{scheduler}:record"]);
    redis.command(&["CONFIG", "SET", "maxmemory", "1"]);
    let before = record();
    let other = RoleName::new("other").expect("a label");
    for refused in [
        store.campaign(&other, unguarded(2, 1)).await.map(drop),
        store.renew(&role(), renewal(1, 1, token)).await.map(drop),
    ] {
        assert!(matches!(&refused, Err(StoreError::Refused { reason }) if reason.contains("maxmemory")), "{refused:?}");
    }
    assert_eq!(redis.command(&["KEYS", "baton:{other}:*"]), Reply::List(Vec::new()));
    assert_eq!(record(), before);
    assert_eq!(release(&store, giving_back(1, 1, token)).await, ReleaseReply::Released);
}

#[tokio::test]
async fn a_redis_that_evicts_is_used_with_a_note() {
    let redis = RedisServer::start_with(&["--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"]);
    let store = connected(&redis.url()).await;
    let notes = store.notes();
    assert!(notes.len() == 1 && notes[0].contains("allkeys-lru") && notes[0].contains("noeviction"), "{notes:?}");
    let plain = RedisServer::start();
    assert_eq!(connected(&plain.url()).await.notes(), Vec::<String>::new());
}

/// It told the connection: whoever may grant by a script asks again.
#[tokio::test]
async fn a_server_that_tells_no_script_its_generation_grants_nobody() {
    let redis = RedisServer::start();
    for (untold_in_scripts, acks) in
        [(&["master_replid"], 0), (&["master_replid"], 1), (&["sync_full"], 1), (&["sync_partial_ok"], 1)]
    {
        let proxy = Profiled::start(redis.port(), Profile { untold_in_scripts, ..Profile::NONE }).await;
        let replication = Replication { acks, ..config(&proxy.url()).replication };
        let store = store_with(&RedisConfig { replication, ..config(&proxy.url()) });
        until_up(&store).await;
        let is_named = |answer: Result<(), StoreError>| {
            assert!(
                matches!(&answer, Err(StoreError::Refused { reason }) if reason.contains(untold_in_scripts[0])),
                "{answer:?}"
            );
        };
        is_named(store.campaign(&role(), ask(1, 1)).await.map(drop));
        is_named(store.renew(&role(), renewal(1, 1, Token::new(7).expect("small"))).await.map(drop));
        assert_eq!(redis.command(&["DBSIZE"]), Reply::Number(0), "nothing is written");
    }
}

#[tokio::test]
async fn a_server_that_does_not_tell_its_generation_is_refused_by_the_guard_and_noted_without() {
    let redis = RedisServer::start();
    for (word, acks) in [("master_replid", 0), ("sync_full", 1), ("sync_partial_ok", 1)] {
        let proxy = Proxy::start_hiding(redis.entry_port(), word).await;
        let replication = Replication { acks, ..config(&proxy.url()).replication };
        let strict = RedisConfig { replication, ..config(&proxy.url()) };
        refusal(&store_with(&strict), word, &[]).await;
        let told = until_down(&store_with(&strict), "guard: off").await;
        assert!(told.contains("two leaders") && told.contains("Redis and Valkey"), "the price, the way out: {told}");
        let found = report(&strict).await;
        assert_eq!(severity(&found, word), Severity::Problem);

        for unasked in [
            RedisConfig { guard: Guard::Heard, ..strict.clone() },
            RedisConfig {
                durability: Durability::Synchronous,
                replication: Replication { acks: 0, ..replication },
                ..strict.clone()
            },
        ] {
            let store = store_with(&unasked);
            until_up(&store).await;
            let notes = store.notes();
            assert!(!notes.iter().any(|note| note.contains(word)), "it was not asked: {notes:?}");
            let found = report(&unasked).await;
            assert_eq!(severity(&found, "not asked for its generation"), Severity::Note);
        }

        let off = RedisConfig { guard: Guard::Off, ..strict };
        let store = store_with(&off);
        until_up(&store).await;
        let notes = store.notes();
        assert!(notes.iter().any(|note| note.contains(word)), "{notes:?}");
        assert_eq!(severity(&report(&off).await, word), Severity::Note);
    }
    // Nobody acknowledges anything here, so nobody may have acknowledged something elsewhere.
    let proxy = Proxy::start_hiding(redis.entry_port(), "sync_full").await;
    let store = connected(&proxy.url()).await;
    assert_eq!(store.notes(), Vec::<String>::new());
    assert_eq!(severity(&report(&config(&proxy.url())).await, "its generation"), Severity::Ok);
}

/// The line of docs/redis.md. With it everything works, and less is named.
pub const LEAST_RIGHTS: &str = "~baton:* resetchannels &baton:* -@all +hello +auth +select +ping +info +time \
     +client|id \
     +evalsha +eval +hmget +hset +exists +del +pexpire +pttl +publish +subscribe +unsubscribe +wait +waitaof \
     +get +set +hgetall +hlen +hdel +zadd +zcard +zrange +zrank +zrem +zremrangebyscore +zscore +scan";

/// The rights that this version knows of.
pub fn rights_for(redis: &RedisServer, user: &str, rights: &str) {
    let mut words = vec!["ACL", "SETUSER", user, "on", ">secret-password"];
    let known = knows_waitaof(redis);
    words.extend(rights.split_whitespace().filter(|right| known || *right != "+waitaof"));
    assert_eq!(redis.command(&words), Reply::Text("OK".to_owned()));
}

/// A store that may do that and no more.
pub async fn with_rights(redis: &RedisServer, rights: &str) -> RedisStore {
    rights_for(redis, "sidecar", rights);
    let store = store_with(&as_user(redis, "sidecar"));
    until_up(&store).await;
    store
}

pub fn as_user(redis: &RedisServer, user: &str) -> RedisConfig {
    RedisConfig { username: secret(user), password: secret("secret-password"), ..config(&redis.url()) }
}

#[tokio::test]
async fn the_documented_rights_are_enough() {
    let docs = include_str!("../../docs/redis.md").split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(docs.contains(&LEAST_RIGHTS.split_whitespace().collect::<Vec<_>>().join(" ")), "docs/redis.md");
    let redis = RedisServer::start();
    let store = with_rights(&redis, LEAST_RIGHTS).await;
    let mut news = store.subscribe(&role(), None);
    assert_eq!(within("a gap", news.recv()).await, Some(baton::store::News::Gap));
    let (token, _) = win(&store, unguarded(1, 1)).await;
    assert!(matches!(renew(&store, renewal(1, 1, token)).await, RenewReply::Renewed { audience: 1, .. }));
    assert!(matches!(campaign(&store, ask(2, 1)).await, CampaignReply::Held { .. }));
    release(&store, giving_back(1, 1, token)).await;
    for portion in [Some(Portion::default()), None] {
        let request = PresenceRequest { session: SessionId::from_u128(1), portion, span: ms(60_000) };
        assert_eq!(
            store.presence(&role(), request).await.map(|members| members.len()),
            Ok(usize::from(portion.is_some()))
        );
    }
    // Somebody else's time is over: it is removed while another stays.
    let sign = async |number, span| {
        let (session, portion) = (SessionId::from_u128(number), Some(Portion::default()));
        store.presence(&role(), PresenceRequest { session, portion, span: ms(span) }).await.expect("an answer").len()
    };
    sign(1, 1).await;
    wait_until_async(BOUND, "its time is over", async || sign(2, 60_000).await == 1).await;
    assert_eq!(store.purge(&role()).await, Ok(baton::store::Purge::Purged));
    for _ in 0..3 {
        assert!(matches!(within("news", news.recv()).await, Some(baton::store::News::Said(_))));
    }
    let log = redis.command(&["ACL", "LOG"]);
    assert_eq!(log, Reply::List(Vec::new()), "nothing was denied on the way");
}

#[tokio::test]
async fn a_missing_right_is_named() {
    let redis = RedisServer::start();
    for (user, missing, word) in [
        ("no-info", "+info", "run info"),
        ("no-keys", "~baton:*", "keys"),
        ("no-time", "+time", "(NOPERM)"),
        ("no-reads", "+hmget", "(NOPERM)"),
        ("no-ttl", "+pexpire", "(NOPERM)"),
    ] {
        rights_for(&redis, user, &LEAST_RIGHTS.replace(missing, ""));
        let store = store_with(&as_user(&redis, user));
        wait_until_async(BOUND, &format!("{user} is refused because of {word}"), async || {
            match store.campaign(&role(), unguarded(1, 1)).await {
                Err(StoreError::Refused { reason }) => {
                    assert!(reason.contains(word) && !reason.contains(user), "{reason}");
                    true
                }
                Err(StoreError::Unreachable { .. }) => false,
                other => panic!("{other:?}"),
            }
        })
        .await;
        let left = redis.command(&["EXISTS", "baton:{scheduler}:lease"]);
        assert_eq!(left, Reply::Number(0), "{user}: a lease without a TTL would stand for ever");
    }
}

#[tokio::test]
async fn a_user_that_may_not_listen_is_noted() {
    let redis = RedisServer::start();
    rights_for(&redis, "deaf", &LEAST_RIGHTS.replace("+subscribe", ""));
    let store = store_with(&as_user(&redis, "deaf"));
    until_up(&store).await;
    let mut news = store.subscribe(&role(), None);
    wait_until(BOUND, "it is noted", || store.notes().iter().any(|note| note.contains("run subscribe"))).await;
    win(&store, unguarded(1, 1)).await;
    assert!(news.try_recv().is_err());
    redis.command(&["ACL", "SETUSER", "deaf", "+subscribe"]);
    assert_eq!(within("a gap", news.recv()).await, Some(baton::store::News::Gap));
    wait_until(BOUND, "nothing is noted any more", || store.notes().is_empty()).await;
}

#[tokio::test]
async fn a_script_that_does_not_end_is_named() {
    let redis = RedisServer::start_with(&["--lua-time-limit", "50"]);
    let store = connected(&redis.url()).await;
    win(&store, unguarded(1, 1)).await;
    let mut other = redis.connect().expect("it answers");
    let endless = std::thread::spawn(move || other.command(&["EVAL", "while true do end", "0"]));
    wait_until_async(BOUND, "refused as busy", async || match store.campaign(&role(), unguarded(1, 1)).await {
        Err(StoreError::Refused { reason }) => reason.contains("SCRIPT KILL"),
        Ok(_) => false,
        other => panic!("{other:?}"),
    })
    .await;
    assert_eq!(redis.command(&["SCRIPT", "KILL"]), Reply::Text("OK".to_owned()));
    wait_until_async(BOUND, "it works again", async || store.campaign(&role(), unguarded(1, 1)).await.is_ok()).await;
    let ended = endless.join().expect("the thread").expect("a reply");
    assert!(matches!(ended, Reply::Error(_)), "{ended:?}");
}

#[tokio::test]
async fn a_redis_too_old_to_say_hello_is_named() {
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.expect("a free port");
    let port = listener.local_addr().expect("bound").port();
    let old = tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let mut buffer = [0; 1024];
            // As Redis 5 answers.
            while matches!(client.read(&mut buffer).await, Ok(length) if length > 0) {
                let answer = b"-ERR unknown command `HELLO`, with args beginning with: `3`, \r\n";
                if client.write_all(answer).await.is_err() {
                    break;
                }
            }
        }
    });
    refusal(&store_with(&config(&format!("redis://127.0.0.1:{port}"))), "6.2", &[]).await;
    old.abort();
}

#[tokio::test]
async fn a_valkey_url_reads_as_one_of_redis() {
    let redis = RedisServer::start();
    win(&connected(&redis.url().replace("redis://", "valkey://")).await, unguarded(1, 1)).await;
}

#[tokio::test]
async fn only_urls_and_tls_files_that_cannot_be_used_fail_at_once() {
    let connect = |url: &str| RedisStore::connect(&config(url), LEASE, 1).map(drop).map_err(|error| error.to_string());
    for url in
        ["", "redis", "http://redis:6379", "redis://:top-secret@", "redis://:top-secret@host:99999", "redis://h/x"]
    {
        let error = connect(url).expect_err(url);
        assert!(error.starts_with("store.redis.url: ") && !error.contains("top-secret"), "{url}: {error}");
    }
    assert_eq!(connect(&format!("redis://:top-secret@127.0.0.1:{}", free_port())), Ok(()));
    let tls = TlsConfig { ca_file: Some("/nonexistent/ca.pem".into()), client: None };
    let error = RedisStore::connect(&RedisConfig { tls, ..config("rediss://redis:6379") }, LEASE, 1).map(drop);
    assert!(error.expect_err("no such file").to_string().contains("/nonexistent/ca.pem"));
}
