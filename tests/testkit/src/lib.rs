//! What the tests and the benchmarks share. It knows Baton from outside only: its program, its HTTP, its charts.
//!
//! - servers of one's own, ended by their own handles: [`redis`], [`sentinel`], [`cluster`], [`quorum`], [`apiserver`];
//!   and [`kubernetes`], which stands in for an API server
//! - what is done to them: [`proxy`] breaks connections, [`profile`] refuses what [`services`] refuse, [`place`] is a
//!   network of one's own, [`dns`] a name server, [`sidecars::clock`] steps clocks, [`tokens`] end
//! - sidecars and the apps beside them, and whether what they say holds: [`sidecars`]
//! - charts: [`helm`]
//! - programs of other people: [`programs`]; what they would use in place of Baton: [`peers`]
//! - pages of docs/ that are written by runs: [`page`]
//! - waiting with a bound: [`wait_until`], [`within`], [`wait`]

pub mod apiserver;
pub mod cluster;
pub mod dns;
pub mod helm;
pub mod kubernetes;
pub mod node;
pub mod page;
pub mod peers;
pub mod place;
pub mod ports;
pub mod profile;
pub mod programs;
pub mod proxy;
pub mod quorum;
pub mod redis;
pub mod resp;
pub mod sentinel;
pub mod services;
pub mod sidecars;
pub mod tls;
pub mod tokens;
pub mod wait;

use std::path::{Path, PathBuf};
use std::time::Duration;

/// The repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("it is there")
}

/// The program, as cargo has built it beside the test that runs.
///
/// # Panics
/// When it is not there.
pub fn baton() -> PathBuf {
    let test = std::env::current_exe().expect("a test knows its own file");
    // target/PROFILE/deps/TEST
    let program = test.ancestors().nth(2).expect("it lies in target").join("baton");
    assert!(program.is_file(), "{} is not built", program.display());
    program
}

/// How long any state may take to come about before a test fails. Far more than it takes, for machines that are busy.
pub const BOUND: Duration = Duration::from_secs(10);

/// What is found, looking every few milliseconds; none after `bound`.
pub async fn found_within<T>(bound: Duration, mut look: impl AsyncFnMut() -> Option<T>) -> Option<T> {
    let looking = async {
        loop {
            if let Some(found) = look().await {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(bound, looking).await.ok()
}

/// Waits until `condition` holds.
///
/// # Panics
/// When it does not within `bound`, naming `what`.
pub async fn wait_until(bound: Duration, what: &str, mut condition: impl FnMut() -> bool) {
    // Not by `found_within`, for an asynchronous closure cannot go to another thread, as some tests do.
    let waiting = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    assert!(tokio::time::timeout(bound, waiting).await.is_ok(), "not within {bound:?}: {what}");
}

/// The same with a condition that takes its time, for example because it asks a server.
///
/// # Panics
/// When it does not come about within `bound`, naming `what`.
pub async fn wait_until_async(bound: Duration, what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let found = found_within(bound, async || condition().await.then_some(())).await;
    assert!(found.is_some(), "not within {bound:?}: {what}");
}

/// Looks again and again, for this long, at what must not change.
///
/// # Panics
/// When `condition` does not hold at a look, naming `what`.
pub async fn holds_for(span: Duration, what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let found = found_within(span, async || (!condition().await).then_some(())).await;
    assert!(found.is_none(), "within {span:?} no more: {what}");
}

/// Runs what is written for an asynchronous world.
///
/// # Panics
/// When there can be no runtime.
pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime").block_on(future)
}

/// Lets a fault last this long.
pub async fn last_for(duration: Duration) {
    tokio::time::sleep(duration).await;
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
