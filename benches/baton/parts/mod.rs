//! The parts, in the order in which they are measured and told.

mod app_crash;
mod clients;
mod crash;
mod footprint;
mod handover;
mod jobs;
mod locks;
mod micro;
mod oneshots;
mod poll;
mod quorum;
mod replicas;
mod rest;
mod roles;
mod safety;
mod scale;
mod scripts;

use crate::part::Part;

/// All of them. A new one is a file beside these and a word here.
pub const ALL: [Part; 17] = [
    poll::PART,
    handover::PART,
    crash::PART,
    app_crash::PART,
    rest::PART,
    replicas::PART,
    roles::PART,
    clients::PART,
    locks::PART,
    jobs::PART,
    oneshots::PART,
    safety::PART,
    quorum::PART,
    scripts::PART,
    scale::PART,
    footprint::PART,
    micro::PART,
];
