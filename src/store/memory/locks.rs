//! MemoryLocks in this process: the reference itself, and who is told when one becomes free.

use parking_lot::MutexGuard;
use std::collections::HashMap;
use std::time::Duration;

use async_trait::async_trait;

use super::{GENERATION, MemoryStore};
use crate::base::Subscription;
use crate::base::subscription::Subscribers;
use crate::protocol::{
    AcquireReply, AcquireRequest, CancelRequest, ExtendReply, ExtendRequest, LockInsight, LockName, LockReleaseReply,
    LockReleaseRequest, LockSpace, Mono, Server, SessionId, StoreTime, UnlockReply, UnlockRequest, Unlocked, Wake,
};
use crate::store::{LockStore, StoreError, WakeNews};

/// How often old records are looked for.
const SWEEP_PERIOD: Duration = Duration::from_secs(60);
/// How many names one look for them tells.
const NAMES_TOLD: usize = 500;

#[derive(Debug, Default)]
pub(super) struct MemoryLocks {
    space: LockSpace,
    listeners: HashMap<SessionId, Subscribers<WakeNews>>,
    swept_at: Mono,
}

impl MemoryLocks {
    fn publish(&mut self, wakes: Vec<Wake>) {
        for Wake { session, id, name } in wakes {
            self.tell(session, &WakeNews::Wake { id, name });
        }
    }

    fn tell(&mut self, session: SessionId, news: &WakeNews) {
        if let Some(listeners) = self.listeners.get_mut(&session) {
            listeners.tell(news);
        }
    }

    /// Now and then: forgets names that nobody used for long, and listeners that are gone.
    fn sweep(&mut self, now: Mono, store_time: StoreTime) {
        if now.since(self.swept_at) < SWEEP_PERIOD {
            return;
        }
        self.swept_at = now;
        self.space.sweep(store_time);
        self.listeners.retain(|_, listeners| listeners.count() > 0);
    }
}

impl MemoryStore {
    fn locks(&self) -> MutexGuard<'_, MemoryLocks> {
        // The space is valid after every step, also after one that another thread panicked behind.
        self.locks.lock()
    }

    /// One atomic step, and the wakes that it publishes.
    fn lock_step<R>(&self, step: impl FnOnce(&mut LockSpace, Server<'_>) -> (R, Vec<Wake>)) -> R {
        let now = self.clock.now();
        // It has forgotten nothing at its start, so it is as if it had always been there: no guard (R5 *empty*).
        let server = Server { now: StoreTime(now.as_nanos() / 1_000), uptime: Duration::MAX, generation: GENERATION };
        let mut locks = self.locks();
        locks.sweep(now, server.now);
        let (reply, wakes) = step(&mut locks.space, server);
        locks.publish(wakes);
        reply
    }
}

#[async_trait]
impl LockStore for MemoryStore {
    async fn acquire(&self, request: AcquireRequest) -> Result<AcquireReply, StoreError> {
        self.lock_step(|space, server| match space.acquire(server, &request) {
            Ok((reply, wakes)) => (Ok(reply), wakes),
            Err(error) => (Err(error.into()), Vec::new()),
        })
    }

    async fn extend(&self, request: ExtendRequest) -> Result<ExtendReply, StoreError> {
        Ok(self.lock_step(|space, server| (space.extend(server, &request), Vec::new())))
    }

    async fn release(&self, request: LockReleaseRequest) -> Result<LockReleaseReply, StoreError> {
        Ok(self.lock_step(|space, server| space.release(server, &request)))
    }

    async fn cancel(&self, request: CancelRequest) -> Result<(), StoreError> {
        self.lock_step(|space, server| ((), space.cancel(server, &request)));
        Ok(())
    }

    async fn beat(&self, session: SessionId) -> Result<(), StoreError> {
        self.lock_step(|space, server| (space.beat(server, session), Vec::new()));
        Ok(())
    }

    async fn inspect(&self, name: LockName) -> Result<LockInsight, StoreError> {
        Ok(self.lock_step(|space, server| (space.inspect(server, &name), Vec::new())))
    }

    async fn unlock(&self, request: UnlockRequest) -> Result<UnlockReply, StoreError> {
        let (reply, unlocked) = self.lock_step(|space, server| {
            let (reply, unlocked, wakes) = space.unlock(server, &request);
            ((reply, unlocked), wakes)
        });
        for Unlocked { session, id, name } in unlocked {
            self.locks().tell(session, &WakeNews::Unlocked { id, name });
        }
        Ok(reply)
    }

    async fn names(&self, from: u64) -> Result<(Vec<LockName>, u64), StoreError> {
        Ok(self.lock_step(|space, _| (space.names(from, NAMES_TOLD), Vec::new())))
    }

    fn wakes(&self, session: SessionId) -> Subscription<WakeNews> {
        self.locks().listeners.entry(session).or_default().add(true)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;
    use crate::base::clock::Clock;
    use crate::base::subscription::BEHIND_MAX;
    use crate::protocol::{LockId, Queueing, RECORD_SPAN, Token};

    #[derive(Debug, Default)]
    struct Hand(AtomicU64);

    impl Clock for Hand {
        fn now(&self) -> Mono {
            Mono::from_nanos(self.0.load(Ordering::Relaxed))
        }
    }

    fn store() -> (Arc<Hand>, MemoryStore) {
        let clock = Arc::new(Hand::default());
        (Arc::clone(&clock), MemoryStore::new(clock))
    }

    fn ask(name: &str, id: u128) -> AcquireRequest {
        AcquireRequest {
            names: vec![LockName::new(name).unwrap()],
            session: SessionId::from_u128(id),
            id: LockId::from_u128(id),
            owner: Arc::from("worker"),
            beside: None,
            identity: Arc::from("web-0"),
            lease: Duration::from_secs(30),
            at_least: Duration::ZERO,
            permits: 1,
            floor: Token::NONE,
            queueing: Queueing::Fair,
            yields: false,
            reminds: false,
            tokens: 1,
            guard: Some(Duration::from_secs(30)),
        }
    }

    fn giving_back(name: &str, id: u128) -> LockReleaseRequest {
        let (names, id) = (vec![LockName::new(name).unwrap()], LockId::from_u128(id));
        LockReleaseRequest { names, id, session: SessionId::from_u128(1), seat: None }
    }

    #[tokio::test]
    async fn a_lock_is_granted_at_once_and_its_release_wakes_the_first_in_the_queue() {
        let (_, store) = store();
        let mut wakes = store.wakes(SessionId::from_u128(2));
        assert_eq!(wakes.try_recv(), Ok(WakeNews::Gap));
        assert!(matches!(store.acquire(ask("a", 1)).await, Ok(AcquireReply::Granted(_))));
        assert!(matches!(store.acquire(ask("a", 2)).await, Ok(AcquireReply::Held { .. })));
        assert!(wakes.try_recv().is_err(), "it is held");
        store.release(giving_back("a", 1)).await.unwrap();
        let name = LockName::new("a").unwrap();
        assert_eq!(wakes.try_recv(), Ok(WakeNews::Wake { id: LockId::from_u128(2), name }));
    }

    #[tokio::test]
    async fn who_does_not_read_its_wakes_hears_of_a_gap() {
        let (_, store) = store();
        let mut wakes = store.wakes(SessionId::from_u128(2));
        store.acquire(ask("a", 1)).await.unwrap();
        store.acquire(ask("a", 2)).await.unwrap();
        // Whoever leaves wakes the first in the queue, as long as the lock is free.
        for _ in 0..BEHIND_MAX + 10 {
            store.cancel(cancelling("a", 1)).await.unwrap();
        }
        let heard: Vec<WakeNews> = std::iter::from_fn(|| wakes.try_recv().ok()).collect();
        let gaps: Vec<usize> = (0..heard.len()).filter(|at| heard[*at] == WakeNews::Gap).collect();
        assert_eq!(gaps, [0, BEHIND_MAX], "of {} messages", heard.len());
        store.cancel(cancelling("a", 1)).await.unwrap();
        assert!(matches!(wakes.try_recv(), Ok(WakeNews::Wake { .. })));
    }

    fn cancelling(name: &str, id: u128) -> CancelRequest {
        let names = vec![LockName::new(name).unwrap()];
        CancelRequest { names, session: SessionId::from_u128(id), id: LockId::from_u128(id), keeps: false }
    }

    #[tokio::test]
    async fn names_that_nobody_uses_and_listeners_that_are_gone_are_forgotten() {
        let (clock, store) = store();
        store.acquire(AcquireRequest { queueing: Queueing::No, ..ask("a", 1) }).await.unwrap();
        store.release(giving_back("a", 1)).await.unwrap();
        drop(store.wakes(SessionId::from_u128(3)));
        let span = u64::try_from((ask("a", 1).lease + RECORD_SPAN).as_nanos()).unwrap();
        clock.0.fetch_add(span, Ordering::Relaxed);
        store.inspect(LockName::new("b").unwrap()).await.unwrap();
        let locks = store.locks();
        assert!(locks.listeners.is_empty());
        assert!(locks.space.is_empty());
    }
}
