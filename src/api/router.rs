//! From method and path to the call. One filter and one match: a chain of filters would be tried anew for each request.

use std::sync::Arc;

use futures_util::Stream;
use hyper::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, StatusCode, Uri};
use warp::path::FullPath;
use warp::reply::Response;
use warp::{Buf, Filter, Rejection};

use super::leader::{Told, problem};
use super::page::File;
use super::params::EventView;
use super::{Context, control, events, leader, part, status};
use crate::http::{Calls, Problem, ProblemKind, shard_slash};

/// The largest body of any request.
pub const BODY_BYTES_MAX: usize = 64 * 1024;

/// Every path of this listener's own with its methods, as `Allow` lists them. `openapi.yaml` has the same, and those of
/// the other parts; a test compares.
pub const ROUTES: [(&str, &str); 14] = [
    ("/", "GET"),
    ("/isLeader", "GET"),
    ("/leader", "GET"),
    ("/leader/{role}", "GET"),
    ("/leader/{role}/drained", "POST"),
    ("/leader/{role}/resign", "POST"),
    ("/leading", "GET, HEAD, OPTIONS"),
    ("/leading/{role}", "GET, HEAD, OPTIONS"),
    ("/roles", "GET"),
    ("/events", "GET"),
    ("/status", "GET"),
    ("/page.css", "GET"),
    ("/page.js", "GET"),
    ("/openapi.yaml", "GET"),
];

const OPENAPI: &str = include_str!("openapi.yaml");
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Route<'a> {
    Root,
    IsLeader,
    Leader(Option<&'a str>),
    Drained(&'a str),
    Resign(&'a str),
    Leading(Option<&'a str>),
    Roles,
    Events,
    Status,
    Page(File),
    OpenApi,
}

/// Whose call a path is.
enum Owner<'a> {
    /// The listener's own.
    Here(Route<'a>),
    /// Another part's.
    Part(&'a dyn Calls),
}

impl<'a> Route<'a> {
    fn find(path: &'a str) -> Option<Self> {
        let path = path.strip_prefix('/')?;
        Some(match path {
            "" => Self::Root,
            "isLeader" => Self::IsLeader,
            "leader" => Self::Leader(None),
            "leading" => Self::Leading(None),
            "roles" => Self::Roles,
            "events" => Self::Events,
            "status" => Self::Status,
            "page.css" => Self::Page(File::Style),
            "page.js" => Self::Page(File::Script),
            "openapi.yaml" => Self::OpenApi,
            _ => {
                let (call, rest) = path.split_once('/')?;
                match (call, role_first(rest)?) {
                    ("leader", (role, None)) => Self::Leader(Some(role)),
                    ("leading", (role, None)) => Self::Leading(Some(role)),
                    ("leader", (role, Some("resign"))) => Self::Resign(role),
                    ("leader", (role, Some("drained"))) => Self::Drained(role),
                    _ => return None,
                }
            }
        })
    }

    fn allow(self) -> &'static str {
        match self {
            Self::Leading(_) => "GET, HEAD, OPTIONS",
            Self::Drained(_) | Self::Resign(_) => "POST",
            _ => "GET",
        }
    }
}

/// A role's name, or a shard's, and what follows it, if anything does: `scheduler`, `scheduler/3`,
/// `scheduler/3/resign`.
fn role_first(path: &str) -> Option<(&str, Option<&str>)> {
    let mut slashes = path.match_indices('/').map(|(at, _)| at);
    let Some(first) = slashes.next() else { return Some((path, None)) };
    let second = slashes.next();
    let between = &path[first + 1..second.unwrap_or(path.len())];
    if between.is_empty() || !between.bytes().all(|b| b.is_ascii_digit()) {
        return second.is_none().then_some((&path[..first], Some(between)));
    }
    let Some(second) = second else { return Some((path, None)) };
    slashes.next().is_none().then_some((&path[..second], Some(&path[second + 1..])))
}

/// The whole listener as one filter. It answers every request and rejects none.
pub(super) fn filter(
    context: Arc<Context>,
) -> impl Filter<Extract = (Response,), Error = Rejection> + Clone + Send + Sync {
    let query = warp::query::raw().or(warp::any().map(String::new)).unify();
    let context = warp::any().map(move || Arc::clone(&context));
    warp::method()
        .and(warp::path::full())
        .and(query)
        .and(warp::header::headers_cloned())
        .and(warp::body::stream())
        .and(context)
        .then(|method, path: FullPath, query: String, headers, body, context: Arc<Context>| async move {
            answer(&context, &method, path.as_str(), &query, &headers, body).await.unwrap_or_else(problem)
        })
}

/// The answer to a plain poll; none for every other request. Polls are what an app sends before each of its steps. They
/// have no body to read and nothing to wait for, so they need not pass the filter, which costs more than their answer.
pub(super) fn at_once(context: &Context, method: &Method, uri: &Uri) -> Option<Result<Told, Problem>> {
    if *method != Method::GET || uri.query().is_some() {
        return None;
    }
    let path = shard_slash(uri.path());
    match Route::find(&path)? {
        Route::Leader(role) => Some(leader::now(context, role)),
        Route::Leading(role) => Some(leader::leading(context, role)),
        _ => None,
    }
}

async fn answer<B: Buf>(
    context: &Arc<Context>,
    method: &Method,
    path: &str,
    query: &str,
    headers: &HeaderMap,
    body: impl Stream<Item = Result<B, warp::Error>>,
) -> Result<Response, Problem> {
    let path = &*shard_slash(path);
    let (owner, allow) = find(context, path)?;
    if !allow.split(", ").any(|allowed| allowed == method.as_str()) {
        return Err(Problem::method_not_allowed(allow));
    }
    let route = match owner {
        Owner::Here(route) => route,
        Owner::Part(calls) => return part::answer(context, calls, (method, path, query), headers, body).await,
    };
    match route {
        Route::Leader(role) => leader::leader(context, role, query).await,
        Route::Leading(role) => leader::leading(context, role).map(leader::whole),
        Route::Roles => Ok(leader::roles(context)),
        Route::Events => Ok(events::stream(context, EventView::parse(query)?, headers.get(LAST_EVENT_ID))),
        Route::Status => Ok(status::status(context)),
        Route::Resign(role) => control::resign(context, role, headers, body).await,
        Route::Drained(role) => control::drained(context, role).await,
        Route::Root if wants_html(headers) => Ok(File::Page.response()),
        Route::Page(file) => Ok(file.response()),
        Route::Root => leader::named(context),
        Route::IsLeader => leader::is_leader(context),
        Route::OpenApi => Ok(openapi()),
    }
}

fn find<'a>(context: &'a Context, path: &'a str) -> Result<(Owner<'a>, &'static str), Problem> {
    if let Some(route) = Route::find(path) {
        return Ok((Owner::Here(route), route.allow()));
    }
    let mut parts = context.options.parts.iter().map(|part| &**part);
    if let Some(found) = parts.find_map(|part| Some((Owner::Part(part), part.allow(path)?))) {
        return Ok(found);
    }
    let shown: String = path.chars().take(100).collect();
    Err(Problem::new(ProblemKind::UnknownPath, format!("there is nothing at {shown:?}; see /openapi.yaml")))
}

/// Whether a request is for one of the page's files, which hold nothing of this replica.
pub(super) fn is_page(method: &Method, path: &str, headers: &HeaderMap) -> bool {
    let found = Route::find(path);
    *method == Method::GET
        && (found == Some(Route::Root) && wants_html(headers) || matches!(found, Some(Route::Page(_))))
}

/// Browsers name text/html; curl and HTTP libraries say */* or nothing.
fn wants_html(headers: &HeaderMap) -> bool {
    let accepts = headers.get_all(ACCEPT).into_iter().filter_map(|value| value.to_str().ok());
    accepts.flat_map(|value| value.split(',')).any(|range| {
        range.split(';').next().is_some_and(|media_type| media_type.trim().eq_ignore_ascii_case("text/html"))
    })
}

fn openapi() -> Response {
    let mut response = Response::new(OPENAPI.into());
    *response.status_mut() = StatusCode::OK;
    // RFC 9512
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/yaml"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_listed_path_is_routed_with_the_methods_listed() {
        for (template, allow) in ROUTES {
            let path = template.replace("{role}", "scheduler");
            assert_eq!(Route::find(&path).map(Route::allow), Some(allow), "{template}");
        }
    }

    #[test]
    fn nothing_is_found_beside_the_listed_paths() {
        for path in [
            "",
            "*",
            "leader",
            "//",
            "/leader/a/",
            "/leader/a/resign/",
            "/leader/a/b",
            "/leader/a/0/",
            "/leader/a/0/1",
            "/leader/a/0/resign/",
            "/leader/a/0/resign/0",
            "/leader/a//",
            "/leader%2Fa",
            "/leading/a/0/resign",
            "/roles/",
            "/leading/a/b",
            "/Leader",
            "/isleader",
        ] {
            assert_eq!(Route::find(&shard_slash(path)), None, "{path:?}");
        }
        for (path, route) in [
            ("/leader/a/0", Route::Leader(Some("a/0"))),
            ("/leader/a%2F12", Route::Leader(Some("a/12"))),
            ("/leading/a%2f12", Route::Leading(Some("a/12"))),
            ("/leader/a/12/resign", Route::Resign("a/12")),
            ("/leader/a%2F12/drained", Route::Drained("a/12")),
        ] {
            assert_eq!(Route::find(&shard_slash(path)), Some(route), "{path}");
        }
        assert_eq!(Route::find("/leader/"), Some(Route::Leader(Some(""))), "the role with the empty name is unknown");
    }
}
