//! What happens to the servers: stops, starts, promotions, and sides that both have a master.

use crate::clockwork::{MS, Nanos, SECOND};
use crate::redis::SAVED;
use crate::world::{Happening, World};

/// What a server finds on its disk when it starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Data {
    Kept,
    /// All but the last second or two (`appendfsync everysec`), or what an older snapshot has.
    Late,
    Lost,
}

/// A step of a failover, or of a restart.
#[derive(Clone, Copy, Debug)]
pub enum Move {
    Down(usize),
    Up(usize, Data),
    /// It becomes a master, if it is there, and the one that everybody is told of.
    Promote(usize),
    Follow(usize, usize),
    /// It follows the master that everybody is told of, whoever that is by then.
    Join(usize),
    /// It applies nothing for so long.
    Stall(usize, Nanos),
    /// Both sides are told who the master is.
    Told,
}

/// Who is the master after a split, and how it came to that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The new one.
    New,
    /// The old one: it was never demoted.
    Old,
    /// The old one: it was told to follow the new one, and never came to it.
    OldAgain,
    /// Either, after replicas changed sides a few times.
    Either,
}

impl World {
    fn step(&mut self, after: Nanos, step: Move) {
        self.at(self.now + after, Happening::Move(step));
    }

    pub fn carry_out(&mut self, step: Move) {
        match step {
            Move::Down(server) => {
                self.note(|_| format!("server {server} stops"));
                self.servers[server].up = false;
                self.unlink(server);
            }
            Move::Up(server, data) => self.start_server(server, data),
            Move::Promote(server) => {
                if self.servers[server].up {
                    self.promote(server);
                    self.read_log(server, true);
                    self.official = server;
                    self.tell_everybody(2 * SECOND);
                }
            }
            Move::Stall(replica, span) => self.stall(replica, span),
            Move::Follow(replica, master) => self.follow(replica, master),
            Move::Join(replica) => {
                let official = self.official;
                self.follow(replica, official);
            }
            Move::Told => {
                for process in &mut self.processes {
                    process.stays = false;
                }
                self.tell_everybody(SECOND);
            }
        }
    }

    /// Who talks to another server turns to the master, within a while.
    fn tell_everybody(&mut self, within: Nanos) {
        for process in 0..self.processes.len() {
            let of = &self.processes[process];
            if of.alive && !of.stays && (of.to != self.official || of.ears != self.official) {
                let when = self.now + self.span(MS, within);
                self.at(when, Happening::Turn { process, ears: false });
            }
        }
    }

    fn start_server(&mut self, server: usize, data: Data) {
        if self.servers[server].up || self.servers[server].gone {
            return;
        }
        let id = self.new_id();
        let now = self.now;
        let lost = if self.chance(0.3) { SAVED } else { 2 * SECOND };
        let lost = self.span(0, lost);
        let remembers = self.chance(0.5);
        let of = &mut self.servers[server];
        match data {
            Data::Kept => {}
            Data::Late => of.restore(now.saturating_sub(lost)),
            Data::Lost => of.empties(),
        }
        of.up = true;
        of.starts_as(id, now);
        if of.follows.is_none() {
            of.shift(id);
        }
        if data == Data::Lost || !remembers {
            of.forgets_its_history(id);
        }
        self.read_log(server, false);
        self.note(|_| format!("server {server} is up, its data {data:?}"));
        self.seek_link(server);
        self.resubscribe(server);
        if !self.calm && self.chance(0.5) {
            self.join();
        }
        for replica in 0..self.servers.len() {
            if self.servers[replica].follows == Some(server) {
                self.seek_link(replica);
            }
        }
    }

    /// Every subscription at this server is renewed, sooner or later.
    fn resubscribe(&mut self, server: usize) {
        for at in 0..self.processes.len() {
            if self.processes[at].alive && self.processes[at].ears == server {
                let when = self.now + self.delay();
                self.at(when, Happening::Gap(at));
            }
        }
    }

    /// Stops and starts after a while. Returns that.
    pub fn restart(&mut self, server: usize, data: Data) -> Nanos {
        let span = self.span(100 * MS, 15 * SECOND);
        self.carry_out(Move::Down(server));
        self.step(span, Move::Up(server, data));
        span
    }

    /// Another than the master that is there; none where there is none.
    pub fn another_server(&mut self) -> Option<usize> {
        let official = self.official;
        let others: Vec<usize> = (0..self.servers.len()).filter(|at| *at != official && self.servers[*at].up).collect();
        (!others.is_empty()).then(|| others[self.rng.usize(0..others.len())])
    }

    /// It applies nothing for so long.
    pub fn stall(&mut self, replica: usize, span: Nanos) {
        let until = &mut self.servers[replica].stalled_until;
        *until = (self.now + span).max(*until);
    }

    /// The master goes, and a replica takes over, whichever, however far it is. Returns how long that takes.
    pub fn fail_over(&mut self) -> Nanos {
        let old = self.official;
        let Some(new) = self.another_server() else { return self.restart(old, Data::Kept) };
        let lags = if self.rng.bool() { self.span(0, 6 * SECOND) } else { 0 };
        self.stall(new, lags);
        let takes = lags + self.span(200 * MS, 12 * SECOND);
        let back = takes + self.span(SECOND, 15 * SECOND);
        // Without acknowledgements nothing helps where the old master is still there.
        let how = if self.scenario.acks == 0 && !self.scenario.durable { 2 } else { self.rng.u8(0..6) };
        if how < 2 {
            // For a while there are two masters.
            self.checker.split();
        }
        match how {
            0 => self.isolate(old, self.now + back),
            // It is asked to go.
            1 => {}
            _ => {
                self.step(lags, Move::Down(old));
                self.step(back, Move::Up(old, Data::Kept));
            }
        }
        self.step(takes, Move::Promote(new));
        let mut end = back;
        for other in (0..self.servers.len()).filter(|other| *other != new) {
            let after = if other == old { back } else { takes } + self.span(0, 3 * SECOND);
            self.step(after, Move::Join(other));
            end = end.max(after);
        }
        end + 3 * SECOND
    }

    /// A failover to a replica that hears nothing from a moment on at which the role is free, and a newcomer then.
    /// Returns when it takes over.
    pub fn forget_the_next_grant(&mut self) -> Nanos {
        let old = self.official;
        let Some(new) = self.another_server() else { return 0 };
        // By then whoever gives the role back has waited for its last answers to expire, and nobody has come yet.
        let begins = 4 * SECOND;
        let granted = begins + self.span(200 * MS, 2 * SECOND);
        let fails = granted + self.span(SECOND, 4 * SECOND);
        let takes = fails + self.span(100 * MS, 2 * SECOND);
        self.step(begins, Move::Stall(new, takes - begins + SECOND));
        self.at(self.now + granted, Happening::Join);
        self.step(fails, Move::Down(old));
        self.step(takes, Move::Promote(new));
        let newcomer = takes + self.span(0, SECOND);
        self.at(self.now + newcomer, Happening::Join);
        for other in (0..self.servers.len()).filter(|other| *other != new && *other != old) {
            self.step(takes, Move::Join(other));
        }
        let back = takes + self.span(SECOND, 5 * SECOND);
        self.step(back, Move::Up(old, Data::Kept));
        self.step(back, Move::Join(old));
        takes
    }

    /// Some go on with the old master while others have a new one. Returns how long it takes.
    pub fn split(&mut self, ending: Ending) -> Nanos {
        let old = self.official;
        let Some(new) = self.another_server() else { return 0 };
        self.checker.split();
        for at in 0..self.processes.len() {
            self.processes[at].stays = self.rng.bool();
        }
        let takes = self.span(200 * MS, 8 * SECOND);
        let ends = takes + self.span(SECOND, 30 * SECOND);
        self.step(takes, Move::Promote(new));
        let alone = matches!(ending, Ending::OldAgain) || (ending != Ending::Either && self.rng.bool());
        if alone {
            self.isolate(old, self.now + ends);
        }
        for other in (0..self.servers.len()).filter(|other| *other != new && *other != old) {
            let moves = if ending == Ending::Either { self.rng.u64(2..6) } else { 1 };
            let mut after = takes;
            for number in 0..moves {
                after += self.span(0, if moves == 1 { 8 * SECOND } else { (ends - takes) / moves });
                let side = if number == 0 || self.rng.bool() { new } else { old };
                if self.chance(0.3) {
                    // It crashes on its way, and comes up with what is on its disk.
                    let down = self.span(0, SECOND);
                    self.step(after, Move::Down(other));
                    self.step(after + down, Move::Up(other, Data::Late));
                }
                self.step(after, Move::Follow(other, side));
            }
        }
        let end = ends
            + match ending {
                Ending::New => self.settle_on(new, ends),
                Ending::Old => self.give_back(new, old, ends),
                Ending::OldAgain => {
                    let told = self.span(takes, ends);
                    self.step(told, Move::Follow(old, new));
                    self.give_back(new, old, ends)
                }
                Ending::Either => {
                    let winner = if self.rng.bool() { new } else { old };
                    self.settle_on(winner, ends)
                }
            };
        self.step(end, Move::Told);
        end + 2 * SECOND
    }

    /// All follow this one from about then on. Returns how much later.
    fn settle_on(&mut self, winner: usize, ends: Nanos) -> Nanos {
        self.step(ends, Move::Promote(winner));
        for other in (0..self.servers.len()).filter(|other| *other != winner) {
            let after = ends + self.span(0, 2 * SECOND);
            self.step(after, Move::Join(other));
        }
        2 * SECOND
    }

    /// The new master goes as well, and the old one is taken. Returns how much later all is well.
    fn give_back(&mut self, new: usize, old: usize, ends: Nanos) -> Nanos {
        self.step(ends, Move::Down(new));
        let takes = self.span(0, 3 * SECOND);
        let back = takes + self.span(SECOND, 10 * SECOND);
        self.step(ends + back, Move::Up(new, Data::Kept));
        self.settle_on(old, ends + takes);
        self.step(ends + back + SECOND, Move::Join(new));
        back + SECOND
    }

    /// The end of all that heals: one master, whom all that are there follow, and whom all processes know.
    pub fn settle(&mut self) {
        for server in 0..self.servers.len() {
            self.start_server(server, Data::Kept);
            // What is on its way would come after what is sent from now on.
            self.unlink(server);
            let of = &mut self.servers[server];
            (of.alone_until, of.frozen_until, of.stalled_until) = (0, 0, 0);
        }
        if !self.servers[self.official].up {
            self.official = (0..self.servers.len()).find(|at| self.servers[*at].up).expect("one server is left");
        }
        self.promote(self.official);
        self.read_log(self.official, true);
        for server in 0..self.servers.len() {
            let official = self.official;
            self.follow(server, official);
            self.seek_link(server);
        }
        self.carry_out(Move::Told);
    }
}
