//! One replica: the real election, what it has seen, and its own clock.

use std::collections::BTreeMap;

use baton::protocol::lease_object::Observation;
use baton::protocol::{
    CampaignReply, CampaignRequest, Election, Mono, ReleaseReply, ReleaseRequest, RenewReply, RenewRequest, RequestId,
};

use super::Nanos;

#[derive(Clone, Debug)]
pub enum Request {
    Campaign(CampaignRequest),
    Renew(RenewRequest),
    Release(ReleaseRequest),
}

#[derive(Clone, Debug)]
pub enum Reply {
    Campaign(CampaignReply),
    Renew(RenewReply),
    Release(ReleaseReply),
}

/// A request of the election's that is being served.
#[derive(Clone, Debug)]
pub struct Call {
    pub request: Request,
    pub decisions: u32,
    pub looked: bool,
    pub creating: bool,
}

/// See the module.
pub struct Replica {
    pub election: Election,
    pub observation: Observation,
    /// The version that the next write is on.
    pub version: Option<u64>,
    pub clock_offset: u64,
    pub clock_ppm: i64,
    pub wall_skew_us: i64,
    pub alive: bool,
    pub paused_until: Nanos,
    pub cut_until: Nanos,
    pub watching: bool,
    /// Events come in order.
    pub last_event_at: Nanos,
    pub promised_until: Nanos,
    pub calls: BTreeMap<RequestId, Call>,
    pub wake_planned: Option<Nanos>,
}

impl Replica {
    pub fn local(&self, now: Nanos) -> Mono {
        let drift = i128::from(now) * i128::from(self.clock_ppm) / 1_000_000;
        Mono::from_nanos(u64::try_from(i128::from(self.clock_offset) + i128::from(now) + drift).expect("positive"))
    }

    pub fn when(&self, at: Mono, now: Nanos) -> Nanos {
        let left = at.since(self.local(now)).as_nanos() as i128;
        now + u64::try_from(left * 1_000_000 / i128::from(1_000_000 + self.clock_ppm)).expect("positive") + 1
    }

    pub fn leads(&self, now: Nanos) -> bool {
        self.alive && self.election.leadership().leads(self.local(now))
    }
}
