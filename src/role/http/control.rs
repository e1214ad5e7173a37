//! What an app may say: that it wants to hand over, and that it has stopped.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use hyper::StatusCode;

use super::leader::{find, hold_ended};
use super::{RoleCalls, params};
use crate::http::{Ask, Problem, ProblemKind, Response, json};
use crate::role::CommandError;

/// How long a role's task may take to take a command. It takes microseconds; longer means that it is stuck.
const COMMAND_PATIENCE: Duration = Duration::from_secs(5);

/// `POST /leader/{role}/resign`
pub(super) async fn resign(context: Arc<RoleCalls>, ask: Ask) -> Result<Response, Problem> {
    let role = find(&context, ask.param("role"))?;
    let cooldown = params::cooldown(&ask.body)?;
    command(role.resign(cooldown)).await?;
    Ok(json(StatusCode::ACCEPTED, &role.answer()))
}

/// `POST /leader/{role}/drained`
pub(super) async fn drained(context: Arc<RoleCalls>, ask: Ask) -> Result<Response, Problem> {
    let role = find(&context, ask.param("role"))?;
    let Some(hold) = params::hold(&ask.query)? else {
        command(role.drained()).await?;
        return Ok(json(StatusCode::ACCEPTED, &role.answer()));
    };
    if !role.stop_hold(hold) {
        return Err(hold_ended(hold));
    }
    // It has ended: this promises nothing.
    Ok(json(StatusCode::ACCEPTED, &role.answer_held(hold)))
}

async fn command(work: impl Future<Output = Result<(), CommandError>>) -> Result<(), Problem> {
    let Ok(outcome) = tokio::time::timeout(COMMAND_PATIENCE, work).await else {
        let detail = format!("the role's task did not answer within {COMMAND_PATIENCE:?}");
        return Err(Problem::new(ProblemKind::RoleUnresponsive, detail));
    };
    outcome.map_err(|error| {
        let kind = match &error {
            CommandError::NotLeading { .. } => ProblemKind::NotLeading,
            CommandError::NotDraining { .. } => ProblemKind::NotDraining,
            CommandError::Ended { .. } => ProblemKind::RoleStopped,
        };
        Problem::new(kind, error.to_string())
    })
}
