//! Counting members.

use super::super::seats::SEATS_MAX;
use super::*;

/// [a, b, c, d] before and [b, c, d, e] after.
fn changing() -> Seats {
    Seats::of(&[Seat::Leaves, Seat::Stays, Seat::Stays, Seat::Stays, Seat::Joins].map(Some), false)
}

#[test]
fn a_majority_is_more_than_half_of_each_list_whatever_a_grant_takes() {
    for seats in [Seats::majority(4), Seats::all(4)] {
        assert!(!seats.are_a_majority([]) && !seats.are_a_majority([0, 1]), "half is not more than half");
        assert!(seats.are_a_majority([0, 1, 3]) && seats.are_a_majority(0..4));
    }
    assert!(Seats::majority(5).are_a_majority([0, 1, 2]));
    assert!(!changing().are_a_majority([0, 1, 2]), "two of the second list");
    assert!(changing().are_a_majority([1, 2, 3]));
}

#[test]
fn who_is_heard_by_either_list_is_heard_and_half_of_one_is_not_enough() {
    assert!(!changing().are_heard([1, 2]));
    assert!(changing().are_heard([0, 1, 2]) && changing().are_heard([1, 2, 4]));
}

#[test]
fn as_many_may_be_lost_as_are_not_needed() {
    let spare = |who: &[usize]| Seats::majority(5).spare(who);
    assert_eq!([spare(&[]), spare(&[0, 1, 2]), spare(&[0, 1, 2, 3]), spare(&[0, 1, 2, 3, 4])], [0, 0, 1, 2]);
}

#[test]
fn a_member_that_is_named_twice_counts_once_and_one_that_has_no_place_does_not_count() {
    let seats = Seats::majority(SEATS_MAX);
    let few: Vec<usize> = (0..SEATS_MAX / 2).collect();
    assert!(!seats.are_enough(few.iter().chain(&few).copied()));
    assert!(!seats.are_enough(few.iter().copied().chain([SEATS_MAX, 31])));
    assert!(!Seats::majority(3).are_enough([1, 1, 1]));
    assert!(Seats::majority(3).are_enough([1, 1, 2]));
}

#[test]
fn the_list_that_is_short_of_members_is_told_of() {
    let tell = |who: &[usize]| changing().tell(who.iter().copied(), "answered");
    assert_eq!(tell(&[0, 1]), "2 of 4 members before the change answered and 3 are needed");
    assert_eq!(tell(&[0, 1, 2]), "2 of 4 members after the change answered and 3 are needed");
    assert_eq!(tell(&[1, 2, 4]), "2 of 4 members before the change answered and 3 are needed");
    assert_eq!(tell(&[1, 2, 3]), "3 of 4 members before the change answered and 3 are needed");
}
