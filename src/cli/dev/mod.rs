//! `baton dev`: several replicas in one process, to see them elect, fail over and hand over.

mod control;
mod narrator;
mod replica;
mod stage;

use baton::base::process::Exit;
use baton::config::{Config, Environment, check_text};
use baton::protocol::RoleName;
use clap::{Args, Subcommand};
use serde_json::json;

use super::output::{complain, say};
use super::{Code, block_on, init_logging};

pub use control::addresses;

/// The telemetry port of a replica is this much above its api port.
const TELEMETRY_OFFSET: u16 = 100;
const PORT_DEFAULT: u16 = 4040;

/// Try it: several replicas in one process, no Redis needed
///
/// Runs replicas dev-0, dev-1, … with a session each, over one store in memory, and
/// prints every change. The app's side of dev-N listens on port 4040 + N, its telemetry
/// on 4140 + N. From another terminal, ask them, make the leader hand over (`baton
/// resign`), or kill one as `kill -9` would (`baton dev kill`): nothing is given back,
/// another replica leads when the lease has run out, and a new dev-N takes the place of
/// the old one after 3 s.
///
/// With --redis they share a real Redis instead. SIGINT and SIGTERM hand over and end
/// it; a second one ends it at once.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
#[command(args_conflicts_with_subcommands = true)]
#[command(
    after_help = "Examples:\n  baton dev --replicas 3\n  baton dev --redis redis://127.0.0.1:6379/0 --lease 15s\n  \
    baton dev --redis '${REDIS_URL}'    # read from the environment, so that no password is in the process list\n  \
    baton dev kill 0                    # from another terminal"
)]
pub struct DevArgs {
    #[command(subcommand)]
    command: Option<DevCommand>,
    /// How many replicas
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=20))]
    replicas: u16,
    /// A role to campaign for; repeat it for more
    #[arg(long = "role", value_name = "NAME", default_value = "scheduler")]
    roles: Vec<RoleName>,
    /// A Redis to use instead of memory; ${VARIABLES} are read from the environment
    #[arg(long, value_name = "URL")]
    redis: Option<String>,
    /// How long a lease stands without being renewed
    #[arg(long, value_name = "DURATION", default_value = "5s")]
    lease: String,
    /// The first replica's port; telemetry is 100 above
    #[arg(long, value_name = "PORT", default_value_t = PORT_DEFAULT, value_parser = port_range())]
    port: u16,
    /// Show the replicas' own log lines, too
    #[arg(short, long)]
    verbose: bool,
}

#[derive(Debug, Subcommand)]
enum DevCommand {
    /// Kill one replica of a running `baton dev`, as kill -9 would
    ///
    /// Nothing is given back, nobody is told, its ports close. A new replica takes its
    /// place after 3 s.
    #[command(verbatim_doc_comment, after_help = "Example:\n  baton dev kill 0")]
    Kill {
        /// Which: the N of dev-N
        #[arg(value_name = "N")]
        replica: u16,
        /// The --port that `baton dev` was started with
        #[arg(long, value_name = "PORT", default_value_t = PORT_DEFAULT, value_parser = port_range())]
        port: u16,
    },
}

/// Ports that leave room for the other replicas' and for telemetry.
fn port_range() -> clap::builder::RangedI64ValueParser<u16> {
    clap::value_parser!(u16).range(1..=65_400)
}

/// Runs the replicas, or tells those that run.
pub fn dev(args: DevArgs) -> Code {
    if let Some(DevCommand::Kill { replica, port }) = args.command {
        return block_on(kill(replica, port));
    }
    let configs = match (0..args.replicas).map(|n| config(n, &args)).collect::<Result<Vec<Config>, Code>>() {
        Ok(configs) => configs,
        Err(code) => return code,
    };
    if let Err(code) = init_logging(configs[0].log()) {
        return code;
    }
    block_on(stage::run(configs, args.port))
}

/// Asks a running `baton dev` to kill a replica.
async fn kill(replica: u16, port: u16) -> Code {
    match control::ask(port, &format!("kill {replica}")).await {
        Ok(answer) => match answer.strip_prefix("ok ") {
            Some(words) => {
                say(words);
                Exit::Well.into()
            }
            None => {
                complain(format_args!("baton dev kill: {answer}"));
                Exit::Usage.into()
            }
        },
        Err(error) => {
            complain(format_args!("baton dev kill: no `baton dev` answers for port {port}: {error}"));
            Exit::Unavailable.into()
        }
    }
}

/// The configuration of one replica, checked like any other.
fn config(n: u16, args: &DevArgs) -> Result<Config, Code> {
    let store = match &args.redis {
        Some(url) => json!({ "redis": { "url": url, "commandTimeout": command_timeout(&args.lease) } }),
        None => json!({ "memory": {} }),
    };
    let roles: Vec<_> =
        args.roles.iter().map(|role| json!({ "name": role.as_str(), "leaseDuration": args.lease })).collect();
    let text = json!({
        "identity": format!("dev-{n}"),
        "api": { "listen": format!("127.0.0.1:{}", args.port + n) },
        "telemetry": { "listen": format!("127.0.0.1:{}", args.port + n + TELEMETRY_OFFSET) },
        "store": store,
        "roles": roles,
        "defaultRole": args.roles.first().map(RoleName::as_str),
        "log": { "level": if args.verbose { "info" } else { "error" }, "format": "text" },
    });
    check_text(&text.to_string(), "baton dev", &Environment::process()).map(|loaded| loaded.config).map_err(|error| {
        for problem in error.problems() {
            complain(format_args!("baton dev: {}: {}", problem.path, problem.message));
        }
        Exit::Usage.into()
    })
}

/// The usual second, or less where the lease is short: a command must be given up before the next renewal.
fn command_timeout(lease: &str) -> String {
    // A lease that cannot be read is reported where it stands.
    let lease_ms = baton::config::parse_duration(lease).map_or(u128::MAX, |lease| lease.as_millis());
    format!("{}ms", (lease_ms / 6).clamp(1, 1_000))
}
