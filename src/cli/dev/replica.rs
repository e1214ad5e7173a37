//! One replica of `baton dev`, on a thread and a runtime of its own, so that it can be killed: when its runtime is
//! dropped, every task of it stops where it stands and every connection is closed, as when a process dies.

use baton::app::{App, AppContext, StartError, Stores, open_stores};
use baton::base::process::Exit;
use baton::config::Config;
use baton::role::Roles;
use tokio::sync::{oneshot, watch};

/// What a replica is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Run,
    /// Hand over, and end.
    Drain,
    /// End as a killed process does.
    Die,
}

pub struct DevReplica {
    roles: Roles,
    order: watch::Sender<Order>,
    ended: oneshot::Receiver<Option<Exit>>,
}

impl DevReplica {
    /// Starts one. `memory` is the store that all share; without it each opens its own.
    ///
    /// # Errors
    /// As [`App::build`]; a taken port, most likely.
    pub async fn start(config: Config, memory: Option<Stores>) -> Result<Self, StartError> {
        let system = |error| StartError::System { what: "a thread", error };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(system)?;
        let (order, orders) = watch::channel(Order::Run);
        let (started, starting) = oneshot::channel();
        let (ending, ended) = oneshot::channel();
        let name = config.identity().to_string();
        std::thread::Builder::new()
            .name(name)
            .spawn(move || {
                let exit = runtime.block_on(live(config, memory, started, orders));
                // A name that is still being resolved would hold the thread up.
                runtime.shutdown_background();
                // Nobody listens any more when the whole process ends.
                let _ = ending.send(exit);
            })
            .map_err(system)?;
        match starting.await {
            Ok(Ok(roles)) => Ok(Self { roles, order, ended }),
            Ok(Err(error)) => Err(error),
            Err(_) => Err(system(std::io::Error::other("it ended by itself"))),
        }
    }

    pub fn roles(&self) -> &Roles {
        &self.roles
    }

    /// Tells it to hand over and end.
    pub fn drain(&self) {
        self.order.send_replace(Order::Drain);
    }

    /// Ends it as SIGKILL ends a process.
    pub fn kill(&self) {
        self.order.send_replace(Order::Die);
    }

    /// Waits for its end: none when it was killed. Cancel-safe; not to be called again after it completed.
    pub async fn ended(&mut self) -> Option<Exit> {
        // The sender is only lost when the thread panicked.
        (&mut self.ended).await.unwrap_or(Some(Exit::Bug))
    }
}

async fn live(
    config: Config,
    memory: Option<Stores>,
    started: oneshot::Sender<Result<Roles, StartError>>,
    orders: watch::Receiver<Order>,
) -> Option<Exit> {
    let context = AppContext::real();
    let store = match memory {
        Some(store) => Ok(store),
        None => open_stores(&config, &context.clock).map_err(StartError::from),
    };
    let built = match store {
        Ok(store) => App::build(config, store, &context).await,
        Err(error) => Err(error),
    };
    let app = match built {
        Ok(app) => app,
        Err(error) => {
            let exit = error.exit();
            let _ = started.send(Err(error));
            return Some(exit);
        }
    };
    if started.send(Ok(app.roles())).is_err() {
        return None; // the process is ending already
    }
    let (mut draining, mut dying) = (orders.clone(), orders);
    let drain = async move { draining.wait_for(|order| *order == Order::Drain).await.is_ok() };
    // A lost sender means that nobody is left to order anything: then this ends like a killed one, too.
    tokio::select! {
        exit = app.run(None, None, drain) => Some(exit),
        _ = dying.wait_for(|order| *order == Order::Die) => None,
    }
}
