//! The handler of a job's requests.

use std::collections::HashMap;
use std::fmt::Display;
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, Limited};

/// More than any job sends that somebody has written down.
const BODY_MAX: usize = 1024 * 1024;

/// An attempt of a run, as the sidecar's request tells of it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Run {
    /// The run, the same for all of its attempts: fit as an idempotency key.
    pub id: String,
    /// The slot that it is for, in UTC and RFC 3339: `2026-11-21T02:00:00Z`.
    pub scheduled_time: String,
    /// 1, 2, 3, …
    pub attempt: u32,
    /// The attempt's own fencing token. Hand it on to what the run writes to. Tokens are comparable within the job, and
    /// within its shard, only.
    pub token: u64,
    /// The number of its shard, where the role is split.
    pub shard: Option<u32>,
    /// As it was sent.
    pub body: Bytes,
}

/// Answers the requests of one job, in whatever HTTP server they arrive. Each job needs one of its own, for as long as
/// the process lives: it remembers the greatest token of each shard, and refuses smaller ones.
///
/// ```
/// # use std::{convert::Infallible, sync::Arc};
/// # use axum::{Router, extract::Request, routing::post};
/// # use baton_sidecar::{Job, Run};
/// async fn report(run: Run) -> Result<String, std::io::Error> {
///     Ok(format!("{} is done", run.id))
/// }
///
/// let nightly = Arc::new(Job::new(report));
/// // In axum
/// # let job = Arc::clone(&nightly);
/// let app: Router = Router::new().route("/nightly", post(async move |request: Request| job.handle(request).await));
/// // In hyper
/// # let job = nightly;
/// let service = hyper::service::service_fn(async |request| Ok::<_, Infallible>(job.handle(request).await));
/// # async fn check<S: hyper::service::Service<http::Request<hyper::body::Incoming>>>(_: S) {}
/// # let _ = check(service);
/// ```
#[derive(Debug)]
pub struct Job<W> {
    work: W,
    greatest: Mutex<HashMap<Option<u32>, u64>>,
}

impl<W> Job<W> {
    /// The work is called for each attempt. What it returns is the attempt's note; its error is the note of a failure.
    pub fn new<F, T, E>(work: W) -> Self
    where
        W: Fn(Run) -> F,
        F: Future<Output = Result<T, E>>,
        T: Into<Bytes>,
        E: Display,
    {
        Self { work, greatest: Mutex::default() }
    }

    /// Answers a request: 200 with what the work returned, 500 with its error. The work is not begun, and the answer is
    /// 400 where the request is not one of the sidecar's, or has more than 1 MiB, and 409 where a later leader has sent
    /// a greater token.
    ///
    /// When the sidecar lets go of a request, most servers drop this future, and with it the work.
    pub async fn handle<F, T, E, B>(&self, request: Request<B>) -> Response<Full<Bytes>>
    where
        W: Fn(Run) -> F,
        F: Future<Output = Result<T, E>>,
        T: Into<Bytes>,
        E: Display,
        B: http_body::Body,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let run = match read(request).await {
            Ok(run) => run,
            Err(why) => return answer(StatusCode::BAD_REQUEST, why),
        };
        if let Err(greatest) = self.admit(&run) {
            return answer(StatusCode::CONFLICT, format!("token {}: {greatest} has been seen", run.token));
        }
        match (self.work)(run).await {
            Ok(note) => answer(StatusCode::OK, note),
            Err(error) => answer(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
        }
    }

    /// An equal token passes. A greater one was seen: it is returned.
    fn admit(&self, run: &Run) -> Result<(), u64> {
        let mut greatest = self.greatest.lock().unwrap_or_else(PoisonError::into_inner);
        let greatest = greatest.entry(run.shard).or_default();
        if run.token < *greatest {
            return Err(*greatest);
        }
        *greatest = run.token;
        Ok(())
    }
}

async fn read<B>(request: Request<B>) -> Result<Run, String>
where
    B: http_body::Body,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let (head, body) = request.into_parts();
    let headers = &head.headers;
    Ok(Run {
        id: text(headers, "baton-run-id")?.to_owned(),
        scheduled_time: text(headers, "baton-scheduled-time")?.to_owned(),
        attempt: number(headers, "baton-attempt")?,
        token: number(headers, "baton-fencing-token")?,
        shard: headers.contains_key("baton-shard").then(|| number(headers, "baton-shard")).transpose()?,
        body: Limited::new(body, BODY_MAX).collect().await.map_err(|error| format!("the body: {error}"))?.to_bytes(),
    })
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Result<&'a str, String> {
    let value = headers.get(name).ok_or_else(|| format!("{name} is missing: this is for a job's requests"))?;
    value.to_str().map_err(|error| format!("{name}: {error}"))
}

fn number<N: std::str::FromStr<Err: Display>>(headers: &HeaderMap, name: &str) -> Result<N, String> {
    text(headers, name)?.parse().map_err(|error| format!("{name}: {error}"))
}

fn answer(status: StatusCode, text: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(text.into()));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    fn request(token: &str, others: &[(&'static str, &str)]) -> Request<Full<Bytes>> {
        let mut request = Request::new(Full::from("in"));
        let all = [
            ("baton-run-id", "nightly-1763690400"),
            ("baton-scheduled-time", "2025-11-21T02:00:00Z"),
            ("baton-attempt", "2"),
            ("baton-fencing-token", token),
        ];
        for (name, value) in all.iter().chain(others) {
            request.headers_mut().insert(*name, HeaderValue::from_str(value).unwrap());
        }
        request
    }

    async fn told(response: Response<Full<Bytes>>) -> (u16, String) {
        let status = response.status().as_u16();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (status, String::from_utf8(body.to_vec()).unwrap())
    }

    #[tokio::test]
    async fn the_work_is_told_all_that_the_request_says() {
        let job = Job::new(async |run: Run| Ok::<_, String>(format!("{run:?}")));
        let (status, note) = told(job.handle(request("41", &[("baton-shard", "3")])).await).await;
        let run = Run {
            id: "nightly-1763690400".to_owned(),
            scheduled_time: "2025-11-21T02:00:00Z".to_owned(),
            attempt: 2,
            token: 41,
            shard: Some(3),
            body: Bytes::from("in"),
        };
        assert_eq!((status, note), (200, format!("{run:?}")));
    }

    #[tokio::test]
    async fn what_the_work_fails_with_is_the_answer() {
        let job = Job::new(async |_| Err::<&str, _>("the printer is on fire"));
        let response = told(job.handle(request("41", &[])).await).await;
        assert_eq!(response, (500, "the printer is on fire".to_owned()));
    }

    #[tokio::test]
    async fn a_smaller_token_begins_nothing() {
        let begun = AtomicUsize::new(0);
        let job = Job::new(async |_| {
            begun.fetch_add(1, Ordering::SeqCst);
            Ok::<_, String>("")
        });
        let mut statuses = Vec::new();
        for (token, shard) in [("41", "0"), ("41", "0"), ("42", "0"), ("41", "0"), ("40", "1"), ("39", "1")] {
            statuses.push(job.handle(request(token, &[("baton-shard", shard)])).await.status().as_u16());
        }
        assert_eq!(statuses, [200, 200, 200, 409, 200, 409]);
        assert_eq!(begun.load(Ordering::SeqCst), 4);
    }

    #[tokio::test]
    async fn what_no_sidecar_sends_is_refused() {
        let job = Job::new(async |_| Ok::<_, String>("called"));
        for name in ["baton-run-id", "baton-scheduled-time", "baton-attempt", "baton-fencing-token"] {
            let mut request = request("41", &[]);
            request.headers_mut().remove(name);
            let (status, why) = told(job.handle(request).await).await;
            assert!(status == 400 && why.contains(name), "{status} {why}");
        }
        for strange in [[("baton-attempt", "x")], [("baton-fencing-token", "-1")], [("baton-shard", "")]] {
            assert_eq!(job.handle(request("41", &strange)).await.status(), StatusCode::BAD_REQUEST, "{strange:?}");
        }
        let large = request("41", &[]).map(|_| Full::<Bytes>::from(vec![0; BODY_MAX + 1]));
        assert_eq!(job.handle(large).await.status(), StatusCode::BAD_REQUEST);
    }
}
