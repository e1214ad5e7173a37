//! What was measured, as the table of docs/kubernetes.md.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use testkit::root;

use crate::release::Store;

/// The rows, in their order: the cases of `ends`, `changes`, `killed` and `fast`.
const ROWS: [&str; 17] = [
    "the leader's pod is deleted",
    "… with `--force --grace-period=0`",
    "… is evicted",
    "… is drained from its node",
    "its app ignores SIGTERM, and the pod is deleted",
    "`kubectl rollout restart` of three",
    "`kubectl scale` from five to one",
    "`kill -9` of the sidecar",
    "`kill -9` of the app",
    "`kill -9` of both",
    "`kill -9` of all processes of the pod",
    "the app has more memory than it may (OOM)",
    "`fastFailover`: the sidecar has more memory than it may (OOM)",
    "`fastFailover`: sidecar and app stand still, and the pod is deleted with 3 s of grace",
    "`fastFailover`: `kill -9` of the sidecar",
    "`fastFailover`: the shim is killed",
    "`fastFailover`: the shim is killed, and the container lives on",
];

static MEASURED: Mutex<BTreeMap<(&str, Store), String>> = Mutex::new(BTreeMap::new());

/// Notes for how long nobody led; `None` where the leader stayed.
///
/// # Panics
/// When that is more than `bound`.
pub fn note(row: &'static str, store: Store, gap: Option<Duration>, bound: Duration) {
    assert!(ROWS.contains(&row), "no row {row}");
    let text = gap.map_or_else(|| "the same leader".to_owned(), shown);
    println!("{row}, {}: {text}", store.name());
    assert!(gap.is_none_or(|gap| gap <= bound), "{row}: nobody led for {gap:?}, more than {bound:?}");
    let mut measured = MEASURED.lock().unwrap_or_else(PoisonError::into_inner);
    measured.insert((row, store), text);
    if measured.len() == ROWS.len() * Store::BOTH.len() && std::env::var_os("BATON_CLUSTER_WRITE").is_some() {
        write(&measured);
    }
}

fn shown(gap: Duration) -> String {
    if gap < Duration::from_secs(1) {
        format!("{} ms", gap.as_millis().max(1))
    } else {
        format!("{:.1} s", gap.as_secs_f64())
    }
}

/// Replaces the page's table.
fn write(measured: &BTreeMap<(&str, Store), String>) {
    let page = root().join("docs/kubernetes.md");
    let text = fs::read_to_string(&page).expect("the page is there");
    let (before, rest) = text.split_once("<!-- cluster:begin -->\n").expect("it has a place for the table");
    let (_, after) = rest.split_once("<!-- cluster:end -->").expect("and its end");
    let mut table = "| what happens | Redis | Lease objects |\n|---|---|---|\n".to_owned();
    for row in ROWS {
        let cells = Store::BOTH.map(|store| measured[&(row, store)].as_str());
        writeln!(table, "| {row} | {} | {} |", cells[0], cells[1]).expect("text takes all");
    }
    fs::write(&page, format!("{before}<!-- cluster:begin -->\n{table}<!-- cluster:end -->{after}")).expect("the page");
}
