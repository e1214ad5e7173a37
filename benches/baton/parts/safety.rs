//! What each further safety costs: renewals, handovers and locks under every setting, each beside the plain one.
//!
//! Renewals are made by the sidecar's own store code inside this process, as fast as it answers: a sidecar makes one in
//! a third of a lease and could not be hurried. Handovers and locks are those of real sidecars.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use baton::app::open_store;
use baton::base::clock::{BootClock, SharedClock};
use baton::config::{Environment, StoreUse, check_text};
use baton::protocol::{
    Attempt, CampaignReply, CampaignRequest, Candidate, RenewReply, RenewRequest, RoleName, SessionId, Token,
};
use baton::store::LeaseStore;
use futures_util::future::join_all;
use testkit::quorum::Members;
use testkit::redis::RedisServer;
use testkit::tls;

use super::handover::ANSWER_VALIDITY;
use super::locks::{contend, open};
use super::rest::calls;
use crate::apps::Apps;
use crate::part::{Bench, Findings, Part};
use crate::peers::locker::{Kind, Run};
use crate::replica::{Group, Spec};
use crate::report::{Row, Table};
use crate::stats::{median, percentile};

pub const PART: Part = Part {
    name: "safety",
    title: "What safety costs",
    about: "\
Each setting beside the plain one, which is one Redis with `guard: off`; all have servers of their own and take turns.
*The default* records in each script which process of Redis it ran on (`INFO`), so that a Redis that lost its data
grants nobody at once. *One acknowledgement* has a replica and `replication.acks: 1` (`WAIT`). *Quorums* are of
independent servers. *TLS* is `rediss://` with a client's certificate. All but the plain one have the default guard.
Exchanges are the scripts, `WAIT`s and acknowledgements that all servers of a setting have counted; those of a quorum
go out at the same time. Renewals are made as fast as they are answered, one at a time or 64 at once, by the sidecar's
code in the process of the benchmark. A handover is measured as above, by long poll, each of a role of its own, whose
old leader stays out. A lock is taken and given back
through a sidecar over 64 connections, each with a lock of its own; a quorum has none. What a setting may cost is what
its exchanges would, one after the other, at the price of a plain renewal.",
    budget: Duration::from_secs(180),
    peers: &[],
    measure: |bench| Box::pin(measure(bench)),
};

const ROUNDS: usize = 5;
const SPAN: Duration = Duration::from_millis(600);
/// Renewals at once, each of a role of its own; and connections that take locks.
const AT_ONCE: usize = 64;
/// In each round.
const HANDOVERS: usize = 12;
/// No store takes longer to answer for the first time.
const START: Duration = Duration::from_secs(20);
const LEASE: Duration = Duration::from_secs(6);
/// Who renews.
const FIRST: Candidate = Candidate { session: SessionId::from_u128(1), attempt: Attempt(1) };
/// A price that is no more than that over what the exchanges explain.
const PRICE: f64 = 1.2;

/// A setting, with its servers.
struct Setting {
    name: &'static str,
    /// `store:`, but for the last brace of `redis:`.
    store: String,
    guard: bool,
    /// A quorum has no locks.
    locks: bool,
    /// Where scripts are executed.
    servers: Vec<RedisServer>,
    /// Only lives as long.
    _replica: Option<RedisServer>,
}

impl Setting {
    fn redis(name: &'static str, url: &str, more: &str, server: RedisServer) -> Self {
        let store = format!("{{ redis: {{ url: \"{url}\", keyPrefix: safety, commandTimeout: 1900ms{more} }} }}");
        Self { name, store, guard: true, locks: true, servers: vec![server], _replica: None }
    }

    fn plain() -> Self {
        let server = RedisServer::start();
        Self { guard: false, ..Self::redis("plain", &server.url(), ", guard: \"off\"", server) }
    }

    fn by_default() -> Self {
        let server = RedisServer::start();
        Self::redis("the default", &server.url(), "", server)
    }

    fn acknowledged() -> Self {
        let server = RedisServer::start();
        let replica = RedisServer::start_with(&["--replicaof", "127.0.0.1", &server.port().to_string()]);
        let acks = ", replication: { acks: 1, mode: wait, timeout: 500ms }";
        Self { _replica: Some(replica), ..Self::redis("one acknowledgement", &server.url(), acks, server) }
    }

    fn quorum(name: &'static str, count: usize) -> Self {
        let members = Members::start(count);
        let urls: Vec<String> = members.urls().iter().map(|url| format!("{{ url: \"{url}\" }}")).collect();
        let urls = urls.join(", ");
        let store = format!("{{ quorum: {{ members: [{urls}], keyPrefix: safety, commandTimeout: 900ms }} }}");
        Self { name, store, guard: true, locks: false, servers: members.servers, _replica: None }
    }

    fn encrypted() -> Self {
        let (server, port) = tls::start("server", "ca");
        let (certificate, key) = tls::pair("client");
        let (ca, certificate, key) = (tls::fixture("ca.pem"), certificate.display(), key.display());
        let more =
            format!(", tls: {{ caFile: \"{}\", certFile: \"{certificate}\", keyFile: \"{key}\" }}", ca.display());
        Self::redis("TLS", &format!("rediss://127.0.0.1:{port}/0"), &more, server)
    }

    fn all() -> Vec<Self> {
        vec![
            Self::plain(),
            Self::by_default(),
            Self::acknowledged(),
            Self::quorum("quorum of 3", 3),
            Self::quorum("quorum of 5", 5),
            Self::encrypted(),
        ]
    }

    fn spec(&self, n: usize) -> Spec {
        let spec = Spec::redis(&format!("safety-{n}"), "", "", LEASE);
        let (answer_validity, roles) = (Some(ANSWER_VALIDITY), ROUNDS * HANDOVERS);
        Spec { store: self.store.clone(), answer_validity, roles, ..spec }
    }

    /// Scripts, and what else has to be waited for.
    fn exchanges(&self) -> f64 {
        let of = |server| {
            let calls = calls(server);
            ["eval", "evalsha", "wait", "replconf"].iter().filter_map(|name| calls.get(*name)).sum::<f64>()
        };
        self.servers.iter().map(of).sum()
    }
}

/// What a setting came to.
#[derive(Default)]
struct Figures {
    /// Microseconds of one renewal, one at a time: each round's mean.
    renewal_us: Vec<f64>,
    renewals_per_s: Vec<f64>,
    exchanges_per_renewal: f64,
    handover_ms: Vec<f64>,
    exchanges_per_handover: f64,
    locks_per_s: Vec<f64>,
}

async fn measure(bench: &Bench) -> Findings {
    let settings = Setting::all();
    let mut all: Vec<Figures> = settings.iter().map(|_| Figures::default()).collect();
    renewals(bench, &settings, &mut all).await;
    let groups: Vec<Group> =
        settings.iter().map(|setting| Group::start((0..3).map(|n| setting.spec(n)).collect())).collect();
    handovers(bench, &settings, &groups, &mut all).await;
    locks(bench, &settings, &groups, &mut all).await;
    let plain = &all[0];
    let dear = settings.iter().zip(&all).skip(1);
    let rows = dear.flat_map(|(setting, figures)| figures.rows(setting.name, plain)).collect();
    let lines = settings.iter().zip(&all).map(|(setting, figures)| figures.line(setting.name, plain)).collect();
    Findings { rows, tables: vec![Table { columns: COLUMNS.to_vec(), lines }], ..Findings::default() }
}

const COLUMNS: [&str; 11] = [
    "setting",
    "a renewal",
    "its exchanges",
    "over plain",
    "renewals/s, 64 at once",
    "over plain",
    "handover p50",
    "p99",
    "its exchanges",
    "over plain",
    "locks/s, 64 connections",
];

impl Figures {
    /// The median over the rounds of what a setting has over the plain one.
    fn over(ours: &[f64], plain: &[f64]) -> f64 {
        median(&ours.iter().zip(plain).map(|(ours, plain)| ours / plain).collect::<Vec<_>>())
    }

    fn rows(&self, name: &str, plain: &Self) -> Vec<Row> {
        let renewal = Self::over(&self.renewal_us, &plain.renewal_us) / self.exchanges_per_renewal;
        let more = (self.exchanges_per_handover - plain.exchanges_per_handover).max(0.0);
        let explained_ms = percentile(&plain.handover_ms, 0.5) + more * median(&plain.renewal_us) / 1_000.0;
        let handover = percentile(&self.handover_ms, 0.5) / explained_ms;
        let price = |what: &str, price| {
            Row::new(format!("{name}: {what} over what its exchanges explain"), price, "").at_most(PRICE)
        };
        vec![price("a renewal", renewal).because(WHY_DEAR), price("a handover's p50", handover).because(WHY_DEAR)]
    }

    fn line(&self, name: &str, plain: &Self) -> Vec<String> {
        let ms = |p| format!("{:.2} ms", percentile(&self.handover_ms, p));
        let p50 = |figures: &Self| percentile(&figures.handover_ms, 0.5);
        let locks = if self.locks_per_s.is_empty() { "none".to_owned() } else { whole(&self.locks_per_s) };
        vec![
            name.to_owned(),
            format!("{} µs", whole(&self.renewal_us)),
            format!("{:.1}", self.exchanges_per_renewal),
            format!("{:.2}", Self::over(&self.renewal_us, &plain.renewal_us)),
            whole(&self.renewals_per_s),
            format!("{:.2}", Self::over(&self.renewals_per_s, &plain.renewals_per_s)),
            ms(0.5),
            ms(0.99),
            format!("{:.1}", self.exchanges_per_handover),
            format!("{:.2}", p50(self) / p50(plain)),
            locks,
        ]
    }
}

fn whole(sample: &[f64]) -> String {
    format!("{:.0}", median(sample))
}

const WHY_DEAR: &str = "\
all servers, the sidecars and the app share the machine's processors; with TLS each of them also encrypts and decrypts \
every message, those to all who listen among them: renewals, 64 at once, show in the table what that costs";

/// The sidecar's store code, and the terms that it renews.
struct Incumbent {
    store: Arc<dyn LeaseStore>,
    terms: Vec<(RoleName, RenewRequest)>,
}

impl Incumbent {
    async fn start(setting: &Setting) -> Self {
        let clock: SharedClock = Arc::new(BootClock);
        let text = setting.spec(0).yaml(4040, 4041);
        let loaded = check_text(&text, "the setting", &Environment::new(|_| None, None));
        let config = loaded.unwrap_or_else(|error| panic!("{}: {error}", setting.name)).config;
        let store = open_store(&config, StoreUse::Leases, &clock).expect("its files can be read").leases;
        let mut terms = Vec::new();
        for n in 0..AT_ONCE {
            let role = RoleName::new(format!("renewed-{n}")).expect("a DNS label");
            let token = Self::token(&*store, &role).await;
            let renewal = RenewRequest {
                candidate: FIRST,
                identity: "web-1".into(),
                token,
                count: 0,
                lease_duration: LEASE,
                audience: 0,
                guard: setting.guard,
            };
            terms.push((role, renewal));
        }
        Self { store, terms }
    }

    /// Who is granted, and when, is no matter here: no guard.
    async fn token(store: &dyn LeaseStore, role: &RoleName) -> Token {
        let campaign = CampaignRequest {
            candidate: FIRST,
            identity: "web-1".into(),
            lease_duration: LEASE,
            floor: Token::NONE,
            knowledge: None,
            released: None,
            guard: false,
        };
        let begun = Instant::now();
        loop {
            // It may still be connecting, or its replica may.
            let reply = store.campaign(role, campaign.clone()).await.map(|stamped| stamped.reply);
            match reply {
                Ok(CampaignReply::Granted { token, .. }) => return token,
                other => assert!(begun.elapsed() < START, "{role} is not granted: {other:?}"),
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Renews so many terms for so long, each again as soon as it is answered. How many renewals, and how long each
    /// took, in microseconds, if they were made one after the other.
    async fn renew(&self, at_once: usize, span: Duration) -> (f64, f64) {
        let begun = Instant::now();
        let one = async |(role, request): &(RoleName, RenewRequest)| {
            let mut renewals = 0.0;
            while begun.elapsed() < span {
                let reply = self.store.renew(role, request.clone()).await.map(|stamped| stamped.reply);
                match reply {
                    // Put back, where its lease has ended while others were measured.
                    Ok(RenewReply::Renewed { .. }) => renewals += 1.0,
                    Ok(other) => panic!("{role}: {other:?}"),
                    // Not in time, on a machine that is too busy: it has taken its time and does not count.
                    Err(_) => {}
                }
            }
            renewals
        };
        let renewals: f64 = join_all(self.terms.iter().take(at_once).map(one)).await.into_iter().sum();
        (renewals, begun.elapsed().as_secs_f64() * 1e6 / renewals)
    }
}

async fn renewals(bench: &Bench, settings: &[Setting], all: &mut [Figures]) {
    let incumbents = join_all(settings.iter().map(Incumbent::start)).await;
    let span = bench.span(SPAN);
    for round in 0..bench.times(ROUNDS) {
        for ((setting, incumbent), figures) in settings.iter().zip(&incumbents).zip(all.iter_mut()) {
            let before = setting.exchanges();
            let (renewals, each_us) = incumbent.renew(1, span).await;
            if round == 0 {
                figures.exchanges_per_renewal = ((setting.exchanges() - before) / renewals * 10.0).round() / 10.0;
            }
            figures.renewal_us.push(each_us);
            let (renewals, _) = incumbent.renew(AT_ONCE, span).await;
            figures.renewals_per_s.push(renewals / span.as_secs_f64());
        }
    }
}

async fn handovers(bench: &Bench, settings: &[Setting], groups: &[Group], all: &mut [Figures]) {
    let (times, roles) = (bench.times(HANDOVERS), groups[0].specs[0].names());
    let mut all_apps = Vec::new();
    for group in groups {
        all_apps.push(Apps::start(group).await);
    }
    let (mut exchanges, mut renewed) = (vec![0.0; all.len()], vec![0.0; all.len()]);
    for round in (0..bench.times(ROUNDS)).take_while(|round| bench.has_time(*round)) {
        for (at, (setting, group)) in settings.iter().zip(groups).enumerate() {
            let before = (setting.exchanges(), renewals_of(group).await);
            for handover in 0..times {
                let took = all_apps[at].hand_over(&roles[round * times + handover]).await;
                // The first of all teaches the servers their scripts.
                if round + handover > 0 {
                    all[at].handover_ms.push(took.as_secs_f64() * 1_000.0);
                }
            }
            exchanges[at] += setting.exchanges() - before.0;
            renewed[at] += renewals_of(group).await - before.1;
        }
    }
    for (at, figures) in all.iter_mut().enumerate() {
        let of_handovers = exchanges[at] - renewed[at] * figures.exchanges_per_renewal;
        figures.exchanges_per_handover = of_handovers / (figures.handover_ms.len() + 1) as f64;
    }
}

async fn renewals_of(group: &Group) -> f64 {
    join_all(group.replicas.iter().map(|replica| replica.metric("baton_renewals_total", ""))).await.into_iter().sum()
}

async fn locks(bench: &Bench, settings: &[Setting], groups: &[Group], all: &mut [Figures]) {
    let sidecars: Vec<Option<SocketAddr>> =
        settings.iter().zip(groups).map(|(setting, group)| setting.locks.then(|| group.replicas[0].api)).collect();
    for (group, _) in groups.iter().zip(&sidecars).filter(|(_, sidecar)| sidecar.is_some()) {
        open(&group.replicas[..1]).await;
    }
    let span = bench.span(SPAN);
    let run = Run { kind: Kind::Own, contenders: AT_ONCE, span, rest: Duration::ZERO };
    for round in (0..bench.times(ROUNDS)).take_while(|round| bench.has_time(*round)) {
        for (sidecar, figures) in sidecars.iter().zip(all.iter_mut()) {
            let Some(sidecar) = *sidecar else { continue };
            let end = Instant::now() + span;
            let contenders = (0..AT_ONCE).map(|n| contend(sidecar, format!("safety-{round}-{n}"), run, end));
            let cycles = join_all(contenders).await.into_iter().map(|outcome| match outcome {
                Ok(outcome) => outcome.cycles.iter().sum::<f64>(),
                Err(why) => panic!("a lock was not given: {why}"),
            });
            figures.locks_per_s.push(cycles.sum::<f64>() / span.as_secs_f64());
        }
    }
}
