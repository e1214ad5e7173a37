//! Hears what the scripts publish, on a connection of its own, and passes it on to who listens to that channel: a
//! role's (R8), that of a session's wakes, or that of the wishes about jobs.
//!
//! What is published while a connection is away is lost. So after every subscription that may have missed something its
//! listeners hear [`News::Gap`], and look for themselves.

use parking_lot::{Mutex, MutexGuard};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use fred::types::Message;
use futures_util::FutureExt;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};
use tokio::sync::{Notify, broadcast, watch};
use tokio::time::{Interval, MissedTickBehavior};

use super::connection::{CommandFailure, Info, Link, Settings, Target, fetch_info};
use super::credentials::Issued;
use super::messages;
use crate::base::clock::{BootClock, Clock};
use crate::base::subscription::{Lossy, Publisher};
use crate::base::{Backoff, Complaint, Subscription, Turn};
use crate::protocol::{Mono, SessionId};
use crate::store::{JobNews, News, StoreError, StoreHealth, WakeNews};

/// How many channels one command subscribes to.
const SUBSCRIBE_MAX: usize = 500;

/// What is heard on one kind of channel.
pub(super) trait ChannelMessage: Lossy + Send + 'static {
    /// What a message says; none when it is not one of ours.
    fn parse(message: &str) -> Option<Self>;

    /// Whether it tells what this session did.
    fn is_of(_message: &str, _session: SessionId) -> bool {
        false
    }
}

impl ChannelMessage for News {
    fn parse(message: &str) -> Option<Self> {
        messages::parse(message).map(|said| Self::Said(Box::new(said)))
    }

    fn is_of(message: &str, session: SessionId) -> bool {
        messages::session(message) == Some(session)
    }
}

impl ChannelMessage for WakeNews {
    fn parse(message: &str) -> Option<Self> {
        messages::parse_wake(message)
    }
}

impl ChannelMessage for JobNews {
    fn parse(message: &str) -> Option<Self> {
        messages::parse_wish(message)
    }
}

/// Who listens to a channel, whatever is heard there.
trait AnyListener: Send {
    /// Passes a message on.
    fn hear(&mut self, message: &str);
    /// It may have missed something.
    fn miss(&mut self);
    fn is_gone(&self) -> bool;
}

struct Listener<N> {
    news: Publisher<N>,
    /// What this session does is no news to it.
    own: Option<SessionId>,
}

impl<N: ChannelMessage> AnyListener for Listener<N> {
    fn hear(&mut self, message: &str) {
        if self.own.is_some_and(|own| N::is_of(message, own)) {
            return;
        }
        match N::parse(message) {
            Some(news) => self.news.tell(news),
            None => tracing::debug!("a message on our channels is not ours"),
        }
    }

    fn miss(&mut self) {
        self.news.tell_gap();
    }

    fn is_gone(&self) -> bool {
        self.news.is_gone()
    }
}

/// Who listens to one channel.
#[derive(Default)]
struct Channel {
    listeners: Vec<Box<dyn AnyListener>>,
    /// Whether the present connection is subscribed to it.
    subscribed: bool,
    /// What was told of the record first since something was heard.
    unheard: Option<Unheard>,
}

/// The renewal count of a role's record, as an answer to a request told it.
struct Unheard {
    count: u64,
    since: Mono,
}

/// Who listens to what. Shared between the store, which adds, and the task, which serves. There may be a channel for
/// each of a thousand roles.
#[derive(Default)]
pub(super) struct Listeners {
    channels: Mutex<HashMap<Arc<str>, Channel>>,
    changed: Notify,
    /// The connection may lead to a server to which nothing is published any more.
    suspect: Notify,
    /// The connection was of no use, and another to the same server may be dead as well.
    pub doubt: Notify,
    /// Which server process the connection leads to, as far as it told.
    process: Mutex<Option<String>>,
    /// Why Redis does not let us listen, while it does not.
    refusal: Mutex<Complaint>,
}

impl Listeners {
    fn channels(&self) -> MutexGuard<'_, HashMap<Arc<str>, Channel>> {
        self.channels.lock()
    }

    /// One more, to whom it is no news what the session `own` does.
    pub fn add<N: ChannelMessage>(&self, channel: String, own: Option<SessionId>) -> Subscription<N> {
        let (mut news, listener) = Publisher::open();
        let mut channels = self.channels();
        let channel = channels.entry(channel.into()).or_default();
        // Otherwise it hears of the gap when the channel is subscribed to.
        if channel.subscribed {
            news.tell_gap();
        }
        // One, as a rule.
        channel.listeners.reserve_exact(1);
        channel.listeners.push(Box::new(Listener { news, own }));
        drop(channels);
        self.changed.notify_one();
        listener
    }

    /// Has the connection replaced: it may lead to a server to which nothing is published any more, because it is no
    /// longer the master, or no longer in touch with its cluster.
    pub fn suspect(&self) {
        self.suspect.notify_one();
    }

    /// Commands go to this server process from now on, where there is but one: a subscription at another hears nothing
    /// of what they do, however long it lives.
    pub fn follow(&self, process: &str) {
        let ours = self.process.lock();
        if ours.as_ref().is_some_and(|ours| ours != process) {
            self.suspect();
        }
    }

    /// An answer has told how often a role's lease was renewed, and each of these times was published. If the count
    /// has risen by more than what may be on its way, and nothing of it was heard for a whole lease, the connection is
    /// deaf, though it answers every PING.
    pub fn compare(&self, channel: &str, count: u64, lease: Duration) {
        let now = BootClock.now();
        let mut channels = self.channels();
        let Some(channel) = channels.get_mut(channel).filter(|channel| channel.subscribed) else { return };
        match &channel.unheard {
            Some(first) if first.count <= count => {
                if now.since(first.since) >= lease && count - first.count > 1 {
                    tracing::debug!(count, "what is published is not heard");
                    self.suspect();
                }
            }
            _ => channel.unheard = Some(Unheard { count, since: now }),
        }
    }

    /// The slots of the channels, where that is a cluster.
    pub fn slots(&self) -> HashSet<u16> {
        self.channels().keys().map(|channel| fred::util::redis_keyslot(channel.as_bytes())).collect()
    }

    /// Why nothing is heard although Redis is reached: for people.
    pub fn refusal(&self) -> Option<String> {
        self.refusal.lock().reason().map(str::to_owned)
    }

    fn set_refusal(&self, refusal: Option<String>) {
        if let Some(Turn::Wrong(reason)) = self.refusal.lock().note(refusal) {
            tracing::warn!(reason, "Redis does not let us listen; replicas look by themselves");
        }
    }

    /// A new connection, to this server process, is under no suspicion.
    fn begin(&self, process: Option<String>) {
        *self.process.lock() = process;
        let _ = self.suspect.notified().now_or_never();
    }

    /// Forgets listeners that have gone, and says what is to be subscribed to and what is so no longer.
    fn differences(&self) -> Differences {
        let (mut new, mut old) = (Vec::new(), Vec::new());
        self.channels().retain(|name, channel| {
            channel.listeners.retain(|listener| !listener.is_gone());
            match (channel.listeners.is_empty(), channel.subscribed) {
                (true, true) => old.push(Arc::clone(name)),
                (false, false) => new.push(Arc::clone(name)),
                _ => {}
            }
            !channel.listeners.is_empty()
        });
        Differences { new, old }
    }

    /// What the connection is subscribed to.
    fn present(&self) -> Vec<Arc<str>> {
        let channels = self.channels();
        channels.iter().filter(|(_, channel)| channel.subscribed).map(|(name, _)| Arc::clone(name)).collect()
    }

    /// The connection is subscribed to these: their listeners may have missed what came before.
    fn subscribed(&self, names: &[Arc<str>]) {
        let mut channels = self.channels();
        for name in names {
            if let Some(channel) = channels.get_mut(name) {
                (channel.subscribed, channel.unheard) = (true, None);
                channel.listeners.iter_mut().for_each(|listener| listener.miss());
            }
        }
    }

    /// Passes a message on; false when a listener of it has gone.
    fn say(&self, channel: &str, message: &str) -> bool {
        let mut channels = self.channels();
        let Some(channel) = channels.get_mut(channel) else { return true };
        channel.unheard = None;
        channel.listeners.iter_mut().for_each(|listener| listener.hear(message));
        !channel.listeners.iter().any(|listener| listener.is_gone())
    }

    /// Messages were lost on a connection that goes on.
    fn lagged(&self) {
        for channel in self.channels().values_mut().filter(|channel| channel.subscribed) {
            channel.unheard = None;
            channel.listeners.iter_mut().for_each(|listener| listener.miss());
        }
    }

    /// The connection is gone: nothing is subscribed to.
    fn ended(&self) {
        self.channels().values_mut().for_each(|channel| channel.subscribed = false);
    }
}

/// Runs until it is aborted. `commands`: how the connection for commands is.
pub(super) async fn run(
    settings: Arc<Settings>,
    listeners: Arc<Listeners>,
    mut commands: watch::Receiver<StoreHealth>,
    mut backoff: Backoff,
) {
    loop {
        // Where only so many connections are let in, the one goes first on which a lease hangs. What is published while
        // no commands can be given is of no use. An error says that the store is gone, and this with it.
        let _ = commands.wait_for(|health| *health == StoreHealth::Up).await.map(drop);
        let ended = match Link::open(&settings, Target::AnyNode).await {
            Ok(link) => {
                // Who may not be asked is not known, and the others suffice.
                let info = fetch_info(&link, settings.command_timeout).await.ok();
                listeners.begin(info.as_ref().and_then(Info::process));
                let mut session = Session { settings: &settings, listeners: &listeners, link, was_useful: false };
                let ended = session.run().await;
                if session.was_useful {
                    backoff.reset();
                }
                ended
            }
            Err(error) => error,
        };
        if let StoreError::Refused { reason } = &ended {
            listeners.set_refusal(Some(format!("it does not let us listen: {reason}")));
        } else {
            listeners.doubt.notify_one();
        }
        tracing::debug!(reason = %ended, "the subscription ended; replicas look by themselves meanwhile");
        listeners.ended();
        tokio::time::sleep(backoff.next(settings.timeouts.pause_max())).await;
    }
}

/// One connection's worth of listening.
struct Session<'a> {
    settings: &'a Settings,
    listeners: &'a Listeners,
    link: Link,
    was_useful: bool,
}

/// What a connection is to be subscribed to besides, and what no more.
struct Differences {
    new: Vec<Arc<str>>,
    old: Vec<Arc<str>>,
}

impl Session<'_> {
    async fn run(&mut self) -> StoreError {
        let mut messages = self.link.messages();
        if let Err(failure) = self.update().await {
            return failure.error;
        }
        let silence_max = || self.settings.timeouts.silence_max();
        // Often enough to notice a dead connection within half a lease. What is heard is as good as a PING's answer.
        let mut heartbeat = every(silence_max());
        // Whoever stops listening does not say so, and what others hear is no reason to stay subscribed.
        let mut sweep = every(silence_max());
        loop {
            // A reload that adds a role with a shorter lease has it subscribed to, and so comes by here.
            if heartbeat.period() != silence_max() {
                (heartbeat, sweep) = (every(silence_max()), every(silence_max()));
            }
            // None of these futures sends anything, so that dropping the others is harmless.
            let next = tokio::select! {
                why = self.link.ended() => return why,
                () = self.listeners.suspect.notified() => return self.suspected(),
                message = messages.recv() => Next::Message(message),
                () = self.listeners.changed.notified() => Next::Update,
                _ = sweep.tick() => Next::Update,
                _ = heartbeat.tick() => Next::Heartbeat,
                issued = self.link.outdated() => Next::Credential(issued),
            };
            let step = match next {
                Next::Message(message) => {
                    heartbeat.reset();
                    self.pass_on(message).await
                }
                Next::Update => self.update().await,
                Next::Heartbeat => self.link.ping(self.settings.command_timeout).await,
                Next::Credential(issued) => self.authenticate(&issued, &mut messages).await,
            };
            if let Err(failure) = step {
                return failure.error;
            }
        }
    }

    /// Without RESP3 a connection with subscriptions takes no AUTH, so that another takes its place.
    async fn authenticate(
        &mut self,
        issued: &Issued,
        messages: &mut broadcast::Receiver<Message>,
    ) -> Result<(), CommandFailure> {
        if self.settings.has_resp3() {
            self.link.authenticate(issued).await;
            return Ok(());
        }
        self.link.note_told(issued);
        match self.subscribe_anew().await {
            // What was published before the other was subscribed came here; what came to both is heard twice, which
            // listeners bear.
            Ok((link, next)) => {
                loop {
                    match messages.try_recv() {
                        Ok(message) => self.pass_on(Ok(message)).await?,
                        Err(TryRecvError::Lagged(_)) => self.listeners.lagged(),
                        Err(TryRecvError::Empty | TryRecvError::Closed) => break,
                    }
                }
                (self.link, *messages) = (link, next);
            }
            Err(error) => tracing::debug!(reason = %error, "the subscription stays where it is"),
        }
        Ok(())
    }

    /// Another connection, with the same subscriptions.
    async fn subscribe_anew(&self) -> Result<(Link, broadcast::Receiver<Message>), StoreError> {
        let link = Link::open(self.settings, Target::AnyNode).await?;
        let info = fetch_info(&link, self.settings.command_timeout).await.ok();
        let messages = link.messages();
        for channels in self.listeners.present().chunks(SUBSCRIBE_MAX) {
            let subscribed = link.subscribe(channels, self.settings.command_timeout).await;
            subscribed.map_err(|failure| failure.error)?;
        }
        self.listeners.begin(info.as_ref().and_then(Info::process));
        Ok((link, messages))
    }

    /// The next connection is to lead elsewhere, if there is an elsewhere.
    fn suspected(&self) -> StoreError {
        if let Some(nodes) = &self.settings.nodes {
            nodes.ask_last(self.link.endpoint());
        }
        let reason = "what is published may not reach that server: another may be the master by now";
        StoreError::Unreachable { reason: reason.to_owned() }
    }

    async fn pass_on(&mut self, message: Result<Message, RecvError>) -> Result<(), CommandFailure> {
        match message {
            Ok(message) => {
                // What is no text is not ours.
                let text = message.value.as_str();
                let all_hear = self.listeners.say(&message.channel, text.as_deref().unwrap_or_default());
                if all_hear { Ok(()) } else { self.update().await }
            }
            Err(broadcast::error::RecvError::Lagged(_)) => {
                self.listeners.lagged();
                Ok(())
            }
            Err(broadcast::error::RecvError::Closed) => Err(CommandFailure::unreachable("the connection was closed")),
        }
    }

    /// Subscribes to what is new, and unsubscribes from what nobody listens to any more.
    async fn update(&mut self) -> Result<(), CommandFailure> {
        let Differences { new, old } = self.listeners.differences();
        let timeout = self.settings.command_timeout;
        if !old.is_empty() {
            self.link.unsubscribe(&old, timeout).await?;
        }
        // Not thousands at once: each of them is to look then.
        for new in new.chunks(SUBSCRIBE_MAX) {
            self.link.subscribe(new, timeout).await?;
            self.listeners.subscribed(new);
        }
        self.listeners.set_refusal(None);
        self.was_useful = true;
        Ok(())
    }
}

/// Ticks from now on, the first time after a whole period.
fn every(period: Duration) -> Interval {
    let mut interval = tokio::time::interval(period);
    interval.reset();
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    interval
}

enum Next {
    Message(Result<Message, RecvError>),
    Update,
    Heartbeat,
    Credential(Issued),
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc::error::TryRecvError;

    use super::*;
    use crate::base::subscription::BEHIND_MAX;
    use crate::protocol::jobs::JobName;
    use crate::protocol::{LockId, LockName};

    fn said(count: u64) -> String {
        format!("v1 heartbeat 7 {count} 0 {:032x} web-0", 1)
    }

    fn subscribe(listeners: &Listeners) {
        listeners.subscribed(&listeners.differences().new);
    }

    fn heard(count: u64) -> News {
        News::parse(&said(count)).unwrap()
    }

    #[test]
    fn a_slow_listener_hears_of_a_gap_and_the_others_hear_everything() {
        let listeners = Listeners::default();
        let (mut slow, mut quick) =
            (listeners.add::<News>("a".to_owned(), None), listeners.add::<News>("a".to_owned(), None));
        subscribe(&listeners);
        assert_eq!((slow.try_recv(), quick.try_recv()), (Ok(News::Gap), Ok(News::Gap)));
        for count in 0..1_000 {
            assert!(listeners.say("a", &said(count)), "nobody has gone");
            assert_eq!(quick.try_recv(), Ok(heard(count)));
        }
        for count in 0..BEHIND_MAX as u64 {
            assert_eq!(slow.try_recv(), Ok(heard(count)));
        }
        assert_eq!(slow.try_recv(), Ok(News::Gap));
        assert!(listeners.say("a", &said(1_000)));
        assert_eq!((slow.try_recv(), quick.try_recv()), (Ok(heard(1_000)), Ok(heard(1_000))));
        drop(slow);
        assert!(!listeners.say("a", &said(1_001)), "it has gone");
    }

    fn is_suspected(listeners: &Listeners) -> bool {
        listeners.suspect.notified().now_or_never().is_some()
    }

    #[test]
    fn what_rises_unheard_for_a_lease_is_proof_and_nothing_less() {
        let (listeners, lease) = (Listeners::default(), Duration::ZERO);
        let _news = listeners.add::<News>("a".to_owned(), None);
        let suspected = |count, lease| {
            listeners.compare("a", count, lease);
            is_suspected(&listeners)
        };
        assert!(!suspected(1, lease) && !suspected(9, lease), "it is not subscribed yet");
        subscribe(&listeners);
        assert!(!suspected(9, lease), "the first that is told");
        assert!(!suspected(10, lease), "one may be on its way");
        assert!(!suspected(11, Duration::from_secs(3600)), "it is not long ago");
        assert!(suspected(11, lease));
        assert!(listeners.say("a", &said(11)));
        assert!(!suspected(13, lease), "something was heard since");
        assert!(!suspected(2, lease) && !suspected(3, lease) && suspected(4, lease), "the record is another");
        listeners.ended();
        assert!(!suspected(9, lease), "a new connection");
    }

    #[test]
    fn a_subscription_follows_commands_and_is_not_suspected_twice() {
        let listeners = Listeners::default();
        listeners.follow("first");
        assert!(!is_suspected(&listeners), "there is none yet");
        listeners.begin(Some("first".to_owned()));
        listeners.follow("first");
        assert!(!is_suspected(&listeners));
        listeners.follow("second");
        listeners.begin(Some("second".to_owned()));
        assert!(!is_suspected(&listeners), "the new connection is another");
    }

    #[test]
    fn each_channel_is_heard_in_its_own_language() {
        let listeners = Listeners::default();
        let mut wakes = listeners.add::<WakeNews>("a".to_owned(), None);
        let mut news = listeners.add::<News>("b".to_owned(), None);
        let mut wishes = listeners.add::<JobNews>("c".to_owned(), None);
        subscribe(&listeners);
        let wake = format!("v1 {:032x} orders 42", 5);
        for message in [said(1), wake, "v1 nightly".to_owned()] {
            assert!(["a", "b", "c"].iter().all(|channel| listeners.say(channel, &message)));
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
        let (one, other) = (listeners.add::<News>("a".to_owned(), None), listeners.add::<News>("a".to_owned(), None));
        subscribe(&listeners);
        drop(one);
        let Differences { new, old } = listeners.differences();
        assert!(new.is_empty() && old.is_empty(), "the other listens still");
        drop(other);
        let Differences { new, old } = listeners.differences();
        assert!(new.is_empty() && *old == [Arc::from("a")]);
        let again = listeners.add::<News>("a".to_owned(), None);
        let Differences { new, old } = listeners.differences();
        assert!(*new == [Arc::from("a")] && old.is_empty(), "it was unsubscribed from");
        drop(again);
        assert!(listeners.differences().old.is_empty(), "it was not subscribed to yet");
    }

    #[test]
    fn a_new_connection_is_to_be_subscribed_to_everything() {
        let listeners = Listeners::default();
        let (_one, _other) = (listeners.add::<News>("a".to_owned(), None), listeners.add::<News>("b".to_owned(), None));
        subscribe(&listeners);
        assert!(listeners.differences().new.is_empty());
        listeners.ended();
        assert_eq!(listeners.differences().new.len(), 2);
    }

    #[test]
    fn what_its_own_session_does_is_no_news_to_a_listener() {
        let listeners = Listeners::default();
        let (own, another) = (SessionId::from_u128(1), SessionId::from_u128(2));
        let mut leader = listeners.add::<News>("a".to_owned(), Some(own));
        let mut other = listeners.add::<News>("a".to_owned(), Some(another));
        subscribe(&listeners);
        listeners.say("a", &said(5));
        listeners.say("a", "not ours at all");
        assert_eq!((leader.try_recv(), leader.try_recv()), (Ok(News::Gap), Err(TryRecvError::Empty)));
        assert_eq!((other.try_recv(), other.try_recv()), (Ok(News::Gap), Ok(heard(5))));
    }
}
