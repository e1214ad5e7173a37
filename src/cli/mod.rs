//! The command line: thin commands over [`baton::app`].
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command line talks to its terminal")]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use baton::app;
use baton::config::{Config, ConfigError, Environment, Loaded};
use baton::process::Exit;
use clap::{Parser, Subcommand};

/// Leader election beside every replica, on Redis: a bounded answer and a fencing token over loopback HTTP.
#[derive(Debug, Parser)]
#[command(name = "baton", version, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the sidecar: campaign for the configured roles and answer the app.
    Run {
        /// The configuration file.
        #[arg(long, value_name = "FILE", default_value = "/etc/baton/config.yaml")]
        config: PathBuf,
    },
    /// Print the JSON Schema of the configuration.
    Schema,
}

/// Parses the command line and does what it says.
pub fn main() -> Exit {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version are no mistakes.
            let mistake = error.use_stderr();
            // A closed terminal is nothing to report to itself.
            let _ = error.print();
            return if mistake { Exit::Usage } else { Exit::Well };
        }
    };
    match cli.command {
        Command::Run { config } => run(&config),
        Command::Schema => {
            println!("{}", baton::config::schema());
            Exit::Well
        }
    }
}

/// The configuration, or its problems on standard error.
fn load(path: &Path, environment: &Environment) -> Result<Loaded, Exit> {
    Config::load(path, environment).map_err(|error: ConfigError| {
        eprintln!("{error}");
        Exit::Usage
    })
}

/// One thread for everything but telemetry: an answer costs microseconds, and a second thread would only make it wait.
fn runtime() -> Result<tokio::runtime::Runtime, Exit> {
    tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|error| {
        eprintln!("the operating system refuses a runtime: {error}");
        Exit::Bug
    })
}

fn run(path: &Path) -> Exit {
    let environment = Arc::new(Environment::process());
    let started = load(path, &environment).and_then(|loaded| {
        if let Err(error) = baton::telemetry::logging::init(loaded.config.log) {
            eprintln!("logging cannot be set up: {error}");
            return Err(Exit::Bug);
        }
        runtime().map(|runtime| runtime.block_on(app::run(path.to_owned(), loaded, environment)))
    });
    match started {
        Ok(Ok(exit)) => exit,
        Ok(Err(error)) => {
            tracing::error!(%error, "baton cannot start");
            error.exit()
        }
        Err(exit) => exit,
    }
}
