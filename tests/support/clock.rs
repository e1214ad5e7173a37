//! A Redis whose clock a test can step.

use std::fs;
use std::path::Path;

use super::redis::RedisServer;

/// Where Debian's package libfaketime puts it, on the processors that this is run on.
const LIBRARIES: [&str; 2] =
    ["/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1", "/usr/lib/aarch64-linux-gnu/faketime/libfaketime.so.1"];

/// The library, where it is installed.
pub fn library() -> Option<&'static str> {
    LIBRARIES.into_iter().find(|library| Path::new(library).exists())
}

/// A Redis whose wall clock is this far ahead; the file sets it, and may be replaced while it runs.
pub fn redis_with_clock(library: &str, control: &Path) -> RedisServer {
    let control = control.to_str().expect("a temporary directory's name is plain");
    // Debian's Redis allocates with jemalloc, which asks for the time before libfaketime is ready, and both wait for
    // each other for ever. The C library's own allocator does not.
    let library = format!("libc_malloc_debug.so.0:{library}");
    let environment = [
        ("LD_PRELOAD", library.as_str()),
        ("FAKETIME_TIMESTAMP_FILE", control),
        ("FAKETIME_NO_CACHE", "1"),
        ("DONT_FAKE_MONOTONIC", "1"),
    ];
    RedisServer::start_under(&environment, &[])
}

/// Replaces the file as a whole: Redis reads it at any moment.
pub fn set_clock(control: &Path, offset: &str) {
    let fresh = control.with_extension("new");
    fs::write(&fresh, offset).expect("a control file");
    fs::rename(&fresh, control).expect("replaced");
}
