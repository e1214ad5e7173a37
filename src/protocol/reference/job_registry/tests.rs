//! One step each.

use super::*;

fn token(value: u64) -> Token {
    Token::new(value).unwrap()
}

fn name(text: &str) -> JobName {
    JobName::new(text).unwrap()
}

fn role() -> RoleName {
    RoleName::new("scheduler").unwrap()
}

fn at(ms: u64) -> Wall {
    Wall::from_millis(ms)
}

fn one_shot(slot: u64) -> JobPut<char> {
    JobPut { role: role(), slot: at(slot), suspended: false, spec: 'a', state: '-', overwrite: true }
}

fn taking(term: u64, request: u64, now: u64) -> JobTake {
    let (token, floor) = (token(term), Token::NONE);
    JobTake { role: role(), token, request, floor, now: at(now), most: 10, all: false }
}

/// A registry with these jobs, due at these moments.
fn with(jobs: &[(&str, u64)]) -> JobRegistry<char> {
    let mut registry = JobRegistry::default();
    for (number, (job, slot)) in (1..).zip(jobs) {
        registry.put(&name(job), one_shot(*slot), StoreTime(number)).unwrap();
    }
    registry
}

/// What was taken (name, attempt, token, whether the one before was interrupted), when the next is due, and how many
/// are taken.
type Took = (Vec<(String, u32, u64, bool)>, Option<u64>, usize);

fn took(reply: JobTakeReply<char>) -> Took {
    let JobTakeReply::Taken { jobs, next, held } = reply else { panic!("refused") };
    let shown =
        |(name, job): (JobName, StoredJob<char>)| (name.to_string(), job.attempt, job.ticket.get(), job.interrupted);
    (jobs.into_iter().map(shown).collect(), next.map(Wall::as_millis), held)
}

fn one(job: &str, attempt: u32, ticket: u64, interrupted: bool) -> Vec<(String, u32, u64, bool)> {
    vec![(job.to_owned(), attempt, ticket, interrupted)]
}

fn end(registry: &mut JobRegistry<char>, job: &str, term: u64, ticket: u64, then: Settlement<char>) -> JobSettleReply {
    let revision = registry.get(&name(job)).map_or(Revision::new(1).unwrap(), |job| job.revision);
    registry.settle(&name(job), JobSettle { token: token(term), revision, ticket: token(ticket), then })
}

fn again(slot: u64, due: u64, attempt: u32) -> Settlement<char> {
    Settlement::Again { slot: at(slot), due: at(due), attempt, state: Some('s') }
}

#[test]
fn what_is_due_is_taken_once() {
    let mut registry = with(&[("b", 200), ("a", 100), ("c", 300)]);
    assert_eq!(took(registry.take(&taking(50, 1, 99))), (vec![], Some(100), 0));
    assert_eq!(took(registry.take(&taking(50, 2, 100))), (one("a", 1, 51, false), Some(200), 1));
    let both = [one("b", 1, 52, false), one("c", 1, 53, false)].concat();
    assert_eq!(took(registry.take(&taking(50, 3, 400))), (both, None, 3));
    assert_eq!(took(registry.take(&taking(50, 4, 400))), (vec![], None, 3));
}

#[test]
fn no_more_are_taken_than_asked_for_and_the_rest_is_told() {
    let mut registry = with(&[("a", 100), ("b", 100)]);
    let few = JobTake { most: 1, ..taking(50, 1, 500) };
    assert_eq!(took(registry.take(&few)), (one("a", 1, 51, false), Some(100), 1));
}

#[test]
fn a_take_without_an_answer_is_answered_again_and_an_old_one_takes_nothing() {
    let mut registry = with(&[("a", 100), ("b", 200)]);
    let first = took(registry.take(&taking(50, 1, 100)));
    assert_eq!(took(registry.take(&taking(50, 1, 500))), first, "the same, though more is due by now");
    assert_eq!(took(registry.take(&taking(50, 2, 500))).0, one("b", 1, 52, false));
    assert_eq!(took(registry.take(&taking(50, 1, 500))).0, first.0, "it comes late");
    end(&mut registry, "a", 50, 51, Settlement::Remove);
    assert_eq!(took(registry.take(&taking(50, 1, 500))).0, vec![]);
}

#[test]
fn everything_of_a_term_can_be_asked_for() {
    let mut registry = with(&[("a", 100), ("b", 200)]);
    registry.take(&taking(50, 1, 100));
    registry.take(&taking(50, 2, 200));
    let all = JobTake { all: true, ..taking(50, 2, 500) };
    let both = [one("a", 1, 51, false), one("b", 1, 52, false)].concat();
    assert_eq!(took(registry.take(&all)), (both, None, 2));
}

#[test]
fn a_later_term_finds_what_was_interrupted_and_shuts_the_earlier_out() {
    let mut registry = with(&[("a", 100)]);
    registry.take(&taking(50, 1, 100));
    assert_eq!(took(registry.take(&taking(60, 1, 100))), (one("a", 2, 61, true), None, 1));
    assert_eq!(registry.take(&taking(50, 2, 100)), JobTakeReply::Stale { fence: token(60) });
    let stale = JobSettleReply::Stale { fence: token(60) };
    assert_eq!(end(&mut registry, "a", 50, 51, Settlement::Remove), stale);
    assert_eq!(end(&mut registry, "a", 60, 61, Settlement::Remove), JobSettleReply::Settled);
    assert_eq!(registry.get(&name("a")), None);
}

#[test]
fn tokens_of_attempts_rise_also_above_what_the_store_has_lost() {
    let mut registry = with(&[("a", 100), ("b", 100)]);
    let reply = took(registry.take(&JobTake { floor: token(90), ..taking(50, 1, 100) }));
    assert_eq!(reply.0, [one("a", 1, 91, false), one("b", 1, 92, false)].concat());
    end(&mut registry, "a", 50, 91, again(100, 100, 1));
    assert_eq!(took(registry.take(&taking(50, 2, 100))).0, one("a", 2, 93, false));
}

#[test]
fn an_attempt_is_settled_once_and_nobody_elses() {
    let mut registry = with(&[("a", 100)]);
    registry.take(&taking(50, 1, 100));
    assert_eq!(end(&mut registry, "a", 50, 50, Settlement::Remove), JobSettleReply::Gone, "an earlier attempt");
    assert_eq!(end(&mut registry, "a", 50, 51, again(100, 300, 1)), JobSettleReply::Settled);
    assert_eq!(end(&mut registry, "a", 50, 51, Settlement::Remove), JobSettleReply::Gone, "again");
    let job = registry.get(&name("a")).unwrap();
    assert_eq!((job.attempt, job.taken, job.due, job.state), (1, false, at(300), 's'));
    assert_eq!(took(registry.take(&taking(50, 2, 300))).0, one("a", 2, 52, false), "it was not interrupted");
    let put = registry.put(&name("a"), JobPut { spec: 'b', ..one_shot(300) }, StoreTime(9)).unwrap();
    assert_eq!(put, (JobPutReply::Replaced(Revision::new(9).unwrap()), true), "its leader hears of it");
    let settle = JobSettle {
        token: token(50),
        revision: Revision::new(1).unwrap(),
        ticket: token(52),
        then: Settlement::Remove,
    };
    assert_eq!(registry.settle(&name("a"), settle), JobSettleReply::Gone, "another stands there");
}

#[test]
fn what_is_put_again_stays_and_what_is_new_is_heard_of_where_it_is_next() {
    let mut registry = JobRegistry::default();
    let mut put = |job: &str, put: JobPut<char>, now| registry.put(&name(job), put, StoreTime(now)).unwrap();
    let revision = |value| Revision::new(value).unwrap();
    assert_eq!(put("a", one_shot(200), 5), (JobPutReply::Created(revision(5)), true));
    assert_eq!(put("b", one_shot(300), 6), (JobPutReply::Created(revision(6)), false), "it is not next");
    assert_eq!(put("c", one_shot(100), 7), (JobPutReply::Created(revision(7)), true));
    assert_eq!(put("a", one_shot(900), 8), (JobPutReply::Unchanged(revision(5)), false), "the same was asked for");
    let another = || JobPut { spec: 'b', ..one_shot(50) };
    assert_eq!(put("a", JobPut { overwrite: false, ..another() }, 8), (JobPutReply::Exists(revision(5)), false));
    assert_eq!(put("a", another(), 3), (JobPutReply::Replaced(revision(6)), true), "revisions rise");
    assert_eq!(put("d", JobPut { suspended: true, ..one_shot(1) }, 9), (JobPutReply::Created(revision(9)), false));
    let listed: Vec<String> = registry.list(Some(&name("a")), 2).iter().map(|(name, _)| name.to_string()).collect();
    assert_eq!(listed, ["b", "c"]);
    assert_eq!(took(registry.take(&taking(50, 1, 1_000))).0.len(), 3, "the fourth is suspended");
    assert_eq!((registry.delete(&name("a")), registry.delete(&name("d"))), ((true, true), (true, false)));
    assert_eq!(registry.delete(&name("a")), (false, false));
}

#[test]
fn a_job_of_another_role_is_that_roles() {
    let mut registry = with(&[("a", 100)]);
    let other = RoleName::new("other").unwrap();
    registry.put(&name("a"), JobPut { role: other.clone(), ..one_shot(100) }, StoreTime(9)).unwrap();
    assert_eq!(took(registry.take(&taking(50, 1, 500))), (vec![], None, 0));
    assert_eq!(took(registry.take(&JobTake { role: other, ..taking(7, 1, 500) })).0, one("a", 1, 8, false));
}

#[test]
fn wishes_are_for_the_version_that_is_known() {
    let mut registry = with(&[("a", 900)]);
    let first = Revision::new(1).unwrap();
    let mut wish = |wish| registry.wish(&name("a"), first, wish);
    let granted = |slot| JobWishReply::Granted { slot: at(slot) };
    assert_eq!(wish(JobWish::Suspend), granted(900));
    assert_eq!(wish(JobWish::Resume { slot: at(800) }), granted(800));
    assert_eq!(wish(JobWish::Suspend), granted(800));
    assert_eq!(wish(JobWish::Run { now: at(50) }), granted(50), "also while it is suspended");
    assert_eq!(took(registry.take(&taking(50, 1, 50))).0, one("a", 1, 51, false));
    assert_eq!(registry.wish(&name("a"), first, JobWish::Run { now: at(60) }), JobWishReply::Busy);
    end(&mut registry, "a", 50, 51, again(900, 900, 0));
    assert_eq!(took(registry.take(&taking(50, 2, 2_000))), (vec![], None, 0), "it is suspended still");
    let second = Revision::new(2).unwrap();
    assert_eq!(registry.wish(&name("a"), second, JobWish::Suspend), JobWishReply::Gone);
}

#[test]
fn a_run_that_has_begun_goes_on_while_its_job_is_suspended() {
    let mut registry = with(&[("a", 100)]);
    registry.take(&taking(50, 1, 100));
    let first = Revision::new(1).unwrap();
    registry.wish(&name("a"), first, JobWish::Suspend);
    end(&mut registry, "a", 50, 51, again(100, 200, 1));
    assert_eq!(took(registry.take(&taking(50, 2, 200))).0, one("a", 2, 52, false));
    end(&mut registry, "a", 50, 52, again(300, 300, 0));
    assert_eq!(took(registry.take(&taking(50, 3, 400))).0, vec![]);
}

#[test]
fn a_wish_moves_the_slot_only_of_a_job_that_is_not_begun() {
    let mut registry = with(&[("a", 100), ("b", 100)]);
    let [a, b] = ["a", "b"].map(|job| registry.get(&name(job)).unwrap().revision);
    let granted = |slot| JobWishReply::Granted { slot: at(slot) };
    assert_eq!(registry.wish(&name("b"), b, JobWish::Resume { slot: at(700) }), granted(100), "it was not suspended");
    registry.take(&JobTake { most: 1, ..taking(50, 1, 100) });
    end(&mut registry, "a", 50, 51, again(100, 900, 1));
    assert_eq!(registry.wish(&name("a"), a, JobWish::Suspend), granted(100));
    assert_eq!(registry.wish(&name("a"), a, JobWish::Resume { slot: at(800) }), granted(100), "it is tried again");
    assert_eq!(registry.wish(&name("a"), a, JobWish::Run { now: at(500) }), granted(100), "at once");
    assert_eq!(registry.get(&name("a")).unwrap().due, at(500));
}
