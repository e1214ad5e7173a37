//! The specification in `spec/`, checked by TLC: within the bounds of its models every promise holds, and without any
//! one rule one of them is broken. `make spec` runs it and writes the tables of docs/guarantees.md; what must be true
//! of the tables themselves is tested without TLC.

mod baton;
mod ledger;
mod locks;
mod model;
mod page;
mod quorum;
mod tlc;

use std::collections::BTreeSet;
use std::fs;

use testkit::root;

use model::{Constants, Module};
use tlc::{Found, check};

const MODULES: [&Module; 4] = [&baton::BATON, &quorum::QUORUM, &locks::LOCKS, &ledger::LEDGER];

/// The rules that a module can switch off, as its `ASSUME` names them.
fn rules(module: &Module) -> BTreeSet<String> {
    let text = fs::read_to_string(root().join(format!("spec/{}.tla", module.name))).expect("the module is there");
    let (_, after) = text.split_once("Off \\subseteq {").expect("it says which rules there are");
    let (names, _) = after.split_once('}').expect("the set ends");
    names.split(',').map(|name| name.trim().trim_matches('"').to_owned()).collect()
}

#[test]
fn every_rule_of_the_specification_is_removed_or_said_not_to_be_seen() {
    for module in MODULES {
        let shown: BTreeSet<&str> = module.removals.iter().flat_map(|row| row.off).copied().collect();
        let unshown: BTreeSet<&str> = module.unshown.iter().map(|(rule, _)| *rule).collect();
        assert!(shown.is_disjoint(&unshown), "{}: {shown:?} {unshown:?}", module.name);
        let all: BTreeSet<String> = shown.union(&unshown).map(|&rule| rule.to_owned()).collect();
        assert_eq!(all, rules(module), "{}", module.name);
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
            let found = check(module, &format!("{}-{number}", module.name), &model.promises(module), &constants, 2);
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

#[test]
#[ignore = "takes minutes, and needs Java: make spec"]
fn without_any_one_rule_a_promise_is_broken() {
    let rows: Vec<_> =
        MODULES.iter().flat_map(|module| module.removals.iter().map(move |row| (*module, row))).collect();
    let shown = |(module, row): &(&Module, &model::Removal)| {
        let name = format!("{}-without-{}-{}", module.name, row.off.join("+"), row.breaks);
        // One worker, or the way would not be the shortest.
        let found = check(module, &name, &[row.breaks], &Constants::new(module, row.set, row.off), 1);
        println!("{name}: {found:?}");
        match found {
            Ok(Found::Broken { steps, .. }) => Ok(page::removal_line(module, row, steps)),
            other => Err(format!("{name}: {other:?}")),
        }
    };
    // Two side by side.
    let mut shown: Vec<(usize, Result<String, String>)> = std::thread::scope(|scope| {
        let half = |first: usize| {
            let rows = rows.iter().enumerate().skip(first).step_by(2);
            scope.spawn(move || rows.map(|(at, row)| (at, shown(row))).collect::<Vec<_>>())
        };
        let halves = [half(0), half(1)];
        halves.into_iter().flat_map(|half| half.join().expect("no panic")).collect()
    });
    shown.sort();
    let complaints: Vec<&String> = shown.iter().filter_map(|(_, row)| row.as_ref().err()).collect();
    assert!(complaints.is_empty(), "{complaints:#?}");
    page::hold_removals(&shown.into_iter().filter_map(|(_, row)| row.ok()).collect::<Vec<_>>());
}
