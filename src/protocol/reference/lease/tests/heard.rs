//! `guard: heard`: nobody asks the server of which generation it is, and the rest of R5 holds.

use super::*;

impl Store {
    fn unasked() -> Self {
        let mut store = Self { generation: "", ..Self::empty() };
        store.informed(99, 1);
        store.pass(LEASE);
        store
    }

    /// The replica that has heard no more than this takes over.
    fn fail_over(&mut self, behind: &LeaseCell) {
        self.cell = behind.clone();
        self.generation = if self.generation.is_empty() { "" } else { "two" };
    }
}

#[test]
fn a_new_record_is_shut_and_a_server_that_kept_its_data_is_not() {
    let mut store = Store { generation: "", ..Store::empty() };
    assert_eq!(guard(&store.informed(1, 1)), Some(GuardCause::Empty));
    store.pass(LEASE);
    let token = store.grant(1, 2);
    assert_eq!(store.release(1, 2, token).0, ReleaseReply::Released);
    assert!(is_granted(&store.informed(2, 1)), "a restart makes no other server of it");
    store.cell.forget();
    assert_eq!(guard(&store.informed(3, 1)), Some(GuardCause::Empty));
}

/// The price of not asking: a replica that has heard of a release, and not of the grant after it.
#[test]
fn a_failover_that_forgets_a_grant_lets_in_who_has_not_heard_of_it_and_nobody_else() {
    for (mut store, is_shut) in [(Store::new(), true), (Store::unasked(), false)] {
        let token = store.grant(1, 2);
        store.release(1, 2, token);
        let behind = store.cell.clone();
        let lost = store.grant(2, 1);
        store.fail_over(&behind);
        let heard = store.campaign(&CampaignRequest { floor: lost, ..ask(3, 1) }).0;
        let cause = if is_shut { GuardCause::Generation } else { GuardCause::Regression };
        assert_eq!(guard(&heard), Some(cause), "it has heard of the grant");
        store.fail_over(&behind);
        assert_eq!(is_granted(&store.campaign(&ask(4, 1)).0), !is_shut, "it has not");
    }
}

#[test]
fn an_incumbent_puts_its_lease_back_over_that_of_an_earlier_term() {
    let mut store = Store::unasked();
    store.grant(1, 2);
    let behind = store.cell.clone();
    store.pass(LEASE);
    let token = store.grant(2, 1);
    store.fail_over(&behind);
    assert!(matches!(store.renew(2, 1, token).0, RenewReply::Renewed { reasserted: true, .. }));
}

#[test]
fn what_a_server_was_marked_with_stays_for_those_who_ask() {
    let mut store = Store::new();
    let token = store.grant(1, 2);
    store.generation = "";
    assert!(matches!(store.renew(1, 2, token).0, RenewReply::Renewed { .. }));
    store.release(1, 2, token);
    store.generation = "one";
    let second = store.grant(2, 1);
    store.release(2, 1, second);
    store.generation = "two";
    assert_eq!(guard(&store.informed(3, 1)), Some(GuardCause::Generation), "whoever asks notices what it should");
    // And of a record that was made by who does not ask, nothing is known.
    let mut unasked = Store::unasked();
    unasked.generation = "one";
    assert_eq!(guard(&unasked.informed(3, 1)), Some(GuardCause::Generation));
}
