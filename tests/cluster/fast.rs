//! `fastFailover`: the kubelet says that a sidecar has ended, and the others need not wait for its lease; unless what
//! it says may be made up.

use std::fs;
use std::path::Path;
use std::time::Duration;

use jiff::Timestamp;
use testkit::wait::until_within;

use crate::node;
use crate::release::{LEASE, PATIENCE, Release, SLACK, Store};
use crate::table;

/// The longest promise an app is given by default, which is waited for where the app may live.
const PROMISE: Duration = Duration::from_secs(5);
/// What the kubelet takes to tell.
const REPORT: Duration = Duration::from_secs(4);
const ON: [&str; 2] = ["--set", "baton.config.kubernetes.fastFailover=true"];

#[test]
fn a_lease_is_given_back_when_the_kubelet_says_that_its_holder_has_ended_on_redis() {
    a_lease_is_given_back(Store::Redis);
}

#[test]
fn a_lease_is_given_back_when_the_kubelet_says_that_its_holder_has_ended_on_lease_objects() {
    a_lease_is_given_back(Store::Leases);
}

fn a_lease_is_given_back(store: Store) {
    let _shared = node::shared();
    let release = Release::install("fast", store, &ON);
    let memory = "`fastFailover`: the sidecar has more memory than it may (OOM)";
    fails(&release, memory, PROMISE, PROMISE + REPORT, &|leader| out_of_memory(&release, leader));
    // These look like what containerd makes up of a container that it has lost: nothing is proven.
    let stuck = "`fastFailover`: sidecar and app stand still, and the pod is deleted with 3 s of grace";
    fails(&release, stuck, PROMISE + REPORT, LEASE + SLACK, &|leader| {
        let (at, both) = (Timestamp::now(), [release.processes(leader, "baton"), release.processes(leader, "worker")]);
        node::signal("STOP", &both.concat());
        release.kubectl(&["delete", "pod", leader, "--grace-period=3", "--wait=false"]);
        at
    });
    let killed = "`fastFailover`: `kill -9` of the sidecar";
    fails(&release, killed, PROMISE + REPORT, LEASE + SLACK, &|leader| {
        let (at, sidecar) = (Timestamp::now(), release.processes(leader, "baton"));
        node::signal("KILL", &sidecar);
        at
    });
    shim(&release, "`fastFailover`: the shim is killed", false);
    shim(&release, "`fastFailover`: the shim is killed, and the container lives on", true);
    assert_eq!(node::refusals(&release.namespace), Vec::<String>::new());
}

/// The leader fails, at the moment that `fault` says, and nobody leads for at least and at most so long.
fn fails(release: &Release, row: &'static str, least: Duration, most: Duration, fault: &dyn Fn(&str) -> Timestamp) {
    let leader = release.leader();
    let begun = release.log.terms().last().expect("it leads").begun;
    // What the kubelet says is in whole seconds, rounded down.
    let at = fault(&leader).max(begun);
    let gap = release.gap_after(&leader, at);
    table::note(row, release.store, Some(gap), most);
    assert!(gap + Duration::from_millis(100) >= least, "{row}: a promise still stood after {gap:?}");
    release.settle();
}

/// What it has is all that it may have from now on, and it is asked for more. When it was killed for that.
fn out_of_memory(release: &Release, leader: &str) -> Timestamp {
    let process = release.processes(leader, "baton")[0];
    let groups = fs::read_to_string(format!("/proc/{process}/cgroup")).expect("it lives");
    let group = groups.lines().find_map(|line| line.split_once(":memory:")).expect("control groups, version 1").1;
    let limit = Path::new("/sys/fs/cgroup/memory").join(group.trim_start_matches('/')).join("memory.limit_in_bytes");
    let address = release.get(&["pod", leader])["status"]["podIP"].as_str().expect("an address").to_owned();
    let script = format!(
        "import socket\nall = []\nfor _ in range(60):\n  one = socket.create_connection(('{address}', 4041), 2)\n  \
         one.sendall(b'GET /metrics HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n' * 50)\n  all.append(one)\n"
    );
    until_within(PATIENCE, "it is out of memory", || {
        // As low as the kernel lets it: what is in use stays.
        for kib in (256..16_384).step_by(256) {
            if fs::write(&limit, (kib * 1024).to_string()).is_ok() {
                break;
            }
        }
        // Its connections end with it.
        let _ = release.try_kubectl(&["exec", leader, "--container", "worker", "--", "python3", "-c", &script]);
        !node::lives(process)
    });
    let mut killed = None;
    until_within(PATIENCE, "the kubelet says so", || {
        let status = release.get(&["pod", leader])["status"]["initContainerStatuses"][0].take();
        let ends = ["state", "lastState"].map(|state| status[state]["terminated"].clone());
        let ended = ends.into_iter().find(|ended| ended["reason"] == "OOMKilled");
        killed = ended.and_then(|ended| ended["finishedAt"].as_str()?.parse().ok());
        killed.is_some()
    });
    killed.expect("just seen")
}

/// The kubelet says that a container has ended which nobody has seen end: the lease stays where it is.
fn shim(release: &Release, row: &'static str, lives_on: bool) {
    let leader = release.leader();
    let (sidecar, begun) = (release.processes(&leader, "baton"), release.log.terms().last().expect("it leads").begun);
    let (shims, container) = (node::shims_of(&sidecar), release.container(&leader, "baton"));
    // containerd kills what its shim has left; what is frozen with its whole pod outlives that.
    let frozen = lives_on.then(|| node::freeze_pod_of(sidecar[0]));
    let at = Timestamp::now().max(begun);
    node::signal("KILL", &shims);
    until_within(PATIENCE, "the kubelet says that it has ended", || {
        let status = release.get(&["pod", &leader])["status"]["initContainerStatuses"][0].take();
        let ended = |state: &str| status[state]["terminated"]["containerID"].as_str().map(str::to_owned);
        ["state", "lastState"].into_iter().filter_map(ended).any(|id| id.ends_with(&container))
    });
    let told = Duration::try_from(Timestamp::now() - at).expect("forwards");
    let lived = sidecar.iter().all(|process| node::lives(*process));
    assert_eq!(lived, lives_on, "after {told:?}");
    let gap = release.gap_after(&leader, at);
    println!("{row}: told after {told:?}, the sidecar lived: {lived}");
    table::note(row, release.store, Some(gap), LEASE + SLACK);
    assert!(gap >= PROMISE + REPORT, "nothing was proven after {gap:?}");
    drop(frozen);
    release.settle();
}
