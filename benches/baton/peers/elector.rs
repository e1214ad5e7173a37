//! Some candidates of a peer, each a process, that compete for one lead.

use std::time::{Duration, Instant};

use testkit::peers::Peer;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::process::{Process, Said};

/// No state takes longer to come about: the longest lease here is 15 s, and a JVM starts in seconds.
const BOUND: Duration = Duration::from_secs(60);
const CANDIDATES: usize = 3;

/// Where a peer finds its store, what its candidates compete for, and how long its lease is.
#[derive(Clone, Debug)]
pub struct Contest {
    pub peer: Peer,
    pub address: String,
    pub name: String,
    pub lease: Duration,
}

/// See the module. Whatever it is told to do fails with words when a candidate ends or says nothing for long.
pub struct Electorate {
    contest: Contest,
    size: usize,
    candidates: Vec<(u64, Process)>,
    leader: usize,
    next_mark: u64,
    tell: UnboundedSender<Said>,
    said: UnboundedReceiver<Said>,
}

/// What came of a leader's death.
#[derive(Clone, Copy, Debug)]
pub struct Crash {
    /// From the kill to the next leader's word.
    pub took: Duration,
    /// What was left of the lease at the kill, where the store tells.
    pub left: Option<Duration>,
}

impl Electorate {
    /// Starts three candidates and waits until one of them leads.
    pub async fn start(contest: Contest) -> Result<Self, String> {
        Self::start_many(contest, CANDIDATES).await
    }

    /// Starts so many candidates and waits until one of them leads.
    pub async fn start_many(contest: Contest, size: usize) -> Result<Self, String> {
        let (tell, said) = unbounded_channel();
        let mut all = Self { contest, size, candidates: Vec::new(), leader: 0, next_mark: 0, tell, said };
        for _ in 0..size {
            let candidate = all.candidate()?;
            all.candidates.push(candidate);
        }
        let (mut ready, mut leader) = (0, None);
        while ready < size || leader.is_none() {
            let (at, _, line) = all.hear().await?;
            match line.as_str() {
                "ready" => ready += 1,
                "leading" => leader = Some(at),
                other => return Err(format!("it says {other:?} at its start")),
            }
        }
        all.leader = leader.unwrap_or_default();
        Ok(all)
    }

    /// Starts one more, under a name that none had before: some peers take their own name for themselves.
    fn candidate(&mut self) -> Result<(u64, Process), String> {
        let Contest { peer, address, name, lease } = &self.contest;
        let (mark, lease) = (self.next_mark, lease.as_millis().to_string());
        let identity = format!("{name}-{mark}");
        self.next_mark += 1;
        let process = Process::start(peer, &["elect", address, name, &identity, &lease], mark, self.tell.clone())?;
        Ok((mark, process))
    }

    /// The next line of a candidate that was not killed.
    async fn hear(&mut self) -> Result<(usize, Instant, String), String> {
        loop {
            let said = tokio::time::timeout(BOUND, self.said.recv()).await;
            let said = said.map_err(|_| format!("it says nothing for {BOUND:?}"))?.ok_or("nobody is left")?;
            let Some(at) = self.candidates.iter().position(|(mark, _)| *mark == said.by) else { continue };
            let log = self.contest.peer.folder.join("log");
            let line = said.line.ok_or_else(|| format!("a candidate has ended; see {}", log.display()))?;
            return Ok((at, said.at, line));
        }
    }

    async fn order(&mut self, at: usize, line: &str) -> Result<(), String> {
        self.candidates[at].1.order(line).await
    }

    /// The leader gives up its lead: how long until another's word that it leads.
    pub async fn hand_over(&mut self) -> Result<Duration, String> {
        let old = self.leader;
        let begun = Instant::now();
        self.order(old, "resign").await?;
        let (mut led, mut resigned) = (None, false);
        while led.is_none() || !resigned {
            let (at, moment, line) = self.hear().await?;
            match line.as_str() {
                "leading" if at != old => led = Some((at, moment - begun)),
                "resigned" if at == old => resigned = true,
                other => return Err(format!("it says {other:?} while it hands over")),
            }
        }
        self.order(old, "campaign").await?;
        let (next, took) = led.ok_or("nobody leads")?;
        self.leader = next;
        Ok(took)
    }

    /// Kills the leader; it is not started again.
    pub async fn crash(&mut self) -> Result<Crash, String> {
        let mut dead = self.candidates.remove(self.leader);
        let begun = Instant::now();
        dead.1.kill();
        self.order(0, "left").await?;
        let (mut left, mut led) = (None, None);
        while left.is_none() || led.is_none() {
            let (at, moment, line) = self.hear().await?;
            match line.split_once(' ') {
                Some(("left", ms)) => left = Some((moment, ms.parse::<u64>().ok())),
                None if line == "leading" => led = Some((at, moment - begun)),
                _ => return Err(format!("it says {line:?} after the leader's end")),
            }
        }
        let ((asked_at, left), (leader, took)) = (left.ok_or("no word")?, led.ok_or("nobody leads")?);
        self.leader = leader;
        // The answer took its time, and the lease went on meanwhile.
        let left = left.map(|ms| Duration::from_millis(ms) + (asked_at - begun));
        Ok(Crash { took, left })
    }

    /// Starts a candidate in the place of each that was killed, and waits until it campaigns.
    pub async fn fill_up(&mut self) -> Result<(), String> {
        while self.candidates.len() < self.size {
            let candidate = self.candidate()?;
            self.candidates.push(candidate);
            let (_, _, line) = self.hear().await?;
            if line != "ready" {
                return Err(format!("it says {line:?} where a candidate starts"));
            }
        }
        Ok(())
    }
}
