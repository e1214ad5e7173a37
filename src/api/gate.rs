//! Refuses what does not come from our app, before anything else looks at it.
//!
//! Loopback is no protection from a browser on the same machine: any web page may send requests to 127.0.0.1, and with
//! a name that resolves there (DNS rebinding) even read the answers. Such requests carry a foreign `Origin` or `Host`,
//! or say otherwise where they come from: see [`browser`].

use std::net::IpAddr;

use hyper::body::Incoming;
use hyper::header::HOST;
use hyper::{Request, Version};

use super::token::TokenCheck;
use super::{browser, page};
use crate::http::{AccessCheck, Ends, Problem, ProblemKind};

const HTTP_PORT: u16 = 80;

/// Lets in what comes from our app, and carries the token if there is one.
pub(super) struct Gate {
    token: Option<TokenCheck>,
}

impl Gate {
    pub(super) fn new(token: Option<TokenCheck>) -> Self {
        Self { token }
    }
}

impl AccessCheck for Gate {
    fn check(&self, request: &Request<Incoming>, ends: Ends) -> Result<(), Problem> {
        let (headers, path) = (request.headers(), request.uri().path());
        let is_ours = |host: &str| is_ours(host, ends);
        let mut hosts = headers.get_all(HOST).into_iter();
        match (hosts.next(), hosts.next()) {
            (Some(host), None) => {
                let host = host.to_str().unwrap_or("");
                is_ours(host).then_some(()).ok_or_else(|| foreign_host(host))?;
            }
            (Some(_), Some(_)) => {
                return Err(Problem::new(ProblemKind::BadHost, "the request has more than one Host header"));
            }
            // HTTP/1.0 has none, and no browser speaks it.
            (None, _) if request.version() < Version::HTTP_11 => {}
            (None, _) => return Err(Problem::new(ProblemKind::BadHost, "the request has no Host header")),
        }
        // The absolute form of a request target goes before the header (RFC 9112 §3.2.2).
        if let Some(authority) = request.uri().authority()
            && !is_ours(authority.as_str())
        {
            return Err(foreign_host(authority.as_str()));
        }
        browser::check(request.method(), path, headers, is_ours)?;
        match &self.token {
            // A browser has no token to open the page with: the page asks for it, and needs it for all it shows.
            Some(token) if !page::is_asked_for(request.method(), path, headers) => token.check(headers),
            _ => Ok(()),
        }
    }
}

fn foreign_host(host: &str) -> Problem {
    let shown: String = host.chars().take(100).collect();
    Problem::new(
        ProblemKind::ForeignHost,
        format!("{shown:?} is not a name of this listener; use localhost or its address, with its port"),
    )
}

/// Whether `host` (a name or address, and a port unless that is 80) is one of this listener's names: localhost, a
/// loopback address, or the address that the connection came to.
fn is_ours(host: &str, ends: Ends) -> bool {
    let (name, port) = match host.rsplit_once(':') {
        // A colon inside of brackets belongs to an IPv6 address without a port.
        Some((name, port)) if !port.ends_with(']') => (name, port.parse().ok()),
        _ => (host, Some(HTTP_PORT)),
    };
    if port != Some(ends.local.port()) {
        return false;
    }
    if name.eq_ignore_ascii_case("localhost") {
        return true;
    }
    let literal = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    let canonical = |address: IpAddr| address.to_canonical();
    literal
        .parse::<IpAddr>()
        .is_ok_and(|address| canonical(address).is_loopback() || canonical(address) == canonical(ends.local.ip()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ours(host: &str, local: &str) -> bool {
        let ends = Ends { local: local.parse().unwrap(), peer: "127.0.0.1:9".parse().unwrap(), is_spare: false };
        is_ours(host, ends)
    }

    #[test]
    fn only_loopback_names_and_the_listeners_own_address_are_ours() {
        for host in ["localhost:4040", "LOCALHOST:4040", "127.0.0.1:4040", "127.8.8.8:4040", "[::1]:4040"] {
            assert!(ours(host, "127.0.0.1:4040"), "{host}");
        }
        for host in [
            "",
            "localhost",
            "localhost:4041",
            "localhost:4040:4040",
            "127.0.0.1",
            "evil.example:4040",
            "localhost.evil.example:4040",
            "127.0.0.1.nip.io:4040",
            "10.0.0.5:4040",
            "[::2]:4040",
            "user@localhost:4040",
            "localhost:04040x",
        ] {
            assert!(!ours(host, "127.0.0.1:4040"), "{host}");
        }
        assert!(ours("10.0.0.5:4040", "10.0.0.5:4040"));
        assert!(ours("10.0.0.5:4040", "[::ffff:10.0.0.5]:4040"), "a listener on both families sees mapped addresses");
        assert!(ours("localhost", "127.0.0.1:80") && ours("[::1]", "127.0.0.1:80"));
    }
}
