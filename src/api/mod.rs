//! The app's listener: who leads, for how long that may be acted upon, and the two words an app may say back.
//!
//! A request passes three doors: [`crate::http`] bounds the connection, the [`gate`] refuses what does not come from
//! our app, and the [`router`] finds the call. A warp filter carries the request from one to the next, but for plain
//! polls: they are answered at the gate.
//!
//! | file | calls |
//! |---|---|
//! | `leader` | `/leader`, `/leading`, `/roles` and the leader-elector shapes |
//! | `events` | `/events` |
//! | `control` | `/leader/{role}/resign`, `/leader/{role}/drained` |
//! | `status` | `/status` |
//! | `page` | `/` for browsers, and its two files |
//! | `browser` | what web pages may ask |
//! | `part` | what other parts answer: [`crate::http::Calls`] |
//!
//! `openapi.yaml` beside this file describes all of it and is served as it is.

mod browser;
mod control;
mod events;
mod gate;
mod leader;
mod page;
mod params;
mod part;
mod router;
mod status;
mod token;

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::base::clock::SharedClock;
use crate::config::Secret;
use crate::http::{Calls, Limits, ListenerThread};
use crate::role::Roles;
use crate::telemetry::Telemetry;

use gate::Gate;
use token::TokenCheck;

pub use params::{COOLDOWN_MAX, WAIT_DEFAULT, WAIT_MAX};
pub use router::{BODY_BYTES_MAX, ROUTES};

/// What the listener needs besides the roles.
#[derive(Clone, Debug)]
pub struct ApiOptions {
    /// The bearer token that every request must carry, if there is one. It must be there for a non-loopback address;
    /// the configuration sees to that.
    pub token: Option<Secret>,
    /// What clients may cost.
    pub limits: Limits,
    /// How long a request's body may take; then 408.
    pub body_timeout: Duration,
    /// How often a stream of events says something when nothing happens.
    pub heartbeat: Duration,
    /// Times connections and repeats.
    pub clock: SharedClock,
    /// Where events go.
    pub telemetry: Telemetry,
    /// What other parts answer here.
    pub parts: Vec<Arc<dyn Calls>>,
}

impl ApiOptions {
    /// The contract's values.
    pub fn new(token: Option<Secret>, clock: SharedClock, telemetry: Telemetry) -> Self {
        Self {
            token,
            limits: Limits::default(),
            body_timeout: Duration::from_secs(10),
            heartbeat: Duration::from_secs(15),
            clock,
            telemetry,
            parts: Vec::new(),
        }
    }
}

/// What every call may use.
struct Context {
    roles: Roles,
    options: ApiOptions,
    /// True once the listener shuts down: who waits for a change then gets what there is.
    stopping: watch::Receiver<bool>,
}

impl Context {
    /// Completes when the listener shuts down.
    async fn stopped(&self) {
        // A lost sender means the same.
        let _ = self.stopping.clone().wait_for(|stop| *stop).await;
    }
}

/// Serves the app's listener on a new thread: no client keeps a renewal waiting, however much it asks for.
///
/// # Errors
/// When the thread, its runtime or the listener cannot be set up.
pub fn spawn(listener: std::net::TcpListener, roles: Roles, options: ApiOptions) -> io::Result<ListenerThread> {
    ListenerThread::spawn("api", listener, |listener, stopped| serve(listener, roles, options, stopped))
}

/// Serves the app's listener until `shutdown` completes; then waiting clients are answered, streams end, and after
/// `options.limits.grace` at the most every connection is closed.
pub async fn serve(listener: TcpListener, roles: Roles, options: ApiOptions, shutdown: impl Future<Output = ()>) {
    let (stop, stopping) = watch::channel(false);
    let token = options
        .token
        .clone()
        .map(|secret| Arc::new(TokenCheck::new(secret, Arc::clone(&options.clock), options.telemetry.clone())));
    let (limits, clock) = (options.limits, Arc::clone(&options.clock));
    let context = Arc::new(Context { roles, options, stopping });
    let service = TowerToHyperService::new(warp::service(router::filter(Arc::clone(&context))));
    let make_service = move |ends| Gate::new(service.clone(), Arc::clone(&context), ends, token.clone());
    let shutdown = async move {
        shutdown.await;
        // Everybody who waits holds a receiver; with nobody waiting there is nobody to tell.
        let _ = stop.send(true);
    };
    crate::http::serve(listener, limits, clock, make_service, shutdown).await;
}
