//! Several sidecars on one Redis, and what may happen to them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use testkit::redis::{Data, RedisServer};
use testkit::sidecars::http::Connection;
use testkit::wait::{last_for, until};

use crate::http::{ask, hold, told};
use crate::sidecar::{GUARD, LEASE_MS, Sidecar, Store};

/// Sidecars on a Redis of their own, once locks are granted.
fn stage(count: usize) -> (Vec<Sidecar>, RedisServer) {
    guarded_stage(count, GUARD)
}

fn guarded_stage(count: usize, guard: Duration) -> (Vec<Sidecar>, RedisServer) {
    let redis = RedisServer::start();
    let sidecars = Sidecar::several(count, &Store::of(&redis), guard);
    sidecars.iter().for_each(Sidecar::until_open);
    (sidecars, redis)
}

#[test]
fn twenty_fair_waiters_on_three_sidecars_are_served_in_their_order() {
    let (sidecars, _redis) = stage(3);
    let (mut id, _) = sidecars[0].take("queue", r#"{"lease":"1h"}"#);
    let (done, served) = mpsc::channel();
    let mut waiters = Vec::new();
    for number in 0..20_usize {
        let (address, done) = (sidecars[number % 3].api, done.clone());
        waiters.push(thread::spawn(move || {
            let answer = ask(address, "POST /locks/queue", r#"{"wait":"10m","lease":"1h","fair":true}"#);
            done.send((number, answer.status, answer.json())).expect("the test listens");
        }));
        // One after the other, so that there is an order.
        sidecars[0].until_like("queue", 1, number as u64 + 1);
    }
    let mut token = 0;
    for expected in 0..20 {
        assert_eq!(sidecars[expected % 3].release("queue", &id), 204, "through any sidecar");
        let (number, status, json) = served.recv_timeout(Duration::from_secs(60)).expect("somebody is served");
        assert_eq!((number, status), (expected, 201));
        assert!(json["token"].as_u64().unwrap() > token);
        token = json["token"].as_u64().unwrap();
        id = json["lock"].as_str().unwrap().to_owned();
    }
    waiters.into_iter().for_each(|waiter| waiter.join().expect("no waiter panics"));
    sidecars[0].until_like("queue", 1, 0);
}

#[test]
fn a_hundred_waiters_all_get_it_once_and_leave_nothing_behind() {
    let (sidecars, _redis) = stage(3);
    let threads: Vec<_> = (0..100)
        .map(|number: usize| {
            let address = sidecars[number % 3].api;
            thread::spawn(move || {
                let answer = ask(address, "POST /locks/busy", r#"{"wait":"10m"}"#);
                assert_eq!(answer.status, 201, "{answer:?}");
                let json = answer.json();
                let line = format!("DELETE /locks/busy/{}", json["lock"].as_str().unwrap());
                assert_eq!(ask(address, &line, "").status, 204);
                json["token"].as_u64().unwrap()
            })
        })
        .collect();
    let mut tokens: Vec<u64> = threads.into_iter().map(|thread| thread.join().expect("granted and released")).collect();
    tokens.sort_unstable();
    tokens.dedup();
    assert_eq!(tokens.len(), 100, "each had a token of its own");
    sidecars[0].until_like("busy", 0, 0);
    for sidecar in &sidecars {
        until("no lock is held", || sidecar.metric("baton_locks_held") == 0.0);
    }
}

#[test]
fn several_names_in_opposite_orders_do_not_block_each_other() {
    let (sidecars, _redis) = stage(2);
    let threads: Vec<_> = [r#"["a","b","c"]"#, r#"["c","b","a"]"#, r#"["b","c"]"#, r#"["a","c"]"#]
        .into_iter()
        .enumerate()
        .map(|(number, names)| {
            let address = sidecars[number % 2].api;
            let first = names[2..3].to_owned();
            let body = format!(r#"{{"names":{names},"wait":"10m"}}"#);
            thread::spawn(move || {
                for _ in 0..10 {
                    let answer = ask(address, "POST /locks", &body);
                    assert_eq!(answer.status, 201, "{answer:?}");
                    let line = format!("DELETE /locks/{first}/{}", answer.json()["lock"].as_str().unwrap());
                    assert_eq!(ask(address, &line, "").status, 204);
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().expect("every round ends"));
    for name in ["a", "b", "c"] {
        sidecars[0].until_like(name, 0, 0);
    }
}

#[test]
fn a_request_for_several_names_that_are_never_free_together_has_them_all_the_same() {
    let (sidecars, _redis) = stage(3);
    let done = Arc::new(AtomicBool::new(false));
    // On each name two clients at each of two sidecars, who never rest: it goes from one straight to the next.
    let threads: Vec<_> = (0..8_usize)
        .map(|number| {
            let (address, done) = (sidecars[number % 2].api, Arc::clone(&done));
            // Whoever gets both at once releases both at once: what follows must not stay in step.
            let (name, work_ms) = [("a", 1_000), ("b", 1_700)][number / 4];
            thread::spawn(move || {
                let mut rounds = 0;
                while !done.load(Ordering::Relaxed) {
                    let answer = ask(address, &format!("POST /locks/{name}"), r#"{"wait":"10m"}"#);
                    assert_eq!(answer.status, 201, "{answer:?}");
                    // The fault: neither is free for as long as this but for a moment.
                    last_for(Duration::from_millis(work_ms));
                    let line = format!("DELETE /locks/{name}/{}", answer.json()["lock"].as_str().unwrap());
                    assert_eq!(ask(address, &line, "").status, 204);
                    rounds += 1;
                }
                rounds
            })
        })
        .collect();
    for name in ["a", "b"] {
        until("the names are busy", || sidecars[2].insight(name)["waiting"].as_u64() > Some(1));
    }
    for _ in 0..2 {
        let asked = Instant::now();
        let answer = sidecars[2].ask("POST /locks", r#"{"names":["a","b"],"wait":"20s"}"#);
        assert_eq!(answer.status, 201, "{answer:?}");
        println!("two busy names were had after {} ms", asked.elapsed().as_millis());
        let line = format!("DELETE /locks/a/{}", answer.json()["lock"].as_str().unwrap());
        assert_eq!(sidecars[2].ask(&line, "").status, 204);
    }
    done.store(true, Ordering::Relaxed);
    let rounds: Vec<u32> = threads.into_iter().map(|thread| thread.join().expect("granted and released")).collect();
    assert!(rounds.iter().all(|rounds| *rounds > 0), "{rounds:?}");
    println!("meanwhile those for one name had it so often: {rounds:?}");
}

#[test]
fn the_locks_of_a_killed_sidecar_end_with_their_lease_and_its_waiters_are_passed_over() {
    let (mut sidecars, _redis) = stage(2);
    let dead = sidecars[0].api;
    let held = hold(dead, "orders", "").unwrap().expect("granted");
    thread::spawn(move || drop(hold(dead, "orders", "wait=10m&fair=true")));
    sidecars[1].until_like("orders", 1, 1);
    let killed = Instant::now();
    sidecars[0].kill();
    // The holder is dead, the lock is not: nobody gets it before its lease has ended.
    let (_, token) = sidecars[1].take("orders", r#"{"wait":"10m","fair":true}"#);
    let waited = killed.elapsed();
    assert!(token > held.1["token"].as_u64().unwrap());
    // Renewed every third of the lease, so that at least two thirds of it were left.
    assert!(waited >= Duration::from_millis(LEASE_MS * 5 / 9), "{waited:?}");
    println!("a dead holder's lock was granted {} ms after the kill", waited.as_millis());
}

#[test]
fn a_new_sidecar_extends_and_releases_what_the_old_one_granted() {
    let (mut sidecars, _redis) = stage(1);
    let (id, _) = sidecars[0].take("orders", r#"{"lease":"10m"}"#);
    sidecars[0].start_again();
    sidecars[0].until_open();
    assert_eq!(sidecars[0].ask(&format!("PUT /locks/orders/{id}"), "").status, 204);
    assert_eq!(sidecars[0].release("orders", &id), 204);
    sidecars[0].until_like("orders", 0, 0);
}

#[test]
fn a_redis_that_restarts_with_its_data_keeps_the_locks() {
    let (sidecars, mut redis) = stage(2);
    let (id, token) = sidecars[0].take("orders", r#"{"lease":"10m"}"#);
    redis.restart(Data::Kept);
    until("the lock is extended", || sidecars[0].ask(&format!("PUT /locks/orders/{id}"), "").status == 204);
    until("the other sidecar is back, too", || sidecars[1].ask("GET /locks/orders", "").status == 200);
    assert_eq!(sidecars[1].insight("orders")["holders"][0]["token"], token);
    assert_eq!(sidecars[0].release("orders", &id), 204);
    let (_, later) = sidecars[1].take("orders", r#"{"wait":"1m"}"#);
    assert!(later > token);
}

#[test]
fn a_redis_that_loses_its_data_lets_nobody_new_in_until_locks_are_put_back() {
    let (sidecars, mut redis) = guarded_stage(2, Duration::from_secs(10));
    let (id, token) = sidecars[0].take("orders", r#"{"lease":"10m"}"#);
    let (mut held, _) = hold(sidecars[0].api, "held", "").unwrap().expect("granted");
    redis.restart(Data::Lost);
    until("the lock is put back by its extension", || {
        assert_ne!(sidecars[1].ask("POST /locks/orders", "").status, 201, "the lock still stands");
        sidecars[0].ask(&format!("PUT /locks/orders/{id}"), "").status == 204
    });
    // The other sidecar may be on its way back to Redis.
    let mut guarded = sidecars[1].ask("POST /locks/fresh", "");
    until("the other sidecar is back, too", || {
        guarded = sidecars[1].ask("POST /locks/fresh", "");
        guarded.problem() != "store-unavailable"
    });
    assert_eq!((guarded.status, guarded.problem().as_str()), (503, "store-guarded"));
    assert!(guarded.header("retry-after").is_some());
    let refused = sidecars[1].ask("POST /locks/orders", "");
    assert_eq!((refused.status, refused.problem().as_str()), (409, "lock-held"));
    assert_eq!(refused.json()["holder"]["token"], token, "with the token that it had");
    // The connection-bound lock is put back by its renewal, and is its client's as before.
    assert!(told(&mut held).unwrap().expect("a renewal")["valid_for_ms"].is_u64());
    assert!(sidecars[0].metric("baton_locks_restored_total") >= 1.0);
    assert_eq!(sidecars[0].metric("baton_locks_lost_total"), 0.0);
    let (_, later) = sidecars[1].take("fresh", r#"{"wait":"1m"}"#);
    assert!(later > token);
}

#[test]
fn a_lock_that_redis_has_forgotten_is_given_back_as_long_as_it_is_promised() {
    let (sidecars, mut redis) = guarded_stage(2, Duration::from_secs(3));
    let (id, token) = sidecars[0].take("orders", r#"{"lease":"10m"}"#);
    redis.restart(Data::Lost);
    assert_eq!(sidecars[0].release("orders", &id), 204, "nobody had it meanwhile: it was not lost");
    assert_eq!(sidecars[0].metric("baton_locks_lost_total"), 0.0);
    let (_, later) = sidecars[1].take("orders", r#"{"wait":"1m"}"#);
    assert!(later > token);
}

#[test]
fn a_redis_that_comes_back_with_an_older_state_takes_nothing_from_who_came_after_that() {
    let (sidecars, mut redis) = guarded_stage(2, Duration::from_secs(3));
    let (earlier, _) = sidecars[0].take("orders", r#"{"lease":"10m"}"#);
    redis.command(&["SAVE"]);
    assert_eq!(sidecars[0].release("orders", &earlier), 204);
    let (id, token) = sidecars[1].take("orders", r#"{"lease":"10m"}"#);
    let (other, _) = sidecars[1].take("stock", r#"{"lease":"10m"}"#);
    redis.kill();
    redis.start_again();
    until("the sidecar is back", || sidecars[1].ask("GET /locks/orders", "").status == 200);
    assert_ne!(sidecars[1].insight("orders")["holders"][0]["token"], token, "it believes in the earlier one");
    assert_eq!(sidecars[1].ask(&format!("PUT /locks/orders/{id}"), "").status, 204);
    assert_eq!(sidecars[1].insight("orders")["holders"][0]["token"], token);
    assert_eq!(sidecars[1].release("orders", &id), 204);
    assert_eq!(sidecars[1].release("stock", &other), 204);
    assert_eq!(sidecars[1].metric("baton_locks_lost_total"), 0.0);
    let (_, later) = sidecars[0].take("orders", r#"{"wait":"1m"}"#);
    assert!(later > token);
}

#[test]
fn a_storm_of_clients_that_vanish_leaves_nothing_behind() {
    let (sidecars, _redis) = stage(3);
    let threads: Vec<_> = (0..30_usize)
        .map(|number| {
            let address = sidecars[number % 3].api;
            thread::spawn(move || {
                let mut rolls = fastrand::Rng::with_seed(number as u64);
                for _ in 0..20 {
                    let mut connection = Connection::open(address).expect("the sidecar listens");
                    let name = rolls.choice(["a", "b"]).expect("one of two");
                    let sent = if rolls.bool() {
                        let body = r#"{"wait":"1m","lease":"500ms","fair":true}"#;
                        connection.send(&format!("POST /locks/{name}"), body)
                    } else {
                        connection.send(&format!("GET /locks/{name}/hold?wait=1m&lease=500ms"), "")
                    };
                    sent.expect("the sidecar reads");
                    // Then it hangs up: while it waits, while its answer is out, or when it has the lock.
                    last_for(Duration::from_millis(rolls.u64(0..30)));
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().expect("no client panics"));
    for name in ["a", "b"] {
        sidecars[0].until_like(name, 0, 0);
    }
    for sidecar in &sidecars {
        until("nothing is left", || {
            ["held", "waiting"].iter().all(|what| sidecar.metric(&format!("baton_locks_{what}")) == 0.0)
        });
    }
}

/// Timers that go off a moment apart: the second finds the work done, and the lock shut.
#[test]
fn what_is_given_back_early_is_shut_for_as_long_as_was_asked_for_though_its_sidecar_has_died() {
    let (mut sidecars, _redis) = stage(3);
    let (at_least, body) = (Duration::from_secs(4), r#"{"lease":"1h","atLeast":"4s"}"#);
    let begun = Instant::now();
    let (id, token) = sidecars[0].take("cleanup", body);
    sidecars[0].kill();
    assert_eq!(sidecars[1].release("cleanup", &id), 204, "through any sidecar");
    assert_eq!(sidecars[1].release("cleanup", &id), 204, "once more");
    let late = ask(sidecars[2].api, "POST /locks/cleanup", body);
    assert_eq!(late.status, 409, "after {:?}: {late:?}", begun.elapsed());
    let (_, later) = sidecars[2].take("cleanup", r#"{"wait":"1m"}"#);
    let shut = begun.elapsed();
    assert!(later > token && shut >= at_least && shut < at_least * 5, "{shut:?}");
}
