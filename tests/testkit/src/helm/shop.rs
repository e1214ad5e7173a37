//! A chart of somebody who has never heard of Baton (what `helm create` makes), with the lines of `docs/install.md`
//! added, and nothing else.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::{Charts, done};
use crate::root;

/// The code blocks of the page's section "Add it to your chart", in their order.
fn blocks() -> Vec<String> {
    let page = fs::read_to_string(root().join("docs/install.md")).expect("the page is there");
    let section = page.split("\n## Add it to your chart\n").nth(1).expect("the page has the section");
    let section = section.split("\n### ").next().expect("a section");
    let blocks = section.split("\n```").skip(1).step_by(2);
    blocks.map(|block| block.split_once('\n').expect("a language, and a block").1.to_owned() + "\n").collect()
}

/// The three lines of the pod, each with the key that it stands below.
fn lines() -> Vec<(String, String)> {
    let pod = &blocks()[2];
    let lines: Vec<&str> = pod.lines().collect();
    let pairs = lines.windows(2).filter(|pair| pair[1].contains("include"));
    let found: Vec<(String, String)> = pairs.map(|pair| (pair[0].to_owned(), pair[1].to_owned())).collect();
    assert_eq!(found.len(), 3, "three lines: {found:?}");
    found
}

fn edit(path: &Path, change: impl FnOnce(String) -> String) {
    let text = fs::read_to_string(path).expect("a file of the chart");
    fs::write(path, change(text)).expect("a file of the chart");
}

/// One of the lines goes below a key that `helm create` has inside `with`, which then comes out of it.
fn below_a_key_inside_with(text: &str, key: &str, line: &str) -> String {
    let name = key.trim().trim_end_matches(':');
    let values = if name == "annotations" { "podAnnotations" } else { name };
    let with = format!("      {{{{- with .Values.{values} }}}}\n");
    let old = format!("{with}{key}\n        {{{{- toYaml . | nindent 8 }}}}\n      {{{{- end }}}}\n");
    assert_eq!(text.matches(&old).count(), 1, "`helm create` writes another template: {text}");
    let inside = old
        .replace(&format!("{key}\n"), "")
        .replace("      {{- ", "        {{- ")
        .replace("          {{- t", "        {{- t");
    text.replace(&old, &format!("{key}\n{line}\n{inside}"))
}

/// Makes the chart beside the copies of ours, as a user would by the page, and says where it is.
pub fn make(charts: &Charts) -> PathBuf {
    done(&[json!({"do": "create", "name": "shop", "folder": charts.folder()})]);
    let shop = charts.path("shop");
    let blocks = blocks();
    edit(&shop.join("Chart.yaml"), |text| format!("{text}\n{}", blocks[0]));
    edit(&shop.join("values.yaml"), |text| format!("{text}\n{}", blocks[1]));
    let [annotations, init, volumes] = <[(String, String); 3]>::try_from(lines()).expect("three");
    edit(&shop.join("templates/deployment.yaml"), |text| {
        let text = below_a_key_inside_with(&text, &annotations.0, &annotations.1);
        let text = below_a_key_inside_with(&text, &volumes.0, &volumes.1);
        let containers = "      containers:\n";
        assert_eq!(text.matches(containers).count(), 1);
        text.replace(containers, &format!("{}\n{}\n{containers}", init.0, init.1))
    });
    fs::write(shop.join("templates/baton.yaml"), &blocks[3]).expect("a file of the chart");
    assert!(blocks[4].starts_with("helm dependency update .\n"), "{}", blocks[4]);
    done(&[json!({"do": "depend", "chart": shop})]);
    shop
}

/// What the user had set before already, because the namespace asks for it; our lines change nothing of it.
pub fn own_values() -> Value {
    let context = json!({
        "runAsNonRoot": true, "runAsUser": 101, "allowPrivilegeEscalation": false,
        "capabilities": {"drop": ["ALL"]}, "seccompProfile": {"type": "RuntimeDefault"},
    });
    json!({"securityContext": context})
}
