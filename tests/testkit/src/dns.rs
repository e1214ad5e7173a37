//! A name server of a test's own, and processes that ask it: each has its own `/etc/resolv.conf`, in a mount namespace
//! that ends with it.

use std::ffi::OsStr;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tempfile::TempDir;

/// What a name server says of every name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    /// These are its addresses.
    Addresses(Vec<Ipv4Addr>),
    /// There is no such name.
    Nothing,
    /// It does not answer.
    Silence,
}

/// See the module. Ends when dropped.
pub struct NameServer {
    said: Arc<Mutex<Said>>,
    ended: Arc<AtomicBool>,
    dir: TempDir,
    thread: Option<JoinHandle<()>>,
}

impl NameServer {
    /// Starts one. Names are asked for at port 53 and nowhere else, so it has an address of its own.
    ///
    /// # Errors
    /// When this machine allows no such port, or no mount namespace.
    pub fn start(said: Said) -> io::Result<Self> {
        let isolated = Command::new("unshare").args(["--mount", "true"]).status()?;
        if !isolated.success() {
            return Err(io::Error::other("unshare --mount is not allowed"));
        }
        let ip = loopback();
        let socket = UdpSocket::bind((ip, 53))?;
        socket.set_read_timeout(Some(Duration::from_millis(50)))?;
        let dir = TempDir::new()?;
        std::fs::write(dir.path().join("resolv.conf"), format!("nameserver {ip}\n"))?;
        let (said, ended) = (Arc::new(Mutex::new(said)), Arc::new(AtomicBool::new(false)));
        let (says, ends) = (Arc::clone(&said), Arc::clone(&ended));
        let thread = thread::spawn(move || {
            while !ends.load(Ordering::Relaxed) {
                serve(&socket, &says);
            }
        });
        Ok(Self { said, ended, dir, thread: Some(thread) })
    }

    /// From now on it says this.
    pub fn say(&self, said: Said) {
        *self.said.lock().unwrap_or_else(PoisonError::into_inner) = said;
    }

    /// For processes that shall ask it: see [`command`].
    pub fn resolv_conf(&self) -> PathBuf {
        self.dir.path().join("resolv.conf")
    }
}

impl Drop for NameServer {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            assert!(ended.is_ok() || thread::panicking(), "the name server panicked");
        }
    }
}

/// An address of this machine that nobody else uses.
pub fn loopback() -> Ipv4Addr {
    Ipv4Addr::new(127, fastrand::u8(1..=254), fastrand::u8(1..=254), fastrand::u8(4..=254))
}

/// A program that asks the name server of this file. It has the process id of the command.
pub fn command(resolv_conf: &Path, program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new("unshare");
    let script = r#"mount --bind "$0" /etc/resolv.conf && exec "$@""#;
    command.args(["--mount", "sh", "-c", script]).arg(resolv_conf).arg(program);
    command
}

fn serve(socket: &UdpSocket, said: &Mutex<Said>) {
    let mut buffer = [0; 512];
    // Nobody has asked for a while, or somebody has gone.
    let Ok((length, from)) = socket.recv_from(&mut buffer) else { return };
    let said = said.lock().unwrap_or_else(PoisonError::into_inner).clone();
    if let Some(answer) = answer(&buffer[..length], &said) {
        send(socket, &answer, from);
    }
}

fn send(socket: &UdpSocket, answer: &[u8], to: SocketAddr) {
    // Who asked may have gone.
    let _ = socket.send_to(answer, to);
}

/// The answer to a query with one question; none where there is to be none.
fn answer(query: &[u8], said: &Said) -> Option<Vec<u8>> {
    const HEADER: usize = 12;
    const TYPE_A: [u8; 2] = [0, 1];
    let labels = query.get(HEADER..)?;
    let mut at = 0;
    while *labels.get(at)? != 0 {
        at += 1 + usize::from(labels[at]);
    }
    let question = labels.get(..at + 5)?;
    let addresses: &[Ipv4Addr] = match said {
        Said::Silence => return None,
        Said::Addresses(addresses) if question[at + 1..at + 3] == TYPE_A => addresses,
        Said::Addresses(_) | Said::Nothing => &[],
    };
    let no_such_name = u8::from(*said == Said::Nothing) * 3;
    let count = u8::try_from(addresses.len()).expect("a few");
    // An answer, to whom it may be asked on behalf of: one question, so many records, nothing else.
    let mut answer = [&query[..2], &[0x81, 0x80 | no_such_name, 0, 1, 0, count, 0, 0, 0, 0], question].concat();
    for address in addresses {
        // The name of the question, an address of the internet, for no time at all.
        answer.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4]);
        answer.extend(address.octets());
    }
    Some(answer)
}
