//! Chaos: real sidecars on real servers, faults from a seed, and a checker that reads every answer.
//!
//! `make test` runs each store for some seconds, always with the same seed; `make chaos` draws one and measures the
//! table of docs/guarantees.md. `make compat` makes two hundred faults on each server that is to be had. Settings:
//!
//! | variable | what |
//! |---|---|
//! | `BATON_CHAOS_SEED` | repeats a run's faults, though not the moments at which the processes meet them |
//! | `BATON_CHAOS_STORE` | only this store: the names of [`stage::Kind::name`] |
//! | `BATON_CHAOS_FAULT` | only this fault: the names of [`fault::Fault::name`] |
//! | `BATON_CHAOS_SECONDS` | how long: each store, or the whole table |
//! | `BATON_CHAOS_FAULTS` | so many faults are enough |
//! | `BATON_CHAOS_SERVICE` | one Redis behind what this service refuses: the names of docs/compatibility.md |
//! | `BATON_CHAOS_JOBS` | how many cells of the table are measured at a time; 2 |
//! | `BATON_CHAOS_WRITE` | the columns of the table that were measured as a whole go to docs/guarantees.md |
//! | `BATON_TEST_APISERVER` | `real`: Lease objects of a real API server, which takes Go to build; else of a fake one |

mod caught;
mod cluster;
mod fault;
mod judge;
mod leases;
mod matrix;
mod one;
mod quorum;
mod run;
mod sentinels;
mod series;
mod stage;
mod table;
mod traced;
