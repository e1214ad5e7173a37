//! An app that answers calls of jobs well or badly, by their path: late, slowly, without end, never, with a redirect.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use crate::wait::Ending;

/// How long a call that nobody lets go on is held.
const HELD_MAX: Duration = Duration::from_secs(60);
/// Between two bytes of a slow answer.
const SLOW: Duration = Duration::from_millis(100);

/// A call, by its path, and which attempt of its run it was.
pub type Call = (String, u32);

#[derive(Default)]
struct State {
    calls: Mutex<Vec<Call>>,
    opened: Ending,
}

/// The app. Its threads end with the connections that they serve.
pub struct Callbacks {
    address: SocketAddr,
    state: Arc<State>,
}

impl Callbacks {
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("bound");
        let state = Arc::new(State::default());
        let serving = Arc::clone(&state);
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let state = Arc::clone(&serving);
                // Whoever asked may have let go of the request.
                thread::spawn(move || drop(state.serve(stream)));
            }
        });
        Self { address, state }
    }

    /// Where it answers so: `done` at once, `held` on the first attempt once [`Self::open`] is called, `slow`, `huge`,
    /// `never`, `moved` (to `done`).
    pub fn url(&self, how: &str) -> String {
        format!("http://{}/{how}", self.address)
    }

    /// What is held is answered.
    pub fn open(&self) {
        self.state.opened.tell();
    }

    /// The calls so far, in order.
    pub fn calls(&self) -> Vec<Call> {
        self.state.calls.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl State {
    fn serve(&self, stream: TcpStream) -> std::io::Result<()> {
        let mut reader = BufReader::new(stream);
        let (mut head, mut length, mut attempt) = (String::new(), 0, 0);
        while reader.read_line(&mut head)? > 2 {
            let line = head.lines().next_back().unwrap_or_default();
            let (name, value) = line.split_once(':').unwrap_or_default();
            match name.to_ascii_lowercase().as_str() {
                "content-length" => length = value.trim().parse().unwrap_or(0),
                "baton-attempt" => attempt = value.trim().parse().unwrap_or(0),
                _ => {}
            }
        }
        std::io::copy(&mut reader.by_ref().take(length), &mut std::io::sink())?;
        let path = head.split(' ').nth(1).unwrap_or_default().trim_start_matches('/').to_owned();
        self.calls.lock().unwrap_or_else(PoisonError::into_inner).push((path.clone(), attempt));
        self.answer(&path, attempt, reader.into_inner())
    }

    fn answer(&self, path: &str, attempt: u32, mut stream: TcpStream) -> std::io::Result<()> {
        match path {
            "slow" => {
                stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\n")?;
                while !self.opened.within(SLOW) {
                    stream.write_all(b"x")?;
                }
                return Ok(());
            }
            "huge" => {
                stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n")?;
                loop {
                    stream.write_all(&[b'x'; 65_536])?;
                }
            }
            "never" => return stream.read(&mut [0]).map(drop),
            "moved" => return stream.write_all(b"HTTP/1.1 302 Found\r\nlocation: /done\r\ncontent-length: 0\r\n\r\n"),
            "held" if attempt == 1 => drop(self.opened.within(HELD_MAX)),
            _ => {}
        }
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\ndone")
    }
}
