//! Whose certificate a server may show: its own host's, or in a cluster one for a host of the URL.

use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, DigitallySignedStruct, Error, SignatureScheme};

/// Services name the nodes of a cluster by addresses that they issue no certificates for: Azure Managed Redis has one
/// for the host of its URL, which all nodes show. Whoever shows it is the service that was asked for, so a node that
/// the map names may show a certificate for its own host or for one of the URL's.
#[derive(Debug)]
pub struct AnyHost {
    pub verifier: Arc<WebPkiServerVerifier>,
    /// Besides the one that is asked for.
    pub others: Vec<ServerName<'static>>,
}

impl ServerCertVerifier for AnyHost {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        host: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let verify = |host| self.verifier.verify_server_cert(certificate, intermediates, host, ocsp_response, now);
        let verified = verify(host);
        let is_anothers = matches!(
            verified,
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. }
            ))
        );
        if !is_anothers {
            return verified;
        }
        self.others.iter().find_map(|other| verify(other).ok()).map_or(verified, Ok)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verifier.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verifier.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.verifier.supported_verify_schemes()
    }
}
