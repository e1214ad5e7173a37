//! A Redis, three sidecars on it with an app each, and a Prometheus that has seen all of them.

use std::time::Instant;

use rustix::process::Signal;
use testkit::redis::RedisServer;
use testkit::sidecars::apps::Apps;
use testkit::sidecars::claims::Term;
use testkit::sidecars::replica::{Lease, ROLE, Replica, Settings};
use testkit::wait::{until, until_some};

use crate::prometheus::Prometheus;
use crate::server::Server;

/// How many sidecars there are.
pub const REPLICAS: usize = 3;

/// See the module. Fields end in this order: the replicas before what they use.
pub struct Stage {
    pub prometheus: Prometheus,
    pub replicas: Vec<Replica>,
    pub apps: Apps,
    pub redis: RedisServer,
}

impl Stage {
    /// Prometheus begins when somebody leads, so that every later term is one that it has seen begin.
    /// `more` stands below the roles of every configuration.
    pub fn start(lease: Lease, more: &str, rules: &str, alertmanager: Option<&Server>) -> Self {
        let redis = RedisServer::start();
        let apps = Apps::start(REPLICAS, ROLE);
        let start = |number| {
            let mut settings = Settings::new(number, redis.url(), lease);
            settings.roles += more;
            let replica = Replica::start(number, settings);
            apps.ask_at(&replica);
            replica
        };
        let replicas: Vec<Replica> = (0..REPLICAS).map(start).collect();
        until("somebody leads", || apps.leader().is_some());
        let prometheus = Prometheus::start(rules, alertmanager);
        let stage = Self { prometheus, replicas, apps, redis };
        stage.prometheus.targets(&stage.replicas);
        stage.until_all_are_scraped();
        stage
    }

    /// Waits until Prometheus has every sidecar's series at hand.
    pub fn until_all_are_scraped(&self) {
        let wanted = REPLICAS as f64;
        until("every sidecar is scraped", || {
            self.prometheus.number("sum(up)") == wanted
                && self.prometheus.number("count(baton_leader)") == wanted
                && self.prometheus.number("sum(baton_leader)") == 1.0
        });
    }

    /// Waits for a leader, other than of this term.
    pub fn leader_after(&self, earlier: Option<Term>) -> Term {
        let is_later = |term: &Term| earlier.is_none_or(|earlier| term.token > earlier.token);
        until_some("somebody leads", || self.apps.leader().filter(is_later))
    }

    /// Pauses the leader until another leads, and waits until it knows that it lost. Its term, and the next.
    pub fn pause_the_leader(&self) -> (Term, Term) {
        let lost = self.leader_after(None);
        let replica = &self.replicas[lost.who.replica];
        replica.signal(Signal::STOP);
        let next = self.leader_after(Some(lost));
        let resumed = Instant::now();
        replica.signal(Signal::CONT);
        until("the paused one answers", || {
            self.apps.last_after(lost.who.replica, resumed).is_some_and(|seen| !seen.told.leader)
        });
        (lost, next)
    }

    /// Ends all and checks the promises.
    pub fn finish(mut self) {
        self.replicas.iter_mut().for_each(Replica::kill);
        self.apps.finish();
    }
}
