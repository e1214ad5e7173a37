//! `values.schema.json`: what is written by hand, and the part that is the sidecar's own schema.

use std::fs;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use testkit::root;

use crate::stage::is_up_to_date;

/// The schema of a chart's values.
pub fn schema(chart: &str) -> Value {
    let text = fs::read_to_string(root().join("charts").join(chart).join("values.schema.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// The part of a schema that is about a path, if there is one.
pub fn resolve(schema: &Value, path: &str) -> Option<Value> {
    let mut found = schema.clone();
    for key in path.split('.') {
        found = deref(schema, found["properties"].get(key)?);
    }
    Some(found)
}

fn deref(schema: &Value, part: &Value) -> Value {
    match part["$ref"].as_str() {
        Some(pointer) => schema.pointer(pointer.trim_start_matches('#')).expect("a reference leads somewhere").clone(),
        None => part.clone(),
    }
}

/// The sidecar's schema as the chart needs it: for Helm 3 too, which reads draft 7 at most, and open where the chart
/// itself fills in or checks.
fn of_the_sidecar() -> Value {
    let output = Command::new(env!("CARGO_BIN_EXE_baton")).arg("schema").stdin(Stdio::null()).output().unwrap();
    let mut schema: Value = serde_json::from_slice(&output.stdout).unwrap();
    let whole = schema.as_object_mut().unwrap();
    assert_eq!(whole.remove("$schema").unwrap(), "https://json-schema.org/draft/2020-12/schema");
    // Helm's defaults are empty; the templates say what is missing.
    assert_eq!(whole.remove("required").unwrap(), json!(["store", "roles"]));
    assert_eq!(whole["properties"]["roles"].as_object_mut().unwrap().remove("minItems").unwrap(), 1);
    let parts = whole["$defs"].as_object_mut().unwrap();
    for limit in ["minProperties", "maxProperties"] {
        assert_eq!(parts["Store"].as_object_mut().unwrap().remove(limit).unwrap(), 1);
    }
    // It may come from a Secret.
    assert_eq!(parts["Redis"].as_object_mut().unwrap().remove("required").unwrap(), json!(["url"]));
    // The chart knows these before the sidecar does, and gives the rights that they need.
    for extra in parts["Kubernetes"]["properties"].as_object_mut().unwrap().values_mut() {
        extra.as_object_mut().unwrap().remove("enum");
    }
    parts.values_mut().for_each(let_be_null);
    let tls = parts["Tls"].as_object_mut().unwrap();
    let together = tls.remove("dependentRequired").unwrap();
    tls.insert("dependencies".to_owned(), together);
    schema
}

/// Lets a mapping and everything in it be null, which takes back a default of the calling chart.
fn let_be_null(part: &mut Value) {
    match part.get_mut("type") {
        Some(kind @ Value::String(_)) => *kind = json!([kind.take(), "null"]),
        Some(Value::Array(kinds)) if !kinds.contains(&json!("null")) => kinds.push(json!("null")),
        _ => {}
    }
    let properties = part.get_mut("properties").and_then(Value::as_object_mut);
    properties.into_iter().flat_map(|properties| properties.values_mut()).for_each(let_be_null);
}

#[test]
fn the_schema_of_config_is_the_sidecars() {
    let mut of_config = of_the_sidecar();
    let parts = of_config.as_object_mut().unwrap().remove("$defs").unwrap();
    let mut whole = schema("baton");
    whole["$defs"] = parts;
    whole["properties"]["config"] = of_config;
    is_up_to_date("charts/baton/values.schema.json", &format!("{}\n", serde_json::to_string_pretty(&whole).unwrap()));
}

#[test]
fn the_schemas_refuse_unknown_keys_at_every_level() {
    fn check(schema: &Value, path: &str) {
        if let Some(properties) = schema["properties"].as_object() {
            assert_eq!(schema["additionalProperties"], false, "{path}");
            properties.iter().for_each(|(key, below)| check(below, &format!("{path}.{key}")));
        }
        for (name, part) in schema["$defs"].as_object().into_iter().flatten() {
            check(part, &format!("{path}#{name}"));
        }
    }
    for chart in ["baton", "baton-demo", "baton-injector"] {
        check(&schema(chart), chart);
    }
}
