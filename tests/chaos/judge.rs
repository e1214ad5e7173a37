//! What was claimed, judged: two leaders at once, tokens that do not rise, time without a leader.
//!
//! A claim is from when an app had read an answer until its validity ends, counted from when the app sent its request
//! (`claims.rs`). The sidecar decided, and began to count, between the two. So what is judged here is never more than
//! what was promised, however long an app, or this whole machine, stood still on the way: no false accusation. It is
//! less by the time of one request: an app that stands still may hide what happened meanwhile, and nothing else
//! (`Apps::blind_max` tells how long that was).

use std::time::{Duration, Instant};

use testkit::sidecars::claims::{Claim, Who};

/// Time in which apps may act for one term without a break.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    pub who: Who,
    pub token: u64,
    pub from: Instant,
    pub until: Instant,
}

/// Time in which two replicas led.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    pub spans: [Span; 2],
    pub from: Instant,
    pub until: Instant,
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct Verdict {
    pub windows: Vec<Window>,
    /// In words: a token that is smaller than an earlier one, or another's.
    pub regressions: Vec<(Instant, String)>,
    pub terms: usize,
    pub leaderless_max: Duration,
    /// Of the time from the first claim to the end.
    pub led_share: f64,
}

/// Judges claims, in order of their start; `end` is when the apps stopped asking.
pub fn judge(claims: &[Claim], end: Instant) -> Verdict {
    let spans = spans(claims);
    let (leaderless, leaderless_max) = leaderless(claims, end);
    let watched = claims.first().map_or(Duration::ZERO, |first| end.saturating_duration_since(first.from));
    let led = watched.saturating_sub(leaderless);
    let mut terms: Vec<(Who, u64)> = spans.iter().map(|span| (span.who, span.token)).collect();
    terms.sort_unstable();
    terms.dedup();
    Verdict {
        windows: windows(&spans),
        regressions: regressions(&spans),
        terms: terms.len(),
        leaderless_max,
        led_share: if watched.is_zero() { 0.0 } else { led.as_secs_f64() / watched.as_secs_f64() },
    }
}

fn spans(claims: &[Claim]) -> Vec<Span> {
    let mut spans: Vec<Span> = Vec::new();
    for &Claim { who, token, from, until } in claims {
        let same = |span: &&mut Span| span.who == who && span.token == token;
        match spans.iter_mut().rev().find(same) {
            Some(span) if from <= span.until => span.until = span.until.max(until),
            _ => spans.push(Span { who, token, from, until }),
        }
    }
    spans
}

fn windows(spans: &[Span]) -> Vec<Window> {
    let mut windows = Vec::new();
    for (at, first) in spans.iter().enumerate() {
        for second in &spans[at + 1..] {
            let (from, until) = (first.from.max(second.from), first.until.min(second.until));
            if first.who != second.who && from < until {
                windows.push(Window { spans: [*first, *second], from, until });
            }
        }
    }
    windows
}

/// Only beginnings are judged. A term that goes on beside a newer one is two leaders, and no more, also when no answer
/// was read for a moment; one that comes back after a newer one began without it is a regression.
fn regressions(spans: &[Span]) -> Vec<(Instant, String)> {
    let mut found = Vec::new();
    for (at, span) in spans.iter().enumerate() {
        let before = &spans[..at];
        let same = |other: &&Span| other.who == span.who && other.token == span.token;
        let paused_at = before.iter().rev().find(same).map(|last| last.until);
        let newer = |other: &&Span| {
            let begun_since = paused_at.is_none_or(|paused_at| other.from >= paused_at);
            other.token >= span.token && !same(other) && begun_since
        };
        if let Some(newer) = before.iter().find(newer) {
            let (old, new) = (newer.token, span.token);
            let (by, after) = (span.who.replica, newer.who.replica);
            found.push((span.from, format!("replica {by} begins with token {new} after {old} of replica {after}")));
        }
    }
    found
}

/// The sum and the longest.
fn leaderless(claims: &[Claim], end: Instant) -> (Duration, Duration) {
    let (mut sum, mut longest) = (Duration::ZERO, Duration::ZERO);
    let mut covered: Option<Instant> = None;
    let mut gap_until = |covered: Option<Instant>, next: Instant| {
        let gap = next.saturating_duration_since(covered.unwrap_or(next));
        sum += gap;
        longest = longest.max(gap);
    };
    for claim in claims {
        gap_until(covered, claim.from);
        covered = Some(covered.map_or(claim.until, |covered| covered.max(claim.until)));
    }
    gap_until(covered, end);
    (sum, longest)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Replica, token, start and end in milliseconds.
    fn judged(rows: &[(usize, u64, u64, u64)], end: u64) -> Verdict {
        let origin = Instant::now();
        let at = |ms| origin + Duration::from_millis(ms);
        let claim = |&(replica, token, from, until): &(usize, u64, u64, u64)| Claim {
            who: Who { replica, start: 1 },
            token,
            from: at(from),
            until: at(until),
        };
        judge(&rows.iter().map(claim).collect::<Vec<_>>(), at(end))
    }

    fn counts(rows: &[(usize, u64, u64, u64)]) -> (usize, usize) {
        let verdict = judged(rows, 1_000);
        (verdict.windows.len(), verdict.regressions.len())
    }

    #[test]
    fn two_leaders_at_once_are_one_window_however_many_answers_told_of_them() {
        assert_eq!(counts(&[(0, 1, 0, 100), (0, 1, 50, 150), (1, 2, 150, 250)]), (0, 0));
        assert_eq!(counts(&[(0, 1, 0, 100), (1, 2, 90, 150), (0, 1, 95, 160), (1, 2, 99, 200)]), (1, 0));
        assert_eq!(
            counts(&[(0, 1, 0, 100), (0, 1, 5, 50), (1, 2, 60, 200)]),
            (1, 0),
            "an earlier answer, valid longer"
        );
        assert_eq!(counts(&[(0, 1, 0, 10), (1, 2, 5, 15), (0, 1, 20, 30), (1, 2, 25, 35)]), (2, 0));
    }

    #[test]
    fn tokens_that_do_not_rise_are_regressions() {
        assert_eq!(counts(&[(0, 5, 0, 100), (1, 4, 200, 300), (1, 4, 210, 310)]), (0, 1));
        assert_eq!(counts(&[(0, 5, 0, 100), (1, 5, 200, 300)]), (0, 1));
        assert_eq!(counts(&[(0, 5, 0, 100), (0, 4, 200, 300)]), (0, 1));
        assert_eq!(counts(&[(0, 5, 0, 9), (1, 6, 10, 19), (0, 5, 20, 29)]), (0, 1), "an old term that comes back");
        assert_eq!(counts(&[(0, 5, 0, 99), (1, 6, 50, 80), (0, 5, 70, 99)]), (1, 0), "an old term that goes on");
        assert_eq!(counts(&[(0, 5, 0, 60), (1, 6, 50, 80), (0, 5, 70, 99)]), (2, 0), "and after a gap in the answers");
    }

    #[test]
    fn time_without_a_claim_is_counted_to_the_end() {
        let verdict = judged(&[(0, 1, 0, 100), (0, 1, 50, 150), (1, 2, 170, 250)], 400);
        assert_eq!(verdict.leaderless_max, Duration::from_millis(150));
        assert!((verdict.led_share - 230.0 / 400.0).abs() < 1e-9, "{}", verdict.led_share);
        assert_eq!(verdict.terms, 2);
    }
}
