//! Waits to lead, starts the command, watches over it, and gives the lease back when it is gone.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use baton::app::Replica;
use baton::base::Child;
use baton::base::clock::SharedClock;
use baton::base::process::Exit;
use baton::protocol::{Grace, Token, Verdict};
use baton::role::{Broken, RoleHandle, Snapshot, WorkGuard, WorkTerm};
use rustix::process::Signal;
use tokio::process::Command;
use tokio::sync::watch::Receiver;

use super::super::Code;
use super::super::output::complain;
use super::signals::{Forwarded, asks_to_end};

/// What to run, and how.
pub struct Plan {
    pub command: Vec<OsString>,
    /// After a loss, start it anew when leading again.
    pub restart: bool,
    pub grace: Grace,
    pub identity: Arc<str>,
}

pub struct Supervisor {
    replica: Replica,
    role: RoleHandle,
    clock: SharedClock,
    signals: Forwarded,
    changes: Receiver<Arc<Snapshot>>,
    plan: Plan,
}

/// How waiting to lead ended.
enum Waited {
    Leads(Token),
    /// A signal asked for the end.
    Asked(Signal),
    Broken(Broken),
}

/// How a command ended.
enum Ended {
    /// By itself, or because we were asked to end.
    Done(u8),
    /// The lease was being lost.
    Lost(u8),
    Broken(Broken),
}

impl Supervisor {
    /// Over a replica that campaigns for this one role.
    pub fn new(replica: Replica, role: RoleHandle, clock: SharedClock, signals: Forwarded, plan: Plan) -> Self {
        let changes = role.changes();
        Self { replica, role, clock, signals, changes, plan }
    }

    /// Runs to the end, and returns the exit code.
    pub async fn run(mut self) -> Code {
        loop {
            let token = match self.wait_to_lead().await {
                Waited::Leads(token) => token,
                Waited::Asked(signal) => return self.leave(code_of_signal(signal)).await,
                Waited::Broken(broken) => return bug(&broken),
            };
            let child = match self.start(token) {
                Ok(child) => child,
                Err(error) => {
                    let program = self.plan.command.first().cloned().unwrap_or_default();
                    complain(format_args!("baton exec: {} cannot be started: {error}", program.display()));
                    return self.leave(code_of_failure(&error)).await;
                }
            };
            tracing::info!(role = %self.role.name(), %token, "the command runs");
            match self.attend(child, token).await {
                Ended::Done(code) => return self.leave(code).await,
                Ended::Lost(code) if !self.plan.restart => return self.leave(code).await,
                Ended::Lost(code) => tracing::warn!(code, "the command has ended; it starts anew with the next lease"),
                Ended::Broken(broken) => return bug(&broken),
            }
        }
    }

    /// Starts the command, with our own streams.
    fn start(&self, token: Token) -> io::Result<Child> {
        let not_found = || io::Error::from(io::ErrorKind::NotFound);
        let (program, arguments) = self.plan.command.split_first().ok_or_else(not_found)?;
        let mut command = Command::new(program);
        command.args(arguments);
        command.env("BATON_ROLE", self.role.name().as_str());
        command.env("BATON_TOKEN", token.to_string());
        command.env("BATON_IDENTITY", &*self.plan.identity);
        Child::start(command)
    }

    async fn wait_to_lead(&mut self) -> Waited {
        loop {
            let term = self.role.remaining();
            if let Some((token, remaining)) = term
                && self.plan.grace.allows(remaining)
            {
                return Waited::Leads(token);
            }
            // A term that has too little time left for the command is renewed soon, or over; neither wakes us.
            let nap = self.plan.grace.next_look(term.map(|(_, remaining)| remaining));
            tokio::select! {
                signal = self.signals.next() => {
                    // With no command to take them, USR1 and USR2 mean nothing, and HUP what it means to every
                    // program.
                    if asks_to_end(signal) || signal == Signal::HUP {
                        return Waited::Asked(signal);
                    }
                }
                broken = self.replica.team().broken() => return Waited::Broken(broken),
                // An error means that the role's task has ended, which `broken` tells.
                Ok(()) = self.changes.changed() => {}
                () = tokio::time::sleep(nap), if term.is_some() => {}
            }
        }
    }

    /// Watches over the command until it has ended, and sees to it that it does.
    async fn attend(&mut self, mut child: Child, token: Token) -> Ended {
        let (role, clock) = (self.role.clone(), Arc::clone(&self.clock));
        // The command counts on leading as an app does: should anything drain this role, the lease is kept meanwhile.
        let term = WorkTerm { role, token, grace: self.plan.grace, finish_within: Duration::ZERO, clock };
        let mut guard = WorkGuard::new(term, true);
        let (mut asked, mut told, mut killed) = (false, false, false);
        loop {
            tokio::select! {
                verdict = guard.called(), if !killed => {
                    told = true;
                    killed = verdict == Verdict::Kill;
                    let (word, signal) = if killed { ("KILL", Signal::KILL) } else { ("TERM", Signal::TERM) };
                    tracing::warn!(role = %self.role.name(), "{}: {word} to the command", guard.why());
                    child.signal(signal);
                }
                end = child.ended() => return match end {
                    Ok(status) if told && !asked => Ended::Lost(code_of(status)),
                    Ok(status) => Ended::Done(code_of(status)),
                    Err(error) => {
                        complain(format_args!("baton exec: the command's end cannot be learnt: {error}"));
                        Ended::Done(Exit::Bug.code())
                    }
                },
                signal = self.signals.next() => {
                    asked |= asks_to_end(signal);
                    child.signal(signal);
                }
                // Dropping the child kills its group.
                broken = self.replica.team().broken() => return Ended::Broken(broken),
            }
        }
    }

    /// Gives the lease back, if there is one, now that nothing acts under it any more.
    async fn leave(mut self, code: u8) -> Code {
        self.replica.team().shut_down().await;
        let mut abandoned = false;
        let ended = loop {
            tokio::select! {
                ended = self.replica.team().all_ended() => break ended,
                signal = self.signals.next(), if !abandoned => if asks_to_end(signal) {
                    abandoned = true;
                    self.replica.team().abandon().await;
                },
            }
        };
        if !abandoned {
            self.replica.take_back().await;
            self.replica.flush_traces().await;
        }
        match ended {
            Ok(()) => Code(code),
            Err(broken) => bug(&broken),
        }
    }
}

/// The exit code as a shell tells it: 128 + the signal, where one killed it.
fn code_of(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX)
}

/// The exit code for a command that cannot be started, as a shell tells it.
fn code_of_failure(error: &io::Error) -> u8 {
    if error.kind() == io::ErrorKind::NotFound { 127 } else { 126 }
}

/// What a shell says of a program that this signal ended.
fn code_of_signal(signal: Signal) -> u8 {
    u8::try_from(128 + signal.as_raw()).unwrap_or(u8::MAX)
}

fn bug(broken: &Broken) -> Code {
    complain(format_args!("baton exec: {broken}; this is a bug in Baton. The lease runs out by its TTL"));
    Exit::Bug.into()
}
