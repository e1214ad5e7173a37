//! The shards of one role, spread evenly over its replicas. A policy, and nothing but: who leads a shard is told by
//! that shard's own lease alone, as for any role, and every rule of the protocol holds for it unchanged. What is here
//! decides only whom a replica lets go first, and what it hands over. All of it may be wrong (a presence that is late,
//! lost or a lie) without two owners of a shard; the worst is shards spread unevenly, or led later than they could be.
//!
//! * [`ShardSet`]: some of the shards of a role.
//! * [`Presence`]: the store's side, who takes part and what each leads, as each last said. [`Participant`] is one of
//!   them.
//! * [`Spread`]: who should lead which shard, computed from that by everybody alike.
//! * [`Balance`]: one replica's side, how long it stays behind others for a free shard, and when it hands one over.
//! * [`Rank`]: what some are preferred by, for a role that is not split and has one leader: such a role goes by a
//!   [`Ranking`] instead of a spread, and all else is the same.
//!
//! # What keeps it calm
//!
//! 1. Everybody computes the same spread from the same presence, and keeps what it leads as far as its share goes: a
//!    spread that is even asks for no move, whatever else it could be.
//! 2. A shard that is led moves only from a replica above its share to one below, one at a time from each, and only to
//!    one that has been there for a whole lease: a restart that is over sooner moves nothing but what was freed.
//! 3. A handover that was not taken up is not repeated for two leases, then four, up to 64: a replica that cannot lead
//!    though it says so costs less and less.
//! 4. A replica that has its share leaves a free shard to the others, but not for ever: after a few renewal periods,
//!    more the more it leads, and two leases at most, it takes it all the same.
//! 5. A role that goes to who is preferred moves only once that one has been there, and the other has led, for the
//!    time that its configuration says.

mod balance;
mod rank;
mod set;
mod spread;

pub use super::reference::presence::{Participant, Portion, Presence, PresenceRequest};
pub use balance::{Balance, Mine, Orders, Policy};
pub use rank::{AppVersion, NoRank, Rank, Ranking};
pub use set::{SHARDS_MAX, ShardSet};
pub use spread::Spread;

/// The number under which a role that is not split takes part as if it were its only shard.
pub const WHOLE: u16 = 0;
