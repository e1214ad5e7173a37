//! rslock behind the line protocol of ../../README.md. Its defaults, on one Redis.

use std::io::BufRead;
use std::time::{Duration, Instant};

use rslock::{LockError, LockGuard, LockManager};

const LEASE: Duration = Duration::from_secs(30);

type Failed = Box<dyn std::error::Error>;

fn main() -> Result<(), Failed> {
    let address = std::env::args().nth(2).ok_or("rslock-peer lock ADDRESS")?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let locks = LockManager::new(vec![format!("redis://{address}")]);
    println!("ready");
    for order in std::io::stdin().lock().lines() {
        let order = order?;
        let words: Vec<&str> = order.split(' ').collect();
        let ["run", kind, contenders, span_ms, name, rest_ms] = words[..] else { return Err(order.into()) };
        let rest = Duration::from_millis(rest_ms.parse()?);
        let end = Instant::now() + Duration::from_millis(span_ms.parse()?);
        let (mut longest_ms, mut cycles) = (0.0_f64, Vec::new());
        let contenders = (0..contenders.parse::<usize>()?).map(|at| {
            let name = if kind == "own" { format!("{name}:{at}") } else { name.to_owned() };
            runtime.spawn(contend(locks.clone(), name, end, rest))
        });
        for contender in contenders.collect::<Vec<_>>() {
            let (count, longest) = runtime.block_on(contender)??;
            longest_ms = longest_ms.max(longest.as_secs_f64() * 1_000.0);
            cycles.push(count.to_string());
        }
        println!("done {longest_ms} {}", cycles.join(" "));
    }
    Ok(())
}

async fn contend(locks: LockManager, name: String, end: Instant, rest: Duration) -> Result<(u64, Duration), LockError> {
    let (mut cycles, mut longest) = (0, Duration::ZERO);
    loop {
        let asked = Instant::now();
        if asked >= end {
            return Ok((cycles, longest));
        }
        let guard = take(&locks, &name).await?;
        let got = Instant::now();
        guard.release().await;
        cycles += u64::from(got < end);
        longest = longest.max(got - asked);
        if !rest.is_zero() {
            tokio::time::sleep(rest).await;
        }
    }
}

/// It gives up after a few tries, and who wants the lock asks again.
async fn take(locks: &LockManager, name: &str) -> Result<LockGuard, LockError> {
    loop {
        match locks.acquire(name, LEASE).await {
            Err(LockError::Unavailable) => {}
            other => return other,
        }
    }
}
