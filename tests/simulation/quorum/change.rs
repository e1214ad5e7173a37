//! Changing the list of members while elections run: what replicas are configured with, stage by stage.

use baton::protocol::{Input, Seat, Seats};

use super::world::{Happening, Replica, World};
use crate::clockwork::SECOND;

/// Two lists of members, by their places, and how replicas go from one to the other and back.
#[derive(Clone, Copy, Debug)]
pub struct Change {
    pub lists: [&'static [usize]; 2],
    pub way: Way,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Over both lists at once.
    Joint,
    /// From one to the other, by replicas that tell the members by which list they ask.
    Told,
    /// The same, and nobody tells.
    Silent,
}

impl Change {
    pub const PLACES: usize = 5;

    fn stages(&self) -> usize {
        if self.way == Way::Joint { 4 } else { 2 }
    }

    /// What a replica is configured with that begins in this stage: its seats, and what it tells of them.
    pub fn config(&self, stage: usize) -> (Seats, String) {
        let [one, other] = self.lists;
        let (before, after) = match (self.way, stage % self.stages()) {
            (_, 0) => (one, one),
            (Way::Joint, 1) => (one, other),
            (Way::Joint, 3) => (other, one),
            _ => (other, other),
        };
        let seat = |place| match (before.contains(&place), after.contains(&place)) {
            (true, true) => Some(Seat::Stays),
            (true, false) => Some(Seat::Leaves),
            (false, true) => Some(Seat::Joins),
            (false, false) => None,
        };
        let seats: Vec<Option<Seat>> = (0..Self::PLACES).map(seat).collect();
        let told = match self.way {
            Way::Silent => String::new(),
            Way::Told | Way::Joint => format!("{before:?}|{after:?}"),
        };
        (Seats::of(&seats, false), told)
    }
}

impl World {
    /// Replica by replica to the list of this stage; once all have it, to the next.
    pub fn roll(&mut self) {
        if self.calm {
            return;
        }
        let next = self.now + self.span(SECOND, 4 * SECOND);
        self.at(next, Happening::Roll);
        let old = |replica: &&Replica| replica.alive && replica.stage < self.stage;
        let Some(at) = self.replicas.iter().position(|replica| old(&replica) && !replica.ends) else {
            // As it is documented: no process of the step before is left, and somebody leads by this one.
            let is_done = !self.replicas.iter().any(|replica| old(&replica))
                && self.leader().is_some_and(|leader| self.replicas[leader].stage == self.stage);
            self.note(|world| format!("stage {}, done: {is_done}", world.stage));
            self.stage += usize::from(is_done || self.scenario.change.is_some_and(|change| change.way != Way::Joint));
            return;
        };
        if self.now < self.replicas[at].paused_until {
            return;
        }
        let begins = self.now + self.span(0, SECOND);
        if self.rng.bool() {
            self.note(|_| format!("replica-{at} is killed to begin anew"));
            self.replicas[at].alive = false;
        } else {
            self.note(|_| format!("replica-{at} ends to begin anew"));
            self.replicas[at].ends = true;
            self.input(at, Input::Shutdown);
        }
        self.at(begins, Happening::Join);
    }
}
