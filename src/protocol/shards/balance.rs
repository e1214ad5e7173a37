//! One replica's side: for which shards it goes at once, for which it lets others go first, and what it hands over.

use std::collections::BTreeMap;
use std::time::Duration;

use super::super::ids::{Mono, SessionId};
use super::super::timing::Timing;
use super::set::ShardSet;
use super::spread::Spread;
use super::{Participant, Portion};

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
            members: Vec::new(),
            told_at: None,
            there_since: BTreeMap::new(),
            handover: None,
            failures: 0,
            next_handover: Mono::default(),
        }
    }

    /// The role has so many shards from now on.
    pub fn resize(&mut self, shards: u16) {
        self.shards = shards;
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
                let before = self.there_since.len();
                self.there_since.retain(|session, _| members.iter().any(|member| member.session == *session));
                let has_changed = self.there_since.len() < before || self.there_since.len() < members.len();
                for member in &members {
                    self.there_since.entry(member.session).or_insert(now);
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
        let spread = Spread::new(self.shards, &self.members);
        self.follow_handover(now, mine);
        let stagger = (0..self.shards).map(|shard| self.stagger(&spread, mine, shard)).collect();
        let hand_over = self.surplus(now, &spread, mine);
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
        one.resize(3);
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
}
