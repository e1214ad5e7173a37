//! Requests that Redis executes only while somebody waits for them: the locks' and the ledgers'. Those of leases need
//! no such bound, for they are about a term.

use parking_lot::Mutex;
use std::time::Duration;

use fred::types::Value;

use super::scripts::{Call, Fields, misunderstood};
use super::{Deadline, Done, RedisStore};
use crate::base::clock::{BootClock, Clock};
use crate::protocol::{Mono, StoreTime};
use crate::store::StoreError;

/// What is known of the store's clock. It tells each request until when it may be executed: one that was stuck on the
/// way, and whose sender has given it up since, must not be granted or queued to nobody.
///
/// That holds for clocks whose rates differ by less than 2 %. Where the store's clock steps forwards, or that of
/// another server which takes over is ahead, a request is late once, and then sent again with what its answer told;
/// where it steps backwards, requests are let in that much later, until the next answer.
#[derive(Debug, Default)]
pub(super) struct StoreClock(Mutex<Option<(Mono, StoreTime)>>);

impl StoreClock {
    /// A reply has come that was made at this moment.
    fn told(&self, store_time: StoreTime) {
        *self.0.lock() = Some((BootClock.now(), store_time));
    }

    /// The latest moment of the store's clock that is certainly not after ours, which is `left` from now; none when too
    /// little is known to leave most of that.
    fn latest(&self, left: Duration) -> Option<StoreTime> {
        let (heard_at, store_time) = (*self.0.lock())?;
        let now = BootClock.now();
        Self::in_time(store_time, now.since(heard_at), left)
    }

    /// The reply was on its way for a while, so the store's clock was further when we heard; and since then, and until
    /// the end, it may have gone slower than ours.
    fn in_time(store_time: StoreTime, age: Duration, left: Duration) -> Option<StoreTime> {
        let margin = (age + left) / 50;
        (margin < left / 4).then(|| store_time.plus(age + left - margin))
    }
}

/// A script's answer.
enum InTime {
    /// It has done what it should; its words are to be read.
    Done(Fields),
    /// It came too late, and has done nothing.
    Late,
}

/// Reads the first words of an answer, which say when it was made.
fn answer(reply: Value) -> Result<(StoreTime, InTime), StoreError> {
    let fields = Fields::new(reply)?;
    Ok((fields.store_time, if fields.name == "late" { InTime::Late } else { InTime::Done(fields) }))
}

/// The answer to TIME.
fn time_of(reply: Value) -> Result<StoreTime, StoreError> {
    let words: Vec<u64> = reply.convert().map_err(|_| misunderstood())?;
    match words[..] {
        [seconds, micros] => Ok(StoreTime(seconds.saturating_mul(1_000_000).saturating_add(micros))),
        _ => Err(misunderstood()),
    }
}

impl RedisStore {
    /// Runs a script that does nothing once its sender has given it up, and reads its answer. `call` makes it of that
    /// moment, in microseconds of the store's clock, which `clock` knows of the server that has this slot.
    pub(super) async fn run_in_time<'a, R>(
        &self,
        clock: &StoreClock,
        slot: u16,
        call: impl Fn(StoreTime) -> Call<'a> + Send + Sync,
        read: fn(Fields) -> Result<R, StoreError>,
    ) -> Result<Done<R>, StoreError> {
        let deadline = Deadline::after(self.settings.command_timeout);
        loop {
            let Some(latest) = clock.latest(deadline.left()) else {
                clock.told(self.time_at(slot, deadline).await?);
                continue;
            };
            let Done { reply, link, deadline, asking } = self.call(call(latest), deadline).await?;
            let (store_time, answer) = answer(reply)?;
            clock.told(store_time);
            match answer {
                InTime::Done(fields) => return Ok(Done { reply: read(fields)?, link, deadline, asking }),
                // It has done nothing, and now we know better: another server, or its clock was stepped.
                InTime::Late if deadline.is_ahead() => {}
                InTime::Late => return Err(StoreError::Unknown { after: self.settings.command_timeout }),
            }
        }
    }

    /// What the clock of the server that has this slot says.
    async fn time_at(&self, slot: u16, deadline: Deadline) -> Result<StoreTime, StoreError> {
        let link = self.routes.link(slot, deadline.left()).await?;
        let reply = link.command("TIME", Vec::new(), deadline.left()).await.map_err(|failure| failure.error)?;
        time_of(reply)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_request_is_let_in_after_its_senders_end_however_the_clocks_run() {
        let (told, second) = (StoreTime(1_760_000_000_000_000), Duration::from_secs(1));
        for age in [Duration::ZERO, second, second * 10] {
            let latest = StoreClock::in_time(told, age, second).unwrap();
            // A clock that is 1 % slow is here when the sender gives up.
            let slow = told.plus((age + second) * 99 / 100);
            assert!(latest <= slow && slow.since(latest) < second / 4, "{age:?}");
        }
        assert_eq!(StoreClock::in_time(told, second * 13, second), None, "asked anew");
    }
}
