//! What follows a grant: extend, release, cancel. Every one of them may be repeated; each is, as long as it makes
//! sense.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use super::handover::Turn;
use super::held::Entry;
use super::owner;
use super::service::{Core, Extended, LockDesk, Refusal};
use crate::protocol::{
    CancelRequest, ExtendReply, ExtendRequest, LockId, LockName, LockReleaseReply, LockReleaseRequest, Mono,
    TICKET_SPAN, valid_span,
};
use crate::store::StoreError;
use crate::telemetry::LockEvent;

/// How long an app waits for the answer to an extension or a release while the store does not answer.
const ANSWER_SPAN: Duration = Duration::from_secs(5);
/// After an answer that never came, how long a request may still be on its way: then it is cancelled once more.
const STRAY_SPAN: Duration = Duration::from_secs(2);

/// One attempt to extend a lock.
pub(super) enum Extension {
    /// It may be acted upon until then.
    Done(Extended),
    /// It is gone.
    Lost,
    /// No usable answer.
    Unknown(StoreError),
}

/// What became of a lock that its owner gave back by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ByOwner {
    /// It is released.
    Released,
    /// Nobody had it, or no longer when the release came.
    Absent,
    /// Others have it; it is left alone.
    Others,
}

impl LockDesk {
    /// Extends a lock by `lease`, or by what it was granted for. `name`: any of its names. One that this sidecar did
    /// not grant is extended by its name and id alone.
    ///
    /// # Errors
    /// [`Refusal::Lost`], [`Refusal::Store`] after some seconds of trying, [`Refusal::TooLate`].
    pub async fn extend(&self, name: LockName, id: LockId, lease: Option<Duration>) -> Result<Extended, Refusal> {
        let core = Arc::clone(&self.core);
        let work = async move {
            let until = core.now() + ANSWER_SPAN;
            let mut failures = 0;
            loop {
                let error = match core.extend_once(&name, id, lease).await {
                    Extension::Done(extended) if extended.valid_until <= core.now() => {
                        return Err(Refusal::TooLate { lease: lease.unwrap_or(core.settings.lease) });
                    }
                    Extension::Done(extended) => return Ok(extended),
                    Extension::Lost => return Err(Refusal::Lost),
                    Extension::Unknown(error) => error,
                };
                failures += 1;
                let pause = core.pause(failures);
                if core.now() + pause >= until {
                    return Err(Refusal::Store(error));
                }
                tokio::time::sleep(pause).await;
            }
        };
        self.core.chore(work).await?
    }

    /// Gives a lock back, or one of several holds of it; tells how many are left.
    ///
    /// # Errors
    /// [`Refusal::Lost`]; [`Refusal::Store`] after some seconds, and then it is tried on in the background.
    pub async fn release(&self, name: LockName, id: LockId) -> Result<u32, Refusal> {
        let core = &self.core;
        let now = core.now();
        let (names, turn, until) = {
            let mut table = core.table();
            let known = table.get(id, now).cloned();
            if known.as_ref().is_some_and(|entry| !entry.names.contains(&name)) {
                return Err(Refusal::Lost);
            }
            // From here on nothing puts it back.
            if known.as_ref().is_some_and(|entry| entry.holds <= 1) {
                table.remove(id);
            }
            let until = known.as_ref().map_or(now, |entry| entry.valid_until).max(now + ANSWER_SPAN);
            let turn = known.as_ref().and_then(Entry::last_turn);
            (known.map_or_else(|| vec![name], |entry| entry.names), turn, until)
        };
        core.count_held();
        let (outcome, told) = tokio::sync::oneshot::channel();
        let keeper = Arc::clone(core);
        core.start(async move {
            let result = keeper.give_back(names, id, turn, until).await;
            // Nobody may be waiting any more.
            let _ = outcome.send(result);
        });
        match tokio::time::timeout(ANSWER_SPAN, told).await {
            Ok(Ok(result)) => result,
            Ok(Err(_)) => Err(Refusal::ShuttingDown),
            Err(_) => Err(Refusal::Store(StoreError::Unknown { after: ANSWER_SPAN })),
        }
    }
}

impl LockDesk {
    /// Gives back a lock that this owner took once ([`super::Want::once`]), through whichever sidecar. What is
    /// released is the id that was found under its name: a lock that is another's by then is left alone, however late
    /// this comes.
    ///
    /// # Errors
    /// [`Refusal::Store`]; while a release is not answered, it is tried on in the background.
    pub async fn release_by_owner(&self, name: LockName, owner: &str) -> Result<ByOwner, Refusal> {
        let insight = self.inspect(name.clone()).await?;
        let found = insight.holders.iter().find_map(|holder| owner::id_of_once(&holder.owner, owner));
        let Some(id) = found else {
            return Ok(if insight.holders.is_empty() { ByOwner::Absent } else { ByOwner::Others });
        };
        match self.release(name, id).await {
            Ok(_) => Ok(ByOwner::Released),
            Err(Refusal::Lost) => Ok(ByOwner::Absent),
            Err(refusal) => Err(refusal),
        }
    }
}

impl Core {
    /// One request to extend a lock, with all that is known of it.
    pub(super) async fn extend_once(&self, name: &LockName, id: LockId, lease: Option<Duration>) -> Extension {
        let sent_at = self.now();
        let known = self.table().get(id, sent_at).cloned();
        if known.as_ref().is_some_and(|entry| !entry.names.contains(name)) {
            return Extension::Lost;
        }
        let names = known.as_ref().map_or_else(|| vec![name.clone()], |entry| entry.names.clone());
        let restore = known.as_ref().map(|entry| entry.restore(self.session, &self.settings.identity));
        let guard = self.settings.guard;
        match self.store.extend(ExtendRequest { names, id, lease, restore, guard }).await {
            Ok(ExtendReply::Extended { token, holds, lease, restored }) => {
                self.saw(token);
                let valid_until = sent_at + valid_span(lease);
                self.table().extended(id, holds, lease, valid_until);
                if restored {
                    self.telemetry.record_lock(&LockEvent::Restored { name: name.clone(), token });
                }
                Extension::Done(Extended { lease, valid_until })
            }
            Ok(ExtendReply::Lost) => {
                self.lost(name, id);
                Extension::Lost
            }
            Err(error) => Extension::Unknown(error),
        }
    }

    /// A lock is gone. One that was given back meanwhile is not lost.
    pub(super) fn lost(&self, name: &LockName, id: LockId) {
        let entry = self.table().remove(id);
        if let Some(entry) = entry {
            self.represent(&entry.names);
            self.telemetry.record_lock(&LockEvent::Lost { name: name.clone(), token: entry.token });
            self.count_held();
        }
    }

    /// Releases, until it is answered or `until` has come. With a `turn` the lock may be handed over to who waits here.
    pub(super) async fn give_back(
        &self,
        names: Vec<LockName>,
        id: LockId,
        turn: Option<Turn>,
        until: Mono,
    ) -> Result<u32, Refusal> {
        let request = LockReleaseRequest { names, id, request: self.new_id(), entirely: false };
        let handed = match turn {
            Some(turn) => self.hand_over(&request, turn).await,
            None => None,
        };
        let reply = match handed {
            Some(reply) => reply,
            None => self.insist(until, || self.store.release(request.clone())).await.map_err(Refusal::Store)?,
        };
        match reply {
            LockReleaseReply::Released { holds } => {
                self.table().left(id, holds);
                self.count_held();
                if let Some(name) = request.names.into_iter().next() {
                    self.telemetry.record_lock(&LockEvent::Released { name });
                }
                Ok(holds)
            }
            LockReleaseReply::NotHeld => {
                self.table().left(id, 0);
                self.count_held();
                Err(Refusal::Lost)
            }
        }
    }

    /// Ends a request in the background: its tickets go, and what it was granted unseen is free. `unsure`: one of its
    /// attempts had no answer and may still arrive after the cancellation, so there is a second one.
    pub(super) fn cancel_later(self: &Arc<Self>, names: Vec<LockName>, id: LockId, lease: Duration, unsure: bool) {
        if self.is_swamped() {
            // What was granted ends by its lease, and a ticket is cancelled when it is woken.
            return;
        }
        let core = Arc::clone(self);
        self.start(async move {
            let until = core.now() + lease.max(TICKET_SPAN);
            let request = CancelRequest { names, session: core.session, id };
            // What cannot be cancelled ends by its lease.
            let _ = core.insist(until, || core.store.cancel(request.clone())).await;
            if unsure {
                tokio::select! {
                    () = tokio::time::sleep(STRAY_SPAN) => {}
                    () = core.stopping() => {}
                }
                let _ = core.insist(until, || core.store.cancel(request.clone())).await;
            }
            core.represent(&request.names);
            core.count_held();
        });
    }

    /// Somebody has left these names: whoever waits for them here without a ticket must not be forgotten.
    fn represent(&self, names: &[LockName]) {
        names.iter().for_each(|name| self.waiting.represent(name));
    }

    /// Asks until there is an answer or `until` has come, at least once.
    async fn insist<T, F: Future<Output = Result<T, StoreError>>>(
        &self,
        until: Mono,
        mut ask: impl FnMut() -> F,
    ) -> Result<T, StoreError> {
        let mut failures = 0;
        loop {
            let error = match ask().await {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            failures += 1;
            let pause = self.pause(failures);
            if self.now() + pause >= until {
                return Err(error);
            }
            tokio::time::sleep(pause).await;
        }
    }
}
