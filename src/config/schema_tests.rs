//! The schema against a validator that editors use: what it accepts, what it refuses, and that both are what the
//! check says.

use boon::{Compiler, SchemaIndex, Schemas};
use serde_json::Value;

use super::tree::{Node, parse};
use super::{Environment, check_text, schema};

const BASE: &str = "\
identity: web-0
store:
  redis:
    url: redis://redis:6379/0
roles:
  - name: scheduler
";

/// The samples that Baton ships: names and texts.
fn samples() -> Vec<(String, String)> {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/config");
    let paths = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let samples: Vec<_> =
        paths.map(|path| (path.display().to_string(), std::fs::read_to_string(&path).unwrap())).collect();
    assert!(samples.len() >= 8, "only {} samples in {directory}", samples.len());
    samples
}

/// A value as editors see it.
fn json(node: &Node) -> Value {
    match node {
        Node::Null => Value::Null,
        Node::Bool(value) => Value::Bool(*value),
        Node::Number(text) => serde_json::from_str(text).unwrap(),
        Node::Text { text, .. } => Value::String(text.clone()),
        Node::List(items) => Value::Array(items.iter().map(json).collect()),
        Node::Map(entries) => Value::Object(entries.iter().map(|(key, value)| (key.clone(), json(value))).collect()),
        Node::Tagged => panic!("no tags here"),
    }
}

/// The schema, ready to judge.
struct Judge {
    schemas: Schemas,
    index: SchemaIndex,
}

impl Judge {
    fn new() -> Self {
        let (mut schemas, mut compiler) = (Schemas::new(), Compiler::new());
        compiler.add_resource("baton.json", serde_json::from_str(&schema()).unwrap()).unwrap();
        let index = compiler.compile("baton.json", &mut schemas).unwrap_or_else(|error| panic!("{error:#}"));
        Self { schemas, index }
    }

    fn verdict(&self, yaml: &str) -> Result<(), String> {
        let node = parse(yaml).unwrap_or_else(|problem| panic!("{}\n{yaml}", problem.message));
        let value = json(&node);
        self.schemas.validate(&value, self.index).map_err(|error| format!("{error:#}"))
    }
}

#[test]
fn every_sample_fits_the_schema() {
    let judge = Judge::new();
    for (name, text) in samples() {
        judge.verdict(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
    }
    judge
        .verdict("store: {memory: }\nroles: [{name: '${ROLE}', shards: '${N}', leaseDuration: '${LEASE:-15s}'}]")
        .unwrap();
}

#[test]
fn the_schema_is_draft_2020_12_and_describes_every_key() {
    let schema: Value = serde_json::from_str(&schema()).unwrap();
    assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
    let definitions = schema["$defs"].as_object().unwrap().values();
    let mut keys = 0;
    for object in definitions.chain([&schema]).filter(|definition| definition.get("properties").is_some()) {
        assert_eq!(object["additionalProperties"], false, "{object:#}");
        for (key, property) in object["properties"].as_object().unwrap() {
            assert!(property["description"].as_str().is_some_and(|text| text.len() > 5), "{key}: {property}");
            keys += 1;
        }
    }
    assert!(keys > 40, "{keys} keys");
}

#[test]
fn the_schema_refuses_typical_mistakes_as_the_check_does() {
    let judge = Judge::new();
    judge.verdict(BASE).unwrap();
    for (from, to) in [
        ("identity", "identty"),
        ("identity: web-0", "identity: 7"),
        ("identity: web-0", "identity:"),
        ("identity: web-0", "api:"),
        ("identity: web-0", "api: {listen: 4040}"),
        ("identity: web-0", "api: {listen: 'localhost:4040'}"),
        ("identity: web-0", "jobs: [{name: a}]"),
        ("identity: web-0", "jobs: [{name: a, schedule: '@daily', run: {}}]"),
        ("identity: web-0", "jobs: [{name: A, schedule: '@daily', run: {http: {url: 'http://a'}}}]"),
        ("identity: web-0", "jobs: [{name: a, schedule: '@daily', run: {http: {url: 'ftp://a'}}}]"),
        (
            "identity: web-0",
            "jobs: [{name: a, schedule: '@daily', run: {http: {url: 'http://a', successStatus: [20]}}}]",
        ),
        ("identity: web-0", "jobs: [{name: a, schedule: '@daily', run: {http: {url: 'http://a', method: post}}}]"),
        ("identity: web-0", "jobs: [{name: a, schedule: '@daily', run: {exec: {command: [sleep, 5]}}}]"),
        ("identity: web-0", "jobs: [{name: a, schedule: '@daily', suspend: 'yes', run: {exec: {command: [a]}}}]"),
        ("identity: web-0", "jobs: [{name: a, schedule: '@daily', catchUp: some, run: {exec: {command: [a]}}}]"),
        ("identity: web-0", "locks: {leese: 1s}"),
        ("identity: web-0", "locks: {dapr: {}}"),
        ("identity: web-0", "jobsDapr: {}"),
        ("identity: web-0", "jobsDapr: {url: 'ftp://a'}"),
        ("identity: web-0", "locks: {dapr: {stores: []}}"),
        ("identity: web-0", "locks: {dapr: {stores: ['a b']}}"),
        ("identity: web-0", "kubernetes: {events: on call}"),
        ("identity: web-0", "log: {level: loud}"),
        ("    url: redis://redis:6379/0", "    guard: strict"),
        ("redis://redis:6379/0", "http://redis"),
        ("  redis:\n    url: redis://redis:6379/0", "  {}"),
        ("  redis:\n    url: redis://redis:6379/0", "  memory: {}\n  redis: {url: 'redis://a'}"),
        ("  redis:\n    url: redis://redis:6379/0", "  quorum: {}"),
        ("  redis:\n    url: redis://redis:6379/0", "  quorum: {members: [{url: 'redis://a'}, {url: 'redis://b'}]}"),
        ("/0", "/0\n    guard: loose"),
        ("/0", "/0\n    keyPrefix: 'a{b}'"),
        ("/0", "/0\n    commandTimeout: 1"),
        ("/0", "/0\n    replication: {acks: 17}"),
        ("\n  - name: scheduler", " []"),
        ("- name: scheduler", "- {}"),
        ("- name: scheduler", "- name: Scheduler"),
        ("- name: scheduler", "- {name: a, shards: 257}"),
        ("- name: scheduler", "- {name: a, leaseDuration: 15}"),
        ("- name: scheduler", "- {name: a, leaseDuration: 15 s}"),
        ("- name: scheduler", "- {name: a, leaseDuration: 15sec}"),
        ("- name: scheduler", "- {name: a, appCheck: {}}"),
        ("- name: scheduler", "- {name: a, appCheck: {httpGet: {port: 70000}}}"),
        ("- name: scheduler", "- {name: a, appCheck: {httpGet: {port: 1, path: a}}}"),
    ] {
        let text = BASE.replace(from, to);
        assert_ne!(text, BASE, "{from:?} is not in the base");
        assert!(judge.verdict(&text).is_err(), "the schema accepts\n{text}");
        assert!(
            check_text(&text, "config.yaml", &Environment::new(|_| None, None)).is_err(),
            "the check accepts\n{text}"
        );
    }
}
