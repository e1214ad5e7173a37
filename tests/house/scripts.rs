//! The scripts of the Redis store and their reference: each names the other, and what is a function in both has one
//! name, so that a rule is read side by side.

use std::collections::BTreeSet;

use crate::assert_none;
use crate::source::{facts, module_of};
use crate::tree::{TextFile, files};

const SCRIPTS: &str = "src/store/redis/scripts/";
const REFERENCE: &str = "src/protocol/reference/";

/// Functions that only a script has, for the reference has values where a script has keys, texts and arguments.
const ONLY_IN_SCRIPTS: &[(&str, &[&str])] = &[
    ("arguments are texts", &["arg", "is_id", "is_number", "is_session", "not_sorted", "text"]),
    ("what is in a key is not ours, or cannot be read", &["garbage", "of_another_store", "unreadable"]),
    ("keys are read", &["by_token", "load", "load_all", "numbers", "parse_cell", "parse_hold", "read_lease"]),
    ("keys are read", &["last_order", "load_desk", "read_floor", "was_released"]),
    (
        "keys are read",
        &["field_of", "generation_of_server", "uptime_of_server", "new_record", "read_record", "record_alone"],
    ),
    ("keys are written", &["drop", "hold_text", "save", "touch", "write_lease", "write_record"]),
    ("keys are written", &["save_cut", "write_floor"]),
    ("keys are written", &["ends_later", "give_back", "give_sign_of_life", "order_of", "ticket_after", "write_store"]),
    ("replies are lists of texts", &["answer", "held", "hold_of", "line_up", "shut_to", "tell", "with_ledger"]),
    ("the reference returns what a script publishes", &["publish"]),
    ("the reference has it in a type: `Guard`, `LockCell`", &["end_guard", "guard_span_ms", "is_guarded"]),
];

/// The words of a text that end with `.lua` or `.rs`.
fn named<'a>(text: &'a str, ending: &'a str) -> impl Iterator<Item = &'a str> {
    let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '/')));
    words.map(|word| word.trim_end_matches('.')).filter(move |word| word.ends_with(ending))
}

fn lua_functions(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(|line| line.strip_prefix("local function ")?.split('(').next())
}

/// Complaints about scripts and the reference, in these files.
fn check(files: &[TextFile], only_in_scripts: &[(&str, &[&str])]) -> Vec<String> {
    let below = |folder: &'static str| files.iter().filter(move |file| file.path.starts_with(folder));
    let scripts = || below(SCRIPTS).filter(|file| file.has_extension(&["lua"]));
    let reference = || below(REFERENCE).filter(|file| !file.path.contains("tests"));
    let name = |file: &TextFile| file.path.rsplit('/').next().unwrap_or_default().to_owned();

    let ours: BTreeSet<String> = scripts().map(name).collect();
    let told: BTreeSet<&str> = reference().flat_map(|file| named(&file.text, ".lua")).collect();
    let untold = ours.iter().filter(|script| !told.contains(script.as_str()));
    let mut complaints: Vec<String> = untold.map(|script| format!("{script} is not named by the reference")).collect();
    let gone = told.iter().filter(|script| !ours.contains(**script));
    complaints.extend(gone.map(|script| format!("the reference names {script}, which is not there")));

    let functions: BTreeSet<String> = reference()
        .flat_map(|file| facts(&file.text, &module_of(&file.path)).functions)
        .map(|(function, ..)| function)
        .collect();
    let excused: BTreeSet<&str> = only_in_scripts.iter().flat_map(|(_, names)| names.iter().copied()).collect();
    for script in scripts() {
        let exists = |path: &str| files.iter().any(|file| file.path == format!("src/{path}"));
        let lost = named(&script.text, ".rs").filter(|path| path.contains('/') && !exists(path));
        complaints.extend(lost.map(|path| format!("{} names {path}, which is not there", script.path)));
        let foreign = lua_functions(&script.text).filter(|name| !functions.contains(*name) && !excused.contains(name));
        complaints.extend(foreign.map(|name| format!("{}: the reference has no {name}", script.path)));
    }
    let lua: BTreeSet<&str> = scripts().flat_map(|file| lua_functions(&file.text)).collect();
    let idle = excused.iter().filter(|name| !lua.contains(*name) || functions.contains(**name));
    complaints.extend(idle.map(|name| format!("{name} needs no excuse")));
    complaints
}

#[test]
fn scripts_and_reference_name_each_other_and_share_their_names() {
    assert_none("scripts and their reference", check(&files(), ONLY_IN_SCRIPTS));
}

#[test]
fn the_checker_of_scripts_complains_about_bad_examples() {
    let file = |path: &str, text: &str| TextFile { path: path.to_owned(), text: text.to_owned() };
    let complaints = |reference: &str, script: &str| {
        let reference = file("src/protocol/reference/lease.rs", reference);
        check(&[reference, file("src/store/redis/scripts/renew.lua", script)], &[("why", &["text"])]).len()
    };
    let script = "-- protocol/reference/lease.rs has it.\nlocal function text(n)\nlocal function clamp(record)\n";
    assert_eq!(complaints("//! See `renew.lua`.\nfn clamp() {}", script), 0);
    assert_eq!(complaints("fn clamp() {}", script), 1, "the reference names no script");
    assert_eq!(complaints("//! `renew.lua`, `old.lua`\nfn clamp() {}", script), 1, "a script that is gone");
    assert_eq!(complaints("//! `renew.lua`\nfn cut() {}", script), 1, "another name");
    assert_eq!(complaints("//! `renew.lua`\nfn clamp() {} fn text() {}", script), 1, "an excuse that nobody needs");
    assert_eq!(complaints("//! `renew.lua`\nfn clamp() {}", &script.replace("lease.rs", "gone.rs")), 1);
}
