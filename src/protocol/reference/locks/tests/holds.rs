//! What an owner has of a lock: holds, each with an id and a promise of its own.

use super::super::super::super::locks::HOLDS_MAX;
use super::*;

#[test]
fn a_request_that_is_repeated_finds_its_grant_and_counts_once() {
    let mut store = Store::new();
    let grant = store.granted(&ask("a", 1, 1));
    assert_eq!(store.granted(&ask("a", 1, 1)), grant);
    let two = LockGrant { holds: 2, ..grant };
    assert_eq!(store.granted(&again("a", 1, 2)), two);
    assert_eq!(store.granted(&ask("a", 1, 1)), two, "whatever came between");
    assert_eq!(store.granted(&again("a", 1, 2)), two);
}

#[test]
fn an_owner_takes_its_lock_again_by_naming_a_hold_and_the_last_to_go_frees_it() {
    let mut store = Store::new();
    let grant = store.granted(&ask("a", 1, 1));
    assert_eq!(store.granted(&again("a", 1, 2)), LockGrant { holds: 2, ..grant }, "under the same token");
    assert!(is_held(&store.acquire(&AcquireRequest { beside: None, ..again("a", 1, 3) })), "it names none");
    assert!(
        is_held(&store.acquire(&AcquireRequest { session: SessionId::from_u128(2), ..again("a", 1, 3) })),
        "by another"
    );
    assert_eq!(store.release(&["a"], 1), (RELEASED, Vec::new()));
    assert!(is_held(&store.acquire(&again("a", 1, 3))), "what it names is gone");
    assert_eq!(store.granted(&again("a", 2, 3)), LockGrant { holds: 2, ..grant });
    for id in [2, 3] {
        assert!(is_held(&store.acquire(&ask("a", 2, 4))));
        assert_eq!(store.release(&["a"], id).0, RELEASED);
    }
    assert!(store.granted(&ask("a", 2, 5)).token > grant.token);
}

/// The trace that frees a lock under a holder where a release only counts: each is repeated after the other.
#[test]
fn releases_and_requests_that_are_repeated_in_any_order_change_nothing() {
    let mut store = Store::new();
    store.granted(&ask("a", 1, 1));
    store.granted(&again("a", 1, 2));
    store.granted(&again("a", 1, 3));
    for id in [1, 2, 1, 1, 2] {
        assert_eq!(store.release(&["a"], id).0, RELEASED);
    }
    assert!(is_held(&store.acquire(&ask("a", 2, 4))), "the third hold stands");
    assert!(is_held(&store.acquire(&ask("a", 1, 1))), "what was given back does not come again");
    assert!(is_held(&store.acquire(&again("a", 3, 2))));
    assert_eq!(store.look("a").holders[0].holds, 1);
    assert_eq!(store.look("a").waiting, 0, "nor does it wait");
    store.cancel("a", 1, 2);
    assert_eq!(store.release(&["a"], 3).0, RELEASED);
    let next = store.granted(&ask("a", 2, 4));
    assert_eq!(store.release(&["a"], 3), (RELEASED, Vec::new()), "answered as before, though another has it");
    assert_eq!(store.look("a").holders[0].token, next.token);
}

#[test]
fn an_owner_has_no_more_holds_than_may_be() {
    let mut store = Store::new();
    store.granted(&ask("a", 1, 1));
    for id in 2..=HOLDS_MAX as u128 {
        store.granted(&again("a", 1, id));
    }
    assert!(is_held(&store.acquire(&again("a", 1, 1_000))));
}

#[test]
fn a_permit_is_for_one_request_whoever_asks() {
    let mut store = Store::new();
    let two = |id, beside| AcquireRequest { permits: 2, beside, ..again("a", 1, id) };
    let first = store.granted(&two(1, None));
    let second = store.granted(&two(2, Some(LockId::from_u128(1))));
    assert!(second.token > first.token && second.holds == 1);
    assert!(is_held(&store.acquire(&two(3, Some(LockId::from_u128(1))))));
}

#[test]
fn an_extension_lasts_from_when_it_comes_for_as_long_as_it_says() {
    let mut store = Store::new();
    let token = store.granted(&ask("a", 1, 1)).token;
    store.pass(Duration::from_secs(20));
    let extended = |lease| ExtendReply::Extended { token, holds: 1, lease, restored: false };
    assert_eq!(store.extend(&extension("a", 1)), extended(LEASE));
    store.pass(Duration::from_secs(29));
    assert!(is_held(&store.acquire(&ask("a", 2, 2))));
    let longer = LEASE * 2;
    assert_eq!(store.extend(&ExtendRequest { lease: Some(longer), ..extension("a", 1) }), extended(longer));
    store.pass(longer);
    store.granted(&ask("a", 2, 3));
}

#[test]
fn an_extension_shortens_neither_its_own_promise_nor_another_holds() {
    let mut store = Store::new();
    let token = store.granted(&ask("a", 1, 1)).token;
    store.granted(&again("a", 1, 2));
    let short = Duration::from_secs(1);
    let shorter = |id| ExtendRequest { lease: Some(short), ..extension("a", id) };
    let extended = |lease| ExtendReply::Extended { token, holds: 2, lease, restored: false };
    assert_eq!(store.extend(&shorter(2)), extended(short));
    assert_eq!(store.extend(&extension("a", 2)), extended(LEASE), "as long as it was granted for");
    assert_eq!(store.extend(&shorter(1)), extended(short));
    store.pass(LEASE.saturating_sub(short));
    assert!(is_held(&store.acquire(&ask("a", 2, 3))));
    store.pass(short);
    store.granted(&ask("a", 2, 3));
}

#[test]
fn under_a_guard_an_owner_does_not_take_again_what_it_may_have_given_back() {
    let mut store = Store::new();
    let first = store.granted(&ask("a", 1, 1));
    let before_the_release = store.space.clone();
    store.release(&["a"], 1);
    store.granted(&ask("a", 2, 2));
    // A replica that lags behind takes over: it knows neither of the release nor of the new holder.
    (store.space, store.run_id) = (before_the_release, "two");
    let again = again("a", 1, 3);
    assert!(is_held(&store.acquire(&again)));
    assert!(is_held(&store.acquire(&ask("a", 1, 1))), "nor by the very request, which may be late");
    store.pass(GUARD);
    assert!(store.granted(&again).token > first.token);
}

#[test]
fn a_cancelled_hold_of_a_lock_that_the_owner_has_leaves_the_lock() {
    let mut store = Store::new();
    store.granted(&ask("a", 1, 1));
    store.granted(&again("a", 1, 2));
    for _ in 0..2 {
        store.cancel("a", 1, 2);
        assert_eq!(store.look("a").holders[0].holds, 1);
    }
}
