//! Answers as the parts of the app's listener give them: never cached.

use bytes::Bytes;
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use hyper::{Response, StatusCode};
use serde::Serialize;

use super::part::Content;

/// An answer with a body.
pub fn answer(status: StatusCode, media_type: &'static str, content: Content) -> Response<Content> {
    let mut response = empty(status, content);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    response
}

/// An answer in JSON. The value must be one that can be written: strings, numbers, lists and objects of them.
pub fn json(status: StatusCode, value: &impl Serialize) -> Response<Content> {
    let body = serde_json::to_vec(value).unwrap_or_default();
    answer(status, "application/json", Content::Whole(body.into()))
}

/// 204
pub fn no_content() -> Response<Content> {
    empty(StatusCode::NO_CONTENT, Content::Whole(Bytes::new()))
}

fn empty(status: StatusCode, content: Content) -> Response<Content> {
    let mut response = Response::new(content);
    *response.status_mut() = status;
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
