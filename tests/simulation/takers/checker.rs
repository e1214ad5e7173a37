//! What must hold, looked at after every event.

use std::collections::{BTreeMap, BTreeSet};

use baton::protocol::jobs::{JobName, Revision};

/// One job, as it was put.
pub type Errand = (JobName, Revision);

#[derive(Debug, Default)]
pub struct Checker {
    /// Which attempts of which run were started: the run is told by its moment.
    started: BTreeSet<(Errand, u64, u32)>,
    /// How many runs of a job succeeded, or failed for good.
    done: BTreeMap<Errand, u32>,
    /// Those whose making was answered, and that nobody deleted or replaced.
    promised: BTreeSet<Errand>,
    pub complaints: BTreeSet<String>,
    pub first: Option<String>,
    pub starts: u64,
    /// The store may: then a run may be made again, and a job be gone.
    may_lose: bool,
}

impl Checker {
    pub fn new(may_lose: bool) -> Self {
        Self { may_lose, ..Self::default() }
    }

    pub fn complain(&mut self, what: &str, about: &str) {
        self.complaints.insert(what.to_owned());
        self.first.get_or_insert_with(|| format!("{about} {what}"));
    }

    pub fn started(&mut self, job: Errand, slot: u64, attempt: u32) {
        self.starts += 1;
        let about = format!("{} of {slot}, attempt {attempt}:", job.0);
        if !self.started.insert((job, slot, attempt)) && !self.may_lose {
            self.complain("an attempt was started twice", &about);
        }
    }

    pub fn ended(&mut self, job: Errand) {
        *self.done.entry(job).or_default() += 1;
    }

    pub fn promise(&mut self, job: Errand) {
        self.promised.retain(|(name, revision)| *name != job.0 || *revision > job.1);
        self.promised.insert(job);
    }

    pub fn forget(&mut self, name: &JobName) {
        self.promised.retain(|(promised, _)| promised != name);
    }

    /// All is quiet now.
    pub fn end(&mut self, left: &[String]) {
        for name in left {
            self.complain("is still there at the end", name);
        }
        if self.may_lose {
            return;
        }
        let lost: Vec<_> = self.promised.iter().filter(|job| !self.done.contains_key(*job)).cloned().collect();
        for (name, _) in lost {
            self.complain("never had its run", name.as_str());
        }
    }
}
