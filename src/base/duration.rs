//! Durations as people write them: `500ms`, `15s`, `1.5s`, `1h30m`. Never a bare number, whose unit one would guess.
//!
//! The crates that parse durations accept more than this (`15 seconds`, `1M`, `P1D`), and every extra spelling is
//! another one that a chart, a schema and a reader must know.

use std::fmt;
use std::time::Duration;

/// The units from the largest to the smallest, in milliseconds.
const UNITS: [(&str, u64); 4] = [("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];
/// The longest duration that is read: 10,000 hours. Each field has narrower bounds of its own.
const MILLIS_MAX: u64 = 36_000_000_000;

/// Why a text is not a duration. The text tells what would be right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DurationError {
    /// A number alone.
    NoUnit,
    /// Nothing that looks like a duration.
    Malformed,
    /// A number with an unknown unit.
    UnknownUnit,
    /// `10s1m`, `1s1s`: larger units come first, each once.
    Order,
    /// Finer than a millisecond, which no store can keep.
    TooFine,
    /// Beyond 10,000 h.
    TooLong,
}

impl fmt::Display for DurationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoUnit => "has no unit; write seconds as `15s`, others as `500ms`, `2m`, `1h`",
            Self::Malformed => "is not a duration; write one such as `500ms`, `15s`, `1.5s`, `2m` or `1h30m`",
            Self::UnknownUnit => "has an unknown unit; the units are `ms`, `s`, `m` and `h`, as in `15s` or `1h30m`",
            Self::Order => "has its units in disorder; write the larger ones first and each once, as in `1h30m`",
            Self::TooFine => "is finer than a millisecond; write whole milliseconds, such as `2ms`",
            Self::TooLong => "is too long; no duration here may exceed 10000h",
        })
    }
}

impl std::error::Error for DurationError {}

/// Reads a duration: numbers with units, the larger units first; only the last number may have a fraction.
///
/// # Errors
/// See [`DurationError`].
pub fn parse(text: &str) -> Result<Duration, DurationError> {
    let mut rest = text;
    let mut units_left = &UNITS[..];
    let mut millis: u64 = 0;
    let mut fraction_seen = false;
    if rest.is_empty() {
        return Err(DurationError::Malformed);
    }
    while !rest.is_empty() {
        let number_len = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, after) = rest.split_at(number_len);
        let unit_len = after.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(after.len());
        let (unit, after) = after.split_at(unit_len);
        if number.is_empty() || fraction_seen {
            return Err(DurationError::Malformed);
        }
        if unit.is_empty() {
            let bare = after.is_empty() && number.len() == text.len();
            return Err(if bare { DurationError::NoUnit } else { DurationError::Malformed });
        }
        let Some(at) = units_left.iter().position(|(name, _)| *name == unit) else {
            let known = UNITS.iter().any(|(name, _)| *name == unit);
            return Err(if known { DurationError::Order } else { DurationError::UnknownUnit });
        };
        fraction_seen = number.contains('.');
        millis = millis.checked_add(scale(number, units_left[at].1)?).ok_or(DurationError::TooLong)?;
        units_left = &units_left[at + 1..];
        rest = after;
    }
    if millis > MILLIS_MAX { Err(DurationError::TooLong) } else { Ok(Duration::from_millis(millis)) }
}

/// `number` units of `unit_millis` each, exactly.
fn scale(number: &str, unit_millis: u64) -> Result<u64, DurationError> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    if whole.is_empty() || fraction.is_empty() || fraction.contains('.') {
        return Err(DurationError::Malformed);
    }
    let whole: u64 = whole.parse().map_err(|_| DurationError::TooLong)?;
    let fraction = match fraction.trim_end_matches('0') {
        "" => "0",
        digits if digits.len() > 9 => return Err(DurationError::TooFine),
        digits => digits,
    };
    // At most nine digits times an hour's milliseconds: far from overflow.
    let digits: u64 = fraction.parse().map_err(|_| DurationError::Malformed)?;
    let scaled = digits * unit_millis;
    let divisor = 10_u64.pow(u32::try_from(fraction.len()).map_err(|_| DurationError::TooFine)?);
    if !scaled.is_multiple_of(divisor) {
        return Err(DurationError::TooFine);
    }
    whole.checked_mul(unit_millis).and_then(|ms| ms.checked_add(scaled / divisor)).ok_or(DurationError::TooLong)
}

/// A duration of whole milliseconds as [`parse`] takes it, in the largest unit of which it is a whole number.
pub fn write(duration: Duration) -> String {
    let millis = duration.as_millis();
    let whole = UNITS.iter().find(|(_, unit)| millis.is_multiple_of(u128::from(*unit)));
    whole.map(|(name, unit)| format!("{}{name}", millis / u128::from(*unit))).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_written_in_their_largest_unit_and_read_back() {
        for text in ["100ms", "1500ms", "15s", "90s", "1m", "6m", "24h"] {
            assert_eq!(parse(text).map(write).as_deref(), Ok(text));
        }
    }

    #[test]
    fn durations_are_numbers_with_units() {
        for (text, ms) in [
            ("0s", 0),
            ("100ms", 100),
            ("15s", 15_000),
            ("1.5s", 1_500),
            ("1.50s", 1_500),
            ("0.001s", 1),
            ("2m", 120_000),
            ("1h", 3_600_000),
            ("1h30m", 5_400_000),
            ("1h30.5m", 5_430_000),
            ("1m500ms", 60_500),
            ("0.25h", 900_000),
            ("10000h", 36_000_000_000),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_millis(ms)), "{text}");
        }
    }

    #[test]
    fn everything_else_is_refused_for_its_own_reason() {
        use DurationError::{Malformed, NoUnit, Order, TooFine, TooLong, UnknownUnit};
        for (text, error) in [
            ("", Malformed),
            ("15", NoUnit),
            ("1.5", NoUnit),
            ("s", Malformed),
            ("-5s", Malformed),
            ("+5s", Malformed),
            ("15 s", Malformed),
            (" 15s", Malformed),
            ("1.s", Malformed),
            (".5s", Malformed),
            ("1.2.3s", Malformed),
            ("1h30", Malformed),
            ("1.5h30m", Malformed),
            ("1e3s", UnknownUnit),
            ("15sec", UnknownUnit),
            ("15S", UnknownUnit),
            ("1M", UnknownUnit),
            ("1d", UnknownUnit),
            ("30m1h", Order),
            ("1s1s", Order),
            ("1.5ms", TooFine),
            ("0.0001s", TooFine),
            ("0.00000000001h", TooFine),
            ("10001h", TooLong),
            ("99999999999999999999999s", TooLong),
            ("18446744073709551615h", TooLong),
            ("１５s", Malformed),
        ] {
            assert_eq!(parse(text), Err(error), "{text:?}");
        }
    }
}
