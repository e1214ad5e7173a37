//! What is checked: models, in which every promise holds, and removals, each with the promise that it breaks.

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
    pub constants: &'static [(&'static str, &'static str)],
    pub models: &'static [Model],
    pub removals: &'static [Removal],
    /// Rules without which nothing was seen to break, and why that is no surprise, or is not known yet.
    pub unshown: &'static [(&'static str, &'static str)],
}

/// Bounds within which every promise holds with every rule.
pub struct Model {
    pub title: &'static str,
    /// Promises that are not made in this world.
    pub excused: &'static [&'static str],
    pub set: &'static [(&'static str, &'static str)],
}

impl Model {
    /// What must hold in it.
    pub fn promises(&self, module: &Module) -> Vec<&'static str> {
        module.promises.iter().copied().filter(|promise| !self.excused.contains(promise)).collect()
    }
}

/// A rule, and the shortest way to what it closes.
pub struct Removal {
    /// The rule, and others that would close the same hole beside it. None: what the rules do not close.
    pub off: &'static [&'static str],
    pub set: &'static [(&'static str, &'static str)],
    pub breaks: &'static str,
    /// What happens.
    pub story: &'static str,
}

/// The constants of one run.
pub struct Constants(Vec<(&'static str, String)>);

impl Constants {
    /// Those of the module, changed by `set`, without these rules.
    ///
    /// # Panics
    /// When the module has no constant of a name.
    pub fn new(module: &Module, set: &[(&'static str, &'static str)], off: &[&str]) -> Self {
        let rules: Vec<String> = off.iter().map(|rule| format!("\"{rule}\"")).collect();
        let mut all: Vec<_> = module.constants.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
        for (name, value) in set {
            let present = all.iter_mut().find(|(present, _)| present == name);
            *present.map(|(_, value)| value).unwrap_or_else(|| panic!("{} has no {name}", module.name)) =
                (*value).to_owned();
        }
        all.push(("Off", format!("{{{}}}", rules.join(", "))));
        Self(all)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.0.iter().map(|(name, value)| (*name, &**value))
    }
}
