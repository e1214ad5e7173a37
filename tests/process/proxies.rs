//! A way to Redis of its own for each replica, which can be broken without the others'.

use std::net::SocketAddr;
use std::sync::mpsc;
use std::thread;

use testkit::proxy::Proxy;
use testkit::redis::RedisServer;
use testkit::sidecars::replica::{Lease, Settings};
use tokio::sync::oneshot;

use crate::group::{self, Group};

/// A proxy for each of `replicas`, on a thread that ends with this.
pub struct Proxies {
    pub each: Vec<Proxy>,
    _stop: oneshot::Sender<()>,
}

impl Proxies {
    /// Starts them.
    pub fn start(replicas: usize, target: u16) -> Self {
        Self::at(&vec![(SocketAddr::from(([127, 0, 0, 1], 0)), target); replicas])
    }

    /// Starts one at each address that leads to the port beside it.
    pub fn at(places: &[(SocketAddr, u16)]) -> Self {
        let (places, count) = (places.to_vec(), places.len());
        let (ready, proxies) = mpsc::channel();
        let (stop, stopped) = oneshot::channel();
        thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(async move {
                for (at, target) in places {
                    let proxy = Proxy::start_at(at, target, "").await;
                    ready.send(proxy).expect("the test waits for it");
                }
                // The sender is dropped, never used.
                let _: Result<(), _> = stopped.await;
            });
        });
        let each = (0..count).map(|_| proxies.recv().expect("the proxies start")).collect();
        Self { each, _stop: stop }
    }
}

/// Replicas that each have their own way to Redis. `redis_more`: further keys of `store.redis`.
pub fn behind_proxies(redis: RedisServer, replicas: usize, lease: Lease, redis_more: &str) -> (Group, Proxies) {
    let proxies = Proxies::start(replicas, redis.port());
    let settings = |number: usize| Settings {
        redis_more: redis_more.to_owned(),
        ..Settings::new(number, proxies.each[number].url(), lease)
    };
    let settings = (0..replicas).map(settings).collect();
    (group::start_with(redis, settings), proxies)
}
