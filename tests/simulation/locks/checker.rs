//! Holds what the apps and the store did against what locks promise.

use std::collections::{BTreeMap, BTreeSet};

use baton::protocol::{LockId, LockName, SessionId, TICKET_SPAN, Token};

use super::world::{LOOK, Nanos, SECOND};

/// An app may act on a lock until this moment.
struct Acting {
    id: LockId,
    name: LockName,
    until: Nanos,
}

/// A request that has a ticket.
struct Ticket {
    session: SessionId,
    id: LockId,
    is_fair: bool,
}

#[derive(Default)]
pub struct Checker {
    acting: Vec<Acting>,
    tokens: BTreeMap<LockName, Token>,
    queues: BTreeMap<LockName, Vec<Ticket>>,
    /// Requests whose place is no longer known here: the store lost a part of what it knew, their sidecar was silent,
    /// or they were granted before.
    unordered: BTreeSet<LockId>,
    alive_until: BTreeMap<SessionId, Nanos>,
    free_since: BTreeMap<LockName, Nanos>,
    /// What went wrong, in words.
    pub complaints: BTreeSet<String>,
    /// The first of them, with its moment.
    pub first: Option<String>,
}

impl Checker {
    pub fn complain(&mut self, now: Nanos, what: String) {
        if self.first.is_none() {
            self.first = Some(format!("at {:.3} s: {what}", now as f64 / SECOND as f64));
        }
        self.complaints.insert(what);
    }

    /// An app may act on these names until then; an extension moves the end.
    pub fn acts(&mut self, names: &[LockName], id: LockId, until: Nanos) {
        for name in names {
            match self.acting.iter_mut().find(|acting| acting.id == id && acting.name == *name) {
                Some(acting) => acting.until = acting.until.max(until),
                None => self.acting.push(Acting { id, name: name.clone(), until }),
            }
        }
    }

    /// It has stopped by itself, before it gave the lock back.
    pub fn stops(&mut self, id: LockId) {
        self.acting.retain(|acting| acting.id != id);
    }

    /// Never more than may act at one moment. Called after every event: between two calls nobody begins.
    pub fn look(&mut self, now: Nanos, permits: impl Fn(&LockName) -> usize) {
        self.acting.retain(|acting| now < acting.until);
        let mut by_name: BTreeMap<&LockName, Vec<LockId>> = BTreeMap::new();
        for acting in &self.acting {
            by_name.entry(&acting.name).or_default().push(acting.id);
        }
        let crowd = by_name.into_iter().find(|(name, ids)| ids.len() > permits(name));
        if let Some(what) = crowd.map(|(name, ids)| format!("the holders {ids:?} of {name} may all act")) {
            self.complain(now, what);
        }
    }

    /// Tokens rise from holder to holder, and nobody overtakes a fair ticket whose sidecar never was silent.
    pub fn granted(&mut self, now: Nanos, names: &[LockName], id: LockId, token: Token, permits: usize) {
        for name in names {
            let last = self.tokens.insert(name.clone(), token).unwrap_or(Token::NONE);
            if token <= last {
                self.complain(now, format!("the token {token} of {name} is not above {last}"));
            }
            let queue = self.queues.entry(name.clone()).or_default();
            let alive = |ticket: &&Ticket| self.alive_until.get(&ticket.session).is_some_and(|until| now < *until);
            let before = queue.iter().take_while(|ticket| ticket.id != id).filter(|ticket| ticket.is_fair);
            let ahead: Vec<LockId> = before.filter(alive).map(|ticket| ticket.id).collect();
            queue.retain(|ticket| ticket.id != id);
            if ahead.len() >= permits && !self.unordered.contains(&id) {
                self.complain(now, format!("{id} overtook the fair requests {ahead:?} for {name}"));
            }
        }
        // It has had its turn. Where the answer is lost, and then the store forgets the grant, it is asked again.
        self.unordered.insert(id);
    }

    /// The store has given a request a ticket, if it has none yet.
    pub fn queued(&mut self, name: &LockName, session: SessionId, id: LockId, is_fair: bool) {
        let queue = self.queues.entry(name.clone()).or_default();
        if queue.iter().all(|ticket| ticket.id != id) && !self.unordered.contains(&id) {
            queue.push(Ticket { session, id, is_fair });
        }
    }

    pub fn left(&mut self, id: LockId) {
        self.queues.values_mut().for_each(|queue| queue.retain(|ticket| ticket.id != id));
    }

    /// The store has heard of a session. After a silence its tickets are there or not, as they were met or not.
    pub fn sign_of_life(&mut self, now: Nanos, session: SessionId) {
        let until = now + u64::try_from(TICKET_SPAN.as_nanos()).expect("small");
        if self.alive_until.insert(session, until).is_none_or(|before| before <= now) {
            for queue in self.queues.values_mut() {
                let silent = queue.extract_if(.., |ticket| ticket.session == session);
                self.unordered.extend(silent.map(|ticket| ticket.id));
            }
        }
    }

    /// The store has forgotten everything, or a part.
    pub fn forgot(&mut self) {
        let queues = std::mem::take(&mut self.queues);
        self.unordered.extend(queues.values().flatten().map(|ticket| ticket.id));
        self.alive_until.clear();
    }

    /// Whether a lock is free although somebody waits for it who could have it. What disturbs a waiter or a message
    /// about the lock, starts the time anew.
    pub fn idle(&mut self, now: Nanos, name: &LockName, idle: bool) {
        if !idle {
            self.free_since.remove(name);
            return;
        }
        let since = *self.free_since.entry(name.clone()).or_insert(now);
        if now - since > LOOK + SECOND / 2 {
            self.complain(now, format!("{name} is free for longer than a waiter's own look takes"));
        }
    }

    pub fn disturbed(&mut self, names: &[LockName]) {
        self.free_since.retain(|name, _| !names.contains(name));
    }

    pub fn disturbed_all(&mut self) {
        self.free_since.clear();
    }
}
