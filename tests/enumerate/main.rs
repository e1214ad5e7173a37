//! The real election and the real reference of its store, in every order of what may happen within bounds: what the
//! simulation draws by chance is enumerated here, for two replicas and one Redis.
//!
//! A state (`world.rs`) is two `Election`s, one `LeaseCell`, and what is on its way between them. From each, everything
//! follows that may happen next: any message arrives, anybody does what is due, and time passes to the next moment that
//! matters, but not before all that is on its way has arrived. What departs from that is a fault, of a budget
//! (`bounds.rs`): a message is lost, or so late that time passes meanwhile and others overtake it; a process stands
//! still, or is killed, or its app is; the leader is asked to hand over; the store forgets, is set back to any of its
//! earlier states, or has its clock stepped. One replica's clock is 1 % slow, the other's and the store's 1 % fast, and
//! the margin is just what that eats up, so that a nanosecond too much shows. Every app asks at every step and acts on
//! every answer to its end.
//!
//! `cargo test --test enumerate` searches the smaller bounds, `make chaos` the wider ones, and both tell how many
//! states there were. Without any one rule a promise is broken within bounds, or it is said why not (`removals.rs`);
//! how it is broken is printed step by step: `cargo test --test enumerate without_any -- --nocapture`.
//!
//! The same of a quorum of three (`quorum.rs`), with one fault; its votes and news come at once, or cost one.
//!
//! Not here: a second Redis that is served as well (R6), which the simulation and the specification have; more than two
//! replicas; a task of a reload beside the one before it; ends of processes that others are told of. An app asks, or
//! keeps one connection (`app_sign.rs`), and has no second one beside it.

mod app;
#[path = "../simulation/app_sign.rs"]
mod app_sign;
mod bounds;
mod clock;
mod message;
mod quorum;
mod removals;
mod replica;
mod search;
mod server;
mod world;

use std::collections::BTreeSet;

use app_sign::AppSign;
use bounds::{Fault, MODELS, Model, OF_QUORUM, OF_QUORUM_WIDER, P3, WIDER, of_app};
use clock::SECOND;
use quorum::Quorum;
use removals::{REMOVALS, REMOVALS_OF_QUORUM, Removal, SWITCHES, UNSHOWN, without};
use search::Explored;
use world::World;

/// Searches all of these, two side by side.
fn hold<W: Explored>(models: &[Model]) {
    let search = |half: usize| {
        for Model { title, bounds } in models.iter().skip(half).step_by(2) {
            let found = search::all::<W>(bounds);
            let (until, took) = (bounds.until / clock::SECOND, found.took.as_secs_f64());
            println!("{title}, within {until} s: {} states, {} steps, {took:.1} s", found.states, found.steps);
            if let Some((promise, story)) = found.broken {
                panic!("{title}: {promise} is broken\n{story}");
            }
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| search(1));
        search(0);
    });
}

#[test]
fn within_bounds_no_order_of_what_may_happen_breaks_a_promise() {
    hold::<World>(&MODELS);
}

#[test]
#[ignore = "takes minutes: make chaos"]
fn within_wider_bounds_no_order_of_what_may_happen_breaks_a_promise() {
    hold::<World>(&WIDER);
}

#[test]
fn within_bounds_no_order_of_what_may_happen_breaks_a_promise_of_a_quorum() {
    hold::<Quorum>(&OF_QUORUM);
}

#[test]
#[ignore = "takes minutes: make chaos"]
fn within_wider_bounds_no_order_of_what_may_happen_breaks_a_promise_of_a_quorum() {
    hold::<Quorum>(&OF_QUORUM_WIDER);
}

/// Without its rules each shows what they are for.
fn are_missed<W: Explored>(removals: &[Removal]) {
    for removal in removals {
        let found = search::shortest::<W>(&without(removal.bounds, removal.off), &[removal.breaks]);
        let Some((promise, story)) = found.broken else {
            panic!("without {:?} {} holds: {} states", removal.off, removal.breaks, found.states);
        };
        let (off, steps, states) = (removal.off.join(", "), found.steps, found.states);
        println!("\nwithout {off}: {promise} is broken in {steps} steps ({states} states)\n{}\n{story}", removal.story);
    }
}

#[test]
fn without_any_one_rule_a_promise_is_broken() {
    are_missed::<World>(&REMOVALS);
    are_missed::<Quorum>(&REMOVALS_OF_QUORUM);
}

/// The end of a connection is the end of what was told over it only where nobody else acts upon that.
#[test]
fn an_app_with_a_child_that_acts_on_breaks_the_promise_where_its_sidecar_does_not_know_or_does_not_wait() {
    let of = |app| of_app(app, &[Fault::AppDies], 1, 25 * SECOND);
    for (why, bounds) in [
        ("it is said to be alone", of(AppSign::Mistaken)),
        ("nothing waits", without(of(AppSign::OfPod), &["promises"])),
    ] {
        let found = search::shortest::<World>(&bounds, &[P3]);
        let Some((promise, story)) = found.broken else { panic!("{why}: {P3} holds, {} states", found.states) };
        println!("\n{why}: {promise} is broken in {} steps ({} states)\n{story}", found.steps, found.states);
    }
}

/// Where several rules close the same hole, any of them does.
#[test]
#[ignore = "takes minutes: make chaos"]
fn with_any_of_several_rules_put_back_the_promise_holds() {
    for removal in REMOVALS.iter().filter(|removal| removal.off.len() > 1) {
        for kept in removal.off {
            let off: Vec<&str> = removal.off.iter().copied().filter(|rule| rule != kept).collect();
            let found = search::shortest::<World>(&without(removal.bounds, &off), &[removal.breaks]);
            println!("without {off:?}, with {kept}: {} states, {:.1} s", found.states, found.took.as_secs_f64());
            assert!(found.broken.is_none(), "without {off:?}: {:?}", found.broken);
        }
    }
}

#[test]
fn every_rule_is_removed_or_said_not_to_be_seen() {
    let shown: BTreeSet<&str> = REMOVALS.iter().flat_map(|removal| removal.off).copied().collect();
    let unshown: BTreeSet<&str> = UNSHOWN.iter().map(|(rule, _)| *rule).collect();
    assert!(shown.is_disjoint(&unshown), "{shown:?} {unshown:?}");
    let all: BTreeSet<&str> = SWITCHES.iter().map(|(rule, _)| *rule).collect();
    assert_eq!(shown.union(&unshown).copied().collect::<BTreeSet<_>>(), all);
}
