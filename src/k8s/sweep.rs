//! The labels of earlier leaders. A leader that is killed cannot take its own label back, and its sidecar may never
//! come back while its pod stays: so who leads after it does, as far as it knows the pods of those before it.
//!
//! A label goes only while the token beside it is of an earlier term: a newer one is somebody else's.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::board::Board;
use super::desk::{Desk, Refusal};
use super::keeper::Keeper;
use super::pods::{self, Sight};
use crate::base::clock::SharedClock;
use crate::config::{is_object_name, role_label};
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

/// See the module.
pub(super) struct Sweep {
    desk: Arc<Desk>,
    clock: SharedClock,
    own: String,
    done: BTreeMap<(RoleName, Arc<str>), Done>,
}

impl Sweep {
    pub fn new(desk: Arc<Desk>, clock: SharedClock, own: String) -> Self {
        Self { desk, clock, own, done: BTreeMap::new() }
    }

    /// The pods to look at now, and when there will be others.
    fn due(&self, board: &Board) -> (BTreeSet<Arc<str>>, Option<Mono>) {
        let (mut due, mut next) = (BTreeSet::new(), None::<Mono>);
        let now = self.clock.now();
        for (role, term) in board.led() {
            let Some(post) = board.posts.get(role) else { continue };
            for (name, number) in &post.earlier {
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

    async fn clear(&self, name: &str, board: &Board) -> Result<(), Refusal> {
        let seen = match pods::look(&self.desk, name).await {
            Ok(seen) => seen,
            Err(Refusal::Missing) => return Ok(()),
            Err(refusal) => return Err(refusal),
        };
        let terms = board.led().map(|(role, term)| (role_label(role), term.token)).collect();
        let stale = stale(&seen, &terms);
        if stale.is_empty() {
            return Ok(());
        }
        match pods::remove(&self.desk, name, &stale).await {
            Ok(_) => {
                tracing::info!(pod = name, roles = stale.len(), "the label of an earlier leader is removed");
                Ok(())
            }
            Err(Refusal::Missing) => Ok(()),
            Err(refusal) => Err(refusal),
        }
    }

    /// Notes that a pod was looked at for every role that we lead.
    fn note(&mut self, name: &Arc<str>, board: &Board) {
        let again_at = self.clock.now() + AGAIN_AFTER;
        for (role, term) in board.led() {
            let Some(number) = board.posts.get(role).and_then(|post| post.earlier.get(name)) else { continue };
            let (number, key) = (*number, (role.clone(), Arc::clone(name)));
            let before = self.done.get(&key).filter(|done| done.token == term.token && done.number == number);
            let again_at = if before.is_some() { None } else { Some(again_at) };
            self.done.insert(key, Done { token: term.token, number, again_at });
        }
    }
}

/// The labels of a pod that belong to earlier terms than ours, each with the token beside it.
fn stale<'a>(seen: &'a Sight, terms: &BTreeMap<String, Token>) -> BTreeMap<&'a str, &'a str> {
    let labels = seen.labels.keys().filter_map(|key| {
        let token = seen.annotations.get(key)?;
        let earlier = token.parse::<u64>().ok()? < terms.get(key)?.get();
        earlier.then_some((key.as_str(), token.as_str()))
    });
    labels.collect()
}

impl Keeper for Sweep {
    async fn keep(&mut self, board: &Board) -> Result<Option<Duration>, Refusal> {
        // What is known of roles that are not led any more, or are gone, is of no use.
        self.done.retain(|(role, name), _| {
            board.posts.get(role).is_some_and(|post| post.term.is_some() && post.earlier.contains_key(name))
        });
        let (due, next) = self.due(board);
        let mut changed = false;
        for name in &due {
            match self.clear(name, board).await {
                Ok(()) => self.note(name, board),
                Err(Refusal::Conflict) => changed = true,
                Err(refusal) => return Err(refusal),
            }
        }
        let (_, later) = self.due(board);
        let next = next.into_iter().chain(later).min().map(|at| at.since(self.clock.now()));
        // It is looked at anew, after a pause that grows if this goes on.
        if changed { Err(Refusal::Conflict) } else { Ok(next) }
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
        let seen = Sight { labels, annotations, ..Sight::default() };
        let ten = Token::new(10).unwrap();
        let terms = ["old", "new", "same", "bare", "odd", "gone"].map(|role| (key(role), ten)).into();
        assert_eq!(stale(&seen, &terms), BTreeMap::from([("baton.dev/role-old", "5")]));
    }
}
