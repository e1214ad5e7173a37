//! docs/performance.md, which is written by nobody else: the prose comes from the parts, the figures from their last
//! runs.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use crate::part::Part;
use crate::parts;

const HEAD: &str = "\
# Performance

This page is written by `make bench`, which takes up to fifty minutes, besides building; `make bench PART=\"handover
crash\"` takes only some parts and leaves the others' figures as they are. The figures are JSON lines in
`target/bench/`, too. They belong to one machine at one moment, named under each table: take them on yours before you
rely on them. Everything runs on one machine, over loopback, so that the load generators, the servers and Baton share
its processors: the longest times are the most doubtful ones.

What people would use instead is installed by the benchmark from its own registry (`benches/peers`), behind one line
protocol, with its default settings unless something else is said. What works on Redis works on the same server as
Baton, the others on servers of their own; all take turns. The Redis keeps nothing on disk, and the etcd below the API
server does not wait for its disk, while etcd itself and ZooKeeper do before they answer: a part of the difference is
that. Every server is alone, without replicas and without TLS but the API server's. What the peers promise when a store
forgets or a process is paused, for example, differs as well and is not measured here.
";

/// What is done for a goal only. A line more belongs to the commit that does it.
const OPTIMISATIONS: &str = "\
## What is done for it

Simple before fast: what no goal needs is not done. What is, and what it costs in lines of `src`, tests of these files
included (of the commits that brought it, less what was taken back since; an upper bound, for some of it would be
written anyway):

| goal | what is done | where | lines |
|---|---|---|---|
| scripts of a failover grow slower than candidates | of those who hear a release five on average ask at once; the \
others let them go first, and stand down when they hear of the grant | `protocol/election/candidate.rs` | 440 |
| 1,000 roles: ≤ 3 % of a core, renewals late by ≤ 5 ms | the roles of a process take turns: they start, look and \
renew one after the other within a renewal period | `role/team.rs`, `protocol/election` | 250 |
| 1,000 roles: ≤ 24 MiB | what is counted of a role is plain numbers, made into series family by family at each \
scrape; a registry of them takes 19 MB, and 12 MB more at each scrape; it is written family by family, never as one \
text | `telemetry/roles.rs` | 190 |
| a free lock's cycle: ≤ 4 times the least scripts | a lock that is alone in every way is acquired and released in a \
few commands, before the whole scripts | `store/redis/scripts` | 80 |
| `/events` with 16 streams: ≤ 5 % more | a stream looks at a role only when it has changed or its answer is due | \
`role/http/events.rs` | 100 |
| handover p50 ≤ 1.4 ms | the release leaves before whoever asked for it is answered; a vacancy of less than 5 ms is \
told to nobody | `role/task.rs` | 30 |
| at rest ≤ 0.3 % of a core | what ticks does so on the steps of tokio's timers; a standby is woken by heartbeats \
alone | `base/process.rs`, `role/task.rs` | 100 |
| 1,000 sidecars on a Cluster: no node has more than 1.2 times its share of connections | each begins at another of \
the nodes that its URL names | `store/redis/connection/cluster.rs` | 25 |
| `/leader` ≥ 0.85 of bare hyper, binary ≤ 12 MiB | built for size, but for the crates that each poll passes through \
| `Cargo.toml` | 15 |
";

/// What the goals were set for. It stays as it was measured.
const REBUILT: &str = "\
## Before and after the rebuild

In November 2026 the code was rebuilt for those who read it: one HTTP library instead of a server of its own, unwind \
tables in what is shipped, what only served size or speed that nobody feels taken out, and the scripts made shorter \
where Redis pays. The same measures of the last version before (6381d0b), and of the first whole run after \
(61e697b), each idle, on virtual machines that were not the same one:

| measure | before | after | goal now |
|---|---|---|---|
| `/leader` on 16 connections over bare hyper, over Go net/http | 0.92, 1.99 | 0.69, 1.45 | ≥ 0.85, ≥ 1.7 |
| `/leader` on 256 connections over bare hyper, over Go net/http | 0.80, 2.28 | 0.69, 1.74 | ≥ 0.85, ≥ 1.7 |
| `/leader`, p99 over bare hyper, 16 and 256 connections | 0.93, 1.13 | 1.39, 1.65 | ≤ 1.3 |
| handover by long poll, p50, p99 | 1.38 ms, 2.91 ms | 1.45 ms, 3.70 ms | ≤ 1.4 ms, ≤ 4 ms |
| handover: client-go's median over Baton's | 556 | 802 | ≥ 300 |
| crash, beyond a lease of 1, 5, 15 s, p99 | 5.0, 8.3, 10.4 ms | 6.8, 12.8, 12.1 ms | ≤ 15 ms |
| Redis's own time for a renewal over the least script | 9 to 11 | 2.7 | ≤ 3 |
| Redis's own time for a free lock's cycle over the least scripts | 16 to 17 | 7.4 | ≤ 4 |
| 1,000 roles: of a core, memory after a scrape, renewals late p99 | 2.1 %, 15.1 MiB, 1 ms | 1.7 %, 22.3 MiB, 1 ms | \
≤ 3 %, ≤ 24 MiB, ≤ 5 ms |
| what 16 streams of `/events` add to that | not measured | 57 % | ≤ 5 % |
| growth of the scripts of a crash over that of the candidates, steepest step | 1.20 | 0.24 | ≤ 1 |
| memory as a node pays for each of 10 sidecars (PSS) | not measured | 2.5 MiB | ≤ 5 MiB |
| binary | 8.0 MiB, no unwind tables | 11.5 MiB with them | ≤ 12 MiB |
| processor time at rest | 0.028 % | 0.031 % | ≤ 0.3 % |
";

/// The page, as it stands.
pub struct Page {
    path: PathBuf,
    text: String,
}

impl Page {
    /// The page of a folder; there may be none yet.
    pub fn of(folder: &Path) -> Self {
        let path = folder.join("performance.md");
        let text = fs::read_to_string(&path).unwrap_or_default();
        Self { path, text }
    }

    /// Writes it anew, with the new section of the part that was measured, if one was. What was said of the others'
    /// figures stays.
    pub fn write(&self, measured: Option<(&Part, &str)>) {
        let of = |part: &Part| measured.filter(|(other, _)| other.name == part.name).map(|(_, section)| section);
        let sections: Vec<(&Part, &str)> =
            parts::ALL.iter().map(|part| (part, of(part).or(self.section(part)).unwrap_or_default())).collect();
        let mut text = format!("{HEAD}\n{}\n{OPTIMISATIONS}\n{REBUILT}", goals(&sections));
        for (part, section) in sections {
            let figures = if section.is_empty() { "Not measured yet.\n" } else { section };
            // Writing into a String does not fail.
            let _ = write!(
                text,
                "\n## {}\n\n{}\n\n{}\n{figures}{}\n",
                part.title,
                part.about.trim(),
                begin(part),
                end(part)
            );
        }
        fs::write(&self.path, text).unwrap_or_else(|error| panic!("{}: {error}", self.path.display()));
    }

    fn section(&self, part: &Part) -> Option<&str> {
        let (_, rest) = self.text.split_once(&format!("{}\n", begin(part)))?;
        Some(rest.split_once(&format!("{}\n", end(part)))?.0).filter(|section| !section.starts_with("Not measured"))
    }
}

fn begin(part: &Part) -> String {
    format!("<!-- bench:{} -->", part.name)
}

fn end(part: &Part) -> String {
    format!("<!-- end:{} -->", part.name)
}

/// Which goals there are and which of them are missed, from all tables.
fn goals(sections: &[(&Part, &str)]) -> String {
    let (mut met, mut missed) = (0, String::new());
    for (part, section) in sections {
        for line in section.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| measure ")) {
            let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
            match cells[..] {
                [_, _, "", ..] => {}
                [_, _, _, "met"] => met += 1,
                [measure, value, goal, verdict] => {
                    let _ = writeln!(missed, "| {} | {measure} | {value} | {goal} | {verdict} |", part.name);
                }
                _ => {}
            }
        }
    }
    let all = met + missed.lines().count();
    let table = "| part | measure | value | goal | |\n|---|---|---|---|---|\n";
    let rest = if missed.is_empty() { String::new() } else { format!(" These are missed:\n\n{table}{missed}") };
    format!("## Goals\n\n{met} of {all} goals are met.{}\n", rest.trim_end())
}
