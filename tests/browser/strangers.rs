//! What pages of other sites can do to a sidecar with the browser of somebody who reaches it: nothing.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;

use testkit::redis::RedisServer;
use testkit::sidecars::replica::{Lease, Replica, Settings};

use crate::driver::Browser;
use crate::stage::{Stage, card};

/// Serves one page to whoever asks, as long as the test runs. Each connection has a thread of its own: a browser opens
/// some that it may never use, and one that says nothing must not keep the others waiting.
fn site(page: String) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("an address");
    let answer = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{page}",
        page.len()
    );
    thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let answer = answer.clone();
            thread::spawn(move || {
                let read = stream.read(&mut [0; 4_096]);
                // A browser that has gone needs no answer.
                let _ = read.and_then(|_| stream.write_all(answer.as_bytes()));
            });
        }
    });
    address
}

#[test]
fn another_sites_page_cannot_resign_a_leader_take_a_lock_or_read_anything() {
    let stage = Stage::start(Lease::LONGER);
    let browser = Browser::open();
    let leader = stage.leader();
    let api = stage.replicas[leader].api();
    let resign = format!("http://{api}/leader/scheduler/resign");
    let evil = site(format!(
        "<!doctype html><title>evil</title><form id=f method=post action='{resign}' target=sink></form>\
         <iframe name=sink></iframe><iframe src='http://{api}/'></iframe><img src='http://{api}/locks/theirs/hold'>\
         <a id=link href='http://{api}/'>Baton</a>"
    ));
    // As a browser does that expects to need another.
    let _unused = TcpStream::connect(evil).expect("a connection");
    // 127.0.0.1 on another port is the same site, but another origin; localhost is another site.
    for host in ["127.0.0.1", "localhost"] {
        browser.go(&format!("http://{host}:{}/", evil.port()));
        let attempts = browser.run(&format!(
            "const say = (answer) => answer.type + answer.status;
             const get = (path, more) => fetch('http://{api}' + path, more).then(say, () => 'refused');
             document.getElementById('f').submit();
             navigator.sendBeacon('{resign}', '');
             return Promise.all([
               get('/leader/scheduler/resign', {{ method: 'POST', mode: 'no-cors' }}),
               get('/leader/scheduler/resign', {{ method: 'POST' }}),
               get('/leader/scheduler/resign', {{ method: 'POST', headers: {{ 'X-Baton-Request': 'page' }} }}),
               get('/jobs/nightly-report/run', {{ method: 'POST', mode: 'no-cors' }}),
               get('/locks/theirs', {{ method: 'POST', mode: 'no-cors' }}),
               get('/locks/theirs/hold', {{ mode: 'no-cors' }}),
               get('/leader/scheduler'), get('/status'), get('/'),
             ]);"
        ));
        for attempt in attempts.as_array().expect("attempts") {
            // What is sent without asking first has an answer that the page cannot read.
            assert!(["refused", "opaque0"].contains(&attempt.as_str().expect("a word")), "{attempts}");
        }
        assert!(stage.leads(leader), "from {host}");
        let locks = stage.told(leader, "GET /locks/theirs");
        assert!(locks.contains("\"holders\":[]"), "{locks}");
        let runs = stage.told(leader, "GET /jobs/nightly-report/runs");
        assert!(runs.contains("\"runs\":[]"), "{runs}");
        let refused = stage.replicas[leader].ask("GET /leader/scheduler", "").body;
        assert!(refused.contains("\"leader\":true"), "{refused}");
        // A link leads to the page all the same.
        browser.run("document.getElementById('link').click();");
        browser.until(&format!("!!{}", card("scheduler", ".who")));
    }
}

#[test]
fn a_listener_with_a_token_shows_nothing_until_it_is_given() {
    let redis = RedisServer::start();
    let folder = tempfile::TempDir::new().expect("a temporary directory");
    let file = folder.path().join("token");
    std::fs::write(&file, "0123456789abcdef0123456789abcdef\n").expect("a token file");
    let settings = Settings::new(0, redis.url(), Lease::LONGER);
    let settings = Settings { token_file: Some(file), ..settings };
    let replica = Replica::start(0, settings);
    let browser = Browser::open();
    browser.go(&format!("http://{}/", replica.api()));
    browser.until("!document.querySelector('#token-form').hidden && document.activeElement.id === 'token'");
    assert!(browser.look("document.querySelectorAll('[data-role]').length") == 0, "nothing is shown");
    let give = |token: &str| {
        browser
            .press(&token.chars().map(String::from).collect::<Vec<_>>().iter().map(String::as_str).collect::<Vec<_>>());
        browser.press(&[crate::driver::ENTER]);
    };
    give("wrong");
    browser.until("document.querySelector('#token-why').textContent.includes('not accepted')");
    browser.until("document.activeElement.id === 'token' && !document.querySelector('#token-form').hidden");
    give("0123456789abcdef0123456789abcdef");
    browser.until(&format!("{}.includes('This replica leads')", crate::stage::who("scheduler")));
    assert_eq!(browser.look("document.querySelector('#token-form').hidden"), true);
    assert_eq!(browser.look("document.body.innerHTML.includes('0123456789abcdef')"), false);
    assert_eq!(browser.look("localStorage.length + sessionStorage.length + document.cookie.length"), 0);
}
