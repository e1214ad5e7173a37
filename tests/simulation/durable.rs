//! Servers that acknowledge by a log: what is in it outlives all of them. Whoever takes over reads it to its end, and
//! from then on nobody else can write to it. A server that has lost it does not know that: it goes on, and what it is
//! asked for it does, but for what is written it has no answer.

use crate::clockwork::MS;
use crate::network::Exchange;
use crate::redis::Kept;
use crate::world::{Happening, World};

/// What is in the log.
#[derive(Debug)]
pub struct Log {
    /// Who may write, and how many times that was somebody else before.
    writer: usize,
    term: u64,
    /// All that was written so far, and how far its writer's history was then.
    cell: Kept,
    offset: u64,
}

/// A write on its way to the log, and who waits for it.
#[derive(Clone, Debug)]
pub struct Write {
    exchange: Box<Exchange>,
    cell: Kept,
    /// None of a server that has lost the log.
    term: Option<u64>,
}

impl Log {
    pub const fn new(cell: Kept) -> Self {
        Self { writer: 0, term: 0, cell, offset: 0 }
    }
}

impl World {
    /// What was just written is sent to the log, and answered once it is there.
    pub fn write_to_log(&mut self, exchange: Box<Exchange>) {
        let log = &self.log_of_writes;
        let term = (log.writer == exchange.server).then_some(log.term);
        let cell = self.servers[exchange.server].cell.clone();
        let when = self.now + self.span(MS, 20 * MS);
        self.at(when, Happening::Logged(Box::new(Write { exchange, cell, term })));
    }

    pub fn logged(&mut self, write: Write) {
        let Write { exchange, cell, term } = write;
        let server = &self.servers[exchange.server];
        let log = &mut self.log_of_writes;
        if term != Some(log.term) || !server.up || server.epoch != exchange.epoch {
            return self.note(|_| format!("what server {} wrote does not come to the log", exchange.server));
        }
        if log.offset < exchange.offset {
            (log.offset, log.cell) = (exchange.offset, cell);
        }
        let Exchange { from, id, input, .. } = *exchange;
        self.answer(from, id, input);
    }

    /// Something was changed at this master by hand, as by a client.
    pub fn log_by_hand(&mut self, master: usize) {
        let (server, log) = (&self.servers[master], &mut self.log_of_writes);
        if log.writer == master {
            (log.offset, log.cell) = (server.offset, server.cell.clone());
        }
    }

    /// Whoever becomes the master, or starts, has what is in the log, and nothing else.
    pub fn read_log(&mut self, server: usize, takes_it: bool) {
        if !self.scenario.durable {
            return;
        }
        let (of, log) = (&mut self.servers[server], &mut self.log_of_writes);
        if takes_it && log.writer != server {
            (log.writer, log.term, log.offset) = (server, log.term + 1, of.offset);
        }
        if log.writer == server {
            log.offset = of.offset;
        }
        of.cell = log.cell.clone();
    }
}
