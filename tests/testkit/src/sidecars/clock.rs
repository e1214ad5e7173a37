//! A Redis whose wall clock can be stepped, by libfaketime.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use tempfile::TempDir;

use crate::place::Place;
use crate::redis::{self, RedisServer};

/// Where Debian's package libfaketime puts it, on the processors that this is run on.
const LIBRARIES: [&str; 2] =
    ["/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1", "/usr/lib/aarch64-linux-gnu/faketime/libfaketime.so.1"];

/// Where libfaketime is; none when it is not installed, or the server that the tests start does not work with it.
pub fn library() -> Option<&'static str> {
    static FOUND: OnceLock<Option<&'static str>> = OnceLock::new();
    *FOUND.get_or_init(|| LIBRARIES.into_iter().find(|library| Path::new(library).exists() && is_borne(library)))
}

/// A Redis whose clock is set by what comes with it; none, which is said, where [`library`] finds none.
pub fn redis() -> Option<(RedisServer, ClockControl)> {
    let Some(library) = library() else {
        println!("left out: there is no libfaketime here (Debian: apt-get install libfaketime)");
        return None;
    };
    let control = ClockControl::started();
    let environment = control.environment(library);
    let environment: Vec<(&str, &str)> = environment.iter().map(|(name, value)| (&**name, &**value)).collect();
    Some((RedisServer::start_at(&Place::here(), &environment, &[]), control))
}

/// Whether the server starts under it. Valkey's jemalloc ends it, or has it wait for itself for ever.
fn is_borne(library: &str) -> bool {
    let mut command = Command::new("timeout");
    command.args(["--signal=KILL", "10", "env"]);
    let variables = ClockControl::started().environment(library);
    command.args(variables.into_iter().map(|(name, value)| format!("{name}={value}")));
    command.arg(redis::program()).arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// The file that sets the clock of the processes that are told of it. They read it at any moment.
pub struct ClockControl {
    folder: TempDir,
}

impl ClockControl {
    /// Begins with the right time.
    pub fn started() -> Self {
        let control = Self { folder: TempDir::new().expect("a temporary directory") };
        control.set(0);
        control
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("clock")
    }

    /// What a process must find in its environment.
    pub fn environment(&self, library: &str) -> Vec<(String, String)> {
        let path = self.path().to_string_lossy().into_owned();
        // Debian's Redis allocates with jemalloc, which asks for the time before libfaketime is ready, and both wait
        // for each other for ever. The C library's own allocator does not.
        let library = format!("libc_malloc_debug.so.0:{library}");
        let pairs = [
            ("LD_PRELOAD", library.as_str()),
            ("FAKETIME_TIMESTAMP_FILE", path.as_str()),
            ("FAKETIME_NO_CACHE", "1"),
            ("DONT_FAKE_MONOTONIC", "1"),
        ];
        pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).into()
    }

    /// So many seconds ahead of the right time.
    pub fn set(&self, offset_s: i64) {
        let (path, fresh) = (self.path(), self.folder.path().join("new"));
        // As a whole, since it may be read while it is written.
        fs::write(&fresh, format!("{offset_s:+}")).expect("a control file");
        fs::rename(&fresh, &path).expect("replaced");
    }
}
