//! The quorum under seeded faults: real elections, rounds, members and choruses; everything else is what can go wrong.

pub mod change;
pub mod faults;
pub mod run;
mod traffic;
pub mod world;
