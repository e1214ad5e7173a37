//! Whom the app's listener turns away.

use std::io::Write;

use baton::config::Secret;
use secrecy::SecretString;

use crate::client::{Client, ask, ask_until, ask_with};
use crate::stage::{Cue, Server, Staged, leader_fixture};

const EVERY_CALL: [&str; 9] = [
    "GET /",
    "GET /isLeader",
    "GET /leader",
    "GET /leading",
    "GET /roles",
    "GET /events",
    "GET /openapi.yaml",
    "POST /leader/scheduler/resign",
    "GET /nothing",
];

#[tokio::test]
async fn a_foreign_host_is_refused_for_every_call() {
    let (role, server) = leader_fixture().await;
    let port = server.address.port();
    for line in EVERY_CALL {
        for host in ["evil.example".to_owned(), format!("evil.example:{port}"), "127.0.0.1:1".into(), String::new()] {
            let reply = ask_with(server.address, line, &[("Host", &host)], b"").await;
            assert_eq!((reply.status, reply.problem().as_str()), (403, "foreign-host"), "{line} for {host:?}");
        }
    }
    assert!(role.handle.leads(), "nobody resigned it");
}

#[tokio::test]
async fn our_own_names_are_accepted() {
    let (_role, server) = leader_fixture().await;
    let port = server.address.port();
    for host in ["localhost", "127.0.0.1", "LocalHost", "[::1]"] {
        let host = format!("{host}:{port}");
        assert_eq!(ask_with(server.address, "GET /leader", &[("Host", &host)], b"").await.status, 200, "{host}");
    }
}

#[tokio::test]
async fn a_web_page_cannot_resign_a_leader() {
    let (role, server) = leader_fixture().await;
    let ours = format!("http://localhost:{}", server.address.port());
    for line in EVERY_CALL {
        for origin in ["https://evil.example", "null", "http://localhost", &ours.replace("http", "https"), "\u{e4}"] {
            let reply = ask_with(server.address, line, &[("Origin", origin)], b"").await;
            assert_eq!((reply.status, reply.problem().as_str()), (403, "foreign-origin"), "{line} from {origin:?}");
        }
    }
    assert!(role.handle.leads());
    assert_eq!(ask_with(server.address, "GET /leader", &[("Origin", &ours)], b"").await.status, 200);
}

#[tokio::test]
async fn what_a_browser_sends_for_another_site_is_refused_whatever_it_carries() {
    let (role, server) = leader_fixture().await;
    let link = [("Sec-Fetch-Mode", "navigate"), ("Sec-Fetch-Dest", "document"), ("Accept", "text/html")];
    for line in EVERY_CALL.into_iter().chain(["GET /status", "GET /page.js", "GET /locks/a/hold", "POST /locks/a"]) {
        for site in ["cross-site", "same-site"] {
            let mut headers = vec![("Sec-Fetch-Site", site), ("X-Baton-Request", "page")];
            let reply = ask_with(server.address, line, &headers, b"").await;
            assert_eq!((reply.status, reply.problem().as_str()), (403, "foreign-origin"), "{line} from {site}");
            headers.extend(link);
            let followed = ask_with(server.address, line, &headers, b"").await.status;
            assert_eq!(followed, if line == "GET /" { 200 } else { 403 }, "a link to {line} from {site}");
        }
    }
    assert!(role.handle.leads(), "nobody resigned it");
    assert_eq!(ask(server.address, "GET /locks").await.json()["locks"], serde_json::json!([]), "nobody took a lock");
}

#[tokio::test]
async fn a_page_of_ours_needs_the_header_to_resign_a_leader_and_a_program_does_not() {
    let (role, server) = leader_fixture().await;
    let ours = format!("http://127.0.0.1:{}", server.address.port());
    let browser = [("Origin", ours.as_str()), ("Sec-Fetch-Site", "same-origin"), ("Sec-Fetch-Mode", "cors")];
    let resign = "POST /leader/scheduler/resign";
    for headers in [&browser[..], &browser[..1], &browser[1..]] {
        for line in [resign, "POST /jobs/works/run", "POST /locks/a", "DELETE /locks/a/1"] {
            let reply = ask_with(server.address, line, headers, b"").await;
            assert_eq!((reply.status, reply.problem().as_str()), (403, "unmarked-request"), "{line} {headers:?}");
        }
    }
    assert!(role.handle.leads());
    let marked = [&browser[..], &[("X-Baton-Request", "page")]].concat();
    assert_eq!(ask_with(server.address, resign, &marked, b"").await.status, 202);
    let (_role, server) = leader_fixture().await;
    assert_eq!(ask(server.address, resign).await.status, 202, "curl sends none of them");
}

#[tokio::test]
async fn the_absolute_form_of_a_target_does_not_get_around_the_host() {
    let (_role, server) = leader_fixture().await;
    let reply = ask(server.address, "GET http://evil.example/leader").await;
    assert_eq!((reply.status, reply.problem().as_str()), (403, "foreign-host"));
    let line = format!("GET http://localhost:{}/leader", server.address.port());
    assert_eq!(ask(server.address, &line).await.status, 200);
}

#[tokio::test]
async fn a_request_needs_exactly_one_host() {
    let (_role, server) = leader_fixture().await;
    let mut client = Client::connect(server.address).await;
    client.send(b"GET /leader HTTP/1.1\r\n\r\n").await;
    assert_eq!(client.reply(false).await.problem(), "bad-host");
    let mut client = Client::connect(server.address).await;
    let host = server.address;
    client.send(format!("GET /leader HTTP/1.1\r\nHost: {host}\r\nHost: evil.example\r\n\r\n").as_bytes()).await;
    assert_eq!(client.reply(false).await.problem(), "bad-host");
    let mut client = Client::connect(server.address).await;
    client.send(b"GET /leader HTTP/1.0\r\n\r\n").await;
    assert_eq!(client.reply(false).await.status, 200, "HTTP/1.0 has no Host");
}

#[tokio::test]
async fn with_a_token_every_call_needs_it() {
    let role = Staged::new("scheduler", std::time::Duration::from_secs(60), Cue::Grant);
    let secret = Secret::Value(SecretString::from("correct horse"));
    let server = Server::start_with(&[&role], |plan| plan.api.token = Some(secret)).await;
    for line in EVERY_CALL {
        let bare = ask(server.address, line).await;
        assert_eq!((bare.status, bare.problem().as_str()), (401, "unauthorized"), "{line}");
        assert_eq!(bare.header("www-authenticate"), Some("Bearer realm=\"baton\""));
    }
    for wrong in ["Bearer correct hors", "Bearer correct horse2", "Bearer ", "Basic correct horse", "correct horse", ""]
    {
        let reply = ask_with(server.address, "GET /leader", &[("Authorization", wrong)], b"").await;
        assert_eq!(reply.status, 401, "{wrong}");
        assert!(!reply.text().contains("correct"), "a refusal never says what would be right");
    }
    for right in ["Bearer correct horse", "bearer correct horse"] {
        assert_eq!(ask_with(server.address, "GET /leader", &[("Authorization", right)], b"").await.status, 200);
    }
}

#[tokio::test]
async fn a_rotated_token_file_is_read_anew_and_an_unusable_one_lets_nobody_in() {
    let role = Staged::new("scheduler", std::time::Duration::from_secs(60), Cue::Grant);
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(b"first\n").unwrap();
    let secret = Secret::File(file.path().to_owned());
    let clock = std::sync::Arc::new(Leaping::default());
    let hands = std::sync::Arc::clone(&clock);
    let server = Server::start_with(&[&role], |plan| {
        plan.api.token = Some(secret);
        plan.api.clock = clock;
    })
    .await;
    let with = async |token: &str| {
        let header = ("Authorization", format!("Bearer {token}"));
        ask_with(server.address, "GET /leader", &[(header.0, &header.1)], b"").await.status
    };
    assert_eq!((with("first").await, with("second").await), (200, 401));
    std::fs::write(file.path(), "second").unwrap();
    hands.leap();
    assert_eq!((with("first").await, with("second").await), (401, 200));
    for unusable in [Some(""), None] {
        match unusable {
            Some(text) => std::fs::write(file.path(), text).unwrap(),
            None => std::fs::remove_file(file.path()).unwrap(),
        }
        hands.leap();
        assert_eq!((with("second").await, with("").await), (503, 503));
    }
    let reply = ask_until(server.address, "GET /leader", |reply| reply.status == 503).await;
    assert_eq!(reply.problem(), "token-unavailable");
}

/// The real clock, put forward by a minute at a time.
#[derive(Debug, Default)]
struct Leaping(std::sync::atomic::AtomicU64);

impl Leaping {
    fn leap(&self) {
        self.0.fetch_add(60, std::sync::atomic::Ordering::Relaxed);
    }
}

impl baton::base::clock::Clock for Leaping {
    fn now(&self) -> baton::protocol::Mono {
        let leaps = std::time::Duration::from_secs(self.0.load(std::sync::atomic::Ordering::Relaxed));
        baton::base::clock::BootClock.now() + leaps
    }
}
