//! A client's program under test, and what it has said.

use std::collections::VecDeque;
use std::process::Command;
use std::time::Duration;

use serde::Deserialize;
use testkit::programs::Running;

use crate::sidecar::{Nanos, Sidecar, now};

/// How a client's program speaks, and what it can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A package's: clients/README.md.
    Package,
    /// A file of docs/clients: `acting with token 41`, over no connection of its own.
    Smallest,
}

/// One thing that it has said.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(tag = "is", rename_all = "lowercase", deny_unknown_fields)]
pub enum Event {
    Begins { token: u64, at: Nanos },
    Works { token: u64, at: Nanos },
    Cancelled { at: Nanos },
    Left { at: Nanos },
    Slept { at: Nanos },
}

pub struct Client {
    pub process: Running,
    form: Form,
    read: usize,
    heard: Vec<Event>,
    strange: Vec<String>,
}

impl Client {
    /// Variables that would lead to a proxy are set: they are not for the sidecar.
    pub fn start(mut command: Command, form: Form, sidecar: &Sidecar) -> Self {
        for variable in ["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"] {
            command.env(variable, "http://127.0.0.1:9");
        }
        match form {
            Form::Package => command.arg("scheduler").env("BATON_URL", sidecar.url()),
            Form::Smallest => command.arg(format!("{}/leader/scheduler", sidecar.url())),
        };
        let process = Running::start_with_input(command);
        Self { process, form, read: 0, heard: Vec::new(), strange: Vec::new() }
    }

    /// Everything so far.
    pub fn events(&mut self) -> &[Event] {
        let lines: VecDeque<String> = self.process.lines().split_off(self.read).into();
        self.read += lines.len();
        for line in lines {
            let event = match self.form {
                Form::Package => serde_json::from_str(&line).ok(),
                // What it says comes a moment later than what it does: it is judged too strictly, if at all.
                Form::Smallest => line
                    .strip_prefix("acting with token ")
                    .and_then(|token| token.parse().ok())
                    .map(|token| Event::Works { token, at: now() }),
            };
            match event {
                Some(event) => self.heard.push(event),
                None => self.strange.push(line),
            }
        }
        &self.heard
    }

    /// What it has said that nobody understands.
    pub fn strange(&self) -> &[String] {
        &self.strange
    }

    /// How much work was begun with this token at or after that moment.
    pub fn works(&mut self, token: u64, since: Nanos) -> usize {
        let works =
            |event: &&Event| matches!(event, Event::Works { token: with, at } if *with == token && *at >= since);
        self.events().iter().filter(works).count()
    }

    /// The last of such events, if there is one.
    pub fn last(&mut self, which: fn(&Event) -> Option<Nanos>) -> Option<Nanos> {
        self.events().iter().rev().find_map(which)
    }
}

pub fn begins(event: &Event) -> Option<Nanos> {
    if let Event::Begins { at, .. } = event { Some(*at) } else { None }
}

pub fn cancelled(event: &Event) -> Option<Nanos> {
    if let Event::Cancelled { at } = event { Some(*at) } else { None }
}

pub fn left(event: &Event) -> Option<Nanos> {
    if let Event::Left { at } = event { Some(*at) } else { None }
}

pub fn slept(event: &Event) -> Option<Nanos> {
    if let Event::Slept { at } = event { Some(*at) } else { None }
}

/// Work that no promise allowed: with which token, and how long after the last that did.
pub fn unallowed(sidecar: &Sidecar, events: &[Event]) -> Vec<(u64, Duration)> {
    let promises = sidecar.promises();
    let after = |event: &Event| {
        let Event::Works { token, at } = event else { return None };
        let until = promises.iter().filter(|promise| promise.token == *token).map(|promise| promise.until).max();
        let after = at.saturating_sub(until.unwrap_or(0));
        (after > 0).then_some((*token, Duration::from_nanos(after)))
    };
    events.iter().filter_map(after).collect()
}
