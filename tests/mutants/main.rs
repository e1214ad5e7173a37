//! Do the tests notice faults? Small ones are made in the protocol (by cargo-mutants) and in the scripts of the Redis
//! store (by [`lua`]), one at a time, and the tests must fail. `make mutants` runs it: all that survive are in
//! `survivors.txt`, with the reason, and no others are.
//!
//! `BATON_MUTANTS_ONLY=election/candidate,/renew` tries those of files whose path has one of these in it,
//! `BATON_MUTANTS_LISTED=1` of those of the scripts only the ones of the list: whether these survive still.

mod lua;
mod protocol;
mod scripts;
mod survivors;
mod switches;
mod trial;

use std::collections::BTreeSet;
use std::env;
use std::path::Path;

use survivors::Key;
use trial::Verdict;

/// So many of a hundred must be noticed.
const SCORE_MIN: f64 = 95.0;

fn check(folder: &str, verdicts: impl FnOnce(&Path, &str, &BTreeSet<Key>) -> Vec<(Key, Verdict)>) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let only = env::var("BATON_MUTANTS_ONLY").unwrap_or_default();
    let known = survivors::known();
    let known =
        known.keys().filter(|key| key.file.starts_with(folder) && is_among(&key.file, &only)).cloned().collect();
    let verdicts = verdicts(root, &only, &known);
    let score = survivors::print(&verdicts);
    let complaints = survivors::compare(&verdicts, &known);
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
    assert!(are_listed() || score >= SCORE_MIN, "{score:.1} % are noticed");
}

/// Whether this file is one of those that are wanted (`BATON_MUTANTS_ONLY`).
fn is_among(path: &str, only: &str) -> bool {
    only.split(',').any(|part| path.contains(part))
}

/// Whether none but those of the list are tried.
fn are_listed() -> bool {
    env::var_os("BATON_MUTANTS_LISTED").is_some()
}

#[test]
fn the_protocol() {
    check("src/protocol/", |root, only, _| protocol::verdicts(root, only));
}

#[test]
fn the_scripts() {
    check("src/store/redis/scripts/", |root, only, known| {
        scripts::verdicts(root, only, |key| !are_listed() || known.contains(key))
    });
}
