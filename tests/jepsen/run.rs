//! One system in the fire: three workers at a host each, its server at another, one fault after the other.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use fastrand::Rng;
use rustix::process::Signal;
use testkit::peers::Peer;
use testkit::place::Network;
use testkit::sidecars::replica::{Lease, ROLE, Replica, Settings};
use testkit::wait::{found_within, last_for};

use crate::fault::Fault;
use crate::history::{Epoch, Event, longest_without, now_ns, operations};
use crate::judge::{Verdict, folder, judge};
use crate::registers::Registers;
use crate::server::Server;
use crate::system::{Store, System};
use crate::worker::{Record, Worker};

const WORKERS: usize = 3;
/// The host of the server; the workers' come after it.
const SERVER: usize = 0;
/// Baton's timings, and the lease of all others.
const LEASE: Lease = Lease::SHORT;
/// Three JVMs start, on a machine that is busy.
const START_MAX: Duration = Duration::from_secs(120);
/// Until somebody holds the lock again, before the next fault is made all the same.
const RECOVERY_MAX: Duration = Duration::from_secs(15);
/// Who was told within this time that it holds the lock is the holder.
const FRESH: Duration = Duration::from_millis(300);
/// Who alone was told so for this long is the only one: a step takes some 30 ms.
const ALONE: Duration = Duration::from_millis(200);
/// After somebody holds the lock again, for those who do not know yet that they do not.
const LINGER: Duration = Duration::from_millis(700);

/// What to run.
#[derive(Clone, Debug)]
pub struct Plan {
    pub system: System,
    /// The peer's program, and its server's; none where it takes none.
    pub peer: Option<Peer>,
    pub server: Option<Peer>,
    pub faults: Vec<Fault>,
    pub seed: u64,
    pub span: Duration,
}

/// A fault, and what came of it.
#[derive(Clone, Copy, Debug)]
pub struct Struck {
    pub fault: Fault,
    /// Repeats it as the first of a run of this fault alone.
    pub seed: u64,
    pub verdict: Verdict,
    pub longest_without: Duration,
}

/// A worker with the sidecar beside it, where the system is Baton.
struct Pod {
    worker: Worker,
    sidecar: Option<Replica>,
}

/// Fields end in this order: the pods before what they use.
struct Run {
    plan: Plan,
    pods: Vec<Pod>,
    server: Server,
    registers: Registers,
    network: Network,
    record: Record,
    clients: usize,
    killed: BTreeMap<usize, u64>,
    epochs: Vec<(Fault, u64, Epoch)>,
    log: PathBuf,
}

/// Runs it, and has it judged.
///
/// # Panics
/// When nobody holds the lock at first, or a server does not start.
pub fn run(plan: Plan) -> Vec<Struck> {
    let hosts = u8::try_from(1 + WORKERS).expect("a few");
    let network = Network::start(hosts).expect("this machine allows networks of one's own");
    let server = Server::start(plan.system.store(), plan.server.as_ref(), &network.host(SERVER));
    let log = folder().join(format!("{}.log", plan.system.name()));
    let mut run = Run {
        plan,
        pods: Vec::new(),
        server,
        registers: Registers::start(),
        network,
        record: Record::default(),
        clients: 0,
        killed: BTreeMap::new(),
        epochs: Vec::new(),
        log,
    };
    for number in 0..WORKERS {
        let sidecar = run.plan.peer.is_none().then(|| run.sidecar(number));
        let worker = run.worker(number, sidecar.as_ref());
        run.pods.push(Pod { worker, sidecar });
    }
    let begun = found_within(START_MAX, || run.holder());
    assert!(begun.is_some(), "{}: nobody holds the lock at first; see {:?}", run.plan.system.name(), run.log);
    run.go_wrong();
    run.finish()
}

impl Run {
    fn sidecar(&self, number: usize) -> Replica {
        assert_eq!(self.plan.system.store(), Store::Redis);
        let store = format!("{{ redis: {{ url: \"redis://{}/0\", commandTimeout: 400ms }} }}", self.server.address());
        Replica::start(number, Settings::on_store(number, store, self.network.host(1 + number), LEASE))
    }

    fn worker(&mut self, number: usize, sidecar: Option<&Replica>) -> Worker {
        let client = self.clients;
        self.clients += 1;
        let mut words = vec![self.registers.path().display().to_string()];
        match (&self.plan.peer, sidecar) {
            (_, Some(sidecar)) => words.extend(["baton".into(), format!("http://{}/leader/{ROLE}", sidecar.api())]),
            (Some(peer), None) => {
                let (_, verb) = self.plan.system.peer().expect("it is a peer");
                let program = peer.folder.join("run").display().to_string();
                let (identity, lease) = (format!("worker-{client}"), LEASE.duration.to_string());
                words.extend(["peer".into(), program, verb.into(), self.server.address()]);
                words.extend(["jepsen".into(), identity, lease]);
            }
            (None, None) => unreachable!("Baton has sidecars"),
        }
        Worker::start(client, &self.network.host(1 + number), &words, &self.record, &self.log)
    }

    /// Who was told last that it holds the lock, if that was a moment ago.
    fn holder(&self) -> Option<usize> {
        let since = now_ns().saturating_sub(u64::try_from(FRESH.as_nanos()).expect("a moment"));
        let record = self.record.lock().expect("nobody panics with it");
        let last = record.iter().rev().find(|entry| matches!(entry.event, Event::Held { .. }))?;
        let Event::Held { back, .. } = last.event else { return None };
        self.pods.iter().position(|pod| pod.worker.client == last.client).filter(|_| back >= since)
    }

    /// The same, if nobody else was told so lately.
    fn only_holder(&self) -> Option<usize> {
        let since = now_ns().saturating_sub(u64::try_from(ALONE.as_nanos()).expect("a moment"));
        let holder = self.holder()?;
        let record = self.record.lock().expect("nobody panics with it");
        let lately = record.iter().rev().take_while(|entry| match entry.event {
            Event::Held { call, .. } | Event::Lost { call } | Event::Begin { call, .. } => call >= since,
            Event::End { back, .. } => back >= since,
        });
        let held = lately.filter(|entry| matches!(entry.event, Event::Held { .. }));
        held.map(|entry| entry.client).all(|client| client == self.pods[holder].worker.client).then_some(holder)
    }

    fn go_wrong(&mut self) {
        let begun = Instant::now();
        for number in 0.. {
            let fault = Fault::ALL[number % Fault::ALL.len()];
            // A kind alone comes again and again.
            let fault = if let [alone] = self.plan.faults[..] { alone } else { fault };
            if !self.plan.faults.contains(&fault) {
                continue;
            }
            if begun.elapsed() >= self.plan.span {
                return;
            }
            // From the seed and its number alone: the next ones stay the same where this one is left out.
            let seed = self.plan.seed + number as u64;
            self.strike(fault, seed);
        }
    }

    fn strike(&mut self, fault: Fault, seed: u64) {
        let mut dice = Rng::with_seed(seed);
        let gap = Duration::from_millis(dice.u64(50..700));
        let lasts = fault.lasts(&mut dice);
        let victim = found_within(RECOVERY_MAX, || self.holder()).unwrap_or(0);
        let (number, from) = (self.registers.next(), now_ns());
        last_for(gap);
        let victim = self.holder().unwrap_or(victim);
        self.begin(fault, victim, &mut dice);
        if fault == Fault::Flap {
            self.flap(victim, lasts, &mut dice);
        } else {
            last_for(lasts);
        }
        self.end(fault, victim);
        // Somebody who was told after the end, not only a moment ago.
        last_for(FRESH);
        let recovered = found_within(RECOVERY_MAX, || self.holder());
        last_for(LINGER);
        // What this fault has brought about is not to be another's.
        let settled = found_within(RECOVERY_MAX, || self.only_holder());
        self.epochs.push((fault, seed, Epoch { number, from, to: now_ns() }));
        if recovered.and(settled).is_none() {
            println!(
                "{} {}, seed {seed}: nobody holds the lock alone afterwards",
                self.plan.system.name(),
                fault.name()
            );
        }
        self.replace_those_that_ended();
    }

    fn begin(&mut self, fault: Fault, victim: usize, dice: &mut Rng) {
        let pod = &mut self.pods[victim];
        match fault {
            Fault::Pause => pod.signal(Signal::STOP),
            Fault::Kill => {
                self.killed.insert(pod.worker.client, now_ns());
                pod.signal(Signal::KILL);
            }
            Fault::Cut => self.network.part(SERVER, 1 + victim),
            Fault::Flap => {}
            Fault::ServerPause | Fault::ServerRestart | Fault::ServerLoss | Fault::Clock => {
                self.server.begin(fault, dice);
            }
        }
    }

    fn flap(&self, victim: usize, lasts: Duration, dice: &mut Rng) {
        let begun = Instant::now();
        while begun.elapsed() < lasts {
            self.network.part(SERVER, 1 + victim);
            last_for(Duration::from_millis(dice.u64(50..400)));
            self.network.join(SERVER, 1 + victim);
            last_for(Duration::from_millis(dice.u64(20..200)));
        }
    }

    fn end(&mut self, fault: Fault, victim: usize) {
        match fault {
            Fault::Pause => self.pods[victim].signal(Signal::CONT),
            Fault::Kill => self.start_again(victim),
            Fault::Cut => self.network.join(SERVER, 1 + victim),
            Fault::Flap => {}
            Fault::ServerPause | Fault::ServerRestart | Fault::ServerLoss | Fault::Clock => self.server.end(fault),
        }
    }

    fn start_again(&mut self, number: usize) {
        let mut sidecar = self.pods[number].sidecar.take();
        if let Some(sidecar) = &mut sidecar {
            sidecar.kill();
            sidecar.start_again();
        }
        let worker = self.worker(number, sidecar.as_ref());
        self.pods[number] = Pod { worker, sidecar };
    }

    /// A library that gives up ends its process, and whoever uses it starts another.
    fn replace_those_that_ended(&mut self) {
        for number in 0..WORKERS {
            if self.pods[number].worker.has_ended() {
                println!("{}: a worker has ended by itself; see {:?}", self.plan.system.name(), self.log);
                self.start_again(number);
            }
        }
    }

    fn finish(self) -> Vec<Struck> {
        let Self { plan, pods, record, killed, epochs, .. } = self;
        drop(pods);
        let entries = record.lock().expect("nobody panics with it").clone();
        let times: Vec<Epoch> = epochs.iter().map(|(_, _, epoch)| *epoch).collect();
        let verdicts = judge(plan.system.name(), &operations(&entries, &times, &killed));
        let struck = epochs.into_iter().map(|(fault, seed, epoch)| {
            let verdict = verdicts.get(&epoch.number).copied().unwrap_or_default();
            Struck { fault, seed, verdict, longest_without: longest_without(&entries, epoch) }
        });
        struck.collect()
    }
}

impl Pod {
    /// To both, one at once after the other.
    fn signal(&mut self, signal: Signal) {
        self.worker.signal(signal);
        match (&mut self.sidecar, signal) {
            (Some(sidecar), Signal::KILL) => sidecar.kill(),
            (Some(sidecar), other) => sidecar.signal(other),
            (None, _) => {}
        }
    }
}
