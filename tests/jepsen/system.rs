//! Who takes part.

use testkit::sidecars::clock;

use crate::fault::Fault;

/// A system that hands out a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum System {
    Baton,
    ClientGo,
    Curator,
    Etcd,
    Redisson,
    RedisPy,
    Redsync,
    ShedLock,
    /// Broken on purpose, and no part of the table: the judges must find it.
    Pretended,
}

/// What a system keeps its lock in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Store {
    Redis,
    /// The server that came with this peer.
    Own(&'static str),
    ApiServer,
}

impl System {
    /// In the order of the table.
    pub const ALL: [Self; 8] = [
        Self::Baton,
        Self::ClientGo,
        Self::Curator,
        Self::Etcd,
        Self::Redisson,
        Self::RedisPy,
        Self::Redsync,
        Self::ShedLock,
    ];

    /// For `BATON_JEPSEN_SYSTEM`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Baton => "baton",
            Self::ClientGo => "client-go",
            Self::Curator => "curator",
            Self::Etcd => "etcd",
            Self::Redisson => "redisson",
            Self::RedisPy => "redis-py",
            Self::Redsync => "redsync",
            Self::ShedLock => "shedlock",
            Self::Pretended => "pretended",
        }
    }

    /// For the table.
    pub fn title(self) -> &'static str {
        match self {
            Self::Baton => "Baton",
            Self::ClientGo => "client-go",
            Self::Curator => "Curator",
            Self::Etcd => "etcd",
            Self::Redisson => "Redisson",
            Self::RedisPy => "redis-py",
            Self::Redsync => "redsync",
            Self::ShedLock => "ShedLock",
            Self::Pretended => "`SET` without `NX`",
        }
    }

    /// Whose program it is, of `benches/peers`, and with which verb; none for Baton.
    pub fn peer(self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::Baton => None,
            Self::Pretended => Some(("redis-py", "pretend")),
            other => Some((other.name(), "hold")),
        }
    }

    pub fn store(self) -> Store {
        match self {
            Self::ClientGo => Store::ApiServer,
            Self::Curator => Store::Own("curator"),
            Self::Etcd => Store::Own("etcd"),
            Self::Baton | Self::Redisson | Self::RedisPy | Self::Redsync | Self::ShedLock | Self::Pretended => {
                Store::Redis
            }
        }
    }

    /// Whether its lock comes with a fencing token.
    pub fn has_token(self) -> bool {
        !matches!(self, Self::RedisPy | Self::Redsync | Self::ShedLock)
    }

    /// Only a Redis forgets, where it is run as a cache; the others answer when it is on disk. And only its clock can
    /// be stepped from outside: the others ask the kernel for the time, not the C library.
    pub fn can_have(self, fault: Fault) -> bool {
        match fault {
            Fault::ServerLoss => self.store() == Store::Redis,
            Fault::Clock => self.store() == Store::Redis && clock::library().is_some(),
            _ => true,
        }
    }
}
