//! What both HTTP listeners share: an accept loop that slow or many clients cannot wear down, and the shape of errors.
//!
//! * [`serve`]: accepts, bounds and watches connections, and ends within a bound.
//! * [`Limits`]: what one client may cost.
//! * [`ListenerThread`]: where a listener runs.
//! * [`Problem`]: an error as `application/problem+json` (RFC 9457) with a stable `type`.
//! * [`Calls`]: what another part answers on a listener; [`json`], [`no_content`] and [`read_body`] are their shape.
//!
//! No route lives here. hyper reads and writes HTTP/1.1; what it lacks (an idle bound apart from the header bound, a
//! bound on stalled writes, a bound on connections, a shutdown that ends) is added around it.

mod activity;
mod answer;
mod part;
mod problem;
mod refuse;
mod serve;
mod thread;
mod words;

pub use answer::{answer, json, no_content};
pub use part::{Ask, Calls, CallsOn, Content};
pub use problem::{PROBLEM_JSON, Problem, ProblemKind};
pub use serve::{Answer, Answers, Ends, Limits, serve};
pub use thread::{ListenerThread, Stopped};
pub(crate) use words::shard_slash;
pub use words::{bad_body, bad_parameter, decode_segment, decode_value, duration, read_body, shown};
