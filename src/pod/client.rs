//! The writers' requests: each in its turn, bounded, counted, and said once when something is wrong with it.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::time::Duration;

use crate::base::{Complaint, Turn};
use crate::kube::{Denial, Failure, KubeClient};
use crate::telemetry::{KubernetesKind, KubernetesOutcome, Telemetry};

/// When a request counts as unanswered. Nobody waits for these but people.
const TIMEOUT: Duration = Duration::from_secs(5);

/// What may be wrong apart from the rest: a kind, what is done (empty: all of it), and the object.
pub(super) type Subject = (KubernetesKind, &'static str, String);

pub(super) struct PodClient {
    api: KubeClient,
    /// The pod's, which everything is written in.
    namespace: String,
    telemetry: Telemetry,
    /// Whose turn it is: labels go one after the other, and so does the rest. So a handover makes no connections in the
    /// moment in which the label is to move, and the API server has two of each replica at the most.
    turns: [tokio::sync::Mutex<()>; 2],
    complaints: Mutex<BTreeMap<Subject, Complaint>>,
}

impl PodClient {
    pub fn new(namespace: String, telemetry: Telemetry) -> Self {
        let api = KubeClient::new(None, Some(namespace.clone()), TIMEOUT);
        Self { api, namespace, telemetry, turns: Default::default(), complaints: Mutex::default() }
    }

    /// What to make requests for [`Self::ask`] with.
    pub const fn api(&self) -> &KubeClient {
        &self.api
    }

    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Where counts and log lines go.
    pub const fn telemetry(&self) -> &Telemetry {
        &self.telemetry
    }

    /// Says once what is wrong, until it is right again.
    pub fn wrong(&self, subject: Subject, reason: String) {
        let kind = subject.0;
        let is_outage = subject.1.is_empty();
        let mut complaints = self.complaints.lock();
        let complaint = complaints.entry(subject).or_default();
        // The words of an outage change while it lasts: no connection, no answer, no leader in etcd.
        let known = is_outage && complaint.reason().is_some();
        let news = !known && matches!(complaint.note(Some(reason.clone())), Some(Turn::Wrong(_)));
        self.telemetry.kubernetes_trouble(kind, &reason, news);
    }

    /// It is right again.
    pub fn right(&self, subject: &Subject) {
        if self.complaints.lock().remove(subject).is_some() {
            self.telemetry.kubernetes_recovered(subject.0);
        }
    }

    /// Waits for its turn, then for a request's answer. Unless it `writes` it is not worth counting when it is done.
    ///
    /// # Errors
    /// [`Failure`]; what somebody has to do something about was said.
    pub async fn ask<T>(
        &self,
        subject: Subject,
        writes: bool,
        request: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        let kind = subject.0;
        // An outage is one trouble, whatever was asked for.
        let outage = (kind, "", String::new());
        let turn = self.turns[usize::from(kind == KubernetesKind::Label)].lock().await;
        let answer = self.api.by(self.api.deadline(), request).await;
        drop(turn);
        let outcome = match &answer {
            Ok(_) => writes.then_some(KubernetesOutcome::Ok),
            Err(Failure::Missing) => None,
            Err(Failure::Conflict) => Some(KubernetesOutcome::Conflict),
            Err(Failure::Unanswered { .. } | Failure::Denied { why: Denial::Unsent, .. }) => {
                Some(KubernetesOutcome::Error)
            }
            Err(Failure::Denied { .. }) => Some(KubernetesOutcome::Denied),
        };
        if let Some(outcome) = outcome {
            self.telemetry.kubernetes_write(kind, outcome);
        }
        match (&answer, outcome) {
            (Err(failure), Some(KubernetesOutcome::Error)) => self.wrong(outage, failure.to_string()),
            (Err(failure), Some(KubernetesOutcome::Denied)) => {
                self.right(&outage);
                self.wrong(subject, failure.to_string());
            }
            _ => {
                self.right(&outage);
                self.right(&subject);
            }
        }
        answer
    }
}
