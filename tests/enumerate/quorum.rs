//! Two replicas and three independent masters: the real election, the real rounds that ask the members, and the real
//! reference of a member. Each question comes to its member in any order; its vote is there at once, and so is what it
//! publishes: what is lost or late costs a fault.

use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use baton::protocol::{
    Announcement, Ballot, CampaignRound, Heard, Input, MemberCell, MemberReply, MemberRequest, NoReply, ReleaseRound,
    RenewReply, RenewRound, RequestId, Round as _, RoundStep, Seats, Server, Stamped, StoreTime, Token, Vote,
};

use crate::bounds::{Bounds, Fault, LEASE, P2, P5};
use crate::clock::{MS, Nanos, store_shows};
use crate::message::{Request, Task, name};
use crate::replica::{Outcome, Replica};
use crate::search::Explored;

const MEMBERS: usize = 3;
/// When a question to one member is given up.
const COMMAND_TIMEOUT: Nanos = 500 * MS;
/// Both sidecars list the same members.
const LISTS: &str = "members";

#[derive(Clone, Debug, Hash)]
struct Member {
    cell: MemberCell,
    /// Changes when it starts again.
    generation: u8,
    /// In nanoseconds.
    stepped_by: i128,
}

#[derive(Clone, Debug, Hash)]
enum Round {
    Campaign(CampaignRound),
    Renew(RenewRound),
    Release(ReleaseRound),
}

/// What is to be done next in a round.
enum Next {
    Ask(Vec<usize>, MemberRequest, Option<Ballot>),
    Done(Input),
}

impl Round {
    fn of(bounds: &Bounds, request: Request) -> Self {
        let seats = Seats::majority(MEMBERS);
        match request {
            Request::Campaign(request) => Self::Campaign(CampaignRound::new(seats, bounds.rules, request)),
            Request::Renew(request) => Self::Renew(RenewRound::new(seats, request)),
            Request::Release(request) => Self::Release(ReleaseRound::new(seats, request)),
        }
    }

    fn next(&mut self, id: RequestId, store_time: StoreTime) -> Option<Next> {
        fn unify<R>(
            step: RoundStep<R>,
            at: StoreTime,
            done: impl FnOnce(Result<Stamped<R>, NoReply>) -> Input,
        ) -> Next {
            match step {
                RoundStep::Ask { ballot, to, ask } => Next::Ask(to, ask, Some(ballot)),
                RoundStep::Tell { to, ask } => Next::Ask(to, ask, None),
                RoundStep::Done(reply) => Next::Done(done(reply.map(|reply| Stamped { reply, store_time: at }))),
            }
        }
        Some(match self {
            Self::Campaign(round) => unify(round.poll()?, store_time, |reply| Input::Campaigned { id, reply }),
            Self::Renew(round) => unify(round.poll()?, store_time, |reply| Input::Renewed { id, reply }),
            Self::Release(round) => unify(round.poll()?, store_time, |reply| Input::Released { id, reply }),
        })
    }

    fn answered(&mut self, ballot: Ballot, member: usize, vote: Vote) {
        match self {
            Self::Campaign(round) => round.answered(ballot, member, vote),
            Self::Renew(round) => round.answered(ballot, member, vote),
            Self::Release(round) => round.answered(ballot, member, vote),
        }
    }
}

/// Which question of which round.
type Tag = (RequestId, Ballot);

/// A question that a vote is waited for.
#[derive(Clone, Debug, Hash)]
struct Asked {
    tag: Tag,
    member: usize,
    give_up_at: Nanos,
}

/// A replica, and what it is about.
#[derive(Clone, Debug, Hash)]
struct Peer {
    replica: Replica,
    rounds: Vec<(RequestId, Round)>,
    asked: Vec<Asked>,
    heard: Heard,
}

#[derive(Clone, Debug, Hash)]
enum Content {
    Question(Option<Tag>, MemberRequest),
    Vote(Tag, MemberReply),
}

#[derive(Clone, Debug, Hash)]
struct Message {
    replica: usize,
    task: Task,
    member: usize,
    is_late: bool,
    content: Content,
}

/// What becomes of a vote.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    AtOnce,
    Lost,
    Late,
    /// It is there, but what the member publishes with it is not heard by the other.
    Unheard,
}

/// One thing that may happen next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    Arrive(usize),
    Lose(usize),
    Delay(usize),
    /// A question arrives, and its vote does not.
    Unanswered(usize),
    /// A question arrives, and its vote is late.
    AnsweredLate(usize),
    /// A question arrives, and what is published with that is not heard by the other.
    Unheard(usize),
    Wake(usize),
    /// A replica waits no longer for the vote that it has waited for longest.
    GiveUp(usize),
    Pass,
    Pause(usize),
    Resume(usize),
    Kill(usize),
    Resign(usize),
    Restart(usize),
    Loss(usize),
    Evict(usize),
    Forward(usize),
}

#[derive(Clone, Debug)]
pub struct Quorum {
    now: Nanos,
    peers: [Arc<Peer>; 2],
    members: [Arc<Member>; MEMBERS],
    network: Vec<Message>,
    budget: u8,
    processes: u8,
    /// The greatest token under which each replica has led.
    led: [Token; 2],
    broken: Option<&'static str>,
}

impl Hash for Quorum {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.now, self.budget, self.processes, self.led, self.broken).hash(state);
        (&self.peers, &self.members, &self.network).hash(state);
    }
}

impl Quorum {
    fn peer(bounds: &Bounds, at: usize, session: u8, now: Nanos) -> Peer {
        let replica = Replica::new(bounds, at, session, now);
        Peer { replica, rounds: Vec::new(), asked: Vec::new(), heard: Heard::new(Seats::majority(MEMBERS)) }
    }

    fn may_arrive(&self, at: usize) -> bool {
        let message = &self.network[at];
        let link =
            |message: &Message| (message.replica, message.member, matches!(message.content, Content::Question(..)));
        let is_first = || !self.network[..at].iter().any(|other| !other.is_late && link(other) == link(message));
        let is_heard = link(message).2 || !self.peers[message.replica].replica.paused;
        is_heard && (message.is_late || is_first())
    }

    fn next_moment(&self) -> Option<Nanos> {
        let of_peers = self.peers.iter().flat_map(|peer| {
            let gives_up = peer.asked.iter().map(|asked| asked.give_up_at).min();
            let promise = Some(peer.replica.promised_until).filter(|_| peer.replica.paused);
            [peer.replica.due(), gives_up, promise]
        });
        of_peers.flatten().filter(|when| *when > self.now).min()
    }

    fn faults(&self, bounds: &Bounds, steps: &mut Vec<Step>) {
        let mut may = |fault, step| {
            if bounds.may(fault) {
                steps.push(step);
            }
        };
        for (at, peer) in self.peers.iter().enumerate() {
            may(Fault::Kill, Step::Kill(at));
            if !peer.replica.paused {
                may(Fault::Pause, Step::Pause(at));
            }
            if !peer.replica.paused && peer.replica.leads(self.now) {
                may(Fault::Resign, Step::Resign(at));
            }
        }
        for (at, member) in self.members.iter().enumerate() {
            may(Fault::Restart, Step::Restart(at));
            may(Fault::Loss, Step::Loss(at));
            may(Fault::Forward, Step::Forward(at));
            if member.cell.is_held(store_shows(self.now, member.stepped_by)) {
                may(Fault::Evict, Step::Evict(at));
            }
        }
    }

    fn take(&mut self, bounds: &Bounds, step: &Step) {
        let now = self.now;
        match *step {
            Step::Arrive(at) => self.arrive(bounds, at, Way::AtOnce),
            Step::Wake(at) => {
                let outcome = Arc::make_mut(&mut self.peers[at]).replica.wake(bounds, at, now);
                self.note(bounds, at, outcome);
            }
            Step::GiveUp(at) => {
                let asked = &self.peers[at].asked;
                let first = asked.iter().min_by_key(|asked| asked.give_up_at).expect("one is due").clone();
                self.vote(bounds, at, first.member, first.tag, Err(NoReply::new("no answer in time")));
            }
            Step::Pass => self.now = self.next_moment().expect("there is one"),
            Step::Resume(at) => {
                Arc::make_mut(&mut self.peers[at]).replica.paused = false;
                self.input(bounds, at, Input::Gap);
            }
            _ => {
                self.budget -= 1;
                self.suffer(bounds, step);
            }
        }
    }

    fn suffer(&mut self, bounds: &Bounds, step: &Step) {
        match *step {
            Step::Lose(at) => drop(self.network.remove(at)),
            Step::Delay(at) => self.network[at].is_late = true,
            Step::Unanswered(at) => self.arrive(bounds, at, Way::Lost),
            Step::AnsweredLate(at) => self.arrive(bounds, at, Way::Late),
            Step::Unheard(at) => self.arrive(bounds, at, Way::Unheard),
            Step::Pause(at) => Arc::make_mut(&mut self.peers[at]).replica.paused = true,
            Step::Kill(at) => {
                self.processes += 1;
                let mut new = Self::peer(bounds, at, self.processes, self.now);
                new.replica.promised_until = self.peers[at].replica.promised_until;
                self.peers[at] = Arc::new(new);
                self.network
                    .retain(|message| message.replica != at || matches!(message.content, Content::Question(..)));
            }
            Step::Resign(at) => self.input(bounds, at, Input::Resign { cooldown: bounds.timing(at).renew_period() }),
            Step::Restart(at) => Arc::make_mut(&mut self.members[at]).generation += 1,
            Step::Loss(at) => {
                let member = Arc::make_mut(&mut self.members[at]);
                member.generation += 1;
                member.cell.forget();
            }
            Step::Evict(at) => Arc::make_mut(&mut self.members[at]).cell.evict_lease(),
            Step::Forward(at) => Arc::make_mut(&mut self.members[at]).stepped_by += i128::from(LEASE) * 3 / 2,
            Step::Arrive(_) | Step::Wake(_) | Step::GiveUp(_) | Step::Pass | Step::Resume(_) => {
                unreachable!("no fault")
            }
        }
    }

    fn input(&mut self, bounds: &Bounds, at: usize, input: Input) {
        let outcome = Arc::make_mut(&mut self.peers[at]).replica.input(bounds, at, input, self.now);
        self.note(bounds, at, outcome);
    }

    fn arrive(&mut self, bounds: &Bounds, at: usize, way: Way) {
        let Message { replica, task, member, content, .. } = self.network.remove(at);
        match content {
            Content::Question(tag, ask) => {
                let (reply, news) = self.execute(member, &ask);
                if let Some(news) = news.filter(|_| way != Way::Unheard) {
                    self.publish(bounds, member, &news);
                }
                let Some(tag) = tag.filter(|_| self.peers[replica].replica.task == task) else { return };
                if matches!(way, Way::AtOnce | Way::Unheard) && !self.peers[replica].replica.paused {
                    self.vote(bounds, replica, member, tag, Ok(reply));
                } else if way != Way::Lost {
                    let (is_late, content) = (way == Way::Late, Content::Vote(tag, reply));
                    self.network.push(Message { replica, task, member, is_late, content });
                }
            }
            Content::Vote(tag, reply) => {
                if self.peers[replica].replica.task == task {
                    self.vote(bounds, replica, member, tag, Ok(reply));
                }
            }
        }
    }

    fn execute(&mut self, at: usize, ask: &MemberRequest) -> (MemberReply, Option<Announcement>) {
        let member = Arc::make_mut(&mut self.members[at]);
        let generation = format!("{at}-{}", member.generation);
        let (now, uptime) = (store_shows(self.now, member.stepped_by), Duration::from_secs(1_000));
        let server = Server { now, uptime, generation: &generation };
        let (mut reply, news) = member.cell.step(server, LISTS, ask).expect("the clock is not that far ahead");
        if let MemberReply::Renew(RenewReply::Renewed { audience, .. }) = &mut reply {
            *audience = 2;
        }
        (reply, news)
    }

    fn publish(&mut self, bounds: &Bounds, member: usize, news: &Announcement) {
        for to in 0..2 {
            let peer = Arc::make_mut(&mut self.peers[to]);
            if !peer.replica.paused && peer.heard.said(member, news) {
                self.input(bounds, to, Input::Heard(news.clone()));
            }
        }
    }

    fn vote(&mut self, bounds: &Bounds, at: usize, member: usize, tag: Tag, vote: Vote) {
        let peer = Arc::make_mut(&mut self.peers[at]);
        let before = peer.asked.len();
        peer.asked.retain(|asked| (asked.tag, asked.member) != (tag, member));
        let is_awaited = peer.asked.len() < before;
        let round = peer.rounds.iter_mut().find(|(id, _)| *id == tag.0);
        if let Some((_, round)) = round.filter(|_| is_awaited) {
            round.answered(tag.1, member, vote);
            self.drive(bounds, at, tag.0);
        }
    }

    /// Carries a round on as far as it goes without further votes.
    fn drive(&mut self, bounds: &Bounds, at: usize, id: RequestId) {
        let (now, stamp) = (self.now, store_shows(self.now, 0));
        loop {
            let peer = Arc::make_mut(&mut self.peers[at]);
            let task = peer.replica.task;
            let Some(found) = peer.rounds.iter().position(|(known, _)| *known == id) else { return };
            match peer.rounds[found].1.next(id, stamp) {
                None => return,
                Some(Next::Ask(to, ask, ballot)) => {
                    let tag = ballot.map(|ballot| (id, ballot));
                    for member in to {
                        let asked = tag.map(|tag| Asked { tag, member, give_up_at: now + COMMAND_TIMEOUT });
                        peer.asked.extend(asked);
                        let content = Content::Question(tag, ask.clone());
                        self.network.push(Message { replica: at, task, member, is_late: false, content });
                    }
                }
                Some(Next::Done(input)) => {
                    peer.rounds.remove(found);
                    peer.asked.retain(|asked| asked.tag.0 != id);
                    self.judge(at, &input);
                    let outcome = Arc::make_mut(&mut self.peers[at]).replica.answered(bounds, at, id, input, now);
                    self.note(bounds, at, outcome);
                }
            }
        }
    }

    /// P5: an incumbent is not told that it is over where nobody else has led under a later token.
    fn judge(&mut self, at: usize, input: &Input) {
        let is_refused =
            matches!(input, Input::Renewed { reply: Ok(Stamped { reply: RenewReply::Lost { .. }, .. }), .. });
        if is_refused && self.peers[at].replica.leads(self.now) && self.led[1 - at] < self.led[at] {
            self.broken = Some(P5);
        }
    }

    fn note(&mut self, bounds: &Bounds, at: usize, outcome: Outcome) {
        if let Some(token) = outcome.elected {
            if token <= self.led[0].max(self.led[1]) {
                self.broken = Some(P2);
            }
            self.led[at] = token;
        }
        for (id, request) in outcome.sent {
            Arc::make_mut(&mut self.peers[at]).rounds.push((id, Round::of(bounds, request)));
            self.drive(bounds, at, id);
        }
    }
}

impl Explored for Quorum {
    type Step = Step;

    fn new(bounds: &Bounds) -> Self {
        let peer = |at: usize| Arc::new(Self::peer(bounds, at, u8::try_from(at).expect("two") + 1, 0));
        let cell = MemberCell::new(bounds.rules);
        let member = || Arc::new(Member { cell: cell.clone(), generation: 0, stepped_by: 0 });
        Self {
            now: 0,
            peers: [peer(0), peer(1)],
            members: [member(), member(), member()],
            network: Vec::new(),
            budget: bounds.faults_max,
            processes: 2,
            led: [Token::NONE; 2],
            broken: None,
        }
    }

    fn now(&self) -> Nanos {
        self.now
    }

    fn replicas(&self) -> [&Replica; 2] {
        [&self.peers[0].replica, &self.peers[1].replica]
    }

    fn broken(&self) -> Option<&'static str> {
        self.broken
    }

    fn has_led(&self) -> [bool; 2] {
        self.led.map(|token| token > Token::NONE)
    }

    fn is_prompt(&self) -> bool {
        true
    }

    fn steps(&self, bounds: &Bounds, steps: &mut Vec<Step>) {
        let may_fail = self.budget > 0;
        let mut is_quiet = true;
        for (at, peer) in self.peers.iter().enumerate().filter(|(_, peer)| !peer.replica.paused) {
            if peer.asked.iter().any(|asked| asked.give_up_at <= self.now) {
                steps.push(Step::GiveUp(at));
                is_quiet = false;
            }
            if peer.replica.due().is_some_and(|when| when <= self.now) {
                steps.push(Step::Wake(at));
                is_quiet = false;
            }
        }
        for at in (0..self.network.len()).filter(|at| self.may_arrive(*at)) {
            steps.push(Step::Arrive(at));
            if self.network[at].is_late {
                continue;
            }
            is_quiet = false;
            let amiss = [
                (Fault::Lost, Step::Lose(at)),
                (Fault::Lost, Step::Unanswered(at)),
                (Fault::Lost, Step::Unheard(at)),
                (Fault::Late, Step::Delay(at)),
                (Fault::Late, Step::AnsweredLate(at)),
            ];
            for (fault, step) in amiss {
                if may_fail && bounds.may(fault) {
                    steps.push(step);
                }
            }
        }
        if is_quiet {
            steps.extend((0..2).filter(|at| self.peers[*at].replica.paused).map(Step::Resume));
            if self.next_moment().is_some_and(|next| next <= bounds.until) {
                steps.push(Step::Pass);
            }
        }
        if may_fail {
            self.faults(bounds, steps);
        }
    }

    fn after(&self, bounds: &Bounds, step: &Step) -> Self {
        let mut next = self.clone();
        next.take(bounds, step);
        for peer in &mut next.peers {
            if !peer.replica.paused && peer.replica.leads(next.now) {
                Arc::make_mut(peer).replica.ask(bounds, next.now);
            }
        }
        next
    }

    fn words(&self, step: &Step) -> String {
        let told = |at: &usize| {
            let Message { replica, member, content, .. } = &self.network[*at];
            match content {
                Content::Question(_, ask) => format!("{} to member {member}: {ask:?}", name(*replica)),
                Content::Vote(_, reply) => format!("member {member} to {}: {reply:?}", name(*replica)),
            }
        };
        match step {
            Step::Arrive(at) => told(at),
            Step::Lose(at) => format!("IS LOST: {}", told(at)),
            Step::Delay(at) => format!("IS LATE: {}", told(at)),
            Step::Unanswered(at) => format!("{}; AND ITS ANSWER IS LOST", told(at)),
            Step::AnsweredLate(at) => format!("{}; AND ITS ANSWER IS LATE", told(at)),
            Step::Unheard(at) => format!("{}; AND THE OTHER HEARS NOTHING", told(at)),
            Step::Wake(at) => format!("{} does what is due", name(*at)),
            Step::GiveUp(at) => format!("{} gives a question up", name(*at)),
            Step::Pass => "time passes".to_owned(),
            Step::Pause(at) => format!("{} STANDS STILL", name(*at)),
            Step::Resume(at) => format!("{} goes on", name(*at)),
            Step::Kill(at) => format!("{} IS KILLED, and another starts in its place", name(*at)),
            Step::Resign(at) => format!("{} IS ASKED TO HAND OVER", name(*at)),
            Step::Restart(at) => format!("MEMBER {at} IS RESTARTED, with its data"),
            Step::Loss(at) => format!("MEMBER {at} IS RESTARTED, without data"),
            Step::Evict(at) => format!("THE LEASE OF MEMBER {at} IS DELETED"),
            Step::Forward(at) => format!("THE CLOCK OF MEMBER {at} IS SET FORWARD by 15 s"),
        }
    }
}
