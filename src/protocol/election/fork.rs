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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::super::ids::{Attempts, Mono, SessionId};
    use super::super::super::rules::Rules;
    use super::super::super::timing::Timing;
    use super::super::Action;
    use super::*;

    #[test]
    fn a_fork_takes_no_attempt_from_the_other() {
        let now = Mono::from_nanos(1_000_000_000_000);
        let profile = Profile {
            session: SessionId::from_u128(1),
            attempts: Attempts::default(),
            identity: Arc::from("me"),
            timing: Timing::from_lease(Duration::from_secs(15)).unwrap(),
            guard: true,
            app_checked: false,
            rules: Rules::REDIS,
            role_stagger: Duration::ZERO,
            seed: 7,
        };
        let mut one = Election::new(profile, now);
        let mut other = one.fork();
        let attempts = [&mut one, &mut other].map(|election| {
            election.handle_timeout(now);
            let Some(Action::Campaign { request, .. }) = election.poll_action() else { panic!("it asks at once") };
            request.candidate.attempt
        });
        assert_eq!(attempts[0], attempts[1]);
    }
}
