//! Mutants of the Redis store's scripts against the tests of the store on real servers: first against those that
//! compare random operations with the reference, then, where these notice nothing, against all others of one server.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use testkit::redis::RedisServer;
use testkit::resp::Reply;

use crate::lua::{self, Mutant};
use crate::survivors::Key;
use crate::trial::{Tests, Verdict, each};

const FOLDER: &str = "src/store/redis/scripts";
/// Most of the time something is waited for, and of more on two cores some wait too long.
const AT_ONCE: usize = 4;

const LEASES: &[&str] = &[
    "differential::random_operations_have_the_same_outcomes_on_redis_and_on_the_reference",
    "differential::random_operations_have_the_same_outcomes_where_nobody_asks_which_server_it_is",
    "differential::random_operations_have_the_same_outcomes_where_some_ask_which_server_it_is",
    "differential::random_operations_have_the_same_outcomes_where_scripts_are_told_which_server_it_is",
];
const MEMBERS: &[&str] = &["members::random_operations_have_the_same_outcomes_on_a_member_and_on_the_reference"];
const LOCKS: &[&str] = &[
    "locks::differential::random_operations_on_locks_have_the_same_outcomes_on_redis_and_on_the_reference",
    "locks::differential::random_operations_on_locks_have_the_same_outcomes_where_nobody_asks_which_server_it_is",
    "locks::differential::random_operations_on_locks_have_the_same_outcomes_where_scripts_are_told_which_server_it_is",
];
const LEDGERS: &[&str] =
    &["ledgers::differential::random_operations_on_ledgers_have_the_same_outcomes_on_redis_and_on_the_reference"];
const REGISTRY: &[&str] =
    &["registry::random_operations_on_jobs_made_at_run_time_have_the_same_outcomes_on_redis_with_the_least_rights"];
const PRESENCE: &[&str] = &["presence::random_signs_of_life_get_the_same_answers_from_redis_and_from_the_reference"];

/// What files of scripts begin with, and the differential tests and the others that they are held against.
const HELD_AGAINST: &[(&str, &[&[&str]], &[&str])] = &[
    ("common", &[LEASES, MEMBERS], OF_LEASES),
    ("generation", &[LEASES, MEMBERS, LOCKS], OF_ALL),
    ("job_", &[LEDGERS], &["ledgers::"]),
    ("lock_", &[LOCKS], &["locks::"]),
    ("member", &[MEMBERS], OF_LEASES),
    ("presence", &[PRESENCE], &["presence::"]),
    ("registry_", &[REGISTRY], &["registry::", "registry_kept::"]),
    ("", &[LEASES], OF_LEASES),
];
const OF_LEASES: &[&str] = &[
    "conformance::every_rule_holds_on_one_redis",
    "conformance::every_rule_holds_where_scripts",
    "garbage::",
    "members::",
    "members_kept::",
    "quorum::",
    "refusals::",
    "renewals::",
    "replication::",
    "rules::",
    "short_ways::",
];
const OF_ALL: &[&str] =
    &["conformance::", "garbage::", "locks::", "members::", "members_kept::", "refusals::", "replication::"];
/// They have servers of which a proxy would have to know more, or need none of it; or count and name what goes by it.
const LEFT_OUT: &[&str] = &[
    "cluster",
    "sentinel",
    "lease_objects",
    "in_memory",
    "random_operations",
    "ten_thousand",
    "a_flushed_script_cache",
    "a_renewal_asks_who_the_server_is_once",
    "a_script_is_sent_once",
    "no_log_at_any_level",
    "one_member_that_refuses",
];

/// Every mutant of the scripts that is wanted and what becomes of it. `only`: [`crate::is_among`].
pub fn verdicts(root: &Path, only: &str, is_wanted: impl Fn(&Key) -> bool) -> Vec<(Key, Verdict)> {
    let store = binary();
    let mut all = Vec::new();
    let mut files: Vec<PathBuf> =
        fs::read_dir(root.join(FOLDER)).expect("scripts").map(|entry| entry.expect("one").path()).collect();
    files.sort();
    for path in files.iter().filter(|path| path.extension().is_some_and(|extension| extension == "lua")) {
        let name = path.file_name().expect("a file").to_string_lossy().into_owned();
        let text = code(&fs::read_to_string(path).expect("a script"));
        if crate::is_among(&format!("{FOLDER}/{name}"), only) {
            let wanted = lua::mutants(&text).into_iter().filter(|mutant| is_wanted(&key(&name, mutant)));
            all.extend(wanted.map(|mutant| (name.clone(), text.clone(), mutant)));
        }
    }
    let compiler = RedisServer::start();
    let compiles: Vec<bool> = all.iter().map(|(_, _, mutant)| compiles(&compiler, &mutant.text)).collect();
    drop(compiler);
    let firsts: Vec<usize> = (0..all.len()).filter(|at| *at == 0 || all[at - 1].0 != all[*at].0).collect();
    let unchanged = each(&firsts, AT_ONCE, |at| {
        let (name, text, _) = &all[at];
        let none = Mutant { line: String::new(), nth: 1, what: String::new(), text: text.clone() };
        (name, judge(&store, name, text, &none))
    });
    let noticed: Vec<_> = unchanged.iter().filter(|(_, (_, verdict))| *verdict != Verdict::Survived).collect();
    assert!(noticed.is_empty(), "the tests fail on these as they are: {noticed:?}");
    let numbers: Vec<usize> = (0..all.len()).filter(|at| compiles[*at]).collect();
    let judged = each(&numbers, AT_ONCE, |at| {
        let (name, text, mutant) = &all[at];
        let verdict = judge(&store, name, text, mutant);
        println!("{name}: {}: {}: {verdict:?}", mutant.line, mutant.what);
        verdict
    });
    let key = |at: usize| key(&all[at].0, &all[at].2);
    let unviable = (0..all.len()).filter(|at| !compiles[*at]).map(|at| (key(at), Verdict::Unviable));
    judged.into_iter().map(|(at, verdict)| (key(at), verdict)).chain(unviable).collect()
}

fn key(name: &str, mutant: &Mutant) -> Key {
    Key { file: format!("{FOLDER}/{name}"), line: mutant.line.clone(), what: mutant.what.clone(), nth: mutant.nth }
}

/// The code as Redis is given it (`without_comments` in `scripts/mod.rs`).
fn code(text: &str) -> String {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("--"));
    lines.map(|line| format!("{line}\n")).collect()
}

fn compiles(redis: &RedisServer, text: &str) -> bool {
    !matches!(redis.command(&["SCRIPT", "LOAD", text]), Reply::Error(_))
}

/// The tests of the store, built, and optimised: each of thousands of mutants is compared over many steps.
fn binary() -> PathBuf {
    let arguments = ["test", "--profile", "chaos", "--no-run", "--test", "store", "--message-format=json"];
    let mut cargo = Command::new(env!("CARGO"));
    // What cargo tells this test of its own package would have others built anew.
    let ours = ["CARGO_PKG_", "CARGO_MANIFEST_"];
    for (name, _) in env::vars().filter(|(name, _)| ours.iter().any(|begin| name.starts_with(begin))) {
        cargo.env_remove(name);
    }
    let output = cargo.args(arguments).stderr(Stdio::inherit()).output().expect("cargo runs");
    let lines = String::from_utf8(output.stdout).expect("JSON");
    let path = |line: &str| {
        let told: serde_json::Value = serde_json::from_str(line).expect("JSON");
        // The program is built besides.
        let path = told["executable"].as_str().filter(|_| told["target"]["name"] == "store");
        path.map(PathBuf::from)
    };
    let built = lines.lines().find_map(path);
    built.expect("the tests of the store are built")
}

fn judge(store: &Path, name: &str, text: &str, mutant: &Mutant) -> Verdict {
    let (_, differential, others) =
        HELD_AGAINST.iter().find(|(begin, ..)| name.starts_with(begin)).expect("the last fits all");
    let tests = |name| Tests { binary: store, name, processor_seconds: 120, seconds: 600 };
    let environment = [("BATON_MUTANT_OF", text), ("BATON_MUTANT", mutant.text.as_str())];
    let random_operations = tests("random operations");
    for test in differential.iter().copied().flatten() {
        match random_operations.judge(&["--exact", test], &environment) {
            Verdict::Survived => {}
            noticed => return noticed,
        }
    }
    let skipped = LEFT_OUT.iter().flat_map(|name| ["--skip", name]);
    let arguments: Vec<&str> = others.iter().copied().chain(skipped).collect();
    tests("other tests of the store").judge(&arguments, &environment)
}
