//! `GET /events`: every role at once, then every change, as Server-Sent Events.
//!
//! An event that says `leader: true` is a promise with an expiry like any other answer, so while this replica leads it
//! is repeated when half of that time is over. An event is made when the client is ready to take it, never queued: what
//! it says of time is true when it is sent.
//!
//! With `?view=status` the same is told to those who only look (`event: status`, on every change, and within a second
//! when the time that is left has moved): it promises nothing.
//!
//! A replica may have a thousand roles, and many streams. So a stream looks at a role only when it has changed or its
//! time has come; what it does for all of them it does once, and after a reload.

use std::collections::{BTreeSet, VecDeque};
use std::hash::Hasher;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::{self, FuturesUnordered};
use hyper::StatusCode;
use hyper::header::HeaderName;
use jiff::Timestamp;
use tokio::sync::watch;

use super::params::EventView;
use super::{RoleCalls, repeat_after};
use crate::http::{Ask, Content, Problem, Response, ServerEvent, answer};
use crate::protocol::{Mono, RoleName};
use crate::role::{Answer, RoleHandle, Snapshot, Status};

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
/// How soon a client should come back when the stream breaks.
const RETRY: Duration = Duration::from_secs(1);
/// How often to look whether a reload has added or removed roles.
const ROLES_CHECK: Duration = Duration::from_secs(1);
/// How often to look whether a role's time has moved, for those who look.
const STATUS_REPEAT: Duration = Duration::from_secs(1);

/// Answers with the stream. It ends when the client goes, or when the listener shuts down.
pub(super) async fn events(context: Arc<RoleCalls>, ask: Ask) -> Result<Response, Problem> {
    let view = EventView::parse(&ask.query)?;
    // Who looks wants to see all of it each time.
    let last_event_id = ask.headers.get(LAST_EVENT_ID).filter(|_| view == EventView::Answers);
    let feed = Feed::new(context, view, last_event_id.and_then(|id| id.to_str().ok()));
    let events = stream::unfold(feed, |mut feed| async move {
        let event = feed.next().await?;
        Some((event.to_string().into(), feed))
    });
    Ok(answer(StatusCode::OK, "text/event-stream", Content::stream(events)))
}

/// What a client was told last of a role.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Notification {
    index: u64,
    since: Timestamp,
    leader: bool,
    /// Somebody was named as the leader. What is known of that runs out by itself.
    named: bool,
    /// When to look again though nothing changes: while leading, or for those who look.
    repeat_at: Option<Mono>,
    /// Until when that was good, for those who look.
    until: Option<Mono>,
}

struct Followed {
    role: RoleHandle,
    last: Option<Notification>,
    /// Its entry in [`Feed::times`].
    look_at: Option<Mono>,
}

impl Followed {
    fn is_due(&self, now: Mono, view: EventView) -> bool {
        let Some(last) = self.last else { return true };
        self.role.snapshot().index != last.index
            || last.repeat_at.is_some_and(|at| at <= now && self.is_worth_repeating(&last, view))
            || (last.leader && !self.role.leads())
            || (last.named && !last.leader && self.holder_until().is_none_or(|until| until <= now))
    }

    fn is_worth_repeating(&self, last: &Notification, view: EventView) -> bool {
        match view {
            EventView::Answers => true,
            EventView::Status => self.role.status().until != last.until,
        }
    }

    /// Until when what is known of the holder is worth telling.
    fn holder_until(&self) -> Option<Mono> {
        self.role.snapshot().view.holder.as_ref().map(|(_, until)| *until)
    }

    /// When to look at it though nothing changes.
    fn next_look(&self, now: Mono, view: EventView) -> Option<Mono> {
        let last = self.last?;
        match view {
            EventView::Answers => last.repeat_at.or_else(|| self.holder_until().filter(|_| last.named)),
            EventView::Status => Some(now + STATUS_REPEAT),
        }
    }

    /// Its part of what the client has been told.
    fn digest(&self) -> u64 {
        self.last.map_or(0, |last| digest(self.role.name().as_str(), last.index, last.since))
    }
}

type Changes = watch::Receiver<Arc<Snapshot>>;
/// A role's place among those followed, and where to hear of its next change: nowhere once its task has ended.
type Change = Pin<Box<dyn Future<Output = (usize, Option<Changes>)> + Send + Sync>>;

fn change(at: usize, mut changes: Changes) -> Change {
    Box::pin(async move {
        let goes_on = changes.changed().await.is_ok();
        (at, goes_on.then_some(changes))
    })
}

struct Feed {
    context: Arc<RoleCalls>,
    view: EventView,
    /// Made before anything of a role is told: the greeting, and the names for who looks.
    first: VecDeque<ServerEvent>,
    /// By name. Places in it are numbers below.
    followed: Vec<Followed>,
    /// [`Roles::generation`](crate::role::Roles::generation) of those.
    generation: u64,
    /// One for each role. Woken by one of them, it asks that one alone.
    changes: FuturesUnordered<Change>,
    /// When to look at which though nothing changes.
    times: BTreeSet<(Mono, usize)>,
    /// To be looked at.
    looks: BTreeSet<usize>,
    /// To be told.
    due: VecDeque<usize>,
    /// Over all that the client was told: [`Followed::digest`], added up.
    digest: u64,
    heard_at: Mono,
}

impl Feed {
    /// A client that comes back with the identifier of what is still so need not be told again: only who leads, because
    /// that promise runs out.
    fn new(context: Arc<RoleCalls>, view: EventView, known: Option<&str>) -> Self {
        let heard_at = context.clock.now();
        let first = VecDeque::from([ServerEvent::default().retry(RETRY).comment(" baton")]);
        let (followed, changes, times, looks, due) = Default::default();
        let mut feed =
            Self { context, view, first, followed, generation: 0, changes, times, looks, due, digest: 0, heard_at };
        feed.follow();
        feed.tell_names();
        if known.is_some_and(|known| known == identifier(feed.digest_of_now())) {
            feed.skip_what_is_known();
        }
        feed
    }

    /// The next event, as soon as there is one.
    async fn next(&mut self) -> Option<ServerEvent> {
        loop {
            if self.context.stopping.has_begun() {
                return None;
            }
            if self.generation != self.context.roles.generation() {
                let before = self.names();
                self.follow();
                if self.names() != before {
                    self.tell_names();
                }
            }
            if self.due.is_empty() {
                self.find_due();
            }
            if let Some(event) = self.first.pop_front().or_else(|| self.tell_next()) {
                self.heard_at = self.now();
                return Some(event);
            }
            let heartbeat_at = self.heard_at + self.heartbeat();
            if self.now() >= heartbeat_at {
                self.heard_at = self.now();
                return Some(ServerEvent::default().comment(" alive"));
            }
            self.wait(heartbeat_at).await;
        }
    }

    /// Who looks wants to know soon that there is nobody left to look at.
    fn heartbeat(&self) -> Duration {
        let heartbeat = self.context.heartbeat;
        if self.view == EventView::Status { heartbeat.min(STATUS_REPEAT) } else { heartbeat }
    }

    fn now(&self) -> Mono {
        self.context.clock.now()
    }

    /// Follows the roles that there are now. A role that a reload removed and added again is another one.
    fn follow(&mut self) {
        // In this order: if they are replaced in between, they are looked up once more.
        self.generation = self.context.roles.generation();
        let roles = self.context.roles.all();
        let mut old: VecDeque<Followed> = std::mem::take(&mut self.followed).into();
        for role in roles {
            // Both are in the order of their names.
            while old.front().is_some_and(|old| old.role.name() < role.name()) {
                old.pop_front();
            }
            let known = old.front().filter(|old| old.role.is_same(&role)).and_then(|old| old.last);
            self.followed.push(Followed { role, last: known, look_at: None });
        }
        (self.times, self.due) = Default::default();
        self.digest = self.followed.iter().map(Followed::digest).fold(0, u64::wrapping_add);
        self.looks = (0..self.followed.len()).collect();
        self.changes = self
            .followed
            .iter()
            .enumerate()
            .map(|(at, followed)| {
                let mut changes = followed.role.changes();
                // It is looked at first.
                changes.mark_unchanged();
                change(at, changes)
            })
            .collect();
    }

    fn names(&self) -> Vec<RoleName> {
        self.followed.iter().map(|followed| followed.role.name().clone()).collect()
    }

    /// Tells who looks which roles there are.
    fn tell_names(&mut self) {
        if self.view == EventView::Status {
            let words: Vec<_> = self.followed.iter().map(|followed| followed.role.name().as_str()).collect();
            // Words can always be written.
            self.first.extend(ServerEvent::default().event("roles").json_data(&words));
        }
    }

    fn skip_what_is_known(&mut self) {
        for at in 0..self.followed.len() {
            let role = &self.followed[at].role;
            if role.leads() {
                continue;
            }
            let snapshot = role.snapshot();
            let (index, since, named) = (snapshot.index, snapshot.since, snapshot.view.holder.is_some());
            self.note(at, Notification { index, since, leader: false, named, repeat_at: None, until: None });
        }
    }

    /// Looks at the roles that have changed, and at those whose time has come.
    fn find_due(&mut self) {
        let now = self.now();
        while let Some((_, at)) = self.times.first().copied().filter(|(moment, _)| *moment <= now) {
            self.times.pop_first();
            self.followed[at].look_at = None;
            self.looks.insert(at);
        }
        for at in std::mem::take(&mut self.looks) {
            if self.followed[at].is_due(now, self.view) {
                self.due.push_back(at);
            } else {
                self.look_later(at, now);
            }
        }
    }

    fn look_later(&mut self, at: usize, now: Mono) {
        let followed = &mut self.followed[at];
        let next = followed.next_look(now, self.view);
        if let Some(old) = std::mem::replace(&mut followed.look_at, next) {
            self.times.remove(&(old, at));
        }
        self.times.extend(next.map(|next| (next, at)));
    }

    /// What is to be told of the first role that is due.
    fn tell_next(&mut self) -> Option<ServerEvent> {
        let at = self.due.pop_front()?;
        let (role, clock) = (&self.followed[at].role, &self.context.clock);
        let (last, event) = match self.view {
            EventView::Answers => {
                let answer = role.answer();
                (notification(&answer, clock.now()), ServerEvent::default().event("role").json_data(&answer))
            }
            EventView::Status => {
                let status = role.status();
                (shown(&status, clock.now()), ServerEvent::default().event("status").json_data(&status))
            }
        };
        self.note(at, last);
        self.look_later(at, self.now());
        // Only the last one of several carries the identifier: a client that breaks off before it has not heard of all
        // of them, and shall hear them again. Texts and numbers can always be written.
        let event = event.ok()?;
        Some(if self.due.is_empty() { event.id(identifier(self.digest)) } else { event })
    }

    /// What the client is told of a role.
    fn note(&mut self, at: usize, last: Notification) {
        let before = self.followed[at].digest();
        self.followed[at].last = Some(last);
        self.digest = self.digest.wrapping_sub(before).wrapping_add(self.followed[at].digest());
    }

    /// Waits until there may be something to say.
    async fn wait(&mut self, heartbeat_at: Mono) {
        let look_at = self.times.first().map_or(heartbeat_at, |(moment, _)| heartbeat_at.min(*moment));
        let rest = look_at.since(self.now()).min(ROLES_CHECK);
        tokio::select! {
            Some((at, changes)) = self.changes.next() => {
                self.looks.insert(at);
                self.changes.extend(changes.map(|changes| change(at, changes)));
            }
            () = tokio::time::sleep(rest) => {}
            () = self.context.stopping.begins() => {}
        }
    }

    /// As [`Self::digest`] of a client that has been told how everything is now.
    fn digest_of_now(&self) -> u64 {
        let digests = self.followed.iter().map(|followed| {
            let snapshot = followed.role.snapshot();
            digest(followed.role.name().as_str(), snapshot.index, snapshot.since)
        });
        digests.fold(0, u64::wrapping_add)
    }
}

fn notification(answer: &Answer, now: Mono) -> Notification {
    let repeat_at = answer.valid_for_ms.map(|ms| now + repeat_after(Duration::from_millis(ms)));
    let named = answer.holder.is_some();
    Notification { index: answer.index, since: answer.since, leader: answer.leader, named, repeat_at, until: None }
}

fn shown(status: &Status, now: Mono) -> Notification {
    let (leader, named) = (status.leads, status.holder.is_some());
    let (repeat_at, until) = (Some(now + STATUS_REPEAT), status.until);
    Notification { index: status.index, since: status.since, leader, named, repeat_at, until }
}

/// Of how one role stands. `since` sets one process' indices apart from another's.
fn digest(role: &str, index: u64, since: Timestamp) -> u64 {
    // Its fixed keys make it the same in every process of one build; a client of another build is told everything.
    let mut hasher = std::hash::DefaultHasher::new();
    hasher.write(role.as_bytes());
    hasher.write_u8(0);
    hasher.write_u64(index);
    hasher.write_i128(since.as_nanosecond());
    hasher.finish()
}

/// Names what a client has been told: the same again means that nothing has changed.
fn identifier(digest: u64) -> String {
    format!("{digest:016x}")
}
