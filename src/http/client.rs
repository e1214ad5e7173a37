//! Requests to others: each on a connection of its own, which closes as soon as nobody waits for the answer or reads it
//! any more. No redirect is followed, and no proxy asked: a request goes where the configuration says, or nowhere.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::client::conn::http1;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, lookup_host};
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// What Baton calls itself.
pub const USER_AGENT: &str = concat!("baton/", env!("CARGO_PKG_VERSION"));

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// Its name has no address that could be found.
    #[error("{host} cannot be resolved: {error}")]
    Resolve { host: String, error: io::Error },
    /// Its name has none at all.
    #[error("{host} has no address")]
    NoAddress { host: String },
    /// The last address that was tried refuses.
    #[error(transparent)]
    Refused(io::Error),
    /// The last address that was tried did not answer.
    #[error("no connection within {after:?}")]
    Timeout { after: Duration },
}

/// A connection to a host: a name or an address, that of IPv6 with or without its brackets.
///
/// # Errors
/// See [`ConnectError`].
pub async fn connect(host: &str, port: u16, within: Duration) -> Result<TcpStream, ConnectError> {
    let found = lookup_host((host.trim_matches(['[', ']']), port)).await;
    let found = found.map_err(|error| ConnectError::Resolve { host: host.to_owned(), error })?;
    let addresses: Vec<_> = found.collect();
    // Each address has its share of the time, so that a dead one does not hide a live one.
    let share = within / u32::try_from(addresses.len()).unwrap_or(u32::MAX).max(1);
    let mut last = ConnectError::NoAddress { host: host.to_owned() };
    for address in addresses {
        match timeout(share, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => {
                // Costs a little speed at the worst.
                let _ = stream.set_nodelay(true);
                return Ok(stream);
            }
            Ok(Err(error)) => last = ConnectError::Refused(error),
            Err(_) => last = ConnectError::Timeout { after: share },
        }
    }
    Err(last)
}

/// Sends a request on a connection that is for nothing else, and waits for the head of its answer.
///
/// # Errors
/// The connection was lost, or what answers speaks no HTTP/1.1.
pub async fn send(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    request: Request<Full<Bytes>>,
) -> hyper::Result<Response<AnswerBody>> {
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    // What goes wrong with it, the answer tells.
    let connection = Connection(tokio::spawn(async move { drop(connection.await) }));
    let answer = sender.send_request(request).await?;
    Ok(answer.map(|body| AnswerBody { body, _connection: connection }))
}

/// The body of an answer, with its connection.
#[derive(Debug)]
pub struct AnswerBody {
    body: Incoming,
    _connection: Connection,
}

/// Drives a connection until it is dropped.
#[derive(Debug)]
struct Connection(JoinHandle<()>);

impl Drop for Connection {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
