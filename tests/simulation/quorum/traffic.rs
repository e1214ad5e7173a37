//! What goes back and forth: questions, answers, and what the members publish.

use std::time::Duration;

use baton::protocol::{
    Announcement, Ballot, Input, MemberReply, MemberRequest, NoReply, RaiseReply, RenewReply, RequestId, Round as _,
    RoundStep, Stamped, StoreTime, Vote,
};

use super::world::{Happening, Health, Link, Round, Tag, World};
use crate::checker::Watched;
use crate::clockwork::{MS, Nanos, SECOND};

/// When a replica gives a command to one member up.
const COMMAND_TIMEOUT: Nanos = 500 * MS;
/// As whoever carries the questions does: who takes so many times longer than a quorum did is slow…
const SLOW: Nanos = 3;
/// … and so much longer at least.
const SLOW_MIN: Nanos = 2 * MS;
/// After so many commands without an answer a connection is given up…
const UNANSWERED_MAX: u32 = 2;
/// … and opened anew after a while, if the member answers then.
const RECONNECTS_AFTER: Nanos = SECOND;

/// A round's next step; what is done is ready for the election.
enum Next {
    Ask(Vec<usize>, MemberRequest, Tag),
    Done(Input),
}

fn next(round: &mut Round, id: RequestId, stamp: StoreTime) -> Option<Next> {
    fn unify<R>(step: RoundStep<R>, id: RequestId, done: impl FnOnce(Result<R, NoReply>) -> Input) -> Next {
        match step {
            RoundStep::Ask { ballot, to, ask } => Next::Ask(to, ask, Some((id, ballot))),
            RoundStep::Tell { to, ask } => Next::Ask(to, ask, None),
            RoundStep::Done(reply) => Next::Done(done(reply)),
        }
    }
    fn stamped<R>(reply: Result<R, NoReply>, store_time: StoreTime) -> Result<Stamped<R>, NoReply> {
        reply.map(|reply| Stamped { reply, store_time })
    }
    Some(match round {
        Round::Campaign(round, ..) => {
            unify(round.poll()?, id, |reply| Input::Campaigned { id, reply: stamped(reply, stamp) })
        }
        Round::Renew(round) => unify(round.poll()?, id, |reply| Input::Renewed { id, reply: stamped(reply, stamp) }),
        Round::Release(round) => unify(round.poll()?, id, |reply| Input::Released { id, reply: stamped(reply, stamp) }),
    })
}

impl World {
    fn delay(&mut self) -> Nanos {
        if self.scenario.near {
            // Once in a hundred times something is in the way.
            let rest = -self.rng.f64().max(f64::MIN_POSITIVE).ln() * 0.1 * MS as f64;
            let held_up = if self.rng.u8(0..100) == 0 { self.span(5 * MS, 50 * MS) } else { 0 };
            return MS / 5 + rest as Nanos + held_up;
        }
        let latest = if self.scenario.heard { COMMAND_TIMEOUT / 2 - MS } else { 600 * MS };
        if self.calm || self.rng.u8(0..10) != 0 { self.span(MS, 20 * MS) } else { self.span(20 * MS, latest) }
    }

    fn lost(&mut self) -> bool {
        !self.calm && !self.scenario.heard && self.chance(0.01)
    }

    /// Carries a round on as far as it goes without further answers.
    pub fn drive(&mut self, at: usize, id: RequestId) {
        let stamp = StoreTime(1_700_000_000_000_000 + self.now / 1_000);
        while let Some(round) = self.replicas[at].rounds.get_mut(&id) {
            match next(round, id, stamp) {
                None => return,
                Some(Next::Ask(to, ask, tag)) => {
                    self.note(|_| format!("replica-{at} -> {to:?}: {ask:?}"));
                    for member in to {
                        self.send(at, member, tag, &ask);
                    }
                }
                Some(Next::Done(input)) => {
                    self.replicas[at].rounds.remove(&id);
                    self.hold_against_the_promises(at, &input);
                    self.input(at, input);
                }
            }
        }
    }

    /// An incumbent that stands is not told that it is over.
    fn hold_against_the_promises(&mut self, at: usize, input: &Input) {
        if let Input::Renewed { reply: Ok(Stamped { reply: RenewReply::Lost { .. }, .. }), .. } = input
            && self.replicas[at].leads(self.now)
        {
            self.checker.refused_incumbent(self.now, at);
        }
    }

    /// Whether there is a connection. One that was given up is opened anew where the member can be reached again.
    fn is_connected(&mut self, from: usize, member: usize) -> bool {
        let now = self.now;
        let reaches = self.members[member].is_well(now) && now >= self.replicas[from].cut_until[member];
        let link = &mut self.replicas[from].links[member];
        if link.unanswered >= UNANSWERED_MAX && reaches && now >= link.given_up_at + RECONNECTS_AFTER {
            link.unanswered = 0;
        }
        link.unanswered < UNANSWERED_MAX
    }

    fn send(&mut self, from: usize, member: usize, tag: Tag, ask: &MemberRequest) {
        let connected = self.is_connected(from, member);
        match tag {
            Some(tag) if connected => {
                let happening = Happening::TimedOut { to: from, member, tag, sent_at: self.now };
                self.at(self.now + COMMAND_TIMEOUT, happening);
            }
            Some(tag) => {
                let vote = Box::new(Err(NoReply::new(format!("member {member}: not connected"))));
                self.at(self.now, Happening::Answer { to: from, member, tag, vote });
            }
            None => {}
        }
        if !connected {
            return;
        }
        if self.lost() {
            return;
        }
        // One connection keeps the order; a new one overtakes what is still on its way on the old one.
        let reconnected = !self.calm && self.chance(0.01);
        let before = if reconnected { 0 } else { self.replicas[from].sent_until[member] };
        let when = (self.now + self.delay()).max(before);
        self.replicas[from].sent_until[member] = when;
        self.at(when, Happening::Arrive { from, member, tag, ask: Box::new(ask.clone()) });
    }

    fn reply(&mut self, to: usize, member: usize, tag: Tag, vote: Result<MemberReply, NoReply>) {
        if let Some(tag) = tag
            && !self.lost()
        {
            let late = if member < self.scenario.late { 50 * MS } else { 0 };
            let when = self.now + self.delay() + late;
            self.at(when, Happening::Answer { to, member, tag, vote: Box::new(vote) });
        }
    }

    pub fn arrive(&mut self, from: usize, member: usize, tag: Tag, ask: Box<MemberRequest>) {
        if self.now < self.replicas[from].cut_until[member] {
            return;
        }
        match self.members[member].health {
            Health::Up => {}
            Health::Refuses => {
                let reason = format!("member {member}: connection refused");
                return self.reply(from, member, tag, Err(NoReply::new(reason)));
            }
            Health::Silent => return,
        }
        if self.now < self.members[member].frozen_until {
            let later = self.members[member].frozen_until;
            return self.at(later, Happening::Arrive { from, member, tag, ask });
        }
        let audience = u32::try_from(self.replicas.len()).expect("few");
        let now = self.now;
        let subject = &mut self.members[member];
        let (mut answer, news) = subject.step(now, &self.replicas[from].lists, &ask);
        match &mut answer {
            MemberReply::Renew(RenewReply::Renewed { audience: heard, .. }) => {
                *heard = audience;
                subject.follows = Some((from, now));
            }
            MemberReply::Raise(RaiseReply::Raised { .. }) => subject.follows = Some((from, now)),
            _ => {}
        }
        self.note_answer(member, from, &answer);
        self.go_midway(member, &answer);
        if let Some(news) = news.filter(|_| self.scenario.rules.heartbeats) {
            for to in 0..self.replicas.len() {
                let deaf = !self.replicas[to].alive || now < self.replicas[to].cut_until[member];
                if deaf || (!self.calm && self.chance(0.02)) {
                    continue;
                }
                let when = (now + self.delay()).max(self.replicas[to].heard_until[member]);
                self.replicas[to].heard_until[member] = when;
                self.at(when, Happening::News { to, member, news: news.clone() });
            }
        }
        self.reply(from, member, tag, Ok(answer));
    }

    pub fn answer(&mut self, to: usize, member: usize, (id, ballot): (RequestId, Ballot), vote: Vote) {
        let cut = self.now < self.replicas[to].cut_until[member];
        if cut && vote.is_ok() {
            return;
        }
        if vote.is_ok() {
            self.replicas[to].links[member] = Link { answered_at: self.now, ..Link::default() };
        }
        match self.replicas[to].rounds.get_mut(&id) {
            Some(Round::Campaign(round, began, has_a_quorum)) => {
                round.answered(ballot, member, vote);
                if round.has_a_quorum() && !*has_a_quorum {
                    *has_a_quorum = true;
                    let late = (SLOW * (self.now - *began)).max(SLOW_MIN);
                    self.at(self.now + late, Happening::Hurry { to, id });
                }
            }
            Some(Round::Renew(round)) => round.answered(ballot, member, vote),
            Some(Round::Release(round)) => round.answered(ballot, member, vote),
            None => return,
        }
        self.drive(to, id);
    }

    pub fn timed_out(&mut self, to: usize, member: usize, tag: (RequestId, Ballot), sent_at: Nanos) {
        let now = self.now;
        let link = &mut self.replicas[to].links[member];
        if link.answered_at < sent_at {
            link.unanswered += 1;
            link.given_up_at = now;
        }
        let reason = format!("member {member}: no answer within {:?}", Duration::from_nanos(COMMAND_TIMEOUT));
        self.answer(to, member, tag, Err(NoReply::new(reason)));
    }

    pub fn hear(&mut self, to: usize, member: usize, news: Announcement) {
        let now = self.now;
        let replica = &mut self.replicas[to];
        // What waited while a replica was paused is dropped; it looks by itself when it goes on.
        let deaf = !replica.alive || now < replica.paused_until || now < replica.cut_until[member];
        if !deaf && replica.heard.said(member, &news) {
            self.input(to, Input::Heard(news));
        }
    }

    /// Messages of these members may have been missed; where that leaves too few others, so may the quorum's word.
    pub fn gap(&mut self, at: usize, members: &[usize]) {
        for member in members {
            self.replicas[at].heard.missed(*member);
        }
        let seats = self.replicas[at].seats;
        if !seats.are_a_majority(seats.members().filter(|place| !members.contains(place))) {
            self.input(at, Input::Gap);
        }
    }

    pub fn member_up(&mut self, member: usize, empty: bool) {
        self.generation += 1;
        let subject = &mut self.members[member];
        subject.run_id = self.generation.to_string();
        subject.born = i128::from(self.now);
        subject.health = Health::Up;
        if empty {
            subject.cell.forget();
        }
        self.note(|_| format!("member {member} is up{}", if empty { ", empty" } else { "" }));
        for at in 0..self.replicas.len() {
            let when = self.now + self.delay();
            self.at(when, Happening::Gap { at, members: vec![member] });
        }
    }
}
