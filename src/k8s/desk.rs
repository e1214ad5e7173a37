//! Requests of the writers: each bounded, counted, and said what is wrong with once.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use hyper::Request;
use hyper::header::{ACCEPT, CONTENT_TYPE};

use crate::kube_api::{Connector, Resource, Trouble, missing_rule, said};
use crate::telemetry::{KubernetesKind, KubernetesOutcome, Telemetry};

/// When a request counts as unanswered. Nobody waits for these but people.
const TIMEOUT: Duration = Duration::from_secs(5);
/// However long an overloaded server asks to wait, it is asked again after this.
const REST_MAX: Duration = Duration::from_secs(30);

/// A JSON patch, which may have tests in it.
pub(super) const STEPS: &str = "application/json-patch+json";

/// What is asked.
pub(super) struct Ask<'a> {
    pub kind: KubernetesKind,
    /// The word in RBAC rules.
    pub verb: &'static str,
    pub resource: Resource,
    /// The object's name, where rules name it; else empty.
    pub name: &'a str,
    /// HTTP's method, and the path below the resource.
    pub method: &'static str,
    pub below: String,
    /// The body and what it is.
    pub body: Option<(&'static str, Vec<u8>)>,
    /// Not worth counting when it is done: it changes nothing.
    pub only_looks: bool,
}

/// Why something was not done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// There is no such object.
    Missing,
    /// Somebody else changed or made it first.
    Conflict,
    /// It will not be taken as it is.
    Invalid,
    /// Not now: no rights, too busy.
    Denied { rest: Option<Duration> },
    /// No usable answer: it may be done yet.
    Open { rest: Option<Duration> },
}

impl Refusal {
    /// For how long the server asked not to be asked.
    pub fn rest(self) -> Option<Duration> {
        match self {
            Self::Denied { rest } | Self::Open { rest } => rest.map(|rest| rest.min(REST_MAX)),
            Self::Missing | Self::Conflict | Self::Invalid => None,
        }
    }
}

/// What may be wrong apart from the rest: a kind, a verb or another word, and an object.
pub(super) type Subject = (KubernetesKind, &'static str, String);

/// See the module.
pub(super) struct Desk {
    connector: Connector,
    /// The pod's.
    namespace: String,
    telemetry: Telemetry,
    /// Whose turn it is: labels go one after the other, and so does the rest. So a handover makes no connections in the
    /// moment in which the label is to move, and the API server has two of each replica at the most.
    turns: [tokio::sync::Mutex<()>; 2],
    /// What was said to be wrong, by kind, verb and object.
    troubles: Mutex<BTreeMap<Subject, String>>,
}

impl Desk {
    pub fn new(connector: Connector, namespace: String, telemetry: Telemetry) -> Self {
        Self { connector, namespace, telemetry, turns: Default::default(), troubles: Mutex::default() }
    }

    /// The namespace that everything is written in.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Where counts and log lines go.
    pub fn telemetry(&self) -> &Telemetry {
        &self.telemetry
    }

    /// Says once what is wrong, until it is right again.
    pub fn trouble(&self, subject: Subject, reason: String) {
        let mut troubles = self.troubles.lock();
        let known = troubles.get(&subject);
        // The words of an outage change while it lasts: no connection, no answer, no leader in etcd.
        let news = if subject.1.is_empty() { known.is_none() } else { known != Some(&reason) };
        self.telemetry.kubernetes_trouble(subject.0, &reason, news);
        troubles.insert(subject, reason);
    }

    /// It is right again.
    pub fn recovered(&self, subject: &Subject) {
        let was = self.troubles.lock().remove(subject);
        if was.is_some() {
            self.telemetry.kubernetes_recovered(subject.0);
        }
    }

    /// Sends a request, and waits for its answer.
    ///
    /// # Errors
    /// [`Refusal`]; what somebody has to do something about was said.
    pub async fn ask(&self, ask: Ask<'_>) -> Result<Bytes, Refusal> {
        let (kind, only_looks) = (ask.kind, ask.only_looks);
        let subject = (kind, ask.verb, ask.below.clone());
        // An outage is one trouble, whatever was asked for.
        let outage = (kind, "", String::new());
        let turn = self.turns[usize::from(kind == KubernetesKind::Label)].lock().await;
        let answer = tokio::time::timeout(TIMEOUT, self.exchange(&ask)).await;
        drop(turn);
        let answer = answer.unwrap_or_else(|_| {
            let reason = format!("the API server has not answered within {} s", TIMEOUT.as_secs());
            Err((Refusal::Open { rest: None }, reason))
        });
        let outcome = match &answer {
            Ok(_) if only_looks => None,
            Ok(_) => Some(KubernetesOutcome::Ok),
            Err((Refusal::Missing, _)) => None,
            Err((Refusal::Conflict, _)) => Some(KubernetesOutcome::Conflict),
            Err((Refusal::Invalid | Refusal::Denied { .. }, _)) => Some(KubernetesOutcome::Denied),
            Err((Refusal::Open { .. }, _)) => Some(KubernetesOutcome::Error),
        };
        if let Some(outcome) = outcome {
            self.telemetry.kubernetes_write(kind, outcome);
        }
        match answer {
            Err((refusal @ Refusal::Open { .. }, reason)) => {
                self.trouble(outage, reason);
                Err(refusal)
            }
            Err((refusal @ (Refusal::Denied { .. } | Refusal::Invalid), reason)) => {
                self.recovered(&outage);
                self.trouble(subject, reason);
                Err(refusal)
            }
            answer => {
                self.recovered(&outage);
                self.recovered(&subject);
                answer.map_err(|(refusal, _)| refusal)
            }
        }
    }

    async fn exchange(&self, ask: &Ask<'_>) -> Result<Bytes, (Refusal, String)> {
        let open = |reason| (Refusal::Open { rest: None }, reason);
        let connection = self.connector.connection().await.map_err(open)?;
        let Resource { group, plural } = ask.resource;
        let root = if group.is_empty() { "/api/v1".to_owned() } else { format!("/apis/{group}/v1") };
        let uri = format!("{root}/namespaces/{}/{plural}{}", self.namespace, ask.below);
        let (kind, body) = ask.body.clone().unwrap_or(("application/json", Vec::new()));
        let request = Request::builder().method(ask.method).uri(uri).header(CONTENT_TYPE, kind);
        // Of pods nothing but their metadata is of interest.
        let wanted = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";
        let request = if ask.resource == Resource::PODS { request.header(ACCEPT, wanted) } else { request };
        let request = request.body(body).map_err(|error| open(format!("the request cannot be made: {error}")))?;
        connection.exchange(request).await.map_err(|trouble| self.judge(trouble, ask))
    }

    fn judge(&self, trouble: Trouble, ask: &Ask<'_>) -> (Refusal, String) {
        let (code, status, rest) = match trouble {
            Trouble::Status { code, status, retry_after } => (code, status, retry_after),
            other => return (Refusal::Open { rest: None }, other.to_string()),
        };
        let said = said(&status);
        let Ask { verb, resource, name, .. } = *ask;
        match code {
            404 => (Refusal::Missing, format!("there is no such object (404{said})")),
            409 => (Refusal::Conflict, format!("somebody else was first (409{said})")),
            // A test in it failed.
            422 if ask.body.as_ref().is_some_and(|(kind, _)| *kind == STEPS) => {
                (Refusal::Conflict, format!("it is not as it was any more (422{said})"))
            }
            401 => {
                let why = "check the pod's service account and its token";
                (Refusal::Denied { rest }, format!("it does not accept these credentials (401{said}): {why}"))
            }
            403 => {
                // Only an existing object can be named by a rule.
                let only = Some(name).filter(|name| verb != "create" && !name.is_empty());
                let rule = missing_rule(verb, resource, &self.namespace, name, only);
                (Refusal::Denied { rest }, format!("{rule}{said}"))
            }
            429 => (Refusal::Denied { rest }, "too many requests (429)".to_owned()),
            400..=499 => (Refusal::Invalid, format!("it does not take {resource} as Baton writes it ({code}{said})")),
            _ => (Refusal::Open { rest }, format!("it answers {code}{said}")),
        }
    }
}
