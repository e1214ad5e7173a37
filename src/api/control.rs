//! What an app may say: that it wants to hand over, and that it has stopped.

use std::future::Future;
use std::time::Duration;

use futures_util::{Stream, StreamExt};
use hyper::StatusCode;
use hyper::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderMap};
use warp::Buf;
use warp::reply::Response;

use super::leader::{find, json};
use super::router::BODY_BYTES_MAX;
use super::{Context, params};
use crate::http::{Problem, ProblemKind};
use crate::role::CommandError;

/// How long a role's task may take to take a command. It takes microseconds; longer means that it is stuck.
const COMMAND_PATIENCE: Duration = Duration::from_secs(5);

/// `POST /leader/{role}/resign`
pub(super) async fn resign<B: Buf>(
    context: &Context,
    name: &str,
    headers: &HeaderMap,
    body: impl Stream<Item = Result<B, warp::Error>>,
) -> Result<Response, Problem> {
    let role = find(context, Some(name))?;
    let body = read_json(context, headers, body).await?;
    let cooldown = params::cooldown(&body)?;
    command(role.resign(cooldown)).await?;
    Ok(json(StatusCode::ACCEPTED, &role.answer()))
}

/// `POST /leader/{role}/drained`
pub(super) async fn drained(context: &Context, name: &str) -> Result<Response, Problem> {
    let role = find(context, Some(name))?;
    command(role.drained()).await?;
    Ok(json(StatusCode::ACCEPTED, &role.answer()))
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

fn is_json(headers: &HeaderMap) -> bool {
    let given = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("");
    given.split(';').next().is_some_and(|media_type| media_type.trim().eq_ignore_ascii_case("application/json"))
}

/// The whole body, which is JSON unless there is none.
pub(super) async fn read_json<B: Buf>(
    context: &Context,
    headers: &HeaderMap,
    body: impl Stream<Item = Result<B, warp::Error>>,
) -> Result<Vec<u8>, Problem> {
    let body = read(context, headers, body).await?;
    if !body.trim_ascii().is_empty() && !is_json(headers) {
        let detail = "send the body with Content-Type: application/json, or no body";
        return Err(Problem::new(ProblemKind::UnsupportedMediaType, detail));
    }
    Ok(body)
}

/// The whole body, within the bounds on size and time.
async fn read<B: Buf>(
    context: &Context,
    headers: &HeaderMap,
    body: impl Stream<Item = Result<B, warp::Error>>,
) -> Result<Vec<u8>, Problem> {
    let too_large =
        || Problem::new(ProblemKind::BodyTooLarge, format!("a body may have {BODY_BYTES_MAX} bytes at the most"));
    let announced = headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<usize>().ok());
    if announced.is_some_and(|bytes| bytes > BODY_BYTES_MAX) {
        return Err(too_large());
    }
    let patience = context.options.body_timeout;
    let collect = async {
        let mut body = std::pin::pin!(body);
        let mut whole = Vec::new();
        while let Some(chunk) = body.next().await {
            // The client broke off, or does not chunk as it should.
            let mut chunk = chunk.map_err(|_| Problem::new(ProblemKind::BadBody, "the body broke off"))?;
            if whole.len() + chunk.remaining() > BODY_BYTES_MAX {
                return Err(too_large());
            }
            while chunk.has_remaining() {
                let part = chunk.chunk();
                whole.extend_from_slice(part);
                let taken = part.len();
                chunk.advance(taken);
            }
        }
        Ok(whole)
    };
    tokio::time::timeout(patience, collect).await.unwrap_or_else(|_| {
        Err(Problem::new(ProblemKind::RequestTimeout, format!("the body took longer than {patience:?}")))
    })
}
