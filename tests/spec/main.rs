//! The specification in `spec/`, checked by TLC: within the bounds of its models every promise holds, and without any
//! one rule, or the few that close a hole together, one of them is broken. `make spec` runs it and writes the tables of
//! docs/guarantees.md; what must be true of the tables themselves is tested without TLC.

mod baton;
mod ledger;
mod locks;
mod model;
mod page;
mod quorum;
mod tlc;
mod traces;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use testkit::root;

use model::{Assignments, Constants, Module, Removal};
use tlc::{Found, check};
use traces::Trace;

const MODULES: [&Module; 4] = [&baton::BATON, &quorum::QUORUM, &locks::LOCKS, &ledger::LEDGER];

/// Does this for each, two side by side; what comes of it is in their order.
fn two_at_once<T: Sync, R: Send>(all: &[T], act: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let done = std::thread::scope(|scope| {
        let (act, next) = (&act, &next);
        let one_by_one = || {
            let numbers = std::iter::from_fn(|| Some(next.fetch_add(1, Ordering::Relaxed)));
            let mine = numbers.map_while(|at| Some((at, all.get(at)?)));
            mine.map(|(at, one)| (at, act(one))).collect::<BTreeMap<_, _>>()
        };
        let workers = [(); 2].map(|()| scope.spawn(one_by_one));
        workers.map(|worker| worker.join().expect("no panic"))
    });
    done.into_iter().flatten().collect::<BTreeMap<_, _>>().into_values().collect()
}

/// The rules that a module can switch off, as its `ASSUME` names them.
fn rules(module: &Module) -> BTreeSet<String> {
    let text = fs::read_to_string(root().join(format!("spec/{}.tla", module.name))).expect("the module is there");
    let (_, after) = text.split_once("Off \\subseteq {").expect("it says which rules there are");
    let (names, _) = after.split_once('}').expect("the set ends");
    names.split(',').map(|name| name.trim().trim_matches('"').to_owned()).collect()
}

#[test]
fn every_rule_of_the_specification_is_removed() {
    for module in MODULES {
        let shown: BTreeSet<&str> = module.removals.iter().flat_map(|row| row.off).copied().collect();
        assert_eq!(shown, rules(module).iter().map(String::as_str).collect(), "{}", module.name);
        let promises = module.removals.iter().map(|row| row.breaks);
        assert!(promises.clone().all(|promise| module.promises.contains(&promise)), "{}", module.name);
    }
}

#[test]
#[ignore = "takes minutes, and needs Java: make spec"]
fn within_its_bounds_every_promise_holds() {
    let (mut lines, mut complaints) = (Vec::new(), Vec::new());
    for module in MODULES {
        for (number, model) in module.models.iter().enumerate() {
            let constants = Constants::new(module, model.set, &[]);
            let found = check(
                module,
                &format!("{}-{number}", module.name),
                &model.promises(module),
                &constants,
                model.workers(),
            );
            println!("{}, {}: {found:?}", module.name, model.title);
            match found {
                Ok(Found::Nothing { states, depth, took }) => {
                    lines.push(page::model_line(module, model, states, depth, took));
                }
                other => complaints.push(format!("{}, {}: {other:?}", module.name, model.title)),
            }
        }
    }
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
    page::hold_models(&lines);
}

/// The world of a removal, what is broken there, and the rules that are missing.
type World = (&'static str, Assignments, &'static str, Vec<&'static str>);

/// No rule, and where several are missing all of them but one: what must not be enough.
fn fewer(off: &[&'static str]) -> BTreeSet<Vec<&'static str>> {
    let all_but = |one: &&str| off.iter().filter(|rule| *rule != one).copied().collect();
    off.iter().map(all_but).chain([Vec::new()]).collect()
}

#[test]
#[ignore = "takes minutes, and needs Java: make spec"]
fn without_any_one_rule_a_promise_is_broken() {
    let rows = MODULES.iter().flat_map(|module| module.removals.iter().map(move |row| (*module, row)));
    let rows: Vec<(usize, (&Module, &Removal))> = rows.enumerate().collect();
    let shown = |(number, (module, row)): &(usize, (&Module, &Removal))| {
        let name = format!("{}-{number}-without-{}-{}", module.name, row.off.join("+"), row.breaks);
        // One worker, or the way would not be the shortest.
        let found = check(module, &name, &[row.breaks], &Constants::new(module, row.set, row.off), 1);
        println!("{name}: {found:?}");
        let Ok(Found::Broken { steps, .. }) = found else { return Err(format!("{name}: {found:?}")) };
        Ok(steps)
    };
    let shown = two_at_once(&rows, shown);
    let mut complaints: Vec<&String> = shown.iter().filter_map(|row| row.as_ref().err()).collect();
    // It is the rule that is missed: with all of them, so many steps break nothing, and where several are missed, with
    // any of them. Several rows are of one world.
    let mut worlds: BTreeMap<World, (&Module, usize)> = BTreeMap::new();
    for ((_, (module, row)), steps) in rows.iter().zip(&shown).filter(|((_, (_, row)), _)| !row.off.is_empty()) {
        for off in fewer(row.off) {
            let (_, most) = worlds.entry((module.name, row.set, row.breaks, off)).or_insert((*module, 0));
            *most = (*most).max(*steps.as_ref().unwrap_or(&0));
        }
    }
    let held = |(number, ((_, set, breaks, off), (module, steps))): &(usize, (&World, &(&Module, usize)))| {
        let constants = Constants::new(module, set, off).within(*steps);
        let found = check(module, &format!("{}-held-{number}", module.name), &[*breaks], &constants, 1);
        println!("{breaks} of {}, {set:?}, without {off:?}, in {steps} steps: {found:?}", module.name);
        match found {
            Ok(Found::Nothing { .. }) => Ok(()),
            other => Err(format!("{breaks} of {}, {set:?}, without {off:?}: {other:?}", module.name)),
        }
    };
    let held = two_at_once(&worlds.iter().enumerate().collect::<Vec<_>>(), held);
    complaints.extend(held.iter().filter_map(|world| world.as_ref().err()));
    assert!(complaints.is_empty(), "{complaints:#?}");
    let lines = rows
        .iter()
        .zip(shown.iter().flatten())
        .map(|((_, (module, row)), steps)| page::removal_line(module, row, *steps));
    page::hold_removals(&lines.collect::<Vec<_>>());
}

/// So many traces at a time: the module with them is read faster than TLC starts.
const AT_ONCE: usize = 50;

/// Complaints about traces of which not every line can be followed.
fn not_followed(traces: &[Trace], slack_us: u64, name: &str) -> Vec<String> {
    let batches: Vec<(usize, &[Trace])> = traces.chunks(AT_ONCE).enumerate().collect();
    let complain = |(number, batch): &(usize, &[Trace])| {
        let followed = tlc::follow(batch, slack_us, &format!("{name}-{number}")).unwrap_or_else(|why| panic!("{why}"));
        let rejected = batch.iter().zip(followed).filter(|(trace, lines)| trace.lines.len() != *lines);
        let tell =
            |(trace, lines): (&Trace, usize)| format!("{}: line {}: {}", trace.name, lines + 1, trace.lines[lines]);
        rejected.map(tell).collect::<Vec<_>>()
    };
    two_at_once(&batches, complain).into_iter().flatten().collect()
}

fn are_followed(folder: &str, at_least: usize, slack_us: u64) {
    let traces = Trace::read_all(&root().join("target/spec/traces").join(folder));
    let lines: usize = traces.iter().map(|trace| trace.lines.len()).sum();
    println!("{folder}: {} traces of {lines} lines", traces.len());
    let complaints = not_followed(&traces, slack_us, folder);
    assert!(complaints.is_empty(), "{} of {}:\n{}", complaints.len(), traces.len(), complaints.join("\n"));
    assert!(traces.len() >= at_least);
}

#[test]
#[ignore = "takes minutes, and needs Java and the traces: make spec"]
fn what_simulated_runs_do_is_a_behaviour_of_the_specification() {
    are_followed("simulated", 500, 0);
}

/// A Redis counts TTLs in whole milliseconds, and a busy machine may stand still between its two looks at the clock
/// within a script.
const TTL_SLACK_US: u64 = 50_000;

#[test]
#[ignore = "needs Java and the traces: make spec"]
fn what_sidecars_do_on_a_real_redis_is_a_behaviour_of_the_specification() {
    are_followed("real", 50, TTL_SLACK_US);
}

/// Makes this line a lie, if it is one of which this lie can be told.
type Lie = fn(&mut Value) -> bool;

/// Raises a number.
fn raised(value: &mut Value, by: u64) -> bool {
    let Some(number) = value.as_u64() else { return false };
    *value = Value::from(number + by);
    true
}

const LIES: [(&str, Lie); 12] = [
    ("another token is granted", |line| line["reply"]["is"] == "granted" && raised(&mut line["reply"]["token"], 1)),
    ("a grant is not counted", |line| line["reply"]["is"] == "granted" && raised(&mut line["reply"]["count"], 1)),
    ("who is refused is granted the role", |line| {
        let is_lie =
            line["reply"]["is"] == "held" || line["reply"]["is"] == "watch" || line["reply"]["is"] == "guarded";
        if is_lie {
            let (token, count) =
                (line["clock_us"].as_u64().map(|us| us + 1), line["reply"]["version"]["count"].clone());
            line["reply"] = json!({ "is": "granted", "token": token, "count": count });
        }
        is_lie
    }),
    ("a guard ends sooner", |line| {
        let left = line["reply"]["remaining_us"].as_u64().filter(|_| line["reply"]["is"] == "guarded");
        left.is_some_and(|left| {
            line["reply"]["remaining_us"] = Value::from(left / 2);
            left > 1_000_000
        })
    }),
    ("a lease is said to be another's", |line| {
        let is_lie = line["reply"]["is"] == "held";
        if is_lie {
            line["reply"]["holder"] = Value::from("f".repeat(32));
        }
        is_lie
    }),
    ("a renewal is not counted", |line| line["reply"]["is"] == "renewed" && raised(&mut line["reply"]["count"], 1)),
    ("a term is over that is not", |line| {
        let is_lie = line["reply"]["is"] == "renewed";
        if is_lie {
            line["reply"] = json!({ "is": "lost", "token": line["token"] });
        }
        is_lie
    }),
    ("a release does nothing", |line| {
        let is_lie = line["reply"]["is"] == "released";
        if is_lie {
            line["reply"] = json!({ "is": "nothing" });
        }
        is_lie
    }),
    ("somebody renews what was never granted", |line| line["step"] == "renew" && raised(&mut line["attempt"], 1_000)),
    ("somebody has seen a token that nobody had", |line| {
        line["step"] == "campaign" && line["floor"] != 0 && raised(&mut line["floor"], 1)
    }),
    ("a replica acts for longer than its lease", |line| {
        line["step"] == "acts" && line["token"] != 0 && raised(&mut line["until_us"], 11_000_000)
    }),
    ("a term begins with an old token", |line| {
        let is_lie = line["starts"] == true;
        if is_lie {
            line["token"] = Value::from(line["token"].as_u64().expect("a token") - 1);
        }
        is_lie
    }),
];

/// Each lie in a trace of its own, told once; the trace is followed up to it and no further.
#[test]
#[ignore = "needs Java and the traces: make spec"]
fn a_trace_with_one_lie_in_it_is_rejected_where_it_is_told() {
    let traces = Trace::read_all(&root().join("target/spec/traces/simulated"));
    let lying = |(name, lie): &(&str, Lie)| {
        let told = traces.iter().find_map(|trace| {
            let mut trace = trace.clone();
            let at = (trace.lines.len() / 3..trace.lines.len()).find(|at| lie(&mut trace.lines[*at]))?;
            Some((trace, at))
        });
        told.unwrap_or_else(|| panic!("{name}: it can be told of no line"))
    };
    let (lies, places): (Vec<Trace>, Vec<usize>) = LIES.iter().map(lying).unzip();
    let followed = tlc::follow(&lies, 0, "lies").unwrap_or_else(|why| panic!("{why}"));
    for ((name, _), (followed, place)) in LIES.iter().zip(followed.into_iter().zip(places)) {
        assert_eq!(followed, place, "{name}");
    }
}
