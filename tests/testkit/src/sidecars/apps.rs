//! The apps: one for each replica, which asks its sidecar who leads all the time and writes every answer down.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use serde::Deserialize;

use crate::place::Place;
use crate::sidecars::claims::{Claim, Term, Who, breaches, leaderless, terms};
use crate::sidecars::http::Connection;
use crate::sidecars::replica::Replica;
use crate::wait::Ending;

/// Between an answer and the next question.
const PAUSE: Duration = Duration::from_millis(5);

/// `GET /leader`, as far as tests look at it.
#[derive(Clone, Debug, Deserialize)]
pub struct Told {
    pub leader: bool,
    pub state: String,
    pub holder: Option<String>,
    pub token: Option<u64>,
    pub valid_for_ms: Option<u64>,
    pub index: u64,
    pub reason: Option<String>,
}

/// An answer, by whom, and when.
#[derive(Clone, Debug)]
pub struct Seen {
    pub who: Who,
    pub asked: Instant,
    pub read: Instant,
    pub told: Told,
}

/// A sidecar's start, where it runs, and its address there.
#[derive(Clone)]
struct Target {
    start: usize,
    place: Place,
    address: SocketAddr,
}

#[derive(Default)]
struct Journal {
    /// Where each app asks.
    targets: Vec<Option<Target>>,
    seen: Vec<Seen>,
    /// When apps said that they act no longer, whatever they were promised.
    drained: Vec<(Who, Instant)>,
    /// Answers that are none: a wrong status, or something that is no JSON.
    nonsense: Vec<String>,
}

impl Journal {
    /// In order of their start.
    fn claims(&self) -> Vec<Claim> {
        let claim = |seen: &Seen| {
            let told = &seen.told;
            let (token, valid_for_ms) = (told.token?, told.valid_for_ms?);
            let mut claim = Claim::new(seen.who, token, seen.asked, seen.read, Duration::from_millis(valid_for_ms))?;
            for (who, at) in &self.drained {
                if *who == claim.who {
                    claim.until = claim.until.min(*at);
                }
            }
            (told.leader && claim.from < claim.until).then_some(claim)
        };
        let mut claims: Vec<Claim> = self.seen.iter().filter_map(claim).collect();
        claims.sort_by_key(|claim| claim.from);
        claims
    }
}

/// What the apps saw.
pub struct Report {
    pub answers: usize,
    pub leaderless: Duration,
    pub terms: Vec<Term>,
}

/// See the module.
pub struct Apps {
    journal: Arc<Mutex<Journal>>,
    ending: Arc<Ending>,
    threads: Vec<JoinHandle<()>>,
    origin: Instant,
}

impl Apps {
    /// One for each of `replicas`, asking for `role`. They wait until they are told where to ask.
    pub fn start(replicas: usize, role: &str) -> Self {
        let journal = Arc::new(Mutex::new(Journal { targets: vec![None; replicas], ..Journal::default() }));
        let ending = Arc::new(Ending::default());
        let line = format!("GET /leader/{role}");
        let poll = |replica| {
            let (journal, ending, line) = (Arc::clone(&journal), Arc::clone(&ending), line.clone());
            thread::spawn(move || poll(replica, &line, &journal, &ending))
        };
        Self { threads: (0..replicas).map(poll).collect(), journal, ending, origin: Instant::now() }
    }

    fn journal(&self) -> MutexGuard<'_, Journal> {
        lock(&self.journal)
    }

    /// From now on this start of the replica is asked.
    pub fn ask_at(&self, replica: &Replica) {
        let (who, place) = (replica.who(), replica.settings.place.clone());
        self.journal().targets[who.replica] = Some(Target { start: who.start, place, address: replica.api() });
    }

    /// Who leads at this moment, as far as answers tell that still stand.
    pub fn leads(&self) -> Option<Who> {
        let (journal, now) = (self.journal(), Instant::now());
        let last = |replica| journal.seen.iter().rev().take(1_000).find(|seen: &&Seen| seen.who.replica == replica);
        let stands = |seen: &&Seen| {
            seen.told.leader && seen.asked + Duration::from_millis(seen.told.valid_for_ms.unwrap_or(0)) > now
        };
        (0..journal.targets.len()).filter_map(last).find(stands).map(|seen| seen.who)
    }

    /// Everything that was claimed so far, in order of the claims' start.
    pub fn claims(&self) -> Vec<Claim> {
        self.journal().claims()
    }

    /// Answers so far that contradict themselves.
    pub fn nonsense(&self) -> Vec<String> {
        self.journal().nonsense.clone()
    }

    /// The longest that an app looked away from a sidecar: from an answer to its next question. What a sidecar did
    /// meanwhile was not seen.
    pub fn blind_max(&self) -> Duration {
        let journal = self.journal();
        let mut read: BTreeMap<Who, Instant> = BTreeMap::new();
        let mut longest = Duration::ZERO;
        for seen in &journal.seen {
            let before = read.insert(seen.who, seen.read);
            longest = longest.max(before.map_or(Duration::ZERO, |read| seen.asked.saturating_duration_since(read)));
        }
        longest
    }

    /// How many answers were read so far.
    pub fn answers(&self) -> usize {
        self.journal().seen.len()
    }

    /// The app beside this sidecar has stopped acting.
    pub fn has_drained(&self, who: Who) {
        self.journal().drained.push((who, Instant::now()));
    }

    /// A replica's last answer.
    pub fn last(&self, replica: usize) -> Option<Seen> {
        self.journal().seen.iter().rev().find(|seen| seen.who.replica == replica).cloned()
    }

    /// The last answer of a replica to a question that was asked after `moment`.
    pub fn last_after(&self, replica: usize, moment: Instant) -> Option<Seen> {
        self.last(replica).filter(|seen| seen.asked > moment)
    }

    /// Every answer to a question that was asked after `moment`.
    pub fn all_after(&self, moment: Instant) -> Vec<Seen> {
        self.journal().seen.iter().filter(|seen| seen.asked > moment).cloned().collect()
    }

    /// The terms so far.
    pub fn terms(&self) -> Vec<Term> {
        terms(&self.journal().claims())
    }

    /// The latest term, while the last answer of its holder still says `leader: true` and is valid.
    pub fn leader(&self) -> Option<Term> {
        let journal = self.journal();
        let now = Instant::now();
        // Newest first, and only as far back as a claim may last.
        let recent = journal.seen.iter().rev().take_while(|seen| seen.read + Duration::from_secs(5) > now);
        let mut heard = Vec::new();
        for seen in recent {
            if heard.contains(&seen.who.replica) {
                continue;
            }
            heard.push(seen.who.replica);
            let until = seen.asked + Duration::from_millis(seen.told.valid_for_ms.unwrap_or(0));
            if seen.told.leader && until > now {
                let (who, token) = (seen.who, seen.told.token?);
                drop(journal);
                return self.terms().into_iter().find(|term| term.who == who && term.token == token);
            }
        }
        None
    }

    /// What is wrong with the answers so far: nothing, if the promises hold.
    pub fn breaches(&self) -> Vec<String> {
        let journal = self.journal();
        let mut found = breaches(&journal.claims(), self.origin);
        found.extend(journal.nonsense.iter().cloned());
        found
    }

    /// Ends the apps. Every sidecar must have ended before: one that is paused would be waited for.
    ///
    /// # Panics
    /// When a promise was broken.
    pub fn finish(mut self) -> Report {
        self.ending.tell();
        for thread in self.threads.drain(..) {
            thread.join().expect("an app's thread panicked");
        }
        let found = self.breaches();
        assert!(found.is_empty(), "{} breaches: {}", found.len(), found[..found.len().min(10)].join("\n"));
        let journal = self.journal();
        let claims = journal.claims();
        assert!(!journal.seen.is_empty(), "no answer was read");
        Report { answers: journal.seen.len(), leaderless: leaderless(&claims), terms: terms(&claims) }
    }
}

impl Drop for Apps {
    fn drop(&mut self) {
        self.ending.tell();
    }
}

fn lock(journal: &Mutex<Journal>) -> MutexGuard<'_, Journal> {
    journal.lock().unwrap_or_else(PoisonError::into_inner)
}

fn poll(replica: usize, line: &str, journal: &Mutex<Journal>, ending: &Ending) {
    let mut kept: Option<(usize, Connection)> = None;
    while !ending.within(PAUSE) {
        let target = lock(journal).targets[replica].clone();
        if let Some(Target { start, place, address }) = target {
            if kept.as_ref().is_some_and(|(known, _)| *known != start) {
                kept = None;
            }
            if kept.is_none() {
                kept = place.run(|| Connection::open(address)).ok().map(|connection| (start, connection));
            }
            if let Some((_, connection)) = &mut kept
                && note(Who { replica, start }, line, connection, journal).is_err()
            {
                // The sidecar was killed, or has ended.
                kept = None;
            }
        }
    }
}

fn note(who: Who, line: &str, connection: &mut Connection, journal: &Mutex<Journal>) -> io::Result<()> {
    let asked = Instant::now();
    let answer = connection.ask(line, "")?;
    let read = Instant::now();
    let told = serde_json::from_str::<Told>(&answer.body);
    let mut journal = lock(journal);
    match told {
        Ok(told) if answer.status == 200 => {
            let consistent = told.leader == told.token.is_some() && told.leader == told.valid_for_ms.is_some();
            if !consistent || (told.leader != (told.state == "leading")) {
                journal.nonsense.push(format!("an answer that contradicts itself: {told:?}"));
            }
            journal.seen.push(Seen { who, asked, read, told });
        }
        // A role that a reload took away.
        Err(_) if answer.status == 404 => {}
        other => journal.nonsense.push(format!("status {}: {other:?} in {}", answer.status, answer.body)),
    }
    Ok(())
}
