//! Extending a lock, by the app's request or for as long as a connection lasts.

use std::sync::Arc;
use std::time::Duration;

use super::service::{ANSWER_SPAN, Extended, LockService, Refusal};
use crate::protocol::{ExtendReply, ExtendRequest, LockId, LockName, valid_span};
use crate::store::StoreError;
use crate::telemetry::{LockEvent, StoreCommand};

pub(super) async fn extend(
    service: &Arc<LockService>,
    name: LockName,
    id: LockId,
    lease: Option<Duration>,
) -> Result<Extended, Refusal> {
    let this = Arc::clone(service);
    let work = async move {
        let until = this.now() + ANSWER_SPAN;
        let extended = this.insist(until, || extend_once(&this, &name, id, lease)).await.map_err(Refusal::Store)?;
        let extended = extended.ok_or(Refusal::Lost)?;
        if extended.valid_until <= this.now() {
            return Err(Refusal::TooLate { lease: lease.unwrap_or(this.settings.lease) });
        }
        Ok(extended)
    };
    // A client that goes away leaves no extension that is not noted. The task is only lost when the runtime ends.
    service.upkeep.spawn(work).await.unwrap_or(Err(Refusal::ShuttingDown))
}

/// One request to extend a lock, with all that is known of it; none when it is gone.
pub(super) async fn extend_once(
    service: &LockService,
    name: &LockName,
    id: LockId,
    lease: Option<Duration>,
) -> Result<Option<Extended>, StoreError> {
    let asking = service.held.asking(id);
    let _alone = asking.lock().await;
    let sent_at = service.now();
    let known = service.held.get(id, sent_at);
    if known.is_none() && service.held.is_gone(id) {
        return Ok(None);
    }
    if known.as_ref().is_some_and(|lock| !lock.names.contains(name)) {
        return Ok(None);
    }
    let names = known.as_ref().map_or_else(|| vec![name.clone()], |lock| lock.names.clone());
    let seat = service.held.seat(id);
    // One that is given back meanwhile, or was held for long enough, is promised to nobody any more.
    let was_known = known.is_some();
    let restore = known.map(|lock| lock.restore(&service.settings.identity, sent_at));
    let (session, guard) = (service.session, service.settings.guard);
    let request = ExtendRequest { names, id, session, seat, lease, restore, guard };
    match service.timed(StoreCommand::LockExtend, service.store.extend(request)).await? {
        ExtendReply::Extended { token, lease, restored, .. } => {
            service.held.saw(token);
            let valid_until = sent_at + valid_span(lease);
            let valid_until = match service.held.extended(id, lease, valid_until) {
                Some(noted) => noted,
                None if was_known => return Ok(None),
                None => valid_until,
            };
            if restored {
                service.telemetry.record_lock(&LockEvent::Restored { name: name.clone(), token });
            }
            Ok(Some(Extended { lease, valid_until }))
        }
        ExtendReply::Lost => {
            service.held.lost(id, name);
            Ok(None)
        }
    }
}
