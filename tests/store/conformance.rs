//! The rules of the protocol, one by one, on every store: in memory, on one Redis, behind Sentinels and in a cluster.
//!
//! A case is written once, against the trait, and a [`Place`] that can do to its store what the world may do to it.
//! What a place cannot do is [`NotSupported`], and each store's list of cases that end so is part of the test.

use std::sync::atomic::{AtomicU64, Ordering};

use baton::clock::{BootClock, Clock, wall_time};
use baton::protocol::{AnnouncementKind, GuardCause, Holder, Rules};
use baton::store::News;
use baton::store::memory::MemoryStore;

use super::lease_api::LeaseApi;
use super::support::cluster::Cluster;
use super::support::redis::{Data, RedisServer};
use super::support::resp::Reply;
use super::support::sentinel::SentinelSet;
use super::support::{wait_until, wait_until_async};
use super::*;

const PATIENCE: Duration = Duration::from_secs(60);

/// Why a case is not about this place's store.
#[derive(Clone, Copy, Debug)]
enum NotSupported {
    /// It cannot have such a fault.
    Fault,
    /// The rule is not this store's: another of its rules does the same for it.
    Rule,
}

/// What is behind a store.
enum Behind {
    Memory,
    Redis(RedisServer),
    Sentinels(SentinelSet),
    Cluster(Cluster),
    Kubernetes(LeaseApi),
}

/// A store, what is behind it, and a role that nobody else uses.
struct Place {
    store: Arc<dyn LeaseStore>,
    behind: Behind,
    role: RoleName,
}

impl Place {
    async fn memory() -> Self {
        Self::new(Arc::new(MemoryStore::new(Arc::new(BootClock))), Behind::Memory)
    }

    async fn redis() -> Self {
        let redis = RedisServer::start();
        Self::new(Arc::new(connected(&redis.url()).await), Behind::Redis(redis))
    }

    async fn sentinels() -> Self {
        let set = SentinelSet::start().await;
        Self::new(Arc::new(connected(&set.url()).await), Behind::Sentinels(set))
    }

    async fn cluster() -> Self {
        let cluster = Cluster::start(&[]).await;
        Self::new(Arc::new(connected(&cluster.url()).await), Behind::Cluster(cluster))
    }

    async fn kubernetes() -> Self {
        let api = LeaseApi::start();
        Self::new(Arc::new(api.store()), Behind::Kubernetes(api))
    }

    fn new(store: Arc<dyn LeaseStore>, behind: Behind) -> Self {
        let mut place = Self { store, behind, role: role() };
        place.another_role();
        place
    }

    /// From now on the cases are about a role that the store knows nothing of.
    fn another_role(&mut self) {
        static ROLES: AtomicU64 = AtomicU64::new(0);
        let name = format!("role-{}", ROLES.fetch_add(1, Ordering::Relaxed));
        self.role = RoleName::new(name).expect("a DNS label");
    }

    fn key(&self, what: &str) -> String {
        format!("baton:{{{}}}:{what}", self.role)
    }

    /// The server that has the role's keys.
    fn server(&self) -> Result<&RedisServer, NotSupported> {
        match &self.behind {
            Behind::Memory | Behind::Kubernetes(_) => Err(NotSupported::Fault),
            Behind::Redis(redis) => Ok(redis),
            Behind::Sentinels(set) => Ok(set.server(set.master())),
            Behind::Cluster(cluster) => Ok(&cluster.nodes[cluster.owners(cluster.slot_of(&self.key("lease")))[0]]),
        }
    }

    /// The rules of this store have this one.
    fn has_rule(&self, rule: impl Fn(Rules) -> bool) -> Result<(), NotSupported> {
        if rule(self.store.rules()) { Ok(()) } else { Err(NotSupported::Rule) }
    }

    /// The lease goes away without a release: an eviction, a DEL, a step of the store's clock; or somebody empties the
    /// object by hand.
    fn evict_lease(&self) -> Result<(), NotSupported> {
        if let Behind::Kubernetes(api) = &self.behind {
            api.edit(&format!("baton-{}", self.role), |lease| lease["spec"]["holderIdentity"] = "".into());
            return Ok(());
        }
        assert_eq!(self.server()?.command(&["DEL", &self.key("lease")]), Reply::Number(1));
        Ok(())
    }

    /// Everything about the role is gone: FLUSHALL.
    fn forget(&self) -> Result<(), NotSupported> {
        if let Behind::Kubernetes(api) = &self.behind {
            assert!(api.delete(&format!("baton-{}", self.role)));
            return Ok(());
        }
        self.server()?.command(&["DEL", &self.key("lease"), &self.key("record")]);
        Ok(())
    }

    /// The store takes the lease for longer than it is: its clock was stepped back.
    fn stretch_lease(&self) -> Result<(), NotSupported> {
        let stretched = self.server()?.command(&["PEXPIRE", &self.key("lease"), "9000000"]);
        assert_eq!(stretched, Reply::Number(1));
        Ok(())
    }

    /// Another server process has the data from now on: a restart, or a failover to a replica that has everything.
    async fn another_server(&mut self) -> Result<(), NotSupported> {
        let mark = format!("mark:{{{}}}", self.role);
        if !matches!(self.behind, Behind::Redis(_)) {
            let server = self.server()?;
            server.command(&["SET", &mark, "1"]);
            assert!(server.command(&["WAIT", "1", "10000"]).number() >= 1, "a replica has all of it");
        }
        let slot_key = self.key("lease");
        match &mut self.behind {
            Behind::Memory | Behind::Kubernetes(_) => return Err(NotSupported::Fault),
            Behind::Redis(redis) => redis.restart(Data::Kept),
            Behind::Sentinels(set) => {
                let old = set.master();
                set.fail_over().await;
                set.switched_from(old).await;
                set.settled().await;
            }
            Behind::Cluster(cluster) => {
                let slot = cluster.slot_of(&slot_key);
                wait_until(PATIENCE, "the replica is fit to take over", || cluster.owners(slot).len() == 2).await;
                let owners = cluster.owners(slot);
                let begun = cluster.nodes[owners[1]].command(&["CLUSTER", "FAILOVER"]);
                assert_eq!(begun, Reply::Text("OK".to_owned()));
                cluster.moved_from(owners[0], slot).await;
            }
        }
        wait_until_async(PATIENCE, "the store answers again", async || {
            // A session that asks for a role's release which it never had changes nothing.
            self.store.release(&self.role, giving_back(99, 1, Token::NONE)).await.is_ok()
        })
        .await;
        Ok(())
    }

    async fn campaign(&self, request: CampaignRequest) -> CampaignReply {
        self.store.campaign(&self.role, request).await.expect("an answer").reply
    }

    async fn renew(&self, request: RenewRequest) -> RenewReply {
        self.store.renew(&self.role, request).await.expect("an answer").reply
    }

    async fn release(&self, request: ReleaseRequest) -> ReleaseReply {
        self.store.release(&self.role, request).await.expect("an answer").reply
    }

    async fn win(&self, request: CampaignRequest) -> (Token, u64) {
        match self.campaign(request).await {
            CampaignReply::Granted { token, count } => (token, count),
            other => panic!("not granted: {other:?}"),
        }
    }

    /// A term under R5, on a server that may have started just now: the guard of a short lease is over soon.
    async fn win_guarded(&self, session: u128, lease: Duration) -> (Token, u64) {
        let (mut won, mut knowledge) = (None, None);
        wait_until_async(PATIENCE, "the guard of a young server ends", async || {
            match self.campaign(CampaignRequest { lease_duration: lease, knowledge, ..ask(session, 1) }).await {
                CampaignReply::Granted { token, count } => won = Some((token, count)),
                CampaignReply::Guarded { cause: GuardCause::Empty, token, count, .. }
                | CampaignReply::LookAgain { token, count } => knowledge = knows((token, count), ms(0)),
                other => panic!("{other:?}"),
            }
            won.is_some()
        })
        .await;
        won.expect("waited for")
    }

    /// A term of the lease that the cases use, which the store knows to be renewed by this server process.
    async fn win_and_renew(&self, session: u128) -> (Token, u64) {
        let (token, _) = self.win_guarded(session, LEASE / 60).await;
        match self.renew(renewal(session, 1, token)).await {
            RenewReply::Renewed { count, .. } => (token, count),
            RenewReply::Lost { .. } => panic!("lost within a second: the machine is too busy for this test"),
        }
    }
}

type Outcome = Result<(), NotSupported>;

async fn r1_a_free_role_is_granted_and_a_held_one_names_its_holder(place: &mut Place) -> Outcome {
    let (token, count) = place.win(unguarded(1, 1)).await;
    match place.campaign(unguarded(2, 1)).await {
        CampaignReply::Held { holder, token: theirs, remaining, count: c } => {
            assert_eq!((&*holder.identity, holder.session), ("web-1", SessionId::from_u128(1)));
            assert_eq!((theirs, c), (token, count));
            assert!(remaining <= LEASE && remaining > LEASE / 2, "{remaining:?}");
        }
        other => panic!("{other:?}"),
    }
    Ok(())
}

async fn r1_the_same_attempt_gets_the_same_token_and_a_newer_one_a_new_term(place: &mut Place) -> Outcome {
    let (first, count) = place.win(unguarded(1, 1)).await;
    assert_eq!(place.win(unguarded(1, 1)).await, (first, count + 1));
    let (second, _) = place.win(unguarded(1, 2)).await;
    assert!(second > first);
    let stale = place.campaign(unguarded(1, 1)).await;
    assert!(matches!(stale, CampaignReply::Stale { token, .. } if token == second), "{stale:?}");
    let holder = Some(Holder { session: SessionId::from_u128(1), identity: Arc::from("web-1") });
    assert_eq!(place.renew(renewal(1, 1, first)).await, RenewReply::Lost { token: second, holder });
    Ok(())
}

async fn r1_the_same_attempt_gets_the_same_token_although_its_lease_is_gone(place: &mut Place) -> Outcome {
    let (token, count) = place.win(unguarded(1, 1)).await;
    place.evict_lease()?;
    assert_eq!(place.win(ask(1, 1)).await, (token, count + 1));
    Ok(())
}

async fn r1_a_campaign_that_was_delayed_past_its_release_is_stale(place: &mut Place) -> Outcome {
    let (token, _) = place.win(unguarded(1, 1)).await;
    assert_eq!(place.release(giving_back(1, 1, token)).await, ReleaseReply::Released);
    assert!(matches!(place.campaign(unguarded(1, 1)).await, CampaignReply::Stale { .. }));
    place.win(unguarded(2, 1)).await;
    Ok(())
}

async fn r2_a_lease_lasts_for_as_long_as_was_asked_counted_from_the_request(place: &mut Place) -> Outcome {
    let lease = ms(300);
    let sent_at = BootClock.now();
    place.win(CampaignRequest { lease_duration: lease, ..unguarded(1, 1) }).await;
    wait_until_async(PATIENCE, "the lease is over", async || {
        matches!(place.campaign(unguarded(2, 1)).await, CampaignReply::Granted { .. })
    })
    .await;
    let lasted = BootClock.now().since(sent_at);
    assert!(lasted >= lease, "a deadline within the lease was passed over: {lasted:?}");
    Ok(())
}

async fn r3_tokens_rise_above_the_record_the_floor_and_the_clock(place: &mut Place) -> Outcome {
    let before = u64::try_from(wall_time().as_microsecond()).expect("after 1970");
    let stamped = place.store.campaign(&place.role, unguarded(1, 1)).await.expect("an answer");
    let CampaignReply::Granted { token, .. } = stamped.reply else { panic!("{stamped:?}") };
    match place.behind {
        // Its server has no clock to ask: the clock is the replica's.
        Behind::Kubernetes(_) => assert!(token.get() > before),
        _ => assert_eq!(token.get(), stamped.store_time.0 + 1),
    }
    let floor = Token::new(token.get() + 1_000_000_000_000_000).expect("below 2^53");
    let (second, _) = place.win(CampaignRequest { floor, ..unguarded(1, 2) }).await;
    assert_eq!(second.get(), floor.get() + 1);
    assert_eq!(place.win(unguarded(1, 3)).await.0.get(), floor.get() + 2);
    Ok(())
}

async fn r3_the_last_token_is_never_exceeded(place: &mut Place) -> Outcome {
    let floor = Token::new(Token::LIMIT - 1).expect("below 2^53");
    let refused = place.store.campaign(&place.role, CampaignRequest { floor, ..unguarded(1, 1) }).await;
    assert!(matches!(refused, Err(StoreError::Refused { reason }) if reason.contains("2^53")));
    place.win(unguarded(2, 1)).await;
    Ok(())
}

async fn r4_an_incumbent_puts_its_lease_back_and_keeps_its_token(place: &mut Place) -> Outcome {
    let (token, count) = place.win(unguarded(1, 1)).await;
    let mut last = count;
    for fault in [Place::evict_lease, Place::forget] {
        fault(place)?;
        match place.renew(RenewRequest { count: last, ..renewal(1, 1, token) }).await {
            RenewReply::Renewed { count, reasserted: true, .. } => {
                assert!(count > last, "counts go on rising");
                last = count;
            }
            other => panic!("{other:?}"),
        }
        assert!(matches!(place.campaign(ask(2, 1)).await, CampaignReply::Held { token: t, .. } if t == token));
    }
    Ok(())
}

async fn r4_a_released_term_is_not_put_back(place: &mut Place) -> Outcome {
    let (token, _) = place.win(unguarded(1, 1)).await;
    assert_eq!(place.release(giving_back(1, 1, token)).await, ReleaseReply::Released);
    assert_eq!(place.renew(renewal(1, 1, token)).await, RenewReply::Lost { token, holder: None });
    Ok(())
}

async fn r4_r5_another_server_keeps_the_incumbent_and_guards_the_role_as_generation(place: &mut Place) -> Outcome {
    place.has_rule(|rules| rules.generation)?;
    let (token, _) = place.win_and_renew(1).await;
    place.another_server().await?;
    assert!(matches!(place.renew(renewal(1, 1, token)).await, RenewReply::Renewed { .. }), "the incumbent stays");
    assert_eq!(place.release(giving_back(1, 1, token)).await, ReleaseReply::Released);
    match place.campaign(ask(2, 1)).await {
        CampaignReply::Guarded { cause: GuardCause::Generation, remaining, token: t, .. } => {
            assert_eq!(t, token);
            assert!(remaining <= LEASE && remaining > LEASE / 2, "{remaining:?}");
        }
        other => panic!("{other:?}"),
    }
    assert!(place.win(unguarded(3, 1)).await.0 > token, "guard: off does not wait");
    Ok(())
}

async fn r5_a_young_server_that_knows_nothing_guards_the_role_as_empty(place: &mut Place) -> Outcome {
    if let Behind::Memory = place.behind {
        return Err(NotSupported::Fault);
    }
    // Longer than any test runs.
    let lease = Duration::from_secs(3600);
    let request = CampaignRequest { knowledge: knows(NOTHING, ms(0)), lease_duration: lease, ..ask(1, 1) };
    match place.campaign(request).await {
        CampaignReply::Guarded { cause: GuardCause::Empty, remaining, .. } => {
            assert!(remaining <= lease && remaining > lease / 2, "{remaining:?}");
        }
        other => panic!("{other:?}"),
    }
    Ok(())
}

async fn r5_a_record_below_the_floor_guards_the_role_as_regression(place: &mut Place) -> Outcome {
    let (token, _) = place.win_guarded(1, ms(100)).await;
    place.release(giving_back(1, 1, token)).await;
    let floor = Token::new(token.get() + 5_000_000).expect("below 2^53");
    match place.campaign(CampaignRequest { floor, ..ask(2, 1) }).await {
        CampaignReply::Guarded { cause: GuardCause::Regression, token: t, .. } => {
            assert_eq!(t, token, "of the last term");
        }
        other => panic!("{other:?}"),
    }
    let (next, _) = place.win(unguarded(3, 1)).await;
    assert!(next > floor, "the store learned the floor: {next}");
    Ok(())
}

async fn r5_a_lease_that_is_gone_without_a_release_guards_the_role_as_vanished(place: &mut Place) -> Outcome {
    place.has_rule(|rules| rules.vanished)?;
    let (token, count) = place.win_and_renew(1).await;
    place.evict_lease()?;
    let looks = place.campaign(ask(2, 1)).await;
    assert!(matches!(looks, CampaignReply::LookAgain { count: c, .. } if c == count), "who knows nothing looks again");
    let early = CampaignRequest { knowledge: knows((token, count - 1), LEASE * 5 / 4 - ms(1)), ..ask(2, 1) };
    let late = CampaignRequest { knowledge: knows((token, count - 1), LEASE * 5 / 4), ..ask(3, 1) };
    for request in [early, late] {
        let guarded = place.campaign(request).await;
        assert!(matches!(guarded, CampaignReply::Guarded { cause: GuardCause::Vanished, .. }), "{guarded:?}");
    }
    let renewed = place.renew(renewal(1, 1, token)).await;
    assert!(
        matches!(renewed, RenewReply::Renewed { reasserted: true, .. }),
        "the incumbent may come back: {renewed:?}"
    );
    Ok(())
}

async fn r5_a_lease_that_ran_out_and_was_not_renewed_is_free(place: &mut Place) -> Outcome {
    place.has_rule(|rules| rules.vanished)?;
    let (token, count) = place.win_and_renew(1).await;
    place.evict_lease()?;
    let (next, _) = place.win(CampaignRequest { knowledge: knows((token, count), LEASE), ..ask(2, 1) }).await;
    assert!(next > token);
    Ok(())
}

async fn r7_nobody_releases_anothers_lease(place: &mut Place) -> Outcome {
    let (token, _) = place.win(unguarded(1, 2)).await;
    let other = Token::new(token.get() - 1).expect("below 2^53");
    for wrong in
        [giving_back(2, 2, token), giving_back(1, 1, token), giving_back(1, 2, other), giving_back(1, 3, token)]
    {
        assert_eq!(place.release(wrong).await, ReleaseReply::NotHeld);
    }
    assert!(matches!(place.campaign(ask(2, 1)).await, CampaignReply::Held { .. }));
    assert_eq!(place.release(giving_back(1, 2, Token::NONE)).await, ReleaseReply::Released, "the reply never came");
    assert_eq!(place.release(giving_back(1, 2, token)).await, ReleaseReply::NotHeld);
    Ok(())
}

async fn r7_a_released_role_is_granted_at_once_to_who_knows_nothing(place: &mut Place) -> Outcome {
    let (token, _) = place.win_guarded(1, LEASE / 60).await;
    assert_eq!(place.release(giving_back(1, 1, token)).await, ReleaseReply::Released);
    assert!(place.win(ask(2, 1)).await.0 > token);
    Ok(())
}

async fn r8_grants_heartbeats_and_releases_are_heard_in_order(place: &mut Place) -> Outcome {
    let mut news = place.store.listen(&place.role);
    assert_eq!(within("the subscription", news.recv()).await, Some(News::Gap));
    let (token, granted) = place.win(unguarded(1, 1)).await;
    let RenewReply::Renewed { count: renewed, .. } = place.renew(renewal(1, 1, token)).await else { panic!("lost") };
    place.release(giving_back(1, 1, token)).await;
    for (kind, count) in [
        (AnnouncementKind::Grant, granted),
        (AnnouncementKind::Heartbeat, renewed),
        (AnnouncementKind::Release, renewed + 1),
    ] {
        let Some(News::Said(said)) = within("news", news.recv()).await else { panic!("a gap") };
        assert_eq!((said.kind, said.token, said.count), (kind, token, count));
        assert_eq!(said.holder, Holder { session: SessionId::from_u128(1), identity: Arc::from("web-1") });
    }
    Ok(())
}

async fn r8_a_holder_that_is_silent_for_its_whole_lease_is_overdue_whatever_the_ttl_says(place: &mut Place) -> Outcome {
    let (token, count) = place.win_and_renew(1).await;
    place.stretch_lease()?;
    let ask = |age| CampaignRequest { lease_duration: ms(100), knowledge: knows((token, count), age), ..ask(2, 1) };
    assert!(matches!(place.campaign(ask(LEASE - ms(1))).await, CampaignReply::Held { .. }));
    assert!(place.win(ask(LEASE)).await.0 > token);
    Ok(())
}

/// Runs every case in one place, one after the other, and says which of them it does not support.
macro_rules! suite {
    ($($case:ident),* $(,)?) => {
        async fn run_all(mut place: Place) -> Vec<&'static str> {
            let not_supported = run_each(&mut place).await;
            assert!(not_supported.iter().all(|(_, why)| matches!(why, NotSupported::Fault)), "{not_supported:?}");
            not_supported.into_iter().map(|(case, _)| case).collect()
        }

        async fn run_each(place: &mut Place) -> Vec<(&'static str, NotSupported)> {
            let mut skipped = Vec::new();
            $(
                place.another_role();
                // Told when it fails, since all cases are one test.
                eprintln!("case {}", stringify!($case));
                if let Err(why) = $case(place).await {
                    skipped.push((stringify!($case), why));
                }
            )*
            skipped
        }
    };
}

suite! {
    r5_a_young_server_that_knows_nothing_guards_the_role_as_empty,
    r1_a_free_role_is_granted_and_a_held_one_names_its_holder,
    r1_the_same_attempt_gets_the_same_token_and_a_newer_one_a_new_term,
    r1_the_same_attempt_gets_the_same_token_although_its_lease_is_gone,
    r1_a_campaign_that_was_delayed_past_its_release_is_stale,
    r2_a_lease_lasts_for_as_long_as_was_asked_counted_from_the_request,
    r3_tokens_rise_above_the_record_the_floor_and_the_clock,
    r3_the_last_token_is_never_exceeded,
    r4_an_incumbent_puts_its_lease_back_and_keeps_its_token,
    r4_a_released_term_is_not_put_back,
    r5_a_record_below_the_floor_guards_the_role_as_regression,
    r5_a_lease_that_is_gone_without_a_release_guards_the_role_as_vanished,
    r5_a_lease_that_ran_out_and_was_not_renewed_is_free,
    r7_nobody_releases_anothers_lease,
    r7_a_released_role_is_granted_at_once_to_who_knows_nothing,
    r8_grants_heartbeats_and_releases_are_heard_in_order,
    r8_a_holder_that_is_silent_for_its_whole_lease_is_overdue_whatever_the_ttl_says,
    r4_r5_another_server_keeps_the_incumbent_and_guards_the_role_as_generation,
}

#[tokio::test]
async fn every_rule_holds_in_memory_but_for_faults_that_it_cannot_have() {
    // It lives and dies with its users: nothing is ever evicted, forgotten or restarted.
    let without = [
        "r5_a_young_server_that_knows_nothing_guards_the_role_as_empty",
        "r1_the_same_attempt_gets_the_same_token_although_its_lease_is_gone",
        "r4_an_incumbent_puts_its_lease_back_and_keeps_its_token",
        "r5_a_lease_that_is_gone_without_a_release_guards_the_role_as_vanished",
        "r5_a_lease_that_ran_out_and_was_not_renewed_is_free",
        "r8_a_holder_that_is_silent_for_its_whole_lease_is_overdue_whatever_the_ttl_says",
        "r4_r5_another_server_keeps_the_incumbent_and_guards_the_role_as_generation",
    ];
    assert_eq!(run_all(Place::memory().await).await, without);
}

#[tokio::test]
async fn every_rule_holds_on_one_redis() {
    assert_eq!(run_all(Place::redis().await).await, [""; 0]);
}

#[tokio::test]
async fn every_rule_holds_behind_sentinels() {
    assert_eq!(run_all(Place::sentinels().await).await, [""; 0]);
}

#[tokio::test]
async fn every_rule_holds_in_a_cluster() {
    assert_eq!(run_all(Place::cluster().await).await, [""; 0]);
}

#[tokio::test]
async fn every_rule_of_its_own_holds_on_a_kubernetes_api() {
    use NotSupported::{Fault, Rule};
    let not_supported = run_each(&mut Place::kubernetes().await).await;
    let told: Vec<_> = not_supported.iter().map(|(case, why)| (*case, matches!(why, Rule))).collect();
    let is = |why: NotSupported| matches!(why, Rule);
    // Each candidate watches an object for a whole lease of its own; that does what these rules do elsewhere.
    let expected = [
        ("r5_a_lease_that_is_gone_without_a_release_guards_the_role_as_vanished", is(Rule)),
        ("r5_a_lease_that_ran_out_and_was_not_renewed_is_free", is(Rule)),
        // The server has no TTL, so no clock of its that could be stepped stretches a lease.
        ("r8_a_holder_that_is_silent_for_its_whole_lease_is_overdue_whatever_the_ttl_says", is(Fault)),
        ("r4_r5_another_server_keeps_the_incumbent_and_guards_the_role_as_generation", is(Rule)),
    ];
    assert_eq!(told, expected);
}
