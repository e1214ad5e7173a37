//! The search itself, by stateright, and the story of what it finds.

use std::fmt::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use stateright::{Checker, HasDiscoveries, Model, Property};

use crate::bounds::{Bounds, P1, P2, P3, P4, P5};
use crate::clock::SECOND;
use crate::message::name;
use crate::server::Data;
use crate::world::{Step, World};

/// One search.
struct Search {
    bounds: Bounds,
    /// Which promises are looked at.
    promises: Vec<&'static str>,
    /// The library keeps the last way to a broken promise that it comes by, and goes on for a while: the first one,
    /// which is a shortest where it goes breadth first, is the only one that it is told of.
    is_broken: AtomicBool,
    /// The same of a role that was handed on.
    is_handed_on: AtomicBool,
}

/// A role that nobody takes over shows nothing.
const HANDED_ON: &str = "each of both has led, and one leads";

impl Search {
    fn new(bounds: &Bounds, promises: &[&'static str]) -> Self {
        let (is_broken, is_handed_on) = (AtomicBool::new(false), AtomicBool::new(false));
        Self { bounds: *bounds, promises: promises.to_vec(), is_broken, is_handed_on }
    }

    fn holds(&self, is_kept: bool) -> bool {
        is_kept || self.is_broken.swap(true, Ordering::Relaxed)
    }

    fn shows(&self, world: &World) -> bool {
        world.is_handed_on() && !self.is_handed_on.swap(true, Ordering::Relaxed)
    }
}

impl Model for Search {
    type State = World;
    type Action = Step;

    fn init_states(&self) -> Vec<World> {
        vec![World::new(&self.bounds)]
    }

    fn actions(&self, state: &World, actions: &mut Vec<Step>) {
        state.steps(&self.bounds, actions);
    }

    fn next_state(&self, last: &World, step: Step) -> Option<World> {
        Some(last.after(&self.bounds, &step))
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut all = vec![
            Property::always(P1, |search: &Self, world: &World| search.holds(world.leaders() < 2)),
            Property::always(P2, |search: &Self, world: &World| search.holds(world.broken != Some(P2))),
            Property::always(P3, |search: &Self, world: &World| search.holds(world.acting() < 2)),
            Property::always(P4, |search: &Self, world: &World| search.holds(world.is_prompt())),
            Property::always(P5, |search: &Self, world: &World| search.holds(world.broken != Some(P5))),
        ];
        all.retain(|property| self.promises.contains(&property.name));
        all.push(Property::sometimes(HANDED_ON, |search: &Self, world: &World| search.shows(world)));
        all
    }
}

/// What a search found.
#[derive(Debug)]
pub struct Found {
    pub states: usize,
    pub took: Duration,
    /// How many steps the longest behaviour has, or the way to what is broken.
    pub steps: usize,
    /// The promise that is broken, and how.
    pub broken: Option<(&'static str, String)>,
}

/// Looks at every state within the bounds: depth first, which keeps fewer of them.
///
/// # Panics
/// When nobody ever takes the role over.
pub fn all(bounds: &Bounds) -> Found {
    let search = Search::new(bounds, bounds.promises());
    let begun = Instant::now();
    let checker = search.checker().finish_when(HasDiscoveries::AnyFailures).spawn_dfs().join();
    if checker.model().is_broken.load(Ordering::Relaxed) {
        return shortest(bounds, bounds.promises());
    }
    assert!(checker.discoveries().contains_key(HANDED_ON), "{bounds:?}");
    let (states, steps) = (checker.unique_state_count(), checker.max_depth() - 1);
    Found { states, steps, took: begun.elapsed(), broken: None }
}

/// Looks for a shortest way to where one of these promises is broken.
pub fn shortest(bounds: &Bounds, promises: &[&'static str]) -> Found {
    let begun = Instant::now();
    let search = Search::new(bounds, promises);
    let checker = search.checker().finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
    let (states, took) = (checker.unique_state_count(), begun.elapsed());
    let broken = checker.discoveries().into_iter().find(|(name, _)| *name != HANDED_ON);
    let Some((name, path)) = broken else {
        return Found { states, steps: checker.max_depth() - 1, took, broken: None };
    };
    let path = path.into_vec();
    Found { states, steps: path.len() - 1, took, broken: Some((name, story(bounds, &path))) }
}

/// What happens on the way, step by step.
fn story(bounds: &Bounds, path: &[(World, Option<Step>)]) -> String {
    let mut lines = String::new();
    let mut before: [&str; 2] = [""; 2];
    for (number, (world, step)) in path.iter().enumerate() {
        let now = world.now as f64 / SECOND as f64;
        for at in 0..2 {
            let state = world.replicas[at].state(world.now);
            if state != before[at] {
                let acts = if world.replicas[at].acts(world.now) { ", and its app may act" } else { "" };
                writeln!(lines, "    {now:>9.4} s        {} is {state}{acts}", name(at)).expect("it is text");
                before[at] = state;
            }
        }
        if let Some(step) = step {
            let (number, words) = (number + 1, words(bounds, world, step));
            writeln!(lines, "{number:>3} {now:>9.4} s  {words}").expect("it is text");
        }
    }
    if let Some((world, _)) = path.last() {
        for at in 0..2 {
            let (replica, now) = (&world.replicas[at], world.now as f64 / SECOND as f64);
            let until = replica.promised_until as f64 / SECOND as f64;
            let leads = if replica.leads(world.now) { "leads" } else { "does not lead" };
            writeln!(lines, "    {now:>9.4} s  {} {leads}; its app may act until {until:.4} s", name(at))
                .expect("it is text");
        }
    }
    lines
}

fn words(bounds: &Bounds, world: &World, step: &Step) -> String {
    match step {
        Step::Arrive(at) => format!("{} arrives", world.network[*at].words()),
        Step::Lose(at) => format!("{} IS LOST", world.network[*at].words()),
        Step::Delay(at) => format!("{} IS LATE", world.network[*at].words()),
        Step::Wake(at) => format!("{} does what is due", name(*at)),
        Step::GiveUp(at, _) => format!("{} gives a request up", name(*at)),
        Step::Pass => {
            let then = world.after(bounds, step).now as f64 / SECOND as f64;
            format!("time passes, until {then:.4} s")
        }
        Step::Pause(at) => format!("{} STANDS STILL", name(*at)),
        Step::Resume(at) => format!("{} goes on", name(*at)),
        Step::Kill(at) => format!("{} IS KILLED, and another starts in its place", name(*at)),
        Step::Reload(at) => format!("{}'s ROLE IS REMOVED, and added again", name(*at)),
        Step::Resign(at) => format!("{} IS ASKED TO HAND OVER", name(*at)),
        Step::Restart(Data::All) => "REDIS IS RESTARTED, with its data".to_owned(),
        Step::Restart(Data::None) => "REDIS IS RESTARTED, without data".to_owned(),
        Step::Restart(Data::Copy(at)) => format!("A REPLICA OF REDIS TAKES OVER, as it was after {at} writes"),
        Step::Flush => "FLUSHALL".to_owned(),
        Step::Evict => "THE LEASE IS DELETED".to_owned(),
        Step::Forward => "THE CLOCK OF REDIS IS SET FORWARD by 15 s".to_owned(),
        Step::Back => "THE CLOCK OF REDIS IS SET BACK by 15 s".to_owned(),
    }
}
