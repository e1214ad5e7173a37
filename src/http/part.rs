//! Calls that another part of the process answers on a listener which does not know it.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::Stream;
use hyper::{Method, Response};
use tokio::runtime::Handle;
use tokio::task::JoinSet;

use super::problem::{Problem, ProblemKind};

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

/// Calls that are answered on another runtime than the listener's: where their part's tasks live, and connections that
/// are opened for them.
#[derive(Debug)]
pub struct CallsOn {
    runtime: Handle,
    calls: Arc<dyn Calls>,
}

impl CallsOn {
    /// These calls, on this runtime.
    pub fn new(runtime: Handle, calls: Arc<dyn Calls>) -> Self {
        Self { runtime, calls }
    }
}

#[async_trait]
impl Calls for CallsOn {
    fn allow(&self, path: &str) -> Option<&'static str> {
        self.calls.allow(path)
    }

    async fn answer(&self, ask: Ask) -> Result<Response<Content>, Problem> {
        let calls = Arc::clone(&self.calls);
        // Dropped with this, the task is ended.
        let mut tasks = JoinSet::new();
        tasks.spawn_on(async move { calls.answer(ask).await }, &self.runtime);
        let ended = || Problem::new(ProblemKind::ShuttingDown, "this process is ending");
        // No task panics: that ends the process. But the runtime may have ended.
        tasks.join_next().await.and_then(Result::ok).unwrap_or_else(|| Err(ended()))
    }
}
