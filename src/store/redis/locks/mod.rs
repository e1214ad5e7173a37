//! Locks in Redis: one atomic script per request, all keys in one slot.

mod wire;

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::mpsc;

use self::wire::{ACQUIRE, Answer, BEAT, CANCEL, CONFIRM, EXTEND, INSPECT, LockKeys, RELEASE};
use super::scripts::{Fields, Script};
use super::{Deadline, Done, RedisStore};
use crate::clock::{BootClock, Clock};
use crate::protocol::{
    AcquireReply, AcquireRequest, CancelRequest, ExtendReply, ExtendRequest, LockInsight, LockName, LockReleaseReply,
    LockReleaseRequest, Mono, SessionId, StoreTime,
};
use crate::store::{LockStore, StoreError, WakeNews};

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
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((BootClock.now(), store_time));
    }

    /// The latest moment of the store's clock that is certainly not after ours, which is `left` from now; none when too
    /// little is known to leave most of that.
    fn latest(&self, left: Duration) -> Option<StoreTime> {
        let (heard_at, store_time) = (*self.0.lock().unwrap_or_else(PoisonError::into_inner))?;
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

impl RedisStore {
    /// Runs a script of locks and reads its answer. Nothing is executed after the deadline.
    async fn run_lock<R>(
        &self,
        script: &Script,
        names: &[LockName],
        args: &[String],
        read: fn(Fields) -> Result<R, StoreError>,
    ) -> Result<Done<R>, StoreError> {
        let (keys, deadline) = (LockKeys::new(&self.prefix), Deadline::after(self.settings.command_timeout));
        loop {
            let Some(latest) = self.clock.latest(deadline.left()) else {
                self.ask_the_time(&keys, deadline).await?;
                continue;
            };
            let done = self.call(keys.call(script, names, args, Some(latest)), deadline).await?;
            let Done { reply, unconfirmed, link, deadline } = done;
            let (store_time, answer) = wire::answer(reply)?;
            self.clock.told(store_time);
            match answer {
                Answer::Done(fields) => return Ok(Done { reply: read(fields)?, unconfirmed, link, deadline }),
                // It has done nothing, and now we know better: another server, or its clock was stepped.
                Answer::Late if deadline.is_ahead() => {}
                Answer::Late => return Err(StoreError::Unknown { after: self.settings.command_timeout }),
            }
        }
    }

    /// As [`RedisStore::confirmed`], for the guard of all locks.
    async fn confirmed_lock<R>(&self, guard: Option<Duration>, done: Done<R>) -> Result<R, StoreError> {
        let args = wire::confirm_args(guard.unwrap_or_default());
        self.confirmed(LockKeys::new(&self.prefix).call(&CONFIRM, &[], &args, None), done).await
    }

    async fn ask_the_time(&self, keys: &LockKeys, deadline: Deadline) -> Result<(), StoreError> {
        let link = self.routes.link(keys.slot(), deadline.left()).await?;
        let reply = link.command("TIME", Vec::new(), deadline.left()).await.map_err(|failure| failure.error)?;
        self.clock.told(wire::time_of(reply)?);
        Ok(())
    }
}

#[async_trait]
impl LockStore for RedisStore {
    async fn acquire(&self, request: AcquireRequest) -> Result<AcquireReply, StoreError> {
        let args = wire::acquire_args(&request, self.replication.acks > 0);
        let done = self.run_lock(&ACQUIRE, &request.names, &args, wire::acquire_reply).await?;
        match done.reply {
            AcquireReply::Granted(_) => self.confirmed_lock(request.guard, done).await,
            AcquireReply::Guarded { .. } if done.unconfirmed => self.confirmed_lock(request.guard, done).await,
            _ => Ok(done.reply),
        }
    }

    async fn extend(&self, request: ExtendRequest) -> Result<ExtendReply, StoreError> {
        let args = wire::extend_args(&request, self.replication.acks > 0);
        let done = self.run_lock(&EXTEND, &request.names, &args, wire::extend_reply).await?;
        match done.reply {
            ExtendReply::Extended { .. } => self.confirmed_lock(request.guard, done).await,
            ExtendReply::Lost => Ok(done.reply),
        }
    }

    async fn release(&self, request: LockReleaseRequest) -> Result<LockReleaseReply, StoreError> {
        let args = wire::release_args(&request);
        Ok(self.run_lock(&RELEASE, &request.names, &args, wire::release_reply).await?.reply)
    }

    async fn cancel(&self, request: CancelRequest) -> Result<(), StoreError> {
        let args = wire::cancel_args(&request);
        self.run_lock(&CANCEL, &request.names, &args, wire::cancel_reply).await.map(|_| ())
    }

    async fn beat(&self, session: SessionId) -> Result<(), StoreError> {
        self.run_lock(&BEAT, &[], &[session.to_string()], wire::beat_reply).await.map(|_| ())
    }

    async fn inspect(&self, name: LockName) -> Result<LockInsight, StoreError> {
        Ok(self.run_lock(&INSPECT, &[name], &[], wire::inspect_reply).await?.reply)
    }

    fn wakes(&self, session: SessionId) -> mpsc::Receiver<WakeNews> {
        self.listeners.add(LockKeys::new(&self.prefix).wakes_of(session))
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
