//! Spans for an OpenTelemetry collector, in builds with the cargo feature `otel`: one for each command of an election
//! to the store, one for each term, one for each attempt of a job.
//!
//! Each is built when what it tells of is over, with both its times, so nothing is carried through the code. Without
//! the feature [`Traces`] is empty and its functions do nothing, so that whoever calls them need not know.

#[cfg(not(feature = "otel"))]
mod off;
#[cfg(feature = "otel")]
mod post;
#[cfg(feature = "otel")]
mod spans;

#[cfg(not(feature = "otel"))]
pub use off::Traces;
#[cfg(feature = "otel")]
pub use spans::Traces;
