//! The status page in a real browser, on real sidecars and a real Redis: `make e2e`. Not part of `cargo test`, because
//! it takes minutes to install a browser.

mod driver;
mod elections;
mod people;
mod stage;
mod strangers;

// What a replica's own module names.
