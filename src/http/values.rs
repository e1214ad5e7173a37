//! Values in paths, queries and bodies, as every call of the app's listener reads them.

use std::fmt::Display;

use serde::Deserialize;

use super::problem::{Problem, ProblemKind};

/// The body is not what the call takes.
pub fn bad_body(detail: impl Into<String>) -> Problem {
    Problem::new(ProblemKind::BadBody, detail)
}

/// A parameter is not usable.
pub fn bad_parameter(detail: impl Into<String>) -> Problem {
    Problem::new(ProblemKind::BadParameter, detail)
}

/// A parameter has a value that is not usable. `what` says what would be right.
pub fn bad_value(name: &str, value: &str, what: impl Display) -> Problem {
    bad_parameter(format!("{name}={}: {what}", shown(value)))
}

/// The values in a query of the parameters that a call knows, as they are written and in the order of their names: none
/// for one that is left out, empty for one that has no value.
///
/// # Errors
/// [`ProblemKind::BadParameter`] if another is given, or one twice.
pub fn read_query<'a, const N: usize>(query: &'a str, known: [&str; N]) -> Result<[Option<&'a str>; N], Problem> {
    let mut values = [None; N];
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let Some(at) = known.iter().position(|known| *known == name) else {
            let (last, others) = known.split_last().unwrap_or((&"none", &[]));
            let list = if others.is_empty() { (*last).to_owned() } else { format!("{} and {last}", others.join(", ")) };
            return Err(bad_parameter(format!("{}: unknown; there are {list}", shown(name))));
        };
        if values[at].replace(value).is_some() {
            return Err(bad_parameter(format!("{name} is given twice")));
        }
    }
    Ok(values)
}

/// [`read_query`] of values that may be any text, without their encoding: as in a path, and a plus sign is a space.
///
/// # Errors
/// [`ProblemKind::BadParameter`], also if that is wrong.
pub fn read_encoded_query<const N: usize>(query: &str, known: [&str; N]) -> Result<[Option<String>; N], Problem> {
    let mut texts = [const { None }; N];
    for ((text, value), name) in texts.iter_mut().zip(read_query(query, known)?).zip(known) {
        let decoded = value.map(|value| decode_segment(&value.replace('+', " "))).transpose();
        *text = decoded.map_err(|why| bad_parameter(format!("{name}: {why}")))?;
    }
    Ok(texts)
}

/// A body in JSON, which may be left out.
///
/// # Errors
/// [`ProblemKind::BadBody`], with what is wrong and where.
pub fn read_body<'a, T: Default + Deserialize<'a>>(body: &'a [u8]) -> Result<T, Problem> {
    if body.trim_ascii().is_empty() {
        return Ok(T::default());
    }
    serde_json::from_slice(body).map_err(|error| bad_body(error.to_string()))
}

/// A segment of a path without its percent-encoding.
///
/// # Errors
/// What is wrong with it, in words.
pub fn decode_segment(text: &str) -> Result<String, &'static str> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let digit = |at: usize| after.get(at).and_then(|byte| char::from(*byte).to_digit(16));
        let (Some(high), Some(low)) = (digit(0), digit(1)) else {
            return Err("a percent sign is followed by two hexadecimal digits; the sign itself is written %25");
        };
        // Two hexadecimal digits are below 256.
        bytes.push(u8::try_from(high * 16 + low).unwrap_or(0));
        rest = &after[2..];
    }
    String::from_utf8(bytes).map_err(|_| "it is not UTF-8")
}

/// What a client sent, shortened: it may be anything.
pub fn shown(text: &str) -> String {
    text.chars().take(40).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percent_encoding_is_undone_exactly() {
        for (text, wanted) in [("a", "a"), ("a%2Fb", "a/b"), ("m%c3%bcller", "müller"), ("%25", "%"), ("a+b", "a+b")] {
            assert_eq!(decode_segment(text).as_deref(), Ok(wanted));
        }
        for bad in ["%", "%2", "%zz", "%ff", "%C3", "%+1"] {
            assert!(decode_segment(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_query_says_each_thing_that_is_known_once() {
        let read = |query| read_encoded_query(query, ["wait", "index", "hold"]);
        assert_eq!(read("").unwrap(), [None, None, None]);
        let [wait, index, hold] = read("&hold=a+b%2B%26c&wait").unwrap();
        assert_eq!((wait.as_deref(), index, hold.as_deref()), (Some(""), None, Some("a b+&c")));
        assert_eq!(read_query("a=a+b%2B", ["a"]).unwrap(), [Some("a+b%2B")]);
        for (bad, detail) in [
            ("wat=1", "wat: unknown; there are wait, index and hold"),
            ("=1", ": unknown; there are wait, index and hold"),
            ("wait=1&index=2&wait=1", "wait is given twice"),
            ("hold=%ff", "hold: it is not UTF-8"),
        ] {
            let problem = read(bad).unwrap_err();
            let told: serde_json::Value = serde_json::from_slice(&problem.to_json()).unwrap();
            assert_eq!((problem.kind(), &told["detail"]), (ProblemKind::BadParameter, &detail.into()));
        }
    }
}
