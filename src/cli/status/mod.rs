//! `baton status`: the roles and jobs of a running sidecar.

mod jobs;

use baton::process::Exit;
use clap::Args;
use hyper::StatusCode;

use super::client::{Api, ApiArgs, ClientError, RoleAnswer};
use super::output::{columns, complain, say};
use super::{Code, Format, block_on};

/// Show the roles and jobs of a running sidecar
///
/// Asks the sidecar on this machine for its roles: what each is to this replica, who
/// leads, with which token, and for how long that answer may be acted upon. With
/// --watch it goes on, and prints a line for every change. Where there are jobs, they
/// follow: when each is due, when it last succeeded, and how its last run ended.
///
/// Ends with 0 when every role is settled (leading or standby), with 1 when one is not
/// (campaigning, draining, guarded, unhealthy, unreachable), with 69 when no sidecar
/// answers. To ask is to be promised: where this replica leads, a handover waits until
/// the validity of the answer has run out.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
#[command(after_help = "Examples:\n  baton status\n  baton status --watch\n  \
    baton status --api 127.0.0.1:4041 -o json | jq '.[] | select(.leader)'")]
pub struct StatusArgs {
    #[command(flatten)]
    api: ApiArgs,
    /// Go on and print every change
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

async fn once(api: &Api, format: Format) -> Result<Code, ClientError> {
    let reply = api.get("/roles").await?;
    if reply.status != StatusCode::OK {
        return Err(api.foreign(format!("GET /roles is answered with {}", reply.status)));
    }
    let roles: Vec<RoleAnswer> = reply.json()?;
    match format {
        Format::Json => say(String::from_utf8_lossy(&reply.body)),
        Format::Table => {
            let rows: Vec<Vec<String>> = std::iter::once(header()).chain(roles.iter().map(row)).collect();
            say(columns(&rows).join("\n"));
            // Whoever reads the roles wants them, whatever is the matter with the jobs.
            match jobs::ask(api).await.and_then(|reply| reply.as_ref().map(jobs::rows).transpose()) {
                Ok(rows) => {
                    let rows = rows.unwrap_or_default();
                    rows.is_empty() || say(format!("\n{}", columns(&rows).join("\n")))
                }
                Err(error) => {
                    complain(format_args!("baton status: {error}"));
                    true
                }
            }
        }
    };
    let settled = roles.iter().all(|role| matches!(role.state.as_str(), "leading" | "standby"));
    Ok(if settled { Exit::Well.into() } else { Code::NO })
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

/// Follows the events until the sidecar ends, or nobody reads any more.
async fn watch(api: &Api, format: Format) -> Result<Code, ClientError> {
    let mut lines = api.events().await?;
    let mut seen: Vec<RoleAnswer> = Vec::new();
    if format == Format::Table {
        say(wide(&header()));
    }
    loop {
        let line = lines.next().await?;
        let Some(data) = line.strip_prefix("data:") else { continue };
        let role: RoleAnswer = serde_json::from_str(data).map_err(|error| api.foreign(error.to_string()))?;
        if !is_news(&mut seen, &role) {
            continue;
        }
        let open = match format {
            Format::Json => say(data.trim_start()),
            Format::Table => say(wide(&row(&role))),
        };
        if !open {
            return Ok(Exit::Well.into());
        }
    }
}

/// Whether this says more than a later time of the same thing: while a replica leads, its promise is repeated.
fn is_news(seen: &mut Vec<RoleAnswer>, role: &RoleAnswer) -> bool {
    let same = |a: &RoleAnswer| RoleAnswer { valid_for_ms: None, ..a.clone() };
    match seen.iter_mut().find(|last| last.role == role.role) {
        Some(last) => {
            let news = same(last) != same(role);
            *last = role.clone();
            news
        }
        None => {
            seen.push(role.clone());
            true
        }
    }
}

fn header() -> Vec<String> {
    ["ROLE", "STATE", "HOLDER", "TOKEN", "VALID FOR", "SINCE", "REASON"].map(str::to_owned).to_vec()
}

fn row(role: &RoleAnswer) -> Vec<String> {
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    vec![
        role.role.clone(),
        role.state.clone(),
        or_dash(role.holder.clone()),
        or_dash(role.token.map(|token| token.to_string())),
        or_dash(role.valid_for_ms.map(|ms| format!("{ms} ms"))),
        role.since.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        role.reason.clone().unwrap_or_default(),
    ]
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
    fn a_repeated_promise_is_no_news_but_a_new_index_is() {
        let answer = |index: u64, valid: u64| RoleAnswer {
            role: "a".to_owned(),
            leader: true,
            state: "leading".to_owned(),
            identity: "web-0".to_owned(),
            holder: Some("web-0".to_owned()),
            token: Some(7),
            valid_for_ms: Some(valid),
            since: jiff::Timestamp::UNIX_EPOCH,
            index,
            reason: None,
        };
        let mut seen = Vec::new();
        let news =
            [answer(1, 500), answer(1, 400), answer(2, 400), RoleAnswer { role: "b".to_owned(), ..answer(2, 1) }]
                .map(|role| is_news(&mut seen, &role));
        assert_eq!(news, [true, false, true, true]);
    }
}
