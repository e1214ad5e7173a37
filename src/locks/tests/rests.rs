//! Locks that are shut for a time at least.

use std::time::Duration;

use super::super::{Refusal, Want};
use super::stage::{Asked, Op, Stage, WOKEN, lock, patient, want, within};
use crate::base::clock::{BootClock, Clock};

const AT_LEAST: Duration = Duration::from_millis(1_500);

fn kept() -> Want {
    Want { at_least: AT_LEAST, ..want() }
}

#[tokio::test]
async fn whoever_waits_gets_what_was_given_back_early_when_it_has_rested() {
    let stage = Stage::new();
    let (clock, begun) = (BootClock, BootClock.now());
    let held = stage.take(kept()).await;
    let (mut one, mut other) = (stage.ask(patient()), stage.ask(Want { at_least: AT_LEAST, ..patient() }));
    stage.until(1, 2).await;
    assert_eq!(stage.service.release(lock("a"), held.id).await, Ok(()));
    assert_eq!(stage.service.extend(lock("a"), held.id, None).await, Err(Refusal::Lost));
    let Err(Refusal::Held { holder: Some(holder), .. }) = stage.service.acquire(want()).await else {
        panic!("it is free after {:?}", clock.now().since(begun))
    };
    assert!(holder.token == held.token && holder.remaining <= AT_LEAST, "{holder:?}");
    // Whoever looks first when it is over.
    let next = async {
        tokio::select! { granted = &mut one => (granted, other), granted = &mut other => (granted, one) }
    };
    let (next, last) = within(WOKEN, next).await;
    assert!(clock.now().since(begun) >= AT_LEAST, "after {:?}", clock.now().since(begun));
    let next = next.unwrap().unwrap();
    assert_eq!(stage.service.release(lock("a"), next.id).await, Ok(()));
    let last = within(WOKEN, last).await.unwrap().unwrap();
    assert!(held.token < next.token && next.token < last.token, "{held:?}, {next:?}, {last:?}");
}

#[tokio::test]
async fn what_puts_a_lock_back_says_for_how_long_it_is_to_be_shut_from_then_on() {
    let stage = Stage::new();
    let held = stage.take(Want { at_least: Duration::from_secs(60), ..want() }).await;
    within(WOKEN, stage.service.extend(lock("a"), held.id, None)).await.unwrap();
    let asked = stage.store.asked();
    let told = asked.iter().find_map(|asked| match asked {
        Asked::Extend(request) => request.restore.as_ref().map(|lost| lost.at_least),
        _ => None,
    });
    assert!(told.is_some_and(|left| left > WOKEN && left <= Duration::from_secs(60)), "{told:?}");
    assert_eq!(stage.store.count(Op::Extend), 1);
}
