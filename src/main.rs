//! The `baton` binary: see `baton --help`.
#![warn(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::await_holding_lock
)]

use std::process::ExitCode;

mod cli;

fn main() -> ExitCode {
    baton::base::process::end_on_panic(baton::telemetry::logging::flush);
    baton::base::process::install_crypto_provider();
    cli::main()
}
