//! Passes everything on, and closes a connection when the last token that it was told has ended.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use super::{LOOK, Shared, Tokens};
use crate::wait::Ending;

/// More than a token and what is around it.
const CARRIED: usize = 4 << 10;

/// A proxy in front of one port. Takes no more connections once it is dropped.
pub struct CuttingProxy {
    port: u16,
    state: Arc<State>,
}

struct State {
    tokens: Arc<Shared>,
    target: u16,
    /// What tokens begin with that it admits itself, as a service does that knows a signature when it sees one.
    signed: Option<Signed>,
    accepted: AtomicUsize,
    cut: AtomicUsize,
    ending: Ending,
}

/// See [`CuttingProxy::start_admitting`].
struct Signed {
    start: String,
    is_right: Box<dyn Fn(&str) -> bool + Send + Sync>,
}

impl CuttingProxy {
    /// In front of the Redis at `target`.
    pub fn start(target: u16, tokens: &Tokens) -> Self {
        Self::start_with(target, tokens, None)
    }

    /// The same, which knows itself whether what begins like this is a good token.
    pub fn start_admitting(
        target: u16,
        tokens: &Tokens,
        start: &str,
        is_right: impl Fn(&str) -> bool + Send + Sync + 'static,
    ) -> Self {
        Self::start_with(target, tokens, Some(Signed { start: start.to_owned(), is_right: Box::new(is_right) }))
    }

    fn start_with(target: u16, tokens: &Tokens, signed: Option<Signed>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("bound").port();
        let state = Arc::new(State {
            tokens: Arc::clone(&tokens.shared),
            target,
            signed,
            accepted: AtomicUsize::new(0),
            cut: AtomicUsize::new(0),
            ending: Ending::default(),
        });
        let serving = Arc::clone(&state);
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                if serving.ending.within(std::time::Duration::ZERO) {
                    return;
                }
                serving.accepted.fetch_add(1, Ordering::Relaxed);
                let state = Arc::clone(&serving);
                // Either side may go at any time.
                thread::spawn(move || drop(state.serve(client)));
            }
        });
        Self { port, state }
    }

    /// The URL of the Redis behind it.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/0", self.port)
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// How many connections there were.
    pub fn accepted(&self) -> usize {
        self.state.accepted.load(Ordering::Relaxed)
    }

    /// How many of them it has closed.
    pub fn cut(&self) -> usize {
        self.state.cut.load(Ordering::Relaxed)
    }
}

impl Drop for CuttingProxy {
    fn drop(&mut self) {
        self.state.ending.tell();
        // Its thread waits for a connection.
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

impl State {
    fn serve(self: Arc<Self>, client: TcpStream) -> std::io::Result<()> {
        let server = TcpStream::connect(("127.0.0.1", self.target))?;
        client.set_nodelay(true)?;
        server.set_nodelay(true)?;
        let ends_at = Arc::new(Mutex::new(None));
        let open = Arc::new(Ending::default());
        let pumps =
            [(client.try_clone()?, server.try_clone()?, true), (server.try_clone()?, client.try_clone()?, false)];
        for (from, to, asks) in pumps {
            let (state, ends_at, open) = (Arc::clone(&self), Arc::clone(&ends_at), Arc::clone(&open));
            thread::spawn(move || {
                // It ends with the connection.
                let _ = state.pump(&from, &to, asks.then_some(&ends_at));
                let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
                open.tell();
            });
        }
        let is_over = || {
            let ends_at: Option<Instant> = *ends_at.lock().unwrap_or_else(PoisonError::into_inner);
            ends_at.is_some_and(|at| at <= self.tokens.now())
        };
        while !open.within(LOOK) {
            if is_over() {
                self.cut.fetch_add(1, Ordering::Relaxed);
                return client.shutdown(Shutdown::Both).and_then(|()| server.shutdown(Shutdown::Both));
            }
        }
        Ok(())
    }

    fn pump(
        &self,
        mut from: &TcpStream,
        mut to: &TcpStream,
        ends_at: Option<&Mutex<Option<Instant>>>,
    ) -> std::io::Result<()> {
        let (mut buffer, mut carried) = (vec![0; 16 << 10], Vec::new());
        loop {
            let length = from.read(&mut buffer)?;
            if length == 0 {
                return Ok(());
            }
            if let Some(ends_at) = ends_at {
                carried.extend_from_slice(&buffer[..length]);
                if let Some(at) = self.told(&String::from_utf8_lossy(&carried)) {
                    *ends_at.lock().unwrap_or_else(PoisonError::into_inner) = Some(at);
                }
                carried.drain(..carried.len().saturating_sub(CARRIED));
            }
            to.write_all(&buffer[..length])?;
        }
    }

    /// When the last token of what a client says ends.
    fn told(&self, said: &str) -> Option<Instant> {
        if let Some(signed) = &self.signed {
            // HELLO comes as one line, AUTH as an array.
            let words = said.split([' ', '\r', '\n']).filter(|word| word.starts_with(&signed.start));
            for word in words.filter(|word| (signed.is_right)(word)) {
                self.tokens.admit(word);
            }
        }
        let issued = self.tokens.issued();
        let told = issued.iter().rev().take(20).filter_map(|token| Some((said.rfind(&token.text)?, token.ends_at)));
        told.max_by_key(|(place, _)| *place).map(|(_, ends_at)| ends_at)
    }
}
