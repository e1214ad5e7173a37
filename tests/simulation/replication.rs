//! What goes from server to server: writes, acknowledgements, and which replica follows whom.

use crate::clockwork::{MS, Nanos, SECOND};
use crate::redis::{Attached, Kept};
use crate::world::{Happening, World};

/// How often a replica without a link tries again.
const RETRY: Nanos = SECOND;

/// A part of a master's history on its way to a replica: since states are small, the whole state after it.
#[derive(Clone, Debug)]
pub struct Batch {
    from: usize,
    to: usize,
    link: u64,
    /// The end of a full synchronisation.
    full: bool,
    replid: u64,
    offset: u64,
    cell: Kept,
}

impl World {
    pub fn new_id(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    /// Sends what is new at this master to each replica that is linked to it.
    pub fn replicate(&mut self, from: usize) {
        for at in 0..self.servers[from].attached.len() {
            self.send_batch(from, at, false);
        }
    }

    fn send_batch(&mut self, from: usize, at: usize, full: bool) {
        let delay = if full && !self.calm { self.span(5 * MS, 2 * SECOND) } else { self.server_delay() };
        let master = &mut self.servers[from];
        let link = &mut master.attached[at];
        let when = link.arrives_from.max(self.now + delay);
        link.arrives_from = when;
        let batch = Batch {
            from,
            to: link.server,
            link: link.link,
            full,
            replid: master.replid(),
            offset: master.offset,
            cell: master.cell.clone(),
        };
        self.at(when, Happening::Apply(Box::new(batch)));
    }

    fn server_delay(&mut self) -> Nanos {
        if self.calm || self.rng.u8(0..20) != 0 { self.span(MS, 10 * MS) } else { self.span(10 * MS, 800 * MS) }
    }

    pub fn apply(&mut self, batch: Box<Batch>) {
        let replica = &mut self.servers[batch.to];
        if replica.link != Some(batch.link) {
            return;
        }
        let still = replica.frozen_until.max(replica.stalled_until);
        if self.now < still {
            return self.at(still, Happening::Apply(batch));
        }
        let Batch { from, link, full, replid, offset, cell, .. } = *batch;
        replica.takes_over(replid, full, offset, cell, self.now);
        let when = self.now + self.server_delay();
        self.at(when, Happening::Acknowledged { to: from, link, offset });
    }

    /// A master hears how far a replica is that follows it.
    pub fn acknowledged(&mut self, to: usize, link: u64, offset: u64) {
        let now = self.now;
        let master = &mut self.servers[to];
        if master.up && now < master.frozen_until {
            let later = master.frozen_until;
            return self.at(later, Happening::Acknowledged { to, link, offset });
        }
        if let Some(from) = master.attached.iter_mut().find(|known| known.link == link) {
            from.acked = from.acked.max(Some(offset));
            self.look_at_waits(to);
        }
    }

    /// A replica asks its master for a link (`PSYNC`), again and again until it has one.
    pub fn attach(&mut self, replica: usize, epoch: u64) {
        let asks = &self.servers[replica];
        let Some(to) = asks.follows.filter(|_| asks.up && asks.epoch == epoch) else { return };
        let master = &self.servers[to];
        if master.attached.iter().any(|link| link.server == replica) {
            return;
        }
        let (now, apart) = (self.now, asks.alone_until.max(master.alone_until));
        let busy = apart.max(master.frozen_until).max(asks.frozen_until) > now;
        if busy || !master.is_master() {
            return self.at(now + RETRY, Happening::Attach { replica, epoch });
        }
        let full = !master.continues(asks);
        let replid = master.replid();
        self.note(|_| {
            format!("server {replica} follows server {to} {}", if full { "from scratch" } else { "from where it is" })
        });
        self.servers[to].serve_sync(full);
        if !full {
            self.servers[replica].goes_on_in(replid);
        }
        let link = self.new_id();
        self.servers[replica].link = Some(link);
        let links = &mut self.servers[to].attached;
        links.push(Attached { server: replica, link, acked: None, arrives_from: now });
        let at = links.len() - 1;
        self.send_batch(to, at, full);
    }

    /// `REPLICAOF`: from now on it follows that one, and is no master.
    pub fn follow(&mut self, replica: usize, master: usize) {
        if replica == master || self.servers[replica].follows == Some(master) {
            return;
        }
        self.note(|_| format!("server {replica} is told to follow server {master}"));
        self.unlink(replica);
        self.servers[replica].follows = Some(master);
        self.seek_link(replica);
    }

    /// `REPLICAOF NO ONE`, which begins another history, unless it is a master already.
    pub fn promote(&mut self, server: usize) {
        if self.servers[server].follows.is_none() {
            return;
        }
        self.note(|world| format!("server {server} is promoted at offset {}", world.servers[server].offset));
        self.unlink(server);
        let id = self.new_id();
        self.servers[server].follows = None;
        self.servers[server].shift(id);
    }

    /// The connections to it break, those of processes and of other servers, and so does its own link.
    pub fn unlink(&mut self, server: usize) {
        let of = &mut self.servers[server];
        of.epoch += 1;
        of.link = None;
        of.waits.clear();
        self.break_links(server);
    }

    /// Whoever loses a link looks for one again.
    fn break_links(&mut self, server: usize) {
        for link in std::mem::take(&mut self.servers[server].attached) {
            self.seek_link(link.server);
        }
        for other in &mut self.servers {
            other.attached.retain(|link| link.server != server);
        }
    }

    pub fn seek_link(&mut self, replica: usize) {
        let epoch = self.servers[replica].epoch;
        let when = self.now + self.span(MS, if self.calm { 100 * MS } else { SECOND });
        self.at(when, Happening::Attach { replica, epoch });
    }

    /// The other servers do not reach it for so long. Processes do.
    pub fn isolate(&mut self, server: usize, until: Nanos) {
        self.note(|_| format!("server {server} is cut off from the others"));
        self.servers[server].alone_until = until;
        self.break_links(server);
        self.seek_link(server);
    }
}
