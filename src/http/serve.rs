//! The accept loop of both listeners.

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Incoming};
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use super::activity::{Activity, Client, Order, Overdue, WatchedBody, WatchedStream};
use super::answer::BoxError;
use super::places::{Place, Places};
use super::problem::{Problem, ProblemKind};
use super::refuse::refuse;
use crate::base::clock::SharedClock;

/// What clients may cost this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// How many connections may be open at once. One more makes the longest-waiting idle one go, or is answered 503.
    pub connections: usize,
    /// How many of them one address may have. One more of it makes one of its own go, whoever else has how many.
    pub per_peer: usize,
    /// How many may be open beside them, each for one request that the [`AccessCheck`](super::AccessCheck) lets in.
    pub spare: usize,
    /// How long a request's head may take from its first byte; then 408.
    pub head: Duration,
    /// How long a connection may stay open with nothing asked.
    pub idle: Duration,
    /// How long a client may leave its answer unread before the connection is closed.
    pub stall: Duration,
    /// How long connections may take to finish once shutdown has begun.
    pub grace: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 1024,
            per_peer: usize::MAX,
            spare: 0,
            head: Duration::from_secs(10),
            idle: Duration::from_secs(60),
            stall: Duration::from_secs(20),
            grace: Duration::from_secs(1),
        }
    }
}

/// The two addresses of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ends {
    /// This side: the listener's address, resolved when it listens on all.
    pub local: SocketAddr,
    pub peer: SocketAddr,
    /// It is one too many, and there for one request that cannot wait: see [`Limits::spare`].
    pub is_spare: bool,
}

/// How many connections at once may be told that they are too many; the rest is closed without a word.
const REFUSALS_MAX: usize = 64;
/// What hyper may hold of one connection's unread request or unsent answer.
const BUFFER_BYTES_MAX: usize = 64 * 1024;
/// The largest head of a request; then 431. An app's own requests have a few hundred bytes.
const HEAD_BYTES_MAX: usize = 32 * 1024;
/// The pause after a failed accept, which as a rule means that file descriptors have run out.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// How long what was sent may stay unacknowledged.
const UNACKNOWLEDGED_MAX: Duration = Duration::from_secs(20);

/// Serves HTTP/1.1 on `listener` until `shutdown` completes, then lets the open connections finish for `limits.grace`
/// at the most. `make_service` is called once for each connection. Returns when every connection is closed.
pub async fn serve<S, B>(
    listener: TcpListener,
    limits: Limits,
    clock: SharedClock,
    make_service: impl Fn(Ends) -> S,
    shutdown: impl Future<Output = ()>,
) where
    S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible, Future: Send> + Send + 'static,
    B: Body<Data = Bytes, Error: Into<BoxError>> + Send + Unpin + 'static,
{
    let open = Arc::new(Places::default());
    let mut tasks = JoinSet::new();
    let mut refusals = JoinSet::new();
    let (mut shutdown, mut next_look) = (pin!(shutdown), pin!(tokio::time::sleep(Duration::ZERO)));
    loop {
        tokio::select! {
            biased;
            () = &mut shutdown => break,
            () = &mut next_look, if !tasks.is_empty() => {
                let nap = open.look(&limits, clock.now());
                next_look.set(tokio::time::sleep(nap));
            }
            Some(_) = tasks.join_next() => {}
            Some(_) = refusals.join_next() => {}
            accepted = listener.accept() => match accepted {
                Ok((stream, peer)) => {
                    let Some(local) = prepare(&stream) else { continue };
                    let activity = Activity::new(Arc::clone(&clock));
                    if let Some(place) = Place::take(&open, &limits, peer.ip(), &activity) {
                        let ends = Ends { local, peer, is_spare: place.is_spare };
                        let conversation = converse(stream, make_service(ends), limits, ends, activity);
                        tasks.spawn(async move {
                            conversation.await;
                            drop(place);
                        });
                    } else if refusals.len() < REFUSALS_MAX {
                        let problem = Problem::too_many_connections(limits.connections);
                        refusals.spawn(async move { refuse(stream, &problem).await });
                    }
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            },
        }
    }
    drop(listener);
    open.tell_all(Order::Finish);
    let all_ended = async { while tasks.join_next().await.is_some() {} };
    if tokio::time::timeout(limits.grace, all_ended).await.is_err() {
        tasks.shutdown().await;
    }
}

/// Its address on this side.
fn prepare(stream: &TcpStream) -> Option<SocketAddr> {
    // All of it fails only on a connection that is gone already.
    stream.set_nodelay(true).ok()?;
    // A client whose machine is gone closes nothing; what was sent to it is not acknowledged. It is given up then, and
    // so is a lock that lasted as long as its connection.
    socket2_fred::SockRef::from(stream).set_tcp_user_timeout(Some(UNACKNOWLEDGED_MAX)).ok()?;
    stream.local_addr().ok()
}

/// One connection, from its first byte to its close.
async fn converse<S, B>(stream: TcpStream, service: S, limits: Limits, ends: Ends, activity: Arc<Activity>)
where
    S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible, Future: Send> + Send + 'static,
    B: Body<Data = Bytes, Error: Into<BoxError>> + Send + Unpin + 'static,
{
    let noted = Arc::clone(&activity);
    let watched = service_fn(move |mut request: Request<Incoming>| {
        noted.head_is_complete();
        request.extensions_mut().insert(Client::new(&noted));
        let in_service = noted.begin_answer();
        let answer = service.call(request);
        async move { answer.await.map(|response| response.map(|body| WatchedBody::new(body, in_service))) }
    });
    let io = TokioIo::new(WatchedStream::new(stream, Arc::clone(&activity)));
    let mut builder = http1::Builder::new();
    // The bounds on time are kept outside, apart for heads and for idleness, which hyper would count as one.
    builder.header_read_timeout(None).max_buf_size(BUFFER_BYTES_MAX).max_header_size(HEAD_BYTES_MAX);
    // Answers are small: copied behind their head and sent in one piece they cost less than a vectored write.
    builder.writev(false).keep_alive(!ends.is_spare);
    let mut connection = builder.serve_connection(io, watched);
    let mut known: Option<Waker> = None;
    loop {
        let turn = poll_fn(|cx| {
            if !known.as_ref().is_some_and(|known| known.will_wake(cx.waker())) {
                activity.wakes(cx.waker());
                known = Some(cx.waker().clone());
            }
            activity.begin_turn();
            // An error is the client's: it went away, or it does not speak HTTP, which hyper has told it.
            match Pin::new(&mut connection).poll(cx) {
                Poll::Ready(_) => Poll::Ready(None),
                Poll::Pending => activity.take_orders().map_or(Poll::Pending, |orders| Poll::Ready(Some(orders))),
            }
        });
        let Some(orders) = turn.await else { return };
        if orders.has(Order::Leave) {
            return;
        }
        if orders.has(Order::Finish) {
            Pin::new(&mut connection).graceful_shutdown();
        }
        // What has come since the accept loop looked counts.
        match activity.overdue_at(&limits).filter(|(moment, _)| orders.has(Order::Look) && *moment <= activity.now()) {
            Some((_, Overdue::Head)) => break,
            // An idle client is simply left, and a stalled one would not read.
            Some(_) => return,
            None => {}
        }
    }
    // One that has begun to ask shall know.
    let stream = connection.into_parts().io.into_inner().into_inner();
    let detail = format!("the request's head took longer than {:?}", limits.head);
    refuse(stream, &Problem::new(ProblemKind::RequestTimeout, detail)).await;
}
