//! What an app may be told right now: the term, its deadline and the promises given out under it (R2, R7).
//!
//! The election writes it, anyone may read it from any thread. Leadership is computed at each read from the deadline,
//! so a stalled task never makes an answer lie; and an answer is recorded as a promise in the same step in which it is
//! given, so a drain that begins afterwards knows of it.

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use std::sync::PoisonError;
#[cfg(not(feature = "shuttle"))]
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

// What tries the orders in which this is read and written: only the tests in `schedules` work with it.
#[cfg(feature = "shuttle")]
use shuttle::sync::{Mutex, MutexGuard};

use super::super::ids::{Mono, Token};
use super::app_hold::{AppHoldEnd, AppHoldId, AppHoldScope};

/// One `leader: true`, with its own expiry (P3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Promise {
    /// The fencing token of the term.
    pub token: Token,
    /// From now until when the caller may act on it.
    pub valid_for: Duration,
}

#[derive(Clone, Copy, Debug, Hash)]
struct AppHold {
    scope: AppHoldScope,
    /// The latest moment until which anything told over it is valid.
    until: Mono,
}

#[derive(Clone, Debug, Default, Hash)]
struct Inner {
    token: Token,
    /// The term's deadline; the origin of time while there is no open term, so that it is always past.
    deadline: Mono,
    /// The last term was ended by this replica itself, which hands over.
    drains: bool,
    /// The latest moment until which any answer to the app, of the current or an earlier term, is valid.
    app_until: Mono,
    /// The connections by which apps show that they live, each with its own promises.
    holds: BTreeMap<AppHoldId, AppHold>,
    last_hold: u64,
    /// The same of promises to this replica's own work.
    work_until: Mono,
    /// How much of that work goes on, and for how long a drain waits for it at the most, beyond what was promised.
    work: usize,
    linger: Duration,
}

impl Inner {
    fn is_held(&self) -> bool {
        self.holds.keys().any(|id| id.token() == self.token)
    }

    fn promised_until(&self) -> Mono {
        let held = self.holds.values().map(|hold| hold.until).max().unwrap_or_default();
        self.app_until.max(held).max(self.work_until)
    }
}

/// See the module. A lock held for a few instructions: cheaper than an answer's JSON by three orders of magnitude.
#[derive(Debug)]
pub struct Leadership {
    answer_validity: Duration,
    inner: Mutex<Inner>,
}

/// What it says now.
impl Hash for Leadership {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.answer_validity.hash(state);
        self.lock().hash(state);
    }
}

impl Leadership {
    /// Not leading, no promise outstanding. `answer_validity` is the longest promise of one answer.
    pub fn new(answer_validity: Duration) -> Self {
        Self { answer_validity, inner: Mutex::new(Inner::default()) }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Nothing panics while it is held, and each field is valid alone.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Another that says the same now.
    pub(super) fn fork(&self) -> Self {
        Self { answer_validity: self.answer_validity, inner: Mutex::new(self.lock().clone()) }
    }

    /// Answers an app: a promise when this replica leads at `now`, recorded before it is returned.
    pub fn promise(&self, now: Mono) -> Option<Promise> {
        self.give(now, |inner| &mut inner.app_until)
    }

    /// The same to work of this replica's own, between [`Self::begin_work`] and [`Self::end_work`]: the app's word that
    /// it has stopped says nothing of that.
    pub fn promise_work(&self, now: Mono) -> Option<Promise> {
        self.give(now, |inner| &mut inner.work_until)
    }

    fn give(&self, now: Mono, until: fn(&mut Inner) -> &mut Mono) -> Option<Promise> {
        let mut inner = self.lock();
        let promise = self.promised_now(&inner, now)?;
        let until = until(&mut inner);
        *until = (*until).max(now + promise.valid_for);
        Some(promise)
    }

    /// What may be promised; it is to be recorded before the lock is given up.
    fn promised_now(&self, inner: &Inner, now: Mono) -> Option<Promise> {
        let valid_for = inner.deadline.since(now).min(self.answer_validity);
        (!valid_for.is_zero()).then_some(Promise { token: inner.token, valid_for })
    }

    /// This replica itself begins to act as leader: a job's program, say. A drain keeps the lease for it for so long,
    /// while it can be renewed, and at least until what was promised to it has run out.
    pub fn begin_work(&self, linger: Duration) {
        let mut inner = self.lock();
        inner.work += 1;
        inner.linger = inner.linger.max(linger);
    }

    /// Until when work may go on, and of which term.
    pub fn work_until(&self) -> (Token, Mono) {
        let inner = self.lock();
        (inner.token, inner.work_until)
    }

    /// Some of that work has ended. True when it was the last: what was promised to it stands no longer, which a drain
    /// shall hear of ([`Input::WorkEnded`](super::Input::WorkEnded)).
    pub fn end_work(&self) -> bool {
        let mut inner = self.lock();
        inner.work = inner.work.saturating_sub(1);
        if inner.work == 0 {
            inner.work_until = Mono::default();
            inner.linger = Duration::ZERO;
        }
        inner.work == 0
    }

    /// An app begins to show by a connection that it lives, when this replica leads at `now`; with the first promise.
    pub fn open_hold(&self, now: Mono, scope: AppHoldScope) -> Option<(AppHoldId, Promise)> {
        let mut inner = self.lock();
        let promise = self.promised_now(&inner, now)?;
        inner.last_hold += 1;
        let (id, until) = (AppHoldId::new(promise.token, inner.last_hold), now + promise.valid_for);
        inner.holds.insert(id, AppHold { scope, until });
        Some((id, promise))
    }

    /// A further promise over that connection, in the same term.
    pub fn promise_held(&self, now: Mono, id: AppHoldId) -> Option<Promise> {
        let mut inner = self.lock();
        let promise = self.promised_now(&inner, now)?;
        let hold = inner.holds.get_mut(&id).filter(|_| id.token() == promise.token)?;
        hold.until = hold.until.max(now + promise.valid_for);
        Some(promise)
    }

    /// Until when what was told over it stands; none when it has ended.
    pub fn held_until(&self, id: AppHoldId) -> Option<Mono> {
        self.lock().holds.get(&id).map(|hold| hold.until)
    }

    /// It has ended. True when no other is left of the present term, which shall end then
    /// ([`Input::AppLeft`](super::Input::AppLeft)).
    pub fn close_hold(&self, id: AppHoldId, end: AppHoldEnd) -> bool {
        let mut inner = self.lock();
        let Some(hold) = inner.holds.remove(&id) else { return false };
        let is_over = match end {
            AppHoldEnd::Stopped => true,
            AppHoldEnd::Closed => hold.scope == AppHoldScope::Process,
            AppHoldEnd::Broken => false,
        };
        if !is_over {
            inner.app_until = inner.app_until.max(hold.until);
        }
        id.token() == inner.token && !inner.is_held()
    }

    /// Whether an app shows that it lives.
    pub(super) fn is_held(&self) -> bool {
        self.lock().is_held()
    }

    /// Whether this replica leads at `now`, promising nothing beyond this moment.
    pub fn leads(&self, now: Mono) -> bool {
        now < self.lock().deadline
    }

    /// The term's token and the time until its deadline, zero tokens and times when there is none. For metrics.
    pub fn remaining(&self, now: Mono) -> Option<(Token, Duration)> {
        let inner = self.lock();
        (now < inner.deadline).then(|| (inner.token, inner.deadline.since(now)))
    }

    /// Whether the last term was ended by this replica itself. True from the very moment that it leads no longer, which
    /// is before the election's state is told.
    pub fn drains(&self) -> bool {
        self.lock().drains
    }

    /// Until when promises stand, of this term or an earlier one.
    pub fn promised_until(&self) -> Mono {
        self.lock().promised_until()
    }

    /// Opens a term, or moves its deadline. A deadline never moves back within a term: an answer may rest on it.
    pub(super) fn open(&self, token: Token, deadline: Mono) {
        let mut inner = self.lock();
        inner.deadline = if inner.token == token { inner.deadline.max(deadline) } else { deadline };
        inner.token = token;
        inner.drains = false;
    }

    /// Ends the term for readers, at once. Returns until when the promises given so far stand; none is added after
    /// this.
    pub(super) fn close(&self) -> Mono {
        let mut inner = self.lock();
        inner.deadline = Mono::default();
        inner.drains = false;
        inner.promised_until()
    }

    /// [`Self::close`], and says that it is a handover.
    pub(super) fn drain(&self) -> Mono {
        let mut inner = self.lock();
        inner.deadline = Mono::default();
        inner.drains = true;
        inner.promised_until()
    }

    /// A drain that began then may last until this deadline: that much is promised to the work that goes on. Returns
    /// until when promises stand.
    pub(super) fn linger(&self, begun: Mono, deadline: Mono) -> Mono {
        let mut inner = self.lock();
        if inner.work > 0 {
            inner.work_until = inner.work_until.max(deadline.min(begun + inner.linger));
        }
        inner.promised_until()
    }

    /// The app says that it has stopped acting: nothing that it was told is outstanding any more.
    pub(super) fn forget_app_promises(&self) {
        let mut inner = self.lock();
        inner.app_until = Mono::default();
        inner.holds.values_mut().for_each(|hold| hold.until = Mono::default());
    }
}

#[cfg(test)]
mod tests {
    use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};

    use super::*;

    fn at(ms: u64) -> Mono {
        Mono::from_nanos(ms * 1_000_000)
    }

    const VALIDITY: Duration = Duration::from_millis(300);

    #[test]
    fn an_answer_promises_the_shorter_of_validity_and_what_is_left() {
        let leadership = Leadership::new(VALIDITY);
        assert_eq!(leadership.promise(at(1)), None);
        let token = Token::new(7).unwrap();
        leadership.open(token, at(1_000));
        assert_eq!(leadership.promise(at(100)), Some(Promise { token, valid_for: VALIDITY }));
        assert_eq!(leadership.promised_until(), at(400));
        assert_eq!(leadership.promise(at(900)).map(|p| p.valid_for), Some(Duration::from_millis(100)));
        assert_eq!(leadership.promise(at(1_000)), None, "past the deadline nobody leads, whatever is stored");
        assert_eq!(leadership.promised_until(), at(1_000));
    }

    #[test]
    fn the_moment_of_its_deadline_is_no_part_of_a_term() {
        let leadership = Leadership::new(VALIDITY);
        let token = Token::new(7).unwrap();
        leadership.open(token, at(1_000));
        let (last, over) = (Mono::from_nanos(999_999_999), at(1_000));
        assert_eq!([leadership.leads(last), leadership.leads(over)], [true, false]);
        let left = [leadership.remaining(last), leadership.remaining(over)];
        assert_eq!(left, [Some((token, Duration::from_nanos(1))), None]);
    }

    #[test]
    fn a_closed_term_promises_nothing_but_its_promises_stand() {
        let leadership = Leadership::new(VALIDITY);
        leadership.open(Token::new(7).unwrap(), at(1_000));
        leadership.promise(at(500));
        assert_eq!(leadership.close(), at(800));
        assert_eq!((leadership.promise(at(501)), leadership.leads(at(501))), (None, false));
        assert_eq!(leadership.promised_until(), at(800));
        assert!(!leadership.drains());
    }

    #[test]
    fn a_fork_says_the_same_and_goes_its_own_way() {
        let hash = |leadership: &Leadership| BuildHasherDefault::<DefaultHasher>::default().hash_one(leadership);
        let leadership = Leadership::new(VALIDITY);
        leadership.open(Token::new(7).unwrap(), at(1_000));
        let fork = leadership.fork();
        assert_eq!((hash(&fork), fork.leads(at(999))), (hash(&leadership), true));
        fork.promise(at(100));
        assert_eq!(leadership.promised_until(), Mono::default());
        assert_ne!(hash(&fork), hash(&leadership));
    }

    #[test]
    fn a_drain_is_told_from_a_loss_until_the_term_is_lost_or_another_begins() {
        let leadership = Leadership::new(VALIDITY);
        leadership.open(Token::new(7).unwrap(), at(1_000));
        leadership.promise(at(500));
        assert_eq!((leadership.drain(), leadership.leads(at(501)), leadership.drains()), (at(800), false, true));
        leadership.open(Token::new(8).unwrap(), at(2_000));
        assert!(!leadership.drains());
        leadership.drain();
        leadership.close();
        assert!(!leadership.drains());
    }

    #[test]
    fn what_a_process_was_told_over_its_connection_ends_with_it_and_nothing_else_does() {
        let leadership = Leadership::new(VALIDITY);
        assert_eq!(leadership.open_hold(at(1), AppHoldScope::Process), None);
        let token = Token::new(7).unwrap();
        leadership.open(token, at(1_000));
        let promise = Promise { token, valid_for: VALIDITY };
        let (first, told) = leadership.open_hold(at(100), AppHoldScope::Process).unwrap();
        assert_eq!((told, leadership.held_until(first)), (promise, Some(at(400))));
        let (second, _) = leadership.open_hold(at(150), AppHoldScope::Process).unwrap();
        assert_eq!(leadership.promise_held(at(200), second), Some(promise));
        assert_eq!((leadership.held_until(second), leadership.promised_until()), (Some(at(500)), at(500)));
        assert!(!leadership.close_hold(second, AppHoldEnd::Closed), "there is another");
        assert_eq!(leadership.promised_until(), at(400));
        leadership.promise(at(50));
        assert!(leadership.close_hold(first, AppHoldEnd::Closed));
        assert_eq!(leadership.promised_until(), at(350), "what was told otherwise stands");
        assert!(!leadership.close_hold(first, AppHoldEnd::Closed), "it is closed once");
        assert_eq!((leadership.promise_held(at(300), first), leadership.held_until(first)), (None, None));
        assert_eq!(leadership.promised_until(), at(350));
    }

    #[test]
    fn what_others_act_upon_outlives_the_connection_and_so_does_what_it_lost_for_no_known_reason() {
        for (scope, end) in [
            (AppHoldScope::Pod, AppHoldEnd::Closed),
            (AppHoldScope::Pod, AppHoldEnd::Broken),
            (AppHoldScope::Process, AppHoldEnd::Broken),
        ] {
            let leadership = Leadership::new(VALIDITY);
            leadership.open(Token::new(7).unwrap(), at(1_000));
            let (hold, _) = leadership.open_hold(at(100), scope).unwrap();
            assert!(leadership.close_hold(hold, end), "{scope:?} {end:?}");
            assert_eq!(leadership.promised_until(), at(400), "{scope:?} {end:?}");
        }
    }

    #[test]
    fn a_connection_is_of_its_term() {
        let leadership = Leadership::new(VALIDITY);
        leadership.open(Token::new(7).unwrap(), at(1_000));
        let (old, _) = leadership.open_hold(at(100), AppHoldScope::Process).unwrap();
        leadership.open(Token::new(8).unwrap(), at(2_000));
        assert!(!leadership.is_held());
        assert_eq!(leadership.promise_held(at(1_100), old), None);
        assert!(!leadership.close_hold(old, AppHoldEnd::Closed), "its term is over already");
        let (new, _) = leadership.open_hold(at(1_100), AppHoldScope::Process).unwrap();
        assert_eq!(leadership.drain(), at(1_400));
        assert!(leadership.close_hold(new, AppHoldEnd::Closed), "a drain has nothing to wait for");
        assert_eq!(leadership.promised_until(), Mono::default());
    }

    #[test]
    fn the_apps_word_is_about_its_own_promises_and_works_end_about_those_of_work() {
        let leadership = Leadership::new(VALIDITY);
        leadership.open(Token::new(7).unwrap(), at(1_000));
        leadership.begin_work(Duration::ZERO);
        leadership.begin_work(Duration::ZERO);
        leadership.promise_work(at(100));
        leadership.promise(at(200));
        let (hold, _) = leadership.open_hold(at(210), AppHoldScope::Process).unwrap();
        leadership.forget_app_promises();
        assert_eq!(leadership.promised_until(), at(400));
        leadership.close_hold(hold, AppHoldEnd::Broken);
        assert!(!leadership.end_work());
        assert_eq!(leadership.promised_until(), at(400), "some of it goes on");
        assert!(leadership.end_work());
        assert_eq!(leadership.promised_until(), Mono::default());
        leadership.promise(at(300));
        assert!(leadership.end_work(), "more ends than began");
        assert_eq!(leadership.promised_until(), at(600));
    }

    #[test]
    fn work_that_lingers_is_promised_no_more_than_the_lease_holds() {
        let leadership = Leadership::new(VALIDITY);
        let token = Token::new(7).unwrap();
        leadership.open(token, at(1_000));
        leadership.begin_work(Duration::from_millis(2_000));
        leadership.begin_work(Duration::from_millis(100));
        leadership.promise_work(at(100));
        leadership.close();
        assert_eq!(leadership.linger(at(200), at(1_000)), at(1_000));
        assert_eq!(leadership.linger(at(200), at(1_900)), at(1_900), "it was renewed");
        assert_eq!(leadership.linger(at(200), at(2_800)), at(2_200));
        assert_eq!(leadership.work_until(), (token, at(2_200)));
        leadership.end_work();
        assert!(leadership.end_work());
        assert_eq!(leadership.linger(at(200), at(2_800)), Mono::default(), "nothing is left to wait for");
    }

    #[test]
    fn a_late_reply_never_shortens_a_deadline_that_was_told() {
        let leadership = Leadership::new(VALIDITY);
        let token = Token::new(7).unwrap();
        leadership.open(token, at(1_000));
        leadership.open(token, at(900));
        assert!(leadership.leads(at(950)));
        leadership.open(Token::new(8).unwrap(), at(900));
        assert!(!leadership.leads(at(950)), "a new term has its own deadline");
    }
}

/// What is told while the election hands over, in many orders: the real election, as its task drives it, against
/// threads that ask for apps. Nothing else of a role is shared: the task alone owns the election, and hears of the
/// others through channels.
#[cfg(feature = "shuttle")]
#[cfg(test)]
mod schedules {
    use std::sync::Arc;

    use shuttle::sync::atomic::{AtomicU64, Ordering};
    use shuttle::thread;

    use super::super::super::ids::{SessionId, StoreTime};
    use super::super::super::messages::{CampaignReply, Stamped};
    use super::super::super::rules::Rules;
    use super::super::super::timing::Timing;
    use super::super::{Action, Election, Input, Profile};
    use super::*;
    use crate::base::sync::schedules::{hold, is_caught};

    const START: Mono = Mono::from_nanos(1_000_000_000_000);

    /// An election that leads since now.
    fn leading() -> Election {
        let profile = Profile {
            session: SessionId::from_u128(1),
            attempts: Default::default(),
            identity: Arc::from("me"),
            timing: Timing::from_lease(Duration::from_secs(15)).unwrap(),
            guard: true,
            app_checked: false,
            rules: Rules::REDIS,
            role_stagger: Duration::ZERO,
            seed: 7,
        };
        let mut election = Election::new(profile, START);
        election.handle_timeout(START);
        let Some(Action::Campaign { id, .. }) = election.poll_action() else { panic!("it asks at once") };
        let reply = CampaignReply::Granted { token: Token::new(7).unwrap(), count: 1 };
        let reply = Ok(Stamped { reply, store_time: StoreTime(1) });
        election.handle_input(START, Input::Campaigned { id, reply });
        assert!(election.leadership().leads(START));
        election
    }

    fn releases(election: &mut Election) -> bool {
        std::iter::from_fn(|| election.poll_action()).any(|action| matches!(action, Action::Release { .. }))
    }

    /// Drives it as its task does, until the lease is given back. When that is.
    fn hand_over(election: &mut Election, clock: &AtomicU64) -> Mono {
        let mut now = START;
        election.handle_input(now, Input::Resign { cooldown: Duration::ZERO });
        while !releases(election) {
            now = election.poll_timeout().expect("a drain ends");
            clock.store(now.as_nanos(), Ordering::SeqCst);
            election.handle_timeout(now);
        }
        now
    }

    type Ask = fn(&Leadership, Mono) -> Option<Promise>;

    /// Two threads ask, and a third hands over. R7: nothing that was told is good for longer than the lease was kept.
    fn told_while_it_hands_over(ask: Ask) {
        let mut election = leading();
        let (leadership, clock) = (Arc::clone(election.leadership()), Arc::new(AtomicU64::new(START.as_nanos())));
        let app = || {
            let (leadership, clock) = (Arc::clone(&leadership), Arc::clone(&clock));
            thread::spawn(move || {
                let promises = (0..2).filter_map(|_| {
                    let now = Mono::from_nanos(clock.load(Ordering::SeqCst));
                    ask(&leadership, now).map(|promise| now + promise.valid_for)
                });
                promises.max().unwrap_or_default()
            })
        };
        let apps = [app(), app()];
        let released_at = hand_over(&mut election, &clock);
        for app in apps {
            let until = app.join().unwrap();
            assert!(
                until <= released_at,
                "an answer is good until {until:?}, and the lease is given back at {released_at:?}"
            );
        }
    }

    #[test]
    fn no_lease_is_given_back_while_an_answer_is_good_whenever_it_was_asked_for() {
        hold(|| told_while_it_hands_over(Leadership::promise));
    }

    /// What must not be done: whether it leads is looked at in one step, and the promise recorded in another.
    fn promise_in_two_steps(leadership: &Leadership, now: Mono) -> Option<Promise> {
        let valid_for = leadership.lock().deadline.since(now).min(leadership.answer_validity);
        if valid_for.is_zero() {
            return None;
        }
        let mut inner = leadership.lock();
        inner.app_until = inner.app_until.max(now + valid_for);
        Some(Promise { token: inner.token, valid_for })
    }

    #[test]
    fn a_promise_that_is_recorded_after_its_answer_was_decided_is_caught() {
        is_caught(|| told_while_it_hands_over(promise_in_two_steps));
    }

    /// Work of this replica's own, which ends while it hands over: what was promised to it stands until then.
    fn work_while_it_hands_over(end: fn(&Leadership) -> bool) {
        let mut election = leading();
        let leadership = Arc::clone(election.leadership());
        let clock = Arc::new(AtomicU64::new(START.as_nanos()));
        let until = {
            leadership.begin_work(Duration::ZERO);
            let promise = leadership.promise_work(START).expect("it leads");
            START + promise.valid_for
        };
        let other = {
            let leadership = Arc::clone(&leadership);
            thread::spawn(move || {
                leadership.begin_work(Duration::ZERO);
                let promised = leadership.promise_work(START);
                end(&leadership);
                promised.is_some()
            })
        };
        let released_at = hand_over(&mut election, &clock);
        other.join().unwrap();
        assert!(released_at >= until, "the first has not ended, and the lease is given back at {released_at:?}");
    }

    #[test]
    fn the_end_of_some_work_leaves_what_was_promised_to_other_work() {
        hold(|| work_while_it_hands_over(Leadership::end_work));
    }

    /// What must not be done: whoever ends forgets all promises to work, and looks afterwards whether any goes on.
    fn end_work_of_all(leadership: &Leadership) -> bool {
        leadership.lock().work_until = Mono::default();
        leadership.end_work()
    }

    #[test]
    fn an_end_that_forgets_the_promises_to_others_is_caught() {
        is_caught(|| work_while_it_hands_over(end_work_of_all));
    }
}
