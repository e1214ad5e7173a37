//! What the promises say of answers, as arithmetic on the times at which apps read them.
//!
//! An answer is a claim from when the app had read it until its validity ends, counted from when the request was
//! sent: the sidecar counts from a moment in between, so this much is promised for sure. An answer that took longer
//! than it is valid claims nothing.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// One start of one replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Who {
    pub replica: usize,
    pub start: usize,
}

/// A `leader: true` that an app could act upon during `from..until`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    pub who: Who,
    pub token: u64,
    pub from: Instant,
    pub until: Instant,
}

impl Claim {
    /// The claim of an answer; none when it came too late to be acted upon.
    pub fn new(who: Who, token: u64, asked: Instant, read: Instant, valid_for: Duration) -> Option<Self> {
        let until = asked + valid_for;
        (read < until).then_some(Self { who, token, from: read, until })
    }
}

/// Every breach of P1 and P2, in words, with times since `origin`. `claims` in order of their start.
pub fn breaches(claims: &[Claim], origin: Instant) -> Vec<String> {
    let mut found = Vec::new();
    let mut longest: BTreeMap<Who, Claim> = BTreeMap::new();
    let mut newest: Option<Claim> = None;
    let show = |claim: &Claim| {
        let ms = |at: Instant| at.saturating_duration_since(origin).as_millis();
        let (Who { replica, start }, token) = (claim.who, claim.token);
        format!("replica {replica} (start {start}), token {token}: {}..{} ms", ms(claim.from), ms(claim.until))
    };
    for claim in claims {
        for other in longest.values().filter(|other| other.who != claim.who && other.until > claim.from) {
            found.push(format!("P1, two leaders: {} and {}", show(other), show(claim)));
        }
        if let Some(newest) = newest {
            if claim.token < newest.token {
                found.push(format!("P2, a smaller token: {} after {}", show(claim), show(&newest)));
            } else if claim.token == newest.token && claim.who != newest.who {
                found.push(format!("P2, one token twice: {} and {}", show(&newest), show(claim)));
            }
        }
        newest = Some(newest.filter(|newest| newest.token >= claim.token).unwrap_or(*claim));
        let entry = longest.entry(claim.who).or_insert(*claim);
        if claim.until > entry.until {
            *entry = *claim;
        }
    }
    found
}

/// How long no app had a claim between the first claim and the last one's end. `claims` in order of their start.
pub fn leaderless(claims: &[Claim]) -> Duration {
    let mut sum = Duration::ZERO;
    let mut covered = None;
    for claim in claims {
        let end = covered.unwrap_or(claim.from);
        sum += claim.from.saturating_duration_since(end);
        covered = Some(end.max(claim.until));
    }
    sum
}

/// One term as apps saw it.
#[derive(Clone, Copy, Debug)]
pub struct Term {
    pub who: Who,
    pub token: u64,
    /// Its first claim's start.
    pub from: Instant,
    /// Its last claim's end.
    pub until: Instant,
}

/// The terms in the order in which they began.
pub fn terms(claims: &[Claim]) -> Vec<Term> {
    let mut terms: Vec<Term> = Vec::new();
    for claim in claims {
        match terms.iter_mut().rev().find(|term| term.token == claim.token && term.who == claim.who) {
            Some(term) => term.until = term.until.max(claim.until),
            None => terms.push(Term { who: claim.who, token: claim.token, from: claim.from, until: claim.until }),
        }
    }
    terms
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Replica, token, start and end in milliseconds.
    fn claims(origin: Instant, rows: &[(usize, u64, u64, u64)]) -> Vec<Claim> {
        let at = |ms| origin + Duration::from_millis(ms);
        let claim = |&(replica, token, from, until): &(usize, u64, u64, u64)| {
            let who = Who { replica, start: 1 };
            Claim { who, token, from: at(from), until: at(until) }
        };
        rows.iter().map(claim).collect()
    }

    fn found(rows: &[(usize, u64, u64, u64)]) -> Vec<String> {
        let origin = Instant::now();
        breaches(&claims(origin, rows), origin).iter().map(|text| text[..2].to_owned()).collect()
    }

    #[test]
    fn the_checker_sees_two_leaders_and_tokens_that_do_not_rise() {
        assert_eq!(found(&[(0, 1, 0, 100), (0, 1, 50, 150), (1, 2, 150, 250)]), Vec::<String>::new());
        assert_eq!(found(&[(0, 1, 0, 100), (1, 2, 99, 200)]), ["P1"]);
        assert_eq!(found(&[(0, 1, 0, 100), (0, 1, 5, 50), (1, 2, 60, 200)]), ["P1"], "an earlier answer, valid longer");
        assert_eq!(found(&[(0, 5, 0, 100), (1, 4, 200, 300)]), ["P2"]);
        assert_eq!(found(&[(0, 5, 0, 100), (1, 5, 200, 300)]), ["P2"]);
        assert_eq!(found(&[(0, 5, 0, 9), (1, 6, 10, 19), (0, 5, 20, 29)]), ["P2"], "an old term that comes back");
    }

    #[test]
    fn time_without_a_claim_is_counted_once() {
        let origin = Instant::now();
        let rows =
            claims(origin, &[(0, 1, 0, 100), (0, 1, 50, 150), (0, 1, 60, 120), (1, 2, 170, 250), (1, 2, 260, 300)]);
        assert_eq!(leaderless(&rows), Duration::from_millis(30));
        let terms: Vec<_> = terms(&rows).iter().map(|term| (term.token, term.until - origin)).collect();
        assert_eq!(terms, [(1, Duration::from_millis(150)), (2, Duration::from_millis(300))]);
    }

    #[test]
    fn an_answer_that_took_longer_than_it_is_valid_claims_nothing() {
        let (asked, ms) = (Instant::now(), Duration::from_millis);
        let who = Who { replica: 0, start: 1 };
        assert_eq!(Claim::new(who, 1, asked, asked + ms(50), ms(50)), None);
        let claim = Claim::new(who, 1, asked, asked + ms(20), ms(50)).map(|claim| (claim.from, claim.until));
        assert_eq!(claim, Some((asked + ms(20), asked + ms(50))));
    }
}
