//! Who should lead which shard: the same for everybody who sees the same presence.

use super::super::ids::SessionId;
use super::Participant;
use super::set::ShardSet;

/// Where one replica stands in the reckoning.
#[derive(Clone, Copy, Debug)]
struct Share {
    session: SessionId,
    shuns: ShardSet,
    /// How many it should lead: the even part, or one more.
    quota: usize,
    /// How many it has been given so far.
    has: usize,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spread {
    targets: Vec<Option<SessionId>>,
    quotas: Vec<(SessionId, usize)>,
}

impl Spread {
    /// Spreads `shards` shards over these members.
    ///
    /// Each has a quota, the even part of all; where that leaves a rest, those that lead the most have one more. A
    /// member keeps what it leads up to its quota, the smallest numbers first. What is left is given to those that are
    /// below theirs: first the shards that nobody leads, then the surplus of those above. A surplus that nobody is
    /// below quota for stays where it is; a shard that nobody leads always goes to somebody, unless all shun it.
    pub fn new(shards: u16, members: &[Participant]) -> Self {
        let count = members.len();
        if count == 0 {
            return Self { targets: vec![None; usize::from(shards)], quotas: Vec::new() };
        }
        let mut order: Vec<&Participant> = members.iter().collect();
        order.sort_by_key(|member| (std::cmp::Reverse(member.portion.leads.len()), member.session));
        let (even, rest) = (usize::from(shards) / count, usize::from(shards) % count);
        let mut targets = vec![None; usize::from(shards)];
        let mut owners = vec![None; usize::from(shards)];
        let mut shares = Vec::with_capacity(count);
        for (rank, member) in order.iter().enumerate() {
            let quota = even + usize::from(rank < rest);
            let mut has = 0;
            for shard in member.portion.leads.iter().take_while(|shard| *shard < shards).map(usize::from) {
                // Two may say that they lead it when one of them said so a while ago: it is counted once.
                if owners[shard].is_none() {
                    owners[shard] = Some(member.session);
                    if has < quota {
                        targets[shard] = Some(member.session);
                        has += 1;
                    }
                }
            }
            shares.push(Share { session: member.session, shuns: member.portion.shuns, quota, has });
        }
        shares.sort_by_key(|share| share.session);
        for owned in [false, true] {
            for shard in 0..shards {
                let at = usize::from(shard);
                if targets[at].is_none() && owners[at].is_some() == owned {
                    targets[at] = take(&mut shares, shard, owned).or(owners[at]);
                }
            }
        }
        let quotas = shares.iter().map(|share| (share.session, share.quota)).collect();
        Self { targets, quotas }
    }

    /// Who should lead it; none when nobody may.
    pub fn target(&self, shard: u16) -> Option<SessionId> {
        self.targets.get(usize::from(shard)).copied().flatten()
    }

    /// How many this one should lead; none when it takes no part.
    pub fn quota(&self, session: SessionId) -> Option<usize> {
        self.quotas.iter().find(|(known, _)| *known == session).map(|(_, quota)| *quota)
    }
}

/// Gives a shard to whoever is furthest below its quota. `below_only`: to nobody else; otherwise to whoever has the
/// least.
fn take(shares: &mut [Share], shard: u16, below_only: bool) -> Option<SessionId> {
    let may = |share: &&mut Share| !share.shuns.contains(shard) && (!below_only || share.has < share.quota);
    // The first of several, by session.
    let taker = shares.iter_mut().filter(may).min_by_key(|share| {
        let missing = share.quota.saturating_sub(share.has);
        (std::cmp::Reverse(missing), share.has)
    })?;
    taker.has += 1;
    Some(taker.session)
}

#[cfg(test)]
mod tests {
    use super::super::Portion;
    use super::*;

    fn session(number: u128) -> SessionId {
        SessionId::from_u128(number)
    }

    fn member(number: u128, leads: &[u16], shuns: &[u16]) -> Participant {
        let set = |shards: &[u16]| shards.iter().copied().collect();
        Participant { session: session(number), portion: Portion { leads: set(leads), shuns: set(shuns), rank: None } }
    }

    /// Which member should lead each shard; 0 for nobody.
    fn spread(shards: u16, members: &[Participant]) -> Vec<u128> {
        let spread = Spread::new(shards, members);
        let number = |target| (1..9).find(|number| Some(session(*number)) == target).unwrap_or(0);
        (0..shards).map(|shard| number(spread.target(shard))).collect()
    }

    #[test]
    fn free_shards_are_spread_evenly_and_led_ones_stay() {
        let (none, all) = (&[][..], &[0, 1, 2, 3, 4, 5][..]);
        let rows: [(&str, u16, Vec<Participant>, Vec<u128>); 11] = [
            ("nobody", 2, vec![], vec![0, 0]),
            ("one has all", 3, vec![member(1, none, none)], vec![1, 1, 1]),
            ("alike", 6, vec![member(1, none, none), member(2, none, none)], vec![1, 2, 1, 2, 1, 2]),
            ("even already", 4, vec![member(1, &[3, 2], none), member(2, &[0, 1], none)], vec![2, 2, 1, 1]),
            ("more replicas than shards", 1, vec![member(1, none, none), member(2, &[0], none)], vec![2]),
            ("a newcomer", 6, vec![member(1, none, none), member(2, all, none)], vec![2, 2, 2, 1, 1, 1]),
            (
                "the rest stays with who has most",
                3,
                vec![member(1, &[0], none), member(2, &[1, 2], none)],
                vec![1, 2, 2],
            ),
            ("off by one is even", 5, vec![member(1, &[0, 1, 2], none), member(2, &[3, 4], none)], vec![1, 1, 1, 2, 2]),
            ("free ones first", 4, vec![member(1, &[0, 1, 2], none), member(2, none, none)], vec![1, 1, 2, 2]),
            ("claimed twice", 2, vec![member(1, &[0], none), member(2, &[0], none)], vec![1, 2]),
            ("beyond the last", 1, vec![member(1, &[7], none), member(2, none, none)], vec![1]),
        ];
        for (what, shards, members, wanted) in rows {
            assert_eq!(spread(shards, &members), wanted, "{what}");
        }
    }

    #[test]
    fn what_a_replica_shuns_goes_to_another_and_nothing_moves_to_and_fro_for_it() {
        let all = [0, 1, 2, 3];
        let (one, two) = (member(1, &[], &[0, 1]), member(2, &[2, 3], &[]));
        assert_eq!(spread(4, &[one, two]), [2, 2, 2, 2], "above its quota, for want of anybody else");
        let (one, two, three) = (member(1, &[], &all), member(2, &[0, 1], &[]), member(3, &[2, 3], &[]));
        assert_eq!(spread(4, &[one, two, three]), [2, 2, 3, 3], "who shuns all makes nobody else give anything up");
        assert_eq!(spread(1, &[member(1, &[], &[0])]), [0], "all shun it");
    }

    #[test]
    fn following_the_spread_one_move_at_a_time_ends_with_as_few_moves_as_there_must_be() {
        for replicas in 1..=7_u128 {
            for shards in [1, 2, 5, 12, 13, 64] {
                // All of them with the first: the most uneven there is.
                let mut leads = vec![ShardSet::EMPTY; replicas as usize];
                leads[0] = (0..shards).collect();
                let mut moves = 0;
                loop {
                    let members: Vec<Participant> = (1..)
                        .zip(&leads)
                        .map(|(n, leads)| Participant {
                            session: session(n),
                            portion: Portion { leads: *leads, ..Portion::default() },
                        })
                        .collect();
                    let wanted = spread(shards, &members);
                    let Some(shard) = (0..shards).find(|s| !leads[wanted[usize::from(*s)] as usize - 1].contains(*s))
                    else {
                        break;
                    };
                    leads.iter_mut().for_each(|set| set.remove(shard));
                    leads[wanted[usize::from(shard)] as usize - 1].insert(shard);
                    moves += 1;
                    assert!(moves <= shards, "{shards} shards over {replicas} never come to rest");
                }
                let (least, most) = leads.iter().fold((999, 0), |(l, m), set| (set.len().min(l), set.len().max(m)));
                assert!(most - least <= 1, "{shards} shards over {replicas}: {least} to {most}");
                let kept = usize::from(shards).div_ceil(replicas as usize);
                assert_eq!(usize::from(moves), usize::from(shards) - kept);
            }
        }
    }

    #[test]
    fn what_nobody_below_its_share_takes_stays_where_it_is() {
        let of = |number, leads: &[u16], shuns: &[u16]| {
            let (leads, shuns) = (leads.iter().copied().collect(), shuns.iter().copied().collect());
            Participant { session: session(number), portion: Portion { leads, shuns, rank: None } }
        };
        let spread = Spread::new(3, &[of(9, &[0, 1], &[]), of(3, &[2], &[]), of(4, &[], &[0, 1])]);
        assert_eq!([0, 1, 2].map(|shard| spread.target(shard)), [9, 9, 3].map(|number| Some(session(number))));
    }
}
