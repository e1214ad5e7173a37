//! What one section asks of another. No section's own file knows of a section beside it: what compares them is here.

use std::collections::BTreeSet;
use std::time::Duration;

use super::dapr_jobs::{self, DaprJobsConfig, JOBS_DAPR};
use super::jobs::{self, FAILED_KEPT, FAN_OUT, JOBS, JobConfig, JobRoles, SCHEDULE, SUCCEEDED_KEPT};
use super::listeners::IDENTITY;
use super::locks::{self, LOCKS};
use super::pod::{ExtrasConfig, KUBERNETES, LABEL_NAME_MAX, LEASE_MIRROR, PodConfig, dotted, is_object_name};
use super::roles::{NAME, PREFERENCES, ROLE_NAME, ROLES, RoleConfig, SHARDS};
use super::section::{AnyKey, Key, Reader, key, quoted};
use super::store::{self, JOBS_STORE, STORE, StoreConfig};
use super::value::{Form, Span};
use super::{lease_objects, quorum, redis};
use crate::protocol::{RoleName, Timing};

pub(super) const DEFAULT_ROLE: Key<Form<RoleName>> =
    key("defaultRole", ROLE_NAME, "What `/leader` without a name means when there are several roles.");

/// A campaign asks every member of a quorum twice.
const QUESTIONS: u32 = 2;

/// The shortest time within which a role renews.
pub(super) fn renew_period(roles: &[RoleConfig]) -> Option<Duration> {
    roles.iter().map(|role| role.timing.renew_period()).min()
}

fn listed(roles: &[RoleConfig]) -> String {
    quoted(&roles.iter().map(|role| role.name.as_str()).collect::<Vec<_>>())
}

/// `defaultRole:` is one of the roles.
pub(super) fn default_role(top: &Reader<'_>, roles: &[RoleConfig]) -> Option<RoleName> {
    let (name, place) = (top.given(&DEFAULT_ROLE)?, top.at(&DEFAULT_ROLE));
    let is_split = |role: &RoleConfig| role.name.shard_number().is_some() && role.name.role() == name;
    if roles.iter().any(is_split) {
        place.problem(format!(
            "{name} is split over shards, which have a leader each, so that /leader could not name one; remove it, and \
             let apps ask for /leader/{name}/0 and so on"
        ));
        return None;
    }
    // With a role missing from the list because something is wrong with it, nobody knows.
    if !roles.iter().any(|role| role.name == name) && top.at(&ROLES).is_sound() {
        place.problem(format!("{} is not one of the roles; they are {}", place.shown(), listed(roles)));
    }
    Some(name)
}

/// Commands are given up before the next renewal is due; a default always is.
pub(super) fn roles_and_timeouts(top: &Reader<'_>, roles: &[RoleConfig]) {
    let Some(stores) = top.given(&STORE) else { return };
    let commands = |timing: &Timing, timeout: Duration| Some(timing.check_command_timeout(timeout).err()?.to_string());
    let rounds = |timing: &Timing, timeout: Duration| {
        let limit = timing.renew_period() / QUESTIONS;
        (timeout * QUESTIONS >= timing.renew_period()).then(|| {
            format!(
                "is {timeout:?}; a campaign asks every member twice, so it must be less than {limit:?}, half of the \
                 renewPeriod"
            )
        })
    };
    slow_commands(&stores.at(&store::REDIS_KEY).at(&redis::COMMAND_TIMEOUT), roles, commands);
    slow_commands(&stores.at(&store::KUBERNETES).at(&lease_objects::COMMAND_TIMEOUT), roles, commands);
    slow_commands(&stores.at(&store::QUORUM_KEY).at(&quorum::COMMAND_TIMEOUT), roles, rounds);
}

fn slow_commands(place: &Reader<'_>, roles: &[RoleConfig], objection: impl Fn(&Timing, Duration) -> Option<String>) {
    let Some(timeout) = place.read(&Span::POSITIVE) else { return };
    for role in roles {
        if let Some(objection) = objection(&role.timing, timeout) {
            place.problem(format!("{objection} (role {})", role.name));
        }
    }
}

/// Roles are split, or go to who is preferred, where the replicas know of each other.
pub(super) fn roles_and_store(top: &Reader<'_>, store: &StoreConfig) {
    let Some(reason) = store.without_presence() else { return };
    for role in top.given(&ROLES).unwrap_or_default() {
        if role.get(&SHARDS) > 1 {
            role.at(&SHARDS).problem(format!("more than 1 cannot be had with this store: {reason}, or several roles"));
        }
        for key in PREFERENCES.into_iter().filter(|key| role.has(key)) {
            role.at(key).problem(format!("cannot be had with this store: {reason}"));
        }
    }
}

/// Locks are asked for where a store has them.
pub(super) fn locks_and_store(top: &Reader<'_>, store: &StoreConfig) {
    let locks = top.at(&LOCKS);
    let shares = top.given(&LOCKS).is_some() && !locks.has(&locks::STORE);
    if let Some(reason) = store.without_locks().filter(|_| shares) {
        locks.problem(format!("cannot be had with this store: {reason}, or remove it"));
    }
}

/// The jobs, each with its role, and as the store of their ledgers takes them. `ledgers`: that store, if it is known.
pub(super) fn jobs(top: &Reader<'_>, roles: &[RoleConfig], ledgers: Option<&StoreConfig>) -> Vec<JobConfig> {
    let list = top.at(&JOBS);
    let refused = ledgers.and_then(StoreConfig::without_jobs);
    if let Some(reason) = refused.filter(|_| !list.items().is_empty()) {
        list.problem(format!("cannot be had with this store: {reason}, or remove them"));
        return Vec::new();
    }
    // With a role missing from the list because something is wrong with it, nobody knows.
    let all_known = top.at(&ROLES).is_sound();
    let jobs = jobs::read(top, |job| job_roles(job, roles, all_known));
    for (place, job) in &jobs {
        job_and_store(place, job, ledgers);
    }
    jobs.into_iter().map(|(_, job)| job).collect()
}

/// `jobsDapr:`, where jobs can be made at run time.
pub(super) fn dapr_jobs(
    top: &Reader<'_>,
    roles: &[RoleConfig],
    ledgers: Option<&StoreConfig>,
) -> Option<DaprJobsConfig> {
    let s = top.given(&JOBS_DAPR)?;
    if let Some(reason) = ledgers.and_then(StoreConfig::without_runtime_jobs) {
        s.problem(format!("cannot be had with this store: {reason}, or remove it"));
    }
    let role = job_role(&s, roles, top.at(&ROLES).is_sound());
    dapr_jobs::read(&s, role.map(|(name, _)| name))
}

/// The role: as given, else the only one. Of a job that fans out, its shards.
fn job_roles(job: &Reader<'_>, roles: &[RoleConfig], all_known: bool) -> Option<JobRoles> {
    if job.get(&FAN_OUT) {
        return shards_of(job, roles, all_known);
    }
    let (role, timing) = job_role(job, roles, all_known)?;
    Some(JobRoles { roles: vec![role], fans_out: false, timing })
}

/// The role: as given, else the only one.
pub(super) fn job_role(job: &Reader<'_>, roles: &[RoleConfig], all_known: bool) -> Option<(RoleName, Timing)> {
    let place = job.at(&jobs::ROLE);
    let role = match (job.has(&jobs::ROLE), roles) {
        (false, [only]) => Some(only),
        (false, _) => {
            if all_known {
                place.problem(format!("is missing, and there are several roles; add one of {}", listed(roles)));
            }
            None
        }
        (true, _) => {
            let text = job.given(&jobs::ROLE)?;
            let role = roles.iter().find(|role| role.name.as_str() == text);
            if role.is_none() && all_known {
                place.problem(format!("{} is not one of the roles; they are {}", place.shown(), listed(roles)));
            }
            role
        }
    };
    role.map(|role| (role.name.clone(), role.timing))
}

/// The role of a job that fans out is split: the one that is given, else the only one.
fn shards_of(job: &Reader<'_>, roles: &[RoleConfig], all_known: bool) -> Option<JobRoles> {
    let place = job.at(&jobs::ROLE);
    let split: BTreeSet<RoleName> =
        roles.iter().filter(|role| role.name.shard_number().is_some()).map(|role| role.name.role()).collect();
    let names = || quoted(&split.iter().map(RoleName::as_str).collect::<Vec<_>>());
    let wanted = if job.has(&jobs::ROLE) { Some(job.given(&jobs::ROLE)?) } else { None };
    let role = match (&wanted, split.len()) {
        (Some(text), _) => split.iter().find(|name| name.as_str() == text.as_str()),
        (None, 1) => split.first(),
        (None, _) => None,
    };
    let Some(role) = role else {
        if all_known {
            let there_are =
                if split.is_empty() { "there is none".to_owned() } else { format!("there are {}", names()) };
            place.problem(format!(
                "must name a role that is split over shards (`shards: 2` or more), because of fanOut; {there_are}"
            ));
        }
        return None;
    };
    let shards: Vec<&RoleConfig> = roles.iter().filter(|shard| shard.name.role() == *role).collect();
    let timing = shards.first()?.timing;
    Some(JobRoles { roles: shards.into_iter().map(|shard| shard.name.clone()).collect(), fans_out: true, timing })
}

/// What a store asks that does not take every job.
fn job_and_store(place: &Reader<'_>, job: &JobConfig, ledgers: Option<&StoreConfig>) {
    let Some(limits) = ledgers.and_then(StoreConfig::job_limits) else { return };
    let interval = job.schedule.interval_min();
    if interval < limits.interval_min {
        place.at(&SCHEDULE).problem(format!(
            "has slots {interval:?} apart; with this store it must be {:?} or more, because each is several writes to \
             the API server's etcd: write `@every 10s` or longer, or name a Redis for them, jobsStore",
            limits.interval_min
        ));
    }
    let (history, most) = (job.policy.history, limits.history_max);
    let kept: [(&AnyKey, usize, usize); 2] =
        [(&SUCCEEDED_KEPT, history.succeeded, most.succeeded), (&FAILED_KEPT, history.failed, most.failed)];
    for (key, kept, most) in kept.into_iter().filter(|(_, kept, most)| kept > most) {
        place.at(key).problem(format!(
            "is {kept}; with this store it must be at most {most}, because a Lease object has no room for more"
        ));
    }
}

/// The store of the ledgers, if it is known: that of the jobs alone, else that of the leases.
pub(super) fn ledgers<'s>(
    top: &Reader<'_>,
    own: Option<&'s StoreConfig>,
    store: Option<&'s StoreConfig>,
) -> Option<&'s StoreConfig> {
    own.or(store).filter(|_| top.at(&JOBS_STORE).is_sound())
}

/// The name of the Lease object that mirrors a role.
pub fn mirror_name(store: &StoreConfig, role: &RoleName) -> String {
    format!("{}-{}", store.prefix(), dotted(role))
}

/// What is shown in Kubernetes has names that it takes, and that others can find the pod by.
pub(super) fn pod(
    top: &Reader<'_>,
    extras: &ExtrasConfig,
    identity: Option<&str>,
    roles: &[RoleConfig],
    store: Option<&StoreConfig>,
) {
    let pod = extras.pod.as_ref();
    let misnamed = pod.zip(identity).filter(|(pod, identity)| pod.name != *identity);
    // The others look for a leader's pod by the leader's name.
    if let Some((pod, identity)) = misnamed.filter(|_| extras.fast_failover.is_some()) {
        top.at(&IDENTITY).problem(format!(
            "is {identity:?}, but kubernetes.fastFailover needs the pod's name (POD_NAME), which is {:?}: remove \
             `identity`, whose default it is",
            pod.name
        ));
    }
    if extras.pod_labels {
        labels(top, roles);
        if misnamed.is_some() {
            top.at(&IDENTITY).warning(
                "is not the pod's name (POD_NAME): with kubernetes.podLabels, the label of a leader that is killed \
                 stays until its sidecar is back, for its successor does not know which pod it was",
            );
        }
    }
    if let Some(store) = store.filter(|_| extras.lease_mirror) {
        mirror(&top.at(&KUBERNETES).at(&LEASE_MIRROR), roles, store, pod);
    }
}

fn labels(top: &Reader<'_>, roles: &[RoleConfig]) {
    for place in top.given(&ROLES).unwrap_or_default() {
        let Some(name) = place.given(&NAME) else { continue };
        let of_it = roles.iter().filter(|role| role.name.role() == name);
        let length = of_it.map(|role| "role-".len() + dotted(&role.name).len()).max().unwrap_or(0);
        if length > LABEL_NAME_MAX {
            place.at(&NAME).problem(format!(
                "is too long for kubernetes.podLabels: the name of its label would have {length} characters, and \
                 Kubernetes takes {LABEL_NAME_MAX}; take {} away",
                length - LABEL_NAME_MAX
            ));
        }
    }
}

fn mirror(place: &Reader<'_>, roles: &[RoleConfig], store: &StoreConfig, pod: Option<&PodConfig>) {
    if let StoreConfig::Kubernetes(leases) = store {
        // Elsewhere nobody knows where the pod will be: its own namespace is what is meant when none is given.
        let elsewhere = leases.namespace.as_ref().is_some_and(|given| pod.is_none_or(|pod| pod.namespace != *given));
        if !elsewhere {
            place.problem(
                "is for leases in Redis; with store.kubernetes the Lease objects themselves show the holder, and a \
                 mirror would have their names: remove it",
            );
            return;
        }
    }
    if roles.iter().any(|role| !is_object_name(&mirror_name(store, &role.name))) {
        place.problem(format!(
            "names its objects `<keyPrefix>-<role>`, and no object's name may begin with `{}`; use a keyPrefix of a-z, \
             0-9, `-` and `.`",
            store.prefix()
        ));
    }
}
