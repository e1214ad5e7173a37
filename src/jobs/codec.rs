//! A ledger as text in the store: JSON, with a version in front, so that a replica of another release knows what it
//! reads.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::protocol::Token;
use crate::protocol::jobs::{Attempt, Ending, Failure, Gap, GapReason, Ledger, Phase, Run, Slot, Suspension, Wall};
use crate::telemetry::{ending_word, failure_word, gap_word};

/// What this release writes. It reads nothing else.
const VERSION: u32 = 1;

/// Why a ledger cannot be read. Holds nothing of its content.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CodecError {
    /// A later release wrote it.
    #[error("the ledger has version {0}; this release reads version {VERSION}: end the rollout, or go back")]
    Version(u32),
    /// It is not a ledger.
    #[error("the ledger cannot be read: {0}")]
    Garbage(String),
}

#[derive(Serialize, Deserialize)]
struct VersionText {
    v: u32,
}

#[derive(Serialize, Deserialize)]
struct LedgerText {
    v: u32,
    timetable: String,
    decided: u64,
    begun: u64,
    token: u64,
    declared: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    order: Option<(bool, u64)>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    stretch: Option<(u64, Option<u64>)>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    runs: BTreeMap<String, RunText>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    gaps: Vec<GapText>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    last_success: Option<u64>,
}

#[derive(Serialize, Deserialize)]
struct RunText {
    #[serde(flatten)]
    phase: PhaseText,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    began: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ended: Option<u64>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    attempts: Vec<AttemptText>,
}

#[derive(Serialize, Deserialize)]
#[serde(tag = "phase", rename_all = "snake_case")]
enum PhaseText {
    Asked,
    Running,
    Waiting { until: u64 },
    Succeeded,
    Failed { why: String },
}

#[derive(Serialize, Deserialize)]
struct AttemptText {
    n: u32,
    token: u64,
    term: u64,
    by: String,
    claimed: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    end: Option<(u64, String)>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    note: String,
}

#[derive(Serialize, Deserialize)]
struct GapText {
    why: String,
    first: u64,
    last: u64,
    count: u64,
}

/// The ledger as text.
pub(super) fn write(ledger: &Ledger) -> Bytes {
    let suspension = &ledger.suspension;
    let text = LedgerText {
        v: VERSION,
        timetable: ledger.timetable.clone(),
        decided: ledger.decided.as_millis(),
        begun: ledger.begun.as_millis(),
        token: ledger.token.get(),
        declared: suspension.declared,
        order: suspension.order.map(|(suspend, at)| (suspend, at.as_millis())),
        stretch: suspension.stretch.map(|(from, until)| (from.as_millis(), until.map(Wall::as_millis))),
        runs: ledger.runs.iter().map(|(slot, run)| (slot.to_string(), run_text(run))).collect(),
        gaps: ledger.gaps.iter().map(gap_text).collect(),
        last_success: ledger.last_success.map(Wall::as_millis),
    };
    // Strings and numbers: writing them into memory does not fail.
    serde_json::to_vec(&text).unwrap_or_default().into()
}

/// The ledger in a text.
///
/// # Errors
/// [`CodecError`]
pub(super) fn read(text: &[u8]) -> Result<Ledger, CodecError> {
    let garbage =
        |error: serde_json::Error| CodecError::Garbage(format!("line {}, column {}", error.line(), error.column()));
    let VersionText { v } = serde_json::from_slice(text).map_err(garbage)?;
    if v != VERSION {
        return Err(CodecError::Version(v));
    }
    let text: LedgerText = serde_json::from_slice(text).map_err(garbage)?;
    let runs = text.runs.into_iter().map(|(slot, run)| {
        let slot: Slot = slot.parse().map_err(|()| wrong("a slot"))?;
        Ok((slot, run_of(run)?))
    });
    Ok(Ledger {
        timetable: text.timetable,
        decided: Wall::from_millis(text.decided),
        begun: Wall::from_millis(text.begun),
        token: token(text.token)?,
        suspension: Suspension {
            declared: text.declared,
            order: text.order.map(|(suspend, at)| (suspend, Wall::from_millis(at))),
            stretch: text.stretch.map(|(from, until)| (Wall::from_millis(from), until.map(Wall::from_millis))),
        },
        runs: runs.collect::<Result<_, _>>()?,
        gaps: text.gaps.into_iter().map(gap_of).collect::<Result<_, _>>()?,
        last_success: text.last_success.map(Wall::from_millis),
    })
}

fn wrong(what: &str) -> CodecError {
    CodecError::Garbage(format!("{what} is none"))
}

fn token(value: u64) -> Result<Token, CodecError> {
    Token::new(value).ok_or_else(|| wrong("a token"))
}

fn run_text(run: &Run) -> RunText {
    let phase = match run.phase {
        Phase::Asked => PhaseText::Asked,
        Phase::Running => PhaseText::Running,
        Phase::Waiting { until } => PhaseText::Waiting { until: until.as_millis() },
        Phase::Succeeded => PhaseText::Succeeded,
        Phase::Failed(why) => PhaseText::Failed { why: failure_word(why).to_owned() },
    };
    let attempts = run.attempts.iter().map(|attempt| AttemptText {
        n: attempt.number,
        token: attempt.token.get(),
        term: attempt.term.get(),
        by: attempt.by.to_string(),
        claimed: attempt.claimed.as_millis(),
        end: attempt.end.map(|(at, ending)| (at.as_millis(), ending_word(ending).to_owned())),
        note: attempt.note.clone(),
    });
    RunText {
        phase,
        began: run.began.map(Wall::as_millis),
        ended: run.ended.map(Wall::as_millis),
        attempts: attempts.collect(),
    }
}

fn run_of(text: RunText) -> Result<Run, CodecError> {
    let phase = match text.phase {
        PhaseText::Asked => Phase::Asked,
        PhaseText::Running => Phase::Running,
        PhaseText::Waiting { until } => Phase::Waiting { until: Wall::from_millis(until) },
        PhaseText::Succeeded => Phase::Succeeded,
        PhaseText::Failed { why } => Phase::Failed(failure_of(&why)?),
    };
    let attempts = text.attempts.into_iter().map(|attempt| {
        let end = attempt.end.map(|(at, word)| Ok((Wall::from_millis(at), ending_of(&word)?))).transpose()?;
        Ok(Attempt {
            number: attempt.n,
            token: token(attempt.token)?,
            term: token(attempt.term)?,
            by: Arc::from(attempt.by),
            claimed: Wall::from_millis(attempt.claimed),
            end,
            note: attempt.note,
        })
    });
    Ok(Run {
        phase,
        began: text.began.map(Wall::from_millis),
        ended: text.ended.map(Wall::from_millis),
        attempts: attempts.collect::<Result<_, _>>()?,
    })
}

fn gap_text(gap: &Gap) -> GapText {
    let (first, last) = (gap.first.as_millis(), gap.last.as_millis());
    GapText { why: gap_word(gap.reason).to_owned(), first, last, count: gap.count }
}

fn gap_of(text: GapText) -> Result<Gap, CodecError> {
    let reasons = [GapReason::Missed, GapReason::Concurrency, GapReason::Suspended];
    let reason = reasons.into_iter().find(|reason| gap_word(*reason) == text.why).ok_or_else(|| wrong("a reason"))?;
    let (first, last) = (Wall::from_millis(text.first), Wall::from_millis(text.last));
    Ok(Gap { reason, first, last, count: text.count })
}

fn failure_of(word: &str) -> Result<Failure, CodecError> {
    use Failure::{BackoffLimitExceeded, DeadlineExceeded, Interrupted, Replaced};
    let all = [BackoffLimitExceeded, DeadlineExceeded, Interrupted, Replaced];
    all.into_iter().find(|failure| failure_word(*failure) == word).ok_or_else(|| wrong("a failure"))
}

fn ending_of(word: &str) -> Result<Ending, CodecError> {
    let all = [Ending::Succeeded, Ending::Failed, Ending::Interrupted, Ending::Cancelled];
    all.into_iter().find(|ending| ending_word(*ending) == word).ok_or_else(|| wrong("an ending"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Wall {
        Wall::from_millis(ms)
    }

    fn attempt(number: u32, end: Option<Ending>) -> Attempt {
        Attempt {
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
            Phase::Failed(Failure::BackoffLimitExceeded),
            Phase::Failed(Failure::DeadlineExceeded),
            Phase::Failed(Failure::Interrupted),
            Phase::Failed(Failure::Replaced),
        ];
        let mut ledger = Ledger::new("0 2 * * *|UTC".to_owned(), true, at(500));
        for (n, phase) in (1..).zip(phases) {
            let attempts = endings.iter().zip(1..).map(|(ending, number)| attempt(number, Some(*ending)));
            let run =
                Run { phase, began: Some(at(n)), ended: None, attempts: attempts.chain([attempt(5, None)]).collect() };
            ledger.runs.insert(Slot::Scheduled(at(n * 1_000)), run);
        }
        ledger.runs.insert(
            Slot::Manual(at(1_234)),
            Run { phase: Phase::Asked, began: None, ended: Some(at(7)), attempts: Vec::new() },
        );
        let reasons = [GapReason::Missed, GapReason::Concurrency, GapReason::Suspended];
        ledger.gaps.extend(reasons.map(|reason| Gap { reason, first: at(1), last: at(2), count: 3 }));
        ledger.suspension.order = Some((false, at(77)));
        ledger.suspension.stretch = Some((at(70), Some(at(77))));
        ledger.token = Token::new(99).unwrap();
        ledger.begun = at(1_234);
        ledger.last_success = Some(at(8_000));
        ledger
    }

    #[test]
    fn what_is_written_is_read_again() {
        let ledger = ledger();
        assert_eq!(read(&write(&ledger)), Ok(ledger));
        let empty = Ledger::new(String::new(), false, at(0));
        assert_eq!(read(&write(&empty)), Ok(empty));
    }

    /// As other releases have written them; the last holds everything that a ledger can.
    const WRITTEN: &str = include_str!("ledgers_v1.jsonl");

    #[test]
    fn ledgers_of_other_releases_are_read_and_written_as_they_were() {
        for text in WRITTEN.lines() {
            let ledger = read(text.as_bytes()).unwrap();
            assert_eq!(String::from_utf8(write(&ledger).to_vec()).unwrap(), text);
        }
        let last = WRITTEN.lines().last().unwrap();
        assert_eq!((WRITTEN.lines().count(), read(last.as_bytes())), (4, Ok(ledger())));
    }

    #[test]
    fn what_is_no_ledger_is_refused_and_a_later_version_is_named() {
        let whole = String::from_utf8(write(&ledger()).to_vec()).unwrap();
        assert_eq!(read(b"{\"v\":2,\"new\":true}"), Err(CodecError::Version(2)));
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
            assert!(text != whole && matches!(read(text.as_bytes()), Err(CodecError::Garbage(_))), "{bad}");
        }
        assert!(read(b"").is_err());
    }
}
