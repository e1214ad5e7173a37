//! Asks the app whether it is well: a hung app loses the role.

use std::time::Duration;

use futures_util::future::join_all;
use http_body_util::Full;
use hyper::Request;
use hyper::header::{CONNECTION, HOST, USER_AGENT};
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval, timeout};

use super::handle::{Command, RoleHandle};
use crate::config::AppCheck;
use crate::http::client;

/// Checks for as long as the task of one of the roles runs, and tells them of every change: the shards of a role have
/// one check together. The app counts as unwell until the first check succeeds, after `failure_threshold` failures in a
/// row, and as well again after one success.
///
/// `failing` counts it, too, while an app that was well is unwell: one that has not started yet is no app that hangs.
pub async fn watch_app(check: AppCheck, roles: Vec<RoleHandle>, failing: watch::Sender<usize>) {
    let mut ticks = interval(check.period);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut healthy = false;
    let mut failures = 0;
    let mut counted: Option<Counted> = None;
    let mut all_ended = std::pin::pin!(join_all(roles.iter().map(RoleHandle::ended)));
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            _ = &mut all_ended => return,
        }
        let verdict = ask(&check).await;
        failures = if verdict.is_ok() { 0 } else { failures + 1 };
        let now_healthy = verdict.is_ok() || (healthy && failures < check.failure_threshold);
        if let Err(reason) = verdict {
            let role = roles.first().map(|role| role.name().role().to_string());
            tracing::debug!(role, failures, %reason, "the app's health check failed");
        }
        if now_healthy != healthy {
            healthy = now_healthy;
            match healthy {
                true => drop(counted.take()),
                false => counted = Some(Counted::one(&failing)),
            }
            for role in &roles {
                role.tell(Command::AppHealth { healthy }).await;
            }
        }
    }
}

/// One check that fails, for as long as this lives.
struct Counted(watch::Sender<usize>);

impl Counted {
    fn one(failing: &watch::Sender<usize>) -> Self {
        failing.send_modify(|checks| *checks += 1);
        Self(failing.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.send_modify(|checks| *checks -= 1);
    }
}

/// One check: any answer with a status from 200 to 399 is a success, as for the kubelet's probes.
async fn ask(check: &AppCheck) -> Result<(), String> {
    match timeout(check.timeout, get(check)).await {
        Ok(result) => result,
        Err(_) => Err(format!("no answer within {}", Seconds(check.timeout))),
    }
}

async fn get(check: &AppCheck) -> Result<(), String> {
    let request = Request::get(&check.path)
        .header(HOST, format!("{}:{}", check.host, check.port))
        .header(USER_AGENT, client::USER_AGENT)
        .header(CONNECTION, "close")
        .body(Full::default())
        .map_err(|error| error.to_string())?;
    let stream = client::connect(&check.host, check.port, check.timeout).await.map_err(|error| error.to_string())?;
    let status = client::send(stream, request).await.map_err(|error| error.to_string())?.status();
    if (200..400).contains(&status.as_u16()) { Ok(()) } else { Err(format!("status {status}")) }
}

struct Seconds(Duration);

impl std::fmt::Display for Seconds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} s", self.0.as_secs_f64())
    }
}
