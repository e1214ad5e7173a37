//! The store's side, rule by rule. The Redis scripts are held to the same by tests of their own.

use super::super::super::ids::{Attempt, SessionId};
use super::super::super::messages::KnownRecord;
use super::*;

mod clock;
mod heard;
mod versions;

const LEASE: Duration = Duration::from_secs(10);

/// One role on a server whose clock and generation the test sets.
struct Store {
    cell: LeaseCell,
    now: StoreTime,
    generation: &'static str,
}

fn candidate(session: u128, attempt: u64) -> Candidate {
    Candidate { session: SessionId::from_u128(session), attempt: Attempt(attempt) }
}

fn token(value: u64) -> Token {
    Token::new(value).unwrap()
}

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

fn ask(session: u128, attempt: u64) -> CampaignRequest {
    CampaignRequest {
        candidate: candidate(session, attempt),
        identity: Arc::from(format!("pod-{session}")),
        lease_duration: LEASE,
        floor: Token::NONE,
        knowledge: None,
        released: None,
        guard: true,
    }
}

fn renewal(session: u128, attempt: u64, token: Token) -> RenewRequest {
    RenewRequest {
        candidate: candidate(session, attempt),
        identity: Arc::from(format!("pod-{session}")),
        token,
        count: 0,
        lease_duration: LEASE,
        audience: 3,
        guard: true,
    }
}

impl Store {
    /// A server that knows nothing.
    fn empty() -> Self {
        Self { cell: LeaseCell::new(Rules::REDIS), now: StoreTime(1_700_000_000_000_000), generation: "one" }
    }

    /// A server that somebody has asked for the role, a lease ago.
    fn new() -> Self {
        let mut store = Self::empty();
        store.informed(99, 1);
        store.pass(LEASE);
        store
    }

    fn server(&self) -> Server<'static> {
        Server { now: self.now, uptime: Duration::ZERO, generation: self.generation }
    }

    fn pass(&mut self, span: Duration) -> &mut Self {
        self.now = self.now.plus(span);
        self
    }

    fn campaign(&mut self, request: &CampaignRequest) -> (CampaignReply, Option<Announcement>) {
        self.cell.campaign(self.server(), request).unwrap()
    }

    /// A campaign of one who has listened to this very record: what it is granted does not hang on the second look.
    fn informed(&mut self, session: u128, attempt: u64) -> CampaignReply {
        let request = CampaignRequest { knowledge: self.knowledge(), ..ask(session, attempt) };
        self.campaign(&request).0
    }

    fn knowledge(&self) -> Option<KnownRecord> {
        let record = self.cell.record.as_ref()?;
        Some(KnownRecord { version: record.version(), age: secs(5), unchanged_for: LEASE, remaining: Duration::ZERO })
    }

    fn grant(&mut self, session: u128, attempt: u64) -> Token {
        self.informed(session, attempt);
        match self.informed(session, attempt) {
            CampaignReply::Granted { token, .. } => token,
            other => panic!("expected a grant, not {other:?}"),
        }
    }

    fn renew(&mut self, session: u128, attempt: u64, token: Token) -> (RenewReply, Option<Announcement>) {
        self.cell.renew(self.server(), &renewal(session, attempt, token))
    }

    fn release(&mut self, session: u128, attempt: u64, token: Token) -> (ReleaseReply, Option<Announcement>) {
        let request = ReleaseRequest { candidate: candidate(session, attempt), token, audience: 3 };
        self.cell.release(self.server(), &request)
    }

    /// Another server process serves the same data.
    fn restart(&mut self, forget: bool) -> &mut Self {
        self.generation = "two";
        if forget {
            self.cell.forget();
        }
        self
    }
}

fn is_granted(reply: &CampaignReply) -> bool {
    matches!(reply, CampaignReply::Granted { .. })
}

fn guard(reply: &CampaignReply) -> Option<GuardCause> {
    match reply {
        CampaignReply::Guarded { cause, .. } => Some(*cause),
        _ => None,
    }
}

#[test]
fn r1_a_free_role_is_granted_and_announced_and_a_loser_learns_when_to_come_back() {
    let mut store = Store::new();
    let (reply, news) = store.campaign(&CampaignRequest { knowledge: store.knowledge(), ..ask(1, 2) });
    let CampaignReply::Granted { token, count } = reply else { panic!("{reply:?}") };
    let news = news.unwrap();
    assert_eq!((news.kind, news.token, news.count), (AnnouncementKind::Grant, token, count));
    store.pass(secs(4));
    let CampaignReply::Held { holder, remaining, .. } = store.campaign(&ask(2, 1)).0 else { panic!("not held") };
    assert_eq!((&*holder.identity, remaining), ("pod-1", secs(6)));
}

#[test]
fn r1_the_same_attempt_gets_the_same_term_again_while_its_lease_stands_and_that_counts() {
    let mut store = Store::new();
    let first = store.grant(1, 1);
    let before = store.knowledge().unwrap().version.count;
    let CampaignReply::Granted { token, count } = store.pass(secs(9)).campaign(&ask(1, 1)).0 else { panic!() };
    assert_eq!((token, count), (first, before + 1));
    store.pass(secs(9));
    assert!(store.cell.is_held(store.now), "the lease was extended");
    let CampaignReply::Granted { token, .. } = store.pass(secs(9)).campaign(&ask(1, 1)).0 else { panic!() };
    assert!(token > first, "once it has run out, others may have come in between that this record does not know of");
}

#[test]
fn r1_a_repeated_attempt_is_under_every_guard() {
    for lease_stands in [true, false] {
        let mut store = Store::new();
        let first = store.grant(1, 1);
        store.pass(if lease_stands { secs(1) } else { LEASE }).restart(false);
        assert_eq!(guard(&store.campaign(&ask(1, 1)).0), Some(GuardCause::Generation), "{lease_stands}");
        assert!(matches!(store.pass(LEASE).campaign(&ask(1, 2)).0, CampaignReply::LookAgain { .. }), "it watches, too");
        let CampaignReply::Granted { token, .. } = store.informed(1, 3) else { panic!() };
        assert!(token > first);
    }
}

#[test]
fn r1_a_newer_attempt_of_the_session_gets_a_new_token_at_once_and_an_older_one_nothing() {
    let mut store = Store::new();
    let first = store.grant(1, 2);
    let CampaignReply::Granted { token, .. } = store.campaign(&ask(1, 3)).0 else { panic!() };
    assert!(token > first);
    assert!(matches!(store.campaign(&ask(1, 2)).0, CampaignReply::Stale { .. }));
    store.release(1, 3, token);
    assert!(matches!(store.campaign(&ask(1, 3)).0, CampaignReply::Stale { .. }), "it was released: a late copy");
    assert!(matches!(store.campaign(&ask(1, 2)).0, CampaignReply::Stale { .. }));
}

#[test]
fn r3_tokens_rise_above_the_record_the_floor_and_the_clock() {
    let mut store = Store::new();
    let first = store.grant(1, 1);
    assert!(first.get() > store.now.0 - 1, "never below the store's clock");
    store.release(1, 1, first);
    let floor = token(first.get() + 5_000_000);
    store.campaign(&CampaignRequest { floor, ..ask(2, 1) });
    store.pass(LEASE);
    let request = CampaignRequest { floor, knowledge: store.knowledge(), ..ask(2, 2) };
    let CampaignReply::Granted { token, .. } = store.campaign(&request).0 else { panic!() };
    assert!(token > floor);
}

#[test]
fn r3_a_clock_centuries_ahead_is_an_error_and_grants_nothing() {
    let mut store = Store { now: StoreTime(1 << 53), ..Store::new() };
    let request = CampaignRequest { knowledge: store.knowledge(), ..ask(1, 2) };
    let server = store.server();
    assert_eq!(store.cell.campaign(server, &request), Err(TokensExhausted));
    assert!(!store.cell.is_held(store.now));
}

#[test]
fn r4_an_incumbent_puts_its_lost_lease_back_unless_a_later_term_or_a_release_stands() {
    let mut store = Store::new();
    let mine = store.grant(1, 1);
    store.cell.evict_lease();
    assert!(matches!(store.renew(1, 1, mine).0, RenewReply::Renewed { reasserted: true, .. }));
    store.cell.forget();
    let (reply, news) = store.renew(1, 1, mine);
    assert!(matches!(reply, RenewReply::Renewed { reasserted: true, .. }), "after a loss of everything, too");
    assert_eq!(news.map(|news| (news.kind, news.audience)), Some((AnnouncementKind::Heartbeat, 3)));
    store.release(1, 1, mine);
    assert!(matches!(store.renew(1, 1, mine).0, RenewReply::Lost { holder: None, .. }), "not after a release");
    store.pass(LEASE);
    let later = store.grant(2, 1);
    let RenewReply::Lost { token, holder } = store.renew(1, 1, mine).0 else { panic!() };
    assert_eq!((token, holder.map(|holder| holder.session)), (later, Some(SessionId::from_u128(2))));
    store.cell.evict_lease();
    assert!(matches!(store.renew(1, 1, mine).0, RenewReply::Lost { .. }), "not below a later term");
}

#[test]
fn r4_a_failover_that_brings_an_earlier_lease_back_does_not_cost_the_incumbent_its_term() {
    let mut store = Store::new();
    let earlier = store.grant(1, 1);
    let lagging = store.cell.clone();
    store.release(1, 1, earlier);
    let mine = store.grant(2, 1);
    store.cell = lagging;
    store.restart(false);
    // Also when somebody has asked since, and a step of the clock has ended the guard that it began.
    store.campaign(&ask(3, 1));
    store.pass(secs(40));
    assert!(matches!(store.renew(2, 1, mine).0, RenewReply::Renewed { reasserted: true, .. }));
    let RenewReply::Lost { token, .. } = store.renew(1, 1, earlier).0 else { panic!() };
    assert_eq!(token, mine, "and not the other way round");
}

#[test]
fn r4_a_renewal_that_is_late_does_not_overthrow_a_later_term_of_a_smaller_token() {
    let mut store = Store::new();
    store.grant(1, 1);
    store.release(1, 1, Token::NONE);
    let lagging = store.cell.clone();
    store.pass(secs(60));
    let ahead = store.grant(2, 1);
    // Another server takes over, which has not heard of that term, and whose clock was behind.
    store.cell = lagging;
    store.now = StoreTime(store.now.0 - 60_000_000);
    store.restart(false);
    assert_eq!(guard(&store.informed(3, 1)), Some(GuardCause::Generation));
    let later = store.pass(LEASE).grant(3, 2);
    assert!(later < ahead, "what nobody who asks has seen, no token can be above");
    let RenewReply::Lost { token, .. } = store.renew(2, 1, ahead).0 else { panic!() };
    assert_eq!(token, later);
    // Nor when that one's lease is gone early, and others are kept out because its holder may still lead.
    store.cell.evict_lease();
    assert_eq!(guard(&store.campaign(&ask(4, 1)).0), Some(GuardCause::Vanished));
    assert!(matches!(store.renew(2, 1, ahead).0, RenewReply::Lost { .. }));
}

#[test]
fn r4_the_count_goes_on_where_the_store_lost_it() {
    let mut store = Store::new();
    let mine = store.grant(1, 1);
    let before = store.knowledge().unwrap().version.count;
    store.cell.forget();
    // Far behind: as if the new server's clock were.
    store.now = StoreTime(1_000);
    let request = RenewRequest { count: before, ..renewal(1, 1, mine) };
    store.cell.renew(store.server(), &request);
    assert_eq!(store.knowledge().unwrap().version.count, before + 1);
}

#[test]
fn r5_generation_nobody_new_for_one_lease_after_a_restart_but_the_incumbent_renews() {
    let mut store = Store::new();
    let mine = store.grant(1, 1);
    store.restart(false).cell.evict_lease();
    assert_eq!(guard(&store.informed(2, 1)), Some(GuardCause::Generation));
    assert!(matches!(store.renew(1, 1, mine).0, RenewReply::Renewed { reasserted: true, .. }));
    store.release(1, 1, mine);
    assert_eq!(guard(&store.pass(secs(9)).informed(2, 2)), Some(GuardCause::Generation));
    assert!(is_granted(&store.pass(secs(1)).informed(2, 3)));
}

#[test]
fn r5_a_watch_ends_with_the_incumbents_renewal_after_the_guard() {
    let mut store = Store::new();
    let mine = store.grant(1, 1);
    store.restart(false);
    let mut counted = 0;
    let mut renews = |store: &mut Store| {
        let request = RenewRequest { count: counted, ..renewal(1, 1, mine) };
        let RenewReply::Renewed { count, .. } = store.cell.renew(store.server(), &request).0 else { panic!("lost") };
        counted = count;
        store.knowledge().unwrap().version.writer
    };
    assert_eq!(renews(&mut store), None);
    assert_eq!(renews(store.pass(secs(9))), None, "the guard stands");
    assert!(renews(store.pass(secs(2))).is_some());
    store.release(1, 1, mine);
    assert!(is_granted(&store.campaign(&ask(2, 1)).0), "its release says that nobody leads");
}

#[test]
fn r5_a_late_renewal_from_before_a_watch_does_not_end_it() {
    for guard_is_over in [false, true] {
        let mut store = Store::new();
        let old = store.grant(1, 1);
        let count = store.knowledge().unwrap().version.count;
        // Another leads elsewhere by now; here a replica comes that has acknowledged that, and somebody asks.
        store.pass(LEASE).generation = "a replica has come";
        assert_eq!(guard(&store.campaign(&ask(3, 1)).0), Some(GuardCause::Generation));
        // The server's clock ends the guard early.
        if guard_is_over {
            store.pass(LEASE);
        }
        let late = RenewRequest { count: count + 9, ..renewal(1, 1, old) };
        store.cell.renew(store.server(), &late);
        store.release(1, 1, old);
        if !guard_is_over {
            store.pass(LEASE);
        }
        let reply = store.campaign(&ask(3, 2)).0;
        assert!(matches!(reply, CampaignReply::LookAgain { .. }), "{guard_is_over}: {reply:?}");
    }
}

#[test]
fn r5_another_masters_term_of_the_same_token_and_count_is_not_this_one() {
    // Both sides of a split have this, and clocks that are far behind it, so that all is counted by one.
    let mut one = Store::new();
    let old = one.grant(1, 1);
    one.now = StoreTime(one.now.0 - 3_600_000_000);
    let mut other = Store { cell: one.cell.clone(), ..one };
    let term = |side: &mut Store, session| {
        side.cell.evict_lease();
        side.cell.record.as_mut().unwrap().released = true;
        let token = side.grant(session, 1);
        (token, side.knowledge().unwrap().version)
    };
    let ((mine, _), (theirs, there)) = (term(&mut one, 2), term(&mut other, 3));
    assert!(mine == theirs && mine > old, "or this shows nothing");
    assert_eq!(one.knowledge().unwrap().version.count, there.count, "likewise");
    let knowledge = Some(KnownRecord { version: there, ..one.knowledge().unwrap() });
    let reply = one.campaign(&CampaignRequest { knowledge, ..ask(4, 1) }).0;
    assert!(matches!(reply, CampaignReply::Held { .. }), "{reply:?}");
}

#[test]
fn r5_empty_a_new_record_is_shut_for_a_lease_however_long_the_server_is_up() {
    let mut store = Store::empty();
    assert_eq!(guard(&store.campaign(&ask(1, 1)).0), Some(GuardCause::Empty));
    let CampaignReply::Guarded { cause, remaining, .. } = store.pass(secs(4)).campaign(&ask(1, 2)).0 else { panic!() };
    assert_eq!((cause, remaining), (GuardCause::Empty, secs(6)));
    assert!(is_granted(&store.pass(secs(6)).informed(1, 3)));
    store.cell.forget();
    assert_eq!(guard(&store.campaign(&ask(2, 1)).0), Some(GuardCause::Empty), "as after a FLUSHALL");
}

#[test]
fn r5_a_guard_lasts_for_the_longer_lease_and_nobodys_question_shortens_it() {
    let short = |session, attempt| CampaignRequest { lease_duration: secs(2), ..ask(session, attempt) };
    let left = |reply: CampaignReply| match reply {
        CampaignReply::Guarded { remaining, .. } => remaining,
        other => panic!("expected a guard, not {other:?}"),
    };
    // The last term's lease is longer than the asker's.
    let mut store = Store::new();
    let mine = store.grant(1, 1);
    store.restart(false).cell.evict_lease();
    assert_eq!(left(store.campaign(&short(2, 1)).0), LEASE);
    assert!(matches!(store.renew(1, 1, mine).0, RenewReply::Renewed { .. }));
    store.release(1, 1, mine);
    assert_eq!(left(store.pass(secs(3)).campaign(&short(2, 2)).0), secs(7));
    // The guard was set by one whose lease is longer than all others.
    let mut store = Store::empty();
    assert_eq!(left(store.campaign(&ask(1, 1)).0), LEASE);
    assert_eq!(left(store.pass(secs(1)).campaign(&short(2, 1)).0), secs(9));
    let request = RenewRequest { lease_duration: secs(2), ..renewal(3, 1, token(store.now.0)) };
    store.cell.renew(store.server(), &request);
    store.release(3, 1, token(store.now.0));
    assert_eq!(left(store.campaign(&short(2, 2)).0), secs(9), "not even an incumbent's renewal shortens it");
    let knowledge = store.knowledge();
    assert!(is_granted(&store.pass(secs(9)).campaign(&CampaignRequest { knowledge, ..short(2, 3) }).0));
}

#[test]
fn r5_vanished_is_told_by_the_end_that_the_record_remembers() {
    let mut store = Store::new();
    store.grant(1, 1);
    store.pass(secs(4)).cell.evict_lease();
    let knows = store.knowledge();
    let reply = store.campaign(&CampaignRequest { lease_duration: secs(2), ..ask(2, 1) }).0;
    let CampaignReply::Guarded { cause, remaining, .. } = reply else { panic!("{reply:?}") };
    assert_eq!((cause, remaining), (GuardCause::Vanished, secs(6)), "for the rest of that lease, whoever asks");
    assert!(is_granted(&store.pass(secs(6)).campaign(&CampaignRequest { knowledge: knows, ..ask(2, 2) }).0));
}

#[test]
fn r5_regression_a_record_below_a_known_token_closes_the_role_for_one_lease() {
    let mut store = Store::new();
    let old = store.grant(1, 1);
    store.release(1, 1, old);
    let floor = token(old.get() + 1_000_000);
    let asks = |store: &mut Store, attempt| {
        let knowledge = store.knowledge();
        store.campaign(&CampaignRequest { floor, knowledge, ..ask(2, attempt) }).0
    };
    assert_eq!(guard(&asks(&mut store, 1)), Some(GuardCause::Regression));
    assert_eq!(guard(&asks(store.pass(secs(9)), 2)), Some(GuardCause::Regression));
    store.pass(secs(1));
    let newcomer = CampaignRequest { floor, ..ask(3, 1) };
    assert!(matches!(store.campaign(&newcomer).0, CampaignReply::LookAgain { .. }), "a release of before says nothing");
    assert!(is_granted(&asks(&mut store, 3)), "and only for one");
}

#[test]
fn r5_regression_a_higher_floor_under_a_guard_does_not_begin_another() {
    let mut store = Store::new();
    let old = store.grant(1, 1);
    store.release(1, 1, old);
    let request = |more, attempt| CampaignRequest { floor: token(old.get() + more), ..ask(2, attempt) };
    store.campaign(&request(1_000, 1));
    store.pass(secs(9)).campaign(&request(2_000, 2));
    store.pass(secs(1));
    let informed = CampaignRequest { knowledge: store.knowledge(), ..request(1_000, 3) };
    let CampaignReply::Granted { token, .. } = store.campaign(&informed).0 else { panic!() };
    assert!(token.get() > old.get() + 2_000, "what somebody knew is remembered");
}

#[test]
fn r5_vanished_a_lease_that_the_candidate_knows_to_stand_closes_the_role() {
    let heard = |store: &Store, count_behind, age, remaining| {
        let known = store.knowledge().unwrap();
        let version = RecordVersion { count: known.version.count - count_behind, ..known.version };
        Some(KnownRecord { version, age, unchanged_for: age, remaining })
    };
    // (renewals missed, seconds ago, seconds it should still stand) -> closed? granted?
    let cases = [
        (1, 5, 0, (true, false)),   // renewed since this candidate last knew of it
        (1, 13, 0, (false, false)), // but that was long ago: it looks again
        (0, 5, 5, (true, false)),   // known of a moment ago, and it should still stand
        (0, 9, 0, (false, false)),  // it has run out, by the store's clock
        (0, 10, 0, (false, true)),  // it has run out as it should
    ];
    for (behind, age, remaining, (closed, granted)) in cases {
        let mut store = Store::new();
        store.grant(1, 1);
        // The store's clock is stepped forwards: the TTL ends, and so does what the record remembers of it.
        store.pass(LEASE);
        let knowledge = heard(&store, behind, secs(age), secs(remaining));
        let reply = store.campaign(&CampaignRequest { knowledge, ..ask(2, 1) }).0;
        assert_eq!(guard(&reply), closed.then_some(GuardCause::Vanished), "{behind} {age} {remaining}: {reply:?}");
        assert_eq!(is_granted(&reply), granted, "{behind} {age} {remaining}: {reply:?}");
    }
}

#[test]
fn r5_vanished_one_who_knows_nothing_of_this_term_looks_twice() {
    let mut store = Store::new();
    let earlier = store.knowledge();
    store.grant(1, 1);
    store.pass(LEASE);
    for knowledge in [None, earlier] {
        let reply = store.campaign(&CampaignRequest { knowledge, ..ask(2, 1) }).0;
        assert!(matches!(reply, CampaignReply::LookAgain { .. }), "{reply:?}");
    }
    assert!(is_granted(&store.informed(2, 2)));
}

#[test]
fn r5_vanished_does_not_concern_a_session_whose_own_term_it_was() {
    let mut store = Store::new();
    store.grant(1, 1);
    store.pass(LEASE);
    assert!(is_granted(&store.campaign(&ask(1, 2)).0));
}

#[test]
fn r5_a_guard_set_before_the_clock_was_stepped_back_is_cut_to_one_lease() {
    let mut store = Store::new();
    let mine = store.grant(1, 1);
    store.release(1, 1, mine);
    store.restart(false).informed(2, 1);
    store.now = StoreTime(store.now.0 - 3_600_000_000);
    assert!(guard(&store.informed(2, 2)).is_some());
    assert!(is_granted(&store.pass(LEASE).informed(2, 3)));
}

#[test]
fn r5_guard_off_asks_nothing() {
    let mut store = Store::new();
    store.grant(1, 1);
    store.restart(true);
    let request = CampaignRequest { guard: false, floor: token(5), ..ask(2, 1) };
    assert!(is_granted(&store.campaign(&request).0));
}

#[test]
fn r7_session_and_token_alone_name_the_term_of_a_process_that_has_ended() {
    let mut store = Store::new();
    let mine = store.grant(1, 4);
    let other = token(mine.get() - 1);
    for (session, token) in [(2, mine), (1, other), (1, Token::NONE)] {
        assert_eq!(store.release(session, 0, token), (ReleaseReply::NotHeld, None));
    }
    let (reply, news) = store.release(1, 0, mine);
    assert_eq!((reply, news.map(|news| news.token)), (ReleaseReply::Released, Some(mine)));
    assert!(matches!(store.renew(1, 4, mine).0, RenewReply::Lost { .. }), "a late renewal");
    assert!(is_granted(&store.campaign(&ask(2, 1)).0), "as after any release");
}

#[test]
fn r7_nobody_releases_anothers_lease() {
    let mut store = Store::new();
    let mine = store.grant(1, 1);
    for (session, attempt, token) in [(2, 1, mine), (1, 2, mine), (1, 1, token(mine.get() + 1)), (2, 1, Token::NONE)] {
        assert_eq!(store.release(session, attempt, token), (ReleaseReply::NotHeld, None));
    }
    let (reply, news) = store.release(1, 1, Token::NONE);
    assert_eq!(reply, ReleaseReply::Released, "session and attempt name a lease whose token was never told");
    assert_eq!(news.map(|news| (news.kind, news.token)), Some((AnnouncementKind::Release, mine)));
    assert_eq!(store.release(1, 1, mine), (ReleaseReply::NotHeld, None));
    assert!(is_granted(&store.campaign(&ask(2, 1)).0), "a released role is open at once");
}

#[test]
fn r8_a_holder_whose_count_stood_still_for_a_whole_lease_is_overdue_whatever_the_ttl_says() {
    let mut store = Store::new();
    store.grant(1, 1);
    store.now = StoreTime(store.now.0 - 60_000_000);
    let knows = |store: &Store, unchanged_for| Some(KnownRecord { unchanged_for, ..store.knowledge().unwrap() });
    let early = CampaignRequest { knowledge: knows(&store, secs(9)), ..ask(2, 1) };
    assert!(matches!(store.campaign(&early).0, CampaignReply::Held { .. }));
    let late = CampaignRequest { knowledge: knows(&store, LEASE), ..ask(2, 2) };
    assert!(is_granted(&store.campaign(&late).0));
}

#[test]
fn a_store_that_cannot_forget_grants_its_first_campaign_at_once() {
    let mut store = Store { cell: LeaseCell::never_held(Rules::REDIS, "one"), ..Store::empty() };
    assert!(is_granted(&store.campaign(&ask(1, 1)).0));
}

#[test]
fn r6_a_grant_counts_only_under_the_generation_that_it_was_given_under() {
    let mut store = Store::new();
    let token = store.grant(1, 1);
    assert!(store.cell.confirm(store.server(), token));
    store.generation = "a replica has come since";
    assert!(!store.cell.confirm(store.server(), token));
    assert_eq!(guard(&store.campaign(&ask(1, 1)).0), Some(GuardCause::Generation), "and is not given again");
    store.cell.forget();
    assert!(!store.cell.confirm(store.server(), token));
}

#[test]
fn a_record_that_was_lost_under_a_living_lease_knows_its_token_again() {
    let mut store = Store::new();
    let mine = store.grant(1, 1);
    store.cell.record = None;
    store.renew(1, 1, mine);
    assert_eq!(store.knowledge().unwrap().version.token, mine);
    store.cell.record = None;
    store.pass(secs(1));
    store.release(1, 1, mine);
    assert_eq!(store.knowledge().unwrap().version.token, mine);
}

#[test]
fn r6_a_grant_does_not_count_once_another_has_asked_under_the_new_generation() {
    let mut store = Store::new();
    let token = store.grant(1, 1);
    store.generation = "a replica has come since";
    store.campaign(&ask(2, 1));
    assert!(!store.cell.confirm(store.server(), token), "the record is of this generation now, the grant is not");
    store.pass(LEASE);
    assert!(!store.cell.confirm(store.server(), token), "nor when a step of the clock has ended the guard");
}
