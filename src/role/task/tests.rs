//! The task over a store whose news come through a socket and some tasks, as those of a real one do.

use parking_lot::Mutex;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use tokio::io::AsyncReadExt;
use tokio::sync::mpsc;

use super::*;
use crate::base::clock::{BootClock, Clock};
use crate::protocol::{
    Announcement, AnnouncementKind, CampaignReply, CampaignRequest, Holder, RecordVersion, ReleaseReply,
    ReleaseRequest, RenewReply, RenewRequest, Rules, Stamped, StoreTime, Token,
};
use crate::store::Purge;
use crate::telemetry::Metrics;

const LEASE: Duration = Duration::from_secs(15);
/// As many as it takes for hardly anybody to go first after a release: the others wait for a thirtieth of a second.
const LISTENERS: u32 = 1_000;
/// No state takes longer to come about.
const BOUND: Duration = Duration::from_secs(20);

/// Another has the lease. What is written to `wire` is heard, a letter each: `h`eartbeat, `r`elease, `g`rant.
struct HeldStore {
    campaigns: AtomicUsize,
    wire: Mutex<Option<UnixStream>>,
    health: watch::Sender<StoreHealth>,
}

impl HeldStore {
    /// With the end of its wire to write to.
    fn new() -> (Arc<Self>, UnixStream) {
        let (inner, outer) = UnixStream::pair().expect("the operating system has sockets");
        inner.set_nonblocking(true).expect("it can be set");
        let health = watch::Sender::new(StoreHealth::Up);
        (Arc::new(Self { campaigns: AtomicUsize::new(0), wire: Mutex::new(Some(inner)), health }), outer)
    }
}

fn said(letter: u8) -> News {
    let (kind, token, name) = match letter {
        b'h' => (AnnouncementKind::Heartbeat, 10, "first"),
        b'r' => (AnnouncementKind::Release, 10, "first"),
        _ => (AnnouncementKind::Grant, 11, "second"),
    };
    let holder = Holder { session: SessionId::from_u128(token), identity: Arc::from(name) };
    let token = Token::new(u64::try_from(token).expect("small")).expect("small");
    News::Said(Box::new(Announcement { kind, token, count: 6, holder, audience: LISTENERS }))
}

#[async_trait]
impl LeaseStore for HeldStore {
    async fn campaign(&self, _: &RoleName, _: CampaignRequest) -> Result<Stamped<CampaignReply>, StoreError> {
        self.campaigns.fetch_add(1, Ordering::SeqCst);
        let holder = Holder { session: SessionId::from_u128(10), identity: Arc::from("first") };
        let token = Token::new(10).expect("small");
        let version = RecordVersion { token, count: 5, writer: Some(holder.session) };
        let reply = CampaignReply::Held { holder, token, remaining: LEASE, version };
        Ok(Stamped { reply, store_time: StoreTime(BootClock.now().as_nanos() / 1_000) })
    }

    async fn renew(&self, _: &RoleName, _: RenewRequest) -> Result<Stamped<RenewReply>, StoreError> {
        Err(StoreError::Refused { reason: "nobody leads here".to_owned() })
    }

    async fn release(&self, _: &RoleName, _: ReleaseRequest) -> Result<Stamped<ReleaseReply>, StoreError> {
        Err(StoreError::Refused { reason: "nobody leads here".to_owned() })
    }

    fn subscribe(&self, _: &RoleName, _: Option<SessionId>) -> Subscription<News> {
        let wire = self.wire.lock().take().expect("one listener");
        let mut wire = tokio::net::UnixStream::from_std(wire).expect("inside a runtime");
        let (letters, mut read) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Ok(letter) = wire.read_u8().await {
                letters.send(letter).expect("it is read");
            }
        });
        let (news, heard) = mpsc::channel(8);
        tokio::spawn(async move {
            while let Some(letter) = read.recv().await {
                news.send(said(letter)).await.expect("it is heard");
            }
        });
        heard
    }

    fn health(&self) -> watch::Receiver<StoreHealth> {
        self.health.subscribe()
    }

    fn notes(&self) -> Vec<String> {
        Vec::new()
    }

    fn rules(&self) -> Rules {
        Rules::REDIS
    }

    async fn purge(&self, _: &RoleName) -> Result<Purge, StoreError> {
        Ok(Purge::InUse)
    }
}

/// A candidate that waits for another's lease to end, and has heard how many do.
async fn standby() -> (Arc<HeldStore>, UnixStream, RoleHandle) {
    let (store, mut wire) = HeldStore::new();
    let clock: SharedClock = Arc::new(BootClock);
    let metrics = Arc::new(Metrics::new(wall_time()));
    let name = RoleName::new("web").expect("a DNS label");
    metrics.add_role(&name);
    let context = RoleContext {
        store: Arc::clone(&store) as Arc<dyn LeaseStore>,
        clock: Arc::clone(&clock),
        telemetry: Telemetry::new(metrics),
        stall: Arc::new(StallWatch::new(clock)),
    };
    let stall = Arc::clone(&context.stall);
    tokio::spawn(async move { stall.run().await });
    let spec = RoleSpec {
        name,
        identity: Arc::from("third"),
        session: SessionId::from_u128(3),
        attempts: Default::default(),
        timing: Timing::from_lease(LEASE).expect("good timings"),
        guard: true,
        app_checked: false,
        shard_stagger: Duration::ZERO,
        role_stagger: Duration::ZERO,
        seed: 1,
    };
    let (handle, task) = role(spec, context);
    tokio::spawn(task);
    until(&handle, State::Standby).await;
    wire.write_all(b"h").expect("there is room");
    (store, wire, handle)
}

/// Looks again and again, without waiting to be told.
async fn until(handle: &RoleHandle, state: State) {
    let is_reached = async || (handle.snapshot().view.state == state).then_some(());
    let found = testkit::found_within(BOUND, is_reached).await;
    assert!(found.is_some(), "not {state:?} within {BOUND:?}: {:?}", handle.snapshot());
}

#[tokio::test]
async fn a_vacancy_is_seen_at_once_and_told_when_it_has_lasted() {
    let (_store, mut wire, handle) = standby().await;
    let mut changes = handle.changes();
    changes.mark_unchanged();
    let (index, begun) = (handle.snapshot().index, BootClock.now());
    wire.write_all(b"r").expect("there is room");
    let told = tokio::time::timeout(BOUND, handle.changed_past(index)).await;
    let (told_after, snapshot) = (BootClock.now().since(begun), handle.snapshot());
    assert!(told.is_ok() && snapshot.view.holder.is_none(), "{snapshot:?}");
    assert!(told_after >= VACANCY_MIN, "{told_after:?}: the next leader might have been known by then");
    until(&handle, State::Campaigning).await;
}
