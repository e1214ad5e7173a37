//! The labels of this pod: `baton.dev/role-<name>: leader` for each role that this replica leads, no others.
//!
//! Every change is on a version of the pod that was seen, and always changes something: when a label that may have been
//! set is taken back, the token beside it is written, whatever was seen. So a request that was given up and is done
//! late finds another version, and does nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::objects::{self, LEADER, Labelled};
use crate::base::clock::SharedClock;
use crate::config::{PodConfig, role_label};
use crate::kube::Failure;
use crate::pod::client::PodClient;
use crate::pod::shown::Shown;
use crate::pod::writer::Writer;
use crate::protocol::{Mono, Token};
use crate::telemetry::KubernetesKind;

/// How often a change is made anew after conflicts before there is a pause.
const TRIES: u32 = 4;
/// The pod is looked at again although nothing changed here: soon after a start or a doubt, then more seldom.
const LOOK_MIN: Duration = Duration::from_secs(10);
const LOOK_MAX: Duration = Duration::from_secs(300);

pub(in crate::pod) struct OwnLabels {
    client: Arc<PodClient>,
    clock: SharedClock,
    pod: PodConfig,
    /// The pod as it was last seen; none when that may have changed.
    seen: Option<Labelled>,
    /// The tokens of the terms that this process has tried to show.
    shown: BTreeMap<String, Token>,
    look_at: Mono,
    look_after: Duration,
}

impl OwnLabels {
    pub fn new(client: Arc<PodClient>, clock: SharedClock, pod: PodConfig) -> Self {
        let look_at = clock.now();
        Self { client, clock, pod, seen: None, shown: BTreeMap::new(), look_at, look_after: LOOK_MIN }
    }

    async fn set(&mut self, wanted: &BTreeMap<String, Token>) -> Result<(), Failure> {
        let seen = match self.seen.take() {
            Some(seen) => seen,
            None => {
                self.look_at = self.clock.now() + self.look_after;
                self.look_after = (self.look_after * 2).min(LOOK_MAX);
                objects::look(&self.client, &self.pod.name).await?
            }
        };
        if seen.uid != self.pod.uid {
            let reason = format!("the pod {} is another one now: its uid is not POD_UID", self.pod.name);
            self.client.wrong((KubernetesKind::Label, "uid", String::new()), reason);
            return Ok(());
        }
        let (labels, annotations) = difference(&seen, wanted, &self.shown);
        if labels.is_empty() && annotations.is_empty() {
            self.seen = Some(seen);
            return Ok(());
        }
        let changed = objects::change(&self.client, &self.pod.name, &seen, &labels, &annotations).await;
        self.shown.extend(wanted.iter().map(|(key, token)| (key.clone(), *token)));
        self.seen = Some(changed?);
        Ok(())
    }
}

type Changes<'a, T> = BTreeMap<&'a str, Option<T>>;

/// What has to be changed on a pod.
fn difference<'a>(
    seen: &'a Labelled,
    wanted: &'a BTreeMap<String, Token>,
    shown: &'a BTreeMap<String, Token>,
) -> (Changes<'a, &'static str>, Changes<'a, String>) {
    let (mut labels, mut annotations) = (BTreeMap::new(), BTreeMap::new());
    let known = seen.labels.keys().chain(seen.annotations.keys()).chain(wanted.keys()).chain(shown.keys());
    for key in known.map(String::as_str).collect::<BTreeSet<&str>>() {
        let label = wanted.get(key).map(|_| LEADER);
        if seen.labels.get(key).map(String::as_str) != label {
            labels.insert(key, label);
        }
        let token = wanted.get(key).or_else(|| shown.get(key)).map(Token::to_string);
        if seen.annotations.get(key) != token.as_ref() {
            annotations.insert(key, token);
        }
    }
    (labels, annotations)
}

impl Writer for OwnLabels {
    async fn write(&mut self, shown: &Shown) -> Result<Option<Duration>, Failure> {
        let wanted: BTreeMap<String, Token> = shown.led().map(|(role, term)| (role_label(role), term.token)).collect();
        if self.clock.now() >= self.look_at {
            // Somebody else may have changed the pod meanwhile.
            self.seen = None;
        }
        for _ in 0..TRIES {
            match self.set(&wanted).await {
                Ok(()) => return Ok(Some(self.look_at.since(self.clock.now()))),
                Err(Failure::Conflict) => {}
                // It is gone, and its labels with it.
                Err(Failure::Missing) => return Ok(Some(LOOK_MAX)),
                Err(failure) => {
                    self.look_after = LOOK_MIN;
                    return Err(failure);
                }
            }
        }
        Err(Failure::Conflict)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "baton.dev/role-a";

    fn tokens(token: Option<u64>) -> BTreeMap<String, Token> {
        token.map(|token| (KEY.to_owned(), Token::new(token).unwrap())).into_iter().collect()
    }

    fn sight(label: Option<&str>, token: Option<&str>) -> Labelled {
        let map = |value: Option<&str>| value.map(|value| (KEY.to_owned(), value.to_owned())).into_iter().collect();
        Labelled { labels: map(label), annotations: map(token), ..Labelled::default() }
    }

    /// Label and annotation as they are written; none is not at all, and none inside takes away.
    type Written = (Option<Option<&'static str>>, Option<Option<String>>);

    fn written(seen: &Labelled, wanted: Option<u64>, shown: Option<u64>) -> Written {
        let (wanted, shown) = (tokens(wanted), tokens(shown));
        let (labels, annotations) = difference(seen, &wanted, &shown);
        (labels.get(KEY).copied(), annotations.get(KEY).cloned())
    }

    #[test]
    fn a_pod_is_changed_only_where_it_is_not_as_it_should_be() {
        let nothing = (None, None);
        assert_eq!(written(&sight(None, None), None, None), nothing);
        assert_eq!(written(&sight(None, None), Some(7), None), (Some(Some(LEADER)), Some(Some("7".to_owned()))));
        assert_eq!(written(&sight(Some("leader"), Some("7")), Some(7), Some(7)), nothing);
        assert_eq!(written(&sight(Some("leader"), Some("7")), Some(9), Some(7)), (None, Some(Some("9".to_owned()))));
        assert_eq!(written(&sight(Some("leader"), Some("7")), None, Some(7)), (Some(None), None));
        assert_eq!(written(&sight(Some("someone"), Some("7")), Some(7), Some(7)), (Some(Some(LEADER)), None));
    }

    #[test]
    fn what_an_earlier_process_left_behind_is_taken_away() {
        assert_eq!(written(&sight(Some("leader"), Some("5")), None, None), (Some(None), Some(None)));
        assert_eq!(written(&sight(None, Some("5")), None, None), (None, Some(None)));
    }

    #[test]
    fn a_label_that_may_be_set_late_is_taken_back_by_a_write_that_changes_the_pod() {
        // The request to set it under 7 was given up; nothing of it is seen yet.
        assert_eq!(written(&sight(None, None), None, Some(7)), (None, Some(Some("7".to_owned()))));
    }
}
