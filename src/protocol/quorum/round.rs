//! The replica's side: one request to the quorum, from the first question to the answer for the election.
//!
//! A round has no clock. Whoever carries its questions ends each member's within the command timeout, with the reason
//! as its answer, so that a round always ends.

use std::time::Duration;

use super::super::election::NoReply;
use super::super::ids::Token;
use super::super::messages::{
    CampaignReply, CampaignRequest, GuardCause, Holder, RecordVersion, ReleaseReply, ReleaseRequest, RenewReply,
    RenewRequest,
};
use super::super::rules::Rules;
use super::{LastTerm, MemberCampaignReply, MemberReply, MemberRequest, RaiseReply, RaiseRequest, Seats};

/// Ties answers to their question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ballot(u8);

const FIRST: Ballot = Ballot(0);
const SECOND: Ballot = Ballot(1);

/// What shall be done next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RoundStep<R> {
    /// Send this to these members, and bring each one's answer back under this ballot.
    Ask { ballot: Ballot, to: Vec<usize>, ask: MemberRequest },
    /// Send this to these members; nobody waits for what they say.
    Tell { to: Vec<usize>, ask: MemberRequest },
    /// The answer for the election, or why there is none. Nothing comes after it.
    Done(Result<R, NoReply>),
}

/// What a member said, or why it said nothing: in words for people that name the member.
pub type Vote = Result<MemberReply, NoReply>;

/// One request to the quorum. Late, double and unasked-for answers change nothing.
pub trait Round {
    /// What the election gets.
    type Reply;

    /// The next thing to do; none while answers are out, and after [`RoundStep::Done`].
    fn poll(&mut self) -> Option<RoundStep<Self::Reply>>;

    fn answered(&mut self, ballot: Ballot, member: usize, vote: Vote);

    /// Whether so many have answered that it could have been decided. Whoever carries the questions knows how long that
    /// took, and calls [`Round::hurry`] when the others take several times as long.
    fn has_a_quorum(&self) -> bool;

    /// The members that have not answered yet are slow.
    fn hurry(&mut self);
}

/// The votes on one question.
#[derive(Clone, Debug, Hash)]
struct Urn {
    seats: Seats,
    ballot: Ballot,
    /// One for each member; none for those that are not asked or have not answered.
    votes: Vec<Option<Vote>>,
    asked: Vec<usize>,
}

impl Urn {
    fn new(seats: Seats, ballot: Ballot, asked: Vec<usize>) -> Self {
        Self { seats, ballot, votes: vec![None; seats.places()], asked }
    }

    fn put(&mut self, ballot: Ballot, member: usize, vote: Vote) {
        if ballot == self.ballot
            && self.asked.contains(&member)
            && let Some(place @ None) = self.votes.get_mut(member)
        {
            *place = Some(vote);
        }
    }

    /// Whether all who were asked have answered.
    fn is_full(&self) -> bool {
        self.out() == 0
    }

    /// The answers so far, with who gave them.
    fn answers(&self) -> impl Iterator<Item = (usize, &MemberReply)> {
        self.votes.iter().enumerate().filter_map(|(member, vote)| {
            let Some(Ok(answer)) = vote else { return None };
            Some((member, answer))
        })
    }

    /// How many of those who were asked have not answered yet.
    fn out(&self) -> usize {
        self.asked.iter().filter(|member| self.votes[**member].is_none()).count()
    }

    /// Why nothing can be decided, when too few answered at all.
    fn too_few_answers(&self) -> Option<NoReply> {
        let answered = || self.answers().map(|(member, _)| member);
        (!self.seats.are_enough(answered())).then(|| self.failure(answered(), "answer"))
    }

    /// "2 of 5 members DID and 3 are needed: WHY NOT; WHY NOT". `who` did.
    fn failure(&self, who: impl Iterator<Item = usize>, did: &str) -> NoReply {
        let mut reason = self.seats.tell(who, did);
        let silent = self.votes.iter().flatten().filter_map(|vote| vote.as_ref().err());
        for (at, failure) in silent.enumerate() {
            reason.push_str(if at == 0 { ": " } else { "; " });
            reason.push_str(&failure.reason);
        }
        NoReply::new(reason)
    }
}

fn everybody(seats: Seats) -> Vec<usize> {
    seats.members().collect()
}

#[derive(Clone, Debug, Hash)]
enum CampaignPhase {
    Start,
    /// Asked for a grant.
    Asking(Urn),
    /// Enough granted, and nobody objects: this question is next.
    Won(Urn, Token),
    /// Asked for confirmation of this token.
    Raising(Urn, Token),
    /// Enough confirmed: the members that did not grant are told, so that they object to others as well.
    Elected {
        rest: Vec<usize>,
        token: Token,
        count: u64,
    },
    /// It came to nothing: what was granted is taken back first.
    Failed(Result<CampaignReply, NoReply>),
    Ending(Result<CampaignReply, NoReply>),
    Over,
}

/// A campaign: grants, then confirmations.
#[derive(Clone, Debug, Hash)]
pub struct CampaignRound {
    seats: Seats,
    rules: Rules,
    request: CampaignRequest,
    phase: CampaignPhase,
    hurried: bool,
}

impl CampaignRound {
    /// A round that has asked nobody yet. Its attempt must be a new one.
    pub fn new(seats: Seats, rules: Rules, request: CampaignRequest) -> Self {
        Self { seats, rules, request, phase: CampaignPhase::Start, hurried: false }
    }

    /// Whether it is over before all have answered: too many have said no, or another who campaigns, too, is ahead
    /// whatever the rest will say. What was granted here is in that one's way. Where several share those members that
    /// are quick, another round of theirs is sooner than the answer of the slow ones.
    fn is_hopeless(&self, urn: &Urn) -> bool {
        let grants: Vec<usize> = urn.answers().filter_map(grant).map(|(member, ..)| member).collect();
        let refuses = |member: usize| !grants.contains(&member) && urn.answers().any(|(other, _)| other == member);
        let is_contested = leases(urn).next().is_some() && leases(urn).all(|(.., confirmed)| !confirmed);
        let is_outrun = || {
            let is_short = !self.seats.are_enough(grants.iter().copied());
            (self.hurried && is_short) || self.ahead(urn, grants.len() + urn.out()).is_some()
        };
        let cannot_be_won = !self.seats.are_enough(self.seats.members().filter(|member| !refuses(*member)));
        cannot_be_won || (is_contested && is_outrun())
    }

    /// Whether nobody can object, so that a slow member need not be waited for: enough members granted who say that the
    /// last term they confirmed was given back by its holder. Whoever leads was confirmed by one of those. The quick
    /// ones are heard, since any may know of another list.
    fn is_succession(&self, urn: &Urn) -> bool {
        (self.hurried || urn.is_full()) && self.are_successors(urn)
    }

    fn are_successors(&self, urn: &Urn) -> bool {
        let released = urn.answers().filter_map(grant).filter(|(.., last)| *last == LastTerm::GivenBack);
        self.seats.are_enough(released.map(|(member, ..)| member))
    }

    /// Did enough grant, and is anybody against it, or might be?
    fn tally(&self, urn: &Urn) -> CampaignPhase {
        let grants: Vec<(usize, Token, LastTerm)> = urn.answers().filter_map(grant).collect();
        let is_succession = self.is_succession(urn);
        let incumbent = incumbent(urn).filter(|_| !is_succession);
        let unlisted = unlisted(urn);
        let is_doubtful = self.rules.newest_term && !is_succession && is_doubtful(urn);
        let vetoed = unlisted.is_some() || (self.rules.objection && incumbent.is_some()) || is_doubtful;
        if self.seats.are_enough(grants.iter().map(|(member, ..)| *member))
            && (is_succession || urn.is_full())
            && !vetoed
            && let Some(token) = self.token_of_the_term(urn, &grants)
        {
            let granters = grants.into_iter().map(|(member, ..)| member).collect();
            return CampaignPhase::Won(Urn::new(self.seats, SECOND, granters), token);
        }
        // Where nobody can lead for want of members, that is the answer, whatever the rest know.
        let reply = match (urn.too_few_answers().filter(|_| urn.is_full()), incumbent, unlisted) {
            (Some(failure), ..) | (None, None, Some(failure)) => Err(failure),
            (None, Some(held), _) => Ok(held),
            (None, None, None) => Ok(shut(urn).unwrap_or_else(|| self.divided(urn, grants.len(), Token::NONE))),
        };
        CampaignPhase::Failed(reply)
    }

    /// The greatest granted, or one more than any that was reported (R3): the members' clocks differ, and what only one
    /// of them remembers may be greater than what the others grant. None when tokens are exhausted.
    fn token_of_the_term(&self, urn: &Urn, grants: &[(usize, Token, LastTerm)]) -> Option<Token> {
        let granted = grants.iter().map(|(_, token, _)| *token).max()?;
        let reported = greatest_token(urn);
        let behind = self.rules.tokens && granted < reported;
        if behind { Token::new(reported.get() + 1) } else { Some(granted) }
    }

    fn raised(&self, urn: Urn, token: Token) -> CampaignPhase {
        let counts: Vec<(usize, u64)> = urn.answers().filter_map(raised).collect();
        if self.seats.are_enough(counts.iter().map(|(member, _)| *member)) {
            let count = counts.into_iter().map(|(_, count)| count).max().unwrap_or(0);
            let rest = self.seats.members().filter(|member| !urn.asked.contains(member)).collect();
            return CampaignPhase::Elected { rest, token, count };
        }
        if !urn.is_full() {
            return CampaignPhase::Raising(urn, token);
        }
        let reply = urn.too_few_answers().map_or_else(|| Ok(self.divided(&urn, 0, token)), Err);
        CampaignPhase::Failed(reply)
    }

    /// Who campaigns together ranks by grants, then by session: the first comes back soon, the others later. Without
    /// this they would share the members among them again and again. All see the same once all members have answered.
    /// `grants`: how many there are at most. Returns for how long the grants of those that are ahead may stand, if any
    /// are.
    fn ahead(&self, urn: &Urn, grants: usize) -> Option<Duration> {
        let mine = (grants, self.request.candidate.session);
        let rivals = || leases(urn).filter(|(_, _, _, confirmed)| !confirmed);
        let rank = |session| (rivals().filter(|(holder, ..)| holder.session == session).count(), session);
        let ahead = rivals().filter(|(holder, ..)| rank(holder.session) > mine);
        ahead.map(|(_, _, remaining, _)| remaining).max()
    }

    /// `tried`: the token that some may have confirmed already. It shall be nobody's again.
    fn divided(&self, urn: &Urn, grants: usize, tried: Token) -> CampaignReply {
        CampaignReply::Divided { token: greatest_token(urn).max(tried), after: self.ahead(urn, grants) }
    }

    /// The term's first renewal. Its count brings the members that get it level with those that were raised.
    fn renewal(&self, token: Token, count: u64) -> MemberRequest {
        MemberRequest::Renew(RenewRequest {
            candidate: self.request.candidate,
            identity: self.request.identity.clone(),
            token,
            count: count.saturating_sub(1),
            lease_duration: self.request.lease_duration,
            audience: 0,
            guard: self.request.guard,
        })
    }

    fn question(&self, token: Token) -> MemberRequest {
        MemberRequest::Raise(RaiseRequest {
            candidate: self.request.candidate,
            identity: self.request.identity.clone(),
            token,
            lease_duration: self.request.lease_duration,
            guard: self.request.guard,
        })
    }
}

impl Round for CampaignRound {
    type Reply = CampaignReply;

    fn poll(&mut self) -> Option<RoundStep<CampaignReply>> {
        loop {
            let (phase, step) = match std::mem::replace(&mut self.phase, CampaignPhase::Over) {
                CampaignPhase::Start => {
                    let to = everybody(self.seats);
                    let ask = MemberRequest::Campaign(self.request.clone());
                    (
                        CampaignPhase::Asking(Urn::new(self.seats, FIRST, to.clone())),
                        Some(RoundStep::Ask { ballot: FIRST, to, ask }),
                    )
                }
                CampaignPhase::Asking(urn) if urn.is_full() || self.is_succession(&urn) || self.is_hopeless(&urn) => {
                    (self.tally(&urn), None)
                }
                CampaignPhase::Won(urn, token) => {
                    let (to, ask) = (urn.asked.clone(), self.question(token));
                    (CampaignPhase::Raising(urn, token), Some(RoundStep::Ask { ballot: SECOND, to, ask }))
                }
                CampaignPhase::Raising(urn, token) => {
                    let next = self.raised(urn, token);
                    if matches!(next, CampaignPhase::Raising(..)) {
                        self.phase = next;
                        return None;
                    }
                    (next, None)
                }
                CampaignPhase::Elected { rest, token, count } => {
                    let reply = Ok(CampaignReply::Granted { token, count });
                    let step =
                        (!rest.is_empty()).then(|| RoundStep::Tell { to: rest, ask: self.renewal(token, count) });
                    (CampaignPhase::Ending(reply), step)
                }
                CampaignPhase::Failed(reply) => {
                    // Without a token: nobody led under it, so there is no term to be remembered as over.
                    let release = ReleaseRequest { candidate: self.request.candidate, token: Token::NONE, audience: 0 };
                    let step = RoundStep::Tell { to: everybody(self.seats), ask: MemberRequest::Release(release) };
                    (CampaignPhase::Ending(reply), Some(step))
                }
                CampaignPhase::Ending(reply) => (CampaignPhase::Over, Some(RoundStep::Done(reply))),
                waiting @ (CampaignPhase::Asking(_) | CampaignPhase::Over) => {
                    self.phase = waiting;
                    return None;
                }
            };
            self.phase = phase;
            if step.is_some() {
                return step;
            }
        }
    }

    fn answered(&mut self, ballot: Ballot, member: usize, vote: Vote) {
        if let CampaignPhase::Asking(urn) | CampaignPhase::Raising(urn, _) = &mut self.phase {
            urn.put(ballot, member, vote);
        }
    }

    fn has_a_quorum(&self) -> bool {
        let CampaignPhase::Asking(urn) = &self.phase else { return false };
        self.seats.are_enough(urn.answers().map(|(member, _)| member))
    }

    fn hurry(&mut self) {
        self.hurried = true;
    }
}

/// Who granted, under which token, and what it knows of the last term.
fn grant((member, answer): (usize, &MemberReply)) -> Option<(usize, Token, LastTerm)> {
    let MemberReply::Campaign(MemberCampaignReply::Granted { token, last }) = answer else { return None };
    Some((member, *token, *last))
}

fn raised((member, answer): (usize, &MemberReply)) -> Option<(usize, u64)> {
    let MemberReply::Raise(RaiseReply::Raised { count }) = answer else { return None };
    Some((member, *count))
}

/// The leases of others that members reported: who, the token, how long they stand, and whether they are confirmed.
fn leases(urn: &Urn) -> impl Iterator<Item = (&Holder, Token, Duration, bool)> {
    urn.answers().filter_map(|(_, answer)| {
        let MemberReply::Campaign(MemberCampaignReply::Held { holder, token, remaining, confirmed }) = answer else {
            return None;
        };
        Some((holder, *token, *remaining, *confirmed))
    })
}

/// A confirmed lease of another, the newest term's; for as long as any such lease stands.
fn incumbent(urn: &Urn) -> Option<CampaignReply> {
    let confirmed = || leases(urn).filter(|(_, _, _, confirmed)| *confirmed);
    let (holder, token, _, _) = confirmed().max_by_key(|(_, token, _, _)| *token)?;
    let remaining = confirmed().map(|(_, _, remaining, _)| remaining).max()?;
    let version = RecordVersion { token, count: 0, writer: Some(holder.session) };
    Some(CampaignReply::Held { holder: holder.clone(), token, remaining, version })
}

/// Whether somebody may have been confirmed since another member told of a grant: of those who grant only one knows of
/// the newest term, of which nobody has said that it is over. Its lease there is gone all the same, because the clock
/// was stepped, say; and whoever else confirmed it may have been asked before.
fn is_doubtful(urn: &Urn) -> bool {
    let known = |last| if let LastTerm::Of(token) = last { Some(token) } else { None };
    let terms: Vec<Token> = urn.answers().filter_map(grant).filter_map(|(.., last)| known(last)).collect();
    let newest = terms.iter().max();
    let is_known_by_one = terms.iter().filter(|term| Some(*term) == newest).count() == 1;
    is_known_by_one && leases(urn).any(|(.., confirmed)| !confirmed)
}

/// Somebody else has another list of the members.
fn unlisted(urn: &Urn) -> Option<NoReply> {
    urn.answers().find_map(|(_, answer)| {
        let MemberReply::Campaign(MemberCampaignReply::Unlisted { theirs, .. }) = answer else { return None };
        let reason = format!(
            "another replica's list of the members is {theirs}, which it used a moment ago, and this one's is another: \
             a list is changed in steps, see docs/quorum.md"
        );
        Some(NoReply::new(reason))
    })
}

/// R5 holds so many members shut that no majority is left: until enough of them are open again.
fn shut(urn: &Urn) -> Option<CampaignReply> {
    let mut guards: Vec<(Duration, GuardCause, usize)> = urn.answers().filter_map(guard).collect();
    guards.sort_unstable();
    let mut open: Vec<usize> = urn.answers().filter_map(grant).map(|(member, ..)| member).collect();
    if urn.seats.are_enough(open.iter().copied()) {
        return None;
    }
    let (remaining, cause, _) = guards.into_iter().find(|(.., member)| {
        open.push(*member);
        urn.seats.are_enough(open.iter().copied())
    })?;
    let version = RecordVersion { token: greatest_token(urn), count: 0, writer: None };
    Some(CampaignReply::Guarded { cause, remaining, version })
}

fn guard((member, answer): (usize, &MemberReply)) -> Option<(Duration, GuardCause, usize)> {
    let MemberReply::Campaign(MemberCampaignReply::Guarded { cause, remaining, .. }) = answer else { return None };
    Some((*remaining, *cause, member))
}

/// The greatest token that anybody reported (R3).
fn greatest_token(urn: &Urn) -> Token {
    let token = |(_, answer): (usize, &MemberReply)| match answer {
        MemberReply::Campaign(
            MemberCampaignReply::Granted { token, .. }
            | MemberCampaignReply::Held { token, .. }
            | MemberCampaignReply::Guarded { token, .. }
            | MemberCampaignReply::Unlisted { token, .. }
            | MemberCampaignReply::Stale { token },
        )
        | MemberReply::Raise(RaiseReply::Gone { token })
        | MemberReply::Renew(RenewReply::Lost { token, .. }) => Some(*token),
        MemberReply::Raise(RaiseReply::Raised { .. })
        | MemberReply::Renew(RenewReply::Renewed { .. })
        | MemberReply::Release(ReleaseReply::Released | ReleaseReply::NotHeld) => None,
    };
    urn.answers().filter_map(token).max().unwrap_or(Token::NONE)
}

/// A request of one question: asked once, of everybody, and decided as soon as `decide` says so.
#[derive(Clone, Debug, Hash)]
struct Single {
    ask: Option<MemberRequest>,
    urn: Urn,
    over: bool,
}

impl Single {
    fn new(seats: Seats, ask: MemberRequest) -> Self {
        Self { ask: Some(ask), urn: Urn::new(seats, FIRST, everybody(seats)), over: false }
    }

    fn poll<R>(&mut self, decide: impl FnOnce(&Urn) -> Option<Result<R, NoReply>>) -> Option<RoundStep<R>> {
        if let Some(ask) = self.ask.take() {
            return Some(RoundStep::Ask { ballot: FIRST, to: self.urn.asked.clone(), ask });
        }
        let reply = if self.over { None } else { decide(&self.urn) };
        self.over |= reply.is_some();
        reply.map(RoundStep::Done)
    }
}

/// A renewal: done as soon as enough members have renewed, however slow the others are.
#[derive(Clone, Debug, Hash)]
pub struct RenewRound {
    token: Token,
    single: Single,
}

impl RenewRound {
    /// A round that has asked nobody yet.
    pub fn new(seats: Seats, request: RenewRequest) -> Self {
        Self { token: request.token, single: Single::new(seats, MemberRequest::Renew(request)) }
    }
}

impl Round for RenewRound {
    type Reply = RenewReply;

    fn poll(&mut self) -> Option<RoundStep<RenewReply>> {
        let token = self.token;
        self.single.poll(|urn| renewal(urn, token))
    }

    fn answered(&mut self, ballot: Ballot, member: usize, vote: Vote) {
        self.single.urn.put(ballot, member, vote);
    }

    /// Who has answered decides; the others are not waited for in particular.
    fn has_a_quorum(&self) -> bool {
        false
    }

    fn hurry(&mut self) {}
}

fn renewal(urn: &Urn, term: Token) -> Option<Result<RenewReply, NoReply>> {
    let renewed: Vec<(usize, (u64, bool, u32))> = urn.answers().filter_map(renewed).collect();
    let who = || renewed.iter().map(|(member, _)| *member);
    if urn.seats.are_enough(who()) {
        let told = || renewed.iter().map(|(_, told)| *told);
        let count = told().map(|(count, _, _)| count).max().unwrap_or(0);
        let audience = told().map(|(_, _, audience)| audience).max().unwrap_or(0);
        let reasserted = told().any(|(_, reasserted, _)| reasserted);
        return Some(Ok(RenewReply::Renewed { count, reasserted, audience }));
    }
    // One member that granted somebody in vain says nothing of the term: it goes on until enough agree that it is over,
    // or until its deadline.
    let later = |(member, answer): (usize, &MemberReply)| {
        let MemberReply::Renew(RenewReply::Lost { token, holder }) = answer else { return None };
        (*token > term).then(|| (member, *token, holder.clone()))
    };
    let lost: Vec<(usize, Token, Option<Holder>)> = urn.answers().filter_map(later).collect();
    if urn.seats.are_enough(lost.iter().map(|(member, ..)| *member)) {
        let (_, token, holder) = lost.into_iter().max_by_key(|(_, token, _)| *token)?;
        return Some(Ok(RenewReply::Lost { token, holder }));
    }
    urn.is_full().then(|| Err(urn.failure(who(), "renewed the lease")))
}

fn renewed((member, answer): (usize, &MemberReply)) -> Option<(usize, (u64, bool, u32))> {
    let MemberReply::Renew(RenewReply::Renewed { count, reasserted, audience }) = answer else { return None };
    Some((member, (*count, *reasserted, *audience)))
}

/// A release: every member is waited for, so that a process that ends afterwards leaves nothing behind.
#[derive(Clone, Debug, Hash)]
pub struct ReleaseRound {
    single: Single,
}

impl ReleaseRound {
    /// A round that has asked nobody yet.
    pub fn new(seats: Seats, request: ReleaseRequest) -> Self {
        Self { single: Single::new(seats, MemberRequest::Release(request)) }
    }
}

impl Round for ReleaseRound {
    type Reply = ReleaseReply;

    fn poll(&mut self) -> Option<RoundStep<ReleaseReply>> {
        self.single.poll(|urn| {
            if !urn.is_full() {
                return None;
            }
            let released = |(_, answer): (usize, &MemberReply)| *answer == MemberReply::Release(ReleaseReply::Released);
            let reply = if urn.answers().any(released) { ReleaseReply::Released } else { ReleaseReply::NotHeld };
            Some(urn.too_few_answers().map_or(Ok(reply), Err))
        })
    }

    fn answered(&mut self, ballot: Ballot, member: usize, vote: Vote) {
        self.single.urn.put(ballot, member, vote);
    }

    /// Who has answered decides; the others are not waited for in particular.
    fn has_a_quorum(&self) -> bool {
        false
    }

    fn hurry(&mut self) {}
}
