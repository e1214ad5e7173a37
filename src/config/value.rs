//! The kinds of values: what a text, a duration, a number, a word, a file or a list may be.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};

use super::secret::read_small;
use super::section::{Definitions, Kind, Preset, Reader, Shape, quoted};
use super::tree::Node;
use crate::base::duration::{self, DurationError};

/// What a reference to the environment looks like anywhere in a value.
const REFERENCE: &str = r"\$\{.+\}";

/// A DNS label, for editors.
pub(super) const LABEL: &str = "^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$";

/// The usual time after which something counts as unanswered, or half of that within which it must be, where that is
/// not longer.
pub(super) fn timeout_within(usual: Duration, period: Option<Duration>) -> Duration {
    period.filter(|period| *period <= usual).map_or(usual, |period| period / 2)
}

/// The schema of a text of this form, or one with a reference in it.
pub(super) fn text_like(pattern: &str) -> Value {
    json!({"type": "string", "pattern": format!("{pattern}|{REFERENCE}")})
}

/// The schema of what is no text, nor one of these texts, but may be a reference.
pub(super) fn or_reference(kind: &str, texts: &str) -> Value {
    json!({"type": [kind, "string"], "pattern": format!("{texts}^{REFERENCE}$")})
}

/// A text that is not empty, with what is roughly right for editors.
pub(super) struct Text(Option<&'static str>);

impl Text {
    pub(super) const ANY: Self = Self(None);

    pub(super) const fn like(pattern: &'static str) -> Self {
        Self(Some(pattern))
    }
}

impl Shape for Text {
    fn schema(&self, _: &mut Definitions) -> Value {
        self.0.map_or_else(|| json!({"type": "string", "minLength": 1}), text_like)
    }
}

impl Kind for Text {
    type Value<'a> = String;

    fn read<'a>(&self, at: &Reader<'a>) -> Option<String> {
        at.text().map(str::to_owned)
    }
}

impl Preset for Text {
    type Default = &'static str;

    fn written(&self, default: &'static str) -> Value {
        default.into()
    }
}

/// A text of a certain form.
pub(super) struct Form<T> {
    /// What is roughly right, for editors.
    pub(super) pattern: &'static str,
    /// What the text stands for, or what is wrong, in words that follow it.
    pub(super) parse: fn(&str) -> Result<T, String>,
}

impl<T: 'static> Shape for Form<T> {
    fn schema(&self, _: &mut Definitions) -> Value {
        text_like(self.pattern)
    }
}

impl<T: 'static> Kind for Form<T> {
    type Value<'a> = T;

    fn read<'a>(&self, at: &Reader<'a>) -> Option<T> {
        (self.parse)(at.text()?).map_err(|why| at.problem(format!("{} {why}", at.shown()))).ok()
    }
}

impl Preset for Form<String> {
    type Default = &'static str;

    fn written(&self, default: &'static str) -> Value {
        default.into()
    }
}

/// A duration with its unit.
pub(super) struct Span {
    min: Duration,
    max: Duration,
}

impl Span {
    /// Any, even none at all; the bounds are elsewhere.
    pub(super) const ANY: Self = Self { min: Duration::ZERO, max: Duration::MAX };
    pub(super) const POSITIVE: Self = Self { min: Duration::from_nanos(1), max: Duration::MAX };

    pub(super) const fn up_to(max: Duration) -> Self {
        Self { max, ..Self::POSITIVE }
    }

    pub(super) const fn between(min: Duration, max: Duration) -> Self {
        Self { min, max }
    }
}

impl Shape for Span {
    fn schema(&self, _: &mut Definitions) -> Value {
        text_like(r"^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$")
    }

    fn bounds(&self) -> Option<[String; 2]> {
        Some([self.min, self.max].map(duration::write))
    }
}

impl Kind for Span {
    type Value<'a> = Duration;

    fn read<'a>(&self, at: &Reader<'a>) -> Option<Duration> {
        let parsed = match at.node {
            Some(Node::Text { text, .. }) => duration::parse(text),
            Some(Node::Number(text)) => duration::parse(text).and(Err(DurationError::NoUnit)),
            _ => Err(DurationError::Malformed),
        };
        let given = parsed.map_err(|error| at.problem(format!("{} {error}", at.shown()))).ok()?;
        let [min, max] = [self.min, self.max].map(duration::write);
        let anything = self.min <= Self::POSITIVE.min;
        match given {
            _ if (self.min..=self.max).contains(&given) => return Some(given),
            Duration::ZERO if anything => at.problem("is zero; it must be longer"),
            _ if anything => at.problem(format!("is {given:?}; it must be at most {max}")),
            _ => at.problem(format!("is {given:?}; it must be between {min} and {max}")),
        }
        None
    }
}

impl Preset for Span {
    type Default = Duration;

    fn written(&self, default: Duration) -> Value {
        duration::write(default).into()
    }
}

/// A whole number in a range. A text is taken if it comes from the environment, where everything is a text.
pub(super) struct Count(pub(super) u32, pub(super) u32);

impl Shape for Count {
    fn schema(&self, _: &mut Definitions) -> Value {
        let mut schema = or_reference("integer", "");
        schema["minimum"] = self.0.into();
        schema["maximum"] = self.1.into();
        schema
    }

    fn bounds(&self) -> Option<[String; 2]> {
        Some([self.0, self.1].map(|bound| bound.to_string()))
    }
}

impl Kind for Count {
    type Value<'a> = u32;

    fn read<'a>(&self, at: &Reader<'a>) -> Option<u32> {
        let (text, counts) = match at.node {
            Some(Node::Number(text)) => (text.as_str(), true),
            Some(Node::Text { text, .. }) => (text.as_str(), at.is_from_environment()),
            _ => ("", false),
        };
        let number = if text.bytes().all(|b| b.is_ascii_digit()) { text.parse().ok() } else { None };
        let number = number.filter(|number| (self.0..=self.1).contains(number));
        if counts && number.is_some() {
            return number;
        }
        let (shown, Self(min, max)) = (at.shown(), self);
        let quotes = if number.is_some() { ", without quotes" } else { "" };
        at.problem(format!("{shown} is not right here; write a whole number from {min} to {max}{quotes}"));
        None
    }
}

impl Preset for Count {
    type Default = u32;

    fn written(&self, default: u32) -> Value {
        default.into()
    }
}

/// True or false. A text is taken if it comes from the environment.
pub(super) struct Flag;

impl Shape for Flag {
    fn schema(&self, _: &mut Definitions) -> Value {
        or_reference("boolean", "")
    }
}

impl Kind for Flag {
    type Value<'a> = bool;

    fn read<'a>(&self, at: &Reader<'a>) -> Option<bool> {
        let flag = match at.node {
            Some(Node::Bool(flag)) => Some(*flag),
            Some(Node::Text { text, source: Some(_) }) => text.parse().ok(),
            _ => None,
        };
        if flag.is_none() {
            at.problem(format!("{} is neither true nor false; write one of them", at.shown()));
        }
        flag
    }
}

impl Preset for Flag {
    type Default = bool;

    fn written(&self, default: bool) -> Value {
        default.into()
    }
}

/// One of a few words.
pub(super) struct Words<T: 'static> {
    words: &'static [(&'static str, T)],
    /// What `false` means, which YAML 1.1 tools, and people who think in it, make of `off`.
    off: Option<T>,
}

impl<T: Copy> Words<T> {
    pub(super) const fn of(words: &'static [(&'static str, T)]) -> Self {
        Self { words, off: None }
    }

    pub(super) const fn with_off(words: &'static [(&'static str, T)], off: T) -> Self {
        Self { words, off: Some(off) }
    }

    fn known(&self) -> Vec<&'static str> {
        self.words.iter().map(|(word, _)| *word).collect()
    }
}

impl<T: Copy + PartialEq> Shape for Words<T> {
    fn schema(&self, _: &mut Definitions) -> Value {
        let words = self.known().into_iter().map(Value::from).chain(self.off.map(|_| Value::from(false)));
        json!({"anyOf": [{"enum": words.collect::<Vec<_>>()}, {"type": "string", "pattern": REFERENCE}]})
    }
}

impl<T: Copy + PartialEq> Kind for Words<T> {
    type Value<'a> = T;

    fn read<'a>(&self, at: &Reader<'a>) -> Option<T> {
        let meaning = match at.node {
            Some(Node::Text { text, .. }) => self.words.iter().find(|(word, _)| word == text).map(|(_, it)| *it),
            Some(Node::Bool(false)) => self.off,
            _ => None,
        };
        if meaning.is_none() {
            let known = quoted(&self.known());
            at.problem(format!("{} is not known here; write one of {known}", at.shown()));
        }
        meaning
    }
}

impl<T: Copy + PartialEq> Preset for Words<T> {
    type Default = T;

    fn written(&self, default: T) -> Value {
        self.words.iter().find(|(_, meaning)| *meaning == default).map(|(word, _)| *word).into()
    }
}

/// The path of a file with a secret or a certificate, whose content this judges, in words that follow the path.
pub(super) struct File(pub(super) fn(&str) -> Result<(), &'static str>);

impl Shape for File {
    fn schema(&self, definitions: &mut Definitions) -> Value {
        Text::ANY.schema(definitions)
    }
}

impl Kind for File {
    type Value<'a> = PathBuf;

    fn read<'a>(&self, at: &Reader<'a>) -> Option<PathBuf> {
        let file = PathBuf::from(at.text()?);
        at.names_file(file.clone());
        let shown = file.display();
        match read_small(&file) {
            // As it will be read later: without the line break that editors and `echo` add.
            Ok(content) => match (self.0)(content.trim_end_matches(['\r', '\n'])) {
                Ok(()) => return Some(file),
                Err(why) => at.problem(format!("{shown} {why}")),
            },
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && at.environment().tolerates_absent_files() => {
                at.warning(format!("{shown} is not on this machine, so it was not checked"));
                return Some(file);
            }
            Err(error) => at.problem(format!("{shown} cannot be read: {error}; it must exist and be readable")),
        }
        None
    }
}

/// Judges a secret: there must be one.
pub(super) fn not_empty(content: &str) -> Result<(), &'static str> {
    if content.is_empty() { Err("is empty; it must hold the secret") } else { Ok(()) }
}

/// A list. It is read as the places of its items; how many there may be is judged by who reads it, in its own words.
pub(super) struct List<K> {
    pub(super) item: K,
    pub(super) min: usize,
    pub(super) max: usize,
}

impl<K: Kind> Shape for List<K> {
    fn schema(&self, definitions: &mut Definitions) -> Value {
        let mut schema = json!({"type": "array", "items": self.item.schema(definitions)});
        if self.min > 0 {
            schema["minItems"] = self.min.into();
        }
        if self.max < usize::MAX {
            schema["maxItems"] = self.max.into();
        }
        schema
    }

    fn inspect(&self, at: &Reader<'_>) {
        match at.node {
            Some(Node::List(_)) => at.items().iter().for_each(|item| item.inspect(&self.item)),
            Some(node) => at.problem(format!("is {}; write a list, each item after a `-`", node.kind())),
            None => {}
        }
    }
}

impl<K: Kind> Kind for List<K> {
    type Value<'a> = Vec<Reader<'a>>;

    fn read<'a>(&self, at: &Reader<'a>) -> Option<Vec<Reader<'a>>> {
        Some(at.items())
    }
}
