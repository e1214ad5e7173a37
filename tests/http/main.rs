//! The two listeners over real sockets.

mod answers;
mod client;
mod stage;
