//! What holds of ledgers of jobs in every store that has them, case by case. Whatever a store loses, it loses to
//! [`LedgerStore::forget`] here; what servers do to it is told beside those servers.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use baton::base::Subscription;
use baton::protocol::Token;
use baton::protocol::jobs::{JobName, LedgerTerm, OpenReply, Revision, Stored, WriteReply, WriteRequest};
use baton::store::{JobNews, LEDGER_BYTES_MAX, LedgerStore, StoreError};
use bytes::Bytes;
use testkit::within;

/// A term of the role that most cases are about. No clock has made its token.
pub fn term(value: u64) -> LedgerTerm {
    term_of("ours", value)
}

pub fn term_of(role: &str, value: u64) -> LedgerTerm {
    LedgerTerm { role: role.parse().expect("a role's name"), token: token(value) }
}

pub fn token(value: u64) -> Token {
    Token::new(value).expect("below 2^53")
}

/// A job that nobody has used.
pub fn another_job() -> JobName {
    static JOBS: AtomicU64 = AtomicU64::new(0);
    JobName::new(format!("job-{}", JOBS.fetch_add(1, Ordering::Relaxed))).expect("a DNS label")
}

/// A store and a job of its own.
pub struct Desk {
    pub store: Arc<dyn LedgerStore>,
    pub job: JobName,
}

impl Desk {
    pub fn new(store: Arc<dyn LedgerStore>) -> Self {
        Self { store, job: another_job() }
    }

    pub async fn open(&self, token: u64) -> OpenReply<Bytes> {
        self.store.open(&self.job, &term(token)).await.expect("an answer")
    }

    /// No token: a wish.
    pub async fn write(&self, token: Option<u64>, base: Option<Revision>, body: &str) -> WriteReply<Bytes> {
        self.store.write(&self.job, request(token, base, body)).await.expect("an answer")
    }

    /// The revision of a ledger that is written.
    pub async fn written(&self, token: Option<u64>, base: Option<Revision>, body: &str) -> Revision {
        match self.write(token, base, body).await {
            WriteReply::Written { revision } => revision,
            other => panic!("not written: {other:?}"),
        }
    }

    pub async fn read(&self) -> Option<Stored<Bytes>> {
        self.store.read(&self.job).await.expect("an answer")
    }
}

pub fn request(token: Option<u64>, base: Option<Revision>, body: &str) -> WriteRequest<Bytes> {
    WriteRequest { term: token.map(term), base, body: Bytes::from(body.to_owned()) }
}

pub fn stored(revision: Revision, body: &str) -> Option<Stored<Bytes>> {
    Some(Stored { revision, body: Bytes::from(body.to_owned()) })
}

pub fn stale(token: u64) -> WriteReply<Bytes> {
    WriteReply::Stale { fence: self::token(token) }
}

pub async fn next(news: &mut Subscription<JobNews>) -> JobNews {
    within("news of jobs", news.recv()).await.expect("the store lives")
}

async fn a_leader_writes_on_what_it_knows_and_on_nothing_else(desk: Desk) {
    assert_eq!((desk.open(7).await, desk.read().await), (OpenReply::Opened(None), None));
    let first = desk.written(Some(7), None, "a").await;
    assert_eq!(desk.write(Some(7), None, "b").await, WriteReply::Diverged(stored(first, "a")));
    let second = desk.written(Some(7), Some(first), "b").await;
    assert!(second > first);
    assert_eq!(desk.write(Some(7), Some(first), "c").await, WriteReply::Diverged(stored(second, "b")));
    assert_eq!(desk.open(7).await, OpenReply::Opened(stored(second, "b")), "the same term may look again");
    assert_eq!(desk.read().await, stored(second, "b"));
}

async fn an_earlier_term_is_refused_from_the_moment_a_later_one_has_looked(desk: Desk) {
    desk.open(7).await;
    let base = desk.written(Some(7), None, "a").await;
    assert_eq!(desk.open(9).await, OpenReply::Opened(stored(base, "a")));
    assert_eq!(desk.write(Some(7), Some(base), "b").await, stale(9));
    assert_eq!(desk.write(Some(8), Some(base), "b").await, stale(9));
    assert_eq!(desk.open(8).await, OpenReply::Stale { fence: token(9) });
    assert_eq!(desk.read().await, stored(base, "a"));
    desk.written(Some(9), Some(base), "c").await;
}

async fn a_write_shuts_the_ledger_to_earlier_terms_also_where_it_is_not_written(desk: Desk) {
    let base = desk.written(Some(7), None, "a").await;
    assert_eq!(desk.write(Some(9), None, "b").await, WriteReply::Diverged(stored(base, "a")));
    assert_eq!(desk.write(Some(7), Some(base), "c").await, stale(9));
}

async fn a_wish_needs_no_term_but_the_right_version_and_leaves_the_fence_alone(desk: Desk) {
    desk.open(9).await;
    let first = desk.written(None, None, "a").await;
    assert_eq!(desk.write(None, None, "b").await, WriteReply::Diverged(stored(first, "a")));
    let second = desk.written(None, Some(first), "b").await;
    assert_eq!(desk.write(Some(8), Some(second), "c").await, stale(9));
    desk.written(Some(9), Some(second), "c").await;
}

async fn another_role_takes_a_ledger_over_by_a_write_on_what_is_there_and_by_nothing_else(desk: Desk) {
    let (ours, theirs) = (term(9), term_of("stock/3", 2));
    let first = desk.written(Some(9), None, "a").await;
    let owner = |term: &LedgerTerm| Some(term.role.clone());
    let seen = OpenReply::OtherRole { owner: owner(&ours), stored: stored(first, "a") };
    assert_eq!(desk.store.open(&desk.job, &theirs).await, Ok(seen));
    let write = |term: &LedgerTerm, base, body: &'static str| {
        let body = Bytes::from_static(body.as_bytes());
        desk.store.write(&desk.job, WriteRequest { term: Some(term.clone()), base, body })
    };
    let refused = WriteReply::OtherRole { owner: owner(&ours), stored: stored(first, "a") };
    assert_eq!(write(&theirs, None, "b").await, Ok(refused));
    let second = desk.written(Some(9), Some(first), "c").await;
    let Ok(WriteReply::Written { revision: third }) = write(&theirs, Some(second), "d").await else {
        panic!("not taken over")
    };
    let refused = || WriteReply::OtherRole { owner: owner(&theirs), stored: stored(third, "d") };
    assert_eq!(write(&ours, Some(second), "e").await, Ok(refused()));
    assert_eq!(desk.open(9).await, OpenReply::OtherRole { owner: owner(&theirs), stored: stored(third, "d") });
    assert_eq!(desk.store.open(&desk.job, &theirs).await, Ok(OpenReply::Opened(stored(third, "d"))));
    let earlier = desk.store.open(&desk.job, &term_of("stock/3", 1)).await;
    assert_eq!(earlier, Ok(OpenReply::Stale { fence: token(2) }));
}

async fn a_ledger_in_which_nothing_is_written_is_any_roles(desk: Desk) {
    assert_eq!(desk.open(9).await, OpenReply::Opened(None));
    assert_eq!(desk.store.open(&desk.job, &term_of("theirs", 2)).await, Ok(OpenReply::Opened(None)));
    let base = desk.written(Some(7), None, "a").await;
    let owner = Some(term(7).role);
    let seen = OpenReply::OtherRole { owner, stored: stored(base, "a") };
    assert_eq!(desk.store.open(&desk.job, &term_of("theirs", 2)).await, Ok(seen));
}

async fn who_is_first_to_lead_takes_over_what_was_wished_before(desk: Desk) {
    let base = desk.written(None, None, "wish").await;
    assert_eq!(desk.open(7).await, OpenReply::OtherRole { owner: None, stored: stored(base, "wish") });
    let taken = desk.written(Some(7), Some(base), "wish").await;
    assert_eq!(desk.open(7).await, OpenReply::Opened(stored(taken, "wish")));
}

async fn wishes_are_heard_by_everybody_and_nothing_else_is(desk: Desk) {
    let mut ears = [desk.store.changes(), desk.store.changes()];
    for ear in &mut ears {
        assert_eq!(next(ear).await, JobNews::Gap);
    }
    desk.open(7).await;
    let base = desk.written(Some(7), None, "a").await;
    desk.write(None, None, "not written").await;
    let base = desk.written(None, Some(base), "b").await;
    desk.written(Some(7), Some(base), "c").await;
    let other = Desk::new(Arc::clone(&desk.store));
    other.written(None, None, "a").await;
    let expected = [&desk, &other].map(|desk| JobNews::Changed(desk.job.clone()));
    for ear in &mut ears {
        let mut heard = Vec::new();
        while heard.last() != expected.last() {
            let news = next(ear).await;
            // What was wished of others before may still be on its way from node to node of a cluster.
            if !matches!(&news, JobNews::Changed(job) if *job != desk.job && *job != other.job) {
                heard.push(news);
            }
        }
        assert_eq!(heard, expected);
    }
}

async fn what_the_store_lost_is_told_and_can_be_put_back(desk: Desk) {
    desk.open(9).await;
    let base = desk.written(Some(9), None, "a").await;
    assert_eq!(desk.store.forget(&desk.job).await, Ok(true));
    assert_eq!((desk.read().await, desk.store.forget(&desk.job).await), (None, Ok(false)));
    // One of an earlier term knows another ledger than this one, too.
    assert_eq!(desk.write(Some(7), Some(base), "b").await, WriteReply::Diverged(None));
    assert_eq!(desk.write(Some(9), Some(base), "b").await, WriteReply::Diverged(None));
    let again = desk.written(Some(9), None, "b").await;
    assert!(again > base, "no version comes twice");
    assert_eq!(desk.write(Some(7), Some(again), "c").await, stale(9), "the fence is back");
}

async fn a_ledger_may_be_large(desk: Desk) {
    is_kept(desk, "é🦀\"\\".repeat(25_000).into()).await;
}

async fn a_ledger_need_not_be_text(desk: Desk) {
    is_kept(desk, (0..200_000_u32).map(|at| u8::try_from(at % 251).expect("below 251")).collect()).await;
}

async fn a_ledger_that_is_not_text_is_refused_and_not_sent(desk: Desk) {
    let base = desk.written(Some(7), None, "a").await;
    let body = Bytes::from_static(b"\xff{}");
    let refused = desk.store.write(&desk.job, WriteRequest { term: Some(term(9)), base: Some(base), body }).await;
    assert!(matches!(&refused, Err(StoreError::Refused { reason }) if reason.contains("not text")), "{refused:?}");
    desk.written(Some(7), Some(base), "b").await;
}

async fn is_kept(desk: Desk, body: Bytes) {
    let write = |token, base| WriteRequest { term: Some(term(token)), base, body: body.clone() };
    let Ok(WriteReply::Written { revision }) = desk.store.write(&desk.job, write(7, None)).await else {
        panic!("not written")
    };
    let whole = Some(Stored { revision, body: body.clone() });
    assert_eq!(desk.read().await, whole);
    assert_eq!(desk.open(9).await, OpenReply::Opened(whole.clone()));
    assert_eq!(desk.store.write(&desk.job, write(9, None)).await, Ok(WriteReply::Diverged(whole)));
}

async fn a_ledger_over_the_bound_is_refused_and_not_sent(desk: Desk, bytes_max: usize) {
    let write = |length, base| {
        let request = WriteRequest { term: Some(term(9)), base, body: Bytes::from(vec![b'x'; length]) };
        desk.store.write(&desk.job, request)
    };
    let Ok(WriteReply::Written { revision }) = write(bytes_max, None).await else { panic!("not written") };
    let refused = write(bytes_max + 1, Some(revision)).await;
    let words = [format!("of {} bytes is over {bytes_max}", bytes_max + 1), "failedJobsHistoryLimit".to_owned()];
    let named = |reason: &str| words.iter().all(|word| reason.contains(word));
    assert!(matches!(&refused, Err(StoreError::Refused { reason }) if named(reason)), "{refused:?}");
    assert_eq!(desk.read().await.map(|stored| (stored.revision, stored.body.len())), Some((revision, bytes_max)));
}

async fn an_empty_ledger_is_one(desk: Desk) {
    let base = desk.written(Some(7), None, "").await;
    assert_eq!(desk.read().await, stored(base, ""));
    assert_eq!(desk.write(Some(7), None, "a").await, WriteReply::Diverged(stored(base, "")));
}

type Test = fn(Desk) -> Pin<Box<dyn Future<Output = ()>>>;

macro_rules! cases {
    ($($name:ident),+ $(,)?) => {
        const CASES: &[(&str, Test)] = &[$((stringify!($name), |desk| Box::pin($name(desk)))),+];
    };
}

cases!(
    a_leader_writes_on_what_it_knows_and_on_nothing_else,
    an_earlier_term_is_refused_from_the_moment_a_later_one_has_looked,
    a_write_shuts_the_ledger_to_earlier_terms_also_where_it_is_not_written,
    a_wish_needs_no_term_but_the_right_version_and_leaves_the_fence_alone,
    wishes_are_heard_by_everybody_and_nothing_else_is,
    what_the_store_lost_is_told_and_can_be_put_back,
    another_role_takes_a_ledger_over_by_a_write_on_what_is_there_and_by_nothing_else,
    a_ledger_in_which_nothing_is_written_is_any_roles,
    who_is_first_to_lead_takes_over_what_was_wished_before,
    a_ledger_may_be_large,
    an_empty_ledger_is_one,
);

/// What a store takes as a ledger.
#[derive(Clone, Copy, Debug)]
pub enum Bodies {
    /// Any bytes, up to a megabyte.
    Any,
    /// Text that fits an annotation of an object.
    Annotation,
}

/// Runs every case, each with a job of its own.
pub async fn run_ledgers(store: Arc<dyn LedgerStore>, bodies: Bodies) {
    let desk = || Desk::new(Arc::clone(&store));
    for (name, test) in CASES {
        // Told when it fails, since all cases are one test.
        eprintln!("case {name}");
        test(desk()).await;
    }
    eprintln!("cases of {bodies:?}");
    match bodies {
        Bodies::Any => {
            a_ledger_need_not_be_text(desk()).await;
            a_ledger_over_the_bound_is_refused_and_not_sent(desk(), LEDGER_BYTES_MAX).await;
        }
        Bodies::Annotation => {
            a_ledger_that_is_not_text_is_refused_and_not_sent(desk()).await;
            a_ledger_over_the_bound_is_refused_and_not_sent(desk(), 200 << 10).await;
        }
    }
}
