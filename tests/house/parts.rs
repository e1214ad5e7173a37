//! `make test`, `make e2e` and `make chaos` run all of their parts, whatever becomes of each, and the end tells.

use std::fs;
use std::process::Command;

use crate::tree::root;

/// What `.ci/parts` says of these parts, and its exit code.
fn parts(arguments: &[&str]) -> (String, Option<i32>) {
    let output = Command::new(root().join(".ci/parts")).args(arguments).output().unwrap();
    (String::from_utf8(output.stdout).unwrap(), output.status.code())
}

#[test]
fn a_part_that_fails_keeps_none_from_running_and_the_end_tells_of_all() {
    let counted = "echo 'test result: FAILED. 3 passed; 2 failed; 0 ignored'; exit 101";
    let (said, code) = parts(
        &[
            ("first", "echo ran first; false; echo ran on"),
            ("second", "set +e; exit 77"),
            ("third", counted),
            ("fourth", "echo ran fourth"),
        ]
        .map(|(name, command)| [name, command])
        .concat(),
    );
    assert_eq!(code, Some(1));
    assert!(said.contains("ran first\n") && said.contains("ran fourth\n") && !said.contains("ran on"), "{said}");
    let end: Vec<&str> = said.lines().rev().take(6).collect();
    let verdicts: Vec<(&str, &str)> = end[2..]
        .iter()
        .rev()
        .map(|line| {
            let mut words = line.split_whitespace();
            (words.next().unwrap(), words.nth(1).unwrap())
        })
        .collect();
    let expected = [("FAILED", "first"), ("skipped", "second"), ("FAILED", "third"), ("passed", "fourth")];
    assert_eq!(verdicts, expected, "{said}");
    assert_eq!(end[0], "4 passed, 3 failed", "tests, and one for each part without any");
}

#[test]
fn only_a_failed_part_ends_with_a_failure() {
    let (said, code) = parts(&["first", "true", "second", "exit 77"]);
    assert!(code == Some(0) && said.ends_with("\n1 passed, 0 failed\n"), "{code:?}: {said}");
    // Where cargo could not even build them, no test is counted.
    let (said, code) = parts(&["first", "exit 101"]);
    assert!(code == Some(1) && said.ends_with("\n0 passed, 1 failed\n"), "{code:?}: {said}");
    assert_eq!(parts(&["a name without a command"]).1, Some(64));
}

/// The recipe of a target of the Makefile, as one line.
fn recipe(makefile: &str, target: &str) -> String {
    let rule =
        makefile.split_once(&format!("\n{target}: ##")).unwrap_or_else(|| panic!("{target} has prerequisites")).1;
    let lines = rule.lines().skip(1).take_while(|line| line.starts_with('\t'));
    lines.collect::<Vec<_>>().join("\n").replace("\\\n", "")
}

#[test]
fn what_has_parts_does_nothing_besides() {
    let makefile = fs::read_to_string(root().join("Makefile")).unwrap();
    for target in ["lint", "test", "e2e", "chaos"] {
        let recipe = recipe(&makefile, target);
        assert!(recipe.starts_with("\t@.ci/parts ") && !recipe.contains('\n'), "{target}: {recipe}");
    }
}
