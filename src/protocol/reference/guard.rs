//! R5 on the store's side: under which generation of the server a record was written, and until when its role is shut
//! for new grants. On Redis `generation.lua` (or `generation_told.lua`) and `common.lua` do this.

use std::sync::Arc;
use std::time::Duration;

use super::super::ids::StoreTime;
use super::super::messages::GuardCause;
use super::super::rules::Rules;
use super::lease::Server;

/// Whether what was written under this generation is the server's own. `id/number`: written by one whose replies count
/// with acknowledgements; whoever does not ask for those does not mind when replicas come. And whoever asks for nothing
/// takes all for the server's own, and leaves what stands there to those who ask.
pub(super) fn is_generation(stored: &str, server: Server<'_>) -> bool {
    server.is_unasked() || stored == server.generation || stored.split('/').next() == Some(server.generation)
}

/// A part of every record.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Guard {
    /// The generation of the server that wrote last; none while nothing was written under R5.
    generation: Option<Arc<str>>,
    shut: Option<(GuardCause, StoreTime)>,
}

impl Guard {
    /// Open, and written under this generation.
    pub(super) fn open(generation: &str) -> Self {
        Self { generation: Some(Arc::from(generation)), shut: None }
    }

    /// R6: whether it was written under the very generation that the server is of now.
    pub(super) fn is_of(&self, server: Server<'_>) -> bool {
        self.generation.as_deref() == Some(server.generation)
    }

    /// Under which generation it was written; none while nothing was written under R5.
    pub(super) fn generation(&self) -> Option<&str> {
        self.generation.as_deref()
    }

    /// Whether one stands, or stood and nobody has renewed since.
    pub(super) fn is_known(&self) -> bool {
        self.shut.is_some()
    }

    /// A number that differs between servers more often than not.
    pub(super) fn salt(&self) -> u64 {
        let generation = self.generation.as_deref().unwrap_or_default();
        generation.get(..4).and_then(|start| u64::from_str_radix(start, 16).ok()).unwrap_or(0)
    }

    /// Why the role is shut, and for how much longer.
    pub(super) fn active(&self, now: StoreTime) -> Option<(GuardCause, Duration)> {
        self.shut.and_then(|(cause, until)| (now < until).then(|| (cause, until.since(now))))
    }

    /// Shuts the role until then, unless it is shut for longer already.
    pub(super) fn shut(&mut self, cause: GuardCause, until: StoreTime) {
        if self.shut.is_none_or(|(_, present)| present < until) {
            self.shut = Some((cause, until));
        }
    }

    /// Forgets a guard that is over, so that a step of the clock back does not begin it again.
    pub(super) fn end(&mut self, now: StoreTime) {
        self.shut.take_if(|(_, until)| *until <= now);
    }

    /// No guard is longer than what it was set for: one that seems so was set before the store's clock was stepped
    /// back. Whether it seemed so.
    pub(super) fn clamp(&mut self, longest: StoreTime) -> bool {
        let Some((_, until)) = self.shut.as_mut().filter(|(_, until)| longest < *until) else { return false };
        *until = longest;
        true
    }

    /// *Empty*, where the record is new, and *generation*. `span`: for how long. True when something was noticed.
    pub(super) fn notice(&mut self, server: Server<'_>, span: Duration, is_new: bool, rules: Rules) -> bool {
        let is_same = server.is_unasked() || self.generation.as_deref().is_some_and(|by| is_generation(by, server));
        if !is_new && is_same {
            return false;
        }
        let until = server.now.plus(span);
        if !is_new {
            self.shut(GuardCause::Generation, until);
        } else if rules.empty {
            self.shut(GuardCause::Empty, until);
        }
        self.generation = Some(Arc::from(server.generation));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(generation: &str) -> Server<'_> {
        Server { now: StoreTime(1_000), uptime: Duration::ZERO, generation }
    }

    #[test]
    fn a_record_is_of_its_server_whether_replicas_were_asked_or_not_and_of_all_where_nobody_asks() {
        let is_own = |stored, generation| is_generation(stored, server(generation));
        assert!(is_own("a", "a") && is_own("a/3", "a/3") && is_own("a/3", "a"));
        assert!(!is_own("a", "a/3") && !is_own("a/2", "a/3") && !is_own("a", "b"));
        assert!(is_own("a", "") && is_own("a/3", ""));
    }

    #[test]
    fn a_guard_says_under_which_server_it_was_written_and_whether_it_was_ever_shut() {
        let mut guard = Guard::open("00ff1234");
        assert_eq!((guard.generation(), guard.is_known(), guard.salt()), (Some("00ff1234"), false, 255));
        guard.shut(GuardCause::Vanished, StoreTime(10));
        assert!(guard.is_known());
        assert_eq!((Guard::default().generation(), Guard::default().salt()), (None, 0));
    }

    #[test]
    fn of_two_reasons_for_one_moment_the_first_stays() {
        let mut guard = Guard::open("a");
        guard.shut(GuardCause::Vanished, StoreTime(2_000));
        guard.shut(GuardCause::Empty, StoreTime(2_000));
        assert_eq!(guard.active(StoreTime(1_000)).map(|(cause, _)| cause), Some(GuardCause::Vanished));
        assert!(!guard.clamp(StoreTime(2_000)), "it is no longer than that");
        assert!(guard.clamp(StoreTime(1_999)));
    }
}
