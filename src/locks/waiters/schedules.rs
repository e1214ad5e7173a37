//! A waiter that is woken while it is granted its lock and goes, in many orders.

use shuttle::thread;

use super::super::schedules::{START, request, telemetry};
use super::*;
use crate::base::sync::schedules::{hold, is_caught};

type Leave = fn(&Waiters, LockId, bool, Mono);

/// The store wakes one that has just been granted the lock: it is known here all the time, or its grant would be
/// cancelled as nobody's. Another comes for the place that it leaves.
fn woken_while_it_goes(leave: Leave) {
    let waiters = Arc::new(Waiters::new(1, telemetry()));
    let waiter = Arc::new(Waiter::new(request(1)));
    assert!(waiters.enter(&waiter));
    let id = waiter.request.id;
    let woken = {
        let waiters = Arc::clone(&waiters);
        thread::spawn(move || (waiters.wake(id), waiters.wake(id)))
    };
    let other = {
        let waiters = Arc::clone(&waiters);
        thread::spawn(move || waiters.enter(&Arc::new(Waiter::new(request(2)))))
    };
    leave(&waiters, id, true, START);
    assert_eq!(woken.join().unwrap(), (true, true), "nobody is known under the id of a grant");
    let came = other.join().unwrap();
    assert_eq!(waiters.count(), usize::from(came));
    assert_eq!(waiters.place().is_some(), !came, "a place is lost, or there is one too many");
}

#[test]
fn one_that_is_granted_its_lock_is_known_all_the_time() {
    hold(|| woken_while_it_goes(Waiters::leave));
}

/// What must not be done: it waits no longer in one step, and is known as granted in another.
fn leave_in_two_steps(waiters: &Waiters, id: LockId, _is_granted: bool, now: Mono) {
    waiters.inner.lock().waiting.remove(&id);
    waiters.inner.lock().granted.insert(id, now);
}

#[test]
fn one_that_leaves_before_it_is_known_as_granted_is_caught() {
    is_caught(|| woken_while_it_goes(leave_in_two_steps));
}
