//! Three replicas on a quorum of five Redis: any two of the five may fail, in whatever way, and the leader and its
//! token stay. `BATON_QUORUM_RUNS` makes the series of faults longer, `BATON_QUORUM_SEED` draws others.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use testkit::quorum::Members;
use testkit::redis::{Data, RedisServer};
use testkit::resp::Reply;
use testkit::sidecars::apps::{Apps, Seen};
use testkit::sidecars::claims::Term;
use testkit::sidecars::replica::{Lease, Replica, Settings};
use testkit::wait::{SLACK, found_within, until, until_some};

use crate::group::{LEASE_KEY, ROLE, ms_between};

const REPLICAS: usize = 3;
const MEMBERS: usize = 5;
const RUNS_DEFAULT: u64 = 5;
/// The same faults in every `make test`; `make chaos` draws its own.
const SEED_DEFAULT: u64 = 1;

/// Fields end in this order: the replicas before what they use.
struct Fleet {
    replicas: Vec<Replica>,
    apps: Apps,
    members: Members,
}

impl Fleet {
    fn start(lease: Lease) -> Self {
        let members = Members::start(MEMBERS);
        let apps = Apps::start(REPLICAS, ROLE);
        let replica = |number| {
            let replica = Replica::start(number, Settings::on_quorum(number, &members.urls(), lease));
            apps.ask_at(&replica);
            replica
        };
        Self { replicas: (0..REPLICAS).map(replica).collect(), apps, members }
    }

    fn leader_that(&self, what: &str, wanted: impl Fn(&Term) -> bool) -> Term {
        until_some(what, || self.apps.leader().filter(|term| wanted(term)))
    }

    fn answer(&self, replica: usize, what: &str, wanted: impl Fn(&Seen) -> bool) -> Seen {
        let moment = Instant::now();
        until_some(what, || self.apps.last_after(replica, moment).filter(|seen| wanted(seen)))
    }

    /// Waits until this term's holder says, `later` from now, that it still leads with the same token.
    fn still_leads(&self, term: &Term, later: Duration) {
        assert!(self.stays(term, later), "another term: {:?} after {term:?}", self.apps.terms().last());
    }

    /// Waits until this term's holder says, `later` from now, that it still leads; false when another term began.
    fn stays(&self, term: &Term, later: Duration) -> bool {
        let moment = Instant::now() + later;
        until_some("the leader says so again", || {
            let said = self.apps.last(term.who.replica).is_some_and(|seen| seen.asked > moment && seen.told.leader);
            if self.has_ended(term) { Some(false) } else { said.then_some(true) }
        })
    }

    fn has_ended(&self, term: &Term) -> bool {
        self.apps.terms().last().is_some_and(|last| last.token != term.token)
    }

    /// Waits until every member has the lease of this term, so that a majority is left when any two fail; false when
    /// another term began.
    fn whole(&self, term: &Term) -> bool {
        let lease = Reply::List([term.token.to_string(), "1".to_owned()].map(Reply::Text).to_vec());
        let has_it = |server: &RedisServer| server.command(&["HMGET", LEASE_KEY, "token", "confirmed"]) == lease;
        until_some("every member has the leader's lease", || {
            if self.has_ended(term) { Some(false) } else { self.members.servers.iter().all(has_it).then_some(true) }
        })
    }

    fn finish(mut self, scenario: &str, measured: &str) {
        self.replicas.iter_mut().for_each(Replica::kill);
        let found = self.apps.breaches();
        assert!(found.is_empty(), "{} breaches: {}", found.len(), found[..found.len().min(10)].join("\n"));
        let report = self.apps.finish();
        let (answers, terms, leaderless) = (report.answers, report.terms.len(), report.leaderless.as_millis());
        println!("{scenario}: {measured}{answers} answers, {terms} terms, leaderless {leaderless} ms");
    }
}

/// What happens to one member, until it is healed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ill {
    /// SIGKILL; it comes back without its data.
    Killed,
    /// SIGSTOP.
    Frozen,
    /// Back at once, without its data.
    RestartedEmpty,
}

impl Ill {
    const ALL: [Self; 3] = [Self::Killed, Self::Frozen, Self::RestartedEmpty];

    fn strike(self, fleet: &mut Fleet, member: usize) {
        let server = &mut fleet.members.servers[member];
        match self {
            Self::Killed => server.stop(Data::Lost),
            Self::Frozen => server.pause(),
            Self::RestartedEmpty => server.restart(Data::Lost),
        }
    }

    fn heal(self, fleet: &mut Fleet, member: usize) {
        let server = &mut fleet.members.servers[member];
        match self {
            Self::Killed => server.start_again(),
            Self::Frozen => server.resume(),
            Self::RestartedEmpty => {}
        }
    }
}

/// Between two looks, where nothing keeps a thread waiting.
const LOOK_MAX: Duration = Duration::from_millis(20);
/// No test takes as long.
const STALLS_MAX: Duration = Duration::from_secs(3_600);

/// Measures what the machine gives us: how long a thread that looks every few milliseconds was kept waiting in all.
struct Stalls {
    late_ms: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
}

impl Stalls {
    fn watch() -> Self {
        let (late_ms, stop) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let watch = Self { late_ms: Arc::clone(&late_ms), stop: Arc::clone(&stop) };
        std::thread::spawn(move || {
            let mut last = Instant::now();
            found_within(STALLS_MAX, || {
                let late = last.elapsed().saturating_sub(LOOK_MAX).as_millis();
                last = Instant::now();
                late_ms.fetch_add(u64::try_from(late).expect("small"), Ordering::Relaxed);
                stop.load(Ordering::Relaxed).then_some(())
            })
        });
        watch
    }

    fn take(&self) -> u64 {
        self.late_ms.swap(0, Ordering::Relaxed)
    }
}

impl Drop for Stalls {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// A machine that keeps a thread waiting for this long in one run has kept the leader from renewing, too.
const STARVED_MS: u64 = 1_000;

#[test]
fn locks_are_answered_with_why_a_quorum_has_none() {
    let fleet = Fleet::start(Lease::LONG);
    fleet.leader_that("somebody leads", |_| true);
    for line in ["POST /locks/a", "GET /locks/a/hold"] {
        let answer = fleet.replicas[0].ask(line, "");
        assert_eq!(answer.status, 501, "{line}: {}", answer.body);
        assert!(answer.body.contains("locks-disabled") && answer.body.contains("one queue"), "{answer:?}");
    }
    for member in &fleet.members.servers {
        assert_eq!(member.command(&["PUBSUB", "CHANNELS", "*locks*"]), Reply::List(Vec::new()), "nobody listens");
        assert_eq!(member.command(&["KEYS", "*locks*"]), Reply::List(Vec::new()));
    }
    fleet.finish("asked for locks", "");
}

/// Faults of two members at a time; in one of four runs the leader is killed meanwhile.
#[test]
fn whatever_happens_to_two_of_five_members_the_leader_and_its_token_stay() {
    let runs = from_environment("BATON_QUORUM_RUNS").unwrap_or(RUNS_DEFAULT);
    let seed = from_environment("BATON_QUORUM_SEED").unwrap_or(SEED_DEFAULT);
    let mut dice = fastrand::Rng::with_seed(seed);
    let mut fleet = Fleet::start(Lease::LONGER);
    let mut term = fleet.leader_that("somebody leads", |_| true);
    let (mut succession_max, mut kept, mut starved, mut deaths) = (0, 0, 0, 0);
    let stalls = Stalls::watch();
    for run in 0..runs {
        let first = dice.usize(0..MEMBERS);
        let second = (first + dice.usize(1..MEMBERS)) % MEMBERS;
        let ills = [(first, Ill::ALL[dice.usize(0..3)]), (second, Ill::ALL[dice.usize(0..3)])];
        let span = Duration::from_millis(dice.u64(50..3_000));
        let leader_dies = run % 4 == 3;
        println!("seed {seed}, run {run}: {ills:?} for {span:?}, the leader dies: {leader_dies}");
        let mut stayed = fleet.whole(&term);
        ills.iter().for_each(|(member, ill)| ill.strike(&mut fleet, *member));
        if leader_dies && stayed {
            deaths += 1;
            let killed_at = Instant::now();
            let died = term.who.replica;
            fleet.replicas[died].kill();
            term = fleet.leader_that("three members elect the next", |next| next.token > term.token);
            succession_max = succession_max.max(ms_between(killed_at, term.from));
            fleet.replicas[died].start_again();
            fleet.apps.ask_at(&fleet.replicas[died]);
        }
        stayed = stayed && fleet.stays(&term, span);
        ills.iter().for_each(|(member, ill)| ill.heal(&mut fleet, *member));
        stayed = stayed && fleet.stays(&term, Duration::from_millis(300));
        let found = fleet.apps.breaches();
        assert!(found.is_empty(), "seed {seed}, run {run}: {}", found.join("\n"));
        let late_ms = stalls.take();
        if stayed {
            kept += 1;
        } else {
            assert!(
                late_ms >= STARVED_MS,
                "seed {seed}, run {run}: another term, and the machine was only {late_ms} ms late"
            );
            starved += 1;
            term = fleet.leader_that("somebody leads", |next| next.token > term.token);
        }
    }
    let measured = format!(
        "seed {seed}, {runs} runs, the leader and its token stayed in {kept}, in {starved} a starved machine \
         cost the term; the leader was killed in {deaths}, the next led after at most {succession_max} ms, "
    );
    fleet.finish("two of five members", &measured);
}

#[test]
fn with_three_of_five_members_down_nobody_leads_and_the_reason_names_them_and_then_somebody_does() {
    let mut fleet = Fleet::start(Lease::LONG);
    let term = fleet.leader_that("somebody leads", |_| true);
    assert!(fleet.whole(&term), "another term");
    fleet.members.servers[1].kill();
    let standby = (term.who.replica + 1) % REPLICAS;
    let name = fleet.members.name(1);
    fleet.answer(standby, "one member is missed", |seen| {
        seen.told.reason.as_deref().is_some_and(|why| why.contains("1 of 5 members is missing") && why.contains(&name))
    });
    assert_eq!(fleet.replicas[standby].metric("baton_store_member_up", &[("member", "1")]), Some(0.0));
    assert_eq!(fleet.replicas[standby].metric("baton_store_up", &[]), Some(1.0));
    for member in [2, 4] {
        fleet.members.servers[member].kill();
    }
    let killed_at = Instant::now();
    let names = [1, 2, 4].map(|member| fleet.members.name(member));
    for replica in 0..REPLICAS {
        fleet.answer(replica, "it says which members are gone", |seen| {
            let reason = seen.told.reason.as_deref().unwrap_or("");
            !seen.told.leader
                && seen.told.state == "unreachable"
                && reason.contains("3 are needed")
                && names.iter().all(|name| reason.contains(name.as_str()))
        });
    }
    let term_span = Duration::from_millis(Lease::LONG.duration - Lease::LONG.margin);
    until("the outage has lasted two leases", || killed_at.elapsed() > Lease::LONG.duration() * 2);
    let late = fleet.apps.all_after(killed_at + term_span).into_iter().find(|seen| seen.told.leader);
    assert!(late.is_none(), "past its deadline: {late:?}");
    for member in [1, 2, 4] {
        fleet.members.servers[member].start_again();
    }
    let back_at = Instant::now();
    let next = fleet.leader_that("somebody leads again", |next| next.token > term.token);
    let took = next.from.saturating_duration_since(back_at);
    assert!(took < Lease::LONG.duration() * 2 + Duration::from_secs(1) + SLACK, "it took {took:?}");
    fleet.still_leads(&next, Duration::from_millis(100));
    let measured = format!("a leader {} ms after they came back empty, ", took.as_millis());
    fleet.finish("three of five members", &measured);
}

#[test]
fn a_role_is_handed_over_on_a_quorum_and_a_paused_leader_never_leads_twice() {
    let mut fleet = Fleet::start(Lease::LONG);
    let first = fleet.leader_that("somebody leads", |_| true);
    let mut handovers = Vec::new();
    let mut term = first;
    for _ in 0..3 {
        assert!(fleet.whole(&term), "another term");
        let replica = term.who.replica;
        fleet.replicas[replica].signal(Signal::TERM);
        let status = fleet.replicas[replica].wait_end();
        assert_eq!(status.code(), Some(0), "replica {replica} ended badly");
        let next = fleet.leader_that("the next leads", |next| next.token > term.token);
        let promised_until = fleet.apps.terms().iter().find(|past| past.token == term.token).expect("it led").until;
        handovers.push(ms_between(promised_until, next.from));
        fleet.replicas[replica].start_again();
        fleet.apps.ask_at(&fleet.replicas[replica]);
        term = next;
    }
    let paused = term.who.replica;
    fleet.replicas[paused].signal(Signal::STOP);
    let next = fleet.leader_that("another leads", |next| next.token > term.token);
    fleet.replicas[paused].signal(Signal::CONT);
    fleet.still_leads(&next, Duration::from_secs(1));
    fleet.finish("handover on a quorum", &format!("the next leads {handovers:?} ms after the last promise, "));
}

/// A whole number from the environment, if it is set.
fn from_environment(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text}: a whole number is wanted")))
}
