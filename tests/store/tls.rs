//! Encryption: who is trusted, what is wrong when it does not work, and new files without a restart.

use super::support::redis::{RedisServer, free_port};
use super::support::resp::Reply;
use super::*;

fn fixture(name: &str) -> std::path::PathBuf {
    std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/support/tls").join(name)
}

/// A Redis that shows the certificate `server`, trusts the authority `ca` and asks for a client's certificate.
fn start(server: &str, ca: &str) -> (RedisServer, u16) {
    let port = free_port();
    let files = [ca, server].map(|name| fixture(name).with_extension("pem").display().to_string());
    let key = fixture(server).with_extension("key").display().to_string();
    let port_text = port.to_string();
    let options = ["--tls-port", &port_text, "--tls-ca-cert-file", &files[0], "--tls-cert-file", &files[1]];
    (RedisServer::start_with(&[&options[..], &["--tls-key-file", &key]].concat()), port)
}

/// Baton with this authority and this client's certificate.
fn with(url: &str, ca: &str, client: Option<&str>) -> RedisConfig {
    let pair = |name: &str| (fixture(name).with_extension("pem"), fixture(name).with_extension("key"));
    let tls = TlsConfig { ca_file: Some(fixture(ca).with_extension("pem")), client: client.map(pair) };
    RedisConfig { tls, ..config(url) }
}

#[tokio::test]
async fn tls_works_with_the_given_authority_and_the_clients_certificate() {
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

#[tokio::test]
async fn new_files_are_used_at_the_next_connection() {
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
