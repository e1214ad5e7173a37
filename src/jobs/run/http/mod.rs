//! A request to the app as a run.

mod call;
mod fault;
mod request;

use std::pin::pin;
use std::time::Duration;

use self::call::{CallOutcome, call};
use super::{Assignment, Ended, Order, OrderInbox};
use crate::config::HttpRun;
use crate::http::tls::system_roots;
use crate::role::WorkGuard;

/// What the app said by `complete`.
type Word = Result<Option<String>, String>;

/// Sends the request, and waits for what it leads to. Every early return drops the connection.
pub async fn run(
    http: &HttpRun,
    assignment: &Assignment,
    guard: &mut WorkGuard,
    orders: &mut OrderInbox,
    accepted: impl FnOnce() + Send,
) -> Ended {
    let mut word: Option<Word> = None;
    let answer = {
        let mut answer = pin!(call(http, assignment, system_roots));
        loop {
            tokio::select! {
                biased;
                _ = guard.called() => return Ended::interrupted(guard.why()),
                order = orders.next() => match order {
                    Order::Cancel(_) => return Ended::Cancelled,
                    Order::Complete(said) => word = Some(said),
                    Order::Heartbeat => {}
                },
                answer = &mut answer => break answer,
            }
        }
    };
    match (answer, word) {
        // An app may be done before it has answered. What it said itself says more than what went wrong on the way.
        (_, Some(word)) => Ended::completed(word),
        (Ok(CallOutcome::Accepted { silence_max }), None) => {
            accepted();
            wait_for_word(silence_max, guard, orders).await
        }
        (Ok(CallOutcome::Succeeded { text }), None) => Ended::succeeded(text.as_deref()),
        (Ok(CallOutcome::Failed { why }), None) => Ended::failed(&why),
        (Err(fault), None) => Ended::failed(&fault.to_string()),
    }
}

/// The app has accepted the run and works on.
async fn wait_for_word(silence_max: Duration, guard: &mut WorkGuard, orders: &mut OrderInbox) -> Ended {
    loop {
        tokio::select! {
            biased;
            _ = guard.called() => return Ended::interrupted(guard.why()),
            order = orders.next() => match order {
                Order::Cancel(_) => return Ended::Cancelled,
                Order::Complete(word) => return Ended::completed(word),
                // The next round waits anew.
                Order::Heartbeat => {}
            },
            () = tokio::time::sleep(silence_max) => {
                return Ended::failed(&format!(
                    "accepted, but neither a heartbeat nor a completion within {silence_max:?}"
                ));
            }
        }
    }
}
