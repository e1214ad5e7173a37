//! A listener on a thread and a runtime of its own, so that whatever its clients do keeps nobody else waiting.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::thread;

use tokio::net::TcpListener;
use tokio::runtime;
use tokio::sync::oneshot;

/// Completes when a listener is to end.
pub type Stopped = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A running listener. Dropping it asks the thread to end.
#[derive(Debug)]
pub struct ListenerThread {
    stop: Option<oneshot::Sender<()>>,
    ended: oneshot::Receiver<()>,
}

impl ListenerThread {
    /// Has `serve` serve `listener` on a new thread with this name.
    ///
    /// # Errors
    /// When the thread, its runtime or the listener cannot be set up.
    pub fn spawn<F: Future<Output = ()>>(
        name: &str,
        listener: std::net::TcpListener,
        serve: impl FnOnce(TcpListener, Stopped) -> F + Send + 'static,
    ) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        let listener = {
            let _entered = runtime.enter();
            TcpListener::from_std(listener)?
        };
        let (stop, stopped) = oneshot::channel::<()>();
        let (alive, ended) = oneshot::channel();
        thread::Builder::new().name(name.to_owned()).spawn(move || {
            // Dropped last, whatever happens.
            let _alive: oneshot::Sender<()> = alive;
            // A dropped handle asks for the end as well.
            let stopped = Box::pin(async { drop(stopped.await) });
            runtime.block_on(serve(listener, stopped));
        })?;
        Ok(Self { stop: Some(stop), ended })
    }

    /// Completes when the thread has ended, for whatever reason. Before [`Self::shutdown`] that is a bug, and the
    /// process should end with it: without its listeners nobody would notice what else goes wrong.
    pub async fn ended(&mut self) {
        // The thread never sends; its end drops the sender, even when it panics.
        let _ = (&mut self.ended).await;
    }

    /// Asks the thread to end and waits until it has: at most the limits' `grace`.
    pub async fn shutdown(mut self) {
        // A thread that is gone cannot be asked, and need not.
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
        self.ended().await;
    }
}
