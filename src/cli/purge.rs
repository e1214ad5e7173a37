//! `baton purge`: forgets what the store keeps of a role, or of a job.

use baton::app::open_store;
use baton::base::clock::{BootClock, SharedClock};
use baton::base::process::Exit;
use baton::config::{Environment, StoreConfig, StoreUse};
use baton::protocol::RoleName;
use baton::protocol::jobs::{JobName, JobNameError};
use baton::store::{CONNECT_PATIENCE, LeaseStore, LedgerStore, Purge, StoreError, StoreHealth};
use clap::Args;

use super::output::{complain, say};
use super::{Code, ConfigFile, block_on, load};

/// Forget a role, or a job, that is no longer configured anywhere
///
/// A role keeps one small record in Redis (or one Lease object in Kubernetes) for good,
/// so that its tokens go on rising. Once no replica has the role in its configuration
/// any more, this removes it, its token included. It refuses a role that the file
/// configures, and one that has a lease.
///
/// Of a job the store keeps the ledger of its runs. It refuses a job that the file configures.
/// A leader that has the job in its own configuration only writes the ledger again.
///
/// Ends with 0 when the role or job is forgotten or was not known, with 1 when it is in
/// use, with 69 when the store does not answer.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
#[command(after_help = "Examples:\n  baton purge old-scheduler --config config.yaml\n  baton purge --job \
                        old-report --config config.yaml")]
pub struct PurgeArgs {
    /// The role to forget
    #[arg(value_name = "ROLE", required_unless_present = "job")]
    role: Option<RoleName>,
    /// The job to forget, instead of a role: its runs and what was asked for it
    #[arg(long, value_name = "NAME", value_parser = job_name, conflicts_with = "role")]
    job: Option<JobName>,
    #[command(flatten)]
    file: ConfigFile,
}

pub(super) fn job_name(text: &str) -> Result<JobName, JobNameError> {
    JobName::known(text).map_or_else(|| JobName::new(text), Ok)
}

/// Forgets, and says so.
pub fn purge(args: &PurgeArgs) -> Code {
    let config = match load(&args.file.config, &Environment::process()) {
        Ok(loaded) => loaded.config,
        Err(code) => return code,
    };
    let file = args.file.config.display();
    let role = config.roles().iter().map(|role| &role.name).find(|name| args.role.as_ref() == Some(name));
    let job = config.jobs().iter().map(|job| &job.name).find(|name| args.job.as_ref() == Some(name));
    if let Some(name) = role.map(RoleName::as_str).or(job.map(JobName::as_str)) {
        complain(format_args!("{file} configures {name}: remove it there, and on every replica, before you purge it"));
        return Exit::Usage.into();
    }
    let of = if args.job.is_some() { StoreUse::Jobs } else { StoreUse::Leases };
    if matches!(config.store_of(of), StoreConfig::Memory) {
        complain(format_args!("{file}: store: the memory store keeps nothing that could be purged"));
        return Exit::Usage.into();
    }
    block_on(async {
        let clock: SharedClock = std::sync::Arc::new(BootClock);
        let store = match open_store(&config, of, &clock) {
            Ok(store) => store,
            Err(error) => {
                complain(error);
                return Exit::Usage.into();
            }
        };
        if matches!(config.store_of(of), StoreConfig::Redis(_)) {
            until_connected(&*store.leases).await;
        }
        match (&args.role, &args.job, &store.ledgers) {
            (Some(role), ..) => report(role.as_str(), store.leases.purge(role).await),
            (None, Some(job), Some(ledgers)) => forget(&**ledgers, job).await,
            (None, ..) => {
                // clap asks for one of them.
                let why = config.store_of(of).without_jobs().unwrap_or("ROLE or --job is missing");
                complain(format_args!("{file}: {why}"));
                Exit::Usage.into()
            }
        }
    })
}

async fn forget(ledgers: &dyn LedgerStore, job: &JobName) -> Code {
    let forgotten = ledgers.forget(job).await;
    report(job.as_str(), forgotten.map(|known| if known { Purge::Purged } else { Purge::Absent }))
}

/// This store opens its connections by itself, and is asked once it has one.
async fn until_connected(store: &dyn LeaseStore) {
    let mut health = store.health();
    let up = health.wait_for(|health| *health == StoreHealth::Up);
    // Down, or not up in time: the purge itself is answered with the reason.
    let _ = tokio::time::timeout(CONNECT_PATIENCE, up).await;
}

/// `name`: a role's, or a job's.
fn report(name: &str, outcome: Result<Purge, StoreError>) -> Code {
    match outcome {
        Ok(Purge::Purged) => say(format_args!("{name}: forgotten")),
        Ok(Purge::Absent) => say(format_args!("{name}: nothing is known of it")),
        Ok(Purge::InUse) => {
            complain(format_args!("{name} has a lease: a replica still runs it, or did a moment ago"));
            return Code::NO;
        }
        Err(error @ StoreError::Garbage { .. }) => {
            complain(error);
            return Code::NO;
        }
        Err(error) => {
            complain(format_args!("baton purge: {error}"));
            return Exit::Unavailable.into();
        }
    };
    Exit::Well.into()
}
