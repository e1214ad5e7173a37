//! How apps show that they live, and what it is worth when one dies beside a sidecar that does not.

use std::time::Duration;

use baton::protocol::{AppHoldEnd, AppHoldId, Input, Mono, Promise};

use crate::app_sign::AppSign;
use crate::clockwork::{MS, Nanos, SECOND};
use crate::processes::{At, Task};
use crate::world::{Happening, World};

impl Task {
    /// What the app is told now.
    pub fn tell_app(&mut self, local: Mono, sign: AppSign) -> Option<Promise> {
        let leadership = self.election.leadership();
        match (self.hold, sign.scope()) {
            (_, None) => leadership.promise(local),
            // One that has lost the lead is of no more use.
            (Some(hold), _) => leadership.promise_held(local, hold),
            (None, Some(scope)) => {
                let (hold, promise) = leadership.open_hold(local, scope)?;
                self.hold = Some(hold);
                Some(promise)
            }
        }
    }
}

impl World {
    /// The app of a process is killed, and starts again a while later. Its kernel closes what it had open.
    pub fn kill_app(&mut self, victim: usize) -> Nanos {
        let (now, down) = (self.now, self.span(SECOND, 20 * SECOND));
        let child = self.scenario.app.leaves_a_child();
        let of = &mut self.processes[victim];
        of.app_down_until = now + down;
        let mut closed = Vec::new();
        for (task, at) in of.tasks.iter_mut().zip(0..) {
            if !child {
                task.promised_until = task.promised_until.min(now);
            }
            closed.extend(task.hold.take().map(|hold| (At { process: victim, task: at }, hold)));
        }
        for (at, hold) in closed {
            let when = now + self.span(0, 5 * MS);
            self.at(when, Happening::AppCloses { at, hold, end: AppHoldEnd::Closed });
        }
        down
    }

    /// It has read that it does not lead, and stops. One that has a child waits for that, and says so.
    pub fn app_stops(&mut self, at: At, hold: AppHoldId) {
        let (now, sign) = (self.now, self.scenario.app);
        let task = self.task(at);
        if task.hold.take_if(|its| *its == hold).is_none() {
            return;
        }
        if sign != AppSign::Mistaken {
            task.promised_until = task.promised_until.min(now);
        }
        let end = if sign.leaves_a_child() { AppHoldEnd::Stopped } else { AppHoldEnd::Closed };
        self.app_closes(at, hold, end);
    }

    /// A sidecar finds that a connection of its app has ended.
    pub fn app_closes(&mut self, at: At, hold: AppHoldId, end: AppHoldEnd) {
        if self.awake(at.process, || Happening::AppCloses { at, hold, end })
            && self.task(at).election.leadership().close_hold(hold, end)
        {
            self.input(at, Input::AppLeft { cooldown: Duration::from_secs(3) });
        }
    }
}
