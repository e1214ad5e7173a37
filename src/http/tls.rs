//! TLS to others: whom to trust, and why not.

use std::io;
use std::sync::Arc;

use rustls::pki_types::ServerName;
use rustls::{CertificateError, ClientConfig, Error, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Why a host is not trusted.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct TlsError(String);

/// The authorities that the system trusts, or those of the file that SSL_CERT_FILE names: read for each attempt, so
/// that new ones count without a restart. Blocks on files.
pub fn system_roots() -> RootCertStore {
    let mut store = RootCertStore::empty();
    // One bad file among the system's must not keep us from the others.
    store.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    store
}

/// Speaks TLS on a connection to `host`, whom one of the authorities must vouch for.
///
/// # Errors
/// See [`TlsError`].
pub async fn secure(
    stream: TcpStream,
    host: &str,
    roots: fn() -> RootCertStore,
) -> Result<TlsStream<TcpStream>, TlsError> {
    // Reading and parsing a hundred certificates would hold up renewals.
    let roots = tokio::task::spawn_blocking(roots).await.map_err(|error| TlsError(error.to_string()))?;
    if roots.is_empty() {
        let why = "the system has no certificate authorities: name a file of them by SSL_CERT_FILE";
        return Err(TlsError(why.to_owned()));
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| TlsError(error.to_string()))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name =
        ServerName::try_from(host.trim_matches(['[', ']']).to_owned()).map_err(|error| TlsError(error.to_string()))?;
    let connector = TlsConnector::from(Arc::new(config));
    connector.connect(name, stream).await.map_err(|error| TlsError(in_words(&error)))
}

/// Why a handshake failed.
fn in_words(error: &io::Error) -> String {
    let cause = error.get_ref().and_then(|cause| cause.downcast_ref::<Error>());
    match cause {
        Some(Error::InvalidCertificate(CertificateError::UnknownIssuer)) => {
            "its certificate is of no authority that is trusted here (SSL_CERT_FILE names others)".to_owned()
        }
        Some(Error::InvalidMessage(_)) => "what answers there speaks no TLS".to_owned(),
        Some(error) => error.to_string(),
        None if error.kind() == io::ErrorKind::UnexpectedEof => "the connection was closed".to_owned(),
        None => error.to_string(),
    }
}
