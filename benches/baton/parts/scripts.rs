//! What Redis pays: the time that its one thread spends in each script, by its own count.

use std::sync::Arc;
use std::time::Duration;

use baton::base::Subscription;
use baton::config::{AckMode, Durability, Guard, RedisConfig, Replication, TlsConfig};
use baton::protocol::jobs::{JobName, LedgerTerm, Revision, WriteReply, WriteRequest};
use baton::protocol::{
    AcquireReply, AcquireRequest, CampaignReply, CampaignRequest, LockId, LockName, LockReleaseRequest,
    MemberCampaignReply, MemberReply, MemberRequest, Portion, PresenceRequest, Queueing, RaiseReply, RaiseRequest,
    ReleaseRequest, RenewReply, RenewRequest, RoleName, SessionId, Token,
};
use baton::store::quorum::QuorumMember;
use baton::store::redis::{RedisMember, RedisStore};
use baton::store::{LeaseStore, LedgerStore, LockStore, News, PresenceStore, StoreHealth};
use bytes::Bytes;
use secrecy::SecretString;
use testkit::profile::{Profile, Profiled};
use testkit::redis::RedisServer;
use tokio::time::Instant;

use super::scale::meter::{Reading, Window};
use crate::part::{Bench, Findings, Part};
use crate::raw::Redis;
use crate::report::{Row, Table};
use crate::requests::{ask, renewal, unguarded};
use crate::stats::median;

pub const PART: Part = Part {
    name: "scripts",
    title: "What Redis pays",
    about: "\
One Redis carries the leases and the locks of a whole company, and its one thread is the limit. This is the time that it
counts itself for each script (`INFO commandstats`, microseconds for a call of EVALSHA), without the network and without
Baton: 500 roles, locks or jobs in turn, 2,000 scripts a second on one connection, somebody subscribed to every role.
Beside it, in turns, the least script that does the same for keys of its own and promises nothing: no tokens, no record
of what was, no news for those who wait. Medians of the rounds.

A script that may grant has to know which server this is (R5). By default it asks that Redis itself, inside the step
that grants: one request, and nothing can change in between. Where scripts may not ask, the sidecar asks on the same
connection and tells the script, and asks again behind each that may grant; renewals tell only what was told before. The
last table has both ways on one Redis, in turns: how many of each its thread would do in a second that is all theirs,
reading and writing its sockets and those further questions included. Asked inside is the default because it is the
stronger one, and where a role is won or a lock is taken the cheaper one, too; a renewal costs the same.",
    budget: Duration::from_secs(200),
    peers: &[],
    measure: |bench| Box::pin(measure(bench)),
};

const NAMES: usize = 500;
/// From one script to the next: 2,000 a second.
const PACE: Duration = Duration::from_micros(500);
const ROUNDS: usize = 7;
/// No lease ends by itself while this measures, but for the first ones.
const LEASE: Duration = Duration::from_secs(600);
const FIRST_LEASE: Duration = Duration::from_secs(1);

const WHY_DEARER: &str = "\
ten commands to acquire (the record and its hold, both queues, which server this is, the floor of tokens) and six to \
release, two or three microseconds each at this pace, for a token that rises and a lock that no restart gives twice";

/// The least that could be asked instead. KEYS: one; ARGV: whose it is, for how many milliseconds.
const OWNED: &str = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end";
const FREE: &str = "return redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2])";
const OURS: &str = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end";
const LOOK: &str = "return redis.call('GET', KEYS[1])";
const WRITE: &str = "return redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])";

/// What is measured, the least script for it, and whether that finds its key held. In this order a round leaves
/// everything as the next one needs it.
const SCRIPTS: [(&str, &str, bool); 12] = [
    ("renewal", OWNED, true),
    ("campaign, held", LOOK, true),
    ("release", OURS, true),
    ("campaign, free", FREE, false),
    ("member: renewal", OWNED, true),
    ("member: release", OURS, true),
    ("member: campaign", FREE, false),
    ("member: confirmation", OWNED, true),
    ("lock: acquire", FREE, false),
    ("lock: release", OURS, true),
    ("presence", WRITE, false),
    ("ledger: write", WRITE, false),
];

/// One script's figures: of each round, and of the least script in the same round.
struct Found {
    name: &'static str,
    ours: Vec<f64>,
    least: Vec<f64>,
}

impl Found {
    fn ratio(&self) -> f64 {
        let ratios: Vec<f64> = self.ours.iter().zip(&self.least).map(|(ours, least)| ours / least).collect();
        median(&ratios)
    }

    fn line(&self) -> Vec<String> {
        let figures = [median(&self.ours), median(&self.least), self.ratio()].map(|figure| format!("{figure:.1}"));
        [vec![self.name.to_owned()], figures.into(), vec![self.ours.len().to_string()]].concat()
    }
}

/// How a script that may grant comes to know which generation the server is of (R5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Evidence {
    /// It asks for INFO itself: in the very step that grants.
    AskedInside,
    /// The sidecar has asked on the same connection, and asks again behind it.
    Told,
}

/// What is measured both ways: what it is, and the names of the scripts that it takes, with those before them which
/// leave everything as they need it.
const BOTH_WAYS: [(&str, &[&str], &[&str]); 4] = [
    ("renewals", &[], &["renewal"]),
    ("campaigns while another leads", &[], &["campaign, held"]),
    ("campaigns that are granted", &["release"], &["campaign, free"]),
    ("locks, acquired and released", &[], &["lock: acquire", "lock: release"]),
];

/// Of each: how many a Redis's thread does in a second of its time, both ways, in each round.
struct BothWays {
    asked: [Vec<f64>; BOTH_WAYS.len()],
    told: [Vec<f64>; BOTH_WAYS.len()],
}

impl BothWays {
    async fn measure(bench: &Bench) -> Self {
        let mut stages = [Stage::set(Evidence::AskedInside).await, Stage::set(Evidence::Told).await];
        let mut found: [[Vec<f64>; BOTH_WAYS.len()]; 2] = Default::default();
        for round in 0..bench.times(ROUNDS) {
            for (stage, found) in stages.iter_mut().zip(&mut found) {
                for ((_, before, scripts), found) in BOTH_WAYS.iter().zip(found) {
                    let attempt = round as u64 + 2;
                    for name in *before {
                        stage.run(name, attempt).await;
                    }
                    let mut us = 0.0;
                    for name in *scripts {
                        us += stage.metered(name, attempt).await.cpu_us;
                    }
                    found.push(1e6 / us);
                }
            }
        }
        let [asked, told] = found;
        Self { asked, told }
    }

    /// Told over asked, of one round each.
    fn ratio(&self, at: usize) -> f64 {
        let ratios: Vec<f64> = self.told[at].iter().zip(&self.asked[at]).map(|(told, asked)| told / asked).collect();
        median(&ratios)
    }

    fn rows(&self) -> Vec<Row> {
        let row = |what: &str, value: f64| Row::new(format!("{what} of a Redis's thread"), value, "/s");
        vec![
            row("renewals, evidence asked inside:", median(&self.asked[0])),
            row("renewals, evidence told by the connection:", median(&self.told[0])),
            Row::new("renewals, told over asked", self.ratio(0), ""),
        ]
    }

    fn table(&self) -> Table {
        let line = |(at, (what, ..)): (usize, &(&str, &[&str], &[&str]))| {
            let figures = [median(&self.asked[at]), median(&self.told[at])].map(|figure| format!("{figure:.0}"));
            let [asked, told] = figures;
            vec![(*what).to_owned(), asked, told, format!("{:.2}", self.ratio(at)), self.told[at].len().to_string()]
        };
        Table {
            columns: vec![
                "a second of Redis's thread is enough for",
                "asked inside",
                "told",
                "told over asked",
                "rounds",
            ],
            lines: BOTH_WAYS.iter().enumerate().map(line).collect(),
        }
    }
}

async fn measure(bench: &Bench) -> Findings {
    let mut stage = Stage::set(Evidence::AskedInside).await;
    let mut found = SCRIPTS.map(|(name, ..)| Found { name, ours: Vec::new(), least: Vec::new() });
    for round in 0..bench.times(ROUNDS) {
        if !bench.has_time(round) {
            break;
        }
        for (found, (name, least, is_held)) in found.iter_mut().zip(SCRIPTS) {
            found.least.push(stage.least(least, is_held).await);
            found.ours.push(stage.ours(name, round as u64 + 2).await);
        }
    }
    let sum =
        |of: fn(&Found) -> f64| found.iter().filter(|found| found.name.starts_with("lock: ")).map(of).sum::<f64>();
    let cycle = sum(|found| median(&found.ours)) / sum(|found| median(&found.least));
    let mut findings = Findings::of(vec![
        Row::new("a renewal over the least script", found[0].ratio(), "").at_most(3.0),
        Row::new("a renewal", median(&found[0].ours), "µs"),
        Row::new("a free lock's cycle over the least scripts", cycle, "").at_most(4.0).because(WHY_DEARER),
    ]);
    let both_ways = BothWays::measure(bench).await;
    findings.rows.extend(both_ways.rows());
    findings.tables = vec![
        Table {
            columns: vec!["script", "µs", "the least script, µs", "ratio", "rounds"],
            lines: found.iter().map(Found::line).collect(),
        },
        both_ways.table(),
    ];
    findings
}

/// Everything that asks Redis for a lease, a lock or a job, five hundred of each in turn.
pub(super) struct Stage {
    redis: RedisServer,
    /// In front of it, where its scripts are told of which generation it is.
    profiled: Option<Profiled>,
    raw: Redis,
    store: RedisStore,
    member: RedisMember,
    roles: Vec<RoleName>,
    /// Of each role the next renewal, and the next one on the member.
    terms: Vec<RenewRequest>,
    member_terms: Vec<RenewRequest>,
    revisions: Vec<Option<Revision>>,
    /// Somebody hears every role.
    _heard: Vec<Subscription<News>>,
}

impl Stage {
    /// Everybody has a term, and no guard stands any more. `evidence`: how scripts come to know which generation the
    /// server is of.
    pub(super) async fn set(evidence: Evidence) -> Self {
        let redis = RedisServer::start();
        let profiled = match evidence {
            Evidence::AskedInside => None,
            Evidence::Told => Some(Profiled::start(redis.port(), Profile::MUTE).await),
        };
        let url = profiled.as_ref().map_or_else(|| redis.url(), Profiled::url);
        let raw = Redis::connect(([127, 0, 0, 1], redis.port()).into()).await.expect("its own Redis answers");
        let store = RedisStore::connect(&config(&url, "baton"), LEASE, 7).expect("a good configuration");
        let member = RedisMember::connect(&config(&url, "member"), "a, b, c".into(), LEASE, 7);
        let member = member.expect("a good configuration");
        for mut health in [store.health(), member.health()] {
            health.wait_for(|health| *health == StoreHealth::Up).await.expect("the store lives");
        }
        let name = |at| RoleName::new(format!("role-{at}")).expect("a good name");
        let roles: Vec<_> = (0..NAMES).map(name).collect();
        let mut stage = Self {
            _heard: roles.iter().map(|role| store.subscribe(role, None)).collect(),
            terms: roles.iter().map(|_| renewal(1, 1, Token::NONE)).collect(),
            member_terms: roles.iter().map(|_| renewal(1, 1, Token::NONE)).collect(),
            revisions: vec![None; NAMES],
            redis,
            profiled,
            raw,
            store,
            member,
            roles,
        };
        stage.begin().await;
        // Its connections know by now that they are to tell.
        if let Some(profiled) = &stage.profiled {
            profiled.let_scripts_ask();
        }
        stage
    }

    /// A first term without R5. Its renewal under R5 finds a record that nobody has vouched for, and begins a guard.
    async fn begin(&mut self) {
        let first = CampaignRequest { lease_duration: FIRST_LEASE, ..unguarded(1, 1) };
        for at in 0..NAMES {
            self.campaign(at, first.clone()).await;
            self.campaign_member(at, first.clone()).await;
            self.confirm(at, false).await;
            self.renew(at).await;
            self.renew_member(at).await;
        }
        tokio::time::sleep(FIRST_LEASE + Duration::from_millis(200)).await;
        for at in 0..NAMES {
            (self.terms[at].lease_duration, self.member_terms[at].lease_duration) = (LEASE, LEASE);
            for _ in 0..2 {
                self.renew(at).await;
                self.renew_member(at).await;
            }
        }
    }

    /// Microseconds for a script of this name. `attempt`: of this round's campaigns.
    async fn ours(&mut self, name: &str, attempt: u64) -> f64 {
        self.reset();
        self.run(name, attempt).await;
        self.spent()
    }

    /// What one script of this name comes to at Redis, its sockets included.
    pub(super) async fn metered(&mut self, name: &str, attempt: u64) -> Window {
        let (before, begun) = (Reading::of(&self.redis), Instant::now());
        self.run(name, attempt).await;
        let after = Reading::of(&self.redis);
        Window::between(&before, &after).times(begun.elapsed().as_secs_f64() / NAMES as f64)
    }

    async fn run(&mut self, name: &str, attempt: u64) {
        let begun = Instant::now();
        for at in 0..NAMES {
            paced(begun, at).await;
            let campaign = CampaignRequest { lease_duration: LEASE, ..ask(1, attempt) };
            match name {
                "renewal" => self.renew(at).await,
                "campaign, held" => self.campaign_in_vain(at, attempt).await,
                "release" => {
                    let request = giving_back(&self.terms[at]);
                    LeaseStore::release(&self.store, &self.roles[at], request).await.expect("an answer");
                }
                "campaign, free" => self.campaign(at, campaign).await,
                "member: renewal" => self.renew_member(at).await,
                "member: release" => {
                    drop(self.asked(at, MemberRequest::Release(giving_back(&self.member_terms[at]))).await)
                }
                "member: campaign" => self.campaign_member(at, campaign).await,
                "member: confirmation" => self.confirm(at, true).await,
                "lock: acquire" => self.acquire(at, attempt).await,
                "lock: release" => self.unlock(at, attempt).await,
                "presence" => {
                    let portion = Some(Portion::default());
                    let request = PresenceRequest { session: SessionId::from_u128(1), portion, span: LEASE };
                    self.store.presence(&self.roles[at], request).await.expect("an answer");
                }
                _ => self.write(at).await,
            }
        }
    }

    /// The same for the least script, on as many keys.
    async fn least(&mut self, script: &str, is_held: bool) -> f64 {
        let session = SessionId::from_u128(1).to_string();
        let keys: Vec<String> = (0..NAMES).map(|at| format!("least:{at}")).collect();
        for key in &keys {
            self.redis.command(&["DEL", key]);
            if is_held {
                self.redis.command(&["SET", key, &session]);
            }
        }
        let sha = self.redis.command(&["SCRIPT", "LOAD", script]).text();
        self.reset();
        let begun = Instant::now();
        for (at, key) in keys.iter().enumerate() {
            paced(begun, at).await;
            self.raw.command(&["EVALSHA", &sha, "1", key, &session, "600000"]).await.expect("an answer");
        }
        self.spent()
    }

    fn reset(&self) {
        self.redis.command(&["CONFIG", "RESETSTAT"]);
    }

    /// Microseconds for an EVALSHA since.
    fn spent(&self) -> f64 {
        let stats = self.redis.command(&["INFO", "commandstats"]).text();
        let line = stats.lines().find(|line| line.starts_with("cmdstat_evalsha:")).expect("scripts were run");
        let per_call = line.split("usec_per_call=").nth(1).and_then(|rest| rest.split(',').next());
        per_call.and_then(|number| number.parse().ok()).expect("a number")
    }

    async fn renew(&mut self, at: usize) {
        let reply = self.store.renew(&self.roles[at], self.terms[at].clone()).await.expect("an answer").reply;
        let RenewReply::Renewed { count, .. } = reply else { panic!("{reply:?}") };
        self.terms[at].count = count;
    }

    async fn campaign(&mut self, at: usize, request: CampaignRequest) {
        let (candidate, lease_duration) = (request.candidate, request.lease_duration);
        let reply = self.store.campaign(&self.roles[at], request).await.expect("an answer").reply;
        let CampaignReply::Granted { token, count } = reply else { panic!("{reply:?}") };
        self.terms[at] = RenewRequest { candidate, count, lease_duration, ..renewal(1, 1, token) };
    }

    async fn campaign_in_vain(&self, at: usize, attempt: u64) {
        let request = CampaignRequest { lease_duration: LEASE, ..ask(2, attempt) };
        let reply = self.store.campaign(&self.roles[at], request).await.expect("an answer").reply;
        assert!(matches!(reply, CampaignReply::Held { .. }), "{reply:?}");
    }

    async fn asked(&self, at: usize, ask: MemberRequest) -> MemberReply {
        self.member.ask_stamped(&self.roles[at], &ask).await.expect("an answer").reply
    }

    async fn renew_member(&mut self, at: usize) {
        let reply = self.asked(at, MemberRequest::Renew(self.member_terms[at].clone())).await;
        let MemberReply::Renew(RenewReply::Renewed { count, .. }) = reply else { panic!("{reply:?}") };
        self.member_terms[at].count = count;
    }

    async fn campaign_member(&mut self, at: usize, request: CampaignRequest) {
        let (candidate, lease_duration) = (request.candidate, request.lease_duration);
        let reply = self.asked(at, MemberRequest::Campaign(request)).await;
        let MemberReply::Campaign(MemberCampaignReply::Granted { token, .. }) = reply else { panic!("{reply:?}") };
        self.member_terms[at] = RenewRequest { candidate, lease_duration, ..renewal(1, 1, token) };
    }

    async fn confirm(&mut self, at: usize, guard: bool) {
        let RenewRequest { candidate, identity, token, lease_duration, .. } = self.member_terms[at].clone();
        let ask = MemberRequest::Raise(RaiseRequest { candidate, identity, token, lease_duration, guard });
        let reply = self.asked(at, ask).await;
        let MemberReply::Raise(RaiseReply::Raised { count }) = reply else { panic!("{reply:?}") };
        self.member_terms[at].count = count;
    }

    async fn acquire(&self, at: usize, round: u64) {
        let request = AcquireRequest {
            names: vec![lock(at)],
            session: SessionId::from_u128(1),
            id: hold(at, round),
            owner: Arc::from("owner"),
            beside: None,
            yields: false,
            reminds: false,
            tokens: 1,
            identity: Arc::from("web-1"),
            lease: LEASE,
            at_least: Duration::ZERO,
            permits: 1,
            floor: Token::NONE,
            queueing: Queueing::No,
            // Over by now, and asked about as ever.
            guard: Some(Duration::from_millis(1)),
        };
        let reply = self.store.acquire(request).await.expect("an answer");
        assert!(matches!(reply, AcquireReply::Granted(_)), "{reply:?}");
    }

    async fn unlock(&self, at: usize, round: u64) {
        let id = hold(at, round);
        let request = LockReleaseRequest { names: vec![lock(at)], id, session: SessionId::from_u128(1), seat: None };
        LockStore::release(&self.store, request).await.expect("an answer");
    }

    async fn write(&mut self, at: usize) {
        let job = JobName::new(format!("job-{at}")).expect("a good name");
        let body = Bytes::from_static(&[b'x'; 400]);
        let term =
            LedgerTerm { role: RoleName::new("scheduler").expect("a good name"), token: Token::new(1).expect("small") };
        let request = WriteRequest { term: Some(term), base: self.revisions[at], body };
        let reply = LedgerStore::write(&self.store, &job, request).await.expect("an answer");
        let WriteReply::Written { revision } = reply else { panic!("{reply:?}") };
        self.revisions[at] = Some(revision);
    }
}

fn lock(at: usize) -> LockName {
    LockName::new(format!("lock-{at}")).expect("a good name")
}

/// One that was given back does not come again.
fn hold(at: usize, round: u64) -> LockId {
    LockId::from_u128(u128::from(round) << 64 | at as u128)
}

fn giving_back(term: &RenewRequest) -> ReleaseRequest {
    ReleaseRequest { candidate: term.candidate, token: term.token, audience: 1 }
}

/// Waits for this one's turn.
async fn paced(begun: Instant, at: usize) {
    tokio::time::sleep_until(begun + PACE * u32::try_from(at).expect("few")).await;
}

fn config(url: &str, key_prefix: &str) -> RedisConfig {
    RedisConfig {
        url: SecretString::from(url.to_owned()),
        username: None,
        password: None,
        auth: None,
        tls: TlsConfig::default(),
        durability: Durability::Asynchronous,
        key_prefix: key_prefix.to_owned(),
        command_timeout: Duration::from_secs(5),
        replication: Replication { acks: 0, mode: AckMode::Wait, timeout: Duration::from_millis(200) },
        guard: Guard::Strict,
    }
}
