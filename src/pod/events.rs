//! Events on this pod, which `kubectl describe pod` shows: who was elected, lost a role or handed it over, and what
//! was guarded.
//!
//! They tell what has happened, so these do wait in a queue: a short one, of which the oldest is dropped. Each carries
//! its own time; one that could not be written for long is of no interest any more. A flapping role uses up an
//! allowance, and the rest waits.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::broadcast::{self, error::RecvError};
use tokio::sync::watch;

use super::client::PodClient;
use super::shown::Shown;
use super::writer::{PAUSE_MIN, Pauses};
use crate::base::clock::SharedClock;
use crate::config::PodConfig;
use crate::kube::{Denial, Failure, Object, Resource, Verb};
use crate::protocol::{Event, LossReason, Mono, ReleaseReason, RoleName};
use crate::telemetry::{KubernetesDrop, KubernetesKind, RoleEvent};

/// How many may wait.
const QUEUE: usize = 32;
/// How many may be written at once, and how long each takes to be allowed again.
const ALLOWANCE: u32 = 25;
const ALLOWED_EVERY: Duration = Duration::from_secs(30);
/// A store that may have forgotten leases is one event for all roles, which every replica of them meets: the first role
/// of each is told, once in so long.
const GUARDED_EVERY: Duration = Duration::from_secs(300);
/// For how long one is worth writing.
const AGE_MAX: Duration = Duration::from_secs(600);
/// The longest name of an object, and of a reporter.
const NAME_MAX: usize = 253;
const INSTANCE_MAX: usize = 128;

/// One that waits.
struct Waiting {
    role_event: Arc<RoleEvent>,
    words: Words,
    heard_at: Mono,
    /// RoleEvent apart from the pod's others, so that one that is sent twice is there once.
    name: String,
}

/// What an Event says.
struct Words {
    kind: &'static str,
    reason: &'static str,
    action: &'static str,
    note: String,
}

/// What is worth an Event.
fn words(role: &RoleName, event: &Event) -> Option<Words> {
    let (kind, reason, action, note) = match event {
        Event::Elected { token } => {
            ("Normal", "Elected", "Elect", format!("leads the role {role} with the fencing token {token}"))
        }
        Event::Lost { token, reason, .. } => {
            let why = match reason {
                LossReason::Expired => "it could not be renewed in time",
                LossReason::Superseded => "another replica's term stands",
                LossReason::Unhealthy => "the app's health check failed",
            };
            let word = reason.as_str();
            ("Warning", "Lost", "Lose", format!("lost the role {role} (token {token}), {word}: {why}"))
        }
        // It never led.
        Event::Released { reason: ReleaseReason::Unused, .. } => return None,
        Event::Released { token, reason, .. } => {
            let why = reason.as_str();
            ("Normal", "HandedOver", "HandOver", format!("gave the role {role} back (token {token}): {why}"))
        }
        // Nobody led that could have been forgotten.
        Event::Guarded { is_first: true, .. } => return None,
        Event::Guarded { cause, remaining, .. } => {
            let (why, ms) = (cause.as_str(), remaining.as_millis());
            let note = format!(
                "nobody new may lead the role {role} for up to {ms} ms: the store may have forgotten a lease ({why})"
            );
            ("Warning", "Guarded", "Guard", note)
        }
        Event::Campaigned { .. }
        | Event::Contended { .. }
        | Event::Renewed { .. }
        | Event::Draining { .. }
        | Event::Departed { .. }
        | Event::DepartureRefuted { .. }
        | Event::Abandoned { .. }
        | Event::Following { .. }
        | Event::IdentityClash { .. }
        | Event::StoreClockStepped { .. } => return None,
    };
    Some(Words { kind, reason, action, note })
}

/// Whether it is this Event that the server does not take: it will not take it later.
const fn is_refused(failure: &Failure) -> bool {
    match failure {
        Failure::Missing => true,
        Failure::Conflict | Failure::Unanswered { .. } => false,
        Failure::Denied { why, .. } => match why {
            Denial::Invalid | Denial::NoNamespace | Denial::NoSuchKind => true,
            Denial::Unsent | Denial::Unauthorized | Denial::Forbidden | Denial::Busy => false,
        },
    }
}

/// Whether the last one is long enough ago; then this is the last one.
fn is_due(last: &mut Option<Mono>, now: Mono) -> bool {
    let due = last.is_none_or(|last| now.since(last) >= GUARDED_EVERY);
    if due {
        *last = Some(now);
    }
    due
}

/// How many more may be written now.
struct Allowance {
    left: u32,
    counted_at: Mono,
}

impl Allowance {
    fn new(now: Mono) -> Self {
        Self { left: ALLOWANCE, counted_at: now }
    }

    /// How long until one may be written; zero when one may.
    fn wait(&mut self, now: Mono) -> Duration {
        while self.left < ALLOWANCE && now.since(self.counted_at) >= ALLOWED_EVERY {
            self.left += 1;
            self.counted_at = self.counted_at + ALLOWED_EVERY;
        }
        if self.left == ALLOWANCE {
            self.counted_at = now;
        }
        if self.left > 0 { Duration::ZERO } else { ALLOWED_EVERY.saturating_sub(now.since(self.counted_at)) }
    }

    fn take(&mut self) {
        self.left = self.left.saturating_sub(1);
    }
}

pub(super) struct Events {
    client: Arc<PodClient>,
    clock: SharedClock,
    pod: PodConfig,
    queue: VecDeque<Waiting>,
    allowance: Allowance,
    guarded_at: Option<Mono>,
    pauses: Pauses,
    /// Not to be tried before.
    rest_until: Mono,
    count: u64,
}

impl Events {
    pub fn new(client: Arc<PodClient>, clock: SharedClock, pod: PodConfig, seed: u64) -> Self {
        let now = clock.now();
        let (allowance, pauses) = (Allowance::new(now), Pauses::new(seed));
        Self {
            client,
            clock,
            pod,
            queue: VecDeque::new(),
            allowance,
            guarded_at: None,
            pauses,
            rest_until: now,
            count: 0,
        }
    }

    /// Writes what is heard, until what is to be shown closes and what was heard by then is written.
    pub async fn run(mut self, mut heard: broadcast::Receiver<Arc<RoleEvent>>, mut shown: watch::Receiver<Shown>) {
        loop {
            let closing = shown.borrow_and_update().closing;
            if closing && self.queue.is_empty() && heard.is_empty() {
                return;
            }
            let pause = self.pause(closing);
            tokio::select! {
                biased;
                role_event = heard.recv() => match role_event {
                    Ok(role_event) => self.push(role_event),
                    Err(RecvError::Lagged(count)) => self.dropped(KubernetesDrop::Overflow, count),
                    Err(RecvError::Closed) => return,
                },
                changed = shown.changed(), if !closing => if changed.is_err() { return },
                () = tokio::time::sleep(pause), if !self.queue.is_empty() => self.write_first(closing).await,
            }
        }
    }

    /// How long the first has to wait.
    fn pause(&mut self, closing: bool) -> Duration {
        let now = self.clock.now();
        let rest = self.rest_until.since(now);
        if closing { rest.min(PAUSE_MIN) } else { rest.max(self.allowance.wait(now)) }
    }

    fn dropped(&self, reason: KubernetesDrop, count: u64) {
        self.client.telemetry().kubernetes_events_dropped(reason, count);
    }

    fn push(&mut self, role_event: Arc<RoleEvent>) {
        let Some(words) = words(&role_event.role, &role_event.event) else { return };
        if matches!(role_event.event, Event::Guarded { .. }) && !is_due(&mut self.guarded_at, self.clock.now()) {
            return;
        }
        if self.queue.len() == QUEUE {
            self.queue.pop_front();
            self.dropped(KubernetesDrop::Overflow, 1);
        }
        self.count += 1;
        let tail = format!(".{:x}.{:x}", role_event.at.as_microsecond(), self.count);
        let head: String = self.pod.name.chars().take(NAME_MAX - tail.len()).collect();
        let name = format!("{}{tail}", head.trim_end_matches(['.', '-']));
        self.queue.push_back(Waiting { role_event, words, heard_at: self.clock.now(), name });
    }

    async fn write_first(&mut self, closing: bool) {
        let Some(first) = self.queue.front() else { return };
        if self.clock.now().since(first.heard_at) > AGE_MAX {
            self.queue.pop_front();
            return self.dropped(KubernetesDrop::Expired, 1);
        }
        self.allowance.take();
        // Without the name, which is another each time: what is wrong is so for all.
        let (object, subject) = (
            Object { resource: Resource::EVENTS, name: "" },
            (KubernetesKind::Event, Verb::Create.as_str(), String::new()),
        );
        let event = self.object(first);
        match self.client.ask(subject, true, self.client.api().create(object, &event)).await {
            // It is there already when it was written without an answer.
            Ok(_) | Err(Failure::Conflict) => {
                self.pauses.reset();
                self.queue.pop_front();
            }
            Err(failure) if is_refused(&failure) => {
                self.queue.pop_front();
                self.dropped(KubernetesDrop::Refused, 1);
            }
            // So are the others, and nobody changes a rule in the second that is left.
            Err(failure) if closing && failure.is_lasting() => {
                self.dropped(KubernetesDrop::Refused, self.queue.len() as u64);
                self.queue.clear();
            }
            Err(failure) => {
                let pause = self.pauses.after(&failure, closing);
                self.rest_until = self.clock.now() + pause;
            }
        }
    }

    fn object(&self, event: &Waiting) -> Value {
        let PodConfig { name, namespace, uid } = &self.pod;
        let Words { kind, reason, action, note } = &event.words;
        let instance: String = name.chars().take(INSTANCE_MAX).collect();
        json!({
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"name": event.name, "namespace": self.client.namespace()},
            "eventTime": format!("{:.6}", event.role_event.at),
            "reportingController": "baton.dev/sidecar",
            "reportingInstance": instance,
            "regarding": {"apiVersion": "v1", "kind": "Pod", "name": name, "namespace": namespace, "uid": uid},
            "type": kind,
            "reason": reason,
            "action": action,
            "note": note,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::{GuardCause, Token};

    #[test]
    fn what_people_ask_about_is_worth_an_event_and_the_rest_is_not() {
        let (role, token) = (RoleName::new("scheduler").unwrap(), Token::new(7).unwrap());
        let span = Duration::from_millis(1_500);
        let rows = [
            (Event::Elected { token }, Some(("Elected", "Normal", "token 7"))),
            (
                Event::Lost { token, reason: LossReason::Expired, held_for: span },
                Some(("Lost", "Warning", "expired: it could not be renewed in time")),
            ),
            (
                Event::Released { token, reason: ReleaseReason::Resigned, held_for: span },
                Some(("HandedOver", "Normal", "resigned")),
            ),
            (Event::Released { token, reason: ReleaseReason::Unused, held_for: span }, None),
            (
                Event::Guarded { cause: GuardCause::Vanished, remaining: span, is_first: false },
                Some(("Guarded", "Warning", "1500 ms: the store may have forgotten a lease (vanished)")),
            ),
            (Event::Following { holder: "web-1".into(), token }, None),
            (Event::Draining { token, reason: ReleaseReason::Shutdown, remaining: span }, None),
        ];
        for (event, expected) in rows {
            let told = words(&role, &event);
            assert_eq!(
                told.as_ref().map(|told| (told.reason, told.kind)),
                expected.map(|(r, k, _)| (r, k)),
                "{event:?}"
            );
            if let (Some(told), Some((_, _, part))) = (told, expected) {
                assert!(told.note.contains(part) && told.note.contains("the role scheduler"), "{}", told.note);
            }
        }
    }

    #[test]
    fn a_guard_is_told_once_for_all_roles_and_again_later() {
        let (start, mut last) = (Mono::from_nanos(1_000_000_000_000), None);
        let after = |seconds| start + Duration::from_secs(seconds);
        let told = [0, 1, 299, 300, 599, 600].map(|seconds| is_due(&mut last, after(seconds)));
        assert_eq!(told, [true, false, false, true, false, true]);
    }

    #[test]
    fn an_allowance_is_used_up_and_comes_back_one_by_one() {
        let start = Mono::from_nanos(1_000_000_000_000);
        let mut allowance = Allowance::new(start);
        for _ in 0..ALLOWANCE {
            assert_eq!(allowance.wait(start), Duration::ZERO);
            allowance.take();
        }
        assert_eq!(allowance.wait(start), ALLOWED_EVERY);
        assert_eq!(allowance.wait(start + ALLOWED_EVERY / 2), ALLOWED_EVERY / 2);
        assert_eq!(allowance.wait(start + ALLOWED_EVERY), Duration::ZERO);
        allowance.take();
        assert!(allowance.wait(start + ALLOWED_EVERY) > Duration::ZERO);
        assert_eq!(allowance.wait(start + ALLOWED_EVERY * 1_000), Duration::ZERO);
        assert_eq!(allowance.left, ALLOWANCE, "no more than that");
    }
}
