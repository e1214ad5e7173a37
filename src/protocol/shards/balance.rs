//! One replica's side: for which shards it goes at once, for which it lets others go first, and what it hands over.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::super::ids::{Mono, SessionId};
use super::super::timing::Timing;
use super::rank::{Rank, Ranking};
use super::set::ShardSet;
use super::spread::Spread;
use super::{Participant, Portion, WHOLE};

/// The pause after a handover that nobody took up doubles up to this many times: from 2 leases to 64.
const DOUBLINGS_MAX: u32 = 5;

/// What a replica knows of its own shards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mine {
    /// What it leads, and what it would not take now.
    pub portion: Portion,
    /// The shards of which it knows that another leads them.
    pub elsewhere: ShardSet,
}

/// What a replica shall do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Orders {
    /// For each shard, for how much longer than usual it waits before it campaigns for it.
    pub stagger: Vec<Duration>,
    /// This shard is to be handed over, and another will be told with later orders.
    pub hand_over: Option<u16>,
    /// Another has taken up what was handed over, but has not said so yet: ask again soon.
    pub ask_soon: bool,
}

/// By what leaders are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// The shards of a role are spread evenly.
    Even,
    /// A role that is not split is led by who is preferred.
    Preferred {
        /// Of this replica.
        rank: Rank,
        /// For so long one that is preferred has been there, and another has led, when the lead is handed over.
        after: Duration,
    },
}

/// A handover that is not over.
#[derive(Clone, Copy, Debug)]
struct Handover {
    shard: u16,
    /// To whom.
    to: SessionId,
    since: Mono,
    /// This replica was seen not to lead it any more.
    left: bool,
}

#[derive(Debug)]
pub struct Balance {
    session: SessionId,
    shards: u16,
    timing: Timing,
    policy: Policy,
    /// Since when it has led the role that is not split.
    led_since: Option<Mono>,
    /// Who takes part, as last told, and when that was.
    members: Vec<Participant>,
    told_at: Option<Mono>,
    /// Since when each of them has been there without a gap.
    there_since: BTreeMap<SessionId, Mono>,
    handover: Option<Handover>,
    /// How many handovers in a row were not taken up by those whom they were for.
    failures: u32,
    next_handover: Mono,
}

impl Balance {
    /// Of this replica, for a role of so many shards.
    pub fn new(session: SessionId, shards: u16, timing: Timing) -> Self {
        Self {
            session,
            shards,
            timing,
            policy: Policy::Even,
            led_since: None,
            members: Vec::new(),
            told_at: None,
            there_since: BTreeMap::new(),
            handover: None,
            failures: 0,
            next_handover: Mono::default(),
        }
    }

    /// The role has so many shards from now on, and these find their leaders by this.
    pub fn change(&mut self, shards: u16, mut policy: Policy) {
        if let Policy::Preferred { rank, .. } = &mut policy {
            rank.learn(&self.members);
        }
        (self.shards, self.policy) = (shards, policy);
    }

    /// What this replica is to say that it is preferred by.
    pub fn rank(&self) -> Option<Rank> {
        match self.policy {
            Policy::Even => None,
            Policy::Preferred { rank, .. } => Some(rank),
        }
    }

    /// How long a sign of life stands: half a lease, so that a replica that died is not counted any more by the time
    /// that its leases run out.
    pub fn span(timing: &Timing) -> Duration {
        timing.lease_duration() / 2
    }

    /// How often to give one and to ask for the others': three times in that span.
    pub fn tick(timing: &Timing) -> Duration {
        timing.lease_duration() / 6
    }

    /// How soon to ask again where [`Orders::ask_soon`] says so.
    pub fn soon(timing: &Timing) -> Duration {
        timing.lease_duration() / 60
    }

    /// The stagger of a replica that does not know yet who else there is.
    pub fn stagger_at_first(timing: &Timing) -> Duration {
        timing.renew_period()
    }

    /// How long a replica stays out of a shard that it hands over.
    pub fn cooldown(timing: &Timing) -> Duration {
        timing.lease_duration()
    }

    /// What to do, now that the store has told who takes part; `told` is none when it did not answer. What was told
    /// last counts for one span; after that a replica takes itself for the only one, and leaves no shard to others.
    pub fn decide(&mut self, now: Mono, mine: &Mine, told: Option<Vec<Participant>>) -> Orders {
        match told {
            Some(members) => {
                // Who would not take the only lead there is might as well not be there.
                let takes = |member: &&Participant| self.rank().is_none() || !member.portion.shuns.contains(WHOLE);
                let there: BTreeSet<SessionId> = members.iter().filter(takes).map(|member| member.session).collect();
                let before = self.there_since.len();
                self.there_since.retain(|session, _| there.contains(session));
                let has_changed = self.there_since.len() < before || self.there_since.len() < there.len();
                for session in there {
                    self.there_since.entry(session).or_insert(now);
                }
                if has_changed {
                    // What nobody took up then, somebody may now.
                    (self.failures, self.next_handover) = (0, now);
                }
                self.members = members;
                self.told_at = Some(now);
            }
            None if self.told_at.is_none_or(|at| now.since(at) >= Self::span(&self.timing)) => {
                self.members = vec![Participant { session: self.session, portion: mine.portion }];
            }
            None => {}
        }
        self.follow_handover(now, mine);
        if let Policy::Preferred { rank, .. } = &mut self.policy {
            rank.learn(&self.members);
        }
        let (stagger, hand_over) = match self.policy {
            Policy::Even => {
                let spread = Spread::new(self.shards, &self.members);
                let stagger = (0..self.shards).map(|shard| self.stagger(&spread, mine, shard)).collect();
                (stagger, self.surplus(now, &spread, mine))
            }
            Policy::Preferred { after, .. } => {
                let ranking = Ranking::new(&self.members);
                let stagger = self.stagger_below(ranking.steps_below(self.session));
                (vec![stagger], self.preferred(now, after, &ranking, mine))
            }
        };
        let ask_soon = self.handover.is_some_and(|it| it.left && mine.elsewhere.contains(it.shard));
        if let Some((shard, to)) = hand_over {
            self.handover = Some(Handover { shard, to, since: now, left: false });
        }
        Orders { stagger, hand_over: hand_over.map(|(shard, _)| shard), ask_soon }
    }

    fn stagger(&self, spread: &Spread, mine: &Mine, shard: u16) -> Duration {
        if spread.target(shard) == Some(self.session) {
            return Duration::ZERO;
        }
        let (has, quota) = (mine.portion.leads.len(), spread.quota(self.session).unwrap_or(0));
        let above = u32::try_from((has + 1).saturating_sub(quota)).unwrap_or(u32::MAX);
        let stagger = self.timing.renew_period().saturating_mul(above.saturating_add(2));
        stagger.min(self.timing.lease_duration() * 2)
    }

    /// The next shard to hand over: one whose target is another that has been there for a whole lease. A newcomer may
    /// be gone as soon, or be the successor of one whose shards are about to become free.
    fn surplus(&self, now: Mono, spread: &Spread, mine: &Mine) -> Option<(u16, SessionId)> {
        if self.handover.is_some() || now < self.next_handover {
            return None;
        }
        let settled = |session: SessionId| {
            self.there_since.get(&session).is_some_and(|since| now.since(*since) >= self.timing.lease_duration())
        };
        // A replica that is not among the members (its app is unwell) gives up what it leads by other means.
        spread.quota(self.session)?;
        let led = mine.portion.leads.iter().take_while(|shard| *shard < self.shards);
        let mut to = led.filter_map(|shard| Some((shard, spread.target(shard)?)));
        to.find(|(_, target)| *target != self.session && settled(*target))
    }

    /// Who is preferred hears of a vacancy as soon as all others, and needs no more than a moment.
    fn stagger_below(&self, steps: usize) -> Duration {
        let period = self.timing.renew_period();
        (period / 5).saturating_mul(u32::try_from(steps).unwrap_or(u32::MAX)).min(period)
    }

    /// Who is to lead instead of this replica.
    fn preferred(&mut self, now: Mono, after: Duration, ranking: &Ranking, mine: &Mine) -> Option<(u16, SessionId)> {
        let leads = mine.portion.leads.contains(WHOLE);
        self.led_since = leads.then(|| self.led_since.unwrap_or(now));
        let has_led = self.led_since.is_some_and(|since| now.since(since) >= after);
        if !has_led || self.handover.is_some() || now < self.next_handover {
            return None;
        }
        let settled =
            |session: &SessionId| self.there_since.get(session).is_some_and(|since| now.since(*since) >= after);
        ranking.better(self.session).find(settled).map(|to| (WHOLE, to))
    }

    /// Whether the shard that was handed over last has found the owner that it was for. Another that takes it instead
    /// would hand it over to the same replica, and back it would come.
    fn follow_handover(&mut self, now: Mono, mine: &Mine) {
        let Some(mut handover) = self.handover else { return };
        let leads = mine.portion.leads.contains(handover.shard);
        handover.left |= !leads;
        self.handover = Some(handover);
        let owns =
            |member: &&Participant| member.session != self.session && member.portion.leads.contains(handover.shard);
        let owner = self.members.iter().find(owns).map(|member| member.session);
        if handover.left && owner == Some(handover.to) {
            self.handover = None;
            self.failures = 0;
        } else if (handover.left && (leads || owner.is_some())) || now.since(handover.since) >= self.pause() {
            // It came back, or another has it, or nobody, or the order was lost on its way.
            self.handover = None;
            self.failures = (self.failures + 1).min(DOUBLINGS_MAX);
            self.next_handover = now + self.pause();
        }
    }

    fn pause(&self) -> Duration {
        self.timing.lease_duration() * (2 << self.failures)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: u64 = 3_000;

    fn at(ms: u64) -> Mono {
        Mono::from_nanos(ms * 1_000_000)
    }

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn set(shards: &[u16]) -> ShardSet {
        shards.iter().copied().collect()
    }

    fn mine(leads: &[u16], elsewhere: &[u16]) -> Mine {
        Mine { portion: Portion { leads: set(leads), ..Portion::default() }, elsewhere: set(elsewhere) }
    }

    fn members(rows: &[(u128, &[u16])]) -> Option<Vec<Participant>> {
        let member = |(session, leads): &(u128, &[u16])| Participant {
            session: SessionId::from_u128(*session),
            portion: mine(leads, &[]).portion,
        };
        Some(rows.iter().map(member).collect())
    }

    /// Session 1 of a role with these many shards, lease 3 s, renewed every second.
    fn balance(shards: u16) -> Balance {
        Balance::new(SessionId::from_u128(1), shards, Timing::from_lease(ms(LEASE)).unwrap())
    }

    #[test]
    fn a_replica_goes_at_once_for_its_share_and_waits_with_the_others() {
        let mut one = balance(4);
        let orders = one.decide(at(0), &mine(&[], &[]), members(&[(1, &[]), (2, &[])]));
        assert_eq!(orders.stagger, [ms(0), ms(2_000), ms(0), ms(2_000)], "alternating; below its share otherwise");
        let orders = one.decide(at(1), &mine(&[0, 1], &[]), members(&[(1, &[0, 1]), (2, &[])]));
        assert_eq!(orders.stagger, [ms(0), ms(0), ms(3_000), ms(3_000)], "one above its share");
        let orders = one.decide(at(2), &mine(&[0, 1, 2], &[]), members(&[(1, &[0, 1, 2]), (2, &[])]));
        assert_eq!(orders.stagger, [ms(0), ms(0), ms(4_000), ms(4_000)], "the more it leads");
        let all: Vec<u16> = (0..40).collect();
        let orders = balance(41).decide(at(0), &mine(&all, &[]), members(&[(1, &all), (2, &[])]));
        assert_eq!(orders.stagger[40], ms(2 * LEASE), "never longer than two leases");
    }

    #[test]
    fn without_an_answer_the_last_one_counts_for_a_while_and_then_nothing_is_left_to_others() {
        let mut one = balance(2);
        assert_eq!(one.decide(at(0), &mine(&[], &[]), None).stagger, [ms(0); 2], "nobody else is known");
        one.decide(at(10), &mine(&[0], &[]), members(&[(1, &[0]), (2, &[])]));
        assert_eq!(one.decide(at(1_500), &mine(&[0], &[]), None).stagger[1], ms(3_000));
        assert_eq!(one.decide(at(1_510), &mine(&[0], &[]), None).stagger[1], ms(0));
    }

    #[test]
    fn a_surplus_goes_one_at_a_time_and_only_to_one_that_has_been_there_for_a_lease() {
        let mut one = balance(4);
        let told = |leads: &[u16]| members(&[(1, leads), (2, &[])]);
        let given = |one: &mut Balance, now, leads: &[u16], elsewhere: &[u16]| {
            one.decide(at(now), &mine(leads, elsewhere), told(leads)).hand_over
        };
        let all = &[0, 1, 2, 3][..];
        assert_eq!(given(&mut one, 0, all, &[]), None);
        assert_eq!(given(&mut one, LEASE - 1, all, &[]), None);
        assert_eq!(given(&mut one, LEASE, all, &[]), Some(2));
        assert_eq!(given(&mut one, LEASE + 1, all, &[]), None, "it is on its way");
        assert_eq!(given(&mut one, LEASE + 500, &[0, 1, 3], &[]), None, "nobody has it yet");
        let told = members(&[(1, &[0, 1, 3]), (2, &[2])]);
        assert_eq!(one.decide(at(LEASE + 510), &mine(&[0, 1, 3], &[2]), told).hand_over, Some(3));
        let told = members(&[(1, &[0, 1]), (2, &[2, 3])]);
        assert_eq!(one.decide(at(LEASE + 900), &mine(&[0, 1], &[2, 3]), told).hand_over, None, "it is even now");
    }

    #[test]
    fn who_was_away_for_a_moment_counts_as_new() {
        let mut one = balance(2);
        let both = || members(&[(1, &[0, 1]), (2, &[])]);
        one.decide(at(0), &mine(&[0, 1], &[]), both());
        one.decide(at(2_000), &mine(&[0, 1], &[]), members(&[(1, &[0, 1])]));
        one.decide(at(2_500), &mine(&[0, 1], &[]), both());
        assert_eq!(one.decide(at(LEASE + 1), &mine(&[0, 1], &[]), both()).hand_over, None);
        assert_eq!(one.decide(at(LEASE + 2_500), &mine(&[0, 1], &[]), both()).hand_over, Some(1));
    }

    #[test]
    fn whoever_comes_or_goes_ends_the_pause_after_handovers_that_nobody_took_up() {
        let mut one = balance(2);
        let both = || members(&[(1, &[0, 1]), (2, &[])]);
        one.decide(at(0), &mine(&[0, 1], &[]), both());
        one.decide(at(LEASE), &mine(&[0, 1], &[]), both()).hand_over.unwrap();
        // The order is lost on its way.
        one.decide(at(10 * LEASE), &mine(&[0, 1], &[]), both());
        let mut later = |now, told| one.decide(at(now), &mine(&[0, 1], &[]), told).hand_over.is_some();
        assert!(!later(10 * LEASE + 100, both()), "a pause");
        assert!(later(10 * LEASE + 200, members(&[(1, &[0, 1]), (2, &[]), (3, &[])])));
    }

    #[test]
    fn a_handover_that_nobody_takes_up_is_tried_again_ever_more_rarely() {
        let mut one = balance(2);
        let both = || members(&[(1, &[0, 1]), (2, &[])]);
        // Looked at every 100 ms: each handover is over after a second, and the shard comes back a second later.
        let (mut given_at, mut away_until) = (Vec::new(), None);
        for now in (0..2_000_000).step_by(100) {
            let away = away_until.is_some_and(|(from, until)| (from..until).contains(&now));
            let leads: &[u16] = if away { &[0] } else { &[0, 1] };
            if one.decide(at(now), &mine(leads, &[]), both()).hand_over.is_some() {
                given_at.push(now);
                away_until = Some((now + 1_000, now + 2_000));
            }
        }
        let gaps: Vec<u64> = given_at.windows(2).map(|pair| (pair[1] - pair[0] - 2_000) / LEASE).collect();
        assert_eq!(gaps[..7], [4, 8, 16, 32, 64, 64, 64], "{given_at:?}");
        // Once another takes one up, the next may follow at once.
        one.decide(at(3_000_000), &mine(&[0, 1], &[]), both());
        let told = members(&[(1, &[0]), (2, &[1])]);
        one.decide(at(3_000_100), &mine(&[0], &[1]), told);
        assert_eq!((one.failures, one.handover.is_some()), (0, false));
    }

    #[test]
    fn an_order_that_was_lost_holds_up_nothing_for_ever() {
        let mut one = balance(2);
        let both = || members(&[(1, &[0, 1]), (2, &[])]);
        one.decide(at(0), &mine(&[0, 1], &[]), both());
        assert_eq!(one.decide(at(LEASE), &mine(&[0, 1], &[]), both()).hand_over, Some(1));
        let again = (LEASE..100_000).step_by(100).skip(1);
        let again = again.map(|now| (now, one.decide(at(now), &mine(&[0, 1], &[]), both()).hand_over));
        let again: Vec<u64> = again.filter_map(|(now, shard)| shard.map(|_| now)).collect();
        assert!(again.len() > 1 && again[0] <= 8 * LEASE, "{again:?}");
    }

    #[test]
    fn a_replica_that_takes_no_part_hands_nothing_over() {
        let mut one = balance(2);
        for now in [0, LEASE, 2 * LEASE] {
            assert_eq!(one.decide(at(now), &mine(&[0], &[]), members(&[(2, &[])])).hand_over, None);
        }
    }

    #[test]
    fn signs_of_life_are_given_three_times_while_one_stands() {
        let timing = Timing::from_lease(ms(LEASE)).unwrap();
        assert_eq!((Balance::span(&timing), Balance::tick(&timing)), (ms(1_500), ms(500)));
        assert_eq!((Balance::soon(&timing), Balance::stagger_at_first(&timing)), (ms(50), ms(1_000)));
        assert_eq!(Balance::cooldown(&timing), ms(LEASE), "who hands over stays out for a lease");
    }

    #[test]
    fn a_role_that_grows_has_orders_for_all_its_shards() {
        let mut one = balance(2);
        one.change(3, Policy::Even);
        assert_eq!(one.decide(at(0), &mine(&[], &[]), None).stagger.len(), 3);
    }

    #[test]
    fn it_is_asked_soon_only_once_another_has_what_was_handed_over() {
        let mut one = balance(2);
        let told = |leads| members(&[(1, leads), (2, &[])]);
        one.decide(at(0), &mine(&[0, 1], &[]), told(&[0, 1]));
        assert_eq!(one.decide(at(LEASE), &mine(&[0, 1], &[]), told(&[0, 1])).hand_over, Some(1));
        assert!(!one.decide(at(LEASE + 100), &mine(&[0, 1], &[]), told(&[0, 1])).ask_soon, "it is not away yet");
        assert!(!one.decide(at(LEASE + 200), &mine(&[0], &[]), told(&[0])).ask_soon, "nobody has it");
        assert!(one.decide(at(LEASE + 300), &mine(&[0], &[1]), told(&[0])).ask_soon);
    }

    #[test]
    fn who_goes_ends_the_pause_too() {
        let mut one = balance(2);
        let three = || members(&[(1, &[0, 1]), (2, &[]), (3, &[])]);
        let two = || members(&[(1, &[0, 1]), (2, &[])]);
        one.decide(at(0), &mine(&[0, 1], &[]), three());
        one.decide(at(LEASE), &mine(&[0, 1], &[]), three()).hand_over.unwrap();
        one.decide(at(10 * LEASE), &mine(&[0, 1], &[]), three());
        assert!(one.decide(at(10 * LEASE + 100), &mine(&[0, 1], &[]), two()).hand_over.is_some());
    }

    const AFTER: u64 = 10_000;

    /// Session 1, of this priority, in a role with one leader.
    fn preferring(priority: u32) -> Balance {
        let mut one = balance(1);
        let rank = Rank { priority, version: None };
        one.change(1, Policy::Preferred { rank, after: ms(AFTER) });
        one
    }

    /// Session, priority, whether it leads, whether it would not take the lead.
    fn ranked(rows: &[(u128, u32, bool, bool)]) -> Option<Vec<Participant>> {
        let only = |is: bool| if is { set(&[WHOLE]) } else { ShardSet::EMPTY };
        let member = |(session, priority, leads, shuns): &(u128, u32, bool, bool)| Participant {
            session: SessionId::from_u128(*session),
            portion: Portion {
                leads: only(*leads),
                shuns: only(*shuns),
                rank: Some(Rank { priority: *priority, version: None }),
            },
        };
        Some(rows.iter().map(member).collect())
    }

    #[test]
    fn who_is_preferred_goes_at_once_and_the_others_in_their_order() {
        let all = || ranked(&[(1, 3, false, false), (2, 2, false, false), (3, 7, false, false), (4, 7, false, false)]);
        let stagger = |one: &mut Balance, told| one.decide(at(0), &mine(&[], &[]), told).stagger;
        assert_eq!(stagger(&mut preferring(3), all()), [ms(200)], "one step below two that are alike");
        let low = ranked(&[(1, 1, false, false), (2, 2, false, false), (3, 7, false, false), (4, 8, false, false)]);
        assert_eq!(stagger(&mut preferring(1), low), [ms(600)]);
        let many: Vec<_> = (1..40).map(|n| (u128::from(n), n, false, false)).collect();
        assert_eq!(stagger(&mut preferring(1), ranked(&many)), [ms(1_000)], "no longer than a renewal period");
        let refuses = ranked(&[(1, 3, false, false), (2, 2, false, false), (3, 7, false, true)]);
        assert_eq!(stagger(&mut preferring(3), refuses), [ms(0)], "for one that would not take it nobody waits");
        assert_eq!(stagger(&mut preferring(3), None), [ms(0)], "nobody else is known");
    }

    /// Whether it hands the lead over, as leader, while session 2 is there.
    fn hands_over(one: &mut Balance, now: u64, priority: u32, shuns: bool) -> bool {
        let told = ranked(&[(1, 3, true, false), (2, priority, false, shuns)]);
        one.decide(at(now), &mine(&[WHOLE], &[]), told).hand_over.is_some()
    }

    #[test]
    fn the_lead_goes_to_who_is_preferred_once_that_one_has_been_there_for_a_while() {
        let mut one = preferring(3);
        assert!(!hands_over(&mut one, 0, 4, false));
        assert!(!hands_over(&mut one, AFTER - 1, 4, false));
        assert!(hands_over(&mut one, AFTER, 4, false));
        assert!(!hands_over(&mut one, AFTER + 1, 4, false), "it is on its way");
        for priority in [2, 3] {
            let mut one = preferring(3);
            assert!(!(0..9).any(|n| hands_over(&mut one, n * AFTER, priority, false)), "{priority} is not better");
        }
    }

    #[test]
    fn who_took_the_lead_keeps_it_for_a_while_whoever_is_there() {
        let mut one = preferring(3);
        let follows = ranked(&[(1, 3, false, false), (2, 4, false, false)]);
        one.decide(at(0), &mine(&[], &[]), follows);
        assert!(!hands_over(&mut one, AFTER, 4, false), "it leads from now on");
        assert!(!hands_over(&mut one, 2 * AFTER - 1, 4, false));
        assert!(hands_over(&mut one, 2 * AFTER, 4, false));
    }

    #[test]
    fn who_stays_out_counts_from_when_it_does_no_longer() {
        let mut one = preferring(3);
        assert!(!hands_over(&mut one, 0, 4, false));
        assert!(!hands_over(&mut one, 1, 4, true), "it resigned");
        assert!(!hands_over(&mut one, AFTER, 4, true));
        assert!(!hands_over(&mut one, AFTER + 1, 4, false));
        assert!(!hands_over(&mut one, 2 * AFTER, 4, false));
        assert!(hands_over(&mut one, 2 * AFTER + 1, 4, false));
    }

    #[test]
    fn who_says_that_it_is_there_and_does_not_take_the_lead_is_given_it_ever_more_rarely() {
        let mut one = preferring(3);
        let follows = || ranked(&[(1, 3, false, false), (2, 4, false, false)]);
        let mut given = Vec::new();
        for now in (0..800_000).step_by(500) {
            if hands_over(&mut one, now, 4, false) {
                given.push(now);
                one.decide(at(now + 100), &mine(&[], &[]), follows());
            }
        }
        let pauses: Vec<u64> = given.windows(2).map(|two| (two[1] - two[0]) / LEASE).collect();
        assert_eq!(pauses, [4, 8, 16, 32, 64, 64, 64]);
    }

    #[test]
    fn the_age_of_a_version_is_learnt_and_told_and_kept_across_a_reload() {
        use super::super::rank::AppVersion;
        let runs = |since| Rank { priority: 0, version: Some(AppVersion::new("a", since)) };
        let policy = Policy::Preferred { rank: runs(50), after: ms(AFTER) };
        let mut one = balance(1);
        one.change(1, policy);
        assert_eq!(one.rank(), Some(runs(50)));
        let told = |since| {
            let portion = Portion { rank: Some(runs(since)), ..Portion::default() };
            Some(vec![Participant { session: SessionId::from_u128(2), portion }])
        };
        one.decide(at(0), &mine(&[], &[]), told(20));
        assert_eq!(one.rank(), Some(runs(20)));
        one.change(1, policy);
        assert_eq!(one.rank(), Some(runs(20)));
        one.change(1, Policy::Even);
        assert_eq!(one.rank(), None);
    }
}
