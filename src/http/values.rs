//! Values in paths, queries and bodies, as every call of the app's listener reads them.

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

/// A value of a query without its encoding: as in a path, and a plus sign is a space.
///
/// # Errors
/// As [`decode_segment`].
pub fn decode_value(text: &str) -> Result<String, &'static str> {
    decode_segment(&text.replace('+', " "))
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
        assert_eq!(decode_value("a+b%2B").as_deref(), Ok("a b+"));
    }
}
