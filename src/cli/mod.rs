//! The command line: thin commands over [`baton::app`], one file each.

mod audit;
mod check;
mod client;
mod dev;
mod exec;
mod jobs;
mod kubectl;
mod locks;
mod output;
mod purge;
mod quorum;
mod resign;
mod run;
mod status;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use baton::base::process::Exit;
use baton::config::{Config, Environment, Loaded};
use clap::{Args, Parser, Subcommand, ValueEnum};

use output::{complain, say};

/// Leader election beside every replica of your app, on Redis or Kubernetes.
///
/// Baton campaigns for named roles, keeps their leases for as long as the app is well,
/// and tells the app over loopback HTTP whether it leads, for how long it may act on
/// that answer, and with which fencing token.
#[derive(Debug, Parser)]
#[command(name = "baton", version, verbatim_doc_comment, arg_required_else_help = true, after_help = EXIT_CODES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

const EXIT_CODES: &str = "\
Try it, without Redis:
  baton dev --replicas 3

Exit codes:
  0   it ended well
  1   the answer is no: a role is unsettled (status), this replica does not lead (resign),
      another holds the lock (unlock), a problem was found (audit), the role is in use
      (purge), a run or a job is not such that it could be done (jobs)
  64  the command line or the configuration is wrong
  69  a listener cannot be bound, or what was asked does not answer
  70  a bug
  `baton exec` returns its command's own code.";

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the sidecar: campaign for the configured roles and answer the app
    ///
    /// Runs until SIGTERM, SIGINT, SIGQUIT or SIGHUP, and then hands over what it leads: it
    /// says `leader: false` at once, keeps the lease until the last promise it gave has run
    /// out, and releases. A second signal ends it at once. Redis need not be up.
    #[command(verbatim_doc_comment)]
    Run(ConfigFile),
    Dev(dev::DevArgs),
    Exec(exec::ExecArgs),
    Status(status::StatusArgs),
    Resign(resign::ResignArgs),
    Jobs(jobs::JobsArgs),
    Locks(locks::LocksArgs),
    Unlock(locks::UnlockArgs),
    CheckConfig(check::CheckArgs),
    /// Print the JSON Schema of the configuration, for editors
    Schema,
    Audit(audit::AuditArgs),
    Purge(purge::PurgeArgs),
    Quorum(quorum::QuorumArgs),
}

/// `--config`
#[derive(Debug, Args)]
struct ConfigFile {
    /// The configuration file
    #[arg(long, value_name = "FILE", default_value = "/etc/baton/config.yaml")]
    config: PathBuf,
}

/// `-o`
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people
    Table,
    /// For programs
    Json,
}

/// What the process ends with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Code(u8);

impl Code {
    /// The command did its work, and the answer is no.
    const NO: Self = Self(1);
}

impl From<Exit> for Code {
    fn from(exit: Exit) -> Self {
        Self(exit.code())
    }
}

/// Parses the command line and does what it says.
pub fn main() -> ExitCode {
    let Code(code) = match std::env::args_os().next() {
        // kubectl finds its plugins by their names.
        Some(program) if Path::new(&program).file_stem() == Some(kubectl::PROGRAM.as_ref()) => {
            parsed().map_or_else(|code| code, kubectl::kubectl)
        }
        _ => parsed().map_or_else(|code| code, command),
    };
    baton::telemetry::logging::flush();
    code.into()
}

/// The command line; or the code to end with, where it is wrong or asks for help.
fn parsed<T: Parser>() -> Result<T, Code> {
    T::try_parse().map_err(|error| {
        // Help and version are no mistakes.
        let mistake = error.use_stderr();
        // A closed terminal is nothing to report to itself.
        let _ = error.print();
        if mistake { Exit::Usage } else { Exit::Well }.into()
    })
}

fn command(cli: Cli) -> Code {
    match cli.command {
        Command::Run(args) => run::run(&args.config),
        Command::Dev(args) => dev::dev(args),
        Command::Exec(args) => exec::exec(args),
        Command::Status(args) => status::status(args),
        Command::Resign(args) => resign::resign(args),
        Command::Jobs(args) => jobs::jobs(args),
        Command::Locks(args) => locks::locks(&args),
        Command::Unlock(args) => locks::unlock(&args),
        Command::CheckConfig(args) => check::check_config(&args),
        Command::Schema => {
            say(baton::config::schema());
            Exit::Well.into()
        }
        Command::Audit(args) => audit::audit(&args),
        Command::Purge(args) => purge::purge(&args),
        Command::Quorum(args) => quorum::quorum(args),
    }
}

/// The configuration, or its problems on standard error.
fn load(path: &Path, environment: &Environment) -> Result<Loaded, Code> {
    Config::load(path, environment).map_err(|error| {
        complain(error);
        Code::from(Exit::Usage)
    })
}

/// One thread for all that renews leases. The listeners have threads of their own, so that no client keeps a renewal
/// waiting.
fn runtime() -> Result<tokio::runtime::Runtime, Code> {
    tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|error| {
        complain(format_args!("the operating system refuses a runtime: {error}"));
        Code::from(Exit::Bug)
    })
}

/// Runs one future to its end.
fn block_on(work: impl Future<Output = Code>) -> Code {
    match runtime() {
        Ok(runtime) => {
            let code = runtime.block_on(work);
            // A name that is still being resolved must not hold the end up.
            runtime.shutdown_background();
            code
        }
        Err(code) => code,
    }
}

/// Logs as the configuration says.
fn init_logging(config: baton::config::LogConfig) -> Result<(), Code> {
    baton::telemetry::logging::init(config).map_err(|error| {
        complain(format_args!("logging cannot be set up: {error}"));
        Code::from(Exit::Bug)
    })
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }
}
