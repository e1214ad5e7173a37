//! Apps that show by a connection that they live (`/leader/{role}/hold`), and die, fork, stand still or close it.

use std::io::{BufRead, BufReader};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;
use testkit::redis::RedisServer;
use testkit::sidecars::held_app::HeldApp;
use testkit::sidecars::http::Connection;
use testkit::sidecars::jobs::json;
use testkit::sidecars::replica::{Lease, ROLE, Replica, Settings};
use testkit::wait::{until, until_some};

/// With promises that are much longer than a handover takes.
const LEASE: Lease = Lease { duration: 9_000, renew: 1_500, margin: 300, validity: 3_000 };
const VALIDITY: Duration = Duration::from_millis(LEASE.validity);

/// Longer than anything takes that is waited for.
const PATIENCE: Duration = Duration::from_secs(30);

struct App {
    process: HeldApp,
    lines: Receiver<Value>,
}

impl App {
    fn start(api: SocketAddr, query: &str) -> Self {
        let (tell, lines) = mpsc::channel();
        Self { process: HeldApp::start(api, ROLE, query, sender(tell)), lines }
    }

    fn start_with_child(api: SocketAddr, query: &str) -> Self {
        let (tell, lines) = mpsc::channel();
        Self { process: HeldApp::start_with_child(api, ROLE, query, sender(tell)), lines }
    }

    /// The next that it was told.
    fn told(&self) -> Value {
        self.lines.recv_timeout(PATIENCE).expect("it is told something")
    }
}

/// Nobody listens any more when a test is over.
fn sender(tell: Sender<Value>) -> impl FnMut(Instant, Value) + Send {
    move |_, told| drop(tell.send(told))
}

fn status(replica: &Replica) -> Value {
    json(&replica.ask("GET /status", ""))["roles"][0].take()
}

fn leads(replica: &Replica) -> bool {
    status(replica)["leads"] == true
}

struct Stage {
    _redis: RedisServer,
    replicas: Vec<Replica>,
    leading: usize,
}

impl Stage {
    fn new(more: &str) -> Self {
        let redis = RedisServer::start();
        let settings = |number| Settings {
            roles: LEASE.role(ROLE, ""),
            more: more.to_owned(),
            ..Settings::new(number, redis.url(), LEASE)
        };
        let replicas: Vec<Replica> = (0..2).map(|number| Replica::start(number, settings(number))).collect();
        // Who looks is promised nothing.
        let leading = until_some("somebody leads", || replicas.iter().position(leads));
        let stage = Self { _redis: redis, replicas, leading };
        until("the other knows", || status(stage.other())["holder"].is_string());
        stage
    }

    fn held(&self, query: &str) -> App {
        App::start(self.replicas[self.leading].api(), query)
    }

    fn other(&self) -> &Replica {
        &self.replicas[1 - self.leading]
    }

    /// When the other leads, and its token.
    fn successor(&self) -> (Instant, u64) {
        let app = App::start(self.other().api(), "?wait=1m");
        let told = app.told();
        (Instant::now(), told["token"].as_u64().expect("it leads"))
    }

    fn leads(&self) -> bool {
        leads(&self.replicas[self.leading])
    }

    fn releases(&self, reason: &str) -> f64 {
        self.replicas[self.leading].role_metric("baton_releases_total", &[("reason", reason)])
    }
}

#[test]
fn who_is_killed_and_acted_alone_is_followed_at_once() {
    let stage = Stage::new("");
    let mut app = stage.held("?scope=process");
    let told = app.told();
    assert_eq!((&told["leader"], &told["role"], &told["state"]), (&true.into(), &ROLE.into(), &"leading".into()));
    assert!(told["valid_for_ms"].as_u64() > Some(LEASE.validity - 500), "{told}");
    // It is told again before that is over.
    let again = app.told();
    assert!(app.process.asked_at.elapsed() < VALIDITY && again["token"] == told["token"], "{again}");
    // What it asks for besides belongs to the connection.
    let ask = format!("GET /leader/{ROLE}?hold={}", told["hold"].as_str().expect("a name"));
    let asked = stage.replicas[stage.leading].ask(&ask, "");
    let (told_at, asked) = (Instant::now(), json(&asked));
    assert_eq!((&asked["leader"], &asked["token"]), (&true.into(), &told["token"]), "{asked}");
    drop(app.process.kill());
    let (led_at, token) = stage.successor();
    let asked = stage.replicas[stage.leading].ask(&ask, "");
    assert_eq!((asked.status, asked.problem().as_str()), (410, "hold-ended"), "{}", asked.body);
    assert!(token > told["token"].as_u64().expect("a token"));
    assert!(led_at < told_at + VALIDITY / 2, "nothing was waited for: {:?}", led_at - told_at);
    until("it is counted", || stage.releases("app_left") == 1.0);
}

#[test]
fn what_others_may_act_upon_is_waited_for() {
    let stage = Stage::new("");
    let mut app = stage.held("");
    let valid_for = Duration::from_millis(app.told()["valid_for_ms"].as_u64().expect("it leads"));
    drop(app.process.kill());
    let (led_at, _) = stage.successor();
    assert!(led_at >= app.process.asked_at + valid_for, "{:?} before", app.process.asked_at + valid_for - led_at);
    until("it is counted", || stage.releases("app_left") == 1.0);
}

/// A connection that a forked child has, too, is open until that has ended: what a client opens for this must be closed
/// where it forks, or the app's health check finds out.
#[test]
fn a_child_that_inherits_the_connection_keeps_the_lead() {
    let stage = Stage::new("");
    let mut app = App::start_with_child(stage.replicas[stage.leading].api(), "?scope=process");
    app.told();
    let child = app.process.kill();
    let renewals = || stage.replicas[stage.leading].role_metric("baton_renewals_total", &[("outcome", "ok")]);
    let before = renewals();
    until("the lease is renewed for it", || renewals() >= before + 2.0);
    assert!(stage.leads());
    drop(child);
    stage.successor();
}

#[test]
fn one_of_two_that_goes_is_not_the_last() {
    let stage = Stage::new("");
    let (mut first, mut second) = (stage.held("?scope=process"), stage.held("?scope=process"));
    first.told();
    second.told();
    drop(first.process.kill());
    second.told();
    assert_eq!(second.told()["leader"], true);
    drop(second.process.kill());
    stage.successor();
}

#[test]
fn who_closes_its_side_has_left_and_who_stands_still_has_not() {
    let stage = Stage::new("");
    let mut still = stage.held("?scope=process");
    still.told();
    still.process.signal(Signal::STOP);
    let renewals = || stage.replicas[stage.leading].role_metric("baton_renewals_total", &[("outcome", "ok")]);
    let before = renewals();
    until("the lease is renewed for it", || renewals() >= before + 2.0);
    let api = stage.replicas[stage.leading].api();
    let mut half = TcpStream::connect(api).expect("it listens");
    let request = format!("GET /leader/{ROLE}/hold?scope=process HTTP/1.1\r\nHost: {api}\r\n\r\n");
    std::io::Write::write_all(&mut half, request.as_bytes()).expect("sent");
    BufReader::new(&half).read_line(&mut String::new()).expect("an answer");
    drop(still.process.kill());
    let before = renewals();
    until("there is another", || renewals() >= before + 1.0);
    half.shutdown(Shutdown::Write).expect("half of it is closed");
    stage.successor();
}

#[test]
fn who_is_told_of_the_end_closes_the_connection_and_is_not_waited_for() {
    let stage = Stage::new("");
    let mut app = stage.held("?scope=process");
    app.told();
    let resigned_at = Instant::now();
    let resigned = stage.replicas[stage.leading].ask(&format!("POST /leader/{ROLE}/resign"), r#"{"cooldown":"1m"}"#);
    assert_eq!(resigned.status, 202, "{}", resigned.body);
    let told = until_some("it is told", || Some(app.told()).filter(|told| told["leader"] == false));
    assert_eq!((&told["state"], &told["token"]), (&"draining".into(), &Value::Null), "{told}");
    drop(app.process.kill());
    let (led_at, _) = stage.successor();
    assert!(led_at < resigned_at + VALIDITY / 2, "it has stopped: {:?}", led_at - resigned_at);
}

#[test]
fn who_says_that_it_has_stopped_is_not_waited_for_whoever_might_have_acted() {
    let stage = Stage::new("");
    let (first, second) = (stage.held(""), stage.held(""));
    let names = [first.told(), second.told()];
    let stopped = |told: &Value| {
        let said = format!("POST /leader/{ROLE}/drained?hold={}", told["hold"].as_str().expect("a name"));
        let answer = stage.replicas[stage.leading].ask(&said, "");
        let told = json(&answer);
        assert_eq!((answer.status, &told["leader"], &told["token"]), (202, &false.into(), &Value::Null), "{told}");
        let again = stage.replicas[stage.leading].ask(&said, "");
        assert_eq!((again.status, again.problem().as_str()), (410, "hold-ended"), "{}", again.body);
    };
    stopped(&names[0]);
    assert!(stage.leads(), "it has spoken for itself");
    let said_at = Instant::now();
    stopped(&names[1]);
    let (led_at, _) = stage.successor();
    assert!(led_at < said_at + VALIDITY / 2, "nothing was waited for: {:?}", led_at - said_at);
    until("it is counted", || stage.releases("app_left") == 1.0);
}

/// The connection ends from this side, and nobody knows whether its client has stopped.
#[test]
fn who_keeps_the_connection_to_the_end_is_waited_for() {
    let stage = Stage::new("");
    let app = stage.held("?scope=process");
    let valid_for = Duration::from_millis(app.told()["valid_for_ms"].as_u64().expect("it leads"));
    stage.replicas[stage.leading].signal(Signal::TERM);
    let (led_at, _) = stage.successor();
    assert!(led_at >= app.process.asked_at + valid_for, "{:?} before", app.process.asked_at + valid_for - led_at);
}

#[test]
fn who_does_not_lead_may_wait_and_is_told_who_does() {
    let stage = Stage::new("");
    let mut connection = Connection::open(stage.other().api()).expect("it listens");
    let refused = connection.ask(&format!("GET /leader/{ROLE}/hold"), "").expect("an answer");
    assert_eq!((refused.status, refused.problem().as_str()), (409, "not-leading"), "{}", refused.body);
    assert!(refused.body.contains(&format!("web-{}", stage.leading)), "{}", refused.body);
    let refused = connection.ask(&format!("GET /leader/{ROLE}/hold?wait=20ms"), "").expect("an answer");
    assert_eq!(refused.status, 409, "{}", refused.body);
    let bad = connection.ask(&format!("GET /leader/{ROLE}/hold?scope=thread"), "").expect("an answer");
    assert_eq!((bad.status, bad.problem().as_str()), (400, "bad-parameter"), "{}", bad.body);
    let unknown = connection.ask("GET /leader/nobody/hold", "").expect("an answer");
    assert_eq!(unknown.status, 404, "{}", unknown.body);
}
