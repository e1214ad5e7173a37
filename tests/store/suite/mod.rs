//! The rules of the protocol, one by one, for every store.
//!
//! A case is written once, against the trait. It names the faults that it needs and the rules of the protocol that it
//! is about; a [`Place`] says which faults the world may do to its store, and the store which rules are its own
//! ([`LeaseStore::rules`]). Both are data, so which cases a store answers for is settled before any runs, and
//! [`run`] reports the rules that had cases: each store's test says which those must be. A case that is left out is
//! printed with the reason.
//!
//! To have another store judged: implement [`Place`] beside its servers, and in a test of its own
//!
//! ```ignore
//! assert_eq!(conformance::run(Box::new(place)).await, [Rule::R1, …]);
//! ```

mod cases;
pub mod ledgers;
mod stage;

use std::collections::BTreeSet;
use std::pin::Pin;
use std::sync::Arc;

use async_trait::async_trait;
use baton::protocol::{RoleName, Rules};
use baton::store::{LeaseStore, PresenceStore};

pub use cases::ALL;
pub use stage::Stage;

/// The rules of the protocol, as `docs/guarantees.md` numbers them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    R1,
    R2,
    R3,
    R4,
    R5,
    R6,
    R7,
    R8,
}

impl Rule {
    pub const ALL: [Self; 8] = [Self::R1, Self::R2, Self::R3, Self::R4, Self::R5, Self::R6, Self::R7, Self::R8];

    /// All but R6, which only stores with replicas have.
    pub const WITHOUT_REPLICAS: [Self; 7] = [Self::R1, Self::R2, Self::R3, Self::R4, Self::R5, Self::R7, Self::R8];
}

/// What the world may do to a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// The lease goes away without a release, the record stays: an eviction, a DEL, a step of the store's clock.
    LeaseGone,
    /// Everything about the role is gone: FLUSHALL, or somebody deleted the object.
    AllForgotten,
    /// The store takes the lease for longer than it is, by hours: its clock was stepped back.
    LeaseStretched,
    /// Another server process has the data from now on, all of it: a restart, or a failover.
    AnotherServer,
    /// The store's servers have run for less than an hour, so that they cannot know what there was before. Always so in
    /// tests; nothing needs to be done for it.
    YoungServer,
    /// The replicas stop answering their master, and go on when it is relieved.
    ReplicasSilent,
}

/// A store, what is behind it, and what the world may do to that. Dropping it ends its servers.
#[async_trait(?Send)]
pub trait Place {
    /// A store that is reached already.
    fn store(&self) -> Arc<dyn LeaseStore>;

    /// The same, where replicas find each other. Called only for stores with [`Rules::REDIS`].
    fn presence(&self) -> Arc<dyn PresenceStore> {
        panic!("roles cannot be split here");
    }

    /// The faults that it may have.
    fn faults(&self) -> &'static [Fault];

    /// Does this to the role's data. Called only with one of [`Self::faults`]; done, for every server concerned, when
    /// it returns, and the store need not answer yet.
    async fn inflict(&mut self, fault: Fault, role: &RoleName);

    /// Ends a fault that lasts: of the present ones only [`Fault::ReplicasSilent`].
    async fn relieve(&mut self, fault: Fault, role: &RoleName) {
        panic!("{fault:?} of {role} does not last");
    }

    /// A store to the same place that asks for one acknowledgement (R6) and waits a fraction of a second for it.
    /// Called only where [`Fault::ReplicasSilent`] is one of its faults.
    async fn acknowledged(&self) -> Arc<dyn LeaseStore> {
        panic!("no replicas");
    }
}

/// One thing that must hold.
pub struct Case {
    /// A sentence, which begins with the rules that it is about: `r4_r5_…`.
    pub name: &'static str,
    /// The faults that it needs.
    pub needs: &'static [Fault],
    /// Whether it is about a store that has these rules.
    pub concerns: fn(Rules) -> bool,
    pub test: Test,
}

type Test = for<'a> fn(&'a mut Stage) -> Pin<Box<dyn Future<Output = ()> + 'a>>;

impl Case {
    /// The rules it is about.
    pub fn rules(&self) -> Vec<Rule> {
        let numbers = self.name.split('_').map_while(|word| word.strip_prefix('r')?.parse::<usize>().ok());
        numbers.map(|number| Rule::ALL[number - 1]).collect()
    }

    /// Why a store with these faults and rules need not answer for it.
    fn left_out(&self, faults: &[Fault], rules: Rules) -> Option<String> {
        if !(self.concerns)(rules) {
            return Some("the rule is not this store's".to_owned());
        }
        let missing = self.needs.iter().find(|need| !faults.contains(need))?;
        Some(format!("it cannot have {missing:?}"))
    }
}

/// Runs every case that this place answers for, each with a role of its own, and says which rules had one.
pub async fn run(place: Box<dyn Place>) -> Vec<Rule> {
    let mut stage = Stage::new(place);
    let mut seen = BTreeSet::new();
    for case in ALL {
        if let Some(why) = case.left_out(stage.faults(), stage.store().rules()) {
            eprintln!("left out: {}: {why}", case.name);
            continue;
        }
        // Told when it fails, since all cases are one test.
        eprintln!("case {}", case.name);
        stage.another_role();
        (case.test)(&mut stage).await;
        seen.extend(case.rules());
    }
    seen.into_iter().collect()
}
