//! Encryption: who is trusted, what is wrong when it does not work, and new files without a restart.

use testkit::cluster::add_slots;
use testkit::ports::free_port;
use testkit::redis::{RedisServer, has_tls};
use testkit::resp::Reply;
use testkit::sentinel::{SERVICE, Sentinel};
use testkit::tls::{self, fixture, start};
use testkit::{wait_until, wait_until_async};

use super::*;

/// Failovers take seconds, and machines are busy.
const PATIENCE: Duration = Duration::from_secs(30);
/// A Sentinel that has stood still for two seconds does nothing for thirty more (its TILT mode): it does not tell a
/// master that was replaced, either.
const PAST_A_TILT: Duration = Duration::from_secs(90);

/// Baton with this authority and this client's certificate.
fn with(url: &str, ca: &str, client: Option<&str>) -> RedisConfig {
    let tls = TlsConfig { ca_file: Some(tls::pair(ca).0), client: client.map(tls::pair) };
    RedisConfig { tls, ..config(url) }
}

#[tokio::test]
async fn tls_works_with_the_given_authority_and_the_clients_certificate() {
    if !has_tls() {
        return;
    }
    let (redis, port) = start("server", "ca");
    for host in ["127.0.0.1", "localhost"] {
        let store = store_with(&with(&format!("rediss://{host}:{port}/0"), "ca", Some("client")));
        until_up(&store).await;
        win(&store, unguarded(1, 1)).await;
    }
    assert_eq!(redis.command(&["EXISTS", "baton:{scheduler}:lease"]), Reply::Number(1));
}

#[tokio::test]
async fn what_is_wrong_with_a_certificate_is_named_with_its_remedy() {
    if !has_tls() {
        return;
    }
    let (_redis, port) = start("server", "ca");
    let url = format!("rediss://127.0.0.1:{port}/0");
    let reason = async |ca, client, word: &str| until_down(&store_with(&with(&url, ca, client)), word).await;
    assert!(reason("ca", None, "asks for a client").await.contains("set certFile and keyFile"));
    assert!(reason("other-ca", Some("client"), "UnknownIssuer").await.contains("check caFile"));
    assert!(reason("ca", Some("other-client"), "does not trust").await.contains("certFile"));

    let (_redis, port) = start("elsewhere", "other-ca");
    let url = format!("rediss://127.0.0.1:{port}/0");
    let reason = async |client, word: &str| until_down(&store_with(&with(&url, "other-ca", client)), word).await;
    assert!(reason(Some("other-client"), "is for another host").await.contains("the host in the URL"));
}

/// Files that are replaced while they are used.
struct Rotated(tempfile::TempDir);

impl Rotated {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a directory"))
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.0.path().join(name)
    }

    /// Puts a certificate and its key in the place of the client's.
    fn put(&self, from: &str) {
        let (certificate, key) = tls::pair(from);
        std::fs::copy(certificate, self.path("tls.pem")).expect("copied");
        std::fs::copy(key, self.path("tls.key")).expect("copied");
    }

    fn put_authority(&self, from: &str) {
        std::fs::copy(tls::pair(from).0, self.path("ca.pem")).expect("copied");
    }

    fn config(&self, url: &str) -> RedisConfig {
        let client = Some((self.path("tls.pem"), self.path("tls.key")));
        RedisConfig { tls: TlsConfig { ca_file: Some(self.path("ca.pem")), client }, ..config(url) }
    }
}

/// With the wrong files, then with the right ones in their place, then with a client's certificate that has expired,
/// which counts once `cut` has ended the connections: no restart, and what is wrong is named.
async fn files_are_exchanged(url: &str, cut: impl Fn()) {
    let files = Rotated::new();
    files.put_authority("other-ca");
    files.put("expired");
    let store = store_with(&files.config(url));
    until_down(&store, "check caFile").await;
    files.put_authority("ca");
    until_down(&store, "certFile has expired").await;
    files.put("other-client");
    until_up(&store).await;
    let (token, _) = win(&store, unguarded(1, 1)).await;
    files.put("expired");
    assert!(matches!(renew(&store, renewal(1, 1, token)).await, RenewReply::Renewed { .. }), "the connection lives on");
    cut();
    until_down(&store, "certFile has expired").await;
    files.put("other-client");
    until_up(&store).await;
    wait_until_async(BOUND, "renewed again", async || {
        matches!(store.renew(&role(), renewal(1, 1, token)).await.map(|r| r.reply), Ok(RenewReply::Renewed { .. }))
    })
    .await;
}

#[tokio::test]
async fn behind_sentinels_every_connection_is_encrypted_and_shows_the_clients_certificate() {
    if !has_tls() {
        return;
    }
    let replicates = ["--tls-replication", "yes"];
    let (master, port) = tls::start_with("server", "other-ca", &replicates);
    // Each follows with its own certificate, which the other must trust.
    let authorities = both_authorities();
    let trusts = authorities.path().join("both.pem").display().to_string();
    let trust = |server: &RedisServer| {
        assert_eq!(server.command(&["CONFIG", "SET", "tls-ca-cert-file", &trusts]), Reply::Text("OK".to_owned()));
    };
    trust(&master);
    let port_text = port.to_string();
    let follows = ["--replicaof", "127.0.0.1", &port_text, "--tls-ca-cert-file", &trusts];
    let more = [&replicates[..], &follows].concat();
    let (replica, replica_port) = tls::start_with("server", "other-ca", &more);
    wait_until(PATIENCE, "the replica follows", || {
        master.command(&["INFO", "replication"]).text().contains("state=online")
    })
    .await;
    let own = free_port();
    let (certificate, key) = tls::pair("server");
    let lines = format!(
        "tls-port {own}\ntls-replication yes\ntls-cert-file {}\ntls-key-file {}\ntls-ca-cert-file {trusts}\n",
        certificate.display(),
        key.display()
    );
    let sentinel = Sentinel::start_with(port, 1, Duration::from_secs(3), &lines);
    wait_until(
        PATIENCE,
        "the Sentinel knows the replica",
        || matches!(sentinel.command(&["SENTINEL", "REPLICAS", SERVICE]), Some(Reply::List(known)) if known.len() == 1),
    )
    .await;
    let url = format!("rediss-sentinel://127.0.0.1:{own}/0?sentinelServiceName={SERVICE}");
    until_down(&store_with(&with(&url, "ca", None)), "set certFile and keyFile").await;
    files_are_exchanged(&url, || {
        master.command(&["CLIENT", "KILL", "TYPE", "normal"]);
    })
    .await;

    let store = store_with(&with(&url, "ca", Some("other-client")));
    until_up(&store).await;
    let (token, _) = win(&store, unguarded(1, 2)).await;
    wait_until(PATIENCE, "a failover begins", || {
        sentinel.command(&["SENTINEL", "FAILOVER", SERVICE]) == Some(Reply::Text("OK".to_owned()))
    })
    .await;
    wait_until(PATIENCE, "the other is the master", || sentinel.master() == Some(replica_port)).await;
    // Until then whoever is connected to it goes on there.
    wait_until(PAST_A_TILT, "the old master is told", || {
        master.ask(&["INFO", "replication"]).text().contains("role:slave")
    })
    .await;
    let count = || replica.command(&["HGET", "baton:{scheduler}:record", "count"]);
    let before = count();
    wait_until_async(PATIENCE, "renewed at the other", async || {
        store.renew(&role(), renewal(1, 2, token)).await.is_ok() && count() != before
    })
    .await;
}

/// One file with both authorities.
fn both_authorities() -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a directory");
    let read = |name: &str| std::fs::read_to_string(tls::pair(name).0).expect("it is there");
    std::fs::write(dir.path().join("both.pem"), read("ca") + &read("other-ca")).expect("written");
    dir
}

#[tokio::test]
async fn in_a_cluster_every_connection_is_encrypted_and_shows_the_clients_certificate() {
    if !has_tls() {
        return;
    }
    let authorities = both_authorities();
    let trusts = authorities.path().join("both.pem").display().to_string();
    let ([first, second], [port, _]) = cluster_of_two("server", &["--tls-ca-cert-file", &trusts]).await;
    let url = format!("rediss-cluster://127.0.0.1:{port}");
    until_down(&store_with(&with(&url, "ca", None)), "set certFile and keyFile").await;
    files_are_exchanged(&url, || {
        for node in [&first, &second] {
            node.command(&["CLIENT", "KILL", "TYPE", "normal"]);
        }
    })
    .await;
    let store = store_with(&with(&url, "ca", Some("other-client")));
    until_up(&store).await;
    elects_on_both(&store, [&first, &second]).await;
}

/// Two masters with half of the slots each, which show this certificate and name each other by 127.0.0.1, and the ports
/// on which they speak TLS.
async fn cluster_of_two(certificate: &str, more: &[&str]) -> ([RedisServer; 2], [u16; 2]) {
    let clustered = ["--cluster-enabled", "yes", "--tls-cluster", "yes", "--cluster-announce-ip", "127.0.0.1"];
    let options = [&clustered[..], more].concat();
    let (first, port) = tls::start_with(certificate, "other-ca", &options);
    let (second, other_port) = tls::start_with(certificate, "other-ca", &options);
    let ok = Reply::Text("OK".to_owned());
    add_slots(&first, 0..=8191);
    add_slots(&second, 8192..=16383);
    assert_eq!(second.command(&["CLUSTER", "SET-CONFIG-EPOCH", "2"]), ok);
    assert_eq!(first.command(&["CLUSTER", "MEET", "127.0.0.1", &other_port.to_string()]), ok);
    wait_until(PATIENCE, "the cluster is whole", || {
        [&first, &second].iter().all(|node| node.command(&["CLUSTER", "INFO"]).text().contains("cluster_state:ok"))
    })
    .await;
    ([first, second], [port, other_port])
}

/// Wins roles of slots on either node.
async fn elects_on_both(store: &RedisStore, nodes: [&RedisServer; 2]) {
    for name in ["a", "b", "c", "d"] {
        let role = RoleName::new(name).expect("a label");
        let granted = store.campaign(&role, unguarded(1, 1)).await.expect("an answer").reply;
        assert!(matches!(granted, CampaignReply::Granted { .. }), "{granted:?}");
    }
    let keys = |node: &RedisServer| node.command(&["DBSIZE"]).number();
    assert!(nodes.iter().all(|node| keys(node) > 0), "the roles are on both nodes");
}

/// What a client is told of its cluster's nodes: their addresses, of which no certificate knows, or nothing.
#[tokio::test]
async fn a_cluster_whose_certificates_are_for_the_host_of_the_url_alone_is_used() {
    if !has_tls() {
        return;
    }
    let authority = fixture("by-name.pem").display().to_string();
    // No client's certificate is asked for, as by services.
    let more = ["--tls-ca-cert-file", &authority, "--tls-auth-clients", "no"];
    let ([first, second], [port, other_port]) = cluster_of_two("by-name", &more).await;
    let url = format!("rediss-cluster://localhost:{port}");
    let config = with(&url, "by-name", None);
    within("elected by addresses", elects_on_both(&store_with(&config), [&first, &second])).await;

    if testkit::redis::version() >= (7, 0) {
        for node in [&first, &second] {
            node.command(&["FLUSHALL"]);
            let unknown = ["CONFIG", "SET", "cluster-preferred-endpoint-type", "unknown-endpoint"];
            assert_eq!(node.command(&unknown), Reply::Text("OK".to_owned()));
        }
        within("elected without", elects_on_both(&store_with(&config), [&first, &second])).await;
    }

    // Another's certificate is no better for that: 127.0.0.1 is not the host of the URL then, nor of the certificate.
    let other = with(&format!("rediss-cluster://127.0.0.1:{other_port}"), "by-name", None);
    assert!(until_down(&store_with(&other), "is for another host").await.contains("it names localhost"));
}

#[tokio::test]
async fn after_a_failover_to_a_server_with_another_hosts_certificate_it_is_tried_until_that_is_mended() {
    if !has_tls() {
        return;
    }
    let (first, port) = start("server", "other-ca");
    let (second, other_port) = start("elsewhere", "other-ca");
    for server in [&first, &second] {
        server.command(&["CONFIG", "SET", "tls-auth-clients", "no"]);
    }
    let proxy = testkit::proxy::Proxy::start(port).await;
    let authorities = both_authorities();
    let ca_file = Some(authorities.path().join("both.pem"));
    let tls = TlsConfig { ca_file, client: None };
    let store = store_with(&RedisConfig { tls, ..config(&format!("rediss://localhost:{}/0", proxy.port())) });
    until_up(&store).await;
    let (token, _) = win(&store, unguarded(1, 1)).await;
    proxy.lead_to(other_port);
    first.command(&["CLIENT", "KILL", "TYPE", "normal"]);
    let reason = until_down(&store, "is for another host").await;
    assert!(reason.contains("it names elsewhere.example"), "{reason}");
    let (certificate, key) = tls::pair("server");
    let paths = [certificate, key].map(|path| path.display().to_string());
    let exchanged = second.command(&["CONFIG", "SET", "tls-cert-file", &paths[0], "tls-key-file", &paths[1]]);
    assert_eq!(exchanged, Reply::Text("OK".to_owned()));
    until_up(&store).await;
    // It has never heard of the term, and the incumbent puts its lease back.
    let restored = renew(&store, renewal(1, 1, token)).await;
    assert!(matches!(restored, RenewReply::Renewed { .. }), "{restored:?}");
}

#[tokio::test]
async fn new_files_are_used_at_the_next_connection() {
    if !has_tls() {
        return;
    }
    // A client's certificate that has expired, then a good one, in the same place; both of one authority.
    let (redis, port) = start("server", "other-ca");
    let dir = tempfile::tempdir().expect("a directory");
    let path = |name: &str| dir.path().join(name);
    let put = |from: &str, to: &str| {
        for ending in ["pem", "key"] {
            let written = std::fs::copy(fixture(from).with_extension(ending), path(to).with_extension(ending));
            written.expect("copied");
        }
    };
    put("expired", "tls");
    std::fs::copy(fixture("other-ca.pem"), path("ca.pem")).expect("copied");
    let tls = TlsConfig { ca_file: Some(path("ca.pem")), client: Some((path("tls.pem"), path("tls.key"))) };
    let store = store_with(&RedisConfig { tls, ..config(&format!("rediss://127.0.0.1:{port}/0")) });
    until_down(&store, "UnknownIssuer").await;
    std::fs::copy(fixture("ca.pem"), path("ca.pem")).expect("copied");
    let reason = until_down(&store, "has expired").await;
    assert!(reason.contains("certFile"), "{reason}");
    put("other-client", "tls");
    until_up(&store).await;
    let (token, _) = win(&store, unguarded(1, 1)).await;
    // A connection lives on with what it began with; the next one does not.
    put("expired", "tls");
    assert!(matches!(renew(&store, renewal(1, 1, token)).await, RenewReply::Renewed { .. }));
    redis.command(&["CLIENT", "KILL", "TYPE", "normal"]);
    until_down(&store, "has expired").await;
    std::fs::write(path("tls.pem"), "half of a fi").expect("written");
    assert!(until_down(&store, "no certificate in it").await.contains("tls.pem"));
    put("other-client", "tls");
    until_up(&store).await;
    assert!(matches!(renew(&store, renewal(1, 1, token)).await, RenewReply::Renewed { .. }));
}
