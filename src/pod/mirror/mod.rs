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

use super::client::{PodClient, Subject};
use super::shown::{Shown, Term};
use super::writer::Writer;
use crate::base::clock::{SharedClock, wall_time};
use crate::config::{StoreConfig, mirror_name};
use crate::kube::{Denial, Failure, Object, Resource, Verb};
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

pub(super) struct Mirror {
    client: Arc<PodClient>,
    clock: SharedClock,
    store: StoreConfig,
    identity: Arc<str>,
    known: BTreeMap<RoleName, Known>,
}

impl Mirror {
    pub fn new(client: Arc<PodClient>, clock: SharedClock, store: StoreConfig, identity: Arc<str>) -> Self {
        Self { client, clock, store, identity, known: BTreeMap::new() }
    }

    /// Shows a term of ours. Returns when to come again.
    async fn show(&mut self, role: &RoleName, term: Term, lease: Duration) -> Result<Duration, Failure> {
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
                None => get(&self.client, &name).await?,
            };
            let pause = match seen.as_ref().map(object::whose) {
                Some(Whose::Foreign(why)) => {
                    let reason = format!("the Lease {name} {why}: it is left alone");
                    self.client.wrong((KubernetesKind::Lease, "whose", name.clone()), reason);
                    LOOK_AGAIN
                }
                Some(Whose::Ours(token)) if token > term.token => LOOK_AGAIN,
                Some(Whose::Ours(_)) | None => {
                    known.ours = Some(term.token);
                    let written = put(&self.client, &name, seen.is_none(), &object::show(seen, &name, &face)).await;
                    match written {
                        Ok(object) => known.object = Some(object),
                        Err(Failure::Conflict | Failure::Missing) => continue,
                        Err(failure) => return Err(failure),
                    }
                    self.client.right(&(KubernetesKind::Lease, "whose", name.clone()));
                    period
                }
            };
            known.idle = Some((term.token, self.clock.now() + pause));
            return Ok(pause);
        }
        Err(Failure::Conflict)
    }

    /// Takes back a term that is over, if the object still shows it.
    async fn hide(&mut self, role: &RoleName) -> Result<(), Failure> {
        let Some(known) = self.known.get_mut(role) else { return Ok(()) };
        known.idle = None;
        let Some(ours) = known.ours else { return Ok(()) };
        let name = mirror_name(&self.store, role);
        for _ in 0..TRIES {
            let seen = match known.object.take() {
                Some(seen) => Some(seen),
                None => get(&self.client, &name).await?,
            };
            match seen {
                Some(seen) if object::whose(&seen) == Whose::Ours(ours) => {
                    match put(&self.client, &name, false, &object::hide(seen, wall_time())).await {
                        Ok(object) => known.object = Some(object),
                        Err(Failure::Conflict | Failure::Missing) => continue,
                        Err(failure) => return Err(failure),
                    }
                }
                // A later term's, somebody else's, or none.
                other => known.object = other,
            }
            known.ours = None;
            return Ok(());
        }
        Err(Failure::Conflict)
    }
}

async fn get(client: &PodClient, name: &str) -> Result<Option<Lease>, Failure> {
    let object = Object { resource: Resource::LEASES, name };
    client.ask(subject(Verb::Get, name), false, client.api().get(object)).await
}

async fn put(client: &PodClient, name: &str, new: bool, lease: &Lease) -> Result<Lease, Failure> {
    let object = Object { resource: Resource::LEASES, name };
    if new {
        client.ask(subject(Verb::Create, name), true, client.api().create(object, lease)).await
    } else {
        client.ask(subject(Verb::Update, name), true, client.api().replace(object, lease)).await
    }
}

fn subject(verb: Verb, name: &str) -> Subject {
    (KubernetesKind::Lease, verb.as_str(), name.to_owned())
}

/// Whether it is this object that cannot be written: that shall not keep the others from being.
const fn is_of_this_object(failure: &Failure) -> bool {
    matches!(failure, Failure::Conflict | Failure::Denied { why: Denial::Invalid, .. })
}

impl Writer for Mirror {
    async fn write(&mut self, shown: &Shown) -> Result<Option<Duration>, Failure> {
        let (mut next, mut failed) = (None::<Duration>, None);
        let roles: BTreeSet<RoleName> = shown.roles.keys().chain(self.known.keys()).cloned().collect();
        // What is over first: nothing shall say longer than it is so who leads.
        for role in &roles {
            if shown.roles.get(role).is_none_or(|shown| shown.term.is_none()) {
                match self.hide(role).await {
                    Ok(()) => {}
                    Err(failure) if is_of_this_object(&failure) => failed = Some(failure),
                    Err(failure) => return Err(failure),
                }
            }
        }
        for (role, led) in &shown.roles {
            let Some(term) = led.term else { continue };
            match self.show(role, term, led.lease).await {
                Ok(after) => next = Some(next.map_or(after, |next| next.min(after))),
                Err(failure) if is_of_this_object(&failure) => failed = Some(failure),
                Err(failure) => return Err(failure),
            }
        }
        self.known.retain(|role, known| shown.roles.contains_key(role) || known.ours.is_some());
        failed.map_or(Ok(next), Err)
    }
}
