//! The Kubernetes store and sidecars on a real API server: `make e2e`. Not part of `cargo test`, because it needs Go to
//! build the server, or a cluster of the user's own (`KUBECONFIG`); without either every test fails and says so.

#[path = "../support/apiserver/mod.rs"]
mod apiserver;
#[path = "../support/sidecars/apps.rs"]
mod apps;
mod chaos;
mod charts;
#[path = "../support/sidecars/claims.rs"]
mod claims;
mod client_go;
mod departures;
mod elector;
mod extras;
mod group;
#[path = "../support/helm/mod.rs"]
mod helm;
#[path = "../support/sidecars/http.rs"]
mod http;
#[path = "../support/sidecars/jobs.rs"]
mod job_checker;
mod jobs;
mod labels;
mod outage;
mod people;
mod policies;
mod rbac;
#[path = "../support/sidecars/replica.rs"]
mod replica;
mod server;
#[path = "../support/helm/shop.rs"]
mod shop;
#[path = "../support/mod.rs"]
mod support;
#[path = "../support/sidecars/wait.rs"]
mod wait;
