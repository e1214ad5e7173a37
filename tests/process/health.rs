//! An app that is unwell loses the role.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Instant;

use testkit::redis::RedisServer;
use testkit::sidecars::replica::{Lease, Settings};

use crate::group::{self, ROLE, ms_between};

/// How an app answers its health check.
#[derive(Clone, Copy)]
enum Mood {
    Well,
    /// It answers 500.
    Failing,
    /// It takes the request and never answers.
    Hanging,
}

/// The health endpoint of an app.
struct Endpoint {
    port: u16,
    mood: Arc<AtomicU8>,
}

impl Endpoint {
    fn start() -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
        let port = listener.local_addr().expect("it is bound").port();
        let mood = Arc::new(AtomicU8::new(Mood::Well as u8));
        let seen = Arc::clone(&mood);
        thread::spawn(move || {
            let hung = Mutex::new(Vec::new());
            for stream in listener.incoming().map_while(Result::ok) {
                answer(stream, seen.load(Ordering::Relaxed), &hung);
            }
        });
        Self { port, mood }
    }

    fn feel(&self, mood: Mood) {
        self.mood.store(mood as u8, Ordering::Relaxed);
    }
}

fn answer(mut stream: TcpStream, mood: u8, hung: &Mutex<Vec<TcpStream>>) {
    if mood == Mood::Hanging as u8 {
        hung.lock().expect("nothing panics with it").push(stream);
        return;
    }
    let status = if mood == Mood::Well as u8 { "200 OK" } else { "500 Internal Server Error" };
    // A checker that has given up is no matter.
    let _ = stream.read(&mut [0; 2_048]);
    let _ = stream.write_all(format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n").as_bytes());
}

#[test]
fn an_app_that_hangs_or_fails_loses_the_role_to_another_replica() {
    let redis = RedisServer::start();
    let endpoints = [Endpoint::start(), Endpoint::start()];
    let settings = |number: usize| {
        let port = endpoints[number].port;
        let check = format!(
            ", appCheck: {{ httpGet: {{ port: {port}, path: /healthz }}, period: 300ms, timeout: 250ms, \
             failureThreshold: 2 }}"
        );
        let roles = Lease::SHORT.role(ROLE, &check);
        Settings { roles, ..Settings::new(number, redis.url(), Lease::SHORT) }
    };
    let settings = (0..2).map(settings).collect();
    let group = group::start_with(redis, settings);
    let mut measured = String::new();
    let mut term = group.leader();
    for mood in [Mood::Hanging, Mood::Failing] {
        let (sick, other) = (term.who.replica, 1 - term.who.replica);
        endpoints[sick].feel(mood);
        let fell_ill_at = Instant::now();
        let unwell = group.answer_after(sick, fell_ill_at, "it is unhealthy", |seen| seen.told.state == "unhealthy");
        assert!(!unwell.told.leader && unwell.told.reason.is_some_and(|reason| reason.contains("health check")));
        let next = group.leader_after(&term);
        assert_eq!(next.who.replica, other);
        assert_eq!(group.replicas[sick].role_metric("baton_lost_leases_total", &[("reason", "unhealthy")]), 1.0);
        endpoints[sick].feel(Mood::Well);
        group.answer_after(sick, fell_ill_at, "it stands by again", |seen| seen.told.state == "standby");
        measured += &format!("handover {} ms, ", ms_between(fell_ill_at, next.from));
        term = next;
    }
    group.finish("appCheck", &measured);
}
