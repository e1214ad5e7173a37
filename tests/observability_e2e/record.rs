//! What really happened: the script's own notes, and the terms as the apps saw them, on Prometheus's clock.

use std::collections::BTreeSet;
use std::time::Instant;

use testkit::sidecars::apps::Apps;

use crate::prometheus::now_s;

/// When Redis was gone, in seconds since the epoch.
#[derive(Clone, Copy, Debug)]
pub struct Dark {
    /// It was killed.
    pub from_s: f64,
    /// Every sidecar had told so.
    pub noticed_s: f64,
    /// It was started again, without its data.
    pub to_s: f64,
    /// Somebody led again.
    pub over_s: f64,
}

/// What the script did.
#[derive(Debug, Default)]
pub struct Notes {
    /// Leaders that were asked to resign.
    pub resigned: usize,
    /// Leaders that lost their lease and lived on.
    pub lost: usize,
    /// Times that Redis forgot everything while its leader lived.
    pub flushed: usize,
    /// Times that Redis was down.
    pub dark: Vec<Dark>,
    /// Processes that were killed.
    pub killed: usize,
}

/// A term as apps saw it.
#[derive(Clone, Debug)]
pub struct Held {
    /// Its leader's name.
    pub pod: String,
    pub token: u64,
    pub from_s: f64,
    pub until_s: f64,
}

/// Every term so far, in order.
pub fn terms(apps: &Apps) -> Vec<Held> {
    let (here, here_s) = (Instant::now(), now_s());
    let at_s = |at: Instant| here_s - here.saturating_duration_since(at).as_secs_f64();
    let held = |term: testkit::sidecars::claims::Term| Held {
        pod: format!("web-{}", term.who.replica),
        token: term.token,
        from_s: at_s(term.from),
        until_s: at_s(term.until.min(here)),
    };
    apps.terms().into_iter().map(held).collect()
}

/// Who led at any moment of a span; and whether it was one leader, all the time.
pub fn leaders(terms: &[Held], from_s: f64, to_s: f64) -> (BTreeSet<&str>, bool) {
    let touched: Vec<&Held> = terms.iter().filter(|held| held.from_s < to_s && held.until_s > from_s).collect();
    let steady = touched.len() == 1 && touched[0].from_s <= from_s && touched[0].until_s >= to_s;
    (touched.into_iter().map(|held| held.pod.as_str()).collect(), steady)
}

#[test]
fn a_span_with_a_handover_or_a_gap_is_not_steady() {
    let held = |pod: &str, from_s, until_s| Held { pod: pod.to_owned(), token: 1, from_s, until_s };
    let terms = [held("a", 0.0, 10.0), held("b", 10.1, 20.0)];
    assert_eq!(leaders(&terms, 2.0, 5.0), (BTreeSet::from(["a"]), true));
    assert_eq!(leaders(&terms, 9.0, 11.0), (BTreeSet::from(["a", "b"]), false));
    assert_eq!(leaders(&terms, 19.0, 21.0), (BTreeSet::from(["b"]), false));
    assert_eq!(leaders(&terms, 30.0, 31.0), (BTreeSet::new(), false));
}
