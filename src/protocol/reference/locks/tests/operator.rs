//! What an operator ends, and what stays.

use super::super::super::super::locks::{TURN_MAX, TurnSeat};
use super::*;

fn unlock(store: &mut Store, name: &str, token: Token) -> (UnlockReply, Vec<Unlocked>, Vec<Wake>) {
    let request = UnlockRequest { name: lock(name), token };
    store.space.unlock(store.server(), &request)
}

/// Who had it, the ids of the holds that it ended, and who is woken; when it is free.
fn unlocked(store: &mut Store, name: &str, token: Token) -> (Option<String>, Vec<LockId>, usize) {
    let (UnlockReply::Unlocked { holder }, ended, wakes) = unlock(store, name, token) else { panic!("it differs") };
    (holder.map(|holder| holder.owner.to_string()), ended.into_iter().map(|hold| hold.id).collect(), wakes.len())
}

/// Who holds it instead.
fn differs(store: &mut Store, name: &str, token: Token) -> Vec<Token> {
    let (UnlockReply::Differs { holders }, ended, wakes) = unlock(store, name, token) else { panic!("it is unlocked") };
    assert!(ended.is_empty() && wakes.is_empty());
    holders.into_iter().map(|holder| holder.token).collect()
}

fn token(number: u64) -> Token {
    Token::new(number).unwrap()
}

fn is_lost(reply: ExtendReply) -> bool {
    reply == ExtendReply::Lost
}

#[test]
fn an_unlock_ends_the_lock_that_was_seen_and_the_next_token_is_greater() {
    let mut store = Store::new();
    let first = store.granted(&ask("a", 1, 1)).token;
    store.acquire(&waiting("a", 2, 2, Queueing::Fair));
    assert_eq!(unlocked(&mut store, "a", first), (Some("owner-1".to_owned()), vec![LockId::from_u128(1)], 1));
    let restored = ExtendRequest { restore: lost(first), ..extension("a", 1) };
    assert!(is_lost(store.extend(&restored)), "nothing puts it back");
    assert!(is_held(&store.acquire(&ask("a", 1, 1))), "nor does a late request");
    let next = store.granted(&waiting("a", 2, 2, Queueing::Fair)).token;
    assert!(next > first);
    assert_eq!(differs(&mut store, "a", first), [next], "the operator saw another's");
    assert_eq!(store.look("a").holders[0].token, next);
    assert_eq!(store.release(&["a"], 1).0, RELEASED, "to its holder it is as if it had been given back");
}

#[test]
fn an_unlock_that_is_repeated_is_answered_as_before() {
    let mut store = Store::new();
    assert_eq!(differs(&mut store, "a", token(7)), [], "nobody has ever had it");
    let first = store.granted(&ask("a", 1, 1)).token;
    unlocked(&mut store, "a", first);
    assert_eq!(unlocked(&mut store, "a", first), (None, Vec::new(), 0));
    assert_eq!(differs(&mut store, "a", token(first.get() + 1)), [], "a token that nobody has had");
    let second = store.granted(&ask("a", 1, 2)).token;
    store.pass(LEASE);
    assert_eq!(differs(&mut store, "a", second), [], "its lease has ended, and it may be put back");
}

#[test]
fn an_unlock_ends_all_holds_of_one_owner_and_one_permit_of_a_semaphore() {
    let mut store = Store::new();
    let first = store.granted(&ask("a", 1, 1)).token;
    store.granted(&again("a", 1, 2));
    assert_eq!(unlocked(&mut store, "a", first).1, [1, 2].map(LockId::from_u128));
    assert!(is_lost(store.extend(&extension("a", 2))));
    let two = |id| AcquireRequest { permits: 2, ..ask("s", 1, id) };
    let (one, other) = (store.granted(&two(3)).token, store.granted(&two(4)).token);
    assert_eq!(unlocked(&mut store, "s", one).1, [LockId::from_u128(3)]);
    assert_eq!(store.look("s").holders.iter().map(|holder| holder.token).collect::<Vec<_>>(), [other]);
    assert!(!is_lost(store.extend(&extension("s", 4))));
}

#[test]
fn an_unlock_ends_what_its_owner_had_besides_and_the_store_has_forgotten() {
    let mut store = Store::new();
    let first = store.granted(&ask("a", 1, 1)).token;
    store.granted(&again("a", 1, 2));
    store.space.forget();
    let restored = |id| ExtendRequest { restore: lost(first), ..extension("a", id) };
    assert!(!is_lost(store.extend(&restored(1))));
    unlocked(&mut store, "a", first);
    assert!(is_lost(store.extend(&restored(2))));
    assert!(store.granted(&ask("a", 2, 3)).token > first);
}

/// The answer was lost, and the request goes on waiting until it has its turn.
#[test]
fn a_request_whose_lock_was_unlocked_before_it_was_told_of_it_may_have_it_again_and_put_it_back() {
    let mut store = Store::new();
    let first = store.granted(&ask("a", 1, 1)).token;
    unlocked(&mut store, "a", first);
    let seat = store.granted(&AcquireRequest { tokens: TURN_MAX, ..ask("a", 1, 2) }).token;
    let restore = lost(token(seat.get() + 1));
    let turn = TurnSeat { id: LockId::from_u128(2), served: vec![LockId::from_u128(1)] };
    let told = ExtendRequest { seat: Some(turn), restore: restore.clone(), ..extension("a", 1) };
    assert!(matches!(store.extend(&told), ExtendReply::Extended { restored: false, .. }));
    store.pass(LEASE);
    // What is lost is known to its sidecar with the turn's last token.
    let last = store.space.cells[&lock("a")].token;
    let restore = restore.map(|lost| Box::new(Restore { last, ..*lost }));
    let again = ExtendRequest { restore, ..extension("a", 1) };
    assert!(matches!(store.extend(&again), ExtendReply::Extended { restored: true, .. }), "it was not given back");
    store.release(&["a"], 1);
    assert!(is_lost(store.extend(&again)), "now it was");
}

#[test]
fn an_unlock_of_one_of_several_names_leaves_the_others_to_their_holder() {
    let mut store = Store::new();
    let both = AcquireRequest { names: vec![lock("a"), lock("b")], ..ask("a", 1, 1) };
    let first = store.granted(&both).token;
    unlocked(&mut store, "b", first);
    let names = vec![lock("a"), lock("b")];
    assert!(is_lost(store.extend(&ExtendRequest { names, restore: lost(first), ..extension("a", 1) })));
    assert_eq!(store.look("a").holders.len(), 1, "what was promised of it stands");
    store.granted(&ask("b", 2, 2));
    assert_eq!(store.release(&["a", "b"], 1).0, RELEASED);
    assert_eq!((store.look("a").holders.len(), store.look("b").holders.len()), (0, 1));
}

#[test]
fn a_turn_is_ended_by_any_token_of_its_block() {
    let mut store = Store::new();
    let in_turn = |id| AcquireRequest { tokens: TURN_MAX, ..waiting("a", 1, id, Queueing::Plain) };
    let first = store.granted(&in_turn(1)).token;
    let last = first.get() + u64::from(TURN_MAX) - 1;
    assert_eq!(differs(&mut store, "a", token(last + 1)), [first]);
    assert_eq!(unlocked(&mut store, "a", token(last)).1, [LockId::from_u128(1)]);
    assert!(store.granted(&ask("a", 2, 2)).token.get() > last);
}

#[test]
fn names_are_told_page_by_page() {
    let mut store = Store::new();
    assert_eq!(store.space.names(0, 2), (Vec::new(), 0));
    for (name, id) in [("c", 1), ("a", 2), ("b", 3)] {
        store.granted(&ask(name, 1, id));
    }
    assert_eq!(store.space.names(0, 2), (vec![lock("a"), lock("b")], 2));
    assert_eq!(store.space.names(2, 2), (vec![lock("c")], 0));
    assert_eq!(store.space.names(9, 2), (Vec::new(), 0));
}
