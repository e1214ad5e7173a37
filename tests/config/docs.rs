//! The documentation names every key, and its examples work.

use baton::config::{AbsentFiles, check_text, schema};

use crate::support::environment;

fn page() -> String {
    std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/configuration.md")).unwrap()
}

/// The paths of all keys of the schema, such as `roles[].appCheck.period`.
fn paths(root: &serde_json::Value, object: &serde_json::Value, prefix: &str, found: &mut Vec<String>) {
    for (key, property) in object["properties"].as_object().into_iter().flatten() {
        let follow = |schema: &serde_json::Value| {
            let pointer = schema["$ref"].as_str().and_then(|reference| reference.strip_prefix('#')).map(str::to_owned);
            pointer.and_then(|pointer| root.pointer(&pointer).cloned())
        };
        let path = format!("{prefix}{key}");
        if let Some(inner) = follow(property) {
            paths(root, &inner, &format!("{path}."), found);
        } else if let Some(inner) = follow(&property["items"]) {
            paths(root, &inner, &format!("{path}[]."), found);
        }
        found.push(path);
    }
}

#[test]
fn every_key_is_documented_under_its_path() {
    let (page, schema) = (page(), serde_json::from_str(&schema()).unwrap());
    let mut found = Vec::new();
    paths(&schema, &schema, "", &mut found);
    assert!(found.len() > 45 && found.contains(&"roles[].appCheck.httpGet.port".to_owned()), "{found:?}");
    let missing: Vec<_> = found.into_iter().filter(|path| !page.contains(&format!("`{path}`"))).collect();
    assert!(missing.is_empty(), "docs/configuration.md does not mention {missing:?}");
}

#[test]
fn every_example_passes_the_check_unless_it_says_that_it_is_a_fragment() {
    let page = page();
    let (mut whole, mut fragments) = (0, 0);
    for block in page.split("\n```yaml").skip(1) {
        let (info, rest) = block.split_once('\n').unwrap();
        let (text, _) = rest.split_once("\n```").expect("a code block is not closed");
        if info.trim() == "fragment" {
            fragments += 1;
            continue;
        }
        whole += 1;
        let elsewhere = environment(&[("POD_NAME", "web-0"), ("REDIS_PASSWORD", "p")]).absent_files(AbsentFiles::Warn);
        if let Err(error) = check_text(text, "docs/configuration.md", &elsewhere) {
            panic!("{error}\nin the example:\n{text}");
        }
    }
    assert!(whole >= 2, "{whole} whole examples and {fragments} fragments");
}
