//! Independent servers, as the members of a quorum are.

use super::redis::{Data, RedisServer};

/// The servers, in the order of the members.
pub struct Members {
    pub servers: Vec<RedisServer>,
}

impl Members {
    /// So many, without persistence.
    pub fn start(count: usize) -> Self {
        Self { servers: (0..count).map(|_| RedisServer::start()).collect() }
    }

    pub fn urls(&self) -> Vec<String> {
        self.servers.iter().map(RedisServer::url).collect()
    }

    /// As messages name a member.
    pub fn name(&self, member: usize) -> String {
        format!("127.0.0.1:{}", self.servers[member].entry_port())
    }

    /// Restarts every one of them, one after another.
    pub fn restart_all(&mut self, data: Data) {
        self.servers.iter_mut().for_each(|server| server.restart(data));
    }

    /// Whether each has run for so long, in whole seconds as it counts them.
    pub fn have_run_for(&self, seconds: u64) -> bool {
        let uptime = |server: &RedisServer| {
            let info = server.command(&["INFO", "server"]).text();
            let told = info.lines().find_map(|line| line.strip_prefix("uptime_in_seconds:")).expect("an uptime");
            told.parse::<u64>().expect("a number")
        };
        self.servers.iter().all(|server| uptime(server) >= seconds)
    }
}
