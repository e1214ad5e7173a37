//! Each rule, case by case.

mod holds;
mod liveness;
mod operator;
mod rests;
mod returns;
mod turns;

use super::super::super::locks::Restore;
use super::*;

const LEASE: Duration = Duration::from_secs(30);
const GUARD: Duration = Duration::from_secs(30);
const START: u64 = 1_760_000_000_000_000;

const RELEASED: LockReleaseReply = LockReleaseReply::Released;

struct Store {
    space: LockSpace,
    now: StoreTime,
    uptime: Duration,
    run_id: &'static str,
}

impl Store {
    fn new() -> Self {
        Self { space: LockSpace::new(), now: StoreTime(START), uptime: Duration::from_secs(3_600), run_id: "one" }
    }

    fn server(&self) -> Server<'static> {
        Server { now: self.now, uptime: self.uptime, generation: self.run_id }
    }

    fn pass(&mut self, span: Duration) {
        self.now = self.now.plus(span);
        self.uptime += span;
    }

    fn acquire(&mut self, request: &AcquireRequest) -> AcquireReply {
        self.acquire_waking(request).0
    }

    fn acquire_waking(&mut self, request: &AcquireRequest) -> (AcquireReply, Vec<Wake>) {
        self.space.acquire(self.server(), request).unwrap()
    }

    fn granted(&mut self, request: &AcquireRequest) -> LockGrant {
        match self.acquire(request) {
            AcquireReply::Granted(grant) => grant,
            other => panic!("{request:?} was not granted: {other:?}"),
        }
    }

    fn extend(&mut self, request: &ExtendRequest) -> ExtendReply {
        self.space.extend(self.server(), request)
    }

    fn release(&mut self, names: &[&str], id: u128) -> (LockReleaseReply, Vec<Wake>) {
        self.space.release(self.server(), &giving_back(names, id))
    }

    fn cancel(&mut self, name: &str, session: u128, id: u128) -> Vec<Wake> {
        let session = SessionId::from_u128(session);
        let request = CancelRequest { names: vec![lock(name)], session, id: LockId::from_u128(id), keeps: false };
        self.space.cancel(self.server(), &request)
    }

    fn look(&self, name: &str) -> LockInsight {
        self.space.inspect(self.server(), &lock(name))
    }
}

fn lock(name: &str) -> LockName {
    LockName::new(name).unwrap()
}

/// Request `id` of session `session`, for an owner of its own.
fn ask(name: &str, session: u128, id: u128) -> AcquireRequest {
    AcquireRequest {
        names: vec![lock(name)],
        session: SessionId::from_u128(session),
        id: LockId::from_u128(id),
        owner: Arc::from(format!("owner-{id}")),
        beside: None,
        identity: Arc::from(format!("web-{session}")),
        lease: LEASE,
        at_least: Duration::ZERO,
        permits: 1,
        floor: Token::NONE,
        queueing: Queueing::No,
        yields: false,
        reminds: false,
        tokens: 1,
        guard: Some(GUARD),
    }
}

/// Request `id` of the owner that has `beside`, through session 1.
fn again(name: &str, beside: u128, id: u128) -> AcquireRequest {
    AcquireRequest {
        owner: Arc::from(format!("owner-{beside}")),
        beside: Some(LockId::from_u128(beside)),
        ..ask(name, 1, id)
    }
}

fn waiting(name: &str, session: u128, id: u128, queueing: Queueing) -> AcquireRequest {
    AcquireRequest { queueing, ..ask(name, session, id) }
}

fn extension(name: &str, id: u128) -> ExtendRequest {
    ExtendRequest {
        names: vec![lock(name)],
        id: LockId::from_u128(id),
        session: SessionId::from_u128(1),
        seat: None,
        lease: None,
        restore: None,
        guard: Some(GUARD),
    }
}

/// By session 1.
fn giving_back(names: &[&str], id: u128) -> LockReleaseRequest {
    let names = names.iter().map(|name| lock(name)).collect();
    LockReleaseRequest { names, id: LockId::from_u128(id), session: SessionId::from_u128(1), seat: None }
}

fn wake(name: &str, session: u128, id: u128) -> Wake {
    Wake { session: SessionId::from_u128(session), id: LockId::from_u128(id), name: lock(name) }
}

fn is_held(reply: &AcquireReply) -> bool {
    matches!(reply, AcquireReply::Held { .. })
}

fn lost(token: Token) -> Option<Box<Restore>> {
    Some(Box::new(Restore {
        owner: Arc::from("owner-1"),
        identity: Arc::from("web-1"),
        token,
        last: token,
        permits: 1,
        lease: LEASE,
        at_least: Duration::ZERO,
    }))
}

#[test]
fn a_free_lock_is_granted_and_a_held_one_is_not() {
    let mut store = Store::new();
    let grant = store.granted(&ask("a", 1, 1));
    assert_eq!(grant, LockGrant { token: Token::new(START + 1).unwrap(), holds: 1, tokens: 1 });
    let AcquireReply::Held { name, holder, ahead } = store.acquire(&ask("a", 2, 2)) else { panic!() };
    let holder = holder.unwrap();
    assert_eq!((name.as_str(), &*holder.owner, &*holder.identity, ahead), ("a", "owner-1", "web-1", 0));
    assert_eq!(holder.remaining, LEASE);
    store.granted(&ask("b", 2, 3));
}

#[test]
fn tokens_rise_from_holder_to_holder_also_above_what_a_sidecar_saw_and_after_a_flush() {
    let mut store = Store::new();
    let first = store.granted(&ask("a", 1, 1)).token;
    store.release(&["a"], 1);
    let second = store.granted(&ask("a", 1, 2)).token;
    assert!(second > first);
    store.release(&["a"], 2);
    let floor = Token::new(START * 2).unwrap();
    let third = store.granted(&AcquireRequest { floor, ..ask("a", 1, 3) }).token;
    assert!(third > floor);
    store.space.forget();
    store.pass(Duration::from_millis(1));
    let after = store.granted(&AcquireRequest { floor: third, ..ask("a", 1, 4) }).token;
    assert!(after > third);
}

#[test]
fn a_lease_ends_by_itself_and_nobody_releases_or_extends_the_successors_lock() {
    let mut store = Store::new();
    store.granted(&ask("a", 1, 1));
    store.pass(LEASE);
    store.granted(&ask("a", 2, 2));
    assert_eq!(store.release(&["a"], 1).0, LockReleaseReply::NotHeld);
    assert_eq!(store.extend(&extension("a", 1)), ExtendReply::Lost);
    assert_eq!(&*store.look("a").holders[0].owner, "owner-2");
}

#[test]
fn a_lock_that_the_store_forgot_is_put_back_unless_it_was_released_or_somebody_came() {
    let mut store = Store::new();
    let token = store.granted(&ask("a", 1, 1)).token;
    let put_back = ExtendRequest { restore: lost(token), ..extension("a", 1) };
    store.space.forget();
    let restored = |holds| ExtendReply::Extended { token, holds, lease: LEASE, restored: true };
    assert_eq!(store.extend(&put_back), restored(1));
    assert!(is_held(&store.acquire(&ask("a", 2, 2))));
    let beside = ExtendRequest { id: LockId::from_u128(5), ..put_back.clone() };
    assert_eq!(store.extend(&beside), restored(2), "what its owner took besides is put back, too");
    store.release(&["a"], 1);
    assert_eq!(store.extend(&put_back), ExtendReply::Lost, "released, though the other hold stands");
    store.release(&["a"], 5);
    assert_eq!(store.extend(&put_back), ExtendReply::Lost, "released");
    let third = ExtendRequest { id: LockId::from_u128(6), ..put_back.clone() };
    assert_eq!(store.extend(&third), restored(1), "but not this one of its owner's, and nobody came");
    store.release(&["a"], 6);
    store.space.forget();
    store.pass(Duration::from_millis(1));
    store.granted(&ask("a", 2, 3));
    assert_eq!(store.extend(&put_back), ExtendReply::Lost, "another's");
    store.pass(LEASE);
    assert_eq!(store.extend(&put_back), ExtendReply::Lost, "another came since, though it is gone again");
}

/// A replica that lags took over, or a server came back with what it had saved.
#[test]
fn what_a_store_that_was_set_back_believes_in_makes_room_for_who_came_later() {
    let mut store = Store::new();
    let in_turn = |session, id| AcquireRequest { tokens: 4, ..ask("a", session, id) };
    let resting = AcquireRequest { at_least: LEASE, ..ask("a", 2, 2) };
    for older in [ask("a", 2, 2), in_turn(2, 2), resting, ask("a", 1, 2), in_turn(1, 2)] {
        store.space.forget();
        let earlier = store.granted(&older).token;
        let before = store.space.clone();
        store.pass(LEASE);
        let token = store.granted(&ask("a", 1, 1)).token;
        store.space = before.clone();
        store.now = StoreTime(store.now.0 - 1_000_000);
        let put_back = ExtendRequest { restore: lost(token), ..extension("a", 1) };
        assert!(matches!(store.extend(&put_back), ExtendReply::Extended { restored: true, .. }), "{older:?}");
        let holders = store.look("a").holders;
        assert_eq!(holders.iter().map(|holder| holder.token).collect::<Vec<_>>(), [token], "{older:?}");
        let session = older.session;
        let restore = lost(earlier).map(|lost| Box::new(Restore { owner: older.owner, ..*lost }));
        let of_the_older = ExtendRequest { session, restore, ..extension("a", 2) };
        assert_eq!(store.extend(&of_the_older), ExtendReply::Lost, "it was over");
        // But not for a token that is among those of another sidecar's turn. In its own it went on to who has that one.
        store.space = before;
        let last = Token::new(earlier.get() + 9).unwrap();
        let among = lost(Token::new(earlier.get() + 2).unwrap()).map(|lost| Box::new(Restore { last, ..*lost }));
        let is_among = older.tokens > 1 && older.session != extension("a", 1).session;
        let reply = store.extend(&ExtendRequest { restore: among, ..extension("a", 1) });
        assert_eq!(reply == ExtendReply::Lost, is_among, "{reply:?}");
    }
}

#[test]
fn after_a_restart_nobody_new_is_granted_for_the_guard_but_what_is_held_goes_on() {
    let mut store = Store::new();
    store.granted(&ask("a", 1, 1));
    store.run_id = "two";
    assert!(!store.space.confirm(store.server()), "R6: a grant of this moment would not count");
    let AcquireReply::Guarded { remaining } = store.acquire(&ask("b", 2, 2)) else { panic!() };
    assert_eq!(remaining, GUARD);
    assert!(matches!(store.extend(&extension("a", 1)), ExtendReply::Extended { .. }));
    assert!(is_held(&store.acquire(&ask("a", 1, 1))), "what was asked for is not told before the guard ends");
    assert!(!store.space.confirm(store.server()), "nor once somebody has asked under the new generation");
    store.granted(&AcquireRequest { guard: None, ..ask("c", 2, 3) });
    store.pass(GUARD);
    store.granted(&ask("b", 2, 4));
    assert!(store.space.confirm(store.server()));
}

/// `guard: heard`
#[test]
fn where_nobody_asks_which_server_it_is_only_a_store_without_its_data_is_shut() {
    let mut store = Store { run_id: "", ..Store::new() };
    store.granted(&ask("a", 1, 1));
    store.uptime = Duration::ZERO;
    store.granted(&ask("b", 2, 2));
    store.space.forget();
    assert!(matches!(store.acquire(&ask("c", 2, 3)), AcquireReply::Guarded { remaining } if remaining == GUARD));
    store.pass(GUARD);
    store.granted(&ask("c", 2, 3));
    store.run_id = "one";
    assert!(matches!(store.acquire(&ask("d", 2, 4)), AcquireReply::Guarded { .. }), "whoever asks knows nothing of it");
}

#[test]
fn an_empty_store_is_shut_until_its_server_is_older_than_the_guard() {
    let mut store = Store { uptime: Duration::from_secs(10), ..Store::new() };
    let AcquireReply::Guarded { remaining } = store.acquire(&ask("a", 1, 1)) else { panic!() };
    assert_eq!(remaining, Duration::from_secs(20));
    store.pass(Duration::from_secs(20));
    store.granted(&ask("a", 1, 1));
}

#[test]
fn a_guard_outlives_no_step_of_the_stores_clock() {
    let mut store = Store::new();
    store.granted(&ask("a", 1, 1));
    store.run_id = "two";
    store.acquire(&ask("b", 2, 2));
    store.now = StoreTime(store.now.0 - 3_600_000_000);
    let AcquireReply::Guarded { remaining } = store.acquire(&ask("b", 2, 2)) else { panic!() };
    assert_eq!(remaining, GUARD);
}

#[test]
fn a_release_wakes_the_first_ticket_only_and_a_plain_request_may_overtake_it() {
    let mut store = Store::new();
    store.granted(&ask("a", 1, 1));
    assert!(is_held(&store.acquire(&waiting("a", 2, 2, Queueing::Plain))));
    let AcquireReply::Held { ahead, .. } = store.acquire(&waiting("a", 3, 3, Queueing::Plain)) else { panic!() };
    assert_eq!((ahead, store.look("a").waiting), (1, 2));
    assert_eq!(store.release(&["a"], 1).1, [wake("a", 2, 2)]);
    store.granted(&ask("a", 4, 4));
    assert!(is_held(&store.acquire(&waiting("a", 2, 2, Queueing::Plain))), "overtaken");
    assert_eq!(store.release(&["a"], 4).1, [wake("a", 2, 2)], "it kept its place");
    let (reply, wakes) = store.acquire_waking(&waiting("a", 2, 2, Queueing::Plain));
    assert!(matches!(reply, AcquireReply::Granted(_)) && wakes.is_empty());
    assert_eq!(store.release(&["a"], 2).1, [wake("a", 3, 3)]);
}

#[test]
fn nobody_overtakes_a_fair_ticket() {
    let mut store = Store::new();
    store.granted(&ask("a", 1, 1));
    store.acquire(&waiting("a", 2, 2, Queueing::Fair));
    store.acquire(&waiting("a", 3, 3, Queueing::Fair));
    store.release(&["a"], 1);
    assert!(is_held(&store.acquire(&ask("a", 4, 4))));
    assert!(is_held(&store.acquire(&waiting("a", 3, 3, Queueing::Fair))), "the second in the queue");
    store.granted(&waiting("a", 2, 2, Queueing::Fair));
}

#[test]
fn a_waiter_that_leaves_wakes_the_next_and_gives_back_what_it_was_granted() {
    let mut store = Store::new();
    store.granted(&ask("a", 1, 1));
    for id in [2, 3] {
        store.acquire(&waiting("a", id, id, Queueing::Fair));
    }
    assert!(store.cancel("a", 2, 2).is_empty(), "it is held");
    assert_eq!(store.release(&["a"], 1).1, [wake("a", 3, 3)]);
    store.acquire(&waiting("a", 4, 4, Queueing::Fair));
    assert_eq!(store.cancel("a", 3, 3), [wake("a", 4, 4)], "woken, but gone");
    store.granted(&waiting("a", 4, 4, Queueing::Fair));
    store.acquire(&waiting("a", 5, 5, Queueing::Plain));
    assert_eq!(store.cancel("a", 4, 4), [wake("a", 5, 5)], "granted, but nobody was told");
    assert_eq!(store.look("a").holders, []);
}

#[test]
fn a_semaphore_has_as_many_holders_as_permits_and_all_must_agree() {
    let mut store = Store::new();
    let three = |id, queueing| AcquireRequest { permits: 3, queueing, ..ask("a", id, id) };
    for id in 1..=3 {
        store.granted(&three(id, Queueing::No));
    }
    assert!(is_held(&store.acquire(&three(4, Queueing::Fair))));
    assert!(is_held(&store.acquire(&three(5, Queueing::Fair))));
    let differ = AcquireReply::PermitsDiffer { name: lock("a"), permits: 3 };
    assert_eq!(store.acquire(&AcquireRequest { permits: 2, ..ask("a", 6, 6) }), differ);
    assert_eq!(store.release(&["a"], 2).1, [wake("a", 4, 4)]);
    assert_eq!(store.release(&["a"], 1).1, [wake("a", 4, 4)]);
    let (reply, wakes) = store.acquire_waking(&three(4, Queueing::Fair));
    assert!(matches!(reply, AcquireReply::Granted(_)));
    assert_eq!(wakes, [wake("a", 5, 5)], "there is room for one more");
    store.granted(&three(5, Queueing::Fair));
    let tokens: Vec<Token> = store.look("a").holders.iter().map(|holder| holder.token).collect();
    assert!(tokens.is_sorted() && tokens.len() == 3);
    store.pass(LEASE);
    store.granted(&AcquireRequest { permits: 2, ..ask("a", 6, 6) });
}

#[test]
fn several_names_are_granted_together_or_not_at_all() {
    let mut store = Store::new();
    let both = |id, queueing| AcquireRequest { names: vec![lock("a"), lock("b")], queueing, ..ask("a", id, id) };
    store.granted(&ask("b", 1, 1));
    let AcquireReply::Held { name, .. } = store.acquire(&both(2, Queueing::Plain)) else { panic!() };
    assert_eq!(name.as_str(), "b");
    let a = store.granted(&ask("a", 3, 3));
    assert_eq!(store.release(&["b"], 1).1, [wake("b", 2, 2)]);
    assert!(is_held(&store.acquire(&both(2, Queueing::Plain))));
    assert_eq!(store.release(&["a"], 3).1, [wake("a", 2, 2)]);
    let grant = store.granted(&both(2, Queueing::Plain));
    assert!(grant.token > a.token);
    assert!(is_held(&store.acquire(&ask("a", 4, 4))) && is_held(&store.acquire(&ask("b", 4, 4))));
    assert_eq!(store.release(&["a", "b"], 2).0, RELEASED);
    store.granted(&ask("a", 4, 4));
    store.granted(&ask("b", 4, 5));
}

#[test]
fn one_that_waits_for_several_names_passes_the_word_on() {
    let mut store = Store::new();
    store.granted(&ask("a", 1, 1));
    store.granted(&ask("b", 1, 2));
    let both = AcquireRequest { names: vec![lock("a"), lock("b")], ..waiting("a", 2, 3, Queueing::Plain) };
    store.acquire(&both);
    store.acquire(&waiting("a", 3, 4, Queueing::Plain));
    assert_eq!(store.release(&["a"], 1).1, [wake("a", 2, 3)]);
    let (reply, wakes) = store.acquire_waking(&both);
    assert!(is_held(&reply), "b is held");
    assert_eq!(wakes, [wake("a", 3, 4)]);
}

#[test]
fn one_behind_a_fair_ticket_does_not_pass_the_word_on() {
    let mut store = Store::new();
    store.granted(&ask("a", 1, 1));
    store.acquire(&waiting("a", 2, 2, Queueing::Fair));
    for id in [3, 4] {
        store.acquire(&waiting("a", id, id, Queueing::Plain));
    }
    assert_eq!(store.release(&["a"], 1).1, [wake("a", 2, 2)]);
    let (reply, wakes) = store.acquire_waking(&waiting("a", 3, 3, Queueing::Plain));
    assert!(is_held(&reply) && wakes.is_empty(), "whoever is behind it could not have it either: {wakes:?}");
}

#[test]
fn a_permit_that_was_given_back_does_not_return_though_others_were_given_back_since() {
    let mut store = Store::new();
    let two = |id| AcquireRequest { permits: 2, ..ask("a", 1, id) };
    store.granted(&two(1));
    let token = store.granted(&two(2)).token;
    for id in [2, 1] {
        assert_eq!(store.release(&["a"], id).0, RELEASED);
    }
    let restore = lost(token).map(|lost| Box::new(Restore { permits: 2, ..*lost }));
    assert_eq!(store.extend(&ExtendRequest { restore, ..extension("a", 2) }), ExtendReply::Lost);
}

#[test]
fn a_lock_that_never_had_a_token_is_not_put_back() {
    let mut store = Store::new();
    let put_back = |restore| ExtendRequest { restore, ..extension("a", 1) };
    assert_eq!(store.extend(&put_back(lost(Token::NONE))), ExtendReply::Lost);
    let token = store.granted(&ask("a", 2, 2)).token;
    let restore = lost(token).map(|lost| Box::new(Restore { permits: 1, ..*lost }));
    assert_eq!(store.extend(&put_back(restore)), ExtendReply::Lost, "another has it");
}

#[test]
fn a_clock_centuries_ahead_is_an_error_and_grants_nothing() {
    let mut store = Store { now: StoreTime(1 << 53), ..Store::new() };
    assert_eq!(store.space.acquire(store.server(), &ask("a", 1, 1)), Err(TokensExhausted));
    assert_eq!(store.look("a").holders, []);
}
