//! When a job is due: cron expressions in time zones, and fixed intervals.
//!
//! * [`fields`] reads the fields of an expression strictly; the library searches their calendar.
//! * [`local`] carries local times through the changes of a zone's clocks.
//! * [`offset_of`] tells how far a job's slots are moved that has a jitter.
//! * [`zone`] finds zones, on any image.
//!
//! A schedule keeps no state and reads no clock: every replica computes the same slots from the same text, and a slot
//! is the same after any restart.

mod fields;
mod jitter;
mod local;
#[cfg(test)]
mod tests;
mod zone;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use croner::parser::{CronParser, Seconds, Year};
use croner::{Cron, Weekday};
use jiff::civil;
use jiff::tz::TimeZone;

use crate::base::duration;
use crate::protocol::jobs::{Timetable, Wall};
pub use jitter::offset_of;
use local::Local;

/// The expressions that a name stands for, as Kubernetes reads them.
const MACROS: [(&str, &str); 7] = [
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
    ("@monthly", "0 0 1 * *"),
    ("@weekly", "0 0 * * 0"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@hourly", "0 * * * *"),
];
const EVERY: &str = "@every";
const DAY_S: u64 = 24 * 3_600;
const ZONE_PREFIXES: [&str; 2] = ["TZ=", "CRON_TZ="];

/// When a job is due. Two are equal when they have the same slots by the same words.
#[derive(Clone)]
pub struct Schedule {
    name: String,
    slots: Slots,
    /// How much later than these the slots are.
    offset: Duration,
}

#[derive(Clone)]
enum Slots {
    /// The multiples of so many milliseconds since the Unix epoch.
    Every(u64),
    Cron(Arc<Local>),
}

/// Why a text is not a schedule. Each is the end of a sentence that begins with the text, and holds nothing of it, for
/// it may come from the environment.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScheduleError {
    /// Neither five nor six fields.
    #[error(
        "has {count} fields; write five (minute, hour, day of month, month, day of week), six with the second before \
         them, or `@every 90s`"
    )]
    FieldCount {
        /// How many it has.
        count: usize,
    },
    /// A field that is not right.
    #[error(
        "is wrong in field {number}, the {name}; write `*` or {right}; lists as `1,2`, ranges as `1-5`, steps as `*/2`"
    )]
    Field {
        /// Which field, from one.
        number: usize,
        /// What it stands for.
        name: &'static str,
        /// What may stand there.
        right: &'static str,
    },
    /// Good fields that the library does not read.
    #[error("is beyond the cron library; write its fields more plainly")]
    Unreadable,
    /// Good fields without a day that fits them.
    #[error("never comes: no month that it names has such a day; name a day that there is")]
    Never,
    /// A word after `@` that stands for nothing.
    #[error(
        "is not known; the names are @yearly, @monthly, @weekly, @daily and @hourly, and `@every 90s` is every so often"
    )]
    Macro,
    /// `@reboot`
    #[error("has no meaning here: a job belongs to a role, not to a machine that starts; name times, or `@every 90s`")]
    Reboot,
    /// An interval that is no duration.
    #[error("has an interval that {0}")]
    Interval(#[from] duration::DurationError),
    /// An interval that is not whole seconds.
    #[error("has an interval that is not a number of whole seconds; write `@every 1s` or longer")]
    IntervalTooFine,
    /// A time zone before the fields.
    #[error("names its time zone in front; write the zone in `timeZone`")]
    ZonePrefix,
    /// A time zone that nobody knows.
    #[error("is not a time zone; {}", meant(nearest.as_deref()))]
    UnknownZone {
        /// The one that was probably meant.
        nearest: Option<String>,
    },
}

fn meant(nearest: Option<&str>) -> String {
    match nearest {
        Some(nearest) => format!("did you mean {nearest}?"),
        None => "write the name of one, such as Europe/Berlin".to_owned(),
    }
}

impl Schedule {
    /// Reads a schedule.
    ///
    /// * `expression`: cron with five fields (minute, hour, day of month, month, day of week) or six (the second before
    ///   them), a name such as `@daily`, or `@every` with an interval of whole seconds.
    /// * `time_zone`: the zone whose clocks a cron expression is about, by its IANA name; UTC when absent. The slots of
    ///   `@every` are the multiples of the interval since the Unix epoch, in any zone.
    ///
    /// # Errors
    /// What is wrong with it and what would be right, and that it never comes.
    pub fn parse(expression: &str, time_zone: Option<&str>) -> Result<Self, ScheduleError> {
        let expression = expression.trim();
        if ZONE_PREFIXES.iter().any(|prefix| expression.starts_with(prefix)) {
            return Err(ScheduleError::ZonePrefix);
        }
        let zone = time_zone.map_or(Ok(TimeZone::UTC), zone::named)?;
        match expression.split_once(char::is_whitespace) {
            Some((EVERY, interval)) => Self::every(interval.trim()),
            _ if expression.starts_with('@') => Self::cron(named(expression)?, zone),
            _ => Self::cron(expression, zone),
        }
    }

    fn every(interval: &str) -> Result<Self, ScheduleError> {
        let interval = duration::parse(interval)?;
        if interval.is_zero() || interval.subsec_nanos() > 0 {
            return Err(ScheduleError::IntervalTooFine);
        }
        let name = format!("{EVERY} {}s", interval.as_secs());
        let slots = Slots::Every(interval.as_secs().saturating_mul(1_000));
        Ok(Self { name, slots, offset: Duration::ZERO })
    }

    fn cron(expression: &str, zone: TimeZone) -> Result<Self, ScheduleError> {
        let fields = fields::normal(expression)?;
        let parser = CronParser::builder().seconds(Seconds::Required).year(Year::Disallowed).build();
        // Every field was looked at, so this is for an understanding that the library does not share.
        let cron = parser.parse(&fields.join(" ")).map_err(|_| ScheduleError::Unreadable)?;
        if !has_a_day(&cron) {
            return Err(ScheduleError::Never);
        }
        let name = format!("{} {}", fields.join(" "), zone.iana_name().unwrap_or("UTC"));
        let hours = cron.pattern.hours.values().len();
        let by_clock = fields[fields::HOURS].starts_with('*') || hours == 24;
        let slots = Slots::Cron(Arc::new(Local { cron, zone, by_clock }));
        Ok(Self { name, slots, offset: Duration::ZERO })
    }

    /// The same with every slot so much later, in whole seconds. Its name tells, for its slots are others.
    #[must_use]
    pub fn later_by(mut self, offset: Duration) -> Self {
        self.offset = Duration::from_secs(offset.as_secs());
        if !self.offset.is_zero() {
            self.name = format!("{} +{}s", self.name, self.offset.as_secs());
        }
        self
    }

    /// No two slots are nearer to each other than this. Of a cron expression this is a day at the most: what its days
    /// keep apart is not looked at, nor what a change of clocks does.
    pub fn interval_min(&self) -> Duration {
        let pattern = match &self.slots {
            Slots::Every(interval_ms) => return Duration::from_millis(*interval_ms),
            Slots::Cron(local) => &local.cron.pattern,
        };
        let (hours, minutes, seconds) = (pattern.hours.values(), pattern.minutes.values(), pattern.seconds.values());
        let minutes = hours.iter().flat_map(|hour| minutes.iter().map(move |minute| u64::from(hour * 60 + minute)));
        let times: Vec<u64> =
            minutes.flat_map(|minute| seconds.iter().map(move |second| minute * 60 + u64::from(*second))).collect();
        // From the last time of one day to the first of the next.
        let across = times.first().zip(times.last()).map(|(first, last)| DAY_S + first - last);
        let nearest = times.windows(2).map(|pair| pair[1] - pair[0]).chain(across).min();
        Duration::from_secs(nearest.unwrap_or(DAY_S))
    }

    /// The interval of an `@every`; none for a cron expression, whose slots come as they come.
    pub fn interval(&self) -> Option<Duration> {
        match self.slots {
            Slots::Every(interval_ms) => Some(Duration::from_millis(interval_ms)),
            Slots::Cron(_) => None,
        }
    }
}

/// What a name such as `@daily` stands for.
fn named(name: &str) -> Result<&'static str, ScheduleError> {
    match MACROS.iter().find(|(known, _)| *known == name) {
        Some((_, expression)) => Ok(expression),
        None if name == "@reboot" => Err(ScheduleError::Reboot),
        None if name == EVERY => Err(ScheduleError::Interval(duration::DurationError::Malformed)),
        None => Err(ScheduleError::Macro),
    }
}

/// Whether there is a day that fits. 28 years in a row without a turn of the century have every kind of year: each
/// weekday for its first of January, with and without a 29th of February.
fn has_a_day(cron: &Cron) -> bool {
    let fits = |date: civil::Date| {
        let (year, month, day) = (i32::from(date.year()), date.month().unsigned_abs(), date.day().unsigned_abs());
        let weekday = Weekday::from_days_from_sunday(u32::from(date.weekday().to_sunday_zero_offset().unsigned_abs()));
        cron.pattern.month_match(u32::from(month)).unwrap_or(false)
            && cron.pattern.day_match(year, u32::from(month), u32::from(day), weekday).unwrap_or(false)
    };
    civil::date(2001, 1, 1).series(jiff::Span::new().days(1)).take_while(|date| date.year() <= 2028).any(fits)
}

impl Schedule {
    /// The first slot after this moment, before it is moved.
    fn next_unmoved(&self, after: Wall) -> Option<Wall> {
        match &self.slots {
            Slots::Every(interval_ms) => {
                let number = after.as_millis() / interval_ms + 1;
                number.checked_mul(*interval_ms).map(Wall::from_millis)
            }
            Slots::Cron(local) => {
                let slot = local.slot_from(i64::try_from(after.as_millis() / 1_000 + 1).ok()?)?;
                u64::try_from(slot).ok()?.checked_mul(1_000).map(Wall::from_millis)
            }
        }
    }
}

impl Timetable for Schedule {
    fn next_after(&self, after: Wall) -> Option<Wall> {
        Some(self.next_unmoved(after.minus(self.offset))?.plus(self.offset))
    }

    fn name(&self) -> String {
        self.name.clone()
    }
}

impl fmt::Debug for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Schedule({})", self.name)
    }
}

impl PartialEq for Schedule {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Schedule {}
