//! What goes wrong, each by its name; the same for every system.

use std::ops::Range;
use std::time::Duration;

use fastrand::Rng;

/// A kind of fault. Which of them a system can have is told by [`crate::system::System::can_have`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// SIGSTOP of the holder for longer than the lease, and SIGCONT.
    Pause,
    /// SIGKILL of the holder, and another start.
    Kill,
    /// The holder and the server lose each other.
    Cut,
    /// They lose each other again and again, for moments.
    Flap,
    /// SIGSTOP and SIGCONT of the server.
    ServerPause,
    /// SIGKILL of it, and another start with its data.
    ServerRestart,
    /// SIGKILL of it, and another start without data.
    ServerLoss,
    /// Its wall clock is stepped, and back.
    Clock,
}

impl Fault {
    /// In the order in which they come, again and again.
    pub const ALL: [Self; 8] = [
        Self::Pause,
        Self::Kill,
        Self::Cut,
        Self::Flap,
        Self::ServerPause,
        Self::ServerRestart,
        Self::ServerLoss,
        Self::Clock,
    ];

    /// For `BATON_JEPSEN_FAULT`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pause => "pause",
            Self::Kill => "kill",
            Self::Cut => "cut",
            Self::Flap => "flap",
            Self::ServerPause => "server-pause",
            Self::ServerRestart => "server-restart",
            Self::ServerLoss => "server-loss",
            Self::Clock => "clock",
        }
    }

    /// For the table.
    pub fn title(self) -> &'static str {
        match self {
            Self::Pause => "holder paused",
            Self::Kill => "holder killed",
            Self::Cut => "holder cut off from the server",
            Self::Flap => "holder's network flaps",
            Self::ServerPause => "server paused",
            Self::ServerRestart => "server killed, data kept",
            Self::ServerLoss => "server killed, data lost",
            Self::Clock => "server's clock stepped",
        }
    }

    /// How long it lasts. A lease is two seconds.
    pub fn lasts(self, dice: &mut Rng) -> Duration {
        let range: Range<u64> = match self {
            Self::Pause | Self::Cut => 2_500..4_500,
            Self::Kill | Self::ServerRestart | Self::ServerLoss => 200..2_500,
            Self::Flap | Self::ServerPause => 500..4_000,
            Self::Clock => 1_000..3_000,
        };
        Duration::from_millis(dice.u64(range))
    }
}
