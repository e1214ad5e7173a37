//! The Kubernetes store and sidecars on a real API server: `make e2e`. Not part of `cargo test`, because it needs Go to
//! build the server, or a cluster of the user's own (`KUBECONFIG`); without either every test fails and says so.

mod chaos;
mod charts;
mod client_go;
mod departures;
mod elector;
mod extras;
mod group;
mod injector;
mod jobs;
mod labels;
mod outage;
mod people;
mod policies;
mod rbac;
mod server;
