//! Where the lead of a role that is not split should go: to the replica of the greatest priority, and among those to
//! one of the newest version.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use super::super::ids::SessionId;
use super::super::random::fingerprint;
use super::{Participant, WHOLE};

const DIGITS: [usize; 3] = [8, 16, 16];

/// What a replica says of itself where some are preferred.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rank {
    /// The greater the better.
    pub priority: u32,
    /// Of what it runs; none where versions count for nothing.
    pub version: Option<AppVersion>,
}

/// One version of the app among others. Which of two is newer their names do not tell (a hash, or a version that is
/// rolled back to), so it is told by who was there first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AppVersion {
    /// A fingerprint of its name. Never zero.
    name: u64,
    /// Since when one that runs it has been there, as far as is known: in microseconds since 1970, by the clock of that
    /// replica.
    since: u64,
}

impl AppVersion {
    /// Of a replica that begins now and knows of no others.
    pub fn new(name: &str, unix_micros: u64) -> Self {
        Self { name: fingerprint(name.as_bytes()).max(1), since: unix_micros }
    }
}

impl Rank {
    /// Learns from the others since when its version has been there, and says so from then on: so a version keeps its
    /// age when those who began with it have gone.
    pub fn learn(&mut self, members: &[Participant]) {
        if let Some(version) = &mut self.version {
            version.since = first_seen(*version, members).min(version.since);
        }
    }
}

fn first_seen(version: AppVersion, members: &[Participant]) -> u64 {
    let versions = members.iter().filter_map(|member| member.portion.rank?.version);
    let same = versions.filter(|other| other.name == version.name).map(|other| other.since);
    same.min().unwrap_or(version.since)
}

/// 40 hexadecimal digits: the priority, and the version's name and time, which are zero if there is none.
impl fmt::Display for Rank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, since) = self.version.map_or((0, 0), |version| (version.name, version.since));
        write!(f, "{:08x}{name:016x}{since:016x}", self.priority)
    }
}

/// A text that is no rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoRank;

impl FromStr for Rank {
    type Err = NoRank;

    fn from_str(text: &str) -> Result<Self, NoRank> {
        if text.len() != DIGITS.iter().sum::<usize>() || !text.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return Err(NoRank);
        }
        let (priority, version) = text.split_at(DIGITS[0]);
        let (name, since) = version.split_at(DIGITS[1]);
        let [name, since] = [name, since].map(|word| u64::from_str_radix(word, 16));
        let (name, since) = (name.map_err(|_| NoRank)?, since.map_err(|_| NoRank)?);
        let priority = u32::from_str_radix(priority, 16).map_err(|_| NoRank)?;
        Ok(Self { priority, version: (name != 0).then_some(AppVersion { name, since }) })
    }
}

/// How much a replica is preferred: by its priority, then by how new its version is. None is older than any.
type Worth = (u32, Option<u64>);

/// Where one replica stands.
#[derive(Clone, Copy, Debug)]
struct Place {
    session: SessionId,
    worth: Worth,
    leads: bool,
}

/// Who is preferred to whom: the same for everybody who sees the same presence.
#[derive(Clone, Debug)]
pub struct Ranking(Vec<Place>);

impl Ranking {
    /// Of those that would take the lead.
    pub fn new(members: &[Participant]) -> Self {
        let willing = members.iter().filter(|member| !member.portion.shuns.contains(WHOLE));
        let place = |member: &Participant| {
            let rank = member.portion.rank.unwrap_or_default();
            let worth = (rank.priority, rank.version.map(|version| first_seen(version, members)));
            Place { session: member.session, worth, leads: member.portion.leads.contains(WHOLE) }
        };
        Self(willing.map(place).collect())
    }

    /// Those who are preferred to this one and to all others; nobody, if this one is among the best, or not there.
    pub fn better(&self, session: SessionId) -> impl Iterator<Item = SessionId> {
        let best = self.0.iter().map(|place| place.worth).max();
        let mine = self.worth(session);
        let is_better = move |place: &&Place| mine.is_some() && mine < best && Some(place.worth) == best;
        self.0.iter().filter(is_better).map(|place| place.session)
    }

    /// How many steps below the best this one is once whoever leads now does no longer, and would not take it back.
    pub fn steps_below(&self, session: SessionId) -> usize {
        let Some(mine) = self.worth(session) else { return 0 };
        let others = self.0.iter().filter(|place| !place.leads && place.worth > mine);
        others.map(|place| place.worth).collect::<BTreeSet<_>>().len()
    }

    fn worth(&self, session: SessionId) -> Option<Worth> {
        self.0.iter().find(|place| place.session == session).map(|place| place.worth)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Portion, ShardSet};
    use super::*;

    fn member(number: u128, rank: Rank) -> Participant {
        let portion = Portion { rank: Some(rank), ..Portion::default() };
        Participant { session: SessionId::from_u128(number), portion }
    }

    fn runs(priority: u32, version: &str, since: u64) -> Rank {
        Rank { priority, version: Some(AppVersion::new(version, since)) }
    }

    /// How many steps each is below the best.
    fn steps(members: &[Participant]) -> Vec<usize> {
        let ranking = Ranking::new(members);
        members.iter().map(|member| ranking.steps_below(member.session)).collect()
    }

    fn better(members: &[Participant], number: u128) -> Vec<SessionId> {
        Ranking::new(members).better(SessionId::from_u128(number)).collect()
    }

    #[test]
    fn priority_comes_before_version_and_a_newer_version_before_an_older_one() {
        let rows: [(&str, Vec<Rank>, Vec<usize>); 6] = [
            ("alike", vec![Rank::default(), Rank::default()], vec![0, 0]),
            ("priority", vec![runs(1, "a", 9), runs(3, "a", 9), runs(2, "b", 99)], vec![2, 0, 1]),
            ("the newest", vec![runs(0, "b", 10), runs(0, "a", 20), runs(0, "c", 15)], vec![2, 0, 1]),
            (
                "one version is as old as its first",
                vec![runs(0, "a", 10), runs(0, "a", 30), runs(0, "b", 20)],
                vec![1, 1, 0],
            ),
            ("no version is older than any", vec![Rank::default(), runs(0, "a", 1)], vec![1, 0]),
            ("its name counts for nothing", vec![runs(0, "2.0", 1), runs(0, "1.0", 2)], vec![1, 0]),
        ];
        for (what, ranks, wanted) in rows {
            let members: Vec<Participant> = (1..).zip(ranks).map(|(number, rank)| member(number, rank)).collect();
            assert_eq!(steps(&members), wanted, "{what}");
        }
    }

    #[test]
    fn who_would_not_take_the_lead_is_preferred_to_nobody() {
        let mut best = member(1, runs(5, "a", 1));
        best.portion.shuns = ShardSet::from_iter([WHOLE]);
        let members = [best, member(2, Rank::default()), member(3, runs(1, "a", 1)), member(4, runs(1, "a", 1))];
        assert_eq!(steps(&members), [0, 1, 0, 0]);
        assert_eq!(better(&members, 2), [3, 4].map(SessionId::from_u128));
        assert_eq!([1, 3, 9].map(|number| better(&members, number).len()), [0, 0, 0], "out, best, and not there");
    }

    #[test]
    fn for_a_leader_nobody_waits_since_it_is_waited_for_only_once_it_has_gone() {
        let mut leads = member(1, runs(5, "a", 1));
        leads.portion.leads = ShardSet::from_iter([WHOLE]);
        let members = [leads, member(2, runs(3, "a", 1)), member(3, Rank::default())];
        assert_eq!(steps(&members), [0, 0, 1]);
        assert_eq!(better(&members, 2), [SessionId::from_u128(1)], "it is the better one all the same");
    }

    #[test]
    fn a_version_stays_as_old_as_it_is_when_those_who_began_with_it_have_gone() {
        let mut rank = runs(0, "a", 50);
        rank.learn(&[member(1, runs(0, "a", 10)), member(2, runs(0, "b", 5))]);
        assert_eq!(rank, runs(0, "a", 10));
        rank.learn(&[member(2, runs(0, "b", 5))]);
        assert_eq!(rank, runs(0, "a", 10));
    }

    #[test]
    fn a_rank_survives_its_text() {
        for rank in [Rank::default(), runs(u32::MAX, "a", u64::MAX), Rank { priority: 7, version: None }] {
            assert_eq!(rank.to_string().parse(), Ok(rank));
        }
        for bad in ["", "0", &"0".repeat(39), &"g".repeat(40), &"ä".repeat(20)] {
            assert_eq!(bad.parse::<Rank>(), Err(NoRank), "{bad:?}");
        }
    }
}
