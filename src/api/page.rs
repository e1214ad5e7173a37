//! `GET /` for browsers: the roles as a table. No script, no style, nothing loaded from anywhere.

use std::fmt::Write;

use bytes::Bytes;
use hyper::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderValue, X_CONTENT_TYPE_OPTIONS};
use warp::reply::Response;

use super::Context;
use crate::role::{Answer, RoleHandle};

/// Nothing may be loaded, run, framed or posted.
const POLICY: &str = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

pub(super) fn page(context: &Context) -> Response {
    let rows: String = context.roles.all().iter().map(RoleHandle::answer).map(|answer| row(&answer)).collect();
    let text = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>Baton</title></head><body>\n\
         <h1>Baton</h1>\n<table border=\"1\">\n\
         <tr><th>role</th><th>this replica</th><th>state</th><th>leader</th><th>token</th><th>since</th>\
         <th>why</th></tr>\n\
         {rows}</table>\n<p>The API: <a href=\"/openapi.yaml\">openapi.yaml</a></p>\n</body></html>\n"
    );
    let mut response = Response::new(Bytes::from(text).into());
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

fn row(answer: &Answer) -> String {
    let token = answer.token.map(|token| token.to_string()).unwrap_or_default();
    let since = answer.since.to_string();
    let cells = [
        answer.role.as_str(),
        &answer.identity,
        answer.state.as_str(),
        answer.holder.as_deref().unwrap_or("unknown"),
        &token,
        &since,
        answer.reason.as_deref().unwrap_or(""),
    ];
    let mut row = String::from("<tr>");
    for cell in cells {
        // Writing to a string does not fail.
        let _ = write!(row, "<td>{}</td>", escaped(cell));
    }
    row + "</tr>\n"
}

/// Names and reasons come from configuration and from other replicas: text, never markup.
fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            other => safe.push(other),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_name_cannot_become_markup() {
        assert_eq!(super::escaped("<b a='\"'>&"), "&lt;b a=&#39;&quot;&#39;&gt;&amp;");
    }
}
