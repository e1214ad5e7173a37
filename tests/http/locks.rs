//! Locks over HTTP: each call, and each way to ask for too much.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::{Value, json};

use crate::client::{Client, PATIENCE, Reply, ask, ask_until, ask_with};
use crate::contract::check_reply;
use crate::schema::OpenApi;
use crate::stage::{Cue, IDENTITY, Server, Staged, WAITERS_MAX, leader_fixture};

const JSON: (&str, &str) = ("Content-Type", "application/json");

async fn post(server: &Server, path: &str, body: &Value) -> Reply {
    ask_with(server.address, &format!("POST {path}"), &[JSON], body.to_string().as_bytes()).await
}

/// The id of a lock that was just granted.
fn id(reply: &Reply) -> String {
    assert_eq!(reply.status, 201, "{reply:?}");
    reply.json()["lock"].as_str().unwrap().to_owned()
}

/// Waits until a lock has as many who wait for it.
async fn until_waiting(address: SocketAddr, name: &str, count: usize) {
    ask_until(address, &format!("GET /locks/{name}"), |reply| reply.json()["waiting"] == count).await;
}

async fn until_free(address: SocketAddr, name: &str) {
    let free = |reply: &Reply| reply.json()["holders"] == json!([]) && reply.json()["waiting"] == 0;
    ask_until(address, &format!("GET /locks/{name}"), free).await;
}

#[tokio::test]
async fn every_call_of_locks_is_answered_as_described() {
    let openapi = OpenApi::parse(include_str!("../../src/api/openapi.yaml"));
    let (_role, server) = leader_fixture().await;
    let check = |template: &str, method: &str, reply: &Reply| {
        let operation = &openapi.root["paths"][template][method];
        check_reply(&openapi, operation, reply, false, template);
    };
    let granted = post(&server, "/locks/orders", &json!({"owner": "worker-7", "lease": "10s"})).await;
    check("/locks/{name}", "post", &granted);
    let (lock, grant) = (id(&granted), granted.json());
    assert!((1..=9_800).contains(&grant["valid_for_ms"].as_u64().unwrap()), "{grant}");
    assert_eq!(grant["holds"], 1);

    let held = post(&server, "/locks/orders", &json!({"owner": "worker-8"})).await;
    check("/locks/{name}", "post", &held);
    assert_eq!((held.status, held.problem().as_str()), (409, "lock-held"));
    let (holder, retry) = (held.json()["holder"].clone(), held.json()["retry_after_ms"].as_u64().unwrap());
    assert_eq!(
        (&holder["owner"], &holder["identity"], &holder["token"]),
        (&json!("worker-7"), &json!(IDENTITY), &grant["token"])
    );
    assert!(retry <= 10_000 && held.header("retry-after").unwrap().parse::<u64>().unwrap() == retry.div_ceil(1_000));

    let seen = ask(server.address, "GET /locks/orders").await;
    check("/locks/{name}", "get", &seen);
    assert_eq!((&seen.json()["holders"][0]["owner"], &seen.json()["permits"]), (&json!("worker-7"), &json!(1)));

    let line = format!("PUT /locks/orders/{lock}");
    let extended = ask_with(server.address, &line, &[JSON], br#"{"lease":"30s"}"#).await;
    check("/locks/{name}/{id}", "put", &extended);
    let valid: u64 = extended.header("baton-valid-for-ms").unwrap().parse().unwrap();
    assert!((20_000..=29_400).contains(&valid), "{valid}");

    let line = format!("DELETE /locks/orders/{lock}");
    let released = ask(server.address, &line).await;
    check("/locks/{name}/{id}", "delete", &released);
    assert_eq!(released.status, 204);
    assert_eq!(ask(server.address, &line).await.status, 204, "it was given back, and still is");
    for line in [format!("PUT /locks/orders/{lock}"), format!("DELETE /locks/orders/{}", "0".repeat(32))] {
        let lost = ask(server.address, &line).await;
        assert_eq!((lost.status, lost.problem().as_str()), (410, "lock-lost"));
    }
    let several = post(&server, "/locks", &json!({"names": ["b", "a"]})).await;
    check("/locks", "post", &several);
    assert_eq!(post(&server, "/locks/a", &json!({})).await.status, 409);
    assert_eq!(ask(server.address, &format!("DELETE /locks/b/{}", id(&several))).await.status, 204);
    until_free(server.address, "a").await;
}

#[tokio::test]
async fn the_same_owner_takes_it_again_and_gives_it_back_as_often() {
    let (_role, server) = leader_fixture().await;
    let mine = json!({"owner": "me"});
    let first = post(&server, "/locks/a%2Fb", &mine).await;
    let second = post(&server, "/locks/a%2Fb", &mine).await;
    assert_eq!((&first.json()["token"], &second.json()["holds"]), (&second.json()["token"], &json!(2)));
    assert_ne!(id(&first), id(&second), "each hold is given back by itself");
    assert_eq!(ask(server.address, "GET /locks/a%2Fb").await.json()["name"], "a/b");
    for _ in 0..2 {
        assert_eq!(ask(server.address, &format!("DELETE /locks/a%2Fb/{}", id(&first))).await.status, 204);
        assert_eq!(post(&server, "/locks/a%2Fb", &json!({"owner": "you"})).await.status, 409);
    }
    assert_eq!(ask(server.address, &format!("DELETE /locks/a%2Fb/{}", id(&second))).await.status, 204);
    assert_eq!(post(&server, "/locks/a%2Fb", &json!({"owner": "you"})).await.status, 201);
}

#[tokio::test]
async fn permits_make_a_semaphore_and_must_agree() {
    let (_role, server) = leader_fixture().await;
    let two = json!({"permits": 2});
    let ids = [id(&post(&server, "/locks/s", &two).await), id(&post(&server, "/locks/s", &two).await)];
    assert_ne!(ids[0], ids[1]);
    assert_eq!(post(&server, "/locks/s", &two).await.problem(), "lock-held");
    let differs = post(&server, "/locks/s", &json!({"permits": 3})).await;
    assert_eq!((differs.status, differs.problem().as_str()), (409, "permits-differ"));
    assert_eq!(differs.json()["permits"], 2);
}

#[tokio::test]
async fn a_lock_that_was_taken_for_a_time_at_least_is_shut_for_it() {
    let (_role, server) = leader_fixture().await;
    let body = json!({"lease": "20s", "atLeast": "10s"});
    let lock = id(&post(&server, "/locks/cleanup", &body).await);
    assert_eq!(ask(server.address, &format!("DELETE /locks/cleanup/{lock}")).await.status, 204);
    let held = post(&server, "/locks/cleanup", &body).await;
    assert_eq!((held.status, held.problem().as_str()), (409, "lock-held"));
    let left = held.json()["retry_after_ms"].as_u64().unwrap();
    assert!((1..=10_000).contains(&left), "{left}");
    let mut client = Client::connect(server.address).await;
    client.send(client.head("GET /locks/other/hold?atLeast=10s", &[]).as_bytes()).await;
    assert_eq!(client.reply_head().await.status, 200);
    let grant: Value = serde_json::from_slice(&client.chunk().await.unwrap()).unwrap();
    drop(client);
    let line = format!("PUT /locks/other/{}", grant["lock"].as_str().unwrap());
    ask_until(server.address, &line, |reply| reply.status == 410).await;
    assert_eq!(post(&server, "/locks/other", &json!({})).await.problem(), "lock-held");
}

#[tokio::test]
async fn a_hold_tells_of_its_renewals_and_ends_with_its_connection() {
    let (_role, server) = leader_fixture().await;
    let mut client = Client::connect(server.address).await;
    let head = client.head("GET /locks/orders/hold?lease=300ms&owner=worker%207", &[]);
    client.send(head.as_bytes()).await;
    let reply = client.reply_head().await;
    assert_eq!((reply.status, reply.header("content-type")), (200, Some("application/x-ndjson")));
    let mut lines = Vec::new();
    while lines.len() < 4 {
        let chunk = client.chunk().await.unwrap();
        assert_eq!(chunk.last(), Some(&b'\n'));
        lines.push(serde_json::from_slice::<Value>(&chunk).unwrap());
    }
    assert!(lines[0]["token"].is_u64() && lines[0]["lock"].is_string(), "{lines:?}");
    assert!(lines[1..].iter().all(|line| (1..=294).contains(&line["valid_for_ms"].as_u64().unwrap())), "{lines:?}");
    let seen = ask(server.address, "GET /locks/orders").await.json();
    assert_eq!(seen["holders"][0]["owner"], "worker 7");
    drop(client);
    until_free(server.address, "orders").await;
}

/// Holds `orders`; what the connection is told after the first line, to its end.
async fn told_of(server: &Server, query: &str, meanwhile: impl FnOnce()) -> Vec<Value> {
    let mut client = Client::connect(server.address).await;
    client.send(client.head(&format!("GET /locks/orders/hold?{query}"), &[]).as_bytes()).await;
    assert_eq!(client.reply_head().await.status, 200);
    client.chunk().await.unwrap();
    meanwhile();
    let mut lines = Vec::new();
    while let Some(chunk) = client.chunk().await {
        lines.push(serde_json::from_slice(&chunk).unwrap());
    }
    lines
}

#[tokio::test]
async fn a_hold_that_has_an_end_says_so_when_it_is_there() {
    let (_role, server) = leader_fixture().await;
    let lines = told_of(&server, "lease=300ms&max=700ms", || {}).await;
    let (last, renewals) = lines.split_last().unwrap();
    assert!(last["lost"].as_str().is_some_and(|why| why.contains("max")), "{last}");
    assert!(renewals.iter().all(|line| line["valid_for_ms"].is_u64()) && !renewals.is_empty(), "{renewals:?}");
    until_free(server.address, "orders").await;
}

#[tokio::test]
async fn an_app_that_fails_its_check_loses_its_hold_and_gets_no_other() {
    let (_role, server) = leader_fixture().await;
    let fail = || {
        server.failing.send_replace(1);
    };
    let lines = told_of(&server, "lease=300ms", fail).await;
    let last = lines.last().unwrap();
    assert!(last["lost"].as_str().is_some_and(|why| why.contains("appCheck")), "{last}");
    until_free(server.address, "orders").await;
    let refused = ask(server.address, "GET /locks/orders/hold?wait=30s").await;
    assert_eq!((refused.status, refused.problem().as_str()), (503, "app-unhealthy"));
    assert!(refused.header("retry-after").is_some());
    server.failing.send_replace(0);
    let lines = told_of(&server, "max=100ms", || {}).await;
    assert!(lines.last().unwrap()["lost"].is_string());
}

#[tokio::test]
async fn a_hold_whose_lock_is_released_elsewhere_says_that_it_is_lost() {
    let (_role, server) = leader_fixture().await;
    let mut client = Client::connect(server.address).await;
    client.send(client.head("GET /locks/orders/hold?lease=600ms", &[]).as_bytes()).await;
    assert_eq!(client.reply_head().await.status, 200);
    let first: Value = serde_json::from_slice(&client.chunk().await.unwrap()).unwrap();
    let line = format!("DELETE /locks/orders/{}", first["lock"].as_str().unwrap());
    assert_eq!(ask(server.address, &line).await.status, 204);
    let last: Value = serde_json::from_slice(&client.chunk().await.unwrap()).unwrap();
    assert!(last["lost"].is_string(), "{last}");
    assert_eq!(client.chunk().await, None, "the stream ends");
}

#[tokio::test]
async fn a_waiting_client_that_vanishes_leaves_no_waiter() {
    let (_role, server) = leader_fixture().await;
    let lock = id(&post(&server, "/locks/orders", &json!({})).await);
    let body = br#"{"wait":"1h"}"#;
    let mut clients = Vec::new();
    for line in ["POST /locks/orders", "GET /locks/orders/hold?wait=1h"] {
        let mut client = Client::connect(server.address).await;
        let length = body.len().to_string();
        let post = line.starts_with("POST");
        let headers = [JSON, ("Content-Length", length.as_str())];
        let head = client.head(line, if post { &headers } else { &[] });
        client.send(&[head.as_bytes(), if post { body } else { b"" }].concat()).await;
        clients.push(client);
    }
    until_waiting(server.address, "orders", 2).await;
    drop(clients);
    until_waiting(server.address, "orders", 0).await;
    assert_eq!(ask(server.address, &format!("DELETE /locks/orders/{lock}")).await.status, 204);
    until_free(server.address, "orders").await;
}

#[tokio::test]
async fn one_waiter_too_many_is_told_so_at_once() {
    let (_role, server) = leader_fixture().await;
    let lock = id(&post(&server, "/locks/orders", &json!({})).await);
    let waiters: Vec<_> = (0..WAITERS_MAX)
        .map(|_| {
            let address = server.address;
            let body = br#"{"wait":"30s"}"#;
            tokio::spawn(async move { ask_with(address, "POST /locks/orders", &[JSON], body).await })
        })
        .collect();
    until_waiting(server.address, "orders", WAITERS_MAX).await;
    let refused = post(&server, "/locks/orders", &json!({"wait": "30s"})).await;
    assert_eq!((refused.status, refused.problem().as_str()), (503, "too-many-waiters"));
    assert!(refused.header("retry-after").is_some());
    let mut next = lock;
    let mut tokens = Vec::new();
    let passing = async {
        let mut waiting: Vec<_> = waiters;
        while !waiting.is_empty() {
            ask(server.address, &format!("DELETE /locks/orders/{next}")).await;
            let (reply, _, rest) = futures_util::future::select_all(waiting).await;
            let reply = reply.unwrap();
            next = id(&reply);
            tokens.push(reply.json()["token"].as_u64().unwrap());
            waiting = rest;
        }
    };
    tokio::time::timeout(PATIENCE, passing).await.expect("each is granted in its turn");
    assert!(tokens.is_sorted() && tokens.len() == WAITERS_MAX, "{tokens:?}");
}

#[tokio::test]
async fn what_cannot_be_asked_for_is_refused_for_what_it_is() {
    let (_role, server) = leader_fixture().await;
    let long = "x".repeat(201);
    let zeros = "0".repeat(32);
    for (line, status, problem) in [
        ("POST /locks/", 400, "bad-parameter"),
        ("GET /locks/%00", 400, "bad-parameter"),
        ("GET /locks/%ff", 400, "bad-parameter"),
        (&format!("POST /locks/{long}"), 400, "bad-parameter"),
        ("GET /locks/a/hold?wait=2h", 400, "bad-parameter"),
        ("GET /locks/a/hold?wait=1s&wait=1s", 400, "bad-parameter"),
        ("GET /locks/a/hold?max=25h", 400, "bad-parameter"),
        ("POST /locks", 400, "bad-body"),
        ("PUT /locks/a/7", 404, "unknown-lock"),
        ("DELETE /locks/a/A0000000000000000000000000000000", 404, "unknown-lock"),
        (&format!("PUT /locks/a/{zeros}"), 410, "lock-lost"),
        (&format!("DELETE /locks/a/{zeros}"), 410, "lock-lost"),
        ("GET /locks/a/b/c", 404, "unknown-path"),
        ("DELETE /locks/a", 400, "bad-body"),
        ("PUT /locks/a", 405, "method-not-allowed"),
        ("PUT /locks/a/hold", 405, "method-not-allowed"),
    ] {
        let reply = ask(server.address, line).await;
        assert_eq!((reply.status, reply.problem().as_str()), (status, problem), "{line}");
    }
    for body in [
        r#"{"wait":"61m"}"#,
        r#"{"lease":"50ms"}"#,
        r#"{"lease":"5s","atLeast":"6s"}"#,
        r#"{"permits":1001}"#,
        r#"{"colour":1}"#,
        "{",
    ] {
        let reply = ask_with(server.address, "POST /locks/a", &[JSON], body.as_bytes()).await;
        assert_eq!((reply.status, reply.problem().as_str()), (400, "bad-body"), "{body}");
    }
    let text = ask_with(server.address, "POST /locks/a", &[("Content-Type", "text/plain")], b"{}").await;
    assert_eq!(text.problem(), "unsupported-media-type");
    let foreign = ask_with(server.address, "POST /locks/a", &[("Origin", "http://evil.example")], b"").await;
    assert_eq!(foreign.problem(), "foreign-origin", "no web page takes a lock");
    until_free(server.address, "a").await;
}

#[tokio::test]
async fn a_store_without_locks_says_why_there_are_none() {
    let role = Staged::new("scheduler", Duration::from_secs(3), Cue::Grant);
    let server = Server::start_with(&[&role], |plan| plan.no_locks = Some("a quorum has no queue")).await;
    for line in ["POST /locks", "POST /locks/a", "GET /locks/a", "GET /locks/a/hold", "PUT /locks/a/7"] {
        let reply = ask(server.address, line).await;
        assert_eq!((reply.status, reply.problem().as_str()), (501, "locks-disabled"), "{line}");
        assert_eq!(reply.json()["detail"], "a quorum has no queue");
    }
    assert_eq!(ask(server.address, "GET /leader").await.status, 200);
}

#[tokio::test]
async fn shutting_down_tells_who_holds_and_who_waits() {
    let (_role, server) = leader_fixture().await;
    let mut holder = Client::connect(server.address).await;
    holder.send(holder.head("GET /locks/orders/hold", &[]).as_bytes()).await;
    assert_eq!(holder.reply_head().await.status, 200);
    holder.chunk().await.unwrap();
    let (address, body) = (server.address, br#"{"wait":"30s"}"#);
    let waiter = tokio::spawn(async move { ask_with(address, "POST /locks/orders", &[JSON], body).await });
    until_waiting(server.address, "orders", 1).await;
    server.locks.begin_shutdown();
    let told = waiter.await.unwrap();
    assert_eq!((told.status, told.problem().as_str()), (503, "shutting-down"));
    let ending: Value = serde_json::from_slice(&holder.chunk().await.unwrap()).unwrap();
    assert!(ending["ending"].is_string() && ending["valid_for_ms"].as_u64().unwrap() > 0, "{ending}");
    drop(holder);
    until_free(server.address, "orders").await;
    tokio::time::timeout(PATIENCE, server.locks.all_ended()).await.unwrap();
}
