//! The charts in `charts/`, rendered by real Helm: its library, and a `helm` on PATH (or `BATON_HELM`) when there is
//! one.
//!
//! What is generated from them (tables in the READMEs, the schema of `config`, golden files, copies of the alerts and
//! dashboards) is compared here, and written by `make charts`.

mod cases;
#[path = "../support/sidecars/claims.rs"]
mod claims;
mod demo;
mod each;
mod generated;
#[path = "../support/helm/mod.rs"]
mod helm;
#[path = "../support/sidecars/http.rs"]
mod http;
mod matrix;
mod pods;
mod refused;
#[path = "../support/sidecars/replica.rs"]
mod replica;
mod rules;
mod schema;
mod shop;
mod stage;
#[path = "../support/mod.rs"]
mod support;
mod values;
#[path = "../support/sidecars/wait.rs"]
mod wait;
