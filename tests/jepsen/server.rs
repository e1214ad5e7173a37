//! The servers that locks are kept in, at a host of the network.

use std::fs;
use std::io;
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread;

use fastrand::Rng;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use testkit::apiserver::server::ApiServer;
use testkit::peers::Peer;
use testkit::place::Place;
use testkit::redis::{Data, RedisServer};
use testkit::sidecars::clock::{self, ClockControl};
use testkit::wait::until;

use crate::fault::Fault;
use crate::system::Store;

/// How far the clock is stepped, in seconds from the right time.
const STEPS_S: [i64; 4] = [3, -3, 30, -30];

/// See the module. Ends when dropped.
pub enum Server {
    Redis { redis: RedisServer, clock: Option<ClockControl> },
    Own(Own),
    Kubernetes { server: ApiServer, place: Place, kubeconfig: PathBuf, _dir: TempDir },
}

/// A server that came with a peer.
pub struct Own {
    peer: Peer,
    place: Place,
    child: Child,
    dir: TempDir,
}

impl Server {
    /// Starts it. `peer`: where that store comes from.
    ///
    /// # Panics
    /// When it does not start.
    pub fn start(store: Store, peer: Option<&Peer>, place: &Place) -> Self {
        match store {
            Store::Redis => {
                let clock = clock::library().map(|library| (ClockControl::started(), library));
                let environment = clock.as_ref().map(|(clock, library)| clock.environment(library)).unwrap_or_default();
                let pairs: Vec<(&str, &str)> = environment.iter().map(|(name, value)| (&**name, &**value)).collect();
                let redis = RedisServer::start_at(place, &pairs, &["--appendonly", "yes"]);
                Self::Redis { redis, clock: clock.map(|(clock, _)| clock) }
            }
            Store::Own(_) => Self::Own(Own::start(peer.expect("it is installed").clone(), place.clone())),
            Store::ApiServer => Self::start_api(place),
        }
    }

    /// It listens on loopback alone, so that others reach it through a relay beside it.
    fn start_api(place: &Place) -> Self {
        let server = place.run(ApiServer::start);
        let text = fs::read_to_string(server.kubeconfig()).expect("the server writes a kubeconfig");
        let port: u16 = server.url().rsplit(':').next().and_then(|port| port.parse().ok()).expect("a port");
        let outside = SocketAddr::from((place.ip(), place.server_port()));
        let inside = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        place.run(|| relay(TcpListener::bind(outside).expect("a port of its own"), inside));
        let own = format!("server: {}", server.url());
        let told = format!("server: https://{outside}\n    tls-server-name: localhost");
        let dir = TempDir::new().expect("a temporary directory");
        let kubeconfig = dir.path().join("kubeconfig");
        fs::write(&kubeconfig, text.replace(&own, &told)).expect("a kubeconfig");
        Self::Kubernetes { server, place: place.clone(), kubeconfig, _dir: dir }
    }

    /// What a library is told of where it is.
    pub fn address(&self) -> String {
        match self {
            Self::Redis { redis, .. } => format!("{}:{}", redis.host(), redis.port()),
            Self::Own(own) => own.address().to_string(),
            Self::Kubernetes { kubeconfig, .. } => kubeconfig.display().to_string(),
        }
    }

    /// Something goes wrong with it.
    ///
    /// # Panics
    /// When it cannot have this fault.
    pub fn begin(&mut self, fault: Fault, dice: &mut Rng) {
        match (fault, self) {
            (Fault::ServerPause, Self::Redis { redis, .. }) => redis.pause(),
            (Fault::ServerPause, Self::Own(own)) => own.signal(Signal::STOP),
            (Fault::ServerPause, Self::Kubernetes { server, .. }) => server.pause(),
            (Fault::ServerRestart, Self::Redis { redis, .. }) => redis.kill(),
            (Fault::ServerRestart, Self::Own(own)) => own.kill(),
            (Fault::ServerRestart, Self::Kubernetes { server, .. }) => server.kill(),
            (Fault::ServerLoss, Self::Redis { redis, .. }) => redis.stop(Data::Lost),
            (Fault::Clock, Self::Redis { clock: Some(clock), .. }) => clock.set(STEPS_S[dice.usize(0..STEPS_S.len())]),
            (other, _) => unreachable!("it has no {other:?}"),
        }
    }

    /// It is made good.
    pub fn end(&mut self, fault: Fault) {
        match (fault, self) {
            (Fault::ServerPause, Self::Redis { redis, .. }) => redis.resume(),
            (Fault::ServerPause, Self::Own(own)) => own.signal(Signal::CONT),
            (Fault::ServerPause, Self::Kubernetes { server, .. }) => server.resume(),
            (Fault::ServerRestart | Fault::ServerLoss, Self::Redis { redis, .. }) => redis.start_again(),
            (Fault::ServerRestart, Self::Own(own)) => own.start_again(),
            (Fault::ServerRestart, Self::Kubernetes { server, place, .. }) => place.run(|| server.start_again()),
            (Fault::Clock, Self::Redis { clock: Some(clock), .. }) => clock.set(0),
            (other, _) => unreachable!("it has no {other:?}"),
        }
    }
}

impl Own {
    fn start(peer: Peer, place: Place) -> Self {
        let dir = TempDir::new().expect("a temporary directory");
        let child = launch(&peer, &place, &dir);
        let own = Self { peer, place, child, dir };
        own.wait_for_start();
        own
    }

    fn address(&self) -> SocketAddr {
        SocketAddr::from((self.place.ip(), self.place.server_port()))
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("our own child takes signals");
    }

    fn kill(&mut self) {
        // Both fail only when it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    fn start_again(&mut self) {
        self.child = launch(&self.peer, &self.place, &self.dir);
        self.wait_for_start();
    }

    fn wait_for_start(&self) {
        let address = self.address();
        until("the server listens", || self.place.run(|| TcpStream::connect(address)).is_ok());
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        self.kill();
    }
}

fn launch(peer: &Peer, place: &Place, dir: &TempDir) -> Child {
    let mut command = Command::new(peer.folder.join("serve"));
    command.arg(place.server_port().to_string()).arg(dir.path().join("data")).arg(place.ip().to_string());
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    place.run(|| command.spawn()).expect("the server starts")
}

/// Passes connections on, for as long as this process runs; its threads stay in the network that this one is in.
fn relay(listener: TcpListener, to: SocketAddr) {
    thread::spawn(move || {
        for outer in listener.incoming().map_while(Result::ok) {
            thread::spawn(move || {
                // Nobody listens: the connection is closed.
                let Ok(inner) = TcpStream::connect(to) else { return };
                let (outer, inner) = (Arc::new(outer), Arc::new(inner));
                let back = (Arc::clone(&inner), Arc::clone(&outer));
                thread::spawn(move || pass_on(&back.0, &back.1));
                pass_on(&outer, &inner);
            });
        }
    });
}

fn pass_on(mut from: &TcpStream, mut to: &TcpStream) {
    // An error is an end as well, and then both directions are over.
    let _ = io::copy(&mut from, &mut to);
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}
