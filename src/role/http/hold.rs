//! `GET /leader/{role}/hold`: what the app may act upon, over a connection by which it shows that it lives.
//!
//! A line each, as `/leader` answers: at once, again when half of the promise is over, and when the lead is lost. The
//! connection then stays open until nothing that was said stands any more: an app that has stopped before says so by
//! closing it.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use serde::Serialize;

use super::leader::find;
use super::params::HoldQuery;
use super::{RoleCalls, repeat_after};
use crate::http::{Ask, Client, Problem, ProblemKind, Response, json_line, json_lines};
use crate::role::{Answer, AppHold, CommandError, RoleHandle};

pub(super) async fn hold(context: Arc<RoleCalls>, ask: Ask) -> Result<Response, Problem> {
    let role = find(&context, ask.param("role"))?;
    let query = HoldQuery::parse(&ask.query)?;
    let Some(hold) = lead(&context, &role, query).await else {
        let error = CommandError::NotLeading { role: role.name().clone(), holder: role.holder() };
        return Err(Problem::new(ProblemKind::NotLeading, error.to_string()));
    };
    let held = Held { hold: Some(hold), client: ask.client, told: Told::Nothing };
    let lines = stream::unfold(held, |mut held| async move { Some((held.next().await?, held)) });
    Ok(json_lines(lines))
}

/// Waits until this replica leads, for as long as is asked for.
async fn lead(context: &RoleCalls, role: &RoleHandle, query: HoldQuery) -> Option<AppHold> {
    let leads = async {
        let mut changes = role.changes();
        loop {
            changes.mark_unchanged();
            if let Some(hold) = role.hold(query.scope) {
                return Some(hold);
            }
            // An error: the role's task has ended.
            changes.changed().await.ok()?;
        }
    };
    tokio::select! {
        biased;
        hold = leads => hold,
        () = context.stopping.begins() => None,
        () = tokio::time::sleep(query.wait) => None,
    }
}

#[derive(Serialize)]
struct Line {
    #[serde(flatten)]
    answer: Answer,
    /// To ask with (`/leader/{role}?hold=…`).
    hold: String,
}

enum Told {
    Nothing,
    /// That it leads, and for how long.
    Lead(Duration),
    /// That it does not any more.
    Loss,
}

/// A hold on its connection.
struct Held {
    hold: Option<AppHold>,
    client: Client,
    told: Told,
}

impl Held {
    async fn next(&mut self) -> Option<Bytes> {
        let hold = self.hold.as_ref()?;
        match self.told {
            Told::Nothing => {}
            Told::Lead(validity) => self.wait(hold, validity).await,
            Told::Loss => {
                tokio::time::sleep(hold.left()).await;
                return None;
            }
        }
        let line = Line { answer: hold.answer(), hold: hold.id().to_string() };
        self.told = match line.answer.valid_for_ms {
            Some(ms) => Told::Lead(Duration::from_millis(ms)),
            None => Told::Loss,
        };
        Some(json_line(&line))
    }

    /// Until there is something to say.
    async fn wait(&self, hold: &AppHold, validity: Duration) {
        let mut changes = hold.role().changes();
        let lost = async {
            // An error: the role's task has ended, and with it the lead.
            while hold.role().leads() && changes.changed().await.is_ok() {}
        };
        tokio::select! {
            () = lost => {}
            () = tokio::time::sleep(repeat_after(validity)) => {}
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(hold) = self.hold.take()
            && self.client.has_left()
        {
            hold.end();
        }
    }
}
