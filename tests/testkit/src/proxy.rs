//! A TCP proxy on this machine whose network can be broken.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::last_for;

/// What the proxy does with what it gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Network {
    /// Passes everything on.
    Good,
    /// Passes nothing on, in either direction, and takes new connections the same way: a black hole. What waits is
    /// passed on when it heals.
    Stalled,
    /// Passes requests on and keeps the answers back.
    AnswersLost,
    /// Closes every connection, and new ones at once.
    Cut,
}

/// A proxy in front of one port. Ends when dropped.
pub struct Proxy {
    port: u16,
    network: watch::Sender<Network>,
    accepted: Arc<AtomicUsize>,
    target: Arc<AtomicU16>,
    late_ms: Arc<AtomicU64>,
    rate: Arc<AtomicUsize>,
    hang_up: Arc<Notify>,
    acceptor: JoinHandle<()>,
}

impl Proxy {
    /// Listens on a free port and passes on to `target`.
    pub async fn start(target: u16) -> Self {
        Self::start_hiding(target, "").await
    }

    /// The same, but answers never hold this word: its last letter is an `x` then.
    pub async fn start_hiding(target: u16, word: &'static str) -> Self {
        Self::start_at(SocketAddr::from(([127, 0, 0, 1], 0)), target, word).await
    }

    /// The same at this address.
    pub async fn start_at(at: SocketAddr, target: u16, word: &'static str) -> Self {
        let listener = TcpListener::bind(at).await.expect("a free port");
        let port = listener.local_addr().expect("it is bound").port();
        let (network, state) = watch::channel(Network::Good);
        let accepted = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&accepted);
        let target = Arc::new(AtomicU16::new(target));
        let leads_to = Arc::clone(&target);
        let late_ms = Arc::<AtomicU64>::default();
        let late = Arc::clone(&late_ms);
        let (rate, hang_up) = (Arc::new(AtomicUsize::new(usize::MAX)), Arc::<Notify>::default());
        let (per_second, hung_up) = (Arc::clone(&rate), Arc::clone(&hang_up));
        let acceptor = tokio::spawn(async move {
            let (mut second, mut taken) = (Instant::now(), 0);
            while let Ok((client, _)) = listener.accept().await {
                count.fetch_add(1, Ordering::Relaxed);
                if second.elapsed() >= Duration::from_secs(1) {
                    (second, taken) = (Instant::now(), 0);
                }
                taken += 1;
                if taken > per_second.load(Ordering::Relaxed) {
                    continue;
                }
                let target = SocketAddr::from(([127, 0, 0, 1], leads_to.load(Ordering::Relaxed)));
                let mask = Mask { word: word.as_bytes(), seen: 0 };
                let serving = serve(client, target, state.clone(), mask, Arc::clone(&late));
                let hung_up = Arc::clone(&hung_up);
                tokio::spawn(async move {
                    tokio::select! {
                        () = serving => {}
                        () = hung_up.notified() => {}
                    }
                });
            }
        });
        Self { port, network, accepted, target, late_ms, rate, hang_up, acceptor }
    }

    /// The port to connect to.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The URL of a Redis behind it.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/0", self.port)
    }

    /// Closes every connection. New ones are served.
    pub fn hang_up(&self) {
        self.hang_up.notify_waiters();
    }

    /// From now on so many new connections are served in each second; what comes besides is closed at once.
    pub fn serve_per_second(&self, rate: usize) {
        self.rate.store(rate, Ordering::Relaxed);
    }

    /// How many connections were made so far: one more tells that somebody gave up an old one.
    pub fn accepted(&self) -> usize {
        self.accepted.load(Ordering::Relaxed)
    }

    /// New connections lead to this port; those that exist stay where they are.
    pub fn lead_to(&self, target: u16) {
        self.target.store(target, Ordering::Relaxed);
    }

    /// From now on answers are passed on so much later, or a little more: what came meanwhile waits for its own turn.
    pub fn answer_late(&self, by: Duration) {
        self.late_ms.store(u64::try_from(by.as_millis()).expect("milliseconds"), Ordering::Relaxed);
    }

    /// Changes the network, for connections that exist, too.
    pub fn set(&self, network: Network) {
        self.network.send_replace(network);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.acceptor.abort();
    }
}

/// Changes a word wherever it comes by, in however many pieces.
struct Mask {
    word: &'static [u8],
    /// So many of its letters were the last ones.
    seen: usize,
}

impl Mask {
    const NONE: Self = Self { word: &[], seen: 0 };

    fn cover(&mut self, bytes: &mut [u8]) {
        let Some((last, _)) = self.word.split_last() else { return };
        for byte in bytes {
            let fits = *byte == self.word[self.seen];
            self.seen = if fits { self.seen + 1 } else { usize::from(*byte == self.word[0]) };
            if self.seen == self.word.len() {
                assert_ne!(*last, b'x', "it would not be covered");
                (*byte, self.seen) = (b'x', 0);
            }
        }
    }
}

async fn serve(
    client: TcpStream,
    target: SocketAddr,
    mut network: watch::Receiver<Network>,
    mask: Mask,
    late_ms: Arc<AtomicU64>,
) {
    if wait_for(&mut network, &[Network::Good, Network::AnswersLost]).await.is_err() {
        return;
    }
    let Ok(server) = TcpStream::connect(target).await else { return };
    // As both ends ask for themselves: what is sent does not wait for the acknowledgement of what was sent before.
    if client.set_nodelay(true).is_err() || server.set_nodelay(true).is_err() {
        return;
    }
    let ((client_read, client_write), (server_read, server_write)) = (client.into_split(), server.into_split());
    let both = &[Network::Good, Network::AnswersLost];
    let requests = pump(client_read, server_write, network.clone(), both, Mask::NONE, Arc::default());
    let answers = pump(server_read, client_write, network, &[Network::Good], mask, late_ms);
    // Whichever ends first takes the other with it: both halves are dropped, and so closed.
    tokio::select! {
        () = requests => {}
        () = answers => {}
    }
}

async fn pump(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut network: watch::Receiver<Network>,
    passing: &[Network],
    mut mask: Mask,
    late_ms: Arc<AtomicU64>,
) {
    let mut buffer = vec![0; 16 * 1024];
    loop {
        let length = tokio::select! {
            read = from.read(&mut buffer) => match read {
                Ok(length) if length > 0 => length,
                _ => return,
            },
            _ = network.wait_for(|state| *state == Network::Cut) => return,
        };
        mask.cover(&mut buffer[..length]);
        let late = Duration::from_millis(late_ms.load(Ordering::Relaxed));
        if !late.is_zero() {
            last_for(late).await;
        }
        if wait_for(&mut network, passing).await.is_err() || to.write_all(&buffer[..length]).await.is_err() {
            return;
        }
    }
}

/// Waits for one of these states; an error when the connection is to be closed instead.
async fn wait_for(network: &mut watch::Receiver<Network>, states: &[Network]) -> Result<(), ()> {
    let state = network.wait_for(|state| *state == Network::Cut || states.contains(state)).await.map_err(drop)?;
    if *state == Network::Cut { Err(()) } else { Ok(()) }
}
