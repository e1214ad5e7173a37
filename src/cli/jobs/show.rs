//! Jobs and their runs, as tables and as JSON.

use serde::Deserialize;
use serde_json::Value;

use super::super::Format;
use super::super::client::Api;
use super::super::output::{columns, say};
use super::super::status;
use super::{JobsError, accepted};

/// How many jobs are asked for at a time, of those that were made at run time, and how many runs.
const PAGE: usize = 100;

/// A page of runs.
#[derive(Deserialize)]
struct RunsAnswer {
    runs: Vec<Value>,
    next: Option<String>,
}

/// Every job, page by page: those that were made at run time may be many.
pub(super) async fn list(api: &Api, format: Format) -> Result<(), JobsError> {
    let mut jobs: Vec<Value> = Vec::new();
    let mut next = Some(format!("/jobs?limit={PAGE}"));
    while let Some(path) = next {
        let reply = api.get(&path).await?;
        jobs.extend(accepted(&reply)?.json::<Vec<Value>>()?);
        next = reply.next;
    }
    if format == Format::Json {
        say(Value::from(jobs));
        return Ok(());
    }
    let rows = status::job_rows(&jobs).map_err(|error| api.foreign(error.to_string()))?;
    say(if rows.is_empty() { "there are no jobs here".to_owned() } else { columns(&rows).join("\n") });
    Ok(())
}

/// One run, as far as it is shown.
#[derive(Deserialize)]
struct RunAnswer {
    run: String,
    phase: String,
    reason: Option<String>,
    started: Option<String>,
    ended: Option<String>,
    attempts: Vec<AttemptAnswer>,
}

#[derive(Deserialize)]
struct AttemptAnswer {
    attempt: u32,
    note: String,
}

pub(super) async fn runs(api: &Api, path: &str, format: Format) -> Result<(), JobsError> {
    let (mut runs, mut before): (Vec<Value>, _) = (Vec::new(), String::new());
    loop {
        let reply = api.get(&format!("{path}/runs?limit={PAGE}{before}")).await?;
        let page: RunsAnswer = accepted(&reply)?.json()?;
        runs.extend(page.runs);
        let Some(next) = page.next else { break };
        before = format!("&before={next}");
    }
    if format == Format::Json {
        let _ = runs.iter().all(say);
        return Ok(());
    }
    let header = ["RUN", "PHASE", "ATTEMPTS", "STARTED", "ENDED", "NOTE"].map(str::to_owned).to_vec();
    let mut rows = vec![header];
    for run in runs {
        rows.push(row(&serde_json::from_value(run).map_err(|error| api.foreign(error.to_string()))?));
    }
    say(if rows.len() == 1 { "no run is remembered".to_owned() } else { columns(&rows).join("\n") });
    Ok(())
}

fn row(run: &RunAnswer) -> Vec<String> {
    let or_dash = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
    let last = run.attempts.last();
    vec![
        run.run.clone(),
        run.reason.clone().unwrap_or_else(|| run.phase.clone()),
        last.map_or(0, |last| last.attempt).to_string(),
        or_dash(&run.started),
        or_dash(&run.ended),
        last.map(|last| last.note.lines().next().unwrap_or_default().to_owned()).unwrap_or_default(),
    ]
}
