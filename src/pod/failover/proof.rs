//! The proof: what a pod's object tells of processes of Baton that have ended, and how long what they told their apps
//! is still good for.
//!
//! Only one thing tells of an end: the record of a *terminated* container, which the kubelet of its node makes by the
//! word of the container's runtime, with the termination message that this very process had left
//! ([`TerminationMessage`]). Neither a missing object nor a node that is not heard of proves anything.
//!
//! Some records are made up. When containerd loses a container's shim it reports the end of a process that may live
//! (`cleanupAfterDeadShim` in `core/runtime/v2/shim.go`; issues 8381 and 10727), with one of two exit codes and the
//! reason that every failure has. Such an end may be true as well (SIGKILL), and the two cannot be told apart: it
//! proves nothing.

use std::collections::BTreeMap;
use std::time::Duration;

use super::pod_status::{ContainerStatus, Pod, Spec, Status, Terminated};
use super::termination_message::{Reach, TerminationMessage};
use crate::protocol::SessionId;

/// Why a container ended, in the words of runtimes that have seen it end; and `Error`, for which see [`MADE_UP`]. Of
/// other words some are made up for a container that nobody can find any more (`ContainerStatusUnknown`, `Unknown`),
/// so only these count.
const ENDED: [&str; 2] = ["Completed", "OOMKilled"];
/// What containerd makes up for a container whose shim is gone, with the reason `Error`: 128 and SIGKILL, or that there
/// is no status.
const MADE_UP: [i32; 2] = [137, 255];
/// The phases of a pod whose containers are not started again.
const OVER: [&str; 2] = ["Succeeded", "Failed"];

/// A process that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct End {
    pub session: SessionId,
    /// For how long from now, at the most, somebody may act on what it said. Zero when everybody whom it could have
    /// told has ended as well.
    pub promise: Duration,
}

/// The processes of Baton that have ended in this pod, as far as its object proves it.
pub(super) fn ends(pod: &Pod) -> Vec<End> {
    let Some(status) = &pod.status else { return Vec::new() };
    let mut told: BTreeMap<SessionId, Vec<TerminationMessage>> = BTreeMap::new();
    for terminated in statuses(status).flat_map(terminations) {
        if let Some(message) = message(terminated)
            && pod.metadata.uid.as_ref() == Some(&message.pod)
        {
            told.entry(message.session).or_default().push(message);
        }
    }
    let all_ended = pod.spec.as_ref().is_some_and(|spec| has_ended(spec, status));
    // A session belongs to one instance of one container. Where two claim it, one of them has copied it.
    let sole = told.into_values().filter_map(|messages| <[TerminationMessage; 1]>::try_from(messages).ok());
    sole.map(|[message]| {
        let nobody_left = all_ended && message.reach == Reach::Pod;
        let promise = if nobody_left { Duration::ZERO } else { message.promise };
        End { session: message.session, promise }
    })
    .collect()
}

fn statuses(status: &Status) -> impl Iterator<Item = &ContainerStatus> {
    let kinds = [&status.container_statuses, &status.init_container_statuses, &status.ephemeral_container_statuses];
    kinds.into_iter().flatten().flatten()
}

/// How the present instance of a container ended, and the one before.
fn terminations(status: &ContainerStatus) -> impl Iterator<Item = &Terminated> {
    let states = [&status.state, &status.last_state];
    states.into_iter().flatten().filter_map(|state| state.terminated.as_ref()).filter(|end| was_seen(end))
}

fn was_seen(terminated: &Terminated) -> bool {
    match terminated.reason.as_deref() {
        Some("Error") => terminated.exit_code.is_some_and(|code| !MADE_UP.contains(&code)),
        Some(reason) => ENDED.contains(&reason),
        None => false,
    }
}

fn message(terminated: &Terminated) -> Option<TerminationMessage> {
    terminated.message.as_deref()?.parse().ok()
}

/// Whether every container of the pod was seen to have ended and none will be started again, so that nobody is left in
/// it who could act on anything. Who shares its node's network, or its processes, is not known: then never.
fn has_ended(spec: &Spec, status: &Status) -> bool {
    let over = status.phase.as_deref().is_some_and(|phase| OVER.contains(&phase));
    let shared = [spec.host_network, spec.host_pid, spec.share_process_namespace].contains(&Some(true));
    let ended: Vec<&str> = statuses(status)
        .filter(|status| {
            let state = status.state.as_ref().and_then(|state| state.terminated.as_ref());
            state.is_some_and(was_seen)
        })
        .map(|status| status.name.as_str())
        .collect();
    let kinds = [&spec.containers, &spec.init_containers, &spec.ephemeral_containers];
    let mut containers = kinds.into_iter().flatten().flatten();
    over && !shared && containers.all(|one| ended.contains(&one.name.as_str()))
}
