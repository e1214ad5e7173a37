//! The page follows what happens, without a reload.

use rustix::process::Signal;
use serde_json::json;
use testkit::sidecars::replica::Lease;
use testkit::wait::until;

use crate::driver::{Browser, ENTER, ESCAPE, SPACE, TAB};
use crate::stage::{Stage, card, job, who};

#[test]
fn a_killed_leader_is_followed_on_the_page_of_its_successor() {
    let mut stage = Stage::start(Lease::SHORT);
    let browser = Browser::open();
    let leader = stage.leader();
    stage.open(&browser, 1 - leader);
    browser.until(&format!("{}.includes('web-{leader} leads')", who("scheduler")));
    stage.replicas[leader].kill();
    browser.until(&format!("{}.includes('This replica leads')", who("scheduler")));
    let said = browser.text("document.querySelector('#said').textContent");
    assert!(said.contains("This replica leads"), "a screen reader is told: {said:?}");
    let token = browser.text(&format!("{}.textContent", card("scheduler", "dd.number")));
    assert!(token.parse::<u64>().is_ok(), "{token}");
    // The bar runs down and is filled up by a renewal.
    let bar = format!("{}.value", card("scheduler", "progress"));
    let value = || browser.look(&bar).as_f64().unwrap();
    let (mut last, mut fell, mut rose) = (value(), false, false);
    until("the bar falls and rises", || {
        let next = value();
        (fell, rose) = (fell || next < last, rose || next > last);
        last = next;
        fell && rose
    });
    let changes = browser.text(&format!("{}.textContent", card("scheduler", "table")));
    assert!(changes.contains("leading") && changes.contains(&format!("web-{leader}")), "{changes}");
    assert_eq!(browser.look("window.opened"), true, "it was not loaded anew");
    assert_eq!(browser.complaints(), [""; 0]);
}

#[test]
fn a_leader_is_resigned_with_the_keyboard_alone_and_only_after_a_question() {
    let stage = Stage::start(Lease::LONGER);
    let browser = Browser::open();
    let leader = stage.leader();
    stage.open(&browser, leader);
    browser.until(&format!("{}.includes('This replica leads')", who("scheduler")));
    let is_resign = "at.textContent.startsWith('Resign') && at.closest('[data-role=scheduler]')";
    browser.tab_to(&format!("!!({is_resign})"));
    let outline = browser.text("getComputedStyle(document.activeElement).outlineStyle");
    assert_eq!(outline, "solid", "the focus is seen");
    browser.press(&[ENTER]);
    assert_eq!(browser.look("document.querySelector('#confirm').open"), true);
    assert_eq!(browser.text("document.activeElement.id"), "confirm-no", "a hasty key keeps the role");
    browser.press(&[ESCAPE]);
    assert_eq!(browser.look("document.querySelector('#confirm').open"), false);
    assert_eq!(
        browser.look(&format!(
            "!!(document.activeElement.textContent && {})",
            is_resign.replace("at.", "document.activeElement.")
        )),
        true
    );
    assert!(stage.leads(leader), "it was only asked");
    browser.press(&[SPACE, TAB]);
    assert_eq!(browser.text("document.activeElement.id"), "confirm-yes");
    browser.press(&[ENTER]);
    let other = 1 - leader;
    browser.until(&format!("{}.includes('web-{other} leads')", who("scheduler")));
    let done = browser.text("document.querySelector('#done').innerText");
    assert!(done.contains("✓") && done.contains("resign scheduler"), "{done}");
    assert!(stage.leads(other));
    assert_eq!(browser.look(&format!("{}.disabled", card("scheduler", "button"))), true, "nothing is left to resign");
    assert_eq!(browser.complaints(), [""; 0]);
}

#[test]
fn a_lock_of_another_replica_is_seen_and_ended_only_after_a_question() {
    let stage = Stage::start(Lease::LONGER);
    let browser = Browser::open();
    let [here, other] = [&stage.replicas[0], &stage.replicas[1]];
    stage.leader();
    assert_eq!(other.ask("POST /locks/orders%2F42", r#"{"owner":"worker-7","lease":"10m"}"#).status, 201);
    stage.open(&browser, 0);
    let locks = "document.querySelector('#locks').innerText";
    browser.until("document.querySelector('#no-locks').textContent.includes('through this replica')");
    browser.tab_to("at.id === 'all-locks'");
    browser.press(&[SPACE]);
    browser.until(&format!("{locks}.includes('worker-7 on web-1')"));
    browser.tab_to("at.getAttribute('aria-label') === 'End: orders/42, worker-7 on web-1'");
    browser.press(&[ENTER]);
    assert_eq!(browser.text("document.activeElement.id"), "confirm-no", "a hasty key keeps the lock");
    assert_eq!(browser.look("document.querySelector('#cooldown').checkVisibility()"), false);
    browser.press(&[ESCAPE]);
    assert!(here.ask("GET /locks/orders%2F42", "").body.contains("worker-7"), "it was only asked");
    browser.press(&[ENTER, TAB, ENTER]);
    browser.until("document.querySelector('#done').innerText.includes('✓')");
    browser.until("document.querySelector('#no-locks').textContent === 'No lock is held or waited for.'");
    assert!(here.ask("GET /locks/orders%2F42", "").body.contains("\"holders\":[]"));
    assert_eq!(browser.complaints(), [""; 0]);
}

#[test]
fn jobs_are_run_suspended_and_resumed_by_their_buttons_and_a_refusal_is_shown() {
    let stage = Stage::start(Lease::LONGER);
    let browser = Browser::open();
    let leader = stage.leader();
    // The buttons work on every replica's page.
    stage.open(&browser, 1 - leader);
    let row = |name: &str, part: &str| format!("{}.innerText.includes('{part}')", job(name));
    browser.until(&row("nightly-report", "Run now"));
    browser.tab_to("at.getAttribute('aria-label') === 'Run now: nightly-report'");
    browser.press(&[ENTER]);
    browser.until(&row("nightly-report", "succeeded"));
    browser.until(&row("nightly-report", &format!("on web-{leader}")));
    let done = browser.text("document.querySelector('#done').innerText");
    assert!(done.contains("✓") && done.contains("nightly-report-manual-"), "{done}");
    browser.tab_to("at.getAttribute('aria-label') === 'Run now: failing'");
    browser.press(&[ENTER]);
    browser.until(&row("failing", "failed (backoff limit exceeded)"));
    browser.tab_to("at.getAttribute('aria-label') === 'Suspend: nightly-report'");
    browser.press(&[ENTER]);
    browser.until(&row("nightly-report", "suspended"));
    let label = browser.text("document.activeElement.getAttribute('aria-label')");
    assert_eq!(label, "Resume: nightly-report", "the focus stays where it was");
    browser.press(&[ENTER]);
    browser.until(&format!("!{}", row("nightly-report", "suspended")));
    assert_eq!(browser.complaints(), [""; 0]);
    // Somebody has resigned it meanwhile: the page shows what the sidecar says.
    browser.run("act('resign scheduler', '/leader/scheduler/resign');");
    browser.until("document.querySelector('#done').innerText.includes('does not lead')");
    assert!(stage.leads(leader));
}

#[test]
fn locks_are_shown_with_their_holder_and_go_when_it_goes() {
    let stage = Stage::start(Lease::LONGER);
    let browser = Browser::open();
    stage.open(&browser, 0);
    let row = "(document.querySelector('#locks [data-key=\"orders/42\"]') || { innerText: '' }).innerText";
    browser.until("document.querySelector('#no-locks').textContent.includes('No lock is held')");
    // The guard of a Redis that has just started may not be over yet.
    let wish = json!({ "owner": "<b>worker-7</b>", "wait": "5s" }).to_string();
    let taken = stage.replicas[0].ask("POST /locks/orders%2F42", &wish);
    assert_eq!(taken.status, 201, "{taken:?}");
    browser.until(&format!("{row}.includes('<b>worker-7</b> on web-0')"));
    let grant: serde_json::Value = serde_json::from_str(&taken.body).expect("JSON");
    let lock = grant["lock"].as_str().expect("an id");
    assert_eq!(stage.replicas[0].ask(&format!("DELETE /locks/orders%2F42/{lock}"), "").status, 204);
    browser.until(&format!("{row} === ''"));
    assert_eq!(browser.complaints(), [""; 0]);
}

#[test]
fn a_sidecar_that_is_gone_leaves_no_leader_on_its_page() {
    let mut stage = Stage::start(Lease::SHORT);
    let browser = Browser::open();
    let leader = stage.leader();
    stage.open(&browser, leader);
    browser.until(&format!("{}.includes('This replica leads')", who("scheduler")));
    // Paused, it keeps its connections: only its silence tells.
    stage.replicas[leader].signal(Signal::STOP);
    browser.until("document.querySelector('#trouble').textContent.includes('Not connected')");
    browser.until(&format!("{} === '?Not known: not connected'", who("scheduler")));
    assert_eq!(browser.look(&format!("{}.value", card("scheduler", "progress"))), 0.0);
    assert_eq!(browser.look(&format!("{}.disabled", card("scheduler", "button"))), true);
    stage.replicas[leader].signal(Signal::CONT);
    browser.until("document.querySelector('#trouble').textContent === ''");
    browser.until(&format!("{}.includes(' leads')", who("scheduler")));
    stage.replicas[leader].kill();
    browser.until("document.querySelector('#connection').textContent.includes('Not connected')");
    let all = browser.text("document.body.innerText");
    assert!(!all.contains("This replica leads") && !all.contains("Run now"), "{all}");
}
