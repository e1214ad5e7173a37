//! The calls, as curl makes them, on one sidecar with its store in memory.

use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use testkit::ports::free_port;
use testkit::redis::RedisServer;
use testkit::wait::until;

use crate::http::{ask, hold, told};
use crate::sidecar::{GUARD, Sidecar, Store};

fn curl(arguments: &[&str]) -> Child {
    let mut command = Command::new("curl");
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().expect("curl runs")
}

fn kill(mut child: Child) {
    // Both fail only when it has ended already.
    let _ = child.kill();
    let _ = child.wait();
}

#[test]
fn a_lock_is_taken_extended_and_released_by_hand() {
    let sidecar = Sidecar::start("web-0", Store::Memory, GUARD);
    let (id, token) = sidecar.take("orders%2F42", r#"{"owner":"worker-7","lease":"5s"}"#);
    let held = sidecar.ask("POST /locks/orders%2F42", r#"{"owner":"worker-8"}"#);
    assert_eq!((held.status, held.problem().as_str()), (409, "lock-held"));
    assert_eq!(held.json()["holder"]["token"], token);
    assert!(held.header("retry-after").is_some());
    let extended = sidecar.ask(&format!("PUT /locks/orders%2F42/{id}"), "");
    assert_eq!(extended.status, 204);
    assert!(extended.header("baton-valid-for-ms").unwrap().parse::<u64>().unwrap() <= 4_900);
    assert_eq!(sidecar.release("orders%2F42", &id), 204);
    let (_, later) = sidecar.take("orders%2F42", "");
    assert_eq!(sidecar.release("orders%2F42", &id), 204, "what was given back is, however often it is asked for");
    assert_eq!(sidecar.insight("orders%2F42")["holders"][0]["token"], later, "and another's is left alone");
    assert!(later > token);
    assert_eq!(sidecar.metric("baton_locks_held"), 1.0);
    assert_eq!(sidecar.metric("baton_locks_acquisitions_total{outcome=\"granted\"}"), 2.0);
    assert_eq!(sidecar.metric("baton_locks_releases_total"), 2.0);
}

#[test]
fn a_hold_is_freed_when_its_client_is_killed() {
    let sidecar = Sidecar::start("web-0", Store::Memory, GUARD);
    let client = curl(&["-sN", &format!("http://{}/locks/orders/hold", sidecar.api)]);
    sidecar.until_like("orders", 1, 0);
    let killed = Instant::now();
    kill(client);
    sidecar.until_like("orders", 0, 0);
    println!("freed within {} ms of the kill", killed.elapsed().as_millis());
}

#[test]
fn a_killed_curl_leaves_its_lock_to_the_next_replica_before_that_looks_by_itself() {
    let redis = RedisServer::start();
    let sidecars = Sidecar::several(2, &Store::of(&redis), GUARD);
    sidecars.iter().for_each(Sidecar::until_open);
    let rounds: Vec<Duration> = (0..5)
        .map(|_| {
            let client = curl(&["-sN", &format!("http://{}/locks/orders/hold", sidecars[0].api)]);
            sidecars[0].until_like("orders", 1, 0);
            let next = sidecars[1].api;
            let waiter = thread::spawn(move || {
                let answer = ask(next, "POST /locks/orders", r#"{"wait":"1m"}"#);
                (Instant::now(), answer)
            });
            sidecars[0].until_like("orders", 1, 1);
            let killed = Instant::now();
            kill(client);
            let (granted, answer) = waiter.join().expect("the waiter is answered");
            assert_eq!(sidecars[1].release("orders", answer.json()["lock"].as_str().expect("a grant")), 204);
            granted - killed
        })
        .collect();
    println!("from SIGKILL to another replica's grant: {rounds:?}");
    // A waiter looks by itself after five seconds. A machine may be slow now and then, but not five times in a row.
    assert!(rounds.iter().min() < Some(&Duration::from_secs(4)), "{rounds:?}");
}

/// Killed when dropped, also where it was stopped.
struct App(Child);

impl Drop for App {
    fn drop(&mut self) {
        // Both fail only when it has ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// An app that answers for its health at this port, and keeps `orders` by a connection.
fn app(sidecar: &Sidecar, health_port: u16) -> App {
    const APP: &str = "\
import http.server, sys, threading, urllib.request
class Health(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
    def log_message(self, *words): pass
server = http.server.ThreadingHTTPServer(('127.0.0.1', int(sys.argv[1])), Health)
threading.Thread(target=server.serve_forever, daemon=True).start()
for line in urllib.request.urlopen(sys.argv[2]): pass
";
    let url = format!("http://{}/locks/orders/hold?lease=3s", sidecar.api);
    let mut command = Command::new("python3");
    command
        .args(["-c", APP, &health_port.to_string(), &url])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    App(command.spawn().expect("python3 runs"))
}

#[test]
fn an_app_that_hangs_keeps_its_connection_and_not_its_lock() {
    let health_port = free_port();
    let sidecar = Sidecar::start_beside("web-0", Store::Memory, GUARD, Some(health_port));
    let app = app(&sidecar, health_port);
    sidecar.until_like("orders", 1, 0);
    until("the app is known to be well", || sidecar.ask("GET /leading/scheduler", "").status == 200);
    kill_process(Pid::from_child(&app.0), Signal::STOP).expect("our own child takes signals");
    let stopped = Instant::now();
    let (_, token) = sidecar.take("orders", r#"{"wait":"1m"}"#);
    let waited = stopped.elapsed();
    assert_eq!(sidecar.metric("baton_locks_lost_total"), 1.0, "nobody hung up");
    // A renewal that has just been sent, two checks of 300 ms, and the lease.
    assert!(waited < Duration::from_secs(20), "{waited:?}");
    println!("the lock of an app that hangs was another's after {} ms, with a lease of 3 s", waited.as_millis());
    assert_eq!(sidecar.insight("orders")["holders"][0]["token"], token);
}

#[test]
fn a_waiting_client_that_is_killed_leaves_no_waiter() {
    let sidecar = Sidecar::start("web-0", Store::Memory, GUARD);
    let (id, _) = sidecar.take("orders", r#"{"lease":"1h"}"#);
    let url = format!("http://{}/locks/orders", sidecar.api);
    let json = "Content-Type: application/json";
    let client = curl(&["-s", "-X", "POST", "-H", json, "-d", r#"{"wait":"1h","fair":true}"#, &url]);
    sidecar.until_like("orders", 1, 1);
    kill(client);
    sidecar.until_like("orders", 1, 0);
    assert_eq!(sidecar.release("orders", &id), 204);
    sidecar.until_like("orders", 0, 0);
    assert_eq!(sidecar.metric("baton_locks_waiting"), 0.0);
}

#[test]
fn a_lock_that_is_not_extended_ends_by_itself_and_its_late_holder_harms_nobody() {
    let sidecar = Sidecar::start("web-0", Store::Memory, GUARD);
    let (late, first) = sidecar.take("orders", r#"{"lease":"300ms"}"#);
    // It was paused past its lease; meanwhile the lock is another's.
    let (successor, second) = sidecar.take("orders", r#"{"wait":"30s"}"#);
    assert!(second > first);
    assert_eq!(sidecar.release("orders", &late), 410, "the classic mistaken delete");
    let extension = sidecar.ask(&format!("PUT /locks/orders/{late}"), "");
    assert_eq!((extension.status, extension.problem().as_str()), (410, "lock-lost"));
    assert_eq!(sidecar.insight("orders")["holders"][0]["token"], second);
    assert_eq!(sidecar.release("orders", &successor), 204);
}

#[test]
fn at_the_end_of_the_process_holds_are_told_and_posted_locks_are_left() {
    let mut sidecar = Sidecar::start("web-0", Store::Memory, GUARD);
    sidecar.take("posted", r#"{"lease":"1h"}"#);
    let (mut connection, _) = hold(sidecar.api, "held", "").unwrap().expect("granted");
    let address = sidecar.api;
    let waiter = std::thread::spawn(move || ask(address, "POST /locks/posted", r#"{"wait":"1h"}"#));
    sidecar.until_like("posted", 1, 1);
    sidecar.signal(Signal::TERM);
    let refused = waiter.join().unwrap();
    assert_eq!((refused.status, refused.problem().as_str()), (503, "shutting-down"));
    let line = told(&mut connection).unwrap().expect("a line");
    assert!(line["ending"].is_string(), "{line}");
    drop(connection);
    assert_eq!(sidecar.wait_end(), Some(0));
}

#[test]
fn an_app_that_keeps_its_promise_in_mind_is_told_when_a_hold_is_lost() {
    let sidecar = Sidecar::start("web-0", Store::Memory, GUARD);
    // Long enough for a busy machine to renew it in time, before its sidecar is stopped.
    let lease = Duration::from_secs(3);
    let (mut connection, grant) = hold(sidecar.api, "orders", "lease=3s").unwrap().expect("granted");
    assert!(grant["valid_for_ms"].as_u64().is_some_and(|valid| valid <= 3_000), "{grant}");
    let renewal = told(&mut connection).unwrap().expect("a renewal");
    assert!(renewal["valid_for_ms"].is_u64(), "{renewal}");
    // While the sidecar stands still it cannot renew; when it goes on, the lock is past its lease.
    sidecar.signal(Signal::STOP);
    testkit::wait::last_for(lease);
    sidecar.signal(Signal::CONT);
    let mut last = None;
    until("the stream says that the lock is lost", || {
        last = told(&mut connection).unwrap();
        last.as_ref().is_none_or(|line| line["lost"].is_string())
    });
    assert!(last.is_some(), "the stream ended without a word");
    assert_eq!(sidecar.metric("baton_locks_lost_total"), 1.0);
}
