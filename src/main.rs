//! The `baton` binary: see `baton --help`.
#![warn(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::await_holding_lock
)]
// A new variant is thought of wherever one's own are told apart; a test that expects one of them may panic at the rest.
#![cfg_attr(not(test), warn(clippy::wildcard_enum_match_arm))]

use std::process::ExitCode;

mod cli;

fn main() -> ExitCode {
    baton::base::process::end_on_panic(baton::telemetry::logging::flush);
    baton::base::process::install_crypto_provider();
    cli::main()
}
