//! What a part of the benchmark is, what it is given and what it comes to.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::time::{Duration, Instant};

use testkit::peers::{Missing, Peer};
use testkit::redis::RedisServer;

use crate::plot::Plot;
use crate::report::{Row, Table};

/// One part: a file of `parts/`, and a line in [`crate::parts::ALL`].
pub struct Part {
    /// `make bench PART=…`, and the stem of its files.
    pub name: &'static str,
    /// Its heading in the page.
    pub title: &'static str,
    /// What is measured and how: Markdown above its figures.
    pub about: &'static str,
    /// How long it may take; what takes longer is ended, and its earlier figures stay. All together stay below the
    /// fifty minutes that the whole run may take.
    pub budget: Duration,
    /// The folders of `benches/peers` that are installed before it begins.
    pub peers: &'static [&'static str],
    /// Measures. Whatever cannot be had is told as [`Findings::missing`].
    pub measure: for<'a> fn(&'a Bench) -> Measuring<'a>,
}

/// A measurement under way.
pub type Measuring<'a> = Pin<Box<dyn Future<Output = Findings> + 'a>>;

/// What a part comes to.
#[derive(Default)]
pub struct Findings {
    pub rows: Vec<Row>,
    /// Told after the rows.
    pub tables: Vec<Table>,
    pub plots: Vec<Plot>,
    /// A page of its own beside the page of figures: the name of its file, and its whole text but for the machine.
    pub page: Option<(&'static str, String)>,
    /// What took part besides Baton, with versions.
    pub with: Vec<String>,
    pub missing: Vec<Missing>,
}

impl Findings {
    /// Only figures.
    pub fn of(rows: Vec<Row>) -> Self {
        Self { rows, ..Self::default() }
    }

    /// Notes that a peer took part, or why it did not.
    pub fn peer<'a>(&mut self, peer: &'a Result<Peer, Missing>) -> Option<&'a Peer> {
        match peer {
            Ok(peer) => {
                if !self.with.contains(&peer.version) {
                    self.with.push(peer.version.clone());
                }
                Some(peer)
            }
            Err(missing) => {
                self.missing.push(missing.clone());
                None
            }
        }
    }
}

/// What every part is given.
pub struct Bench {
    /// Started first: the guard of a Redis without any record ends one lease after its start.
    pub redis: RedisServer,
    peers: BTreeMap<&'static str, Result<Peer, Missing>>,
    last_round: Cell<Instant>,
    share: f64,
}

impl Bench {
    /// `share`: how much of all repetitions is done, 1 in earnest.
    pub fn start(share: f64) -> Self {
        Self { redis: RedisServer::start(), peers: BTreeMap::new(), last_round: Cell::new(Instant::now()), share }
    }

    /// Installs what is not installed yet.
    pub fn install(&mut self, names: &[&'static str]) {
        for name in names {
            self.peers.entry(name).or_insert_with(|| {
                println!("installing {name}");
                let installed = testkit::peers::install(name);
                match &installed {
                    Ok(peer) => println!("  {}", peer.version),
                    Err(missing) => println!("  missing: {}", missing.why),
                }
                installed
            });
        }
    }

    /// A peer that the part asked for.
    ///
    /// # Panics
    /// When it did not.
    pub fn peer(&self, name: &str) -> &Result<Peer, Missing> {
        self.peers.get(name).unwrap_or_else(|| panic!("the part does not ask for the peer {name}"))
    }

    /// A part begins now.
    pub fn begin(&self, part: &Part) {
        self.last_round.set(Instant::now() + part.budget * 3 / 4);
    }

    /// Whether another round is begun: the first always, further ones in three quarters of the part's budget. Figures
    /// say of how many repetitions they are.
    pub fn has_time(&self, round: usize) -> bool {
        round == 0 || Instant::now() < self.last_round.get()
    }

    /// A number of repetitions, less in a trial.
    pub fn times(&self, times: usize) -> usize {
        ((times as f64 * self.share).ceil() as usize).max(2.min(times))
    }

    /// A span that is measured over, less in a trial.
    pub fn span(&self, span: Duration) -> Duration {
        span.mul_f64(self.share).max(Duration::from_millis(500)).min(span)
    }
}

/// The repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_owned()
}
