//! One attempt of one run: a request to the app, or a program beside the sidecar.
//!
//! [`attempt`] is one future. It ends when the run does, when somebody orders it to ([`Order`]), and in any case before
//! the lease under which it was started could be another's ([`WorkTerm`]). Dropping it ends the attempt at once: the
//! connection is closed, the process group is killed.
//!
//! | file | what |
//! |---|---|
//! | `http/` | a request: what is sent, the connection, what the answer means |
//! | `exec/` | a program: its group, its end, its output in the log |
//! | `orders` | how an attempt is told to end, and what the app says of it |
//! | `template`, `note` | what a body template stands for; how an end is told in a line |

mod exec;
mod http;
mod note;
mod orders;
mod template;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

use self::note::note;
use crate::config::RunConfig;
use crate::protocol::jobs::{RunId, Wall};
use crate::protocol::{Grace, GraceError, Timing, Token, Verdict};
use crate::role::{RoleHandle, WorkGuard, WorkTerm};

pub use self::note::NOTE_BYTES_MAX;
pub use self::orders::{OrderInbox, OrderSender, orders};
pub(super) use self::template::rfc3339;

/// Which attempt this is: what the run is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    /// The run, the same for all its attempts.
    pub run: RunId,
    /// The moment that the run is for.
    pub scheduled: Wall,
    /// Counts from 1.
    pub attempt: u32,
    /// The attempt's own fencing token.
    pub token: Token,
    /// What the run was given, in JSON.
    pub data: Option<Arc<str>>,
    /// Whose run it is, where the role is split over shards.
    pub shard: Option<u16>,
}

/// What may be told to an attempt while it goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Order {
    /// It is to end.
    Cancel(CancelReason),
    /// An app that answered 202 is still at work.
    Heartbeat,
    /// An app that answered 202 has finished: how, with a note for people. Comes it before the answer, it counts as
    /// soon as the answer is there, or fails to come.
    Complete(Result<Option<String>, String>),
}

/// Why an attempt is cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CancelReason {
    /// A later slot takes its place (`concurrencyPolicy: Replace`).
    Replaced,
    /// The run has taken as long as it may (`activeDeadlineSeconds`).
    Deadline,
    /// Somebody asked for its end.
    Asked,
    /// The job is gone from the configuration.
    Removed,
}

impl fmt::Display for CancelReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Replaced => "a later run takes its place",
            Self::Deadline => "the run has taken as long as it may",
            Self::Asked => "somebody cancelled the run",
            Self::Removed => "the job is gone from the configuration",
        })
    }
}

/// How an attempt ended. Notes are a line of at most [`NOTE_BYTES_MAX`] bytes, without control characters and without
/// the secrets of the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The run is done; what the app said of it.
    Succeeded { note: Option<String> },
    /// The attempt failed, and why.
    Failed { note: String },
    /// It had to end because this replica's term does, and why.
    Interrupted { note: String },
    /// [`Order::Cancel`]
    Cancelled,
}

impl Ended {
    fn succeeded(said: Option<&str>) -> Self {
        Self::Succeeded { note: said.map(note).filter(|note| !note.is_empty()) }
    }

    fn failed(why: &str) -> Self {
        Self::Failed { note: note(why) }
    }

    fn interrupted(why: &str) -> Self {
        Self::Interrupted { note: note(why) }
    }

    /// What the app said itself.
    fn completed(word: Result<Option<String>, String>) -> Self {
        match word {
            Ok(said) => Self::succeeded(said.as_deref()),
            Err(why) => Self::failed(&why),
        }
    }
}

/// The grace that attempts of this run need under these timings. A request needs none to end by, since letting go of it
/// takes no time here: it is let go one step-down margin before the deadline, so that the app, which reads it from its
/// connection, has stopped by then as well.
///
/// # Errors
/// A program's grace leaves no time to work.
pub fn grace_of(run: &RunConfig, timing: &Timing) -> Result<Grace, GraceError> {
    match run {
        RunConfig::Http(_) => Ok(Grace::of_request(timing)),
        RunConfig::Exec(exec) => Grace::new(Some(exec.grace), timing),
    }
}

/// Whether the role's term has more time left than it takes to end an attempt. Where it has not, the next renewal comes
/// soon, or the term is over: look again at the role's next change, and after a while.
pub fn has_room(role: &RoleHandle, grace: &Grace) -> bool {
    role.remaining().is_some_and(|(_, remaining)| grace.allows(remaining))
}

/// Makes one attempt. `accepted` is called when the app has answered 202: from then on the attempt lasts until
/// [`Order::Complete`], for as long as heartbeats come. Once nobody is left to give orders, none come; that ends
/// nothing.
pub async fn attempt(
    run: &RunConfig,
    assignment: &Assignment,
    term: WorkTerm,
    mut orders: OrderInbox,
    accepted: impl FnOnce() + Send,
) -> Ended {
    let mut guard = WorkGuard::new(term, matches!(run, RunConfig::Exec(_)));
    if guard.look().0 != Verdict::Stay {
        return Ended::interrupted(&format!("not begun: {}", guard.why()));
    }
    match run {
        RunConfig::Http(http) => self::http::run(http, assignment, &mut guard, &mut orders, accepted).await,
        RunConfig::Exec(exec) => self::exec::run(exec, assignment, &mut guard, &mut orders).await,
    }
}
