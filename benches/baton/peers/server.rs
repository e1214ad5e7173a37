//! A server that a peer needs and that is not Redis: its own, at a free port, in a folder that goes away.

use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use testkit::peers::Peer;
use testkit::ports::free_port;

const START_MAX: Duration = Duration::from_secs(30);

/// Killed when dropped.
pub struct Server {
    child: Child,
    pub address: SocketAddr,
    _dir: TempDir,
}

impl Server {
    /// Starts it and waits until it listens.
    pub fn start(peer: &Peer) -> Result<Self, String> {
        let dir = TempDir::new().map_err(|error| error.to_string())?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
        let mut command = Command::new(peer.folder.join("serve"));
        command.arg(address.port().to_string()).arg(dir.path().join("data"));
        let spawned = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let child = spawned.map_err(|error| format!("{}'s server: {error}", peer.name))?;
        let server = Self { child, address, _dir: dir };
        let begun = Instant::now();
        while TcpStream::connect(address).is_err() {
            if begun.elapsed() > START_MAX {
                return Err(format!("{}'s server does not listen within {START_MAX:?}", peer.name));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(server)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Both fail only when it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
