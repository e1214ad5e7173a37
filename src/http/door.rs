//! The one way into a listener: warp takes a request apart, the [`Router`] finds its handler, and warp sends the
//! answer.

use std::convert::Infallible;
use std::future::{Future, ready};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use bytes::BufMut;
use futures_util::{Stream, StreamExt};
use hyper::body::Incoming;
use hyper::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderMap};
use hyper::service::{Service, service_fn};
use hyper::{Method, Request};
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use warp::path::FullPath;
use warp::{Buf, Filter, Rejection, Reply};

use super::activity::Client;
use super::answer::{Content, Response};
use super::problem::{Problem, ProblemKind};
use super::router::Router;
use super::serve::{Ends, Limits, serve};
use crate::base::clock::SharedClock;

/// The largest body of any request.
pub const BODY_BYTES_MAX: usize = 64 * 1024;
/// How long a request's body may take, unless a listener says otherwise; then 408.
pub const BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// Refuses requests before anything else looks at them.
pub trait AccessCheck: Send + Sync + 'static {
    /// Whether a request on this connection may be answered.
    ///
    /// # Errors
    /// Why not.
    fn check(&self, request: &Request<Incoming>, ends: Ends) -> Result<(), Problem>;
}

/// A listener's way in.
pub struct Door {
    router: Router,
    access: Option<Box<dyn AccessCheck>>,
    limits: Limits,
    body_timeout: Duration,
    clock: SharedClock,
}

impl Door {
    /// To all that the router has, within these limits; `clock` times connections.
    pub fn new(router: Router, limits: Limits, clock: SharedClock) -> Self {
        Self { router, access: None, limits, body_timeout: BODY_TIMEOUT, clock }
    }

    /// With this access before it.
    #[must_use]
    pub fn checked_by(mut self, access: impl AccessCheck) -> Self {
        self.access = Some(Box::new(access));
        self
    }

    /// With another bound for bodies than [`BODY_TIMEOUT`].
    #[must_use]
    pub fn with_body_timeout(mut self, body_timeout: Duration) -> Self {
        self.body_timeout = body_timeout;
        self
    }

    /// Serves until `shutdown` completes; then waiting handlers are told, and after `limits.grace` at the most every
    /// connection is closed.
    pub async fn serve(self, listener: TcpListener, shutdown: impl Future<Output = ()>) {
        let Self { router, access, limits, body_timeout, clock } = self;
        let (router, access) = (Arc::new(router), Arc::new(access));
        let service = TowerToHyperService::new(warp::service(filter(Arc::clone(&router), body_timeout)));
        let make_service = |ends| {
            let (service, access) = (service.clone(), Arc::clone(&access));
            // Boxed: hyper keeps room for an answer in every connection, whether one is on its way or not.
            service_fn(move |request| match check(access.as_deref(), &request, ends) {
                Ok(()) => Box::pin(service.call(request)) as Sending,
                Err(problem) => Box::pin(ready(Ok(sent(Err(problem))))),
            })
        };
        let shutdown = async {
            shutdown.await;
            router.stop();
        };
        serve(listener, limits, clock, make_service, shutdown).await;
    }
}

type Sending = Pin<Box<dyn Future<Output = Result<warp::reply::Response, Infallible>> + Send>>;

fn check(access: Option<&dyn AccessCheck>, request: &Request<Incoming>, ends: Ends) -> Result<(), Problem> {
    access.map_or(Ok(()), |access| access.check(request, ends))?;
    // CONNECT names a host and no path. warp's path filters panic on that, and a panic ends the process.
    if request.uri().path_and_query().is_none() {
        return Err(Problem::new(ProblemKind::UnknownPath, "this is no proxy: a path is wanted"));
    }
    Ok(())
}

/// The whole listener as one filter. It answers every request and rejects none.
fn filter(
    router: Arc<Router>,
    body_timeout: Duration,
) -> impl Filter<Extract = (warp::reply::Response,), Error = Rejection> + Clone + Send + Sync {
    let query = warp::query::raw().or(warp::any().map(String::new)).unify();
    let router = warp::any().map(move || Arc::clone(&router));
    warp::method()
        .and(warp::path::full())
        .and(query)
        .and(warp::header::headers_cloned())
        .and(warp::body::stream())
        .and(warp::ext::optional())
        .and(router)
        .then(
            move |method: Method,
                  path: FullPath,
                  query,
                  headers: HeaderMap,
                  body,
                  client: Option<Client>,
                  router: Arc<Router>| async move {
                let answering = async {
                    let found = router.find(&method, path.as_str(), &headers)?;
                    let body =
                        if found.reads_body() { read_json(&headers, body, body_timeout).await? } else { Vec::new() };
                    found.answer(query, headers, body, client.unwrap_or_default()).await
                };
                sent(answering.await)
            },
        )
}

fn sent(answer: Result<Response, Problem>) -> warp::reply::Response {
    let (head, content) = answer.unwrap_or_else(Problem::into_response).into_parts();
    let body = match content {
        Content::Whole(bytes) => bytes.into(),
        Content::Stream(pieces) => warp::reply::stream(pieces).into_response().into_body(),
    };
    warp::reply::Response::from_parts(head, body)
}

/// The whole body, which is JSON unless there is none.
async fn read_json<B: Buf>(
    headers: &HeaderMap,
    body: impl Stream<Item = Result<B, warp::Error>>,
    patience: Duration,
) -> Result<Vec<u8>, Problem> {
    let late = |_| Problem::new(ProblemKind::RequestTimeout, format!("the body took longer than {patience:?}"));
    let body = tokio::time::timeout(patience, read(headers, body)).await.map_err(late)??;
    if !body.trim_ascii().is_empty() && !is_json(headers) {
        let detail = "send the body with Content-Type: application/json, or no body";
        return Err(Problem::new(ProblemKind::UnsupportedMediaType, detail));
    }
    Ok(body)
}

fn is_json(headers: &HeaderMap) -> bool {
    let given = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("");
    given.split(';').next().is_some_and(|media_type| media_type.trim().eq_ignore_ascii_case("application/json"))
}

async fn read<B: Buf>(
    headers: &HeaderMap,
    body: impl Stream<Item = Result<B, warp::Error>>,
) -> Result<Vec<u8>, Problem> {
    let too_large =
        || Problem::new(ProblemKind::BodyTooLarge, format!("a body may have {BODY_BYTES_MAX} bytes at the most"));
    let announced = headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<usize>().ok());
    if announced.is_some_and(|bytes| bytes > BODY_BYTES_MAX) {
        return Err(too_large());
    }
    let mut body = pin!(body);
    let mut whole = Vec::new();
    while let Some(chunk) = body.next().await {
        // The client broke off, or does not chunk as it should.
        let chunk = chunk.map_err(|_| Problem::new(ProblemKind::BadBody, "the body broke off"))?;
        if whole.len() + chunk.remaining() > BODY_BYTES_MAX {
            return Err(too_large());
        }
        whole.put(chunk);
    }
    Ok(whole)
}
