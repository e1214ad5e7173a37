//! `baton jobs`: what may be asked of jobs, through the sidecar on this machine.

mod show;

use std::io::Read;
use std::path::{Path, PathBuf};

use baton::base::process::Exit;
use baton::protocol::jobs::JobName;
use clap::{Args, Subcommand};
use hyper::{Method, StatusCode};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::json;

use super::client::{Api, ApiArgs, ClientError, Reply, segment};
use super::output::{complain, say};
use super::purge::job_name;
use super::{Code, Format, block_on};

/// List, run, cancel, retry, suspend, make and delete jobs
///
/// Asks the sidecar on this machine, which need not lead: what is asked for is written
/// in the store, and the leader of the job's role does it.
///
/// Ends with 0 when it is done or accepted, with 1 when the answer is no (the run is
/// over, the job runs already, a job of the file is not to be changed here), with 64
/// when what is asked for cannot be (an unknown job, a field that is wrong), with 69
/// when no sidecar answers or its store does not.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
#[command(after_help = "Examples:
  baton jobs list
  baton jobs run nightly-report --data '{\"day\":\"2026-11-20\"}'
  baton jobs cancel nightly-report \"$(baton jobs run nightly-report)\"
  baton jobs suspend --all
  baton jobs put remind-42 job.json
  baton jobs backfill nightly-report --from 2026-11-01T00:00:00Z --to 2026-11-07T23:59:59Z")]
pub struct JobsArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Every job: when it is due, and how its last run ended
    List {
        /// How to print it
        #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t = Format::Table)]
        output: Format,
        #[command(flatten)]
        api: ApiArgs,
    },
    /// The runs of a job that are remembered, newest first
    Runs {
        #[command(flatten)]
        job: JobArg,
        /// How to print them; json is one run a line
        #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t = Format::Table)]
        output: Format,
        #[command(flatten)]
        api: ApiArgs,
    },
    /// Run a job now; prints the run's id
    Run {
        #[command(flatten)]
        job: JobArg,
        /// What the run is given: JSON of at most 4 KiB
        #[arg(long, value_name = "JSON")]
        data: Option<String>,
        /// Tells this request from another: the same again makes no other run
        #[arg(long, value_name = "TEXT", value_parser = key)]
        idempotency_key: Option<String>,
        #[command(flatten)]
        api: ApiArgs,
    },
    /// End a run, as failed
    Cancel(RunArgs),
    /// Try a run again that has failed
    Retry(RunArgs),
    /// Leave out the slots of a job, or of all jobs, until they are resumed
    Suspend(JobOrAll),
    /// Start the slots of a job, or of all jobs, again
    Resume(JobOrAll),
    /// Make a job, or put another in its place
    Put {
        #[command(flatten)]
        job: JobArg,
        /// What it is, in JSON; `-` reads standard input
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// Refuse to put it in the place of another
        #[arg(long)]
        no_overwrite: bool,
        #[command(flatten)]
        api: ApiArgs,
    },
    /// Delete a job that was made at run time; what runs is cancelled
    Delete {
        #[command(flatten)]
        job: JobArg,
        #[command(flatten)]
        api: ApiArgs,
    },
    /// Run every slot of a range of the past that has had no run
    Backfill {
        #[command(flatten)]
        job: JobArg,
        /// The beginning of the range, included
        #[arg(long, value_name = "TIME")]
        from: Timestamp,
        /// The end of the range, included
        #[arg(long, value_name = "TIME")]
        to: Timestamp,
        #[command(flatten)]
        api: ApiArgs,
    },
}

/// The sidecar knows the bounds.
fn key(text: &str) -> Result<String, &'static str> {
    let fits = text.bytes().all(|byte| byte.is_ascii_graphic());
    if fits { Ok(text.to_owned()) } else { Err("visible ASCII characters are wanted") }
}

#[derive(Debug, Args)]
struct JobArg {
    /// The job's name; of one that fans out NAME/SHARD
    #[arg(value_name = "NAME", value_parser = job_name)]
    name: JobName,
}

#[derive(Debug, Args)]
struct RunArgs {
    #[command(flatten)]
    job: JobArg,
    /// The run's id, as `baton jobs runs` shows it
    #[arg(value_name = "RUN")]
    run: String,
    #[command(flatten)]
    api: ApiArgs,
}

#[derive(Debug, Args)]
struct JobOrAll {
    /// The job's name
    #[arg(value_name = "NAME", value_parser = job_name, required_unless_present = "all")]
    name: Option<JobName>,
    /// All jobs of the store, over restarts and changes of leaders
    #[arg(long, conflicts_with = "name")]
    all: bool,
    #[command(flatten)]
    api: ApiArgs,
}

/// Why nothing came of it.
#[derive(Debug, thiserror::Error)]
enum JobsError {
    #[error(transparent)]
    Client(#[from] ClientError),
    /// Exit code 64.
    #[error("{path}: {why}")]
    File { path: String, why: std::io::Error },
    /// The sidecar's words, and what they come to.
    #[error("{words}")]
    Refused { words: String, code: Code },
}

impl JobsError {
    fn code(&self) -> Code {
        match self {
            Self::Client(error) => error.code(),
            Self::File { .. } => Exit::Usage.into(),
            Self::Refused { code, .. } => *code,
        }
    }
}

/// What the sidecar answers to a request for a run.
#[derive(Deserialize)]
struct AskedAnswer {
    run: String,
}

/// What it answers to a job that is put.
#[derive(Deserialize)]
struct PutAnswer {
    job: String,
    role: String,
}

/// What it answers to a request for a backfill.
#[derive(Deserialize)]
struct BackfillAnswer {
    slots: u64,
    done: Option<Timestamp>,
}

/// Asks, and prints what came of it.
pub fn jobs(args: JobsArgs) -> Code {
    block_on(async {
        match ask(args.what).await {
            Ok(()) => Exit::Well.into(),
            Err(error) => {
                complain(format_args!("baton jobs: {error}"));
                error.code()
            }
        }
    })
}

async fn ask(what: What) -> Result<(), JobsError> {
    match what {
        What::List { output, api } => show::list(&api.open()?, output).await,
        What::Runs { job, output, api } => show::runs(&api.open()?, &job.path(), output).await,
        What::Run { job, data, idempotency_key, api } => {
            let key = idempotency_key.as_deref().map(|key| ("idempotency-key", key));
            let (path, body) = (job.path() + "/run", data.unwrap_or_default());
            let reply = api.open()?.ask(Method::POST, &path, key.as_slice(), body).await?;
            say(accepted(&reply)?.json::<AskedAnswer>()?.run);
            Ok(())
        }
        What::Cancel(args) => order(&args, "cancel", "is to end").await,
        What::Retry(args) => order(&args, "retry", "is to be tried again").await,
        What::Suspend(args) => suspend(&args, "suspend", "suspended").await,
        What::Resume(args) => suspend(&args, "resume", "resumed").await,
        What::Put { job, file, no_overwrite, api } => put(&api.open()?, &job, &file, no_overwrite).await,
        What::Delete { job, api } => {
            accepted(&api.open()?.ask(Method::DELETE, &job.path(), &[], String::new()).await?)?;
            say(format_args!("{}: deleted", job.name));
            Ok(())
        }
        What::Backfill { job, from, to, api } => {
            let body = json!({"from": from.to_string(), "to": to.to_string()}).to_string();
            let reply = api.open()?.post(&(job.path() + "/backfill"), body).await?;
            let BackfillAnswer { slots, done } = accepted(&reply)?.json()?;
            let far = done.map_or_else(String::new, |done| format!(", done up to {done}"));
            say(format_args!("{}: {slots} slots from {from} to {to}{far}", job.name));
            Ok(())
        }
    }
}

impl JobArg {
    fn path(&self) -> String {
        path_of(&self.name)
    }
}

fn path_of(name: &JobName) -> String {
    format!("/jobs/{}", segment(name.as_str()))
}

async fn order(args: &RunArgs, verb: &str, outcome: &str) -> Result<(), JobsError> {
    let RunArgs { job, run, api } = args;
    let reply = api.open()?.post(&format!("{}/runs/{}/{verb}", job.path(), segment(run)), String::new()).await?;
    say(format_args!("{} {outcome}", accepted(&reply)?.json::<AskedAnswer>()?.run));
    Ok(())
}

async fn suspend(args: &JobOrAll, verb: &str, outcome: &str) -> Result<(), JobsError> {
    let path = args.name.as_ref().map_or_else(|| "/jobs".to_owned(), path_of);
    accepted(&args.api.open()?.post(&format!("{path}/{verb}"), String::new()).await?)?;
    say(format_args!("{}: {outcome}", args.name.as_ref().map_or("all jobs", JobName::as_str)));
    Ok(())
}

async fn put(api: &Api, job: &JobArg, file: &Path, no_overwrite: bool) -> Result<(), JobsError> {
    let read = if file == Path::new("-") {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).map(|_| text)
    } else {
        std::fs::read_to_string(file)
    };
    let body = read.map_err(|why| JobsError::File { path: file.display().to_string(), why })?;
    let path = job.path() + if no_overwrite { "?overwrite=false" } else { "" };
    let reply = api.ask(Method::PUT, &path, &[], body).await?;
    let is_new = accepted(&reply)?.status == StatusCode::CREATED;
    let PutAnswer { job, role } = reply.json()?;
    let outcome = if is_new { "made" } else { "put in the place of the one before" };
    say(format_args!("{job}: {outcome}; the leader of {role} runs it"));
    Ok(())
}

/// The answer, where it is a good one.
fn accepted(reply: &Reply) -> Result<&Reply, JobsError> {
    let code = match reply.status {
        status if status.is_success() => return Ok(reply),
        StatusCode::CONFLICT | StatusCode::GONE | StatusCode::TOO_MANY_REQUESTS => Code::NO,
        status if status.is_client_error() || status == StatusCode::NOT_IMPLEMENTED => Exit::Usage.into(),
        _ => Exit::Unavailable.into(),
    };
    Err(JobsError::Refused { words: reply.problem(), code })
}
