//! Random operations on a store and on the reference (`LedgerCell`): the same answers, revision by revision, and the
//! same wishes.
//!
//! The reference is told the moment at which the store wrote, which is the revision that it answers unless its clock
//! was behind; that the moment is one of the store's clock is checked apart.

use std::collections::BTreeMap;

use baton::base::Subscription;
use baton::protocol::StoreTime;
use baton::protocol::jobs::{LedgerCell, LedgerTerm, OpenReply, Revision, WriteReply, WriteRequest};
use bytes::Bytes;
use testkit::cluster::Cluster;
use testkit::resp::Reply;
use testkit::sentinel::SentinelSet;

use super::*;
use crate::suite::ledgers::term_of;

const SEEDS: u64 = 300;
/// Where servers are behind more servers.
const SEEDS_FEW: u64 = 15;
const OPERATIONS: usize = 40;
/// So far a clock that was set wrong is ahead, in microseconds.
const AHEAD: u64 = 1_000_000_000_000;

#[derive(Clone, Debug)]
enum Operation {
    Open(LedgerTerm),
    Write(WriteRequest<Bytes>),
    Read,
    Forget,
    EverythingForgotten,
    ClockSteppedBack,
}

/// What is behind a store, and what is done to it there.
pub(super) trait Behind {
    /// Its clock in microseconds.
    fn now(&self) -> u64;

    /// A byte of a ledger.
    fn byte(&self, rng: &mut fastrand::Rng) -> u8;

    /// Loses a job's ledger.
    fn lose(&self, desk: &Desk);

    /// Lets a ledger that is there have been written when the clock showed this.
    fn set_revision(&self, desk: &Desk, revision: u64);

    /// Tells of a wish for this job, without any.
    fn tell(&self, job: &str);

    /// Looks at what is left when all is done.
    fn look(&self, _desk: &Desk) {}
}

impl Behind for RedisServer {
    fn now(&self) -> u64 {
        now_us(self)
    }

    fn byte(&self, rng: &mut fastrand::Rng) -> u8 {
        rng.u8(..)
    }

    fn lose(&self, desk: &Desk) {
        self.command(&["DEL", &key(desk)]);
    }

    fn set_revision(&self, desk: &Desk, revision: u64) {
        let set = self.command(&["HSET", &key(desk), "revision", &revision.to_string()]);
        assert_eq!(set, Reply::Number(0), "it is there already");
    }

    fn tell(&self, job: &str) {
        self.command(&["PUBLISH", "baton:{jobs}:wishes", &format!("v1 {job}")]);
    }

    fn look(&self, desk: &Desk) {
        assert!(self.command(&["PTTL", &key(desk)]).number() < 0, "a ledger has no TTL");
    }
}

struct Pair<'a> {
    behind: &'a dyn Behind,
    desk: Desk,
    news: &'a mut Subscription<JobNews>,
    cell: LedgerCell<Bytes>,
    /// Every revision so far.
    revisions: Vec<Revision>,
    rng: fastrand::Rng,
    /// How often each outcome was met, for a test that says what it has tested.
    seen: &'a mut BTreeMap<&'static str, usize>,
}

impl Pair<'_> {
    fn saw(&mut self, outcome: &'static str) {
        *self.seen.entry(outcome).or_default() += 1;
    }

    fn any_term(&mut self) -> LedgerTerm {
        let role = if self.rng.u32(0..4) == 0 { "theirs" } else { "ours" };
        term_of(role, self.rng.u64(0..6))
    }

    fn choose(&mut self) -> Operation {
        match self.rng.u32(0..40) {
            0..=8 => Operation::Open(self.any_term()),
            9..=34 => {
                let term = self.rng.bool().then(|| self.any_term());
                let known = self.cell.read().map(|stored| stored.revision);
                let earlier = self.rng.choice(&self.revisions).copied();
                let base = [known, known, known, None, earlier][self.rng.usize(0..5)];
                let length = self.rng.usize(0..40);
                let body = (0..length).map(|_| self.behind.byte(&mut self.rng)).collect();
                Operation::Write(WriteRequest { term, base, body })
            }
            35..=36 => Operation::Read,
            37 => Operation::Forget,
            38 => Operation::EverythingForgotten,
            _ => Operation::ClockSteppedBack,
        }
    }

    async fn apply(&mut self, operation: &Operation) {
        match operation {
            Operation::Open(term) => {
                let expected = self.cell.open(term);
                assert_eq!(self.desk.store.open(&self.desk.job, term).await.expect("an answer"), expected);
                self.saw(match expected {
                    OpenReply::Opened(_) => "opened",
                    OpenReply::Stale { .. } => "shut",
                    OpenReply::OtherRole { .. } => "another role's",
                });
            }
            Operation::Write(request) => self.write(request.clone()).await,
            Operation::Read => assert_eq!(self.desk.read().await, self.cell.read()),
            Operation::Forget => {
                let known = self.cell.read().is_some();
                assert_eq!(self.desk.store.forget(&self.desk.job).await, Ok(known));
                self.cell = LedgerCell::default();
            }
            Operation::EverythingForgotten => {
                self.behind.lose(&self.desk);
                self.cell = LedgerCell::default();
            }
            Operation::ClockSteppedBack => self.write_ahead().await,
        }
    }

    async fn write(&mut self, request: WriteRequest<Bytes>) {
        let before = self.behind.now();
        let reply = self.desk.store.write(&self.desk.job, request.clone()).await.expect("an answer");
        let moment = match reply {
            WriteReply::Written { revision } => {
                let now = before..=self.behind.now();
                let behind = request.base.is_some_and(|base| base.get() + 1 == revision.get() && base.get() >= before);
                assert!(now.contains(&revision.get()) || behind, "{revision:?} on {:?} at {now:?}", request.base);
                self.saw(if behind { "written under a clock that is behind" } else { "written" });
                revision.get()
            }
            _ => before,
        };
        let is_wish = request.term.is_none();
        let takes =
            request.term.as_ref().is_some_and(|term| self.cell.owner().is_some_and(|owner| *owner != term.role));
        let had_any = self.cell.read().is_some();
        let expected = self.cell.write(request, StoreTime(moment));
        assert_eq!(reply, expected);
        match expected {
            WriteReply::Written { revision } => {
                self.revisions.push(revision);
                if takes && had_any {
                    self.saw("taken over");
                }
                if is_wish {
                    assert_eq!(next(self.news).await, JobNews::Changed(self.desk.job.clone()));
                }
            }
            WriteReply::Stale { .. } => self.saw("stale"),
            WriteReply::OtherRole { .. } => self.saw("refused for its role"),
            WriteReply::Diverged(Some(_)) => self.saw("diverged"),
            WriteReply::Diverged(None) => self.saw("lost"),
        }
    }

    /// What is there was written when the clock was ahead.
    async fn write_ahead(&mut self) {
        let base = self.cell.read().map(|stored| stored.revision);
        let ahead = base.map_or(0, Revision::get).max(self.behind.now()) + AHEAD;
        let wish = || WriteRequest { term: None, base, body: Bytes::from_static(b"ahead") };
        let reply = self.desk.store.write(&self.desk.job, wish()).await.expect("an answer");
        assert!(matches!(reply, WriteReply::Written { .. }), "{reply:?}");
        assert_eq!(next(self.news).await, JobNews::Changed(self.desk.job.clone()));
        self.behind.set_revision(&self.desk, ahead);
        self.cell.write(wish(), StoreTime(ahead));
    }
}

pub(super) async fn run(
    behind: &dyn Behind,
    store: Arc<dyn LedgerStore>,
    news: &mut Subscription<JobNews>,
    seed: u64,
    seen: &mut BTreeMap<&'static str, usize>,
) {
    let (desk, rng) = (Desk::new(store), fastrand::Rng::with_seed(seed));
    let mut pair = Pair { behind, desk, news, cell: LedgerCell::default(), revisions: Vec::new(), rng, seen };
    let mut trail = Trail { seed, operations: Vec::new() };
    for _ in 0..OPERATIONS {
        let operation = pair.choose();
        trail.operations.push(operation.clone());
        pair.apply(&operation).await;
    }
    assert_eq!(pair.desk.read().await, pair.cell.read());
    // Nothing was said beside that: this comes next.
    behind.tell(&format!("end-of-{seed}"));
    let end = baton::protocol::jobs::JobName::new(format!("end-of-{seed}")).expect("a DNS label");
    assert_eq!(next(pair.news).await, JobNews::Changed(end));
    behind.look(&pair.desk);
}

/// Tells what led to a failure.
struct Trail {
    seed: u64,
    operations: Vec<Operation>,
}

impl Drop for Trail {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("seed {}:", self.seed);
            for operation in &self.operations {
                eprintln!("  {operation:?}");
            }
        }
    }
}

#[tokio::test]
async fn random_operations_on_ledgers_have_the_same_outcomes_on_redis_and_on_the_reference() {
    let redis = RedisServer::start();
    let store = Arc::new(connected(&redis.url()).await);
    let (mut news, mut seen) = (listening(&store).await, BTreeMap::new());
    for seed in 0..SEEDS {
        run(&redis, store.clone(), &mut news, seed, &mut seen).await;
    }
    all_met(&seen, 50);
}

/// Every outcome was met so often.
pub(super) fn all_met(seen: &BTreeMap<&'static str, usize>, least: usize) {
    println!("{seen:?}");
    let roles = ["another role's", "refused for its role", "taken over"];
    let all = ["opened", "shut", "written", "written under a clock that is behind", "stale", "diverged", "lost"];
    for outcome in all.into_iter().chain(roles) {
        assert!(seen.get(outcome).is_some_and(|times| *times >= least), "{outcome} was hardly met: {seen:?}");
    }
}

#[tokio::test]
async fn random_operations_on_ledgers_have_the_same_outcomes_behind_sentinels() {
    let set = SentinelSet::start().await;
    let store = Arc::new(connected(&set.url()).await);
    let mut news = listening(&store).await;
    for seed in 0..SEEDS_FEW {
        run(set.server(set.master()), store.clone(), &mut news, seed, &mut BTreeMap::new()).await;
    }
}

#[tokio::test]
async fn random_operations_on_ledgers_have_the_same_outcomes_in_a_cluster() {
    let cluster = Cluster::start(&[]).await;
    let store = Arc::new(connected(&cluster.url()).await);
    let mut news = listening(&store).await;
    let node = &cluster.nodes[cluster.owners(cluster.slot_of("baton:{jobs}:"))[0]];
    for seed in 0..SEEDS_FEW {
        run(node, store.clone(), &mut news, seed, &mut BTreeMap::new()).await;
    }
}
