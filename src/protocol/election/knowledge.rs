//! What a replica knows of the others: the greatest token, the renewal count, who leads, and when it last heard so.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use super::super::ids::{Mono, SessionId, Token};
use super::super::messages::{GuardCause, Holder, KnownRecord, RecordVersion};
use super::super::timing::Timing;
use super::clock_step::{ClockWatch, slack};

#[derive(Clone, Debug, Hash)]
struct Rival {
    holder: Holder,
    token: Token,
    /// Until when its lease should stand, on this replica's clock.
    until: Mono,
}

/// The record's version.
#[derive(Clone, Copy, Debug, Hash)]
struct Known {
    version: RecordVersion,
    /// When it was first known to be this.
    since: Mono,
    /// When it was last known to be this.
    at: Mono,
}

/// The last heartbeat of another.
#[derive(Clone, Copy, Debug, Hash)]
struct Heartbeat {
    session: SessionId,
    token: Token,
    at: Mono,
}

/// How many sessions that the store did not name are remembered.
const DISBELIEVED: usize = 16;

#[derive(Clone, Debug, Default, Hash)]
pub(super) struct Knowledge {
    /// The greatest token ever seen (R3).
    pub(super) floor: Token,
    /// How many listened to the last heartbeat, as far as somebody told.
    pub(super) audience: u32,
    pub(super) clock: ClockWatch,
    /// The last term that is known to be over.
    pub(super) released: Option<(SessionId, Token)>,
    /// Why the store holds the role shut, and until when (R5).
    pub(super) guarded: Option<(GuardCause, Mono)>,
    known: Option<Known>,
    rival: Option<Rival>,
    heartbeat: Option<Heartbeat>,
    /// Whose news the store denies: another store's, on the same channel.
    disbelieved: VecDeque<SessionId>,
    /// Other processes with this replica's name that were reported already.
    clashes: Vec<SessionId>,
}

impl Knowledge {
    /// Whether nobody is known to have led before, so that an empty store has forgotten nothing that is known.
    pub(super) fn is_first(&self, cause: GuardCause) -> bool {
        cause == GuardCause::Empty && self.floor == Token::NONE
    }

    /// What to tell the store (R5). `listening`: messages may have been missed, so that it counts only if it was seen
    /// to stand still for as long as one listens.
    pub(super) fn of_record(&self, now: Mono, timing: &Timing, listening: bool) -> Option<KnownRecord> {
        let Known { version, since, at } = self.known?;
        let age = now.since(at);
        if listening && at.since(since) < timing.listen_span() {
            return None;
        }
        let stands = self.rival.as_ref().map_or(Duration::ZERO, |rival| rival.until.since(now));
        let remaining = stands.saturating_sub(slack(timing.lease_duration()));
        Some(KnownRecord { version, age, unchanged_for: now.since(since), remaining })
    }

    /// Since when the record has been known to be as it is.
    pub(super) fn known_since(&self) -> Option<Mono> {
        self.known.map(|known| known.since)
    }

    /// The store's record was of this version, at `at` or before.
    pub(super) fn learn(&mut self, version: RecordVersion, at: Mono) {
        self.floor = self.floor.max(version.token);
        let same = self.known.filter(|known| known.version == version);
        self.known = Some(Known { version, since: same.map_or(at, |known| known.since), at });
    }

    /// The store says that another leads. True when that is news.
    pub(super) fn follow(&mut self, holder: Holder, token: Token, until: Mono) -> bool {
        self.floor = self.floor.max(token);
        self.disbelieved.retain(|session| *session != holder.session);
        let news = self.rival.as_ref().is_none_or(|rival| rival.token != token || rival.holder != holder);
        self.rival = Some(Rival { holder, token, until });
        news
    }

    /// A heartbeat or a grant of another was heard. False for one that is older than what was heard before.
    pub(super) fn hear(&mut self, session: SessionId, token: Token, count: u64, now: Mono) -> bool {
        if self.heartbeat.is_some_and(|newest| token < newest.token) {
            return false;
        }
        self.heartbeat = Some(Heartbeat { session, token, at: now });
        // News may overtake each other, and the store's answers overtake news.
        let is_newer = |known: Known| (known.version.token, known.version.count) <= (token, count);
        if self.known.is_none_or(is_newer) {
            self.learn(RecordVersion { token, count, writer: Some(session) }, now);
        }
        self.floor = self.floor.max(token);
        true
    }

    /// A release was heard, or the lease was found free: nobody is known to lead. False when a later term was heard of.
    pub(super) fn forget_rival(&mut self, token: Token) -> bool {
        if self.heartbeat.is_some_and(|newest| token < newest.token) {
            return false;
        }
        self.floor = self.floor.max(token);
        self.rival = None;
        self.heartbeat = None;
        true
    }

    /// Whether the last term that it knows of is over because its lease was given back.
    pub(super) fn knows_of_release(&self) -> bool {
        self.released.is_some_and(|(_, token)| token == self.floor)
    }

    /// Until when a heartbeat forbids to look: one lease from when it was heard, on this replica's own clock (R8).
    pub(super) fn quiet_until(&self, lease: Duration) -> Option<Mono> {
        self.heartbeat.map(|heartbeat| heartbeat.at + lease)
    }

    /// The store says who leads, if anybody. One of whom news kept this replica quiet, and whom the store does not
    /// name, is another store's: nothing more is believed of it, until the store names it.
    pub(super) fn compare_with_store(&mut self, holder: Option<SessionId>) {
        if let Some(heartbeat) = self.heartbeat.take_if(|heartbeat| holder != Some(heartbeat.session)) {
            self.rival = None;
            self.disbelieved.truncate(DISBELIEVED - 1);
            self.disbelieved.push_front(heartbeat.session);
        }
    }

    /// Whether the store denies this session.
    pub(super) fn disbelieves(&self, session: SessionId) -> bool {
        self.disbelieved.contains(&session)
    }

    /// The leader's name and until when it is worth telling.
    pub(super) fn rival(&self, now: Mono) -> Option<(Arc<str>, Mono)> {
        let rival = self.rival.as_ref().filter(|rival| now < rival.until)?;
        Some((Arc::clone(&rival.holder.identity), rival.until))
    }

    /// Whose term it is, as far as is known, however old that is.
    pub(super) fn rival_term(&self) -> Option<(&Holder, Token)> {
        self.rival.as_ref().map(|rival| (&rival.holder, rival.token))
    }

    /// True once for each other process that uses this replica's name.
    pub(super) fn is_new_clash(&mut self, session: SessionId) -> bool {
        // A handful at most; a hundred restarts under one name say nothing new.
        let new = !self.clashes.contains(&session) && self.clashes.len() < 100;
        if new {
            self.clashes.push(session);
        }
        new
    }
}
