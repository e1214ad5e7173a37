//! What a section of the file is made of, and how it is read.
//!
//! A [`Section`] is a table of its [`Key`]s: name, kind of value with its bounds, default, and what editors are told.
//! Each is said there and nowhere else. From the tables come the check for unknown, missing and misplaced keys, the
//! reading of single values, and the JSON Schema. A [`Reader`] is a place in the file; a section's own file reads it
//! with its keys, and judges what concerns several of them.
//!
//! A value that is refused is reported and read as if it were absent, and whatever would be judged by it is not judged:
//! one mistake makes one problem.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::path::PathBuf;

use serde_json::{Map, Value, json};

use super::environment::Environment;
use super::problem::ConfigProblem;
use super::tree::{Node, Path, Positions};

/// The parts of the schema that others refer to.
pub(super) type Definitions = Map<String, Value>;

/// The longest part of a value that a message shows.
const SHOWN_MAX: usize = 60;

/// What may stand under a key, or in a list, as editors are told and as it is before it is read.
pub(super) trait Shape {
    /// Editors see the file as it is written: where a value may come from the environment, it may be a `${…}`.
    fn schema(&self, definitions: &mut Definitions) -> Value;

    /// Reports what has another shape.
    fn inspect(&self, at: &Reader<'_>) {
        match at.node {
            Some(Node::Null) => at.problem("has no value; give it one, or remove the key"),
            Some(node @ (Node::List(_) | Node::Map(_) | Node::Tagged)) => {
                at.problem(format!("is {}; write a single value", node.kind()));
            }
            Some(Node::Bool(_) | Node::Number(_) | Node::Text { .. }) | None => {}
        }
    }

    /// The least and the most, in the file's words: what `{min}` and `{max}` in a description stand for.
    fn bounds(&self) -> Option<[String; 2]> {
        None
    }
}

/// A kind of value.
pub(super) trait Kind: Shape {
    type Value<'a>;

    /// The value that stands there, of which [`Shape::inspect`] reports nothing. None, and a problem, if it is wrong.
    fn read<'a>(&self, at: &Reader<'a>) -> Option<Self::Value<'a>>;
}

/// A kind of which the table can state a default.
pub(super) trait Preset: Kind {
    type Default: Copy;

    /// The default as one would write it.
    fn written(&self, default: Self::Default) -> Value;
}

/// A value with a default.
pub(super) struct Or<K: Preset>(pub(super) K, pub(super) K::Default);

impl<K: Preset> Shape for Or<K> {
    fn schema(&self, definitions: &mut Definitions) -> Value {
        let mut schema = self.0.schema(definitions);
        schema["default"] = self.0.written(self.1);
        schema
    }

    fn inspect(&self, at: &Reader<'_>) {
        self.0.inspect(at);
    }

    fn bounds(&self) -> Option<[String; 2]> {
        self.0.bounds()
    }
}

impl<K: Preset> Kind for Or<K> {
    type Value<'a> = K::Value<'a>;

    fn read<'a>(&self, at: &Reader<'a>) -> Option<K::Value<'a>> {
        self.0.read(at)
    }
}

/// A key of a section.
pub(super) struct Key<K: ?Sized> {
    pub(super) name: &'static str,
    is_required: bool,
    doc: &'static str,
    pub(super) kind: K,
}

/// A key, whatever stands under it.
pub(super) type AnyKey = Key<dyn Shape>;

/// A key that may be absent. `doc` is for editors; `{min}` and `{max}` in it stand for the bounds.
pub(super) const fn key<K>(name: &'static str, kind: K, doc: &'static str) -> Key<K> {
    Key { name, is_required: false, doc, kind }
}

/// A key that must be there.
pub(super) const fn required<K>(name: &'static str, kind: K, doc: &'static str) -> Key<K> {
    Key { name, is_required: true, doc, kind }
}

impl AnyKey {
    fn doc(&self) -> String {
        match self.kind.bounds() {
            Some([min, max]) => self.doc.replace("{min}", &min).replace("{max}", &max),
            None => self.doc.to_owned(),
        }
    }

    fn schema(&self, definitions: &mut Definitions) -> Value {
        let mut schema = self.kind.schema(definitions);
        schema["description"] = self.doc().into();
        schema
    }
}

/// A mapping of the file.
pub(super) struct Section {
    /// Among the definitions of the schema.
    name: &'static str,
    doc: &'static str,
    keys: &'static [&'static AnyKey],
    rule: Rule,
}

/// What editors can be told of a section as a whole.
#[derive(Clone, Copy)]
pub(super) enum Rule {
    None,
    /// One of its keys stands in it, and no other.
    ExactlyOne,
    /// It may be written as a key with nothing after it.
    MayBeEmpty,
    /// Who has one of these has the other.
    Together(&'static str, &'static str),
}

impl Section {
    pub(super) const fn new(name: &'static str, doc: &'static str, keys: &'static [&'static AnyKey]) -> Self {
        Self { name, doc, keys, rule: Rule::None }
    }

    pub(super) const fn with(mut self, rule: Rule) -> Self {
        self.rule = rule;
        self
    }

    /// Reports every unknown, missing and misplaced key, here and in the sections below.
    fn inspect(&self, at: &Reader<'_>) {
        let entries: &[(String, Node)] = match (at.node, self.rule) {
            (Some(Node::Map(entries)), _) => entries,
            (Some(Node::Null), Rule::MayBeEmpty) | (None, _) => &[],
            (Some(node), _) => {
                let wanted = match self.keys {
                    [] => "{}".to_owned(),
                    _ => format!("a mapping with {}", self.listed()),
                };
                at.problem(format!("is {}; write {wanted}", node.kind()));
                return;
            }
        };
        for (name, value) in entries {
            let inside = Reader { node: Some(value), path: at.path.key(name), ..*at };
            match self.keys.iter().find(|key| key.name == name) {
                Some(key) => inside.inspect(&key.kind),
                None => inside.problem(self.unknown(name)),
            }
        }
        for key in self.keys.iter().filter(|key| key.is_required && !at.has(*key)) {
            let doc = key.doc();
            let what = doc.split(". ").next().unwrap_or(&doc).trim_end_matches('.');
            at.at(key).problem(format!("is missing; add it ({what})"));
        }
    }

    fn names(&self) -> Vec<&'static str> {
        let mut names: Vec<&str> = self.keys.iter().map(|key| key.name).collect();
        names.sort_unstable();
        names
    }

    fn listed(&self) -> String {
        match self.names().as_slice() {
            [only] => format!("the key `{only}`"),
            names => format!("some of the keys {}", quoted(names)),
        }
    }

    fn unknown(&self, name: &str) -> String {
        if name == "<<" {
            return "merging mappings with `<<` is not supported; repeat the keys".to_owned();
        }
        match nearest(name, &self.names()) {
            Some(near) => format!("unknown key; did you mean `{near}`?"),
            None if self.keys.is_empty() => "unknown key; there is nothing to set here".to_owned(),
            None => format!("unknown key; here belong {}", self.listed()),
        }
    }

    fn schema(&self, definitions: &mut Definitions) -> Value {
        let mut schema = json!({"type": "object", "description": self.doc, "additionalProperties": false});
        if !self.keys.is_empty() {
            let property = |key: &&AnyKey| (key.name.to_owned(), key.schema(definitions));
            schema["properties"] = self.keys.iter().map(property).collect::<Map<_, _>>().into();
        }
        let required: Vec<&str> = self.keys.iter().filter(|key| key.is_required).map(|key| key.name).collect();
        if !required.is_empty() {
            schema["required"] = json!(required);
        }
        match self.rule {
            Rule::None => {}
            Rule::ExactlyOne => {
                schema["minProperties"] = json!(1);
                schema["maxProperties"] = json!(1);
            }
            Rule::MayBeEmpty => schema["type"] = json!(["object", "null"]),
            Rule::Together(one, other) => schema["dependentRequired"] = json!({one: [other], other: [one]}),
        }
        schema
    }
}

/// The JSON Schema of a file whose mapping at the top is this.
pub(super) fn schema_of(section: &Section) -> Value {
    let mut definitions = Map::new();
    let mut schema = section.schema(&mut definitions);
    schema["$schema"] = json!("https://json-schema.org/draft/2020-12/schema");
    schema["title"] = json!(section.name);
    schema["$defs"] = definitions.into();
    schema
}

/// A section as what stands under a key.
pub(super) struct Group(pub(super) &'static Section);

impl Shape for Group {
    fn schema(&self, definitions: &mut Definitions) -> Value {
        let name = self.0.name;
        if !definitions.contains_key(name) {
            let section = self.0.schema(definitions);
            definitions.insert(name.to_owned(), section);
        }
        json!({"$ref": format!("#/$defs/{name}")})
    }

    fn inspect(&self, at: &Reader<'_>) {
        self.0.inspect(at);
    }
}

impl Kind for Group {
    type Value<'a> = Reader<'a>;

    fn read<'a>(&self, at: &Reader<'a>) -> Option<Reader<'a>> {
        Some(at.clone())
    }
}

/// What reading shares: the surroundings, and what was found so far.
pub(super) struct Checks<'e> {
    environment: &'e Environment,
    positions: Positions,
    found: RefCell<Found>,
}

#[derive(Default)]
pub(super) struct Found {
    /// What has a problem already.
    bad: BTreeSet<Path>,
    pub(super) problems: Vec<ConfigProblem>,
    pub(super) warnings: Vec<ConfigProblem>,
    /// The secret and certificate files that the configuration names.
    pub(super) files: Vec<PathBuf>,
}

impl<'e> Checks<'e> {
    pub(super) fn new(positions: Positions, environment: &'e Environment) -> Self {
        let checks = Self { environment, positions, found: RefCell::default() };
        for duplicate in &checks.positions.duplicates {
            let mut found = checks.found.borrow_mut();
            found.problems.push(ConfigProblem {
                path: duplicate.path.to_string(),
                line: Some(duplicate.again.line),
                column: Some(duplicate.again.column),
                message: format!("is given twice, first on line {}; keep one", duplicate.first.line),
            });
            found.bad.insert(duplicate.path.clone());
        }
        checks
    }

    fn problem(&self, path: &Path, message: String) {
        let problem = self.located(path, message);
        let mut found = self.found.borrow_mut();
        found.problems.push(problem);
        found.bad.insert(path.clone());
    }

    fn located(&self, path: &Path, message: String) -> ConfigProblem {
        let at = self.positions.find(path);
        ConfigProblem { path: path.to_string(), line: at.map(|at| at.line), column: at.map(|at| at.column), message }
    }

    /// Fills the environment in, everywhere. A text that cannot be expanded is reported.
    pub(super) fn expand(&self, node: &mut Node, path: &Path) {
        match node {
            Node::Text { text, source } => match self.environment.expand(text) {
                Ok(expanded) => {
                    let written = std::mem::replace(text, expanded.text);
                    *source = expanded.from_environment.then_some(written);
                }
                Err(message) => self.problem(path, message),
            },
            Node::List(items) => {
                items.iter_mut().enumerate().for_each(|(index, item)| self.expand(item, &path.index(index)));
            }
            Node::Map(entries) => entries.iter_mut().for_each(|(key, value)| self.expand(value, &path.key(key))),
            Node::Null | Node::Bool(_) | Node::Number(_) | Node::Tagged => {}
        }
    }

    /// The mapping at the top, in which every key is known and has a value of its shape, or a problem.
    pub(super) fn top<'a>(&'a self, node: &'a Node, section: &'static Section) -> Reader<'a> {
        let top = Reader { checks: self, node: Some(node), path: Path::default() };
        top.inspect(&Group(section));
        top
    }

    pub(super) fn into_found(self) -> Found {
        self.found.into_inner()
    }
}

/// A place in the file: a value, or where one would be.
#[derive(Clone)]
pub(super) struct Reader<'a> {
    checks: &'a Checks<'a>,
    pub(super) node: Option<&'a Node>,
    path: Path,
}

impl<'a> Reader<'a> {
    /// The place of a key.
    pub(super) fn at<K: ?Sized>(&self, key: &Key<K>) -> Self {
        let node = match self.node {
            Some(Node::Map(entries)) => entries.iter().find(|(name, _)| name == key.name).map(|(_, value)| value),
            _ => None,
        };
        Self { checks: self.checks, node, path: self.path.key(key.name) }
    }

    /// The places of a list's items.
    pub(super) fn items(&self) -> Vec<Self> {
        let Some(Node::List(items)) = self.node else { return Vec::new() };
        let item = |(index, node)| Self { checks: self.checks, node: Some(node), path: self.path.index(index) };
        items.iter().enumerate().map(item).collect()
    }

    /// Whether a key is written, rightly or not.
    pub(super) fn has<K: ?Sized>(&self, key: &Key<K>) -> bool {
        self.at(key).node.is_some()
    }

    /// What is written under a key, if it is and is right.
    pub(super) fn given<K: Kind>(&self, key: &Key<K>) -> Option<K::Value<'a>> {
        self.at(key).read(&key.kind)
    }

    /// What is written under a key, if it is and is right; else its default.
    pub(super) fn get<K: Preset>(&self, key: &Key<Or<K>>) -> K::Value<'a>
    where
        K::Value<'a>: From<K::Default>,
    {
        self.given(key).unwrap_or_else(|| key.kind.1.into())
    }

    /// What is written here, if it is right.
    pub(super) fn read<K: Kind>(&self, kind: &K) -> Option<K::Value<'a>> {
        if self.node.is_none() || self.is_bad() { None } else { kind.read(self) }
    }

    /// Reports what has not the shape of this kind, and is not reported yet.
    pub(super) fn inspect(&self, shape: &dyn Shape) {
        if !self.is_bad() {
            shape.inspect(self);
        }
    }

    /// A text that is not empty. Numbers are refused, for YAML may have changed them (`007`, `1e3`).
    pub(super) fn text(&self) -> Option<&'a str> {
        match self.node {
            Some(Node::Text { text, source }) if text.trim().is_empty() => {
                let from = if source.is_some() { " (after the environment was filled in)" } else { "" };
                self.problem(format!("is empty{from}; give it a value, or remove the key"));
                None
            }
            Some(Node::Text { text, .. }) => Some(text),
            Some(Node::Bool(_)) => {
                self.problem("is true or false where a text belongs; put it in quotes");
                None
            }
            _ => {
                self.problem("is a number where a text belongs; put it in quotes");
                None
            }
        }
    }

    /// The value for a message: never one from the environment, never one that could be a URL with a password.
    pub(super) fn shown(&self) -> String {
        match self.node {
            Some(Node::Text { source: Some(source), .. }) => format!("`{}` (from the environment)", shortened(source)),
            Some(Node::Text { text, .. }) if text.contains("://") => "the value".to_owned(),
            Some(Node::Text { text, .. } | Node::Number(text)) => format!("`{}`", shortened(text)),
            Some(Node::Bool(value)) => format!("`{value}`"),
            Some(Node::Null | Node::List(_) | Node::Map(_) | Node::Tagged) | None => "the value".to_owned(),
        }
    }

    /// Whether a part of the value comes from the environment.
    pub(super) fn is_from_environment(&self) -> bool {
        matches!(self.node, Some(Node::Text { source: Some(_), .. }))
    }

    /// Reports a problem of this value. The message must hold no secret.
    pub(super) fn problem(&self, message: impl Into<String>) {
        self.checks.problem(&self.path, message.into());
    }

    /// Reports a doubt: the configuration is good all the same.
    pub(super) fn warning(&self, message: impl Into<String>) {
        let warning = self.checks.located(&self.path, message.into());
        self.checks.found.borrow_mut().warnings.push(warning);
    }

    /// Whether a problem of exactly this value was reported.
    pub(super) fn is_bad(&self) -> bool {
        self.checks.found.borrow().bad.contains(&self.path)
    }

    /// Whether no problem was reported of this value, nor of one inside it.
    pub(super) fn is_sound(&self) -> bool {
        !self.checks.found.borrow().bad.iter().any(|bad| bad.is_within(&self.path))
    }

    /// Whether a problem of the value of one of these keys was reported.
    pub(super) fn any_bad(&self, keys: &[&AnyKey]) -> bool {
        keys.iter().any(|key| self.at(key).is_bad())
    }

    pub(super) fn environment(&self) -> &'a Environment {
        self.checks.environment
    }

    /// Remembers a file that the configuration names.
    pub(super) fn names_file(&self, file: PathBuf) {
        self.checks.found.borrow_mut().files.push(file);
    }
}

/// Words as messages list them.
pub(super) fn quoted(words: &[&str]) -> String {
    words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
}

fn shortened(text: &str) -> String {
    let shown: String = text.chars().take(SHOWN_MAX).flat_map(char::escape_debug).collect();
    if text.chars().count() > SHOWN_MAX { format!("{shown}…") } else { shown }
}

/// The known key that was probably meant: the same letters in another spelling, or a near miss.
fn nearest<'k>(name: &str, known: &[&'k str]) -> Option<&'k str> {
    // Longer keys are noise, and comparing them is slow.
    if name.len() > 64 {
        return None;
    }
    let plain = |text: &str| text.to_ascii_lowercase().replace(['_', '-', ' '], "");
    let distance = |known: &&'k str| (strsim::damerau_levenshtein(&plain(name), &plain(known)), *known);
    let (distance, known) = known.iter().map(distance).min()?;
    (distance * 3 <= known.len().max(3)).then_some(known)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_key_is_guessed_and_a_strange_one_is_not() {
        let known = ["appCheck", "leaseDuration", "name", "renewPeriod"];
        for (given, meant) in [
            ("lease_duration", Some("leaseDuration")),
            ("leaseduration", Some("leaseDuration")),
            ("leaseDuraton", Some("leaseDuration")),
            ("renew-period", Some("renewPeriod")),
            ("nmae", Some("name")),
            ("appcheck", Some("appCheck")),
            ("ttl", None),
            ("", None),
            ("priority", None),
        ] {
            assert_eq!(nearest(given, &known), meant, "{given}");
        }
    }
}
