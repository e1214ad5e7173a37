//! Two sidecars with roles and jobs on a Redis, and what is looked for on their page.

use testkit::redis::RedisServer;
use testkit::sidecars::replica::{Lease, Replica, Settings};
use testkit::wait::until_some;

use crate::driver::Browser;

/// What stands below the roles. Locks of a Redis that has just started are not granted before their guard is over.
pub const JOBS: &str = "locks: { guard: 1s }
jobs:
  - { name: nightly-report, role: scheduler, schedule: '0 2 * * *', run: { exec: { command: ['true'] } } }
  - name: failing
    role: scheduler
    schedule: '@every 24h'
    backoffLimit: 0
    run: { exec: { command: ['false'] } }
";

pub struct Stage {
    pub replicas: Vec<Replica>,
    _redis: RedisServer,
}

impl Stage {
    pub fn start(lease: Lease) -> Self {
        let redis = RedisServer::start();
        let roles = format!("{}{}{JOBS}", lease.role("reports", ""), lease.role("scheduler", ""));
        let settings = |number| Settings { roles: roles.clone(), ..Settings::new(number, redis.url(), lease) };
        let replicas = (0..2).map(|number| Replica::start(number, settings(number))).collect();
        Self { replicas, _redis: redis }
    }

    /// Who leads `scheduler`, by its number.
    pub fn leader(&self) -> usize {
        self.leader_of("scheduler")
    }

    /// Who leads a role, by its number.
    pub fn leader_of(&self, role: &str) -> usize {
        let leads = |number: &usize| self.leads_role(*number, role);
        until_some("somebody leads", || (0..self.replicas.len()).find(leads))
    }

    pub fn leads(&self, number: usize) -> bool {
        self.leads_role(number, "scheduler")
    }

    fn leads_role(&self, number: usize, role: &str) -> bool {
        let answer = self.replicas[number].ask("GET /status", "").body;
        let answer: serde_json::Value = serde_json::from_str(&answer).expect("JSON");
        let roles = answer["roles"].as_array().expect("roles");
        roles.iter().any(|status| status["role"] == role && status["leads"] == true)
    }

    /// What a replica answers, once the store has answered it in time.
    pub fn told(&self, number: usize, line: &str) -> String {
        until_some(line, || {
            let answer = self.replicas[number].ask(line, "");
            (answer.status != 503).then_some(answer.body)
        })
    }

    /// Opens a replica's page.
    pub fn open(&self, browser: &Browser, number: usize) {
        browser.go(&format!("http://{}/", self.replicas[number].api()));
        browser.run("window.opened = true;");
        browser.until("document.querySelector('#connection').textContent.includes('● Connected')");
    }
}

/// An element of a role's card.
pub fn card(role: &str, selector: &str) -> String {
    format!("document.querySelector('[data-role={role}] {selector}')")
}

/// The sentence that says who leads.
pub fn who(role: &str) -> String {
    card(role, ".who") + ".textContent"
}

/// A job's row.
pub fn job(name: &str) -> String {
    format!("(document.querySelector('#jobs [data-key={name}]') || {{ innerText: '' }})")
}
