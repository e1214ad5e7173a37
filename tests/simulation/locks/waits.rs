//! A worker whose request was refused for now: when it asks again, or whether it leaves.

use std::time::Duration;

use baton::protocol::{AcquireReply, Queueing, look_after};

use super::world::{SECOND, World};

const SECOND_LOOK: Duration = Duration::from_secs(5);

impl World {
    pub(super) fn not_now(&mut self, worker: usize, reply: &AcquireReply) {
        let it = &mut self.workers[worker];
        let now = {
            let sidecar = it.sidecar;
            it.has_waited = true;
            self.local(sidecar)
        };
        let it = &self.workers[worker];
        let request = it.request.as_ref().expect("it asked");
        if request.queueing == Queueing::No {
            self.rest(worker);
        } else if now >= it.wait_until {
            self.cancel(worker);
        } else if it.asks_again {
            self.ask(worker);
        } else {
            let mut free_looks = 0;
            let span = match reply {
                AcquireReply::Held { holder, ahead, .. } => {
                    free_looks = if holder.is_none() { it.free_looks + 1 } else { 0 };
                    let remaining = holder.as_ref().map(|holder| holder.remaining);
                    match self.scenario.rules.looks {
                        true => look_after(remaining, *ahead),
                        // Where the end of a lease is of no concern to who is not the first.
                        false => (SECOND_LOOK * (*ahead).min(6)).max(remaining.unwrap_or_default().min(SECOND_LOOK)),
                    }
                }
                AcquireReply::Guarded { remaining } => *remaining,
                AcquireReply::Granted(_) | AcquireReply::PermitsDiffer { .. } => Duration::MAX,
            };
            let span = u64::try_from((span.saturating_add(Duration::from_millis(5))).as_nanos()).unwrap_or(u64::MAX);
            let span = if self.scenario.rules.wakes { span } else { 100 * SECOND };
            let span = span.min(it.wait_until.saturating_sub(now));
            self.workers[worker].free_looks = free_looks;
            self.plan(worker, span);
        }
    }
}
