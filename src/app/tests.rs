//! A reload of a whole replica, in this process.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::sync::oneshot;

use super::{App, AppContext, open_stores};
use crate::base::process::Exit;
use crate::config::{Config, Environment, Watcher};

/// Longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(30);
const SLOW: Duration = Duration::from_secs(20);

fn config(removed: &str) -> String {
    format!("identity: web-0\nstore: {{ memory: {{}} }}\nroles:\n{removed}  - {{ name: slow, leaseDuration: 20s }}\n")
}

async fn until(what: &str, reached: impl Fn() -> bool) {
    testkit::wait_until(PATIENCE, what, reached).await;
}

#[tokio::test]
async fn the_store_goes_by_the_lease_of_a_removed_role_until_it_has_drained() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("config.yaml");
    std::fs::write(&path, config("  - { name: fast, leaseDuration: 3s, answerValidity: 2s }\n")).unwrap();
    let environment = Arc::new(Environment::new(|_| None, None));
    let mut loaded = Config::load(&path, &environment).unwrap();
    let changes = Watcher::new(&path, environment, &loaded).every(Duration::from_millis(20)).unwrap();
    let any_port = SocketAddr::from(([127, 0, 0, 1], 0));
    (loaded.config.api.listen, loaded.config.telemetry.listen) = (any_port, any_port);
    let context = AppContext::real();
    let stores = open_stores(&loaded.config, &context.clock).unwrap();
    let lease_min = stores.lease_min.clone();
    let app = App::build(loaded.config, stores, &context).await.unwrap();
    let removed = app.roles().get("fast").unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let running = tokio::spawn(app.run(None, Some(changes), stopped));
    until("it promises something", || removed.answer().leader).await;
    std::fs::write(&path, config("")).unwrap();
    until("the store goes by the other role's lease", || lease_min.get() == SLOW).await;
    assert!(removed.ended().now_or_never().is_some(), "the removed role still drains");
    drop(stop);
    assert_eq!(running.await.unwrap(), Exit::Well);
}
