//! Where a process runs: this machine's own network, or a network namespace of its own with a cable that can be cut.
//!
//! Nothing of it has a name on the machine: the namespaces, and every device in them, end with the handles here and
//! the processes inside, also when a test panics or is killed.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::Ipv4Addr;
use std::os::fd::AsFd;
use std::panic::resume_unwind;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::ports::free_port;

/// See the module. Cheap to copy.
#[derive(Clone, Debug)]
pub struct Place {
    ip: Ipv4Addr,
    namespace: Option<Arc<Namespace>>,
}

impl Place {
    /// This machine's own network.
    pub fn here() -> Self {
        Self { ip: Ipv4Addr::LOCALHOST, namespace: None }
    }

    /// How others reach what runs here.
    pub fn ip(&self) -> Ipv4Addr {
        self.ip
    }

    /// What a server here listens on: for others, and for the test that looks after it. Before Redis 7.0 a Sentinel
    /// calls from the first.
    pub fn addresses(&self) -> Vec<String> {
        let own = self.namespace.iter().map(|_| self.ip.to_string());
        own.chain([Ipv4Addr::LOCALHOST.to_string()]).collect()
    }

    /// A port for the one server of this place. No two places of a network have the same, so that it names a server.
    pub fn server_port(&self) -> u16 {
        match &self.namespace {
            None => free_port(),
            Some(_) => 7_000 + u16::from(self.ip.octets()[3]),
        }
    }

    /// Does this here: sockets that are made, and processes that are started, stay.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        match &self.namespace {
            None => work(),
            Some(namespace) => namespace.run(work),
        }
    }
}

/// A network namespace: lives as long as this, or a process in it.
#[derive(Debug)]
struct Namespace {
    handle: File,
    /// Ends when its input is closed, and so with this process, however that ends.
    keeper: Child,
}

impl Namespace {
    fn new() -> io::Result<Self> {
        let mut keeper =
            Command::new("unshare").args(["--net", "cat"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let said = keeper.stdin.as_mut().map_or(Ok(()), |input| input.write_all(b"."));
        let heard = keeper.stdout.as_mut().map_or(Ok(()), |output| output.read_exact(&mut [0]));
        // It answers from inside, or has ended because it may not.
        let opened = said.and(heard).and_then(|()| File::open(format!("/proc/{}/ns/net", keeper.id())));
        match opened {
            Ok(handle) => Ok(Self { handle, keeper }),
            Err(error) => {
                end(&mut keeper);
                Err(error)
            }
        }
    }

    fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        // A thread of its own, since a thread stays where it was moved to.
        let moved = || {
            move_into_link_name_space(self.handle.as_fd(), Some(LinkNameSpaceType::Network)).expect("we made it");
            work()
        };
        thread::scope(|scope| scope.spawn(moved).join()).unwrap_or_else(|panic| resume_unwind(panic))
    }

    /// Runs `ip` inside, one command a line.
    fn ip(&self, lines: &str) -> io::Result<()> {
        let mut command = Command::new("ip");
        command.args(["-batch", "-"]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = self.run(|| command.spawn())?;
        if let Some(mut input) = child.stdin.take() {
            input.write_all(lines.as_bytes())?;
        }
        let output = child.wait_with_output()?;
        if output.status.success() {
            return Ok(());
        }
        Err(io::Error::other(format!("ip: {}: {lines}", String::from_utf8_lossy(&output.stderr).trim())))
    }
}

fn end(child: &mut Child) {
    // Both fail only when it has ended already.
    let _ = child.kill();
    let _ = child.wait();
}

impl Drop for Namespace {
    fn drop(&mut self) {
        end(&mut self.keeper);
    }
}

/// Hosts on a switch, any of which can be cut off, alone or with others.
pub struct Network {
    switches: Namespace,
    hosts: Vec<Place>,
}

/// Which part of a broken network a host is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// With the most.
    Main,
    /// With the others of this side.
    Other,
    /// With nobody.
    Alone,
}

impl Network {
    /// So many hosts, all of which reach each other.
    ///
    /// # Errors
    /// When this machine does not allow it, or lacks a tool.
    pub fn start(hosts: u8) -> io::Result<Self> {
        let switches = Namespace::new()?;
        let bridge = |name: &str| format!("link add {name} type bridge forward_delay 0\nlink set {name} up\n");
        switches.ip(&format!("{}{}", bridge("main"), bridge("other")))?;
        let mut network = Self { switches, hosts: Vec::new() };
        for number in 0..hosts {
            let (namespace, ip) = (Namespace::new()?, Ipv4Addr::new(10, 77, 0, number + 1));
            network.switches.ip(&format!(
                "link add port{number} type veth peer name eth0 netns {}\nlink set port{number} master main\n\
                 link set port{number} up\n",
                namespace.keeper.id()
            ))?;
            namespace.ip(&format!("addr add {ip}/24 dev eth0\nlink set eth0 up\nlink set lo up\n"))?;
            network.hosts.push(Place { ip, namespace: Some(Arc::new(namespace)) });
        }
        Ok(network)
    }

    /// A host.
    pub fn host(&self, number: usize) -> Place {
        self.hosts[number].clone()
    }

    /// Puts every host on its side. What is sent to another side is lost, as with a cable that is cut in the middle:
    /// nobody is told.
    pub fn divide(&self, side_of: impl Fn(usize) -> Side) {
        let line = |number: usize| match side_of(number) {
            Side::Main => format!("link set port{number} master main\n"),
            Side::Other => format!("link set port{number} master other\n"),
            Side::Alone => format!("link set port{number} nomaster\n"),
        };
        let lines: String = (0..self.hosts.len()).map(line).collect();
        self.switches.ip(&lines).expect("the devices are ours");
    }
    /// From now on what these two send to each other is lost; everybody else still hears both.
    pub fn part(&self, one: usize, other: usize) {
        for (from, to) in [(one, other), (other, one)] {
            // An address that no device has.
            self.tell(from, &format!("neigh replace {} lladdr {NOBODY} dev eth0 nud permanent\n", self.hosts[to].ip));
        }
    }

    /// They reach each other again.
    pub fn join(&self, one: usize, other: usize) {
        for (from, to) in [(one, other), (other, one)] {
            self.tell(from, &format!("neigh del {} dev eth0\n", self.hosts[to].ip));
        }
    }

    fn tell(&self, host: usize, lines: &str) {
        let namespace = self.hosts[host].namespace.as_ref().expect("a host of a network has one");
        namespace.ip(lines).expect("the devices are ours");
    }
}

/// The address of no device.
const NOBODY: &str = "02:00:00:00:00:01";
