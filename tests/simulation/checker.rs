//! Holds what the apps could have read against the promises P1, P2 and P5.

use std::collections::{BTreeMap, BTreeSet};

use baton::protocol::{StoreTime, Token};

use crate::clockwork::{Nanos, SECOND};

/// A replica as its apps see it.
pub trait Watched {
    /// Whether it would say so now.
    fn leads(&self, now: Nanos) -> bool;

    /// Whether it leads, and has an app to lead with.
    fn serves(&self, now: Nanos) -> bool {
        self.leads(now)
    }

    /// Whether its app may act as leader: because it would be told so now, or by an answer that is still valid.
    fn acts(&self, now: Nanos) -> bool;
}

/// What was seen in one run.
#[derive(Debug, Default)]
pub struct Checker {
    /// P1: moments at which two apps could act as leader.
    pub two_leaders: u64,
    /// P2: terms whose token is not greater than every earlier one's.
    pub token_regressions: u64,
    /// Tokens that rightly may not be greater: when each was minted, neither its asker nor the store's clock remembered
    /// the greatest.
    unremembered: BTreeSet<Token>,
    /// Who was granted each token last.
    minted_for: BTreeMap<Token, usize>,
    /// P5: renewals of a standing incumbent that the store refused, before the first split.
    pub refused_incumbents: u64,
    /// Moments at which somebody led although too few members have been well for a whole lease.
    pub no_quorum: u64,
    /// True time with a leader.
    pub led_for: Nanos,
    /// When somebody led first.
    pub first_led: Option<Nanos>,
    /// When somebody led last.
    pub last_led: Option<Nanos>,
    /// What went wrong first, in words.
    pub first: Option<String>,
    /// Terms begun.
    pub terms: u64,
    split_seen: bool,
    top: Token,
    looked_at: Nanos,
}

impl Checker {
    /// Looks at everybody at once. Called after every event, so between two calls nobody begins to lead.
    pub fn observe(&mut self, now: Nanos, replicas: &[impl Watched]) {
        let acting: Vec<usize> = (0..replicas.len()).filter(|at| replicas[*at].acts(now)).collect();
        if acting.len() > 1 {
            self.two_leaders += 1;
            self.complain(now, || format!("P1: replicas {acting:?} may all act as leader"));
        }
        if replicas.iter().any(|replica| replica.serves(now)) {
            self.led_for += now - self.looked_at;
            self.first_led.get_or_insert(now);
            self.last_led = Some(now);
        }
        self.looked_at = now;
    }

    pub fn elected(&mut self, now: Nanos, at: usize, token: Token) {
        self.terms += 1;
        if token <= self.top && !self.unremembered.contains(&token) {
            self.token_regressions += 1;
            let top = self.top;
            self.complain(now, || format!("P2: replica {at} is elected with token {token}, after {top}"));
        }
        self.top = self.top.max(token);
    }

    /// A token was minted for an asker that knew of none greater than `floor`, by a clock that showed `clock`.
    pub fn minted(&mut self, token: Token, process: usize, floor: Token, clock: StoreTime) {
        self.minted_for.insert(token, process);
        if token <= self.top && floor < self.top && clock.0 < self.top.get() {
            self.unremembered.insert(token);
        }
    }

    /// Whether this token was minted for that process.
    pub fn is_of(&self, token: Token, process: usize) -> bool {
        self.minted_for.get(&token) == Some(&process)
    }

    /// A side of a split may grant a term that the other side's store hears of later: from then on a refusal may be
    /// right.
    pub fn split(&mut self) {
        self.split_seen = true;
    }

    pub fn refused_incumbent(&mut self, now: Nanos, at: usize) {
        if self.split_seen {
            return;
        }
        self.refused_incumbents += 1;
        self.complain(now, || format!("P5: the store refuses a renewal of replica {at}, which leads"));
    }

    pub fn led_without_a_quorum(&mut self, now: Nanos, members: usize) {
        self.no_quorum += 1;
        self.complain(now, || format!("somebody leads, though only {members} members were well within the last lease"));
    }

    fn complain(&mut self, now: Nanos, what: impl FnOnce() -> String) {
        if self.first.is_none() {
            self.first = Some(format!("at {:.3} s: {}", now as f64 / SECOND as f64, what()));
        }
    }
}
