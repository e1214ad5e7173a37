//! The service's own task: hears wake-ups, gives signs of life while anybody waits, and forgets what is over.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::MissedTickBehavior;

use super::operator;
use super::release::{cancel_later, leave_queue};
use super::service::LockService;
use crate::base::Subscription;
use crate::protocol::TICKET_SPAN;
use crate::store::WakeNews;
use crate::telemetry::StoreCommand;

/// How often to look after what nobody waits for, and to give a sign of life: three times in the span that tickets
/// stand without one, with room for a round that is late.
const ROUND: Duration = Duration::from_millis(1_500);

pub(super) async fn listen(service: Arc<LockService>, wakes: Subscription<WakeNews>) {
    tokio::join!(hear(&service, wakes), look_after(&service));
}

async fn hear(service: &Arc<LockService>, mut wakes: Subscription<WakeNews>) {
    while let Some(news) = wakes.recv().await {
        match news {
            WakeNews::Gap => service.waiters.wake_all(),
            WakeNews::Unlocked { id, name } => operator::heard(service, id, &name),
            WakeNews::Wake { id, name } => {
                if service.waiters.wake(id) {
                    continue;
                }
                // The ticket of somebody unknown must go, or nobody behind it is woken.
                match service.held.get(id, service.now()) {
                    Some(lock) if !lock.was_passed => {}
                    // It has, or had, the lock in a turn: under this name the store may have the seat of that.
                    Some(_) => leave_queue(service, name, id),
                    None if service.held.is_gone(id) => leave_queue(service, name, id),
                    None => cancel_later(service, vec![name], id, TICKET_SPAN, false),
                }
            }
        }
    }
}

async fn look_after(service: &Arc<LockService>) {
    let mut rounds = tokio::time::interval(ROUND);
    rounds.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // When the last sign of life was sent that arrived, or when there was nobody to wait for.
    let mut beaten_at = service.now();
    loop {
        rounds.tick().await;
        let now = service.now();
        service.held.tidy(now);
        service.waiters.tidy(now);
        if service.waiters.count() == 0 {
            beaten_at = now;
        } else if service.timed(StoreCommand::LockBeat, service.store.beat(service.session)).await.is_ok() {
            if service.now().since(beaten_at) >= TICKET_SPAN {
                // The tickets have been thrown away meanwhile: whoever waits must take a new one.
                service.waiters.wake_all();
            }
            beaten_at = now;
        }
    }
}
