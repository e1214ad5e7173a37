//! Locks, from the real sidecar.

use std::time::Duration;

use crate::support::{Dev, PATIENCE, free_ports, until, url, within};
use baton_sidecar::{Error, Lost};

#[tokio::test]
async fn a_lock_that_one_has_is_refused_to_the_other() {
    let dev = Dev::start().await;
    let [one, other] = [dev.baton(0), dev.baton(1)];
    let lock = within("it is free", one.lock("orders/42").owner("one & only")).await.unwrap();
    let error = within("it is refused", other.lock("orders/42")).await.unwrap_err();
    let Error::Held { holder: Some(holder), retry_after: Some(retry_after) } = error else { panic!("{error:?}") };
    assert_eq!(holder.owner.as_deref(), Some("one & only"));
    assert_eq!(holder.token, lock.token().ok());
    assert!(retry_after > Duration::ZERO);
    let another = within("another is free", other.lock("orders/43")).await.unwrap();
    assert!(another.token().is_ok());
}

#[tokio::test]
async fn a_lock_is_free_again_when_it_was_released_or_dropped() {
    let dev = Dev::start().await;
    let [one, other] = [dev.baton(0), dev.baton(1)];
    let lock = within("it is free", one.lock("a")).await.unwrap();
    let first = lock.token().unwrap();
    lock.release().await;
    let lock = within("it is free again", other.lock("a")).await.unwrap();
    let second = lock.token().unwrap();
    drop(lock);
    let lock = within("it is free again", one.lock("a").wait(PATIENCE)).await.unwrap();
    let third = lock.token().unwrap();
    assert!(first < second && second < third, "{first} {second} {third}");
}

#[tokio::test]
async fn who_waits_for_a_lock_gets_it() {
    let dev = Dev::start().await;
    let lock = within("it is free", dev.baton(0).lock("a").lease(Duration::from_secs(60))).await.unwrap();
    let other = dev.baton(1);
    let waits = tokio::spawn(async move { other.lock("a").wait(Duration::MAX).fair().await });
    until("it waits", || dev.call(0, "GET", "/locks/a", "").is_some_and(|(_, lock)| lock["waiting"] == 1)).await;
    let first = lock.token().unwrap();
    lock.release().await;
    let lock = within("it has waited", waits).await.unwrap().unwrap();
    assert!(lock.token().unwrap() > first);
}

#[tokio::test]
async fn a_wait_that_is_over_is_told() {
    let dev = Dev::start().await;
    let _lock = within("it is free", dev.baton(0).lock("a")).await.unwrap();
    let error = within("it is over", dev.baton(1).lock("a").wait(Duration::from_millis(300))).await.unwrap_err();
    assert!(matches!(error, Error::Held { .. }), "{error:?}");
}

#[tokio::test]
async fn who_gives_up_waiting_does_not_get_it() {
    let dev = Dev::start().await;
    let lock = within("it is free", dev.baton(0).lock("a")).await.unwrap();
    let other = dev.baton(1);
    let gives_up = tokio::time::timeout(Duration::from_millis(300), other.lock("a").wait(PATIENCE).into_future());
    assert!(gives_up.await.is_err());
    lock.release().await;
    let lock = within("it is free", dev.baton(0).lock("a").wait(PATIENCE)).await.unwrap();
    assert!(lock.token().is_ok());
}

#[tokio::test]
async fn owners_share_a_lock_and_permits_are_counted() {
    let dev = Dev::start().await;
    let baton = dev.baton(0);
    let first = within("it is free", baton.lock("a").owner("w")).await.unwrap();
    let again = within("it is its own", baton.lock("a").owner("w")).await.unwrap();
    assert_eq!(first.token(), again.token());
    let one = within("a permit is free", baton.lock("b").permits(2)).await.unwrap();
    let two = within("a permit is free", baton.lock("b").permits(2)).await.unwrap();
    let error = within("no permit is free", baton.lock("b").permits(2)).await.unwrap_err();
    assert!(matches!(error, Error::Held { .. }), "{error:?}");
    let error = within("it is refused", baton.lock("b").permits(3).wait(Duration::MAX)).await.unwrap_err();
    assert!(matches!(error, Error::Refused { status: 409, .. }), "{error:?}");
    assert!(one.token().is_ok() && two.token().is_ok());
}

#[tokio::test]
async fn a_lock_that_an_operator_takes_away_is_over() {
    let dev = Dev::start().await;
    let baton = dev.baton(0);
    let lock = within("it is free", baton.lock("a").lease(Duration::from_secs(120))).await.unwrap();
    let token = lock.token().unwrap();
    let work = lock.run(std::future::pending::<()>());
    let unlock = async { dev.call(1, "DELETE", "/locks/a", &format!(r#"{{"token":{token}}}"#)) };
    let (lost, unlocked) = within("the work is ended", async { tokio::join!(work, unlock) }).await;
    assert_eq!(unlocked.map(|(status, _)| status), Some(200));
    assert_eq!(lost, Err(Lost::Told));
    within("it is cancelled", lock.cancelled()).await;
    assert_eq!(lock.token(), Err(Lost::Told));
}

#[tokio::test]
async fn a_sidecar_that_is_not_there_is_told() {
    let baton = baton_sidecar::Baton::new().url(url(free_ports()));
    let error = within("it is told", baton.lock("a").wait(Duration::MAX)).await.unwrap_err();
    assert!(matches!(error, Error::NoAnswer(_)), "{error:?}");
}

#[tokio::test]
async fn terms_that_cannot_be_are_told() {
    let dev = Dev::start().await;
    let error = within("it is refused", dev.baton(0).lock("a").permits(0)).await.unwrap_err();
    assert!(matches!(error, Error::Refused { status: 400, .. }), "{error:?}");
}
