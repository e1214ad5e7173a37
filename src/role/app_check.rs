//! Asks the app whether it is well: a hung app loses the role.

use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use http_body_util::Empty;
use hyper::Request;
use hyper::client::conn::http1;
use hyper::header::{CONNECTION, HOST, USER_AGENT};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::time::{MissedTickBehavior, interval, timeout};

use super::handle::{Command, RoleHandle};
use crate::config::AppCheck;

/// Checks for as long as the task of one of the roles runs, and tells them of every change: the shards of a role have
/// one check together. The app counts as unwell until the first
/// check succeeds, after `failure_threshold` failures in a row, and as well again after one success.
pub async fn watch_app(check: AppCheck, roles: Vec<RoleHandle>) {
    let mut ticks = interval(check.period);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut healthy = false;
    let mut failures = 0;
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
            for role in &roles {
                role.tell(Command::AppHealth { healthy }).await;
            }
        }
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
    let stream = TcpStream::connect((check.host.as_str(), check.port)).await.map_err(|error| error.to_string())?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(|error| error.to_string())?;
    let request = Request::get(&check.path)
        .header(HOST, format!("{}:{}", check.host, check.port))
        .header(USER_AGENT, concat!("baton/", env!("CARGO_PKG_VERSION")))
        .header(CONNECTION, "close")
        .body(Empty::<Bytes>::new())
        .map_err(|error| error.to_string())?;
    let mut answer = std::pin::pin!(sender.send_request(request));
    let answer = tokio::select! {
        answer = &mut answer => answer,
        // The end of the connection often comes with the whole answer, which is there to be taken then.
        _ = connection => answer.await,
    };
    let status = answer.map_err(|error| error.to_string())?.status();
    if (200..400).contains(&status.as_u16()) { Ok(()) } else { Err(format!("status {status}")) }
}

struct Seconds(Duration);

impl std::fmt::Display for Seconds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} s", self.0.as_secs_f64())
    }
}
