//! What the members publish, as one store would have published it.

use std::pin::Pin;
use std::task::{Context, Poll};

use crate::base::Subscription;
use crate::base::subscription::Publisher;
use crate::protocol::{Heard, Seats};
use crate::store::News;

/// Puts the members' news together until the receiver is dropped. Of what several members said one after the other
/// while this was slow to hear it, only the last may be told: it holds all that a candidate needs.
///
/// Must be called inside a tokio runtime.
pub(super) fn listen(members: Vec<Subscription<News>>, seats: Seats) -> Subscription<News> {
    let (publisher, listener) = Publisher::open();
    let merge = Merge { by_members: Heard::new(seats), seats, subscribed: vec![false; members.len()], heard: false };
    tokio::spawn(run(merge, members, publisher));
    listener
}

struct Merge {
    by_members: Heard,
    seats: Seats,
    /// Which members were ever subscribed to.
    subscribed: Vec<bool>,
    /// Once a majority was: from then on its word is heard.
    heard: bool,
}

impl Merge {
    /// What the listener is to hear of this.
    fn take(&mut self, member: usize, news: News) -> Option<News> {
        match news {
            News::Said(said) => self.by_members.said(member, &said).then_some(News::Said(said)),
            News::Gap => {
                self.by_members.missed(member);
                let again = std::mem::replace(&mut self.subscribed[member], true);
                let subscribed = self.subscribed.iter().enumerate().filter(|(_, subscribed)| **subscribed);
                let begins = !self.heard && self.seats.are_a_majority(subscribed.map(|(member, _)| member));
                self.heard |= begins;
                // Of one that joins a majority later nothing was missed.
                (begins || (self.heard && again)).then_some(News::Gap)
            }
        }
    }
}

async fn run(mut merge: Merge, mut members: Vec<Subscription<News>>, mut listener: Publisher<News>) {
    loop {
        tokio::select! {
            biased;
            () = listener.gone() => return,
            next = Next { members: &mut members } => {
                let Some((member, news)) = next else { return };
                match merge.take(member, news) {
                    Some(News::Gap) => listener.tell_gap(),
                    Some(said) => listener.tell(said),
                    None => {}
                }
            }
        }
    }
}

/// The next news of any member, with whose it is; none once all have ended.
struct Next<'a> {
    members: &'a mut [Subscription<News>],
}

impl Future for Next<'_> {
    type Output = Option<(usize, News)>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut all_ended = true;
        for (member, news) in self.members.iter_mut().enumerate() {
            match news.poll_recv(context) {
                Poll::Ready(Some(news)) => return Poll::Ready(Some((member, news))),
                Poll::Ready(None) => {}
                Poll::Pending => all_ended = false,
            }
        }
        if all_ended { Poll::Ready(None) } else { Poll::Pending }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use tokio::sync::mpsc;

    use super::*;
    use crate::protocol::{Announcement, AnnouncementKind, Holder, SessionId, Token};

    fn said(count: u64) -> News {
        let holder = Holder { session: SessionId::from_u128(1), identity: Arc::from("web-0") };
        let token = Token::new(7).expect("small");
        News::Said(Box::new(Announcement { kind: AnnouncementKind::Heartbeat, token, count, audience: 0, holder }))
    }

    /// The members' ends of a listener.
    fn stage(members: usize) -> (Vec<mpsc::Sender<News>>, Subscription<News>) {
        let (senders, receivers) = (0..members).map(|_| mpsc::channel(10_000)).unzip();
        (senders, listen(receivers, Seats::majority(members)))
    }

    async fn next(listener: &mut Subscription<News>) -> Option<News> {
        tokio::time::timeout(Duration::from_secs(10), listener.recv()).await.expect("something is heard")
    }

    #[tokio::test]
    async fn a_message_is_heard_once_when_a_majority_has_said_it() {
        let (members, mut listener) = stage(3);
        for member in &members[..2] {
            member.send(News::Gap).await.unwrap();
        }
        assert_eq!(next(&mut listener).await, Some(News::Gap), "once, and only when a majority is subscribed");
        members[0].send(said(1)).await.unwrap();
        members[0].send(said(2)).await.unwrap();
        members[1].send(said(2)).await.unwrap();
        members[2].send(News::Gap).await.unwrap();
        members[2].send(said(2)).await.unwrap();
        assert_eq!(next(&mut listener).await, Some(said(2)));
        members[2].send(News::Gap).await.unwrap();
        assert_eq!(next(&mut listener).await, Some(News::Gap), "the third is subscribed to for a second time");
    }

    #[tokio::test]
    async fn a_slow_listener_is_told_of_a_gap_and_nothing_grows() {
        let (members, mut listener) = stage(1);
        for count in 0..5_000 {
            members[0].send(said(count)).await.unwrap();
        }
        let mut heard = 0;
        let mut news = next(&mut listener).await;
        while let Some(News::Said(_)) = news {
            heard += 1;
            news = next(&mut listener).await;
        }
        assert_eq!(news, Some(News::Gap));
        assert!(heard < 5_000, "all of {heard} messages were kept for it");
    }

    #[tokio::test]
    async fn it_ends_with_its_listener() {
        let (members, listener) = stage(3);
        drop(listener);
        tokio::time::timeout(Duration::from_secs(10), members[0].closed()).await.expect("its ends are dropped");
    }
}
