//! Who leads: the answers that an app acts upon. Each `leader: true` is a promise, recorded when it is made (R7).

use std::sync::Arc;

use hyper::StatusCode;
use serde::Serialize;

use super::RoleCalls;
use super::params::{LeaderQuery, LongPoll};
use crate::http::{Ask, Problem, ProblemKind, Response, json};
use crate::protocol::AppHoldId;
use crate::role::RoleHandle;

/// The role that a path names, or that is meant by naming none.
pub(super) fn find(context: &RoleCalls, name: Option<&str>) -> Result<RoleHandle, Problem> {
    let found = match name {
        Some(name) => context.roles.get(name),
        None => context.roles.default_role(),
    };
    found.ok_or_else(|| {
        let known: Vec<_> = context.roles.all().iter().map(|role| role.name().to_string()).collect();
        match name {
            Some(name) if !context.roles.shards(name).is_empty() => {
                let shards: Vec<_> = context.roles.shards(name).iter().map(|shard| shard.name().to_string()).collect();
                let detail = format!(
                    "{name} is split over {} shards, which have a leader each: ask for one of them, such as {name}/0, \
                     or for all at /roles",
                    shards.len()
                );
                Problem::new(ProblemKind::UnknownRole, detail).with_known(shards)
            }
            Some(name) => {
                let shown: String = name.chars().take(63).collect();
                Problem::new(ProblemKind::UnknownRole, format!("this replica has no role {shown:?}")).with_known(known)
            }
            None if known.is_empty() => {
                Problem::new(ProblemKind::UnknownRole, "this replica has no roles").with_known(known)
            }
            None => Problem::new(
                ProblemKind::AmbiguousRole,
                "there are several roles: name one in the path, or set defaultRole in the configuration",
            )
            .with_known(known),
        }
    })
}

/// `GET /leader[/{role}]`
pub(super) async fn leader(context: Arc<RoleCalls>, ask: Ask) -> Result<Response, Problem> {
    let role = find(&context, ask.param("role"))?;
    let LeaderQuery { poll, hold } = LeaderQuery::parse(&ask.query)?;
    if let Some(poll) = poll {
        wait(&context, &role, poll).await;
    }
    let Some(hold) = hold else { return Ok(json(StatusCode::OK, &role.answer())) };
    if !role.has_hold(hold) {
        return Err(hold_ended(hold));
    }
    Ok(json(StatusCode::OK, &role.answer_held(hold)))
}

pub(super) fn hold_ended(hold: AppHoldId) -> Problem {
    Problem::new(ProblemKind::HoldEnded, format!("the connection {hold} has ended"))
}

/// Waits for what a long poll waits for. The answer is made afterwards: its validity begins when it is sent.
async fn wait(context: &RoleCalls, role: &RoleHandle, poll: LongPoll) {
    let now_at = role.snapshot().index;
    // An index above ours was given by an earlier process: what that client knows is past.
    if poll.index.is_some_and(|index| index != now_at) {
        return;
    }
    tokio::select! {
        () = role.changed_past(now_at) => {}
        () = context.stopping.begins() => {}
        () = tokio::time::sleep(poll.wait) => {}
    }
}

/// `GET, HEAD, OPTIONS /leading[/{role}]`. A script acts on a 200 as on `leader: true`, so it is as much of a promise.
pub(super) async fn leading(context: Arc<RoleCalls>, ask: Ask) -> Result<Response, Problem> {
    let answer = find(&context, ask.param("role"))?.answer();
    let status = if answer.leader { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    Ok(json(status, &answer))
}

/// `GET /roles`
pub(super) async fn roles(context: Arc<RoleCalls>, _ask: Ask) -> Result<Response, Problem> {
    let answers: Vec<_> = context.roles.all().iter().map(RoleHandle::answer).collect();
    Ok(json(StatusCode::OK, &answers))
}

/// What the Kubernetes leader-elector sidecar answers on `/`: the holder's name, empty when it is not known.
#[derive(Serialize)]
struct Named<'a> {
    name: &'a str,
}

/// `GET /` for everyone but browsers. An app that finds its own name there takes itself for the leader, so that is a
/// promise too, and its name is left out when none can be made: while draining, or when another pod has the same name.
pub(super) async fn named(context: Arc<RoleCalls>, _ask: Ask) -> Result<Response, Problem> {
    let answer = find(&context, None)?.answer();
    let holder = answer.holder.as_ref().filter(|holder| answer.leader || **holder != answer.identity);
    Ok(json(StatusCode::OK, &Named { name: holder.map_or("", |holder| holder) }))
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct IsLeader {
    is_leader: bool,
}

/// `GET /isLeader`
pub(super) async fn is_leader(context: Arc<RoleCalls>, _ask: Ask) -> Result<Response, Problem> {
    let answer = find(&context, None)?.answer();
    Ok(json(StatusCode::OK, &IsLeader { is_leader: answer.leader }))
}
