//! Jobs under seeded faults: leaders whose terms do not overlap (P1 and P2 are given here), some of which go on after
//! their successor has begun; a store that is the reference itself, and forgets; and a checker that looks at
//! everything that is written, started and told.

mod checker;
mod faults;
mod leader;
mod scenario;
pub mod world;
