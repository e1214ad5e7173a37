//! Slots as tables of moments, and against a walk that looks at every minute.

use std::collections::BTreeSet;

use fastrand::Rng;
use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::*;

fn parse(expression: &str, zone: &str) -> Schedule {
    Schedule::parse(expression, Some(zone)).unwrap_or_else(|error| panic!("{expression} in {zone}: {error}"))
}

fn wall(utc: &str) -> Wall {
    let text = if utc.len() == "2026-03-29 01:00".len() { format!("{utc}:00Z") } else { format!("{utc}Z") };
    let at: Timestamp = text.replace(' ', "T").parse().unwrap_or_else(|error| panic!("{text}: {error}"));
    Wall::from_millis(u64::try_from(at.as_millisecond()).unwrap())
}

fn utc(at: Wall) -> String {
    let at = Timestamp::from_millisecond(i64::try_from(at.as_millis()).unwrap()).unwrap();
    at.strftime("%Y-%m-%d %H:%M:%S").to_string()
}

/// The slots after a moment.
fn slots(schedule: &Schedule, after: Wall) -> impl Iterator<Item = Wall> {
    std::iter::successors(schedule.next_after(after), |slot| schedule.next_after(*slot))
}

/// Expression, zone, the moment before, the slots after it: all in UTC.
type Row<'r> = (&'r str, &'r str, &'r str, &'r [&'r str]);

fn expect(rows: &[Row<'_>]) {
    for (expression, zone, after, expected) in rows {
        let got: Vec<String> = slots(&parse(expression, zone), wall(after)).take(expected.len()).map(utc).collect();
        let expected: Vec<String> = expected.iter().map(|slot| utc(wall(slot))).collect();
        assert_eq!(got, expected, "{expression} in {zone} after {after}");
    }
}

#[test]
fn expressions_mean_what_they_mean_to_kubernetes() {
    const SATURDAY: &str = "2026-11-21 15:30";
    expect(&[
        ("*/15 * * * *", "UTC", SATURDAY, &["2026-11-21 15:45", "2026-11-21 16:00", "2026-11-21 16:15"]),
        ("30 15 * * *", "UTC", SATURDAY, &["2026-11-22 15:30"]),
        ("*/20 * * * * *", "UTC", SATURDAY, &["2026-11-21 15:30:20", "2026-11-21 15:30:40", "2026-11-21 15:31"]),
        ("5/25 8 * * *", "UTC", SATURDAY, &["2026-11-22 08:05", "2026-11-22 08:30", "2026-11-22 08:55"]),
        ("0 0 * * 7", "UTC", SATURDAY, &["2026-11-22 00:00", "2026-11-29 00:00"]),
        ("0 0 * * SAT-SUN", "UTC", SATURDAY, &["2026-11-22 00:00", "2026-11-28 00:00"]),
        // A day of the month or a day of the week, when both are named; both, when one leaves nothing out.
        (
            "0 0 13 * FRI",
            "UTC",
            SATURDAY,
            &["2026-11-27 00:00", "2026-12-04 00:00", "2026-12-11 00:00", "2026-12-13 00:00"],
        ),
        ("0 0 ? * FRI", "UTC", SATURDAY, &["2026-11-27 00:00", "2026-12-04 00:00"]),
        ("0 0 */1 * FRI", "UTC", SATURDAY, &["2026-11-27 00:00", "2026-12-04 00:00"]),
        ("0 0 */20 * FRI", "UTC", SATURDAY, &["2026-11-27 00:00", "2026-12-01 00:00", "2026-12-04 00:00"]),
        ("0 0 29 2 *", "UTC", SATURDAY, &["2028-02-29 00:00", "2032-02-29 00:00"]),
        ("0 0 29 2 *", "UTC", "2096-03-01 00:00", &["2104-02-29 00:00"]),
        ("0 0 L * *", "UTC", SATURDAY, &["2026-11-30 00:00", "2026-12-31 00:00"]),
        (
            "0 0 15W * *",
            "UTC",
            SATURDAY,
            &[
                "2026-12-15 00:00",
                "2027-01-15 00:00",
                "2027-02-15 00:00",
                "2027-03-15 00:00",
                "2027-04-15 00:00",
                "2027-05-14 00:00",
            ],
        ),
        ("0 0 * * FRI#2", "UTC", SATURDAY, &["2026-12-11 00:00", "2027-01-08 00:00"]),
        ("0 0 * * 5L", "UTC", SATURDAY, &["2026-11-27 00:00", "2026-12-25 00:00"]),
        ("@hourly", "UTC", SATURDAY, &["2026-11-21 16:00", "2026-11-21 17:00"]),
        ("@daily", "UTC", SATURDAY, &["2026-11-22 00:00", "2026-11-23 00:00"]),
        ("@midnight", "UTC", SATURDAY, &["2026-11-22 00:00"]),
        ("@weekly", "UTC", SATURDAY, &["2026-11-22 00:00", "2026-11-29 00:00"]),
        ("@monthly", "UTC", SATURDAY, &["2026-12-01 00:00", "2027-01-01 00:00"]),
        ("@yearly", "UTC", SATURDAY, &["2027-01-01 00:00", "2028-01-01 00:00"]),
        ("@annually", "UTC", SATURDAY, &["2027-01-01 00:00"]),
        ("@daily", "Asia/Kolkata", SATURDAY, &["2026-11-21 18:30", "2026-11-22 18:30"]),
        // The multiples since 1970, in any zone: 90 s divide the hour, 7 s do not.
        ("@every 90s", "UTC", SATURDAY, &["2026-11-21 15:31:30", "2026-11-21 15:33"]),
        ("@every 1h30m", "Asia/Kolkata", SATURDAY, &["2026-11-21 16:30", "2026-11-21 18:00"]),
        ("@every 7s", "UTC", "1970-01-01 00:00", &["1970-01-01 00:00:07", "1970-01-01 00:00:14"]),
    ]);
}

#[test]
fn clocks_that_go_forward_lose_no_daily_slot_and_halt_no_interval() {
    expect(&[
        // Europe/Berlin, 29 March 2026, 02:00 -> 03:00 at 01:00 UTC.
        (
            "30 2 * * *",
            "Europe/Berlin",
            "2026-03-28 00:00",
            &["2026-03-28 01:30", "2026-03-29 01:00", "2026-03-30 00:30"],
        ),
        ("0 2 * * *", "Europe/Berlin", "2026-03-28 12:00", &["2026-03-29 01:00", "2026-03-30 00:00"]),
        ("0 3 * * *", "Europe/Berlin", "2026-03-28 12:00", &["2026-03-29 01:00", "2026-03-30 01:00"]),
        ("59 1 * * *", "Europe/Berlin", "2026-03-28 12:00", &["2026-03-29 00:59", "2026-03-29 23:59"]),
        // Several of one hour that does not exist come together, with what is due at its end anyway.
        (
            "*/20 2,3 * * *",
            "Europe/Berlin",
            "2026-03-28 12:00",
            &["2026-03-29 01:00", "2026-03-29 01:20", "2026-03-29 01:40", "2026-03-30 00:00"],
        ),
        (
            "*/30 * * * *",
            "Europe/Berlin",
            "2026-03-29 00:00",
            &["2026-03-29 00:30", "2026-03-29 01:00", "2026-03-29 01:30"],
        ),
        ("30 * * * *", "Europe/Berlin", "2026-03-29 00:00", &["2026-03-29 00:30", "2026-03-29 01:30"]),
        ("0 */2 * * *", "Europe/Berlin", "2026-03-28 22:30", &["2026-03-28 23:00", "2026-03-29 02:00"]),
        ("30 2 29 3 *", "Europe/Berlin", "2026-01-01 00:00", &["2026-03-29 01:00", "2027-03-29 00:30"]),
        // America/New_York, 8 March 2026, 02:00 -> 03:00 at 07:00 UTC.
        ("30 2 * * *", "America/New_York", "2026-03-07 12:00", &["2026-03-08 07:00", "2026-03-09 06:30"]),
        ("0 1 * * *", "America/New_York", "2026-03-07 12:00", &["2026-03-08 06:00", "2026-03-09 05:00"]),
        ("15,45 * * * *", "America/New_York", "2026-03-08 06:30", &["2026-03-08 06:45", "2026-03-08 07:15"]),
        // Australia/Lord_Howe, 4 October 2026, 02:00 -> 02:30 at 15:30 UTC of the day before.
        ("15 2 * * *", "Australia/Lord_Howe", "2026-10-02 16:00", &["2026-10-03 15:30", "2026-10-04 15:15"]),
        ("45 2 * * *", "Australia/Lord_Howe", "2026-10-03 00:00", &["2026-10-03 15:45", "2026-10-04 15:45"]),
        (
            "*/30 * * * *",
            "Australia/Lord_Howe",
            "2026-10-03 14:45",
            &["2026-10-03 15:00", "2026-10-03 15:30", "2026-10-03 16:00"],
        ),
        ("0 * * * *", "Australia/Lord_Howe", "2026-10-03 14:00", &["2026-10-03 14:30", "2026-10-03 16:00"]),
        // Midnight itself does not exist: Beirut, 29 March 2026; Sao Paulo, 4 November 2018.
        ("@daily", "Asia/Beirut", "2026-03-28 12:00", &["2026-03-28 22:00", "2026-03-29 21:00"]),
        ("@daily", "America/Sao_Paulo", "2018-11-03 12:00", &["2018-11-04 03:00", "2018-11-05 02:00"]),
        // Samoa had no 30 December 2011.
        (
            "0 12 * * *",
            "Pacific/Apia",
            "2011-12-29 12:00",
            &["2011-12-29 22:00", "2011-12-30 10:00", "2011-12-30 22:00"],
        ),
    ]);
}

#[test]
fn clocks_that_go_back_repeat_no_daily_slot_and_halt_no_interval() {
    expect(&[
        // Europe/Berlin, 25 October 2026, 03:00 -> 02:00 at 01:00 UTC.
        ("30 2 * * *", "Europe/Berlin", "2026-10-24 12:00", &["2026-10-25 00:30", "2026-10-26 01:30"]),
        ("0 2 * * *", "Europe/Berlin", "2026-10-24 12:00", &["2026-10-25 00:00", "2026-10-26 01:00"]),
        ("0 3 * * *", "Europe/Berlin", "2026-10-24 12:00", &["2026-10-25 02:00", "2026-10-26 02:00"]),
        (
            "*/20 2,3 * * *",
            "Europe/Berlin",
            "2026-10-25 00:10",
            &["2026-10-25 00:20", "2026-10-25 00:40", "2026-10-25 02:00", "2026-10-25 02:20"],
        ),
        // The same, asked for in the middle of the hour that comes again.
        ("30 2 * * *", "Europe/Berlin", "2026-10-25 01:10", &["2026-10-26 01:30"]),
        (
            "*/30 * * * *",
            "Europe/Berlin",
            "2026-10-25 00:00",
            &["2026-10-25 00:30", "2026-10-25 01:00", "2026-10-25 01:30", "2026-10-25 02:00"],
        ),
        (
            "30 * * * *",
            "Europe/Berlin",
            "2026-10-25 00:00",
            &["2026-10-25 00:30", "2026-10-25 01:30", "2026-10-25 02:30"],
        ),
        (
            "30 0-23 * * *",
            "Europe/Berlin",
            "2026-10-25 00:00",
            &["2026-10-25 00:30", "2026-10-25 01:30", "2026-10-25 02:30"],
        ),
        // America/New_York, 1 November 2026, 02:00 -> 01:00 at 06:00 UTC.
        ("30 1 * * *", "America/New_York", "2026-10-31 12:00", &["2026-11-01 05:30", "2026-11-02 06:30"]),
        ("0 2 * * *", "America/New_York", "2026-10-31 12:00", &["2026-11-01 07:00", "2026-11-02 07:00"]),
        (
            "45 * * * *",
            "America/New_York",
            "2026-11-01 05:00",
            &["2026-11-01 05:45", "2026-11-01 06:45", "2026-11-01 07:45"],
        ),
        // Australia/Lord_Howe, 5 April 2026, 02:00 -> 01:30 at 15:00 UTC of the day before.
        ("45 1 * * *", "Australia/Lord_Howe", "2026-04-04 00:00", &["2026-04-04 14:45", "2026-04-05 15:15"]),
        ("15 1 * * *", "Australia/Lord_Howe", "2026-04-04 00:00", &["2026-04-04 14:15", "2026-04-05 14:45"]),
        (
            "*/30 * * * *",
            "Australia/Lord_Howe",
            "2026-04-04 14:15",
            &["2026-04-04 14:30", "2026-04-04 15:00", "2026-04-04 15:30"],
        ),
        ("0 * * * *", "Australia/Lord_Howe", "2026-04-04 13:30", &["2026-04-04 14:00", "2026-04-04 15:30"]),
        // Sao Paulo, 18 February 2018, 00:00 -> 23:00 at 02:00 UTC: an hour of the day before comes again.
        ("30 23 * * *", "America/Sao_Paulo", "2018-02-17 12:00", &["2018-02-18 01:30", "2018-02-19 02:30"]),
        ("@daily", "America/Sao_Paulo", "2018-02-17 12:00", &["2018-02-18 03:00", "2018-02-19 03:00"]),
    ]);
}

#[test]
fn a_schedule_that_never_comes_is_refused() {
    for never in ["0 0 30 2 *", "0 0 31 2,4,6,9,11 *", "0 0 31W 2 *", "0 0 30-31 FEB ?"] {
        assert_eq!(Schedule::parse(never, None), Err(ScheduleError::Never), "{never}");
    }
    // Rare is not never: five Mondays in a February come every 28 years.
    expect(&[(
        "0 0 * 2 MON#5",
        "UTC",
        "2026-01-01 00:00",
        &["2044-02-29 00:00", "2072-02-29 00:00", "2112-02-29 00:00"],
    )]);
}

#[test]
fn what_is_wrong_is_told_without_the_text() {
    for (expression, zone, fragment) in [
        ("", None, "has 0 fields; write five"),
        ("* * * *", None, "has 4 fields"),
        ("0 0 1 1 * 2026 hunter2", None, "has 7 fields"),
        ("hunter2 * * * *", None, "field 1, the minute; write `*` or 0 to 59"),
        ("* * * * * hunter2", None, "field 6, the day of week"),
        ("@hunter2", None, "the names are @yearly"),
        ("@reboot", None, "a role, not to a machine"),
        ("@every", None, "interval that is not a duration"),
        ("@every hunter2", None, "interval that is not a duration"),
        ("@every 90", None, "interval that has no unit"),
        ("@every 1.5s", None, "whole seconds"),
        ("@every 0s", None, "whole seconds"),
        ("@every 500ms", None, "whole seconds"),
        ("@every -5s", None, "not a duration"),
        ("TZ=hunter2 0 2 * * *", None, "write the zone in `timeZone`"),
        ("CRON_TZ=UTC 0 2 * * *", None, "write the zone in `timeZone`"),
        ("0 2 * * *", Some("Europe/Berln"), "did you mean Europe/Berlin?"),
        ("0 2 * * *", Some("hunter2/hunter2/hunter2"), "is not a time zone; write the name of one"),
        ("@every 5s", Some("Europe/Berln"), "not a time zone"),
    ] {
        let told = Schedule::parse(expression, zone).unwrap_err().to_string();
        assert!(told.contains(fragment) && !told.contains("hunter2"), "{expression}: {told}");
    }
}

#[test]
fn the_name_changes_when_the_slots_do() {
    let name = |expression, zone| Schedule::parse(expression, zone).unwrap().name();
    assert_eq!(name("0 2 * * *", None), "0 0 2 * * * UTC");
    assert_eq!(name(" 0  2 ? * * ", Some("europe/berlin")), "0 0 2 * * * Europe/Berlin");
    assert_eq!(name("@every 1m30s", Some("Europe/Berlin")), "@every 90s");
    assert_eq!(parse("@hourly", "UTC"), parse("0 */1 * * *", "UTC"));
    assert_ne!(parse("@hourly", "UTC"), parse("@hourly", "Europe/Berlin"));
    assert_eq!(format!("{:?}", parse("@daily", "UTC")), "Schedule(0 0 0 * * * UTC)");
}

#[test]
fn any_moment_has_an_answer() {
    for expression in ["* * * * * *", "0 0 29 2 *", "0 0 1 1 *", "@every 1s", "@every 10000h", "30 2 * * *"] {
        for zone in ["UTC", "Europe/Berlin", "Pacific/Kiritimati", "America/Adak"] {
            let schedule = parse(expression, zone);
            assert!(schedule.next_after(Wall::from_millis(0)).is_some());
            for far in ["4999-12-31 23:59:59", "5000-01-01 00:00", "9999-12-30 22:00"] {
                let next = schedule.next_after(wall(far));
                assert!(next.is_none_or(|next| next > wall(far)), "{expression} after {far}: {next:?}");
            }
            let last = schedule.next_after(Wall::from_millis(u64::MAX));
            assert_eq!(last, None, "{expression}");
        }
    }
    assert_eq!(utc(parse("@daily", "UTC").next_after(wall("1970-01-01 00:00:00.001")).unwrap()), "1970-01-02 00:00:00");
    assert_eq!(utc(parse("@daily", "UTC").next_after(wall("1970-01-01 23:59:59.999")).unwrap()), "1970-01-02 00:00:00");
}

/// A random expression of five fields, and what its fields hold, built apart from the reader under test.
struct Random {
    text: String,
    minutes: BTreeSet<i8>,
    hours: BTreeSet<i8>,
    days: Option<BTreeSet<i8>>,
    months: BTreeSet<i8>,
    weekdays: Option<BTreeSet<i8>>,
}

fn random_field(dice: &mut Rng, min: i8, max: i8) -> (String, Option<BTreeSet<i8>>) {
    let (a, b) = (dice.i8(min..=max), dice.i8(min..=max));
    let (from, to, step) = (a.min(b), a.max(b), dice.i8(2..=9));
    let stepped = |from: i8, to: i8| (from..=to).step_by(usize::try_from(step).unwrap()).collect::<BTreeSet<i8>>();
    match dice.u8(0..6) {
        0 | 1 => ("*".to_owned(), None),
        2 => (format!("*/{step}"), Some(stepped(min, max))),
        3 => (format!("{from}-{to}"), Some((from..=to).collect())),
        4 => (format!("{from}-{to}/{step}"), Some(stepped(from, to))),
        _ => (format!("{b},{a}"), Some(BTreeSet::from([a, b]))),
    }
}

impl Random {
    fn new(dice: &mut Rng) -> Self {
        let (minute, minutes) = random_field(dice, 0, 59);
        let (hour, hours) = random_field(dice, 0, 23);
        let (day, days) = random_field(dice, 1, 31);
        let (month, months) = random_field(dice, 1, 12);
        let (weekday, weekdays) = random_field(dice, 0, 6);
        Self {
            text: format!("{minute} {hour} {day} {month} {weekday}"),
            minutes: minutes.unwrap_or((0..60).collect()),
            hours: hours.unwrap_or((0..24).collect()),
            days,
            months: months.unwrap_or((1..=12).collect()),
            weekdays,
        }
    }

    fn fits(&self, time: civil::DateTime) -> bool {
        let day = |days: &BTreeSet<i8>| days.contains(&time.day());
        let weekday = |days: &BTreeSet<i8>| days.contains(&time.weekday().to_sunday_zero_offset());
        let date = match (&self.days, &self.weekdays) {
            (Some(days), Some(weekdays)) => day(days) || weekday(weekdays),
            (days, weekdays) => days.as_ref().is_none_or(day) && weekdays.as_ref().is_none_or(weekday),
        };
        date && self.months.contains(&time.month())
            && self.hours.contains(&time.hour())
            && self.minutes.contains(&time.minute())
    }

    /// Whether the minute that begins at this moment is a slot, from the clocks alone.
    fn is_slot(&self, zone: &TimeZone, at: i64) -> bool {
        let offset = |at: i64| i64::from(zone.to_offset(Timestamp::from_second(at).unwrap()).seconds());
        let time = |local: i64| jiff::tz::Offset::UTC.to_datetime(Timestamp::from_second(local).unwrap());
        let by_clock = self.text.split(' ').nth(1).unwrap().starts_with('*') || self.hours.len() == 24;
        let local = at + offset(at);
        let came_before = || (1..=180).any(|minutes| at - minutes * 60 + offset(at - minutes * 60) == local);
        if self.fits(time(local)) && (by_clock || !came_before()) {
            return true;
        }
        let lost = (at - 60 + offset(at - 60) + 60)..local;
        !by_clock && lost.step_by(60).any(|local| self.fits(time(local)))
    }
}

#[test]
fn random_expressions_have_the_slots_that_a_walk_over_every_minute_finds() {
    /// Some days around the changes of these zones, in UTC.
    const CHANGES: [(&str, &str); 7] = [
        ("Europe/Berlin", "2026-03-28 20:00"),
        ("Europe/Berlin", "2026-10-24 20:00"),
        ("America/New_York", "2026-03-08 00:00"),
        ("America/New_York", "2026-11-01 00:00"),
        ("Australia/Lord_Howe", "2026-04-04 09:00"),
        ("Australia/Lord_Howe", "2026-10-03 09:00"),
        ("Asia/Beirut", "2026-03-28 16:00"),
    ];
    let mut found = 0;
    for seed in 0..210 {
        let mut dice = Rng::with_seed(seed);
        let random = Random::new(&mut dice);
        let (zone, from) = CHANGES[usize::try_from(seed).unwrap() % CHANGES.len()];
        let Ok(schedule) = Schedule::parse(&random.text, Some(zone)) else { continue };
        let zone = TimeZone::get(zone).unwrap();
        let from = i64::try_from(wall(from).as_millis()).unwrap() / 1_000 - 60;
        let walked: Vec<i64> =
            (from + 60..=from + 12 * 3_600).step_by(60).filter(|at| random.is_slot(&zone, *at)).collect();
        let after = Wall::from_millis(u64::try_from(from).unwrap() * 1_000);
        let told: Vec<i64> = slots(&schedule, after)
            .map(|slot| i64::try_from(slot.as_millis()).unwrap() / 1_000)
            .take_while(|at| *at <= from + 12 * 3_600)
            .collect();
        assert_eq!(told, walked, "seed {seed}: {} in {zone:?}", random.text);
        found += told.len();
    }
    assert!(found > 500, "only {found} slots");
}

#[test]
fn slots_rise_and_leave_none_out_wherever_one_asks() {
    const ZONES: [&str; 6] =
        ["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Africa/Casablanca", "Pacific/Apia"];
    for seed in 1_000..1_300 {
        let mut dice = Rng::with_seed(seed);
        let random = Random::new(&mut dice);
        let zone = ZONES[dice.usize(..ZONES.len())];
        let Ok(schedule) = Schedule::parse(&random.text, Some(zone)) else { continue };
        let after = Wall::from_millis(dice.u64(..4_000_000_000_000));
        let Some(next) = schedule.next_after(after) else { panic!("seed {seed}: {} ends", random.text) };
        assert!(next > after && next.as_millis().is_multiple_of(1_000), "seed {seed}: {after:?}, {next:?}");
        // Asked from anywhere in between, the answer is the same.
        for _ in 0..5 {
            let between = Wall::from_millis(dice.u64(after.as_millis()..next.as_millis()));
            let again = schedule.next_after(between);
            assert_eq!(again, Some(next), "seed {seed}: {} in {zone} after {between:?}", random.text);
        }
    }
}

#[test]
fn any_text_is_read_or_refused() {
    const WORDS: [&str; 24] = [
        "*", "?", "/", "-", ",", "#", "L", "W", "+", "@", "0", "1", "7", "12", "31", "60", "MON", "FRI", "JAN", " ",
        " ", " ", "\t", "99999",
    ];
    let mut read = 0;
    for seed in 0..5_000 {
        let mut dice = Rng::with_seed(seed);
        let mut text = Random::new(&mut dice).text;
        // None, one or two words too many, too few or other than they were.
        for _ in 0..dice.usize(..3) {
            let (at, end) = (dice.usize(..text.len()), dice.usize(..text.len()));
            text.replace_range(at..end.clamp(at, at + 2).min(text.len()), WORDS[dice.usize(..WORDS.len())]);
        }
        match Schedule::parse(&text, None) {
            Ok(schedule) => {
                read += 1;
                assert!(schedule.next_after(Wall::from_millis(1_000)).is_some(), "{text}");
            }
            Err(error) => assert_ne!(error, ScheduleError::Unreadable, "{text}"),
        }
    }
    assert!(read > 1_500, "{read} texts were schedules");
}

#[test]
fn the_shortest_time_between_two_slots_is_told() {
    for (expression, seconds) in [
        ("@every 7s", 7),
        ("@every 1h", 3_600),
        ("@daily", 86_400),
        ("0 2,14 * * *", 43_200),
        ("0 1,23 * * *", 7_200),
        ("30 2 * * 1", 86_400),
        ("* * * * *", 60),
        ("30 * * * * *", 60),
        ("* * * * * *", 1),
        ("*/5 * * * * *", 5),
        ("*/10 * * * * *", 10),
        ("0,20,29 * * * * *", 9),
        ("3,55 * * * * *", 8),
        ("3,55 0,59 * * * *", 8),
        ("3,55 0,2 * * * *", 52),
        ("0-30/15 0 2 * * *", 15),
    ] {
        let schedule = parse(expression, "UTC");
        assert_eq!(schedule.interval_min(), Duration::from_secs(seconds), "{expression}");
    }
}

#[test]
fn a_schedule_that_is_moved_has_all_of_its_slots_so_much_later() {
    for (expression, zone) in [("@every 90s", "UTC"), ("0 2 * * *", "Europe/Berlin"), ("*/7 * * * * *", "UTC")] {
        let (plain, moved) = (parse(expression, zone), parse(expression, zone).later_by(Duration::from_secs(17)));
        assert_eq!(moved.name(), format!("{} +17s", plain.name()));
        assert_ne!(moved, plain);
        // Across a change of clocks.
        let mut at = Wall::from_millis(1_774_700_000_000);
        for _ in 0..200 {
            let next = moved.next_after(at).unwrap();
            assert_eq!(plain.next_after(at.minus(Duration::from_secs(17))), Some(next.minus(Duration::from_secs(17))));
            assert!(next > at, "{expression}");
            at = next;
        }
        assert_eq!(moved.interval_min(), plain.interval_min());
    }
    assert_eq!(parse("@daily", "UTC").later_by(Duration::ZERO), parse("@daily", "UTC"));
}
