//! The status page, and what it is made from: the view that promises nothing, and the list of locks.

use std::time::Duration;

use baton::config::Secret;
use secrecy::SecretString;
use serde_json::{Value, json};

use crate::client::{Client, PATIENCE, Reply, ask, ask_with};
use crate::contract::check_reply;
use crate::schema::OpenApi;
use crate::stage::{Cue, FIRST_TOKEN, Server, Staged, follower_fixture, leader_fixture};

const HTML: (&str, &str) = ("Accept", "text/html,application/xhtml+xml,*/*;q=0.8");

fn check_described(path: &str, reply: &Reply) {
    let openapi = OpenApi::parse(include_str!("../../src/api/openapi.yaml"));
    let operations = openapi.operations();
    let found = operations.iter().find(|(described, method, ..)| *described == path && method == "GET");
    check_reply(&openapi, found.unwrap().3, reply, false, path);
}

#[tokio::test]
async fn a_browser_gets_a_page_that_may_load_only_its_own_two_files() {
    let (_role, server) = leader_fixture().await;
    for (line, media_type) in [
        ("GET /", "text/html; charset=utf-8"),
        ("GET /page.js", "text/javascript; charset=utf-8"),
        ("GET /page.css", "text/css; charset=utf-8"),
    ] {
        let reply = ask_with(server.address, line, &[HTML], b"").await;
        assert_eq!((reply.status, reply.header("content-type")), (200, Some(media_type)));
        for (name, value) in [
            ("cache-control", "no-store"),
            ("x-content-type-options", "nosniff"),
            ("referrer-policy", "no-referrer"),
            ("cross-origin-resource-policy", "same-origin"),
            ("cross-origin-opener-policy", "same-origin"),
        ] {
            assert_eq!(reply.header(name), Some(value), "{name} of {line}");
        }
        let policy: Vec<&str> = reply.header("content-security-policy").unwrap().split("; ").collect();
        assert!(policy.contains(&"default-src 'none'") && policy.contains(&"frame-ancestors 'none'"), "{policy:?}");
        assert!(!policy.iter().any(|part| part.contains("unsafe") || part.contains('*')), "{policy:?}");
    }
    let page = ask_with(server.address, "GET /", &[HTML], b"").await.text();
    assert!(!page.contains("scheduler") && !page.contains("web-0"), "it holds nothing of this replica: {page}");
    assert_eq!(ask(server.address, "GET /").await.json(), json!({"name": "web-0"}), "others are answered as ever");
}

#[tokio::test]
async fn with_a_token_the_page_opens_without_it_and_shows_nothing_without_it() {
    let role = Staged::new("scheduler", Duration::from_secs(60), Cue::Grant);
    let secret = Secret::Value(SecretString::from("correct horse"));
    let server = Server::start_with(&[&role], |plan| plan.api.token = Some(secret)).await;
    for line in ["GET /", "GET /page.js", "GET /page.css"] {
        assert_eq!(ask_with(server.address, line, &[HTML], b"").await.status, 200, "{line}");
    }
    for line in ["POST /", "HEAD /", "GET /status", "GET /events?view=status", "GET /jobs", "GET /locks", "GET /page"] {
        assert_eq!(ask_with(server.address, line, &[HTML], b"").await.status, 401, "{line}");
    }
    let port = server.address.port();
    let foreign = ask_with(server.address, "GET /", &[HTML, ("Host", &format!("evil.example:{port}"))], b"").await;
    assert_eq!(foreign.status, 403, "the other doors stay shut");
}

#[tokio::test]
async fn to_look_promises_nothing_so_a_resigned_lease_is_free_at_once() {
    // A promise would be of a third of the lease, longer than anything here waits.
    let role = Staged::new("scheduler", 6 * PATIENCE, Cue::Grant);
    role.until_leading().await;
    let server = Server::start(&[&role]).await;
    let looked = ask(server.address, "GET /status").await;
    check_described("/status", &looked);
    let status = &looked.json()["roles"][0];
    assert_eq!(
        (&status["leads"], &status["state"], &status["holder"]),
        (&true.into(), &"leading".into(), &"web-0".into())
    );
    assert_eq!(status["token"], FIRST_TOKEN);
    let left = status["time_left_ms"].as_u64().unwrap();
    assert!((1..120_000).contains(&left), "{left} of a lease of two minutes");
    let mut events = Events::open(&server).await;
    assert_eq!(events.status().await["leads"], true);
    let resigned = ask(server.address, "POST /leader/scheduler/resign").await.json();
    assert_eq!(resigned["leader"], false);
    // Nobody was promised anything, so there is nothing to wait for.
    role.until(|snapshot| snapshot.view.state == baton::protocol::State::Standby).await;
    let after = ask(server.address, "GET /status").await.json();
    let changes: Vec<&Value> = after["roles"][0]["changes"].as_array().unwrap().iter().map(|c| &c["state"]).collect();
    assert_eq!(changes[..3], ["standby", "draining", "leading"], "{after}");
    assert_eq!(after["roles"][0]["changes"][2]["token"], FIRST_TOKEN);
    assert_eq!((&after["roles"][0]["leads"], &after["roles"][0]["token"]), (&false.into(), &Value::Null));
}

#[tokio::test]
async fn who_looks_at_a_follower_sees_who_leads_until_that_has_run_out() {
    let (role, server) = follower_fixture().await;
    let mut events = Events::open(&server).await;
    let first = events.status().await;
    assert_eq!((&first["holder"], &first["leads"]), (&"web-2".into(), &false.into()));
    assert!(first["time_left_ms"].as_u64().unwrap() <= 3_000, "{first}");
    role.cue(Cue::Silence).await;
    loop {
        let status = events.status().await;
        if status["holder"].is_null() {
            assert_eq!(status["time_left_ms"], Value::Null, "{status}");
            break;
        }
    }
}

#[tokio::test]
async fn who_looks_hears_of_renewals_though_nothing_has_changed_and_which_roles_there_are() {
    let role = Staged::new("a", Duration::from_secs(3), Cue::Grant);
    role.until_leading().await;
    let server = Server::start(&[&role]).await;
    let mut events = Events::open(&server).await;
    assert_eq!(events.next("roles").await, json!(["a"]));
    let first = events.status().await;
    let again = events.status().await;
    assert_eq!((&first["index"], &first["changes"]), (&again["index"], &again["changes"]), "nothing has changed");
    let other = Staged::new("b", Duration::from_secs(60), Cue::Rival("web-2"));
    server.roles.replace(vec![role.handle.clone(), other.handle.clone()], None);
    assert_eq!(events.next("roles").await, json!(["a", "b"]));
    let unknown = ask(server.address, "GET /events?view=all").await;
    assert_eq!((unknown.status, unknown.problem().as_str()), (400, "bad-parameter"));
}

#[tokio::test]
async fn locks_are_listed_with_who_holds_them_and_who_waits_here() {
    let (_role, server) = leader_fixture().await;
    let none = ask(server.address, "GET /locks").await;
    check_described("/locks", &none);
    assert_eq!(none.json(), json!({"locks": [], "more": 0}));
    for name in ["a", "b", "orders%2F42"] {
        let body = br#"{"owner":"worker-7","lease":"30s"}"#;
        let json_type = ("Content-Type", "application/json");
        let line = format!("POST /locks/{name}");
        assert_eq!(ask_with(server.address, &line, &[json_type], body).await.status, 201);
    }
    let mut waiting = Client::connect(server.address).await;
    let head = waiting.head("GET /locks/orders%2F42/hold?wait=60s", &[]);
    waiting.send(head.as_bytes()).await;
    let listed = tokio::time::timeout(PATIENCE, async {
        loop {
            let listed = ask(server.address, "GET /locks?limit=2").await;
            if listed.json()["locks"][0]["waiting"] == 1 {
                return listed;
            }
        }
    });
    let listed = listed.await.unwrap();
    check_described("/locks", &listed);
    let listed = listed.json();
    let first = &listed["locks"][0];
    assert_eq!(
        (&first["name"], &first["held_here"], &first["waiting_here"]),
        (&"orders/42".into(), &1.into(), &1.into())
    );
    assert_eq!(first["holders"][0]["owner"], "worker-7");
    assert_eq!((&listed["locks"][1]["name"], &listed["more"]), (&"a".into(), &1.into()));
    assert!(!listed.to_string().contains("\"lock\":"), "the ids, which release a lock, are its owner's alone");
    for wrong in ["limit=0", "limit=101", "limit=x", "limit=1&limit=1", "other=1"] {
        assert_eq!(ask(server.address, &format!("GET /locks?{wrong}")).await.problem(), "bad-parameter", "{wrong}");
    }
}

/// `GET /events?view=status`
struct Events {
    client: Client,
    text: String,
}

impl Events {
    async fn open(server: &Server) -> Self {
        let mut client = Client::connect(server.address).await;
        let head = client.head("GET /events?view=status", &[]);
        client.send(head.as_bytes()).await;
        assert_eq!(client.reply_head().await.status, 200);
        Self { client, text: String::new() }
    }

    async fn status(&mut self) -> Value {
        self.next("status").await
    }

    /// The data of the next event with this name.
    async fn next(&mut self, name: &str) -> Value {
        let reading = async {
            loop {
                while let Some(end) = self.text.find("\n\n") {
                    let event: String = self.text.drain(..end + 2).collect();
                    let field = |name: &str| event.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
                    if field("event:") == Some(name) {
                        return serde_json::from_str(field("data:").unwrap()).unwrap();
                    }
                }
                self.text += &String::from_utf8(self.client.chunk().await.expect("the stream goes on")).unwrap();
            }
        };
        tokio::time::timeout(PATIENCE, reading).await.unwrap_or_else(|_| panic!("no event {name} for {PATIENCE:?}"))
    }
}
