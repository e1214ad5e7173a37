//! The file as a tree of values, each with its place in the text.
//!
//! The only file that knows `serde_yaml`, which is no longer developed: what replaces [`parse`] replaces it. That
//! parser decides what a text means; a second one only tells on which line each value stands.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt;

use saphyr_parser::{Event, Marker, Parser, Span, StrInput};
use serde::de::{DeserializeSeed, Deserializer, EnumAccess, Error, MapAccess, SeqAccess, VariantAccess, Visitor};

use super::problem::ConfigProblem;

/// More values than any configuration has, and more text than any file may have: few enough that a file full of aliases
/// cannot fill the memory.
const VALUES_MAX: usize = 100_000;
const TEXT_BYTES_MAX: usize = 4 << 20;
/// Deeper nesting than this has no positions of its own; the YAML parser refuses it anyway.
const DEPTH_MAX: usize = 160;

/// Any value. Mappings keep the order of their keys, and keys given twice. No `Debug`: it may be a secret.
pub(super) enum Node {
    Null,
    Bool(bool),
    /// A number, as it would be written.
    Number(String),
    Text {
        text: String,
        /// What the file has in its place, where a part of it comes from the environment.
        source: Option<String>,
    },
    List(Vec<Node>),
    Map(Vec<(String, Node)>),
    /// A value with a tag of its own (`!something`).
    Tagged,
}

impl Node {
    /// What JSON holds.
    pub(super) fn of_json(value: &serde_json::Value) -> Self {
        use serde_json::Value;
        match value {
            Value::Null => Self::Null,
            Value::Bool(flag) => Self::Bool(*flag),
            Value::Number(number) => Self::Number(number.to_string()),
            Value::String(text) => Self::Text { text: text.clone(), source: None },
            Value::Array(items) => Self::List(items.iter().map(Self::of_json).collect()),
            Value::Object(entries) => {
                Self::Map(entries.iter().map(|(key, value)| (key.clone(), Self::of_json(value))).collect())
            }
        }
    }

    /// What kind of value this is, for messages. Never the value itself, which may be a secret.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Null => "empty",
            Self::Bool(_) => "true or false",
            Self::Number(_) => "a number",
            Self::Text { .. } => "a text",
            Self::List(_) => "a list",
            Self::Map(_) => "a mapping",
            Self::Tagged => "a tagged value",
        }
    }
}

/// One step from a value to a value inside it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Segment {
    Key(String),
    Index(usize),
}

/// The way from the top of the file to a value: `roles[1].leaseDuration`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Path(Vec<Segment>);

impl Path {
    /// The value under `key`.
    pub(super) fn key(&self, key: &str) -> Self {
        self.with(Segment::Key(key.to_owned()))
    }

    /// The list item at `index`, counted from zero.
    pub(super) fn index(&self, index: usize) -> Self {
        self.with(Segment::Index(index))
    }

    /// Whether this is `other`, or a value inside it.
    pub(super) fn is_within(&self, other: &Self) -> bool {
        self.0.starts_with(&other.0)
    }

    fn with(&self, segment: Segment) -> Self {
        Self(self.0.iter().cloned().chain([segment]).collect())
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, segment) in self.0.iter().enumerate() {
            match segment {
                Segment::Index(index) => write!(f, "[{index}]")?,
                Segment::Key(key) => {
                    let dot = if at == 0 { "" } else { "." };
                    let plain = !key.is_empty()
                        && key.len() <= 64
                        && key.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-".contains(&b));
                    // An odd key is shown in a form that cannot be taken for a path, and at a bearable length.
                    if plain {
                        write!(f, "{dot}{key}")?;
                    } else {
                        write!(f, "{dot}{:?}", key.chars().take(64).collect::<String>())?;
                    }
                }
            }
        }
        Ok(())
    }
}

/// A place in the text, both counted from one; columns count characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Position {
    pub(super) line: usize,
    pub(super) column: usize,
}

impl From<Marker> for Position {
    fn from(marker: Marker) -> Self {
        Self { line: marker.line(), column: marker.col() + 1 }
    }
}

/// Reads one YAML document, with aliases replaced by what they stand for.
///
/// # Errors
/// The first thing that is wrong with the syntax; a parser cannot know what follows it.
pub(super) fn parse(text: &str) -> Result<Node, ConfigProblem> {
    if text.lines().all(|line| line.trim().is_empty() || line.trim_start().starts_with('#') || line.trim() == "---") {
        return Err(ConfigProblem::of_file("the file is empty: it needs at least `store` and `roles`".to_owned()));
    }
    let (values, text_bytes) = (Cell::new(VALUES_MAX), Cell::new(TEXT_BYTES_MAX));
    NodeSeed { values: &values, text_bytes: &text_bytes }.deserialize(serde_yaml::Deserializer::from_str(text)).map_err(
        |error| {
            let at = error.location().map(|at| within(text, Position { line: at.line(), column: at.column() }));
            explain(text, &error.to_string(), at)
        },
    )
}

/// At the end of a text that does not end with a line break, the parser names the line after the last.
fn within(text: &str, at: Position) -> Position {
    let last = text.matches(['\n', '\r', '\u{85}', '\u{2028}', '\u{2029}']).count() + 1;
    if at.line > last { Position { line: last, column: 1 } } else { at }
}

fn explain(text: &str, error: &str, at: Option<Position>) -> ConfigProblem {
    let problem = |at: Option<Position>, message: String| ConfigProblem {
        line: at.map(|at| at.line),
        column: at.map(|at| at.column),
        ..ConfigProblem::of_file(message)
    };
    if error.contains("more than one document") {
        let separator = text.lines().enumerate().filter(|(_, line)| line.starts_with("---")).last();
        let message = "a second YAML document begins here; the configuration is one document, so join them";
        return problem(separator.map(|(index, _)| Position { line: index + 1, column: 1 }), message.to_owned());
    }
    let line = at.and_then(|at| text.lines().nth(at.line.saturating_sub(1)));
    let indented_by_tab = line.is_some_and(|line| line.chars().take_while(|c| c.is_whitespace()).any(|c| c == '\t'));
    let hint = if indented_by_tab { " (this line is indented with a tab; YAML wants spaces)" } else { "" };
    problem(at, format!("this is not YAML: {error}{hint}"))
}

/// Builds a [`Node`], but of no more values and no more text than are left: aliases of aliases could make billions, and
/// aliases of a long text gigabytes.
#[derive(Clone, Copy)]
struct NodeSeed<'b> {
    values: &'b Cell<usize>,
    text_bytes: &'b Cell<usize>,
}

/// Takes `amount` from what is left of something.
fn spend<E: Error>(left: &Cell<usize>, amount: usize, what: &str) -> Result<(), E> {
    let rest = left.get().checked_sub(amount);
    left.set(rest.ok_or_else(|| E::custom(format_args!("too {what}, counting what aliases stand for")))?);
    Ok(())
}

impl<'de> DeserializeSeed<'de> for NodeSeed<'_> {
    type Value = Node;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Node, D::Error> {
        spend(self.values, 1, "many values")?;
        deserializer.deserialize_any(self)
    }
}

macro_rules! numbers {
    ($($visit:ident: $number:ty),*) => {$(
        fn $visit<E>(self, value: $number) -> Result<Node, E> {
            Ok(Node::Number(value.to_string()))
        }
    )*};
}

impl<'de> Visitor<'de> for NodeSeed<'_> {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Node, E> {
        Ok(Node::Bool(value))
    }

    numbers!(visit_i64: i64, visit_u64: u64, visit_i128: i128, visit_u128: u128, visit_f64: f64);

    fn visit_str<E: Error>(self, value: &str) -> Result<Node, E> {
        spend(self.text_bytes, value.len(), "much text")?;
        Ok(Node::Text { text: value.to_owned(), source: None })
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(Node::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Node, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(self)? {
            list.push(item);
        }
        Ok(Node::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Node, A::Error> {
        let mut map = Vec::new();
        while let Some((key, value)) = entries.next_entry_seed(self, self)? {
            let key = match key {
                Node::Text { text, .. } | Node::Number(text) => text,
                Node::Bool(value) => value.to_string(),
                Node::Null => "null".to_owned(),
                Node::List(_) | Node::Map(_) | Node::Tagged => "?".to_owned(),
            };
            map.push((key, value));
        }
        Ok(Node::Map(map))
    }

    fn visit_enum<A: EnumAccess<'de>>(self, tagged: A) -> Result<Node, A::Error> {
        let (_tag, inside) = tagged.variant_seed(self)?;
        inside.newtype_variant_seed(self)?;
        Ok(Node::Tagged)
    }
}

/// A key that a mapping has twice.
#[derive(Debug)]
pub(super) struct Duplicate {
    pub(super) path: Path,
    pub(super) first: Position,
    pub(super) again: Position,
}

/// The positions of all values of a text.
#[derive(Debug, Default)]
pub(super) struct Positions {
    root: Spot,
    pub(super) duplicates: Vec<Duplicate>,
}

#[derive(Debug, Default)]
struct Spot {
    at: Option<Position>,
    children: BTreeMap<Segment, Spot>,
}

impl Positions {
    /// Indexes a text that [`parse`] has accepted. What the indexer cannot read simply has no position.
    pub(super) fn of(text: &str) -> Self {
        let mut indexer = Indexer { parser: Parser::new_from_str(text), duplicates: Vec::new() };
        let mut root = Spot::default();
        while let Some((event, span)) = indexer.next() {
            if let Event::MappingStart(..) | Event::SequenceStart(..) = event {
                root = indexer.spot(&event, span, &Path::default(), 0).unwrap_or_default();
                break;
            }
        }
        Self { root, duplicates: indexer.duplicates }
    }

    /// Where the value's key stands, or the nearest thing around it that has a place: a value that came in by an
    /// alias is reported where the alias is, a missing key where its mapping begins.
    pub(super) fn find(&self, path: &Path) -> Option<Position> {
        let mut spot = &self.root;
        let mut found = spot.at;
        for segment in &path.0 {
            let Some(child) = spot.children.get(segment) else { break };
            found = child.at.or(found);
            spot = child;
        }
        found
    }
}

struct Indexer<'t> {
    parser: Parser<'t, StrInput<'t>>,
    duplicates: Vec<Duplicate>,
}

impl<'t> Indexer<'t> {
    fn next(&mut self) -> Option<(Event<'t>, Span)> {
        self.parser.next_event().and_then(Result::ok)
    }

    /// The spot of the value that `event` begins, read to its end. None at the end of what can be read.
    fn spot(&mut self, event: &Event<'t>, span: Span, path: &Path, depth: usize) -> Option<Spot> {
        let mut spot = Spot { at: Some(span.start.into()), children: BTreeMap::new() };
        if depth > DEPTH_MAX {
            return None;
        }
        #[expect(clippy::wildcard_enum_match_arm, reason = "the parser's events: the others have nothing inside")]
        match event {
            Event::MappingStart(..) => self.entries(&mut spot, path, depth)?,
            Event::SequenceStart(..) => self.items(&mut spot, path, depth)?,
            _ => {}
        }
        Some(spot)
    }

    fn entries(&mut self, spot: &mut Spot, path: &Path, depth: usize) -> Option<()> {
        loop {
            let (key_event, key_span) = self.next()?;
            #[expect(clippy::wildcard_enum_match_arm, reason = "the parser's events: a key that is no text")]
            let key = match &key_event {
                Event::MappingEnd => return Some(()),
                Event::Scalar(text, ..) => Some(text.as_ref().to_owned()),
                _ => {
                    self.spot(&key_event, key_span, path, depth + 1)?;
                    None
                }
            };
            let (event, span) = self.next()?;
            let child_path = path.key(key.as_deref().unwrap_or("?"));
            let mut child = self.spot(&event, span, &child_path, depth + 1)?;
            let again = Position::from(key_span.start);
            child.at = Some(again);
            let Some(key) = key else { continue };
            let segment = Segment::Key(key);
            if let Some(first) = spot.children.get(&segment).and_then(|first| first.at) {
                self.duplicates.push(Duplicate { path: child_path, first, again });
            } else {
                spot.children.insert(segment, child);
            }
        }
    }

    fn items(&mut self, spot: &mut Spot, path: &Path, depth: usize) -> Option<()> {
        for index in 0.. {
            let (event, span) = self.next()?;
            if event == Event::SequenceEnd {
                break;
            }
            let child = self.spot(&event, span, &path.index(index), depth + 1)?;
            spot.children.insert(Segment::Index(index), child);
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
# a comment
store:
  redis: { url: x, tls: {caFile: y} }
roles:
- name: a
  leaseDuration: 1s
- &b
  name: b
- *b
store: again
";

    fn at(positions: &Positions, path: &Path) -> (usize, usize) {
        let position = positions.find(path).unwrap();
        (position.line, position.column)
    }

    #[test]
    fn a_path_leads_to_its_key() {
        let positions = Positions::of(TEXT);
        let (root, roles) = (Path::default(), Path::default().key("roles"));
        assert_eq!(at(&positions, &root), (2, 1));
        assert_eq!(at(&positions, &root.key("store").key("redis").key("tls").key("caFile")), (3, 26));
        assert_eq!(at(&positions, &roles.index(0)), (5, 3));
        assert_eq!(at(&positions, &roles.index(0).key("leaseDuration")), (6, 3));
        assert_eq!(at(&positions, &roles.index(0).key("absent")), (5, 3), "what is missing is missing in the item");
        assert_eq!(at(&positions, &roles.index(2).key("name")), (9, 3), "what comes by an alias stands at the alias");
    }

    #[test]
    fn a_key_given_twice_is_seen() {
        let duplicates = Positions::of(TEXT).duplicates;
        assert_eq!(duplicates.len(), 1);
        assert_eq!(duplicates[0].path.to_string(), "store");
        assert_eq!((duplicates[0].first.line, duplicates[0].again.line), (2, 10));
    }

    #[test]
    fn paths_read_as_people_write_them() {
        let path = Path::default().key("roles").index(1).key("appCheck").key("httpGet");
        assert_eq!(path.to_string(), "roles[1].appCheck.httpGet");
        assert_eq!(Path::default().key("a.b").key("c d").to_string(), r#""a.b"."c d""#);
    }

    #[test]
    fn text_that_ends_in_the_middle_has_no_positions_and_no_panic() {
        assert!(Positions::of("a: [1, {b: ").find(&Path::default()).is_none());
        assert!(Positions::of("").find(&Path::default()).is_none());
    }

    fn refused(text: &str) -> (usize, String) {
        let Err(problem) = parse(text) else { panic!("{text:?} was read") };
        (problem.line.unwrap_or(0), problem.message)
    }

    #[test]
    fn syntax_errors_name_their_line() {
        for (text, line, fragment) in [
            ("a: 1\nb: [1, 2\nc: 3\n", 3, "not YAML"),
            ("a:\n\tb: 1\n", 2, "tab"),
            ("a: 1\n---\nb: 2\n", 2, "second YAML document"),
            ("", 0, "empty"),
            ("# nothing\n---\n\n", 0, "empty"),
            ("a: *nowhere\n", 1, "anchor"),
        ] {
            let (at, message) = refused(text);
            assert_eq!(at, line, "{text:?}: {message}");
            assert!(message.contains(fragment), "{text:?}: {message}");
        }
    }

    #[test]
    fn an_alias_of_aliases_cannot_fill_the_memory() {
        let mut text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
        for level in 1..9 {
            let inner = format!("*a{}", level - 1);
            text.push_str(&format!("a{level}: &a{level} [{}]\n", [inner.as_str(); 10].join(", ")));
        }
        let (_, message) = refused(&text);
        assert!(message.contains("too many values") || message.contains("repetition limit"), "{message}");
    }

    #[test]
    fn many_aliases_of_a_long_text_cannot_fill_the_memory() {
        let long = format!("a: &a {}\n", "x".repeat(500_000));
        let few = format!("{long}b: [{}]\n", ["*a"; 7].join(", "));
        assert!(parse(&few).is_ok());
        let many = format!("{long}b: [{}]\n", ["*a"; 100_000].join(", "));
        assert!(many.len() < 1 << 20, "a file may be so large");
        let (line, message) = refused(&many);
        assert!(message.contains("too much text, counting what aliases stand for"), "{message}");
        assert!(line <= 2, "{line}");
        let as_keys = format!("{long}b:\n{}", "- ? *a\n  : 1\n".repeat(40_000));
        assert!(as_keys.len() < 1 << 20 && refused(&as_keys).1.contains("too much text"));
    }

    #[test]
    fn values_keep_what_was_written() {
        let Ok(Node::Map(map)) = parse("a: off\nb: false\nc: 15\nd: '15'\ne:\nf: !x 1\na: 2\n") else { panic!() };
        let kinds: Vec<(&str, &str)> = map.iter().map(|(key, value)| (key.as_str(), value.kind())).collect();
        let text = "a text";
        let expected = [("a", text), ("b", "true or false"), ("c", "a number"), ("d", text), ("e", "empty")];
        assert_eq!(kinds[..5], expected);
        assert_eq!(kinds[5..], [("f", "a tagged value"), ("a", "a number")], "a key given twice is kept");
    }
}
