//! Holds what the apps and the store did against what locks promise.

use std::collections::{BTreeMap, BTreeSet};

use baton::protocol::{
    AcquireRequest, ExtendRequest, LOOK_FIRST, LockId, LockName, SessionId, TICKET_SPAN, TURN_MAX, Token,
};

use super::world::{LEASE_MAX, MS, Nanos, SECOND, TIMEOUT};

/// A worker's app may act on a lock until this moment. Workers of one owner may act at once, under one token.
struct Acting {
    worker: usize,
    token: Token,
    name: LockName,
    until: Nanos,
}

/// A request that has a ticket.
struct Ticket {
    session: SessionId,
    id: LockId,
    is_fair: bool,
}

/// Who has a name that is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Idle {
    /// Somebody who lives.
    Used,
    /// Only those who died.
    TheDead,
    Free,
}

#[derive(Default)]
pub struct Checker {
    acting: Vec<Acting>,
    tokens: BTreeMap<LockName, Token>,
    queues: BTreeMap<LockName, Vec<Ticket>>,
    /// Requests whose place is no longer known here: the store lost a part of what it knew, their sidecar was silent,
    /// or they were granted before.
    unordered: BTreeSet<LockId>,
    /// The first tokens of what was granted for a turn.
    pub blocks: BTreeSet<Token>,
    /// Promises that an operator has broken: of these names, from the first token to the last.
    broken: Vec<(LockName, Token, Token)>,
    /// Until when names of one permit are nobody else's, and for which hold.
    kept_until: BTreeMap<LockName, (LockId, Nanos)>,
    alive_until: BTreeMap<SessionId, Nanos>,
    free_since: BTreeMap<LockName, Nanos>,
    /// Since when nobody who lives has what is waited for, whatever messages come; and whether those have it who died.
    unused_since: BTreeMap<LockName, (bool, Nanos)>,
    /// When somebody died, or the store's clock was set back: for a while tickets of the dead count.
    pub troubled_at: Nanos,
    /// When the last lease seen of each name would have ended.
    leases_end: BTreeMap<LockName, Nanos>,
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
    pub fn acts(&mut self, names: &[LockName], worker: usize, token: Token, until: Nanos) {
        for name in names {
            if self.is_broken(name, token) {
                continue;
            }
            let known = |acting: &&mut Acting| (acting.worker, acting.token) == (worker, token) && acting.name == *name;
            match self.acting.iter_mut().find(known) {
                Some(acting) => acting.until = acting.until.max(until),
                None => self.acting.push(Acting { worker, token, name: name.clone(), until }),
            }
        }
    }

    /// A lock is granted anew, and is nobody else's for so long.
    pub fn keeps(&mut self, now: Nanos, request: &AcquireRequest, at_least: Nanos) {
        for name in request.names.iter().filter(|_| request.permits == 1) {
            // What was put back meanwhile was measured by a sidecar's clock.
            let until = now + at_least - at_least / 100;
            if self.kept_until.insert(name.clone(), (request.id, until)).is_some_and(|(_, until)| now + MS < until) {
                self.complain(now, format!("{name} is granted too soon"));
            }
        }
    }

    /// Nobody was told of this hold.
    pub fn forgoes(&mut self, id: LockId) {
        self.kept_until.retain(|_, (of, _)| *of != id);
    }

    /// An operator has ended what is held under this token; or, in a turn, under one of its block.
    pub fn unlocked(&mut self, name: &LockName, token: Token) {
        let more = if self.blocks.contains(&token) { u64::from(TURN_MAX) - 1 } else { 0 };
        let last = Token::new(token.get() + more).expect("small");
        self.broken.push((name.clone(), token, last));
        self.kept_until.remove(name);
        self.acting.retain(|acting| acting.name != *name || !(token..=last).contains(&acting.token));
    }

    /// What is promised is lost to who came since, or to an operator, and to nobody else.
    pub fn loses(&mut self, now: Nanos, request: &ExtendRequest) {
        let Some(lost) = request.restore.as_ref().filter(|lost| lost.permits == 1) else { return };
        let is_last = |name: &LockName| self.tokens.get(name) == Some(&lost.token) && !self.is_broken(name, lost.token);
        if request.names.iter().all(is_last) {
            self.complain(now, format!("{:?} are lost to nobody, under {}", request.names, lost.token));
        }
    }

    fn is_broken(&self, name: &LockName, token: Token) -> bool {
        self.broken.iter().any(|(of, first, last)| of == name && (*first..=*last).contains(&token))
    }

    /// It has stopped by itself, before it gave the lock back.
    pub fn stops(&mut self, worker: usize, token: Token) {
        self.acting.retain(|acting| (acting.worker, acting.token) != (worker, token));
    }

    /// Never more than may act at one moment. Called after every event: between two calls nobody begins.
    pub fn look(&mut self, now: Nanos, permits: impl Fn(&LockName) -> usize) {
        self.acting.retain(|acting| now < acting.until);
        let mut by_name: BTreeMap<&LockName, BTreeSet<Token>> = BTreeMap::new();
        for acting in &self.acting {
            by_name.entry(&acting.name).or_default().insert(acting.token);
        }
        let crowd = by_name.into_iter().find(|(name, tokens)| tokens.len() > permits(name));
        if let Some(what) = crowd.map(|(name, tokens)| format!("the holders {tokens:?} of {name} may all act")) {
            self.complain(now, what);
        }
    }

    /// What goes on in a turn, unless its sidecar has not heard yet that it was ended.
    pub fn rises_in_turn(&mut self, now: Nanos, names: &[LockName], token: Token) {
        let going_on = |name: &&LockName| !self.is_broken(name, token);
        let names: Vec<LockName> = names.iter().filter(going_on).cloned().collect();
        self.rises(now, &names, token);
    }

    pub fn rises(&mut self, now: Nanos, names: &[LockName], token: Token) {
        for name in names {
            let last = self.tokens.insert(name.clone(), token).unwrap_or(Token::NONE);
            if token <= last {
                self.complain(now, format!("the token {token} of {name} is not above {last}"));
            }
        }
    }

    /// Tokens rise from holder to holder, and nobody overtakes a fair ticket whose sidecar never was silent.
    pub fn granted(&mut self, now: Nanos, names: &[LockName], id: LockId, token: Token, permits: usize) {
        self.rises(now, names, token);
        for name in names {
            let queue = self.queues.entry(name.clone()).or_default();
            let alive = |ticket: &&Ticket| self.alive_until.get(&ticket.session).is_some_and(|until| now < *until);
            let before = queue.iter().take_while(|ticket| ticket.id != id).filter(|ticket| ticket.is_fair);
            let ahead: Vec<LockId> = before.filter(alive).map(|ticket| ticket.id).collect();
            queue.retain(|ticket| ticket.id != id);
            if ahead.len() >= permits && !self.unordered.contains(&id) {
                self.complain(now, format!("{id} overtook the fair requests {ahead:?} for {name}"));
            }
        }
        self.has_had_its_turn(id);
    }

    /// Where the answer is lost, and then the store forgets the grant or an operator ends it, it is asked again.
    pub fn has_had_its_turn(&mut self, id: LockId) {
        self.left(id);
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

    /// Somebody who lives has a name, until then. Noted whoever waits, and also while nothing is judged: who waits was
    /// told of it, or will be by an answer that is on its way, and looks when it ends, though it may be given back
    /// before.
    pub fn lease_seen(&mut self, name: &LockName, ends_at: Nanos) {
        let known = self.leases_end.entry(name.clone()).or_default();
        *known = ends_at.max(*known);
    }

    /// A name at this moment, which somebody waits for who lives: whether the dead have it, or nobody.
    pub fn idle(&mut self, now: Nanos, name: &LockName, idle: Idle) {
        if idle == Idle::Used {
            self.free_since.remove(name);
            self.unused_since.remove(name);
            return;
        }
        let is_free = idle == Idle::Free;
        let unused = self.unused_since.entry(name.clone()).or_insert((is_free, now));
        if unused.0 != is_free {
            *unused = (is_free, now);
        }
        // The dead have it for a lease; each time that the store's clock is set back meanwhile, for one from when the
        // first who waits looks next.
        let [tickets, look] = [TICKET_SPAN, LOOK_FIRST].map(|span| u64::try_from(span.as_nanos()).expect("small"));
        let ended = self.leases_end.get(name).copied().unwrap_or(0).max(self.troubled_at + tickets);
        let (begins, bound) = if is_free { (ended, tickets) } else { (self.troubled_at + look, LEASE_MAX) };
        if now > unused.1.max(begins) + bound + 2 * SECOND {
            self.complain(
                now,
                format!("{name} is nobody's for longer than leases and tickets of the dead last: {idle:?}"),
            );
        }
        if is_free {
            // What disturbs a waiter or a message about the lock, starts the time anew. The answer to its last look and
            // the next one may each take nearly as long as anybody waits for them.
            let since = *self.free_since.entry(name.clone()).or_insert(now);
            if now > since.max(ended) + 2 * TIMEOUT + 100 * MS {
                self.complain(now, format!("{name} is free for longer than until a waiter's own look"));
            }
        } else {
            self.free_since.remove(name);
        }
    }

    /// Nobody waits for it.
    pub fn unwanted(&mut self, name: &LockName) {
        self.free_since.remove(name);
        self.unused_since.remove(name);
    }

    pub fn disturbed(&mut self, names: &[LockName]) {
        self.free_since.retain(|name, _| !names.contains(name));
    }

    pub fn disturbed_all(&mut self) {
        self.free_since.clear();
        self.unused_since.clear();
    }
}
