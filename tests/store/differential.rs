//! Random operations on Redis and on the reference (`LeaseCell`): the same answers, the same announcements.
//!
//! Both sides see the same moments: the reference is told the store's clock of Redis's answer. Time passes by shifting:
//! the reference's clock goes forward, and in Redis the lease's TTL and the guard move back. A clock that is stepped
//! back is the same the other way round. So tokens, which are made from the clock, differ in value; what must agree is
//! which token is meant, and their order.

use std::collections::BTreeMap;

use baton::protocol::{Announcement, Attempt, Candidate, LeaseCell, RecordVersion, Rules, Server, StoreTime};
use baton::store::News;
use testkit::cluster::Cluster;
use testkit::profile::{Profile, Profiled};
use testkit::redis::RedisServer;
use testkit::resp::Reply;
use testkit::sentinel::SentinelSet;

use super::random::{Clock, FAR_AHEAD, LEASES_MS, PASSING_MS, Random, STEPS_MS, Spans, Tokens, Trail, shift};
use super::replication::{PATIENT, pair, with_one_ack};
use super::*;

const SEEDS: u64 = 300;
/// Where servers are behind more servers.
const SEEDS_FEW: u64 = 15;
const OPERATIONS: usize = 40;

#[derive(Clone, Debug)]
enum Operation {
    Campaign(CampaignRequest),
    Renew(RenewRequest),
    Release(ReleaseRequest),
    TimePasses(i64),
    ClockStepsBack(i64),
    LeaseVanishes,
    EverythingForgotten,
    AnotherServer,
}

/// What a store asks its server of itself.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Asker {
    /// Its generation.
    Plain,
    /// That, with replicas that acknowledge.
    Acked,
    /// Nothing (`guard: heard`).
    Heard,
}

struct Pair<'a> {
    in_cluster: bool,
    redis: &'a RedisServer,
    /// Who may ask: the same Redis, by what is asked of it.
    askers: &'a [(Asker, &'a RedisStore)],
    /// Who does now.
    asker: (Asker, &'a RedisStore),
    news: baton::base::Subscription<News>,
    role: RoleName,
    cell: LeaseCell,
    clock: Clock,
    generation: u64,
    replid: String,
    /// Redis's token to the reference's.
    tokens: Tokens,
    /// The record as the last answer told of it, and the reference's count.
    version: RecordVersion,
    count_twin: u64,
    /// How far the reference's count of the present record is ahead: a new record counts from the clock.
    count_ahead: u64,
    /// It has begun anew, and no answer has told of it yet.
    watch_began: bool,
    /// There was no record before this operation.
    is_new: bool,
    /// Since everything was forgotten.
    has_granted: bool,
    attempts: [u64; 3],
    /// The next renewal of whoever was answered last, with nothing between.
    next_renewal: Option<RenewRequest>,
    spans: Spans,
    /// How often each outcome was met, for a test that says what it has tested.
    seen: &'a mut BTreeMap<String, usize>,
}

impl Pair<'_> {
    fn key(&self, what: &str) -> String {
        format!("baton:{{{}}}:{what}", self.role)
    }

    fn saw(&mut self, outcome: impl std::fmt::Debug) {
        let name = format!("{outcome:?}");
        let name = name.split([' ', '(']).next().unwrap_or_default().trim_matches('"').to_owned();
        *self.seen.entry(name).or_default() += 1;
    }

    /// The reference's count for one that was made from the last count.
    fn twin_count(&self, count: u64) -> u64 {
        (self.count_twin + count).saturating_sub(self.version.count)
    }

    /// The first count that is told of a new one: from here on both count alike again.
    fn align(&mut self, redis: u64, reference: u64) {
        if std::mem::take(&mut self.watch_began) {
            self.count_ahead = reference.wrapping_sub(redis);
        }
    }

    /// Both records are of the same version, as far as it was told.
    fn same_version(&mut self, redis: RecordVersion, reference: RecordVersion) {
        self.tokens.same(redis.token, reference.token);
        self.align(redis.count, reference.count);
        assert_eq!((redis.count.wrapping_add(self.count_ahead), redis.writer), (reference.count, reference.writer));
        (self.version, self.count_twin) = (redis, reference.count);
    }

    fn wrote(&mut self, writer: SessionId, (token, count): (Token, u64), (token_twin, count_twin): (Token, u64)) {
        let of = |token, count| RecordVersion { token, count, writer: Some(writer) };
        self.same_version(of(token, count), of(token_twin, count_twin));
    }

    fn choose(&mut self, random: &mut Random) -> Operation {
        let session = random.below(3);
        let latest = &mut self.attempts[usize::try_from(session).expect("small")];
        let is_campaign = random.one_in(2);
        if is_campaign && random.one_in(2) {
            *latest += 1;
        }
        let attempt = if random.one_in(6) { latest.saturating_sub(1) } else { *latest };
        let candidate = candidate(u128::from(session) + 1, attempt);
        let identity: Arc<str> = Arc::from(format!("web {session}"));
        let lease_duration = ms(random.pick(&LEASES_MS));
        let guard = !random.one_in(6);
        let known = self.tokens.known();
        let audience = u32::try_from(random.below(5)).expect("small");
        if is_campaign {
            let mut floor = if random.one_in(3) { random.pick(&known) } else { Token::NONE };
            let latest = *known.last().expect("zero is known");
            if random.one_in(12) && latest.get() < Token::LIMIT - 2 * FAR_AHEAD {
                floor = self.tokens.far_ahead();
            }
            let knowledge = (!random.one_in(2)).then(|| KnownRecord {
                version: RecordVersion {
                    token: if random.one_in(6) { random.pick(&known) } else { self.version.token },
                    count: (self.version.count + 1).saturating_sub(random.pick(&[0, 1, 1, 1, 2])),
                    writer: if random.one_in(6) { Some(candidate.session) } else { self.version.writer },
                },
                age: lease_duration * random.pick(&[0, 2, 3, 4, 5, 8]) / 4,
                unchanged_for: lease_duration * random.pick(&[0, 3, 4, 8]) / 4,
                remaining: lease_duration * random.pick(&[0, 0, 2]) / 4,
            });
            let request =
                CampaignRequest { candidate, identity, lease_duration, floor, knowledge, released: None, guard };
            return Operation::Campaign(request);
        }
        if let Some(request) = self.next_renewal.clone().filter(|_| random.one_in(3)) {
            let audience = request.audience + 1;
            return Operation::Renew(RenewRequest { audience, ..request });
        }
        match random.below(24) {
            0..=8 => {
                let token = random.pick(&known[known.len().saturating_sub(3)..]);
                let count = (self.version.count + 1).saturating_sub(random.pick(&[0, 1, 1, 1, 2]));
                Operation::Renew(RenewRequest { candidate, identity, token, count, lease_duration, audience, guard })
            }
            9..=12 => {
                let token = if random.one_in(3) { Token::NONE } else { *known.last().expect("zero is known") };
                let attempt = if random.one_in(4) { Attempt::ANY } else { candidate.attempt };
                let candidate = Candidate { attempt, ..candidate };
                Operation::Release(ReleaseRequest { candidate, token, audience })
            }
            13..=16 => Operation::TimePasses(random.pick(&PASSING_MS)),
            17..=20 => Operation::LeaseVanishes,
            21 => Operation::EverythingForgotten,
            22 => Operation::ClockStepsBack(random.pick(&STEPS_MS)),
            _ => Operation::AnotherServer,
        }
    }

    /// The record's generation, and until when a regression shuts it.
    fn marks(&self) -> Option<(String, String)> {
        let record = self.key("record");
        match self.redis.command(&["HMGET", &record, "generation", "guard_cause", "guard_until"]) {
            Reply::List(fields) if fields[0] != Reply::Nil => {
                let [generation, cause, until] = [0, 1, 2].map(|at| fields[at].clone().text());
                Some((generation, if cause == "regression" { until } else { String::new() }))
            }
            _ => None,
        }
    }

    /// The record's count began anew, with the record, another generation, or a regression: further on, or at the
    /// clock, which the reference has let pass and Redis not.
    fn note_watch(&mut self, before: Option<(String, String)>) {
        let Some((generation, regression)) = self.marks() else { return };
        let (generation_before, regression_before) = before.unwrap_or_default();
        let is_shut = !regression.is_empty() && regression != regression_before;
        if generation != generation_before || is_shut || self.is_new {
            self.watch_began = true;
        }
    }

    fn server<'s>(&self, generation: &'s str, store_time: StoreTime) -> Server<'s> {
        Server { now: self.clock.shown(store_time), uptime: Duration::ZERO, generation }
    }

    async fn apply(&mut self, operation: &Operation) {
        // It begins as the server's own does: by that a count differs from other servers' when a watch begins.
        let generation = match self.asker.0 {
            Asker::Plain => format!("{} {}", self.replid, self.generation),
            Asker::Acked => format!("{} {}/1", self.replid, self.generation),
            Asker::Heard => String::new(),
        };
        match operation {
            Operation::Campaign(request) => self.campaign(request, &generation).await,
            Operation::Renew(request) => self.renew(request, &generation).await,
            Operation::Release(request) => {
                let asked = self.asker.1.release(&self.role, request.clone());
                let answer = self.spans.timed(asked).await.expect("an answer");
                let server = self.server(&generation, answer.store_time);
                let twin = ReleaseRequest { token: self.tokens.twin(request.token), ..request.clone() };
                let (expected, said) = self.cell.release(server, &twin);
                assert_eq!(answer.reply, expected);
                self.saw(expected);
                self.heard(said).await;
            }
            Operation::TimePasses(span_ms) => self.pass(*span_ms),
            // Or what is made from the clock could be from before what was known and is forgotten.
            Operation::ClockStepsBack(span_ms) if self.has_granted => self.step_back(*span_ms, &generation).await,
            Operation::ClockStepsBack(_) => {}
            Operation::LeaseVanishes => {
                self.redis.command(&["DEL", &self.key("lease")]);
                self.cell.evict_lease();
            }
            Operation::EverythingForgotten => {
                self.pass(self.clock.behind_ms());
                self.redis.command(&["DEL", &self.key("lease"), &self.key("record")]);
                self.cell.forget();
                self.has_granted = false;
            }
            Operation::AnotherServer => {
                self.generation += 1;
                // One that nobody has marked is of no server. It begins as before: see above.
                if self.marks().is_some_and(|(generation, _)| !generation.is_empty()) {
                    let another = format!("{}another", self.replid);
                    self.redis.command(&["HSET", &self.key("record"), "generation", &another]);
                }
            }
        }
    }

    async fn campaign(&mut self, request: &CampaignRequest, generation: &str) {
        let before = self.marks();
        self.is_new = before.is_none();
        let asked = self.asker.1.campaign(&self.role, request.clone());
        let answer = self.spans.timed(asked).await.expect("an answer");
        self.note_watch(before);
        let server = self.server(generation, answer.store_time);
        let knowledge = request.knowledge.map(|known| KnownRecord {
            version: RecordVersion {
                token: self.tokens.twin(known.version.token),
                count: self.twin_count(known.version.count),
                ..known.version
            },
            ..known
        });
        let twin = CampaignRequest { floor: self.tokens.twin(request.floor), knowledge, ..request.clone() };
        let (expected, said) = self.cell.campaign(server, &twin).expect("tokens are left");
        self.has_granted |= matches!(expected, CampaignReply::Granted { .. });
        match &expected {
            CampaignReply::Guarded { cause, .. } => self.saw(cause.as_str()),
            other => self.saw(other),
        }
        use CampaignReply::{Granted, Guarded, Held, LookAgain, Stale};
        match (answer.reply, expected) {
            (Granted { token, count }, Granted { token: t, count: c })
            | (Stale { token, count }, Stale { token: t, count: c }) => {
                self.wrote(request.candidate.session, (token, count), (t, c));
            }
            (LookAgain { version, span }, LookAgain { version: v, span: s }) => {
                self.same_version(version, v);
                assert_eq!(span, s);
            }
            (Held { holder, token, remaining, version }, Held { holder: h, token: t, remaining: r, version: v }) => {
                self.tokens.same(token, t);
                self.same_version(version, v);
                assert_eq!(holder, h);
                self.spans.assert_same(remaining, r);
            }
            (Guarded { cause, remaining, version }, Guarded { cause: k, remaining: r, version: v }) => {
                self.same_version(version, v);
                assert_eq!(cause, k);
                self.spans.assert_same(remaining, r);
            }
            (redis, reference) => panic!("Redis: {redis:?}; the reference: {reference:?}"),
        }
        self.heard(said).await;
    }

    async fn renew(&mut self, request: &RenewRequest, generation: &str) {
        let before = self.marks();
        self.is_new = before.is_none();
        // A new record counts from the clock, of which the reference's has passed and Redis's has not: a count that
        // watches have brought ahead of the one is behind the other. So it is behind both.
        let count = if self.is_new { request.count.saturating_sub(FAR_AHEAD) } else { request.count };
        let request = &RenewRequest { count, ..request.clone() };
        let asked = self.asker.1.renew(&self.role, request.clone());
        let answer = self.spans.timed(asked).await.expect("an answer");
        self.note_watch(before);
        let server = self.server(generation, answer.store_time);
        let (token, count) = (self.tokens.twin(request.token), self.twin_count(request.count));
        let twin = RenewRequest { token, count, ..request.clone() };
        let (expected, said) = self.cell.renew(server, &twin);
        match &expected {
            RenewReply::Renewed { reasserted: true, .. } => self.saw("reasserted"),
            other => self.saw(other),
        }
        if let RenewReply::Renewed { count, .. } = answer.reply {
            self.next_renewal = Some(RenewRequest { count, ..request.clone() });
        }
        match (answer.reply, expected) {
            (
                RenewReply::Renewed { count, reasserted, audience },
                RenewReply::Renewed { count: c, reasserted: r, .. },
            ) => {
                assert_eq!(reasserted, r);
                self.wrote(request.candidate.session, (request.token, count), (token, c));
                // A cluster counts those who listen at the same node.
                assert!(audience == 1 || (self.in_cluster && audience == 0), "this test listens: {audience}");
            }
            (RenewReply::Lost { token, holder }, RenewReply::Lost { token: t, holder: h }) => {
                self.tokens.same(token, t);
                assert_eq!(holder, h);
            }
            (redis, reference) => panic!("Redis: {redis:?}; the reference: {reference:?}"),
        }
        self.heard(said).await;
    }

    /// What is published next is what the reference publishes. That nothing is published when it should not be shows at
    /// the next message.
    async fn heard(&mut self, expected: Option<Announcement>) {
        let Some(expected) = expected else { return };
        let news = within("the announcement is heard", self.news.recv()).await.expect("the store lives");
        let News::Said(said) = news else { panic!("{news:?}, expected {expected:?}") };
        self.tokens.same(said.token, expected.token);
        self.align(said.count, expected.count);
        let count = said.count.wrapping_add(self.count_ahead);
        assert_eq!(Announcement { count, ..(*said).clone() }, Announcement { token: said.token, ..expected });
    }

    async fn step_back(&mut self, span_ms: i64, generation: &str) {
        self.saw("StepBack");
        let is_held = |pair: &Self| pair.redis.command(&["EXISTS", &pair.key("lease")]) == Reply::Number(1);
        if !is_held(self) {
            // It has run out, and is gone.
            self.cell.evict_lease();
        }
        self.pass(-span_ms);
        if is_held(self) {
            // The server cuts a lease at every look, and the reference when somebody asks for the role.
            let stranger = CampaignRequest { lease_duration: ms(LEASES_MS[0]), ..ask(99, 1) };
            self.campaign(&stranger, generation).await;
        }
    }

    fn pass(&mut self, span_ms: i64) {
        self.clock.pass(span_ms);
        shift(self.redis, &self.key("lease"), &self.key("record"), span_ms);
    }
}

async fn run(redis: &RedisServer, askers: &[(Asker, &RedisStore)], seed: u64, seen: &mut BTreeMap<String, usize>) {
    let in_cluster = redis.command(&["INFO", "server"]).text().contains("_mode:cluster");
    let role = RoleName::new(format!("seed-{seed}")).expect("a DNS label");
    let mut news = askers[0].1.subscribe(&role, None);
    assert_eq!(within("the subscription", news.recv()).await, Some(News::Gap));
    let mut pair = Pair {
        in_cluster,
        redis,
        askers,
        asker: askers[0],
        news,
        role,
        cell: LeaseCell::new(Rules::REDIS),
        clock: Clock::default(),
        generation: 0,
        replid: redis.command(&["INFO", "replication"]).text().split("master_replid:").nth(1).expect("told")[..4]
            .to_owned(),
        tokens: Tokens::new(),
        version: NOTHING,
        count_twin: 0,
        count_ahead: 0,
        watch_began: false,
        is_new: true,
        has_granted: false,
        attempts: [0; 3],
        next_renewal: None,
        spans: Spans::default(),
        seen,
    };
    let mut random = Random(fastrand::Rng::with_seed(seed));
    let mut trail = Trail { seed, operations: Vec::new() };
    for _ in 0..OPERATIONS {
        let operation = pair.choose(&mut random);
        trail.operations.push(operation.clone());
        if pair.askers.len() > 1 {
            pair.asker = random.pick(pair.askers);
        }
        pair.apply(&operation).await;
    }
}

/// Where acknowledgements are being switched on some ask for them and others do not yet.
#[tokio::test]
async fn random_operations_have_the_same_outcomes_with_acknowledgements_and_without() {
    let (master, _replica) = pair().await;
    let (plain, acked) =
        (connected(&master.url()).await, store_with(&with_one_ack(&master.url(), AckMode::Wait, PATIENT)));
    until_up(&acked).await;
    let mut seen = BTreeMap::new();
    for seed in 0..SEEDS_FEW {
        run(&master, &[(Asker::Plain, &plain), (Asker::Acked, &acked)], seed, &mut seen).await;
    }
    assert!(seen.get("generation").is_some_and(|times| *times >= 20), "{seen:?}");
}

#[tokio::test]
async fn random_operations_have_the_same_outcomes_where_nobody_asks_which_server_it_is() {
    let redis = RedisServer::start();
    let store = heard(&redis.url()).await;
    let mut seen = BTreeMap::new();
    for seed in 0..SEEDS / 3 {
        run(&redis, &[(Asker::Heard, &store)], seed, &mut seen).await;
    }
    assert!(!seen.contains_key("generation"), "{seen:?}");
    for outcome in ["Granted", "LookAgain", "empty", "regression", "vanished", "reasserted", "Lost"] {
        assert!(seen.get(outcome).is_some_and(|times| *times >= 20), "{outcome} was hardly met: {seen:?}");
    }
}

/// While replicas go from one level to another some ask and others do not.
#[tokio::test]
async fn random_operations_have_the_same_outcomes_where_some_ask_which_server_it_is() {
    let redis = RedisServer::start();
    let (plain, unasked) = (connected(&redis.url()).await, heard(&redis.url()).await);
    let mut seen = BTreeMap::new();
    for seed in 0..SEEDS / 3 {
        run(&redis, &[(Asker::Plain, &plain), (Asker::Heard, &unasked)], seed, &mut seen).await;
    }
    assert!(seen.get("generation").is_some_and(|times| *times >= 20), "{seen:?}");
}

#[tokio::test]
async fn random_operations_have_the_same_outcomes_behind_sentinels() {
    let set = SentinelSet::start().await;
    let store = connected(&set.url()).await;
    for seed in 0..SEEDS_FEW {
        run(set.server(set.master()), &[(Asker::Plain, &store)], seed, &mut BTreeMap::new()).await;
    }
}

/// However much of it each of them wants to know.
#[tokio::test]
async fn random_operations_have_the_same_outcomes_where_scripts_are_told_which_server_it_is() {
    let (master, _replica) = pair().await;
    let proxy = Profiled::start(master.port(), Profile::MUTE).await;
    let (plain, unasked) = (connected(&proxy.url()).await, heard(&proxy.url()).await);
    let acked = store_with(&with_one_ack(&proxy.url(), AckMode::Wait, PATIENT));
    until_up(&acked).await;
    let mut seen = BTreeMap::new();
    for seed in 0..SEEDS_FEW {
        run(&master, &[(Asker::Plain, &plain)], seed, &mut seen).await;
        run(
            &master,
            &[(Asker::Plain, &plain), (Asker::Acked, &acked), (Asker::Heard, &unasked)],
            SEEDS_FEW + seed,
            &mut seen,
        )
        .await;
    }
    assert!(seen.get("generation").is_some_and(|times| *times >= 20), "{seen:?}");
}

#[tokio::test]
async fn random_operations_have_the_same_outcomes_in_a_cluster() {
    let cluster = Cluster::start(&[]).await;
    let store = connected(&cluster.url()).await;
    for seed in 0..SEEDS_FEW {
        let slot = cluster.slot_of(&format!("baton:{{seed-{seed}}}:lease"));
        run(&cluster.nodes[cluster.owners(slot)[0]], &[(Asker::Plain, &store)], seed, &mut BTreeMap::new()).await;
    }
}

#[tokio::test]
async fn random_operations_have_the_same_outcomes_on_redis_and_on_the_reference() {
    let redis = RedisServer::start();
    let store = connected(&redis.url()).await;
    let mut seen = BTreeMap::new();
    for seed in 0..SEEDS {
        run(&redis, &[(Asker::Plain, &store)], seed, &mut seen).await;
    }
    for outcome in [
        "Granted",
        "Held",
        "LookAgain",
        "Stale",
        "generation",
        "empty",
        "regression",
        "vanished",
        "Renewed",
        "reasserted",
        "Lost",
        "Released",
        "NotHeld",
        "StepBack",
    ] {
        assert!(seen.get(outcome).is_some_and(|times| *times >= 50), "{outcome} was hardly met: {seen:?}");
    }
}
