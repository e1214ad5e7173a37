//! Jobs that are made at run time: the same words as in the file, and some more, in JSON. Nothing of this process's
//! surroundings gets into one: no variable is filled in, no file is read, and no program is run, for whoever reaches
//! the app's listener can make them.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::jobs::{self, ROLE, TIME_ZONE};
use super::runs::{self, HttpRun};
use super::section::{Checks, Definitions, Group, Key, Kind, Or, Reader, Section, Shape, key, required};
use super::tree::{Node, Positions};
use super::value::{Count, Span, Text, Words};
use super::{ConfigProblem, Environment, RoleConfig, agree};
use crate::base::duration;
use crate::protocol::RoleName;
use crate::protocol::jobs::{JobPolicy, RuntimePlan, Timetable, Wall};
use crate::schedule::Schedule;

/// The longest `data`, in bytes of JSON.
pub const RUNTIME_DATA_BYTES_MAX: usize = 8 << 10;
/// The longest job as a whole, likewise: the store keeps 100,000 of them in memory.
pub const RUNTIME_JOB_BYTES_MAX: usize = 16 << 10;
/// How many attempts may follow the first: no record keeps them, as a ledger does.
pub const RUNTIME_ATTEMPTS_MAX: u32 = 1_000_000_000;
/// How far ahead a moment may be: the longest duration that is read.
const AHEAD_MAX: Duration = Duration::from_secs(10_000 * 3_600);

/// A job as it was put, checked.
#[derive(Clone, Debug)]
pub struct RuntimeJob {
    /// One of the roles.
    pub role: RoleName,
    /// When it is due; none: once.
    pub schedule: Option<Arc<Schedule>>,
    /// When it is due first.
    pub at: Option<Wall>,
    pub repeats: Option<u32>,
    /// No run begins after this.
    pub expires: Option<Wall>,
    /// How its runs are to be. They never overlap, and of slots that have passed the first is made up for.
    pub policy: JobPolicy,
    /// How long a run may go on when the role is handed over.
    pub finish_within: Duration,
    /// What a run is.
    pub http: HttpRun,
    /// What every run is given, in JSON.
    pub data: Option<Arc<str>>,
    /// What it was read from, with all moments in the place of spans: what is stored, and read again.
    pub text: String,
}

const SCHEDULE: Key<Text> = key(
    "schedule",
    Text::ANY,
    "When it is due again and again; see a job of the file. `@every` counts from `at` or `in`.",
);
const AT: Key<Moment> = key("at", Moment, "When it is due first, or once.");
const IN: Key<Span> = key("in", Span::up_to(AHEAD_MAX), "The same, from now on; up to {max}.");
const REPEATS: Key<Count> = key("repeats", Count(1, 1_000_000_000), "How many runs it has in all.");
const TTL: Key<Moment> = key("ttl", Moment, "How long from now on, or until when, runs begin.");
const DATA: Key<Anything> = key("data", Anything, "What every run is given, as the body of its request.");
const CONCURRENCY_POLICY: Key<Words<()>> =
    key("concurrencyPolicy", Words::of(&[("Forbid", ())]), "Runs of such a job never overlap.");
const CATCH_UP: Key<Words<()>> = key("catchUp", Words::of(&[("latest", ())]), "One run makes up for all that passed.");
const BACKOFF_LIMIT: Key<Or<Count>> =
    key("backoffLimit", Or(Count(0, RUNTIME_ATTEMPTS_MAX), 6), "How many attempts may follow the first.");
const RUN: Key<Group> = required("run", Group(&runs::SECTION), "What a run is: a request.");

const RUNTIME_JOB: Section = Section::new(
    "RuntimeJob",
    "A job that is made at run time.",
    &[
        &ROLE,
        &SCHEDULE,
        &TIME_ZONE,
        &AT,
        &IN,
        &REPEATS,
        &TTL,
        &DATA,
        &CONCURRENCY_POLICY,
        &CATCH_UP,
        &jobs::STARTING_DEADLINE,
        &jobs::SUSPEND,
        &BACKOFF_LIMIT,
        &jobs::BACKOFF,
        &jobs::ACTIVE_DEADLINE,
        &jobs::ON_INTERRUPT,
        &jobs::FINISH_WITHIN,
        &RUN,
    ],
);

/// Any JSON.
struct Anything;

impl Shape for Anything {
    fn schema(&self, _: &mut Definitions) -> Value {
        json!({})
    }

    fn inspect(&self, _: &Reader<'_>) {}
}

/// A moment, or a span from now on.
struct Moment;

impl Shape for Moment {
    fn schema(&self, _: &mut Definitions) -> Value {
        json!({"type": "string", "format": "date-time"})
    }
}

impl Kind for Moment {
    type Value<'a> = &'a str;

    fn read<'a>(&self, at: &Reader<'a>) -> Option<&'a str> {
        at.text()
    }
}

/// Checks what somebody puts at this moment. `roles`: those of the configuration.
///
/// # Errors
/// Every problem, each with its path.
pub fn runtime_job(body: &[u8], roles: &[RoleConfig], now: Wall) -> Result<RuntimeJob, Vec<ConfigProblem>> {
    let problem = |message: String| vec![ConfigProblem::of_file(message)];
    let mut given: Value =
        serde_json::from_slice(body).map_err(|error| problem(format!("this is not JSON: {error}")))?;
    let Value::Object(words) = &mut given else { return Err(problem("write an object".to_owned())) };
    let data = words.get("data").filter(|data| !data.is_null()).map(Value::to_string);
    let node = Node::of_json(&without_data(words));
    let environment = Environment::new(|_| None, None);
    let checks = Checks::new(Positions::default(), &environment);
    let job = read(&checks.top(&node, &RUNTIME_JOB), roles, data, now);
    let problems = checks.into_found().problems;
    let Some(job) = job.filter(|_| problems.is_empty()) else { return Err(problems) };
    let text = resolved(words, &job);
    if text.len() > RUNTIME_JOB_BYTES_MAX {
        let bytes = text.len();
        return Err(problem(format!("has {bytes} bytes; a job may have {RUNTIME_JOB_BYTES_MAX} at the most")));
    }
    Ok(RuntimeJob { text, ..job })
}

/// Checks what was put at another time, and was checked then. All spans in it have become moments, of which none is too
/// far ahead any more.
///
/// # Errors
/// Every problem: another release has put it.
pub fn stored_runtime_job(text: &[u8], roles: &[RoleConfig]) -> Result<RuntimeJob, Vec<ConfigProblem>> {
    runtime_job(text, roles, Wall::from_millis(u64::MAX))
}

/// `data` is not looked into: what stands there in its place is only that it is there.
fn without_data(words: &Map<String, Value>) -> Value {
    let mut rest = words.clone();
    if let Some(data) = rest.get_mut("data") {
        *data = Value::Bool(true);
    }
    Value::Object(rest)
}

/// The same with moments in the place of spans and the role that was meant, so that it means the same whenever and
/// wherever it is read.
fn resolved(words: &mut Map<String, Value>, job: &RuntimeJob) -> String {
    let moment = |at: Wall| Value::from(rfc3339(at));
    words.remove("in");
    words.insert("role".to_owned(), job.role.as_str().into());
    for (word, at) in [("at", job.at), ("ttl", job.expires)] {
        if let Some(at) = at {
            words.insert(word.to_owned(), moment(at));
        }
    }
    Value::Object(std::mem::take(words)).to_string()
}

fn rfc3339(at: Wall) -> String {
    let ms = i64::try_from(at.as_millis()).unwrap_or(i64::MAX);
    jiff::Timestamp::from_millisecond(ms).unwrap_or(jiff::Timestamp::MAX).to_string()
}

fn read(s: &Reader<'_>, roles: &[RoleConfig], data: Option<String>, now: Wall) -> Option<RuntimeJob> {
    let role = agree::job_role(s, roles, true);
    let (_, timing) = role.as_ref().map(|(name, timing)| (name, timing)).unzip();
    let schedule = if s.has(&SCHEDULE) { Some(jobs::schedule(s)) } else { None };
    if schedule.is_none() && s.has(&TIME_ZONE) {
        s.at(&TIME_ZONE).problem("is for a schedule, and there is none; remove it");
    }
    let at = first(s, now);
    if schedule.is_none() && !s.has(&AT) && !s.has(&IN) {
        s.at(&SCHEDULE).problem("is missing, and so are `at` and `in`; add one of them");
    }
    let repeats = s.given(&REPEATS);
    if repeats.is_some() && schedule.is_none() {
        s.at(&REPEATS).problem("is for a schedule, and there is none; remove it");
    }
    let expires = expires(s, now);
    // Read for what is wrong with them: only one word of each is known.
    let _ = (s.given(&CONCURRENCY_POLICY), s.given(&CATCH_UP));
    let policy = jobs::policy(s, timing, s.get(&BACKOFF_LIMIT));
    let finish_within = s.given(&jobs::FINISH_WITHIN).unwrap_or_else(|| jobs::usual_finish(timing));
    let http = s.given(&RUN).and_then(|run| runs::read_at_run_time(&run));
    let data = data_for(s, http.as_ref(), data);
    let schedule = match schedule {
        Some(schedule) => Some(Arc::new(counted_from(at, schedule?))),
        None => None,
    };
    let (role, http, text) = (role?.0, http?, String::new());
    Some(RuntimeJob { role, schedule, at, repeats, expires, policy, finish_within, http, data, text })
}

/// An `@every` counts from the first moment, if there is one, to the second.
fn counted_from(at: Option<Wall>, schedule: Schedule) -> Schedule {
    match (at, schedule.interval()) {
        (Some(at), Some(interval)) => {
            schedule.later_by(Duration::from_secs(at.as_millis() / 1_000 % interval.as_secs()))
        }
        (None, _) | (_, None) => schedule,
    }
}

/// `at`, or `in`.
fn first(s: &Reader<'_>, now: Wall) -> Option<Wall> {
    if s.has(&AT) && s.has(&IN) {
        s.at(&IN).problem("is given beside at; keep one of the two");
        return None;
    }
    if let Some(span) = s.given(&IN) {
        return Some(now.plus(span));
    }
    let text = s.given(&AT)?;
    let place = s.at(&AT);
    match text.parse::<jiff::Timestamp>() {
        Ok(at) => bounded(&place, at, now),
        Err(_) => {
            let shown = place.shown();
            place.problem(format!("{shown} is no moment; write one such as `2026-11-20T02:00:00Z`, or a span in `in`"));
            None
        }
    }
}

/// `ttl`: a span, or a moment.
fn expires(s: &Reader<'_>, now: Wall) -> Option<Wall> {
    let text = s.given(&TTL)?;
    let place = s.at(&TTL);
    if let Ok(span) = duration::parse(text) {
        if span.is_zero() {
            place.problem("is zero, so that nothing would run; it must be longer");
        }
        return Some(now.plus(span));
    }
    match text.parse::<jiff::Timestamp>() {
        Ok(at) => bounded(&place, at, now),
        Err(_) => {
            let (shown, most) = (place.shown(), duration::write(AHEAD_MAX));
            place.problem(format!(
                "{shown} is neither a span of at most {most}, such as `1h30m`, nor a moment, such as \
                 `2026-11-20T02:00:00Z`"
            ));
            None
        }
    }
}

fn bounded(place: &Reader<'_>, at: jiff::Timestamp, now: Wall) -> Option<Wall> {
    let at = u64::try_from(at.as_millisecond()).ok().map(Wall::from_millis);
    match at {
        Some(at) if at.since(now) <= AHEAD_MAX => return at.into(),
        Some(_) => {
            let most = duration::write(AHEAD_MAX);
            place.problem(format!("is too far ahead; it must be at most {most} from now"));
        }
        None => place.problem("is before 1970; write a later moment"),
    }
    None
}

/// What every run is given, where its request takes it.
fn data_for(s: &Reader<'_>, http: Option<&HttpRun>, data: Option<String>) -> Option<Arc<str>> {
    let (data, place) = (data?, s.at(&DATA));
    if data.len() > RUNTIME_DATA_BYTES_MAX {
        let bytes = data.len();
        place.problem(format!("has {bytes} bytes of JSON; it may have {RUNTIME_DATA_BYTES_MAX} at the most"));
    }
    match http {
        Some(HttpRun { body: Some(body), .. }) if !body.contains("{{data}}") => {
            place.problem("is given, and run.http.body has no {{data}} in it; remove one of the two");
        }
        Some(http) if http.body.is_none() && !http.sends_body() => {
            let method = &http.method;
            place.problem(format!("is the body, and a {method} request has none that servers look at; write POST"));
        }
        Some(_) | None => {}
    }
    Some(data.into())
}

impl RuntimeJob {
    /// When its first run is due; none when there is none.
    pub fn first(&self, now: Wall) -> Option<Wall> {
        self.at.or_else(|| self.schedule.as_ref()?.next_after(now))
    }

    /// What its leader must know.
    pub fn plan(&self) -> RuntimePlan {
        let Self { schedule, repeats, expires, policy, .. } = self;
        RuntimePlan {
            timetable: schedule.clone().map(|schedule| schedule as Arc<dyn Timetable>),
            repeats: *repeats,
            expires: *expires,
            starting_deadline: policy.starting_deadline,
            backoff: policy.backoff,
            active_deadline: policy.active_deadline,
            on_interrupt: policy.on_interrupt,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::check_text;

    const NOW: Wall = Wall::from_millis(1_763_690_400_000);

    /// The roles of a file that has these.
    fn roles(names: &[&str]) -> Vec<RoleConfig> {
        let roles: String = names.iter().map(|name| format!("  - name: {name}\n")).collect();
        let text = format!("identity: a\nstore: {{ memory: {{}} }}\nroles:\n{roles}");
        check_text(&text, "a.yaml", &Environment::new(|_| None, None)).expect("a good file").config.roles
    }

    fn read_in(roles: &[RoleConfig], body: &Value) -> Result<RuntimeJob, Vec<(String, String)>> {
        let told = |problem: ConfigProblem| (problem.path, problem.message);
        runtime_job(body.to_string().as_bytes(), roles, NOW)
            .map_err(|problems| problems.into_iter().map(told).collect::<Vec<_>>())
    }

    fn read_one(body: &Value) -> Result<RuntimeJob, Vec<(String, String)>> {
        read_in(&roles(&["scheduler"]), body)
    }

    /// One thing more, or another, than a job that is right.
    fn with(words: &Value) -> Value {
        let mut job = json!({"in": "5s", "run": {"http": {"url": "http://127.0.0.1:8080/x"}}});
        for (word, value) in words.as_object().expect("an object") {
            if value.is_null() {
                job.as_object_mut().expect("an object").remove(word);
            } else {
                job[word] = value.clone();
            }
        }
        job
    }

    #[test]
    fn a_job_is_read_with_moments_in_the_place_of_spans_and_means_the_same_when_it_is_read_again() {
        let job = read_one(&with(&json!({"ttl": "1h", "data": {"a": ["{{run}}", 1.5]}, "backoffLimit": 3}))).unwrap();
        assert_eq!((job.role.as_str(), job.at), ("scheduler", Some(NOW.plus(Duration::from_secs(5)))));
        assert_eq!(job.first(NOW), job.at);
        assert_eq!(job.expires, Some(NOW.plus(Duration::from_secs(3_600))));
        assert_eq!((job.data.as_deref(), job.http.body.as_deref()), (Some(r#"{"a":["{{run}}",1.5]}"#), None));
        assert_eq!(job.policy.backoff.limit, 3);
        let again = stored_runtime_job(job.text.as_bytes(), &roles(&["scheduler"])).unwrap();
        assert_eq!((again.text, again.at, again.expires), (job.text, job.at, job.expires));
    }

    #[test]
    fn a_schedule_begins_with_its_next_slot_or_when_it_is_said() {
        let schedule = json!({"in": null, "schedule": "@every 1h", "repeats": 3});
        let job = read_one(&with(&schedule)).unwrap();
        assert_eq!(job.first(NOW), Some(NOW.plus(Duration::from_secs(3_600))));
        let plan = job.plan();
        assert_eq!((plan.repeats, plan.next(2, NOW), plan.next(3, NOW)), (Some(3), job.first(NOW), None));
        let job = read_one(&with(&json!({"schedule": "@every 1h"}))).unwrap();
        assert_eq!(job.first(NOW), Some(NOW.plus(Duration::from_secs(5))));
        let again = stored_runtime_job(job.text.as_bytes(), &roles(&["scheduler"])).unwrap();
        for job in [job, again] {
            let late = NOW.plus(Duration::from_secs(8));
            assert_eq!(
                job.plan().next(1, late),
                Some(NOW.plus(Duration::from_secs(3_605))),
                "it counts from the first"
            );
        }
        let past = json!({"in": null, "at": "2020-01-01T00:00:00+01:00"});
        assert!(read_one(&with(&past)).unwrap().first(NOW).is_some_and(|first| first < NOW), "it is due at once");
    }

    #[test]
    fn everything_that_is_wrong_is_told_with_its_path_and_what_would_be_right() {
        let http = |more: Value| {
            let mut http = json!({"url": "http://a/"});
            http.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            json!({"run": {"http": http}})
        };
        for (words, path, message) in [
            (json!({"in": "5"}), "in", "has no unit"),
            (json!({"in": "10001h"}), "in", "10000h"),
            (json!({"in": null, "at": "tomorrow"}), "at", "is no moment"),
            (json!({"in": null, "at": "2199-01-01T00:00:00Z"}), "at", "at most 10000h"),
            (json!({"in": null, "at": "1960-01-01T00:00:00Z"}), "at", "before 1970"),
            (json!({"at": "2026-01-01T00:00:00Z"}), "in", "keep one"),
            (json!({"in": null}), "schedule", "is missing"),
            (json!({"schedule": "* * *"}), "schedule", "has 3 fields"),
            (json!({"repeats": 2}), "repeats", "for a schedule"),
            (json!({"schedule": "@daily", "repeats": 0}), "repeats", "from 1 to"),
            (json!({"timeZone": "UTC"}), "timeZone", "for a schedule"),
            (json!({"ttl": "0s"}), "ttl", "is zero"),
            (json!({"ttl": "never"}), "ttl", "neither a span"),
            (json!({"role": "other"}), "role", "they are `scheduler`"),
            (json!({"concurrencyPolicy": "Allow"}), "concurrencyPolicy", "`Forbid`"),
            (json!({"catchUp": "all"}), "catchUp", "`latest`"),
            (json!({"backoffLimit": 1_000_000_001}), "backoffLimit", "from 0 to 1000000000"),
            (json!({"data": "x".repeat(RUNTIME_DATA_BYTES_MAX)}), "data", "at the most"),
            (json!({"finishWithin": "61m"}), "finishWithin", "at most 1h"),
            (json!({"failedJobsHistoryLimit": 3}), "failedJobsHistoryLimit", "unknown key"),
            (json!({"run": null}), "run", "is missing"),
            (json!({"run": {}}), "run", "write `http`"),
            (json!({"run": {"exec": {"command": ["rm"]}}}), "run.exec", "configuration file alone"),
            (http(json!({"url": "ftp://a/"})), "run.http.url", "neither http"),
            (http(json!({"timeout": "25h"})), "run.http.timeout", "at most 24h"),
            (
                http(json!({"headers": [{"name": "A", "valueFile": "/etc/passwd"}]})),
                "run.http.headers[0].valueFile",
                "configuration file alone",
            ),
        ] {
            let problems = read_one(&with(&words)).expect_err(path);
            let told = |(at, what): &(String, String)| at == path && what.contains(message);
            assert!(problems.len() == 1 && told(&problems[0]), "{words}: {problems:?}");
        }
        let both = json!({"data": 1, "run": {"http": {"url": "http://a/", "body": "x"}}});
        assert_eq!(read_one(&with(&both)).expect_err("both")[0].0, "data");
        let many = read_one(&json!({"in": 5, "ttl": "x", "run": {"http": {"url": "x"}}})).expect_err("three");
        assert_eq!(many.len(), 3, "{many:?}");
        let several = read_in(&roles(&["a", "b"]), &with(&json!({}))).expect_err("which role?");
        assert_eq!(several[0].0, "role");
    }

    #[test]
    fn nothing_of_the_surroundings_gets_in_and_what_is_too_large_stays_out() {
        let url = json!({"run": {"http": {"url": "http://127.0.0.1/${HOME}", "body": "$${HOME}"}}});
        let job = read_one(&with(&url)).unwrap();
        assert_eq!(job.http.body.as_deref(), Some("$${HOME}"));
        let body = json!({"run": {"http": {"url": "http://a/", "body": "x".repeat(RUNTIME_JOB_BYTES_MAX)}}});
        let problems = read_one(&with(&body)).expect_err("too large");
        assert!(problems[0].1.contains("16384"), "{problems:?}");
        for no_job in ["", "[]", "7", "{\"in\":", "\u{0}"] {
            assert!(runtime_job(no_job.as_bytes(), &roles(&["a"]), NOW).is_err(), "{no_job:?}");
        }
    }
}
