//! What the platform does: Pod Security, a kubelet that ends, other pods that ask too much.

use jiff::Timestamp;
use testkit::wait::until_within;

use crate::node;
use crate::release::{LEASE, PATIENCE, Release, Store};

#[test]
fn restricted_pod_security_admits_the_pods() {
    let _shared = node::shared();
    let release = Release::namespace("strict", Store::Redis);
    let labels = ["enforce", "warn"].map(|what| format!("pod-security.kubernetes.io/{what}=restricted"));
    release.kubectl(&["label", "namespace", &release.namespace, &labels[0], &labels[1]]);
    let said = release.helm(["install", "demo"], &Store::Redis.arguments(), &[]);
    assert!(!said.to_lowercase().contains("warning"), "{said}");
    release.leader();
}

#[test]
fn a_kubelet_that_is_killed_changes_nothing() {
    let _alone = node::alone();
    let release = Release::install("kubelet", Store::Leases, &["--set", "baton.config.kubernetes.fastFailover=true"]);
    let (leader, terms, pods) = (release.leader(), release.terms(), release.pod_names());
    let kubelet = || node::processes_called("kubelet --config=");
    let first = kubelet();
    node::signal("KILL", &first);
    until_within(PATIENCE, "another kubelet runs", || {
        let now = kubelet();
        !now.is_empty() && now.iter().all(|id| !first.contains(id))
    });
    let renewed = || release.get(&["lease", "--namespace=kube-node-lease", "node"])["spec"]["renewTime"].clone();
    // As a node is that lives, and for longer than a lease.
    let began = Timestamp::now();
    until_within(PATIENCE, "it says so for a lease", || {
        renewed().as_str().and_then(|at| at.parse::<Timestamp>().ok()) > Some(began + LEASE)
    });
    assert_eq!((release.leader(), release.terms(), release.pod_names()), (leader.clone(), terms, pods));
    let restarts = &release.get(&["pod", &leader])["status"]["initContainerStatuses"][0]["restartCount"];
    assert_eq!(restarts, 0);
}

/// Ten seconds here; `BATON_FLOOD_SECONDS` for longer ones.
#[test]
fn a_flood_from_another_pod_costs_neither_a_lease_nor_a_probe() {
    let _alone = node::alone();
    let release = Release::install("flood", Store::Redis, &[]);
    let seconds =
        std::env::var("BATON_FLOOD_SECONDS").map_or(10, |given| given.parse().expect("BATON_FLOOD_SECONDS: a number"));
    let (leader, terms) = (release.leader(), release.terms());
    let pod = release.get(&["pod", &leader]);
    let address = pod["status"]["podIP"].as_str().expect("an address");
    let sidecar = release.processes(&leader, "baton")[0];
    let before = memory(sidecar);
    // 80 clients, each of which asks some thirty times a second: 2,000 requests a second and more. Every eighth wants
    // all metrics, on a connection of its own each time.
    let script = FLOOD.replace("ADDRESS", address).replace("SECONDS", &seconds.to_string());
    let said = release.kubectl(&[
        "run",
        "flood",
        "--image=python:3.13-alpine",
        "--image-pull-policy=IfNotPresent",
        "--restart=Never",
        "--rm",
        "--attach",
        "--quiet",
        &format!("--pod-running-timeout={}s", seconds + 60),
        "--command",
        "--",
        "python3",
        "-c",
        &script,
    ]);
    let after = memory(sidecar);
    println!("{seconds} s: answered and refused {}; KiB {before} before, {after} after", said.trim());
    assert_eq!((release.leader(), release.terms()), (leader.clone(), terms), "the lease is where it was");
    let pod = release.get(&["pod", &leader]);
    assert_eq!(pod["status"]["initContainerStatuses"][0]["restartCount"], 0, "no probe failed three times");
    let events =
        release.get(&["events", "--field-selector", &format!("involvedObject.name={leader},reason=Unhealthy")]);
    assert_eq!(events["items"].as_array().map(Vec::len), Some(0), "{events}");
    assert!(after.saturating_sub(before) <= 8 * 1024, "{before} KiB before, {after} after");
}

const FLOOD: &str = r#"
import asyncio, re, time
end, answered, refused = time.monotonic() + SECONDS, 0, 0

async def pace():
    # The flood's own, for as long as it lasts.
    await asyncio.sleep(0.03)

async def one(number):
    global answered, refused
    path, connection = (b"/metrics", b"close") if number % 8 == 0 else (b"/livez", b"keep-alive")
    request = b"GET " + path + b" HTTP/1.1\r\nHost: x\r\nConnection: " + connection + b"\r\n\r\n"
    while time.monotonic() < end:
        try:
            reader, writer = await asyncio.open_connection("ADDRESS", 4041)
            while time.monotonic() < end:
                writer.write(request)
                if number % 8 == 0:
                    whole = await reader.read(-1)
                    answered, refused = answered + whole.startswith(b"HTTP/1.1 200"), refused + (b" 503 " in whole[:20])
                    writer.close()
                    await pace()
                    break
                head = await reader.readuntil(b"\r\n\r\n")
                length = re.search(rb"(?i)content-length: *(\d+)", head)
                await reader.readexactly(int(length[1]) if length else 0)
                answered, refused = answered + head.startswith(b"HTTP/1.1 200"), refused + (b" 503 " in head[:20])
                await pace()
        except (OSError, asyncio.IncompleteReadError):
            refused += 1
            await pace()

async def all():
    await asyncio.gather(*(one(number) for number in range(80)))
asyncio.run(all())
print(answered, refused)
"#;

/// A process's memory in KiB.
fn memory(process: i32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).expect("it lives");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("it has memory");
    line.split_whitespace().next().and_then(|kib| kib.parse().ok()).expect("a number")
}
