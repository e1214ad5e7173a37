//! What the two paths cost that run all day: an answer to `GET /leader`, and a renewal. Counted, not timed: so that a
//! change which makes them dearer fails on any machine, however busy.
//!
//! valgrind runs this test's own binary, which does the work N times and then 2 N times; the difference is what one
//! costs, without what starting costs. Callgrind counts the instructions, of the whole process (the client's side,
//! hyper and tokio are in it) and of Baton's own path alone, DHAT the allocations. What is counted is the development
//! build that `cargo test` makes: the numbers say nothing of how fast a release is (`make bench` does), but they move
//! when work is added. `counts.txt` has the numbers as they shall be; what is out of the bounds below fails, the
//! better as well as the worse, so that the file stays true. After a change that is meant:
//!
//! ```text
//! BATON_COUNTS_WRITE=1 cargo test --test instructions
//! ```

mod work;

use std::path::Path;
use std::process::Command;

/// How often the work is done the first time; the second time twice as often.
const TIMES: u64 = 100;
/// How far the instructions of the own path may be off. They are the same every time on one machine; another processor
/// has other ways to copy memory.
const INSTRUCTIONS_OFF_MAX: f64 = 0.05;
/// How many times as far those of the whole process may be. They depend on how much the kernel hands over at once.
const PROCESS_FACTOR: f64 = 3.0;
/// The same with another rustc than the numbers were counted with.
const INSTRUCTIONS_OFF_MAX_OTHER_RUSTC: f64 = 0.15;
/// How far allocations may be off. Tables that grow now and then make them no whole number.
const ALLOCATIONS_OFF_MAX: f64 = 0.5;

/// The functions in which an answer is made, and everything that they call.
const ANSWER_PATH: &str = "*Gate*::answer";
/// The turns of a role's task.
const RENEWAL_PATH: &str = "baton::role::driver::role::*closure*";

/// What one operation costs, or a whole process.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Cost {
    /// Instructions of the whole process.
    process: f64,
    /// Instructions of Baton's own path alone.
    path: f64,
    /// Allocations of the whole process.
    allocations: f64,
}

#[test]
fn an_answer_to_who_leads_costs_what_it_did() {
    check("an_answer", "answers", ANSWER_PATH);
}

#[test]
fn a_renewal_costs_what_it_did() {
    check("a_renewal", "renewals", RENEWAL_PATH);
}

#[test]
#[ignore = "the work that is counted: see the top of this file"]
fn answers() {
    work::answers(times());
}

#[test]
#[ignore = "the work that is counted: see the top of this file"]
fn renewals() {
    work::renewals(times());
}

#[test]
fn what_is_out_of_bounds_is_told_in_both_directions() {
    let wanted = Cost { process: 10_000.0, path: 1_000.0, allocations: 4.0 };
    let off = |process, path, allocations, off_max| {
        complaint("x", Some(wanted), Cost { process, path, allocations }, off_max).is_some()
    };
    let (here, elsewhere) = (INSTRUCTIONS_OFF_MAX, INSTRUCTIONS_OFF_MAX_OTHER_RUSTC);
    for (process, path, allocations) in [(10_000.0, 1_000.0, 4.0), (11_400.0, 951.0, 4.4), (8_600.0, 1_049.0, 3.6)] {
        assert!(!off(process, path, allocations, here), "{process} {path} {allocations}");
    }
    for (process, path) in [(11_600.0, 1_000.0), (8_400.0, 1_000.0), (10_000.0, 1_051.0), (10_000.0, 949.0)] {
        assert!(off(process, path, 4.0, here) && !off(process, path, 4.0, elsewhere), "{process} {path}");
    }
    assert!(off(10_000.0, 1_000.0, 5.0, elsewhere) && off(10_000.0, 1_000.0, 3.0, elsewhere), "an allocation");
    assert!(off(15_000.0, 1_000.0, 4.0, elsewhere) && off(10_000.0, 1_200.0, 4.0, elsewhere));
    assert!(complaint("x", None, wanted, 1.0).is_some(), "nothing is known of it");
}

fn times() -> u64 {
    // Without valgrind it is only seen to work.
    std::env::var("BATON_COUNTS_TIMES").map_or(1, |times| times.parse().expect("a number"))
}

/// Fails when the work costs something else than the file says, or says so in the file.
fn check(name: &str, work: &str, path: &str) {
    let (once, twice) = (run(work, path, TIMES), run(work, path, 2 * TIMES));
    let each = |what: fn(&Cost) -> f64| (what(&twice) - what(&once)) / TIMES as f64;
    let cost = Cost { process: each(|c| c.process), path: each(|c| c.path), allocations: each(|c| c.allocations) };
    println!("{}", line(name, cost));
    if std::env::var_os("BATON_COUNTS_WRITE").is_some() {
        write(name, cost);
        return;
    }
    let text = std::fs::read_to_string(file()).expect("counts.txt is there");
    let same_rustc = text.lines().any(|line| line == rustc());
    let off_max = if same_rustc { INSTRUCTIONS_OFF_MAX } else { INSTRUCTIONS_OFF_MAX_OTHER_RUSTC };
    if let Some(complaint) = complaint(name, read(&text, name), cost, off_max) {
        panic!("{complaint}");
    }
}

/// `rustc 1.95.0 (59807616e 2026-04-14)`
fn rustc() -> String {
    let output = Command::new(std::env::var("RUSTC").unwrap_or("rustc".to_owned())).arg("--version").output();
    String::from_utf8_lossy(&output.expect("what has built this is there").stdout).trim().to_owned()
}

fn complaint(name: &str, wanted: Option<Cost>, found: Cost, off_max: f64) -> Option<String> {
    let Some(wanted) = wanted else {
        return Some(format!("counts.txt has no line for {name}"));
    };
    let fits = |wanted: f64, found: f64, off_max: f64| (found / wanted - 1.0).abs() <= off_max;
    if fits(wanted.process, found.process, off_max * PROCESS_FACTOR)
        && fits(wanted.path, found.path, off_max)
        && (found.allocations - wanted.allocations).abs() <= ALLOCATIONS_OFF_MAX
    {
        return None;
    }
    Some(format!(
        "instructions of the process, of its own path, and allocations:\n  was {}\n  is  {}\nIf that is meant: \
         BATON_COUNTS_WRITE=1 cargo test --test instructions, and commit tests/instructions/counts.txt",
        line(name, wanted),
        line(name, found),
    ))
}

/// Does the work so many times, three times over.
fn run(work: &str, path: &str, times: u64) -> Cost {
    let callgrind = ["--tool=callgrind", "--callgrind-out-file=/dev/null"];
    let toggle = format!("--toggle-collect={path}");
    let dhat = ["--tool=dhat", "--num-callers=1", "--dhat-out-file=/dev/null"];
    Cost {
        process: said(&valgrind(&callgrind, work, times), "Collected : "),
        path: said(&valgrind(&[&callgrind[..], &[&toggle]].concat(), work, times), "Collected : "),
        allocations: said(&valgrind(&dhat, work, times), " bytes in "),
    }
}

/// What valgrind says of it.
fn valgrind(args: &[&str], work: &str, times: u64) -> String {
    let own = std::env::current_exe().expect("a running program has a path");
    let output = Command::new("valgrind")
        .args(args)
        .arg(own)
        .args(["--ignored", "--exact", work, "--test-threads=1"])
        .env("BATON_COUNTS_TIMES", times.to_string())
        .output()
        .expect("valgrind is missing: .ci/deps installs it");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stdout));
    said
}

/// The first number behind these words.
fn said(text: &str, before: &str) -> f64 {
    let (_, rest) = text.split_once(before).unwrap_or_else(|| panic!("valgrind says no {before:?}: {text}"));
    let digits: String = rest.chars().take_while(|c| c.is_ascii_digit() || *c == ',').filter(|c| *c != ',').collect();
    digits.parse().unwrap_or_else(|_| panic!("no number behind {before:?}: {text}"))
}

fn file() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/instructions/counts.txt")
}

/// A name, instructions of the process, of its own path, and allocations.
fn line(name: &str, cost: Cost) -> String {
    format!("{name} {:.0} {:.0} {:.2}", cost.process, cost.path, cost.allocations)
}

/// The line of a name.
fn read(text: &str, name: &str) -> Option<Cost> {
    let mut fields = text.lines().find_map(|line| line.strip_prefix(name))?.split_whitespace();
    let mut number = || fields.next()?.parse().ok();
    Some(Cost { process: number()?, path: number()?, allocations: number()? })
}

/// Writes that line anew, beside the others.
fn write(name: &str, cost: Cost) {
    // The tests run beside each other.
    static WRITING: std::sync::Mutex<()> = std::sync::Mutex::new(());
    let _alone = WRITING.lock().expect("nothing panics while it is held");
    let text = std::fs::read_to_string(file()).unwrap_or_default();
    let others = text.lines().filter(|line| !line.starts_with(name) && !line.starts_with("rustc "));
    let mut lines: Vec<String> = others.map(str::to_owned).collect();
    lines.push(rustc());
    lines.push(line(name, cost));
    lines.sort();
    std::fs::write(file(), lines.join("\n") + "\n").expect("counts.txt can be written");
}
