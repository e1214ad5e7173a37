//! Refuses what does not come from our app, before anything else looks at it.
//!
//! Loopback is no protection from a browser on the same machine: any web page may send requests to 127.0.0.1, and with
//! a name that resolves there (DNS rebinding) even read the answers. Such requests carry a foreign `Origin` or `Host`,
//! or say otherwise where they come from: see [`browser`].

use std::cell::OnceCell;
use std::convert::Infallible;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::Map;
use http_body_util::Full;
use hyper::body::{Body, Incoming};
use hyper::header::{HOST, HeaderValue};
use hyper::service::Service;
use hyper::{Request, Response, Version};

use super::token::TokenCheck;
use super::{Context, browser, router};
use crate::http::{Answer, Answers, Ends, Problem, ProblemKind};

const HTTP_PORT: u16 = 80;

/// The longest `Host` that is remembered; ours are shorter.
const HOST_KEPT_BYTES: usize = 64;

/// An answer: made at the gate, or the filter's.
type Sent<W> = http_body_util::Either<Full<Bytes>, W>;

/// One connection's door.
pub(super) struct Gate<S> {
    service: S,
    context: Arc<Context>,
    ends: Ends,
    token: Option<Arc<TokenCheck>>,
    /// The first `Host` that was found to be ours. A client says the same with every request.
    host: OnceCell<Box<[u8]>>,
}

impl<S> Gate<S> {
    pub(super) fn new(service: S, context: Arc<Context>, ends: Ends, token: Option<Arc<TokenCheck>>) -> Self {
        Self { service, context, ends, token, host: OnceCell::new() }
    }

    fn check(&self, request: &Request<Incoming>) -> Result<(), Problem> {
        let headers = request.headers();
        // One walk, and no search for what programs do not send.
        let (mut host, mut hosts, mut is_browsers) = (None, 0, false);
        for (name, value) in headers {
            if *name == HOST {
                (host, hosts) = (Some(value), hosts + 1);
            } else {
                is_browsers |= browser::is_browsers(name);
            }
        }
        match (host, hosts) {
            (Some(host), 1) => self.check_host(host)?,
            (Some(_), _) => {
                return Err(Problem::new(ProblemKind::BadHost, "the request has more than one Host header"));
            }
            // HTTP/1.0 has none, and no browser speaks it.
            (None, _) if request.version() < Version::HTTP_11 => {}
            (None, _) => return Err(Problem::new(ProblemKind::BadHost, "the request has no Host header")),
        }
        // The absolute form of a request target goes before the header (RFC 9112 §3.2.2).
        if let Some(authority) = request.uri().authority()
            && !is_ours(authority.as_str(), self.ends)
        {
            return Err(foreign_host(authority.as_str()));
        }
        // CONNECT names a host and no path. warp's path filters panic on that, and a panic ends the process.
        if request.uri().path_and_query().is_none() {
            return Err(Problem::new(ProblemKind::UnknownPath, "this is no proxy: a path is wanted"));
        }
        if is_browsers {
            browser::check(request.method(), request.uri().path(), headers, |host| is_ours(host, self.ends))?;
        }
        match &self.token {
            // A browser has no token to open the page with: the page asks for it, and needs it for all it shows.
            Some(token) if !router::is_page(request.method(), request.uri().path(), headers) => token.check(headers),
            _ => Ok(()),
        }
    }

    fn check_host(&self, host: &HeaderValue) -> Result<(), Problem> {
        if self.host.get().is_some_and(|known| **known == *host.as_bytes()) {
            return Ok(());
        }
        let text = host.to_str().unwrap_or("");
        if !is_ours(text, self.ends) {
            return Err(foreign_host(text));
        }
        if text.len() <= HOST_KEPT_BYTES {
            self.host.get_or_init(|| text.as_bytes().into());
        }
        Ok(())
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

fn filtered<W>(answer: Result<Response<W>, Infallible>) -> Response<Sent<W>> {
    match answer {
        Ok(response) => response.map(Sent::Right),
        Err(never) => match never {},
    }
}

/// The answer of a filter, on its way to the client.
type Filtered<F, W> = Map<F, fn(Result<Response<W>, Infallible>) -> Response<Sent<W>>>;

impl<S, W> Answers for Gate<S>
where
    S: Service<Request<Incoming>, Response = Response<W>, Error = Infallible> + Send + 'static,
    S::Future: Send + 'static,
    W: Body<Data = Bytes, Error: Into<Box<dyn std::error::Error + Send + Sync>>> + Send + Unpin + 'static,
{
    type Body = Sent<W>;
    // Boxed: hyper keeps room for it in every connection, and moves all of it with every poll that needs none of it.
    type Later = Pin<Box<Filtered<S::Future, W>>>;

    fn answer(&self, mut request: Request<Incoming>) -> Answer<Self::Body, Self::Later> {
        let answer = match self.check(&request) {
            Ok(()) => match router::at_once(&self.context, request.method(), request.uri()) {
                Some(answer) => answer,
                None => return Answer::Later(Box::pin(self.service.call(request).map(filtered))),
            },
            Err(problem) => Err(problem),
        };
        Answer::Now(match answer {
            Ok(told) => told.into_response(request.headers_mut(), |json| Sent::Left(Full::new(json))),
            Err(problem) => problem.into_response().map(|json| Sent::Left(Full::new(json))),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ours(host: &str, local: &str) -> bool {
        let ends = Ends { local: local.parse().unwrap(), peer: "127.0.0.1:9".parse().unwrap() };
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
