//! Jepsen: what people would use in Baton's place, and Baton, in the same fire. Three workers compete for one lock and
//! increment registers while they are told that they hold it; the same faults befall every system, from one seed; the
//! judge (`judge/`, Porcupine) reads what was recorded. `make jepsen` writes docs/peers-under-faults.md. Settings:
//!
//! | variable | what |
//! |---|---|
//! | `BATON_JEPSEN_SEED` | repeats the faults, though not the moments at which the processes meet them |
//! | `BATON_JEPSEN_SYSTEM` | only this system: the names of [`system::System::name`] |
//! | `BATON_JEPSEN_FAULT` | only this fault: the names of [`fault::Fault::name`] |
//! | `BATON_JEPSEN_SECONDS` | how long the whole run takes, without installing; 1,600 |
//! | `BATON_JEPSEN_JOBS` | how many systems are run at a time; 2 |
//! | `BATON_JEPSEN_WRITE` | a whole run goes to docs/peers-under-faults.md |
//!
//! A seed of the table repeats its fault as the first of a run: `BATON_JEPSEN_SYSTEM=curator BATON_JEPSEN_FAULT=pause
//! BATON_JEPSEN_SEED=N BATON_JEPSEN_SECONDS=30 make jepsen`. What was recorded is in target/jepsen.

mod fault;
mod history;
mod judge;
mod registers;
mod run;
mod series;
mod server;
mod system;
mod table;
mod worker;
