//! A server of a test's own: on a free port, in a folder that goes away, ended when dropped.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;
use testkit::ports::free_port;
use testkit::wait::until;

/// See the module.
pub struct Server {
    child: Child,
    pub address: SocketAddr,
    pub folder: TempDir,
}

impl Server {
    /// Starts a program in a folder with these files. `words` makes its arguments of the address that it is to listen
    /// on.
    ///
    /// # Panics
    /// When it does not start.
    pub fn start(program: &str, files: &[(&str, &str)], words: impl Fn(SocketAddr) -> Vec<String>) -> Self {
        let folder = TempDir::new().expect("a temporary folder");
        for (name, text) in files {
            std::fs::write(folder.path().join(name), text).expect("a file");
        }
        let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
        let log = File::create(folder.path().join("log")).expect("a log file");
        let mut command = Command::new(program);
        command.args(words(address)).current_dir(folder.path()).stdin(Stdio::null());
        command.stdout(log.try_clone().expect("the log file again")).stderr(log);
        let child = command.spawn().unwrap_or_else(|error| panic!("{program} ({error}): `make e2e` installs it"));
        let mut server = Self { child, address, folder };
        until("a server is ready", || {
            let ended = server.child.try_wait().expect("our own child can be asked");
            assert!(ended.is_none(), "{program} has ended: {}", server.log());
            server.get("/-/ready").is_ok_and(|(status, _)| status == 200)
        });
        server
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    /// Status and body of a page.
    pub fn get(&self, target: &str) -> io::Result<(u16, String)> {
        let mut stream = TcpStream::connect(self.address)?;
        stream.set_read_timeout(Some(Duration::from_secs(20)))?;
        // HTTP/1.0: the body ends with the connection, and comes in one piece.
        write!(stream, "GET {target} HTTP/1.0\r\nHost: {}\r\n\r\n", self.address)?;
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        let (head, body) = text.split_once("\r\n\r\n").ok_or_else(|| io::Error::other("no end of the head"))?;
        let status = head.split(' ').nth(1).and_then(|code| code.parse().ok());
        Ok((status.ok_or_else(|| io::Error::other("no status"))?, body.to_owned()))
    }

    /// Writes one of its files anew, in one step.
    pub fn write(&self, name: &str, text: &str) {
        let (new, file) = (self.folder.path().join("new"), self.folder.path().join(name));
        std::fs::write(&new, text).and_then(|()| std::fs::rename(&new, Path::new(&file))).expect("a file");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Both fail only when it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            let log = self.log();
            eprintln!("--- the log of {}:\n{}", self.address, &log[log.len().saturating_sub(4_000)..]);
        }
    }
}
