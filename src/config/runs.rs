//! `jobs[].run:`

use std::collections::BTreeSet;
use std::fmt;
use std::ops::RangeInclusive;
use std::time::Duration;

use secrecy::SecretString;
use serde_json::{Value, json};

use super::secret::Secret;
use super::section::{Definitions, Group, Key, Kind, Or, Reader, Rule, Section, Shape, key, required};
use super::tree::Node;
use super::value::{Count, File, Form, List, Span, Text, Words, or_reference};
use crate::protocol::Timing;

/// `jobs[].run:`, exactly one.
#[derive(Clone, Debug, PartialEq)]
pub enum RunConfig {
    /// A request to the app.
    Http(HttpRun),
    /// A program beside the sidecar.
    Exec(ExecRun),
}

/// `jobs[].run.http:`. Its `Debug` shows neither the query of the URL nor the body, which may hold secrets.
#[derive(Clone, PartialEq)]
pub struct HttpRun {
    pub method: String,
    /// `http:` or `https:`, without user or password.
    pub url: url::Url,
    /// Besides those that every callback has. Values may be secrets.
    pub headers: Vec<(String, Secret)>,
    /// A text in which `{{run}}`, `{{job}}`, `{{scheduledTime}}`, `{{attempt}}`, `{{token}}`, `{{shard}}` and
    /// `{{data}}` stand for their values; none: what a run was given, if it was given something.
    pub body: Option<String>,
    pub timeout: Duration,
    /// Which status numbers mean success.
    pub success: Vec<RangeInclusive<u16>>,
    /// With it 202 means that the app works on and will tell: how long it may be silent.
    pub heartbeat_timeout: Option<Duration>,
}

impl HttpRun {
    /// Whether servers look at the body of such a request.
    pub fn sends_body(&self) -> bool {
        !matches!(self.method.as_str(), "GET" | "HEAD")
    }
}

impl RunConfig {
    /// Why a run cannot be given anything, if it cannot.
    pub fn without_data(&self) -> Option<&'static str> {
        match self {
            Self::Http(http) if !http.sends_body() => Some("its request is a GET or HEAD, which has no body"),
            Self::Http(HttpRun { body: Some(body), .. }) if !body.contains("{{data}}") => {
                Some("the body of its request has no {{data}} in it")
            }
            Self::Http(_) | Self::Exec(_) => None,
        }
    }
}

impl fmt::Debug for HttpRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpRun")
            .field("method", &self.method)
            .field("url", &format_args!("{}{}", self.url.origin().ascii_serialization(), self.url.path()))
            .field("headers", &self.headers)
            .field("timeout", &self.timeout)
            .field("success", &self.success)
            .field("heartbeat_timeout", &self.heartbeat_timeout)
            .finish_non_exhaustive()
    }
}

/// `jobs[].run.exec:`. Its `Debug` shows no variable's value, which may be a secret.
#[derive(Clone, PartialEq, Eq)]
pub struct ExecRun {
    /// The program and its arguments; not empty.
    pub command: Vec<String>,
    pub env: Vec<(String, String)>,
    pub grace: Duration,
    pub output_max: u64,
}

impl fmt::Debug for ExecRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.env.iter().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("ExecRun")
            .field("command", &self.command.first())
            .field("env", &names)
            .field("grace", &self.grace)
            .field("output_max", &self.output_max)
            .finish_non_exhaustive()
    }
}

const URL_EXAMPLE: &str = "write it as http://127.0.0.1:8080/jobs/nightly";
const TIMEOUT_MAX: Duration = Duration::from_secs(24 * 3_600);
const HEADERS_MAX: usize = 50;
const GRACE_USUAL_MAX: Duration = Duration::from_secs(5);
const PLACEHOLDERS: [&str; 7] = ["run", "job", "scheduledTime", "attempt", "token", "shard", "data"];

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

pub(super) const RUN: Key<Group> =
    required("run", Group(&SECTION), "What a run is: a request or a program, exactly one.");

const HTTP: Key<Group> = key("http", Group(&HTTP_RUN), "A request, mostly to the app beside the sidecar.");
const EXEC: Key<Group> = key("exec", Group(&EXEC_RUN), "A program beside the sidecar, in its container.");

pub(super) const SECTION: Section =
    Section::new("Run", "What a run is: exactly one.", &[&HTTP, &EXEC]).with(Rule::ExactlyOne);

const METHOD: Key<Or<Words<&str>>> = key(
    "method",
    Or(
        Words::of(&[
            ("GET", "GET"),
            ("HEAD", "HEAD"),
            ("POST", "POST"),
            ("PUT", "PUT"),
            ("PATCH", "PATCH"),
            ("DELETE", "DELETE"),
        ]),
        "POST",
    ),
    "The method.",
);
const URL: Key<Text> = required(
    "url",
    Text::like("^[hH][tT][tT][pP][sS]?://.+$"),
    "Where it goes: `http://127.0.0.1:8080/jobs/nightly`, or https. Without user and password.",
);
const HEADERS: Key<List<Group>> = key(
    "headers",
    List { item: Group(&HEADER), min: 0, max: HEADERS_MAX },
    "Headers besides those that every callback has.",
);
const BODY: Key<Text> = key(
    "body",
    Text::ANY,
    "The body; `{{run}}`, `{{job}}`, `{{scheduledTime}}`, `{{attempt}}`, `{{token}}`, `{{shard}}` and `{{data}}` \
     in it stand for their values. Default: what a run was given, if it was given something.",
);
pub(super) const TIMEOUT: Key<Or<Span>> = key(
    "timeout",
    Or(Span::up_to(TIMEOUT_MAX), Duration::from_secs(30)),
    "When a request counts as failed that has no answer; up to {max}.",
);
const SUCCESS_STATUS: Key<Statuses> =
    key("successStatus", Statuses, "Which statuses mean success: numbers, or ranges such as 200-299.");
const SUCCESS: RangeInclusive<u16> = 200..=299;
const ACCEPTED: u16 = 202;
const HEARTBEAT_TIMEOUT: Key<Span> = key(
    "heartbeatTimeout",
    Span::up_to(TIMEOUT_MAX),
    "202 means that the app works on and tells how it ended; how long it may be silent before the attempt has failed. \
     Default: 202 is a status like any other.",
);

const HTTP_RUN: Section = Section::new(
    "HttpRun",
    "A request; a status from 200 to 299 is success. With `heartbeatTimeout` 202 means that the app will tell later.",
    &[&METHOD, &URL, &HEADERS, &BODY, &TIMEOUT, &SUCCESS_STATUS, &HEARTBEAT_TIMEOUT],
);

const HEADER_NAME: Key<Form<String>> =
    required("name", Form { pattern: "^[-A-Za-z0-9!#$%&'*+.^_`|~]+$", parse: header_name }, "Its name.");
const HEADER_VALUE: Key<Text> =
    key("value", Text::ANY, "Its value; a secret better from `${ENV}` than written here. Excludes `valueFile`.");
const HEADER_VALUE_FILE: Key<File> =
    key("valueFile", File(fits_a_header), "A file with the value, read again at every attempt.");

const HEADER: Section = Section::new(
    "Header",
    "A header of the request: its name, and either `value` or `valueFile`.",
    &[&HEADER_NAME, &HEADER_VALUE, &HEADER_VALUE_FILE],
);

const COMMAND: Key<List<Argument>> = required(
    "command",
    List { item: Argument, min: 1, max: usize::MAX },
    "The program and its arguments. No shell reads them.",
);
const ENV: Key<List<Group>> = key(
    "env",
    List { item: Group(&VARIABLE), min: 0, max: usize::MAX },
    "Variables besides the sidecar's own and those of the run.",
);
const GRACE: Key<Span> = key(
    "terminationGracePeriod",
    Span::ANY,
    "How long it has between TERM and KILL; at most answerValidity, and less than leaseDuration - stepDownMargin - \
     renewPeriod of its role. Default: half of leaseDuration - stepDownMargin, at most 5s.",
);
const MAX_OUTPUT: Key<Or<Count>> =
    key("maxOutput", Or(Count(0, 16 << 20), 64 * 1024), "How much of its output is logged, in bytes.");

const EXEC_RUN: Section =
    Section::new("ExecRun", "A program: exit code 0 is success.", &[&COMMAND, &ENV, &GRACE, &MAX_OUTPUT]);

const VARIABLE_NAME: Key<Text> = required("name", Text::like("^[^=]+$"), "Its name.");
const VARIABLE_VALUE: Key<Argument> = required("value", Argument, "Its value; may be empty.");

const VARIABLE: Section = Section::new("Variable", "A variable of the program.", &[&VARIABLE_NAME, &VARIABLE_VALUE]);

/// A text for a program; it may be empty.
pub(super) struct Argument;

impl Shape for Argument {
    fn schema(&self, _: &mut Definitions) -> Value {
        json!({"type": "string"})
    }
}

impl Kind for Argument {
    type Value<'a> = String;

    fn read<'a>(&self, at: &Reader<'a>) -> Option<String> {
        match at.node {
            Some(Node::Text { text, .. }) if text.contains('\0') => {
                at.problem("holds a NUL character, which no program can be given");
            }
            Some(Node::Text { text, .. }) => return Some(text.clone()),
            _ => at.problem("is not a text; put it in quotes"),
        }
        None
    }
}

/// A status, or two with a `-`.
struct Status;

impl Status {
    const MIN: u16 = 100;
    const MAX: u16 = 599;

    fn parse(text: &str) -> Option<RangeInclusive<u16>> {
        let status = |text: &str| text.parse().ok().filter(|status| (Self::MIN..=Self::MAX).contains(status));
        let (from, to) = text.split_once('-').unwrap_or((text, text));
        let (from, to) = (status(from)?, status(to)?);
        (from <= to).then_some(from..=to)
    }
}

impl Shape for Status {
    fn schema(&self, _: &mut Definitions) -> Value {
        let mut schema = or_reference("integer", "^[1-5][0-9]{2}-[1-5][0-9]{2}$|");
        schema["minimum"] = Self::MIN.into();
        schema["maximum"] = Self::MAX.into();
        schema
    }
}

impl Kind for Status {
    type Value<'a> = RangeInclusive<u16>;

    fn read<'a>(&self, at: &Reader<'a>) -> Option<RangeInclusive<u16>> {
        let range = match at.node {
            Some(Node::Number(text) | Node::Text { text, .. }) => Self::parse(text),
            _ => None,
        };
        if range.is_none() {
            let (shown, min, max) = (at.shown(), Self::MIN, Self::MAX);
            at.problem(format!("{shown} is no status; write a number from {min} to {max}, or two as `200-299`"));
        }
        range
    }
}

/// A list of them.
struct Statuses;

impl Statuses {
    const LIST: List<Status> = List { item: Status, min: 1, max: usize::MAX };
}

impl Shape for Statuses {
    fn schema(&self, definitions: &mut Definitions) -> Value {
        let mut schema = Self::LIST.schema(definitions);
        schema["default"] = json!([format!("{}-{}", SUCCESS.start(), SUCCESS.end())]);
        schema
    }

    fn inspect(&self, at: &Reader<'_>) {
        Self::LIST.inspect(at);
    }
}

impl Kind for Statuses {
    type Value<'a> = Vec<RangeInclusive<u16>>;

    fn read<'a>(&self, at: &Reader<'a>) -> Option<Vec<RangeInclusive<u16>>> {
        let items = at.items();
        if items.is_empty() {
            at.problem("is empty, so that nothing would be a success; write statuses, or remove it");
        }
        Some(items.iter().filter_map(|item| item.read(&Status)).collect())
    }
}

/// Whether a run wants to know the number of its shard.
pub(super) fn names_shard(run: &RunConfig) -> bool {
    matches!(run, RunConfig::Http(HttpRun { body: Some(body), .. }) if body.contains("{{shard}}"))
}

/// Exactly one runner. `timing` is the role's, if that is known.
pub(super) fn read(s: &Reader<'_>, timing: Option<&Timing>) -> Option<RunConfig> {
    match (s.given(&HTTP), s.given(&EXEC)) {
        (Some(_), Some(_)) => {
            s.problem("has both http and exec; keep exactly one");
            None
        }
        (Some(http), None) => read_http(&http).map(RunConfig::Http),
        (None, Some(exec)) => read_exec(&exec, timing).map(RunConfig::Exec),
        (None, None) => {
            if s.is_sound() {
                s.problem(
                    "names nothing to run; write exactly one, such as `http: { url: \
                     http://127.0.0.1:8080/jobs/nightly }`",
                );
            }
            None
        }
    }
}

/// What whoever reaches the app's listener may ask for: a request. Programs are run, and files are read, for nobody but
/// the configuration.
pub(super) fn read_at_run_time(s: &Reader<'_>) -> Option<HttpRun> {
    let Some(http) = s.given(&HTTP).filter(|_| !s.has(&EXEC)) else {
        if s.has(&EXEC) {
            s.at(&EXEC).problem("is for jobs of the configuration file alone; write http");
        } else if s.is_sound() {
            s.problem("names nothing to run; write `http` with a `url`");
        }
        return None;
    };
    let headers = http.given(&HEADERS).unwrap_or_default();
    let files: Vec<_> = headers.iter().map(|s| s.at(&HEADER_VALUE_FILE)).filter(|file| file.node.is_some()).collect();
    for file in &files {
        file.problem("is for jobs of the configuration file alone; write value");
    }
    if files.is_empty() { read_http(&http) } else { None }
}

fn read_http(s: &Reader<'_>) -> Option<HttpRun> {
    let (method, url, body) = (s.get(&METHOD), url(s, &URL, URL_EXAMPLE), body(s));
    if body.is_some() && (method == "GET" || method == "HEAD") {
        s.at(&BODY)
            .problem(format!("a {method} request has no body that servers look at; write another method, as POST"));
    }
    let success = s.given(&SUCCESS_STATUS);
    let heartbeat_timeout = s.given(&HEARTBEAT_TIMEOUT);
    if heartbeat_timeout.is_some() {
        if success.iter().flatten().any(|range| *range == (ACCEPTED..=ACCEPTED)) {
            s.at(&SUCCESS_STATUS).problem(
                "names 202 as a success, and heartbeatTimeout says that it means accepted, with the end to come; keep \
                 one of the two",
            );
        }
        if url.as_ref().is_some_and(|url| !is_here(url)) {
            s.at(&URL).warning(
                "is not this pod's own address, and with heartbeatTimeout the app tells how a run ended to the sidecar \
                 that sent it, and to no other: behind a Service another pod would tell its own, in vain",
            );
        }
    }
    let run = HttpRun {
        method: method.to_owned(),
        headers: headers(s),
        body,
        timeout: s.get(&TIMEOUT),
        success: success.unwrap_or_else(|| vec![SUCCESS]),
        heartbeat_timeout,
        url: url?,
    };
    Some(run)
}

/// Whether an address is of the sidecar's own network namespace, as far as its text tells.
fn is_here(url: &url::Url) -> bool {
    match url.host() {
        Some(url::Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        Some(url::Host::Ipv4(address)) => address.is_loopback() || address.is_unspecified(),
        Some(url::Host::Ipv6(address)) => address.is_loopback() || address.is_unspecified(),
        None => false,
    }
}

/// No message holds any part of the URL, whose query may hold a token.
pub(super) fn url(s: &Reader<'_>, key: &Key<Text>, example: &str) -> Option<url::Url> {
    let problem = match url::Url::parse(&s.given(key)?) {
        // The error's own words name a part of a URL, never its text.
        Err(error) => format!("is not a URL: {error}; {example}"),
        Ok(url) if url.scheme() != "http" && url.scheme() != "https" => {
            format!("is neither http: nor https:; {example}")
        }
        Ok(url) if !url.username().is_empty() || url.password().is_some() => {
            "holds a user or a password; give them in a header, `Authorization` with a valueFile".to_owned()
        }
        Ok(url) if url.fragment().is_some() => "holds a `#…`, which no request carries; remove it".to_owned(),
        Ok(url) => return Some(url),
    };
    s.at(key).problem(problem);
    None
}

fn headers(s: &Reader<'_>) -> Vec<(String, Secret)> {
    let places = s.given(&HEADERS).unwrap_or_default();
    if places.len() > HEADERS_MAX {
        s.at(&HEADERS).problem(format!("are {}; no more than {HEADERS_MAX} are taken", places.len()));
    }
    let mut names = BTreeSet::new();
    let mut headers = Vec::new();
    for s in &places {
        let name = s.given(&HEADER_NAME);
        if name.as_ref().is_some_and(|name| !names.insert(name.to_ascii_lowercase())) {
            s.at(&HEADER_NAME).problem("is the name of a header before; keep one of them");
        }
        headers.extend(name.zip(header_value(s)));
    }
    headers
}

fn header_name(text: &str) -> Result<String, String> {
    let lower = text.to_ascii_lowercase();
    if !text.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b)) {
        Err("is not the name of a header; write letters, digits and `-`, such as X-Api-Key".to_owned())
    } else if OWN_HEADERS.contains(&lower.as_str()) || lower.starts_with("baton-") {
        Err("is a header that Baton sets itself; remove it".to_owned())
    } else {
        Ok(text.to_owned())
    }
}

fn header_value(s: &Reader<'_>) -> Option<Secret> {
    match (s.has(&HEADER_VALUE), s.has(&HEADER_VALUE_FILE)) {
        (true, true) => {
            s.at(&HEADER_VALUE_FILE).problem("is given beside value; keep one of the two");
            None
        }
        (false, false) => {
            s.problem("has no value; add `value`, or `valueFile` for a secret");
            None
        }
        (true, false) => {
            let text = s.given(&HEADER_VALUE)?;
            if let Err(why) = fits_a_header(&text) {
                s.at(&HEADER_VALUE).problem(why);
            }
            Some(Secret::Value(SecretString::from(text)))
        }
        (false, true) => s.given(&HEADER_VALUE_FILE).map(Secret::File),
    }
}

/// A template: what stands in double braces must be known.
fn body(s: &Reader<'_>) -> Option<String> {
    let (text, place) = (s.given(&BODY)?, s.at(&BODY));
    for after in text.split("{{").skip(1) {
        let name = after.split_once("}}").map(|(name, _)| name);
        if name.is_some_and(|name| PLACEHOLDERS.contains(&name)) {
            continue;
        }
        let plain = name.filter(|name| name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b' '));
        let told = match plain.filter(|_| !place.is_from_environment()) {
            Some(name) if name.len() <= 40 => format!("holds the unknown placeholder `{{{{{name}}}}}`"),
            _ => "holds a `{{` that begins no placeholder".to_owned(),
        };
        let known = PLACEHOLDERS.map(|name| format!("{{{{{name}}}}}")).join(", ");
        place.problem(format!("{told}; there are {known}"));
        return None;
    }
    Some(text)
}

fn read_exec(s: &Reader<'_>, timing: Option<&Timing>) -> Option<ExecRun> {
    let (command, env, given) = (arguments(s, &COMMAND), variables(s), s.given(&GRACE));
    let output_max = u64::from(s.get(&MAX_OUTPUT));
    // Without the role's timing there is nothing to hold it against, and the role was told of.
    let grace = grace(given, timing?, &s.at(&GRACE));
    Some(ExecRun { command: command?, env, grace, output_max })
}

/// A program must be gone before the lease can be another's, and no promise may outlive the time to end it.
fn grace(given: Option<Duration>, timing: &Timing, place: &Reader<'_>) -> Duration {
    let validity = timing.answer_validity();
    let Some(grace) = given else { return (timing.term_span() / 2).min(GRACE_USUAL_MAX).min(validity) };
    let less_than = timing.term_span() - timing.renew_period();
    if grace >= less_than {
        place.problem(format!(
            "is {grace:?}; it must be less than {less_than:?} (leaseDuration - stepDownMargin - renewPeriod of the \
             role), or a run would be ended before the next renewal is due"
        ));
    } else if grace > validity {
        place.problem(format!("is {grace:?}; it must be at most the role's answerValidity, {validity:?}"));
    }
    grace
}

/// A program and its arguments.
pub(super) fn arguments(s: &Reader<'_>, key: &Key<List<Argument>>) -> Option<Vec<String>> {
    let places = s.given(key)?;
    let Some(program) = places.first() else {
        s.at(key).problem("is empty; write the program and its arguments");
        return None;
    };
    // Every argument is looked at, so that every problem is told.
    let arguments: Vec<Option<String>> = places.iter().map(|place| place.read(&Argument)).collect();
    if arguments[0].as_ref().is_some_and(|program| program.trim().is_empty()) {
        program.problem("is empty; write the program to run");
    }
    arguments.into_iter().collect()
}

fn variables(s: &Reader<'_>) -> Vec<(String, String)> {
    let mut names = BTreeSet::new();
    let mut variables = Vec::new();
    for s in s.given(&ENV).unwrap_or_default() {
        let value = s.given(&VARIABLE_VALUE);
        let (Some(name), place) = (s.given(&VARIABLE_NAME), s.at(&VARIABLE_NAME)) else { continue };
        if name.contains(['=', '\0']) {
            place.problem("is not the name of a variable; write letters, digits and `_`");
        } else if name.starts_with("BATON_") {
            place.problem("is a variable that Baton sets itself; use a name without `BATON_`");
        } else if !names.insert(name.clone()) {
            place.problem("is the name of a variable before; keep one of them");
        }
        variables.extend(value.map(|value| (name, value)));
    }
    variables
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
