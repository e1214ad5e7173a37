//! A queue with one reader that costs next to nothing while it is empty, which it nearly always is: a process may have
//! two for each of ten thousand roles, and tokio's reserves places for 32 messages in each.

use parking_lot::{Mutex, MutexGuard};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use tokio::sync::Notify;

/// Places beyond these are given back as soon as the queue is empty.
const PLACES_KEPT: usize = 4;

struct Queue<T> {
    messages: VecDeque<T>,
    /// Who waits for the next one.
    reader: Option<Waker>,
    writers: usize,
    reader_gone: bool,
}

struct Shared<T> {
    queue: Mutex<Queue<T>>,
    bound: usize,
    /// There is room again, or the reader is gone.
    changed: Notify,
    /// Who is told when the reader is gone, besides.
    gone: Option<Arc<Notify>>,
}

impl<T> Shared<T> {
    fn queue(&self) -> MutexGuard<'_, Queue<T>> {
        self.queue.lock()
    }
}

/// The side that writes; there may be several.
pub struct Sender<T>(Arc<Shared<T>>);

/// The side that reads.
pub struct Receiver<T>(Arc<Shared<T>>);

/// Why a message was not taken. It is given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused<T> {
    /// There is no room.
    Full(T),
    /// Nobody will read it.
    Closed(T),
}

/// Why there is no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nothing {
    /// Not now.
    Empty,
    /// Never again: nobody is left who could send one.
    Closed,
}

/// A queue for at most `bound` messages.
pub fn channel<T>(bound: usize) -> (Sender<T>, Receiver<T>) {
    open(bound, None)
}

/// The same for one writer with many readers, each with a queue of its own: `gone` is told when this one leaves, so
/// that nobody has to look at all of them for that.
pub fn channel_of_many<T>(bound: usize, gone: Arc<Notify>) -> (Sender<T>, Receiver<T>) {
    open(bound, Some(gone))
}

fn open<T>(bound: usize, gone: Option<Arc<Notify>>) -> (Sender<T>, Receiver<T>) {
    let queue = Queue { messages: VecDeque::new(), reader: None, writers: 1, reader_gone: false };
    let shared = Arc::new(Shared { queue: Mutex::new(queue), bound, changed: Notify::new(), gone });
    (Sender(Arc::clone(&shared)), Receiver(shared))
}

impl<T> Sender<T> {
    /// Puts a message in, now or not at all.
    ///
    /// # Errors
    /// [`Refused`], with the message.
    pub fn try_send(&self, message: T) -> Result<(), Refused<T>> {
        let mut queue = self.0.queue();
        if queue.reader_gone {
            return Err(Refused::Closed(message));
        }
        if queue.messages.len() >= self.0.bound {
            return Err(Refused::Full(message));
        }
        queue.messages.push_back(message);
        let reader = queue.reader.take();
        drop(queue);
        if let Some(reader) = reader {
            reader.wake();
        }
        Ok(())
    }

    /// Puts a message in as soon as there is room. Cancel-safe: what is not in yet is dropped.
    ///
    /// # Errors
    /// The message, when nobody will read it.
    pub async fn send(&self, message: T) -> Result<(), T> {
        let mut message = message;
        loop {
            let mut changed = std::pin::pin!(self.0.changed.notified());
            // Before the look, so that nothing is missed in between.
            changed.as_mut().enable();
            match self.try_send(message) {
                Ok(()) => return Ok(()),
                Err(Refused::Closed(message)) => return Err(message),
                Err(Refused::Full(back)) => message = back,
            }
            changed.await;
        }
    }

    /// Whether nobody reads any more.
    pub fn is_closed(&self) -> bool {
        self.0.queue().reader_gone
    }

    /// Waits until nobody reads any more.
    pub async fn closed(&self) {
        loop {
            let mut changed = std::pin::pin!(self.0.changed.notified());
            changed.as_mut().enable();
            if self.is_closed() {
                return;
            }
            changed.await;
        }
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        self.0.queue().writers += 1;
        Self(Arc::clone(&self.0))
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        let mut queue = self.0.queue();
        queue.writers -= 1;
        let reader = if queue.writers == 0 { queue.reader.take() } else { None };
        drop(queue);
        if let Some(reader) = reader {
            reader.wake();
        }
    }
}

impl<T> Receiver<T> {
    /// The next message; none once every sender is gone and all was read. Cancel-safe.
    pub async fn recv(&mut self) -> Option<T> {
        poll_fn(|context| self.poll_recv(context)).await
    }

    /// The same, by hand.
    pub fn poll_recv(&mut self, context: &mut Context<'_>) -> Poll<Option<T>> {
        let mut queue = self.0.queue();
        if let Some(message) = queue.messages.pop_front() {
            self.has_room(queue);
            return Poll::Ready(Some(message));
        }
        if queue.writers == 0 {
            return Poll::Ready(None);
        }
        if queue.reader.as_ref().is_none_or(|reader| !reader.will_wake(context.waker())) {
            queue.reader = Some(context.waker().clone());
        }
        Poll::Pending
    }

    /// The next message, if there is one.
    ///
    /// # Errors
    /// [`Nothing`].
    pub fn try_recv(&mut self) -> Result<T, Nothing> {
        let mut queue = self.0.queue();
        match queue.messages.pop_front() {
            Some(message) => {
                self.has_room(queue);
                Ok(message)
            }
            None if queue.writers == 0 => Err(Nothing::Closed),
            None => Err(Nothing::Empty),
        }
    }

    fn has_room(&self, mut queue: MutexGuard<'_, Queue<T>>) {
        if queue.messages.is_empty() && queue.messages.capacity() > PLACES_KEPT {
            queue.messages = VecDeque::new();
        }
        drop(queue);
        self.0.changed.notify_waiters();
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        let mut queue = self.0.queue();
        queue.reader_gone = true;
        queue.reader = None;
        // What is in a message may be another end of a queue: it goes when nothing is locked.
        let unread = std::mem::take(&mut queue.messages);
        drop(queue);
        drop(unread);
        self.0.changed.notify_waiters();
        if let Some(gone) = &self.0.gone {
            gone.notify_one();
        }
    }
}

impl<T> std::fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sender").finish_non_exhaustive()
    }
}

impl<T> std::fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Receiver").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    async fn soon<F: Future>(what: F) -> F::Output {
        tokio::time::timeout(Duration::from_secs(10), what).await.expect("it comes about")
    }

    #[tokio::test]
    async fn messages_come_in_order_and_the_bound_holds() {
        let (sender, mut receiver) = channel(2);
        assert_eq!((sender.try_send(1), sender.try_send(2)), (Ok(()), Ok(())));
        assert_eq!(sender.try_send(3), Err(Refused::Full(3)));
        assert_eq!((receiver.recv().await, receiver.try_recv()), (Some(1), Ok(2)));
        assert_eq!(receiver.try_recv(), Err(Nothing::Empty));
    }

    #[tokio::test]
    async fn who_waits_for_room_gets_it_and_who_waits_for_a_message_too() {
        let (sender, mut receiver) = channel(1);
        let writing = tokio::spawn(async move {
            for number in 0..1_000 {
                sender.send(number).await.expect("it is read");
            }
        });
        for number in 0..1_000 {
            assert_eq!(soon(receiver.recv()).await, Some(number));
        }
        assert_eq!(soon(receiver.recv()).await, None, "the sender is gone");
        soon(writing).await.expect("no panic");
    }

    #[tokio::test]
    async fn what_was_sent_is_read_after_the_last_sender_is_gone() {
        let (sender, mut receiver) = channel(8);
        let other = sender.clone();
        sender.try_send('a').expect("room");
        drop(sender);
        assert_eq!((receiver.try_recv(), receiver.try_recv()), (Ok('a'), Err(Nothing::Empty)));
        other.try_send('b').expect("room");
        drop(other);
        assert_eq!((receiver.recv().await, receiver.recv().await), (Some('b'), None));
        assert_eq!(receiver.try_recv(), Err(Nothing::Closed));
    }

    #[tokio::test]
    async fn the_end_of_the_reader_is_told_to_those_who_wait() {
        let (sender, receiver) = channel(1);
        sender.try_send(1).expect("room");
        let (one, other) = (sender.clone(), sender.clone());
        let sending = tokio::spawn(async move { one.send(2).await });
        let watching = tokio::spawn(async move { other.closed().await });
        tokio::task::yield_now().await;
        assert!(!sender.is_closed() && !watching.is_finished());
        drop(receiver);
        assert_eq!(soon(sending).await.expect("no panic"), Err(2));
        soon(watching).await.expect("no panic");
        assert_eq!(sender.try_send(3), Err(Refused::Closed(3)));
    }

    #[tokio::test]
    async fn one_of_many_readers_says_that_it_leaves() {
        let gone = Arc::new(Notify::new());
        let readers: Vec<_> = (0..3).map(|_| channel_of_many::<()>(1, Arc::clone(&gone)).1).collect();
        drop(readers);
        soon(gone.notified()).await;
    }

    #[tokio::test]
    async fn places_are_given_back_when_all_is_read() {
        let (sender, mut receiver) = channel(1_000);
        for number in 0..1_000 {
            sender.try_send(number).expect("room");
        }
        while receiver.try_recv().is_ok() {}
        assert!(sender.0.queue().messages.capacity() <= PLACES_KEPT);
    }
}
