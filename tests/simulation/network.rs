//! Between processes and servers: requests, what a server does with them, the acknowledgements that a reply waits for,
//! replies and news. Everything may be late or lost, and in one direction only.

use baton::protocol::{
    Announcement, CampaignReply, CampaignRequest, Input, NoReply, ReleaseRequest, RenewReply, RenewRequest, RequestId,
    Server, Stamped,
};

use crate::checker::Watched;
use crate::clockwork::{MS, Nanos, SECOND};
use crate::processes::At;
use crate::redis::Waiting;
use crate::run::LATEST;
use crate::scenario::Asks;
use crate::world::{Happening, World};

/// When a process gives a request up.
const COMMAND_TIMEOUT: Nanos = SECOND;
/// How long a reply waits for acknowledgements.
const ACK_TIMEOUT: Nanos = 500 * MS;

#[derive(Clone, Debug)]
pub enum Request {
    Campaign(CampaignRequest),
    Renew(RenewRequest),
    Release(ReleaseRequest),
}

#[derive(Clone, Copy, Debug)]
pub enum Sent {
    Campaign,
    Renew,
    Release,
}

impl Sent {
    fn failed(self, id: RequestId, reason: &str) -> Input {
        let failure = NoReply::new(reason);
        match self {
            Self::Campaign => Input::Campaigned { id, reply: Err(failure) },
            Self::Renew => Input::Renewed { id, reply: Err(failure) },
            Self::Release => Input::Released { id, reply: Err(failure) },
        }
    }
}

/// A request that a server has executed, and that counts once it is acknowledged.
#[derive(Clone, Debug)]
pub struct Exchange {
    pub from: At,
    pub sent: Sent,
    pub id: RequestId,
    pub input: Input,
    pub server: usize,
    /// The server's when it executed the request: the connection does not outlive it.
    pub epoch: u64,
    /// How long its history was afterwards.
    pub offset: u64,
    granted: bool,
    /// Of which generation the server was taken to be, where scripts do not ask.
    told: Option<String>,
    /// It counts once it is acknowledged.
    waits: bool,
}

impl World {
    pub fn delay(&mut self) -> Nanos {
        if self.calm || self.rng.u8(0..10) != 0 { self.span(MS, 20 * MS) } else { self.span(20 * MS, LATEST) }
    }

    fn lost(&mut self) -> bool {
        !self.calm && self.chance(0.01)
    }

    pub fn send(&mut self, from: At, id: RequestId, sent: Sent, request: Request) {
        self.task(from).outstanding.insert(id, sent);
        self.note(|_| format!("{from} -> {request:?}"));
        let process = &self.processes[from.process];
        let (to, cut) = (process.to, process.cut.requests);
        let told = process.told.clone();
        let copies = if self.lost() { 2 } else { 1 };
        for _ in 0..copies {
            let mut when = self.now + self.delay();
            if when < cut {
                // The kernel may still send it when the network is back, whoever waits for the answer then.
                if cut == Nanos::MAX || !self.chance(0.3) {
                    continue;
                }
                when = cut + self.delay();
            }
            self.at(
                when,
                Happening::Arrive { from, to, id, sent, request: Box::new(request.clone()), told: told.clone() },
            );
        }
        let give_up = self.now + COMMAND_TIMEOUT;
        self.at(give_up, Happening::GiveUp { to: from, id });
    }

    pub fn give_up(&mut self, to: At, id: RequestId) {
        if self.awake(to.process, || Happening::GiveUp { to, id })
            && let Some(sent) = self.task(to).outstanding.remove(&id)
        {
            self.input(to, sent.failed(id, "no answer in time"));
        }
    }

    /// What arrives at a server that stands still waits in its socket, and is executed whatever has become of the one
    /// who sent it.
    pub fn arrive(
        &mut self,
        from: At,
        to: usize,
        id: RequestId,
        sent: Sent,
        request: Box<Request>,
        told: Option<String>,
    ) {
        let to = self.behind_the_proxy(from).unwrap_or(to);
        if !self.servers[to].up || self.lost() {
            return;
        }
        if self.now < self.servers[to].frozen_until {
            let later = self.servers[to].frozen_until;
            return self.at(later, Happening::Arrive { from, to, id, sent, request, told });
        }
        if !self.servers[to].is_master() {
            self.answer(from, id, sent.failed(id, "it is a replica"));
            return self.find_the_master(from.process);
        }
        let before = self.servers[to].cell.clone();
        let told = match self.scenario.around.asks {
            Asks::InScript => None,
            Asks::BeforeAndBehind | Asks::NotCompared => Some(told.unwrap_or_else(|| self.tell(from, to))),
        };
        let asked = self.trace.is_some().then(|| request.clone());
        let (input, news, counts) = self.execute(from, to, id, *request, told.as_deref());
        if let Some(asked) = asked {
            self.trace_step(to, &asked, &input);
        }
        self.note(|_| format!("server {to} answers {from}: {input:?}"));
        let wrote = *self.servers[to].cell != *before;
        if wrote {
            self.servers[to].wrote(self.now);
            self.replicate(to);
        }
        if let Some(news) = news {
            self.publish(to, &news);
        }
        let waits = counts && self.scenario.acks > 0;
        let granted = matches!(sent, Sent::Campaign);
        let server = &self.servers[to];
        let (epoch, offset) = (server.epoch, server.offset);
        let exchange = Box::new(Exchange { from, sent, id, input, server: to, epoch, offset, granted, told, waits });
        // A renewal that is not acknowledged is not asked behind either.
        let looks = exchange.told.is_some() && (self.scenario.acks > 0 || !matches!(sent, Sent::Renew));
        if looks {
            let when = self.now + self.delay();
            self.at(when, Happening::LookBehind(exchange));
        } else if wrote && self.scenario.durable {
            self.write_to_log(exchange);
        } else {
            self.wait_or_answer(exchange);
        }
    }

    fn wait_or_answer(&mut self, exchange: Box<Exchange>) {
        if exchange.waits {
            return self.and_back(exchange, Happening::Wait);
        }
        let Exchange { from, id, input, .. } = *exchange;
        self.answer(from, id, input);
    }

    /// Where a process talks through a proxy: the server that stands behind it now.
    fn behind_the_proxy(&self, from: At) -> Option<usize> {
        let is_there = self.scenario.around.asks != Asks::InScript && !self.processes[from.process].stays;
        is_there.then_some(self.official)
    }

    /// The connection outlives the server: what comes next on it goes to whoever stands there, who has seen no write
    /// of it.
    fn pass_on(&self, mut exchange: Box<Exchange>) -> Box<Exchange> {
        if let Some(now) = self.behind_the_proxy(exchange.from)
            && (now, self.servers[now].epoch) != (exchange.server, exchange.epoch)
        {
            (exchange.server, exchange.epoch, exchange.offset) = (now, self.servers[now].epoch, 0);
        }
        exchange
    }

    /// The server tells of which generation it is, on this process' connection.
    fn tell(&mut self, from: At, server: usize) -> String {
        let generation = self.servers[server].generation().to_owned();
        self.processes[from.process].told = Some(generation.clone());
        generation
    }

    /// Behind a script: its answer counts if the server is what the script was told.
    pub fn look_behind(&mut self, exchange: Box<Exchange>) {
        let exchange = self.pass_on(exchange);
        if !self.connected(&exchange, Happening::LookBehind) {
            return;
        }
        let now = self.tell(exchange.from, exchange.server);
        if exchange.told.as_ref() == Some(&now) || self.scenario.around.asks == Asks::NotCompared {
            return self.wait_or_answer(exchange);
        }
        let Exchange { from, id, sent, .. } = *exchange;
        self.note(|_| format!("the server of {from} is another by now"));
        self.answer(from, id, sent.failed(id, "it is another by now"));
    }

    /// Before a grant is confirmed: since its acknowledgements.
    pub fn ask(&mut self, exchange: Box<Exchange>) {
        let mut exchange = self.pass_on(exchange);
        if self.connected(&exchange, Happening::Ask) {
            exchange.told = Some(self.tell(exchange.from, exchange.server));
            self.and_back(exchange, Happening::Confirm);
        }
    }

    /// True when the reply counts only once it is acknowledged.
    fn execute(
        &mut self,
        from: At,
        to: usize,
        id: RequestId,
        request: Request,
        told: Option<&str>,
    ) -> (Input, Option<Announcement>, bool) {
        let (now, listeners) = (self.now, self.processes.iter().filter(|process| process.alive).count());
        let (store_time, refused);
        let done = {
            let server = &mut self.servers[to];
            let shown = server.shows(now);
            store_time = shown;
            let generation = told.unwrap_or(server.generation()).to_owned();
            let view = crate::world::server(shown, &generation, server.born, now);
            match request {
                Request::Campaign(request) => {
                    let (reply, news) = server.cell.campaign(view, &request).expect("the clock is not that far ahead");
                    let granted = if let CampaignReply::Granted { token, .. } = reply {
                        self.checker.minted(token, from.process, request.floor, store_time);
                        true
                    } else {
                        false
                    };
                    refused = None;
                    (Input::Campaigned { id, reply: Ok(Stamped { reply, store_time }) }, news, granted)
                }
                Request::Renew(request) => {
                    let told = server.cell.left_by(shown, &request).filter(|_| !self.scenario.around.renewals_ask);
                    let told = told.map(str::to_owned);
                    let view = Server { generation: told.as_deref().unwrap_or(view.generation), ..view };
                    let (mut reply, news) = server.cell.renew(view, &request);
                    // A campaign of its own that came twice, around a lease that was deleted, is no refusal of others.
                    refused = match reply {
                        RenewReply::Lost { token, .. } if !self.checker.is_of(token, from.process) => {
                            Some(request.token)
                        }
                        _ => None,
                    };
                    if let RenewReply::Renewed { audience, .. } = &mut reply {
                        *audience = u32::try_from(listeners).expect("few");
                    }
                    let renewed = matches!(reply, RenewReply::Renewed { .. });
                    (Input::Renewed { id, reply: Ok(Stamped { reply, store_time }) }, news, renewed)
                }
                Request::Release(request) => {
                    let (reply, news) = server.cell.release(view, &request);
                    refused = None;
                    (Input::Released { id, reply: Ok(Stamped { reply, store_time }) }, news, false)
                }
            }
        };
        if let Some(token) = refused {
            let process = &self.processes[from.process];
            let leadership = process.tasks[from.task].election.leadership().remaining(process.clock.shows(now));
            if process.leads(now) && leadership.is_some_and(|(stands, _)| stands == token) {
                self.checker.refused_incumbent(now, from.process);
            }
        }
        done
    }

    /// A reply goes to the process, which goes on with the next command on the same connection.
    fn and_back(&mut self, exchange: Box<Exchange>, next: fn(Box<Exchange>) -> Happening) {
        let (there, back) = (self.delay(), self.delay());
        let cut = self.processes[exchange.from.process].cut;
        if self.now + there < cut.replies || self.now + there + back < cut.requests || self.lost() {
            return;
        }
        let when = self.now + there + back;
        self.at(when, next(exchange));
    }

    /// Whether the connection is still there, and the server able to do anything now.
    fn connected(&mut self, exchange: &Exchange, again: fn(Box<Exchange>) -> Happening) -> bool {
        let server = &self.servers[exchange.server];
        if !server.up || server.epoch != exchange.epoch {
            return false;
        }
        if self.now < server.frozen_until {
            let later = server.frozen_until;
            self.at(later, again(Box::new(exchange.clone())));
            return false;
        }
        true
    }

    /// `WAIT` arrives.
    pub fn wait(&mut self, exchange: Box<Exchange>) {
        let exchange = self.pass_on(exchange);
        if !self.connected(&exchange, Happening::Wait) {
            return;
        }
        self.numbers += 1;
        let number = self.numbers;
        let server = exchange.server;
        self.at(self.now + ACK_TIMEOUT, Happening::TooFew { server, number });
        self.servers[server].waits.push(Waiting { number, exchange });
        self.look_at_waits(server);
    }

    /// Lets those go on whose writes are acknowledged.
    pub fn look_at_waits(&mut self, at: usize) {
        let server = &mut self.servers[at];
        let (waits, acks) = (std::mem::take(&mut server.waits), self.scenario.acks);
        for waiting in waits {
            if self.servers[at].acknowledgements(waiting.exchange.offset) < acks {
                self.servers[at].waits.push(waiting);
            } else if waiting.exchange.granted && self.scenario.around.confirm {
                let asks = waiting.exchange.told.is_some();
                self.and_back(waiting.exchange, if asks { Happening::Ask } else { Happening::Confirm });
            } else {
                let Exchange { from, id, input, .. } = *waiting.exchange;
                self.answer(from, id, input);
            }
        }
    }

    pub fn too_few(&mut self, server: usize, number: u64) {
        let waits = &mut self.servers[server].waits;
        if let Some(at) = waits.iter().position(|waiting| waiting.number == number) {
            let Exchange { from, sent, id, .. } = *waits.remove(at).exchange;
            self.note(|_| format!("too few replicas acknowledge what {from} wrote"));
            self.answer(from, id, sent.failed(id, "too few acknowledgements"));
        }
    }

    /// R6: the server says whether the grant still counts.
    pub fn confirm(&mut self, exchange: Box<Exchange>) {
        let mut exchange = self.pass_on(exchange);
        if !self.connected(&exchange, Happening::Confirm) {
            return;
        }
        let Exchange { from, sent, id, server, .. } = *exchange;
        let Input::Campaigned { reply: Ok(Stamped { reply: CampaignReply::Granted { token, .. }, .. }), .. } =
            exchange.input
        else {
            unreachable!("only grants are confirmed: {:?}", exchange.input)
        };
        let counts = self.counts(server, token, exchange.told.as_deref());
        self.trace_confirmation(server, token, counts);
        self.note(|_| format!("server {server} confirms {from}: {counts}"));
        if !counts {
            exchange.input = sent.failed(id, "its replicas followed another master before");
        }
        exchange.waits = false;
        if exchange.told.is_some() {
            let when = self.now + self.delay();
            return self.at(when, Happening::LookBehind(exchange));
        }
        self.wait_or_answer(exchange);
    }

    pub fn answer(&mut self, to: At, id: RequestId, input: Input) {
        let when = self.now + self.delay();
        if !self.lost() {
            self.at(when, Happening::Answer { to, input: Box::new(input), id });
        }
    }

    pub fn answered(&mut self, to: At, id: RequestId, input: Box<Input>) {
        if self.now < self.processes[to.process].cut.replies {
            return;
        }
        let waiting = &self.processes[to.process];
        if waiting.alive && self.now < waiting.paused_until {
            let later = waiting.paused_until + MS;
            return self.at(later, Happening::Answer { to, input, id });
        }
        if waiting.alive && self.task(to).outstanding.remove(&id).is_some() {
            self.input(to, *input);
        }
    }

    fn publish(&mut self, server: usize, news: &Announcement) {
        if !self.scenario.rules.heartbeats {
            return;
        }
        for to in 0..self.processes.len() {
            let process = &self.processes[to];
            let listens = process.alive && process.ears == server;
            if !listens || (!self.calm && self.chance(0.02)) {
                continue;
            }
            let when = self.now + self.delay();
            self.at(when, Happening::News { to, news: Box::new(news.clone()) });
        }
    }

    /// What waited while a process was paused is dropped; it looks by itself when it goes on.
    pub fn hear(&mut self, to: usize, news: &Announcement) {
        let process = &self.processes[to];
        if process.alive && self.now >= process.paused_until && self.now >= process.cut.news {
            self.input_all(to, &Input::Heard(news.clone()));
        }
    }

    /// Its subscription is new: it may have missed something.
    pub fn gap(&mut self, process: usize) {
        if self.awake(process, || Happening::Gap(process)) && self.now >= self.processes[process].cut.news {
            self.input_all(process, &Input::Gap);
            if self.now < self.processes[process].flaps_until {
                let next = self.now + self.span(SECOND, 4 * SECOND);
                self.at(next, Happening::Gap(process));
            }
        }
    }

    /// It was refused, or told: in a moment it talks to the server that is said to be the master.
    pub fn find_the_master(&mut self, process: usize) {
        if !self.processes[process].stays {
            let when = self.now + self.span(MS, if self.calm { 100 * MS } else { 2 * SECOND });
            self.at(when, Happening::Turn { process, ears: false });
        }
    }

    pub fn turn(&mut self, process: usize, ears: bool) {
        let official = self.official;
        let of = &mut self.processes[process];
        if of.stays {
            return;
        }
        if ears {
            if of.ears != official {
                of.ears = official;
                self.gap(process);
            }
            return;
        }
        if of.to != official {
            of.to = official;
            self.note(|_| format!("process-{process} talks to server {official} now"));
        }
        if self.processes[process].ears != official {
            let when = self.now + self.delay();
            self.at(when, Happening::Turn { process, ears: true });
        }
    }
}
