//! What operators ask of locks: all that the store has, and the end of one of them.

use serde_json::{Value, json};

use crate::client::{Client, Reply, ask, ask_until, ask_with};
use crate::contract::check_reply;
use crate::schema::OpenApi;
use crate::stage::{IDENTITY, Server, leader_fixture};

const JSON: (&str, &str) = ("Content-Type", "application/json");

async fn send(server: &Server, line: &str, body: &Value) -> Reply {
    ask_with(server.address, line, &[JSON], body.to_string().as_bytes()).await
}

fn check(template: &str, method: &str, reply: &Reply) {
    let openapi = OpenApi::parse(include_str!("../../src/api/openapi.yaml"));
    check_reply(&openapi, &openapi.root["paths"][template][method], reply, false, template);
}

#[tokio::test]
async fn an_operator_sees_all_locks_and_ends_one_by_its_token() {
    let (_role, server) = leader_fixture().await;
    let granted = send(&server, "POST /locks/orders%2F42", &json!({"owner": "worker-7"})).await.json();
    let mut client = Client::connect(server.address).await;
    client.send(client.head("GET /locks/nightly/hold", &[]).as_bytes()).await;
    assert_eq!(client.reply_head().await.status, 200);
    let held: Value = serde_json::from_slice(&client.chunk().await.unwrap()).unwrap();

    let all = ask(server.address, "GET /locks?all=true").await;
    check("/locks", "get", &all);
    let names: Vec<Value> = all.json()["locks"].as_array().unwrap().iter().map(|lock| lock["name"].clone()).collect();
    assert_eq!((names, &all.json()["next"]), (vec![json!("nightly"), json!("orders/42")], &Value::Null));

    let unlocked = send(&server, "DELETE /locks/nightly", &json!({"token": held["token"]})).await;
    check("/locks/{name}", "delete", &unlocked);
    assert_eq!((unlocked.status, &unlocked.json()["name"]), (200, &json!("nightly")));
    assert_eq!(unlocked.json()["holder"]["identity"], IDENTITY);
    let last: Value = serde_json::from_slice(&client.chunk().await.unwrap()).unwrap();
    assert_eq!((last, client.chunk().await), (json!({"lost": "an operator has unlocked it"}), None));

    let token = granted["token"].as_u64().unwrap();
    let differs = send(&server, "DELETE /locks/orders%2F42", &json!({"token": token + 1})).await;
    check("/locks/{name}", "delete", &differs);
    assert_eq!((differs.status, differs.problem().as_str()), (409, "token-differs"));
    assert_eq!(differs.json()["holders"][0]["token"], token);
    for wanted in [json!("worker-7"), Value::Null] {
        let unlocked = send(&server, "DELETE /locks/orders%2F42", &json!({"token": token})).await;
        assert_eq!((unlocked.status, &unlocked.json()["holder"]["owner"]), (200, &wanted), "it may be repeated");
    }
    let nobody = send(&server, "DELETE /locks/other", &json!({"token": token})).await;
    assert_eq!((nobody.status, &nobody.json()["holders"]), (409, &json!([])));
    let is_empty = |reply: &Reply| reply.json()["locks"] == json!([]);
    ask_until(server.address, "GET /locks?all=true", is_empty).await;
    let id = granted["lock"].as_str().unwrap();
    assert_eq!(ask(server.address, &format!("PUT /locks/orders%2F42/{id}")).await.problem(), "lock-lost");
}

#[tokio::test]
async fn what_an_operator_cannot_ask_for_is_refused_for_what_it_is() {
    let (_role, server) = leader_fixture().await;
    let granted = send(&server, "POST /locks/a", &json!({})).await.json();
    let token = granted["token"].clone();
    for (line, body, status, problem) in [
        ("DELETE /locks/a", json!({}), 400, "bad-body"),
        ("DELETE /locks/a", json!({"token": 0}), 400, "bad-body"),
        ("DELETE /locks/a", json!({"token": 1_u64 << 53}), 400, "bad-body"),
        ("DELETE /locks/a", json!({"token": -1}), 400, "bad-body"),
        ("DELETE /locks/a", json!({"token": "7"}), 400, "bad-body"),
        ("DELETE /locks/a", json!({"token": token, "force": true}), 400, "bad-body"),
        ("DELETE /locks/%00", json!({"token": token}), 400, "bad-parameter"),
        ("DELETE /locks", json!({"token": token}), 405, "method-not-allowed"),
        ("GET /locks?all=maybe", Value::Null, 400, "bad-parameter"),
        ("GET /locks?all=true&limit=5", Value::Null, 400, "bad-parameter"),
        ("GET /locks?after=1", Value::Null, 400, "bad-parameter"),
    ] {
        let reply = send(&server, line, &body).await;
        assert_eq!((reply.status, reply.problem().as_str()), (status, problem), "{line} {body}");
    }
    let body = json!({"token": token}).to_string();
    let foreign = [JSON, ("Origin", "http://evil.example"), ("X-Baton-Request", "page")];
    let reply = ask_with(server.address, "DELETE /locks/a", &foreign, body.as_bytes()).await;
    assert_eq!(reply.problem(), "foreign-origin", "no web page ends a lock");
    assert_eq!(ask(server.address, "GET /locks/a").await.json()["holders"][0]["token"], token);
}
