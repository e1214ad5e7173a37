//! Random operations on one member's scripts and on the reference (`MemberCell`): the same answers, the same
//! announcements. As in `differential`, time passes by shifting, and of tokens only identity and order must agree.

use std::collections::BTreeMap;

use baton::protocol::{
    Announcement, Candidate, LastTerm, MemberCampaignReply, MemberCell, MemberReply, MemberRequest, RaiseReply,
    RaiseRequest, RecordVersion, Rules, Server,
};
use baton::store::News;
use baton::store::quorum::QuorumMember;
use baton::store::redis::RedisMember;
use testkit::redis::RedisServer;
use testkit::resp::Reply;

use super::random::{Clock, FAR_AHEAD, LEASES_MS, PASSING_MS, Random, STEPS_MS, Spans, Tokens, Trail, shift};
use super::*;

const SEEDS: u64 = 700;
const OPERATIONS: usize = 40;

#[derive(Clone, Debug)]
enum Operation {
    /// By a replica with one of the lists.
    Ask(usize, Box<MemberRequest>),
    TimePasses(i64),
    ClockStepsBack(i64),
    LeaseVanishes,
    EverythingForgotten,
    AnotherServer,
}

/// What replicas with three lists of the members tell, and ask by: one list, a change from it to another, and that
/// other.
type Members = [(&'static str, RedisMember); 3];

struct Pair<'a> {
    redis: &'a RedisServer,
    members: &'a Members,
    news: baton::base::Subscription<News>,
    role: RoleName,
    cell: MemberCell,
    clock: Clock,
    generation: u64,
    /// Redis's token to the reference's.
    tokens: Tokens,
    /// Who was granted last, or renewed last.
    latest: (Candidate, Token),
    /// The last count that was told, and the reference's.
    count: u64,
    count_twin: u64,
    /// How far the reference's count of the present record is ahead: a new record counts from the clock.
    count_ahead: u64,
    attempts: [u64; 3],
    /// The next renewal of whoever was answered last, by the same replica and with nothing between.
    next_renewal: Option<(usize, RenewRequest)>,
    spans: Spans,
    /// How often each outcome was met.
    seen: &'a mut BTreeMap<String, usize>,
}

impl Pair<'_> {
    fn key(&self, what: &str) -> String {
        format!("baton:{{{}}}:{what}", self.role)
    }

    fn saw(&mut self, outcome: impl Into<String>) {
        *self.seen.entry(outcome.into()).or_default() += 1;
    }

    /// A token above all that are known, which is known on both sides from now on.
    fn later_token(&mut self) -> Token {
        let greatest = self.tokens.latest();
        if greatest.get() >= Token::LIMIT - 2 * FAR_AHEAD || greatest == Token::NONE {
            return greatest;
        }
        self.tokens.far_ahead()
    }

    /// Mostly who was last given something, else anybody.
    fn choose_candidate(&mut self, random: &mut Random) -> Candidate {
        if !random.one_in(4) {
            return self.latest.0;
        }
        let session = random.below(3);
        let latest = self.attempts[usize::try_from(session).expect("small")];
        candidate(u128::from(session) + 1, latest.saturating_sub(random.below(2)))
    }

    fn choose_token(&mut self, random: &mut Random) -> Token {
        let known = self.tokens.known();
        match random.below(8) {
            0 => self.later_token(),
            1 | 2 => random.pick(&known[known.len().saturating_sub(3)..]),
            _ => self.latest.1,
        }
    }

    fn choose(&mut self, random: &mut Random) -> Operation {
        let lease_duration = ms(random.pick(&LEASES_MS));
        let guard = !random.one_in(6);
        let identity = |candidate: Candidate| Arc::from(format!("web {}", candidate.session));
        let audience = u32::try_from(random.below(5)).expect("small");
        if let Some((by, request)) = self.next_renewal.clone().filter(|_| random.one_in(4)) {
            return Operation::Ask(by, Box::new(MemberRequest::Renew(request)));
        }
        let by = if random.one_in(8) { usize::try_from(random.below(3)).expect("small") } else { 0 };
        let ask = match random.below(22) {
            0..=6 => {
                let session = random.below(3);
                let latest = &mut self.attempts[usize::try_from(session).expect("small")];
                *latest += u64::from(random.one_in(2));
                let attempt = if random.one_in(6) { latest.saturating_sub(1) } else { *latest };
                let candidate = candidate(u128::from(session) + 1, attempt);
                let floor = match random.below(12) {
                    0 => self.later_token(),
                    1..=3 => self.choose_token(random),
                    _ => Token::NONE,
                };
                // What a candidate knows is nothing to a member.
                let knowledge = random.one_in(3).then_some(KnownRecord {
                    version: RecordVersion { token: self.latest.1, count: self.count, writer: None },
                    age: ms(1),
                    unchanged_for: ms(1),
                    remaining: lease_duration,
                });
                let identity = identity(candidate);
                let released =
                    random.one_in(4).then(|| (self.choose_candidate(random).session, self.choose_token(random)));
                MemberRequest::Campaign(CampaignRequest {
                    candidate,
                    identity,
                    lease_duration,
                    floor,
                    knowledge,
                    released,
                    guard,
                })
            }
            7..=10 => {
                let (candidate, token) = (self.choose_candidate(random), self.choose_token(random));
                let identity = identity(candidate);
                MemberRequest::Raise(RaiseRequest { candidate, identity, token, lease_duration, guard })
            }
            11..=13 => {
                let (candidate, token) = (self.choose_candidate(random), self.choose_token(random));
                let (identity, count) = (identity(candidate), (self.count + 1).saturating_sub(random.below(3)));
                MemberRequest::Renew(RenewRequest {
                    candidate,
                    identity,
                    token,
                    count,
                    lease_duration,
                    audience,
                    guard,
                })
            }
            14 | 15 => {
                let token = if random.one_in(3) { Token::NONE } else { self.choose_token(random) };
                MemberRequest::Release(ReleaseRequest { candidate: self.choose_candidate(random), token, audience })
            }
            16 | 17 => return Operation::TimePasses(random.pick(&PASSING_MS)),
            18 if random.one_in(2) => return Operation::EverythingForgotten,
            18 | 19 => return Operation::LeaseVanishes,
            20 => return Operation::ClockStepsBack(random.pick(&STEPS_MS)),
            _ => return Operation::AnotherServer,
        };
        Operation::Ask(by, Box::new(ask))
    }

    fn has_record(&self) -> bool {
        self.redis.command(&["EXISTS", &self.key("record")]) == Reply::Number(1)
    }

    async fn apply(&mut self, operation: &Operation) {
        match operation {
            Operation::Ask(by, ask) => self.ask(*by, ask).await,
            Operation::TimePasses(span_ms) => self.pass(*span_ms),
            Operation::ClockStepsBack(span_ms) => {
                // As in `differential`.
                if self.has_record() {
                    if self.redis.command(&["EXISTS", &self.key("lease")]) == Reply::Number(0) {
                        self.cell.evict_lease();
                    }
                    self.pass(-span_ms);
                    self.saw("a step back");
                }
            }
            Operation::LeaseVanishes => {
                self.redis.command(&["DEL", &self.key("lease")]);
                self.cell.evict_lease();
            }
            Operation::EverythingForgotten => {
                self.pass(self.clock.behind_ms());
                self.redis.command(&["DEL", &self.key("lease"), &self.key("record")]);
                self.cell.forget();
            }
            Operation::AnotherServer => {
                self.generation += 1;
                if self.has_record() {
                    self.redis.command(&["HSET", &self.key("record"), "generation", "another"]);
                }
            }
        }
    }

    /// The same question in the reference's tokens and counts.
    fn twin_of(&self, ask: &MemberRequest) -> MemberRequest {
        match ask.clone() {
            MemberRequest::Campaign(request) => {
                let released = request.released.map(|(session, token)| (session, self.tokens.twin(token)));
                MemberRequest::Campaign(CampaignRequest { floor: self.tokens.twin(request.floor), released, ..request })
            }
            MemberRequest::Raise(request) => {
                MemberRequest::Raise(RaiseRequest { token: self.tokens.twin(request.token), ..request })
            }
            MemberRequest::Renew(request) => {
                let count = (self.count_twin + request.count).saturating_sub(self.count);
                MemberRequest::Renew(RenewRequest { token: self.tokens.twin(request.token), count, ..request })
            }
            MemberRequest::Release(request) => {
                MemberRequest::Release(ReleaseRequest { token: self.tokens.twin(request.token), ..request })
            }
        }
    }

    async fn ask(&mut self, by: usize, ask: &MemberRequest) {
        let had_record = self.has_record();
        let (lists, member) = &self.members[by];
        let answer = self.spans.timed(member.ask_stamped(&self.role, ask)).await.expect("an answer");
        if !had_record && self.has_record() {
            self.count_ahead = self.clock.shown(answer.store_time).0.wrapping_sub(answer.store_time.0);
        }
        let generation = format!("generation {}", self.generation);
        let now = self.clock.shown(answer.store_time);
        let server = Server { now, uptime: Duration::ZERO, generation: &generation };
        let (expected, said) = self.cell.step(server, lists, &self.twin_of(ask)).expect("tokens are left");
        if matches!(ask, MemberRequest::Campaign(_)) && said.is_some() {
            self.saw("dropped");
        }
        if let (MemberRequest::Renew(request), MemberReply::Renew(RenewReply::Renewed { count, .. })) =
            (ask, &answer.reply)
        {
            self.next_renewal = Some((by, RenewRequest { count: *count, ..request.clone() }));
        }
        self.compare(ask, answer.reply, expected);
        self.heard(said).await;
    }

    fn compare(&mut self, ask: &MemberRequest, redis: MemberReply, reference: MemberReply) {
        match (redis, reference) {
            (MemberReply::Campaign(redis), MemberReply::Campaign(reference)) => {
                self.compare_grants(ask, redis, reference)
            }
            (MemberReply::Raise(RaiseReply::Raised { count }), MemberReply::Raise(RaiseReply::Raised { count: c })) => {
                self.saw("Raised");
                self.same_count(count, c);
            }
            (MemberReply::Raise(RaiseReply::Gone { token }), MemberReply::Raise(RaiseReply::Gone { token: t })) => {
                self.saw("Gone");
                self.tokens.same(token, t);
            }
            (
                MemberReply::Renew(RenewReply::Renewed { count, reasserted, audience }),
                MemberReply::Renew(RenewReply::Renewed { count: c, reasserted: r, .. }),
            ) => {
                self.saw(if r { "reasserted" } else { "Renewed" });
                assert_eq!((reasserted, audience), (r, 1), "this test listens");
                self.same_count(count, c);
                let MemberRequest::Renew(request) = ask else { panic!("{ask:?}") };
                self.latest = (request.candidate, request.token);
            }
            (
                MemberReply::Renew(RenewReply::Lost { token, holder }),
                MemberReply::Renew(RenewReply::Lost { token: t, holder: h }),
            ) => {
                self.saw(if h.is_some() { "Lost to another" } else { "Lost" });
                self.tokens.same(token, t);
                assert_eq!(holder, h);
            }
            (MemberReply::Release(redis), MemberReply::Release(reference)) => {
                self.saw(format!("{reference:?}"));
                assert_eq!(redis, reference);
            }
            (redis, reference) => panic!("Redis: {redis:?}; the reference: {reference:?}"),
        }
    }

    fn compare_grants(&mut self, ask: &MemberRequest, redis: MemberCampaignReply, reference: MemberCampaignReply) {
        use MemberCampaignReply::{Granted, Guarded, Held, Stale, Unlisted};
        match (redis, reference) {
            (Granted { token, last }, Granted { token: t, last: l }) => {
                self.saw(match l {
                    LastTerm::Unknown => "Granted",
                    LastTerm::GivenBack => "Granted after a release",
                    LastTerm::Of(_) => "Granted after a term that was not given back",
                });
                match (last, l) {
                    (LastTerm::Of(term), LastTerm::Of(reference)) => self.tokens.same(term, reference),
                    _ => assert_eq!(last, l),
                }
                self.tokens.same(token, t);
                let MemberRequest::Campaign(request) = ask else { panic!("{ask:?}") };
                self.latest = (request.candidate, token);
            }
            (Stale { token }, Stale { token: t }) => {
                self.saw("Stale");
                self.tokens.same(token, t);
            }
            (
                Held { holder, token, remaining, confirmed },
                Held { holder: h, token: t, remaining: r, confirmed: c },
            ) => {
                self.saw(if c { "Held" } else { "Held for now" });
                self.tokens.same(token, t);
                assert_eq!((holder, confirmed), (h, c));
                self.spans.assert_same(remaining, r);
            }
            (Guarded { cause, remaining, token }, Guarded { cause: k, remaining: r, token: t }) => {
                self.saw(k.as_str());
                self.tokens.same(token, t);
                assert_eq!(cause, k);
                self.spans.assert_same(remaining, r);
            }
            (Unlisted { theirs, remaining, token }, Unlisted { theirs: lists, remaining: r, token: t }) => {
                self.saw("unlisted");
                self.tokens.same(token, t);
                assert_eq!(theirs, lists);
                self.spans.assert_same(remaining, r);
            }
            (redis, reference) => panic!("Redis: {redis:?}; the reference: {reference:?}"),
        }
    }

    fn same_count(&mut self, redis: u64, reference: u64) {
        assert_eq!(redis.wrapping_add(self.count_ahead), reference);
        (self.count, self.count_twin) = (redis, reference);
    }

    /// What is published next is what the reference publishes. That nothing is published when it should not be shows at
    /// the next message.
    async fn heard(&mut self, expected: Option<Announcement>) {
        let Some(expected) = expected else { return };
        let news = within("the announcement is heard", self.news.recv()).await.expect("the member lives");
        let News::Said(said) = news else { panic!("{news:?}, expected {expected:?}") };
        self.saw(said.kind.as_str());
        self.tokens.same(said.token, expected.token);
        let count = said.count.wrapping_add(self.count_ahead);
        assert_eq!(Announcement { count, ..(*said).clone() }, Announcement { token: said.token, ..expected });
    }

    fn pass(&mut self, span_ms: i64) {
        self.clock.pass(span_ms);
        shift(self.redis, &self.key("lease"), &self.key("record"), span_ms);
    }
}

async fn run(redis: &RedisServer, members: &Members, seed: u64, seen: &mut BTreeMap<String, usize>) {
    let role = RoleName::new(format!("seed-{seed}")).expect("a DNS label");
    let mut news = members[0].1.subscribe(&role);
    assert_eq!(within("the subscription", news.recv()).await, Some(News::Gap));
    let mut pair = Pair {
        redis,
        members,
        news,
        role,
        cell: MemberCell::new(Rules::QUORUM),
        clock: Clock::default(),
        generation: 0,
        tokens: Tokens::new(),
        latest: (candidate(1, 0), Token::NONE),
        count: 0,
        count_twin: 0,
        count_ahead: 0,
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
        pair.apply(&operation).await;
    }
}

/// This member, as replicas with each of these lists reach it.
pub async fn connected_by<const N: usize>(url: &str, lists: [&'static str; N]) -> [(&'static str, RedisMember); N] {
    let connect =
        |lists: &str| RedisMember::connect(&config(url), lists.into(), LEASE, 7).expect("the configuration is good");
    let members = lists.map(|lists| (lists, connect(lists)));
    for (_, member) in &members {
        let mut health = member.health();
        within("the member is up", health.wait_for(|health| *health == StoreHealth::Up)).await.expect("it lives");
    }
    members
}

#[tokio::test]
async fn random_operations_have_the_same_outcomes_on_a_member_and_on_the_reference() {
    let redis = RedisServer::start();
    let members = connected_by(&redis.url(), ["a, b, c", "a, b, c|a, b, d", "a, b, d"]).await;
    let mut seen = BTreeMap::new();
    for seed in 0..SEEDS {
        run(&redis, &members, seed, &mut seen).await;
    }
    for outcome in [
        "Granted",
        "Granted after a release",
        "Granted after a term that was not given back",
        "Held",
        "Held for now",
        "Stale",
        "dropped",
        "generation",
        "empty",
        "vanished",
        "unlisted",
        "Raised",
        "Gone",
        "Renewed",
        "reasserted",
        "Lost",
        "Lost to another",
        "Released",
        "NotHeld",
        "grant",
        "heartbeat",
        "release",
        "a step back",
    ] {
        assert!(seen.get(outcome).is_some_and(|times| *times >= 25), "{outcome} was hardly met: {seen:?}");
    }
}
