//! The clock of Redis is set back while the dead hold a lock and stand first in the queue of another.

use std::thread;
use std::time::{Duration, Instant};

use testkit::sidecars::clock;

use crate::http::{ask, hold};
use crate::sidecar::{GUARD, LEASE_MS, Sidecar, Store};

#[test]
fn a_clock_that_is_set_back_by_an_hour_keeps_no_lock_and_no_ticket_of_the_dead_for_longer_than_one_more_lease() {
    let Some((redis, control)) = clock::redis() else { return };
    let mut sidecars = Sidecar::several(3, &Store::of(&redis), GUARD);
    sidecars.iter().for_each(Sidecar::until_open);
    let [dead, other] = [&sidecars[0], &sidecars[1]].map(|sidecar| sidecar.api);
    let (_held, grant) = hold(dead, "orders", "").unwrap().expect("granted");
    let (id, first) = sidecars[2].take("stock", r#"{"lease":"1h"}"#);
    thread::spawn(move || drop(hold(dead, "stock", "wait=10m&fair=true")));
    sidecars[1].until_like("stock", 1, 1);
    let waiter = thread::spawn(move || {
        let answer = ask(other, "POST /locks/orders", r#"{"wait":"1m","fair":true}"#);
        assert_eq!(answer.status, 201, "{answer:?}");
        (Instant::now(), answer.json()["token"].as_u64().expect("a token"))
    });
    sidecars[1].until_like("orders", 1, 1);
    sidecars[0].kill();
    control.set(-3_600);
    let stepped = Instant::now();
    assert_eq!(sidecars[2].release("stock", &id), 204);
    let (_, later) = sidecars[2].take("stock", r#"{"wait":"1m"}"#);
    let queued = stepped.elapsed();
    assert!(later > first, "tokens rise, whatever the clock says");
    let (granted, token) = waiter.join().expect("the waiter is answered");
    assert!(token > grant["token"].as_u64().expect("a token"));
    let held = granted - stepped;
    // What was left of the lease, one more, and what a busy machine costs.
    let bound = Duration::from_millis(2 * LEASE_MS) + Duration::from_secs(15);
    assert!(queued < bound && held < bound, "{queued:?}, {held:?}");
    println!("an hour back: a dead one's ticket counted for {queued:?}, its lock of {LEASE_MS} ms stood for {held:?}");
}
