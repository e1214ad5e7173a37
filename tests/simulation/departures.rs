//! How replicas learn that the process of another has ended, and what they might wrongly take for that.

use std::time::Duration;

use baton::protocol::{Input, SessionId};

use crate::clockwork::{MS, Nanos, SECOND};
use crate::processes::{ANSWER_VALIDITY_MS, Process};
use crate::world::{Happening, World};

/// How long what a kubelet saw takes to get to a replica.
const LATENESS: Nanos = 3 * SECOND;
/// A watch that is opened anew tells of old ends again.
const TOLD_AGAIN: (Nanos, Nanos) = (5 * SECOND, 30 * SECOND);

/// What is taken for the proof that a process has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evidence {
    /// Nothing: the lease runs out.
    Nothing,
    /// The account of its container's end, which names its session. Unless the whole pod has ended, the last promise is
    /// waited for.
    Session,
    /// The same, and no promise is waited for.
    Hasty,
    /// As the first, and ends that a runtime may have made up count, too.
    Trusting,
    /// The account of the end of a container in the pod of the one that leads, whichever instance of it that was.
    Name,
    /// That, or that the pod's object is gone: deleted by force, or because its node was not heard of.
    Gone,
}

/// The name of a pod; the processes in it follow one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pod(pub usize);

/// What a replica reads of an end.
#[derive(Clone, Copy, Debug)]
pub struct Account {
    session: SessionId,
    pod: Pod,
    /// The app has ended as well.
    whole: bool,
    /// Somebody has seen it: it was not made up.
    seen: bool,
}

impl World {
    /// A sidecar has ended, and sometimes its app with it: that gets about.
    pub fn end(&mut self, victim: usize) {
        if self.scenario.evidence == Evidence::Nothing {
            return;
        }
        // One in four is killed in the way that cannot be told from what is made up.
        let (whole, seen) = (self.chance(0.5), self.chance(0.75));
        let now = self.now;
        let dead = &mut self.processes[victim];
        if whole {
            for task in &mut dead.tasks {
                task.promised_until = task.promised_until.min(now);
            }
        }
        let account = Account { session: dead.session, pod: dead.pod, whole, seen };
        self.ends.push(account);
        for to in 0..self.processes.len() {
            self.tell_of(account, to);
        }
    }

    /// True when the kubelet starts the container again, soon and in the same pod.
    pub fn restarts_in_its_pod(&mut self, victim: usize) -> bool {
        if self.scenario.evidence == Evidence::Nothing || !self.chance(0.5) {
            return false;
        }
        let when = self.now + self.span(100 * MS, SECOND);
        self.at(when, Happening::Restart(self.processes[victim].pod));
        true
    }

    /// A node is cut off: after a while somebody deletes the pod's object, whatever still runs there.
    pub fn lose_sight_of(&mut self, victim: usize) {
        if self.scenario.evidence != Evidence::Gone || !self.chance(0.5) {
            return;
        }
        let account = Account {
            session: self.processes[victim].session,
            pod: self.processes[victim].pod,
            whole: false,
            seen: true,
        };
        for to in 0..self.processes.len() {
            self.tell_of(account, to);
        }
    }

    /// A runtime has lost the shim of a container, or of all containers of a pod: it makes their ends up.
    pub fn orphan(&mut self, victim: usize) {
        let whole = self.chance(0.5);
        let Process { session, pod, .. } = self.processes[victim];
        let account = Account { session, pod, whole, seen: false };
        self.ends.push(account);
        for to in 0..self.processes.len() {
            self.tell_of(account, to);
        }
    }

    /// A new replica reads what there is to be read.
    pub fn watch_from(&mut self, new: usize) {
        for account in self.ends.clone() {
            self.tell_of(account, new);
        }
    }

    fn tell_of(&mut self, account: Account, to: usize) {
        let when = self.now + self.span(MS, LATENESS);
        self.at(when, Happening::Departed { to, account });
        if self.chance(0.3) {
            let when = self.now + self.span(TOLD_AGAIN.0, TOLD_AGAIN.1);
            self.at(when, Happening::Departed { to, account });
        }
    }

    pub fn hear_of_an_end(&mut self, to: usize, account: Account) {
        if !account.seen && self.scenario.evidence != Evidence::Trusting {
            return;
        }
        if self.now < self.processes[to].cut.replies {
            // It is cut off from the API server as well, and reads it when it is back.
            self.at(self.processes[to].cut.replies.saturating_add(MS), Happening::Departed { to, account });
            return;
        }
        let waits = match self.scenario.evidence {
            Evidence::Hasty => false,
            Evidence::Nothing | Evidence::Session | Evidence::Trusting | Evidence::Name | Evidence::Gone => {
                !account.whole
            }
        };
        let promise = if waits { Duration::from_millis(ANSWER_VALIDITY_MS) } else { Duration::ZERO };
        let session = match self.scenario.evidence {
            // The name says nothing of which process it was: the one that runs there now is taken for it.
            Evidence::Name => self
                .processes
                .iter()
                .filter(|process| process.pod == account.pod)
                .map(|process| process.session)
                .next_back(),
            _ => Some(account.session),
        };
        if let Some(session) = session {
            self.input_all(to, &Input::Departed { session, promise });
        }
    }
}
