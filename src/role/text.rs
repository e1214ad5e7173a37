//! An answer as JSON, written once for as long as only its milliseconds change: apps ask before each of their steps,
//! and what they are told stays the same for most of a term.

use parking_lot::Mutex;
use std::sync::Arc;

use super::handle::{Answer, whole_ms};
use super::status::Snapshot;
use crate::protocol::{Promise, Token};

/// What stands before the milliseconds. Inside of a text its quotation marks would be escaped.
const BEFORE_MS: &[u8] = b"\"valid_for_ms\":";
/// More digits than 64 bits have.
const DIGITS_MAX: usize = 20;

/// An answer, written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnswerText {
    /// Whether this replica leads, as in the text.
    pub leader: bool,
    /// The JSON object.
    pub json: Vec<u8>,
}

/// The last answer that was written.
#[derive(Default)]
pub(super) struct Written {
    last: Mutex<Option<Last>>,
}

/// One answer, and all that it was made of but for what never changes.
struct Last {
    /// Kept, so that no other can come to its address.
    snapshot: Arc<Snapshot>,
    /// The promise's token, when there is a promise.
    token: Option<Token>,
    /// Whether what the snapshot says of the holder still counts.
    holder_known: bool,
    /// Without the milliseconds, when there are any.
    json: Vec<u8>,
    /// Where they belong.
    ms_at: usize,
}

impl Written {
    /// The answer on this basis, as `answer` describes it.
    pub(super) fn text(
        &self,
        snapshot: &Arc<Snapshot>,
        promise: Option<Promise>,
        holder_known: bool,
        answer: impl FnOnce() -> Answer,
    ) -> AnswerText {
        let token = promise.map(|promise| promise.token);
        let mut last = self.last.lock();
        let fits = last.as_ref().is_some_and(|last| {
            Arc::ptr_eq(&last.snapshot, snapshot) && (last.token, last.holder_known) == (token, holder_known)
        });
        if !fits {
            *last = None;
        }
        let last = last.get_or_insert_with(|| {
            let (json, ms_at) = without_ms(&answer());
            Last { snapshot: Arc::clone(snapshot), token, holder_known, json, ms_at }
        });
        let json = match promise {
            Some(promise) => last.with_ms(whole_ms(promise.valid_for)),
            None => last.json.clone(),
        };
        AnswerText { leader: promise.is_some(), json }
    }
}

/// An answer without its milliseconds, and where they belong.
fn without_ms(answer: &Answer) -> (Vec<u8>, usize) {
    // Texts and numbers can always be written.
    let mut json = serde_json::to_vec(answer).unwrap_or_default();
    let found = json.windows(BEFORE_MS.len()).position(|window| window == BEFORE_MS);
    let ms_at = found.map_or(json.len(), |at| at + BEFORE_MS.len());
    let digits = json[ms_at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    json.drain(ms_at..ms_at + digits);
    (json, ms_at)
}

impl Last {
    /// Of exactly its length: a longer one could not be sent as it is.
    fn with_ms(&self, ms: u64) -> Vec<u8> {
        let mut digits = [0; DIGITS_MAX];
        let mut rest = &mut digits[..];
        // There is room for every number.
        let _ = serde_json::to_writer(&mut rest, &ms);
        let left = rest.len();
        let digits = &digits[..DIGITS_MAX - left];
        let (before, after) = self.json.split_at(self.ms_at);
        let mut json = Vec::with_capacity(self.json.len() + digits.len());
        json.extend_from_slice(before);
        json.extend_from_slice(digits);
        json.extend_from_slice(after);
        json
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::base::clock::wall_time;
    use crate::protocol::{RoleName, State, View};

    fn snapshot(state: State, holder: Option<&str>) -> Arc<Snapshot> {
        let holder = holder.map(|name| (Arc::from(name), crate::protocol::Mono::from_nanos(1)));
        Arc::new(Snapshot::first(View { state, holder, reason: None, stays_out: false }, wall_time()))
    }

    fn answer(snapshot: &Snapshot, promise: Option<Promise>, identity: &str) -> Answer {
        Answer {
            role: RoleName::new("scheduler").unwrap(),
            leader: promise.is_some(),
            state: snapshot.view.state,
            identity: identity.into(),
            holder: snapshot.view.holder.as_ref().map(|(name, _)| Arc::clone(name)),
            token: promise.map(|promise| promise.token),
            valid_for_ms: promise.map(|promise| whole_ms(promise.valid_for)),
            since: snapshot.since,
            index: snapshot.index,
            reason: None,
        }
    }

    #[test]
    fn the_text_is_the_answers_json_whatever_was_written_before() {
        let written = Written::default();
        let promise = |token, ms| {
            let valid_for = Duration::from_millis(ms);
            Some(Promise { token: Token::new(token).unwrap(), valid_for })
        };
        let (leads, other) = (snapshot(State::Leading, None), snapshot(State::Standby, Some("web-1")));
        let name = "web-0 \"valid_for_ms\":7,\\";
        for (snapshot, promise, holder_known) in [
            (&leads, promise(7, 5_000), false),
            (&leads, promise(7, 4_999), false),
            (&leads, promise(7, 0), false),
            (&leads, promise(7, u64::MAX / 1_000_000), false),
            (&leads, promise(8, 3), false),
            (&leads, None, false),
            (&other, None, true),
            (&other, None, true),
            (&other, promise(8, 3), true),
            (&snapshot(State::Leading, None), promise(8, 12), false),
        ] {
            let answer = answer(snapshot, promise, name);
            let text = written.text(snapshot, promise, holder_known, || answer.clone());
            assert_eq!(text.leader, answer.leader);
            assert_eq!(String::from_utf8(text.json).unwrap(), serde_json::to_string(&answer).unwrap());
        }
    }

    #[test]
    fn it_is_written_anew_only_when_something_else_than_the_milliseconds_is_another() {
        let written = Written::default();
        let snapshots = [snapshot(State::Standby, Some("web-1")), snapshot(State::Standby, Some("web-1"))];
        let mut times = 0;
        for (at, holder_known) in [(0, true), (0, true), (0, false), (0, false), (1, false), (0, false)] {
            let describe = || {
                times += 1;
                answer(&snapshots[at], None, "web-0")
            };
            written.text(&snapshots[at], None, holder_known, describe);
        }
        assert_eq!(times, 4);
    }
}
