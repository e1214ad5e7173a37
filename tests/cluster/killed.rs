//! Something of the leader's pod is killed: its lease runs out, unless the sidecar lives.

use std::time::Duration;

use jiff::Timestamp;

use crate::node;
use crate::release::{LEASE, Release, SLACK, Store};
use crate::table;

#[test]
fn a_killed_leaders_lease_runs_out_on_redis() {
    a_killed_leaders_lease_runs_out(Store::Redis);
}

#[test]
fn a_killed_leaders_lease_runs_out_on_lease_objects() {
    a_killed_leaders_lease_runs_out(Store::Leases);
}

fn a_killed_leaders_lease_runs_out(store: Store) {
    let _shared = node::shared();
    let release = Release::install("killed", store, &[]);
    let of = |leader: &str, containers: &[&str]| -> Vec<i32> {
        containers.iter().flat_map(|container| release.processes(leader, container)).collect()
    };
    kill(&release, "`kill -9` of the sidecar", &|leader| of(leader, &["baton"]));
    kill(&release, "`kill -9` of both", &|leader| of(leader, &["baton", "worker"]));
    kill(&release, "`kill -9` of all processes of the pod", &|leader| release.all_processes(leader));
    // The sidecar renews on; the app asks it again when it is back.
    let (leader, terms) = (release.leader(), release.terms());
    node::signal("KILL", &of(&leader, &["worker"]));
    release.settle();
    assert_eq!((release.leader(), release.terms()), (leader.clone(), terms));
    table::note("`kill -9` of the app", store, None, LEASE);
    // As python does that has read too much.
    let greedy = "b = bytearray(1 << 30)\nfor i in range(0, len(b), 4096): b[i] = 1";
    let died = release.try_kubectl(&["exec", &leader, "--container", "worker", "--", "python3", "-c", greedy]);
    assert!(died.is_err(), "the limit holds");
    release.settle();
    assert_eq!((release.leader(), release.terms()), (leader, terms));
    table::note("the app has more memory than it may (OOM)", store, None, LEASE);
    assert_eq!(node::refusals(&release.namespace), Vec::<String>::new());
}

/// Nobody leads before the promises of the dead have run out, and somebody does within a lease.
fn kill(release: &Release, row: &'static str, processes: &dyn Fn(&str) -> Vec<i32>) {
    let leader = release.leader();
    let processes = processes(&leader);
    let fault = Timestamp::now();
    node::signal("KILL", &processes);
    let gap = release.gap_after(&leader, fault);
    assert!(gap > Duration::from_secs(5), "{row}: nothing says that it is dead, and {gap:?} is no lease");
    table::note(row, release.store, Some(gap), LEASE + SLACK);
    release.settle();
}
