//! Tidiness: sizes, white space, unfinished marks, and paths of somebody's machine.

use crate::assert_none;
use crate::source::{Facts, facts, module_of};
use crate::tree::{TextFile, files, rust_files};

const FILE_LINES_MAX: usize = 600;
const FUNCTION_LINES_MAX: usize = 70;
const COLUMNS_MAX: usize = 120;

/// Code, where lines are wrapped by hand or by rustfmt. In Markdown a table's row is one line.
const CODE: &[&str] = &["rs", "lua", "py", "go", "java", "mjs", "sh"];

/// Where people's machines keep things; written in two parts, so that this file does not contain them.
const MACHINE_PATHS: &[(&str, &str)] =
    &[("/wo", "rk/"), ("/tmp/", "wt"), ("/ro", "ot/"), ("/ho", "me/"), ("/Us", "ers/")];

fn check_lines(file: &TextFile) -> Vec<String> {
    let mut complaints = Vec::new();
    for (number, line) in (1..).zip(file.text.lines()) {
        let at = format!("{}:{number}", file.path);
        let columns = line.chars().count();
        if file.has_extension(CODE) && columns > COLUMNS_MAX {
            complaints.push(format!("{at}: {columns} columns"));
        }
        if line.ends_with([' ', '\t']) {
            complaints.push(format!("{at}: white space at the end"));
        }
        let unfinished = [concat!("FIX", "ME"), concat!("XX", "X"), concat!("TO", "DO")];
        if unfinished.iter().any(|mark| line.contains(mark)) {
            complaints.push(format!("{at}: an unfinished mark"));
        }
        if MACHINE_PATHS.iter().any(|(a, b)| line.contains(&format!("{a}{b}"))) {
            complaints.push(format!("{at}: a path of somebody's machine"));
        }
    }
    if !file.text.is_empty() && !file.text.ends_with('\n') {
        complaints.push(format!("{}: no line break at the end", file.path));
    }
    complaints
}

fn check_sizes(file: &TextFile, facts: &Facts) -> Vec<String> {
    let lines = file.text.lines().count();
    let too_long = (lines > FILE_LINES_MAX).then(|| format!("{}: {lines} lines", file.path));
    let functions = facts.functions.iter().filter(|(.., lines)| *lines > FUNCTION_LINES_MAX);
    let functions = functions.map(|(name, line, lines)| format!("{}:{line}: {name} has {lines} lines", file.path));
    too_long.into_iter().chain(functions).collect()
}

fn check_unfinished(file: &TextFile, facts: &Facts) -> Vec<String> {
    let stubs =
        facts.macros.iter().filter(|m| matches!(m.segments.last().map(String::as_str), Some("todo" | "unimplemented")));
    let stubs = stubs.map(|m| format!("{}:{}: {}!", file.path, m.line, m.segments.join("::")));
    let ignored = facts.bare_ignores.iter().map(|line| format!("{}:{line}: #[ignore] without a reason", file.path));
    stubs.chain(ignored).collect()
}

/// Every Rust file of the crate: src, tests, benches and examples.
fn rust() -> Vec<(TextFile, Facts)> {
    let all = rust_files("").into_iter();
    all.map(|file| (facts(&file.text, &module_of(&file.path)), file)).map(|(facts, file)| (file, facts)).collect()
}

#[test]
fn lines_are_short_clean_and_finished() {
    let written_by_others = |path: &str| matches!(path, "Cargo.lock" | "LICENSE" | "tests/e2e/dapr/package-lock.json");
    let checked = files().into_iter().filter(|file| !written_by_others(&file.path));
    assert_none("lines", checked.flat_map(|file| check_lines(&file)).collect());
}

#[test]
fn a_file_tells_one_thing_and_a_function_fits_a_screen() {
    let sizes = rust().into_iter().flat_map(|(file, mut facts)| {
        if !file.path.starts_with("src/") {
            facts.functions.clear(); // a scenario may be told in one piece
        }
        check_sizes(&file, &facts)
    });
    assert_none(&format!("at most {FILE_LINES_MAX} lines a file, {FUNCTION_LINES_MAX} a function"), sizes.collect());
}

#[test]
fn nothing_is_left_unfinished_or_skipped_without_a_reason() {
    assert_none("unfinished", rust().iter().flat_map(|(file, facts)| check_unfinished(file, facts)).collect());
}

/// The lints of lib.rs that keep clocks, blind panics and stray output out of what ships: a merge may lose them unseen.
#[test]
fn the_library_switches_its_own_lints_on() {
    let lib = files().into_iter().find(|file| file.path == "src/lib.rs").unwrap().text;
    let wanted = ["disallowed_methods", "unwrap_used", "panic", "print_stdout", "print_stderr", "await_holding_lock"];
    let attribute = lib.split("#![warn(").nth(1).and_then(|rest| rest.split(")]").next()).unwrap_or_default();
    let lost = wanted.iter().filter(|lint| !attribute.contains(&format!("clippy::{lint}")));
    assert!(lib.contains("\n#![cfg_attr(not(test), warn(clippy::wildcard_enum_match_arm))]\n"));
    assert_none("src/lib.rs no longer warns of", lost.map(|lint| (*lint).to_owned()).collect());
}

#[test]
fn the_tidiness_checkers_complain_about_bad_examples() {
    let file = |path: &str, text: &str| TextFile { path: path.to_owned(), text: text.to_owned() };
    let lines = |path: &str, text: &str| check_lines(&file(path, text)).len();
    assert_eq!(lines("a.rs", "fn f() {}\n"), 0);
    assert_eq!(lines("a.rs", &format!("{}\n", "é".repeat(COLUMNS_MAX))), 0, "columns are characters, not bytes");
    assert_eq!(lines("a.rs", &format!("{}\n", "x".repeat(COLUMNS_MAX + 1))), 1);
    assert_eq!(lines("a.md", &format!("{}\n", "x".repeat(COLUMNS_MAX + 1))), 0, "a table's row is one line");
    assert_eq!(lines("a.md", "x \n"), 1);
    assert_eq!(lines("a.md", "x"), 1, "no line break at the end");
    assert_eq!(lines("a.py", concat!("# FIX", "ME later\n")), 1);
    assert_eq!(lines("a.md", concat!("see /ro", "ot/notes\n")), 1);

    let sizes = |text: &str| check_sizes(&file("a.rs", text), &facts(text, &["a"])).len();
    let body = |lines: usize| "    g();\n".repeat(lines);
    assert_eq!(sizes(&format!("fn f() {{\n{}}}\n", body(FUNCTION_LINES_MAX - 2))), 0);
    assert_eq!(sizes(&format!("fn f() {{\n{}}}\n", body(FUNCTION_LINES_MAX - 1))), 1);
    assert_eq!(sizes(&format!("impl X {{ fn f() {{\n{}}} }}\n", body(FUNCTION_LINES_MAX - 1))), 1);
    assert_eq!(sizes(&format!("#[test] fn f() {{\n{}}}\n", body(FUNCTION_LINES_MAX - 1))), 0, "a test may be long");
    assert_eq!(sizes(&"\n".repeat(FILE_LINES_MAX + 1)), 1);
    let table =
        |before: &str, arm: &str| format!("fn f() {{ {before} match x {{\n{}}} }}\n", arm.repeat(FUNCTION_LINES_MAX));
    assert_eq!(sizes(&table("let x = y;", "    A => b,\n")), 0, "a table is read row by row");
    assert_eq!(sizes(&table("g();", "    A => b,\n")), 1, "and does nothing besides");
    let rows = format!("    A => {{\n{}    }}\n", body(10)).repeat(FUNCTION_LINES_MAX / 10);
    assert_eq!(sizes(&format!("fn f() {{ match x {{\n{rows}}} }}\n")), 1, "rows are short");

    let unfinished = |text: &str| check_unfinished(&file("a.rs", text), &facts(text, &["a"])).len();
    assert_eq!(unfinished("#[test] #[ignore = \"needs an hour\"] fn f() { say(\"todo!\") }"), 0);
    assert_eq!(unfinished("#[test] #[ignore] fn f() { todo!() }"), 2);
    assert_eq!(unfinished("fn f() { std::unimplemented!() }"), 1);
}
