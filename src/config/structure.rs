//! The structure check: the file against its schema, key by key, so that every misspelt, missing and misplaced key is
//! found at once. Single values are left to the checks of their fields, which can say what would be right.

use serde_json::{Map, Value};

use super::check::Checker;
use super::node::Node;
use super::position::Path;
use super::raw::Scalar;

/// Walks a file along its schema.
pub(super) struct Structure<'s> {
    schema: &'s Value,
}

impl<'s> Structure<'s> {
    pub(super) fn new(schema: &'s Value) -> Self {
        Self { schema }
    }

    /// What is structurally sound of the file, as JSON of the raw types. Everything else is reported and left out.
    pub(super) fn sound(&self, checker: &mut Checker<'_>, node: &Node) -> Option<Value> {
        self.value(checker, self.schema, node, &Path::default())
    }

    fn value(&self, checker: &mut Checker<'_>, schema: &'s Value, node: &Node, path: &Path) -> Option<Value> {
        if checker.is_bad(path) {
            return None;
        }
        let schema = self.resolved(schema);
        if schema.get("properties").is_some() || schema["type"] == "object" || accepts_null(schema) {
            self.mapping(checker, schema, node, path)
        } else if schema["type"] == "array" {
            self.list(checker, schema, node, path)
        } else {
            single(checker, node, path)
        }
    }

    fn mapping(&self, checker: &mut Checker<'_>, schema: &'s Value, node: &Node, path: &Path) -> Option<Value> {
        let no_keys = Map::new();
        let keys = schema.get("properties").and_then(Value::as_object).unwrap_or(&no_keys);
        let entries: &[(String, Node)] = match node {
            Node::Map(entries) => entries,
            Node::Null if accepts_null(schema) => &[],
            _ => {
                let wanted = if keys.is_empty() { "{}".to_owned() } else { format!("a mapping with {}", listed(keys)) };
                checker.problem(path, format!("{}; write {wanted}", is_kind(node)));
                return None;
            }
        };
        let mut sound = Map::new();
        for (key, value) in entries {
            let inside = path.key(key);
            match keys.get(key) {
                Some(schema) => {
                    if let Some(value) = self.value(checker, schema, value, &inside) {
                        sound.entry(key).or_insert(value);
                    }
                }
                None => checker.problem(&inside, unknown_key(key, keys)),
            }
        }
        for key in schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str) {
            if !entries.iter().any(|(given, _)| given == key) {
                let what = keys.get(key).map(description).unwrap_or_default();
                checker.problem(&path.key(key), format!("is missing; add it ({what})"));
            }
        }
        Some(Value::Object(sound))
    }

    fn list(&self, checker: &mut Checker<'_>, schema: &'s Value, node: &Node, path: &Path) -> Option<Value> {
        let Node::List(items) = node else {
            checker.problem(path, format!("{}; write a list, each item after a `-`", is_kind(node)));
            return None;
        };
        let sound = items.iter().enumerate().map(|(index, item)| {
            // An unsound item keeps its place, so that the others keep their numbers.
            self.value(checker, &schema["items"], item, &path.index(index)).unwrap_or(Value::Null)
        });
        Some(Value::Array(sound.collect()))
    }

    /// Follows a reference to where it leads.
    fn resolved(&self, schema: &'s Value) -> &'s Value {
        let target = schema.get("$ref").and_then(Value::as_str).and_then(|reference| reference.strip_prefix('#'));
        target.and_then(|pointer| self.schema.pointer(pointer)).unwrap_or(schema)
    }
}

fn accepts_null(schema: &Value) -> bool {
    schema["type"].as_array().is_some_and(|kinds| kinds.iter().any(|kind| kind == "null"))
}

fn single(checker: &mut Checker<'_>, node: &Node, path: &Path) -> Option<Value> {
    let scalar = match node {
        Node::Bool(value) => Scalar::Bool(*value),
        Node::Number(text) => Scalar::Number(text.clone()),
        Node::Text(text) => Scalar::Text(text.clone()),
        Node::Null => {
            checker.problem(path, "has no value; give it one, or remove the key".to_owned());
            return None;
        }
        Node::List(_) | Node::Map(_) | Node::Tagged => {
            checker.problem(path, format!("{}; write a single value", is_kind(node)));
            return None;
        }
    };
    serde_json::to_value(scalar).ok()
}

fn is_kind(node: &Node) -> String {
    format!("is {}", node.kind())
}

fn listed(keys: &Map<String, Value>) -> String {
    let names: Vec<&str> = keys.keys().map(String::as_str).collect();
    match names.as_slice() {
        [only] => format!("the key `{only}`"),
        _ => {
            format!("some of the keys {}", names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", "))
        }
    }
}

fn description(schema: &Value) -> String {
    let text = schema.get("description").and_then(Value::as_str).unwrap_or("it is needed");
    text.split(". ").next().unwrap_or(text).trim_end_matches('.').replace('\n', " ")
}

fn unknown_key(key: &str, keys: &Map<String, Value>) -> String {
    if key == "<<" {
        return "merging mappings with `<<` is not supported; repeat the keys".to_owned();
    }
    match nearest(key, keys) {
        Some(near) => format!("unknown key; did you mean `{near}`?"),
        None if keys.is_empty() => "unknown key; there is nothing to set here".to_owned(),
        None => format!("unknown key; here belong {}", listed(keys)),
    }
}

/// The known key that was probably meant: the same letters in another spelling, or a near miss.
fn nearest<'k>(key: &str, keys: &'k Map<String, Value>) -> Option<&'k str> {
    // Longer keys are noise, and comparing them is slow.
    if key.len() > 64 {
        return None;
    }
    let plain = |text: &str| text.to_ascii_lowercase().replace(['_', '-', ' '], "");
    let distances = keys.keys().map(|known| (strsim::damerau_levenshtein(&plain(key), &plain(known)), known.as_str()));
    let (distance, known) = distances.min()?;
    (distance * 3 <= known.len().max(3)).then_some(known)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_key_is_guessed_and_a_strange_one_is_not() {
        let keys: Map<String, Value> = ["leaseDuration", "renewPeriod", "name", "appCheck"]
            .map(|key| (key.to_owned(), Value::Null))
            .into_iter()
            .collect();
        for (given, meant) in [
            ("lease_duration", Some("leaseDuration")),
            ("leaseduration", Some("leaseDuration")),
            ("leaseDuraton", Some("leaseDuration")),
            ("renew-period", Some("renewPeriod")),
            ("nmae", Some("name")),
            ("appcheck", Some("appCheck")),
            ("ttl", None),
            ("", None),
            ("priority", None),
        ] {
            assert_eq!(nearest(given, &keys), meant, "{given}");
        }
    }
}
