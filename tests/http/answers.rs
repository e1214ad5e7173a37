//! Each row of the contract's table.

use std::time::Duration;

use serde_json::{Value, json};

use crate::client::{Client, ask, ask_until, ask_with};
use crate::stage::{Cue, FIRST_TOKEN, Server, Staged, follower_fixture, leader_fixture};

#[tokio::test]
async fn a_leader_is_told_its_token_and_for_how_long() {
    let (_role, server) = leader_fixture().await;
    for path in ["GET /leader", "GET /leader/scheduler"] {
        let reply = ask(server.address, path).await;
        assert_eq!((reply.status, reply.header("content-type")), (200, Some("application/json")));
        assert_eq!(reply.header("cache-control"), Some("no-store"));
        let answer = reply.json();
        let valid_for_ms = answer["valid_for_ms"].as_u64().unwrap();
        assert!((1..=1_000).contains(&valid_for_ms), "{answer}");
        let expected = json!({
            "role": "scheduler", "leader": true, "state": "leading", "identity": "web-0", "holder": "web-0",
            "token": FIRST_TOKEN, "valid_for_ms": valid_for_ms, "since": answer["since"], "index": answer["index"],
            "reason": null,
        });
        assert_eq!(answer, expected);
    }
}

#[tokio::test]
async fn a_follower_is_told_who_leads_and_why_it_does_not() {
    let (_role, server) = follower_fixture().await;
    let answer = ask(server.address, "GET /leader").await.json();
    assert_eq!(
        (&answer["leader"], &answer["state"], &answer["holder"]),
        (&json!(false), &json!("standby"), &json!("web-2"))
    );
    assert_eq!(
        (&answer["token"], &answer["valid_for_ms"], &answer["reason"]),
        (&Value::Null, &Value::Null, &json!("web-2 leads"))
    );
}

#[tokio::test]
async fn a_replica_without_a_store_says_so() {
    let role = Staged::new("scheduler", Duration::from_secs(3), Cue::Silence);
    let server = Server::start(&[&role]).await;
    let reply = ask_until(server.address, "GET /leader", |reply| reply.json()["state"] == "unreachable").await;
    assert_eq!((&reply.json()["leader"], &reply.json()["holder"]), (&json!(false), &Value::Null));
    assert_eq!(reply.json()["reason"], "the store does not answer");
}

#[tokio::test]
async fn a_term_that_cannot_be_renewed_ends_at_its_deadline_in_the_answers() {
    let role = Staged::new("scheduler", Duration::from_secs(1), Cue::Grant);
    role.until_leading().await;
    let server = Server::start(&[&role]).await;
    role.cue(Cue::Silence).await;
    let reply = ask_until(server.address, "GET /leader", |reply| reply.json()["leader"] == false).await;
    assert_ne!(reply.json()["state"], "leading");
}

#[tokio::test]
async fn leading_is_a_status_code_for_get_head_and_options() {
    let (_leader, leading) = leader_fixture().await;
    let (_follower, following) = follower_fixture().await;
    for path in ["/leading", "/leading/scheduler"] {
        for method in ["GET", "HEAD", "OPTIONS"] {
            let line = format!("{method} {path}");
            let (yes, no) = (ask(leading.address, &line).await, ask(following.address, &line).await);
            assert_eq!((yes.status, no.status), (200, 503), "{line}");
            assert_eq!(yes.body.is_empty(), method == "HEAD", "{line}");
            if method != "HEAD" {
                assert_eq!((&yes.json()["leader"], &no.json()["leader"]), (&json!(true), &json!(false)));
                assert!(yes.json()["valid_for_ms"].is_u64(), "a script that acts on 200 has the same promise");
            }
        }
    }
}

#[tokio::test]
async fn roles_lists_every_role_by_name() {
    let second = Staged::new("scheduler", Duration::from_secs(3), Cue::Rival("web-2"));
    let first = Staged::new("reports", Duration::from_secs(3), Cue::Grant);
    let server = Server::start(&[&second, &first]).await;
    let reply = ask_until(server.address, "GET /roles", |reply| reply.json()[0]["leader"] == true).await;
    let roles: Vec<_> = reply.json().as_array().unwrap().iter().map(|answer| answer["role"].clone()).collect();
    assert_eq!(roles, ["reports", "scheduler"]);
    assert_eq!(reply.header("cache-control"), Some("no-store"));
}

#[tokio::test]
async fn the_leader_elector_shapes_are_answered() {
    let (_leader, leading) = leader_fixture().await;
    let (_follower, following) = follower_fixture().await;
    assert_eq!(ask(leading.address, "GET /").await.json(), json!({"name": "web-0"}));
    assert_eq!(ask(following.address, "GET /").await.json(), json!({"name": "web-2"}));
    assert_eq!(ask(leading.address, "GET /isLeader").await.json(), json!({"isLeader": true}));
    assert_eq!(ask(following.address, "GET /isLeader").await.json(), json!({"isLeader": false}));
    let nobody = Staged::new("scheduler", Duration::from_secs(3), Cue::Silence);
    let server = Server::start(&[&nobody]).await;
    assert_eq!(ask(server.address, "GET /").await.json(), json!({"name": ""}));
}

#[tokio::test]
async fn a_draining_replica_is_not_named_to_its_own_app() {
    let role = Staged::new("scheduler", Duration::from_secs(60), Cue::Grant);
    role.until_leading().await;
    let server = Server::start(&[&role]).await;
    assert_eq!(ask(server.address, "GET /").await.json(), json!({"name": "web-0"}));
    ask(server.address, "POST /leader/scheduler/resign").await;
    let answer = ask(server.address, "GET /leader").await.json();
    assert_eq!((&answer["state"], &answer["holder"]), (&json!("draining"), &json!("web-0")), "it still has the lease");
    assert_eq!(
        ask(server.address, "GET /").await.json(),
        json!({"name": ""}),
        "its app would take itself for the leader"
    );
}

#[tokio::test]
async fn another_pod_with_the_same_name_is_not_mistaken_for_this_one() {
    let role = Staged::new("scheduler", Duration::from_secs(60), Cue::Rival(crate::stage::IDENTITY));
    role.until(|snapshot| snapshot.view.holder.is_some()).await;
    let server = Server::start(&[&role]).await;
    assert_eq!(ask(server.address, "GET /").await.json(), json!({"name": ""}));
    assert_eq!(ask(server.address, "GET /isLeader").await.json(), json!({"isLeader": false}));
}

#[tokio::test]
async fn resigning_hands_over_and_stays_out_for_the_cooldown() {
    let (role, server) = leader_fixture().await;
    let promise = ask(server.address, "GET /leader").await.json();
    assert_eq!(promise["leader"], true);
    let json_type = ("Content-Type", "application/json");
    let resigned =
        ask_with(server.address, "POST /leader/scheduler/resign", &[json_type], br#"{"cooldown":"1h"}"#).await;
    assert_eq!(resigned.status, 202);
    assert_eq!((&resigned.json()["leader"], &resigned.json()["state"]), (&json!(false), &json!("draining")));
    let out = ask_until(server.address, "GET /leader", |reply| reply.json()["state"] != "draining").await.json();
    assert!(out["reason"].as_str().unwrap().contains("resigned"), "{out}");
    assert!(!role.handle.leads());
    let again = ask(server.address, "POST /leader/scheduler/resign").await;
    assert_eq!((again.status, again.problem().as_str()), (409, "not-leading"));
}

#[tokio::test]
async fn a_resignation_needs_no_body() {
    let (_role, server) = leader_fixture().await;
    let reply = ask_with(server.address, "POST /leader/scheduler/resign", &[("Content-Length", "0")], b"").await;
    assert_eq!(reply.status, 202, "{reply:?}");
}

#[tokio::test]
async fn drained_ends_a_drain_before_its_promises_run_out() {
    let role = Staged::new("scheduler", Duration::from_secs(60), Cue::Grant);
    role.until_leading().await;
    let server = Server::start(&[&role]).await;
    let early = ask(server.address, "POST /leader/scheduler/drained").await;
    assert_eq!((early.status, early.problem().as_str()), (409, "not-draining"));
    ask(server.address, "GET /leader").await;
    ask(server.address, "POST /leader/scheduler/resign").await;
    assert_eq!(ask(server.address, "GET /leader").await.json()["state"], "draining", "a promise of 20 s stands");
    assert_eq!(ask(server.address, "POST /leader/scheduler/drained").await.status, 202);
    ask_until(server.address, "GET /leader", |reply| reply.json()["state"] != "draining").await;
}

#[tokio::test]
async fn asking_without_a_name_needs_a_default_when_there_are_several_roles() {
    let a = Staged::new("a", Duration::from_secs(3), Cue::Rival("web-2"));
    let b = Staged::new("b", Duration::from_secs(3), Cue::Rival("web-2"));
    let server = Server::start(&[&a, &b]).await;
    for path in ["/leader", "/leading", "/isLeader", "/"] {
        let reply = ask(server.address, &format!("GET {path}")).await;
        assert_eq!((reply.status, reply.problem().as_str()), (400, "ambiguous-role"), "{path}");
        assert_eq!(reply.json()["known"], json!(["a", "b"]));
    }
    server.roles.replace(vec![a.handle.clone(), b.handle.clone()], Some(crate::stage::name("b")));
    assert_eq!(ask(server.address, "GET /leader").await.json()["role"], "b");
}

#[tokio::test]
async fn an_unknown_role_is_answered_with_the_known_ones() {
    let (_role, server) = leader_fixture().await;
    for line in [
        "GET /leader/schedular",
        "GET /leader/",
        "GET /leader/%73cheduler",
        "GET /leading/x",
        "POST /leader/x/resign",
        "POST /leader/x/drained",
    ] {
        let reply = ask(server.address, line).await;
        assert_eq!((reply.status, reply.problem().as_str()), (404, "unknown-role"), "{line}");
        assert_eq!(reply.json()["known"], json!(["scheduler"]));
    }
}

#[tokio::test]
async fn unknown_paths_and_methods_are_told_apart() {
    let (_role, server) = leader_fixture().await;
    for line in ["GET /leaders", "GET /leader/scheduler/x", "POST /leader/a/b/c", "GET //", "OPTIONS *"] {
        let reply = ask(server.address, line).await;
        assert_eq!((reply.status, reply.problem().as_str()), (404, "unknown-path"), "{line}");
    }
    for (line, allow) in [
        ("POST /leader", "GET"),
        ("HEAD /leader", "GET"),
        ("DELETE /leading", "GET, HEAD, OPTIONS"),
        ("GET /leader/scheduler/resign", "POST"),
        ("BREW /events", "GET"),
    ] {
        let reply = ask(server.address, line).await;
        assert_eq!((reply.status, reply.header("allow")), (405, Some(allow)), "{line}");
    }
}

#[tokio::test]
async fn nobody_gets_a_tunnel() {
    let (_role, server) = leader_fixture().await;
    let reply = ask(server.address, &format!("CONNECT {}", server.address)).await;
    assert_eq!((reply.status, reply.problem().as_str()), (404, "unknown-path"));
    assert_eq!(ask(server.address, "CONNECT evil.example:443").await.problem(), "foreign-host");
}

#[tokio::test]
async fn a_role_whose_task_has_ended_leads_no_more_and_takes_no_commands() {
    let (role, server) = leader_fixture().await;
    role.end();
    let reply = ask_until(server.address, "POST /leader/scheduler/resign", |reply| reply.status == 503).await;
    assert_eq!(reply.problem(), "role-stopped");
    ask_until(server.address, "GET /leader", |reply| reply.json()["leader"] == false).await;
}

#[tokio::test]
async fn requests_that_come_all_at_once_are_answered_in_order() {
    let (_role, server) = leader_fixture().await;
    let mut client = Client::connect(server.address).await;
    let lines = ["GET /isLeader", "GET /leader/x", "GET /", "GET /leading"];
    let all: String = lines.iter().map(|line| client.head(line, &[])).collect();
    client.send(all.as_bytes()).await;
    let mut statuses = Vec::new();
    for _ in lines {
        statuses.push(client.reply(false).await.status);
    }
    assert_eq!(statuses, [200, 404, 200, 200]);
}

#[tokio::test]
async fn a_shard_is_asked_for_by_its_name_and_its_role_by_none() {
    let shards = ["stock/0", "stock/2", "stock/10"].map(|name| Staged::new(name, Duration::from_secs(3), Cue::Grant));
    shards[1].until_leading().await;
    let server = Server::start(&[&shards[2], &shards[0], &shards[1]]).await;
    for path in
        ["/leader/stock/2", "/leader/stock%2F2", "/leader/stock%2f2?wait=1ms", "/leading/stock/2", "/leading/stock%2F2"]
    {
        let reply = ask(server.address, &format!("GET {path}")).await;
        assert_eq!((reply.status, &reply.json()["role"]), (200, &json!("stock/2")), "{path}");
    }
    let reply = ask(server.address, "GET /leader/stock").await;
    assert_eq!((reply.status, &reply.json()["type"]), (404, &json!("urn:baton:problem:unknown-role")));
    assert_eq!(reply.json()["known"], json!(["stock/0", "stock/2", "stock/10"]), "by number");
    assert!(reply.json()["detail"].as_str().unwrap().contains("split over 3 shards"), "{}", reply.json());
    for path in ["/leader/stock/1", "/leader/stock/02", "/leader/stock%2F"] {
        assert_eq!(ask(server.address, &format!("GET {path}")).await.status, 404, "{path}");
    }
    assert_eq!(ask(server.address, "GET /leader").await.status, 400, "none is meant by naming none");
    let roles = ask(server.address, "GET /roles").await.json();
    let names: Vec<_> = roles.as_array().unwrap().iter().map(|role| role["role"].clone()).collect();
    assert_eq!(names, ["stock/0", "stock/2", "stock/10"]);
    let reply = ask(server.address, "POST /leader/stock%2F2/resign").await;
    assert_eq!((reply.status, &reply.json()["leader"]), (202, &json!(false)));
    assert_eq!(ask(server.address, "POST /leader/stock/resign").await.status, 404);
}
