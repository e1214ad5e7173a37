//! What the rest of the program may do with a role: ask, wait for changes, resign, report drained.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use jiff::Timestamp;
use serde::Serialize;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot, watch};

use super::hold::AppHold;
use super::status::{Snapshot, Status, name, number, text, text_if_any, word};
use crate::base::clock::SharedClock;
use crate::protocol::{
    AppHoldEnd, AppHoldId, AppHoldScope, Leadership, Mono, Promise, RoleName, SessionId, State, Token,
};

/// The answer to `GET /leader/{role}` (section 4 of the contract).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Answer {
    #[serde(serialize_with = "name")]
    pub role: RoleName,
    /// Whether this replica leads, for `valid_for_ms` from now on.
    pub leader: bool,
    #[serde(serialize_with = "word")]
    pub state: State,
    /// This replica.
    #[serde(serialize_with = "text")]
    pub identity: Arc<str>,
    /// Who leads, as far as is known *now*.
    #[serde(serialize_with = "text_if_any")]
    pub holder: Option<Arc<str>>,
    /// The fencing token, only while leading.
    #[serde(serialize_with = "number")]
    pub token: Option<Token>,
    /// Milliseconds for which the caller may act on `leader: true`.
    pub valid_for_ms: Option<u64>,
    /// Since when the state is what it is.
    pub since: Timestamp,
    /// Grows with every change of this object but `valid_for_ms`.
    pub index: u64,
    /// Why this replica does not lead.
    pub reason: Option<String>,
}

/// What may be asked of a role's task.
#[derive(Debug)]
pub enum Command {
    /// Give the role up and stay out for the cooldown.
    Resign { cooldown: Option<Duration>, done: oneshot::Sender<Result<(), CommandError>> },
    /// The same for the sake of an even spread; nothing, unless it leads.
    HandOver { cooldown: Duration },
    /// Wait so much longer before each campaign, so that others may go first.
    Stagger { by: Duration },
    /// Nothing is left of what this replica itself did as leader.
    WorkEnded,
    /// The last connection has ended by which the app showed that it lives.
    AppLeft,
    /// The app has stopped acting as leader.
    Drained { done: oneshot::Sender<Result<(), CommandError>> },
    /// Another process is known to have ended: see [`Input::Departed`](crate::protocol::Input::Departed).
    Departed { session: SessionId, promise: Duration },
    /// The app's health check changed its mind.
    AppHealth { healthy: bool },
    /// Drain, release and end the task.
    Shutdown,
    /// End at once (a second signal).
    Abandon,
}

/// Why a role's task did not do what was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CommandError {
    /// Only the leader can resign.
    #[error("this replica does not lead {role}{}", holder.as_ref().map(|h| format!("; {h} does")).unwrap_or_default())]
    NotLeading { role: RoleName, holder: Option<Arc<str>> },
    /// Nothing is being drained, and this replica does not lead.
    #[error("{role} is not draining on this replica")]
    NotDraining { role: RoleName },
    /// The task has ended: the process shuts down, or the role was removed.
    #[error("{role} is no longer run by this replica")]
    Ended { role: RoleName },
}

/// The life sign of a role's task, for `/livez` and `/readyz`: written by the task, read from any thread.
#[derive(Debug)]
pub struct Heartbeat {
    last: AtomicU64,
    within: Duration,
    knows_state: AtomicBool,
}

impl Heartbeat {
    /// Just born. A sign is good for `within`.
    pub fn new(now: Mono, within: Duration) -> Self {
        Self { last: AtomicU64::new(now.as_nanos()), within, knows_state: AtomicBool::new(false) }
    }

    /// The task has gone round.
    pub fn beat(&self, now: Mono) {
        self.last.store(now.as_nanos(), Ordering::Relaxed);
    }

    /// The store has told how the role stands. Once known, it stays so: readiness does not come and go with the store.
    pub fn knows_state(&self, knows: bool) {
        if knows {
            self.knows_state.store(true, Ordering::Relaxed);
        }
    }

    /// When the task last went round, how long that is good for, and whether it ever knew how the role stands.
    pub fn read(&self) -> (Mono, Duration, bool) {
        let last = Mono::from_nanos(self.last.load(Ordering::Relaxed));
        (last, self.within, self.knows_state.load(Ordering::Relaxed))
    }
}

struct Shared {
    name: RoleName,
    identity: Arc<str>,
    clock: SharedClock,
    leadership: Arc<Leadership>,
    snapshots: watch::Receiver<Arc<Snapshot>>,
    commands: mpsc::Sender<Command>,
    heartbeat: Arc<Heartbeat>,
}

/// A role of this replica, seen from outside. Cheap to clone, readable from any thread.
#[derive(Clone)]
pub struct RoleHandle {
    shared: Arc<Shared>,
}

impl RoleHandle {
    /// The outside of a role whose inside holds the other ends: the task's, or a test's.
    pub fn new(
        name: RoleName,
        identity: Arc<str>,
        clock: SharedClock,
        leadership: Arc<Leadership>,
        snapshots: watch::Receiver<Arc<Snapshot>>,
        commands: mpsc::Sender<Command>,
        heartbeat: Arc<Heartbeat>,
    ) -> Self {
        Self { shared: Arc::new(Shared { name, identity, clock, leadership, snapshots, commands, heartbeat }) }
    }

    pub fn name(&self) -> &RoleName {
        &self.shared.name
    }

    /// Whether both are of one task, and not only of one name.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }

    /// Answers an app. `leader: true` is a promise, and is recorded as one (R7), so call this only to tell somebody,
    /// and when the answer is written: how long it is good for is counted from now.
    pub fn answer(&self) -> Answer {
        // The snapshot first: a term that ends in between then shows as not leading, never as leading without a
        // promise.
        let snapshot = self.snapshot();
        let now = self.shared.clock.now();
        let promise = self.shared.leadership.promise(now);
        self.describe(&snapshot, now, promise)
    }

    /// An app shows from now on by a connection that it lives; none while this replica does not lead.
    pub fn hold(&self, scope: AppHoldScope) -> Option<AppHold> {
        let (id, _) = self.shared.leadership.open_hold(self.shared.clock.now(), scope)?;
        Some(AppHold::new(self.clone(), id))
    }

    /// As [`Self::answer`], to who shows by this connection that it lives. Once that has ended, nothing is promised.
    pub fn answer_held(&self, id: AppHoldId) -> Answer {
        let snapshot = self.snapshot();
        let now = self.now();
        let promise = self.leadership().promise_held(now, id);
        self.describe(&snapshot, now, promise)
    }

    /// Who keeps this connection says that nobody acts any more upon what was told over it. It ends with that, and the
    /// role is handed over if it was the last. False: it has ended before.
    pub fn stop_hold(&self, id: AppHoldId) -> bool {
        if !self.has_hold(id) {
            return false;
        }
        if self.leadership().close_hold(id, AppHoldEnd::Stopped) {
            self.tell_soon(Command::AppLeft);
        }
        true
    }

    /// Whether this connection lasts.
    pub fn has_hold(&self, id: AppHoldId) -> bool {
        self.leadership().held_until(id).is_some()
    }

    /// Tells somebody who only looks. It promises nothing, so no handover waits for it.
    pub fn status(&self) -> Status {
        let snapshot = self.snapshot();
        let now = self.shared.clock.now();
        let term = self.shared.leadership.remaining(now);
        let (state, holder, reason) = self.told(&snapshot, now, term.is_some());
        let until = match (term, state) {
            (Some((_, left)), _) => Some(now + left),
            (None, State::Draining) => Some(self.shared.leadership.promised_until()),
            (None, _) => snapshot.view.holder.as_ref().map(|(_, until)| *until),
        };
        let left = until.map(|until| until.since(now));
        Status {
            role: self.shared.name.clone(),
            identity: Arc::clone(&self.shared.identity),
            state,
            leads: term.is_some(),
            holder,
            token: term.map(|(token, _)| token),
            time_left_ms: left.filter(|left| !left.is_zero()).map(whole_ms),
            until,
            since: snapshot.since,
            index: snapshot.index,
            reason,
            changes: Arc::clone(&snapshot.changes),
        }
    }

    /// Whether this replica leads at this moment; promises nothing beyond it.
    pub fn leads(&self) -> bool {
        self.shared.leadership.leads(self.shared.clock.now())
    }

    /// The term's token and the time until its deadline, while leading. For metrics.
    pub fn remaining(&self) -> Option<(Token, Duration)> {
        self.shared.leadership.remaining(self.shared.clock.now())
    }

    /// Who leads, as far as is known now. Promises nothing, so it is for people only.
    pub fn holder(&self) -> Option<Arc<str>> {
        let now = self.shared.clock.now();
        if self.shared.leadership.leads(now) {
            return Some(Arc::clone(&self.shared.identity));
        }
        let snapshot = self.snapshot();
        snapshot.view.holder.as_ref().filter(|(_, until)| now < *until).map(|(name, _)| Arc::clone(name))
    }

    /// What the task published last. Its state may be behind the deadline; [`Self::answer`] is not.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        Arc::clone(&self.shared.snapshots.borrow())
    }

    /// The life sign of the role's task.
    pub fn heartbeat(&self) -> &Heartbeat {
        &self.shared.heartbeat
    }

    /// Wakes on every change of the role. Compare [`Snapshot::index`].
    pub fn changes(&self) -> watch::Receiver<Arc<Snapshot>> {
        self.shared.snapshots.clone()
    }

    /// Waits until the index has moved past `index`. Ends early when the role's task ends.
    pub async fn changed_past(&self, index: u64) {
        let mut changes = self.changes();
        // An error means that the task has ended: there will be no other change to wait for.
        let _ = changes.wait_for(|snapshot| snapshot.index > index).await;
    }

    /// Hands the role over and stays out for `cooldown` (the task's default when absent). Returns when the drain has
    /// begun.
    ///
    /// # Errors
    /// [`CommandError::NotLeading`] when there is nothing to hand over, [`CommandError::Ended`] when the task has
    /// ended.
    pub async fn resign(&self, cooldown: Option<Duration>) -> Result<(), CommandError> {
        self.ask(|done| Command::Resign { cooldown, done }).await
    }

    /// The app's word that its work as leader has stopped: ends a drain early.
    ///
    /// # Errors
    /// [`CommandError::NotDraining`], [`CommandError::Ended`].
    pub async fn drained(&self) -> Result<(), CommandError> {
        self.ask(|done| Command::Drained { done }).await
    }

    /// This replica itself begins to act as leader. A drain waits for so long until it has ended, if the lease can be
    /// kept.
    pub fn begin_work(&self, finish_within: Duration) -> Work {
        self.shared.leadership.begin_work(finish_within);
        Work { role: self.clone() }
    }

    /// Sends a command that has no answer. Lost when the task has ended, which is what it would have asked for.
    pub async fn tell(&self, command: Command) {
        let _ = self.shared.commands.send(command).await;
    }

    /// Waits until the role's task has ended.
    pub async fn ended(&self) {
        self.shared.commands.closed().await;
    }

    async fn ask(
        &self,
        command: impl FnOnce(oneshot::Sender<Result<(), CommandError>>) -> Command,
    ) -> Result<(), CommandError> {
        let ended = || CommandError::Ended { role: self.shared.name.clone() };
        let (done, answer) = oneshot::channel();
        self.shared.commands.send(command(done)).await.map_err(|_| ended())?;
        answer.await.map_err(|_| ended())?
    }

    /// State, holder and reason as they are now, whatever was published last.
    fn told(&self, snapshot: &Snapshot, now: Mono, leads: bool) -> (State, Option<Arc<str>>, Option<String>) {
        let view = &snapshot.view;
        let known_holder = view.holder.as_ref().filter(|(_, until)| now < *until).map(|(name, _)| Arc::clone(name));
        match (leads, view.state) {
            (true, _) => (State::Leading, Some(Arc::clone(&self.shared.identity)), None),
            // The task has ended the term, or the deadline has passed, and what the task says is not out yet.
            (false, State::Leading) if self.shared.leadership.drains() => {
                (State::Draining, known_holder, Some("handing over".to_owned()))
            }
            (false, State::Leading) => {
                (State::Campaigning, None, Some("the lease ran out before it could be renewed".to_owned()))
            }
            (false, state) => (state, known_holder, view.reason.clone().map(Cow::into_owned)),
        }
    }

    pub(super) fn leadership(&self) -> &Leadership {
        &self.shared.leadership
    }

    pub(super) fn now(&self) -> Mono {
        self.shared.clock.now()
    }

    /// As [`Self::tell`], from where nobody waits.
    pub(super) fn tell_soon(&self, command: Command) {
        if let Err(TrySendError::Full(command)) = self.shared.commands.try_send(command) {
            let role = self.clone();
            tokio::spawn(async move { role.tell(command).await });
        }
    }

    pub(super) fn describe(&self, snapshot: &Snapshot, now: Mono, promise: Option<Promise>) -> Answer {
        let (state, holder, reason) = self.told(snapshot, now, promise.is_some());
        Answer {
            role: self.shared.name.clone(),
            leader: promise.is_some(),
            state,
            identity: Arc::clone(&self.shared.identity),
            holder,
            token: promise.map(|p| p.token),
            valid_for_ms: promise.map(|p| whole_ms(p.valid_for)),
            since: snapshot.since,
            index: snapshot.index,
            reason,
        }
    }
}

/// What a replica itself does as leader, until it is dropped. A drain keeps the lease for it as it does for an app, and
/// `/drained` does not end it.
pub struct Work {
    role: RoleHandle,
}

impl Work {
    /// A promise like an app's (R7), when this replica leads at `now`.
    pub fn promise(&self, now: Mono) -> Option<Promise> {
        self.role.shared.leadership.promise_work(now)
    }

    /// Until when it may go on in a drain, and of which term.
    pub fn until(&self) -> (Token, Mono) {
        self.role.shared.leadership.work_until()
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        if self.role.shared.leadership.end_work() {
            // Where there is no room for it, a drain ends with the promise.
            let _ = self.role.shared.commands.try_send(Command::WorkEnded);
        }
    }
}

fn whole_ms(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

/// The roles of this replica, which a reload may change while they are read.
#[derive(Clone)]
pub struct Roles {
    table: Arc<ArcSwap<RoleTable>>,
}

#[derive(Default)]
struct RoleTable {
    roles: BTreeMap<RoleName, RoleHandle>,
    /// What `/leader` means.
    default_role: Option<RoleHandle>,
    /// How often they were replaced.
    generation: u64,
}

impl Default for Roles {
    fn default() -> Self {
        Self { table: Arc::new(ArcSwap::from_pointee(RoleTable::default())) }
    }
}

impl Roles {
    /// The roles from now on; `default_role` is what `/leader` means when there are several.
    pub fn replace(&self, roles: Vec<RoleHandle>, default_role: Option<RoleName>) {
        let roles: BTreeMap<_, _> = roles.into_iter().map(|role| (role.name().clone(), role)).collect();
        let default_role = match default_role {
            Some(name) => roles.get(&name).cloned(),
            None => roles.values().next().filter(|_| roles.len() == 1).cloned(),
        };
        let generation = self.generation() + 1;
        self.table.store(Arc::new(RoleTable { roles, default_role, generation }));
    }

    /// Another number whenever they were replaced.
    pub fn generation(&self) -> u64 {
        self.table.load().generation
    }

    /// The role with this name.
    pub fn get(&self, name: &str) -> Option<RoleHandle> {
        let table = self.table.load();
        name.parse().ok().and_then(|name: RoleName| table.roles.get(&name).cloned())
    }

    /// The shards of the role with this name, in the order of their numbers; none when it is not split.
    pub fn shards(&self, name: &str) -> Vec<RoleHandle> {
        let Ok(role) = RoleName::new(name) else { return Vec::new() };
        let table = self.table.load();
        let of_it = table.roles.range(role.clone()..).take_while(|(name, _)| name.role() == role);
        of_it.filter(|(name, _)| name.shard_number().is_some()).map(|(_, handle)| handle.clone()).collect()
    }

    /// What `/leader` without a name means: the default role, or the only one. None when that is ambiguous.
    pub fn default_role(&self) -> Option<RoleHandle> {
        self.table.load().default_role.clone()
    }

    /// Every role, by name.
    pub fn all(&self) -> Vec<RoleHandle> {
        self.table.load().roles.values().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::clock::{BootClock, Clock, wall_time};
    use crate::protocol::{Action, CampaignReply, Election, Input, Profile, Rules, Stamped, StoreTime, Timing};

    const LEASE: Duration = Duration::from_secs(15);

    /// What it leads, and the role as its task told it last: as leading.
    fn leading() -> (Election, RoleHandle) {
        let (clock, lease) = (Arc::new(BootClock), Timing::from_lease(LEASE).expect("good timings"));
        let identity: Arc<str> = Arc::from("web-0");
        let profile = Profile {
            session: SessionId::from_u128(7),
            attempts: Default::default(),
            identity: Arc::clone(&identity),
            timing: lease,
            guard: false,
            app_checked: false,
            rules: Rules::NONE,
            role_stagger: Duration::ZERO,
            seed: 1,
        };
        let mut election = Election::new(profile, clock.now());
        election.handle_timeout(clock.now());
        let Some(Action::Campaign { id, .. }) = election.poll_action() else { panic!("it asks for the role") };
        let reply = CampaignReply::Granted { token: Token::new(7).expect("small"), count: 1 };
        let reply = Ok(Stamped { reply, store_time: StoreTime(1) });
        election.handle_input(clock.now(), Input::Campaigned { id, reply });
        let snapshot = Arc::new(Snapshot::first(election.view(clock.now()), wall_time()));
        let heartbeat = Arc::new(Heartbeat::new(clock.now(), LEASE));
        let (leadership, snapshots) = (Arc::clone(election.leadership()), watch::channel(snapshot).1);
        let name = RoleName::new("web").expect("a DNS label");
        let commands = mpsc::channel(1).0;
        (election, RoleHandle::new(name, identity, clock, leadership, snapshots, commands, heartbeat))
    }

    #[test]
    fn a_drain_is_told_as_one_before_the_task_has_told_of_it() {
        let (mut election, role) = leading();
        assert_eq!((role.answer().leader, role.answer().state), (true, State::Leading));
        election.handle_input(BootClock.now(), Input::Resign { cooldown: LEASE });
        let answer = role.answer();
        assert_eq!((answer.leader, answer.state), (false, State::Draining), "{answer:?}");
        assert_eq!(answer.holder.as_deref(), Some("web-0"), "it still has the lease");
        assert!(role.status().until.is_some(), "a promise stands");
    }
}
