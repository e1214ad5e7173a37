//! From Dapr's words for a job to those of a job that is made at run time, and back.

use std::time::Duration;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::base::duration;
use crate::config::{ConfigProblem, DaprJobsConfig, RUNTIME_ATTEMPTS_MAX};
use crate::http::DaprFault;
use crate::protocol::jobs::{JobName, Wall};
use crate::schedule::Schedule;

/// What stands before the name of a job whose name in Dapr is none here; what follows is escaped.
const ESCAPED: &str = "x--";
/// What Dapr does where no policy is given: three more attempts, a second apart.
const ATTEMPTS_USUAL: u32 = 3;
const INTERVAL_USUAL: Duration = Duration::from_secs(1);
/// Dapr's is zero where none is given: as fast as the app can answer.
const INTERVAL_MIN: Duration = Duration::from_millis(100);
/// A cron expression may begin with its time zone.
const ZONE_PREFIXES: [&str; 2] = ["CRON_TZ=", "TZ="];
/// Dapr keeps any JSON as a protobuf value, and shows it so.
const VALUE_TYPE: &str = "type.googleapis.com/google.protobuf.Value";

/// What is sent. Dapr takes the names of its protobuf fields, too, and null for what is not there.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Body {
    name: Option<String>,
    schedule: Option<String>,
    #[serde(rename = "dueTime", alias = "due_time")]
    due_time: Option<String>,
    repeats: Option<Value>,
    ttl: Option<String>,
    data: Option<Value>,
    overwrite: Option<bool>,
    #[serde(rename = "failurePolicy", alias = "failure_policy")]
    failure_policy: Option<FailurePolicy>,
    #[serde(rename = "overrideRoutePath", alias = "override_route_path")]
    route: Option<Value>,
}

#[derive(Debug, Default, Deserialize)]
struct FailurePolicy {
    drop: Option<Value>,
    constant: Option<Constant>,
}

#[derive(Debug, Default, Deserialize)]
struct Constant {
    interval: Option<String>,
    #[serde(rename = "maxRetries", alias = "max_retries")]
    retries: Option<Value>,
}

impl Body {
    /// Whether a job of that name may be replaced.
    pub(super) fn overwrite(&self) -> bool {
        self.overwrite.unwrap_or(false)
    }
}

fn malformed(message: impl Into<String>) -> DaprFault {
    DaprFault::malformed(message)
}

/// What a job is called here that Dapr calls so: the same, where that is a job's name here; else `x--`, and each byte
/// but a-z and 0-9 as `-` and two hexadecimal digits. So no two become one.
///
/// # Errors
/// Why it cannot be had, in words.
pub(super) fn job_name(name: &str) -> Result<JobName, String> {
    if name.contains(|c: char| c.is_control() || "/\\#?".contains(c)) || matches!(name, "." | "..") {
        return Err("a job name holds no control character and none of / \\ # ?, and is neither . nor ..".to_owned());
    }
    if let Some(same) = JobName::new(name).ok().filter(|_| !name.starts_with(ESCAPED)) {
        return Ok(same);
    }
    let escaped = |byte: u8| match byte {
        b'a'..=b'z' | b'0'..=b'9' => char::from(byte).to_string(),
        _ => format!("-{byte:02x}"),
    };
    JobName::new(name.bytes().fold(ESCAPED.to_owned(), |all, byte| all + &escaped(byte))).map_err(|_| {
        "the job name is too long: 52 of a-z, 0-9 and '-' at the most, or 49 where others are in it, which (and '-') \
         then count as three each"
            .to_owned()
    })
}

/// The same job in the words of one that is made at run time.
///
/// # Errors
/// What is wrong with it, as far as Dapr's words are concerned; the rest is checked with the job.
pub(super) fn runtime_job(body: Body, name: &str, config: &DaprJobsConfig, now: Wall) -> Result<Value, DaprFault> {
    if body.name.is_some_and(|name| !name.is_empty()) {
        return Err(DaprFault::bad("DAPR_SCHEDULER_JOB_NAME", "Set the job name in the url only"));
    }
    if body.route.is_some() {
        return Err(malformed("overrideRoutePath: jobs are delivered to /job/<name> only; remove it"));
    }
    let (zone, schedule) = body.schedule.as_deref().map(zoned).unzip();
    let due = body.due_time.as_deref().map(|text| moment("dueTime", text, now)).transpose()?;
    let first = match (due, schedule) {
        (None, None) => return Err(DaprFault::bad("DAPR_SCHEDULER_SCHEDULE_EMPTY", "Schedule is empty")),
        (due, schedule) => due.or_else(|| Some(whole_second(now).plus(interval_of(schedule?)?))),
    };
    let expires = body.ttl.as_deref().map(|text| moment("ttl", text, due.unwrap_or(now))).transpose()?;
    if expires.zip(due).is_some_and(|(expires, due)| expires < due) {
        return Err(malformed("ttl: is before dueTime; it must be later"));
    }
    let (attempts, interval) = retries(body.failure_policy.unwrap_or_default())?;
    let pause = duration::write(interval);
    let mut job = Map::new();
    let mut put = |word: &str, value: Option<Value>| value.and_then(|value| job.insert(word.to_owned(), value));
    put("role", Some(config.role.as_str().into()));
    put("schedule", schedule.map(Value::from));
    put("timeZone", zone.flatten().map(Value::from));
    put("at", first.map(rfc3339));
    put("repeats", repeats(body.repeats.as_ref(), schedule.is_some())?.map(Value::from));
    put("ttl", expires.map(rfc3339));
    put("data", body.data);
    put("backoffLimit", Some(attempts.into()));
    put("backoff", Some(json!({"initial": pause, "max": pause})));
    put("run", Some(json!({"http": request(name, config)})));
    Ok(Value::Object(job))
}

/// As Dapr does, 404 means that nobody wants the job: it is not tried again.
fn request(name: &str, config: &DaprJobsConfig) -> Value {
    let mut url = config.url.clone();
    // Only a URL that cannot have a path has none, and no http: one is such.
    if let Ok(mut path) = url.path_segments_mut() {
        path.pop_if_empty().extend(["job", name]);
    }
    json!({"url": url.as_str(), "timeout": duration::write(config.timeout), "successStatus": ["200-299", 404]})
}

/// The time zone before a schedule, and the schedule.
fn zoned(text: &str) -> (Option<&str>, &str) {
    let zone = ZONE_PREFIXES.iter().find_map(|prefix| text.strip_prefix(prefix)?.split_once(char::is_whitespace));
    zone.map_or((None, text), |(zone, schedule)| (Some(zone), schedule.trim_start()))
}

/// That of an `@every`, which begins when it is made, and not with a multiple of it.
fn interval_of(schedule: &str) -> Option<Duration> {
    Schedule::parse(schedule, None).ok()?.interval()
}

fn whole_second(at: Wall) -> Wall {
    Wall::from_millis(at.as_millis() / 1_000 * 1_000)
}

/// A moment, or how long after `from` it is. One before 1970 is 1970: it has passed.
fn moment(field: &str, text: &str, from: Wall) -> Result<Wall, DaprFault> {
    let wall = |at: Timestamp| Wall::from_millis(u64::try_from(at.as_millisecond()).unwrap_or(0));
    if let Ok(at) = text.parse::<Timestamp>() {
        return Ok(wall(at));
    }
    let later = |span: &str| {
        let span: jiff::Span = span.parse().ok()?;
        let from = Timestamp::from_millisecond(i64::try_from(from.as_millis()).ok()?).ok()?;
        Some(wall(from.to_zoned(TimeZone::UTC).checked_add(span).ok()?.timestamp()))
    };
    if let Some(at) = Some(text).filter(|text| text.starts_with('P')).and_then(later) {
        return Ok(at);
    }
    let span = duration::parse(text).map_err(|error| {
        malformed(format!(
            "{field}: is neither a moment such as `2026-11-20T02:00:00Z`, nor a span of ISO 8601 such as `P1DT2H`, and \
             as a duration it {error}"
        ))
    })?;
    Ok(from.plus(span))
}

fn rfc3339(at: Wall) -> Value {
    let ms = i64::try_from(at.as_millis()).unwrap_or(i64::MAX);
    Timestamp::from_millisecond(ms).unwrap_or(Timestamp::MAX).to_string().into()
}

/// A whole number, or its text: protobuf's JSON takes both.
fn number(field: &str, value: &Value) -> Result<u32, DaprFault> {
    let number = match value {
        Value::Number(number) => number.as_u64().and_then(|number| u32::try_from(number).ok()),
        Value::String(text) => text.parse().ok(),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    };
    number.ok_or_else(|| malformed(format!("{field}: a whole number from 0 to {} is wanted", u32::MAX)))
}

fn repeats(given: Option<&Value>, has_schedule: bool) -> Result<Option<u32>, DaprFault> {
    match given.map(|value| number("repeats", value)).transpose()? {
        Some(0) => Err(malformed("repeats: is 0; it must be 1 or more, or absent for no bound")),
        // It runs once.
        Some(1) if !has_schedule => Ok(None),
        Some(_) if !has_schedule => Err(malformed("repeats: is for a schedule, and there is none; remove it")),
        repeats => Ok(repeats),
    }
}

/// How many attempts may follow the first, and what lies between two.
fn retries(policy: FailurePolicy) -> Result<(u32, Duration), DaprFault> {
    match policy {
        FailurePolicy { drop: None, constant: None } => Ok((ATTEMPTS_USUAL, INTERVAL_USUAL)),
        FailurePolicy { drop: Some(_), constant: None } => Ok((0, INTERVAL_USUAL)),
        FailurePolicy { drop: Some(_), constant: Some(_) } => {
            Err(malformed("failurePolicy: has both drop and constant; keep one"))
        }
        FailurePolicy { drop: None, constant: Some(Constant { interval, retries }) } => {
            let most = retries.map(|value| number("failurePolicy.constant.maxRetries", &value)).transpose()?;
            let interval = interval.as_deref().map(duration::parse).transpose();
            let interval = interval.map_err(|error| malformed(format!("failurePolicy.constant.interval: {error}")))?;
            let attempts = most.unwrap_or(RUNTIME_ATTEMPTS_MAX).min(RUNTIME_ATTEMPTS_MAX);
            Ok((attempts, interval.unwrap_or_default().max(INTERVAL_MIN)))
        }
    }
}

/// What is wrong with a job, in Dapr's words.
pub(super) fn told(problems: &[ConfigProblem]) -> String {
    let word = |path: &str| match path {
        "at" | "in" => "dueTime".to_owned(),
        "timeZone" => "schedule".to_owned(),
        "backoff.initial" | "backoff.max" => "failurePolicy.constant.interval".to_owned(),
        other => other.to_owned(),
    };
    let one = |problem: &ConfigProblem| match word(&problem.path) {
        field if field.is_empty() => problem.message.clone(),
        field => format!("{field}: {}", problem.message),
    };
    let mut all: Vec<String> = problems.iter().map(one).collect();
    all.dedup();
    all.join("; ")
}

/// A job as Dapr shows it, from what was put, whoever did. Spans have become moments.
pub(super) fn dapr_job(name: &str, put: &Value) -> Value {
    let word = |word: &str| put.get(word).filter(|value| !value.is_null()).cloned();
    let schedule = word("schedule").map(|schedule| match (put["timeZone"].as_str(), schedule.as_str()) {
        (Some(zone), Some(schedule)) => format!("CRON_TZ={zone} {schedule}").into(),
        _ => schedule,
    });
    let mut job = json!({"name": name});
    for (field, value) in [
        ("schedule", schedule),
        ("dueTime", word("at")),
        ("repeats", word("repeats")),
        ("ttl", word("ttl")),
        ("data", word("data").map(|data| json!({"@type": VALUE_TYPE, "value": data}))),
        ("failurePolicy", policy_of(put)),
    ] {
        if let Some(value) = value {
            job[field] = value;
        }
    }
    job
}

/// The policy of a job that was made through Dapr's API; of others, what comes nearest to it.
fn policy_of(put: &Value) -> Option<Value> {
    let attempts = put["backoffLimit"].as_u64()?;
    if attempts == 0 {
        return Some(json!({"drop": {}}));
    }
    let interval = duration::parse(put["backoff"]["initial"].as_str()?).ok()?;
    let decimals = if interval.subsec_nanos() == 0 { 0 } else { 3 };
    let mut constant = json!({"interval": format!("{:.decimals$}s", interval.as_secs_f64())});
    if attempts < u64::from(RUNTIME_ATTEMPTS_MAX) {
        constant["maxRetries"] = attempts.into();
    }
    Some(json!({"constant": constant}))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2025-11-21T02:00:00.250Z
    const NOW: Wall = Wall::from_millis(1_763_690_400_250);

    fn config() -> DaprJobsConfig {
        let url = "http://127.0.0.1:8080/base/".parse().expect("a URL");
        DaprJobsConfig { role: "scheduler".parse().expect("a role"), url, timeout: Duration::from_secs(30) }
    }

    fn made(body: &Value) -> Result<Value, DaprFault> {
        runtime_job(DaprFault::read(body.to_string().as_bytes())?, "R2 D2", &config(), NOW)
    }

    #[test]
    fn names_stay_as_they_are_where_they_can_and_no_two_become_one() {
        for (name, job) in [
            ("remind-42", "remind-42"),
            ("R2-D2", "x---522-2d-442"),
            ("my_job", "x--my-5fjob"),
            ("x--my-5fjob", "x--x-2d-2dmy-2d5fjob"),
            ("a.", "x--a-2e"),
            ("ä b|", "x---c3-a4-20b-7c"),
        ] {
            assert_eq!(job_name(name).map(|job| job.to_string()).as_deref(), Ok(job), "{name}");
        }
        for (name, why) in [
            ("a/b", "none of /"),
            ("a?b", "none of /"),
            ("a\nb", "control"),
            ("..", "neither"),
            (&"A".repeat(17), "too long"),
            (&"a".repeat(53), "too long"),
        ] {
            assert!(job_name(name).is_err_and(|told| told.contains(why)), "{name}");
        }
        assert!(job_name(&"A".repeat(16)).is_ok());
    }

    #[test]
    fn a_job_is_translated_word_by_word() {
        let usual = json!({"initial": "1s", "max": "1s"});
        let run = json!({"http": {
            "url": "http://127.0.0.1:8080/base/job/R2%20D2", "timeout": "30s", "successStatus": ["200-299", 404],
        }});
        let with = |words: Value, limit: u32, backoff: &Value| {
            let mut job = json!({"role": "scheduler", "backoffLimit": limit, "backoff": backoff, "run": run});
            job.as_object_mut().expect("an object").extend(words.as_object().expect("an object").clone());
            job
        };
        let pauses = |pause: &str| json!({"initial": pause, "max": pause});
        let most = RUNTIME_ATTEMPTS_MAX;
        for (body, words, limit, backoff) in [
            (
                json!({"dueTime": "30s", "data": 7}),
                json!({"at": "2025-11-21T02:00:30.25Z", "data": 7}),
                3,
                usual.clone(),
            ),
            (json!({"due_time": "0s", "data": null}), json!({"at": "2025-11-21T02:00:00.25Z"}), 3, usual.clone()),
            (json!({"dueTime": "2026-01-01T01:00:00+01:00"}), json!({"at": "2026-01-01T00:00:00Z"}), 3, usual.clone()),
            (json!({"dueTime": "P1MT1H", "repeats": 1}), json!({"at": "2025-12-21T03:00:00.25Z"}), 3, usual.clone()),
            (json!({"dueTime": "1900-01-01T00:00:00Z"}), json!({"at": "1970-01-01T00:00:00Z"}), 3, usual.clone()),
            (
                json!({"schedule": "0 30 * * * *", "repeats": "5", "ttl": "1h", "unknown": 1}),
                json!({"schedule": "0 30 * * * *", "repeats": 5, "ttl": "2025-11-21T03:00:00.25Z"}),
                3,
                usual.clone(),
            ),
            (
                json!({"schedule": "@every 1m", "dueTime": "10s", "ttl": "PT1H", "failure_policy": {}}),
                json!({"schedule": "@every 1m", "at": "2025-11-21T02:00:10.25Z", "ttl": "2025-11-21T03:00:10.25Z"}),
                3,
                usual.clone(),
            ),
            (
                json!({"schedule": "@every 1m"}),
                json!({"schedule": "@every 1m", "at": "2025-11-21T02:01:00Z"}),
                3,
                usual.clone(),
            ),
            (
                json!({"schedule": "CRON_TZ=Europe/Berlin  @daily", "failurePolicy": {"drop": {}}}),
                json!({"schedule": "@daily", "timeZone": "Europe/Berlin"}),
                0,
                usual,
            ),
            (
                json!({"schedule": "@daily", "failurePolicy": {"constant": {"interval": "3s", "maxRetries": 5}}}),
                json!({"schedule": "@daily"}),
                5,
                pauses("3s"),
            ),
            (
                json!({"schedule": "@daily", "failure_policy": {"constant": {"max_retries": 4_000_000_000_u32}}}),
                json!({"schedule": "@daily"}),
                most,
                pauses("100ms"),
            ),
        ] {
            assert_eq!(made(&body), Ok(with(words, limit, &backoff)), "{body}");
        }
    }

    #[test]
    fn what_is_wrong_is_told_by_its_field() {
        const MALFORMED: &str = "ERR_MALFORMED_REQUEST";
        let policy = |policy: Value| json!({"dueTime": "1s", "failurePolicy": policy});
        for (body, code, message) in [
            (json!({}), "DAPR_SCHEDULER_SCHEDULE_EMPTY", "Schedule is empty"),
            (json!({"name": "b", "dueTime": "1s"}), "DAPR_SCHEDULER_JOB_NAME", "in the url only"),
            (json!([{}]), MALFORMED, "deserializing"),
            (json!({"schedule": 5}), MALFORMED, "expected a string"),
            (json!({"dueTime": "soon"}), MALFORMED, "dueTime: is neither a moment"),
            (json!({"dueTime": "R5/PT10S"}), MALFORMED, "dueTime: is neither a moment"),
            (json!({"dueTime": "10us"}), MALFORMED, "the units are"),
            (json!({"dueTime": "1h", "ttl": "2020-01-01T00:00:00Z"}), MALFORMED, "ttl: is before dueTime"),
            (json!({"schedule": "@daily", "ttl": "x"}), MALFORMED, "ttl: is neither"),
            (json!({"schedule": "@daily", "repeats": -1}), MALFORMED, "repeats: a whole number from 0"),
            (json!({"schedule": "@daily", "repeats": 0}), MALFORMED, "repeats: is 0"),
            (json!({"dueTime": "1s", "repeats": 2}), MALFORMED, "repeats: is for a schedule"),
            (json!({"dueTime": "1s", "overrideRoutePath": "a/b"}), MALFORMED, "overrideRoutePath"),
            (policy(json!({"drop": {}, "constant": {}})), MALFORMED, "keep one"),
            (policy(json!({"constant": {"interval": "1"}})), MALFORMED, "constant.interval: has no unit"),
            (policy(json!({"constant": {"maxRetries": 1.5}})), MALFORMED, "constant.maxRetries: a whole"),
        ] {
            let fault = made(&body).expect_err(message);
            assert_eq!((fault.status.as_u16(), fault.code), (400, code), "{body}");
            assert!(fault.message.contains(message), "{body}: {}", fault.message);
        }
    }

    #[test]
    fn what_is_shown_is_what_was_asked_for_with_moments_in_the_place_of_spans() {
        for (body, shown) in [
            (
                json!({"schedule": "TZ=UTC 0 0 3 * * *", "repeats": 2, "ttl": "1h", "data": [1]}),
                json!({"name": "R2 D2", "schedule": "CRON_TZ=UTC 0 0 3 * * *", "repeats": 2,
                       "ttl": "2025-11-21T03:00:00.25Z", "data": {"@type": VALUE_TYPE, "value": [1]},
                       "failurePolicy": {"constant": {"interval": "1s", "maxRetries": 3}}}),
            ),
            (
                json!({"dueTime": "1s", "failurePolicy": {"drop": {}}}),
                json!({"name": "R2 D2", "dueTime": "2025-11-21T02:00:01.25Z", "failurePolicy": {"drop": {}}}),
            ),
            (
                json!({"dueTime": "1s", "failurePolicy": {"constant": {}}}),
                json!({"name": "R2 D2", "dueTime": "2025-11-21T02:00:01.25Z",
                       "failurePolicy": {"constant": {"interval": "0.100s"}}}),
            ),
        ] {
            assert_eq!(dapr_job("R2 D2", &made(&body).expect("good")), shown, "{body}");
        }
        let plain = json!({"at": "2026-01-01T00:00:00Z", "run": {"http": {"url": "http://a/"}}});
        assert_eq!(dapr_job("a", &plain), json!({"name": "a", "dueTime": "2026-01-01T00:00:00Z"}));
        assert_eq!(dapr_job("a", &Value::Null), json!({"name": "a"}));
    }

    #[test]
    fn what_the_job_itself_does_not_take_is_told_in_daprs_words() {
        let problem = |path: &str| {
            let (path, message) = (path.to_owned(), "is wrong".to_owned());
            ConfigProblem { path, line: None, column: None, message }
        };
        let problems = ["at", "backoff.initial", "backoff.max", "timeZone", "data", ""].map(problem);
        assert_eq!(
            told(&problems),
            "dueTime: is wrong; failurePolicy.constant.interval: is wrong; schedule: is wrong; data: is wrong; is wrong"
        );
    }
}
