//! Calls that another part of the process answers on a listener which does not know it.

use std::fmt;
use std::pin::Pin;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::Stream;
use hyper::{Method, Response};

use super::problem::Problem;

/// A request, once the listener has found that it is one of the part's calls and has read its body.
#[derive(Clone, Debug)]
pub struct Ask {
    /// One that [`Calls::allow`] lists for the path.
    pub method: Method,
    /// As it was sent, percent-encoding included.
    pub path: String,
    /// Likewise, without the question mark.
    pub query: String,
    /// Empty, or what was sent as `application/json`; within the listener's bounds.
    pub body: Vec<u8>,
}

/// The body of an answer.
pub enum Content {
    /// All of it.
    Whole(Bytes),
    /// One piece after the other. It is dropped as soon as the client is gone.
    Stream(Pin<Box<dyn Stream<Item = Bytes> + Send + Sync>>),
}

impl fmt::Debug for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole(bytes) => write!(f, "Whole({} bytes)", bytes.len()),
            Self::Stream(_) => f.write_str("Stream"),
        }
    }
}

/// The calls of one part.
#[async_trait]
pub trait Calls: fmt::Debug + Send + Sync + 'static {
    /// The methods that a path takes, as the `Allow` header lists them; none when there is nothing of this part there.
    fn allow(&self, path: &str) -> Option<&'static str>;

    /// Answers a request. The future is dropped when the client is gone.
    async fn answer(&self, ask: Ask) -> Result<Response<Content>, Problem>;
}
