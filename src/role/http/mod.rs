//! What is asked about roles, and said to them, over HTTP.
//!
//! | file | calls |
//! |---|---|
//! | `leader` | `/leader`, `/leading`, `/roles` and the leader-elector shapes |
//! | `hold` | `/leader/{role}/hold` |
//! | `events` | `/events` |
//! | `control` | `/leader/{role}/resign`, `/leader/{role}/drained` |
//! | `status` | `/status` |
//! | `params` | what queries and bodies say |

mod control;
mod events;
mod hold;
mod leader;
mod params;
mod status;

use std::time::Duration;

use hyper::Method;

use crate::base::clock::SharedClock;
use crate::http::{Routes, Stopping};
use crate::role::Roles;

pub use params::{COOLDOWN_MAX, WAIT_DEFAULT, WAIT_MAX};

/// How often a stream of events says something when nothing happens.
pub const HEARTBEAT: Duration = Duration::from_secs(15);

/// No promise is repeated faster than this, however short it is.
const REPEAT_MIN: Duration = Duration::from_millis(10);

/// How soon a stream repeats a promise that is good for so long.
fn repeat_after(validity: Duration) -> Duration {
    (validity / 2).max(REPEAT_MIN)
}

/// What every call may use.
pub struct RoleCalls {
    roles: Roles,
    /// Times repeats.
    clock: SharedClock,
    heartbeat: Duration,
    stopping: Stopping,
}

/// The calls. `heartbeat`: [`HEARTBEAT`], unless there is a reason.
pub fn routes(roles: Roles, clock: SharedClock, heartbeat: Duration, stopping: Stopping) -> Routes<RoleCalls> {
    let probes = [Method::GET, Method::HEAD, Method::OPTIONS];
    Routes::new(RoleCalls { roles, clock, heartbeat, stopping })
        .get("/leader", leader::leader)
        .get("/leader/{role}", leader::leader)
        .get("/leader/{role}/hold", hold::hold)
        .at(&probes, "/leading", leader::leading)
        .at(&probes, "/leading/{role}", leader::leading)
        .get("/roles", leader::roles)
        .get("/", leader::named)
        .get("/isLeader", leader::is_leader)
        .get("/events", events::events)
        .get("/status", status::status)
        .post_json("/leader/{role}/resign", control::resign)
        .post("/leader/{role}/drained", control::drained)
}
