//! The task of one role: carries the election's requests to the store and the answers back, wakes it in time, and
//! publishes what readers may see. It decides nothing.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use tokio::sync::{mpsc, watch};

use super::handle::{Command, CommandError, Heartbeat, RoleHandle};
use super::status::Snapshot;
use crate::base::clock::{SharedClock, wall_time};
use crate::base::process::StallWatch;
use crate::base::{Complaint, RepeatedFailure, Subscription, Turn};
use crate::protocol::{
    Action, Attempts, Election, Event, Input, Mono, NoReply, Profile, RoleName, SessionId, State, Timing, View,
};
use crate::store::{LeaseStore, News, StoreError, StoreHealth, timed};
use crate::telemetry::{StoreCommand, SystemEvent, Telemetry};

/// How many commands may wait for the task.
const COMMANDS: usize = 64;
/// After a standstill, what comes in this soon had waited in a socket: it is dropped, and then the store is asked.
const DEAF_AFTER_STALL: Duration = Duration::from_millis(100);
/// A vacancy is told to those who wait for a change only when it has lasted for so long. As a rule the next leader is
/// known sooner, and all have better things to do until then than to hear of each step.
const VACANCY_MIN: Duration = Duration::from_millis(5);
/// The task goes round at least this often, so that its life sign means something. A standby is woken by heartbeats
/// sooner than that, and so by nothing else.
const ROUND_MAX: Duration = Duration::from_secs(10);
/// How long a life sign is good for: three rounds.
const PULSE_WITHIN: Duration = Duration::from_secs(30);

/// What a role's task is made of.
#[derive(Clone, Debug)]
pub struct RoleSpec {
    pub name: RoleName,
    /// This replica's name for people.
    pub identity: Arc<str>,
    /// This start of this process.
    pub session: SessionId,
    /// Where its campaigns take their attempts from: one for all roles of a session, and for as long as that lives.
    pub attempts: Attempts,
    pub timing: Timing,
    /// False for `guard: off`.
    pub guard: bool,
    /// The app has a health check: nothing is campaigned for before it first succeeds.
    pub app_checked: bool,
    /// How long it lets others go first, until it is told otherwise ([`Command::Stagger`]).
    pub shard_stagger: Duration,
    /// How much later than the first role of its process it does what many would else do at once. Zero where there are
    /// few.
    pub role_stagger: Duration,
    /// Seeds the spreading of wake-ups and retries.
    pub seed: u64,
}

/// What all role tasks of a process share.
#[derive(Clone)]
pub struct RoleContext {
    pub store: Arc<dyn LeaseStore>,
    pub clock: SharedClock,
    pub telemetry: Telemetry,
    /// Whether the process stood still.
    pub stall: Arc<StallWatch>,
}

impl RoleContext {
    /// Awaits a request about a role, and counts it.
    pub(super) async fn timed<T>(
        &self,
        command: StoreCommand,
        role: &RoleName,
        request: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        timed(&self.telemetry, &self.clock, command, Some(role), request).await
    }
}

/// An answer for the election, and why the store refused, if it did.
type Answer = (Input, Option<String>);
type Reply = Pin<Box<dyn Future<Output = Answer> + Send>>;

struct Task {
    name: RoleName,
    election: Election,
    context: RoleContext,
    commands: mpsc::Receiver<Command>,
    news: Subscription<News>,
    replies: FuturesUnordered<Reply>,
    /// One that was there at once.
    replied: Option<Answer>,
    snapshots: watch::Sender<Arc<Snapshot>>,
    /// When those who wait for a change are told of the vacancy that others can see already.
    vacant_at: Option<Mono>,
    heartbeat: Arc<Heartbeat>,
    default_cooldown: Duration,
    /// Every handle is gone.
    orphaned: bool,
    /// The standstills of the process that were dealt with.
    standstills: u64,
    /// Until when news are dropped after a standstill.
    deaf_until: Option<Mono>,
    /// Since when the state is what was published.
    turned_at: Mono,
    /// The state that an event's line told since then.
    logged: Option<State>,
    /// Why the store refused this role's last request.
    refusal: Complaint,
    /// The failures of this term's renewals.
    renewals: RepeatedFailure,
}

/// Makes a role: the handle for everybody else, and the task to be spawned. The task ends after [`Command::Shutdown`]
/// or [`Command::Abandon`]; any other end is a bug.
pub fn role(spec: RoleSpec, context: RoleContext) -> (RoleHandle, impl Future<Output = ()> + Send) {
    let profile = Profile {
        session: spec.session,
        attempts: spec.attempts,
        identity: Arc::clone(&spec.identity),
        timing: spec.timing,
        guard: spec.guard,
        app_checked: spec.app_checked,
        rules: context.store.rules(),
        role_stagger: spec.role_stagger,
        seed: spec.seed,
    };
    let now = context.clock.now();
    context.stall.mind(spec.timing.lease_duration());
    let standstills = context.stall.standstills(now);
    let mut election = Election::new(profile, now);
    election.handle_input(now, Input::Stagger { by: spec.shard_stagger });
    let first = Snapshot::first(election.view(now), wall_time());
    let (snapshots, seen) = watch::channel(Arc::new(first));
    let (commands, inbox) = mpsc::channel(COMMANDS);
    let heartbeat = Arc::new(Heartbeat::new(now, PULSE_WITHIN));
    let handle = RoleHandle::new(
        spec.name.clone(),
        spec.identity,
        Arc::clone(&context.clock),
        Arc::clone(election.leadership()),
        seen,
        commands,
        Arc::clone(&heartbeat),
    );
    let mut task = Task {
        news: context.store.subscribe(&spec.name, Some(spec.session)),
        name: spec.name,
        election,
        context,
        commands: inbox,
        replies: FuturesUnordered::new(),
        replied: None,
        snapshots,
        vacant_at: None,
        heartbeat,
        default_cooldown: spec.timing.renew_period(),
        orphaned: false,
        standstills,
        deaf_until: None,
        turned_at: now,
        logged: None,
        refusal: Complaint::default(),
        renewals: RepeatedFailure::default(),
    };
    (handle, async move { task.run().await })
}

impl Task {
    async fn run(&mut self) {
        loop {
            let now = self.context.clock.now();
            self.election.handle_timeout(now);
            self.obey(now);
            self.publish(now);
            self.heartbeat.beat(now);
            if self.election.is_ended() {
                return;
            }
            self.wait(now).await;
        }
    }

    /// Does what the election asks for. Requests are on their way when this returns: who hears of a change may take his
    /// time.
    fn obey(&mut self, now: Mono) {
        while let Some(action) = self.election.poll_action() {
            let (via, role) = (self.context.clone(), self.name.clone());
            match action {
                Action::Campaign { id, request } => self.replies.push(Box::pin(async move {
                    let reply = via.timed(StoreCommand::Campaign, &role, via.store.campaign(&role, request)).await;
                    let refusal = refusal(&reply);
                    (Input::Campaigned { id, reply: reply.map_err(failure) }, refusal)
                })),
                Action::Renew { id, request } => self.replies.push(Box::pin(async move {
                    let reply = via.timed(StoreCommand::Renew, &role, via.store.renew(&role, request)).await;
                    let refusal = refusal(&reply);
                    (Input::Renewed { id, reply: reply.map_err(failure) }, refusal)
                })),
                Action::Release { id, request } => self.replies.push(Box::pin(async move {
                    let reply = via.timed(StoreCommand::Release, &role, via.store.release(&role, request)).await;
                    let refusal = refusal(&reply);
                    (Input::Released { id, reply: reply.map_err(failure) }, refusal)
                })),
                Action::Tell(event) => {
                    self.log_renewals(&event, now);
                    let told = self.context.telemetry.record(&self.name, &event, now.since(self.turned_at));
                    self.logged = told.or(self.logged);
                }
            }
        }
        if self.replied.is_none() {
            // Whoever waits for the others looks at them with a waker of its own.
            self.replied = self.replies.next().now_or_never().flatten();
        }
    }

    /// Shows readers the election's view, and wakes those who wait when it says something new.
    fn publish(&mut self, now: Mono) {
        let mut view = self.election.view(now);
        if let Some(reason) = &mut view.reason {
            for note in self.context.store.notes() {
                let reason = reason.to_mut();
                reason.push_str("; ");
                reason.push_str(&note);
            }
        }
        if self.snapshots.borrow().view.state != view.state {
            if self.logged != Some(view.state) {
                let lasted = now.since(self.turned_at);
                self.context.telemetry.record_state(&self.name, view.state, view.reason.as_deref(), lasted);
            }
            (self.turned_at, self.logged) = (now, None);
        }
        let state = view.state;
        self.replace(view, now);
        // An app that is unwell keeps the role from asking; that is a state, too.
        self.heartbeat.knows_state(self.election.has_answer() || state == State::Unhealthy);
    }

    /// Replaces what readers see.
    fn replace(&mut self, view: View, now: Mono) {
        let token = self.election.leadership().remaining(now).map(|(token, _)| token);
        let vacant_at = &mut self.vacant_at;
        self.snapshots.send_if_modified(|last| {
            if last.view != view {
                let next = last.next(view, token, wall_time());
                let vacant = (last.view.state, next.view.state) == (State::Standby, State::Campaigning);
                let news = next.index != last.index;
                *last = Arc::new(next);
                if news {
                    *vacant_at = vacant.then_some(now + VACANCY_MIN);
                    return !vacant;
                }
            }
            vacant_at.take_if(|at| now >= *at).is_some()
        });
    }

    /// Logs why the store refuses this role, once for each reason. A store that is down is logged already.
    fn log_refusal(&mut self, refusal: Option<String>) {
        if refusal.is_some() && *self.context.store.health().borrow() != StoreHealth::Up {
            return;
        }
        if let Some(Turn::Wrong(reason)) = self.refusal.note(refusal) {
            let event = SystemEvent::RoleRefused { role: self.name.clone(), reason: reason.to_owned() };
            self.context.telemetry.record_system(&event);
        }
    }

    /// Logs that this term's renewals fail, and that they do no longer. Each may be tried several times a second.
    fn log_renewals(&mut self, event: &Event, now: Mono) {
        let telemetry = &self.context.telemetry;
        match event {
            Event::Renewed { token, failure: Some(reason), .. } => {
                if let Some(failures) = self.renewals.failed(reason, now) {
                    telemetry.renewals_fail(&self.name, *token, reason, failures);
                }
            }
            Event::Renewed { token, failure: None, .. } => {
                if let Some(failures) = self.renewals.ended() {
                    telemetry.renewals_fail_no_longer(&self.name, *token, failures, false);
                }
            }
            Event::Lost { token, .. } | Event::Released { token, .. } | Event::Abandoned { token, .. } => {
                if let Some(failures) = self.renewals.ended() {
                    telemetry.renewals_fail_no_longer(&self.name, *token, failures, true);
                }
            }
            Event::Elected { .. } => {
                // Whatever became of the term before.
                let _ = self.renewals.ended();
            }
            Event::Campaigned { .. }
            | Event::Contended { .. }
            | Event::Draining { .. }
            | Event::Departed { .. }
            | Event::DepartureRefuted { .. }
            | Event::Guarded { .. }
            | Event::Following { .. }
            | Event::IdentityClash { .. }
            | Event::StoreClockStepped { .. } => {}
        }
    }

    /// Waits for whatever comes first, and hands it to the election.
    async fn wait(&mut self, now: Mono) {
        let due = self.election.poll_timeout().into_iter().chain(self.deaf_until).chain(self.vacant_at).min();
        let rest = due.map_or(ROUND_MAX, |due| due.since(now).min(ROUND_MAX));
        let replied = std::future::ready(self.replied.take());
        tokio::select! {
            biased;
            Some(answer) = replied => self.answered(answer),
            Some(answer) = self.replies.next(), if !self.replies.is_empty() => self.answered(answer),
            command = self.commands.recv(), if !self.orphaned => self.command(command).await,
            Some(news) = self.news.recv() => self.heard(news),
            () = tokio::time::sleep(rest) => {}
        }
        self.mind_standstill();
    }

    fn answered(&mut self, (reply, refusal): Answer) {
        self.log_refusal(refusal);
        let now = self.context.clock.now();
        self.election.handle_input(now, reply);
    }

    fn heard(&mut self, news: News) {
        let now = self.context.clock.now();
        if self.deaf_until.is_some() || self.context.stall.standstills(now) > self.standstills {
            return;
        }
        let input = match news {
            News::Said(announcement) => Input::Heard(*announcement),
            News::Gap => Input::Gap,
        };
        self.election.handle_input(now, input);
    }

    /// After a standstill of the process: messages that waited are dropped, and then the store is asked once (R8).
    fn mind_standstill(&mut self) {
        let now = self.context.clock.now();
        let standstills = self.context.stall.standstills(now);
        if standstills > self.standstills {
            self.standstills = standstills;
            self.deaf_until = Some(now + DEAF_AFTER_STALL);
            self.election.handle_input(now, Input::Gap);
        }
        if self.deaf_until.is_some_and(|until| now >= until) {
            self.deaf_until = None;
            while self.news.try_recv().is_ok() {}
            self.election.handle_input(now, Input::Gap);
        }
    }

    async fn command(&mut self, command: Option<Command>) {
        let now = self.context.clock.now();
        match command {
            Some(Command::Resign { cooldown, done }) => {
                let leads = self.election.leadership().leads(now);
                if leads {
                    let cooldown = cooldown.unwrap_or(self.default_cooldown);
                    self.election.handle_input(now, Input::Resign { cooldown });
                    self.obey(now);
                    self.publish(now);
                    // The release leaves before whoever asked has a turn, and then the app.
                    tokio::task::yield_now().await;
                }
                let holder = || self.election.view(now).holder.map(|(name, _)| name);
                let refused = || CommandError::NotLeading { role: self.name.clone(), holder: holder() };
                // Whoever asked may have gone; the role is handed over all the same.
                let _ = done.send(if leads { Ok(()) } else { Err(refused()) });
            }
            Some(Command::HandOver { cooldown }) => self.election.handle_input(now, Input::HandOver { cooldown }),
            Some(Command::Stagger { by: shard_stagger }) => {
                self.election.handle_input(now, Input::Stagger { by: shard_stagger })
            }
            Some(Command::Drained { done }) => {
                let drains = self.election.is_draining();
                self.election.handle_input(now, Input::Drained);
                let refused = || CommandError::NotDraining { role: self.name.clone() };
                let _ = done.send(if drains { Ok(()) } else { Err(refused()) });
            }
            Some(Command::AppLeft) => {
                self.election.handle_input(now, Input::AppLeft { cooldown: self.default_cooldown });
            }
            Some(Command::WorkEnded) => self.election.handle_input(now, Input::WorkEnded),
            Some(Command::Departed { session, promise }) => {
                self.election.handle_input(now, Input::Departed { session, promise });
            }
            Some(Command::AppHealth { healthy }) => self.election.handle_input(now, Input::AppHealth { healthy }),
            Some(Command::Abandon) => self.election.handle_input(now, Input::Abandon),
            Some(Command::Shutdown) => self.election.handle_input(now, Input::Shutdown),
            None => {
                // Nobody is left who could ask for anything: the process goes down.
                self.orphaned = true;
                self.election.handle_input(now, Input::Shutdown);
            }
        }
    }
}

/// What the store itself said against a request; none when it did not answer, or did what was asked.
fn refusal<T>(reply: &Result<T, StoreError>) -> Option<String> {
    match reply {
        Err(error @ (StoreError::Refused { .. } | StoreError::Denied { .. } | StoreError::Garbage { .. })) => {
            Some(error.to_string())
        }
        Err(StoreError::Unknown { .. } | StoreError::Unreachable { .. }) | Ok(_) => None,
    }
}

fn failure(error: StoreError) -> NoReply {
    NoReply { reason: error.to_string(), is_denied: matches!(error, StoreError::Denied { .. }) }
}

#[cfg(test)]
mod tests;
