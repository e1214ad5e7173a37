//! Where things stand in the file: paths, and an index from paths to lines and columns.

use std::collections::BTreeMap;
use std::fmt;

use saphyr_parser::{Event, Marker, Parser, Span, StrInput};

/// Deeper nesting than this has no positions of its own; the YAML parser refuses it anyway.
const DEPTH_MAX: usize = 160;

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
        let mut segments = self.0.clone();
        segments.push(segment);
        Self(segments)
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Position {
    pub(super) line: usize,
    pub(super) column: usize,
}

impl From<Marker> for Position {
    fn from(marker: Marker) -> Self {
        Self { line: marker.line(), column: marker.col() + 1 }
    }
}

/// A key that a mapping has twice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Duplicate {
    pub(super) path: Path,
    pub(super) first: Position,
    pub(super) again: Position,
}

/// The positions of all values of a text.
#[derive(Debug, Default)]
pub(super) struct Positions {
    root: Spot,
    /// Keys given twice, which a parser that builds maps would hide.
    pub(super) duplicates: Vec<Duplicate>,
}

#[derive(Debug, Default)]
struct Spot {
    at: Option<Position>,
    children: BTreeMap<Segment, Spot>,
}

impl Positions {
    /// Indexes a text that the YAML parser has accepted. What the indexer cannot read simply has no position.
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
}
