//! Runs that are under way when their leader resigns or is told to end: with `finishWithin` they end, and are not made
//! again; without it the next leader makes another attempt.

use rustix::process::Signal;
use serde_json::{Value, json};
use testkit::redis::RedisServer;
use testkit::sidecars::callbacks::Callbacks;
use testkit::sidecars::jobs::{job, json, leader, runs};
use testkit::sidecars::replica::{LEASE_KEY, Lease, ROLE, Replica, Settings};
use testkit::wait::{until, until_some};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    Signal,
    Resign,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    OfTheFile,
    AtRunTime,
}

struct Stage {
    redis: RedisServer,
    app: Callbacks,
    replicas: Vec<Replica>,
    leading: usize,
    kind: Kind,
}

impl Stage {
    /// One run's first attempt is under way.
    fn new(kind: Kind, finish_within: &str) -> Self {
        let (redis, app, lease) = (RedisServer::start(), Callbacks::start(), Lease::SHORT);
        let run = format!("{{ http: {{ url: '{}', timeout: 50s }} }}", app.url("held"));
        let file =
            format!("jobs:\n  - {{ name: long, schedule: '@yearly', finishWithin: {finish_within}, run: {run} }}\n");
        let roles = lease.role(ROLE, "") + if kind == Kind::OfTheFile { &file } else { "" };
        let settings = |number| Settings { roles: roles.clone(), ..Settings::new(number, redis.url(), lease) };
        let replicas: Vec<Replica> = (0..2).map(|number| Replica::start(number, settings(number))).collect();
        let leading = until_some("somebody leads", || leader(&replicas));
        let other = &replicas[1 - leading];
        let status = match kind {
            Kind::OfTheFile => other.ask("POST /jobs/long/run", "").status,
            Kind::AtRunTime => {
                let http = json!({"url": app.url("held"), "timeout": "50s"});
                let body = json!({"in": "1ms", "finishWithin": finish_within, "run": {"http": http}});
                other.ask("PUT /jobs/long", &body.to_string()).status
            }
        };
        assert!([201, 202].contains(&status), "{status}");
        until("the run is under way", || app.calls().len() == 1);
        Self { redis, app, replicas, leading, kind }
    }

    fn hand_over(&self, how: How) {
        let replica = &self.replicas[self.leading];
        match how {
            How::Signal => replica.signal(Signal::TERM),
            How::Resign => {
                let answer = replica.ask("POST /leader/scheduler/resign", r#"{"cooldown":"60s"}"#);
                assert_eq!(answer.status, 202, "{}", answer.body);
            }
        }
    }

    fn other(&self) -> &Replica {
        &self.replicas[1 - self.leading]
    }

    fn renewals(&self) -> f64 {
        self.replicas[self.leading].role_metric("baton_renewals_total", &[("outcome", "ok")])
    }

    /// A job that is made now, and done: whatever was due before it has begun.
    fn next_leader_runs_another(&self) {
        let body = json!({"in": "1ms", "run": {"http": {"url": self.app.url("done")}}});
        assert_eq!(self.other().ask("PUT /jobs/another", &body.to_string()).status, 201);
        until("it is done", || self.app.calls().iter().any(|(path, _)| path == "done"));
    }

    fn other_leads(&self) -> bool {
        json(&self.other().ask("GET /leader", ""))["leader"] == true
    }

    /// The run has succeeded, as the other replica sees it.
    fn has_succeeded(&self) -> bool {
        match self.kind {
            Kind::OfTheFile => runs(self.other(), "long").first().is_some_and(|run| run["phase"] == "succeeded"),
            // It is forgotten then.
            Kind::AtRunTime => self.other().ask("GET /jobs/long", "").status == 404,
        }
    }

    /// How the attempts of the file's job ended.
    fn outcomes(&self) -> Vec<Value> {
        let run = runs(self.other(), "long").remove(0);
        run["attempts"].as_array().expect("attempts").iter().map(|attempt| attempt["outcome"].clone()).collect()
    }
}

const WAYS: [(Kind, How); 4] = [
    (Kind::OfTheFile, How::Signal),
    (Kind::OfTheFile, How::Resign),
    (Kind::AtRunTime, How::Signal),
    (Kind::AtRunTime, How::Resign),
];

#[test]
fn a_run_under_way_at_a_handover_ends_within_its_time_and_the_next_leader_does_not_repeat_it() {
    for (kind, how) in WAYS {
        let mut stage = Stage::new(kind, "40s");
        stage.hand_over(how);
        // For two leases, of which each is renewed three times: longer than one that is not, and than any promise.
        let renewed = stage.renewals();
        until("the lease is kept", || stage.renewals() >= renewed + 6.0);
        assert_eq!(
            stage.redis.command(&["EXISTS", LEASE_KEY]).number(),
            1,
            "{kind:?}, {how:?}: the lease was given back"
        );
        assert!(!stage.other_leads() && stage.app.calls().len() == 1, "{kind:?}, {how:?}: the other did not wait");
        stage.app.open();
        until("the other leads", || stage.other_leads());
        until("the run has succeeded", || stage.has_succeeded());
        if how == How::Signal {
            let leading = stage.leading;
            assert!(stage.replicas[leading].wait_end().success());
        }
        stage.next_leader_runs_another();
        let calls = [("held".to_owned(), 1), ("done".to_owned(), 1)];
        assert_eq!(stage.app.calls(), calls, "{kind:?}, {how:?}: it was made again");
        assert!(kind == Kind::AtRunTime || stage.outcomes() == ["succeeded"], "{:?}", stage.outcomes());
    }
}

#[test]
fn a_run_that_has_no_time_to_finish_is_cut_off_at_a_handover_and_made_again() {
    for (kind, how) in WAYS {
        let stage = Stage::new(kind, "0s");
        stage.hand_over(how);
        until("the run has succeeded", || stage.has_succeeded());
        assert!(stage.other_leads());
        assert_eq!(stage.app.calls(), [("held".to_owned(), 1), ("held".to_owned(), 2)], "{kind:?}, {how:?}");
        assert!(kind == Kind::AtRunTime || stage.outcomes() == ["interrupted", "succeeded"], "{:?}", stage.outcomes());
    }
}

/// The time is a bound, too: what is not done by then is cut off, and the role is handed over.
#[test]
fn a_run_that_does_not_finish_in_its_time_holds_up_a_handover_no_longer() {
    for kind in [Kind::OfTheFile, Kind::AtRunTime] {
        let stage = Stage::new(kind, "3s");
        stage.hand_over(How::Resign);
        until("the run has succeeded elsewhere", || stage.has_succeeded());
        assert_eq!(stage.app.calls(), [("held".to_owned(), 1), ("held".to_owned(), 2)], "{kind:?}");
        assert!(kind == Kind::AtRunTime || job(stage.other(), "long")["last"]["phase"] == "succeeded");
    }
}
