//! Light and dark, on a phone, without colour and without motion: what people need from the page.

use serde_json::Value;
use testkit::place::Place;
use testkit::redis::RedisServer;
use testkit::sidecars::http::Connection;
use testkit::sidecars::replica::{Lease, Replica, Settings};

use crate::driver::{Browser, ENTER, TAB};
use crate::stage::{JOBS, Stage, job, who};

/// Every piece of text on the page that is less than 4.5 times as light or dark as what is behind it (WCAG AA), and the
/// contrast.
const FAINT: &str = r"
const parts = (color) => color.match(/[\d.]+/g).map(Number);
const light = (color) => parts(color).slice(0, 3).map((c) => c / 255)
  .map((c) => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
  .reduce((sum, c, at) => sum + c * [0.2126, 0.7152, 0.0722][at], 0);
const ground = (element) => {
  for (let at = element; at; at = at.parentElement) {
    const color = getComputedStyle(at).backgroundColor;
    if (parts(color)[3] !== 0) return color;
  }
};
return [...document.querySelectorAll('body *')].filter((element) => element.checkVisibility()
    && !element.disabled && [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim()))
  .map((element) => {
    const [a, b] = [light(getComputedStyle(element).color), light(ground(element))].sort((x, y) => y - x);
    return [element.textContent, (a + 0.05) / (b + 0.05)];
  }).filter(([, contrast]) => contrast < 4.5);";

/// Elements that reach beyond the page's right edge.
const TOO_WIDE: &str = "[...document.querySelectorAll('body *')].filter((element) => element.checkVisibility()
  && element.getBoundingClientRect().right > innerWidth + 1).map((element) => element.outerHTML.slice(0, 80))";

/// Takes a picture. Those that the documentation shows are written there when `BATON_PAGE_WRITE` is set.
fn picture(browser: &Browser, name: &str) {
    let bytes = browser.picture();
    assert!(bytes.starts_with(b"\x89PNG"), "{name} is a picture");
    let page = include_str!("../../docs/status-page.md");
    if std::env::var_os("BATON_PAGE_WRITE").is_some() && page.contains(&format!("{name}.png")) {
        let path = format!("{}/docs/pictures/{name}.png", env!("CARGO_MANIFEST_DIR"));
        std::fs::write(&path, bytes).unwrap_or_else(|error| panic!("{path}: {error}"));
    }
}

/// Both replicas' roles, a run that succeeded, one that failed, a lock with a waiter: all that the page has to show.
fn busy() -> (Stage, Browser, usize, Connection) {
    let stage = Stage::start(Lease { duration: 15_000, renew: 5_000, margin: 1_000, validity: 5_000 });
    let browser = Browser::open();
    let leader = stage.leader();
    let replica = &stage.replicas[leader];
    assert_eq!(replica.ask("POST /jobs/nightly-report/run", "").status, 202);
    assert_eq!(replica.ask("POST /jobs/failing/run", "").status, 202);
    assert_eq!(replica.ask("POST /locks/orders%2F42", r#"{"owner":"worker-7","lease":"10m"}"#).status, 201);
    let mut waiter = Connection::open(replica.api()).expect("a connection");
    waiter.send("GET /locks/orders%2F42/hold?owner=worker-8&wait=10m", "").expect("a request");
    // The other leads the other role, so that both sides of a role are seen.
    if stage.leader_of("reports") == leader {
        assert_eq!(replica.ask("POST /leader/reports/resign", r#"{"cooldown":"1h"}"#).status, 202);
    }
    stage.open(&browser, leader);
    browser.until(&format!("{}.includes('This replica leads')", who("scheduler")));
    browser.until(&format!("{}.innerText.includes('failed')", job("failing")));
    browser.until(&format!("{}.innerText.includes('succeeded')", job("nightly-report")));
    browser.until("document.querySelector('#locks').innerText.includes('worker-7')");
    browser.until("document.querySelector('#locks').innerText.includes('1 (1 through this replica)')");
    browser.until(&format!("{}.includes('web-{} leads')", who("reports"), 1 - leader));
    (stage, browser, leader, waiter)
}

#[test]
fn it_is_read_in_light_and_dark_on_a_desk_and_on_a_phone() {
    let (mut stage, browser, leader, _waiter) = busy();
    for scheme in ["light", "dark"] {
        browser.prefer(&[("prefers-color-scheme", scheme)]);
        for (device, width, height) in [("desk", 1_100, 920), ("phone", 360, 780)] {
            browser.size(width, height);
            let place = format!("{scheme} on a {device}");
            assert_eq!(browser.look(TOO_WIDE), Value::Array(vec![]), "{place}");
            assert_eq!(browser.run(FAINT), Value::Array(vec![]), "{place}");
            picture(&browser, &format!("status-page-{scheme}-{device}"));
        }
    }
    browser.prefer(&[("prefers-color-scheme", "light")]);
    stage.replicas[leader].kill();
    browser.until(&format!("{} === '?Not known: not connected'", who("scheduler")));
    assert_eq!((browser.look(TOO_WIDE), browser.run(FAINT)), (Value::Array(vec![]), Value::Array(vec![])));
    picture(&browser, "status-page-not-connected");
}

#[test]
fn a_phone_keeps_the_tables_of_who_listens_and_calm_is_respected() {
    let (_stage, browser, _leader, _waiter) = busy();
    browser.size(360, 780);
    let tree = browser.devtools("Accessibility.getFullAXTree", &serde_json::json!({}));
    let nodes = tree["nodes"].as_array().expect("nodes");
    let named = |role: &str, name: &str| {
        nodes.iter().filter(|n| n["role"]["value"] == role && n["ignored"] != true).any(|n| n["name"]["value"] == name)
    };
    for (role, name) in [
        ("heading", "Roles"),
        ("heading", "scheduler"),
        ("table", "Jobs"),
        ("columnheader", "Next run"),
        ("button", "Run now: nightly-report"),
        ("button", "Resign …"),
        ("progressbar", "Time left"),
    ] {
        assert!(named(role, name), "there is a {role} called {name}");
    }
    let transition = "getComputedStyle(document.querySelector('.card')).transitionDuration";
    browser.prefer(&[("prefers-reduced-motion", "reduce")]);
    assert_eq!(browser.text(transition), "0s");
}

#[test]
fn a_role_that_a_reload_removes_goes_from_the_page() {
    let redis = RedisServer::start();
    let lease = Lease::LONGER;
    let roles = format!("{}{}{JOBS}", lease.role("reports", ""), lease.role("scheduler", ""));
    let replica = Replica::start(0, Settings { roles, ..Settings::new(0, redis.url(), lease) });
    let browser = Browser::open();
    browser.go(&format!("http://{}/", replica.api()));
    browser.until("document.querySelectorAll('[data-role]').length === 2");
    let fewer = format!("{}{JOBS}", lease.role("scheduler", ""));
    std::fs::write(&replica.config, replica.config_with(&fewer)).expect("a configuration");
    browser.until("document.querySelectorAll('[data-role]').length === 1");
    browser.until(&format!("{}.includes('This replica leads')", who("scheduler")));
    assert_eq!(browser.complaints(), [""; 0]);
}

#[test]
fn a_shard_is_resigned_like_any_role_and_what_the_store_lacks_is_said() {
    let store = "{ memory: {} }".to_owned();
    let roles = Lease::LONGER.role("work", ", shards: 2");
    let settings = Settings { roles, ..Settings::on_store(0, store, Place::here(), Lease::LONGER) };
    let replica = Replica::start(0, settings);
    let browser = Browser::open();
    browser.go(&format!("http://{}/", replica.api()));
    let card = "document.querySelector('[data-role=\"work/1\"]')";
    browser.until(&format!("!!{card} && {card}.innerText.includes('This replica leads')"));
    browser.tab_to(&format!("at.textContent === 'Resign …' && {card}.contains(at)"));
    browser.press(&[ENTER, TAB, ENTER]);
    browser.until("document.querySelector('#done').innerText.includes('✓')");
    browser.until(&format!("!{card}.innerText.includes('This replica leads')"));
    browser.until("document.querySelector('#no-jobs').textContent === 'No jobs are configured.'");
    assert_eq!(browser.complaints(), [""; 0]);
}
