//! The search itself, by stateright, and the story of what it finds.

use std::fmt::Debug;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use stateright::{Checker, HasDiscoveries, Model, Property};

use crate::bounds::{Bounds, P1, P2, P3, P4, P5};
use crate::clock::{Nanos, SECOND};
use crate::message::name;
use crate::replica::Replica;

/// A state of a world, and what follows from it.
pub trait Explored: Clone + Debug + Hash + Send + Sync + 'static {
    type Step: Clone + Debug + PartialEq + Send + Sync + 'static;

    fn new(bounds: &Bounds) -> Self;
    fn now(&self) -> Nanos;
    fn replicas(&self) -> [&Replica; 2];
    /// A promise was broken that no later state shows.
    fn broken(&self) -> Option<&'static str>;
    /// Which of the replicas have been granted the role.
    fn has_led(&self) -> [bool; 2];
    /// P4: a release is heard of, and answered by a campaign, at once.
    fn is_prompt(&self) -> bool;
    /// Everything that may happen next.
    fn steps(&self, bounds: &Bounds, steps: &mut Vec<Self::Step>);
    /// What the world is after this step.
    fn after(&self, bounds: &Bounds, step: &Self::Step) -> Self;
    /// What this step is, in words.
    fn words(&self, step: &Self::Step) -> String;
}

/// As the library wants states, which it compares as it hashes them.
#[derive(Clone, Debug)]
struct State<W>(W);

impl<W: Explored> Hash for State<W> {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.0.hash(hasher);
    }
}

impl<W: Explored> PartialEq for State<W> {
    fn eq(&self, other: &Self) -> bool {
        let print = |state: &Self| {
            let mut hasher = DefaultHasher::new();
            state.hash(&mut hasher);
            hasher.finish()
        };
        print(self) == print(other)
    }
}

impl<W: Explored> State<W> {
    fn count(&self, is: fn(&Replica, Nanos) -> bool) -> usize {
        let now = self.0.now();
        self.0.replicas().iter().filter(|replica| is(replica, now)).count()
    }

    /// P1: how many would answer `leader: true` now.
    fn leaders(&self) -> usize {
        self.count(Replica::leads)
    }

    /// P3: how many apps may act now.
    fn acting(&self) -> usize {
        self.count(Replica::acts)
    }
}

/// One search.
struct Search<W> {
    bounds: Bounds,
    world: PhantomData<fn() -> W>,
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

impl<W: Explored> Search<W> {
    fn new(bounds: &Bounds, promises: &[&'static str]) -> Self {
        let (is_broken, is_handed_on) = (AtomicBool::new(false), AtomicBool::new(false));
        Self { bounds: *bounds, world: PhantomData, promises: promises.to_vec(), is_broken, is_handed_on }
    }

    fn holds(&self, is_kept: bool) -> bool {
        is_kept || self.is_broken.swap(true, Ordering::Relaxed)
    }

    fn shows(&self, state: &State<W>) -> bool {
        state.leaders() > 0 && state.0.has_led() == [true; 2] && !self.is_handed_on.swap(true, Ordering::Relaxed)
    }
}

impl<W: Explored> Model for Search<W> {
    type State = State<W>;
    type Action = W::Step;

    fn init_states(&self) -> Vec<State<W>> {
        vec![State(W::new(&self.bounds))]
    }

    fn actions(&self, state: &State<W>, actions: &mut Vec<W::Step>) {
        state.0.steps(&self.bounds, actions);
    }

    fn next_state(&self, last: &State<W>, step: W::Step) -> Option<State<W>> {
        Some(State(last.0.after(&self.bounds, &step)))
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut all = vec![
            Property::always(P1, |search: &Self, state: &State<W>| search.holds(state.leaders() < 2)),
            Property::always(P2, |search: &Self, state: &State<W>| search.holds(state.0.broken() != Some(P2))),
            Property::always(P3, |search: &Self, state: &State<W>| search.holds(state.acting() < 2)),
            Property::always(P4, |search: &Self, state: &State<W>| search.holds(state.0.is_prompt())),
            Property::always(P5, |search: &Self, state: &State<W>| search.holds(state.0.broken() != Some(P5))),
        ];
        all.retain(|property| self.promises.contains(&property.name));
        all.push(Property::sometimes(HANDED_ON, |search: &Self, state: &State<W>| search.shows(state)));
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
pub fn all<W: Explored>(bounds: &Bounds) -> Found {
    let search = Search::<W>::new(bounds, bounds.promises());
    let begun = Instant::now();
    let checker = search.checker().finish_when(HasDiscoveries::AnyFailures).spawn_dfs().join();
    if checker.model().is_broken.load(Ordering::Relaxed) {
        return shortest::<W>(bounds, bounds.promises());
    }
    assert!(checker.discoveries().contains_key(HANDED_ON), "{bounds:?}");
    let (states, steps) = (checker.unique_state_count(), checker.max_depth() - 1);
    Found { states, steps, took: begun.elapsed(), broken: None }
}

/// Looks for a shortest way to where one of these promises is broken.
pub fn shortest<W: Explored>(bounds: &Bounds, promises: &[&'static str]) -> Found {
    let begun = Instant::now();
    let search = Search::<W>::new(bounds, promises);
    let checker = search.checker().finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
    let (states, took) = (checker.unique_state_count(), begun.elapsed());
    let broken = checker.discoveries().into_iter().find(|(name, _)| *name != HANDED_ON);
    let Some((name, path)) = broken else {
        return Found { states, steps: checker.max_depth() - 1, took, broken: None };
    };
    let path = path.into_vec();
    Found { states, steps: path.len() - 1, took, broken: Some((name, story(&path))) }
}

/// What happens on the way, step by step.
fn story<W: Explored>(path: &[(State<W>, Option<W::Step>)]) -> String {
    let mut lines = String::new();
    let mut before = [""; 2];
    for (number, (State(world), step)) in path.iter().enumerate() {
        let (moment, now) = (world.now(), world.now() as f64 / SECOND as f64);
        for (at, replica) in world.replicas().into_iter().enumerate() {
            let state = replica.state(moment);
            if state != before[at] {
                let acts = if replica.acts(moment) { ", and its app may act" } else { "" };
                lines += &format!("    {now:>9.4} s        {} is {state}{acts}\n", name(at));
                before[at] = state;
            }
        }
        if let Some(step) = step {
            lines += &format!("{:>3} {now:>9.4} s  {}\n", number + 1, world.words(step));
        }
    }
    let Some((State(world), _)) = path.last() else { return lines };
    for (at, replica) in world.replicas().into_iter().enumerate() {
        let (now, until) = (world.now() as f64 / SECOND as f64, replica.promised_until as f64 / SECOND as f64);
        let leads = if replica.leads(world.now()) { "leads" } else { "does not lead" };
        lines += &format!("    {now:>9.4} s  {} {leads}; its app may act until {until:.4} s\n", name(at));
    }
    lines
}
