//! What the record counts, whom it knows again, and what a rule that is switched off leaves.

use super::*;

impl Store {
    fn under(rules: Rules) -> Self {
        let mut store = Self { cell: LeaseCell::new(rules), ..Self::empty() };
        store.informed(99, 1);
        store.pass(LEASE);
        store
    }

    fn count(&self) -> u64 {
        self.knowledge().unwrap().version.count
    }
}

fn looks_again(reply: &CampaignReply) -> bool {
    matches!(reply, CampaignReply::LookAgain { .. })
}

#[test]
fn only_a_renewal_that_knows_the_last_answer_need_not_ask_of_which_generation_the_server_is() {
    let mut store = Store::new();
    let mine = store.grant(1, 1);
    let RenewReply::Renewed { count, .. } = store.renew(1, 1, mine).0 else { panic!() };
    let next = RenewRequest { count, ..renewal(1, 1, mine) };
    assert_eq!(store.cell.left_by(store.now, &next), Some("one"));
    let others = [
        RenewRequest { count: count - 1, ..next.clone() },
        RenewRequest { candidate: candidate(1, 2), ..next.clone() },
        RenewRequest { token: token(mine.get() + 1), ..next.clone() },
        RenewRequest { lease_duration: secs(9), ..next.clone() },
    ];
    for other in others {
        assert_eq!(store.cell.left_by(store.now, &other), None, "{other:?}");
    }
    assert_eq!(store.cell.left_by(store.now.plus(LEASE), &next), None, "the lease is over");
    store.restart(false).campaign(&ask(2, 1));
    assert_eq!(store.cell.left_by(store.now, &next), None, "a watch has begun");
}

#[test]
fn each_grant_and_each_release_counts_from_the_stores_clock_on() {
    let mut store = Store::empty();
    assert!(!store.cell.is_known());
    let CampaignReply::Guarded { version, .. } = store.campaign(&ask(1, 1)).0 else { panic!() };
    assert!(version.count >= store.now.0, "what was known of a lost record never fits it");
    assert!(store.cell.is_known() && !store.cell.is_held(store.now), "there is a record, and no lease");
    store.pass(LEASE);
    let before = store.count();
    let CampaignReply::Granted { count, token } = store.informed(1, 2) else { panic!() };
    assert_eq!((count, store.count()), (before + 1, before + 1));
    let news = store.release(1, 2, token).1.unwrap();
    assert_eq!((news.count, store.count()), (before + 2, before + 2));
    store.cell.forget();
    assert!(!store.cell.is_known());
}

#[test]
fn a_watch_begins_with_a_count_that_no_renewals_reach_and_no_other_server_comes_to() {
    let counted = |generation| {
        let mut store = Store::new();
        store.grant(1, 1);
        let before = store.count();
        store.now = StoreTime(store.now.0 - 3_600_000_000);
        store.generation = generation;
        store.campaign(&ask(2, 1));
        store.count() - before
    };
    let counts = ["0001", "00ff"].map(counted);
    assert!(counts[0] != counts[1], "{counts:?}");
    assert!(counts.iter().all(|by| (4_096..4_096 + 65_536).contains(by)), "{counts:?}");
}

#[test]
fn r1_a_repeated_attempt_whose_lease_outlives_the_guard_looks_again_like_all_others() {
    let mut store = Store::new();
    let mine = store.grant(1, 1);
    store.restart(false).campaign(&ask(2, 1));
    store.pass(secs(5)).renew(1, 1, mine);
    let reply = store.pass(secs(5)).campaign(&ask(1, 1)).0;
    assert!(looks_again(&reply), "{reply:?}");
}

#[test]
fn r1_without_fresh_repeats_the_same_attempt_gets_its_term_again_after_its_lease() {
    let mut store = Store::under(Rules { fresh_repeat: false, ..Rules::REDIS });
    let mine = store.grant(1, 1);
    let CampaignReply::Granted { token, .. } = store.pass(LEASE).campaign(&ask(1, 1)).0 else { panic!() };
    assert_eq!(token, mine);
}

#[test]
fn r5_regression_what_is_asked_beside_a_lease_is_noted_under_a_guard_and_only_there() {
    for is_guarded in [true, false] {
        let mut store = Store::new();
        let mine = store.grant(1, 1);
        let floor = token(mine.get() + 100_000_000);
        if is_guarded {
            store.restart(false).campaign(&ask(2, 1));
        }
        let asks = |attempt| CampaignRequest { floor, ..ask(2, attempt) };
        assert!(matches!(store.campaign(&asks(2)).0, CampaignReply::Held { .. }));
        store.release(1, 1, mine);
        if is_guarded {
            let CampaignReply::Granted { token, .. } = store.pass(LEASE).informed(3, 1) else { panic!() };
            assert!(token > floor);
        } else {
            assert_eq!(guard(&store.campaign(&asks(3)).0), Some(GuardCause::Regression));
        }
    }
}

#[test]
fn r5_vanished_a_ttl_that_ends_a_little_early_is_no_loss() {
    for (early_ms, cause) in [(3, Some(GuardCause::Vanished)), (2, None), (1, None)] {
        let mut store = Store::new();
        store.grant(1, 1);
        store.pass(LEASE - Duration::from_millis(early_ms)).cell.evict_lease();
        let reply = store.campaign(&ask(2, 1)).0;
        assert_eq!(guard(&reply), cause, "{early_ms}: {reply:?}");
        assert_eq!(looks_again(&reply), cause.is_none(), "{early_ms}: {reply:?}");
    }
}

#[test]
fn r5_vanished_without_watches_what_is_known_of_the_last_term_must_be_recent() {
    let rules = Rules { still: false, ..Rules::REDIS };
    let mut held = Store::under(rules);
    let earlier = held.knowledge();
    held.grant(1, 1);
    let known = held.knowledge().unwrap();
    held.pass(LEASE);
    let aged = |ms| Some(KnownRecord { age: Duration::from_millis(ms), ..known });
    for (knowledge, looks) in [(None, true), (earlier, true), (aged(12_499), false), (aged(12_500), true)] {
        let mut store = Store { cell: held.cell.clone(), ..held };
        let reply = store.campaign(&CampaignRequest { knowledge, ..ask(2, 1) }).0;
        assert_eq!((looks_again(&reply), is_granted(&reply)), (looks, !looks), "{knowledge:?}: {reply:?}");
    }
    let mut store = Store::under(rules);
    let mine = store.grant(1, 1);
    store.release(1, 1, mine);
    assert!(is_granted(&store.campaign(&ask(2, 1)).0), "it was given back");
}

#[test]
fn r5_generation_is_not_noticed_by_a_campaign_without_the_guard() {
    let mut store = Store::new();
    store.grant(1, 1);
    store.restart(false).campaign(&CampaignRequest { guard: false, ..ask(2, 1) });
    store.pass(LEASE);
    let CampaignReply::Guarded { cause, remaining, .. } = store.campaign(&ask(2, 2)).0 else { panic!() };
    assert_eq!((cause, remaining), (GuardCause::Generation, LEASE), "from the first question that asks");
}

#[test]
fn a_renewal_is_of_a_term_by_its_candidate_and_its_token() {
    let mut store = Store::new();
    let mine = store.grant(1, 1);
    for (attempt, token) in [(1, token(mine.get() + 1)), (2, mine)] {
        assert!(matches!(store.renew(1, attempt, token).0, RenewReply::Lost { .. }), "{attempt} {token}");
    }
}
