use super::*;

fn news(kind: AnnouncementKind, value: u64, count: u64) -> Announcement {
    Announcement { kind, token: token(value), count, holder: holder(1), audience: 3 }
}

#[test]
fn a_majority_says_it_once() {
    let mut heard = Heard::new(Seats::majority(5));
    let grant = |count| news(AnnouncementKind::Grant, 7, count);
    let said: Vec<bool> = [0, 0, 1, 2, 3, 4].map(|member| heard.said(member, &grant(100 + member as u64))).into();
    assert_eq!(said, [false, false, false, true, false, false], "the third voice, whatever the members count");
}

#[test]
fn each_heartbeat_is_news_and_only_voices_for_the_same_one_count() {
    let mut heard = Heard::new(Seats::majority(3));
    let beat = |count| news(AnnouncementKind::Heartbeat, 7, count);
    assert!(!heard.said(0, &beat(1)));
    assert!(!heard.said(1, &beat(2)), "one member is a renewal ahead");
    assert!(heard.said(0, &beat(2)));
    assert!(!heard.said(2, &news(AnnouncementKind::Heartbeat, 6, 2)), "another term");
    assert!(!heard.said(2, &news(AnnouncementKind::Release, 7, 2)), "another word");
    assert!(!heard.said(2, &Announcement { holder: holder(2), ..beat(2) }), "another's term, of the same token");
    assert!(!heard.said(0, &beat(3)));
    assert!(heard.said(2, &beat(3)));
}

#[test]
fn a_minority_is_not_the_quorums_voice_however_often_it_says_so() {
    let mut heard = Heard::new(Seats::majority(5));
    for count in 0..10 {
        for member in [0, 1] {
            assert!(!heard.said(member, &news(AnnouncementKind::Heartbeat, 7, count)));
        }
    }
}

#[test]
fn what_was_said_before_a_gap_no_longer_counts() {
    let mut heard = Heard::new(Seats::majority(3));
    let release = news(AnnouncementKind::Release, 7, 0);
    assert!(!heard.said(0, &release));
    heard.missed(0);
    assert!(!heard.said(1, &release), "one voice, since the first may be stale");
    assert!(heard.said(0, &release));
    heard.missed(9);
    assert!(!heard.said(9, &release), "there is no such member");
}

#[test]
fn a_slow_members_word_is_no_news_after_a_quick_one_has_gone_on() {
    let mut heard = Heard::new(Seats::majority(5));
    let beat = news(AnnouncementKind::Heartbeat, 7, 1);
    let said: Vec<bool> = (0..3).map(|member| heard.said(member, &beat)).collect();
    assert_eq!(said, [false, false, true]);
    assert!(!heard.said(0, &news(AnnouncementKind::Release, 7, 2)));
    assert!(!heard.said(3, &beat), "three voices once more, but of the same thing");
}

#[test]
fn while_the_list_changes_a_majority_of_either_says_it() {
    // [0, 1, 2] becomes [0, 1, 3].
    let seats = [Seat::Stays, Seat::Stays, Seat::Leaves, Seat::Joins].map(Some);
    let mut heard = Heard::new(Seats::of(&seats, false));
    let beat = news(AnnouncementKind::Heartbeat, 7, 1);
    let said = [2, 3, 0].map(|member| heard.said(member, &beat));
    assert_eq!(said, [false, false, true], "one of each is a majority of none; who leads by one list is heard");
}
