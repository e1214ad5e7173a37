//! Who may have a connection. Places are bounded, and one address has a share of them at the most: so whoever opens
//! many keeps nobody else out. A few more are there for what cannot wait even then, as a kubelet's probe.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};

use super::activity::{Activity, Order};
use super::serve::Limits;
use crate::protocol::Mono;

/// A client that has waited less than this is not asked to make room: its request may be on its way.
const EVICTION_AGE_MIN: Duration = Duration::from_secs(1);
/// The shortest pause between two looks at the connections' notes.
const LOOK_EVERY_MIN: Duration = Duration::from_millis(5);

/// The connections that are open.
#[derive(Default)]
pub(super) struct Places {
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    next: u64,
    /// By the order of their coming.
    connections: HashMap<u64, Open>,
}

struct Open {
    activity: Arc<Activity>,
    peer: IpAddr,
    is_spare: bool,
}

impl Places {
    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock()
    }

    /// Has those connections look to themselves whose time seems to be up. Returns how long nothing of the kind can
    /// come about: what begins after this has at least the shortest of the limits.
    pub(super) fn look(&self, limits: &Limits, now: Mono) -> Duration {
        let mut nap = limits.head.min(limits.idle).min(limits.stall);
        for Open { activity, .. } in self.lock().connections.values() {
            match activity.overdue_at(limits) {
                Some((moment, _)) if moment <= now => activity.tell(Order::Look),
                Some((moment, _)) => nap = nap.min(moment.since(now)),
                None => {}
            }
        }
        nap.max(LOOK_EVERY_MIN)
    }

    pub(super) fn tell_all(&self, order: Order) {
        self.lock().connections.values().for_each(|open| open.activity.tell(order));
    }
}

/// What a newcomer gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seat {
    Free,
    Spare,
}

impl Table {
    fn seat(&mut self, limits: &Limits, peer: IpAddr, now: Mono) -> Option<Seat> {
        let is_old = |(since, _): &(Mono, u64)| now.since(*since) >= EVICTION_AGE_MIN;
        let is_shared = limits.per_peer < limits.connections;
        let own = if is_shared { self.of(peer).count() } else { 0 };
        let idle = if own >= limits.per_peer {
            longest(self.of(peer)).filter(is_old)
        } else if self.seated().count() < limits.connections {
            return Some(Seat::Free);
        } else {
            // So neither forgotten nor malicious idle connections keep others out.
            let idle = longest(self.seated()).filter(is_old);
            idle.or_else(|| if is_shared { self.of_the_greediest(own + 1) } else { None })
        };
        self.instead_of(idle).or_else(|| self.spare(limits))
    }

    fn seated(&self) -> impl Iterator<Item = (&u64, &Open)> {
        self.connections.iter().filter(|(_, open)| !open.is_spare)
    }

    fn of(&self, peer: IpAddr) -> impl Iterator<Item = (&u64, &Open)> {
        self.seated().filter(move |(_, open)| open.peer == peer)
    }

    /// Of the address that has the most, and more than so many, the one that has waited for the longest.
    fn of_the_greediest(&self, fair: usize) -> Option<(Mono, u64)> {
        let mut counts: BTreeMap<IpAddr, usize> = BTreeMap::new();
        self.seated().for_each(|(_, open)| *counts.entry(open.peer).or_default() += 1);
        let (greediest, count) = counts.into_iter().max_by_key(|(_, count)| *count)?;
        longest(self.of(greediest)).filter(|_| count > fair)
    }

    fn instead_of(&mut self, idle: Option<(Mono, u64)>) -> Option<Seat> {
        let open = self.connections.remove(&idle?.1)?;
        open.activity.tell(Order::Leave);
        Some(Seat::Free)
    }

    /// Beside the places. Where there are too many of these, too, the oldest goes: what it is for takes a moment.
    fn spare(&mut self, limits: &Limits) -> Option<Seat> {
        let spare = self.connections.len() - self.seated().count();
        if spare >= limits.spare {
            let oldest = self.connections.iter().filter(|(_, open)| open.is_spare).map(|(id, _)| *id).min()?;
            self.connections.remove(&oldest)?.activity.tell(Order::Leave);
        }
        Some(Seat::Spare)
    }
}

/// The one that has waited for a request for the longest, and since when.
fn longest<'a>(among: impl Iterator<Item = (&'a u64, &'a Open)>) -> Option<(Mono, u64)> {
    among.filter_map(|(id, open)| Some((open.activity.waiting_since()?, *id))).min_by_key(|found| *found)
}

/// One place among the open connections, given back on drop.
pub(super) struct Place {
    places: Arc<Places>,
    id: u64,
    pub(super) is_spare: bool,
}

impl Place {
    /// None when there is no room.
    pub(super) fn take(places: &Arc<Places>, limits: &Limits, peer: IpAddr, activity: &Arc<Activity>) -> Option<Self> {
        // The same address is written in two ways where a listener has both families.
        let (peer, now) = (peer.to_canonical(), activity.now());
        let mut table = places.lock();
        let is_spare = table.seat(limits, peer, now)? == Seat::Spare;
        table.next += 1;
        let id = table.next;
        table.connections.insert(id, Open { activity: Arc::clone(activity), peer, is_spare });
        Some(Self { places: Arc::clone(places), id, is_spare })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.lock().connections.remove(&self.id);
    }
}
