//! What an operator asks for: the locks of the whole store, and the end of one of them. Whose lock it is does not
//! matter; its token does, so that nobody ends another lock than the one that was seen.

use std::sync::Arc;

use futures_util::stream::{self, StreamExt, TryStreamExt};

use super::service::{ANSWER_SPAN, LockService, Refusal};
use crate::protocol::{LockHolder, LockId, LockInsight, LockName, Token, UnlockReply, UnlockRequest};
use crate::telemetry::{LockEvent, StoreCommand};

/// How many locks are looked at at once to list them.
pub(super) const READS: usize = 16;
/// A page is full with so many locks; the last look at the store may bring some more.
const PAGE: usize = 100;
/// How often the store is asked for names for a page, at the most: most of its keys may be others.
const LOOKS_MAX: usize = 50;
/// How many names are looked at for a page, about: most of them may be of locks that were given back.
const NAMES_MAX: usize = 1_000;

/// Some of the store's locks that are held or waited for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockPage {
    /// By name, each once.
    pub locks: Vec<(LockName, LockInsight)>,
    /// Where the next page begins; 0 after the last one. It may be another's page that has a lock which is taken or
    /// given back meanwhile, or none.
    pub next: u64,
}

/// The locks from this place on.
pub(super) async fn list(service: &LockService, mut from: u64) -> Result<LockPage, Refusal> {
    let (mut locks, mut looked_at) = (Vec::new(), 0);
    for _ in 0..LOOKS_MAX {
        let looking = service.timed(StoreCommand::LockNames, service.store.names(from));
        let (names, next) = looking.await.map_err(Refusal::Store)?;
        let looks = stream::iter(names).map(|name| async move {
            let insight = service.inspect(name.clone()).await?;
            Ok::<_, Refusal>((name, insight))
        });
        let seen: Vec<(LockName, LockInsight)> = looks.buffered(READS).try_collect().await?;
        looked_at += seen.len();
        locks.extend(seen.into_iter().filter(|(_, insight)| insight.permits.is_some()));
        from = next;
        if from == 0 || locks.len() >= PAGE || looked_at >= NAMES_MAX {
            break;
        }
    }
    locks.sort_by(|(one, _), (other, _)| one.cmp(other));
    locks.dedup_by(|(one, _), (other, _)| one == other);
    Ok(LockPage { locks, next: from })
}

/// Ends a lock. Who had it; nobody where it was ended before.
pub(super) async fn unlock(
    service: &Arc<LockService>,
    name: LockName,
    token: Token,
) -> Result<Option<LockHolder>, Refusal> {
    let this = Arc::clone(service);
    let work = async move {
        let request = UnlockRequest { name, token };
        let unlock = || this.timed(StoreCommand::LockUnlock, this.store.unlock(request.clone()));
        let reply = this.insist(this.now() + ANSWER_SPAN, unlock).await.map_err(Refusal::Store)?;
        let UnlockRequest { name, token } = request;
        match reply {
            UnlockReply::Unlocked { holder } => {
                let event = LockEvent::Unlocked { name, token, holder: holder.clone() };
                this.telemetry.record_lock(&event);
                Ok(holder)
            }
            UnlockReply::Differs { holders } => Err(Refusal::TokenDiffers { name, token, holders }),
        }
    };
    // A client that goes away leaves no unlock that is not told. The task is only lost when the runtime ends.
    service.upkeep.spawn(work).await.unwrap_or(Err(Refusal::ShuttingDown))
}

/// An operator has ended a hold of this sidecar, or what it has become in its turn. One of several names stays known,
/// so that the others can be given back: its next extension is refused.
pub(super) fn heard(service: &LockService, id: LockId, name: &LockName) {
    let id = service.held.in_seat(name, id, service.now()).unwrap_or(id);
    if service.held.is_alone(id, name) {
        let renewed = service.held.renewed(id);
        service.held.lost(id, name);
        if let Some(renewed) = renewed {
            renewed.notify_one();
        }
    }
}
