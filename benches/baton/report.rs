//! What comes out: lines on the terminal, JSON lines in target/bench, and a table in docs/performance.md.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;

/// What a figure should be.
#[derive(Clone, Copy, Debug)]
pub enum Goal {
    AtLeast(f64),
    AtMost(f64),
}

/// One figure.
#[derive(Clone, Debug)]
pub struct Row {
    measure: String,
    value: f64,
    unit: &'static str,
    goal: Option<Goal>,
}

impl Row {
    pub fn new(measure: impl Into<String>, value: f64, unit: &'static str) -> Self {
        Self { measure: measure.into(), value, unit, goal: None }
    }

    pub fn at_least(self, goal: f64) -> Self {
        Self { goal: Some(Goal::AtLeast(goal)), ..self }
    }

    pub fn at_most(self, goal: f64) -> Self {
        Self { goal: Some(Goal::AtMost(goal)), ..self }
    }

    fn shown(&self, value: f64) -> String {
        let digits = match value.abs() {
            v if v >= 100.0 || v == v.trunc() => 0,
            v if v >= 10.0 => 1,
            _ => 2,
        };
        let space = if self.unit.is_empty() { "" } else { " " };
        format!("{value:.digits$}{space}{}", self.unit)
    }

    fn goal(&self) -> String {
        match self.goal {
            Some(Goal::AtLeast(goal)) => format!("≥ {}", self.shown(goal)),
            Some(Goal::AtMost(goal)) => format!("≤ {}", self.shown(goal)),
            None => String::new(),
        }
    }

    fn met(&self) -> Option<bool> {
        self.goal.map(|goal| match goal {
            Goal::AtLeast(least) => self.value >= least,
            Goal::AtMost(most) => self.value <= most,
        })
    }

    fn verdict(&self) -> String {
        match (self.met(), self.goal) {
            (Some(false), Some(Goal::AtLeast(goal) | Goal::AtMost(goal))) => {
                format!("**missed** by {}", self.shown((self.value - goal).abs()))
            }
            (Some(_), _) => "met".to_owned(),
            (None, _) => String::new(),
        }
    }
}

/// When a part began, and how busy the machine was then with other things.
pub struct Begun {
    at: jiff::Timestamp,
    load: String,
}

impl Begun {
    pub fn now() -> Self {
        let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
        let load = load.split(' ').next().filter(|load| !load.is_empty()).unwrap_or("unknown").to_owned();
        Self { at: jiff::Timestamp::now(), load }
    }
}

/// See the module.
pub struct Report {
    root: PathBuf,
    machine: String,
    commit: String,
}

impl Report {
    pub fn begin() -> Self {
        let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
        let changed = !output("git", &["-C", env!("CARGO_MANIFEST_DIR"), "status", "--porcelain", "src", "Cargo.toml"])
            .is_empty();
        let commit = output("git", &["-C", env!("CARGO_MANIFEST_DIR"), "rev-parse", "--short", "HEAD"]);
        let commit = if changed { format!("{commit} with changes") } else { commit };
        let machine = machine();
        println!("{machine}");
        Self { root, machine, commit }
    }

    /// Prints and keeps the figures of one part.
    pub fn finish(&self, part: &str, begun: &Begun, rows: &[Row]) {
        let Begun { at, load } = begun;
        let (mut lines, mut table) = (String::new(), "| measure | value | goal | |\n|---|---|---|---|\n".to_owned());
        for row in rows {
            println!("  {:<72} {:>14}  {:<12} {}", row.measure, row.shown(row.value), row.goal(), row.verdict());
            let line = json!({
                "part": part, "measure": row.measure, "value": row.value, "unit": row.unit, "goal": row.goal(),
                "met": row.met(), "at": at.to_string(), "commit": self.commit, "load": load, "machine": self.machine,
            });
            // Writing into a String does not fail.
            let _ = writeln!(lines, "{line}");
            let cells = [row.measure.clone(), row.shown(row.value), row.goal(), row.verdict()];
            let _ = writeln!(table, "| {} |", cells.join(" | "));
        }
        let minute = at.strftime("%Y-%m-%d %H:%M UTC");
        let _ = write!(table, "\n{minute}, commit {}, load average before: {load}.\n", self.commit);
        let folder = self.root.join("target/bench");
        fs::create_dir_all(&folder).expect("target/ can be written");
        fs::write(folder.join(format!("{part}.jsonl")), lines).expect("target/ can be written");
        let page = self.root.join("docs/performance.md");
        replace_section(&page, part, &table);
        replace_section(&page, "machine", &format!("{}\n", self.machine));
    }
}

/// Puts `text` between the markers of a section of the page.
fn replace_section(page: &Path, section: &str, text: &str) {
    let whole = fs::read_to_string(page).expect("docs/performance.md is there");
    let (begin, end) = (format!("<!-- bench:{section} -->\n"), format!("<!-- end:{section} -->\n"));
    let parts = whole.split_once(&begin).and_then(|(before, rest)| Some((before, rest.split_once(&end)?.1)));
    let (before, after) = parts.unwrap_or_else(|| panic!("docs/performance.md has no markers for {section}"));
    let new = format!("{before}{begin}{text}{end}{after}");
    if new != whole {
        fs::write(page, new).expect("docs/performance.md can be written");
    }
}

/// What the figures depend on.
fn machine() -> String {
    let cpus = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpus.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": ").map(|(_, name)| name));
    let cores = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let redis = output("redis-server", &["--version"]);
    let redis = redis.split_whitespace().find_map(|word| word.strip_prefix("v=")).unwrap_or("of unknown version");
    let (rustc, baton) = (output("rustc", &["--version"]), env!("CARGO_PKG_VERSION"));
    let load = if crate::load::has_wrk() { "wrk" } else { "its own load generator" };
    format!(
        "{cores} cores of {}, Linux {}; Baton {baton}, {rustc}, Redis {redis}, polled by {load}; all on one machine \
         over loopback.",
        model.unwrap_or("an unknown processor"),
        kernel.trim(),
    )
}

fn output(program: &str, args: &[&str]) -> String {
    let run = Command::new(program).args(args).output();
    run.map(|out| String::from_utf8_lossy(&out.stdout).trim().to_owned()).unwrap_or_default()
}
