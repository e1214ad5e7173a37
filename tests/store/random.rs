//! What random operations on a server and on the reference have in common: chance, moments, tokens.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use baton::protocol::{StoreTime, Token};
use testkit::redis::RedisServer;
use testkit::resp::Reply;

/// Longer than the test, so that nothing ends between the two sides' looks at it.
pub const LEASES_MS: [u64; 2] = [600_000, 1_200_000];
/// Spans whose sums stay clear of the leases, by more than the test's own time.
pub const PASSING_MS: [i64; 4] = [70_130, 310_270, 610_510, 1_250_770];
/// By how much a clock is stepped back: they leave that as it is, and one is more than any lease.
pub const STEPS_MS: [i64; 3] = [70_000, 610_000, 1_250_000];
/// Redis counts a TTL in milliseconds.
const ROUNDING: Duration = Duration::from_millis(50);
/// A floor this far ahead is above every clock of the test.
pub const FAR_AHEAD: u64 = 1_000_000_000_000;

/// A seed replays its run.
pub struct Random(pub fastrand::Rng);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0.u64(..)
    }

    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    pub fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        let index = usize::try_from(self.below(from.len() as u64)).expect("a small number");
        from[index].clone()
    }

    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

/// How far apart the spans may be that a server and the reference tell: a script that is interrupted between two looks
/// at its server's clock is off by so much, where the span begins and where it is told.
#[derive(Default)]
pub struct Spans {
    slowest: Duration,
}

impl Spans {
    pub async fn timed<T>(&mut self, request: impl Future<Output = T>) -> T {
        let asked_at = Instant::now();
        let answer = request.await;
        self.slowest = self.slowest.max(asked_at.elapsed());
        answer
    }

    pub fn assert_same(&self, one: Duration, other: Duration) {
        assert!(one.abs_diff(other) < ROUNDING + self.slowest * 2, "{one:?} {other:?}, slowest {:?}", self.slowest);
    }
}

/// Tokens of a server, each with the reference's: they are made from clocks that differ.
pub struct Tokens(BTreeMap<Token, Token>);

impl Tokens {
    pub fn new() -> Self {
        Self(BTreeMap::from([(Token::NONE, Token::NONE)]))
    }

    /// The reference's token for one of the server's.
    pub fn twin(&self, token: Token) -> Token {
        *self.0.get(&token).unwrap_or_else(|| panic!("{token} was never seen"))
    }

    /// Two tokens mean the same; a new pair keeps the order of all.
    pub fn same(&mut self, server: Token, reference: Token) {
        if let Some(known) = self.0.get(&server) {
            assert_eq!(*known, reference, "the reference's token for {server}");
            return;
        }
        self.0.insert(server, reference);
        let order: Vec<Token> = self.0.values().copied().collect();
        assert!(order.is_sorted_by(|a, b| a < b), "the order of tokens: {:?}", self.0);
    }

    /// The server's, in their order; none is the first.
    pub fn known(&self) -> Vec<Token> {
        self.0.keys().copied().collect()
    }

    pub fn latest(&self) -> Token {
        *self.0.keys().next_back().expect("zero is known")
    }

    /// A token far above all that were seen, known on both sides from now on.
    pub fn far_ahead(&mut self) -> Token {
        let latest = self.latest();
        let ahead = |token: Token| Token::new(token.get() + FAR_AHEAD).expect("below 2^53");
        let (mine, twin) = (ahead(latest), ahead(self.twin(latest)));
        self.same(mine, twin);
        mine
    }
}

/// How far the reference's clock is ahead of the server's, in microseconds, and was at most.
#[derive(Default)]
pub struct Clock {
    ahead_us: i64,
    most_us: i64,
}

impl Clock {
    pub fn pass(&mut self, span_ms: i64) {
        self.ahead_us += span_ms * 1_000;
        self.most_us = self.most_us.max(self.ahead_us);
    }

    /// What it shows when the server's shows that.
    pub fn shown(&self, servers: StoreTime) -> StoreTime {
        StoreTime(servers.0.checked_add_signed(self.ahead_us).expect("a moment"))
    }

    /// Until it has caught up with all that it made tokens of: the server's, which is not stepped, rises all the time.
    pub const fn behind_ms(&self) -> i64 {
        (self.most_us - self.ahead_us) / 1_000
    }
}

/// Lets time pass, or steps the clock back, for a lease's TTL, and for what the record remembers of it and of a guard,
/// all at one moment of the server's.
pub fn shift(redis: &RedisServer, lease_key: &str, record_key: &str, span_ms: i64) {
    const SHIFT: &str = "
      local span = tonumber(ARGV[1])
      local left = redis.call('PTTL', KEYS[1])
      if left > 0 then redis.call('PEXPIRE', KEYS[1], math.max(left - span, 0)) end
      for _, field in ipairs({ 'guard_until', 'until', 'listed_until' }) do
        local moment = redis.call('HGET', KEYS[2], field)
        if moment and moment ~= '0' then
          local earlier = math.max(tonumber(moment) - span * 1000, 0)
          redis.call('HSET', KEYS[2], field, string.format('%.0f', earlier))
        end
      end";
    let reply = redis.command(&["EVAL", SHIFT, "2", lease_key, record_key, &span_ms.to_string()]);
    assert_eq!(reply, Reply::Nil);
}

/// Tells what led to a failure.
pub struct Trail<T: std::fmt::Debug> {
    pub seed: u64,
    pub operations: Vec<T>,
}

impl<T: std::fmt::Debug> Drop for Trail<T> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("seed {}:", self.seed);
            for operation in &self.operations {
                eprintln!("  {operation:?}");
            }
        }
    }
}
