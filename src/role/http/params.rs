//! What requests say in their query and bodies.

use std::time::Duration;

use serde::Deserialize;

use crate::base::duration;
use crate::http::{Problem, bad_body, bad_parameter, bad_value, read_body, read_query, shown};
use crate::protocol::{AppHoldId, AppHoldScope};

/// The longest long poll. Longer ones gain nothing and meet the idle bounds of proxies.
pub const WAIT_MAX: Duration = Duration::from_secs(5 * 60);
/// How long `index` without `wait` waits.
pub const WAIT_DEFAULT: Duration = Duration::from_secs(30);
/// The longest wait for the lead. Nothing is sent meanwhile.
pub const HOLD_WAIT_MAX: Duration = Duration::from_secs(60 * 60);
/// The longest that a replica can be asked to stay out.
pub const COOLDOWN_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// `?wait=30s&index=17`, `?hold=1763680000123456-1`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LeaderQuery {
    /// None: an answer is wanted at once.
    pub(super) poll: Option<LongPoll>,
    /// The connection by which who asks shows that it lives.
    pub(super) hold: Option<AppHoldId>,
}

/// What a long poll waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LongPoll {
    /// How long to wait at the most.
    pub(super) wait: Duration,
    /// The index that the client knows; none waits for the next change.
    pub(super) index: Option<u64>,
}

impl LeaderQuery {
    pub(super) fn parse(query: &str) -> Result<Self, Problem> {
        let [wait, index, hold] = read_query(query, ["wait", "index", "hold"])?;
        let wait = wait.map(|value| span("wait", value, WAIT_MAX)).transpose()?;
        let index = index.map(|value| value.parse().map_err(|_| bad_value("index", value, "a number is wanted")));
        let index = index.transpose()?;
        let hold = hold.map(named_hold).transpose()?;
        let poll = match (wait, index) {
            (None, None) => None,
            _ => Some(LongPoll { wait: wait.unwrap_or(WAIT_DEFAULT), index }),
        };
        Ok(Self { poll, hold })
    }
}

/// `?wait=30s&scope=process`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct HoldQuery {
    /// How long to wait for the lead, at the most.
    pub(super) wait: Duration,
    pub(super) scope: AppHoldScope,
}

impl HoldQuery {
    pub(super) fn parse(query: &str) -> Result<Self, Problem> {
        let [wait, scope] = read_query(query, ["wait", "scope"])?;
        let wait = wait.map(|value| span("wait", value, HOLD_WAIT_MAX)).transpose()?;
        let scope = match scope {
            None | Some("pod") => AppHoldScope::Pod,
            Some("process") => AppHoldScope::Process,
            Some(other) => return Err(bad_value("scope", other, "there are process and pod")),
        };
        Ok(Self { wait: wait.unwrap_or_default(), scope })
    }
}

/// `?hold=1763680000123456-1` of a call that takes nothing else.
pub(super) fn hold(query: &str) -> Result<Option<AppHoldId>, Problem> {
    let [hold] = read_query(query, ["hold"])?;
    hold.map(named_hold).transpose()
}

fn named_hold(value: &str) -> Result<AppHoldId, Problem> {
    value.parse().map_err(|()| bad_value("hold", value, "the name that a hold has told"))
}

/// A time to wait that a query names.
fn span(name: &str, value: &str, max: Duration) -> Result<Duration, Problem> {
    let given = duration::parse(value).map_err(|why| bad_parameter(format!("{name}={} {why}", shown(value))))?;
    if given > max {
        return Err(bad_value(name, value, format_args!("at most {max:?}")));
    }
    Ok(given)
}

/// `?view=status`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EventView {
    /// For the app: each event is an answer, and its `leader: true` a promise.
    Answers,
    /// For those who look.
    Status,
}

impl EventView {
    /// Reads a query.
    pub(super) fn parse(query: &str) -> Result<Self, Problem> {
        match query {
            "" => Ok(Self::Answers),
            "view=status" => Ok(Self::Status),
            other => Err(bad_parameter(format!("{}: unknown; there is view=status", shown(other)))),
        }
    }
}

/// The body of `resign`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct ResignBody {
    cooldown: Option<String>,
}

/// The cooldown that a body asks for; none leaves it to the role. An empty body is `{}`.
pub(super) fn cooldown(body: &[u8]) -> Result<Option<Duration>, Problem> {
    let Some(text) = read_body::<ResignBody>(body)?.cooldown else { return Ok(None) };
    let given = duration::parse(&text).map_err(|why| bad_body(format!("cooldown {:?} {why}", shown(&text))))?;
    if given > COOLDOWN_MAX {
        return Err(bad_body(format!("cooldown {:?}: at most 24h", shown(&text))));
    }
    Ok(Some(given))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::ProblemKind;

    #[test]
    fn a_query_is_a_wait_and_an_index_and_nothing_else() {
        let parsed = |query| LeaderQuery::parse(query).map(|asked| asked.poll).map_err(|problem| problem.kind());
        let poll = |ms, index| Ok(Some(LongPoll { wait: Duration::from_millis(ms), index }));
        assert_eq!(parsed(""), Ok(None));
        assert_eq!(parsed("wait=30s&index=17"), poll(30_000, Some(17)));
        assert_eq!(parsed("index=17&wait=250ms"), poll(250, Some(17)));
        assert_eq!(parsed("wait=5m"), poll(300_000, None));
        assert_eq!(parsed("wait=1m30s"), poll(90_000, None));
        assert_eq!(parsed("wait=1.5s"), poll(1_500, None));
        assert_eq!(parsed("index=0"), poll(30_000, Some(0)));
        let held = LeaderQuery::parse("hold=7-1").unwrap();
        assert_eq!((held.poll, held.hold), (None, "7-1".parse().ok()));
        for bad in [
            "wait",
            "wait=",
            "wait=30",
            "wait=-1s",
            "wait=1.5.1s",
            "wait=1s30m",
            "wait=301s",
            "wait=1d",
            "wait=%33s",
            "index=-1",
            "index=x",
            "index=18446744073709551616",
            "wait=1s&wait=1s",
            "indx=1",
            "hold=",
            "hold=7",
            "hold=7-1&hold=7-1",
            "wait=99999999999999999999s",
        ] {
            assert_eq!(parsed(bad), Err(ProblemKind::BadParameter), "{bad}");
        }
    }

    #[test]
    fn a_hold_waits_and_has_a_scope() {
        let parsed = |query| HoldQuery::parse(query).map_err(|problem| problem.kind());
        let hold = |secs, scope| Ok(HoldQuery { wait: Duration::from_secs(secs), scope });
        assert_eq!(parsed(""), hold(0, AppHoldScope::Pod));
        assert_eq!(parsed("scope=process&wait=1h"), hold(3_600, AppHoldScope::Process));
        assert_eq!(parsed("scope=pod"), hold(0, AppHoldScope::Pod));
        for bad in ["wait=61m", "wait=5", "scope", "scope=thread", "scope=pod&scope=pod", "wait=1s&wait=1s", "index=1"]
        {
            assert_eq!(parsed(bad), Err(ProblemKind::BadParameter), "{bad}");
        }
    }

    #[test]
    fn a_cooldown_is_optional_and_bounded() {
        let parsed = |body: &str| cooldown(body.as_bytes()).map_err(|problem| problem.kind());
        assert_eq!((parsed(""), parsed(" \n"), parsed("{}")), (Ok(None), Ok(None), Ok(None)));
        assert_eq!(parsed(r#"{"cooldown":"30s"}"#), Ok(Some(Duration::from_secs(30))));
        for bad in ["[]", "{", r#"{"cooldown":30}"#, r#"{"cooldown":"25h"}"#, r#"{"cool":"1s"}"#, "\u{0}"] {
            assert_eq!(parsed(bad), Err(ProblemKind::BadBody), "{bad}");
        }
    }
}
