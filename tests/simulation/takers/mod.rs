//! Jobs made at run time under seeded faults: leaders whose terms do not overlap (P1 and P2 are given here), some of
//! whose requests arrive when their successor has begun; a store that is the reference itself, and may be a replica
//! that lags; answers that are lost; people who put and delete. At the end every job must have had its run.

mod checker;
pub mod world;
