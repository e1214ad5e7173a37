//! What the suite of all clients runs: it leads again and again, and says what happens.

use std::io::BufRead;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use baton_sidecar::{Baton, Error, Lead, Scope};
use rustix::time::{ClockId, clock_gettime};
use serde_json::json;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

const STEP: Duration = Duration::from_millis(5);
const STOPPING: Duration = Duration::from_millis(30);

#[tokio::main]
async fn main() -> Result<(), Error> {
    let role = std::env::args().nth(1).unwrap_or_else(|| "scheduler".to_owned());
    let slept_ms = Arc::new(AtomicU64::new(0));
    let end = CancellationToken::new();
    std::thread::spawn({
        let (slept_ms, end) = (Arc::clone(&slept_ms), end.clone());
        move || obey(&slept_ms, &end)
    });
    let now = move || baton_sidecar::now() + Duration::from_millis(slept_ms.load(Ordering::SeqCst));
    let baton = Baton::new().clock(now);
    while let Some(lead) = end.run_until_cancelled(baton.leading(&role).scope(Scope::Pod).into_future()).await {
        let lead = lead?;
        end.run_until_cancelled(work(&lead)).await;
        say(&json!({"is": "left", "at": at()}));
        lead.leave().await;
    }
    Ok(())
}

/// Returns when it has stopped.
async fn work(lead: &Lead) {
    if let Ok(token) = lead.token() {
        say(&json!({"is": "begins", "token": token, "at": at()}));
    }
    loop {
        let at = at();
        let Ok(token) = lead.token() else { break };
        say(&json!({"is": "works", "token": token, "at": at}));
        tokio::select! {
            () = lead.cancelled() => break,
            () = sleep(STEP) => {}
        }
    }
    say(&json!({"is": "cancelled", "at": at()}));
    sleep(STOPPING).await;
}

/// Does what is said on standard input.
fn obey(slept_ms: &AtomicU64, end: &CancellationToken) {
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        match line.split_once(' ').and_then(|(word, ms)| Some((word, ms.parse().ok()?))) {
            Some(("sleep", ms)) => {
                slept_ms.fetch_add(ms, Ordering::SeqCst);
                say(&json!({"is": "slept", "at": at()}));
            }
            _ if line == "end" => break,
            _ => eprintln!("not understood: {line}"),
        }
    }
    end.cancel();
}

/// Nanoseconds of `CLOCK_MONOTONIC`, the same in every process.
fn at() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    u64::try_from(now.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(now.tv_nsec).unwrap_or(0)
}

fn say(what: &serde_json::Value) {
    println!("{what}");
}
