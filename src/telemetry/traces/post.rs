//! One request with spans, by the HTTP client that Baton has anyway.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::header::{HOST, HeaderValue};
use hyper::{Request, Response, Uri};
use opentelemetry_http::{HttpClient, HttpError};
use tokio::time::timeout;

use crate::http::client;

/// From the connection to the end of the answer; the default of OpenTelemetry's own exporters.
const ANSWER_MAX: Duration = Duration::from_secs(10);
/// More than a collector has to say.
const ANSWER_BYTES_MAX: usize = 64 << 10;

/// Sends, and says once in the life of a process that it cannot. Only for the thread of the SDK's batch processor.
#[derive(Default)]
pub(super) struct Post {
    told: AtomicBool,
}

impl fmt::Debug for Post {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Post")
    }
}

impl Post {
    fn send(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        // The SDK's thread has no runtime, and the sidecar's own must never be busy with this.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let answer = runtime.block_on(async { timeout(ANSWER_MAX, exchange(request)).await });
        // A name that is still being resolved would hold this thread up.
        runtime.shutdown_background();
        answer.unwrap_or_else(|_| Err(format!("no answer within {ANSWER_MAX:?}").into()))
    }

    fn warn_once(&self, reason: &str) {
        if !self.told.swap(true, Ordering::Relaxed) {
            tracing::warn!(reason, "the collector does not take spans; they are dropped, and this is said only once");
        }
    }
}

#[async_trait]
impl HttpClient for Post {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let answer = self.send(request);
        match &answer {
            Ok(answer) if answer.status().is_success() => {}
            Ok(answer) => self.warn_once(&format!("it answers {}", answer.status())),
            Err(error) => self.warn_once(&error.to_string()),
        }
        answer
    }
}

async fn exchange(request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
    let (mut head, body) = request.into_parts();
    let host = head.uri.host().ok_or("the endpoint names no host")?.to_owned();
    let port = head.uri.port_u16().unwrap_or(80);
    // A user and password, if the URL has them, are no part of it.
    head.headers.insert(HOST, HeaderValue::try_from(format!("{host}:{port}"))?);
    head.uri = head.uri.path_and_query().map_or_else(|| Uri::from_static("/"), |path| Uri::from(path.clone()));
    let stream = client::connect(&host, port, ANSWER_MAX).await?;
    let (head, body) = client::send(stream, Request::from_parts(head, Full::new(body))).await?.into_parts();
    let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await?.to_bytes();
    Ok(Response::from_parts(head, body))
}
