//! `?wait=…&index=…`

use std::time::Duration;

use crate::client::{Client, ask};
use crate::stage::{Cue, follower_fixture, leader_fixture};

#[tokio::test]
async fn a_long_poll_wakes_when_the_role_changes() {
    let (role, server) = follower_fixture().await;
    let index = ask(server.address, "GET /leader").await.json()["index"].as_u64().unwrap();
    let mut client = Client::connect(server.address).await;
    let head = client.head(&format!("GET /leader?wait=5m&index={index}"), &[]);
    client.send(head.as_bytes()).await;
    role.cue(Cue::Grant).await;
    let answer = client.reply(false).await.json();
    assert!(answer["index"].as_u64().unwrap() > index, "{answer}");
}

#[tokio::test]
async fn a_long_poll_answers_at_once_when_the_index_has_moved_already() {
    let (_role, server) = leader_fixture().await;
    let index = ask(server.address, "GET /leader").await.json()["index"].as_u64().unwrap();
    assert!(index > 0);
    let reply = ask(server.address, &format!("GET /leader?wait=5m&index={}", index - 1)).await;
    assert_eq!(reply.json()["index"], index, "waiting for five minutes would have failed the client's patience");
}

#[tokio::test]
async fn a_long_poll_with_the_index_of_an_earlier_process_answers_at_once() {
    let (_role, server) = leader_fixture().await;
    let reply = ask(server.address, "GET /leader?wait=5m&index=1000000").await;
    assert_eq!(reply.status, 200);
}

#[tokio::test]
async fn a_long_poll_ends_with_its_wait_and_answers_what_is_true_then() {
    let (_role, server) = leader_fixture().await;
    let answer = ask(server.address, "GET /leader").await.json();
    let clock = crate::stage::clock();
    let asked_at = clock.now();
    let later = ask(server.address, &format!("GET /leader?wait=300ms&index={}", answer["index"])).await.json();
    assert!(clock.now().since(asked_at) >= Duration::from_millis(300), "nothing changed, so it had to wait");
    assert_eq!((&later["index"], &later["leader"]), (&answer["index"], &true.into()));
    assert!(later["valid_for_ms"].as_u64().unwrap() > 0, "the promise is made when the answer is sent");
}

#[tokio::test]
async fn a_long_poll_ends_when_its_role_does() {
    let (role, server) = follower_fixture().await;
    let mut client = Client::connect(server.address).await;
    let head = client.head("GET /leader?wait=5m", &[]);
    client.send(head.as_bytes()).await;
    role.end();
    assert_eq!(client.reply(false).await.status, 200);
}

#[tokio::test]
async fn a_bad_query_is_refused_with_what_is_wrong() {
    let (_role, server) = leader_fixture().await;
    for query in ["wait=30", "wait=6m", "index=x", "wait=1s&wait=2s", "timeout=1s", "wait=%F0"] {
        let reply = ask(server.address, &format!("GET /leader?{query}")).await;
        assert_eq!((reply.status, reply.problem().as_str()), (400, "bad-parameter"), "{query}");
    }
}

#[tokio::test]
async fn a_client_that_goes_away_takes_its_long_poll_with_it() {
    let (role, server) = follower_fixture().await;
    let receivers_before = role.watchers();
    let mut client = Client::connect(server.address).await;
    let head = client.head("GET /leader?wait=5m", &[]);
    client.send(head.as_bytes()).await;
    role.until_watchers(|watchers| watchers > receivers_before).await;
    drop(client);
    role.until_watchers(|watchers| watchers == receivers_before).await;
}

#[tokio::test]
async fn shutting_down_answers_who_waits() {
    let (_role, server) = follower_fixture().await;
    let mut client = Client::connect(server.address).await;
    let head = client.head("GET /leader?wait=5m", &[]);
    client.send(head.as_bytes()).await;
    // The request is in once a second connection, opened later, is served.
    ask(server.address, "GET /leader").await;
    server.shut_down().await;
    assert_eq!(client.reply(false).await.status, 200);
    assert!(client.is_closed().await);
}
