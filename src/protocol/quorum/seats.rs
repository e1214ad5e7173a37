//! Which members a grant or a renewal takes.

/// How many members there may be: places of a bit set.
pub const SEATS_MAX: usize = 24;

/// The list of the members, or two of them while it is being changed: the one before and the one after. It takes enough
/// of each then, because majorities of two lists may share nobody: {a, c} of [a, b, c] and {b, d} of [a, b, d].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Seats {
    /// How many places there are; a list names some of them.
    places: usize,
    /// The same one twice, when nothing is being changed.
    lists: [List; 2],
}

/// Members by their places, and how many of them it takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct List {
    members: u32,
    needed: u32,
}

impl List {
    const fn of(members: u32, all: bool) -> Self {
        let count = members.count_ones();
        Self { members, needed: if all { count } else { count / 2 + 1 } }
    }

    const fn count(self, who: u32) -> u32 {
        (self.members & who).count_ones()
    }
}

/// How a member stands in the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seat {
    /// It is of the list before and of the list after.
    Stays,
    /// Of the list after.
    Joins,
    /// Of the list before.
    Leaves,
}

impl Seats {
    /// More than half of so many members.
    pub const fn majority(members: usize) -> Self {
        Self::plain(members, false)
    }

    /// Every one: as available as its least available member.
    pub const fn all(members: usize) -> Self {
        Self::plain(members, true)
    }

    const fn plain(members: usize, all: bool) -> Self {
        assert!(members <= SEATS_MAX, "too many members");
        let list = List::of((1 << members) - 1, all);
        Self { places: members, lists: [list, list] }
    }

    /// One seat for each member, in order; `None` for one that is of neither list. `all`: every one is needed.
    ///
    /// # Panics
    /// With more than [`SEATS_MAX`] places.
    pub fn of(seats: &[Option<Seat>], all: bool) -> Self {
        assert!(seats.len() <= SEATS_MAX, "too many members");
        let list = |without: Seat| {
            let is_of = |seat: &Option<Seat>| seat.is_some_and(|seat| seat != without);
            let places = seats.iter().enumerate().filter(|(_, seat)| is_of(seat));
            List::of(places.fold(0, |members, (place, _)| members | 1 << place), all)
        };
        Self { places: seats.len(), lists: [list(Seat::Joins), list(Seat::Leaves)] }
    }

    /// How many places there are.
    pub const fn places(self) -> usize {
        self.places
    }

    /// Who is of a list.
    pub fn members(self) -> impl Iterator<Item = usize> {
        let members = self.lists[0].members | self.lists[1].members;
        (0..self.places).filter(move |place| members & (1 << place) != 0)
    }

    /// Whether these make a grant or a renewal.
    pub fn are_enough(self, who: impl IntoIterator<Item = usize>) -> bool {
        let who = set(who);
        self.lists.iter().all(|list| list.count(who) >= list.needed)
    }

    /// Whether these are more than half of each list, whatever a grant takes.
    pub fn are_a_majority(self, who: impl IntoIterator<Item = usize>) -> bool {
        let who = set(who);
        self.lists.iter().all(|list| list.count(who) * 2 > list.members.count_ones())
    }

    /// Whether these are more than half of either list: what they say is the word of whoever leads by that one.
    pub fn are_heard(self, who: impl IntoIterator<Item = usize>) -> bool {
        let who = set(who);
        self.lists.iter().any(|list| list.count(who) * 2 > list.members.count_ones())
    }

    /// The least number of members without whom nobody can be granted anything.
    pub fn blocking(self) -> usize {
        let blocking = |list: &List| list.members.count_ones() - list.needed + 1;
        self.lists.iter().map(blocking).min().unwrap_or(0) as usize
    }

    /// How many of these may be lost, whichever, and the rest are still enough.
    pub fn spare(self, who: &[usize]) -> usize {
        let who = set(who.iter().copied());
        let spare = |list: &List| list.count(who).saturating_sub(list.needed);
        self.lists.iter().map(spare).min().unwrap_or(0) as usize
    }

    /// "2 of 5 members DID and 3 are needed", of the list that is short of them.
    pub fn tell(self, who: impl IntoIterator<Item = usize>, did: &str) -> String {
        let who = set(who);
        let [before, after] = self.lists;
        let is_short = |list: &List| list.count(who) < list.needed;
        let list = if is_short(&before) || !is_short(&after) { before } else { after };
        let which = match (before == after, list == before) {
            (true, _) => "members",
            (false, true) => "members before the change",
            (false, false) => "members after the change",
        };
        format!("{} of {} {which} {did} and {} are needed", list.count(who), list.members.count_ones(), list.needed)
    }
}

fn set(who: impl IntoIterator<Item = usize>) -> u32 {
    who.into_iter().filter(|place| *place < SEATS_MAX).fold(0, |set, place| set | 1 << place)
}
