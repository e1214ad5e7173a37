//! The status page in a real browser, on real sidecars and a real Redis: `make e2e`. Not part of `cargo test`, because
//! it takes minutes to install a browser.

mod driver;
mod elections;
#[path = "../support/sidecars/http.rs"]
mod http;
mod people;
mod stage;
mod strangers;
#[path = "../support/mod.rs"]
mod support;
#[path = "../support/sidecars/wait.rs"]
mod wait;

// What a replica's own module names.
#[path = "../support/sidecars/claims.rs"]
mod claims;
#[path = "../support/sidecars/replica.rs"]
mod replica;
