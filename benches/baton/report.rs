//! What comes out: lines on the terminal, JSON lines in target/bench, and a section of docs/performance.md.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

use serde_json::json;

use crate::page::Page;
use crate::part::{Findings, Part, root};
use crate::plot;

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
    because: &'static str,
}

impl Row {
    pub fn new(measure: impl Into<String>, value: f64, unit: &'static str) -> Self {
        Self { measure: measure.into(), value, unit, goal: None, because: "" }
    }

    pub fn at_least(self, goal: f64) -> Self {
        Self { goal: Some(Goal::AtLeast(goal)), ..self }
    }

    pub fn at_most(self, goal: f64) -> Self {
        Self { goal: Some(Goal::AtMost(goal)), ..self }
    }

    /// Why the goal is missed, when it is: told then, and only then.
    pub fn because(self, because: &'static str) -> Self {
        Self { because, ..self }
    }

    fn shown(&self, value: f64) -> String {
        let digits = match value.abs() {
            v if v >= 100.0 || v == v.trunc() => 0,
            v if v >= 10.0 => 1,
            v if v >= 0.1 => 2,
            _ => 3,
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
                let colon = if self.because.is_empty() { "" } else { ": " };
                format!("**missed** by {}{colon}{}", self.shown((self.value - goal).abs()), self.because)
            }
            (Some(_), _) => "met".to_owned(),
            (None, _) => String::new(),
        }
    }
}

/// Figures that say more beside each other. None of them has a goal: those are rows.
#[derive(Clone, Debug)]
pub struct Table {
    /// At least five, so that nobody takes a line of it for a row.
    pub columns: Vec<&'static str>,
    pub lines: Vec<Vec<String>>,
}

impl Table {
    fn markdown(&self) -> String {
        let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
        let head: Vec<String> = self.columns.iter().map(|column| (*column).to_owned()).collect();
        let rule = format!("|{}\n", "---|".repeat(head.len()));
        std::iter::once(line(&head) + &rule).chain(self.lines.iter().map(|cells| line(cells))).collect()
    }
}

/// When a part began, and how busy the machine was then with other things.
pub struct Begun {
    at: jiff::Timestamp,
    instant: Instant,
    load: String,
}

impl Begun {
    pub fn now() -> Self {
        let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
        let load = load.split(' ').next().filter(|load| !load.is_empty()).unwrap_or("unknown").to_owned();
        Self { at: jiff::Timestamp::now(), instant: Instant::now(), load }
    }
}

/// See the module.
pub struct Report {
    /// Where the lines go.
    lines: PathBuf,
    /// The folder of the page.
    pages: PathBuf,
    machine: String,
    commit: String,
}

impl Report {
    /// A trial's page is none of the documentation.
    pub fn begin(trial: bool) -> Self {
        let (root, folder) = (root(), root().join("target/bench"));
        let git = |words: &[&str]| output("git", &[&["-C", env!("CARGO_MANIFEST_DIR")], words].concat());
        let changed = !git(&["status", "--porcelain", "src", "benches", "Cargo.toml"]).is_empty();
        let commit = git(&["rev-parse", "--short", "HEAD"]);
        let commit = if changed { format!("{commit} with changes") } else { commit };
        let machine = machine();
        println!("{machine}");
        if trial {
            println!("a trial: its page is target/bench/trial/performance.md");
            let folder = folder.join("trial");
            return Self { lines: folder.clone(), pages: folder, machine, commit };
        }
        Self { lines: folder, pages: root.join("docs"), machine, commit }
    }

    /// Prints and keeps the figures of one part.
    pub fn finish(&self, part: &Part, begun: &Begun, findings: &Findings) {
        let took_s = begun.instant.elapsed().as_secs();
        fs::create_dir_all(&self.lines).expect("target/ can be written");
        let lines = self.lines(part, begun, took_s, findings);
        fs::write(self.lines.join(format!("{}.jsonl", part.name)), lines).expect("target/ can be written");
        let page = Page::of(&self.pages);
        page.write(Some((part, &self.section(part, begun, took_s, findings))));
        if let Some((file, text)) = &findings.page {
            let text = format!("{}\n\n{}", text.trim_end(), self.origin(part, begun, took_s, findings));
            fs::write(self.pages.join(file), text).unwrap_or_else(|error| panic!("{file}: {error}"));
        }
    }

    fn lines(&self, part: &Part, begun: &Begun, took_s: u64, findings: &Findings) -> String {
        let Begun { at, load, .. } = begun;
        let mut lines = vec![json!({
            "kind": "part", "part": part.name, "at": at.to_string(), "took_s": took_s, "commit": self.commit,
            "load": load, "machine": self.machine, "with": findings.with,
        })];
        for row in &findings.rows {
            println!("  {:<76} {:>16}  {:<14} {}", row.measure, row.shown(row.value), row.goal(), row.verdict());
            lines.push(json!({
                "kind": "row", "part": part.name, "measure": row.measure, "value": row.value, "unit": row.unit,
                "goal": row.goal(), "met": row.met(),
            }));
        }
        for table in &findings.tables {
            println!("\n{}", table.markdown());
            lines.push(json!({
                "kind": "table", "part": part.name, "columns": table.columns, "lines": table.lines,
            }));
        }
        for missing in &findings.missing {
            println!("  {} is missing: {}", missing.peer, missing.why);
            lines.push(json!({"kind": "missing", "part": part.name, "peer": missing.peer, "why": missing.why}));
        }
        lines.extend(findings.plots.iter().map(|plot| plot.line(part.name)));
        lines.iter().map(|line| format!("{line}\n")).collect()
    }

    fn section(&self, part: &Part, begun: &Begun, took_s: u64, findings: &Findings) -> String {
        let mut text = "| measure | value | goal | |\n|---|---|---|---|\n".to_owned();
        for row in &findings.rows {
            let cells = [row.measure.clone(), row.shown(row.value), row.goal(), row.verdict()];
            // Writing into a String does not fail.
            let _ = writeln!(text, "| {} |", cells.join(" | "));
        }
        for table in &findings.tables {
            let _ = write!(text, "\n{}", table.markdown());
        }
        for plot in &findings.plots {
            let file = format!("performance/{}-{}.svg", part.name, plot.name);
            plot::draw(plot, &self.pages.join(&file));
            let _ = write!(text, "\n![{}]({file})\n", plot.title);
        }
        for missing in &findings.missing {
            let _ = write!(text, "\nMissing: {} ({}).\n", missing.peer, missing.why);
        }
        text + "\n" + &self.origin(part, begun, took_s, findings)
    }

    /// When, of what, on which machine, and how to do it again.
    fn origin(&self, part: &Part, begun: &Begun, took_s: u64, findings: &Findings) -> String {
        let with = if findings.with.is_empty() { String::new() } else { format!(" {}.", findings.with.join("; ")) };
        let minute = begun.at.strftime("%Y-%m-%d %H:%M UTC");
        format!(
            "{minute}, commit {}, load average before: {}, {took_s} s. {}{with} Again: `make bench PART={}`.\n",
            self.commit, begun.load, self.machine, part.name,
        )
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
    let rustc = output("rustc", &["--version"]);
    format!(
        "{cores} cores of {}, Linux {}; Baton {}, {}, Redis {redis}.",
        model.unwrap_or("an unknown processor"),
        kernel.trim(),
        env!("CARGO_PKG_VERSION"),
        rustc.split(" (").next().unwrap_or_default(),
    )
}

fn output(program: &str, args: &[&str]) -> String {
    let run = Command::new(program).args(args).output();
    run.map(|out| String::from_utf8_lossy(&out.stdout).trim().to_owned()).unwrap_or_default()
}
