//! Dapr's lock API: its bodies, its numbers and its errors, on the locks that everybody has.

use std::time::Duration;

use serde_json::{Value, json};

use crate::client::{Reply, ask, ask_until, ask_with};
use crate::contract::check_reply;
use crate::schema::OpenApi;
use crate::stage::{Cue, IDENTITY, LOCK_STORE, Server, Staged, leader_fixture};

const JSON: (&str, &str) = ("Content-Type", "application/json");

/// One call, which is answered as described.
async fn call(server: &Server, what: &str, store: &str, body: &Value) -> Reply {
    let openapi = OpenApi::parse(include_str!("../../src/api/openapi.yaml"));
    let line = format!("POST /v1.0-alpha1/{what}/{store}");
    let reply = ask_with(server.address, &line, &[JSON], body.to_string().as_bytes()).await;
    let operation = &openapi.root["paths"][format!("/v1.0-alpha1/{what}/{{store}}")]["post"];
    check_reply(&openapi, operation, &reply, false, &line);
    reply
}

/// Whether this owner got the lock.
async fn lock(server: &Server, resource: &str, owner: &str, seconds: u64) -> bool {
    let body = json!({ "resourceId": resource, "lockOwner": owner, "expiryInSeconds": seconds });
    let reply = call(server, "lock", LOCK_STORE, &body).await;
    assert_eq!(reply.status, 200, "{reply:?}");
    reply.json()["success"].as_bool().unwrap()
}

/// What became of giving it back.
async fn unlock(server: &Server, resource: &str, owner: &str) -> u64 {
    let body = json!({ "resourceId": resource, "lockOwner": owner });
    let reply = call(server, "unlock", LOCK_STORE, &body).await;
    assert_eq!(reply.status, 200, "{reply:?}");
    reply.json()["status"].as_u64().unwrap()
}

#[tokio::test]
async fn dapr_takes_is_refused_and_frees_a_lock_in_its_own_numbers() {
    let (_role, server) = leader_fixture().await;
    assert_eq!(unlock(&server, "order", "a").await, 1, "nobody has it");
    assert!(lock(&server, "order", "a", 60).await);
    assert!(!lock(&server, "order", "b", 60).await);
    assert!(!lock(&server, "order", "a", 60).await, "not even its owner takes it again");
    assert_eq!(unlock(&server, "order", "b").await, 2, "it is another's");
    let seen = ask(server.address, "GET /locks/dapr%2Flockstore%2Forder").await.json();
    assert_eq!((&seen["holders"][0]["owner"], &seen["holders"][0]["holds"]), (&json!("a"), &json!(1)));
    assert!(seen["holders"][0]["ends_in_ms"].as_u64().unwrap() > 50_000, "for as long as it was asked for");
    assert_eq!(unlock(&server, "order", "a").await, 0);
    assert_eq!(unlock(&server, "order", "a").await, 1);
    assert!(lock(&server, "order", "b", 60).await);
}

#[tokio::test]
async fn a_lock_that_expired_is_not_freed_for_its_successor() {
    let (_role, server) = leader_fixture().await;
    assert!(lock(&server, "order", "late", 1).await);
    let name = "GET /locks/dapr%2Flockstore%2Forder";
    ask_until(server.address, name, |reply| reply.json()["holders"] == json!([])).await;
    assert!(lock(&server, "order", "next", 60).await, "it is not renewed");
    assert_eq!(unlock(&server, "order", "late").await, 2);
    assert!(!lock(&server, "order", "late", 60).await, "it is still its successor's");
}

#[tokio::test]
async fn locks_of_other_ways_are_never_given_back_by_an_owners_name() {
    let (_role, server) = leader_fixture().await;
    for body in [json!({"owner": "me"}), json!({}), json!({"owner": "me", "permits": 2})] {
        let line = "POST /locks/dapr%2Flockstore%2Fx";
        let taken = ask_with(server.address, line, &[JSON], body.to_string().as_bytes()).await;
        assert_eq!(taken.status, 201, "{taken:?}");
        assert!(!lock(&server, "x", "me", 60).await, "one name is one lock, whoever asks");
        assert_eq!(unlock(&server, "x", "me").await, 2);
        let id = taken.json()["lock"].as_str().unwrap().to_owned();
        let line = format!("DELETE /locks/dapr%2Flockstore%2Fx/{id}");
        assert_eq!(ask(server.address, &line).await.status, 204);
    }
}

#[tokio::test]
async fn what_dapr_refuses_is_refused_with_its_code() {
    let (_role, server) = leader_fixture().await;
    let whole = json!({ "resourceId": "x", "lockOwner": "me", "expiryInSeconds": 60 });
    let with = |key: &str, value: Value| {
        let mut body = whole.clone();
        body[key] = value;
        body
    };
    for (store, body, status, code) in [
        ("other", whole.clone(), 404, "ERR_LOCK_NOT_FOUND"),
        (LOCK_STORE, with("resourceId", json!("")), 400, "ERR_RESOURCE_ID_EMPTY"),
        (LOCK_STORE, with("lockOwner", json!(null)), 400, "ERR_OWNER_EMPTY"),
        (LOCK_STORE, with("expiryInSeconds", json!(0)), 400, "ERR_EXPIRY_NOT_POSITIVE"),
        (LOCK_STORE, with("expiryInSeconds", json!(3_601)), 400, "ERR_MALFORMED_REQUEST"),
        (LOCK_STORE, with("resourceId", json!(7)), 400, "ERR_MALFORMED_REQUEST"),
        (LOCK_STORE, with("resourceId", json!("a||b")), 500, "ERR_TRY_LOCK"),
    ] {
        let reply = call(&server, "lock", store, &body).await;
        assert_eq!((reply.status, reply.json()["errorCode"].as_str()), (status, Some(code)), "{body}");
    }
    let reply = call(&server, "unlock", "other", &whole).await;
    assert_eq!((reply.status, &reply.json()["message"]), (404, &json!("lock other is not found")));
    let foreign = ask_with(
        server.address,
        "POST /v1.0-alpha1/lock/lockstore",
        &[JSON, ("Origin", "http://evil.example")],
        whole.to_string().as_bytes(),
    )
    .await;
    assert_eq!(foreign.problem(), "foreign-origin", "no web page takes a lock");
    assert_eq!(ask(server.address, "GET /v1.0-alpha1/lock/lockstore").await.status, 405);
}

#[tokio::test]
async fn clients_find_the_sidecar_well_until_it_ends() {
    let (_role, server) = leader_fixture().await;
    let openapi = OpenApi::parse(include_str!("../../src/api/openapi.yaml"));
    let reply = async |path: &str| {
        let reply = ask(server.address, &format!("GET {path}")).await;
        check_reply(&openapi, &openapi.root["paths"][path]["get"], &reply, false, path);
        reply
    };
    let metadata = reply("/v1.0/metadata").await.json();
    assert_eq!((&metadata["id"], &metadata["components"][0]["name"]), (&json!(IDENTITY), &json!(LOCK_STORE)));
    for path in ["/v1.0/healthz", "/v1.0/healthz/outbound"] {
        assert_eq!(reply(path).await.status, 204);
    }
    server.locks.begin_shutdown();
    assert_eq!(reply("/v1.0/healthz").await.json()["errorCode"], "ERR_HEALTH_NOT_READY");
    assert_eq!(reply("/v1.0/healthz/outbound").await.json()["errorCode"], "ERR_OUTBOUND_HEALTH_NOT_READY");
    let body = json!({ "resourceId": "x", "lockOwner": "me", "expiryInSeconds": 60 });
    let ending = call(&server, "lock", LOCK_STORE, &body).await;
    assert_eq!((ending.status, &ending.json()["errorCode"]), (500, &json!("ERR_TRY_LOCK")));
}

#[tokio::test]
async fn without_being_asked_for_nothing_of_dapr_is_there() {
    let role = Staged::new("scheduler", Duration::from_secs(3), Cue::Grant);
    let server = Server::start_with(&[&role], |plan| plan.no_locks = Some("not here")).await;
    for line in ["POST /v1.0-alpha1/lock/lockstore", "GET /v1.0/metadata", "GET /v1.0/healthz"] {
        assert_eq!(ask(server.address, line).await.problem(), "unknown-path", "{line}");
    }
}
