//! The app's listener: [`crate::http`] bounds the connection and finds the handler, the [`gate`] refuses what does not
//! come from our app. What is answered, the parts bring along; here is what belongs to the listener itself.
//!
//! | file | what |
//! |---|---|
//! | `gate` | who may ask at all: `browser` for web pages, `token` for the bearer token |
//! | `page` | `/` for browsers, and its two files |
//! | `dapr` | what Dapr's clients ask for before they start |
//!
//! `openapi.yaml` beside this file describes all calls of all parts and is served as it is.

mod browser;
mod dapr;
mod gate;
mod page;
mod token;

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;

use crate::base::clock::SharedClock;
use crate::config::Secret;
use crate::http::{Ask, BODY_TIMEOUT, Content, Door, Limits, ListenerThread, Problem, Response, Router, Routes};
use crate::telemetry::Telemetry;

pub use dapr::dapr_routes;
use gate::Gate;
use token::TokenCheck;

const OPENAPI: &str = include_str!("openapi.yaml");

/// What the listener needs besides what it answers.
#[derive(Clone, Debug)]
pub struct ApiOptions {
    /// The bearer token that every request must carry, if there is one. It must be there for a non-loopback address;
    /// the configuration sees to that.
    pub token: Option<Secret>,
    /// What clients may cost.
    pub limits: Limits,
    /// How long a request's body may take; then 408.
    pub body_timeout: Duration,
    /// Times connections, and the age of the token.
    pub clock: SharedClock,
    pub telemetry: Telemetry,
}

impl ApiOptions {
    /// The contract's values.
    pub fn new(token: Option<Secret>, clock: SharedClock, telemetry: Telemetry) -> Self {
        Self { token, limits: Limits::default(), body_timeout: BODY_TIMEOUT, clock, telemetry }
    }
}

/// A router for the app's listener, with what belongs to the listener itself.
pub fn router() -> Router {
    Router::new("see /openapi.yaml").mount(page::routes()).mount(Routes::new(()).get("/openapi.yaml", openapi))
}

async fn openapi(_: Arc<()>, _ask: Ask) -> Result<Response, Problem> {
    // RFC 9512
    Ok(crate::http::document("application/yaml", Content::Whole(OPENAPI.into())))
}

/// Serves the app's listener on a new thread: no client keeps a renewal waiting, however much it asks for.
///
/// # Errors
/// When the thread, its runtime or the listener cannot be set up.
pub fn spawn(listener: std::net::TcpListener, router: Router, options: ApiOptions) -> io::Result<ListenerThread> {
    ListenerThread::spawn("api", listener, |listener, stopped| serve(listener, router, options, stopped))
}

/// Serves the app's listener until `shutdown` completes; then waiting clients are answered, streams end, and after
/// `options.limits.grace` at the most every connection is closed.
pub async fn serve(listener: TcpListener, router: Router, options: ApiOptions, shutdown: impl Future<Output = ()>) {
    let ApiOptions { token, limits, body_timeout, clock, telemetry } = options;
    let token = token.map(|secret| TokenCheck::new(secret, Arc::clone(&clock), telemetry));
    let door = Door::new(router, limits, clock).with_body_timeout(body_timeout).checked_by(Gate::new(token));
    door.serve(listener, shutdown).await;
}
