//! The charts in `charts/`, rendered by real Helm: its library, and a `helm` on PATH (or `BATON_HELM`) when there is
//! one.
//!
//! What is generated from them (tables in the READMEs, the schema of `config`, golden files, copies of the alerts and
//! dashboards) is compared here, and written by `make charts`.

mod cases;
mod demo;
mod each;
mod generated;
mod injector;
mod matrix;
mod mesh;
mod pods;
mod refused;
mod rules;
mod schema;
mod shop;
mod stage;
mod values;
