//! A copy of an election that goes its own way: for a search over all that may happen, which comes back to the same
//! state again and again (`tests/enumerate`). A derived `Clone` would share what its readers and its session share.

use std::sync::Arc;

use super::{Election, Profile};

impl Election {
    /// In the same state, and nothing that happens to the one is seen by the other.
    #[must_use]
    pub fn fork(&self) -> Self {
        let profile = Profile { attempts: self.profile.attempts.fork(), ..self.profile.clone() };
        Self {
            profile,
            leadership: Arc::new(self.leadership.fork()),
            random: self.random.clone(),
            phase: self.phase,
            knowledge: self.knowledge.clone(),
            takeover: self.takeover.clone(),
            shard_stagger: self.shard_stagger,
            looked_at: self.looked_at,
            listen_until: self.listen_until,
            out_until: self.out_until,
            trouble: self.trouble.clone(),
            app_healthy: self.app_healthy,
            answered: self.answered,
            answered_at: self.answered_at,
            leaving: self.leaving,
            flights: self.flights.clone(),
            actions: self.actions.clone(),
        }
    }
}
