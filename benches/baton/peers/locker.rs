//! A process of a peer that takes locks.

use std::time::Duration;

use testkit::peers::Peer;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::process::{Process, Said};

/// How much longer than it was told a run may take: those who wait at its end still get their turn.
const GRACE: Duration = Duration::from_secs(40);

/// What contenders share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Nothing: a lock for each.
    Own,
    /// One lock.
    Shared,
    /// One lock, first come, first served.
    Fair,
}

impl Kind {
    fn word(self) -> &'static str {
        match self {
            Self::Own => "own",
            Self::Shared => "shared",
            Self::Fair => "fair",
        }
    }
}

/// What the contenders of a process do.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    pub kind: Kind,
    pub contenders: usize,
    pub span: Duration,
    /// Between giving a lock back and asking again.
    pub rest: Duration,
}

/// What a run came to.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// How often each contender had the lock.
    pub cycles: Vec<f64>,
    /// The longest that anybody waited for it.
    pub longest_ms: f64,
}

impl Outcome {
    /// Adds what other contenders had at the same time.
    pub fn and(mut self, other: Self) -> Self {
        self.cycles.extend(other.cycles);
        self.longest_ms = self.longest_ms.max(other.longest_ms);
        self
    }
}

/// See the module.
pub struct Locker {
    process: Process,
    said: UnboundedReceiver<Said>,
}

impl Locker {
    /// Starts it and waits until it is ready.
    pub async fn start(peer: &Peer, address: &str) -> Result<Self, String> {
        let (tell, said) = unbounded_channel();
        let mut locker = Self { process: Process::start(peer, &["lock", address], 0, tell)?, said };
        match locker.hear(GRACE).await?.as_str() {
            "ready" => Ok(locker),
            other => Err(format!("it says {other:?} at its start")),
        }
    }

    async fn hear(&mut self, bound: Duration) -> Result<String, String> {
        let said = tokio::time::timeout(bound, self.said.recv()).await.map_err(|_| format!("no word in {bound:?}"))?;
        said.and_then(|said| said.line).ok_or_else(|| "it has ended".to_owned())
    }

    /// So many contenders take and give locks for so long.
    pub async fn run(&mut self, run: &Run, name: &str) -> Result<Outcome, String> {
        let Run { kind, contenders, span, rest } = *run;
        let order = format!("run {} {contenders} {} {name} {}", kind.word(), span.as_millis(), rest.as_millis());
        self.process.order(&order).await?;
        let line = self.hear(span + GRACE).await?;
        let numbers: Option<Vec<f64>> =
            line.strip_prefix("done ").map(|rest| rest.split(' ').filter_map(|word| word.parse().ok()).collect());
        match numbers.as_deref() {
            Some([longest_ms, cycles @ ..]) if cycles.len() == contenders => {
                Ok(Outcome { cycles: cycles.to_vec(), longest_ms: *longest_ms })
            }
            _ => Err(format!("it says {line:?} after a run")),
        }
    }
}
