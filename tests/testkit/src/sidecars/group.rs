//! Some replicas, the apps that watch whether the promises are kept, and what both stand on.

use std::ops::{Deref, DerefMut};
use std::time::{Duration, Instant};

use crate::sidecars::apps::{Apps, Seen};
use crate::sidecars::claims::Term;
use crate::sidecars::replica::{ROLE, Replica, Settings};
use crate::wait::until_some;

/// See the module. What it stands on can be used as if it were the group. Fields end in this order: the replicas before
/// what they use.
pub struct Group<Store> {
    pub replicas: Vec<Replica>,
    pub apps: Apps,
    store: Store,
}

impl<Store> Group<Store> {
    /// For so many replicas, of which none is started.
    pub fn new(store: Store, replicas: usize) -> Self {
        Self { replicas: Vec::new(), apps: Apps::start(replicas, ROLE), store }
    }

    /// Starts the next replica, and tells its app.
    pub fn add(&mut self, settings: Settings) {
        let replica = Replica::start(self.replicas.len(), settings);
        self.apps.ask_at(&replica);
        self.replicas.push(replica);
    }

    /// Starts a replica's next process, and tells its app.
    pub fn start_again(&mut self, replica: usize) {
        self.replicas[replica].start_again();
        self.apps.ask_at(&self.replicas[replica]);
    }

    /// Waits until somebody leads.
    pub fn leader(&self) -> Term {
        self.leader_that("somebody leads", |_| true)
    }

    /// Waits until somebody leads with a later token than this term's.
    pub fn leader_after(&self, earlier: &Term) -> Term {
        self.leader_that("a later term begins", |term| term.token > earlier.token)
    }

    /// Waits for a leader like this.
    pub fn leader_that(&self, what: &str, wanted: impl Fn(&Term) -> bool) -> Term {
        until_some(what, || self.apps.leader().filter(|term| wanted(term)))
    }

    /// Waits until a replica answers like this to a question asked after `moment`.
    pub fn answer_after(&self, replica: usize, moment: Instant, what: &str, wanted: impl Fn(&Seen) -> bool) -> Seen {
        until_some(what, || self.apps.last_after(replica, moment).filter(|seen| wanted(seen)))
    }

    /// Waits until this term's holder says, `later` from now, that it still leads with the same token.
    pub fn still_leads(&self, term: &Term, later: Duration) {
        let moment = Instant::now() + later;
        self.answer_after(term.who.replica, moment, "the leader keeps its token", |seen| {
            assert!(!seen.told.leader || seen.told.token == Some(term.token), "another token: {seen:?}");
            seen.told.leader
        });
    }

    /// Ends all, checks the promises, and prints what was measured.
    pub fn finish(mut self, scenario: &str, measured: &str) {
        self.replicas.iter_mut().for_each(Replica::kill);
        let report = self.apps.finish();
        let (answers, terms, leaderless) = (report.answers, report.terms.len(), report.leaderless.as_millis());
        println!("{scenario}: {measured}{answers} answers, {terms} terms, leaderless {leaderless} ms");
    }
}

impl<Store> Deref for Group<Store> {
    type Target = Store;

    fn deref(&self) -> &Store {
        &self.store
    }
}

impl<Store> DerefMut for Group<Store> {
    fn deref_mut(&mut self) -> &mut Store {
        &mut self.store
    }
}

/// How long it took from a moment to a term's first claim, in milliseconds.
pub fn ms_between(from: Instant, to: Instant) -> u128 {
    to.saturating_duration_since(from).as_millis()
}
