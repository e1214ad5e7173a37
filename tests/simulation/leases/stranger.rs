//! A client-go process on the same Lease: it takes it when it was released, or seen unchanged for as long as it says.

use std::sync::Arc;

use baton::protocol::lease_object::{LeaseRecord, Tenure};

use super::world::World;
use super::{LEASE, Nanos, SECOND};

const NAME: &str = "controller_1";

/// See the module.
#[derive(Debug, Default)]
pub struct Stranger {
    observed: Option<(LeaseRecord, Nanos)>,
    /// It leads for two thirds of its lease after its last success (client-go's RenewDeadline).
    leads_until: Nanos,
    silent_until: Nanos,
}

impl Stranger {
    pub fn leads(&self, now: Nanos) -> bool {
        now < self.leads_until
    }

    /// One round of `tryAcquireOrRenew`. Now and then it stands still, or releases.
    pub fn round(&mut self, world: &mut World) {
        let now = world.now;
        if now < self.silent_until {
            return;
        }
        let mood = if world.calm { 9 } else { world.rng.u8(0..40) };
        if mood == 0 {
            self.silent_until = now + world.rng.u64(SECOND..25 * SECOND);
            return;
        }
        let seconds = u32::try_from(LEASE / SECOND).expect("small");
        let us = 7_000_000 + i64::try_from(now / 1_000).expect("small");
        let mut mine = LeaseRecord {
            identity: Arc::from(NAME),
            lease_seconds: Some(seconds),
            transitions: 0,
            acquired_us: Some(us),
            renewed_us: Some(us),
            mark: None,
        };
        if let Some((_, record)) = world.object.clone() {
            if self.observed.as_ref().is_none_or(|(seen, _)| *seen != record) {
                self.observed = Some((record.clone(), now));
            }
            let since = self.observed.as_ref().map_or(now, |(_, since)| *since);
            let leader = &*record.identity == NAME;
            let valid = Nanos::from(record.lease_seconds.unwrap_or(0)) * SECOND;
            if !record.identity.is_empty() && now < since + valid && !leader {
                return;
            }
            if leader && mood <= 2 {
                let released = LeaseRecord {
                    identity: Arc::from(""),
                    lease_seconds: Some(1),
                    acquired_us: Some(us),
                    renewed_us: Some(us),
                    ..record
                };
                assert_eq!(released.tenure(), Tenure::Released { ours: false });
                self.leads_until = now;
                world.note(|_| "the stranger releases".to_owned());
                world.put(released);
                self.silent_until = now + 3 * SECOND;
                return;
            }
            mine.transitions = record.transitions + u32::from(!leader);
            mine.acquired_us = if leader { record.acquired_us } else { Some(us) };
            mine.mark = record.mark;
        }
        world.put(mine);
        self.leads_until = now + LEASE * 2 / 3;
    }
}
