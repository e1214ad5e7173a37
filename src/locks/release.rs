//! Giving back: a hold of a lock that was granted, and a request that left. Both may be repeated, and are for as long
//! as it makes sense.

use std::sync::Arc;
use std::time::Duration;

use super::service::{ANSWER_SPAN, LockService, Refusal};
use super::turns::{Given, pass_on};
use crate::protocol::{
    CancelRequest, ExtendReply, ExtendRequest, LockId, LockName, LockReleaseReply, LockReleaseRequest, Mono, Restore,
    TICKET_SPAN,
};
use crate::store::StoreError;
use crate::telemetry::{LockEvent, StoreCommand};

/// After an answer that never came, how long a request may still be on its way: then it is cancelled once more.
const STRAY_SPAN: Duration = Duration::from_secs(2);

pub(super) async fn release(service: &Arc<LockService>, name: LockName, id: LockId) -> Result<(), Refusal> {
    if service.held.is_of_others(id, &name) {
        return Err(Refusal::Lost);
    }
    let giving = service.upkeep.spawn(give_back(Arc::clone(service), vec![name], id));
    match tokio::time::timeout(ANSWER_SPAN, giving).await {
        Ok(Ok(result)) => result,
        // The runtime ends.
        Ok(Err(_)) => Err(Refusal::ShuttingDown),
        Err(_) => Err(Refusal::Store(StoreError::Unknown { after: ANSWER_SPAN })),
    }
}

/// Gives a hold back. Tried until there is an answer, or the lease is over.
pub(super) async fn give_back(service: Arc<LockService>, names: Vec<LockName>, id: LockId) -> Result<(), Refusal> {
    let now = service.now();
    let mut request = LockReleaseRequest { names, id, session: service.session, seat: None };
    let (mut until, mut restore) = (now, None);
    let begun = service.held.begin_release(id, now);
    if begun.is_none() && service.held.is_gone(id) {
        // It was given back in a turn. By its id the store may know the turn, which others have now.
        return Ok(());
    }
    if let Some((known, passes)) = begun {
        until = known.valid_until;
        restore = (now < until).then(|| known.clone().restore(&service.settings.identity, now));
        let mut given = known.given();
        request.names = known.names;
        if let Some(name) = request.names.first()
            && passes
            && let Some(turn) = given.take()
        {
            match pass_on(&service, name, turn) {
                Ok(()) => {
                    service.telemetry.record_lock(&LockEvent::Released { name: name.clone() });
                    return Ok(());
                }
                Err(rest) => given = Some(rest),
            }
        }
        request.seat = given.as_ref().map(Given::seat);
        // An extension may be on its way.
        drop(known.asking.lock().await);
    }
    let release = || service.timed(StoreCommand::LockRelease, service.store.release(request.clone()));
    let mut reply = service.insist(until.max(now + ANSWER_SPAN), release).await;
    if matches!(reply, Ok(LockReleaseReply::NotHeld))
        && let Some(restore) = restore
        && put_back(&service, &request, restore, until).await
    {
        reply = service.insist(until.max(now + ANSWER_SPAN), release).await;
    }
    if let [name] = request.names.as_slice() {
        service.lines.wake_next(name);
    }
    match reply.map_err(Refusal::Store)? {
        LockReleaseReply::Released => {
            if let Some(name) = request.names.into_iter().next() {
                service.telemetry.record_lock(&LockEvent::Released { name });
            }
            Ok(())
        }
        LockReleaseReply::NotHeld => Err(Refusal::Lost),
    }
}

/// Puts back a hold that the store has forgotten while its promise stands (R4), so that it can be given back like any
/// other: its token stays known, and its app is not told that it was lost. Not if anybody came since; what has no
/// answer may be there.
async fn put_back(service: &LockService, request: &LockReleaseRequest, restore: Box<Restore>, until: Mono) -> bool {
    let LockReleaseRequest { ref names, id, session, ref seat } = *request;
    let (names, seat, guard) = (names.clone(), seat.clone(), service.settings.guard);
    let request = ExtendRequest { names, id, session, seat, lease: None, restore: Some(restore), guard };
    let extend = || service.timed(StoreCommand::LockExtend, service.store.extend(request.clone()));
    service.now() < until && !matches!(service.insist(until, extend).await, Ok(ExtendReply::Lost))
}

/// Takes away the ticket of a request that has the lock in a turn, or had it.
pub(super) fn leave_queue(service: &Arc<LockService>, name: LockName, id: LockId) {
    let this = Arc::clone(service);
    service.upkeep.spawn(async move {
        let request = CancelRequest { names: vec![name], session: this.session, id, keeps: true };
        let cancel = || this.timed(StoreCommand::LockCancel, this.store.cancel(request.clone()));
        let _ = this.insist(this.now() + TICKET_SPAN, cancel).await;
    });
}

/// Ends a request in the background: its tickets go, and what it was granted unseen is free. `unsure`: one of its
/// attempts had no answer and may still arrive after the cancellation, so there is a second one.
pub(super) fn cancel_later(
    service: &Arc<LockService>,
    names: Vec<LockName>,
    id: LockId,
    lease: Duration,
    unsure: bool,
) {
    if service.upkeep.is_swamped() {
        // What was granted ends by its lease, and a ticket is cancelled when it is woken.
        return;
    }
    let this = Arc::clone(service);
    service.upkeep.spawn(async move {
        let until = this.now() + lease.max(TICKET_SPAN);
        let request = CancelRequest { names, session: this.session, id, keeps: false };
        let cancel = || this.timed(StoreCommand::LockCancel, this.store.cancel(request.clone()));
        // What cannot be cancelled ends by its lease.
        let _ = this.insist(until, cancel).await;
        if unsure {
            tokio::select! {
                () = tokio::time::sleep(STRAY_SPAN) => {}
                () = this.upkeep.stopping() => {}
            }
            let _ = this.insist(until, cancel).await;
        }
    });
}
