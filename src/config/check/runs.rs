//! `jobs[].run:`

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::time::Duration;

use secrecy::SecretString;

use super::Checker;
use crate::config::model::{ExecRun, HttpRun, RunConfig, Secret};
use crate::config::position::Path;
use crate::config::raw::Scalar;
use crate::config::raw_jobs::{RawExecRun, RawHeader, RawHttpRun, RawRun, RawVariable};
use crate::protocol::Timing;

const METHODS: [&str; 6] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"];
const TIMEOUT: Duration = Duration::from_secs(30);
const HEARTBEAT_TIMEOUT: Duration = Duration::from_secs(60);
const TIMEOUT_MAX: Duration = Duration::from_secs(24 * 3_600);
const HEADERS_MAX: usize = 50;
const GRACE_MAX: Duration = Duration::from_secs(5);
const OUTPUT_BYTES: u32 = 64 * 1024;
const OUTPUT_BYTES_MAX: u32 = 16 << 20;
const PLACEHOLDERS: [&str; 5] = ["run", "job", "scheduledTime", "attempt", "token"];
const URL_EXAMPLE: &str = "write it as http://127.0.0.1:8080/jobs/nightly";

/// What every callback has already, or the connection is about; `baton-*` besides.
const OWN_HEADERS: [&str; 10] = [
    "idempotency-key",
    "host",
    "content-length",
    "transfer-encoding",
    "connection",
    "keep-alive",
    "upgrade",
    "te",
    "trailer",
    "expect",
];

impl Checker<'_> {
    /// Exactly one runner. `timing` is the role's, if that is known.
    pub(super) fn run(&mut self, raw: &RawRun, timing: Option<&Timing>, path: &Path) -> Option<RunConfig> {
        match (&raw.http, &raw.exec) {
            (Some(_), Some(_)) => {
                self.problem(path, "has both http and exec; keep exactly one".to_owned());
                None
            }
            (Some(http), None) => self.http_run(http, &path.key("http")).map(RunConfig::Http),
            (None, Some(exec)) => self.exec_run(exec, timing, &path.key("exec")).map(RunConfig::Exec),
            (None, None) => {
                if !self.has_bad_within(path) {
                    let message = "names nothing to run; write exactly one, such as `http: { url: \
                                   http://127.0.0.1:8080/jobs/nightly }`";
                    self.problem(path, message.to_owned());
                }
                None
            }
        }
    }

    fn http_run(&mut self, raw: &RawHttpRun, path: &Path) -> Option<HttpRun> {
        let method = self.word(raw.method.as_ref(), &path.key("method"), &METHODS.map(|method| (method, method)));
        let url = self.job_url(raw.url.as_ref(), &path.key("url"));
        let headers = self.headers(raw.headers.as_deref().unwrap_or_default(), &path.key("headers"));
        let body = self.body(raw.body.as_ref(), &path.key("body"));
        let timeout = self.job_timeout(raw.timeout.as_ref(), TIMEOUT, &path.key("timeout"));
        let success = self.statuses(raw.success_status.as_deref(), &path.key("successStatus"));
        let heartbeat_timeout =
            self.job_timeout(raw.heartbeat_timeout.as_ref(), HEARTBEAT_TIMEOUT, &path.key("heartbeatTimeout"));
        let method = method.unwrap_or("POST").to_owned();
        if body.is_some() && (method == "GET" || method == "HEAD") {
            let message = format!("a {method} request has no body that servers look at; write another method, as POST");
            self.problem(&path.key("body"), message);
        }
        Some(HttpRun { method, url: url?, headers, body, timeout, success, heartbeat_timeout })
    }

    /// No message holds any part of the URL, whose query may hold a token.
    fn job_url(&mut self, given: Option<&Scalar>, path: &Path) -> Option<::url::Url> {
        let text = self.text(given, path)?;
        let problem = match ::url::Url::parse(text) {
            // The error's own words name a part of a URL, never its text.
            Err(error) => format!("is not a URL: {error}; {URL_EXAMPLE}"),
            Ok(url) if url.scheme() != "http" && url.scheme() != "https" => {
                format!("is neither http: nor https:; {URL_EXAMPLE}")
            }
            Ok(url) if !url.username().is_empty() || url.password().is_some() => {
                "holds a user or a password; give them in a header, `Authorization` with a valueFile".to_owned()
            }
            Ok(url) if url.fragment().is_some() => "holds a `#…`, which no request carries; remove it".to_owned(),
            Ok(url) => return Some(url),
        };
        self.problem(path, problem);
        None
    }

    fn headers(&mut self, raw: &[Option<RawHeader>], path: &Path) -> Vec<(String, Secret)> {
        if raw.len() > HEADERS_MAX {
            self.problem(path, format!("are {}; no more than {HEADERS_MAX} are taken", raw.len()));
        }
        let mut names = BTreeSet::new();
        let mut headers = Vec::new();
        for (index, raw) in raw.iter().enumerate() {
            let Some(raw) = raw else { continue };
            let path = path.index(index);
            let name = self.header_name(raw.name.as_ref(), &path.key("name"));
            if name.as_ref().is_some_and(|name| !names.insert(name.to_ascii_lowercase())) {
                self.problem(&path.key("name"), "is the name of a header before; keep one of them".to_owned());
            }
            headers.extend(name.zip(self.header_value(raw, &path)));
        }
        headers
    }

    fn header_name(&mut self, given: Option<&Scalar>, path: &Path) -> Option<String> {
        let text = self.text(given, path)?;
        let lower = text.to_ascii_lowercase();
        let why = if !text.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b)) {
            "is not the name of a header; write letters, digits and `-`, such as X-Api-Key"
        } else if OWN_HEADERS.contains(&lower.as_str()) || lower.starts_with("baton-") {
            "is a header that Baton sets itself; remove it"
        } else {
            return Some(text.to_owned());
        };
        let shown = given.map(|given| self.shown(given, path)).unwrap_or_default();
        self.problem(path, format!("{shown} {why}"));
        None
    }

    fn header_value(&mut self, raw: &RawHeader, path: &Path) -> Option<Secret> {
        let (value_path, file_path) = (path.key("value"), path.key("valueFile"));
        match (&raw.value, &raw.value_file) {
            (Some(_), Some(_)) => {
                self.problem(&file_path, "is given beside value; keep one of the two".to_owned());
                None
            }
            (None, None) => {
                if !self.is_bad(&value_path) && !self.is_bad(&file_path) {
                    self.problem(path, "has no value; add `value`, or `valueFile` for a secret".to_owned());
                }
                None
            }
            (Some(value), None) => {
                let text = self.text(Some(value), &value_path)?;
                if let Err(why) = fits_a_header(text) {
                    self.problem(&value_path, why.to_owned());
                }
                Some(Secret::Value(SecretString::from(text)))
            }
            (None, file) => self.file(file.as_ref(), &file_path, fits_a_header).map(Secret::File),
        }
    }

    /// A template: what stands in double braces must be known.
    fn body(&mut self, given: Option<&Scalar>, path: &Path) -> Option<String> {
        let text = self.text(given, path)?;
        let known = || PLACEHOLDERS.map(|name| format!("{{{{{name}}}}}")).join(", ");
        for after in text.split("{{").skip(1) {
            let name = after.split_once("}}").map(|(name, _)| name);
            if name.is_some_and(|name| PLACEHOLDERS.contains(&name)) {
                continue;
            }
            let plain = name.filter(|name| name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b' '));
            let told = match plain.filter(|_| !self.sources.contains_key(path)) {
                Some(name) if name.len() <= 40 => format!("holds the unknown placeholder `{{{{{name}}}}}`"),
                _ => "holds a `{{` that begins no placeholder".to_owned(),
            };
            self.problem(path, format!("{told}; there are {}", known()));
            return None;
        }
        Some(text.to_owned())
    }

    fn job_timeout(&mut self, given: Option<&Scalar>, default: Duration, path: &Path) -> Duration {
        let timeout = self.positive_duration(given, path).unwrap_or(default);
        if timeout > TIMEOUT_MAX {
            self.problem(path, format!("is {timeout:?}; it must be at most 24h"));
        }
        timeout
    }

    fn statuses(&mut self, raw: Option<&[Option<Scalar>]>, path: &Path) -> Vec<RangeInclusive<u16>> {
        let Some(raw) = raw else { return vec![200..=299] };
        if raw.is_empty() {
            self.problem(path, "is empty, so that nothing would be a success; write statuses, or remove it".to_owned());
        }
        let mut statuses = Vec::new();
        for (index, value) in raw.iter().enumerate() {
            let Some(value) = value else { continue };
            match status_range(value) {
                Some(range) => statuses.push(range),
                None => {
                    let path = path.index(index);
                    let shown = self.shown(value, &path);
                    let message = format!("{shown} is no status; write a number from 100 to 599, or two as `200-299`");
                    self.problem(&path, message);
                }
            }
        }
        statuses
    }

    fn exec_run(&mut self, raw: &RawExecRun, timing: Option<&Timing>, path: &Path) -> Option<ExecRun> {
        let command = self.command(raw.command.as_deref(), &path.key("command"));
        let env = self.variables(raw.env.as_deref().unwrap_or_default(), &path.key("env"));
        let output = self.count(raw.max_output.as_ref(), &path.key("maxOutput"), 0..=OUTPUT_BYTES_MAX);
        let grace_path = path.key("terminationGracePeriod");
        let given = self.duration(raw.termination_grace_period.as_ref(), &grace_path);
        // Without the role's timing there is nothing to hold it against, and the role was told of.
        let grace = self.grace(given, timing?, &grace_path);
        Some(ExecRun { command: command?, env, grace, output_max: u64::from(output.unwrap_or(OUTPUT_BYTES)) })
    }

    /// A program must be gone before the lease can be another's, and no promise may outlive the time to end it.
    fn grace(&mut self, given: Option<Duration>, timing: &Timing, path: &Path) -> Duration {
        let validity = timing.answer_validity();
        let Some(grace) = given else { return (timing.term_span() / 2).min(GRACE_MAX).min(validity) };
        let less_than = timing.term_span() - timing.renew_period();
        if grace >= less_than {
            let message = format!(
                "is {grace:?}; it must be less than {less_than:?} (leaseDuration - stepDownMargin - renewPeriod of the \
                 role), or a run would be ended before the next renewal is due"
            );
            self.problem(path, message);
        } else if grace > validity {
            let message = format!("is {grace:?}; it must be at most the role's answerValidity, {validity:?}");
            self.problem(path, message);
        }
        grace
    }

    fn command(&mut self, raw: Option<&[Option<Scalar>]>, path: &Path) -> Option<Vec<String>> {
        let raw = raw?;
        if raw.is_empty() {
            self.problem(path, "is empty; write the program and its arguments".to_owned());
        }
        let arguments = raw.iter().enumerate().map(|(index, argument)| {
            let path = path.index(index);
            let argument = self.argument(argument.as_ref(), &path)?;
            if index == 0 && argument.trim().is_empty() {
                self.problem(&path, "is empty; write the program to run".to_owned());
            }
            Some(argument)
        });
        // Every argument is looked at, so that every problem is told.
        let arguments: Vec<Option<String>> = arguments.collect();
        arguments.into_iter().collect()
    }

    /// A text for a program; it may be empty.
    fn argument(&mut self, value: Option<&Scalar>, path: &Path) -> Option<String> {
        match value? {
            Scalar::Text(text) if text.contains('\0') => {
                self.problem(path, "holds a NUL character, which no program can be given".to_owned());
                None
            }
            Scalar::Text(text) => Some(text.clone()),
            Scalar::Number(_) | Scalar::Bool(_) => {
                self.problem(path, "is not a text; put it in quotes".to_owned());
                None
            }
        }
    }

    fn variables(&mut self, raw: &[Option<RawVariable>], path: &Path) -> Vec<(String, String)> {
        let mut names = BTreeSet::new();
        let mut variables = Vec::new();
        for (index, raw) in raw.iter().enumerate() {
            let Some(raw) = raw else { continue };
            let path = path.index(index);
            let value = self.argument(raw.value.as_ref(), &path.key("value"));
            let path = path.key("name");
            let Some(name) = self.text(raw.name.as_ref(), &path).map(str::to_owned) else { continue };
            if name.contains(['=', '\0']) {
                self.problem(&path, "is not the name of a variable; write letters, digits and `_`".to_owned());
            } else if name.starts_with("BATON_") {
                self.problem(&path, "is a variable that Baton sets itself; use a name without `BATON_`".to_owned());
            } else if !names.insert(name.clone()) {
                self.problem(&path, "is the name of a variable before; keep one of them".to_owned());
            }
            variables.extend(value.map(|value| (name, value)));
        }
        variables
    }
}

/// Judges the value of a header.
fn fits_a_header(content: &str) -> Result<(), &'static str> {
    if content.trim().is_empty() {
        Err("is empty; it must hold the header's value")
    } else if !content.bytes().all(|b| b.is_ascii_graphic() || b == b' ' || b == b'\t') {
        Err("holds what no header can carry; use visible ASCII characters and spaces, in one line")
    } else {
        Ok(())
    }
}

/// A status, or two with a `-`.
fn status_range(value: &Scalar) -> Option<RangeInclusive<u16>> {
    let (Scalar::Number(text) | Scalar::Text(text)) = value else { return None };
    let status = |text: &str| text.parse::<u16>().ok().filter(|status| (100..=599).contains(status));
    let (from, to) = text.split_once('-').unwrap_or((text, text));
    let (from, to) = (status(from)?, status(to)?);
    (from <= to).then_some(from..=to)
}
