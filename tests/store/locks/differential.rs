//! Random operations on Redis and on the reference (`LockSpace`): the same answers, the same wakes.
//!
//! Both sides see the same moments, but for what a command takes: the reference is told Redis's clock before each
//! operation. Time passes by shifting: the reference's clock goes forward, and in Redis every stored moment moves back.
//! A clock that is stepped back is the same the other way round. So tokens, which are made from the clock, differ in
//! value; what must agree is which token is meant, and their order.

use std::collections::{BTreeMap, VecDeque};

use baton::base::Subscription;
use baton::protocol::{LockHolder, LockInsight, LockSpace, Server, StoreTime, TURN_MAX, TurnSeat, Unlocked, Wake};
use testkit::cluster::Cluster;
use testkit::profile::{Profile, Profiled};
use testkit::redis::RedisServer;
use testkit::resp::Reply;
use testkit::sentinel::SentinelSet;

use super::super::random::{Clock, Tokens, Trail};
use super::super::{calls, connected, heard, ms, now_us};
use super::*;

const SEEDS: u64 = 300;
/// Where servers are behind more servers.
const SEEDS_FEW: u64 = 15;
const OPERATIONS: usize = 85;
/// Longer than the test, so that nothing ends between the two sides' looks at it.
const LEASES_MS: [u64; 2] = [600_000, 1_200_000];
const GUARD_MS: u64 = 560_000;
/// Spans that stay clear of a ticket's five seconds by three seconds, more than a run takes on a busy machine, and
/// whose sums stay clear of the leases and the guard, which the server's age is part of, by minutes.
const PASSING_MS: [i64; 5] = [8_043, 8_043, 16_111, 310_270, 610_510];
/// By how much a clock is stepped back: more than passes in a run, so that no sum comes near anything.
const STEP_MS: i64 = 20_000_000;
/// Clear of what spans add up to by four seconds, and less than any lease.
const AT_LEAST_MS: u64 = 100_600;
/// What a command takes at most; less than any span.
const ROUNDING: Duration = Duration::from_millis(2_500);
/// Redis tells its age in whole seconds.
const GUARD_ROUNDING: Duration = Duration::from_millis(3_500);
const SESSIONS: u128 = 3;
const NAMES: [&str; 3] = ["a", "b 2", "ç/3"];
const KEYS: &str = "baton:{locks}:";

/// Moves every stored moment back by ARGV[1] microseconds.
const SHIFT: &str = include_str!("shift.lua");

#[derive(Clone, Debug)]
enum Operation {
    Acquire(AcquireRequest),
    Extend(ExtendRequest),
    Release(LockReleaseRequest),
    Cancel(CancelRequest),
    Beat(SessionId),
    Inspect(LockName),
    Unlock(UnlockRequest),
    Names,
    TimePasses(i64),
    ClockStepsBack,
    EverythingForgotten,
    AnotherServer,
}

struct Pair<'a> {
    redis: &'a RedisServer,
    store: &'a RedisStore,
    /// It does not ask its server which it is (`guard: heard`).
    is_unasked: bool,
    wakes: &'a mut [Subscription<WakeNews>],
    space: LockSpace,
    clock: Clock,
    generation: u64,
    /// Redis's token to the reference's.
    tokens: Tokens,
    /// The latest requests.
    recent: VecDeque<AcquireRequest>,
    requests: u128,
    rng: fastrand::Rng,
    /// How often each outcome was met, for a test that says what it has tested.
    seen: &'a mut BTreeMap<String, usize>,
}

impl Pair<'_> {
    fn saw(&mut self, outcome: impl std::fmt::Debug) {
        let name = format!("{outcome:?}");
        let name = name.split([' ', '(']).next().unwrap_or_default().trim_matches('"').to_owned();
        *self.seen.entry(name).or_default() += 1;
    }

    fn one_in(&mut self, n: u32) -> bool {
        self.rng.u32(0..n) == 0
    }

    fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.rng.usize(0..from.len())].clone()
    }

    fn new_id(&mut self) -> LockId {
        self.requests += 1;
        id(self.requests)
    }

    fn known_token(&mut self) -> Token {
        let known = self.tokens.known();
        self.pick(&known[known.len().saturating_sub(3)..])
    }

    /// One of the latest requests, or a new one.
    fn request(&mut self) -> AcquireRequest {
        if !self.recent.is_empty() && !self.one_in(3) {
            let at = self.rng.usize(0..self.recent.len());
            return self.recent[at].clone();
        }
        if let Some(last) = self.recent.front().cloned()
            && self.one_in(3)
        {
            // The same owner once more.
            let again = AcquireRequest { id: self.new_id(), ..last };
            self.recent.push_front(again.clone());
            return again;
        }
        let several = self.one_in(4);
        let names =
            if several { self.pick(&[vec![0, 1], vec![0, 2], vec![0, 1, 2]]) } else { vec![self.rng.usize(0..3)] };
        let session = session(self.rng.u128(1..=SESSIONS));
        let queueing = self.pick(&[Queueing::No, Queueing::Plain, Queueing::Fair]);
        let request = AcquireRequest {
            names: names.into_iter().map(|at| LockName::new(NAMES[at]).expect("a good name")).collect(),
            session,
            id: self.new_id(),
            owner: Arc::from(self.pick(&["worker 1", "worker 2", "", "a b  c\n"])),
            beside: None,
            identity: Arc::from(format!("web {session}")),
            lease: ms(self.pick(&LEASES_MS)),
            at_least: ms(self.pick(&[0, 0, 0, AT_LEAST_MS])),
            permits: self.pick(&[1, 1, 1, 1, 2, 2, 3]),
            floor: Token::NONE,
            queueing,
            yields: false,
            reminds: false,
            tokens: 1,
            guard: (!self.one_in(6)).then(|| ms(GUARD_MS)),
        };
        self.recent.push_front(request.clone());
        self.recent.truncate(6);
        request
    }

    /// Now and then beside a hold that there may be.
    fn beside(&mut self, request: AcquireRequest) -> AcquireRequest {
        let is_alike = |other: &&AcquireRequest| {
            let same = (&other.names, other.session, &other.owner) == (&request.names, request.session, &request.owner);
            same && other.id != request.id
        };
        let alike = self.recent.iter().filter(is_alike).map(|other| other.id).collect::<Vec<_>>();
        let beside = (!alike.is_empty() && self.one_in(2)).then(|| self.pick(&alike));
        // Whoever has waited for several names asks as a fair one; one may ask for a turn, and may stand back.
        let queueing =
            if self.one_in(4) && request.queueing == Queueing::Plain { Queueing::Fair } else { request.queueing };
        let (yields, reminds) = (self.one_in(5), self.one_in(3));
        let tokens = if self.one_in(2) { TURN_MAX } else { 1 };
        AcquireRequest { floor: self.floor(), beside, queueing, yields, reminds, tokens, ..request }
    }

    /// Now and then the turn of another request of the same names.
    fn seat(&mut self, request: &AcquireRequest) -> Option<TurnSeat> {
        let is_alike = |other: &&AcquireRequest| other.names == request.names && other.id != request.id;
        let alike = self.recent.iter().filter(is_alike).map(|other| other.id).collect::<Vec<_>>();
        let served = if self.one_in(2) { alike.clone() } else { Vec::new() };
        (!alike.is_empty() && self.one_in(2)).then(|| TurnSeat { id: self.pick(&alike), served })
    }

    /// Its own, as a rule.
    fn session_for(&mut self, request: &AcquireRequest) -> SessionId {
        if self.one_in(5) { session(self.rng.u128(1..=SESSIONS)) } else { request.session }
    }

    fn floor(&mut self) -> Token {
        if self.one_in(30) {
            return self.tokens.far_ahead();
        }
        if self.one_in(3) { self.known_token() } else { Token::NONE }
    }

    fn choose(&mut self) -> Operation {
        let request = self.request();
        match self.rng.u32(0..43) {
            0..=16 => Operation::Acquire(self.beside(request)),
            17..=21 => {
                let (seat, session) = (self.seat(&request), self.session_for(&request));
                let restore = self.one_in(2).then(|| {
                    let AcquireRequest { owner, lease, .. } = request.clone();
                    // As its sidecar is called: the holds of one owner have one name.
                    let identity = Arc::from(format!("web {session}"));
                    let permits = if self.one_in(6) { 2 } else { request.permits };
                    let (one, other) = (self.known_token(), self.known_token());
                    let (token, last) = (one.min(other), one.max(other));
                    // Now and then of one that came when all this was over.
                    let latest = self.one_in(4).then(|| self.tokens.far_ahead());
                    let (token, last) = latest.map_or((token, last), |latest| (latest, latest));
                    Box::new(Restore { owner, identity, token, last, permits, lease, at_least: request.at_least })
                });
                let lease = self.one_in(2).then(|| ms(self.pick(&LEASES_MS)));
                let guard = (!self.one_in(6)).then(|| ms(GUARD_MS));
                let AcquireRequest { mut names, mut id, .. } = request;
                if restore.is_some() && self.one_in(2) {
                    // One that the store never heard of, or does not any more.
                    id = self.new_id();
                    names.truncate(1);
                }
                Operation::Extend(ExtendRequest { names, id, session, seat, lease, restore, guard })
            }
            22..=28 => {
                let (seat, session) = (self.seat(&request), self.session_for(&request));
                Operation::Release(LockReleaseRequest { names: request.names, id: request.id, session, seat })
            }
            29..=31 => {
                let AcquireRequest { names, session, id, .. } = request;
                Operation::Cancel(CancelRequest { names, session, id, keeps: self.one_in(4) })
            }
            32..=33 => Operation::Beat(session(self.rng.u128(1..=SESSIONS))),
            34 => Operation::Inspect(request.names[0].clone()),
            39 if self.one_in(2) => Operation::AnotherServer,
            39 => Operation::Names,
            40..=41 => {
                let (name, token) = (request.names[0].clone(), self.known_token());
                if token == Token::NONE { Operation::Names } else { Operation::Unlock(UnlockRequest { name, token }) }
            }
            35..=37 => Operation::TimePasses(self.pick(&PASSING_MS)),
            38 if self.one_in(3) => Operation::EverythingForgotten,
            38 => Operation::Inspect(request.names[0].clone()),
            42 => Operation::ClockStepsBack,
            _ => unreachable!("one of 43"),
        }
    }

    /// The reference's moment: Redis's clock and age, before it is asked.
    fn server<'s>(&self, generation: &'s str) -> Server<'s> {
        let info = self.redis.command(&["INFO", "server"]).text();
        let uptime = info.lines().find_map(|line| line.strip_prefix("uptime_in_seconds:")).expect("an uptime");
        let now = self.clock.shown(StoreTime(now_us(self.redis)));
        Server {
            now,
            uptime: Duration::from_secs(uptime.parse::<u64>().expect("a number").saturating_sub(1)),
            generation,
        }
    }

    async fn apply(&mut self, operation: &Operation) {
        let generation = if self.is_unasked { String::new() } else { format!("generation {}", self.generation) };
        let server = self.server(&generation);
        let said = match operation {
            Operation::Acquire(request) => self.acquire(server, request).await,
            Operation::Extend(request) => {
                self.extend(server, request).await;
                Vec::new()
            }
            Operation::Release(request) => {
                let reply = self.store.release(request.clone()).await.expect("an answer");
                let (expected, wakes) = self.space.release(server, request);
                assert_eq!(reply, expected);
                self.saw(expected);
                if request.names.iter().any(|name| self.rests(server, name, request.id)) {
                    self.saw("Rests");
                }
                wakes
            }
            Operation::Cancel(request) => {
                self.store.cancel(request.clone()).await.expect("an answer");
                self.space.cancel(server, request)
            }
            Operation::Beat(session) => {
                self.store.beat(*session).await.expect("an answer");
                self.space.beat(server, *session);
                Vec::new()
            }
            Operation::Inspect(name) => {
                let reply = self.store.inspect(name.clone()).await.expect("an answer");
                let expected = self.space.inspect(server, name);
                self.same_insight(reply, expected);
                Vec::new()
            }
            Operation::Unlock(request) => self.unlock(server, request).await,
            Operation::Names => {
                self.same_names(server).await;
                Vec::new()
            }
            Operation::TimePasses(span_ms) => self.pass(*span_ms),
            // A token that is new then would be less than those that were known before everything was forgotten.
            Operation::ClockStepsBack if !self.has_floor() => Vec::new(),
            Operation::ClockStepsBack => self.step_back(&generation).await,
            Operation::EverythingForgotten => {
                self.pass(self.clock.behind_ms());
                let keys = self.redis.command(&["KEYS", "baton:{locks}:*"]).texts();
                keys.iter().for_each(|key| drop(self.redis.command(&["DEL", key])));
                self.space.forget();
                Vec::new()
            }
            Operation::AnotherServer => {
                self.generation += 1;
                let key = format!("{KEYS}store");
                if self.redis.command(&["EXISTS", &key]) == Reply::Number(1) {
                    self.redis.command(&["HSET", &key, "generation", "another"]);
                }
                Vec::new()
            }
        };
        self.heard(said).await;
    }

    fn has_floor(&self) -> bool {
        self.redis.command(&["EXISTS", &format!("{KEYS}floor")]) == Reply::Number(1)
    }

    /// A server drops and cuts what it looks at, and so does the reference: so all is looked at, before and behind.
    async fn step_back(&mut self, generation: &str) -> Vec<Wake> {
        self.saw("StepBack");
        let names = NAMES.map(|name| LockName::new(name).expect("a good name")).to_vec();
        let (id, session_id) = (self.new_id(), session(1));
        let cancel = CancelRequest { names: names.clone(), session: session_id, id, keeps: false };
        self.store.cancel(cancel.clone()).await.expect("an answer");
        let mut wakes = self.space.cancel(self.server(generation), &cancel);
        self.pass(-STEP_MS);
        let server = self.server(generation);
        for number in 1..=SESSIONS {
            self.store.beat(session(number)).await.expect("an answer");
            self.space.beat(server, session(number));
        }
        let request = AcquireRequest { names, id, queueing: Queueing::No, permits: 1, beside: None, ..self.request() };
        self.recent.push_front(request.clone());
        wakes.extend(self.acquire(server, &request).await);
        wakes
    }

    async fn acquire(&mut self, server: Server<'_>, request: &AcquireRequest) -> Vec<Wake> {
        let reply = acquire(self.store, request.clone()).await;
        let twin = AcquireRequest { floor: self.tokens.twin(request.floor), ..request.clone() };
        let (expected, wakes) = self.space.acquire(server, &twin).expect("tokens are left");
        self.saw(&expected);
        self.same_reply(reply, expected);
        wakes
    }

    fn same_reply(&mut self, reply: AcquireReply, expected: AcquireReply) {
        use AcquireReply::{Granted, Guarded, Held, PermitsDiffer};
        match (reply, expected) {
            (Granted(grant), Granted(twin)) => {
                self.tokens.same(grant.token, twin.token);
                assert_eq!((grant.holds, grant.tokens), (twin.holds, twin.tokens));
                if grant.tokens > 1 {
                    // Of the block, too.
                    let last = |grant: LockGrant| Token::new(grant.token.get() + u64::from(grant.tokens) - 1);
                    self.tokens.same(last(grant).expect("small"), last(twin).expect("small"));
                    self.saw("Turn");
                }
                if grant.holds > 1 {
                    self.saw("Again");
                }
            }
            (Held { name, holder, ahead }, Held { name: n, holder: h, ahead: a }) => {
                assert_eq!((name, ahead), (n, a));
                assert_eq!(holder.is_some(), h.is_some());
                holder.into_iter().zip(h).for_each(|(holder, twin)| self.same_holder(&holder, &twin));
            }
            (Guarded { remaining }, Guarded { remaining: r }) => {
                assert!(remaining.abs_diff(r) < GUARD_ROUNDING, "{remaining:?} {r:?}");
            }
            (PermitsDiffer { name, permits }, PermitsDiffer { name: n, permits: p }) => {
                assert_eq!((name, permits), (n, p));
            }
            (redis, reference) => panic!("Redis: {redis:?}; the reference: {reference:?}"),
        }
    }

    async fn extend(&mut self, server: Server<'_>, request: &ExtendRequest) {
        let reply = self.store.extend(request.clone()).await.expect("an answer");
        let twin_of = |lost: &Restore| {
            Box::new(Restore { token: self.tokens.twin(lost.token), last: self.tokens.twin(lost.last), ..lost.clone() })
        };
        let restore = request.restore.as_deref().map(twin_of);
        let older = |lost: &Restore| {
            let is_older = |name| self.space.inspect(server, name).holders.iter().any(|it| it.token < lost.token);
            lost.permits == 1 && request.names.iter().any(is_older)
        };
        let had_older = restore.as_deref().is_some_and(older);
        let expected = self.space.extend(server, &ExtendRequest { restore, ..request.clone() });
        match &expected {
            ExtendReply::Extended { restored: true, .. } => self.saw(if had_older { "Overruled" } else { "Restored" }),
            ExtendReply::Extended { .. } if request.seat.is_some() => self.saw("Settled"),
            other => self.saw(other),
        }
        match (reply, expected) {
            (
                ExtendReply::Extended { token, holds, lease, restored },
                ExtendReply::Extended { token: t, holds: h, lease: l, restored: r },
            ) => {
                self.tokens.same(token, t);
                assert_eq!((holds, lease, restored), (h, l, r));
            }
            (redis, reference) => assert_eq!(redis, reference),
        }
    }

    async fn unlock(&mut self, server: Server<'_>, request: &UnlockRequest) -> Vec<Wake> {
        let reply = self.store.unlock(request.clone()).await.expect("an answer");
        let twin = UnlockRequest { token: self.tokens.twin(request.token), ..request.clone() };
        let (expected, unlocked, wakes) = self.space.unlock(server, &twin);
        match (reply, expected) {
            (UnlockReply::Unlocked { holder }, UnlockReply::Unlocked { holder: twin }) => {
                self.saw(if twin.is_some() { "Unlocked" } else { "EndedBefore" });
                assert_eq!(holder.is_some(), twin.is_some());
                holder.iter().zip(&twin).for_each(|(holder, twin)| self.same_holder(holder, twin));
            }
            (UnlockReply::Differs { holders }, UnlockReply::Differs { holders: twins }) => {
                self.saw("Differs");
                assert_eq!(holders.len(), twins.len());
                holders.iter().zip(&twins).for_each(|(holder, twin)| self.same_holder(holder, twin));
            }
            (redis, reference) => panic!("Redis: {redis:?}; the reference: {reference:?}"),
        }
        // In whatever order an owner's holds are in.
        let mut heard = Vec::new();
        for Unlocked { session: to, .. } in &unlocked {
            heard.push(self.next_for(*to).await);
        }
        for Unlocked { id, name, .. } in unlocked {
            let news = WakeNews::Unlocked { id, name };
            assert!(heard.contains(&news), "{news:?} is not in {heard:?}");
        }
        wakes
    }

    /// All that are in use, and none that was never asked for. What is refused has no record on Redis.
    async fn same_names(&mut self, server: Server<'_>) {
        let listed = super::operator::all_names(self.store).await;
        let (known, end) = self.space.names(0, NAMES.len());
        assert!(listed.iter().all(|name| known.contains(name)) && end == 0, "{listed:?} of {known:?}");
        let is_used = |name: &LockName| self.space.inspect(server, name).permits.is_some();
        let used: Vec<LockName> = known.into_iter().filter(is_used).collect();
        for name in used {
            assert!(listed.contains(&name), "{name} is not in {listed:?}");
            self.saw("Names");
        }
    }

    fn same_holder(&mut self, holder: &LockHolder, twin: &LockHolder) {
        self.tokens.same(holder.token, twin.token);
        assert_eq!((&holder.owner, &holder.identity, holder.holds), (&twin.owner, &twin.identity, twin.holds));
        let (one, other) = (holder.remaining, twin.remaining);
        assert!(one.abs_diff(other) < ROUNDING, "{one:?} {other:?}");
    }

    /// Whether a hold that was given back is still told of.
    fn rests(&self, server: Server<'_>, name: &LockName, given_back: LockId) -> bool {
        let of = |request: &AcquireRequest| request.id == given_back && !request.at_least.is_zero();
        let owner = self.recent.iter().find(|request| of(request)).map(|request| &request.owner);
        let holders = self.space.inspect(server, name).holders;
        owner.is_some_and(|owner| {
            holders.iter().any(|holder| holder.owner == *owner && holder.remaining <= ms(AT_LEAST_MS))
        })
    }

    fn same_insight(&mut self, insight: LockInsight, twin: LockInsight) {
        assert_eq!((insight.permits, insight.waiting), (twin.permits, twin.waiting));
        assert_eq!(insight.holders.len(), twin.holders.len());
        insight.holders.iter().zip(&twin.holders).for_each(|(holder, twin)| self.same_holder(holder, twin));
    }

    /// Each session hears what the reference wakes, in that order, and nothing else.
    async fn heard(&mut self, expected: Vec<Wake>) {
        expected.iter().for_each(|_| self.saw("Woken"));
        for Wake { session: to, id, name } in expected {
            assert_eq!(self.next_for(to).await, WakeNews::Wake { id, name });
        }
    }

    async fn next_for(&mut self, to: SessionId) -> WakeNews {
        let at = (1..=SESSIONS).position(|number| session(number) == to).expect("one of the sessions");
        next(&mut self.wakes[at]).await
    }

    fn pass(&mut self, span_ms: i64) -> Vec<Wake> {
        self.clock.pass(span_ms);
        let span = (span_ms * 1_000).to_string();
        let reply = self.redis.command(&[&["EVAL", SHIFT, "0", &span, KEYS], &NAMES[..]].concat());
        assert_eq!(reply, Reply::Nil);
        Vec::new()
    }
}

async fn run(
    redis: &RedisServer,
    (store, is_unasked): (&RedisStore, bool),
    wakes: &mut [Subscription<WakeNews>],
    seed: u64,
    seen: &mut BTreeMap<String, usize>,
) {
    redis.command(&["FLUSHALL"]);
    let mut pair = Pair {
        redis,
        store,
        is_unasked,
        wakes,
        space: LockSpace::new(),
        clock: Clock::default(),
        generation: 0,
        tokens: Tokens::new(),
        recent: VecDeque::new(),
        requests: 0,
        rng: fastrand::Rng::with_seed(seed),
        seen,
    };
    let mut trail = Trail { seed, operations: Vec::new() };
    for _ in 0..OPERATIONS {
        let operation = pair.choose();
        trail.operations.push(operation.clone());
        pair.apply(&operation).await;
    }
    // Nothing was said beside that: this comes next.
    for (at, wakes) in pair.wakes.iter_mut().enumerate() {
        let number = at as u128 + 1;
        let message = format!("v1 {} end of {seed}", id(number));
        redis.command(&["PUBLISH", &format!("{KEYS}wake:{}", session(number)), &message]);
        assert_eq!(next(wakes).await, wake(&format!("end of {seed}"), number));
    }
    let keys = redis.command(&["KEYS", "*"]).texts();
    for key in keys {
        assert!(redis.command(&["PTTL", &key]).number() > 0, "{key} stays for ever");
    }
}

async fn ears(store: &RedisStore) -> Vec<Subscription<WakeNews>> {
    let mut ears = Vec::new();
    for number in 1..=SESSIONS {
        ears.push(listening(store, number).await);
    }
    ears
}

#[tokio::test]
async fn random_operations_on_locks_have_the_same_outcomes_on_redis_and_on_the_reference() {
    let redis = RedisServer::start();
    let store = connected(&redis.url()).await;
    let (mut wakes, mut seen) = (ears(&store).await, BTreeMap::new());
    for seed in 0..SEEDS {
        run(&redis, (&store, false), &mut wakes, seed, &mut seen).await;
    }
    let short = calls(&redis, "hlen");
    println!("{seen:?}, {short} requests by the short ways");
    assert!(short >= 1_000, "the short ways were hardly taken");
    let met = "Granted Again Turn Settled Held Guarded PermitsDiffer Extended Restored Overruled Lost \
               Released NotHeld Woken Rests Unlocked EndedBefore Differs Names StepBack";
    for outcome in met.split(' ') {
        assert!(seen.get(outcome).is_some_and(|times| *times >= 50), "{outcome} was hardly met: {seen:?}");
    }
}

#[tokio::test]
async fn random_operations_on_locks_have_the_same_outcomes_where_nobody_asks_which_server_it_is() {
    let redis = RedisServer::start();
    few(&redis, (&heard(&redis.url()).await, true)).await;
    assert!(calls(&redis, "hlen") >= 50, "the short ways were hardly taken");
}

async fn few(redis: &RedisServer, (store, is_unasked): (&RedisStore, bool)) {
    let mut wakes = ears(store).await;
    for seed in 0..SEEDS_FEW {
        run(redis, (store, is_unasked), &mut wakes, seed, &mut BTreeMap::new()).await;
    }
}

#[tokio::test]
async fn random_operations_on_locks_have_the_same_outcomes_behind_sentinels() {
    let set = SentinelSet::start().await;
    few(set.server(set.master()), (&connected(&set.url()).await, false)).await;
}

#[tokio::test]
async fn random_operations_on_locks_have_the_same_outcomes_where_scripts_are_told_which_server_it_is() {
    let redis = RedisServer::start();
    let proxy = Profiled::start(redis.port(), Profile::MUTE).await;
    few(&redis, (&connected(&proxy.url()).await, false)).await;
}

#[tokio::test]
async fn random_operations_on_locks_have_the_same_outcomes_in_a_cluster() {
    let cluster = Cluster::start(&[]).await;
    let slot = cluster.slot_of(&format!("{KEYS}store"));
    few(&cluster.nodes[cluster.owners(slot)[0]], (&connected(&cluster.url()).await, false)).await;
}
