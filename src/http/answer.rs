//! Answers, as every handler gives them.

use std::fmt;
use std::pin::Pin;

use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use hyper::StatusCode;
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use serde::Serialize;

/// What a handler answers.
pub type Response = hyper::Response<Content>;

/// What breaks an answer off.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The body of an answer.
pub enum Content {
    /// All of it.
    Whole(Bytes),
    /// One piece after the other. It is dropped as soon as the client is gone; an error closes the connection.
    Stream(Pin<Box<dyn Stream<Item = Result<Bytes, BoxError>> + Send + Sync>>),
}

impl Content {
    /// Pieces that come as they can.
    pub fn stream(pieces: impl Stream<Item = Bytes> + Send + Sync + 'static) -> Self {
        Self::Stream(Box::pin(pieces.map(Ok)))
    }
}

impl fmt::Debug for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole(bytes) => write!(f, "Whole({} bytes)", bytes.len()),
            Self::Stream(_) => f.write_str("Stream"),
        }
    }
}

/// An answer that nobody may keep.
pub fn answer(status: StatusCode, media_type: &'static str, content: Content) -> Response {
    let mut response = document(media_type, content);
    *response.status_mut() = status;
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// An answer in JSON. The value must be one that can be written: strings, numbers, lists and objects of them.
pub fn json(status: StatusCode, value: &impl Serialize) -> Response {
    let body = serde_json::to_vec(value).unwrap_or_default();
    answer(status, "application/json", Content::Whole(body.into()))
}

/// 200 with lines of JSON ([`json_line`]) that follow each other as things happen.
pub fn json_lines(lines: impl Stream<Item = Bytes> + Send + Sync + 'static) -> Response {
    answer(StatusCode::OK, "application/x-ndjson", Content::stream(lines))
}

/// One of [`json_lines`]. The value must be one that can be written, as for [`json`].
pub fn json_line(value: &impl Serialize) -> Bytes {
    let mut line = serde_json::to_vec(value).unwrap_or_default();
    line.push(b'\n');
    line.into()
}

/// 204
pub fn no_content() -> Response {
    let mut response = Response::new(Content::Whole(Bytes::new()));
    *response.status_mut() = StatusCode::NO_CONTENT;
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// 200 with a text of its own kind, of which nothing is said about keeping it.
pub fn document(media_type: &'static str, content: Content) -> Response {
    let mut response = Response::new(content);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    response
}
