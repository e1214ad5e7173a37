//! The only file that knows `serde_yaml`, which is no longer developed: what replaces it replaces this.

use std::cell::Cell;

use serde::de::DeserializeSeed;

use super::node::{Node, NodeSeed};
use super::position::Position;

/// More values than any configuration has, few enough that a file full of aliases cannot fill the memory.
const VALUES_MAX: usize = 100_000;

/// Why a text is not one YAML document.
#[derive(Debug)]
pub(super) struct SyntaxError {
    pub(super) message: String,
    pub(super) at: Option<Position>,
}

/// Reads one YAML document, with aliases replaced by what they stand for.
///
/// # Errors
/// The first thing that is wrong with the syntax; a parser cannot know what follows it.
pub(super) fn parse(text: &str) -> Result<Node, SyntaxError> {
    if text.lines().all(|line| line.trim().is_empty() || line.trim_start().starts_with('#') || line.trim() == "---") {
        let message = "the file is empty: it needs at least `store` and `roles`".to_owned();
        return Err(SyntaxError { message, at: None });
    }
    let budget = Cell::new(VALUES_MAX);
    NodeSeed { budget: &budget }.deserialize(serde_yaml::Deserializer::from_str(text)).map_err(|error| {
        let at = error.location().map(|at| within(text, Position { line: at.line(), column: at.column() }));
        explain(text, &error.to_string(), at)
    })
}

/// At the end of a text that does not end with a line break, the parser names the line after the last.
fn within(text: &str, at: Position) -> Position {
    let last = text.matches(['\n', '\r', '\u{85}', '\u{2028}', '\u{2029}']).count() + 1;
    if at.line > last { Position { line: last, column: 1 } } else { at }
}

fn explain(text: &str, error: &str, at: Option<Position>) -> SyntaxError {
    if error.contains("more than one document") {
        let separator = text.lines().enumerate().filter(|(_, line)| line.starts_with("---")).last();
        return SyntaxError {
            message: "a second YAML document begins here; the configuration is one document, so join them".to_owned(),
            at: separator.map(|(index, _)| Position { line: index + 1, column: 1 }),
        };
    }
    let line = at.and_then(|at| text.lines().nth(at.line.saturating_sub(1)));
    let indented_by_tab = line.is_some_and(|line| line.chars().take_while(|c| c.is_whitespace()).any(|c| c == '\t'));
    let hint = if indented_by_tab { " (this line is indented with a tab; YAML wants spaces)" } else { "" };
    SyntaxError { message: format!("this is not YAML: {error}{hint}"), at }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> (usize, String) {
        let Err(error) = parse(text) else { panic!("{text:?} was read") };
        (error.at.map_or(0, |at| at.line), error.message)
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
    fn values_keep_what_was_written() {
        let Ok(Node::Map(map)) = parse("a: off\nb: false\nc: 15\nd: '15'\ne:\nf: !x 1\na: 2\n") else { panic!() };
        let kinds: Vec<(&str, &str)> = map.iter().map(|(key, value)| (key.as_str(), value.kind())).collect();
        let text = "a text";
        let expected = [("a", text), ("b", "true or false"), ("c", "a number"), ("d", text), ("e", "empty")];
        assert_eq!(kinds[..5], expected);
        assert_eq!(kinds[5..], [("f", "a tagged value"), ("a", "a number")], "a key given twice is kept");
    }
}
