//! Do the tests notice faults? Small ones are made in the protocol (by cargo-mutants) and in the scripts of the Redis
//! store (by [`lua`]), one at a time, and the tests must fail. `make mutants` runs it: all that survive are in
//! `survivors.txt`, with the reason, and no others are.
//!
//! `BATON_MUTANTS_ONLY=election/candidate` tries those of files whose path has this in it.

mod lua;
mod protocol;
mod scripts;
mod survivors;
mod switches;
mod trial;

use std::env;
use std::path::Path;

use survivors::Key;
use trial::Verdict;

/// So many of a hundred must be noticed.
const SCORE_MIN: f64 = 95.0;

fn check(folder: &str, verdicts: impl FnOnce(&Path, &str) -> Vec<(Key, Verdict)>) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let only = env::var("BATON_MUTANTS_ONLY").unwrap_or_default();
    let verdicts = verdicts(root, &only);
    let score = survivors::print(&verdicts);
    let known = survivors::known();
    let known = known.keys().filter(|key| key.file.starts_with(folder) && key.file.contains(&only)).cloned().collect();
    let complaints = survivors::compare(&verdicts, &known);
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
    assert!(score >= SCORE_MIN, "{score:.1} % are noticed");
}

#[test]
fn the_protocol() {
    check("src/protocol/", protocol::verdicts);
}

#[test]
fn the_scripts() {
    check("src/store/redis/scripts/", scripts::verdicts);
}
