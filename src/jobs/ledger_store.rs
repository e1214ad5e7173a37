//! The store of ledgers, typed: it is asked for ledgers here, and keeps them as JSON, with a version in front, so that
//! a replica of another release knows what it reads.
//!
//! The shapes below are a stored format, and so are the words of [`Ending`], [`RunFailure`] and [`GapReason`] and the
//! text of a [`Slot`], which metrics and answers have in common with it. The tests hold them against ledgers as they
//! were written before. While a rollout goes on, replicas of two releases take turns with one ledger, so:
//!
//! * *A field that is not known is ignored, and lost with the next write.* So a field may be added under the same
//!   version if a ledger without it is right all the same: it is optional, and what it stands for may be forgotten.
//! * *A word that is not known makes a ledger unreadable.* So none is added under the same version, and none renamed.
//! * *Whatever else changes, changes the version.* A release reads its own version and those before it, and refuses a
//!   later one by name ([`LedgerError::Version`]): it starts nothing rather than undo what it does not understand. It
//!   writes the lowest version that can hold the ledger, so that a rollout stops only the jobs that use what is new.

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
    Abridgement, AskedKey, Backfill, Backfills, Ending, Gap, GapReason, JobName, Leaps, Ledger, LedgerTerm, OpenReply,
    Phase, Revision, Run, RunAttempt, RunFailure, RunOrder, RunWish, Slot, Stored, Suspension, Wall, WriteReply,
    WriteRequest,
};
use crate::store::{JobNews, LedgerStore, StoreError, timed};
use crate::telemetry::{StoreCommand, Telemetry};

/// What this release writes, and all that it reads: there was none before.
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

    /// See [`LedgerStore::open`].
    pub(super) async fn open(&self, job: &JobName, term: &LedgerTerm) -> Result<OpenReply<Ledger>, LedgerError> {
        self.timed(StoreCommand::JobOpen, self.store.open(job, term)).await?.try_map(|body| decode(job, &body))
    }

    /// Puts a ledger in the place of the one that the writer knows: as much of it as the store takes.
    pub(super) async fn write(
        &self,
        job: &JobName,
        request: WriteRequest<&Ledger>,
    ) -> Result<WriteReply<Ledger>, LedgerError> {
        let WriteRequest { term, base, body } = request;
        let request = WriteRequest { term, base, body: encode_within(body, self.store.ledger_bytes_max()) };
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
        let request = WriteRequest { term: None, base, body };
        let written = self.timed(StoreCommand::JobWrite, self.store.write(&every, request)).await?;
        written.try_map(|body| decode_pause(&every, &body))
    }

    /// See [`LedgerStore::changes`].
    pub(super) fn changes(&self) -> Subscription<JobNews> {
        self.store.changes()
    }
}

fn encode(ledger: &Ledger) -> Bytes {
    json(&Versioned { v: VERSION, ledger }).into()
}

fn json(value: &impl Serialize) -> Vec<u8> {
    // Strings and numbers: writing them into memory does not fail.
    serde_json::to_vec(value).unwrap_or_default()
}

/// The ledger in at most so many bytes. What is left out is what people need least: a ledger that is too long could not
/// be written, and the job would stand still. Whatever is left may still be too much, which its store then says.
fn encode_within(ledger: &Ledger, bytes_max: usize) -> Bytes {
    let whole = encode(ledger);
    let mut over = whole.len().saturating_sub(bytes_max);
    if over == 0 {
        return whole;
    }
    let mut ledger = ledger.clone();
    // Its name with quotes, a colon and a comma besides.
    let of_run = |slot: &Slot, run: &Run| slot.to_string().len() + 4 + json(run).len();
    let length = |ledger: &Ledger, slot: &Slot| ledger.runs.get(slot).map_or(0, |run| of_run(slot, run));
    for by in Abridgement::ALL {
        for slot in ledger.least_needed_first() {
            let before = length(&ledger, &slot);
            ledger.abridge(slot, by);
            over = over.saturating_sub(before - length(&ledger, &slot));
            if over == 0 {
                return encode(&ledger);
            }
        }
    }
    encode(&ledger)
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
    #[serde(flatten)]
    leaps: Leaps,
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
#[serde(remote = "Leaps")]
struct LeapsShape {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    settled: Option<Wall>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    closed: Vec<(Wall, Wall)>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reopened: Option<Wall>,
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
    #[serde(default, skip_serializing_if = "is_not")]
    withdrawn: bool,
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

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
const fn is_not(flag: &bool) -> bool {
    !*flag
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
    Ledger as LedgerShape, Leaps as LeapsShape, AskedKey as KeyShape, Backfills as BackfillsShape,
    Backfill as BackfillShape,
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
mod tests;
