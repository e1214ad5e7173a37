//! The task that spreads the shards of one role, or sees to it that one that is not split goes to who is preferred: it
//! tells the store that this replica is there and what it leads, asks who else is, and passes on to the shards, or to
//! the role, what [`Balance`] makes of it. It decides nothing, and has no say in who leads.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{self, Either};
use tokio::sync::watch;

use super::handle::{Command, RoleHandle};
use super::status::Snapshot;
use super::task::RoleContext;
use crate::base::{Complaint, Turn};
use crate::protocol::{
    Balance, Mine, Mono, Orders, Participant, Policy, Portion, PresenceRequest, Random, RoleName, SessionId, State,
    Timing, WHOLE,
};
use crate::store::{PresenceStore, StoreError, StoreHealth};
use crate::telemetry::{StoreCommand, SystemEvent};

/// After a change, how long to wait for others that come with it. At random, so that the replicas do not all ask in
/// one moment.
const GATHER: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(20));

/// The shards of a role on this replica; a reload may add some or take some away. A role that is not split is its only
/// one.
#[derive(Clone)]
pub(super) struct Shards {
    /// In the order of their numbers.
    pub handles: Vec<RoleHandle>,
    /// How many the role has.
    pub count: u16,
    pub policy: Policy,
    /// This replica takes no new ones, and gives up those it has.
    pub leaving: bool,
}

/// What the task is made of.
pub(super) struct SpreadSpec {
    /// The role that is split, or goes to who is preferred.
    pub role: RoleName,
    /// This start of this process.
    pub session: SessionId,
    pub timing: Timing,
    /// Seeds the spreading of requests.
    pub seed: u64,
    /// Where the replicas find each other.
    pub presence: Arc<dyn PresenceStore>,
}

struct Spreader {
    spec: SpreadSpec,
    context: RoleContext,
    shards: watch::Receiver<Shards>,
    balance: Balance,
    /// What each shard was told last; none when it is new.
    stagger: Vec<Option<Duration>>,
    random: Random,
    /// Why the store does not tell who else there is.
    refusal: Complaint,
}

/// Runs until the shards are leaving or their sender is gone; the last word is then that this replica is not there.
pub(super) async fn spread(spec: SpreadSpec, context: RoleContext, shards: watch::Receiver<Shards>) {
    let balance = Balance::new(spec.session, 0, spec.timing);
    let random = Random::new(spec.seed);
    Spreader { spec, context, shards, balance, stagger: Vec::new(), random, refusal: Complaint::default() }.run().await;
}

impl Spreader {
    async fn run(mut self) {
        loop {
            if self.shards.has_changed().unwrap_or(true) {
                self.stagger.clear();
            }
            let shards = self.shards.borrow_and_update().clone();
            if shards.leaving || self.shards.has_changed().is_err() {
                // An answer is of no use; without one, the last sign stands for its span.
                let _ = self.ask(None).await;
                for handle in shards.handles.iter().filter(|handle| handle.name().shard_number().is_none()) {
                    // It may go on without preferences.
                    handle.tell(Command::Stagger { by: Duration::ZERO }).await;
                }
                return;
            }
            self.balance.change(shards.count, shards.policy);
            // From before the question, so that nothing that changes while it is out is missed.
            let changes: Vec<_> = shards.handles.iter().map(RoleHandle::changes).collect();
            let asked_for = self.mine(&shards);
            let told = self.ask(asked_for.map(|mine| mine.portion)).await;
            self.log_refusal(&told);
            let mine = self.mine(&shards).unwrap_or_default();
            let orders = self.balance.decide(self.context.clock.now(), &mine, told.ok());
            self.pass_on(&shards, &orders).await;
            self.wait(changes, orders.ask_soon).await;
        }
    }

    /// What this replica leads and knows; none when it takes no part, because its app is unwell.
    fn mine(&self, shards: &Shards) -> Option<Mine> {
        let mut mine = Mine::default();
        mine.portion.rank = self.balance.rank();
        for handle in &shards.handles {
            let number = number(handle);
            let view = &handle.snapshot().view;
            if view.state == State::Unhealthy {
                return None;
            }
            if handle.leads() {
                mine.portion.leads.insert(number);
                continue;
            }
            if view.stays_out {
                mine.portion.shuns.insert(number);
            }
            if view.state == State::Standby && self.is_led(view.holder.as_ref().map(|(_, until)| *until)) {
                mine.elsewhere.insert(number);
            }
        }
        Some(mine)
    }

    fn is_led(&self, until: Option<Mono>) -> bool {
        until.is_some_and(|until| self.context.clock.now() < until)
    }

    async fn ask(&self, portion: Option<Portion>) -> Result<Vec<Participant>, StoreError> {
        let span = Balance::span(&self.spec.timing);
        let request = PresenceRequest { session: self.spec.session, portion, span };
        let SpreadSpec { role, presence, .. } = &self.spec;
        self.context.timed(StoreCommand::Presence, role, presence.presence(role, request)).await
    }

    /// Logs why the store refuses, once for each reason. A store that is down is logged already.
    fn log_refusal(&mut self, told: &Result<Vec<Participant>, StoreError>) {
        let reason = match told {
            Err(error @ (StoreError::Refused { .. } | StoreError::Denied { .. } | StoreError::Garbage { .. })) => {
                Some(error.to_string())
            }
            Err(StoreError::Unknown { .. } | StoreError::Unreachable { .. }) => return,
            Ok(_) => None,
        };
        if reason.is_some() && *self.context.store.health().borrow() != StoreHealth::Up {
            return;
        }
        if let Some(Turn::Wrong(reason)) = self.refusal.note(reason) {
            let event = SystemEvent::SpreadRefused { role: self.spec.role.clone(), reason: reason.to_owned() };
            self.context.telemetry.record_system(&event);
        }
    }

    async fn pass_on(&mut self, shards: &Shards, orders: &Orders) {
        self.stagger.resize(orders.stagger.len(), None);
        for handle in &shards.handles {
            let number = number(handle);
            let at = usize::from(number);
            let (Some(told), Some(&stagger)) = (self.stagger.get_mut(at), orders.stagger.get(at)) else { continue };
            if told.replace(stagger) != Some(stagger) {
                handle.tell(Command::Stagger { by: stagger }).await;
            }
            if orders.hand_over == Some(number) {
                let cooldown = Balance::cooldown(&self.spec.timing);
                handle.tell(Command::HandOver { cooldown }).await;
            }
        }
    }

    /// Until the next sign of life is due, or something is another than it was.
    async fn wait(&mut self, mut changes: Vec<watch::Receiver<Arc<Snapshot>>>, soon: bool) {
        let timing = &self.spec.timing;
        let tick = tokio::time::sleep(if soon { Balance::soon(timing) } else { Balance::tick(timing) });
        let any: Vec<_> = changes.iter_mut().map(changed).collect();
        let any = if any.is_empty() { Either::Left(future::pending()) } else { Either::Right(future::select_all(any)) };
        tokio::select! {
            () = tick => return,
            _ = any => {}
            // An error means that the sender is gone: the next round ends.
            _ = self.shards.changed() => return,
        }
        tokio::time::sleep(self.random.between(GATHER.0, GATHER.1)).await;
    }
}

fn number(handle: &RoleHandle) -> u16 {
    handle.name().shard_number().unwrap_or(WHOLE)
}

/// A change of a shard; never, once its task has ended.
fn changed(changes: &mut watch::Receiver<Arc<Snapshot>>) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
    Box::pin(async {
        if changes.changed().await.is_err() {
            future::pending::<()>().await;
        }
    })
}
