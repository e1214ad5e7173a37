//! The work that is counted: the real listener and the real driver, with a clock that stands still unless it is told
//! otherwise, so that every time does the same.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use baton::api::{self, ApiOptions};
use baton::base::clock::{Clock, SharedClock};
use baton::base::process::StallWatch;
use baton::protocol::{Mono, RoleName, SessionId, Timing};
use baton::role::{self, Command, RoleHandle, RoleSpec, Roles, Surroundings, role};
use baton::store::measured::Measured;
use baton::store::memory::MemoryStore;
use baton::telemetry::{Metrics, Telemetry};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const LEASE: Duration = Duration::from_secs(15);

/// Moves only when it is moved.
#[derive(Debug)]
struct HandClock(AtomicU64);

impl HandClock {
    fn at(moment: Duration) -> Arc<Self> {
        Arc::new(Self(AtomicU64::new(u64::try_from(moment.as_nanos()).expect("a moment of this century"))))
    }

    fn forward(&self, span: Duration) {
        self.0.fetch_add(u64::try_from(span.as_nanos()).expect("a short span"), Ordering::Relaxed);
    }
}

impl Clock for HandClock {
    fn now(&self) -> Mono {
        Mono::from_nanos(self.0.load(Ordering::Relaxed))
    }
}

/// A role that leads, over a store in memory.
struct Leading {
    clock: Arc<HandClock>,
    handle: RoleHandle,
    telemetry: Telemetry,
}

impl Leading {
    async fn start() -> Self {
        let clock = HandClock::at(Duration::from_secs(1_000));
        let shared: SharedClock = Arc::clone(&clock) as SharedClock;
        let metrics = Arc::new(Metrics::new(jiff::Timestamp::UNIX_EPOCH));
        let telemetry = Telemetry::new(Arc::clone(&metrics));
        let store = Arc::new(MemoryStore::new(Arc::clone(&shared)));
        let surroundings = Surroundings {
            store: Arc::new(Measured::new(store, metrics, Arc::clone(&shared))),
            clock: shared,
            telemetry: telemetry.clone(),
            // Its own clock is ahead for good, so that no step of the other is a standstill.
            stall: Arc::new(StallWatch::new(HandClock::at(Duration::from_secs(1_000_000_000)))),
        };
        let spec = RoleSpec {
            name: RoleName::new("scheduler").expect("a DNS label"),
            identity: Arc::from("web-0"),
            session: SessionId::from_u128(1),
            attempts: Default::default(),
            timing: Timing::from_lease(LEASE).expect("the default lease"),
            guard: true,
            app_checked: false,
            patience: Duration::ZERO,
            place: Duration::ZERO,
            seed: 1,
        };
        let (handle, task) = role(spec, surroundings);
        tokio::spawn(task);
        let leading = Self { clock, handle, telemetry };
        // A candidate waits a few random milliseconds before it looks.
        while !leading.handle.leads() {
            leading.clock.forward(Duration::from_millis(50));
            leading.round().await;
        }
        leading
    }

    /// Has the driver look at the time, and lets it do what is due.
    async fn round(&self) {
        self.handle.tell(Command::Patience { patience: Duration::ZERO }).await;
        for _ in 0..8 {
            tokio::task::yield_now().await;
        }
    }
}

fn block_on(work: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("the operating system gives a runtime").block_on(work);
}

/// Asks `GET /leader` so often on one connection.
pub fn answers(times: u64) {
    block_on(async {
        let leading = Leading::start().await;
        let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await.expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let roles = Roles::default();
        roles.replace(vec![leading.handle.clone()], None);
        let clock = Arc::clone(&leading.clock) as SharedClock;
        let router = api::router();
        let stopping = router.stopping();
        let router = router.mount(role::http::routes(roles, Arc::clone(&clock), role::http::HEARTBEAT, stopping));
        let options = ApiOptions::new(None, clock, leading.telemetry.clone());
        tokio::spawn(api::serve(listener, router, options, std::future::pending()));
        let mut client = TcpStream::connect(address).await.expect("the listener listens");
        // As clients do: a few headers, of which one counts.
        let request = format!(
            "GET /leader HTTP/1.1\r\nhost: {address}\r\nuser-agent: app/1.0\r\naccept: */*\r\n\
             accept-encoding: gzip\r\n\r\n"
        );
        let mut answer = Vec::with_capacity(4_096);
        for _ in 0..times {
            client.write_all(request.as_bytes()).await.expect("the connection stays");
            answer.clear();
            // The answer is one JSON object, and nothing else in it ends so.
            while !answer.ends_with(b"}") {
                assert_ne!(client.read_buf(&mut answer).await.expect("the connection stays"), 0, "it was closed");
            }
        }
        let text = String::from_utf8_lossy(&answer);
        assert!(text.starts_with("HTTP/1.1 200") && text.contains("\"leader\":true"), "{text}");
    });
}

/// Lets so many renewals come due, one after the other.
pub fn renewals(times: u64) {
    block_on(async {
        let leading = Leading::start().await;
        let left = || leading.handle.remaining().map(|(_, left)| left).expect("it leads");
        let full = left();
        for _ in 0..times {
            leading.clock.forward(LEASE / 3);
            assert!(left() < full);
            leading.round().await;
            while left() < full {
                tokio::task::yield_now().await;
            }
        }
    });
}
