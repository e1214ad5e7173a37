//! Hears what the scripts publish, on a connection of its own, and passes it on to who listens to that channel: a
//! role's (R8), that of a session's wakes, or that of the wishes about jobs.
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
use super::nodes::Target;
use super::settings::Settings;
use super::supervisor::Pauses;
use crate::store::{JobNews, News, StoreError, WakeNews};

/// How many messages a listener may be behind before it is told of a gap instead.
const LISTENER_BUFFER: usize = 256;
/// How often listeners that have gone are looked for, at least.
const TICK_MAX: Duration = Duration::from_secs(1);

/// What is heard on one kind of channel.
pub(super) trait Heard: Clone + Send + 'static {
    /// Messages may have been missed.
    const GAP: Self;

    /// What a message says; none when it is not one of ours.
    fn parse(message: &str) -> Option<Self>;
}

impl Heard for News {
    const GAP: Self = Self::Gap;

    fn parse(message: &str) -> Option<Self> {
        news::parse(message).map(|said| Self::Said(Box::new(said)))
    }
}

impl Heard for WakeNews {
    const GAP: Self = Self::Gap;

    fn parse(message: &str) -> Option<Self> {
        news::parse_wake(message)
    }
}

impl Heard for JobNews {
    const GAP: Self = Self::Gap;

    fn parse(message: &str) -> Option<Self> {
        news::parse_wish(message)
    }
}

/// Who listens to a channel, whatever is heard there.
trait Ear: Send {
    /// Tells of the gap, if there is one; true when the listener is up to date.
    fn settle(&mut self) -> bool;
    /// Passes a message on. Who is behind hears of a gap later instead.
    fn hear(&mut self, message: &str);
    /// It has missed something.
    fn miss(&mut self);
    fn is_gone(&self) -> bool;
}

struct Listener<N> {
    news: mpsc::Sender<N>,
    /// It missed something, or its subscription is new: the next thing it hears is that.
    gap: bool,
}

impl<N: Heard> Ear for Listener<N> {
    fn settle(&mut self) -> bool {
        if self.gap {
            self.gap = self.news.try_send(N::GAP).is_err();
        }
        !self.gap
    }

    fn hear(&mut self, message: &str) {
        match N::parse(message) {
            Some(news) => {
                if self.settle() {
                    self.gap = self.news.try_send(news).is_err();
                }
            }
            None => tracing::debug!("a message on our channels is not ours"),
        }
    }

    fn miss(&mut self) {
        self.gap = true;
    }

    fn is_gone(&self) -> bool {
        self.news.is_closed()
    }
}

/// Who listens to what. Shared between the store, which adds, and the task, which serves.
#[derive(Default)]
pub(super) struct Listeners {
    channels: Mutex<HashMap<String, Vec<Box<dyn Ear>>>>,
    changed: Notify,
    /// The connection may lead to a server that is no longer the master.
    suspect: Notify,
    /// Why Redis does not let us listen, while it does not.
    refusal: Mutex<Option<String>>,
}

impl Listeners {
    fn channels(&self) -> MutexGuard<'_, HashMap<String, Vec<Box<dyn Ear>>>> {
        self.channels.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn add<N: Heard>(&self, channel: String) -> mpsc::Receiver<N> {
        let (news, listener) = mpsc::channel(LISTENER_BUFFER);
        self.channels().entry(channel).or_default().push(Box::new(Listener { news, gap: true }));
        self.changed.notify_one();
        listener
    }

    /// Has the connection replaced: it may lead to a server that is no longer the master.
    pub fn suspect(&self) {
        self.suspect.notify_one();
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

    /// Forgets listeners that have gone, and says which channels are listened to.
    fn wanted(&self) -> BTreeSet<String> {
        let mut channels = self.channels();
        channels.retain(|_, listeners| {
            listeners.retain(|listener| !listener.is_gone());
            !listeners.is_empty()
        });
        channels.keys().cloned().collect()
    }

    fn say(&self, channel: &str, message: &str) {
        self.channels().get_mut(channel).into_iter().flatten().for_each(|listener| listener.hear(message));
    }

    /// Tells the listeners of subscribed channels of the gaps that they have not heard of.
    fn settle(&self, subscribed: &BTreeSet<String>) {
        for (channel, listeners) in self.channels().iter_mut() {
            if subscribed.contains(channel) {
                listeners.iter_mut().for_each(|listener| {
                    listener.settle();
                });
            }
        }
    }

    /// From here on everybody has missed something.
    fn mark_all(&self) {
        self.channels().values_mut().flatten().for_each(|listener| listener.miss());
    }
}

/// Runs until it is aborted.
pub(super) async fn run(settings: Arc<Settings>, listeners: Arc<Listeners>, mut pauses: Pauses) {
    loop {
        let ended = match Link::open(&settings, Target::AnyNode).await {
            Ok(link) => {
                let mut session = Session::new(&settings, &listeners, link);
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
    listeners: &'a Listeners,
    link: Link,
    subscribed: BTreeSet<String>,
    was_useful: bool,
}

impl<'a> Session<'a> {
    fn new(settings: &'a Settings, listeners: &'a Listeners, link: Link) -> Self {
        Self { settings, listeners, link, subscribed: BTreeSet::new(), was_useful: false }
    }

    async fn run(&mut self) -> StoreError {
        let mut messages = self.link.messages();
        // Often enough to notice a dead connection within half a lease. What is heard is as good as a PING's answer.
        let mut heartbeat = tokio::time::interval(self.settings.silence_max);
        heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut tick = tokio::time::interval(TICK_MAX.min(self.settings.unresponsive));
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            // None of these futures sends anything, so that dropping the others is harmless.
            let next = tokio::select! {
                why = self.link.ended() => return why,
                () = self.listeners.suspect.notified() => return another_may_be_the_master(),
                message = messages.recv() => Next::Message(message),
                () = self.listeners.changed.notified() => Next::Tick,
                _ = tick.tick() => Next::Tick,
                _ = heartbeat.tick() => Next::Heartbeat,
            };
            let step = match next {
                Next::Message(message) => {
                    heartbeat.reset();
                    self.pass_on(message)
                }
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
                // What is no text is not ours.
                let text = message.value.as_str();
                self.listeners.say(&message.channel, text.as_deref().unwrap_or_default());
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
        let new: Vec<String> = wanted.difference(&self.subscribed).cloned().collect();
        if !new.is_empty() {
            self.link.subscribe(new, timeout).await?;
        }
        let old: Vec<String> = self.subscribed.difference(&wanted).cloned().collect();
        if !old.is_empty() {
            self.link.unsubscribe(old, timeout).await?;
        }
        self.subscribed = wanted;
        self.listeners.settle(&self.subscribed);
        self.listeners.set_refusal(None);
        self.was_useful = true;
        Ok(())
    }
}

fn another_may_be_the_master() -> StoreError {
    StoreError::Unreachable { reason: "another may be the master by now".to_owned() }
}

enum Next {
    Message(Result<Message, RecvError>),
    Tick,
    Heartbeat,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::jobs::JobName;
    use crate::protocol::{LockId, LockName};

    fn said(count: u64) -> String {
        format!("v1 heartbeat 7 {count} 0 {:032x} web-0", 1)
    }

    fn heard(count: u64) -> News {
        News::parse(&said(count)).unwrap()
    }

    #[test]
    fn a_slow_listener_hears_of_a_gap_and_the_others_hear_everything() {
        let listeners = Listeners::default();
        let (mut slow, mut quick) = (listeners.add::<News>("a".to_owned()), listeners.add::<News>("a".to_owned()));
        listeners.settle(&listeners.wanted());
        assert_eq!((slow.try_recv(), quick.try_recv()), (Ok(News::Gap), Ok(News::Gap)));
        for count in 0..1_000 {
            listeners.say("a", &said(count));
            assert_eq!(quick.try_recv(), Ok(heard(count)));
        }
        for count in 0..LISTENER_BUFFER as u64 {
            assert_eq!(slow.try_recv(), Ok(heard(count)));
        }
        listeners.say("a", &said(1_000));
        assert_eq!((slow.try_recv(), slow.try_recv()), (Ok(News::Gap), Ok(heard(1_000))));
    }

    #[test]
    fn each_channel_is_heard_in_its_own_language() {
        let listeners = Listeners::default();
        let mut wakes = listeners.add::<WakeNews>("a".to_owned());
        let mut news = listeners.add::<News>("b".to_owned());
        let mut wishes = listeners.add::<JobNews>("c".to_owned());
        listeners.settle(&listeners.wanted());
        let wake = format!("v1 {:032x} orders 42", 5);
        for message in [said(1), wake, "v1 nightly".to_owned()] {
            ["a", "b", "c"].iter().for_each(|channel| listeners.say(channel, &message));
        }
        let id = LockId::from_u128(5);
        let woken = WakeNews::Wake { id, name: LockName::new("orders 42").unwrap() };
        assert_eq!((wakes.try_recv(), wakes.try_recv()), (Ok(WakeNews::Gap), Ok(woken)));
        assert_eq!((news.try_recv(), news.try_recv()), (Ok(News::Gap), Ok(heard(1))));
        let wish = JobNews::Changed(JobName::new("nightly").unwrap());
        assert_eq!((wishes.try_recv(), wishes.try_recv()), (Ok(JobNews::Gap), Ok(wish)));
        assert!(wakes.try_recv().is_err() && news.try_recv().is_err() && wishes.try_recv().is_err());
    }

    #[test]
    fn a_channel_without_listeners_is_not_wanted() {
        let listeners = Listeners::default();
        let (one, other) = (listeners.add::<News>("a".to_owned()), listeners.add::<News>("a".to_owned()));
        drop(one);
        assert_eq!(listeners.wanted().len(), 1);
        drop(other);
        assert!(listeners.wanted().is_empty());
    }
}
