//! The parts, in the order in which they are measured and told.

mod crash;
mod footprint;
mod handover;
mod locks;
mod micro;
mod poll;
mod replicas;
mod rest;
mod roles;

use crate::part::Part;

/// All of them. A new one is a file beside these and a word here.
pub const ALL: [Part; 9] = [
    poll::PART,
    handover::PART,
    crash::PART,
    rest::PART,
    replicas::PART,
    roles::PART,
    locks::PART,
    footprint::PART,
    micro::PART,
];
