//! What a run tells of its store, as lines of JSON: each step, what was asked and what was answered, and until when a
//! replica leads. `spec/BatonTrace.tla` accepts every run that is a behaviour of the specification; see
//! tests/spec/traces.rs for what a line says.

use baton::protocol::{
    CampaignReply, CampaignRequest, GuardCause, Input, KnownRecord, RecordVersion, ReleaseReply, ReleaseRequest,
    RenewReply, RenewRequest, Stamped, Token,
};
use serde_json::{Value, json};

use crate::clockwork::Nanos;
use crate::network::Request;
use crate::processes::Task;
use crate::redis::Redis;
use crate::world::World;

/// The lines of one run. They are counted from 1; line 0 is a store that knows nothing.
#[derive(Debug, Default)]
pub struct Trace {
    lines: Vec<Value>,
}

impl Trace {
    fn tell(&mut self, line: Value) -> usize {
        self.lines.push(line);
        self.lines.len()
    }

    pub fn into_lines(self) -> Vec<String> {
        self.lines.iter().map(Value::to_string).collect()
    }
}

fn version(version: RecordVersion) -> Value {
    let RecordVersion { token, count, writer } = version;
    json!({ "token": token.get(), "count": count, "writer": writer.map(|writer| writer.to_string()) })
}

fn known(known: KnownRecord) -> Value {
    json!({
        "version": version(known.version),
        "age_us": known.age.as_micros(),
        "unchanged_us": known.unchanged_for.as_micros(),
        "remaining_us": known.remaining.as_micros(),
    })
}

fn asked(request: &Request) -> Value {
    let (step, candidate, more) = match request {
        Request::Campaign(CampaignRequest { candidate, lease_duration, floor, knowledge, .. }) => (
            "campaign",
            candidate,
            json!({
                "lease_us": lease_duration.as_micros(),
                "floor": floor.get(),
                "known": knowledge.map(known),
            }),
        ),
        Request::Renew(RenewRequest { candidate, lease_duration, token, count, .. }) => (
            "renew",
            candidate,
            json!({ "lease_us": lease_duration.as_micros(), "token": token.get(), "count": count }),
        ),
        Request::Release(ReleaseRequest { candidate, token, .. }) => {
            ("release", candidate, json!({ "token": token.get() }))
        }
    };
    let by = json!({ "step": step, "session": candidate.session.to_string(), "attempt": candidate.attempt.0 });
    merged(by, more)
}

fn answered(input: &Input) -> Value {
    match input {
        Input::Campaigned { reply: Ok(Stamped { reply, .. }), .. } => match reply {
            CampaignReply::Granted { token, count } => json!({ "is": "granted", "token": token.get(), "count": count }),
            CampaignReply::Held { holder, token, remaining, version: of } => json!({
                "is": "held",
                "token": token.get(),
                "holder": holder.session.to_string(),
                "remaining_us": remaining.as_micros(),
                "version": version(*of),
            }),
            CampaignReply::Guarded { cause, remaining, version: of } => json!({
                "is": "guarded",
                "cause": GuardCause::as_str(*cause),
                "remaining_us": remaining.as_micros(),
                "version": version(*of),
            }),
            CampaignReply::LookAgain { version: of, .. } => json!({ "is": "watch", "version": version(*of) }),
            CampaignReply::Stale { token, count } => json!({ "is": "stale", "token": token.get(), "count": count }),
            CampaignReply::Divided { .. } => unreachable!("there is no quorum"),
        },
        Input::Renewed { reply: Ok(Stamped { reply, .. }), .. } => match reply {
            RenewReply::Renewed { count, .. } => json!({ "is": "renewed", "count": count }),
            RenewReply::Lost { token, .. } => json!({ "is": "lost", "token": token.get() }),
        },
        Input::Released { reply: Ok(Stamped { reply, .. }), .. } => match reply {
            ReleaseReply::Released => json!({ "is": "released" }),
            ReleaseReply::NotHeld => json!({ "is": "nothing" }),
        },
        other => unreachable!("no answer of a store: {other:?}"),
    }
}

fn told_by(at: usize, server: &Redis, now: Nanos) -> Value {
    json!({
        "server": at,
        "at_us": now / 1_000,
        "from": server.cell.step,
        "clock_us": server.shows(now).0,
        "generation": server.generation(),
    })
}

fn merged(one: Value, other: Value) -> Value {
    let (Value::Object(mut one), Value::Object(other)) = (one, other) else { unreachable!("both are objects") };
    one.extend(other);
    Value::Object(one)
}

impl World {
    /// A server has answered a request: `from` is the line after which it was as the request found it.
    pub fn trace_step(&mut self, at: usize, request: &Request, input: &Input) {
        let Some(trace) = &mut self.trace else { return };
        let server = &mut self.servers[at];
        let line = merged(asked(request), told_by(at, server, self.now));
        server.cell.step = trace.tell(merged(line, json!({ "reply": answered(input) })));
    }

    /// A lease went away behind everybody's back.
    pub fn trace_eviction(&mut self, at: usize) {
        let Some(trace) = &mut self.trace else { return };
        let server = &mut self.servers[at];
        server.cell.step = trace.tell(merged(json!({ "step": "evict" }), told_by(at, server, self.now)));
    }

    /// R6: whether a grant counts.
    pub fn trace_confirmation(&mut self, at: usize, token: Token, counts: bool) {
        let Some(trace) = &mut self.trace else { return };
        let server = &self.servers[at];
        let line = json!({ "step": "confirm", "token": token.get(), "counts": counts });
        trace.tell(merged(line, told_by(at, server, self.now)));
    }

    /// Until when, in true time, a process leads, or its app acts on what it was told, if that has changed. `starts`:
    /// with a new term.
    pub fn trace_leadership(&mut self, process: usize, starts: bool) {
        let Some(trace) = &mut self.trace else { return };
        let (now, of) = (self.now, &mut self.processes[process]);
        let local = of.clock.shows(now);
        let remaining = |task: &Task| task.election.leadership().remaining(local).filter(|_| of.alive);
        let stands = of.tasks.iter().find_map(remaining);
        let leads = stands.map_or(0, |(_, left)| of.clock.when(local + left, now));
        let until = of.tasks.iter().map(|task| task.promised_until).fold(leads.max(now), Nanos::max);
        let (now_us, until_us) = (now / 1_000, until / 1_000);
        let has_changed = until_us != of.traced_until_us && until_us.max(of.traced_until_us) > now_us;
        if has_changed || starts {
            trace.tell(json!({
                "step": "acts",
                "at_us": now_us,
                "replica": process,
                "token": stands.map_or(0, |(token, _)| token.get()),
                "until_us": until_us,
                "starts": starts,
            }));
        }
        of.traced_until_us = until_us;
    }
}
