//! The fields of a cron expression: what each may hold, in one spelling.
//!
//! The library takes more than is good for a file that people write: an empty item, a name of a month where a day
//! belongs, `L` as a weekday. So each field is read here first, strictly, and told to the library in numbers.

use super::ScheduleError;

/// One of the fields, in the order of a 6-field expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Field {
    /// What messages call it.
    pub(super) name: &'static str,
    min: u8,
    /// What a `*` and a start without an end reach to.
    max: u8,
    /// The largest number that may be written: 7 is a Sunday, too.
    written_max: u8,
    /// Names for the numbers from `min` on.
    names: &'static [&'static str],
    /// What is right here, for messages.
    right: &'static str,
}

const MONTHS: &[&str] = &["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"];
const WEEKDAYS: &[&str] = &["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];

const fn field(name: &'static str, min: u8, max: u8, right: &'static str) -> Field {
    Field { name, min, max, written_max: max, names: &[], right }
}

/// Where the hours are in [`FIELDS`].
pub(super) const HOURS: usize = 2;
const DAYS: usize = 3;
const DAYS_OF_WEEK: usize = 5;

/// The fields, the seconds first.
pub(super) const FIELDS: [Field; 6] = [
    field("second", 0, 59, "0 to 59"),
    field("minute", 0, 59, "0 to 59"),
    field("hour", 0, 23, "0 to 23"),
    field("day of month", 1, 31, "1 to 31, L (the last day), LW (the last weekday) or 15W (the weekday nearest to it)"),
    Field { names: MONTHS, ..field("month", 1, 12, "1 to 12 or JAN to DEC") },
    Field {
        names: WEEKDAYS,
        written_max: 7,
        ..field("day of week", 0, 6, "0 to 7 or SUN to SAT, FRI#2 (the second Friday) or FRIL (the last one)")
    },
];

/// The six fields of an expression of five or six, each in one spelling: numbers, no `?`, and `*` for a field that
/// leaves nothing out.
///
/// # Errors
/// Another number of fields, or the first field that is not right.
pub(super) fn normal(expression: &str) -> Result<[String; 6], ScheduleError> {
    let mut words: Vec<&str> = expression.split_whitespace().collect();
    let count = words.len();
    if count == 5 {
        words.insert(0, "0");
    }
    let words: [&str; 6] = words.try_into().map_err(|_| ScheduleError::FieldCount { count })?;
    let mut fields: [String; 6] = Default::default();
    for (index, word) in words.iter().enumerate() {
        let wrong =
            || ScheduleError::Field { number: index + count - 5, name: FIELDS[index].name, right: FIELDS[index].right };
        fields[index] = normal_field(index, &word.to_ascii_uppercase()).ok_or_else(wrong)?;
    }
    Ok(fields)
}

fn normal_field(index: usize, word: &str) -> Option<String> {
    let items = word.split(',').map(|item| normal_item(index, item)).collect::<Option<Vec<String>>>()?;
    // An item that leaves nothing out makes the field one that leaves nothing out: Kubernetes reads `*,1` so.
    if items.iter().any(|item| item == "*") { Some("*".to_owned()) } else { Some(items.join(",")) }
}

fn normal_item(index: usize, item: &str) -> Option<String> {
    let field = &FIELDS[index];
    if let Some(special) = special(index, item) {
        return Some(special);
    }
    let (range, step) = match item.split_once('/') {
        Some((range, step)) => (range, Some(number(step).filter(|step| *step > 0)?)),
        None => (item, None),
    };
    let (from, to) = match range.split_once('-') {
        _ if range == "*" || range == "?" => {
            return Some(step.filter(|step| *step > 1).map_or("*".to_owned(), |step| format!("*/{step}")));
        }
        Some((from, to)) => (field.value(from)?, field.last_value(to)?),
        // As Kubernetes reads it, `5/15` goes on to the end.
        None => {
            let from = field.value(range)?;
            (from, if step.is_some() { field.max.max(from) } else { from })
        }
    };
    let good = from <= to && (u16::from(field.min)..=u16::from(field.written_max)).contains(&u16::from(from));
    let text = match step {
        Some(step) => format!("{from}-{to}/{step}"),
        None if from == to => from.to_string(),
        None => format!("{from}-{to}"),
    };
    good.then_some(text)
}

/// The days that depend on the month: `L`, `LW`, `15W`; `FRI#2`, `FRIL`.
fn special(index: usize, item: &str) -> Option<String> {
    let field = &FIELDS[index];
    match index {
        DAYS if item == "L" || item == "LW" => Some(item.to_owned()),
        DAYS => item.strip_suffix('W').and_then(|day| field.value(day)).map(|day| format!("{day}W")),
        DAYS_OF_WEEK => match item.split_once('#') {
            Some((day, nth)) => {
                let nth = number(nth).filter(|nth| (1..=5).contains(nth))?;
                Some(format!("{}#{nth}", field.value(day)? % 7))
            }
            None => item.strip_suffix('L').and_then(|day| field.value(day)).map(|day| format!("{}#L", day % 7)),
        },
        _ => None,
    }
}

impl Field {
    /// The number that a number or a name stands for.
    fn value(&self, text: &str) -> Option<u8> {
        let named = self.names.iter().zip(self.min..).find(|(name, _)| **name == text).map(|(_, number)| number);
        let number = number(text).and_then(|number| u8::try_from(number).ok());
        named.or(number.filter(|number| (self.min..=self.written_max).contains(number)))
    }

    /// The same at the end of a range, where a Sunday is the last day of the week.
    fn last_value(&self, text: &str) -> Option<u8> {
        if self.written_max > self.max && text == self.names[0] { Some(self.written_max) } else { self.value(text) }
    }
}

/// A plain number: digits only, so that `+5` is none.
fn number(text: &str) -> Option<u16> {
    if text.bytes().all(|byte| byte.is_ascii_digit()) { text.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_becomes_one() {
        for (expression, expected) in [
            ("* * * * *", "0 * * * * *"),
            ("? ? ? ? ?", "0 * * * * *"),
            ("*/1 */2 ? *,1 1-7", "0 * */2 * * 1-7"),
            ("  0  02\t* jan-Mar,12 mon-FRI ", "0 0 2 * 1-3,12 1-5"),
            ("5/15 * * * 5/2", "0 5-59/15 * * * 5-6/2"),
            ("0 0 L,15w lw sat-sun", "error month"),
            ("0 0 L,15w,LW * sat-sun", "0 0 0 L,15W,LW * 6-7"),
            ("0 0 * * 5#2,friL,7#1", "0 0 0 * * 5#2,5#L,0#1"),
            ("1-2/3 0 0 1 1 7", "1-2/3 0 0 1 1 7"),
        ] {
            let got = match normal(expression) {
                Ok(fields) => fields.join(" "),
                Err(ScheduleError::Field { name, .. }) => format!("error {name}"),
                Err(error) => panic!("{expression}: {error}"),
            };
            assert_eq!(got, expected, "{expression}");
        }
    }

    #[test]
    fn what_is_not_right_is_told_by_its_field() {
        for (expression, number, name) in [
            ("60 * * * *", 1, "minute"),
            ("-1 * * * *", 1, "minute"),
            ("+1 * * * *", 1, "minute"),
            (", * * * *", 1, "minute"),
            ("1,,2 * * * *", 1, "minute"),
            ("*/0 * * * *", 1, "minute"),
            ("/5 * * * *", 1, "minute"),
            ("*/5/5 * * * *", 1, "minute"),
            ("5-1 * * * *", 1, "minute"),
            ("L * * * *", 1, "minute"),
            ("1.5 * * * *", 1, "minute"),
            ("99999999999 * * * *", 1, "minute"),
            ("* 24 * * *", 2, "hour"),
            ("* MON * * *", 2, "hour"),
            ("* * 0 * *", 3, "day of month"),
            ("* * 32W * *", 3, "day of month"),
            ("* * * 13 *", 4, "month"),
            ("* * * JANUARY *", 4, "month"),
            ("* * * * 8", 5, "day of week"),
            ("* * * * FRI-MON", 5, "day of week"),
            ("* * * * L", 5, "day of week"),
            ("* * * * FRI#6", 5, "day of week"),
            ("* * * * +1", 5, "day of week"),
            ("60 * * * * *", 1, "second"),
            ("* 60 * * * *", 2, "minute"),
            ("* * * * * ä", 6, "day of week"),
        ] {
            let error = normal(expression).unwrap_err();
            let ScheduleError::Field { number: at, name: told, .. } = error else { panic!("{expression}: {error}") };
            assert_eq!((at, told), (number, name), "{expression}");
        }
        for (expression, count) in [("", 0), ("* * * *", 4), ("* * * * * * *", 7)] {
            assert_eq!(normal(expression), Err(ScheduleError::FieldCount { count }));
        }
    }
}
