//! What is wrong is said once, and once that it is well again.

use std::time::Duration;

use crate::protocol::Mono;

/// What still fails for the same reason is said again after so long.
const AGAIN_AFTER: Duration = Duration::from_secs(60);

/// What was said last about something that may go wrong again and again.
#[derive(Debug, Default)]
pub struct Complaint(Option<String>);

/// What is to be said now.
#[derive(Debug, PartialEq, Eq)]
pub enum Turn<'a> {
    /// It went wrong, or for another reason than before.
    Wrong(&'a str),
    /// It is well again.
    Well,
}

impl Complaint {
    /// How it went: with the reason when it went wrong. None when that was said already.
    pub fn note(&mut self, wrong: Option<String>) -> Option<Turn<'_>> {
        if wrong == self.0 {
            return None;
        }
        self.0 = wrong;
        Some(self.0.as_deref().map_or(Turn::Well, Turn::Wrong))
    }

    /// Why it is wrong, if it is.
    pub fn reason(&self) -> Option<&str> {
        self.0.as_deref()
    }
}

/// Something that is done again and again, and fails each time: said when it begins, for each new reason and now and
/// then, with how often it has failed; and else only counted.
#[derive(Debug, Default)]
pub struct RepeatedFailure {
    /// Why it failed the last time, and when that was said; none while it does not fail.
    said: Option<(String, Mono)>,
    failures: u64,
}

impl RepeatedFailure {
    /// It failed. How often it has, where that is to be said now.
    pub fn failed(&mut self, reason: &str, now: Mono) -> Option<u64> {
        self.failures += 1;
        let known = self.said.as_ref().is_some_and(|(said, at)| said == reason && now.since(*at) < AGAIN_AFTER);
        if known {
            return None;
        }
        self.said = Some((reason.to_owned(), now));
        Some(self.failures)
    }

    /// It fails no longer. How often it had, if it had.
    pub fn ended(&mut self) -> Option<u64> {
        self.said.take().map(|_| std::mem::take(&mut self.failures))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fails_again_and_again_is_said_seldom_and_counted() {
        let at = |seconds: u64| Mono::from_nanos(seconds * 1_000_000_000);
        let mut failure = RepeatedFailure::default();
        assert_eq!(failure.ended(), None, "it has not failed");
        let said: Vec<Option<u64>> = (0..62).map(|second| failure.failed("full", at(second))).collect();
        let when: Vec<usize> = (0..62).filter(|second| said[*second].is_some()).collect();
        assert_eq!((when, said[60]), (vec![0, 60], Some(61)), "at once, and again after a minute");
        assert_eq!(failure.failed("away", at(62)), Some(63), "for another reason");
        assert_eq!(failure.failed("away", at(63)), None);
        assert_eq!((failure.ended(), failure.ended()), (Some(64), None));
        assert_eq!(failure.failed("away", at(64)), Some(1), "it begins anew");
    }

    #[test]
    fn each_turn_is_told_once() {
        let mut complaint = Complaint::default();
        let mut note = |wrong: Option<&str>| complaint.note(wrong.map(str::to_owned)).map(|turn| format!("{turn:?}"));
        assert_eq!(note(None), None, "it was well before");
        assert_eq!(note(Some("full")).as_deref(), Some("Wrong(\"full\")"));
        assert_eq!(note(Some("full")), None);
        assert_eq!(note(Some("away")).as_deref(), Some("Wrong(\"away\")"));
        assert_eq!(note(None).as_deref(), Some("Well"));
        assert_eq!(note(None), None);
    }
}
