//! The labels of earlier leaders. A leader that is killed cannot take its own label back, and its sidecar may never
//! come back while its pod stays: so who leads after it does, as far as it knows the pods of those before it.
//!
//! A label goes only while the token beside it is of an earlier term: a newer one is somebody else's.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::objects::{self, Labelled};
use crate::base::clock::SharedClock;
use crate::config::{is_object_name, role_label};
use crate::kube::Failure;
use crate::pod::client::PodClient;
use crate::pod::shown::Shown;
use crate::pod::writer::Writer;
use crate::protocol::{Mono, RoleName, Token};

/// Each pod is looked at twice in a term, the second time after this: a request that was on its way at the first look
/// is done by then.
const AGAIN_AFTER: Duration = Duration::from_secs(10);

/// How far a pod is done for one role.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Done {
    /// Under which token of ours.
    token: Token,
    /// As of which time it was seen to lead.
    number: u64,
    /// When it is to be looked at again; none when it is done.
    again_at: Option<Mono>,
}

pub(in crate::pod) struct OtherLabels {
    client: Arc<PodClient>,
    clock: SharedClock,
    own: String,
    done: BTreeMap<(RoleName, Arc<str>), Done>,
}

impl OtherLabels {
    pub fn new(client: Arc<PodClient>, clock: SharedClock, own: String) -> Self {
        Self { client, clock, own, done: BTreeMap::new() }
    }

    /// The pods to look at now, and when there will be others.
    fn due(&self, shown: &Shown) -> (BTreeSet<Arc<str>>, Option<Mono>) {
        let (mut due, mut next) = (BTreeSet::new(), None::<Mono>);
        let now = self.clock.now();
        for (role, term) in shown.led() {
            let Some(seen) = shown.roles.get(role) else { continue };
            for (name, number) in &seen.earlier {
                if **name == *self.own || !is_object_name(name) {
                    continue;
                }
                let done = self.done.get(&(role.clone(), Arc::clone(name)));
                match done.filter(|done| done.token == term.token && done.number == *number) {
                    Some(Done { again_at: None, .. }) => {}
                    Some(Done { again_at: Some(at), .. }) if *at > now => {
                        next = Some(next.map_or(*at, |next| next.min(*at)));
                    }
                    _ => drop(due.insert(Arc::clone(name))),
                }
            }
        }
        (due, next)
    }

    async fn clear(&self, name: &str, shown: &Shown) -> Result<(), Failure> {
        let seen = match objects::look(&self.client, name).await {
            Ok(seen) => seen,
            Err(Failure::Missing) => return Ok(()),
            Err(failure) => return Err(failure),
        };
        let terms = shown.led().map(|(role, term)| (role_label(role), term.token)).collect();
        let stale = stale(&seen, &terms);
        if stale.is_empty() {
            return Ok(());
        }
        match objects::remove(&self.client, name, &stale).await {
            Ok(_) => {
                tracing::info!(pod = name, roles = stale.len(), "the label of an earlier leader is removed");
                Ok(())
            }
            Err(Failure::Missing) => Ok(()),
            Err(failure) => Err(failure),
        }
    }

    /// Notes that a pod was looked at for every role that we lead.
    fn note(&mut self, name: &Arc<str>, shown: &Shown) {
        let again_at = self.clock.now() + AGAIN_AFTER;
        for (role, term) in shown.led() {
            let Some(number) = shown.roles.get(role).and_then(|seen| seen.earlier.get(name)) else { continue };
            let (number, key) = (*number, (role.clone(), Arc::clone(name)));
            let before = self.done.get(&key).filter(|done| done.token == term.token && done.number == number);
            let again_at = if before.is_some() { None } else { Some(again_at) };
            self.done.insert(key, Done { token: term.token, number, again_at });
        }
    }
}

/// The labels of a pod that belong to earlier terms than ours, each with the token beside it.
fn stale<'a>(seen: &'a Labelled, terms: &BTreeMap<String, Token>) -> BTreeMap<&'a str, &'a str> {
    let labels = seen.labels.keys().filter_map(|key| {
        let token = seen.annotations.get(key)?;
        let earlier = token.parse::<u64>().ok()? < terms.get(key)?.get();
        earlier.then_some((key.as_str(), token.as_str()))
    });
    labels.collect()
}

impl Writer for OtherLabels {
    async fn write(&mut self, shown: &Shown) -> Result<Option<Duration>, Failure> {
        // What is known of roles that are not led any more, or are gone, is of no use.
        self.done.retain(|(role, name), _| {
            shown.roles.get(role).is_some_and(|seen| seen.term.is_some() && seen.earlier.contains_key(name))
        });
        let (due, next) = self.due(shown);
        let mut changed = false;
        for name in &due {
            match self.clear(name, shown).await {
                Ok(()) => self.note(name, shown),
                Err(Failure::Conflict) => changed = true,
                Err(failure) => return Err(failure),
            }
        }
        let (_, later) = self.due(shown);
        let next = next.into_iter().chain(later).min().map(|at| at.since(self.clock.now()));
        // It is looked at anew, after a pause that grows if this goes on.
        if changed { Err(Failure::Conflict) } else { Ok(next) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_labels_of_earlier_terms_are_taken_from_others() {
        let key = |role: &str| format!("baton.dev/role-{role}");
        let map = |entries: &[(&str, &str)]| {
            entries.iter().map(|(role, value)| (key(role), (*value).to_owned())).collect::<BTreeMap<_, _>>()
        };
        let labels = map(&[
            ("old", "leader"),
            ("new", "leader"),
            ("same", "leader"),
            ("not-ours", "leader"),
            ("bare", "leader"),
            ("odd", "leader"),
        ]);
        let annotations =
            map(&[("old", "5"), ("new", "12"), ("same", "10"), ("not-ours", "5"), ("odd", "five"), ("gone", "5")]);
        let seen = Labelled { labels, annotations, ..Labelled::default() };
        let ten = Token::new(10).unwrap();
        let terms = ["old", "new", "same", "bare", "odd", "gone"].map(|role| (key(role), ten)).into();
        assert_eq!(stale(&seen, &terms), BTreeMap::from([("baton.dev/role-old", "5")]));
    }
}
