//! What may happen to a client, one thing at a time. Whatever it is, it must not work when nothing allows it.

use std::time::Duration;

use rustix::process::Signal;
use testkit::wait::{holds_for, until_within};

use crate::client::{Client, Event, Form, begins, cancelled, left, slept, unallowed};
use crate::sidecar::{Answers, Nanos, Sidecar, nanos, now};

/// Longer than anything takes that is waited for: Java compiles its smallest client first, beside all the others.
const PATIENCE: Duration = Duration::from_secs(120);
const SHORT: Duration = Duration::from_millis(600);
/// Nothing that is waited for comes by this having passed.
const LONG: Duration = Duration::from_secs(60);

pub struct Cell {
    pub name: &'static str,
    /// Whether what has no connection of its own is put into it, too.
    pub for_smallest: bool,
    /// Whether the client ends without a word.
    kills: bool,
    play: fn(&mut Stage),
}

/// What came of a cell.
#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    pub works: usize,
    /// The latest that work was begun after what allowed it had ended; zero if it never was.
    pub late: Duration,
}

pub struct Stage {
    sidecar: Sidecar,
    client: Client,
    form: Form,
    cell: &'static str,
}

impl Cell {
    /// # Panics
    /// When the client does not do what it should, or something else.
    pub fn run(&self, sidecar: Sidecar, client: Client, form: Form) -> Outcome {
        let mut stage = Stage { sidecar, client, form, cell: self.name };
        (self.play)(&mut stage);
        let Stage { sidecar, mut client, .. } = stage;
        let events = client.events().to_vec();
        assert_eq!(client.strange(), [""; 0], "{}", self.name);
        let late = unallowed(&sidecar, &events).iter().map(|(_, after)| *after).max().unwrap_or_default();
        for (post, left) in sidecar.posts().iter().zip(events.iter().filter_map(left)) {
            assert!(post.at >= left, "{}: it says that its work has stopped, before it has", self.name);
            assert!(post.hold.is_some(), "{}: it speaks for others, too", self.name);
        }
        for closed in sidecar.closed() {
            let before = |at: &Nanos| *at <= closed;
            let begun = events.iter().filter_map(begins).filter(before).count();
            let left = events.iter().filter_map(left).filter(before).count();
            assert!(begun == left || self.kills, "{}: it closes its connection while it works", self.name);
        }
        let works = events.iter().filter(|event| matches!(event, Event::Works { .. })).count();
        Outcome { works, late }
    }
}

impl Stage {
    fn until(&mut self, what: &str, mut reached: impl FnMut(&mut Self) -> bool) {
        until_within(PATIENCE, &format!("{}: {what}", self.cell), || reached(self));
    }

    /// It leads, and the client works.
    fn works(&mut self, token: u64, valid_for: Duration) {
        self.sidecar.lead(token, valid_for);
        let since = now();
        self.until("it works", |stage| stage.client.works(token, since) > 3);
    }

    /// It has asked some more times.
    fn asks(&mut self) {
        let asked = self.sidecar.asked();
        self.until("it asks again and again", |stage| stage.sidecar.asked() >= asked + 3);
    }

    /// What it was told runs out, and it stops.
    fn outlasts(&mut self) {
        match self.form {
            Form::Package => self.leaves(),
            Form::Smallest => {
                self.until("what was promised has run out", |stage| now() > stage.sidecar.promised_until())
            }
        }
    }

    /// A package's client leaves the scope that it is in.
    fn leaves(&mut self) {
        let begun = self.client.events().iter().filter_map(begins).count();
        self.until("it leaves its scope", |stage| stage.client.events().iter().filter_map(left).count() >= begun);
    }

    /// It has left long before what it was promised ends.
    fn leaves_at_once(&mut self) {
        self.leaves();
        let at = self.client.last(cancelled).expect("it was cancelled");
        assert!(at + nanos(LONG) / 2 < self.sidecar.promised_until(), "it knew, and went on");
    }

    /// So many times.
    fn has_drained(&mut self, times: usize) {
        self.until("it says that its work has stopped", |stage| {
            let posts = stage.sidecar.posts();
            posts.iter().filter(|post| post.word == "drained").count() >= times
        });
    }

    fn never_began(&mut self) {
        assert_eq!(self.client.events(), [], "nothing allows it");
    }
}

/// Before anything is promised that holds.
fn refuses(stage: &mut Stage, answers: Answers, valid_for: Duration) {
    stage.sidecar.answer(answers);
    stage.sidecar.lead(1, valid_for);
    stage.asks();
    stage.never_began();
    stage.sidecar.answer(Answers::Well);
    stage.works(2, LONG);
}

/// While it works.
fn outlives(stage: &mut Stage, answers: Answers) {
    stage.works(1, SHORT);
    stage.sidecar.answer(answers);
    stage.outlasts();
    stage.sidecar.answer(Answers::Well);
    stage.works(2, LONG);
}

/// While it works, and it is told.
fn is_told(stage: &mut Stage, tell: fn(&Sidecar)) {
    stage.works(1, LONG);
    tell(&stage.sidecar);
    stage.leaves_at_once();
}

pub const CELLS: &[Cell] = &[
    Cell {
        name: "another leads",
        for_smallest: true,
        kills: false,
        play: |stage| {
            holds_for(Duration::from_millis(700), "nothing allows it", || stage.client.events().is_empty());
            stage.works(2, LONG);
        },
    },
    Cell {
        name: "answers take longer than they are good for",
        for_smallest: true,
        kills: false,
        play: |stage| refuses(stage, Answers::Late(SHORT * 3 / 2), SHORT),
    },
    Cell {
        name: "answers are too short to act upon",
        for_smallest: true,
        kills: false,
        play: |stage| refuses(stage, Answers::Well, Duration::from_millis(15)),
    },
    Cell {
        name: "answers are no JSON",
        for_smallest: true,
        kills: false,
        play: |stage| refuses(stage, Answers::Garbled, SHORT),
    },
    Cell {
        name: "answers break off",
        for_smallest: true,
        kills: false,
        play: |stage| refuses(stage, Answers::CutShort, SHORT),
    },
    Cell {
        name: "answers have status 500",
        for_smallest: true,
        kills: false,
        play: |stage| refuses(stage, Answers::Failing, SHORT),
    },
    Cell {
        name: "answers lead elsewhere",
        for_smallest: false,
        kills: false,
        play: |stage| refuses(stage, Answers::Elsewhere, SHORT),
    },
    Cell {
        name: "connections are closed in the place of answers",
        for_smallest: true,
        kills: false,
        play: |stage| {
            stage.sidecar.answer(Answers::Closed);
            stage.sidecar.lead(1, SHORT);
            stage.asks();
            stage.never_began();
            stage.sidecar.answer(Answers::Well);
            outlives(stage, Answers::Closed);
        },
    },
    Cell {
        name: "lines boast, and there is no answer",
        for_smallest: false,
        kills: false,
        play: |stage| {
            stage.sidecar.boast();
            stage.sidecar.answer(Answers::Closed);
            stage.sidecar.lead(1, SHORT);
            stage.asks();
            stage.never_began();
            stage.sidecar.answer(Answers::Well);
            outlives(stage, Answers::Closed);
        },
    },
    Cell {
        name: "the sidecar stands still",
        for_smallest: true,
        kills: false,
        play: |stage| outlives(stage, Answers::Never),
    },
    Cell {
        name: "answers get late",
        for_smallest: true,
        kills: false,
        play: |stage| outlives(stage, Answers::Late(SHORT * 3 / 2)),
    },
    Cell {
        name: "answers trickle",
        for_smallest: true,
        kills: false,
        play: |stage| outlives(stage, Answers::Slowly(SHORT * 3 / 2)),
    },
    Cell {
        name: "answers get garbled",
        for_smallest: true,
        kills: false,
        play: |stage| outlives(stage, Answers::Garbled),
    },
    Cell {
        name: "the sidecar says that it does not lead",
        for_smallest: false,
        kills: false,
        play: |stage| {
            is_told(stage, Sidecar::follow);
            stage.has_drained(1);
            stage.works(2, LONG);
        },
    },
    Cell {
        name: "answers have another token",
        for_smallest: false,
        kills: false,
        play: |stage| {
            is_told(stage, |sidecar| {
                sidecar.answer(Answers::OfAnother);
            });
        },
    },
    Cell {
        name: "answers say that the connection has ended",
        for_smallest: false,
        kills: false,
        play: |stage| {
            is_told(stage, |sidecar| {
                sidecar.answer(Answers::HoldEnded);
            });
        },
    },
    Cell {
        name: "the connection ends",
        for_smallest: false,
        kills: false,
        play: |stage| is_told(stage, Sidecar::end_holds),
    },
    Cell {
        name: "the sidecar is restarted",
        for_smallest: true,
        kills: false,
        play: |stage| {
            stage.works(1, SHORT);
            stage.sidecar.go_away();
            stage.outlasts();
            stage.sidecar.come_back();
            stage.works(2, LONG);
        },
    },
    Cell {
        name: "the machine sleeps",
        for_smallest: false,
        kills: false,
        play: |stage| {
            stage.works(1, LONG);
            stage.sidecar.answer(Answers::Never);
            stage.client.process.say("sleep 120000");
            stage.until("it has slept", |stage| stage.client.last(slept).is_some());
            let slept_at: Nanos = stage.client.last(slept).expect("it has");
            stage.leaves();
            assert_eq!(stage.client.works(1, slept_at), 0, "it works on a promise that ran out while it slept");
        },
    },
    Cell {
        name: "the client stands still",
        for_smallest: false,
        kills: false,
        play: |stage| {
            stage.works(1, SHORT);
            stage.client.process.signal(Signal::STOP);
            stage.until("what was promised has run out", |stage| now() > stage.sidecar.promised_until() + nanos(SHORT));
            stage.client.process.signal(Signal::CONT);
            stage.leaves();
            stage.works(2, LONG);
        },
    },
    Cell {
        name: "the work is done",
        for_smallest: false,
        kills: false,
        play: |stage| {
            stage.works(1, LONG);
            stage.client.process.say("end");
            stage.has_drained(1);
            let mut ended = None;
            stage.until("it ends", |stage| {
                ended = stage.client.process.ended();
                ended.is_some()
            });
            assert_eq!(ended.flatten(), Some(0));
            assert_eq!(stage.sidecar.holds(), 0);
        },
    },
    Cell {
        name: "the client is killed",
        for_smallest: false,
        kills: true,
        play: |stage| {
            stage.works(1, LONG);
            assert_eq!(stage.sidecar.holds(), 1);
            stage.client.process.signal(Signal::KILL);
            stage.until("its kernel says so", |stage| stage.sidecar.holds() == 0);
        },
    },
];
