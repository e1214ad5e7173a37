//! The store's side of jobs that are made at run time: what one atomic step does to them. The scripts of the Redis
//! store are held against it (`registry_put.lua`, `registry_get.lua`, `registry_list.lua`, `registry_delete.lua`,
//! `registry_wish.lua`, `registry_take.lua`, `registry_settle.lua`, and `registry_common.lua` for all).
//!
//! Such a job is one record, and the record is its ledger: a leader *takes* what is due, which counts an attempt and
//! gives it a token of its own, and *settles* each attempt once it has ended. Whoever is due waits in a queue by that
//! moment, one for each role, so that looking costs what is due and not what is stored.
//!
//! ```text
//!          put                     take (due, under the term's token)
//!   ──────────────► queued by due ─────────────────────────────────────► taken ──┐
//!                      ▲   ▲                                               │     │ settle: it is done
//!                      │   └──── settle: the next run, or another attempt ─┤     ▼
//!                      └──────── a later term takes for the first time ────┘   gone
//! ```

use std::collections::{BTreeMap, BTreeSet};

use super::lease::TokensExhausted;
use super::ledger::Revision;
use crate::protocol::jobs::{JobName, Wall};
use crate::protocol::{RoleName, StoreTime, Token};

/// A job as it is stored. `B` is what the store does not read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredJob<B> {
    /// Whose leader runs it.
    pub role: RoleName,
    /// Which version this is: another with everything that is put.
    pub revision: Revision,
    /// The moment that its present or next run is for.
    pub slot: Wall,
    /// When the next attempt is due.
    pub due: Wall,
    /// How many attempts of the run were taken.
    pub attempt: u32,
    /// The token of the last attempt; none yet: [`Token::NONE`].
    pub ticket: Token,
    /// No run begins until it is resumed.
    pub suspended: bool,
    /// An attempt was taken and is not settled.
    pub taken: bool,
    /// The attempt before the last one was never settled: its leader was gone.
    pub interrupted: bool,
    /// What was put.
    pub spec: B,
    /// What leaders have written since.
    pub state: B,
}

/// Makes a job, or puts another in its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobPut<B> {
    pub role: RoleName,
    /// When its first run is due, and what it is for.
    pub slot: Wall,
    pub suspended: bool,
    pub spec: B,
    pub state: B,
    /// Whether a job of this name may be there already.
    pub overwrite: bool,
}

/// The answer to a [`JobPut`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobPutReply {
    Created(Revision),
    /// Another stood there, and is gone with all that was known of it.
    Replaced(Revision),
    /// The same stood there already, with the same role, and stays as it is.
    Unchanged(Revision),
    /// Another stands there, and stays.
    Exists(Revision),
}

/// What somebody wishes who need not lead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobWish {
    /// A run now, also of a job that is suspended.
    Run { now: Wall },
    /// No run begins any more. What has begun goes on to its end.
    Suspend,
    /// Runs begin again, with this one.
    Resume { slot: Wall },
}

/// The answer to a [`JobWish`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobWishReply {
    /// The run that it is about: the wished one, or the next.
    Granted { slot: Wall },
    /// It runs already.
    Busy,
    /// There is no such job, or another.
    Gone,
}

/// A leader takes what is due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobTake {
    pub role: RoleName,
    /// The leader's term.
    pub token: Token,
    /// Counts the takes of a term from 1. The same again: the answer was lost, and is given again.
    pub request: u64,
    /// The greatest token of an attempt that the leader has seen (R3).
    pub floor: Token,
    /// What is due by now is taken: by the leader's clock of the day.
    pub now: Wall,
    /// How many at the most.
    pub most: usize,
    /// Takes nothing, and tells of everything that was taken in this term.
    pub all: bool,
}

/// The answer to a [`JobTake`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobTakeReply<B> {
    Taken {
        jobs: Vec<(JobName, StoredJob<B>)>,
        /// When the next of the role is due.
        next: Option<Wall>,
        /// How many of the role are taken, these included.
        held: usize,
    },
    /// A later term has taken: nothing is taken.
    Stale {
        /// That term's token.
        fence: Token,
    },
}

/// An attempt has ended, or never began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobSettle<B> {
    /// The leader's term.
    pub token: Token,
    pub revision: Revision,
    /// The attempt's own token.
    pub ticket: Token,
    pub then: Settlement<B>,
}

/// What becomes of the job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Settlement<B> {
    /// It is done.
    Remove,
    /// It is due again.
    Again {
        slot: Wall,
        due: Wall,
        /// How many attempts of that run there were.
        attempt: u32,
        /// What is written of the job; none: what stands there stays.
        state: Option<B>,
    },
}

/// The answer to a [`JobSettle`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobSettleReply {
    Settled,
    /// That attempt is not open: it was settled, or the job was deleted, or another was put in its place.
    Gone,
    /// A later term has taken: nothing is written.
    Stale {
        /// That term's token.
        fence: Token,
    },
}

/// What is known of a role's leaders.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Desk {
    fence: Token,
    request: u64,
    /// The greatest token of an attempt.
    last: Token,
    /// Which jobs were taken, and by which request.
    taken: BTreeMap<JobName, u64>,
    queue: BTreeSet<(Wall, JobName)>,
}

impl Default for Desk {
    fn default() -> Self {
        Self { fence: Token::NONE, request: 0, last: Token::NONE, taken: BTreeMap::new(), queue: BTreeSet::new() }
    }
}

/// All jobs of a store that were made at run time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobRegistry<B> {
    jobs: BTreeMap<JobName, StoredJob<B>>,
    desks: BTreeMap<RoleName, Desk>,
}

impl<B> Default for JobRegistry<B> {
    fn default() -> Self {
        Self { jobs: BTreeMap::new(), desks: BTreeMap::new() }
    }
}

impl<B: Clone + PartialEq> JobRegistry<B> {
    /// Puts a job. Whether leaders are to hear of it.
    ///
    /// # Errors
    /// The store's clock is centuries ahead.
    pub fn put(
        &mut self,
        name: &JobName,
        request: JobPut<B>,
        now: StoreTime,
    ) -> Result<(JobPutReply, bool), TokensExhausted> {
        let JobPut { role, slot, suspended, spec, state, overwrite } = request;
        let before = self.jobs.get(name).cloned();
        if let Some(job) = &before {
            if job.spec == spec && job.role == role {
                return Ok((JobPutReply::Unchanged(job.revision), false));
            }
            if !overwrite {
                return Ok((JobPutReply::Exists(job.revision), false));
            }
        }
        let known = before.as_ref().map_or(0, |job| job.revision.get());
        let revision = Revision::new(now.0.max(known + 1)).ok_or(TokensExhausted)?;
        self.take_away(name);
        let (attempt, ticket, taken, interrupted) = (0, Token::NONE, false, false);
        let job = StoredJob {
            role: role.clone(),
            revision,
            slot,
            due: slot,
            attempt,
            ticket,
            suspended,
            taken,
            interrupted,
            spec,
            state,
        };
        self.jobs.insert(name.clone(), job);
        if !suspended {
            self.enqueue(name, &role, slot);
        }
        let ran = before.as_ref().is_some_and(|job| job.taken);
        let news = ran || (!suspended && self.is_first(name, &role));
        Ok(match before {
            Some(_) => (JobPutReply::Replaced(revision), news),
            None => (JobPutReply::Created(revision), news),
        })
    }

    /// A job as it stands.
    pub fn get(&self, name: &JobName) -> Option<StoredJob<B>> {
        self.jobs.get(name).cloned()
    }

    /// The jobs after this name, in their order: so many at the most.
    pub fn list(&self, after: Option<&JobName>, most: usize) -> Vec<(JobName, StoredJob<B>)> {
        let later = self.jobs.iter().filter(|(name, _)| after.is_none_or(|after| *name > after));
        later.take(most).map(|(name, job)| (name.clone(), job.clone())).collect()
    }

    /// Removes a job. Whether it was there, and whether leaders are to hear of it.
    pub fn delete(&mut self, name: &JobName) -> (bool, bool) {
        self.take_away(name).map_or((false, false), |job| (true, job.taken))
    }

    /// Does what somebody wishes, who knows this version of the job.
    pub fn wish(&mut self, name: &JobName, revision: Revision, wish: JobWish) -> JobWishReply {
        let known = self.jobs.get_mut(name).filter(|job| job.revision == revision);
        let Some(job) = known else { return JobWishReply::Gone };
        let (role, before, taken, begun) = (job.role.clone(), job.due, job.taken, job.attempt > 0);
        match wish {
            JobWish::Run { .. } if taken => return JobWishReply::Busy,
            JobWish::Run { now } => {
                job.slot = if begun { job.slot } else { now };
                job.due = now;
            }
            JobWish::Suspend => job.suspended = true,
            JobWish::Resume { slot } => {
                if job.suspended && !taken && !begun {
                    (job.slot, job.due) = (slot, slot);
                }
                job.suspended = false;
            }
        }
        let (slot, due) = (job.slot, job.due);
        if !taken {
            self.dequeue(name, &role, before);
            if begun || wish != JobWish::Suspend {
                self.enqueue(name, &role, due);
            }
        }
        JobWishReply::Granted { slot }
    }

    /// Takes what is due, unless a later term has.
    pub fn take(&mut self, request: &JobTake) -> JobTakeReply<B> {
        let desk = self.desks.entry(request.role.clone()).or_default();
        if request.token < desk.fence {
            return JobTakeReply::Stale { fence: desk.fence };
        }
        if request.token > desk.fence {
            self.interrupt(&request.role);
            let desk = self.desks.entry(request.role.clone()).or_default();
            (desk.fence, desk.request) = (request.token, 0);
        }
        let desk = self.desks.entry(request.role.clone()).or_default();
        let names = if request.all {
            desk.taken.keys().cloned().collect()
        } else if request.request > desk.request {
            desk.request = request.request;
            desk.last = desk.last.max(request.floor).max(request.token);
            let due = desk.queue.iter().take_while(|(due, _)| *due <= request.now);
            let names: Vec<JobName> = due.take(request.most).map(|(_, name)| name.clone()).collect();
            for name in &names {
                self.hand_out(name, &request.role, request.request);
            }
            names
        } else {
            let same = desk.taken.iter().filter(|(_, by)| **by == request.request);
            same.map(|(name, _)| name.clone()).collect()
        };
        let desk = self.desks.entry(request.role.clone()).or_default();
        let (next, held) = (desk.queue.first().map(|(due, _)| *due), desk.taken.len());
        let jobs = names.into_iter().filter_map(|name| {
            let job = self.jobs.get(&name)?.clone();
            Some((name, job))
        });
        JobTakeReply::Taken { jobs: jobs.collect(), next, held }
    }

    /// Ends an attempt, unless a later term has taken.
    pub fn settle(&mut self, name: &JobName, request: JobSettle<B>) -> JobSettleReply {
        let JobSettle { token, revision, ticket, then } = request;
        let known = self.jobs.get(name).filter(|job| job.revision == revision);
        let Some(StoredJob { role, due, ticket: last, taken, .. }) = known.cloned() else {
            return JobSettleReply::Gone;
        };
        let desk = self.desks.entry(role.clone()).or_default();
        if token < desk.fence {
            return JobSettleReply::Stale { fence: desk.fence };
        }
        // A store that has lost its last writes may know of an earlier attempt only, never of a later one.
        if !taken || last > ticket {
            return JobSettleReply::Gone;
        }
        match then {
            Settlement::Remove => drop(self.take_away(name)),
            Settlement::Again { slot, due: again, attempt, state } => {
                desk.taken.remove(name);
                self.dequeue(name, &role, due);
                let Some(job) = self.jobs.get_mut(name) else { return JobSettleReply::Gone };
                (job.slot, job.due, job.attempt, job.taken) = (slot, again, attempt, false);
                job.state = state.unwrap_or_else(|| job.state.clone());
                if attempt > 0 || !job.suspended {
                    self.enqueue(name, &role, again);
                }
            }
        }
        JobSettleReply::Settled
    }

    /// Gives the next attempt of a job to the leader who asks.
    fn hand_out(&mut self, name: &JobName, role: &RoleName, request: u64) {
        let (Some(job), Some(desk)) = (self.jobs.get_mut(name), self.desks.get_mut(role)) else { return };
        desk.queue.remove(&(job.due, name.clone()));
        desk.taken.insert(name.clone(), request);
        desk.last = Token::new(desk.last.get().saturating_add(1)).unwrap_or(desk.last);
        (job.interrupted, job.taken) = (job.taken, true);
        (job.attempt, job.ticket) = (job.attempt.saturating_add(1), desk.last);
    }

    /// What an earlier term has taken goes back into the queue, where it was. Whoever takes it is told.
    fn interrupt(&mut self, role: &RoleName) {
        let Some(desk) = self.desks.get_mut(role) else { return };
        for name in std::mem::take(&mut desk.taken).into_keys() {
            if let Some(job) = self.jobs.get(&name) {
                desk.queue.insert((job.due, name));
            }
        }
    }

    fn enqueue(&mut self, name: &JobName, role: &RoleName, due: Wall) {
        self.desks.entry(role.clone()).or_default().queue.insert((due, name.clone()));
    }

    fn dequeue(&mut self, name: &JobName, role: &RoleName, due: Wall) {
        if let Some(desk) = self.desks.get_mut(role) {
            desk.queue.remove(&(due, name.clone()));
        }
    }

    fn is_first(&self, name: &JobName, role: &RoleName) -> bool {
        let first = self.desks.get(role).and_then(|desk| desk.queue.first());
        first.is_some_and(|(_, first)| first == name)
    }

    /// Everything that is kept of a job goes.
    fn take_away(&mut self, name: &JobName) -> Option<StoredJob<B>> {
        let job = self.jobs.remove(name)?;
        self.dequeue(name, &job.role, job.due);
        if let Some(desk) = self.desks.get_mut(&job.role) {
            desk.taken.remove(name);
        }
        Some(job)
    }
}

#[cfg(test)]
mod tests;
