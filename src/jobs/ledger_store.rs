//! The store of ledgers, typed: it is asked for ledgers here, and keeps them as JSON, with a version in front, so that
//! a replica of another release knows what it reads.
//!
//! The shapes below are a stored format, and so are the words of [`Ending`], [`RunFailure`] and [`GapReason`] and the
//! text of a [`Slot`], which metrics and answers have in common with it: none of them may change under the same
//! version. The tests hold them against ledgers as they were written before.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::str::FromStr;
use std::sync::Arc;

use bytes::Bytes;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::base::Subscription;
use crate::base::clock::SharedClock;
use crate::protocol::Token;
use crate::protocol::jobs::{
    AskedKey, Backfill, Backfills, Ending, Gap, GapReason, JobName, Ledger, OpenReply, Phase, Revision, Run,
    RunAttempt, RunFailure, RunOrder, RunWish, Slot, Stored, Suspension, Wall, WriteReply, WriteRequest,
};
use crate::store::{JobNews, LedgerStore, StoreError, timed};
use crate::telemetry::{StoreCommand, Telemetry};

/// What this release writes. It reads nothing else.
const VERSION: u32 = 1;

/// Why a request to a ledger came to nothing. Holds nothing of its content.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LedgerError {
    /// No usable answer.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A later release wrote it.
    #[error(
        "{job}: the ledger has version {version}; this release reads version {VERSION}: end the rollout, or go back"
    )]
    Version { job: JobName, version: u32 },
    /// What the store has is no ledger; where it goes wrong.
    #[error("{job}: the ledger cannot be read: line {line}, column {column}")]
    Garbage { job: JobName, line: usize, column: usize },
}

/// Every ledger of the store.
pub(super) struct Ledgers {
    store: Arc<dyn LedgerStore>,
    telemetry: Telemetry,
    clock: SharedClock,
}

impl Ledgers {
    /// Those in `store`; requests are timed by `clock`.
    pub(super) fn new(store: Arc<dyn LedgerStore>, telemetry: Telemetry, clock: SharedClock) -> Self {
        Self { store, telemetry, clock }
    }

    async fn timed<T>(
        &self,
        command: StoreCommand,
        request: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        timed(&self.telemetry, &self.clock, command, None, request).await
    }

    /// A leader's first look in its term: shuts the ledger to every earlier term.
    pub(super) async fn open(&self, job: &JobName, term: Token) -> Result<OpenReply<Ledger>, LedgerError> {
        self.timed(StoreCommand::JobOpen, self.store.open(job, term)).await?.try_map(|body| decode(job, &body))
    }

    /// Puts a ledger in the place of the one that the writer knows.
    pub(super) async fn write(
        &self,
        job: &JobName,
        request: WriteRequest<&Ledger>,
    ) -> Result<WriteReply<Ledger>, LedgerError> {
        let WriteRequest { token, base, body } = request;
        let request = WriteRequest { token, base, body: encode(body) };
        let written = self.timed(StoreCommand::JobWrite, self.store.write(job, request)).await?;
        written.try_map(|body| decode(job, &body))
    }

    /// The ledger as it stands.
    pub(super) async fn read(&self, job: &JobName) -> Result<Option<Stored<Ledger>>, LedgerError> {
        let read = self.timed(StoreCommand::JobRead, self.store.read(job)).await?;
        read.map(|stored| stored.try_map(|body| decode(job, &body))).transpose()
    }

    /// What somebody last asked of all jobs, and when.
    pub(super) async fn read_pause(&self) -> Result<Option<Stored<(bool, Wall)>>, LedgerError> {
        let every = JobName::every();
        let read = self.timed(StoreCommand::JobRead, self.store.read(&every)).await?;
        read.map(|stored| stored.try_map(|body| decode_pause(&every, &body))).transpose()
    }

    /// Puts that in the place of the one that the writer knows.
    pub(super) async fn write_pause(
        &self,
        base: Option<Revision>,
        (suspend, at): (bool, Wall),
    ) -> Result<WriteReply<(bool, Wall)>, LedgerError> {
        let every = JobName::every();
        // A flag and numbers: writing them into memory does not fail.
        let body = serde_json::to_vec(&PauseShape { v: VERSION, suspend, at }).unwrap_or_default().into();
        let request = WriteRequest { token: None, base, body };
        let written = self.timed(StoreCommand::JobWrite, self.store.write(&every, request)).await?;
        written.try_map(|body| decode_pause(&every, &body))
    }

    /// See [`LedgerStore::changes`].
    pub(super) fn changes(&self) -> Subscription<JobNews> {
        self.store.changes()
    }
}

fn encode(ledger: &Ledger) -> Bytes {
    // Strings and numbers: writing them into memory does not fail.
    serde_json::to_vec(&Versioned { v: VERSION, ledger }).unwrap_or_default().into()
}

fn decode(job: &JobName, text: &[u8]) -> Result<Ledger, LedgerError> {
    let garbage = |error| garbage(job, &error);
    let Version { v: version } = serde_json::from_slice(text).map_err(garbage)?;
    if version != VERSION {
        return Err(LedgerError::Version { job: job.clone(), version });
    }
    serde_json::from_slice(text).map_err(garbage)
}

fn decode_pause(every: &JobName, text: &[u8]) -> Result<(bool, Wall), LedgerError> {
    let PauseShape { v: version, suspend, at } =
        serde_json::from_slice(text).map_err(|error| garbage(every, &error))?;
    let other = || LedgerError::Version { job: every.clone(), version };
    (version == VERSION).then_some((suspend, at)).ok_or_else(other)
}

fn garbage(job: &JobName, error: &serde_json::Error) -> LedgerError {
    LedgerError::Garbage { job: job.clone(), line: error.line(), column: error.column() }
}

/// What is kept for all jobs together.
#[derive(Serialize, Deserialize)]
struct PauseShape {
    v: u32,
    suspend: bool,
    at: Wall,
}

#[derive(Deserialize)]
struct Version {
    v: u32,
}

#[derive(Serialize)]
struct Versioned<'a> {
    v: u32,
    #[serde(flatten)]
    ledger: &'a Ledger,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Ledger")]
struct LedgerShape {
    timetable: String,
    decided: Wall,
    begun: Wall,
    #[serde(with = "Number")]
    token: Token,
    #[serde(flatten)]
    suspension: Suspension,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    runs: BTreeMap<Slot, Run>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    gaps: Vec<Gap>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    last_success: Option<Wall>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    keys: Vec<AskedKey>,
    #[serde(default, skip_serializing_if = "no_backfills")]
    backfills: Backfills,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Backfills")]
struct BackfillsShape(Vec<Backfill>);

#[derive(Serialize, Deserialize)]
#[serde(remote = "Backfill")]
struct BackfillShape {
    asked: Wall,
    from: Wall,
    to: Wall,
    last: Wall,
    done: Wall,
    slots: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "AskedKey")]
struct KeyShape {
    #[serde(serialize_with = "Text::serialize", deserialize_with = "shared")]
    key: Arc<str>,
    at: Wall,
    print: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Suspension")]
struct SuspensionShape {
    declared: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    order: Option<(bool, Wall)>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    stretch: Option<(Wall, Option<Wall>)>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pause: Option<(bool, Wall)>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Run")]
struct RunShape {
    #[serde(flatten)]
    phase: Phase,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    began: Option<Wall>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ended: Option<Wall>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    attempts: Vec<RunAttempt>,
    #[serde(default, skip_serializing_if = "is_zero")]
    spent: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    order: Option<RunOrder>,
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        serialize_with = "given",
        deserialize_with = "shared_given"
    )]
    data: Option<Arc<str>>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "RunOrder")]
struct OrderShape {
    at: Wall,
    what: RunWish,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    done: bool,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Phase", tag = "phase", rename_all = "snake_case")]
enum PhaseShape {
    Asked,
    Running,
    Waiting { until: Wall },
    Succeeded,
    Failed(#[serde(with = "Why")] RunFailure),
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "RunAttempt")]
struct AttemptShape {
    #[serde(rename = "n")]
    number: u32,
    #[serde(with = "Number")]
    token: Token,
    #[serde(with = "Number")]
    term: Token,
    #[serde(serialize_with = "Text::serialize", deserialize_with = "shared")]
    by: Arc<str>,
    claimed: Wall,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    end: Option<(Wall, Ending)>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    note: String,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Gap")]
struct GapShape {
    #[serde(rename = "why")]
    reason: GapReason,
    first: Wall,
    last: Wall,
    count: u64,
}

/// The protocol knows nothing of serde: each of its types is stored as the shape beside it says.
macro_rules! stored {
    ($($of:ty as $shape:ty),+ $(,)?) => {$(
        impl Serialize for $of {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                <$shape>::serialize(self, serializer)
            }
        }

        impl<'de> Deserialize<'de> for $of {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                <$shape>::deserialize(deserializer)
            }
        }
    )+};
}

stored! {
    Ledger as LedgerShape, AskedKey as KeyShape, Backfills as BackfillsShape, Backfill as BackfillShape,
    Suspension as SuspensionShape, Run as RunShape, Phase as PhaseShape, RunOrder as OrderShape,
    RunAttempt as AttemptShape, Gap as GapShape, Wall as Millis, Slot as Text, Ending as Text, RunFailure as Text,
    GapReason as Text, RunWish as Text,
}

/// Milliseconds since the Unix epoch.
struct Millis;

impl Millis {
    fn serialize<S: Serializer>(at: &Wall, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(at.as_millis())
    }

    fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Wall, D::Error> {
        u64::deserialize(deserializer).map(Wall::from_millis)
    }
}

/// A token as a number; whatever else writes tokens writes them in its own way.
struct Number;

impl Number {
    fn serialize<S: Serializer>(token: &Token, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(token.get())
    }

    fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Token, D::Error> {
        Token::new(u64::deserialize(deserializer)?).ok_or_else(|| D::Error::custom("no token"))
    }
}

/// What has one text, or one word.
struct Text;

impl Text {
    fn serialize<T: Display, S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(value)
    }

    fn deserialize<'de, T: FromStr, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(|_| D::Error::custom("an unknown word"))
    }
}

/// Why a run failed, beside its phase.
#[derive(Serialize, Deserialize)]
struct Why {
    why: RunFailure,
}

impl Why {
    fn serialize<S: Serializer>(why: &RunFailure, serializer: S) -> Result<S::Ok, S::Error> {
        Serialize::serialize(&Self { why: *why }, serializer)
    }

    fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<RunFailure, D::Error> {
        <Self as Deserialize>::deserialize(deserializer).map(|Self { why }| why)
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands it over so")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

fn no_backfills(backfills: &Backfills) -> bool {
    backfills.0.is_empty()
}

fn shared<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Arc<str>, D::Error> {
    String::deserialize(deserializer).map(Arc::from)
}

/// What a run is given is kept as the text that came.
fn given<S: Serializer>(data: &Option<Arc<str>>, serializer: S) -> Result<S::Ok, S::Error> {
    data.as_deref().serialize(serializer)
}

fn shared_given<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Arc<str>>, D::Error> {
    Ok(<Option<String>>::deserialize(deserializer)?.map(Arc::from))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::clock::BootClock;
    use crate::store::memory::MemoryStore;
    use crate::telemetry::Metrics;

    #[tokio::test]
    async fn every_request_to_the_store_is_counted_under_its_own_word() {
        let clock: SharedClock = Arc::new(BootClock);
        let telemetry = Telemetry::new(Arc::new(Metrics::new(jiff::Timestamp::UNIX_EPOCH)));
        let store = Arc::new(MemoryStore::new(Arc::clone(&clock)));
        let ledgers = Ledgers::new(store, telemetry.clone(), clock);
        let counts = || {
            let text = telemetry.metrics().render(Default::default(), true).unwrap();
            ["job_open", "job_write", "job_read"].map(|word| {
                let series =
                    format!("baton_store_command_duration_seconds_count{{command=\"{word}\",outcome=\"ok\"}} ");
                text.lines().find_map(|line| line.strip_prefix(&series)?.parse::<u64>().ok())
            })
        };
        assert_eq!(counts(), [Some(0); 3], "present at zero from the start");
        let ledger = ledger();
        let term = Token::new(7).unwrap();
        assert_eq!(ledgers.open(&job(), term).await, Ok(OpenReply::Opened(None)));
        assert_eq!(counts(), [Some(1), Some(0), Some(0)]);
        let write = WriteRequest { token: Some(term), base: None, body: &ledger };
        assert!(matches!(ledgers.write(&job(), write).await, Ok(WriteReply::Written { .. })));
        assert_eq!(counts(), [Some(1), Some(1), Some(0)]);
        assert_eq!(ledgers.read(&job()).await.unwrap().unwrap().body, ledger);
        assert_eq!(counts(), [Some(1); 3]);
    }

    fn at(ms: u64) -> Wall {
        Wall::from_millis(ms)
    }

    fn job() -> JobName {
        JobName::new("nightly").unwrap()
    }

    fn read(text: &[u8]) -> Result<Ledger, LedgerError> {
        decode(&job(), text)
    }

    fn attempt(number: u32, end: Option<Ending>) -> RunAttempt {
        RunAttempt {
            number,
            token: Token::new(70 + u64::from(number)).unwrap(),
            term: Token::new(70).unwrap(),
            by: Arc::from("web-0"),
            claimed: at(1_000),
            end: end.map(|ending| (at(2_000), ending)),
            note: "status 500: \"no\"".to_owned(),
        }
    }

    fn ledger() -> Ledger {
        let endings = [Ending::Succeeded, Ending::Failed, Ending::Interrupted, Ending::Cancelled];
        let phases = [
            Phase::Asked,
            Phase::Running,
            Phase::Waiting { until: at(9_000) },
            Phase::Succeeded,
            Phase::Failed(RunFailure::BackoffLimitExceeded),
            Phase::Failed(RunFailure::DeadlineExceeded),
            Phase::Failed(RunFailure::Interrupted),
            Phase::Failed(RunFailure::Replaced),
            Phase::Failed(RunFailure::Cancelled),
        ];
        let mut ledger = Ledger::new("0 2 * * *|UTC".to_owned(), true, at(500));
        for (n, phase) in (1..).zip(phases) {
            let attempts = endings.iter().zip(1..).map(|(ending, number)| attempt(number, Some(*ending)));
            let attempts = attempts.chain([attempt(5, None)]).collect();
            let run = Run { phase, began: Some(at(n)), ended: None, attempts, spent: 0, order: None, data: None };
            ledger.runs.insert(Slot::Scheduled(at(n * 1_000)), run);
        }
        ledger.runs.insert(
            Slot::Manual(at(1_234)),
            Run {
                phase: Phase::Asked,
                began: None,
                ended: Some(at(7)),
                attempts: Vec::new(),
                spent: 0,
                order: None,
                data: Some(Arc::from("{\"rows\":\"\u{e9}\"}")),
            },
        );
        ledger.runs.insert(
            Slot::Backfill(at(3_000)),
            Run {
                phase: Phase::Asked,
                began: None,
                ended: None,
                attempts: Vec::new(),
                spent: 0,
                order: None,
                data: None,
            },
        );
        let backfill = Backfill { asked: at(9), from: at(1), to: at(8), last: at(7), done: at(3), slots: 5 };
        ledger.backfills.0.push(backfill);
        ledger.keys.push(AskedKey { key: Arc::from("k-1"), at: at(1_234), print: u64::MAX });
        for (slot, what, done) in [(4_000, RunWish::Cancel, true), (5_000, RunWish::Retry, false)] {
            let run = ledger.runs.get_mut(&Slot::Scheduled(at(slot))).unwrap();
            (run.spent, run.order) = (4, Some(RunOrder { at: at(9), what, done }));
        }
        let reasons = [GapReason::Missed, GapReason::Concurrency, GapReason::Suspended];
        ledger.gaps.extend(reasons.map(|reason| Gap { reason, first: at(1), last: at(2), count: 3 }));
        ledger.suspension.order = Some((false, at(77)));
        ledger.suspension.stretch = Some((at(70), Some(at(77))));
        ledger.suspension.pause = Some((true, at(78)));
        ledger.token = Token::new(99).unwrap();
        ledger.begun = at(1_234);
        ledger.last_success = Some(at(8_000));
        ledger
    }

    #[test]
    fn what_is_written_is_read_again() {
        let ledger = ledger();
        assert_eq!(read(&encode(&ledger)), Ok(ledger));
        let empty = Ledger::new(String::new(), false, at(0));
        assert_eq!(read(&encode(&empty)), Ok(empty));
    }

    /// As other releases have written them; the last holds everything that a ledger can.
    const WRITTEN: &str = include_str!("ledgers_v1.jsonl");

    #[test]
    fn ledgers_of_other_releases_are_read_and_written_as_they_were() {
        for text in WRITTEN.lines() {
            let ledger = read(text.as_bytes()).unwrap();
            assert_eq!(String::from_utf8(encode(&ledger).to_vec()).unwrap(), text);
        }
        let last = WRITTEN.lines().last().unwrap();
        assert_eq!((WRITTEN.lines().count(), read(last.as_bytes())), (4, Ok(ledger())));
    }

    /// Metrics and answers use them, too: whoever renames one for their sake makes ledgers that are there unreadable.
    #[test]
    fn the_words_that_are_stored_do_not_change() {
        let stored = |words: serde_json::Result<String>| words.unwrap().replace(['[', ']', '"'], "");
        assert_eq!(stored(serde_json::to_string(&Ending::ALL)), "succeeded,failed,interrupted,cancelled");
        let failures = "backoff_limit_exceeded,deadline_exceeded,interrupted,replaced,cancelled";
        assert_eq!(stored(serde_json::to_string(&RunFailure::ALL)), failures);
        assert_eq!(stored(serde_json::to_string(&GapReason::ALL)), "missed,skipped,suspended");
        assert_eq!(stored(serde_json::to_string(&RunWish::ALL)), "cancel,retry");
    }

    #[test]
    fn what_is_no_ledger_is_refused_and_a_later_version_is_named() {
        let whole = String::from_utf8(encode(&ledger()).to_vec()).unwrap();
        assert_eq!(read(b"{\"v\":2,\"new\":true}"), Err(LedgerError::Version { job: job(), version: 2 }));
        for (good, bad) in [
            ("\"backoff_limit_exceeded\"", "\"other\""),
            ("\"interrupted\"", "\"other\""),
            ("\"missed\"", "\"other\""),
            ("\"manual-1234\"", "\"x\""),
            ("\"token\":99", "\"token\":9007199254740992"),
            ("\"phase\":\"asked\"", "\"phase\":\"other\""),
            ("{", "["),
        ] {
            let text = whole.replacen(good, bad, 1);
            assert!(text != whole && matches!(read(text.as_bytes()), Err(LedgerError::Garbage { .. })), "{bad}");
        }
        assert!(read(b"").is_err());
    }
}
