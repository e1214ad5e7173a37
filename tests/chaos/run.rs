//! One run: replicas on a store, faults from a seed, apps that read every answer, and a verdict.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use fastrand::Rng;
use rustix::process::Signal;
use testkit::place::{Network, Place, Side};
use testkit::services::Service;
use testkit::sidecars::apps::Apps;
use testkit::sidecars::replica::{ROLE, Replica, Settings};
use testkit::wait::{SLACK, found_within, last_for};

use crate::fault::Fault;
use crate::judge::{Verdict, Window, judge};
use crate::quorum;
use crate::stage::{Kind, Stage, lasting};

pub const REPLICAS: usize = 3;

/// What to run. The seed decides every fault, its victim and its duration; the processes decide when they meet it.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub kind: Kind,
    pub fault: Fault,
    pub seed: u64,
    /// For how long faults are begun.
    pub span: Duration,
    /// How many are enough.
    pub faults_max: usize,
    /// Behind what this service refuses; only before one Redis.
    pub service: Option<&'static Service>,
    /// What passes between sidecars and their store is kept; only of one Redis, and not behind a service.
    pub recorded: bool,
}

impl Plan {
    /// The command that does the same again.
    pub fn replay(&self) -> String {
        let mut set: Vec<String> = std::env::var("BATON_REDIS_SERVER").ok().into_iter().collect();
        set.iter_mut().for_each(|server| *server = format!("BATON_REDIS_SERVER={server}"));
        set.push(format!("BATON_CHAOS_SEED={} BATON_CHAOS_STORE={}", self.seed, self.kind.name()));
        set.push(format!("BATON_CHAOS_FAULT={} BATON_CHAOS_SECONDS={}", self.fault.name(), self.span.as_secs().max(1)));
        set.extend((self.faults_max < usize::MAX).then(|| format!("BATON_CHAOS_FAULTS={}", self.faults_max)));
        set.extend(self.service.map(|service| format!("BATON_CHAOS_SERVICE='{}'", service.profile.name)));
        format!("{} cargo test --test chaos replay -- --ignored --nocapture", set.join(" "))
    }
}

/// What came of a run.
pub struct Measured {
    pub plan: Plan,
    pub faults: usize,
    pub answers: usize,
    /// The longest that an app looked away.
    pub blind_max: Duration,
    pub verdict: Verdict,
    /// Incumbents that a store refused although they had not released.
    pub refused: u64,
    /// From when all was well again to a leader; none if there was none in time.
    pub recovery: Option<Duration>,
    /// Answers that contradict themselves.
    pub nonsense: Vec<String>,
    /// What the store did, where that was recorded.
    pub trace: Vec<String>,
    log: Vec<(Instant, String)>,
    origin: Instant,
}

/// How soon somebody must lead once all is well.
pub fn recovery_max(kind: Kind) -> Duration {
    kind.lease().duration() * 2 + Duration::from_secs(1) + SLACK
}

impl Measured {
    /// What is wrong, in words; empty when all is as promised.
    pub fn complaints(&self) -> String {
        let mut text = String::new();
        for window in &self.verdict.windows {
            let _ = writeln!(text, "two leaders: {}", self.told(window));
        }
        for (at, regression) in &self.verdict.regressions {
            let _ = writeln!(text, "{}: {regression}", self.ms(*at));
        }
        for nonsense in &self.nonsense {
            let _ = writeln!(text, "{nonsense}");
        }
        match self.recovery {
            None => text += "nobody led again\n",
            Some(took) if took > recovery_max(self.plan.kind) => {
                let _ = writeln!(text, "a leader only {took:?} after all was well");
            }
            Some(_) => {}
        }
        if !text.is_empty() {
            let log: String =
                self.log.iter().fold(String::new(), |all, (at, line)| all + &self.ms(*at) + "  " + line + "\n");
            text = format!("{:?}\n{text}again: {}\nfaults:\n{log}", self.plan, self.plan.replay());
        }
        text
    }

    fn ms(&self, at: Instant) -> String {
        format!("{:>7} ms", at.saturating_duration_since(self.origin).as_millis())
    }

    fn told(&self, window: &Window) -> String {
        let span = |at: usize| {
            let span = window.spans[at];
            let (who, token, from, until) = (span.who, span.token, self.ms(span.from), self.ms(span.until));
            format!("replica {} (start {}), token {token}: {from} .. {until}", who.replica, who.start)
        };
        let before = self.log.iter().rev().filter(|(at, _)| *at <= window.from).take(3);
        let before: Vec<String> = before.map(|(at, line)| format!("{} {line}", self.ms(*at))).collect();
        let lasting = window.until - window.from;
        format!("for {lasting:?}: {}; and {}; last faults: {}", span(0), span(1), before.join("; "))
    }
}

/// What is wrong at the moment.
#[derive(Clone, Debug)]
enum Ill {
    Down(usize),
    Paused(usize),
    /// The hosts that are on another side.
    Divided(Fault, Vec<usize>, Side),
    OfStore(Fault),
    /// A replica, and the hosts that it does not reach.
    Parted(usize, Vec<usize>),
}

/// Fields end in this order: the replicas before what they use.
struct Run {
    plan: Plan,
    replicas: Vec<Replica>,
    apps: Apps,
    stage: Box<dyn Stage>,
    network: Option<Network>,
    dice: Rng,
    ills: Vec<(Instant, Ill)>,
    /// In a mixed run: until then nothing goes wrong at all, and nothing that makes the store forget.
    calm_until: Instant,
    forget_not_before: Instant,
    /// In which step of a change each replica is, in which they are to be, and when the next one goes there.
    steps: [usize; REPLICAS],
    step: usize,
    roll_at: Instant,
    /// Faults that were drawn, and those that were begun.
    tried: u64,
    faults: usize,
    refused: u64,
    log: Vec<(Instant, String)>,
    origin: Instant,
}

impl Drop for Run {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let lines: Vec<&str> = self.log.iter().map(|(_, line)| line.as_str()).collect();
            eprintln!("--- again: {}\n{}", self.plan.replay(), lines.join("\n"));
        }
    }
}

/// Runs it. `network`: where this machine allows one that can be cut.
pub fn run(plan: Plan, network: bool) -> Measured {
    let hosts = u8::try_from(plan.kind.hosts() + REPLICAS).expect("a few");
    let network = (network && plan.kind.is_on_a_network()).then(|| Network::start(hosts).expect("it was tried before"));
    let stage = Kind::start(&plan, network.as_ref());
    let apps = Apps::start(REPLICAS, ROLE);
    let replica = |number: usize| {
        let host = plan.kind.hosts() + number;
        let place = network.as_ref().map_or_else(Place::here, |network| network.host(host));
        let settings = Settings::on_store(number, stage.store(), place, plan.kind.lease());
        Replica::start(number, Settings { kubeconfig: stage.kubeconfig(number), ..settings })
    };
    let replicas: Vec<Replica> = (0..REPLICAS).map(replica).collect();
    replicas.iter().for_each(|replica| apps.ask_at(replica));
    let origin = Instant::now();
    let mut run = Run {
        plan,
        replicas,
        apps,
        stage,
        network,
        dice: Rng::with_seed(plan.seed),
        ills: Vec::new(),
        calm_until: origin,
        forget_not_before: origin,
        steps: [0; REPLICAS],
        step: 0,
        roll_at: origin,
        tried: 0,
        faults: 0,
        refused: 0,
        log: Vec::new(),
        origin,
    };
    run.leader_within(Duration::from_secs(30)).expect("somebody leads at first");
    run.go_wrong();
    run.finish()
}

impl Run {
    fn note(&mut self, line: String) {
        self.log.push((Instant::now(), line));
    }

    fn go_wrong(&mut self) {
        let mixture = match self.plan.fault {
            Fault::Mixed => self.plan.kind.mixture(self.network.is_some()),
            one => vec![one],
        };
        let alone = self.plan.fault != Fault::Mixed;
        let mut next = Instant::now();
        found_within(self.plan.span, || {
            self.heal_those_due();
            self.roll();
            if Instant::now() >= next && (!alone || (self.ills.is_empty() && self.is_worth_it(next))) {
                if alone && !self.plan.fault.is_of_a_replica() {
                    self.stage.settle();
                }
                // From the seed and its number alone: the next ones stay the same if this one must be left out.
                self.dice = Rng::with_seed(self.plan.seed.wrapping_mul(1_000_003).wrapping_add(self.tried));
                self.tried += 1;
                let fault = mixture[self.dice.usize(0..mixture.len())];
                self.strike(fault);
                let last = self.ills.iter().map(|(due, _)| *due).max().filter(|_| alone);
                let gap = Duration::from_millis(self.dice.u64(if alone { 100..2_000 } else { 200..1_500 }));
                next = last.unwrap_or_else(Instant::now) + gap;
            }
            (self.faults >= self.plan.faults_max).then_some(())
        });
        while let Some((due, _)) = self.ills.iter().min_by_key(|(due, _)| *due) {
            last_for(due.saturating_duration_since(Instant::now()));
            self.heal_those_due();
        }
    }

    /// Where the store changes: one replica after the other begins anew with the next list, and then all with the one
    /// after it.
    fn roll(&mut self) {
        let Some(store) = self.stage.store_in(self.step).filter(|_| Instant::now() >= self.roll_at) else { return };
        self.roll_at = Instant::now() + Duration::from_millis(self.dice.u64(100..1_000));
        let Some(replica) = (0..REPLICAS).find(|replica| self.steps[*replica] < self.step) else {
            // As it is documented: somebody leads by the list of this step.
            let leads = self.apps.leads().is_some_and(|who| who == self.replicas[who.replica].who());
            self.step += usize::from(leads);
            return;
        };
        let is_busy = |ill: &Ill| matches!(ill, Ill::Down(other) | Ill::Paused(other) if *other == replica);
        if self.ills.iter().any(|(_, ill)| is_busy(ill)) {
            return;
        }
        self.note(format!("replica {replica} goes to step {}", self.step));
        self.count_refusals(replica);
        if self.dice.bool() {
            self.replicas[replica].kill();
        } else {
            self.replicas[replica].signal(Signal::TERM);
            self.replicas[replica].wait_end();
        }
        self.replicas[replica].configure_store(store);
        self.steps[replica] = self.step;
        self.replicas[replica].start_again();
        self.apps.ask_at(&self.replicas[replica]);
    }

    /// Mostly with a leader, since there is little to lose without one; now and then in the middle of the guard.
    fn is_worth_it(&self, since: Instant) -> bool {
        self.tried.is_multiple_of(4) || self.apps.leads().is_some() || since.elapsed() > recovery_max(self.plan.kind)
    }

    /// Which replica: mostly the leader, since others are missed less. The draw does not depend on who that is.
    fn victim(&mut self, fault: Fault) -> usize {
        let (leader, other) = (self.dice.u8(0..3) > 0, self.dice.usize(0..REPLICAS));
        let leader = leader || fault == Fault::Resign;
        self.apps.leads().map_or(other, |who| if leader { who.replica } else { other })
    }

    fn strike(&mut self, fault: Fault) {
        let (victim, for_ms) = (self.victim(fault), lasting(fault, &mut self.dice));
        let due = Instant::now() + for_ms;
        if self.must_wait(fault, victim) {
            return;
        }
        self.faults += 1;
        let what = format!("{} for {for_ms:?}", fault.name());
        match fault {
            Fault::Pause => {
                self.note(format!("{what}: replica {victim}"));
                self.replicas[victim].signal(Signal::STOP);
                self.ills.push((due, Ill::Paused(victim)));
            }
            Fault::Kill | Fault::Term => {
                self.note(format!("{what}: replica {victim}"));
                self.count_refusals(victim);
                if fault == Fault::Kill {
                    self.replicas[victim].kill();
                } else {
                    self.replicas[victim].signal(Signal::TERM);
                    let status = self.replicas[victim].wait_end();
                    assert_eq!(status.code(), Some(0), "replica {victim} ended badly");
                }
                self.ills.push((due.max(Instant::now()), Ill::Down(victim)));
            }
            Fault::Resign => {
                let line = format!("POST /leader/{ROLE}/resign");
                let answer = self.replicas[victim].ask(&line, r#"{"cooldown":"1s"}"#);
                self.note(format!("resign: replica {victim}: {}", answer.status));
                // 409: it does not lead, and that was none.
                assert!(matches!(answer.status, 202 | 409), "{}", answer.body);
                self.faults -= usize::from(answer.status == 409);
            }
            Fault::Cut | Fault::StoreCut | Fault::Split => self.divide(fault, victim, due, &what),
            Fault::PartCut => self.part(victim, due, &what),
            of_store => match self.stage.begin(of_store, &mut self.dice) {
                Ok(told) => {
                    self.note(format!("{what}: {told}"));
                    self.ills.push((due, Ill::OfStore(of_store)));
                }
                Err(why) => {
                    self.note(format!("{what}: nothing came of it: {why}"));
                    self.faults -= 1;
                }
            },
        }
        if fault.must_be_alone() {
            self.calm_until = Instant::now() + self.plan.kind.lease().duration() * 2;
        }
    }

    fn divide(&mut self, fault: Fault, victim: usize, due: Instant, what: &str) {
        let first_replica = self.plan.kind.hosts();
        let mut hosts = if fault == Fault::Cut { Vec::new() } else { self.stage.to_cut_off(&mut self.dice) };
        match fault {
            Fault::Cut => hosts.push(first_replica + victim),
            Fault::Split => {
                // Somebody on each side: the victim with the old master, another without it.
                hosts.push(first_replica + victim);
                if self.dice.bool() {
                    hosts.push(first_replica + (victim + 1) % REPLICAS);
                }
            }
            _ => {}
        }
        self.note(format!("{what}: hosts {hosts:?} (replicas are {first_replica} and on)"));
        let side = if fault == Fault::Cut { Side::Alone } else { Side::Other };
        self.ills.push((due, Ill::Divided(fault, hosts, side)));
        self.lay_cables();
    }

    /// Some of the members and the victim lose each other; the network is there, since the fault needs it.
    fn part(&mut self, victim: usize, due: Instant, what: &str) {
        let count = self.dice.usize(1..quorum::MEMBERS);
        let members = quorum::some(&mut self.dice, count);
        self.note(format!("{what}: replica {victim} and members {members:?}"));
        let host = self.plan.kind.hosts() + victim;
        members.iter().for_each(|member| self.network.iter().for_each(|network| network.part(host, *member)));
        self.ills.push((due, Ill::Parted(victim, members)));
    }

    fn lay_cables(&mut self) {
        let Some(network) = &self.network else {
            let cut = self.ills.iter().filter_map(|(_, ill)| match ill {
                Ill::Divided(_, hosts, _) => Some(hosts.clone()),
                _ => None,
            });
            return self.stage.cut_off(&cut.flatten().collect::<Vec<_>>());
        };
        network.divide(|host| {
            let sides = self.ills.iter().filter_map(|(_, ill)| match ill {
                Ill::Divided(_, hosts, side) if hosts.contains(&host) => Some(*side),
                _ => None,
            });
            // Who is cut off is cut off, whatever else is divided.
            sides.fold(Side::Main, |all, side| if all == Side::Alone { all } else { side })
        });
    }

    /// What is wrong already, or was a moment ago, may forbid a fault.
    fn must_wait(&self, fault: Fault, victim: usize) -> bool {
        let host = self.plan.kind.hosts() + victim;
        let is_victims = |ill: &Ill| match ill {
            Ill::Down(replica) | Ill::Paused(replica) | Ill::Parted(replica, _) => *replica == victim,
            Ill::Divided(Fault::Cut, hosts, _) => hosts.contains(&host),
            Ill::Divided(..) | Ill::OfStore(_) => false,
        };
        let of_store = |ill: &Ill| match ill {
            Ill::Down(_) | Ill::Paused(_) | Ill::Parted(..) => false,
            Ill::Divided(fault, ..) | Ill::OfStore(fault) => !fault.is_of_a_replica(),
        };
        let mut ills = self.ills.iter().map(|(_, ill)| ill);
        if Instant::now() < self.calm_until && self.plan.fault == Fault::Mixed {
            return true;
        }
        match fault {
            fault if fault.must_be_alone() && self.plan.fault == Fault::Mixed => {
                !self.ills.is_empty() || Instant::now() < self.forget_not_before
            }
            fault if fault.must_be_alone() => false,
            fault if fault.is_of_a_replica() => ills.any(is_victims),
            _ => ills.any(of_store),
        }
    }

    fn heal_those_due(&mut self) {
        let now = Instant::now();
        while let Some(at) = self.ills.iter().position(|(due, _)| *due <= now) {
            let (_, ill) = self.ills.swap_remove(at);
            match &ill {
                Ill::Down(replica) => {
                    self.replicas[*replica].start_again();
                    self.apps.ask_at(&self.replicas[*replica]);
                }
                Ill::Paused(replica) => self.replicas[*replica].signal(Signal::CONT),
                Ill::Divided(..) => self.lay_cables(),
                Ill::OfStore(fault) => self.stage.end(*fault),
                Ill::Parted(replica, members) => {
                    let host = self.plan.kind.hosts() + replica;
                    members.iter().for_each(|member| self.network.iter().for_each(|it| it.join(host, *member)));
                }
            }
            self.note(format!("over: {ill:?}"));
            // Who was out of reach, and what was forgotten, is not to be forgotten at once.
            self.forget_not_before = Instant::now() + self.plan.kind.lease().duration() * 2;
        }
    }

    fn count_refusals(&mut self, replica: usize) {
        let lost = [("reason", "superseded")];
        self.refused += self.replicas[replica].role_metric("baton_lost_leases_total", &lost) as u64;
    }

    fn leader_within(&self, bound: Duration) -> Option<Duration> {
        let begun = Instant::now();
        found_within(bound, || self.apps.leads().map(|_| begun.elapsed()))
    }

    fn finish(mut self) -> Measured {
        self.stage.settle();
        self.note("all is well again".to_owned());
        let recovery = self.leader_within(recovery_max(self.plan.kind) * 2);
        (0..REPLICAS).for_each(|replica| self.count_refusals(replica));
        let end = Instant::now();
        self.replicas.iter_mut().for_each(Replica::kill);
        Measured {
            plan: self.plan,
            faults: self.faults,
            answers: self.apps.answers(),
            blind_max: self.apps.blind_max(),
            verdict: judge(&self.apps.claims(), end),
            refused: self.refused,
            recovery,
            nonsense: self.apps.nonsense(),
            trace: self.stage.trace(),
            log: std::mem::take(&mut self.log),
            origin: self.origin,
        }
    }
}
