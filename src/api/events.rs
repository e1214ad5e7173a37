//! `GET /events`: every role at once, then every change, as Server-Sent Events.
//!
//! An event that says `leader: true` is a promise with an expiry like any other answer, so while this replica leads it
//! is repeated when half of that time is over. An event is made when the client is ready to take it, never queued: what
//! it says of time is true when it is sent.
//!
//! With `?view=status` the same is told to those who only look (`event: status`, once a second and on every change): it
//! promises nothing.

use std::convert::Infallible;
use std::hash::Hasher;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{self, Either};
use futures_util::stream;
use hyper::header::{CACHE_CONTROL, HeaderValue};
use jiff::Timestamp;
use tokio::sync::{mpsc, watch};
use warp::Reply;
use warp::reply::Response;
use warp::sse::Event;

use super::Context;
use super::params::EventView;
use crate::protocol::{Mono, RoleName};
use crate::role::{Answer, RoleHandle, Snapshot, Status};

/// How soon a client should come back when the stream breaks.
const RETRY: Duration = Duration::from_secs(1);
/// How often to look whether a reload has added or removed roles.
const ROLES_CHECK: Duration = Duration::from_secs(1);
/// How often those who look are told all of it.
const STATUS_REPEAT: Duration = Duration::from_secs(1);
/// No promise is repeated faster than this, however short it is.
const REPEAT_MIN: Duration = Duration::from_millis(10);

/// Answers with the stream. It ends when the client goes, or when the listener shuts down.
pub(super) fn stream(context: &Arc<Context>, view: EventView, last_event_id: Option<&HeaderValue>) -> Response {
    // One place only: the feed waits for the client before it looks at a role.
    let (sender, mut receiver) = mpsc::channel(1);
    // Who looks wants to see all of it each time.
    let last_event_id = last_event_id.filter(|_| view == EventView::Answers);
    let known = last_event_id.and_then(|id| id.to_str().ok()).map(str::to_owned);
    let feed = Feed { context: Arc::clone(context), view, sender, followed: Vec::new(), roles_told: None };
    tokio::spawn(async move {
        // A closed stream is how every feed ends; there is nobody left to tell.
        let _ = feed.run(known).await;
    });
    let events = stream::poll_fn(move |cx| receiver.poll_recv(cx).map(|event| event.map(Ok::<_, Infallible>)));
    let mut response = warp::sse::reply(events).into_response();
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// The client has gone, or the listener stops.
struct Closed;

/// What a client was told last of a role.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Told {
    index: u64,
    since: Timestamp,
    leader: bool,
    /// Somebody was named as the leader. What is known of that runs out by itself.
    named: bool,
    /// While leading: when to say so again.
    repeat_at: Option<Mono>,
}

struct Followed {
    role: RoleHandle,
    changes: watch::Receiver<Arc<Snapshot>>,
    told: Option<Told>,
    /// The role's task has ended: its last word is told once.
    ended: bool,
}

impl Followed {
    fn new(role: RoleHandle) -> Self {
        Self { changes: role.changes(), role, told: None, ended: false }
    }

    fn is_due(&self, now: Mono) -> bool {
        let Some(told) = self.told else { return true };
        self.role.snapshot().index != told.index
            || told.repeat_at.is_some_and(|at| at <= now)
            || (told.leader && !self.role.leads())
            || (told.named && !told.leader && self.holder_until().is_none_or(|until| until <= now))
    }

    /// Until when what is known of the holder is worth telling.
    fn holder_until(&self) -> Option<Mono> {
        self.role.snapshot().view.holder.as_ref().map(|(_, until)| *until)
    }

    /// When there will be something to tell though nothing changes.
    fn next_due(&self) -> Option<Mono> {
        let told = self.told?;
        told.repeat_at.or_else(|| self.holder_until().filter(|_| told.named))
    }
}

struct Feed {
    context: Arc<Context>,
    view: EventView,
    sender: mpsc::Sender<Event>,
    followed: Vec<Followed>,
    /// The names that who looks was told last.
    roles_told: Option<Vec<RoleName>>,
}

impl Feed {
    async fn run(mut self, known: Option<String>) -> Result<(), Closed> {
        self.refresh_roles();
        self.send(Event::default().retry(RETRY).comment(" baton")).await?;
        if known.is_some_and(|known| known == self.id_of_now()) {
            self.skip_what_is_known();
        }
        let mut heard_at = self.now();
        loop {
            if self.tell_what_is_due().await? {
                heard_at = self.now();
            }
            let heartbeat_at = heard_at + self.heartbeat();
            if self.now() >= heartbeat_at {
                self.send(Event::default().comment(" alive")).await?;
                heard_at = self.now();
                continue;
            }
            self.wait(heartbeat_at).await?;
            self.refresh_roles();
        }
    }

    /// Who looks wants to know soon that there is nobody left to look at.
    fn heartbeat(&self) -> Duration {
        let heartbeat = self.context.options.heartbeat;
        if self.view == EventView::Status { heartbeat.min(STATUS_REPEAT) } else { heartbeat }
    }

    fn now(&self) -> Mono {
        self.context.options.clock.now()
    }

    /// Follows the roles that there are now. A role that a reload removed and added again is another one.
    fn refresh_roles(&mut self) {
        let current = self.context.roles.all();
        let is_same = |a: &Followed, b: &RoleHandle| a.changes.same_channel(&b.changes());
        self.followed.retain(|followed| current.iter().any(|role| is_same(followed, role)));
        for role in current {
            if !self.followed.iter().any(|followed| is_same(followed, &role)) {
                self.followed.push(Followed::new(role));
            }
        }
        self.followed.sort_by(|a, b| a.role.name().cmp(b.role.name()));
    }

    /// A client that comes back with the identifier of what is still so need not be told again: only who leads, because
    /// that promise runs out.
    fn skip_what_is_known(&mut self) {
        for followed in self.followed.iter_mut().filter(|followed| !followed.role.leads()) {
            let snapshot = followed.role.snapshot();
            let (index, since) = (snapshot.index, snapshot.since);
            followed.told =
                Some(Told { index, since, leader: false, named: snapshot.view.holder.is_some(), repeat_at: None });
        }
    }

    /// Tells every role that has changed or whose promise is half over. True when there was any.
    async fn tell_what_is_due(&mut self) -> Result<bool, Closed> {
        self.tell_roles().await?;
        let now = self.now();
        let due: Vec<usize> = (0..self.followed.len()).filter(|at| self.followed[*at].is_due(now)).collect();
        for at in &due {
            // First a place, then the answer: its validity begins now, not when a slow client had read the one before.
            let sender = self.sender.clone();
            let place = self.until_stopped(sender.reserve()).await?.map_err(|_| Closed)?;
            let followed = &mut self.followed[*at];
            let event = match self.view {
                EventView::Answers => {
                    let answer = followed.role.answer();
                    followed.told = Some(told(&answer, self.context.options.clock.now()));
                    Event::default().event("role").json_data(&answer)
                }
                EventView::Status => {
                    let status = followed.role.status();
                    followed.told = Some(shown(&status, self.context.options.clock.now()));
                    Event::default().event("status").json_data(&status)
                }
            };
            let event = event.map_err(|_| Closed)?;
            // Only the last one of several changes carries the identifier: a client that breaks off before it has not
            // heard of all of them, and shall hear them again.
            place.send(if Some(at) == due.last() { event.id(self.id_of_told()) } else { event });
        }
        Ok(!due.is_empty())
    }

    /// Tells who looks which roles there are, when that has changed.
    async fn tell_roles(&mut self) -> Result<(), Closed> {
        let names: Vec<RoleName> = self.followed.iter().map(|followed| followed.role.name().clone()).collect();
        if self.view == EventView::Answers || self.roles_told.as_ref() == Some(&names) {
            return Ok(());
        }
        let words: Vec<&str> = names.iter().map(RoleName::as_str).collect();
        self.send(Event::default().event("roles").json_data(&words).map_err(|_| Closed)?).await?;
        self.roles_told = Some(names);
        Ok(())
    }

    async fn send(&self, event: Event) -> Result<(), Closed> {
        self.until_stopped(self.sender.send(event)).await?.map_err(|_| Closed)
    }

    async fn until_stopped<T>(&self, work: impl Future<Output = T>) -> Result<T, Closed> {
        tokio::select! {
            done = work => Ok(done),
            () = self.context.stopped() => Err(Closed),
        }
    }

    /// Waits until there may be something to say.
    async fn wait(&mut self, heartbeat_at: Mono) -> Result<(), Closed> {
        let now = self.now();
        let due = self.followed.iter().filter_map(Followed::next_due);
        let next = due.fold(heartbeat_at, Mono::min).since(now).min(ROLES_CHECK);
        let changes: Vec<_> = self.followed.iter_mut().filter(|followed| !followed.ended).map(changed).collect();
        let any_change = if changes.is_empty() {
            Either::Left(future::pending())
        } else {
            Either::Right(future::select_all(changes))
        };
        tokio::select! {
            _ = any_change => Ok(()),
            () = tokio::time::sleep(next) => Ok(()),
            () = self.sender.closed() => Err(Closed),
            () = self.context.stopped() => Err(Closed),
        }
    }

    /// Names what the client has been told: the same again means that nothing has changed.
    fn id_of_told(&self) -> String {
        identifier(self.followed.iter().filter_map(|f| Some((f.role.name().as_str(), f.told?.index, f.told?.since))))
    }

    fn id_of_now(&self) -> String {
        let snapshots: Vec<_> = self.followed.iter().map(|f| (f.role.name().as_str(), f.role.snapshot())).collect();
        identifier(snapshots.iter().map(|(name, snapshot)| (*name, snapshot.index, snapshot.since)))
    }
}

fn changed(followed: &mut Followed) -> std::pin::Pin<Box<dyn Future<Output = ()> + Send + '_>> {
    Box::pin(async {
        followed.ended = followed.changes.changed().await.is_err();
    })
}

fn told(answer: &Answer, now: Mono) -> Told {
    let repeat_at = answer.valid_for_ms.map(|ms| now + (Duration::from_millis(ms) / 2).max(REPEAT_MIN));
    let named = answer.holder.is_some();
    Told { index: answer.index, since: answer.since, leader: answer.leader, named, repeat_at }
}

/// What who looks was told: all of it again after a while, for the time that is left moves with every renewal.
fn shown(status: &Status, now: Mono) -> Told {
    let (leader, named) = (status.leads, status.holder.is_some());
    Told { index: status.index, since: status.since, leader, named, repeat_at: Some(now + STATUS_REPEAT) }
}

/// Sixteen hexadecimal digits over what there is to know. `since` sets one process' indices apart from another's.
fn identifier<'a>(roles: impl Iterator<Item = (&'a str, u64, Timestamp)>) -> String {
    // Its fixed keys make it the same in every process of one build; a client of another build is told everything.
    let mut hasher = std::hash::DefaultHasher::new();
    for (name, index, since) in roles {
        hasher.write(name.as_bytes());
        hasher.write_u8(0);
        hasher.write_u64(index);
        hasher.write_i128(since.as_nanosecond());
    }
    format!("{:016x}", hasher.finish())
}
