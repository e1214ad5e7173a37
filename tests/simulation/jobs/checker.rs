//! Holds what is written, started and told against what jobs promise.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use baton::protocol::Token;
use baton::protocol::jobs::{
    Concurrency, GapReason, HistoryLimits, JobEvent, JobPolicy, Ledger, Phase, Run, RunFailure, RunOrder, RunWish,
    Slot, Timetable, Wall,
};

use super::world::{Every, Nanos, RELOADED_WITHIN, ROLES, SECOND};

/// How much is kept of a complaint, in characters.
const COMPLAINT_MAX: usize = 2_000;
/// How many of the last slots are accounted for at each write.
const LOOKED_AT: u64 = 500;
/// Until every replica has heard, whoever lost the job meanwhile has asked for it again (a minute later), and what ran
/// has ended.
const CONTENDED: Nanos = RELOADED_WITHIN + 90 * SECOND;

/// Who writes, and when the request was sent.
#[derive(Clone, Copy, Debug)]
pub struct Writer {
    pub id: usize,
    pub role: usize,
    pub token: Token,
    pub sent_at: Nanos,
    /// The ledger was its role's.
    pub owns: bool,
    /// Nobody has begun a later term of its role.
    pub is_current: bool,
}

/// Since when the store has forgotten something, and who still knows it.
struct Loss {
    since: Nanos,
    witness: Option<usize>,
}

/// An attempt acts on the world until then.
#[derive(Debug)]
struct Acting {
    slot: Slot,
    attempt: u32,
    until: Nanos,
}

/// What is known of a job that neither its leaders nor the store may know any more.
#[derive(Default)]
struct Job {
    claims: BTreeMap<(Slot, u32), Token>,
    /// Those of which the store knew until it lost something.
    lost_claims: BTreeMap<(Slot, u32), Token>,
    started: BTreeSet<(Slot, u32)>,
    last_token: Token,
    /// Of each role.
    fence: [Token; ROLES],
    loss: Option<Loss>,
    /// The slots after this one are accounted for.
    counted_from: Option<(String, Wall)>,
    passed: Vec<(Wall, Wall)>,
    /// How often a run ended with so many attempts. A retried one ends more than once, and perhaps without another.
    ended: BTreeMap<(Slot, u32), u32>,
    /// How often another try of a run was asked for.
    retries: BTreeMap<Slot, u32>,
    /// What was asked of runs last, and those that are over because of it.
    orders: BTreeMap<Slot, RunOrder>,
    cancelled: BTreeSet<Slot>,
    /// Which run each key asked for; none once the store has lost something since.
    keys: BTreeMap<u64, Option<Slot>>,
    /// Which backfills were asked for.
    backfills: BTreeSet<Wall>,
    /// Since when the store knows that all jobs are suspended, and by which word: there may be a newer one.
    paused_since: Option<(Nanos, Wall)>,
    /// Earlier leaders may still tell of what was lost with their term.
    account_of: usize,
    acting: Vec<Acting>,
    /// When the policy was changed last, and when each run was first started, and under which token.
    changed_at: Nanos,
    waits: bool,
    /// Until then two leaders may both take the job for their role's, and each runs it until it finds out.
    contended_until: Nanos,
    first_started: BTreeMap<Slot, (Nanos, Token)>,
}

pub struct Checker {
    jobs: Vec<Job>,
    /// Nothing is forgotten in this run, so that each slot can be accounted for.
    pub remembers: bool,
    /// Clocks of the day may be days off: what they passed over may be decided anew.
    pub far: bool,
    /// What went wrong, in words.
    pub complaints: BTreeSet<String>,
    /// The first of them, with its moment.
    pub first: Option<String>,
}

impl Checker {
    pub fn new(jobs: usize) -> Self {
        let jobs = (0..jobs).map(|_| Job::default()).collect();
        Self { jobs, remembers: false, far: false, complaints: BTreeSet::new(), first: None }
    }

    pub fn complain(&mut self, now: Nanos, what: String) {
        // A ledger may be very long, and there are thousands of runs.
        let what: String = what.chars().take(COMPLAINT_MAX).collect();
        if self.first.is_none() {
            self.first = Some(format!("at {:.3} s: {what}", now as f64 / SECOND as f64));
        }
        self.complaints.insert(what);
    }

    /// The store has lost something. Whoever leads and has seen the ledger knows it still.
    pub fn lost(&mut self, now: Nanos, job: usize, witness: Option<usize>) {
        self.jobs[job].loss = Some(Loss { since: now, witness });
        // Nobody may have heard of it.
        self.jobs[job].orders.clear();
        self.jobs[job].keys.values_mut().for_each(|slot| *slot = None);
        self.jobs[job].paused_since = None;
        self.jobs[job].backfills.clear();
    }

    /// A backfill was asked for, at this moment.
    pub fn wanted(&mut self, job: usize, asked: Wall) {
        self.jobs[job].backfills.insert(asked);
    }

    /// A run was asked for under this key.
    pub fn asked(&mut self, now: Nanos, job: usize, key: u64, slot: Slot) {
        let known = *self.jobs[job].keys.entry(key).or_insert(Some(slot));
        if known.is_some_and(|known| known != slot) {
            self.complain(now, format!("job-{job}: two runs under one key: {known:?} and {slot}"));
        }
    }

    /// Something was asked of a run, and the store has it.
    pub fn ordered(&mut self, job: usize, slot: Slot, order: RunOrder) {
        let it = &mut self.jobs[job];
        it.orders.insert(slot, order);
        if order.what == RunWish::Retry {
            it.cancelled.remove(&slot);
            *it.retries.entry(slot).or_default() += 1;
        }
    }

    /// What was asked for, and is not done in the end: of a run that is remembered, or as a backfill.
    pub fn unheeded(&self, job: usize, ledger: &Ledger) -> Option<String> {
        // The last ten are remembered.
        let known = |asked: &&Wall| ledger.backfills.0.iter().find(|backfill| backfill.asked == **asked);
        let is_open = |asked: &&Wall| known(asked).is_none_or(|backfill| backfill.goes_on());
        if let Some(asked) = self.jobs[job].backfills.iter().rev().take(8).find(is_open) {
            return Some(format!("job-{job}: the backfill of {asked:?} is not done: {:?}", ledger.backfills));
        }
        self.jobs[job].orders.iter().find_map(|(slot, order)| {
            let run = ledger.runs.get(slot)?;
            let is_done = run.order.is_some_and(|last| last.at > order.at || (last.at == order.at && last.done));
            (!is_done).then(|| format!("job-{job}: {slot}: {order:?} is not heeded: {run:?}"))
        })
    }

    /// A leader does not have the job any more, nor what it knew of it.
    pub fn gives_up(&mut self, job: usize, leader: usize) {
        self.jobs[job].gives_up(leader);
    }

    pub fn changed(&mut self, now: Nanos, job: usize) {
        self.jobs[job].changed_at = now;
    }

    pub fn moved(&mut self, now: Nanos, job: usize) {
        self.jobs[job].contended_until = now + CONTENDED;
    }

    /// A leader has looked at the ledger. What only its predecessor knew is lost for good, and nothing is promised of
    /// it.
    pub fn opened(&mut self, job: usize, writer: Writer) {
        let job = &mut self.jobs[job];
        if writer.is_current && job.loss.as_ref().is_some_and(|loss| loss.witness != Some(writer.id)) {
            job.forget(writer.id);
        }
        let fence = &mut job.fence[writer.role];
        *fence = writer.token.max(*fence);
    }

    /// A leader has written. With limits: it was leading and not about to stop.
    pub fn written(
        &mut self,
        now: Nanos,
        job: usize,
        writer: Writer,
        before: Option<&Ledger>,
        after: &Ledger,
        limits: Option<HistoryLimits>,
    ) {
        let it = &mut self.jobs[job];
        // A slot that is decided anew, after its run was lost, has another run, under the policy of now.
        let is_another = |slot: &Slot, token: Token| {
            after.runs.get(slot).is_some_and(|run| run.attempts.iter().all(|attempt| attempt.token != token))
        };
        it.first_started.retain(|slot, (_, token)| !is_another(slot, *token));
        let was_lost = it.loss.is_some();
        if let Some(loss) = &it.loss {
            if loss.witness == Some(writer.id) {
                if writer.sent_at < loss.since {
                    // It may be older than what was lost: only the next write makes that good.
                    return it.claims_of(after).into_iter().for_each(|what| self.complain(now, what));
                }
                it.loss = None;
            } else if writer.is_current {
                it.forget(writer.id);
            } else {
                // The fence is lost as well, until its leader writes again. It cannot start anything.
                return;
            }
        }
        let mut complaints = Vec::new();
        // What was another role's has that one's fence.
        if writer.token < it.fence[writer.role] && writer.owns {
            complaints.push(format!("job-{job}: leader-{} is stale, and has written", writer.id));
        }
        it.fence[writer.role] = it.fence[writer.role].max(writer.token);
        // One may have been on its way when the pause was heard of.
        let pause = after.suspension.pause.filter(|(suspend, _)| *suspend).map(|(_, word)| word);
        let since = it.paused_since.filter(|(_, word)| pause == Some(*word)).map_or(now, |(since, _)| since);
        if now > since + 10 * SECOND
            && let Some(slot) = it.first_claims(after).next()
        {
            complaints.push(format!("job-{job}: {slot} is claimed while all jobs are suspended"));
        }
        it.paused_since = pause.map(|word| (since, word));
        complaints.extend(it.claims_of(after));
        if let Some(limits) = limits {
            complaints.extend(beyond(after, limits));
        }
        // A ledger that was begun for a wish has decided nothing.
        let undecides = |before: &Ledger| {
            let says_so = after.leaps.reopened >= Some(before.decided);
            before.decided > after.decided
                && before.timetable == after.timetable
                && before.token != Token::NONE
                && !says_so
        };
        if !was_lost && before.is_some_and(undecides) {
            complaints.push(format!("job-{job}: slots are undecided again"));
        }
        if self.remembers {
            complaints.extend(it.account(after, self.far));
        }
        complaints.into_iter().for_each(|what| self.complain(now, what));
    }

    /// An attempt starts, by this leader, whose tenure ends then; it acts until then.
    pub fn starts(
        &mut self,
        now: Nanos,
        job: usize,
        (slot, attempt, token): (Slot, u32, Token),
        (leader, tenure_until, until): (usize, Nanos, Nanos),
        policy: &JobPolicy,
    ) {
        let it = &mut self.jobs[job];
        let mut complaints = Vec::new();
        let what = format!("job-{job}: {slot}, attempt {attempt} under {token} by leader-{leader}");
        let contended = now < it.contended_until;
        // Of two roles' leaders one may not have heard yet that the store has lost its claim.
        let was_lost = contended && it.lost_claims.get(&(slot, attempt)) == Some(&token);
        if it.claims.get(&(slot, attempt)) != Some(&token) && !was_lost {
            complaints.push(format!("{what} has started without a claim"));
        }
        if it.cancelled.contains(&slot) {
            complaints.push(format!("{what} has started, and was cancelled"));
        }
        if !it.started.insert((slot, attempt)) {
            complaints.push(format!("{what} has started twice"));
        }
        if token <= it.last_token && !contended {
            complaints.push(format!("{what}: the token is not above {}", it.last_token));
        }
        if now >= tenure_until {
            complaints.push(format!("{what} has started when its time was over"));
        }
        it.last_token = it.last_token.max(token);
        it.acting.retain(|acting| acting.until > now);
        if it.acting.iter().any(|acting| acting.slot == slot) && !contended {
            complaints.push(format!("{what} overlaps another attempt of its run"));
        }
        let (first, _) = *it.first_started.entry(slot).or_insert((now, token));
        // Runs that began under another policy may go on side by side.
        let settled =
            |slot: &Slot| it.first_started.get(slot).is_some_and(|(first, _)| *first > it.changed_at + 5 * SECOND);
        let alone = policy.concurrency == Concurrency::Forbid && !contended && first > it.changed_at + 5 * SECOND;
        if alone && it.acting.iter().any(|acting| settled(&acting.slot)) {
            complaints.push(format!("{what} runs beside {:?}", it.acting));
        }
        it.acting.push(Acting { slot, attempt, until });
        complaints.into_iter().for_each(|what| self.complain(now, what));
    }

    pub fn goes_on(&mut self, job: usize, slot: Slot, attempt: u32, until: Nanos) {
        let acting = self.jobs[job].acting.iter_mut();
        acting.filter(|it| (it.slot, it.attempt) == (slot, attempt)).for_each(|it| it.until = until);
    }

    pub fn stops(&mut self, job: usize, slot: Slot, attempt: u32) {
        self.jobs[job].acting.retain(|it| (it.slot, it.attempt) != (slot, attempt));
    }

    /// Whether a leader has said last that nothing is due before a time that is far ahead.
    pub fn waits(&self, job: usize) -> bool {
        self.jobs[job].waits
    }

    /// What is counted is counted once, over all leaders.
    pub fn told(&mut self, now: Nanos, job: usize, leader: usize, event: &JobEvent) {
        let it = &mut self.jobs[job];
        if let JobEvent::ClockAhead { reopened, .. } = event {
            it.waits = !reopened;
        }
        if matches!(event, JobEvent::Moved { .. } | JobEvent::Superseded { .. }) {
            it.gives_up(leader);
        }
        if leader < it.account_of || it.loss.as_ref().is_some_and(|loss| loss.witness != Some(leader)) {
            return;
        }
        let twice = match event {
            JobEvent::RunEnded { slot, failure, attempts } => {
                // Another try may have been asked for as soon as the end was written, before it is told.
                let is_retried = it.orders.get(slot).is_some_and(|order| order.what == RunWish::Retry);
                if *failure == Some(RunFailure::Cancelled) && !is_retried {
                    it.cancelled.insert(*slot);
                }
                let ends = it.ended.entry((*slot, *attempts)).or_default();
                *ends += 1;
                *ends > 1 + it.retries.get(slot).copied().unwrap_or(0)
            }
            JobEvent::Passed(gap) if self.far && gap.reason == GapReason::Missed => false,
            JobEvent::Passed(gap) => {
                let twice = it.passed.iter().any(|(first, last)| gap.first <= *last && *first <= gap.last);
                it.passed.push((gap.first, gap.last));
                twice
            }
            _ => false,
        };
        if twice {
            self.complain(now, format!("job-{job}: counted twice: {event:?}"));
        }
    }
}

impl Job {
    fn gives_up(&mut self, leader: usize) {
        if let Some(loss) = self.loss.as_mut().filter(|loss| loss.witness == Some(leader)) {
            loss.witness = None;
        }
    }

    fn forget(&mut self, account_of: usize) {
        let (acting, first_started) = (std::mem::take(&mut self.acting), std::mem::take(&mut self.first_started));
        let (fence, changed_at, contended_until) = (self.fence, self.changed_at, self.contended_until);
        let (keys, lost_claims) = (std::mem::take(&mut self.keys), std::mem::take(&mut self.claims));
        let waits = self.waits;
        *self = Self {
            account_of,
            fence,
            acting,
            changed_at,
            contended_until,
            first_started,
            keys,
            lost_claims,
            waits,
            ..Self::default()
        };
    }

    /// The slots of the schedule whose first attempt is new in this ledger.
    fn first_claims(&self, ledger: &Ledger) -> impl Iterator<Item = Slot> {
        let is_new = |slot: &Slot| matches!(slot, Slot::Scheduled(_)) && !self.claims.contains_key(&(*slot, 1));
        // One that was cancelled before it began, and is tried again, begins because somebody asked for it.
        let first = |run: &Run| {
            let is_asked_for = run.order.is_some_and(|order| order.what == RunWish::Retry);
            !is_asked_for && run.attempts.first().is_some_and(|attempt| attempt.number == 1 && !attempt.withdrawn)
        };
        ledger.runs.iter().filter(move |(slot, run)| is_new(slot) && first(run)).map(|(slot, _)| *slot)
    }

    /// P6: an attempt of a slot is claimed once.
    fn claims_of(&mut self, ledger: &Ledger) -> Option<String> {
        let mut complaint = None;
        for (slot, run) in &ledger.runs {
            for attempt in &run.attempts {
                if attempt.withdrawn {
                    // Its number is free again, for it was not used.
                    self.claims.remove(&(*slot, attempt.number));
                    if self.started.contains(&(*slot, attempt.number)) {
                        complaint = Some(format!("{slot}, attempt {} has started and is withdrawn", attempt.number));
                    }
                    continue;
                }
                let known = *self.claims.entry((*slot, attempt.number)).or_insert(attempt.token);
                if known != attempt.token {
                    let (number, token) = (attempt.number, attempt.token);
                    complaint = Some(format!("{slot}, attempt {number} is claimed twice: {known} and {token}"));
                }
            }
        }
        complaint
    }

    /// Every slot has a run or is in a gap, not both.
    fn account(&mut self, ledger: &Ledger, far: bool) -> Option<String> {
        let from = match &self.counted_from {
            Some((timetable, from)) if *timetable == ledger.timetable => *from,
            // A new schedule starts from its change.
            _ => {
                self.counted_from = Some((ledger.timetable.clone(), ledger.decided));
                return None;
            }
        };
        let every = ledger.timetable.split(' ').nth(1)?.parse().ok()?;
        let timetable = Every(every);
        let next = |slot: &Wall| timetable.next_after(*slot);
        // A clock that was days ahead has decided very many.
        let from = from.max(ledger.decided.minus(Duration::from_secs(LOOKED_AT * every)));
        let slots = std::iter::successors(next(&from), next).take_while(|slot| *slot <= ledger.decided);
        slots.into_iter().find_map(|slot| {
            let has_run = ledger.runs.contains_key(&Slot::Scheduled(slot));
            let gaps = ledger.gaps.iter().filter(|gap| gap.first <= slot && slot <= gap.last).count();
            let times = usize::from(has_run) + gaps;
            // Of what clocks passed over that were days off, the record for people may be short by some.
            (times != 1 && (has_run || !far))
                .then(|| format!("the slot {slot:?} is decided {times} times: run {has_run}, gaps {gaps}"))
        })
    }
}

/// Whether more is remembered than is asked for.
fn beyond(ledger: &Ledger, limits: HistoryLimits) -> Option<String> {
    let count = |ours: fn(&Run) -> bool| ledger.runs.values().filter(|run| ours(run)).count();
    let succeeded = count(|run| run.phase == Phase::Succeeded);
    // One that is to be retried is not over.
    let failed = count(|run| matches!(run.phase, Phase::Failed(_)) && run.wish() != Some(RunWish::Retry));
    let over = succeeded > limits.succeeded || failed > limits.failed || ledger.gaps.len() > limits.failed;
    over.then(|| format!("{succeeded} succeeded, {failed} failed, {} gaps: over {limits:?}", ledger.gaps.len()))
}
