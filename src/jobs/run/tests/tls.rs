//! Requests over TLS.

use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;

use super::server::{Server, answer, post};
use super::stage::{Stage, failed, succeeded};

/// Set for the child that plays this test's second half.
const CHILD: &str = "BATON_TEST_TRUSTS_CA";

fn fixture(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/testkit/tls").join(name)
}

async fn app() -> Server {
    let certificates = CertificateDer::pem_file_iter(fixture("server.pem")).unwrap().map(Result::unwrap).collect();
    let key = PrivateKeyDer::from_pem_file(fixture("server.key")).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(certificates, key)
        .unwrap();
    Server::start_tls(answer("200 OK", "secure"), config).await
}

/// Trusts whom SSL_CERT_FILE names, which only a process of its own can be told.
#[tokio::test]
async fn an_app_is_trusted_whose_authority_ssl_cert_file_names() {
    if std::env::var_os(CHILD).is_some() {
        let (stage, app) = (Stage::calm().await, app().await);
        for host in ["localhost", "127.0.0.1"] {
            let run = post(&format!("https://{host}:{}/", app.port));
            assert_eq!(stage.begin(run.into()).ends().await, succeeded("secure"));
        }
        println!("trusted");
        return;
    }
    let name = "jobs::run::tests::tls::an_app_is_trusted_whose_authority_ssl_cert_file_names";
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture"])
        .env(CHILD, "1")
        .env("SSL_CERT_FILE", fixture("ca.pem"))
        .env_remove("SSL_CERT_DIR")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&child.stdout);
    assert!(child.status.success() && said.contains("trusted"), "{said}{}", String::from_utf8_lossy(&child.stderr));
}

#[tokio::test]
async fn an_app_that_nobody_vouches_for_hears_nothing() {
    let (stage, app) = (Stage::calm().await, app().await);
    let run = post(&format!("https://localhost:{}/", app.port));
    let wanted = format!(
        "no TLS with localhost:{}: its certificate is of no authority that is trusted here \
         (SSL_CERT_FILE names others)",
        app.port
    );
    assert_eq!(stage.begin(run.into()).ends().await, failed(&wanted));
    app.sees_it_go().await;
    assert!(app.requests().is_empty());
}

#[tokio::test]
async fn an_app_that_speaks_no_tls_is_told_so() {
    let stage = Stage::calm().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let running = stage.begin(post(&format!("https://localhost:{port}/")).into());
    let (mut client, _) = listener.accept().await.unwrap();
    client.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await.unwrap();
    let wanted = format!("no TLS with localhost:{port}: what answers there speaks no TLS");
    assert_eq!(running.ends().await, failed(&wanted));
}
