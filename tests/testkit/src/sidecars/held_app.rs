//! An app that shows by its connection that it lives (`/leader/{role}/hold`): a process that repeats what it is told.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// Lives until it is killed or its connection ends. With `fork`, a child of it has the connection, too, and lives on
/// until its standard input ends.
const APP: &str = r#"
import os, socket, sys
host, port, target, forks = sys.argv[1:]
connection = socket.create_connection((host, int(port)))
connection.sendall(f"GET {target} HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode())
lines = connection.makefile("r")
if forks == "fork" and os.fork() == 0:
    sys.stdout.close()
    sys.stdin.read()
    os._exit(0)
for line in lines:
    if line.startswith("{"):
        print(line, end="", flush=True)
"#;

/// Killed when dropped.
pub struct HeldApp {
    child: Child,
    pub asked_at: Instant,
}

impl HeldApp {
    /// Asks at `api` for `role` with `query`. Each line that it is told goes to `tell`, with the moment.
    ///
    /// # Panics
    /// When there is no Python.
    pub fn start(api: SocketAddr, role: &str, query: &str, tell: impl FnMut(Instant, Value) + Send + 'static) -> Self {
        Self::run(api, role, query, "alone", tell)
    }

    /// One that forks a child, as [`HeldApp::start`].
    ///
    /// # Panics
    /// When there is no Python.
    pub fn start_with_child(
        api: SocketAddr,
        role: &str,
        query: &str,
        tell: impl FnMut(Instant, Value) + Send + 'static,
    ) -> Self {
        Self::run(api, role, query, "fork", tell)
    }

    fn run(
        api: SocketAddr,
        role: &str,
        query: &str,
        forks: &str,
        mut tell: impl FnMut(Instant, Value) + Send + 'static,
    ) -> Self {
        let (target, asked_at) = (format!("/leader/{role}/hold{query}"), Instant::now());
        let mut child = Command::new("python3")
            .args(["-c", APP, &api.ip().to_string(), &api.port().to_string(), &target, forks])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("there is a Python");
        let lines = BufReader::new(child.stdout.take().expect("it is piped")).lines().map_while(Result::ok);
        // Ends with the app.
        thread::spawn(move || {
            for line in lines {
                tell(Instant::now(), serde_json::from_str(&line).expect("lines of JSON"));
            }
        });
        Self { child, asked_at }
    }

    /// # Panics
    /// When it has been waited for already.
    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("our own child takes signals");
    }

    /// SIGKILL, and waits for its end. A child that it forked lives on until what is returned is dropped.
    pub fn kill(&mut self) -> impl Sized + use<> {
        let input = self.child.stdin.take();
        // Both fail only when it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
        input
    }
}

impl Drop for HeldApp {
    fn drop(&mut self) {
        drop(self.kill());
    }
}
