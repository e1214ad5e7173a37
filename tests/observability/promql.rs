//! As much of PromQL as it takes to know which metrics and labels an expression speaks of. That it is PromQL at all is
//! for promtool to say.

use std::collections::BTreeSet;

/// Words that stand between operands.
const OPERATORS: &[&str] = &["and", "or", "unless", "offset", "bool"];
/// Words that a list of labels follows.
const GROUPINGS: &[&str] = &["by", "without", "on", "ignoring", "group_left", "group_right"];

/// A metric as an expression names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selector {
    pub metric: String,
    /// Its matchers as they stand.
    pub matchers: String,
    /// The labels of its matchers.
    pub labels: BTreeSet<String>,
    /// The function that it is the operand of, if it is one's: `rate` of `rate(x[5m])`.
    pub function: Option<String>,
}

/// What an expression speaks of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Words {
    pub selectors: Vec<Selector>,
    /// The labels that it groups and joins by.
    pub grouping: BTreeSet<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Word(String),
    Text(String),
    Mark(char),
}

fn tokens(expression: &str) -> Vec<Token> {
    let mut found = Vec::new();
    let mut rest = expression.chars().peekable();
    while let Some(first) = rest.next() {
        let mut text = first.to_string();
        match first {
            '"' | '\'' => {
                let mut last = ' ';
                while let Some(next) = rest.next_if(|next| *next != first || last == '\\') {
                    text.push(next);
                    last = next;
                }
                rest.next();
                found.push(Token::Text(text[1..].to_owned()));
            }
            _ if first.is_ascii_alphanumeric() || matches!(first, '_' | ':') => {
                while let Some(next) = rest.next_if(|next| next.is_ascii_alphanumeric() || matches!(next, '_' | ':')) {
                    text.push(next);
                }
                // The others are numbers and durations.
                if !first.is_ascii_digit() && text != ":" {
                    found.push(Token::Word(text));
                }
            }
            // How far back, and how often: `[5m:30s]`, or a variable of Grafana's.
            '[' => while rest.next_if(|next| *next != ']').is_some() {},
            _ if first.is_whitespace() => {}
            _ => found.push(Token::Mark(first)),
        }
    }
    found
}

/// Reads an expression.
pub fn words_of(expression: &str) -> Words {
    let tokens = tokens(expression);
    let mut words = Words::default();
    let mut at = 0;
    while at < tokens.len() {
        let Token::Word(word) = &tokens[at] else {
            at += 1;
            continue;
        };
        let next = tokens.get(at + 1);
        let to =
            |mark: char| tokens[at..].iter().position(|t| *t == Token::Mark(mark)).map_or(tokens.len(), |n| at + n);
        let is_aggregation = matches!(next, Some(Token::Word(next)) if GROUPINGS.contains(&next.as_str()));
        if GROUPINGS.contains(&word.as_str()) && next == Some(&Token::Mark('(')) {
            let end = to(')');
            words.grouping.extend(tokens[at + 1..end].iter().filter_map(|token| match token {
                Token::Word(label) => Some(label.clone()),
                _ => None,
            }));
            at = end;
        } else if OPERATORS.contains(&word.as_str())
            || GROUPINGS.contains(&word.as_str())
            || is_aggregation && !word.contains('_')
            || next == Some(&Token::Mark('('))
        {
            at += 1;
        } else {
            let end = if next == Some(&Token::Mark('{')) { to('}') } else { at };
            words.selectors.push(selector(&tokens, at, end));
            at = end + 1;
        }
    }
    words
}

/// The selector whose name is at `at`, and whose matchers end at `end`.
fn selector(tokens: &[Token], at: usize, end: usize) -> Selector {
    let Token::Word(metric) = &tokens[at] else { unreachable!("a name") };
    let mut found =
        Selector { metric: metric.clone(), matchers: String::new(), labels: BTreeSet::new(), function: None };
    for token in tokens.iter().take(end).skip(at + 2) {
        match token {
            Token::Word(label) => {
                found.labels.insert(label.clone());
                found.matchers += label;
            }
            Token::Text(text) => found.matchers += &format!("{text:?}"),
            Token::Mark(mark) => found.matchers.push(*mark),
        }
    }
    if let [.., Token::Word(function), Token::Mark('(')] = &tokens[..at] {
        found.function = Some(function.clone());
    }
    found
}

#[test]
fn metrics_labels_and_functions_are_seen() {
    let words = words_of(concat!(
        "sum by (role, pod) (rate(baton_a_total{job=~\"$job\", x!=\"}(\"}[5m])) / on (role) group_left () ",
        "max_over_time(b:c[$x:]) > 0.5 and up == bool 1 unless ",
        "label_replace(baton_leader offset 5m, \"to\", \"$1\", \"by\", \"(.+)\")",
    ));
    let metrics: Vec<&str> = words.selectors.iter().map(|selector| selector.metric.as_str()).collect();
    assert_eq!(metrics, ["baton_a_total", "b:c", "up", "baton_leader"]);
    let first = &words.selectors[0];
    assert_eq!(first.labels.iter().collect::<Vec<_>>(), ["job", "x"]);
    assert_eq!((first.matchers.as_str(), first.function.as_deref()), ("job=~\"$job\",x!=\"}(\"", Some("rate")));
    assert_eq!(words.selectors[2].function, None);
    assert_eq!(words.grouping.iter().collect::<Vec<_>>(), ["pod", "role"]);
}
