//! Sidecars as processes, the apps beside them, and the judges of what they say.

pub mod apps;
pub mod callbacks;
pub mod claims;
pub mod clock;
pub mod group;
pub mod held_app;
pub mod http;
pub mod jobs;
pub mod replica;
