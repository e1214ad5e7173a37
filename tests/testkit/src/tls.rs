//! Certificates for tests: two authorities, servers and clients of each, and what has expired.
//!
//! `ca` issued `server` and `client`; `other-ca` issued `other-client`, `elsewhere` (a server with another name) and
//! `expired` (a client); `expired-server` is its own authority, and so is `by-name`, a server whose certificate is for
//! localhost and not for 127.0.0.1.

use std::path::{Path, PathBuf};

use super::ports::free_port;
use super::redis::RedisServer;

/// A file of `tests/testkit/tls`.
pub fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tls").join(name)
}

/// The path of a certificate and of its key.
pub fn pair(name: &str) -> (PathBuf, PathBuf) {
    (fixture(&format!("{name}.pem")), fixture(&format!("{name}.key")))
}

/// The options of a server that shows the certificate `server`, trusts the authority `ca` and asks for a client's
/// certificate.
pub fn options(server: &str, ca: &str) -> Vec<String> {
    let (certificate, key) = pair(server);
    [("--tls-ca-cert-file", fixture(&format!("{ca}.pem"))), ("--tls-cert-file", certificate), ("--tls-key-file", key)]
        .into_iter()
        .flat_map(|(option, path)| [option.to_owned(), path.display().to_string()])
        .collect()
}

/// Such a Redis, and the port on which it speaks TLS. Its other port speaks plainly.
pub fn start(server: &str, ca: &str) -> (RedisServer, u16) {
    start_with(server, ca, &[])
}

/// The same with further options.
pub fn start_with(server: &str, ca: &str, more: &[&str]) -> (RedisServer, u16) {
    let port = free_port();
    let mut words = options(server, ca);
    words.extend(["--tls-port".to_owned(), port.to_string()]);
    let words: Vec<&str> = words.iter().map(String::as_str).chain(more.iter().copied()).collect();
    (RedisServer::start_with(&words), port)
}
