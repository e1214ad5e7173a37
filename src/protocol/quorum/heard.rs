//! What the members publish, put together: one voice is not the quorum's.

use super::super::ids::{SessionId, Token};
use super::super::messages::{Announcement, AnnouncementKind};
use super::Seats;

/// What is counted as the same message. Two campaigns may have come to the same token, so the session tells them apart.
/// Members count renewals together, but one that missed some is behind, so only
/// heartbeats, which there is one more of anyway, are told apart by it.
type Verse = (AnnouncementKind, SessionId, Token, u64);

/// Passes a message on once a majority of the members has said it. An incumbent that reaches fewer of them cannot keep
/// candidates waiting, and a release is heard when enough members are free again.
#[derive(Clone, Debug, Hash)]
pub struct Heard {
    latest: Vec<Option<Verse>>,
    seats: Seats,
    /// What was passed on last: a slow member that says it after a quick one has gone on does not make it new.
    passed_on: Option<Verse>,
}

impl Heard {
    /// Nobody has said anything yet.
    pub fn new(seats: Seats) -> Self {
        Self { latest: vec![None; seats.places()], seats, passed_on: None }
    }

    /// A member said this; true when that makes it the quorum's word. A second time from the same member, or from one
    /// more member than it takes, it is no news.
    pub fn said(&mut self, member: usize, news: &Announcement) -> bool {
        let count = if news.kind == AnnouncementKind::Heartbeat { news.count } else { 0 };
        let verse = Some((news.kind, news.holder.session, news.token, count));
        let Some(voice) = self.latest.get_mut(member) else { return false };
        if *voice == verse {
            return false;
        }
        *voice = verse;
        let voices = self.latest.iter().enumerate().filter(|(_, voice)| **voice == verse).map(|(member, _)| member);
        let is_news = self.seats.are_heard(voices) && self.passed_on != verse;
        if is_news {
            self.passed_on = verse;
        }
        is_news
    }

    /// Messages of this member may have been missed.
    pub fn missed(&mut self, member: usize) {
        if let Some(voice) = self.latest.get_mut(member) {
            *voice = None;
        }
    }
}
