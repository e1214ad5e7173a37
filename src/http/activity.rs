//! What a connection is doing, so that one which does nothing useful can be told from one that works.
//!
//! hyper owns the socket while it serves, so the socket is wrapped to note bytes and stalls, and the service and its
//! bodies to note requests. The accept loop reads these notes now and then and tells the connection what to do; nothing
//! here costs a timer, per request or per connection.

use parking_lot::Mutex;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};

use hyper::body::{Body, Frame, SizeHint};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use super::serve::Limits;
use crate::base::clock::SharedClock;
use crate::protocol::Mono;

/// Nobody reads a moment before boot, so zero can stand for "not now".
const NONE: u64 = 0;

/// The notes about one connection. All but the orders are written by its own task alone, so that nothing of them needs
/// an atomic addition; the accept loop only reads them.
#[derive(Debug)]
pub(super) struct Activity {
    clock: SharedClock,
    /// Requests whose answer is not complete yet. A stream of events is one for as long as it lasts.
    in_service: AtomicU32,
    /// What the accept loop has told the connection and it has not done yet: a set of [`Order`]s.
    orders: AtomicU8,
    /// The moment of the connection's present turn, or [`NONE`] while nothing has asked for it.
    turn_at: AtomicU64,
    /// When the first byte of a request came whose head is not complete, or [`NONE`].
    head_since: AtomicU64,
    /// When a byte last moved in either direction.
    moved_at: AtomicU64,
    /// Since when a write waits for the client to read, or [`NONE`].
    stalled_since: AtomicU64,
    /// The client has ended the connection: it said so itself, or its kernel in its place.
    client_has_left: AtomicBool,
    /// Wakes the connection's task.
    waker: Mutex<Option<Waker>>,
}

/// What the accept loop may tell a connection. Each is a bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Order {
    /// Make room for another, at once.
    Leave = 1,
    /// Finish what is under way, then end.
    Finish = 2,
    /// Look whether the time is up.
    Look = 4,
}

/// A set of [`Order`]s.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Orders(u8);

impl Orders {
    pub(super) fn has(self, order: Order) -> bool {
        self.0 & order as u8 != 0
    }
}

/// Why a connection has had its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Overdue {
    /// A request's head did not arrive in time.
    Head,
    /// Nothing was asked for a long time.
    Idle,
    /// The client does not read its answer.
    Stalled,
}

impl Activity {
    pub(super) fn new(clock: SharedClock) -> Arc<Self> {
        let now = clock.now().as_nanos();
        Arc::new(Self {
            clock,
            in_service: AtomicU32::new(0),
            orders: AtomicU8::new(0),
            turn_at: AtomicU64::new(NONE),
            head_since: AtomicU64::new(NONE),
            moved_at: AtomicU64::new(now),
            stalled_since: AtomicU64::new(NONE),
            client_has_left: AtomicBool::new(false),
            waker: Mutex::new(None),
        })
    }

    /// Now, by the clock that the notes are taken with.
    pub(super) fn now(&self) -> Mono {
        self.clock.now()
    }

    /// The connection's task runs: what it does until it waits again is of one moment, for which the clock is read once
    /// at the most.
    pub(super) fn begin_turn(&self) {
        self.turn_at.store(NONE, Ordering::Relaxed);
    }

    fn turn_at(&self) -> u64 {
        let known = self.turn_at.load(Ordering::Relaxed);
        if known != NONE {
            return known;
        }
        let now = self.clock.now().as_nanos();
        self.turn_at.store(now, Ordering::Relaxed);
        now
    }

    /// Says what wakes the connection's task. To be called before its first look at [`Self::take_orders`], and whenever
    /// it is another.
    pub(super) fn wakes(&self, waker: &Waker) {
        *self.waker.lock() = Some(waker.clone());
    }

    /// Tells the connection. From any task.
    pub(super) fn tell(&self, order: Order) {
        self.orders.fetch_or(order as u8, Ordering::AcqRel);
        // Before its first turn there is none; it looks at its orders in that turn.
        if let Some(waker) = &*self.waker.lock() {
            waker.wake_by_ref();
        }
    }

    /// What the connection was told since it last asked.
    pub(super) fn take_orders(&self) -> Option<Orders> {
        if self.orders.load(Ordering::Acquire) == 0 {
            return None;
        }
        Some(Orders(self.orders.swap(0, Ordering::AcqRel)))
    }

    /// A request's head is complete.
    pub(super) fn head_is_complete(&self) {
        self.head_since.store(NONE, Ordering::Relaxed);
    }

    /// A request is being answered; the guard lasts until its answer is complete.
    pub(super) fn begin_answer(self: &Arc<Self>) -> InService {
        self.in_service.store(self.in_service.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        InService(Arc::clone(self))
    }

    /// What came of reading or writing says whether the client has left. That nothing was acknowledged for long does
    /// not.
    fn note_end<T>(&self, outcome: &Poll<io::Result<T>>) {
        let left = [io::ErrorKind::ConnectionReset, io::ErrorKind::BrokenPipe];
        if matches!(outcome, Poll::Ready(Err(error)) if left.contains(&error.kind())) {
            self.client_has_left.store(true, Ordering::Relaxed);
        }
    }

    fn note_read(&self) {
        let now = self.turn_at();
        self.moved_at.store(now, Ordering::Relaxed);
        if self.in_service.load(Ordering::Relaxed) == 0 && self.head_since.load(Ordering::Relaxed) == NONE {
            self.head_since.store(now, Ordering::Relaxed);
        }
    }

    fn note_write<T>(&self, outcome: &Poll<io::Result<T>>) {
        let now = self.turn_at();
        if outcome.is_ready() {
            self.moved_at.store(now, Ordering::Relaxed);
            self.stalled_since.store(NONE, Ordering::Relaxed);
        } else if self.stalled_since.load(Ordering::Relaxed) == NONE {
            self.stalled_since.store(now, Ordering::Relaxed);
        }
    }

    /// When this connection is overdue if nothing more happens, and for what; none while a request is in service.
    pub(super) fn overdue_at(&self, limits: &Limits) -> Option<(Mono, Overdue)> {
        let stalled_since = self.stalled_since.load(Ordering::Relaxed);
        if stalled_since != NONE {
            return Some((Mono::from_nanos(stalled_since) + limits.stall, Overdue::Stalled));
        }
        if self.in_service.load(Ordering::Relaxed) > 0 {
            return None;
        }
        let head_since = self.head_since.load(Ordering::Relaxed);
        if head_since != NONE {
            return Some((Mono::from_nanos(head_since) + limits.head, Overdue::Head));
        }
        Some((Mono::from_nanos(self.moved_at.load(Ordering::Relaxed)) + limits.idle, Overdue::Idle))
    }

    /// Since when this connection has waited for a (whole) request; none while one is in service.
    pub(super) fn waiting_since(&self) -> Option<Mono> {
        if self.in_service.load(Ordering::Relaxed) > 0 {
            return None;
        }
        let head_since = self.head_since.load(Ordering::Relaxed);
        let since = if head_since == NONE { self.moved_at.load(Ordering::Relaxed) } else { head_since };
        Some(Mono::from_nanos(since))
    }
}

/// Who has sent a request, as far as its connection tells.
#[derive(Clone, Debug, Default)]
pub struct Client {
    activity: Option<Arc<Activity>>,
}

impl Client {
    pub(super) fn new(activity: &Arc<Activity>) -> Self {
        Self { activity: Some(Arc::clone(activity)) }
    }

    /// Whether it has closed the connection, or died. False while that is not known, and where this side gave it up.
    pub fn has_left(&self) -> bool {
        self.activity.as_ref().is_some_and(|activity| activity.client_has_left.load(Ordering::Relaxed))
    }
}

/// A request in service; see [`Activity::begin_answer`]. It never leaves the connection's task: hyper holds it, in a
/// future or a body.
#[derive(Debug)]
pub(super) struct InService(Arc<Activity>);

impl Drop for InService {
    fn drop(&mut self) {
        // The wait for the next request begins with the write that follows, which is noted.
        self.0.in_service.store(self.0.in_service.load(Ordering::Relaxed) - 1, Ordering::Relaxed);
    }
}

/// A response body that keeps its request in service until hyper has taken all of it.
pub(super) struct WatchedBody<B> {
    body: B,
    _in_service: InService,
}

impl<B> WatchedBody<B> {
    pub(super) fn new(body: B, in_service: InService) -> Self {
        Self { body, _in_service: in_service }
    }
}

impl<B: Body + Unpin> Body for WatchedBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The socket, with notes taken.
pub(super) struct WatchedStream {
    stream: TcpStream,
    activity: Arc<Activity>,
}

impl WatchedStream {
    pub(super) fn new(stream: TcpStream, activity: Arc<Activity>) -> Self {
        Self { stream, activity }
    }

    pub(super) fn into_inner(self) -> TcpStream {
        self.stream
    }
}

impl AsyncRead for WatchedStream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let filled = buf.filled().len();
        let outcome = Pin::new(&mut self.stream).poll_read(cx, buf);
        if buf.filled().len() > filled {
            self.activity.note_read();
        } else if matches!(outcome, Poll::Ready(Ok(()))) && buf.remaining() > 0 {
            self.activity.client_has_left.store(true, Ordering::Relaxed);
        }
        self.activity.note_end(&outcome);
        outcome
    }
}

impl AsyncWrite for WatchedStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.activity.note_write(&outcome);
        self.activity.note_end(&outcome);
        outcome
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.activity.note_write(&outcome);
        self.activity.note_end(&outcome);
        outcome
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
