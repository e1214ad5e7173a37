//! The replicas of `baton dev` together: started, killed, replaced, and ended.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use baton::app::{StartError, Stores, open_stores};
use baton::base::clock::{BootClock, SharedClock};
use baton::base::process::Exit;
use baton::base::signals::Signals;
use baton::config::{Config, StoreConfig};
use futures_util::StreamExt;
use futures_util::future::join_all;
use futures_util::stream::FuturesUnordered;
use tokio::task::JoinSet;

use super::super::Code;
use super::super::client::API_VARIABLE;
use super::super::output::{complain, say};
use super::PORT_DEFAULT;
use super::control::{Control, Request};
use super::narrator::{follow, tell};
use super::replica::DevReplica;

/// After how long a killed replica is replaced, as by Kubernetes.
const REPLACED_AFTER: Duration = Duration::from_secs(3);

struct Stage {
    configs: Vec<Config>,
    /// What all share, where there is no Redis.
    memory: Option<Stores>,
    /// In their order; none where one was killed and is not replaced yet.
    replicas: Vec<Option<DevReplica>>,
    /// Which are to be replaced, when their time comes.
    due: FuturesUnordered<Pin<Box<dyn Future<Output = usize>>>>,
    /// They tell what happens.
    narrators: JoinSet<()>,
}

/// Runs until a signal.
pub async fn run(configs: Vec<Config>, port: u16) -> Code {
    let signals = match Signals::catch() {
        Ok(signals) => signals,
        Err(error) => return fail(&StartError::System { what: "a signal handler", error }),
    };
    let mut stage = match Stage::open(configs).await {
        Ok(stage) => stage,
        Err(error) => return fail(&error),
    };
    let control = match Control::listen(port) {
        Ok(control) => Some(control),
        Err(error) => {
            complain(format_args!("baton dev: `baton dev kill` will not work: {error}"));
            None
        }
    };
    say(stage.introduction(port));
    for (config, replica) in stage.configs.iter().zip(stage.replicas.iter().flatten()) {
        follow(&mut stage.narrators, config.identity(), replica.roles());
    }
    stage.play(signals, control).await
}

fn fail(error: &StartError) -> Code {
    complain(format_args!("baton dev: {error}"));
    if matches!(error, StartError::Listen { .. }) {
        complain("choose other ports with --port");
    }
    error.exit().into()
}

impl Stage {
    async fn open(configs: Vec<Config>) -> Result<Self, StartError> {
        let clock: SharedClock = Arc::new(BootClock);
        let shared = configs.first().filter(|config| matches!(config.store(), StoreConfig::Memory));
        let memory = shared.map(|config| open_stores(config, &clock)).transpose()?;
        let mut replicas = Vec::new();
        for config in &configs {
            // Those that run already end with their `order`s, when this returns early.
            replicas.push(Some(DevReplica::start(config.clone(), memory.clone()).await?));
        }
        Ok(Self { configs, memory, replicas, due: FuturesUnordered::new(), narrators: JoinSet::new() })
    }

    async fn play(&mut self, mut signals: Signals, control: Option<Control>) -> Code {
        loop {
            tokio::select! {
                () = signals.next() => return self.end(signals).await,
                request = next_request(control.as_ref()) => self.obey(request).await,
                Some(n) = self.due.next(), if !self.due.is_empty() => self.replace(n).await,
                (n, exit) = any_ended(&mut self.replicas) => {
                    complain(format_args!("baton dev: {} ended by itself: {exit:?}", self.configs[n].identity()));
                    return exit.unwrap_or(Exit::Bug).into();
                }
            }
        }
    }

    async fn obey(&mut self, request: Request) {
        let words: Vec<&str> = request.line.split(' ').collect();
        let answer = match words[..] {
            ["addresses"] => {
                let addresses: Vec<String> =
                    self.configs.iter().map(|config| config.api().listen.to_string()).collect();
                format!("ok {}", addresses.join(" "))
            }
            ["kill", which] => self.kill(which).await,
            _ => format!("{:?} is not understood", request.line),
        };
        request.answer(&answer).await;
    }

    async fn kill(&mut self, which: &str) -> String {
        let last = self.replicas.len().saturating_sub(1);
        let Some(n) = which.parse::<usize>().ok().filter(|n| *n <= last) else {
            return format!("there is no dev-{which}: there are dev-0 to dev-{last}");
        };
        let name = Arc::clone(self.configs[n].identity());
        let Some(mut replica) = self.replicas[n].take() else {
            return format!("{name} is dead already; a new one starts within {} s", REPLACED_AFTER.as_secs());
        };
        let led: Vec<_> = replica.roles().all().into_iter().filter(|role| role.leads()).collect();
        replica.kill();
        replica.ended().await;
        tell("-", format_args!("{name} is gone (killed); a new one starts in {} s", REPLACED_AFTER.as_secs()));
        for role in led {
            tell(role.name().as_str(), format_args!("nobody leads until the lease of {name} has run out"));
        }
        self.due.push(Box::pin(async move {
            tokio::time::sleep(REPLACED_AFTER).await;
            n
        }));
        format!("ok {name} is gone; a new one starts in {} s", REPLACED_AFTER.as_secs())
    }

    /// Starts a new replica where one was killed.
    async fn replace(&mut self, n: usize) {
        let config = self.configs[n].clone();
        let name = Arc::clone(config.identity());
        match DevReplica::start(config, self.memory.clone()).await {
            Ok(replica) => {
                tell("-", format_args!("{name} is new, with another session"));
                follow(&mut self.narrators, &name, replica.roles());
                self.replicas[n] = Some(replica);
            }
            Err(error) => {
                complain(format_args!("baton dev: {name} cannot start, and tries again: {error}"));
                self.due.push(Box::pin(async move {
                    tokio::time::sleep(REPLACED_AFTER).await;
                    n
                }));
            }
        }
    }

    /// Hands over and ends; at once at a second signal.
    async fn end(&mut self, mut signals: Signals) -> Code {
        tell("-", "ending: handing over first (again to end at once)");
        self.replicas.iter().flatten().for_each(DevReplica::drain);
        let ends = join_all(self.replicas.iter_mut().flatten().map(DevReplica::ended));
        tokio::select! {
            ends = ends => {
                // They have a last word.
                while self.narrators.join_next().await.is_some() {}
                let worst = ends.into_iter().flatten().find(|exit| *exit != Exit::Well);
                worst.unwrap_or(Exit::Well).into()
            }
            () = signals.next() => Exit::Well.into(),
        }
    }

    /// What there is, and what to try.
    fn introduction(&self, port: u16) -> String {
        let (count, first) = (self.configs.len(), &self.configs[0]);
        let place = if self.memory.is_some() { "one store in memory" } else { "one Redis" };
        let role = first.roles()[0].name.as_str();
        let me = std::env::args_os().next().map_or("baton".into(), |me| me.to_string_lossy().into_owned());
        let usual = port == PORT_DEFAULT;
        let variable = if usual { String::new() } else { format!("{API_VARIABLE}={} ", first.api().listen) };
        let dev_port = if usual { String::new() } else { format!(" --port {port}") };
        let mut lines =
            vec![format!("{count} replicas over {place}; a lease of {:?}", first.roles()[0].timing.lease_duration())];
        for config in &self.configs {
            let (api, telemetry) = (config.api().listen, config.telemetry().listen);
            lines.push(format!("  {}  http://{api}   telemetry http://{telemetry}", config.identity()));
        }
        lines.push("From another terminal:".to_owned());
        let tries = [
            (format!("curl -s localhost:{port}/leader/{role}"), "who leads, and until when"),
            (format!("{variable}{me} status --watch"), "dev-0's view, live"),
            (format!("{variable}{me} resign {role}"), "the leader hands over"),
            (format!("{me} dev kill 0{dev_port}"), "dev-0 dies as by kill -9"),
        ];
        let wide = tries.iter().map(|(command, _)| command.chars().count()).max().unwrap_or(0);
        lines.extend(tries.iter().map(|(command, what)| format!("  {command:<wide$}   # {what}")));
        lines.push("Ctrl-C ends it. Times below are UTC.".to_owned());
        lines.join("\n") + "\n"
    }
}

async fn next_request(control: Option<&Control>) -> Request {
    match control {
        Some(control) => control.next().await,
        None => std::future::pending().await,
    }
}

/// The first replica that ends though nobody killed it.
async fn any_ended(replicas: &mut [Option<DevReplica>]) -> (usize, Option<Exit>) {
    let living =
        replicas.iter_mut().enumerate().filter_map(|(n, replica)| replica.as_mut().map(|replica| (n, replica)));
    let mut ends: FuturesUnordered<_> = living.map(|(n, replica)| async move { (n, replica.ended().await) }).collect();
    match ends.next().await {
        Some(end) => end,
        None => std::future::pending().await,
    }
}
