//! Baton: leader election beside every replica, on Redis.
//!
//! From the ground up; an import points down only, and a test sees to it:
//!
//! | floor | what | where to look first |
//! |---|---|---|
//! | 0 | [`protocol`]: who leads, until when, under which token; pure | the page of the module is the specification |
//! | 1 | [`base`]: what every room needs | `base::clock::Clock` |
//! | 1 | [`config`], [`schedule`], [`telemetry`], [`http`], [`kube`] | `config::Config::load` |
//! | 2 | [`store`]: what is asked of a store, and the four there are | `store::LeaseStore` |
//! | 3 | [`role`]: the task that drives one election, and its handle | `role::RoleHandle::answer` |
//! | 4 | [`api`], [`admin`]: listeners; [`locks`], [`jobs`], [`pod`] | `api::serve`, `locks::LockService` |
//! | 5 | [`app`]: the only file that knows all parts | `app::run` |
//! | 6 | `main.rs`, `cli/`: thin commands | |
//!
//! One answer, from the socket to the promise: [`http`] finds the handler, [`role::http`] asks a [`role::RoleHandle`],
//! which reads the clock and the [`protocol::Standing`] that the election keeps; nothing waits, and nothing is
//! remembered.
#![warn(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::await_holding_lock
)]

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
