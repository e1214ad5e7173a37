//! Baton's charts and image on a real one-node Kubernetes: `make cluster`, or `tests/cluster/up.sh cargo test --test
//! cluster` for a part. Not part of `cargo test`, because the node takes root and an hour of processor to build.

mod changes;
mod ends;
mod fast;
mod killed;
mod log;
mod node;
mod page;
mod platform;
mod plugin;
mod release;
mod shown;
mod table;
