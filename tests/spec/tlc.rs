//! Runs TLC, the model checker of TLA+, on a module of `spec/` with some constants.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use testkit::root;

use crate::model::{Constants, Module};
use crate::traces::{self, Trace};

/// What TLC found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// Every state that can be reached within the bounds, and nothing is broken in any.
    Nothing { states: u64, depth: u64, took: Duration },
    /// The shortest way to a state in which this promise is broken: so many steps.
    Broken { promise: String, steps: usize },
}

/// The path of TLC, fetched if it is not there.
///
/// # Panics
/// When it cannot be had, saying why.
fn tlc() -> &'static PathBuf {
    static JAR: OnceLock<PathBuf> = OnceLock::new();
    JAR.get_or_init(|| {
        let output = Command::new(root().join(".ci/tlc")).stdin(Stdio::null()).output().expect("the script is there");
        let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
        assert!(output.status.success(), "there is no TLC: {}", said(&output.stderr));
        PathBuf::from(said(&output.stdout))
    })
}

/// The configuration in TLC's words. Each model value is itself.
fn configuration(module: &Module, promises: &[&str], constants: &Constants) -> String {
    let mut text = format!("SPECIFICATION Spec\nINVARIANTS {}\n", promises.join(" "));
    if module.is_symmetric {
        text += "SYMMETRY Symmetry\n";
    }
    text += "CONSTRAINT Within\nCONSTANTS\n";
    for value in module.values {
        let _ = writeln!(text, "  {value} = {value}");
    }
    for (name, value) in constants.iter() {
        let _ = writeln!(text, "  {name} = {value}");
    }
    text
}

/// Checks these promises to the end, or to the first that is broken; `workers`: on so many cores. What TLC says is kept
/// in `target/spec/NAME.txt`: a counter-example is a story to read.
///
/// # Errors
/// TLC's last words, when it ends otherwise: the module has an error, or there is not enough memory.
///
/// # Panics
/// When there is no TLC, or nowhere to write.
pub fn check(
    module: &Module,
    name: &str,
    promises: &[&str],
    constants: &Constants,
    workers: usize,
) -> Result<Found, String> {
    let directory = root().join("target/spec");
    fs::create_dir_all(&directory).expect("target can be written");
    let [config, log] = ["cfg", "txt"].map(|ending| directory.join(format!("{name}.{ending}")));
    fs::write(&config, configuration(module, promises, constants)).expect("target can be written");
    let begun = Instant::now();
    let said = run(&root().join("spec"), module.name, &config, workers);
    fs::write(&log, &said).expect("target can be written");
    found(&said, begun.elapsed()).ok_or_else(|| format!("see {}:\n{}", log.display(), last_lines(&said)))
}

/// It has seen every state.
const COMPLETE: &str = "Model checking completed. No error has been found.";

/// What TLC says to a module of this folder.
fn run(folder: &Path, module: &str, config: &Path, workers: usize) -> String {
    let states = tempfile::tempdir().expect("a folder");
    let output = Command::new("java")
        .args(["-XX:+UseParallelGC", "-Xmx6g", "-Xss64m"])
        .arg(format!("-DTLA-Library={}", root().join("spec").display()))
        // It unpacks its own modules there, and another one at its side may read them half written.
        .arg(format!("-Djava.io.tmpdir={}", states.path().display()))
        .arg("-cp")
        .arg(tlc())
        .args(["tlc2.TLC", "-deadlock", "-workers", &workers.to_string(), "-metadir"])
        .arg(states.path())
        .arg("-config")
        .arg(config)
        .arg(format!("{module}.tla"))
        // Given with a folder, it looks for the configuration there as well.
        .current_dir(folder)
        .stdin(Stdio::null())
        .output()
        .expect("java is there");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// How traces are followed: what Baton.tla abstracts from is as BatonTrace.tla says, and no bound holds.
const TRACED: &str = "SPECIFICATION TraceSpec
VIEW tracing
CONSTANTS
  Traces <- Told
  Generation <- TracedGeneration
  Fresh <- TracedFresh
  Watched <- TracedWatched
  NextToken <- TracedNextToken
  LeaseOf <- TracedLeaseOf
  Rounding <- TracedRounding
  IsOf <- TracedIsOf
  Off = {}
  Replicas = {}
  Servers = {0}
  Short = {}
  Faults = {}
  Lease = 0
  Acks = 0
  Used = FALSE
  Prompt = FALSE
  FaultsMax = 0
  Terms = 0
  Renewals = 0
  Requests = 0
  Steps = 0
";

/// How many lines of each trace can be followed, in their order. `name`: of the files in `target/spec/NAME` that it
/// leaves.
///
/// # Errors
/// TLC's last words, when it ends otherwise.
///
/// # Panics
/// When there is no TLC, or nowhere to write.
pub fn follow(traces: &[Trace], slack_us: u64, name: &str) -> Result<Vec<usize>, String> {
    let folder = root().join("target/spec").join(name);
    fs::create_dir_all(&folder).expect("target can be written");
    fs::write(folder.join("Traced.tla"), traces::module(traces)).expect("target can be written");
    let config = folder.join("Traced.cfg");
    fs::write(&config, format!("{TRACED}  Slack = {slack_us}\n")).expect("target can be written");
    let said = run(&folder, "Traced", &config, 1);
    fs::write(folder.join("said.txt"), &said).expect("target can be written");
    if !said.contains(COMPLETE) {
        return Err(last_lines(&said));
    }
    let mut lines = vec![0; traces.len()];
    for (trace, line) in said.lines().filter_map(followed) {
        lines[trace - 1] = line.max(lines[trace - 1]);
    }
    Ok(lines)
}

/// `<<"followed", trace, line>>`
fn followed(line: &str) -> Option<(usize, usize)> {
    let (trace, lines) = line.strip_prefix("<<\"followed\", ")?.strip_suffix(">>")?.split_once(", ")?;
    trace.parse().ok().zip(lines.parse().ok())
}

fn last_lines(said: &str) -> String {
    let lines: Vec<&str> = said.lines().collect();
    lines[lines.len().saturating_sub(20)..].join("\n")
}

/// In what TLC says. None if it did not come to an end.
fn found(said: &str, took: Duration) -> Option<Found> {
    let broken = said.lines().find_map(|line| line.strip_prefix("Error: Invariant ")?.strip_suffix(" is violated."));
    if let Some(promise) = broken {
        // The first state is where it begins.
        let steps = said.lines().filter(|line| line.starts_with("State ")).count().checked_sub(1)?;
        return Some(Found::Broken { promise: promise.to_owned(), steps });
    }
    let number = |before: &str, after: &str| {
        let line = said.lines().rev().find(|line| line.contains(after) && line.contains(before))?;
        let word = line.split(before).nth(1)?.trim_start().split(' ').next()?;
        word.trim_end_matches('.').parse().ok()
    };
    let is_complete = said.contains(COMPLETE);
    let states = number("states generated, ", " distinct states found, 0 states left on queue")?;
    let depth = number("The depth of the complete state graph search is ", "")?;
    is_complete.then_some(Found::Nothing { states, depth, took })
}

#[test]
fn what_tlc_says_is_understood() {
    let end = "Model checking completed. No error has been found.\n\
               302811 states generated, 68972 distinct states found, 0 states left on queue.\n\
               The depth of the complete state graph search is 28.\n";
    let took = Duration::from_secs(3);
    assert_eq!(found(end, took), Some(Found::Nothing { states: 68_972, depth: 28, took }));
    let broken = "Error: Invariant P1 is violated.\nError: The behavior up to this point is:\n\
                  State 1: <Initial predicate>\nx\nState 2: <Ask line 1>\nState 3: <Tick line 2>\n";
    assert_eq!(found(broken, took), Some(Found::Broken { promise: "P1".to_owned(), steps: 2 }));
    assert_eq!(
        found("Progress(21): 8352436 states generated, 7 distinct states found, 3 states left on queue.", took),
        None
    );
}
