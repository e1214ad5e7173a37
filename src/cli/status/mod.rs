//! `baton status`: the roles, jobs and locks of a running sidecar.

mod jobs;
pub(super) mod locks;
mod roles;

use std::io::IsTerminal;
use std::time::Duration;

use baton::base::process::Exit;
use clap::Args;
use hyper::StatusCode;
use serde_json::{Value, json};

pub(super) use self::roles::{RoleStatus, StatusAnswer, pod_header, pod_row};
use super::client::{Api, ApiArgs, ClientError, Reply};
use super::output::{columns, complain, say};
use super::{Code, Format, block_on};

pub(super) use self::jobs::rows_of as job_rows;

/// How often a table on a terminal is drawn anew.
const REDRAW: Duration = Duration::from_secs(1);
/// Clears a terminal and goes to its top.
const CLEAR: &str = "\u{1b}[2J\u{1b}[H";

/// Show the roles, jobs and locks of a running sidecar
///
/// Asks the sidecar on this machine for its roles: what each is to this replica, who
/// leads, with which token, and how much time is left of that; and what changed last.
/// Where there are jobs, they follow: when each is due, when it last succeeded, and how
/// its last run ended. Then the locks that are held or waited for through this sidecar.
/// With --watch it goes on: on a terminal the tables are drawn anew every second,
/// elsewhere there is a line for every change of a role.
///
/// Ends with 0 when every role is settled (leading or standby), with 1 when one is not
/// (campaigning, draining, guarded, unhealthy, unreachable), with 69 when no sidecar
/// answers. Nothing that is shown is a promise, so no handover waits for who looked.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
#[command(after_help = "Examples:\n  baton status\n  baton status --watch\n  \
    baton status --api 127.0.0.1:4041 -o json | jq '.roles[] | select(.leads)'")]
pub struct StatusArgs {
    #[command(flatten)]
    api: ApiArgs,
    /// Go on and show every change
    #[arg(short, long, conflicts_with = "jobs")]
    watch: bool,
    /// Only the jobs; ends with 0 when they could be asked for
    #[arg(short, long)]
    jobs: bool,
    /// How to print it; with --watch, json is one object a line
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t = Format::Table)]
    output: Format,
}

/// Asks, and prints.
pub fn status(args: StatusArgs) -> Code {
    block_on(async {
        let outcome = match args.api.open() {
            Ok(api) if args.watch && args.output == Format::Table && std::io::stdout().is_terminal() => {
                redraw(&api, &args.api.address()).await
            }
            Ok(api) if args.watch => watch(&api, args.output).await,
            Ok(api) if args.jobs => only_jobs(&api, args.output).await,
            Ok(api) => once(&api, args.output).await,
            Err(error) => Err(error),
        };
        outcome.unwrap_or_else(|error| {
            complain(format_args!("baton status: {error}"));
            error.code()
        })
    })
}

/// What a sidecar said of itself.
struct Seen {
    roles: Vec<RoleStatus>,
    said: Reply,
    jobs: Option<Reply>,
    locks: Option<Reply>,
}

impl Seen {
    /// Asks. What is the matter with the jobs and the locks is told apart: whoever reads the roles wants them all the
    /// same.
    async fn ask(api: &Api) -> Result<(Self, Vec<ClientError>), ClientError> {
        let said = api.get("/status").await?;
        if said.status != StatusCode::OK {
            return Err(api.foreign(format!("GET /status is answered with {}", said.status)));
        }
        let StatusAnswer { roles } = said.json()?;
        let mut troubles = Vec::new();
        let mut or_trouble = |asked: Result<Option<Reply>, ClientError>| {
            asked.unwrap_or_else(|trouble| {
                troubles.push(trouble);
                None
            })
        };
        let jobs = or_trouble(jobs::ask(api).await);
        let locks = or_trouble(locks::ask(api).await);
        Ok((Self { roles, said, jobs, locks }, troubles))
    }

    /// Tables below each other.
    fn text(&self) -> Result<String, ClientError> {
        let roles: Vec<Vec<String>> =
            std::iter::once(roles::header()).chain(self.roles.iter().map(roles::row)).collect();
        let jobs = self.jobs.as_ref().map(jobs::rows).transpose()?.unwrap_or_default();
        let locks = self.locks.as_ref().map(locks::rows).transpose()?.unwrap_or_default();
        let tables = [roles, roles::changes(&self.roles), jobs, locks];
        let texts = tables.iter().filter(|rows| !rows.is_empty()).map(|rows| columns(rows).join("\n"));
        Ok(texts.collect::<Vec<_>>().join("\n\n"))
    }

    /// The answers as they are: `jobs` and `locks` are null where there are none to be had.
    fn json(&self) -> Result<String, ClientError> {
        let mut whole: Value = self.said.json()?;
        for (name, reply) in [("jobs", &self.jobs), ("locks", &self.locks)] {
            whole[name] = reply.as_ref().map(Reply::json).transpose()?.unwrap_or(json!(null));
        }
        Ok(whole.to_string())
    }

    fn code(&self) -> Code {
        if self.roles.iter().all(RoleStatus::is_settled) { Exit::Well.into() } else { Code::NO }
    }
}

async fn once(api: &Api, format: Format) -> Result<Code, ClientError> {
    let (seen, troubles) = Seen::ask(api).await?;
    say(match format {
        Format::Json => seen.json()?,
        Format::Table => seen.text()?,
    });
    for trouble in troubles {
        complain(format_args!("baton status: {trouble}"));
    }
    Ok(seen.code())
}

async fn only_jobs(api: &Api, format: Format) -> Result<Code, ClientError> {
    let reply = jobs::ask(api).await?;
    match (&reply, format) {
        (None, Format::Json) => say("[]"),
        (Some(reply), Format::Json) => say(String::from_utf8_lossy(&reply.body)),
        (None, Format::Table) => say("there are no jobs here"),
        (Some(reply), Format::Table) => {
            let rows = jobs::rows(reply)?;
            say(if rows.is_empty() { "there are no jobs here".to_owned() } else { columns(&rows).join("\n") })
        }
    };
    Ok(Exit::Well.into())
}

/// Draws the tables again and again, until the sidecar ends or nobody reads any more.
async fn redraw(api: &Api, address: &str) -> Result<Code, ClientError> {
    loop {
        let (seen, troubles) = Seen::ask(api).await?;
        let troubles: String = troubles.iter().map(|trouble| format!("\n\n{trouble}")).collect();
        // As one write, so that nothing is seen of a half-drawn table.
        if !say(format_args!("{CLEAR}The sidecar at {address}\n\n{}{troubles}", seen.text()?)) {
            return Ok(Exit::Well.into());
        }
        tokio::time::sleep(REDRAW).await;
    }
}

/// Follows the events until the sidecar ends, or nobody reads any more.
async fn watch(api: &Api, format: Format) -> Result<Code, ClientError> {
    let mut lines = api.events("view=status").await?;
    let mut seen: Vec<(String, u64)> = Vec::new();
    if format == Format::Table {
        say(wide(&roles::header()));
    }
    let mut is_status = false;
    loop {
        let line = lines.next().await?;
        if let Some(name) = line.strip_prefix("event:") {
            is_status = name.trim() == "status";
        }
        let Some(data) = line.strip_prefix("data:").filter(|_| is_status) else { continue };
        let role: RoleStatus = serde_json::from_str(data).map_err(|error| api.foreign(error.to_string()))?;
        if !is_news(&mut seen, &role.role, role.index) {
            continue;
        }
        let open = match format {
            Format::Json => say(data.trim_start()),
            Format::Table => say(wide(&roles::row(&role))),
        };
        if !open {
            return Ok(Exit::Well.into());
        }
    }
}

/// Whether this says more than a later time of the same thing: every role is told again once a second.
fn is_news(seen: &mut Vec<(String, u64)>, role: &str, index: u64) -> bool {
    match seen.iter_mut().find(|(name, _)| name == role) {
        Some((_, last)) => std::mem::replace(last, index) != index,
        None => {
            seen.push((role.to_owned(), index));
            true
        }
    }
}

/// Columns that do not depend on what comes later.
fn wide(row: &[String]) -> String {
    const WIDTHS: [usize; 7] = [16, 11, 20, 16, 9, 20, 0];
    let cells = row.iter().zip(WIDTHS).map(|(cell, wide)| format!("{cell:<wide$}"));
    cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_again_is_no_news_but_a_new_index_is() {
        let mut seen = Vec::new();
        let news = [("a", 1), ("a", 1), ("a", 2), ("b", 2)].map(|(role, index)| is_news(&mut seen, role, index));
        assert_eq!(news, [true, false, true, true]);
    }
}
