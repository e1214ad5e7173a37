//! The telemetry listener is open to every pod. Whatever one of them does there, the kubelet's probes are answered:
//! where they are not, it ends the pod.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use baton::admin::default_limits;
use baton::protocol::RoleName;

use crate::client::{Client, Reply, ask};
use crate::stage::{Cue, Staged};
use crate::telemetry::Watched;

/// Another pod's address, as far as a listener on loopback can tell.
fn pod(number: u8) -> Ipv4Addr {
    Ipv4Addr::new(127, 0, 0, number)
}

async fn watched() -> (Staged, Watched) {
    let role = Staged::new("scheduler", Duration::from_secs(60), Cue::Grant);
    role.until_leading().await;
    let watched = Watched::start(&[&role]);
    (role, watched)
}

async fn connected(from: Ipv4Addr, address: SocketAddr, count: usize) -> Vec<Client> {
    let mut clients = Vec::new();
    for _ in 0..count {
        clients.push(Client::connect_from(from, address).await);
    }
    clients
}

/// As the kubelet does: each probe on a connection of its own.
async fn probe(address: SocketAddr) {
    for line in ["GET /livez", "GET /readyz", "GET /leading"] {
        let Reply { status, body, .. } = ask(address, line).await;
        let told = String::from_utf8_lossy(&body);
        assert!(!told.contains("too-many-connections"), "{line}: {status} {told}");
    }
}

#[tokio::test]
async fn connections_of_one_pod_that_never_rest_leave_every_probe_its_place() {
    let (_role, watched) = watched().await;
    let crowd = connected(pod(2), watched.address, default_limits().connections).await;
    let address = watched.address;
    let asking = tokio::spawn(async move {
        let mut crowd = crowd;
        loop {
            for client in &mut crowd {
                if !client.is_answered("GET /livez").await {
                    *client = Client::connect_from(pod(2), address).await;
                }
            }
        }
    });
    for _ in 0..20 {
        probe(watched.address).await;
    }
    assert!(!asking.is_finished());
    asking.abort();
}

#[tokio::test]
async fn connections_of_many_pods_that_fill_all_places_leave_every_probe_its_place() {
    let (_role, watched) = watched().await;
    let limits = default_limits();
    let mut crowd = Vec::new();
    for number in 0..u8::try_from(limits.connections / limits.per_peer).unwrap() {
        crowd.extend(connected(pod(2 + number), watched.address, limits.per_peer).await);
    }
    probe(watched.address).await;
}

/// Also where the kubelet's own address is used by whoever asks too much, as on the node's network.
#[tokio::test]
async fn who_has_its_share_is_answered_probes_and_no_scrape() {
    let (_role, watched) = watched().await;
    // More than the buffers of both sides hold, so that an answer which is not read goes on.
    for number in 0..4_000 {
        watched.telemetry.metrics().add_role(&RoleName::new(format!("role-{number}")).unwrap());
    }
    let mut scrapes = Vec::new();
    for _ in 0..default_limits().per_peer {
        let mut client = Client::connect(watched.address).await;
        let head = client.head("GET /metrics", &[]);
        client.send(head.as_bytes()).await;
        assert_eq!(client.reply_head().await.status, 200);
        scrapes.push(client);
    }
    for _ in 0..2 * default_limits().spare {
        probe(watched.address).await;
    }
    let refused = ask(watched.address, "GET /metrics").await;
    assert_eq!((refused.status, refused.problem().as_str()), (503, "too-many-connections"));
    assert_eq!((refused.header("retry-after"), refused.header("connection")), (Some("1"), Some("close")));
    let mut elsewhere = Client::connect_from(pod(2), watched.address).await;
    let head = elsewhere.head("GET /metrics", &[]);
    elsewhere.send(head.as_bytes()).await;
    assert_eq!(elsewhere.reply_head().await.status, 200, "another has its own share");
    drop(scrapes);
}
