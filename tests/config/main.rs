//! The configuration from outside: what is accepted, what is refused and how it is told, and what is noticed later.

mod credentials;
mod docs;
mod good;
mod jobs;
mod kubernetes;
mod mutations;
mod own_stores;
mod quorum;
mod samples;
mod support;
mod watch;
mod wrong;
