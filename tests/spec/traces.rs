//! Traces of runs, held against `spec/BatonTrace.tla`.
//!
//! A trace is a file of JSON lines. Each is a step of the store: `step` (`campaign`, `renew`, `release`, or `confirm`
//! and `evict`), what was asked (`session`, `attempt`, `lease_us`, `token`, `count`, `floor`, `known`), the `reply`, on
//! which `server`, at which of its moments (`clock_us`) and when by one clock for all (`at_us`), of which `generation`
//! it took itself to be; and `from`: the number of the line that left the store as this one found it, 0 where it knew
//! nothing. A step may be `acts`: from now on a `replica` acts as leader `until_us`, under a `token`, which `starts` a
//! term or does not.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use serde_json::Value;

/// What a moment is told as its distance from lies this far before the first.
const BEFORE_US: i64 = 1_000_000_000;

/// One run's.
#[derive(Clone)]
pub struct Trace {
    pub name: String,
    pub lines: Vec<Value>,
}

impl Trace {
    /// # Panics
    /// When the file is not one of JSON lines.
    pub fn read(path: &Path) -> Self {
        let text = fs::read_to_string(path).expect("the trace is there");
        let lines = text.lines().map(|line| serde_json::from_str(line).expect("a line is JSON")).collect();
        Self { name: path.file_name().expect("it has a name").to_string_lossy().into_owned(), lines }
    }

    /// All of a folder, in the order of their names.
    ///
    /// # Panics
    /// When there is no such folder.
    pub fn read_all(folder: &Path) -> Vec<Self> {
        let entries = fs::read_dir(folder).unwrap_or_else(|why| panic!("{}: {why}", folder.display()));
        let mut paths: Vec<_> = entries.map(|entry| entry.expect("it can be listed").path()).collect();
        paths.sort();
        paths.iter().map(|path| Self::read(path)).collect()
    }

    /// The sequence of its lines, as TLA+ has it.
    pub fn in_tla(&self) -> String {
        let mut names = Names::new(self);
        let lines: Vec<String> = (1..=self.lines.len()).map(|number| names.line(self, number)).collect();
        format!("<<\n{}\n>>", lines.join(",\n"))
    }

    /// The lines whose states a later line begins with, after each line; line n is at n - 1.
    fn needed(&self) -> Vec<BTreeSet<usize>> {
        let mut needed = vec![BTreeSet::new(); self.lines.len()];
        for (at, line) in self.lines.iter().enumerate() {
            let from = line["from"].as_u64().map_or(0, |from| usize::try_from(from).expect("small"));
            for kept in needed.iter_mut().take(at).skip(from.saturating_sub(1)).filter(|_| from > 0) {
                kept.insert(from);
            }
        }
        needed
    }
}

/// What a trace calls by long names.
struct Names {
    sessions: BTreeMap<String, usize>,
    generations: BTreeMap<String, usize>,
    /// From which moment the stores' clocks, tokens and counts are told.
    epoch: i64,
    needed: Vec<BTreeSet<usize>>,
}

fn number(value: &Value) -> i64 {
    value.as_i64().unwrap_or_else(|| panic!("{value} is no number"))
}

fn name(names: &mut BTreeMap<String, usize>, name: &str) -> usize {
    let next = names.len() + 1;
    *names.entry(name.to_owned()).or_insert(next)
}

fn truth(value: bool) -> &'static str {
    if value { "TRUE" } else { "FALSE" }
}

impl Names {
    fn new(trace: &Trace) -> Self {
        let first = trace.lines.iter().find_map(|line| line["clock_us"].as_i64()).expect("a trace has a step");
        let (sessions, generations) = (BTreeMap::new(), BTreeMap::new());
        Self { sessions, generations, epoch: first - BEFORE_US, needed: trace.needed() }
    }

    /// A clock, a token or a count; 0 is none.
    fn since(&self, value: &Value) -> i64 {
        let value = number(value);
        let since = if value == 0 { 0 } else { value - self.epoch };
        assert!((0..=i64::from(i32::MAX)).contains(&since), "{value} is too far from the beginning of its trace");
        since
    }

    fn session(&mut self, value: &Value) -> String {
        value.as_str().map_or_else(|| "<<>>".to_owned(), |session| format!("<<{}>>", name(&mut self.sessions, session)))
    }

    fn version(&mut self, version: &Value) -> String {
        let writer = self.session(&version["writer"]);
        let (token, count) = (self.since(&version["token"]), self.since(&version["count"]));
        format!("V({token}, {count}, {writer})")
    }

    fn request(&mut self, line: &Value) -> String {
        let (session, attempt) = (self.session(&line["session"]), number(&line["attempt"]));
        match line["step"].as_str() {
            Some("campaign") => {
                let known = &line["known"];
                let seen = if known.is_null() { "Unknown".to_owned() } else { self.version(&known["version"]) };
                let us = |field: &str| known[field].as_i64().unwrap_or(0).min(BEFORE_US);
                format!(
                    "Campaigning({session}, {attempt}, {}, {}, {seen}, {}, {}, {})",
                    number(&line["lease_us"]),
                    self.since(&line["floor"]),
                    us("unchanged_us"),
                    us("age_us"),
                    us("remaining_us"),
                )
            }
            Some("renew") => format!(
                "Renewing({session}, {attempt}, {}, {}, {})",
                number(&line["lease_us"]),
                self.since(&line["token"]),
                self.since(&line["count"])
            ),
            Some("release") => format!("Releasing({session}, {attempt}, {})", self.since(&line["token"])),
            other => panic!("{other:?} is no step"),
        }
    }

    fn reply(&mut self, reply: &Value) -> String {
        let (token, count) = (|| self.since(&reply["token"]), || self.since(&reply["count"]));
        match reply["is"].as_str() {
            Some("granted") => format!("Grants({}, {})", token(), count()),
            Some("stale") => format!("Stale({}, {})", token(), count()),
            Some("renewed") => format!("Renews({})", count()),
            Some("lost") => format!("Loses({})", token()),
            Some("held") => {
                let (token, left) = (token(), number(&reply["remaining_us"]));
                let (version, holder) = (self.version(&reply["version"]), self.session(&reply["holder"]));
                format!("Holds({version}, {token}, {holder}, {left})")
            }
            Some("guarded") => {
                format!("Guards({}, {})", self.version(&reply["version"]), number(&reply["remaining_us"]))
            }
            Some("watch") => format!("Watches({})", self.version(&reply["version"])),
            Some(is) => format!("Says(\"{is}\")"),
            None => panic!("{reply} is no answer"),
        }
    }

    fn line(&mut self, trace: &Trace, of: usize) -> String {
        let line = &trace.lines[of - 1];
        let keep: Vec<String> = self.needed[of - 1].iter().map(usize::to_string).collect();
        let (time, keep) = (number(&line["at_us"]), format!("{{{}}}", keep.join(", ")));
        if line["step"] == "acts" {
            let (replica, token) = (number(&line["replica"]), self.since(&line["token"]));
            let (until, starts) = (number(&line["until_us"]), truth(line["starts"] == true));
            return format!("Acting({time}, {keep}, {replica}, {token}, {until}, {starts})");
        }
        let generation = line["generation"].as_str().expect("a step is of a generation");
        let salt = generation.get(..4).and_then(|start| i64::from_str_radix(start, 16).ok()).unwrap_or(0);
        let (from, clock) = (number(&line["from"]), self.since(&line["clock_us"]));
        let generation = name(&mut self.generations, generation);
        match line["step"].as_str() {
            Some("evict") => format!("Evicting({from}, {clock}, {generation}, {keep})"),
            Some("confirm") => {
                let (token, counts) = (self.since(&line["token"]), truth(line["counts"] == true));
                format!("Confirming({from}, {clock}, {generation}, {keep}, {token}, {counts})")
            }
            _ => {
                let (asks, request) = (truth(line["asks"] != false), self.request(line));
                let reply = self.reply(&line["reply"]);
                format!("Asked({from}, {clock}, {time}, {generation}, {salt}, {asks}, {keep}, {request}, {reply})")
            }
        }
    }
}

/// The module that has them all.
pub fn module(traces: &[Trace]) -> String {
    let all: Vec<String> = traces.iter().map(Trace::in_tla).collect();
    format!("---- MODULE Traced ----\nEXTENDS BatonTrace\nTold == <<\n{}\n>>\n====\n", all.join(",\n"))
}
