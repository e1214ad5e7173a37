//! A program as a run: in a process group of its own, told to end by TERM, ended by KILL.

mod output;

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::pin::pin;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::Signal;
use tokio::process::Command;

use self::output::{Output, Stream};
use super::template::rfc3339;
use super::{Assignment, Ended, Order, OrderInbox};
use crate::base::Child;
use crate::config::ExecRun;
use crate::protocol::Verdict;
use crate::role::WorkGuard;

/// Once the program has ended, its pipes hold no more than a moment's reading, unless something that left its process
/// group keeps them open.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// Why the program was told to end.
#[derive(Clone, Copy)]
enum Cause {
    Interrupted(&'static str),
    Cancelled,
}

/// Runs the program to its end.
pub async fn run(exec: &ExecRun, assignment: &Assignment, guard: &mut WorkGuard, orders: &mut OrderInbox) -> Ended {
    let mut child = match start(exec, assignment, guard.role()) {
        Ok(child) => child,
        Err(error) => {
            let program = exec.command.first().map_or("the program", String::as_str);
            return Ended::failed(&format!("{program} cannot be started: {error}"));
        }
    };
    let (stdout, stderr) = child.output();
    let output = Output::new(exec.output_max, |stream: Stream, line: &str| {
        tracing::info!(job = %assignment.run.job, run = %assignment.run, stream = stream.as_str(), "{line}");
    });
    let mut logging = pin!(output.log(stdout, stderr));
    let mut attendance = pin!(attend(child, assignment, guard, orders));
    let mut logged = false;
    let (status, cause) = loop {
        tokio::select! {
            biased;
            end = &mut attendance => break end,
            () = &mut logging, if !logged => logged = true,
        }
    };
    if !logged {
        // Whatever still holds the pipes is no part of the run.
        let _ = tokio::time::timeout(LAST_WORDS, logging).await;
    }
    if let Some(dropped_bytes) = output.dropped() {
        tracing::warn!(
            job = %assignment.run.job, run = %assignment.run, dropped_bytes, output_max = exec.output_max,
            "the rest of the program's output was not logged"
        );
    }
    ended(status, cause)
}

fn start(exec: &ExecRun, assignment: &Assignment, role: &str) -> io::Result<Child> {
    let not_found = || io::Error::from(io::ErrorKind::NotFound);
    let (program, arguments) = exec.command.split_first().ok_or_else(not_found)?;
    let mut command = Command::new(program);
    command.args(arguments);
    command.envs(exec.env.iter().map(|(name, value)| (name, value)));
    command.env("BATON_RUN_ID", assignment.run.to_string());
    command.env("BATON_JOB", assignment.run.job.job());
    command.env("BATON_SCHEDULED_TIME", rfc3339(assignment.scheduled));
    command.env("BATON_ATTEMPT", assignment.attempt.to_string());
    command.env("BATON_TOKEN", assignment.token.to_string());
    command.env("BATON_ROLE", role);
    match assignment.shard {
        Some(shard) => command.env("BATON_SHARD", shard.to_string()),
        None => command.env_remove("BATON_SHARD"),
    };
    match &assignment.data {
        Some(data) => command.env("BATON_DATA", &**data),
        None => command.env_remove("BATON_DATA"),
    };
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    Child::start(command)
}

/// Waits until nothing is left of the program, and sees to it that it ends when it must.
async fn attend(
    mut child: Child,
    assignment: &Assignment,
    guard: &mut WorkGuard,
    orders: &mut OrderInbox,
) -> (io::Result<ExitStatus>, Option<Cause>) {
    let mut cause = None;
    let mut killed = false;
    let status = loop {
        tokio::select! {
            biased;
            verdict = guard.called(), if !killed => {
                cause = cause.or(Some(Cause::Interrupted(guard.why())));
                killed = verdict == Verdict::Kill;
                let signal = if killed { Signal::KILL } else { Signal::TERM };
                say(assignment, &format!("{}: {}", guard.why(), if killed { "KILL" } else { "TERM" }));
                child.signal(signal);
            }
            order = orders.next() => if let (Order::Cancel(reason), None) = (order, cause) {
                cause = Some(Cause::Cancelled);
                guard.tell();
                say(assignment, &format!("{reason}: TERM"));
                child.signal(Signal::TERM);
            },
            status = child.ended() => break status,
        }
    };
    child.cleared().await;
    (status, cause)
}

fn say(assignment: &Assignment, what: &str) {
    tracing::warn!(job = %assignment.run.job, run = %assignment.run, "{what} to the run's program");
}

fn ended(status: io::Result<ExitStatus>, cause: Option<Cause>) -> Ended {
    match (cause, status) {
        (Some(Cause::Cancelled), _) => Ended::Cancelled,
        (Some(Cause::Interrupted(why)), Ok(status)) => Ended::interrupted(&format!("{why}; {}", in_words(status))),
        (Some(Cause::Interrupted(why)), Err(_)) => Ended::interrupted(why),
        (None, Ok(status)) if status.success() => Ended::succeeded(None),
        (None, Ok(status)) => Ended::failed(&in_words(status)),
        (None, Err(error)) => Ended::failed(&format!("the program's end cannot be learnt: {error}")),
    }
}

fn in_words(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => match name_of(signal) {
            Some(name) => format!("killed by signal {signal} ({name})"),
            None => format!("killed by signal {signal}"),
        },
        (None, None) => status.to_string(),
    }
}

/// The signals that programs usually die of.
fn name_of(signal: i32) -> Option<&'static str> {
    let known = [
        (Signal::HUP, "HUP"),
        (Signal::INT, "INT"),
        (Signal::QUIT, "QUIT"),
        (Signal::ILL, "ILL"),
        (Signal::ABORT, "ABRT"),
        (Signal::BUS, "BUS"),
        (Signal::FPE, "FPE"),
        (Signal::KILL, "KILL"),
        (Signal::SEGV, "SEGV"),
        (Signal::PIPE, "PIPE"),
        (Signal::ALARM, "ALRM"),
        (Signal::TERM, "TERM"),
        (Signal::XCPU, "XCPU"),
    ];
    known.iter().find(|(known, _)| known.as_raw() == signal).map(|(_, name)| *name)
}
