//! What tests on a real Redis share: servers of their own, a proxy that breaks connections, and waiting with a bound.

#![allow(dead_code, reason = "each test binary uses a part of this")]

pub mod cluster;
pub mod conformance;
pub mod kubernetes;
pub mod place;
pub mod ports;
pub mod proxy;
pub mod quorum;
pub mod redis;
pub mod requests;
pub mod resp;
pub mod sentinel;
pub mod tls;

use std::time::Duration;

/// How long any state may take to come about before a test fails. Far more than it takes, for machines that are busy.
pub const BOUND: Duration = Duration::from_secs(10);

/// Waits until `condition` holds, looking every few milliseconds.
///
/// # Panics
/// When it does not within `bound`, naming `what`.
pub async fn wait_until(bound: Duration, what: &str, mut condition: impl FnMut() -> bool) {
    let waited = tokio::time::timeout(bound, async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    assert!(waited.await.is_ok(), "not within {bound:?}: {what}");
}

/// The same with a condition that takes its time, for example because it asks a server.
///
/// # Panics
/// When it does not come about within `bound`, naming `what`.
pub async fn wait_until_async(bound: Duration, what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let waited = tokio::time::timeout(bound, async {
        while !condition().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    assert!(waited.await.is_ok(), "not within {bound:?}: {what}");
}

/// A future's output, with a bound.
///
/// # Panics
/// When it takes longer than [`BOUND`], naming `what`.
pub async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(BOUND, future).await {
        Ok(output) => output,
        Err(_) => panic!("not within {BOUND:?}: {what}"),
    }
}
