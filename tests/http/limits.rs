//! What clients may cost.

use std::time::Duration;

use baton::http::{BODY_BYTES_MAX, Limits};

use crate::client::{Client, PATIENCE, ask, ask_until, ask_with};
use crate::stage::{Cue, Server, Staged, leader_fixture};

const JSON: (&str, &str) = ("Content-Type", "application/json");

async fn limited(tweak: impl FnOnce(&mut Limits)) -> (Staged, Server) {
    let role = Staged::new("scheduler", Duration::from_secs(60), Cue::Grant);
    role.until_leading().await;
    let server = Server::start_with(&[&role], |plan| tweak(&mut plan.api.limits)).await;
    (role, server)
}

#[tokio::test]
async fn a_body_over_64_kib_is_refused_whether_announced_or_not() {
    let (role, server) = leader_fixture().await;
    let body = vec![b' '; BODY_BYTES_MAX + 1];
    let line = "POST /leader/scheduler/resign";
    let announced = ask_with(server.address, line, &[JSON], &body).await;
    assert_eq!((announced.status, announced.problem().as_str()), (413, "body-too-large"));
    let mut chunked = format!("{:x}\r\n", body.len()).into_bytes();
    chunked.extend([&body[..], b"\r\n0\r\n\r\n"].concat());
    let unannounced = ask_with(server.address, line, &[JSON, ("Transfer-Encoding", "chunked")], &chunked).await;
    assert_eq!((unannounced.status, unannounced.problem().as_str()), (413, "body-too-large"));
    assert!(role.handle.leads());
    let most = ask_with(server.address, line, &[JSON], &body[1..]).await;
    assert_eq!(most.status, 202, "64 KiB of blanks are an empty body");
}

#[tokio::test]
async fn a_body_must_be_the_json_that_the_call_takes() {
    let (role, server) = leader_fixture().await;
    let line = "POST /leader/scheduler/resign";
    let form = ask_with(server.address, line, &[("Content-Type", "text/plain")], b"{}").await;
    assert_eq!((form.status, form.problem().as_str()), (415, "unsupported-media-type"));
    for body in ["{", "[]", r#"{"cooldown":"soon"}"#, r#"{"cooldown":"25h"}"#, r#"{"cooldown":"1s","x":1}"#] {
        let reply = ask_with(server.address, line, &[JSON], body.as_bytes()).await;
        assert_eq!((reply.status, reply.problem().as_str()), (400, "bad-body"), "{body}");
    }
    assert!(role.handle.leads());
}

#[tokio::test]
async fn a_head_that_dribbles_in_is_answered_408_and_holds_nobody_up() {
    let (_role, server) = limited(|limits| limits.head = Duration::from_millis(200)).await;
    let mut slow = Client::connect(server.address).await;
    let dribble = async {
        while !slow.is_readable_within(Duration::from_millis(20)).await {
            slow.send(b"G").await;
        }
        slow.reply(false).await
    };
    let reply = tokio::time::timeout(PATIENCE, dribble).await.unwrap();
    assert_eq!((reply.status, reply.problem().as_str()), (408, "request-timeout"));
    assert_eq!(reply.header("connection"), Some("close"));
    assert_eq!(ask(server.address, "GET /leader").await.status, 200);
}

#[tokio::test]
async fn a_body_that_never_comes_is_answered_408() {
    let role = Staged::new("scheduler", Duration::from_secs(60), Cue::Grant);
    role.until_leading().await;
    let server = Server::start_with(&[&role], |plan| plan.api.body_timeout = Duration::from_millis(100)).await;
    let mut client = Client::connect(server.address).await;
    let head = client.head("POST /leader/scheduler/resign", &[JSON, ("Content-Length", "20")]);
    client.send(format!("{head}{{").as_bytes()).await;
    let reply = client.reply(false).await;
    assert_eq!((reply.status, reply.problem().as_str()), (408, "request-timeout"));
    assert!(role.handle.leads());
}

#[tokio::test]
async fn an_idle_connection_is_closed_without_a_word() {
    let (_role, server) = limited(|limits| limits.idle = Duration::from_millis(200)).await;
    let mut fresh = Client::connect(server.address).await;
    assert!(fresh.is_closed().await);
    let mut used = Client::connect(server.address).await;
    assert_eq!(used.ask("GET /leader").await.status, 200);
    assert!(used.is_closed().await);
}

#[tokio::test]
async fn waiting_for_a_change_is_not_idleness() {
    let (_role, server) = limited(|limits| limits.idle = Duration::from_millis(100)).await;
    let reply = ask(server.address, "GET /leader?wait=500ms").await;
    assert_eq!(reply.status, 200);
}

#[tokio::test]
async fn one_connection_too_many_is_told_so() {
    let (_role, server) = limited(|limits| limits.connections = 3).await;
    let mut waiting = Vec::new();
    for _ in 0..3 {
        let mut client = Client::connect(server.address).await;
        let head = client.head("GET /events", &[]);
        client.send(head.as_bytes()).await;
        assert_eq!(client.reply_head().await.status, 200);
        waiting.push(client);
    }
    let refused = ask(server.address, "GET /leader").await;
    assert_eq!((refused.status, refused.problem().as_str()), (503, "too-many-connections"));
    assert_eq!((refused.header("retry-after"), refused.header("connection")), (Some("1"), Some("close")));
    waiting.pop();
    ask_until(server.address, "GET /leader", |reply| reply.status == 200).await;
}

#[tokio::test]
async fn connections_that_ask_nothing_make_room_for_those_that_do() {
    let (_role, server) = limited(|limits| {
        limits.connections = 8;
        // No other bound frees a place within this test.
        (limits.head, limits.idle) = (Duration::from_secs(3_600), Duration::from_secs(3_600));
    })
    .await;
    let mut idle = Vec::new();
    for at in 0..8 {
        let mut client = Client::connect(server.address).await;
        if at % 2 == 0 {
            client.send(b"GET /lea").await;
        }
        idle.push(client);
    }
    // They may be busy for all anyone knows until they have been silent for a second.
    ask_until(server.address, "GET /leader", |reply| reply.status == 200).await;
}

#[tokio::test]
async fn a_client_that_never_reads_is_cut_off_and_starves_nobody() {
    let (_role, server) = limited(|limits| limits.stall = Duration::from_millis(200)).await;
    let mut deaf = Client::connect(server.address).await;
    let head = deaf.head("GET /openapi.yaml", &[]);
    // Far more answers than the buffers of both sides hold.
    let flood = async { while deaf.try_send(head.as_bytes()).await {} };
    tokio::time::timeout(PATIENCE, flood).await.expect("the server hangs up");
    assert_eq!(ask(server.address, "GET /leader").await.status, 200);
}

#[tokio::test]
async fn what_is_not_http_is_answered_400_and_closed() {
    let (_role, server) = leader_fixture().await;
    for garbage in
        ["\x16\x03\x01\x02\x00\x01\r\n\r\n", "GET\r\n\r\n", "GET / HTTP/9.9\r\n\r\n", "GET / HTTP/1.1\r\n:\r\n\r\n"]
    {
        let mut client = Client::connect(server.address).await;
        client.send(garbage.as_bytes()).await;
        assert_eq!(client.reply(false).await.status, 400, "{garbage:?}");
        assert!(client.is_closed().await);
    }
    let mut client = Client::connect(server.address).await;
    let long = "x".repeat(100_000);
    client.send(client.head("GET /leader", &[("Cookie", &long)]).as_bytes()).await;
    assert_eq!(client.reply(false).await.status, 431);
}

#[tokio::test]
async fn shutting_down_ends_even_with_clients_that_do_nothing() {
    let (_role, server) = limited(|limits| limits.grace = Duration::from_millis(100)).await;
    let mut silent = Client::connect(server.address).await;
    let mut halfway = Client::connect(server.address).await;
    halfway.send(b"GET /leader HTTP/1.1\r\n").await;
    assert_eq!(ask(server.address, "GET /leader").await.status, 200);
    server.shut_down().await;
    assert!(silent.is_closed().await);
    assert!(halfway.is_closed().await);
}
