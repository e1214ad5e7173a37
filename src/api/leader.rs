//! Who leads: the answers that an app acts upon. Each `leader: true` is a promise, recorded when it is made (R7).

use bytes::Bytes;
use hyper::StatusCode;
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderMap, HeaderValue};
use serde::Serialize;
use warp::reply::Response;

use super::Context;
use super::params::LongPoll;
use crate::http::{Problem, ProblemKind};
use crate::role::{AnswerText, RoleHandle};

/// More than any answer is long, so that writing one allocates once.
const ANSWER_BYTES: usize = 384;
/// More headers than this have a table that is not worth keeping for the connection's next request.
const HEADERS_KEPT: usize = 32;

/// A JSON answer that nobody may keep.
pub(super) fn json(status: StatusCode, value: &impl Serialize) -> Response {
    let mut text = Vec::with_capacity(ANSWER_BYTES);
    // Writing strings and numbers into memory does not fail.
    if serde_json::to_writer(&mut text, value).is_err() {
        return problem(Problem::new(ProblemKind::Internal, "an answer could not be written"));
    }
    whole(Told { status, json: text.into() })
}

/// JSON that is to be answered.
pub(super) struct Told {
    status: StatusCode,
    json: Bytes,
}

impl Told {
    fn from(status: StatusCode, text: AnswerText) -> Self {
        Self { status, json: text.json.into() }
    }

    /// An answer that nobody may keep. `spent`: the request's headers, which nobody looks at any more. Their table
    /// becomes that of the answer's, since a new one would have to be allocated.
    pub(super) fn into_response<B>(self, spent: &mut HeaderMap, body: impl FnOnce(Bytes) -> B) -> hyper::Response<B> {
        let mut response = hyper::Response::new(body(self.json));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        if spent.capacity() <= HEADERS_KEPT {
            std::mem::swap(headers, spent);
            headers.clear();
        }
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        response
    }
}

/// An answer of the filter's kind.
pub(super) fn whole(told: Told) -> Response {
    told.into_response(&mut HeaderMap::new(), Into::into)
}

/// An error.
pub(super) fn problem(problem: Problem) -> Response {
    problem.into_response().map(Into::into)
}

/// The role that a path names, or that is meant by naming none.
pub(super) fn find(context: &Context, name: Option<&str>) -> Result<RoleHandle, Problem> {
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

/// `GET /leader[/{role}]` without a query.
pub(super) fn now(context: &Context, name: Option<&str>) -> Result<Told, Problem> {
    Ok(Told::from(StatusCode::OK, find(context, name)?.answer_text()))
}

/// `GET /leader[/{role}]`
pub(super) async fn leader(context: &Context, name: Option<&str>, query: &str) -> Result<Response, Problem> {
    let role = find(context, name)?;
    if let Some(poll) = LongPoll::parse(query)? {
        wait(context, &role, poll).await;
    }
    Ok(whole(Told::from(StatusCode::OK, role.answer_text())))
}

/// Waits for what a long poll waits for. The answer is made afterwards: its validity begins when it is sent.
async fn wait(context: &Context, role: &RoleHandle, poll: LongPoll) {
    let now_at = role.snapshot().index;
    // An index above ours was given by an earlier process: what that client knows is past.
    if poll.index.is_some_and(|index| index != now_at) {
        return;
    }
    tokio::select! {
        () = role.changed_past(now_at) => {}
        () = context.stopped() => {}
        () = tokio::time::sleep(poll.wait) => {}
    }
}

/// `GET, HEAD, OPTIONS /leading[/{role}]`. A script acts on a 200 as on `leader: true`, so it is as much of a promise.
pub(super) fn leading(context: &Context, name: Option<&str>) -> Result<Told, Problem> {
    let answer = find(context, name)?.answer_text();
    let status = if answer.leader { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    Ok(Told::from(status, answer))
}

/// `GET /roles`
pub(super) fn roles(context: &Context) -> Response {
    let answers: Vec<_> = context.roles.all().iter().map(RoleHandle::answer).collect();
    json(StatusCode::OK, &answers)
}

/// What the Kubernetes leader-elector sidecar answers on `/`: the holder's name, empty when it is not known.
#[derive(Serialize)]
struct Named<'a> {
    name: &'a str,
}

/// `GET /` for everyone but browsers. An app that finds its own name there takes itself for the leader, so that is a
/// promise too, and its name is left out when none can be made: while draining, or when another pod has the same name.
pub(super) fn named(context: &Context) -> Result<Response, Problem> {
    let answer = find(context, None)?.answer();
    let holder = answer.holder.as_ref().filter(|holder| answer.leader || **holder != answer.identity);
    Ok(json(StatusCode::OK, &Named { name: holder.map_or("", |holder| holder) }))
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct IsLeader {
    is_leader: bool,
}

/// `GET /isLeader`
pub(super) fn is_leader(context: &Context) -> Result<Response, Problem> {
    let answer = find(context, None)?.answer();
    Ok(json(StatusCode::OK, &IsLeader { is_leader: answer.leader }))
}
