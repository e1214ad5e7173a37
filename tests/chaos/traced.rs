//! What sidecars asked one Redis, and what it answered, as lines of a trace: `spec/BatonTrace.tla` accepts those of
//! every run, whatever goes wrong (`make spec`). tests/spec/traces.rs says what a line says.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use std::{fs, thread};

use serde_json::{Value, json};
use testkit::profile::Recorded;
use testkit::root;
use testkit::sidecars::replica::LEASE_KEY;

use crate::fault::Fault;
use crate::run::{Plan, run};
use crate::series::{network_allowed, seed, tell};
use crate::stage::Kind;

/// What befell the data, by the server's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Befell {
    /// The lease was deleted.
    Deleted,
    /// All was forgotten.
    Forgotten,
    /// The server was killed: another of it started with what is there.
    Killed,
}

/// What the wall clock shows, as Redis tells it to scripts.
pub fn wall_us() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    u64::try_from(since.as_micros()).expect("before the year 586,000")
}

/// What may be told in one line: at this moment of the server's clock.
struct Told {
    clock_us: u64,
    line: Line,
}

enum Line {
    Step(Value),
    Befell(Befell),
}

/// The lines of a run, in the order in which the server did it all.
///
/// # Panics
/// When a reply is not one of Baton's scripts.
pub fn lines(recorded: &[Recorded], befell: &[(u64, Befell)]) -> Vec<String> {
    let mut all: Vec<Told> = Vec::new();
    for recorded in recorded {
        let so_far_us = all.last().map_or(0, |told| told.clock_us);
        all.extend(told(recorded, befell, so_far_us));
    }
    all.extend(befell.iter().map(|(clock_us, befell)| Told { clock_us: *clock_us, line: Line::Befell(*befell) }));
    // What nobody was told of was under way when the server was killed, if it came so far.
    all.sort_by_key(|told| (told.clock_us, matches!(told.line, Line::Befell(_))));
    let begun_us = all.first().map_or(0, |told| told.clock_us);
    let (mut lines, mut from, mut starts) = (Vec::new(), 0, 1);
    for Told { clock_us, line } in all {
        let mut line = match line {
            Line::Step(step) => step,
            Line::Befell(Befell::Deleted) => json!({ "step": "evict" }),
            Line::Befell(Befell::Forgotten) => {
                from = 0;
                continue;
            }
            Line::Befell(Befell::Killed) => {
                starts += 1;
                continue;
            }
        };
        for (field, value) in [
            ("at_us", json!(clock_us - begun_us)),
            ("clock_us", json!(clock_us)),
            ("server", json!(0)),
            ("generation", json!(format!("start {starts}"))),
            ("from", json!(from)),
            ("asks", json!(false)),
        ] {
            line[field] = value;
        }
        lines.push(line.to_string());
        from = lines.len();
    }
    lines
}

fn number(word: &str) -> Value {
    word.parse::<u64>().map_or(Value::Null, Value::from)
}

fn ms(word: &str) -> Value {
    word.parse::<u64>().map_or(Value::Null, |ms| Value::from(ms * 1_000))
}

fn text(word: &str) -> Value {
    if word.is_empty() { Value::Null } else { Value::from(word) }
}

/// What a script of the role was asked; none of any other script.
fn asked(words: &[String]) -> Option<Value> {
    let [_, _, _, lease_key, _, arguments @ ..] = words else { return None };
    if lease_key != LEASE_KEY {
        return None;
    }
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    Some(match words[..] {
        [_, session, attempt, _, lease, _, floor, token, count, writer, age, unchanged, remaining] => json!({
            "step": "campaign", "session": session, "attempt": number(attempt), "lease_us": ms(lease),
            "floor": number(floor),
            "known": number(token).is_u64().then(|| json!({
                "version": { "token": number(token), "count": number(count), "writer": text(writer) },
                "age_us": ms(age), "unchanged_us": ms(unchanged), "remaining_us": ms(remaining),
            })),
        }),
        [_, session, attempt, lease, token, count, _, _, _, _] => json!({
            "step": "renew", "session": session, "attempt": number(attempt), "lease_us": ms(lease),
            "token": number(token), "count": number(count),
        }),
        [_, session, attempt, token, _] => json!({
            "step": "release", "session": session, "attempt": number(attempt), "token": number(token),
        }),
        _ => return None,
    })
}

/// `so_far_us`: when the last one was done that was answered before this.
fn told(recorded: &Recorded, befell: &[(u64, Befell)], so_far_us: u64) -> Option<Told> {
    let mut step = asked(&recorded.words)?;
    let Some(reply) = &recorded.reply else {
        // It was out when the server was killed, and may have been done.
        let is_its_end = |(at_us, befell): &&(u64, Befell)| *befell == Befell::Killed && *at_us >= so_far_us;
        let (clock_us, _) = befell.iter().find(is_its_end)?;
        step["reply"] = json!({ "is": "unanswered" });
        return Some(Told { clock_us: *clock_us, line: Line::Step(step) });
    };
    // Not known yet, loading, out of memory: nothing was done.
    if reply.starts_with('-') {
        return None;
    }
    let words = words_of(reply);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let clock_us = if let ["again", until, _] = words[..] {
        // The lease stands until then: this was a lease before.
        let us = |value: &Value| value.as_u64().expect("a renewal has a lease and a count");
        step["reply"] = json!({ "is": "renewed", "count": us(&step["count"]) + 1 });
        until.parse::<u64>().expect("a moment") - us(&step["lease_us"])
    } else {
        step["reply"] = answered(&words).unwrap_or_else(|| panic!("{step}: {words:?} is no answer to it"));
        words[1].parse().expect("a moment")
    };
    Some(Told { clock_us, line: Line::Step(step) })
}

/// What a script said, but for when.
fn answered(words: &[&str]) -> Option<Value> {
    let version =
        |token, count, writer| json!({ "token": number(token), "count": number(count), "writer": text(writer) });
    Some(match *words {
        ["granted", _, token, count] => json!({ "is": "granted", "token": number(token), "count": number(count) }),
        ["held", _, token, count, writer, of, remaining, session, _] => json!({
            "is": "held", "version": version(token, count, writer), "token": number(of),
            "remaining_us": ms(remaining), "holder": session,
        }),
        ["guarded", _, token, count, writer, remaining, cause] => json!({
            "is": "guarded", "version": version(token, count, writer), "remaining_us": number(remaining),
            "cause": cause,
        }),
        ["look", _, token, count, writer, _] => json!({ "is": "watch", "version": version(token, count, writer) }),
        ["stale", _, token, count] => json!({ "is": "stale", "token": number(token), "count": number(count) }),
        ["renewed", _, count, ..] => json!({ "is": "renewed", "count": number(count) }),
        ["lost", _, token, ..] => json!({ "is": "lost", "token": number(token) }),
        ["released", _] => json!({ "is": "released" }),
        ["notheld", _] => json!({ "is": "nothing" }),
        _ => return None,
    })
}

/// The words of an array of texts and numbers.
fn words_of(reply: &str) -> Vec<String> {
    let mut lines = reply.split("\r\n").skip(1);
    let mut words = Vec::new();
    while let Some(line) = lines.next() {
        match line.split_at_checked(1) {
            Some(("$", _)) => words.extend(lines.next().map(str::to_owned)),
            Some((":", number)) => words.push(number.to_owned()),
            _ => {}
        }
    }
    words
}

/// How many runs.
const RUNS: usize = 50;
/// For how long faults are begun in each.
const SPAN: Duration = Duration::from_secs(4);
/// They wait for leases most of the time.
const AT_ONCE: usize = 5;

/// What its steps cannot tell apart, or that moves the clock they are ordered by, is left out.
fn is_told(fault: Fault) -> bool {
    !matches!(fault, Fault::Clock | Fault::Evict | Fault::Mixed)
}

#[test]
#[ignore = "takes minutes: make spec"]
fn fifty_runs_are_recorded_for_the_specification() {
    let folder = root().join("target/spec/traces/real");
    // Those of an earlier run are none of this one's; there may be none.
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("target can be written");
    let (network, seed) = (network_allowed(), seed().unwrap_or(1));
    let of_kind = |kind: Kind| kind.faults(network).filter(|fault| is_told(*fault)).map(move |fault| (kind, fault));
    let cells: Vec<(Kind, Fault)> = of_kind(Kind::Durable).chain(of_kind(Kind::Volatile)).collect();
    let next = AtomicUsize::new(0);
    let work = || {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= RUNS {
                return;
            }
            let (kind, fault) = cells[number % cells.len()];
            let seed = seed.wrapping_mul(1_000).wrapping_add(number as u64);
            let plan = Plan { kind, fault, seed, span: SPAN, faults_max: usize::MAX, service: None, recorded: true };
            let measured = run(plan, network);
            tell(&measured);
            let complaints = measured.complaints();
            assert!(complaints.is_empty(), "{complaints}");
            let name = format!("{number}-{}-{}.jsonl", kind.name(), fault.name());
            fs::write(folder.join(name), measured.trace.join("\n") + "\n").expect("target can be written");
        }
    };
    thread::scope(|scope| (0..AT_ONCE).for_each(|_| drop(scope.spawn(work))));
}
