//! The steps inside, without any I/O: how far they are from mattering.

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use baton::clock::{BootClock, Clock, SharedClock, wall_time};
use baton::protocol::{
    Action, Announcement, AnnouncementKind, CampaignReply, Election, Holder, Input, Mono, Profile, RenewReply,
    RoleName, Rules, SessionId, Stamped, StoreTime, Timing, Token,
};
use baton::role::{Heartbeat, RoleHandle, Snapshot};

use crate::part::{Bench, Findings, Part};
use crate::report::Row;
use crate::stats::median;

pub const PART: Part = Part {
    name: "micro",
    title: "Inside",
    about: "\
One step each, without any input or output.",
    budget: Duration::from_secs(30),
    peers: &[],
    measure: |bench| Box::pin(measure(bench)),
};

const ROUNDS: usize = 7;
const ROUND: Duration = Duration::from_millis(150);
const LEASE: Duration = Duration::from_secs(15);

async fn measure(_: &Bench) -> Findings {
    let row = |measure: &str, ns: f64| Row::new(measure, ns, "ns");
    Findings::of(vec![
        row("election: a renewal, from its moment to its answer", ns_each(renewal())),
        row("election: a standby hears a heartbeat", ns_each(heartbeat())),
        row("an answer of the leader, promise recorded", ns_each(answer(false))),
        row("the same, written as JSON", ns_each(answer(true))),
    ])
}

/// The median over some rounds of the time that one step takes.
fn ns_each(mut step: impl FnMut()) -> f64 {
    let mut round = || {
        let (begun, mut steps) = (Instant::now(), 0_u32);
        while begun.elapsed() < ROUND {
            // Looking at the clock costs as much as a step; not after each.
            (0..1_000).for_each(|_| step());
            steps += 1_000;
        }
        begun.elapsed().as_nanos() as f64 / f64::from(steps)
    };
    median(&(0..ROUNDS).map(|_| round()).collect::<Vec<_>>())
}

fn profile() -> Profile {
    Profile {
        session: SessionId::from_u128(1),
        identity: Arc::from("web-0"),
        timing: Timing::from_lease(LEASE).expect("the default lease"),
        guard: true,
        app_checked: false,
        rules: Rules::REDIS,
        place: Duration::ZERO,
        seed: 1,
    }
}

fn stamped<T>(reply: T, now: Mono) -> Stamped<T> {
    Stamped { reply, store_time: StoreTime(now.as_nanos() / 1_000) }
}

fn token() -> Token {
    Token::new(1_763_680_000_123_456).expect("below the limit")
}

/// An election that leads at `now`.
fn leading(now: Mono) -> Election {
    let mut election = Election::new(profile(), now);
    // A candidate waits a few random milliseconds before it looks.
    let now = now + Duration::from_millis(100);
    election.handle_timeout(now);
    while let Some(action) = election.poll_action() {
        if let Action::Campaign { id, .. } = action {
            let reply = Ok(stamped(CampaignReply::Granted { token: token(), count: 1 }, now));
            election.handle_input(now, Input::Campaigned { id, reply });
        }
    }
    assert!(election.standing().leads(now), "granted");
    election
}

fn renewal() -> impl FnMut() {
    let mut now = BootClock.now();
    let (mut election, mut count) = (leading(now), 1);
    move || {
        now = now + LEASE / 3;
        election.handle_timeout(now);
        while let Some(action) = election.poll_action() {
            if let Action::Renew { id, .. } = action {
                count += 1;
                let reply = RenewReply::Renewed { count, reasserted: false, audience: 2 };
                election.handle_input(now, Input::Renewed { id, reply: Ok(stamped(reply, now)) });
            }
        }
        black_box(election.poll_timeout());
        debug_assert!(election.standing().leads(now));
    }
}

fn heartbeat() -> impl FnMut() {
    let mut now = BootClock.now();
    let (mut election, mut count) = (Election::new(profile(), now), 1);
    let holder = Holder { session: SessionId::from_u128(2), identity: Arc::from("web-1") };
    move || {
        now = now + LEASE / 3;
        count += 1;
        let kind = AnnouncementKind::Heartbeat;
        let heard = Announcement { kind, token: token(), count, holder: holder.clone(), audience: 2 };
        election.handle_input(now, Input::Heard(heard));
        while let Some(action) = election.poll_action() {
            black_box(action);
        }
        black_box(election.poll_timeout());
    }
}

fn answer(written: bool) -> impl FnMut() {
    let clock: SharedClock = Arc::new(BootClock);
    let now = clock.now();
    let election = leading(now);
    let snapshot = Snapshot { index: 17, ..Snapshot::first(election.view(now), wall_time()) };
    let (changes, seen) = tokio::sync::watch::channel(Arc::new(snapshot));
    let (commands, inbox) = baton::mailbox::channel(1);
    let role = RoleHandle::new(
        RoleName::new("scheduler").expect("a DNS label"),
        Arc::from("web-0"),
        clock,
        Arc::clone(election.standing()),
        seen,
        commands,
        Arc::new(Heartbeat::new(now, LEASE)),
    );
    // The other ends live as long as the role does.
    let others = (changes, inbox, election);
    move || {
        let _ = &others;
        let answer = role.answer();
        if written {
            black_box(serde_json::to_vec(&answer).expect("strings and numbers"));
        }
        black_box(answer);
    }
}
