//! Hears what the scripts publish, on a connection of its own, and passes it on to who listens to that role (R8).
//!
//! What is published while a connection is away is lost. So after every subscription that may have missed something its
//! listeners hear [`News::Gap`], and look for themselves.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fred::types::Message;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{Notify, broadcast, mpsc};
use tokio::time::MissedTickBehavior;

use super::errors::Failure;
use super::link::Link;
use super::news;
use super::scripts::Keys;
use super::settings::Settings;
use super::supervisor::Pauses;
use crate::protocol::RoleName;
use crate::store::{News, StoreError};

/// How many messages a listener may be behind before it is told of a gap instead.
const LISTENER_BUFFER: usize = 256;
/// How often listeners that have gone are looked for, at least.
const TICK_MAX: Duration = Duration::from_secs(1);

struct Listener {
    news: mpsc::Sender<News>,
    /// It missed something, or its subscription is new: the next thing it hears is that.
    gap: bool,
}

impl Listener {
    /// Tells of the gap, if there is one; true when the listener is up to date.
    fn settle(&mut self) -> bool {
        if self.gap {
            self.gap = self.news.try_send(News::Gap).is_err();
        }
        !self.gap
    }
}

/// Who listens to what. Shared between the store, which adds, and the task, which serves.
#[derive(Default)]
pub(super) struct Listeners {
    roles: Mutex<HashMap<RoleName, Vec<Listener>>>,
    changed: Notify,
    /// Why Redis does not let us listen, while it does not.
    refusal: Mutex<Option<String>>,
}

impl Listeners {
    fn roles(&self) -> MutexGuard<'_, HashMap<RoleName, Vec<Listener>>> {
        self.roles.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn add(&self, role: &RoleName) -> mpsc::Receiver<News> {
        let (news, listener) = mpsc::channel(LISTENER_BUFFER);
        self.roles().entry(role.clone()).or_default().push(Listener { news, gap: true });
        self.changed.notify_one();
        listener
    }

    /// Why nothing is heard although Redis is reached: for people.
    pub fn refusal(&self) -> Option<String> {
        self.refusal.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set_refusal(&self, refusal: Option<String>) {
        let mut present = self.refusal.lock().unwrap_or_else(PoisonError::into_inner);
        // Once per reason, not once per attempt.
        if let Some(reason) = &refusal
            && *present != refusal
        {
            tracing::warn!(reason, "Redis does not let us listen; replicas look by themselves");
        }
        *present = refusal;
    }

    /// Forgets listeners that have gone, and says which roles are listened to.
    fn wanted(&self) -> BTreeSet<RoleName> {
        let mut roles = self.roles();
        roles.retain(|_, listeners| {
            listeners.retain(|listener| !listener.news.is_closed());
            !listeners.is_empty()
        });
        roles.keys().cloned().collect()
    }

    /// Passes a message on. Who is behind hears of a gap later instead.
    fn say(&self, role: &RoleName, said: &News) {
        for listener in self.roles().get_mut(role).into_iter().flatten() {
            if listener.settle() {
                listener.gap = listener.news.try_send(said.clone()).is_err();
            }
        }
    }

    /// Tells the listeners of subscribed roles of the gaps that they have not heard of.
    fn settle(&self, subscribed: &BTreeSet<RoleName>) {
        for (role, listeners) in self.roles().iter_mut() {
            if subscribed.contains(role) {
                listeners.iter_mut().for_each(|listener| {
                    listener.settle();
                });
            }
        }
    }

    /// From here on everybody has missed something.
    fn mark_all(&self) {
        self.roles().values_mut().flatten().for_each(|listener| listener.gap = true);
    }
}

/// Runs until it is aborted.
pub(super) async fn run(settings: Arc<Settings>, prefix: String, listeners: Arc<Listeners>, mut pauses: Pauses) {
    loop {
        let ended = match Link::open(&settings).await {
            Ok(link) => {
                let mut session = Session::new(&settings, &prefix, &listeners, link);
                let ended = session.run().await;
                if session.was_useful {
                    pauses.reset();
                }
                ended
            }
            Err(error) => error,
        };
        if let StoreError::Refused { reason } = &ended {
            listeners.set_refusal(Some(format!("it does not let us listen: {reason}")));
        }
        tracing::debug!(reason = %ended, "the subscription ended; replicas look by themselves meanwhile");
        listeners.mark_all();
        tokio::time::sleep(pauses.next()).await;
    }
}

/// One connection's worth of listening.
struct Session<'a> {
    settings: &'a Settings,
    prefix: &'a str,
    listeners: &'a Listeners,
    link: Link,
    subscribed: BTreeSet<RoleName>,
    was_useful: bool,
}

impl<'a> Session<'a> {
    fn new(settings: &'a Settings, prefix: &'a str, listeners: &'a Listeners, link: Link) -> Self {
        Self { settings, prefix, listeners, link, subscribed: BTreeSet::new(), was_useful: false }
    }

    async fn run(&mut self) -> StoreError {
        let mut messages = self.link.messages();
        // Often enough to notice a dead connection within a lease; a PING is cheap.
        let mut heartbeat = tokio::time::interval(self.settings.unresponsive.min(TICK_MAX * 5));
        heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut tick = tokio::time::interval(TICK_MAX.min(self.settings.unresponsive));
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            // None of these futures sends anything, so that dropping the others is harmless.
            let next = tokio::select! {
                why = self.link.ended() => return why,
                message = messages.recv() => Next::Message(message),
                () = self.listeners.changed.notified() => Next::Tick,
                _ = tick.tick() => Next::Tick,
                _ = heartbeat.tick() => Next::Heartbeat,
            };
            let step = match next {
                Next::Message(message) => self.pass_on(message),
                Next::Tick => self.update().await,
                Next::Heartbeat => self.link.ping(self.settings.command_timeout).await,
            };
            if let Err(failure) = step {
                return failure.error;
            }
        }
    }

    fn pass_on(&self, message: Result<Message, RecvError>) -> Result<(), Failure> {
        match message {
            Ok(message) => {
                let said = Keys::role_of_channel(self.prefix, &message.channel)
                    .zip(message.value.as_str().and_then(|text| news::parse(&text)));
                match said {
                    Some((role, announcement)) => self.listeners.say(&role, &News::Said(announcement)),
                    None => tracing::debug!("a message on our channels is not ours"),
                }
                Ok(())
            }
            Err(broadcast::error::RecvError::Lagged(_)) => {
                self.listeners.mark_all();
                self.listeners.settle(&self.subscribed);
                Ok(())
            }
            Err(broadcast::error::RecvError::Closed) => Err(Failure::unreachable("the connection was closed")),
        }
    }

    /// Subscribes to what is new, unsubscribes from what nobody listens to any more, and tells of gaps.
    async fn update(&mut self) -> Result<(), Failure> {
        let wanted = self.listeners.wanted();
        let timeout = self.settings.command_timeout;
        let channels = |roles: Vec<&RoleName>| roles.iter().map(|role| Keys::new(self.prefix, role).channel).collect();
        let new: Vec<&RoleName> = wanted.difference(&self.subscribed).collect();
        if !new.is_empty() {
            self.link.subscribe(channels(new), timeout).await?;
        }
        let old: Vec<&RoleName> = self.subscribed.difference(&wanted).collect();
        if !old.is_empty() {
            self.link.unsubscribe(channels(old), timeout).await?;
        }
        self.subscribed = wanted;
        self.listeners.settle(&self.subscribed);
        self.listeners.set_refusal(None);
        self.was_useful = true;
        Ok(())
    }
}

enum Next {
    Message(Result<Message, RecvError>),
    Tick,
    Heartbeat,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::{Announcement, AnnouncementKind, Holder, SessionId, Token};

    fn said(count: u64) -> News {
        let holder = Holder { session: SessionId::from_u128(1), identity: Arc::from("web-0") };
        let token = Token::new(7).unwrap();
        News::Said(Announcement { kind: AnnouncementKind::Heartbeat, token, count, audience: 0, holder })
    }

    #[test]
    fn a_slow_listener_hears_of_a_gap_and_the_others_hear_everything() {
        let (listeners, role) = (Listeners::default(), RoleName::new("a").unwrap());
        let (mut slow, mut quick) = (listeners.add(&role), listeners.add(&role));
        listeners.settle(&listeners.wanted());
        assert_eq!((slow.try_recv(), quick.try_recv()), (Ok(News::Gap), Ok(News::Gap)));
        for count in 0..1_000 {
            listeners.say(&role, &said(count));
            assert_eq!(quick.try_recv(), Ok(said(count)));
        }
        for count in 0..LISTENER_BUFFER as u64 {
            assert_eq!(slow.try_recv(), Ok(said(count)));
        }
        listeners.say(&role, &said(1_000));
        assert_eq!((slow.try_recv(), slow.try_recv()), (Ok(News::Gap), Ok(said(1_000))));
    }

    #[test]
    fn a_role_without_listeners_is_not_wanted() {
        let (listeners, role) = (Listeners::default(), RoleName::new("a").unwrap());
        let (one, other) = (listeners.add(&role), listeners.add(&role));
        drop(one);
        assert_eq!(listeners.wanted().len(), 1);
        drop(other);
        assert!(listeners.wanted().is_empty());
    }
}
