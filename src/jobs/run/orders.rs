//! How an attempt is told what to do. A cancellation always arrives, however many of the app's words wait before it: it
//! has a place of its own, and the first one counts.

use tokio::sync::{mpsc, watch};

use super::{CancelReason, Order};

/// How many of the app's words an attempt may be behind.
const WORDS: usize = 16;

/// Gives orders to an attempt.
#[derive(Debug)]
pub struct OrderSender {
    cancel: watch::Sender<Option<CancelReason>>,
    words: mpsc::Sender<Order>,
}

/// An attempt's end of it.
#[derive(Debug)]
pub struct OrderInbox {
    cancel: watch::Receiver<Option<CancelReason>>,
    words: mpsc::Receiver<Order>,
}

/// Both ends.
pub fn orders() -> (OrderSender, OrderInbox) {
    let (cancel, cancelled) = watch::channel(None);
    let (words, inbox) = mpsc::channel(WORDS);
    (OrderSender { cancel, words }, OrderInbox { cancel: cancelled, words: inbox })
}

impl OrderSender {
    /// False when the attempt is gone, or is so far behind with the app's words that this one would have to wait.
    pub fn send(&self, order: Order) -> bool {
        match order {
            Order::Cancel(reason) => {
                let first = |cancel: &mut Option<CancelReason>| cancel.replace(cancel.unwrap_or(reason)).is_none();
                self.cancel.send_if_modified(first);
                !self.cancel.is_closed()
            }
            word @ (Order::Heartbeat | Order::Complete(_)) => self.words.try_send(word).is_ok(),
        }
    }
}

#[cfg(test)]
impl OrderSender {
    /// Whether every word has been taken.
    pub fn are_taken(&self) -> bool {
        self.words.capacity() == WORDS
    }
}

impl OrderInbox {
    /// The next order; none, for ever, when nobody is left to give one. A cancellation is told once, and before all
    /// that waits. Cancel-safe.
    pub async fn next(&mut self) -> Order {
        tokio::select! {
            biased;
            // Its value is only ever set once.
            Ok(()) = self.cancel.changed() => {
                if let Some(reason) = *self.cancel.borrow() {
                    return Order::Cancel(reason);
                }
            }
            Some(word) = self.words.recv() => return word,
            else => {}
        }
        std::future::pending().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_cancellation_arrives_before_all_words_and_however_many_there_are() {
        let (sender, mut orders) = orders();
        assert_eq!((0..WORDS + 4).filter(|_| sender.send(Order::Heartbeat)).count(), WORDS);
        assert!(sender.send(Order::Cancel(CancelReason::Deadline)));
        assert!(sender.send(Order::Cancel(CancelReason::Removed)), "it is on its way already");
        assert_eq!(orders.next().await, Order::Cancel(CancelReason::Deadline));
        for _ in 0..WORDS {
            assert_eq!(orders.next().await, Order::Heartbeat);
        }
        drop(orders);
        assert!(!sender.send(Order::Cancel(CancelReason::Deadline)));
        assert!(!sender.send(Order::Heartbeat));
    }
}
