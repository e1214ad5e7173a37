//! What the tests have in common that run what requests share in many orders (the cargo feature `shuttle`). They are
//! beside what they look into: `turns/schedules.rs`, `held/schedules.rs`, `waiters/schedules.rs`.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use crate::protocol::{AcquireRequest, LockGrant, LockId, LockName, LockTurn, Mono, Queueing, SessionId, Token};
use crate::telemetry::{Metrics, Telemetry};

pub(super) const LEASE: Duration = Duration::from_secs(30);
pub(super) const START: Mono = Mono::from_nanos(1_000_000_000_000);

pub(super) fn name() -> LockName {
    LockName::new("order-42").unwrap()
}

pub(super) fn id(number: u128) -> LockId {
    LockId::from_u128(number)
}

pub(super) fn request(number: u128) -> AcquireRequest {
    AcquireRequest {
        names: vec![name()],
        session: SessionId::from_u128(1),
        id: id(number),
        owner: Arc::from("owner"),
        beside: None,
        identity: Arc::from("me"),
        lease: LEASE,
        at_least: Duration::ZERO,
        permits: 1,
        floor: Token::NONE,
        queueing: Queueing::Plain,
        yields: false,
        reminds: false,
        tokens: 32,
        guard: None,
    }
}

/// What the first request was granted, and the turn that it came with.
pub(super) fn grant() -> (LockGrant, LockTurn) {
    let grant = LockGrant { token: Token::new(100).unwrap(), holds: 1, tokens: 32 };
    (grant, LockTurn::begin(id(1), grant, LEASE, START).unwrap())
}

/// One for all runs: it has nothing that shuttle knows of, and takes longer to make than a run does.
pub(super) fn telemetry() -> Telemetry {
    static TELEMETRY: LazyLock<Telemetry> =
        LazyLock::new(|| Telemetry::new(Arc::new(Metrics::new(jiff::Timestamp::UNIX_EPOCH))));
    TELEMETRY.clone()
}
