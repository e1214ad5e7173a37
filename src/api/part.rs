//! What other parts of the process answer on this listener: it reads the request for them and sends their answer.

use std::convert::Infallible;

use futures_util::{Stream, StreamExt};
use hyper::Method;
use hyper::header::HeaderMap;
use warp::reply::Response;
use warp::{Buf, Reply};

use super::Context;
use super::control::read_json;
use crate::http::{Ask, Calls, Content, Problem};

/// Answers one request. `line`: method, path and query.
pub(super) async fn answer<B: Buf>(
    context: &Context,
    calls: &dyn Calls,
    line: (&Method, &str, &str),
    headers: &HeaderMap,
    body: impl Stream<Item = Result<B, warp::Error>>,
) -> Result<Response, Problem> {
    let (method, path, query) = line;
    let takes_body = *method == Method::POST || *method == Method::PUT;
    let body = if takes_body { read_json(context, headers, body).await? } else { Vec::new() };
    let ask = Ask { method: method.clone(), path: path.to_owned(), query: query.to_owned(), body };
    let (head, content) = calls.answer(ask).await?.into_parts();
    let mut response = match content {
        Content::Whole(bytes) => Response::new(bytes.into()),
        Content::Stream(pieces) => warp::reply::stream(pieces.map(Ok::<_, Infallible>)).into_response(),
    };
    *response.status_mut() = head.status;
    response.headers_mut().extend(head.headers);
    Ok(response)
}
