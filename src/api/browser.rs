//! What browsers may ask. Any web page may have a browser send requests to this machine, and the browser of somebody
//! who may reach a sidecar reaches it for every page they open; so what it says of where a request comes from decides.
//!
//! Every browser sends `Origin` with what is not GET or HEAD, and those of today (Safari since 16.4) send
//! `Sec-Fetch-Site` with everything to loopback or over HTTPS. Programs send neither, and nothing here concerns them.

use hyper::Method;
use hyper::header::{HeaderMap, HeaderName, ORIGIN};

use crate::http::{Problem, ProblemKind};

const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");
const FETCH_DEST: HeaderName = HeaderName::from_static("sec-fetch-dest");
/// A form cannot send it, and a script on another origin may not without asking first, which is refused.
const MARK: HeaderName = HeaderName::from_static("x-baton-request");

/// Refuses what another site had a browser ask, and what would change something without the mark of a page of ours.
/// `is_ours`: whether what follows `http://` in an origin is one of this listener's names.
pub(super) fn check(
    method: &Method,
    path: &str,
    headers: &HeaderMap,
    is_ours: impl Fn(&str) -> bool,
) -> Result<(), Problem> {
    let word = |name: &HeaderName| headers.get(name).map(|value| value.to_str().unwrap_or(""));
    for origin in headers.get_all(ORIGIN) {
        let host = origin.to_str().ok().and_then(|origin| origin.strip_prefix("http://"));
        if !host.is_some_and(&is_ours) {
            return Err(foreign());
        }
    }
    let site = word(&FETCH_SITE);
    if site.is_none() && !headers.contains_key(ORIGIN) {
        return Ok(());
    }
    // A link from elsewhere may lead to the page: who follows it sees it, and nobody else learns anything.
    let is_link = *method == Method::GET
        && path == "/"
        && word(&FETCH_MODE) == Some("navigate")
        && word(&FETCH_DEST) == Some("document");
    // "none" is who typed the address.
    if !matches!(site, None | Some("same-origin" | "none")) && !is_link {
        return Err(foreign());
    }
    let is_safe = [Method::GET, Method::HEAD, Method::OPTIONS].contains(method);
    if !is_safe && !headers.contains_key(MARK) {
        return Err(Problem::new(
            ProblemKind::UnmarkedRequest,
            "a browser's request that changes something needs the header X-Baton-Request, with any value",
        ));
    }
    Ok(())
}

fn foreign() -> Problem {
    let detail = "the request comes from a web page; only this listener's own pages may ask";
    Problem::new(ProblemKind::ForeignOrigin, detail)
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;

    use super::*;

    fn kind(line: &str, headers: &[(&str, &'static str)]) -> Option<ProblemKind> {
        let (method, path) = line.split_once(' ').unwrap();
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(name.parse::<HeaderName>().unwrap(), HeaderValue::from_static(value));
        }
        let ours = |host: &str| host == "localhost:4040";
        check(&method.parse().unwrap(), path, &map, ours).err().map(|problem| problem.kind())
    }

    const FOREIGN: Option<ProblemKind> = Some(ProblemKind::ForeignOrigin);
    const UNMARKED: Option<ProblemKind> = Some(ProblemKind::UnmarkedRequest);

    #[test]
    fn programs_are_not_concerned() {
        for line in ["POST /leader/a/resign", "DELETE /locks/a/1", "PUT /locks/a/1", "GET /locks/a/hold", "POST /locks"]
        {
            assert_eq!(kind(line, &[("user-agent", "curl/8")]), None, "{line}");
        }
    }

    #[test]
    fn a_page_of_ours_changes_something_only_with_the_mark() {
        let ours = [("origin", "http://localhost:4040"), ("sec-fetch-site", "same-origin")];
        let marked = [ours[0], ours[1], ("x-baton-request", "page")];
        for line in ["POST /leader/a/resign", "DELETE /locks/a/1", "PUT /locks/a/1", "PATCH /x"] {
            assert_eq!((kind(line, &ours), kind(line, &marked)), (UNMARKED, None), "{line}");
            assert_eq!(kind(line, &ours[..1]), UNMARKED, "an older browser sends only the origin");
            assert_eq!(kind(line, &[("sec-fetch-site", "none")]), UNMARKED, "{line}");
        }
        assert_eq!(kind("GET /status", &ours[1..]), None);
    }

    #[test]
    fn another_site_may_only_link_to_the_page() {
        let link = [("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "document")];
        for site in ["cross-site", "same-site", "", "something new"] {
            let site = ("sec-fetch-site", site);
            let linked = [site, link[0], link[1]];
            assert_eq!(kind("GET /", &linked), None, "{site:?}");
            for line in ["GET /locks/a/hold", "GET /leader", "GET /events", "GET /page.js", "POST /"] {
                assert_eq!(kind(line, &linked), FOREIGN, "{line} {site:?}");
                let marked = [site, ("x-baton-request", "page")];
                assert_eq!(kind(line, &marked), FOREIGN, "the mark does not help: {line} {site:?}");
            }
            assert_eq!(kind("GET /", &[site, link[0], ("sec-fetch-dest", "iframe")]), FOREIGN);
            assert_eq!(kind("GET /", &[site, ("sec-fetch-mode", "no-cors")]), FOREIGN);
        }
        let marked = ("x-baton-request", "page");
        assert_eq!(kind("POST /leader/a/resign", &[("origin", "null"), marked]), FOREIGN);
        let two = [("origin", "http://localhost:4040"), ("origin", "http://evil.example"), marked];
        assert_eq!(kind("POST /leader/a/resign", &two), FOREIGN);
    }
}
