//! The store's clock is stepped back.

use super::*;

#[test]
fn r8_a_ttl_that_a_clock_stepped_back_has_stretched_is_cut_to_the_lease() {
    let mut store = Store::new();
    store.grant(1, 1);
    store.now = StoreTime(store.now.0 - 3_600_000_000);
    let CampaignReply::Held { remaining, .. } = store.campaign(&ask(2, 1)).0 else { panic!("not held") };
    assert_eq!(remaining, LEASE);
    store.pass(LEASE);
    assert!(!store.cell.is_held(store.now));
}

#[test]
fn r5_vanished_an_end_from_before_a_step_back_shuts_the_role_once() {
    let mut store = Store::new();
    store.grant(1, 1);
    store.now = StoreTime(store.now.0 - 3_600_000_000);
    store.cell.evict_lease();
    let again = |store: &mut Store, attempt, unchanged_for| {
        let knowledge = Some(KnownRecord { unchanged_for, ..store.knowledge().unwrap() });
        store.campaign(&CampaignRequest { knowledge, ..ask(2, attempt) }).0
    };
    assert_eq!(guard(&again(&mut store, 1, secs(1))), Some(GuardCause::Vanished));
    store.now = store.now.plus(LEASE + secs(1));
    assert!(is_granted(&again(&mut store, 2, LEASE)), "an hour before the end that the record remembered");
}

#[test]
fn r5_a_guard_that_a_step_of_the_clock_has_cut_begins_with_the_first_question() {
    let mut store = Store::new();
    store.grant(1, 1);
    store.restart(false);
    assert!(matches!(store.campaign(&ask(2, 1)).0, CampaignReply::Held { .. }));
    store.now = StoreTime(store.now.0 - 26_000_000);
    assert!(matches!(store.campaign(&ask(2, 2)).0, CampaignReply::Held { .. }));
    let after = store.pass(LEASE).campaign(&ask(2, 3)).0;
    assert_eq!(guard(&after), None, "{after:?}");
}
