//! What requests for jobs say in their paths, queries and bodies.

use std::sync::Arc;

use hyper::HeaderMap;
use jiff::Timestamp;
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::http::{
    Problem, ProblemKind, bad_body, bad_parameter, bad_value, decode_segment, read_body, read_encoded_query, shown,
};
use crate::protocol::jobs::{DATA_BYTES_MAX, KEY_BYTES_MAX, RunRequest, Slot, Wall};

/// How many runs a page has unless it is asked for another number, and at the most.
const PAGE: usize = 20;
const PAGE_MAX: usize = 100;

/// The body of `POST …/complete`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct CompleteBody {
    succeeded: Option<bool>,
    note: Option<String>,
    attempt: Option<u32>,
}

/// The body of `POST …/heartbeat`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct HeartbeatBody {
    attempt: Option<u32>,
}

/// The body of `POST …/backfill`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct BackfillBody {
    from: Option<Timestamp>,
    to: Option<Timestamp>,
}

/// Which runs are asked for: so many that are older than this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Page {
    pub(super) limit: usize,
    pub(super) before: Option<Slot>,
}

/// A name in a path. One that cannot be a job's is unknown like any other.
pub(super) fn segment(segment: &str) -> Result<String, Problem> {
    decode_segment(segment).map_err(|why| bad_parameter(format!("{:?}: {why}", shown(segment))))
}

/// For calls that take none.
pub(super) fn no_parameters(query: &str) -> Result<(), Problem> {
    if query.is_empty() { Ok(()) } else { Err(bad_parameter(format!("{}: this call takes none", shown(query)))) }
}

/// For calls that take none, or an empty object.
pub(super) fn no_body(body: &[u8]) -> Result<(), Problem> {
    #[derive(Default, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Nothing {}
    read_body::<Nothing>(body).map(|_| ())
}

/// Tells a request that is repeated from another one.
const IDEMPOTENCY_KEY: &str = "idempotency-key";

/// The run that is asked for: what it is given, and the request's key.
pub(super) fn run(headers: &HeaderMap, body: &[u8]) -> Result<RunRequest, Problem> {
    Ok(RunRequest { data: data(body)?, key: key(headers)? })
}

/// JSON as it came; none where there is none, or an empty object.
fn data(body: &[u8]) -> Result<Option<Arc<str>>, Problem> {
    let body = body.trim_ascii();
    if body.is_empty() || (body.starts_with(b"{") && body[1..].trim_ascii() == b"}") {
        return Ok(None);
    }
    if body.len() > DATA_BYTES_MAX {
        let detail = format!("the body has {} bytes; a run is given at most {DATA_BYTES_MAX}", body.len());
        return Err(Problem::new(ProblemKind::BodyTooLarge, detail));
    }
    serde_json::from_slice::<IgnoredAny>(body).map_err(|error| bad_body(error.to_string()))?;
    let text = std::str::from_utf8(body).map_err(|error| bad_body(error.to_string()))?;
    Ok(Some(Arc::from(text)))
}

fn key(headers: &HeaderMap) -> Result<Option<Arc<str>>, Problem> {
    let mut keys = headers.get_all(IDEMPOTENCY_KEY).into_iter();
    let Some(key) = keys.next() else { return Ok(None) };
    let is_good = |text: &&str| (1..=KEY_BYTES_MAX).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_graphic());
    let key = key.to_str().ok().filter(is_good).filter(|_| keys.next().is_none());
    let detail = format!("Idempotency-Key: 1 to {KEY_BYTES_MAX} visible ASCII characters are wanted, once");
    key.map(|key| Some(Arc::from(key))).ok_or_else(|| Problem::new(ProblemKind::BadHeader, detail))
}

/// Which page of runs.
pub(super) fn page(query: &str) -> Result<Page, Problem> {
    let [limit, before] = read_encoded_query(query, ["limit", "before"])?;
    let limit = limit.map(|value| page_limit(&value, PAGE_MAX)).transpose()?;
    let before = before.map(|value| {
        value.parse().map_err(|()| bad_value("before", &value, "what `next` said on the page before is wanted"))
    });
    Ok(Page { limit: limit.unwrap_or(PAGE), before: before.transpose()? })
}

/// How many a page is asked to have.
pub(super) fn page_limit(value: &str, max: usize) -> Result<usize, Problem> {
    let given = value.parse().ok().filter(|given| (1..=max).contains(given));
    given.ok_or_else(|| bad_value("limit", value, format_args!("a number from 1 to {max} is wanted")))
}

/// Which range of the past, both ends included.
pub(super) fn backfill(body: &[u8]) -> Result<(Wall, Wall), Problem> {
    let BackfillBody { from, to } = read_body(body)?;
    let wall = |name: &str, at: Option<Timestamp>| {
        let at = at.ok_or_else(|| bad_body(format!("{name} is missing: a moment such as 2026-11-20T02:00:00Z")))?;
        let early = |_| bad_body(format!("{name} is before 1970"));
        u64::try_from(at.as_millisecond()).map(Wall::from_millis).map_err(early)
    };
    Ok((wall("from", from)?, wall("to", to)?))
}

/// How the app says that its work ended: done, perhaps with a note, or not, and why.
pub(super) type Word = Result<Option<String>, String>;

/// Which attempt the app has finished, and how.
pub(super) fn completion(body: &[u8]) -> Result<(Option<u32>, Word), Problem> {
    let body: CompleteBody = read_body(body)?;
    let word = match body.succeeded {
        Some(true) => Ok(body.note),
        Some(false) => Err(body.note.unwrap_or_else(|| "the app says that it failed".to_owned())),
        None => return Err(bad_body("succeeded is missing: true or false?")),
    };
    Ok((body.attempt, word))
}

/// Which attempt the app is at work on.
pub(super) fn heartbeat(body: &[u8]) -> Result<Option<u32>, Problem> {
    read_body::<HeartbeatBody>(body).map(|body| body.attempt)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_bounded_and_says_where_it_begins() {
        assert_eq!(page("").unwrap(), Page { limit: 20, before: None });
        let before = Some(Slot::Manual(Wall::from_millis(1_234)));
        assert_eq!(page("limit=100&before=manual-1234").unwrap(), Page { limit: 100, before });
        for bad in ["limit=0", "limit=101", "limit=x", "limit=1&limit=2", "before=x", "before=", "after=1", "limit=%f"]
        {
            assert_eq!(page(bad).unwrap_err().kind(), ProblemKind::BadParameter, "{bad}");
        }
    }

    #[test]
    fn a_run_is_given_any_json_of_a_few_kilobytes_and_told_from_others_by_its_key() {
        let none = HeaderMap::new();
        let given = |body: &str| run(&none, body.as_bytes()).map(|request| request.data.map(|data| data.to_string()));
        for nothing in ["", " ", "{}", " { } "] {
            assert_eq!(given(nothing).unwrap(), None, "{nothing:?}");
        }
        for body in ["null", "7", "[1, 2]", "{\"a\": {}}", "\"\u{e9}\""] {
            assert_eq!(given(&format!(" {body}\n")).unwrap().as_deref(), Some(body));
        }
        let long = |bytes: usize| format!("\"{}\"", "x".repeat(bytes - 2));
        assert_eq!(given(&long(4_096)).unwrap().unwrap().len(), 4_096);
        assert_eq!(given(&long(4_097)).unwrap_err().kind(), ProblemKind::BodyTooLarge);
        for bad in ["{", "{} {}", "a", "[1,]"] {
            assert_eq!(given(bad).unwrap_err().kind(), ProblemKind::BadBody, "{bad}");
        }
        assert_eq!(run(&none, b"\"\xff\"").unwrap_err().kind(), ProblemKind::BadBody);
        let with = |keys: &[&str]| {
            let mut headers = HeaderMap::new();
            for key in keys {
                headers.append(IDEMPOTENCY_KEY, key.parse().unwrap());
            }
            run(&headers, b"").map(|request| request.key.map(|key| key.to_string()))
        };
        assert_eq!(with(&["\"8e03978e-40d5\""]).unwrap().as_deref(), Some("\"8e03978e-40d5\""));
        let long = "k".repeat(129);
        for bad in [&["a", "a"][..], &[""], &["a b"], &[&long]] {
            assert_eq!(with(bad).unwrap_err().kind(), ProblemKind::BadHeader, "{bad:?}");
        }
    }

    #[test]
    fn a_backfill_names_both_ends_of_its_range() {
        let range = |body: &str| backfill(body.as_bytes());
        let good = r#"{"from":"1970-01-01T00:00:01Z","to":"1970-01-01T01:00:02.5+01:00"}"#;
        assert_eq!(range(good).unwrap(), (Wall::from_millis(1_000), Wall::from_millis(2_500)));
        for bad in [
            "",
            "{}",
            r#"{"from":"2026-11-20T02:00:00Z"}"#,
            r#"{"from":1,"to":2}"#,
            r#"{"from":"2026-11-20","to":"2026-11-21"}"#,
            r#"{"from":"1969-12-31T23:59:59Z","to":"2026-11-21T00:00:00Z"}"#,
            r#"{"from":"2026-11-20T02:00:00Z","to":"2026-11-20T02:00:00Z","x":1}"#,
        ] {
            assert_eq!(range(bad).unwrap_err().kind(), ProblemKind::BadBody, "{bad}");
        }
    }

    #[test]
    fn a_completion_says_how_it_went() {
        let done = |body: &str| completion(body.as_bytes());
        assert_eq!(done(r#"{"succeeded":true}"#).unwrap(), (None, Ok(None)));
        let noted = (Some(2), Ok(Some("41 rows".to_owned())));
        assert_eq!(done(r#"{"succeeded":true,"note":"41 rows","attempt":2}"#).unwrap(), noted);
        assert_eq!(done(r#"{"succeeded":false,"note":"no disk"}"#).unwrap(), (None, Err("no disk".to_owned())));
        for bad in ["", "{}", "[]", r#"{"succeeded":1}"#, r#"{"succeeded":true,"x":1}"#, r#"{"attempt":-1}"#] {
            assert_eq!(done(bad).unwrap_err().kind(), ProblemKind::BadBody, "{bad}");
        }
        assert_eq!(heartbeat(b"").unwrap(), None);
        assert_eq!(heartbeat(br#"{"attempt":3}"#).unwrap(), Some(3));
        assert!(no_body(b"{}").is_ok() && no_body(b" ").is_ok() && no_body(b"{\"x\":1}").is_err());
    }
}
