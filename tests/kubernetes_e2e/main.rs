//! The Kubernetes store and sidecars on a real API server: `make e2e`. Not part of `cargo test`, because it needs Go, or
//! a cluster of the user's own (`KUBECONFIG`); without either every test fails and says so.

#[path = "../support/kubernetes/mod.rs"]
mod kubernetes;
mod server;
