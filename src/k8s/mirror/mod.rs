//! A Lease object for each role that shows people who leads it. It is a mirror: nothing ever reads it to decide
//! anything, and it has a mark of its own, so that neither Baton's store on Lease objects nor this takes one for the
//! other.
//!
//! Only the leader writes, on the version that was seen, and never over a greater token; who stops leading empties the
//! holder in the same way. An object without the mark is somebody else's, and is left alone.

mod object;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;

use super::board::{Board, Term};
use super::desk::{Ask, Desk, Refusal};
use super::keeper::Keeper;
use crate::base::clock::{SharedClock, wall_time};
use crate::config::{StoreConfig, mirror_name};
use crate::kube_api::Resource;
use crate::protocol::{Mono, RoleName, Token};
use crate::telemetry::KubernetesKind;

use object::{Face, Whose};

/// How often a write is decided anew after conflicts before there is a pause.
const TRIES: u32 = 4;
/// `renewTime` is written once per lease, but no more often than this: each is a write to etcd.
const RENEW_MIN: Duration = Duration::from_secs(10);
/// When somebody else's object, or a later term, is looked at again.
const LOOK_AGAIN: Duration = Duration::from_secs(60);

/// What is known of one role's object.
#[derive(Default)]
struct Known {
    /// As it was last seen or written; none when that may have changed.
    object: Option<Lease>,
    /// The term that may be shown in it as ours, to be taken back one day.
    ours: Option<Token>,
    /// The term for which nothing is to be done before then.
    idle: Option<(Token, Mono)>,
}

/// See the module.
pub(super) struct Mirror {
    desk: Arc<Desk>,
    clock: SharedClock,
    store: StoreConfig,
    identity: Arc<str>,
    known: BTreeMap<RoleName, Known>,
}

impl Mirror {
    pub fn new(desk: Arc<Desk>, clock: SharedClock, store: StoreConfig, identity: Arc<str>) -> Self {
        Self { desk, clock, store, identity, known: BTreeMap::new() }
    }

    /// Shows a term of ours. Returns when to come again.
    async fn show(&mut self, role: &RoleName, term: Term, lease: Duration) -> Result<Duration, Refusal> {
        let period = lease.max(RENEW_MIN);
        let now = self.clock.now();
        let known = self.known.entry(role.clone()).or_default();
        if let Some((_, until)) = known.idle.filter(|(token, until)| *token == term.token && *until > now) {
            return Ok(until.since(now));
        }
        let name = mirror_name(&self.store, role);
        let face = Face { holder: &self.identity, term, renewed: wall_time(), period };
        for _ in 0..TRIES {
            let seen = match known.object.take() {
                Some(seen) => Some(seen),
                None => get(&self.desk, &name).await?,
            };
            let pause = match seen.as_ref().map(object::whose) {
                Some(Whose::Foreign(why)) => {
                    let reason = format!("the Lease {name} {why}: it is left alone");
                    self.desk.trouble((KubernetesKind::Lease, "whose", name.clone()), reason);
                    LOOK_AGAIN
                }
                Some(Whose::Ours(token)) if token > term.token => LOOK_AGAIN,
                Some(Whose::Ours(_)) | None => {
                    known.ours = Some(term.token);
                    let written = put(&self.desk, &name, seen.is_none(), &object::show(seen, &name, &face)).await;
                    match written {
                        Ok(object) => known.object = Some(object),
                        Err(Refusal::Conflict | Refusal::Missing) => continue,
                        Err(refusal) => return Err(refusal),
                    }
                    self.desk.recovered(&(KubernetesKind::Lease, "whose", name.clone()));
                    period
                }
            };
            known.idle = Some((term.token, self.clock.now() + pause));
            return Ok(pause);
        }
        Err(Refusal::Conflict)
    }

    /// Takes back a term that is over, if the object still shows it.
    async fn hide(&mut self, role: &RoleName) -> Result<(), Refusal> {
        let Some(known) = self.known.get_mut(role) else { return Ok(()) };
        known.idle = None;
        let Some(ours) = known.ours else { return Ok(()) };
        let name = mirror_name(&self.store, role);
        for _ in 0..TRIES {
            let seen = match known.object.take() {
                Some(seen) => Some(seen),
                None => get(&self.desk, &name).await?,
            };
            match seen {
                Some(seen) if object::whose(&seen) == Whose::Ours(ours) => {
                    match put(&self.desk, &name, false, &object::hide(seen, wall_time())).await {
                        Ok(object) => known.object = Some(object),
                        Err(Refusal::Conflict | Refusal::Missing) => continue,
                        Err(refusal) => return Err(refusal),
                    }
                }
                // A later term's, somebody else's, or none.
                other => known.object = other,
            }
            known.ours = None;
            return Ok(());
        }
        Err(Refusal::Conflict)
    }
}

async fn get(desk: &Desk, name: &str) -> Result<Option<Lease>, Refusal> {
    match ask(desk, name, "get", "GET", None).await {
        Ok(lease) => Ok(Some(lease)),
        Err(Refusal::Missing) => Ok(None),
        Err(refusal) => Err(refusal),
    }
}

async fn put(desk: &Desk, name: &str, new: bool, lease: &Lease) -> Result<Lease, Refusal> {
    let (verb, method) = if new { ("create", "POST") } else { ("update", "PUT") };
    ask(desk, name, verb, method, Some(lease)).await
}

async fn ask(
    desk: &Desk,
    name: &str,
    verb: &'static str,
    method: &'static str,
    lease: Option<&Lease>,
) -> Result<Lease, Refusal> {
    let unreadable = |error: serde_json::Error| {
        let reason = format!("the API server answers what is no Lease: {error}");
        desk.trouble((KubernetesKind::Lease, "read", name.to_owned()), reason);
        Refusal::Open { rest: None }
    };
    let body = lease.map(serde_json::to_vec).transpose().map_err(unreadable)?;
    let answer = desk.ask(Ask {
        kind: KubernetesKind::Lease,
        verb,
        resource: Resource::LEASES,
        name,
        method,
        below: if verb == "create" { String::new() } else { format!("/{name}") },
        body: body.map(|body| ("application/json", body)),
        only_looks: verb == "get",
    });
    serde_json::from_slice(&answer.await?).map_err(unreadable)
}

impl Keeper for Mirror {
    async fn keep(&mut self, board: &Board) -> Result<Option<Duration>, Refusal> {
        let (mut next, mut failed) = (None::<Duration>, None);
        let roles: BTreeSet<RoleName> = board.posts.keys().chain(self.known.keys()).cloned().collect();
        // What is over first: nothing shall say longer than it is so who leads.
        for role in &roles {
            if board.posts.get(role).is_none_or(|post| post.term.is_none()) {
                match self.hide(role).await {
                    Ok(()) => {}
                    // One object that cannot be written shall not keep the others from being.
                    Err(refusal @ (Refusal::Conflict | Refusal::Invalid)) => failed = Some(refusal),
                    Err(refusal) => return Err(refusal),
                }
            }
        }
        for (role, post) in &board.posts {
            let Some(term) = post.term else { continue };
            match self.show(role, term, post.lease).await {
                Ok(after) => next = Some(next.map_or(after, |next| next.min(after))),
                Err(refusal @ (Refusal::Conflict | Refusal::Invalid)) => failed = Some(refusal),
                Err(refusal) => return Err(refusal),
            }
        }
        self.known.retain(|role, known| board.posts.contains_key(role) || known.ours.is_some());
        failed.map_or(Ok(next), Err)
    }
}
