//! A Redis, some replicas on it, and the apps that watch whether the promises are kept.

use std::time::{Duration, Instant};

use testkit::redis::RedisServer;
use testkit::sidecars::apps::{Apps, Seen};
use testkit::sidecars::claims::Term;
pub use testkit::sidecars::replica::{LEASE_KEY, ROLE};
use testkit::sidecars::replica::{Lease, Replica, Settings};
use testkit::sidecars::wait::until_some;

/// Where its record is.
pub const RECORD_KEY: &str = "baton:{scheduler}:record";

/// See the module. Fields end in this order: the replicas before what they use.
pub struct Group {
    pub replicas: Vec<Replica>,
    pub apps: Apps,
    pub redis: RedisServer,
}

impl Group {
    /// Replicas named web-0, web-1, … on a Redis without persistence.
    pub fn start(replicas: usize, lease: Lease) -> Self {
        Self::start_on(RedisServer::start(), replicas, lease)
    }

    /// The same on this Redis.
    pub fn start_on(redis: RedisServer, replicas: usize, lease: Lease) -> Self {
        let settings = (0..replicas).map(|number| Settings::new(number, redis.url(), lease)).collect();
        Self::start_with(redis, settings)
    }

    /// Replicas with these settings, one for each.
    pub fn start_with(redis: RedisServer, settings: Vec<Settings>) -> Self {
        let apps = Apps::start(settings.len(), ROLE);
        let mut replicas = Vec::new();
        for (number, settings) in settings.into_iter().enumerate() {
            let replica = Replica::start(number, settings);
            apps.ask_at(&replica);
            replicas.push(replica);
        }
        Self { replicas, apps, redis }
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
        let found = self.apps.breaches();
        assert!(found.is_empty(), "{} breaches: {}", found.len(), found[..found.len().min(10)].join("\n"));
        let report = self.apps.finish();
        let (answers, terms, leaderless) = (report.answers, report.terms.len(), report.leaderless.as_millis());
        println!("{scenario}: {measured}{answers} answers, {terms} terms, leaderless {leaderless} ms");
    }
}

/// How long it took from a moment to a term's first claim, in milliseconds.
pub fn ms_between(from: Instant, to: Instant) -> u128 {
    to.saturating_duration_since(from).as_millis()
}
