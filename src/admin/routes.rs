//! The listener's calls.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use futures_util::{TryStreamExt, stream};
use hyper::body::Incoming;
use hyper::header::{ALLOW, HeaderValue};
use hyper::{Method, Request, StatusCode};
use serde::Serialize;
use tokio::net::TcpListener;
use tokio::sync::watch;

use super::{Liveness, Sources};
use crate::http::{
    AccessCheck, Ask, BoxError, Content, Door, Ends, Problem, ProblemKind, Response, Router, Routes, document, json,
};
use crate::role::RoleHandle;
use crate::store::StoreHealth;
use crate::telemetry::{Reading, TermReading};

const METRICS: &str = "/metrics";
const METRICS_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";
/// As much of `/metrics` is copied at once.
const SLICE_BYTES: usize = 16 * 1024;

/// What every call may use.
struct Context {
    sources: Sources,
    /// Set once the store has answered; a later outage is no reason to take the pod out of its Service.
    store_reached: Arc<AtomicBool>,
}

/// Serves until `shutdown` completes, and a little longer for open connections.
pub(super) async fn serve(listener: TcpListener, sources: Sources, shutdown: impl Future<Output = ()>) {
    let store_reached = Arc::new(AtomicBool::new(false));
    let watching = tokio::spawn(note_first_contact(sources.store.clone(), Arc::clone(&store_reached)));
    let (limits, clock) = (sources.limits, Arc::clone(&sources.clock));
    let router = Router::new("there are /metrics, /livez, /readyz and /leading");
    let router = router.mount(routes(Context { sources, store_reached }));
    let door = Door::new(router, limits, clock).checked_by(ProbesFirst { connections: limits.connections });
    door.serve(listener, shutdown).await;
    watching.abort();
}

/// A connection that is one too many is there for the kubelet's probes: they are short, and cannot wait.
struct ProbesFirst {
    connections: usize,
}

impl AccessCheck for ProbesFirst {
    fn check(&self, request: &Request<Incoming>, ends: Ends) -> Result<(), Problem> {
        match ends.is_spare && request.uri().path() == METRICS {
            true => Err(Problem::too_many_connections(self.connections)),
            false => Ok(()),
        }
    }
}

fn routes(context: Context) -> Routes<Context> {
    let probes = [Method::GET, Method::HEAD, Method::OPTIONS];
    let (looks, options_only) = (&probes[..2], &probes[2..]);
    Routes::new(context)
        .at(looks, METRICS, metrics)
        .at(options_only, METRICS, options)
        .at(looks, "/livez", livez)
        .at(options_only, "/livez", options)
        .at(looks, "/readyz", readyz)
        .at(options_only, "/readyz", options)
        .at(&probes, "/leading", leading)
        .at(&probes, "/leading/{role}", leading)
}

async fn options(_: Arc<Context>, _ask: Ask) -> Result<Response, Problem> {
    let mut response = Response::new(Content::Whole(Bytes::new()));
    *response.status_mut() = StatusCode::NO_CONTENT;
    response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD, OPTIONS"));
    Ok(response)
}

/// An answer whose status says whether all is well.
fn verdict(well: bool, value: &impl Serialize) -> Response {
    json(if well { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }, value)
}

async fn note_first_contact(mut store: watch::Receiver<StoreHealth>, reached: Arc<AtomicBool>) {
    // An error means that the store is gone with the process.
    if store.wait_for(|health| *health == StoreHealth::Up).await.is_ok() {
        reached.store(true, Ordering::Relaxed);
    }
}

async fn metrics(context: Arc<Context>, _ask: Ask) -> Result<Response, Problem> {
    let roles = context.sources.roles.all();
    let readings: Vec<_> = roles.iter().map(reading).collect();
    let store_up = *context.sources.store.borrow() == StoreHealth::Up;
    let broken = |error: prometheus::Error| {
        tracing::error!(%error, "the metrics cannot be written");
        Problem::new(ProblemKind::Internal, "the metrics cannot be written; the log says why")
    };
    let pieces = context.sources.metrics.pieces(readings, store_up).map_err(broken)?;
    let slices = |text: String| stream::iter(slices(text.into()).map(Ok));
    let pieces = stream::iter(pieces).map_err(BoxError::from).map_ok(slices).try_flatten();
    Ok(document(METRICS_TYPE, Content::Stream(Box::pin(pieces))))
}

/// The same bytes in small pieces: what waits to be sent is copied, and a family of a thousand roles is a megabyte.
fn slices(mut rest: Bytes) -> impl Iterator<Item = Bytes> {
    std::iter::from_fn(move || (!rest.is_empty()).then(|| rest.split_to(rest.len().min(SLICE_BYTES))))
}

fn reading(role: &RoleHandle) -> Reading {
    let leads = |(token, remaining)| TermReading { token, remaining, since: role.snapshot().since };
    Reading { role: role.name().clone(), leading: role.remaining().map(leads) }
}

#[derive(Serialize)]
struct Live {
    alive: bool,
    stuck: Vec<Stuck>,
}

#[derive(Serialize)]
struct Stuck {
    role: String,
    silent_for_ms: u64,
    allowed_ms: u64,
}

async fn livez(context: Arc<Context>, _ask: Ask) -> Result<Response, Problem> {
    let now = context.sources.clock.now();
    let ms = |duration: std::time::Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    let is_stuck = |liveness: &Liveness| now.since(liveness.last) > liveness.within;
    let stuck: Vec<_> = context
        .sources
        .progress
        .liveness()
        .iter()
        .filter(|liveness| is_stuck(liveness))
        .map(|liveness| Stuck {
            role: liveness.role.to_string(),
            silent_for_ms: ms(now.since(liveness.last)),
            allowed_ms: ms(liveness.within),
        })
        .collect();
    Ok(verdict(stuck.is_empty(), &Live { alive: stuck.is_empty(), stuck }))
}

#[derive(Serialize)]
struct Ready {
    ready: bool,
    reasons: Vec<String>,
}

async fn readyz(context: Arc<Context>, _ask: Ask) -> Result<Response, Problem> {
    let mut reasons = Vec::new();
    let liveness = context.sources.progress.liveness();
    if liveness.is_empty() {
        reasons.push("no role runs yet".to_owned());
    }
    // Whoever leads is found without the stores that locks or jobs have for themselves, and there is nothing that this
    // pod could do about them: who waits for a lock, or for a run, is told by the answer to that.
    // The watching task may be a moment behind.
    let health = context.sources.store.borrow().clone();
    if health == StoreHealth::Up {
        context.store_reached.store(true, Ordering::Relaxed);
    }
    if let (StoreHealth::Down { reason }, false) = (health, context.store_reached.load(Ordering::Relaxed)) {
        reasons.push(format!("the store was not reached yet: {reason}"));
    }
    let unsettled = liveness.iter().filter(|liveness| !liveness.knows_state);
    reasons.extend(unsettled.map(|liveness| format!("role {} does not know its state yet", liveness.role)));
    Ok(verdict(reasons.is_empty(), &Ready { ready: reasons.is_empty(), reasons }))
}

#[derive(Serialize)]
struct Leading<'a> {
    role: &'a str,
    leading: bool,
}

/// For probes: what is true now, promising nothing beyond.
async fn leading(context: Arc<Context>, ask: Ask) -> Result<Response, Problem> {
    let name = ask.param("role");
    let roles = &context.sources.roles;
    let found = name.map_or_else(|| roles.default_role(), |name| roles.get(name));
    let Some(role) = found else {
        let known: Vec<_> = roles.all().iter().map(|role| role.name().to_string()).collect();
        let (kind, detail) = match name {
            None if known.len() > 1 => (ProblemKind::AmbiguousRole, "there are several roles: name one in the path"),
            _ => (ProblemKind::UnknownRole, "this replica has no such role"),
        };
        return Err(Problem::new(kind, detail).with_known(known));
    };
    let leading = role.leads();
    Ok(verdict(leading, &Leading { role: role.name().as_str(), leading }))
}
