//! What is stored is read again, by this release and as others have written it; and what is too long is made to fit.

use super::*;
use crate::base::clock::BootClock;
use crate::jobs::run::NOTE_BYTES_MAX;
use crate::protocol::RoleName;
use crate::store::LEDGER_BYTES_MAX;
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
            let series = format!("baton_store_command_duration_seconds_count{{command=\"{word}\",outcome=\"ok\"}} ");
            text.lines().find_map(|line| line.strip_prefix(&series)?.parse::<u64>().ok())
        })
    };
    assert_eq!(counts(), [Some(0); 3], "present at zero from the start");
    let ledger = ledger();
    let term = LedgerTerm { role: RoleName::new("scheduler").unwrap(), token: Token::new(7).unwrap() };
    assert_eq!(ledgers.open(&job(), &term).await, Ok(OpenReply::Opened(None)));
    assert_eq!(counts(), [Some(1), Some(0), Some(0)]);
    let write = WriteRequest { term: Some(term), base: None, body: &ledger };
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
        withdrawn: end == Some(Ending::Interrupted),
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
        Run { phase: Phase::Asked, began: None, ended: None, attempts: Vec::new(), spent: 0, order: None, data: None },
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
    ledger.leaps =
        Leaps { settled: Some(at(400)), closed: vec![(at(410), at(420)), (at(600), at(600))], reopened: Some(at(650)) };
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

/// As large as `check-config` lets a ledger become: a thousand runs of each kind with all their attempts, and as many
/// gaps, and as many runs as may go on.
fn largest() -> Ledger {
    let note = "\"".repeat(NOTE_BYTES_MAX);
    let attempts = |last: Option<Ending>| {
        let ends = (1..10).map(|_| Some(Ending::Failed)).chain([last]);
        let attempt = |(number, end)| RunAttempt { note: note.clone(), ..attempt(number, end) };
        (1..).zip(ends).map(attempt).collect::<Vec<_>>()
    };
    let mut ledger = ledger();
    let failed = Phase::Failed(RunFailure::BackoffLimitExceeded);
    let ended = [(1_000, Phase::Succeeded, Some(Ending::Succeeded)), (1_000, failed, Some(Ending::Failed))];
    let waiting = (100, Phase::Waiting { until: at(9) }, Some(Ending::Failed));
    let all = ended.into_iter().chain([waiting]).flat_map(|(count, phase, end)| (0..count).map(move |_| (phase, end)));
    for (n, (phase, end)) in (100_000..).zip(all) {
        let ended = phase.is_over().then(|| at(n));
        let (began, attempts) = (Some(at(n)), attempts(end));
        let run = Run { phase, began, ended, attempts, spent: 0, order: None, data: None };
        ledger.runs.insert(Slot::Scheduled(at(n * 1_000)), run);
    }
    ledger.gaps = vec![Gap { reason: GapReason::Concurrency, first: at(1 << 41), last: at(1 << 41), count: 1 }; 1_000];
    ledger
}

#[test]
fn the_largest_ledger_that_may_be_is_abridged_until_it_fits_its_store() {
    let ledger = largest();
    assert!(encode(&ledger).len() > 4 << 20, "all of it is far too much");
    let goes_on = |ledger: &Ledger| ledger.runs.values().filter(|run| run.phase.is_active()).count();
    for bytes_max in [200 << 10, LEDGER_BYTES_MAX] {
        let text = encode_within(&ledger, bytes_max);
        assert!(text.len() <= bytes_max && text.len() > bytes_max - (8 << 10), "{}", text.len());
        let left = read(&text).unwrap();
        assert_eq!(goes_on(&left), goes_on(&ledger), "what goes on is known");
        assert_eq!((left.decided, left.token, left.gaps.len()), (ledger.decided, ledger.token, ledger.gaps.len()));
        let last = |ledger: &Ledger| ledger.runs.values().filter_map(|run| run.ended).max();
        assert_eq!(last(&left), last(&ledger), "the last to end is remembered longest");
    }
}

#[test]
fn of_a_ledger_that_is_too_long_old_notes_go_first_then_old_attempts_then_old_runs() {
    let ledger = largest();
    let counts = |bytes_max| {
        let left = read(&encode_within(&ledger, bytes_max)).unwrap();
        let attempts = || left.runs.values().flat_map(|run| &run.attempts);
        (attempts().filter(|attempt| !attempt.note.is_empty()).count(), attempts().count(), left.runs.len())
    };
    let whole = counts(usize::MAX);
    let length = encode(&ledger).len();
    let (notes, attempts, runs) = counts(length - (1 << 20));
    assert!(notes < whole.0 && (attempts, runs) == (whole.1, whole.2));
    let (notes, attempts, runs) = counts(2 << 20);
    assert!(notes <= 2_200 && attempts < whole.1 && runs == whole.2, "{notes} {attempts} {runs}");
    assert!(counts(200 << 10).2 < whole.2);
}

#[tokio::test]
async fn a_ledger_that_is_too_long_for_its_store_is_written_all_the_same() {
    let clock: SharedClock = Arc::new(BootClock);
    let telemetry = Telemetry::new(Arc::new(Metrics::new(jiff::Timestamp::UNIX_EPOCH)));
    let ledgers = Ledgers::new(Arc::new(MemoryStore::new(Arc::clone(&clock))), telemetry, clock);
    let wish = WriteRequest { term: None, base: None, body: &largest() };
    assert!(matches!(ledgers.write(&job(), wish).await, Ok(WriteReply::Written { .. })));
}

/// As other releases have written them; the last holds everything that a ledger can.
const WRITTEN: &str = include_str!("../ledgers_v1.jsonl");

#[test]
fn ledgers_of_other_releases_are_read_and_written_as_they_were() {
    for text in WRITTEN.lines() {
        let ledger = read(text.as_bytes()).unwrap();
        assert_eq!(String::from_utf8(encode(&ledger).to_vec()).unwrap(), text);
    }
    let last = WRITTEN.lines().last().unwrap();
    assert_eq!((WRITTEN.lines().count(), read(last.as_bytes())), (5, Ok(ledger())));
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
