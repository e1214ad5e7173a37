//! `baton exec`: a command that runs only while this replica leads.

mod signals;
mod supervisor;

use std::ffi::OsString;
use std::sync::Arc;
use std::time::Duration;

use baton::app::{AppContext, Replica, open_store};
use baton::base::process::Exit;
use baton::config::{Config, Environment, StoreUse};
use baton::protocol::{Grace, GraceError, RoleName};
use clap::Args;

use super::output::complain;
use super::{Code, ConfigFile, block_on, init_logging, load};
use signals::Forwarded;
use supervisor::{Plan, Supervisor};

/// Run a command only while leading
///
/// Campaigns for the role and starts the command once this replica leads. The command
/// and what it starts are a process group of their own. When the lease is about to be
/// lost, because renewals fail, the group gets TERM, and KILL at the deadline at the
/// latest: before the lease could be another's.
///
/// TERM, INT, QUIT, HUP, USR1 and USR2 are passed on to the group. After TERM, INT or
/// QUIT the lease is kept until the command has ended, and then given back. The
/// command's end gives the lease back, too, and its exit code is returned (128 + the
/// signal that killed it; 127 when there is no such command, 126 when it cannot be run).
///
/// The command finds BATON_ROLE, BATON_TOKEN (the fencing token) and BATON_IDENTITY in
/// its environment. While baton itself is stopped (SIGSTOP) or has been killed with
/// SIGKILL, nobody ends the command: hand the token on to whatever it writes to, and
/// let that refuse smaller ones. No listener is opened, and the role's appCheck is not
/// used.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
#[command(after_help = "Examples:\n  \
    baton exec --config config.yaml --role scheduler -- ./nightly-import.sh\n  \
    baton exec --role scheduler --restart -- sh -c 'exec worker --fencing-token \"$BATON_TOKEN\"'")]
pub struct ExecArgs {
    #[command(flatten)]
    file: ConfigFile,
    /// The role to lead; one of the configuration's
    #[arg(long, value_name = "ROLE")]
    role: RoleName,
    /// From TERM to KILL while the lease is being lost [default: half a term, at most 5s]
    #[arg(long, value_name = "DURATION", value_parser = baton::config::parse_duration)]
    grace: Option<Duration>,
    /// When the lease was lost, wait to lead again and start the command anew
    #[arg(long)]
    restart: bool,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// Campaigns, runs, and returns the command's exit code.
pub fn exec(args: ExecArgs) -> Code {
    let prepared = load(&args.file.config, &Environment::process()).and_then(|loaded| {
        init_logging(loaded.config.log())?;
        let file = args.file.config.display().to_string();
        for warning in &loaded.warnings {
            tracing::warn!("{}", warning.in_file(&file));
        }
        // There is no app to ask before the command runs.
        let (config, role) = loaded.config.of_role(&args.role).map_err(|why| usage(&format!("{file}: {why}")))?;
        if role.app_check.is_some() {
            let name = &role.name;
            tracing::info!(role = %name, "appCheck is not used: the command is started, and ended, by exec itself");
        }
        let grace = Grace::new(args.grace, &role.timing).map_err(|error: GraceError| usage(&format!("--{error}")))?;
        Ok((config, grace))
    });
    match prepared {
        Ok((config, grace)) => block_on(supervise(config, grace, args)),
        Err(code) => code,
    }
}

fn usage(words: &str) -> Code {
    complain(format_args!("baton exec: {words}"));
    Exit::Usage.into()
}

async fn supervise(config: Config, grace: Grace, args: ExecArgs) -> Code {
    let signals = match Forwarded::catch() {
        Ok(signals) => signals,
        Err(error) => {
            complain(format_args!("baton exec: the operating system refuses a signal handler: {error}"));
            return Exit::Bug.into();
        }
    };
    let context = AppContext::real();
    let store = match open_store(&config, StoreUse::Leases, &context.clock) {
        Ok(store) => store,
        Err(error) => return usage(&error.to_string()),
    };
    let identity = Arc::clone(config.identity());
    let replica = Replica::start(config, &store, &context).await;
    let Some(role) = replica.roles().get(args.role.as_str()) else {
        complain(format_args!("baton exec: {} was not started: this is a bug", args.role));
        return Exit::Bug.into();
    };
    let plan = Plan { command: args.command, restart: args.restart, grace, identity };
    Supervisor::new(replica, role, context.clock, signals, plan).run().await
}
