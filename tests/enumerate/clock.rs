//! True time, and clocks that are off by as much as is allowed.

use std::time::Duration;

use baton::protocol::{Mono, StoreTime};

/// True time since the start, in nanoseconds. Nobody in a world can read it.
pub type Nanos = u64;

pub const MS: Nanos = 1_000_000;
pub const SECOND: Nanos = 1_000 * MS;

pub fn nanos(span: Duration) -> Nanos {
    u64::try_from(span.as_nanos()).expect("seconds")
}

/// By how much a clock is fast, in parts per million.
pub type Ppm = i64;
pub const FAST: Ppm = 10_000;
pub const SLOW: Ppm = -10_000;

/// What a process' clock shows at the start.
const ORIGIN: i128 = 1_000 * SECOND as i128;
/// What the store's does, in microseconds.
const WALL: i128 = 1_700_000_000_000_000;

fn passed(rate: Ppm, now: Nanos) -> i128 {
    i128::from(now) + i128::from(now) * i128::from(rate) / 1_000_000
}

/// What the clock of a process shows.
pub fn shows(rate: Ppm, now: Nanos) -> Mono {
    Mono::from_nanos(u64::try_from(ORIGIN + passed(rate, now)).expect("after its origin"))
}

/// The first moment of true time at which it shows `at`, to the nanosecond: a promise and what waits for its end come
/// to the same.
pub fn when(rate: Ppm, at: Mono) -> Nanos {
    let about = (i128::from(at.as_nanos()) - ORIGIN) * 1_000_000 / i128::from(1_000_000 + rate);
    let soonest = u64::try_from(about - 2).unwrap_or(0);
    (soonest..).find(|now| shows(rate, *now) >= at).expect("some time")
}

/// What the store's clock shows: a fast one, so that leases end as early as they may.
pub fn store_shows(now: Nanos, stepped_by: i128) -> StoreTime {
    let wall = WALL + passed(FAST, now) / 1_000 + stepped_by / 1_000;
    StoreTime(u64::try_from(wall).expect("after 1970"))
}

/// The first moment of true time at which a span that the store counts from now is over.
pub fn store_when(now: Nanos, span: Duration) -> Nanos {
    now + u64::try_from(i128::from(nanos(span)) * 1_000_000 / i128::from(1_000_000 + FAST)).expect("small") + 1_000
}
