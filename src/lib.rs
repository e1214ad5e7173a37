//! Baton: leader election beside every replica, on Redis.
//!
//! From the ground up; an import points down only, and a test sees to it:
//!
//! | floor | what | where to look first |
//! |---|---|---|
//! | 0 | [`protocol`]: who leads, until when, under which token; pure | the page of the module is the specification |
//! | 1 | [`base`]: clocks, pauses, subscriptions, the process: what every room needs | `base::clock::Clock` |
//! | 2 | [`schedule`]: cron; [`http`]: the one way in, and out; [`kube`]: the Kubernetes API | `http::Router` |
//! | 3 | [`config`]: text to checked values; [`telemetry`]: metrics, logs, traces | `config::Config` |
//! | 4 | [`store`]: what is asked of a store; Redis, a quorum, Kubernetes, this process | `store::LeaseStore` |
//! | 5 | [`role`]: the task that drives one election, its handle and its routes | `role::RoleHandle` |
//! | 6 | [`api`], [`admin`]: listeners; [`locks`], [`jobs`]; [`pod`]: what Kubernetes shows | `api::router` |
//! | 7 | [`app`]: the only file that knows all parts | `app::run` |
//! | 8 | `main.rs`, `cli/`: thin commands | |
//!
//! One answer, from the socket to the promise: [`http`] finds the handler, [`role::http`] asks a [`role::RoleHandle`],
//! which reads the clock and the [`protocol::Leadership`] that the election keeps; nothing waits, and nothing is
//! remembered.
#![warn(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::await_holding_lock
)]
// A new variant is thought of wherever one's own are told apart; a test that expects one of them may panic at the rest.
#![cfg_attr(not(test), warn(clippy::wildcard_enum_match_arm))]

pub mod admin;
pub mod api;
pub mod app;
pub mod base;
pub mod config;
pub mod http;
pub mod jobs;
pub mod kube;
pub mod locks;
pub mod pod;
pub mod protocol;
pub mod role;
pub mod schedule;
pub mod store;
pub mod telemetry;
