//! Where everything begins.

use std::path::PathBuf;
use std::time::Duration;

use crate::clock::Clock;
use crate::error::Error;
use crate::http::Sidecar;
use crate::lead::Leading;
use crate::lock::Locking;

/// The sidecar, as its app sees it. It has no connection of its own: each lead and each lock has.
#[derive(Clone, Debug, Default)]
pub struct Baton {
    url: Option<String>,
    token_file: Option<PathBuf>,
    pub(crate) clock: Clock,
}

impl Baton {
    /// The sidecar at the URL that the variable `BATON_URL` names, or at `http://127.0.0.1:4040`.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Another URL: `http://host:port`. It is looked at when something is asked for.
    #[must_use]
    pub fn url(mut self, url: impl Into<String>) -> Self {
        self.url = Some(url.into());
        self
    }

    /// The file with the token that the sidecar wants (`api.tokenFile`), read for each request; the one that the
    /// variable `BATON_TOKEN_FILE` names unless it is said here.
    #[must_use]
    pub fn token_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.token_file = Some(path.into());
        self
    }

    /// For tests: the time since some moment, in the place of the machine's.
    #[doc(hidden)]
    #[must_use]
    pub fn clock(mut self, now: impl Fn() -> Duration + Send + Sync + 'static) -> Self {
        self.clock = Clock::new(now);
        self
    }

    /// Waits until this replica leads the role, for as long as it takes: while others lead, and while the sidecar is
    /// not there.
    ///
    /// ```no_run
    /// # async fn report(token: u64) {}
    /// # async fn example() -> Result<(), baton_sidecar::Error> {
    /// let lead = baton_sidecar::Baton::new().leading("scheduler").await?;
    /// while let Ok(token) = lead.token() {
    ///     report(token).await;
    /// }
    /// lead.leave().await;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// When awaited: the URL is none, the token file cannot be read, or the sidecar refuses the request with 400, 401,
    /// 403 or 404. Nothing else ends the wait.
    ///
    /// # Panics
    /// When awaited outside of a tokio runtime with time and I/O enabled.
    pub fn leading(&self, role: impl Into<String>) -> Leading<'_> {
        Leading::new(self, role.into())
    }

    /// Takes a lock.
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # async fn work(token: u64) {}
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// let lock = baton_sidecar::Baton::new().lock("order-42").wait(Duration::from_secs(5)).await?;
    /// work(lock.token()?).await;
    /// lock.release().await;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// When awaited: [`Error::Held`] when others have it and the wait is over; the URL is none, the token file cannot
    /// be read, or the sidecar cannot be reached or refuses the request; the lock was lost at once.
    ///
    /// # Panics
    /// When awaited outside of a tokio runtime with time and I/O enabled.
    pub fn lock(&self, name: &str) -> Locking<'_> {
        Locking::new(self, name)
    }

    pub(crate) fn sidecar(&self) -> Result<Sidecar, Error> {
        Sidecar::new(self.url.as_deref(), self.token_file.clone())
    }
}
