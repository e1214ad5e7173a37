//! The one Redis: the real reference of what a step does to a role's lease and record, on a clock that may be stepped,
//! and what the server may become when it is another one.

use std::time::Duration;

use baton::protocol::{
    Announcement, CampaignReply, Input, LeaseCell, ReleaseReply, RenewReply, RequestId, Rules, Server, Stamped,
    StoreTime, Token,
};

use crate::bounds::Bounds;
use crate::clock::{Nanos, store_shows, store_when};
use crate::message::Request;

/// How many earlier states of itself a server may come back with.
const COPIES_MAX: usize = 6;

#[derive(Clone, Debug, Hash)]
pub struct Redis {
    cell: LeaseCell,
    /// Changes when another server stands there.
    generation: u8,
    /// In nanoseconds.
    stepped_by: i128,
    /// What it was, the oldest first: a replica that lags, or a disk, may have any of it.
    copies: Vec<LeaseCell>,
    /// When the lease ends by its TTL.
    pub lease_ends: Nanos,
}

/// What came of a request.
pub struct Reply {
    pub answer: Input,
    pub news: Option<Announcement>,
    pub granted: Option<Token>,
    /// The incumbent's token, where a renewal is refused.
    pub refused: Option<Token>,
    pub released: bool,
}

fn generation(number: u8) -> String {
    format!("server-{number}")
}

impl Redis {
    pub fn new(rules: Rules, is_known: bool) -> Self {
        let cell = if is_known { LeaseCell::never_held(rules, &generation(0)) } else { LeaseCell::new(rules) };
        Self { cell, generation: 0, stepped_by: 0, copies: Vec::new(), lease_ends: 0 }
    }

    pub fn shows(&self, now: Nanos) -> StoreTime {
        store_shows(now, self.stepped_by)
    }

    pub fn is_held(&self, now: Nanos) -> bool {
        self.cell.is_held(self.shows(now))
    }

    pub fn is_known(&self) -> bool {
        self.cell.is_known()
    }

    pub fn copies(&self) -> usize {
        self.copies.len()
    }

    /// One atomic step. `keeps`: what it was before may come back.
    pub fn execute(&mut self, bounds: &Bounds, id: RequestId, request: &Request, now: Nanos, keeps: bool) -> Reply {
        let before = keeps.then(|| self.cell.clone());
        let reply = self.step(bounds, id, request, now);
        if let Some(before) = before.filter(|before| *before != self.cell) {
            if self.copies.len() == COPIES_MAX {
                self.copies.remove(0);
            }
            self.copies.push(before);
        }
        reply
    }

    fn step(&mut self, bounds: &Bounds, id: RequestId, request: &Request, now: Nanos) -> Reply {
        let store_time = self.shows(now);
        let generation = generation(self.generation);
        let server = Server { now: store_time, uptime: Duration::from_secs(1_000), generation: &generation };
        let (mut granted, mut refused) = (None, None);
        match request {
            Request::Campaign(request) => {
                let (reply, news) = self.cell.campaign(server, request).expect("the clock is not that far ahead");
                if let CampaignReply::Granted { token, .. } = reply {
                    granted = Some(token);
                    self.lease_ends = store_when(now, request.lease_duration);
                }
                let answer = Input::Campaigned { id, reply: Ok(Stamped { reply, store_time }) };
                Reply { answer, news, granted, refused, released: false }
            }
            Request::Renew(request) => {
                let left_by = self.cell.left_by(store_time, request).filter(|_| !bounds.renewals_ask);
                let left_by = left_by.map(str::to_owned);
                let server = Server { generation: left_by.as_deref().unwrap_or(server.generation), ..server };
                let (mut reply, news) = self.cell.renew(server, request);
                match &mut reply {
                    RenewReply::Renewed { audience, .. } => {
                        *audience = 2;
                        self.lease_ends = store_when(now, request.lease_duration);
                    }
                    RenewReply::Lost { .. } => refused = Some(request.token),
                }
                let answer = Input::Renewed { id, reply: Ok(Stamped { reply, store_time }) };
                Reply { answer, news, granted, refused, released: false }
            }
            Request::Release(request) => {
                let (reply, news) = self.cell.release(server, request);
                let released = reply == ReleaseReply::Released;
                let answer = Input::Released { id, reply: Ok(Stamped { reply, store_time }) };
                Reply { answer, news, granted, refused, released }
            }
        }
    }

    /// Another server stands there: with all data, with those of some earlier moment, or with none.
    pub fn restart(&mut self, rules: Rules, with: Data) {
        self.generation += 1;
        match with {
            Data::All => {}
            Data::Copy(at) => self.cell = self.copies[at].clone(),
            Data::None => self.cell = LeaseCell::new(rules),
        }
    }

    pub fn flush(&mut self) {
        self.cell.forget();
    }

    pub fn evict(&mut self) {
        self.cell.evict_lease();
    }

    pub fn step_clock(&mut self, by: i128) {
        self.stepped_by += by;
    }

    /// Nothing of what it was can come back any more.
    pub fn forget_copies(&mut self) {
        self.copies.clear();
    }
}

/// What a server that stands in another's place has of its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Data {
    All,
    Copy(usize),
    None,
}
