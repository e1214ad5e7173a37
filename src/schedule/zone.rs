//! Time zones by their IANA names.
//!
//! The rules are those of the system, if it has any; an image without `/usr/share/zoneinfo` uses those that Baton
//! brings along.

use jiff::tz::{TimeZone, TimeZoneDatabase};

use super::ScheduleError;

/// Files beside the zones that say other things on each machine, or count leap seconds.
const NOT_A_ZONE: [&str; 5] = ["localtime", "local", "posixrules", "posix/", "right/"];

/// The zone with this name, in any spelling of upper and lower case.
///
/// # Errors
/// There is none; with the one that was probably meant.
pub(super) fn named(name: &str) -> Result<TimeZone, ScheduleError> {
    let lower = name.to_ascii_lowercase();
    let barred =
        NOT_A_ZONE.iter().any(|barred| lower == *barred || (barred.ends_with('/') && lower.starts_with(barred)));
    let found = if barred { None } else { jiff::tz::db().get(name).or_else(|_| bundled().get(name)).ok() };
    match found.filter(|zone| !zone.is_unknown() && zone.iana_name().is_some()) {
        Some(zone) => Ok(zone),
        None => Err(ScheduleError::UnknownZone { nearest: nearest(&lower) }),
    }
}

/// The rules that come along, for what the system does not know.
fn bundled() -> TimeZoneDatabase {
    TimeZoneDatabase::bundled()
}

/// The name that was probably meant: the same city, or a near miss.
fn nearest(given: &str) -> Option<String> {
    // Longer names are noise, and comparing them is slow.
    if given.len() > 64 {
        return None;
    }
    let plain = |text: &str| text.to_ascii_lowercase().replace(['_', '-', ' '], "");
    let wanted = plain(given);
    let distance = |known: &str| {
        let known = plain(known);
        let city = known.rsplit('/').next().unwrap_or(&known);
        // A city alone is a worse match than a whole name.
        strsim::damerau_levenshtein(&wanted, &known).min(strsim::damerau_levenshtein(&wanted, city) + 1)
    };
    let database = bundled();
    let names = database.available().map(|name| (distance(name.as_str()), name.as_str().to_owned()));
    let (distance, name) = names.min()?;
    (distance * 3 <= given.len().max(3)).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_are_found_by_their_names() {
        for (given, name) in [
            ("Europe/Berlin", "Europe/Berlin"),
            ("europe/berlin", "Europe/Berlin"),
            ("UTC", "UTC"),
            ("Etc/UTC", "Etc/UTC"),
            ("Australia/Lord_Howe", "Australia/Lord_Howe"),
        ] {
            assert_eq!(named(given).unwrap().iana_name(), Some(name), "{given}");
            assert_eq!(bundled().get(given).unwrap().iana_name(), Some(name), "{given}, as in an image without zones");
        }
    }

    #[test]
    fn what_is_no_zone_is_told_with_the_one_that_was_meant() {
        for (given, meant) in [
            ("Europe/Berln", Some("Europe/Berlin")),
            ("Berlin", Some("Europe/Berlin")),
            ("America/New York", Some("America/New_York")),
            ("Lord Howe", Some("Australia/Lord_Howe")),
            ("Local", None),
            ("localtime", None),
            ("right/Europe/Berlin", Some("Europe/Berlin")),
            ("posixrules", None),
            ("Etc/Unknown", None),
            ("../../etc/passwd", None),
            ("/etc/localtime", None),
            ("UTC+2", None),
            ("+02:00", None),
            ("", None),
        ] {
            let Err(ScheduleError::UnknownZone { nearest }) = named(given) else { panic!("{given} is a zone") };
            if meant.is_some() {
                assert_eq!(nearest.as_deref(), meant, "{given}");
            }
        }
    }
}
