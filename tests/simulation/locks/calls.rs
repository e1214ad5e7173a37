//! What sidecars ask the store for, what it answers, and all that happens.

use baton::protocol::{
    AcquireReply, AcquireRequest, CancelRequest, ExtendReply, ExtendRequest, LockId, LockName, LockReleaseRequest,
    LockSpace, StoreTime, TurnSeat, UnlockRequest,
};

#[derive(Clone, Debug)]
pub enum Body {
    Acquire(AcquireRequest),
    Extend(ExtendRequest),
    Release(LockReleaseRequest),
    Cancel(CancelRequest),
}

#[derive(Clone, Debug)]
pub enum Answer {
    Acquired(AcquireReply),
    Extended(ExtendReply),
    Released,
    Cancelled,
    Late,
}

/// A request on its way. `number` tells a worker's calls apart; 0 is a call that nobody waits for.
#[derive(Clone, Debug)]
pub struct Call {
    pub sidecar: usize,
    pub worker: usize,
    pub number: u64,
    pub latest: StoreTime,
    pub body: Body,
}

#[derive(Clone, Debug)]
pub enum Happening {
    Arrives(Call),
    Answered {
        sidecar: usize,
        worker: usize,
        number: u64,
        answer: Answer,
        store_time: StoreTime,
    },
    GivenUp {
        worker: usize,
        number: u64,
    },
    Step {
        worker: usize,
        step: u64,
    },
    Woken {
        sidecar: usize,
        id: LockId,
        name: LockName,
    },
    /// A sidecar hears that an operator has ended a hold.
    Unlocked {
        sidecar: usize,
        id: LockId,
        name: LockName,
    },
    /// An operator looks for something to unlock.
    Operator,
    /// What the operator has sent arrives.
    Unlock(UnlockRequest),
    Gap(usize),
    Beat(usize),
    BeatArrives(usize),
    Snapshot,
    Fault,
    StoreUp {
        forget: bool,
        space: Option<Box<LockSpace>>,
    },
    Join,
    Tick,
}

impl Body {
    pub fn names(&self) -> &[LockName] {
        match self {
            Self::Acquire(request) => &request.names,
            Self::Extend(request) => &request.names,
            Self::Release(request) => &request.names,
            Self::Cancel(request) => &request.names,
        }
    }

    pub fn ids(&self) -> Vec<LockId> {
        match self {
            Self::Acquire(request) => vec![request.id],
            Self::Extend(request) => with_seat(request.id, request.seat.as_ref()),
            Self::Release(request) => with_seat(request.id, request.seat.as_ref()),
            Self::Cancel(request) => vec![request.id],
        }
    }
}

fn with_seat(id: LockId, seat: Option<&TurnSeat>) -> Vec<LockId> {
    std::iter::once(id).chain(seat.map(|seat| seat.id)).collect()
}
