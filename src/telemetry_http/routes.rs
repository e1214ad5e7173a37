//! The listener's calls.

use std::future::Pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use serde::Serialize;
use tokio::net::TcpListener;
use tokio::sync::watch;

use super::{Pulse, Sources};
use crate::http::{Answer, Answers, Problem, ProblemKind, shard_slash};
use crate::role::RoleHandle;
use crate::store::StoreHealth;
use crate::telemetry::{Reading, TermReading};

const METHODS: &str = "GET, HEAD, OPTIONS";
const METRICS_TYPE: HeaderValue = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");

struct State {
    sources: Sources,
    /// Set once the store has answered; a later outage is no reason to take the pod out of its Service.
    store_reached: Arc<AtomicBool>,
}

/// Serves until `shutdown` completes, and a little longer for open connections.
pub(super) async fn serve(listener: TcpListener, sources: Sources, shutdown: impl Future<Output = ()>) {
    let store_reached = Arc::new(AtomicBool::new(false));
    let watching = tokio::spawn(note_first_contact(sources.store.clone(), Arc::clone(&store_reached)));
    let (limits, clock) = (sources.limits, Arc::clone(&sources.clock));
    let state = Arc::new(State { sources, store_reached });
    let make_answers = |_ends| Desk(Arc::clone(&state));
    crate::http::serve(listener, limits, clock, make_answers, shutdown).await;
    watching.abort();
}

/// Answers one connection.
struct Desk(Arc<State>);

impl Answers for Desk {
    type Body = Full<Bytes>;
    // There is nothing to wait for.
    type Later = Pending<Response<Full<Bytes>>>;

    fn answer(&self, request: Request<Incoming>) -> Answer<Full<Bytes>, Self::Later> {
        let response = answer(&self.0, request.method(), request.uri().path());
        Answer::Now(response.unwrap_or_else(Problem::into_response).map(Full::new))
    }
}

async fn note_first_contact(mut store: watch::Receiver<StoreHealth>, reached: Arc<AtomicBool>) {
    // An error means that the store is gone with the process.
    if store.wait_for(|health| *health == StoreHealth::Up).await.is_ok() {
        reached.store(true, Ordering::Relaxed);
    }
}

fn answer(state: &State, method: &Method, path: &str) -> Result<Response<Bytes>, Problem> {
    let path = &*shard_slash(path);
    let role = path.strip_prefix("/leading/");
    let known = role.is_some() || matches!(path, "/metrics" | "/livez" | "/readyz" | "/leading");
    if !known {
        let shown: String = path.chars().take(100).collect();
        let detail = format!("there is nothing at {shown:?}; there are /metrics, /livez, /readyz and /leading");
        return Err(Problem::new(ProblemKind::UnknownPath, detail));
    }
    if !METHODS.split(", ").any(|allowed| allowed == method.as_str()) {
        return Err(Problem::method_not_allowed(METHODS));
    }
    match path {
        "/leading" => leading(state, None),
        _ if role.is_some() => leading(state, role),
        _ if *method == Method::OPTIONS => Ok(options()),
        "/metrics" => metrics(state),
        "/livez" => Ok(livez(state)),
        _ => Ok(readyz(state)),
    }
}

fn options() -> Response<Bytes> {
    let mut response = Response::new(Bytes::new());
    *response.status_mut() = StatusCode::NO_CONTENT;
    response.headers_mut().insert(ALLOW, HeaderValue::from_static(METHODS));
    response
}

fn json(fine: bool, value: &impl Serialize) -> Response<Bytes> {
    // Strings and numbers: writing them into memory does not fail.
    let mut response = Response::new(serde_json::to_vec(value).unwrap_or_default().into());
    *response.status_mut() = if fine { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

fn metrics(state: &State) -> Result<Response<Bytes>, Problem> {
    let roles = state.sources.roles.all();
    let readings: Vec<_> = roles.iter().map(reading).collect();
    let store_up = *state.sources.store.borrow() == StoreHealth::Up;
    let text = state.sources.metrics.render(&readings, store_up).map_err(|error| {
        tracing::error!(%error, "the metrics cannot be written");
        Problem::new(ProblemKind::Internal, "the metrics cannot be written; the log says why")
    })?;
    let mut response = Response::new(text.into());
    response.headers_mut().insert(CONTENT_TYPE, METRICS_TYPE);
    Ok(response)
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

fn livez(state: &State) -> Response<Bytes> {
    let now = state.sources.clock.now();
    let ms = |duration: std::time::Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    let is_stuck = |pulse: &Pulse| now.since(pulse.last) > pulse.within;
    let stuck: Vec<_> = state
        .sources
        .progress
        .pulses()
        .iter()
        .filter(|pulse| is_stuck(pulse))
        .map(|pulse| Stuck {
            role: pulse.role.to_string(),
            silent_for_ms: ms(now.since(pulse.last)),
            allowed_ms: ms(pulse.within),
        })
        .collect();
    json(stuck.is_empty(), &Live { alive: stuck.is_empty(), stuck })
}

#[derive(Serialize)]
struct Ready {
    ready: bool,
    reasons: Vec<String>,
}

fn readyz(state: &State) -> Response<Bytes> {
    let mut reasons = Vec::new();
    let pulses = state.sources.progress.pulses();
    if pulses.is_empty() {
        reasons.push("no role runs yet".to_owned());
    }
    // Whoever leads is found without the stores that locks or jobs have for themselves, and there is nothing that this
    // pod could do about them: who waits for a lock, or for a run, is told by the answer to that.
    // The watching task may be a moment behind.
    let health = state.sources.store.borrow().clone();
    if health == StoreHealth::Up {
        state.store_reached.store(true, Ordering::Relaxed);
    }
    if let (StoreHealth::Down { reason }, false) = (health, state.store_reached.load(Ordering::Relaxed)) {
        reasons.push(format!("the store was not reached yet: {reason}"));
    }
    let unsettled = pulses.iter().filter(|pulse| !pulse.knows_state);
    reasons.extend(unsettled.map(|pulse| format!("role {} does not know its state yet", pulse.role)));
    json(reasons.is_empty(), &Ready { ready: reasons.is_empty(), reasons })
}

#[derive(Serialize)]
struct Leading<'a> {
    role: &'a str,
    leading: bool,
}

/// For probes: what is true now, promising nothing beyond.
fn leading(state: &State, name: Option<&str>) -> Result<Response<Bytes>, Problem> {
    let roles = &state.sources.roles;
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
    Ok(json(leading, &Leading { role: role.name().as_str(), leading }))
}
