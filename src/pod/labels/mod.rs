//! Labels on pods that say who leads: this pod's own, and those that earlier leaders could not take back.

mod objects;
mod others;
mod own;

pub(super) use others::OtherLabels;
pub(super) use own::OwnLabels;
