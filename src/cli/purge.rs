//! `baton purge`: forgets what the store keeps of a role.

use std::time::Duration;

use baton::app::open_store;
use baton::clock::{BootClock, SharedClock};
use baton::config::{Environment, StoreConfig};
use baton::process::Exit;
use baton::protocol::RoleName;
use baton::store::{LeaseStore, Purge, StoreError, StoreHealth};
use clap::Args;

use super::output::{complain, say};
use super::{Code, ConfigFile, block_on, load};

/// Forget a role that is no longer configured anywhere, its token included
///
/// A role keeps one small record in Redis (or one Lease object in Kubernetes) for good,
/// so that its tokens go on rising. Once no replica has the role in its configuration
/// any more, this removes it. It refuses a role that the file configures, and one that
/// has a lease.
///
/// Ends with 0 when the role is forgotten or was not known, with 1 when it is in use,
/// with 69 when the store does not answer.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
#[command(after_help = "Example:\n  baton purge old-scheduler --config config.yaml")]
pub struct PurgeArgs {
    /// The role to forget
    #[arg(value_name = "ROLE")]
    role: RoleName,
    #[command(flatten)]
    file: ConfigFile,
}

/// Longer than any connect that succeeds.
const CONNECT_PATIENCE: Duration = Duration::from_secs(5);

/// Forgets, and says so.
pub fn purge(args: &PurgeArgs) -> Code {
    let config = match load(&args.file.config, &Environment::process()) {
        Ok(loaded) => loaded.config,
        Err(code) => return code,
    };
    let (role, file) = (&args.role, args.file.config.display());
    if config.roles.iter().any(|configured| configured.name == *role) {
        complain(format_args!("{file} configures {role}: remove it there, and on every replica, before you purge it"));
        return Exit::Usage.into();
    }
    if matches!(config.store, StoreConfig::Memory) {
        complain(format_args!("{file}: store: the memory store keeps nothing that could be purged"));
        return Exit::Usage.into();
    }
    block_on(async {
        let clock: SharedClock = std::sync::Arc::new(BootClock);
        match open_store(&config, &clock) {
            Ok(stores) => {
                let connects = matches!(config.store, StoreConfig::Redis(_));
                report(role, forget(&*stores.leases, role, connects).await)
            }
            Err(error) => {
                complain(error);
                Exit::Usage.into()
            }
        }
    })
}

/// `connects`: the store opens its connections by itself, and is asked once it has one.
async fn forget(store: &dyn LeaseStore, role: &RoleName, connects: bool) -> Result<Purge, StoreError> {
    if connects {
        let mut health = store.health();
        let up = health.wait_for(|health| *health == StoreHealth::Up);
        // Down, or not up in time: the purge itself is answered with the reason.
        let _ = tokio::time::timeout(CONNECT_PATIENCE, up).await;
    }
    store.purge(role).await
}

fn report(role: &RoleName, outcome: Result<Purge, StoreError>) -> Code {
    match outcome {
        Ok(Purge::Purged) => say(format_args!("{role}: forgotten")),
        Ok(Purge::Absent) => say(format_args!("{role}: nothing is known of it")),
        Ok(Purge::InUse) => {
            complain(format_args!("{role} has a lease: a replica still runs it, or did a moment ago"));
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
