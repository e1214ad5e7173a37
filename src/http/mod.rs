//! What both HTTP listeners share: one way in that slow or many clients cannot wear down, and the shape of answers and
//! errors.
//!
//! * [`serve`]: accepts, bounds and watches connections, and ends within a bound.
//! * [`listen`]: the socket, for both IP families; [`Limits`]: what one client may cost.
//! * [`Door`]: a request on its way to its handler, and a [`AccessCheck`] before that.
//! * [`Router`], [`Routes`]: which handler that is. Parts bring their own; none lives here.
//! * [`ListenerThread`]: where a listener runs.
//! * [`Response`]: an answer; [`json`], [`no_content`] and [`read_body`] are the shape of most.
//! * [`client`]: requests to others, [`tls`] under them.
//! * [`Problem`]: an error as `application/problem+json` (RFC 9457) with a stable `type`; [`DaprFault`]: one in Dapr's
//!   words.
//!
//! hyper reads and writes HTTP/1.1; what it lacks (an idle bound apart from the header bound, a bound on stalled
//! writes, a bound on connections, a shutdown that ends) is added around it. warp is named here only.

mod activity;
mod answer;
pub mod client;
mod dapr;
mod door;
mod listen;
mod places;
mod problem;
mod refuse;
mod router;
mod serve;
mod thread;
pub mod tls;
mod values;

/// One of Server-Sent Events: its text is what is sent.
pub use warp::sse::Event as ServerEvent;

pub use activity::Client;
pub use answer::{BoxError, Content, Response, answer, document, json, json_line, json_lines, no_content};
pub use dapr::DaprFault;
pub use door::{AccessCheck, BODY_BYTES_MAX, BODY_TIMEOUT, Door};
pub use listen::listen;
pub use problem::{PROBLEM_JSON, Problem, ProblemKind};
pub use router::{Answering, Answers, Ask, Found, Router, Routes, Stopping, wants_page};
pub use serve::{Ends, Limits, serve};
pub use thread::{ListenerThread, Stopped};
pub use values::{
    bad_body, bad_parameter, bad_value, decode_segment, read_body, read_encoded_query, read_query, shown,
};
