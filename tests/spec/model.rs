//! What is checked: models, in which every promise holds, and removals, each with the promise that it breaks.

use std::collections::BTreeMap;

/// Lines of `NAME = VALUE`, in TLC's words; several in one where a world has a name.
pub type Assignments = &'static [&'static str];

/// A module of `spec/`.
pub struct Module {
    pub name: &'static str,
    /// Its invariants.
    pub promises: &'static [&'static str],
    /// Whether it has a `Symmetry`: what may be exchanged for one another.
    pub is_symmetric: bool,
    /// Its model values.
    pub values: &'static [&'static str],
    /// The constants of every model that does not say otherwise.
    pub constants: Assignments,
    pub models: &'static [Model],
    pub removals: &'static [Removal],
}

/// Bounds within which every promise holds with every rule.
pub struct Model {
    pub title: &'static str,
    /// Promises that are not made in this world.
    pub excused: &'static [&'static str],
    pub set: Assignments,
}

impl Model {
    /// On how many cores it is checked: on one where steps are counted, since more may count one too many.
    pub fn workers(&self) -> usize {
        if assigned(self.set).any(|(name, _)| name == "Steps") { 1 } else { 2 }
    }

    /// What must hold in it.
    pub fn promises(&self, module: &Module) -> Vec<&'static str> {
        module.promises.iter().copied().filter(|promise| !self.excused.contains(promise)).collect()
    }
}

/// A rule, and the shortest way to what it closes.
pub struct Removal {
    /// The rule, and others that would close the same hole beside it. None: what the rules do not close.
    pub off: &'static [&'static str],
    pub set: Assignments,
    pub breaks: &'static str,
    /// What happens.
    pub story: &'static str,
}

/// More steps than anything takes that is checked to its end.
const UNBOUNDED: usize = 1000;

/// The constants of one run.
pub struct Constants(BTreeMap<&'static str, String>);

fn assigned(to: Assignments) -> impl Iterator<Item = (&'static str, String)> {
    let lines = to.iter().flat_map(|text| text.lines());
    lines.map(|line| {
        let (name, value) = line.split_once(" = ").unwrap_or_else(|| panic!("{line:?} is no assignment"));
        (name, value.to_owned())
    })
}

impl Constants {
    /// Those of the module, changed by `set`, without these rules.
    ///
    /// # Panics
    /// When the module has no constant of a name.
    pub fn new(module: &Module, set: Assignments, off: &[&str]) -> Self {
        let mut all: BTreeMap<_, _> = assigned(module.constants).collect();
        all.insert("Steps", UNBOUNDED.to_string());
        for (name, value) in assigned(set) {
            assert!(all.insert(name, value).is_some(), "{} has no {name}", module.name);
        }
        let rules: Vec<String> = off.iter().map(|rule| format!("\"{rule}\"")).collect();
        all.insert("Off", format!("{{{}}}", rules.join(", ")));
        Self(all)
    }

    /// Those of behaviours of at most so many steps.
    #[must_use]
    pub fn within(mut self, steps: usize) -> Self {
        self.0.insert("Steps", steps.to_string());
        self
    }

    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.0.iter().map(|(name, value)| (*name, &**value))
    }
}
