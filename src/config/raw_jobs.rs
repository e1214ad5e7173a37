//! The shape of `jobs:`, before any value is checked.

use schemars::JsonSchema;
use serde::Deserialize;

use super::raw::Scalar;
use super::schema as leaf;

/// One job: what is run, when, and what becomes of its runs. Words and meanings are those of a Kubernetes CronJob.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "Job", extend("required" = ["name", "schedule", "run"]))]
pub(super) struct RawJob {
    /// Its name: a DNS label of at most 52 bytes.
    #[schemars(with = "Option<leaf::Job>")]
    pub(super) name: Option<Scalar>,
    /// The role whose leader starts it. Default: the only role, if there is one.
    #[schemars(with = "Option<leaf::Role>")]
    pub(super) role: Option<Scalar>,
    /// When it is due: cron with five or six fields, `@daily` and the like, or `@every 90s`.
    #[schemars(with = "Option<leaf::Text>")]
    pub(super) schedule: Option<Scalar>,
    /// The zone whose clocks the schedule is about, such as Europe/Berlin.
    #[schemars(with = "Option<leaf::Text>", extend("default" = "UTC"))]
    pub(super) time_zone: Option<Scalar>,
    /// What happens to a slot while a run is going on: `Allow` runs both, `Forbid` lets it wait, `Replace` cancels the
    /// run.
    #[schemars(with = "Option<leaf::ConcurrencyWord>", extend("default" = "Allow"))]
    pub(super) concurrency_policy: Option<Scalar>,
    /// How late a slot may still start, in seconds; later it is missed. Default: however late.
    #[schemars(with = "Option<leaf::Count<1, 31536000>>")]
    pub(super) starting_deadline_seconds: Option<Scalar>,
    /// What becomes of slots that passed while nobody could start them: none, the `latest` or `all` are started.
    #[schemars(with = "Option<leaf::CatchUpWord>", extend("default" = "latest"))]
    pub(super) catch_up: Option<Scalar>,
    /// Whether slots are left out until the job is resumed.
    #[schemars(with = "Option<leaf::Flag>", extend("default" = false))]
    pub(super) suspend: Option<Scalar>,
    /// How many attempts may follow the first.
    #[schemars(with = "Option<leaf::Count<0, 100>>", extend("default" = 6))]
    pub(super) backoff_limit: Option<Scalar>,
    /// The pauses before them.
    pub(super) backoff: Option<RawBackoff>,
    /// How long a run may take in all, repeated attempts included, in seconds. Default: however long.
    #[schemars(with = "Option<leaf::Count<1, 31536000>>")]
    pub(super) active_deadline_seconds: Option<Scalar>,
    /// What a run is whose leader stopped leading: the next leader makes another attempt (`retry`), or it has failed.
    #[schemars(with = "Option<leaf::InterruptWord>", extend("default" = "retry"))]
    pub(super) on_interrupt: Option<Scalar>,
    /// How many successful runs are remembered.
    #[schemars(with = "Option<leaf::Count<0, 1000>>", extend("default" = 3))]
    pub(super) successful_jobs_history_limit: Option<Scalar>,
    /// How many failed runs are remembered.
    #[schemars(with = "Option<leaf::Count<0, 1000>>", extend("default" = 1))]
    pub(super) failed_jobs_history_limit: Option<Scalar>,
    /// What a run is: a request or a program, exactly one.
    pub(super) run: Option<RawRun>,
}

/// The pauses between attempts: each is twice the one before.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "Backoff")]
pub(super) struct RawBackoff {
    /// The pause after the first failure.
    #[schemars(with = "Option<leaf::Span>", extend("default" = "10s"))]
    pub(super) initial: Option<Scalar>,
    /// The longest pause. Default: 6m, or `initial` when that is more.
    #[schemars(with = "Option<leaf::Span>")]
    pub(super) max: Option<Scalar>,
}

/// What a run is: exactly one.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "Run", extend("minProperties" = 1, "maxProperties" = 1))]
pub(super) struct RawRun {
    /// A request, mostly to the app beside the sidecar.
    pub(super) http: Option<RawHttpRun>,
    /// A program beside the sidecar, in its container.
    pub(super) exec: Option<RawExecRun>,
}

/// A request; a status from 200 to 299 is success, 202 means that the app will tell later.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "HttpRun", extend("required" = ["url"]))]
pub(super) struct RawHttpRun {
    /// The method.
    #[schemars(with = "Option<leaf::MethodWord>", extend("default" = "POST"))]
    pub(super) method: Option<Scalar>,
    /// Where it goes: `http://127.0.0.1:8080/jobs/nightly`, or https. Without user and password.
    #[schemars(with = "Option<leaf::HttpUrl>")]
    pub(super) url: Option<Scalar>,
    /// Headers besides those that every callback has.
    #[schemars(with = "Option<Vec<RawHeader>>", extend("maxItems" = 50))]
    pub(super) headers: Option<Vec<Option<RawHeader>>>,
    /// The body; `{{run}}`, `{{job}}`, `{{scheduledTime}}`, `{{attempt}}` and `{{token}}` in it stand for their
    /// values.
    #[schemars(with = "Option<leaf::Text>")]
    pub(super) body: Option<Scalar>,
    /// When a request counts as failed that has no answer; up to 24h.
    #[schemars(with = "Option<leaf::Span>", extend("default" = "30s"))]
    pub(super) timeout: Option<Scalar>,
    /// Which statuses mean success: numbers, or ranges such as 200-299.
    #[schemars(with = "Option<Vec<leaf::Status>>", extend("minItems" = 1, "default" = ["200-299"]))]
    pub(super) success_status: Option<Vec<Option<Scalar>>>,
    /// After a 202: how long the app may be silent before the attempt has failed; up to 24h.
    #[schemars(with = "Option<leaf::Span>", extend("default" = "1m"))]
    pub(super) heartbeat_timeout: Option<Scalar>,
}

/// A header of the request: its name, and either `value` or `valueFile`.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "Header", extend("required" = ["name"]))]
pub(super) struct RawHeader {
    /// Its name.
    #[schemars(with = "Option<leaf::HeaderName>")]
    pub(super) name: Option<Scalar>,
    /// Its value; a secret better from `${ENV}` than written here. Excludes `valueFile`.
    #[schemars(with = "Option<leaf::Text>")]
    pub(super) value: Option<Scalar>,
    /// A file with the value, read again at every attempt.
    #[schemars(with = "Option<leaf::File>")]
    pub(super) value_file: Option<Scalar>,
}

/// A program: exit code 0 is success.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "ExecRun", extend("required" = ["command"]))]
pub(super) struct RawExecRun {
    /// The program and its arguments. No shell reads them.
    #[schemars(with = "Option<Vec<leaf::Argument>>", extend("minItems" = 1))]
    pub(super) command: Option<Vec<Option<Scalar>>>,
    /// Variables besides the sidecar's own and those of the run.
    #[schemars(with = "Option<Vec<RawVariable>>")]
    pub(super) env: Option<Vec<Option<RawVariable>>>,
    /// How long it has between TERM and KILL; at most answerValidity, and less than leaseDuration - stepDownMargin -
    /// renewPeriod of its role. Default: half of leaseDuration - stepDownMargin, at most 5s.
    #[schemars(with = "Option<leaf::Span>")]
    pub(super) termination_grace_period: Option<Scalar>,
    /// How much of its output is logged, in bytes.
    #[schemars(with = "Option<leaf::Count<0, 16777216>>", extend("default" = 65536))]
    pub(super) max_output: Option<Scalar>,
}

/// A variable of the program.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "Variable", extend("required" = ["name", "value"]))]
pub(super) struct RawVariable {
    /// Its name.
    #[schemars(with = "Option<leaf::VariableName>")]
    pub(super) name: Option<Scalar>,
    /// Its value; may be empty.
    #[schemars(with = "Option<leaf::Argument>")]
    pub(super) value: Option<Scalar>,
}
