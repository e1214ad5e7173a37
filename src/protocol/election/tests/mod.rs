//! One state, one input, one expectation: the election without a store, a clock or a network.

mod candidate;
mod fork;
mod incumbent;
mod moments;
mod shards;
mod stagger;
mod states;
mod takeover;

use super::super::ids::StoreTime;
use super::super::messages::{AnnouncementKind, GuardCause, Holder, RecordVersion};
use super::event::{CampaignOutcome, LossReason};
use super::*;

const LEASE: Duration = Duration::from_secs(15);
const PERIOD: Duration = Duration::from_secs(5);
const TERM: Duration = Duration::from_secs(14);
const VALIDITY: Duration = Duration::from_secs(5);
/// More than any spread or retry delay.
const SOON: Duration = Duration::from_secs(1);

/// An election with its clock, and the requests that are out.
struct Stage {
    election: Election,
    now: Mono,
    events: Vec<Event>,
}

fn token(value: u64) -> Token {
    Token::new(value).unwrap()
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn rival() -> Holder {
    Holder { session: SessionId::from_u128(99), identity: Arc::from("other") }
}

/// A record that the rival has written.
fn version(token: Token, count: u64) -> RecordVersion {
    RecordVersion { token, count, writer: Some(rival().session) }
}

fn held(token: Token, count: u64, remaining: Duration) -> CampaignReply {
    CampaignReply::Held { holder: rival(), token, remaining, version: version(token, count) }
}

fn look_again(token: Token, count: u64) -> CampaignReply {
    CampaignReply::LookAgain { version: version(token, count), span: LEASE }
}

fn profile() -> Profile {
    Profile {
        session: SessionId::from_u128(1),
        attempts: Default::default(),
        identity: Arc::from("me"),
        timing: Timing::from_lease(LEASE).unwrap(),
        guard: true,
        app_checked: false,
        rules: Rules::REDIS,
        role_stagger: Duration::ZERO,
        seed: 7,
    }
}

impl Stage {
    fn new() -> Self {
        Self::with(profile())
    }

    fn with(profile: Profile) -> Self {
        let now = Mono::from_nanos(1_000_000_000_000);
        Self { election: Election::new(profile, now), now, events: Vec::new() }
    }

    /// A leader whose lease was asked for and granted just now.
    fn leading(token: Token) -> Self {
        let mut stage = Self::new();
        let (id, _) = stage.campaign();
        stage.answer(id, CampaignReply::Granted { token, count: 1 });
        assert_eq!(stage.state(), State::Leading);
        stage
    }

    /// A standby that knows that another leads.
    fn standby(remaining: Duration) -> Self {
        let mut stage = Self::new();
        let (id, _) = stage.campaign();
        stage.answer(id, held(token(10), 5, remaining));
        assert_eq!(stage.state(), State::Standby);
        stage
    }

    /// Lets time pass, in one go, and does what is due.
    fn pass(&mut self, span: Duration) -> &mut Self {
        self.now = self.now + span;
        self.election.handle_timeout(self.now);
        self
    }

    /// Lets time pass until something is due, which must be within `at_most`. Returns how long that was.
    fn until_due(&mut self, at_most: Duration) -> Duration {
        let due = self.election.poll_timeout().expect("something is due");
        let span = due.since(self.now);
        assert!(span <= at_most, "due in {span:?}, expected within {at_most:?}");
        self.pass(span);
        span
    }

    /// Everything that is to be done; events are kept aside.
    fn actions(&mut self) -> Vec<Action> {
        let mut actions = Vec::new();
        while let Some(action) = self.election.poll_action() {
            match action {
                Action::Tell(event) => self.events.push(event),
                action => actions.push(action),
            }
        }
        actions
    }

    fn only_action(&mut self) -> Action {
        let mut actions = self.actions();
        assert_eq!(actions.len(), 1, "{actions:?}");
        actions.remove(0)
    }

    fn campaign(&mut self) -> (RequestId, CampaignRequest) {
        self.election.handle_timeout(self.now);
        match self.only_action() {
            Action::Campaign { id, request } => (id, request),
            other => panic!("expected a campaign, not {other:?}"),
        }
    }

    fn renewal(&mut self) -> (RequestId, RenewRequest) {
        match self.only_action() {
            Action::Renew { id, request } => (id, request),
            other => panic!("expected a renewal, not {other:?}"),
        }
    }

    fn release(&mut self) -> (RequestId, ReleaseRequest) {
        match self.only_action() {
            Action::Release { id, request } => (id, request),
            other => panic!("expected a release, not {other:?}"),
        }
    }

    fn input(&mut self, input: Input) -> &mut Self {
        self.election.handle_input(self.now, input);
        self
    }

    fn stamped<T>(&self, reply: T) -> Result<Stamped<T>, NoReply> {
        Ok(Stamped { reply, store_time: StoreTime(1_700_000_000_000_000 + self.now.as_nanos() / 1_000) })
    }

    fn answer(&mut self, id: RequestId, reply: CampaignReply) -> &mut Self {
        let reply = self.stamped(reply);
        self.input(Input::Campaigned { id, reply })
    }

    fn answer_renewal(&mut self, id: RequestId, reply: RenewReply) -> &mut Self {
        let reply = self.stamped(reply);
        self.input(Input::Renewed { id, reply })
    }

    fn answer_release(&mut self, id: RequestId) -> &mut Self {
        let reply = self.stamped(ReleaseReply::Released);
        self.input(Input::Released { id, reply })
    }

    fn hear(&mut self, kind: AnnouncementKind, token: Token, count: u64) -> &mut Self {
        self.input(Input::Heard(Announcement { kind, token, count, holder: rival(), audience: 3 }))
    }

    fn state(&self) -> State {
        self.election.view(self.now).state
    }

    fn leads(&self) -> bool {
        self.election.leadership().leads(self.now)
    }

    fn told(&mut self, event: &Event) -> bool {
        assert_eq!(self.actions(), vec![], "only events are expected here");
        self.events.contains(event)
    }
}

fn no_answer() -> NoReply {
    NoReply::new("no answer")
}

fn denied() -> NoReply {
    NoReply { reason: "not allowed".to_owned(), is_denied: true }
}

fn renewed(count: u64) -> RenewReply {
    RenewReply::Renewed { count, reasserted: false, audience: 2 }
}
