//! What a role tells those who only look: who leads, how much of that is left, and what happened last. Nothing in it is
//! a promise, so that looking never makes a handover wait (R7).

use std::borrow::Cow;
use std::sync::Arc;

use futures_util::future::select_all;
use jiff::Timestamp;
use serde::{Serialize, Serializer};
use tokio::sync::watch;

use crate::protocol::{Mono, RoleName, State, Token, View};

/// How many changes of a role are remembered.
pub const CHANGES_MAX: usize = 12;

/// One change of a role, as this replica saw it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StateChange {
    /// When, by this machine's clock.
    pub at: Timestamp,
    /// The state from then on.
    #[serde(serialize_with = "word")]
    pub state: State,
    /// Who led from then on, as far as was known.
    #[serde(serialize_with = "text_if_any")]
    pub holder: Option<Arc<str>>,
    /// The term's fencing token, when it was this replica's.
    #[serde(serialize_with = "number")]
    pub token: Option<Token>,
    /// Why this replica did not lead.
    pub reason: Option<Cow<'static, str>>,
}

/// A role for those who look, as `GET /status` tells it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Status {
    /// The role.
    #[serde(serialize_with = "name")]
    pub role: RoleName,
    /// This replica.
    #[serde(serialize_with = "text")]
    pub identity: Arc<str>,
    #[serde(serialize_with = "word")]
    pub state: State,
    /// Whether this replica leads at this moment. No promise: an app asks `/leader`.
    pub leads: bool,
    /// Who leads, as far as is known now.
    #[serde(serialize_with = "text_if_any")]
    pub holder: Option<Arc<str>>,
    /// The fencing token, while this replica leads.
    #[serde(serialize_with = "number")]
    pub token: Option<Token>,
    /// Milliseconds: while this replica leads, until it would have to stop if no renewal succeeded any more; while it
    /// drains, until its last promise runs out; while another leads, for how long what is known of that is good.
    pub time_left_ms: Option<u64>,
    /// The moment of its end.
    #[serde(skip)]
    pub until: Option<Mono>,
    /// Since when the state is what it is.
    pub since: Timestamp,
    /// As in the answer to `/leader`.
    pub index: u64,
    /// Why this replica does not lead.
    pub reason: Option<String>,
    /// The last changes, newest first; [`CHANGES_MAX`] at the most.
    #[serde(serialize_with = "all")]
    pub changes: Arc<[StateChange]>,
}

/// What the task published last.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The election's view.
    pub view: View,
    /// Since when the state is what it is.
    pub since: Timestamp,
    /// Grows with every change.
    pub index: u64,
    /// The last changes, newest first. A new reason for the same state is none.
    pub changes: Arc<[StateChange]>,
}

impl Snapshot {
    /// What a role says first.
    pub fn first(view: View, at: Timestamp) -> Self {
        let changes = Arc::from([change(&view, None, at)]);
        Self { view, since: at, index: 1, changes }
    }

    /// What it says after this. `token`: of the term that this replica leads in. The index grows when there is news:
    /// more than a later time of the same thing.
    #[must_use]
    pub fn next(&self, view: View, token: Option<Token>, at: Timestamp) -> Self {
        let turned = self.view.state != view.state || holder(&self.view) != holder(&view);
        let news = turned || self.view.reason != view.reason;
        let changes = if turned {
            std::iter::once(change(&view, token, at)).chain(self.changes.iter().cloned()).take(CHANGES_MAX).collect()
        } else {
            Arc::clone(&self.changes)
        };
        let since = if self.view.state == view.state { self.since } else { at };
        Self { view, since, index: self.index + u64::from(news), changes }
    }
}

fn holder(view: &View) -> Option<&Arc<str>> {
    view.holder.as_ref().map(|(name, _)| name)
}

fn change(view: &View, token: Option<Token>, at: Timestamp) -> StateChange {
    let token = token.filter(|_| view.state == State::Leading);
    StateChange { at, state: view.state, holder: holder(view).cloned(), token, reason: view.reason.clone() }
}

/// Waits for the first change of any of these roles. A role whose task has ended is left out from then on.
pub async fn any_changed(changes: &mut Vec<watch::Receiver<Arc<Snapshot>>>) {
    if changes.is_empty() {
        return std::future::pending().await;
    }
    let (outcome, at, _) = select_all(changes.iter_mut().map(|change| Box::pin(change.changed()))).await;
    if outcome.is_err() {
        changes.swap_remove(at);
    }
}

// How what is below is written: that floor knows nothing of serde, and shall not. Texts are written as they are, not by
// way of `Display`.

pub(super) fn name<S: Serializer>(value: &RoleName, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(value.as_str())
}

pub(super) fn word<S: Serializer>(value: &State, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(value.as_str())
}

pub(super) fn text<S: Serializer>(value: &str, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(value)
}

pub(super) fn text_if_any<S: Serializer>(value: &Option<Arc<str>>, serializer: S) -> Result<S::Ok, S::Error> {
    value.as_deref().serialize(serializer)
}

pub(super) fn number<S: Serializer>(value: &Option<Token>, serializer: S) -> Result<S::Ok, S::Error> {
    value.map(Token::get).serialize(serializer)
}

pub(super) fn all<T: Serialize, S: Serializer>(values: &[T], serializer: S) -> Result<S::Ok, S::Error> {
    values.serialize(serializer)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(state: State, holder: Option<(&str, u64)>, reason: Option<&str>) -> View {
        let holder = holder.map(|(name, until)| (name.into(), Mono::from_nanos(until)));
        View { state, holder, reason: reason.map(|reason| reason.to_owned().into()), stays_out: false }
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn a_later_time_of_the_same_is_no_news_and_a_new_reason_is_news_but_no_change() {
        let first = Snapshot::first(view(State::Standby, Some(("web-2", 5)), Some("web-2 leads")), at(1));
        let later = first.next(view(State::Standby, Some(("web-2", 9)), Some("web-2 leads")), None, at(2));
        assert_eq!((later.index, later.since, later.changes.len()), (1, at(1), 1));
        let reason = later.next(view(State::Standby, Some(("web-2", 9)), Some("stays out")), None, at(3));
        assert_eq!((reason.index, reason.since, reason.changes.len()), (2, at(1), 1));
        let other = reason.next(view(State::Standby, Some(("web-1", 9)), None), None, at(4));
        assert_eq!((other.index, other.since, other.changes.len()), (3, at(1), 2));
        let token = Token::new(7);
        let leads = other.next(view(State::Leading, Some(("web-0", 9)), None), token, at(5));
        assert_eq!((leads.index, leads.since, leads.changes[0].token, leads.changes[0].at), (4, at(5), token, at(5)));
    }

    #[test]
    fn only_the_last_changes_are_remembered_newest_first() {
        let mut snapshot = Snapshot::first(view(State::Campaigning, None, None), at(0));
        for second in 1..100 {
            let state = if second % 2 == 0 { State::Campaigning } else { State::Unreachable };
            snapshot = snapshot.next(view(state, None, None), None, at(second));
        }
        let seconds: Vec<i64> = snapshot.changes.iter().map(|change| change.at.as_second()).collect();
        assert_eq!(seconds, (88..100).rev().collect::<Vec<_>>());
    }
}
