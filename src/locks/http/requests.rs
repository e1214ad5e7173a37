//! What requests for locks say in their paths, queries and bodies.

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;

use super::super::acquire::Want;
use super::super::service::LockSettings;
use crate::base::duration;
use crate::config::LOCK_LEASE_MIN;
use crate::http::{
    Problem, ProblemKind, bad_body, bad_parameter, bad_value, decode_segment, read_body, read_encoded_query,
    read_query, shown,
};
use crate::protocol::{LockId, LockName, NAMES_MAX, OWNER_BYTES_MAX, PERMITS_MAX, Token};

/// The longest that a request waits for a lock.
const WAIT_MAX: Duration = Duration::from_secs(60 * 60);

/// The longest end that a connection may set itself: one that is to last longer asks again.
const HELD_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// How many locks are listed when nobody says.
const LIMIT_DEFAULT: usize = 20;
/// Each costs a look at the store.
const LIMIT_MAX: usize = 100;

/// The body of `POST /locks/{name}`, and with `names` of `POST /locks`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct AcquireBody {
    names: Option<Vec<String>>,
    owner: Option<String>,
    wait: Option<String>,
    lease: Option<String>,
    #[serde(rename = "atLeast")]
    at_least: Option<String>,
    fair: Option<bool>,
    permits: Option<u32>,
}

/// The body of `PUT /locks/{name}/{id}`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct ExtendBody {
    lease: Option<String>,
}

/// The body of `DELETE /locks/{name}`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct UnlockBody {
    token: Option<u64>,
}

/// Which locks are listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Listing {
    /// Those that are used through this sidecar, so many at the most.
    Here { limit: usize },
    /// The store's, from what `next` said on the page before; 0 at first.
    All { after: u64 },
}

impl Listing {
    pub(super) fn parse(query: &str) -> Result<Self, Problem> {
        let [all, after, limit] = read_query(query, ["all", "after", "limit"])?;
        let all = all.map(|value| yes_or_no("all", value)).transpose()?;
        let after = after.map(|value| {
            let what = "what `next` said on the page before is wanted";
            value.parse().map_err(|_| bad_value("after", value, what))
        });
        let after = after.transpose()?;
        let limit = limit.map(|value| {
            let given = value.parse().ok().filter(|given| (1..=LIMIT_MAX).contains(given));
            given.ok_or_else(|| bad_value("limit", value, format_args!("1 to {LIMIT_MAX}")))
        });
        let limit = limit.transpose()?;
        match (all.unwrap_or(false), limit, after) {
            (true, Some(_), _) => Err(bad_parameter("limit is not for all=true, whose pages have about 100 locks")),
            (true, None, after) => Ok(Self::All { after: after.unwrap_or(0) }),
            (false, _, Some(_)) => Err(bad_parameter("after is for all=true")),
            (false, limit, None) => Ok(Self::Here { limit: limit.unwrap_or(LIMIT_DEFAULT) }),
        }
    }
}

/// The token of an unlock.
pub(super) fn token(body: &[u8]) -> Result<Token, Problem> {
    let UnlockBody { token } = read_body(body)?;
    let token = token.ok_or_else(|| bad_body("token is missing: which was seen?"))?;
    let known = Token::new(token).filter(|token| *token > Token::NONE);
    known.ok_or_else(|| bad_body(format!("token {token}: 1 to {}", Token::LIMIT - 1)))
}

/// The name in a path.
pub(super) fn name(segment: &str) -> Result<LockName, Problem> {
    let bad = |why: String| bad_parameter(format!("the lock {:?}: {why}", shown(segment)));
    let text = decode_segment(segment).map_err(|why| bad(why.to_owned()))?;
    LockName::new(text).map_err(|error| bad(error.to_string()))
}

/// The id in a path.
pub(super) fn id(segment: &str) -> Result<LockId, Problem> {
    segment.parse().map_err(|()| {
        let detail = format!("{:?} is not the id of a lock, which has 32 hexadecimal digits", shown(segment));
        Problem::new(ProblemKind::UnknownLock, detail)
    })
}

/// What a body asks for of one lock.
pub(super) fn want_one(name: LockName, body: &[u8], settings: &LockSettings) -> Result<Want, Problem> {
    let body: AcquireBody = read_body(body)?;
    if body.names.is_some() {
        return Err(bad_body("names belongs to POST /locks; here the path names the lock"));
    }
    want(vec![name], body, settings).map_err(bad_body)
}

/// What a body asks for of several locks.
pub(super) fn want_several(body: &[u8], settings: &LockSettings) -> Result<Want, Problem> {
    let mut body: AcquireBody = read_body(body)?;
    let given = body.names.take().ok_or_else(|| bad_body("names is missing: which locks?"))?;
    if given.is_empty() || given.len() > NAMES_MAX {
        return Err(bad_body(format!("names has {} names; use 1 to {NAMES_MAX}", given.len())));
    }
    if body.fair == Some(true) {
        return Err(bad_body("fair is for one lock: a queue over several could wait for itself"));
    }
    let mut names = Vec::with_capacity(given.len());
    for text in given {
        let short = shown(&text);
        names.push(LockName::new(text).map_err(|error| bad_body(format!("names: {short:?}: {error}")))?);
    }
    names.sort();
    if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(bad_body(format!("names has {:?} twice", shown(twice[0].as_str()))));
    }
    want(names, body, settings).map_err(bad_body)
}

/// What a query asks for of one lock, and for how long the connection may hold it.
pub(super) fn want_held(
    name: LockName,
    query: &str,
    settings: &LockSettings,
) -> Result<(Want, Option<Duration>), Problem> {
    let known = ["wait", "owner", "lease", "atLeast", "max", "permits", "fair"];
    let [wait, owner, lease, at_least, max, permits, fair] = read_encoded_query(query, known)?;
    let max = max.map(|value| held_max(&value).map_err(bad_parameter)).transpose()?;
    let permits = permits.map(|value| value.parse().map_err(|_| bad_value("permits", &value, "a number is wanted")));
    let fair = fair.map(|value| yes_or_no("fair", &value));
    let (permits, fair) = (permits.transpose()?, fair.transpose()?);
    let body = AcquireBody { names: None, owner, wait, lease, at_least, fair, permits };
    Ok((want(vec![name], body, settings).map_err(bad_parameter)?, max))
}

fn yes_or_no(name: &str, value: &str) -> Result<bool, Problem> {
    value.parse().map_err(|_| bad_value(name, value, "true or false is wanted"))
}

fn held_max(text: &str) -> Result<Duration, String> {
    let given = duration::parse(text).map_err(|why| format!("max {:?} {why}", shown(text)))?;
    if given < LOCK_LEASE_MIN || given > HELD_MAX {
        return Err(format!("max {:?}: from {LOCK_LEASE_MIN:?} to 24h", shown(text)));
    }
    Ok(given)
}

fn want(names: Vec<LockName>, body: AcquireBody, settings: &LockSettings) -> Result<Want, String> {
    let wait = body.wait.as_deref().map(wait).transpose()?.unwrap_or(Duration::ZERO);
    let lease = body.lease.as_deref().map(|text| lease(text, settings)).transpose()?.unwrap_or(settings.lease);
    let at_least = body.at_least.as_deref().map(|text| at_least(text, lease)).transpose()?.unwrap_or(Duration::ZERO);
    let permits = body.permits.unwrap_or(1);
    if !(1..=PERMITS_MAX).contains(&permits) {
        return Err(format!("permits {permits}: use 1 to {PERMITS_MAX}"));
    }
    let owner = body.owner.map(owner).transpose()?;
    Ok(Want { names, owner, once: false, wait, lease, at_least, permits, fair: body.fair.unwrap_or(false) })
}

fn wait(text: &str) -> Result<Duration, String> {
    let given = duration::parse(text).map_err(|why| format!("wait {:?} {why}", shown(text)))?;
    if given > WAIT_MAX { Err(format!("wait {:?}: at most 1h", shown(text))) } else { Ok(given) }
}

fn lease(text: &str, settings: &LockSettings) -> Result<Duration, String> {
    let given = duration::parse(text).map_err(|why| format!("lease {:?} {why}", shown(text)))?;
    let max = settings.lease_max;
    if given < LOCK_LEASE_MIN || given > max {
        return Err(format!("lease {:?}: from {LOCK_LEASE_MIN:?} to {max:?} (locks.maxLease)", shown(text)));
    }
    Ok(given)
}

fn at_least(text: &str, lease: Duration) -> Result<Duration, String> {
    let given = duration::parse(text).map_err(|why| format!("atLeast {:?} {why}", shown(text)))?;
    if given <= lease { Ok(given) } else { Err(format!("atLeast {:?}: at most the lease of {lease:?}", shown(text))) }
}

fn owner(text: String) -> Result<Arc<str>, String> {
    if text.is_empty() || text.len() > OWNER_BYTES_MAX {
        return Err(format!("owner has {} bytes; use 1 to {OWNER_BYTES_MAX}, or leave it out", text.len()));
    }
    if text.chars().any(char::is_control) {
        return Err("owner has a control character; use printable text".to_owned());
    }
    Ok(text.into())
}

/// The lease that an extension asks for; none: as it was granted.
pub(super) fn new_lease(body: &[u8], settings: &LockSettings) -> Result<Option<Duration>, Problem> {
    let body: ExtendBody = read_body(body)?;
    body.lease.map(|text| lease(&text, settings)).transpose().map_err(bad_body)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> LockSettings {
        LockSettings {
            identity: "web-0".into(),
            lease: Duration::from_secs(30),
            lease_max: Duration::from_secs(3_600),
            guard: None,
            waiters_max: 10,
            failing_checks: tokio::sync::watch::channel(0).1,
        }
    }

    fn lock(text: &str) -> LockName {
        LockName::new(text).unwrap()
    }

    #[test]
    fn a_body_says_all_there_is_to_say() {
        let body = br#"{"owner":"worker-7","wait":"0m5s","lease":"10.0s","atLeast":"10s","fair":true,"permits":3}"#;
        let wanted = Want {
            names: vec![lock("a")],
            owner: Some("worker-7".into()),
            once: false,
            wait: Duration::from_secs(5),
            lease: Duration::from_secs(10),
            at_least: Duration::from_secs(10),
            permits: 3,
            fair: true,
        };
        assert_eq!(want_one(lock("a"), body, &settings()).unwrap(), wanted);
        let query = "owner=worker%2D7&wait=5s&lease=10s&atLeast=10s&fair=true&permits=3";
        assert_eq!(want_held(lock("a"), query, &settings()).unwrap(), (wanted, None));
        assert_eq!(want_held(lock("a"), "max=10m", &settings()).unwrap().1, Some(Duration::from_secs(600)));
        let plain = want_one(lock("a"), b"", &settings()).unwrap();
        assert_eq!((plain.wait, plain.lease.as_secs(), plain.permits, plain.owner), (Duration::ZERO, 30, 1, None));
        assert_eq!(plain.at_least, Duration::ZERO);
        let several = want_several(br#"{"names":["b","a"]}"#, &settings()).unwrap();
        assert_eq!(several.names, [lock("a"), lock("b")], "in one order, whoever asks");
    }

    #[test]
    fn a_list_is_of_this_sidecar_or_of_the_store_page_by_page() {
        assert_eq!(Listing::parse("").unwrap(), Listing::Here { limit: 20 });
        assert_eq!(Listing::parse("all=false&limit=100").unwrap(), Listing::Here { limit: 100 });
        assert_eq!(Listing::parse("all=true").unwrap(), Listing::All { after: 0 });
        let last = Listing::All { after: u64::MAX };
        assert_eq!(Listing::parse("after=18446744073709551615&all=true").unwrap(), last);
        for bad in [
            "limit=0",
            "limit=101",
            "limit=x",
            "limit=1&limit=1",
            "all",
            "all=yes",
            "all=true&all=true",
            "all=true&limit=5",
            "after=1",
            "all=true&after=",
            "all=true&after=-1",
            "all=true&after=18446744073709551616",
            "before=1",
        ] {
            assert_eq!(Listing::parse(bad).unwrap_err().kind(), ProblemKind::BadParameter, "{bad}");
        }
    }

    #[test]
    fn an_unlock_names_a_token_that_there_can_be() {
        assert_eq!(token(br#"{"token":7}"#).unwrap().get(), 7);
        let limit = format!(r#"{{"token":{}}}"#, Token::LIMIT);
        for bad in ["", "{}", "7", r#"{"token":0}"#, r#"{"token":-1}"#, r#"{"token":"7"}"#, r#"{"tokens":7}"#, &limit] {
            assert_eq!(token(bad.as_bytes()).unwrap_err().kind(), ProblemKind::BadBody, "{bad}");
        }
    }

    #[test]
    fn everything_else_is_refused() {
        let long = format!(r#"{{"owner":"{}"}}"#, "x".repeat(201));
        for body in [
            "[]",
            "{",
            r#"{"own":"x"}"#,
            r#"{"wait":5}"#,
            r#"{"wait":"61m"}"#,
            r#"{"wait":"5"}"#,
            r#"{"lease":"99ms"}"#,
            r#"{"lease":"2h"}"#,
            r#"{"atLeast":5}"#,
            r#"{"atLeast":"soon"}"#,
            r#"{"atLeast":"31s"}"#,
            r#"{"lease":"1s","atLeast":"1001ms"}"#,
            r#"{"permits":0}"#,
            r#"{"permits":101}"#,
            r#"{"permits":-1}"#,
            r#"{"owner":""}"#,
            r#"{"owner":"a\u0001"}"#,
            r#"{"names":["a"]}"#,
            &long,
        ] {
            let problem = want_one(lock("a"), body.as_bytes(), &settings()).unwrap_err();
            assert_eq!(problem.kind(), ProblemKind::BadBody, "{body}");
        }
        let many: Vec<String> = (0..17).map(|n| format!("\"{n}\"")).collect();
        let many = format!(r#"{{"names":[{}]}}"#, many.join(","));
        for body in ["{}", r#"{"names":[]}"#, r#"{"names":["a","a"]}"#, r#"{"names":[""]}"#, &many] {
            assert!(want_several(body.as_bytes(), &settings()).is_err(), "{body}");
        }
        assert!(want_several(br#"{"names":["a","b"],"fair":true}"#, &settings()).is_err());
        let bad =
            ["wait", "fair=yes", "permits=x", "names=a", "wait=1s&wait=1s", "owner=%ff", "lease=1ms", "atLeast=1m"];
        for query in bad.into_iter().chain(["max=10", "max=99ms", "max=25h", "max=1m&max=1m"]) {
            let problem = want_held(lock("a"), query, &settings()).unwrap_err();
            assert_eq!(problem.kind(), ProblemKind::BadParameter, "{query}");
        }
        for segment in ["", "%00", "%", &"x".repeat(201), "a%0a"] {
            assert!(name(segment).is_err(), "{segment}");
        }
        assert_eq!(name("orders%2F42").unwrap().as_str(), "orders/42");
        assert!(new_lease(br#"{"lease":"3h"}"#, &settings()).is_err());
        assert_eq!(id("x").unwrap_err().kind(), ProblemKind::UnknownLock);
    }
}
