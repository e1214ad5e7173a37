//! `openapi.yaml` and the router say the same, and so do the description's examples and its schemas.

use std::collections::BTreeSet;

use baton::http::ProblemKind;
use serde_json::Value;

use crate::client::{Reply, ask, ask_with};
use crate::schema::OpenApi;
use crate::stage::{follower_fixture, leader_fixture};

/// Fails unless the description allows this reply to that operation.
pub fn check_reply(openapi: &OpenApi, operation: &Value, reply: &Reply, headless: bool, place: &str) {
    let status = reply.status.to_string();
    let described = operation["responses"].get(&status);
    let described =
        openapi.resolve(described.unwrap_or_else(|| panic!("{place}: {status} is not described: {reply:?}")));
    if reply.status == 204 {
        assert!(reply.body.is_empty() && described.get("content").is_none(), "{place}: 204 has no body");
        return;
    }
    let media_type = reply.header("content-type").unwrap_or("").split(';').next().unwrap().to_owned();
    let content = described["content"].get(&media_type);
    let content = content.unwrap_or_else(|| panic!("{place}: {status} with {media_type:?} is not described"));
    if headless {
        assert!(reply.body.is_empty(), "{place}: an answer to HEAD has no body");
    } else if media_type.ends_with("json") {
        openapi.check(&content["schema"], &reply.json(), place);
    }
    if reply.status >= 400 && media_type != "application/json" && !headless {
        reply.problem();
    }
    if reply.status == 405 {
        assert!(reply.header("allow").is_some(), "{place}: 405 says what is allowed");
    }
}

fn description() -> OpenApi {
    OpenApi::parse(include_str!("../../src/api/openapi.yaml"))
}

#[tokio::test]
async fn the_served_description_is_the_file() {
    let (_role, server) = leader_fixture().await;
    let reply = ask(server.address, "GET /openapi.yaml").await;
    assert_eq!((reply.status, reply.header("content-type")), (200, Some("application/yaml")));
    assert_eq!(reply.text(), include_str!("../../src/api/openapi.yaml"));
}

#[tokio::test]
async fn every_described_call_is_routed_and_every_route_is_described() {
    let openapi = description();
    let (_role, server) = leader_fixture().await;
    let described: BTreeSet<_> =
        openapi.operations().into_iter().map(|(path, method, _, _)| (path.to_owned(), method)).collect();
    let routed: BTreeSet<_> = server
        .routes
        .iter()
        .flat_map(|(path, allow)| allow.split(", ").map(|method| ((*path).to_owned(), method.to_owned())))
        .collect();
    assert_eq!(described, routed);
}

#[tokio::test]
async fn every_described_call_is_answered_as_described() {
    let openapi = description();
    let (_leader, leading) = leader_fixture().await;
    let (_follower, following) = follower_fixture().await;
    let mut answered = 0;
    // Streams, locks and jobs are asked for elsewhere.
    let elsewhere = ["/events", "/locks", "/jobs", "/v1.0"];
    let asked_here = |path: &str| !path.ends_with("/hold") && !elsewhere.iter().any(|other| path.starts_with(other));
    for (path, method, _, operation) in openapi.operations().into_iter().filter(|(path, ..)| asked_here(path)) {
        let line = format!("{method} {}", path.replace("{role}", "scheduler"));
        for server in [&following, &leading] {
            let reply = ask(server.address, &line).await;
            assert!([200, 202, 409, 503].contains(&reply.status), "{line}: {reply:?}");
            check_reply(&openapi, operation, &reply, method == "HEAD", &line);
            answered += 1;
        }
    }
    assert_eq!(answered, 34, "17 calls, asked of a leader and of a follower");
}

#[test]
fn every_example_is_as_its_schema_says() {
    let openapi = description();
    let mut checked = 0;
    let mut places = vec![(String::from("#"), &openapi.root)];
    while let Some((place, value)) = places.pop() {
        if let Some(schema) = value.get("schema") {
            let single = value.get("example").into_iter();
            let several = value.get("examples").and_then(Value::as_object).into_iter().flat_map(|all| all.values());
            for example in single.chain(several.map(|example| &example["value"])) {
                openapi.check(schema, example, &place);
                checked += 1;
            }
        }
        if let Some(members) = value.as_object() {
            places.extend(members.iter().map(|(name, member)| (format!("{place}/{name}"), member)));
        }
        if let Some(items) = value.as_array() {
            places.extend(items.iter().enumerate().map(|(at, item)| (format!("{place}/{at}"), item)));
        }
    }
    assert!(checked >= 20, "{checked} examples");
}

#[test]
fn the_examples_name_only_problems_that_there_are() {
    let known: Vec<_> = ProblemKind::ALL.iter().map(|kind| (kind.uri(), kind.status().as_u16())).collect();
    let openapi = description();
    let text = openapi.root.to_string();
    for (at, _) in text.match_indices("urn:baton:problem:").filter(|(at, _)| text.as_bytes()[at - 1] == b'"') {
        let uri = text[at..].split('"').next().unwrap();
        assert!(known.iter().any(|(known, _)| *known == uri), "{uri}");
    }
}

#[tokio::test]
async fn a_body_on_a_call_that_takes_none_does_no_harm() {
    let (_role, server) = leader_fixture().await;
    let reply = ask_with(server.address, "GET /leader", &[], b"{\"cooldown\":\"1s\"}").await;
    assert_eq!(reply.status, 200);
}
