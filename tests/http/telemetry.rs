//! The telemetry listener, and what it tells.

use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use baton::admin::{self, Liveness, Sources, default_limits};
use baton::config::StoreUse;
use baton::http::ListenerThread;
use baton::protocol::jobs::JobName;
use baton::protocol::{CampaignOutcome, Event, GuardCause, LossReason, ReleaseReason, RenewalOutcome, Token};
use baton::role::Roles;
use baton::store::StoreHealth;
use baton::telemetry::{ConfigReload, CredentialOutcome, KubernetesKind, Metrics, SystemEvent, Telemetry};
use serde_json::json;
use tokio::sync::watch;

use crate::client::{ask, ask_until, ask_with};
use crate::stage::{Cue, FIRST_TOKEN, Staged, clock, name};

/// The listener with everything it tells of in the test's hands.
pub struct Watched {
    pub address: SocketAddr,
    pub telemetry: Telemetry,
    roles: Roles,
    store: watch::Sender<StoreHealth>,
    liveness: Arc<Mutex<Vec<Liveness>>>,
    server: ListenerThread,
}

impl Watched {
    pub fn start(staged: &[&Staged]) -> Self {
        let metrics = Arc::new(Metrics::new(jiff::Timestamp::now()));
        // As where the store is a quorum.
        metrics.store_members(&[true, true, false]);
        metrics.own_store_up(StoreUse::Locks, true);
        metrics.own_store_up(StoreUse::Jobs, false);
        metrics.credential_renewals(StoreUse::Leases, CredentialOutcome::Ok, 1);
        metrics.credential_expiry(StoreUse::Leases, jiff::Timestamp::UNIX_EPOCH);
        let roles = Roles::default();
        roles.replace(staged.iter().map(|staged| staged.handle.clone()).collect(), None);
        let liveness = Arc::new(Mutex::new(Vec::new()));
        for staged in staged {
            metrics.add_role(staged.handle.name());
            liveness.lock().unwrap().push(alive(staged.handle.name().as_str(), true));
        }
        let (store, health) = watch::channel(StoreHealth::Down { reason: "connection refused".to_owned() });
        let told = Arc::clone(&liveness);
        let sources = Sources {
            metrics: Arc::clone(&metrics),
            roles: roles.clone(),
            store: health,
            progress: Arc::new(move || told.lock().unwrap().clone()),
            clock: clock(),
            limits: default_limits(),
        };
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = admin::spawn(listener, sources).unwrap();
        let telemetry = Telemetry::new(metrics);
        telemetry.add_job(&JobName::new("nightly-report").unwrap());
        // As where everything of `kubernetes:` is on.
        for kind in [KubernetesKind::Label, KubernetesKind::Event, KubernetesKind::Lease] {
            telemetry.add_kubernetes(kind);
        }
        Self { address, telemetry, roles, store, liveness, server }
    }

    pub async fn metrics(&self) -> String {
        let reply = ask(self.address, "GET /metrics").await;
        assert_eq!(
            (reply.status, reply.header("content-type")),
            (200, Some("text/plain; version=0.0.4; charset=utf-8"))
        );
        reply.text()
    }

    async fn series(&self, series: &str) -> f64 {
        let text = self.metrics().await;
        let line = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("no {series} in {text}")).parse().unwrap()
    }
}

fn alive(role: &str, knows_state: bool) -> Liveness {
    Liveness { role: name(role), last: clock().now(), within: Duration::from_secs(60), knows_state }
}

async fn leader() -> (Staged, Watched) {
    let role = Staged::new("scheduler", Duration::from_secs(3), Cue::Grant);
    role.until_leading().await;
    let watched = Watched::start(&[&role]);
    (role, watched)
}

fn every_event() -> Vec<Event> {
    let token = Token::new(FIRST_TOKEN).unwrap();
    let took = Duration::from_millis(3);
    let mut events = vec![
        Event::Contended { winner: "web-2".into(), token },
        Event::Elected { token },
        Event::Following { holder: "web-2".into(), token: Token::new(FIRST_TOKEN + 1).unwrap() },
        Event::Draining { token, reason: ReleaseReason::Resigned, remaining: took },
        Event::Abandoned { token, remaining: took },
        Event::DepartureRefuted { holder: "web-2".into(), session: baton::protocol::SessionId::from_u128(9) },
        Event::IdentityClash { session: baton::protocol::SessionId::from_u128(8) },
        Event::StoreClockStepped { by_ms: -3_600_000 },
    ];
    events.extend(CampaignOutcome::ALL.map(|outcome| Event::Campaigned { outcome }));
    events.extend(RenewalOutcome::ALL.map(|outcome| Event::Renewed { outcome, took, token, failure: None }));
    events.extend(LossReason::ALL.map(|reason| Event::Lost { token, reason, held_for: took }));
    events.extend(ReleaseReason::ALL.map(|reason| Event::Released { token, reason, held_for: took }));
    events.extend(GuardCause::ALL.map(|cause| Event::Guarded { cause, remaining: took, is_first: false }));
    events
}

#[tokio::test]
async fn every_event_counts_once_where_it_should() {
    let (_role, watched) = leader().await;
    for event in every_event() {
        watched.telemetry.record(&name("scheduler"), &event, Duration::ZERO);
    }
    watched.telemetry.record_system(&SystemEvent::ConfigReloaded(ConfigReload::default()));
    watched.telemetry.record_system(&SystemEvent::ConfigRefused { problems: vec!["roles: missing".to_owned()] });
    let text = watched.metrics().await;
    for family in [
        "baton_campaigns_total",
        "baton_renewals_total",
        "baton_lost_leases_total",
        "baton_releases_total",
        "baton_store_guards_total",
        "baton_contention_total",
        "baton_departures_refuted_total",
        "baton_identity_clashes_total",
        "baton_store_clock_steps_total",
        "baton_config_reloads_total",
    ] {
        let lines: Vec<_> = text.lines().filter(|line| line.starts_with(family)).collect();
        assert!(!lines.is_empty() && lines.iter().all(|line| line.ends_with(" 1")), "{lines:?}");
    }
    assert!(text.contains("\nbaton_config_last_reload_successful 0\n"), "the last file was refused");
    watched.telemetry.record_system(&SystemEvent::ConfigReloaded(ConfigReload::default()));
    assert!(watched.metrics().await.contains("\nbaton_config_last_reload_successful 1\n"));
    let transitions = watched.series("baton_transitions_total{role=\"scheduler\"}").await;
    assert!((transitions - 2.0).abs() < f64::EPSILON, "two tokens were seen, one of them three times");
    let renewals = watched.series("baton_renewal_duration_seconds_count{role=\"scheduler\"}").await;
    assert!((renewals - 4.0).abs() < f64::EPSILON);
}

#[tokio::test]
async fn promtool_finds_nothing_to_say_about_the_metrics() {
    let (_role, watched) = leader().await;
    for event in every_event() {
        watched.telemetry.record(&name("scheduler"), &event, Duration::ZERO);
    }
    let text = watched.metrics().await;
    let mut promtool = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("promtool is installed (Debian: apt install prometheus)");
    std::io::Write::write_all(&mut promtool.stdin.take().unwrap(), text.as_bytes()).unwrap();
    let output = promtool.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(output.status.success() && said.is_empty(), "{said}");
}

#[tokio::test]
async fn leadership_is_computed_at_the_scrape() {
    let role = Staged::new("scheduler", Duration::from_secs(1), Cue::Grant);
    role.until_leading().await;
    let watched = Watched::start(&[&role]);
    let labelled = |metric: &str| format!("{metric}{{role=\"scheduler\"}}");
    let token = FIRST_TOKEN as f64;
    assert!((watched.series(&labelled("baton_fencing_token")).await - token).abs() < f64::EPSILON);
    assert!(watched.series(&labelled("baton_lease_remaining_seconds")).await > 0.0);
    assert!(watched.series("leader_election_master_status{name=\"scheduler\"}").await > 0.0);
    // The task is gone, so nobody can say that the term is over: the deadline does.
    role.end();
    ask_until(watched.address, "GET /leading", |reply| reply.status == 503).await;
    let text = watched.metrics().await;
    for line in [
        "baton_leader{role=\"scheduler\"} 0",
        "baton_fencing_token{role=\"scheduler\"} 0",
        "baton_lease_remaining_seconds{role=\"scheduler\"} 0",
        "leader_election_master_status{name=\"scheduler\"} 0",
    ] {
        assert!(text.lines().any(|given| given == line), "{line} in {text}");
    }
}

#[tokio::test]
async fn the_stores_health_is_a_gauge() {
    let (_role, watched) = leader().await;
    assert!(watched.metrics().await.contains("\nbaton_store_up 0\n"));
    watched.store.send_replace(StoreHealth::Up);
    assert!(watched.metrics().await.contains("\nbaton_store_up 1\n"));
}

#[tokio::test]
async fn livez_names_the_role_that_is_stuck() {
    let (_role, watched) = leader().await;
    let reply = ask(watched.address, "GET /livez").await;
    assert_eq!((reply.status, reply.json()), (200, json!({"alive": true, "stuck": []})));
    watched.liveness.lock().unwrap()[0].within = Duration::ZERO;
    let reply = ask_until(watched.address, "GET /livez", |reply| reply.status == 503).await;
    assert_eq!((&reply.json()["alive"], &reply.json()["stuck"][0]["role"]), (&json!(false), &json!("scheduler")));
}

#[tokio::test]
async fn readyz_tells_what_is_missing_and_stays_ready_when_the_store_goes() {
    let (_role, watched) = leader().await;
    watched.liveness.lock().unwrap()[0].knows_state = false;
    let reply = ask(watched.address, "GET /readyz").await;
    let reasons =
        json!(["the store was not reached yet: connection refused", "role scheduler does not know its state yet"]);
    assert_eq!((reply.status, &reply.json()["reasons"]), (503, &reasons));
    watched.liveness.lock().unwrap()[0].knows_state = true;
    watched.store.send_replace(StoreHealth::Up);
    let reply = ask(watched.address, "GET /readyz").await;
    assert_eq!((reply.status, reply.json()), (200, json!({"ready": true, "reasons": []})));
    watched.store.send_replace(StoreHealth::Down { reason: "connection reset".to_owned() });
    assert_eq!(ask(watched.address, "GET /readyz").await.status, 200);
    watched.liveness.lock().unwrap().clear();
    assert_eq!(ask(watched.address, "GET /readyz").await.status, 503, "without roles there is nothing to be ready for");
}

#[tokio::test]
async fn leading_here_promises_nothing() {
    let (role, watched) = leader().await;
    for line in ["GET /leading", "GET /leading/scheduler", "OPTIONS /leading", "HEAD /leading/scheduler"] {
        assert_eq!(ask(watched.address, line).await.status, 200, "{line}");
    }
    let body = ask(watched.address, "GET /leading").await.json();
    assert_eq!(body, json!({"role": "scheduler", "leading": true}));
    // Nobody was promised anything, so the lease is given back at once.
    role.handle.resign(None).await.unwrap();
    assert_eq!(role.handle.answer().state.as_str(), "standby", "a promise would have had to run out first");
    assert_eq!(ask(watched.address, "GET /leading").await.status, 503);
}

#[tokio::test]
async fn nothing_here_can_be_changed() {
    let (_role, watched) = leader().await;
    for path in ["/metrics", "/livez", "/readyz", "/leading", "/leading/scheduler"] {
        for method in ["POST", "PUT", "DELETE", "PATCH", "BREW"] {
            let reply = ask(watched.address, &format!("{method} {path}")).await;
            assert_eq!((reply.status, reply.header("allow")), (405, Some("GET, HEAD, OPTIONS")), "{method} {path}");
        }
    }
    let unknown = ask(watched.address, "POST /leader/scheduler/resign").await;
    assert_eq!((unknown.status, unknown.problem().as_str()), (404, "unknown-path"));
    assert_eq!(ask(watched.address, "HEAD /metrics").await.status, 200);
    assert_eq!(ask(watched.address, "OPTIONS /metrics").await.status, 204);
}

#[tokio::test]
async fn unknown_and_ambiguous_roles_are_named_here_too() {
    let a = Staged::new("a", Duration::from_secs(3), Cue::Silence);
    let b = Staged::new("b", Duration::from_secs(3), Cue::Silence);
    let watched = Watched::start(&[&a, &b]);
    let unknown = ask(watched.address, "GET /leading/c").await;
    assert_eq!((unknown.problem().as_str(), &unknown.json()["known"]), ("unknown-role", &json!(["a", "b"])));
    assert_eq!(ask(watched.address, "GET /leading").await.problem(), "ambiguous-role");
    watched.roles.replace(vec![], None);
    assert_eq!(ask(watched.address, "GET /leading").await.problem(), "unknown-role");
}

#[tokio::test]
async fn the_kubelet_comes_by_the_pods_address_and_is_let_in() {
    let (_role, watched) = leader().await;
    let reply = ask_with(watched.address, "GET /livez", &[("Host", "10.1.2.3:4041")], b"").await;
    assert_eq!(reply.status, 200);
    assert_eq!(reply.header("access-control-allow-origin"), None);
}

#[tokio::test]
async fn it_answers_while_the_apps_runtime_is_blocked() {
    let (_role, watched) = leader().await;
    let address = watched.address;
    // This test's runtime has one thread, and that thread now waits for an answer without yielding.
    let status = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(ask(address, "GET /livez")).status
    });
    assert_eq!(status.join().unwrap(), 200);
}

#[tokio::test]
async fn its_end_is_noticed_and_can_be_asked_for() {
    let (_role, mut watched) = leader().await;
    let still_runs = tokio::time::timeout(Duration::from_millis(50), watched.server.ended()).await;
    assert!(still_runs.is_err());
    watched.server.shutdown().await;
    assert!(tokio::net::TcpStream::connect(watched.address).await.is_err(), "nobody listens there any more");
}
