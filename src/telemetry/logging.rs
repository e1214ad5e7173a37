//! Log lines, as JSON or text. They go to standard error: standard output belongs to a command's result.

use std::io::{self, IsTerminal};
use std::sync::OnceLock;
use std::time::Duration;

use tracing::{Level, Subscriber};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::{SubscriberInitExt, TryInitError};
use tracing_subscriber::{Layer, Registry, fmt};

use super::log_queue::LogQueue;
use crate::config::{LogConfig, LogFormat, LogLevel};

/// How long the last lines may take when nobody reads them.
const FLUSH_MAX: Duration = Duration::from_secs(1);

/// The lines of this process.
static QUEUE: OnceLock<LogQueue> = OnceLock::new();

/// Why this process cannot log.
#[derive(Debug, thiserror::Error)]
pub enum InitError {
    /// No thread is given for it.
    #[error("the operating system refuses a thread: {0}")]
    Thread(#[from] io::Error),
    /// Something logs for this process already.
    #[error(transparent)]
    Taken(#[from] TryInitError),
}

/// Logs to standard error from now on, for this process; lines of the `log` crate (the Redis client's) included. Who
/// logs never waits for who reads: see [`super::log_queue`]. [`flush`] belongs to the end of the process.
///
/// # Errors
/// [`InitError`].
pub fn init(config: LogConfig) -> Result<(), InitError> {
    // An error, so that no level leaves it out.
    let tell_dropped = |lines| tracing::error!(lines, "log lines were dropped: nobody read standard error");
    let queue = LogQueue::start(io::stderr(), tell_dropped)?;
    let writer = queue.clone();
    subscriber(config, io::stderr().is_terminal(), move || writer.clone()).try_init()?;
    // Nobody logged before, so nobody has set it.
    let _ = QUEUE.set(queue);
    Ok(())
}

/// Waits until what was logged has been written: a second at most, and not at all where nothing logs.
pub fn flush() {
    if let Some(queue) = QUEUE.get() {
        queue.flush(FLUSH_MAX);
    }
}

/// What [`init`] installs, writing to `writer`. `colour` is for text on a terminal.
pub fn subscriber<W>(config: LogConfig, colour: bool, writer: W) -> impl Subscriber + Send + Sync
where
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    let lines: Box<dyn Layer<_> + Send + Sync> = match config.format {
        LogFormat::Json => Box::new(
            fmt::layer().json().flatten_event(true).with_current_span(false).with_span_list(false).with_writer(writer),
        ),
        LogFormat::Text => Box::new(fmt::layer().with_ansi(colour).with_writer(writer)),
    };
    Registry::default().with(filter(config.level)).with(lines)
}

/// Our own lines at the level asked for. Libraries speak up only when something is wrong: at finer levels they write
/// whole commands and frames, which could hold a password, so no setting lets them. (A release does not even hold those
/// lines: see the `log` crate in Cargo.toml.)
fn filter(level: LogLevel) -> Targets {
    let own = match level {
        LogLevel::Error => Level::ERROR,
        LogLevel::Warn => Level::WARN,
        LogLevel::Info => Level::INFO,
        LogLevel::Debug => Level::DEBUG,
        LogLevel::Trace => Level::TRACE,
    };
    let others = LevelFilter::from_level(own).min(LevelFilter::WARN);
    // What the Redis client warns of, a closed connection for example, our own events tell better.
    let redis_client = others.min(LevelFilter::ERROR);
    // What the Kubernetes client notes of a failed request, our own reasons say, and without its answer's text.
    let kubernetes_client = LevelFilter::OFF;
    Targets::new()
        .with_default(others)
        .with_target("fred", redis_client)
        .with_target("kube_client", kubernetes_client)
        .with_target("baton", own)
}

/// Catches lines for tests.
#[cfg(test)]
pub(crate) mod caught {
    use std::io::Write;
    use std::sync::{Arc, LazyLock, Mutex};

    use super::{LogConfig, subscriber};

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    /// What `act` logs.
    pub(crate) fn logged(config: LogConfig, act: impl FnOnce()) -> String {
        // While there is only one, whoever meets a line first decides for all threads whether it is wanted: a test that
        // runs beside this one and catches nothing would silence it.
        static ANOTHER: LazyLock<tracing::Dispatch> =
            LazyLock::new(|| tracing::Dispatch::new(tracing_subscriber::registry()));
        LazyLock::force(&ANOTHER);
        let lines = Lines::default();
        let writer = lines.clone();
        tracing::subscriber::with_default(subscriber(config, false, move || writer.clone()), act);
        let bytes = lines.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap()
    }
}

#[cfg(test)]
mod tests {
    use super::caught::logged;
    use super::*;

    #[test]
    fn a_json_line_has_its_fields_at_the_top() {
        let config = LogConfig { level: LogLevel::Info, format: LogFormat::Json };
        let text = logged(config, || {
            tracing::info!(role = "a", token = 7, "this replica leads");
            tracing::debug!("not asked for");
        });
        let line: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!((&line["role"], &line["token"], &line["level"]), (&"a".into(), &7.into(), &"INFO".into()));
    }

    #[test]
    fn libraries_are_only_heard_when_something_is_wrong() {
        let config = LogConfig { level: LogLevel::Trace, format: LogFormat::Text };
        let text = logged(config, || {
            tracing::info!(target: "fred", "AUTH hunter2");
            tracing::warn!(target: "fred", "broadcasting an error");
            tracing::error!(target: "fred", "out of its mind");
            tracing::warn!(target: "hyper", "connection refused");
            tracing::trace!("our own");
        });
        assert!(!text.contains("hunter2"), "{text}");
        assert!(!text.contains("broadcasting"), "our own events tell that: {text}");
        for heard in ["out of its mind", "connection refused", "our own"] {
            assert!(text.contains(heard), "{text}");
        }
    }

    #[test]
    fn a_line_that_another_thread_meets_first_is_caught_all_the_same() {
        let text = logged(LogConfig { level: LogLevel::Info, format: LogFormat::Text }, || {
            let say = || tracing::info!("one line of two threads");
            std::thread::spawn(say).join().unwrap();
            say();
        });
        assert_eq!(text.lines().count(), 1, "{text}");
    }
}
