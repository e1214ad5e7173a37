//! As much of JSON Schema as `openapi.yaml` uses; anything else in it fails, so that nothing goes unchecked.

use serde_json::{Map, Value};

/// The API's description, with `$ref` and the like resolved on demand.
pub struct OpenApi {
    pub root: Value,
}

impl OpenApi {
    pub fn parse(text: &str) -> Self {
        Self { root: serde_yaml::from_str(text).unwrap() }
    }

    /// What a `$ref` points to, or the value itself.
    pub fn resolve<'a>(&'a self, value: &'a Value) -> &'a Value {
        match value.get("$ref").and_then(Value::as_str) {
            Some(pointer) => self.root.pointer(&pointer[1..]).unwrap_or_else(|| panic!("{pointer} points nowhere")),
            None => value,
        }
    }

    /// Every operation: path template, method in capitals, path item, operation.
    pub fn operations(&self) -> Vec<(&str, String, &Value, &Value)> {
        let mut operations = Vec::new();
        for (path, item) in self.root["paths"].as_object().unwrap() {
            for (key, operation) in item.as_object().unwrap().iter().filter(|(key, _)| *key != "parameters") {
                operations.push((path.as_str(), key.to_uppercase(), item, operation));
            }
        }
        operations
    }

    /// The parameters of an operation, its path's included.
    pub fn parameters<'a>(&'a self, item: &'a Value, operation: &'a Value) -> Vec<&'a Value> {
        let listed = [item, operation].into_iter().filter_map(|value| value.get("parameters")?.as_array());
        listed.flatten().map(|parameter| self.resolve(parameter)).collect()
    }

    /// Fails unless `value` is as `schema` says; `place` names it.
    pub fn check(&self, schema: &Value, value: &Value, place: &str) {
        let schema = self.resolve(schema).as_object().unwrap();
        for (keyword, rule) in schema {
            let fine = match keyword.as_str() {
                "description" => true,
                "format" => {
                    let is_moment = |text: &str| text.parse::<jiff::Timestamp>().is_ok();
                    rule != "date-time" || value.as_str().is_none_or(is_moment)
                }
                "type" => has_type(rule, value),
                "enum" => rule.as_array().unwrap().contains(value),
                "minimum" => value.as_u64().is_none_or(|number| number >= rule.as_u64().unwrap()),
                "maximum" => value.as_u64().is_none_or(|number| number <= rule.as_u64().unwrap()),
                "pattern" => value.as_str().is_none_or(|text| matches(rule.as_str().unwrap(), text)),
                "required" => value.as_object().is_none_or(|members| {
                    rule.as_array().unwrap().iter().all(|name| members.contains_key(name.as_str().unwrap()))
                }),
                "items" => {
                    value.as_array().unwrap().iter().for_each(|item| self.check(rule, item, place));
                    true
                }
                "properties" => {
                    self.check_properties(rule.as_object().unwrap(), value, place);
                    true
                }
                "additionalProperties" => {
                    assert_eq!(rule, &Value::Bool(false));
                    let known = schema["properties"].as_object().unwrap();
                    value.as_object().is_none_or(|members| members.keys().all(|name| known.contains_key(name)))
                }
                "maxItems" => {
                    let most = usize::try_from(rule.as_u64().unwrap()).unwrap();
                    value.as_array().is_none_or(|items| items.len() <= most)
                }
                other => panic!("{place}: {other} is not understood here"),
            };
            assert!(fine, "{place}: {value} breaks {keyword}: {rule}");
        }
    }

    fn check_properties(&self, properties: &Map<String, Value>, value: &Value, place: &str) {
        for (name, schema) in properties {
            if let Some(member) = value.get(name) {
                self.check(schema, member, &format!("{place}.{name}"));
            }
        }
    }
}

fn has_type(rule: &Value, value: &Value) -> bool {
    let has = |name: &Value| match name.as_str().unwrap() {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "integer" => value.is_u64() || value.is_i64(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        other => panic!("{other} is not a type"),
    };
    rule.as_array().map_or_else(|| has(rule), |names| names.iter().any(has))
}

/// The patterns of the description, by hand.
fn matches(pattern: &str, text: &str) -> bool {
    match pattern {
        "^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?(/(0|[1-9][0-9]{0,2}))?$" => {
            text.parse::<baton::protocol::RoleName>().is_ok_and(|name| name.shard_number().is_none_or(|n| n < 1_000))
        }
        "^([0-9]+([.][0-9]+)?(ms|s|m|h))+$" => baton::base::duration::parse(text).is_ok(),
        "^[a-z0-9]([-a-z0-9]{0,50}[a-z0-9])?(/[0-9]+)?$" => baton::protocol::jobs::JobName::known(text).is_some(),
        "^(manual-|backfill-)?[0-9]+$" => {
            let digits = ["manual-", "backfill-"].iter().find_map(|kind| text.strip_prefix(kind)).unwrap_or(text);
            !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit())
        }
        "^[!-~]{1,128}$" => (1..=128).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_graphic()),
        "^[0-9]+-[0-9]+$" => text.parse::<baton::protocol::AppHoldId>().is_ok(),
        "^[0-9a-f]{32}$" => text.parse::<baton::protocol::LockId>().is_ok(),
        "^urn:baton:problem:[a-z-]+$" => text
            .strip_prefix("urn:baton:problem:")
            .is_some_and(|end| !end.is_empty() && end.bytes().all(|b| b.is_ascii_lowercase() || b == b'-')),
        "^(ERR|DAPR)_[A-Z_]+$" => ["ERR_", "DAPR_"]
            .iter()
            .find_map(|dapr| text.strip_prefix(dapr))
            .is_some_and(|end| !end.is_empty() && end.bytes().all(|b| b.is_ascii_uppercase() || b == b'_')),
        other => panic!("{other} is not understood here"),
    }
}
