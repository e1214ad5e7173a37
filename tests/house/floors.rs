//! Floors: an import points down only.

use std::collections::{BTreeMap, BTreeSet};

use crate::assert_none;
use crate::source::{Facts, facts, module_of};
use crate::tree::{TextFile, root, rust_files};

/// The floors, top-level module by module. A module that is not here has no place yet: give it one.
const FLOORS: &[(&str, u8)] = &[
    ("protocol", 0),
    ("base", 1),
    ("schedule", 2),
    ("http", 2),
    ("kube", 2),
    ("config", 3),
    ("telemetry", 3),
    ("store", 4),
    ("role", 5),
    ("api", 6),
    ("admin", 6),
    ("pod", 6),
    ("jobs", 6),
    ("locks", 6),
    ("app", 7),
    ("cli", 8),
    ("main", 8),
];

/// The floor of the parts that never know of each other; only `app` knows them all.
const PARTS: u8 = 6;
const APP: u8 = 7;

/// What may be named only in some places: the path's beginning, the places, and why.
const CONFINED: &[(&str, &[&str], &str)] = &[
    ("fred", &["src/store/redis/"], "so that the Redis client can be replaced in one place"),
    ("kube", &["src/kube/"], "so that the Kubernetes client can be replaced in one place"),
    (
        "k8s_openapi",
        &["src/kube/", "src/pod/", "src/store/kubernetes"],
        "so that Baton without Kubernetes does not know of it",
    ),
    ("croner", &["src/schedule/"], "so that what a cron expression means is said in one place"),
    ("opentelemetry", &["src/telemetry/traces/"], "so that a build without traces does not know of it"),
    ("opentelemetry_http", &["src/telemetry/traces/"], "as opentelemetry"),
    ("opentelemetry_otlp", &["src/telemetry/traces/"], "as opentelemetry"),
    ("opentelemetry_sdk", &["src/telemetry/traces/"], "as opentelemetry"),
    ("rustix::time", &["src/base/clock"], "clocks are read in one place"),
    ("warp", &["src/http/"], "so that the web framework can be replaced"),
];

/// What the protocol must not touch even of std: time, threads and the world.
const IMPURE: &[&str] = &[
    "std::time::Instant",
    "std::time::SystemTime",
    "std::thread",
    "std::net",
    "std::fs",
    "std::io",
    "std::env",
    "std::process",
];

/// What a build for tests has in the place of std's locks, and where the protocol has any.
const LOCKS_OF_TESTS: (&str, &str) = ("shuttle", "src/protocol/election/leadership.rs");

pub fn floor(module: &str) -> Option<u8> {
    FLOORS.iter().find(|(name, _)| *name == module).map(|(_, floor)| *floor)
}

/// The top-level module of this crate that a path leads to.
fn leads_to(segments: &[String]) -> Option<&str> {
    let ours = segments.first().is_some_and(|s| s == "crate" || s == "baton");
    segments.get(1).filter(|_| ours).map(String::as_str)
}

fn starts_with(segments: &[String], beginning: &str) -> bool {
    let wanted: Vec<&str> = beginning.split("::").collect();
    segments.len() >= wanted.len() && wanted.iter().zip(segments).all(|(a, b)| a == b)
}

/// Complaints about the imports of one module.
fn check_imports(module: &str, path: &str, facts: &Facts) -> Vec<String> {
    let Some(own) = floor(module) else {
        return vec![format!("{path}: the module {module} has no floor; give it one in tests/house/floors.rs")];
    };
    let mut complaints = Vec::new();
    for named in facts.paths.iter().filter(|named| !named.in_test) {
        let Some(target) = leads_to(&named.segments).filter(|target| *target != module) else { continue };
        let at = format!("{path}:{}: {module} (floor {own}) names {}", named.line, named.segments.join("::"));
        match floor(target) {
            None => complaints.push(format!("{at}, which is on no floor")),
            Some(other) if other > own => complaints.push(format!("{at}, which is above it (floor {other})")),
            Some(PARTS) if own == PARTS => complaints.push(format!("{at}: parts do not know each other")),
            Some(PARTS) if own != APP => complaints.push(format!("{at}: only app.rs knows the parts")),
            Some(0) if own == 0 => complaints.push(format!("{at}: the protocol is one module")),
            Some(_) => {}
        }
    }
    complaints
}

/// Complaints about what a file names outside its place.
fn check_confined(path: &str, facts: &Facts) -> Vec<String> {
    let mut complaints = Vec::new();
    for named in &facts.paths {
        for (beginning, places, why) in CONFINED {
            if starts_with(&named.segments, beginning) && !places.iter().any(|place| path.starts_with(place)) {
                complaints.push(format!("{path}:{}: {beginning} belongs to {}: {why}", named.line, places.join(", ")));
            }
        }
    }
    complaints
}

/// Complaints about a file of the protocol: std only, and of that only what is pure.
fn check_pure(path: &str, facts: &Facts, dependencies: &BTreeSet<String>) -> Vec<String> {
    let mut complaints = Vec::new();
    for named in &facts.paths {
        let impure = IMPURE.iter().any(|beginning| starts_with(&named.segments, beginning));
        let is_excused = named.segments[0] == LOCKS_OF_TESTS.0 && path == LOCKS_OF_TESTS.1;
        let foreign = named.segments.len() > 1 && dependencies.contains(&named.segments[0]) && !is_excused;
        if impure || foreign {
            complaints.push(format!("{path}:{}: the protocol names {}", named.line, named.segments.join("::")));
        }
    }
    complaints
}

/// Modules that name each other, directly or in a round: each has a reason to be on a floor of its own.
fn check_rounds(imports: &BTreeMap<String, BTreeSet<String>>) -> Vec<String> {
    let reachable = |from: &String| -> BTreeSet<String> {
        let mut seen = BTreeSet::new();
        let mut todo: Vec<String> = imports.get(from).into_iter().flatten().cloned().collect();
        while let Some(next) = todo.pop() {
            if seen.insert(next.clone()) {
                todo.extend(imports.get(&next).into_iter().flatten().cloned());
            }
        }
        seen
    };
    imports.keys().filter(|m| reachable(m).contains(*m)).map(|m| format!("{m} reaches itself by imports")).collect()
}

/// The names of the crates that Cargo.toml lists, as Rust spells them.
fn dependencies() -> BTreeSet<String> {
    let manifest = std::fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let tables = manifest.split("\n[").filter(|table| table.starts_with("dependencies]"));
    let lines = tables.flat_map(str::lines).filter(|line| line.contains(" = "));
    lines.filter_map(|line| line.split(" = ").next()).map(|name| name.trim().replace('-', "_")).collect()
}

fn read(file: &TextFile) -> (String, Facts) {
    let module = module_of(&file.path);
    let top = module.first().copied().unwrap_or(if file.path.ends_with("main.rs") { "main" } else { "lib" });
    (top.to_owned(), facts(&file.text, &module))
}

#[test]
fn imports_point_down_only() {
    let mut complaints = Vec::new();
    let mut imports: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for file in rust_files("src/").iter().filter(|file| file.path != "src/lib.rs") {
        let (module, facts) = read(file);
        complaints.extend(check_imports(&module, &file.path, &facts));
        let named = facts.paths.iter().filter(|named| !named.in_test).filter_map(|named| leads_to(&named.segments));
        let others: Vec<String> = named.filter(|target| *target != module).map(str::to_owned).collect();
        imports.entry(module).or_default().extend(others);
    }
    complaints.extend(check_rounds(&imports));
    assert_none("an import points down only", complaints);
}

#[test]
fn what_may_be_replaced_one_day_is_named_in_one_place() {
    let complaints = rust_files("src/").iter().flat_map(|file| check_confined(&file.path, &read(file).1)).collect();
    assert_none("some crates have a place", complaints);
}

#[test]
fn one_file_of_the_configuration_knows_the_yaml_crate() {
    let names_it = |file: &&TextFile| read(file).1.paths.iter().any(|p| starts_with(&p.segments, "serde_yaml"));
    let files: Vec<String> = rust_files("src/").iter().filter(names_it).map(|file| file.path.clone()).collect();
    assert!(files.len() <= 1 && files.iter().all(|path| path.starts_with("src/config/")), "serde_yaml is in {files:?}");
}

#[test]
fn the_protocol_is_std_only_and_pure() {
    let dependencies = dependencies();
    assert!(dependencies.contains("tokio") && dependencies.contains("serde_json"), "{dependencies:?}");
    let files = rust_files("src/protocol/");
    assert!(!files.is_empty());
    let complaints = files.iter().flat_map(|file| check_pure(&file.path, &read(file).1, &dependencies)).collect();
    assert_none("the protocol has no clock, no I/O and no crates", complaints);
}

#[test]
fn every_source_file_is_part_of_the_program() {
    let files = rust_files("src/");
    let mut declared: BTreeSet<String> = ["src/lib.rs", "src/main.rs"].map(str::to_owned).into();
    for file in &files {
        for module in read(file).1.mod_files {
            let stem = format!("src/{}", module.join("/"));
            declared.extend([format!("{stem}.rs"), format!("{stem}/mod.rs")]);
        }
    }
    let dead = files.iter().filter(|file| !declared.contains(&file.path));
    assert_none("no `mod` leads here", dead.map(|file| file.path.clone()).collect());
}

#[test]
fn the_floor_checkers_complain_about_bad_examples() {
    let bad = |module: &str, text: &str| check_imports(module, "x.rs", &facts(text, &[module]));
    assert_eq!(bad("role", "use crate::store::LeaseStore; use crate::protocol::Token;"), Vec::<String>::new());
    assert!(bad("role", "use crate::api::serve;")[0].contains("above it"));
    assert!(bad("role", "fn f() { log!(crate::app::x()) }")[0].contains("above it"));
    assert!(bad("store", "use super::role::Roles;")[0].contains("above it"));
    assert!(bad("api", "use crate::locks::Lock;")[0].contains("do not know each other"));
    assert!(bad("cli", "use crate::api::serve;")[0].contains("only app.rs"));
    assert!(bad("app", "use crate::helpers::x;")[0].contains("on no floor"));
    assert!(bad("helpers", "")[0].contains("has no floor"));
    assert_eq!(bad("store", "#[cfg(test)] mod tests { use crate::role::Roles; }"), Vec::<String>::new());
    let with_a_feature = "#[cfg(all(test, feature = \"shuttle\"))] mod schedules { use crate::role::Roles; }";
    assert_eq!(bad("store", with_a_feature), Vec::<String>::new());
    assert!(bad("store", &with_a_feature.replace("all", "any"))[0].contains("above it"));

    let confined = |path: &str, text: &str| check_confined(path, &facts(text, &module_of(path)));
    assert_eq!(confined("src/store/redis/client.rs", "use fred::prelude::*;").len(), 0);
    assert_eq!(confined("src/store/memory/mod.rs", "use fred::prelude::*;").len(), 1);
    assert_eq!(confined("src/role/task.rs", "fn f() { rustix::time::clock_gettime(x); }").len(), 1);

    let dependencies = BTreeSet::from(["tokio".to_owned(), "shuttle".to_owned()]);
    let pure = |text: &str| check_pure("x.rs", &facts(text, &["protocol", "x"]), &dependencies).len();
    assert_eq!(pure("use std::time::Duration; use super::names::Token;"), 0);
    assert_eq!(pure("use std::time::{Duration, Instant}; fn f() { tokio::spawn(x) }"), 2);
    assert_eq!(pure("use shuttle::sync::Mutex;"), 1);

    let rounds = |pairs: &[(&str, &str)]| {
        let mut imports: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (from, to) in pairs {
            imports.entry((*from).to_owned()).or_default().insert((*to).to_owned());
        }
        check_rounds(&imports).len()
    };
    assert_eq!(rounds(&[("config", "clock"), ("telemetry", "config")]), 0);
    assert_eq!(rounds(&[("config", "clock"), ("clock", "telemetry"), ("telemetry", "config")]), 3);
}
