//! A turn: for a while a lock goes from one request of a sidecar to the next without a word to the store. The store has
//! granted a *seat*, one hold, with a block of tokens; each request that has the lock in turn has the next of them,
//! and a promise within the seat's lease.
//!
//! A sidecar that dies in its turn wastes the tokens that it did not use: the store never grants them again. Until the
//! store is told who has the seat now, by an extension or a release, nobody but that sidecar may extend or release it.

use std::time::Duration;

use super::super::ids::{Mono, Token};
use super::{LockGrant, LockId, valid_span};

/// How many requests of a sidecar may have a lock in a row, while others may wait for it elsewhere.
pub const TURN_MAX: u32 = 32;
/// For how long, if that is over first; for short leases a tenth of one.
const TURN_SPAN: Duration = Duration::from_millis(50);

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockTurn {
    /// The hold that the store knows.
    seat: LockId,
    /// The one that has the seat now.
    token: Token,
    /// The last of the block.
    last: Token,
    /// When the request was sent that it began with.
    begun: Mono,
    lease: Duration,
}

impl LockTurn {
    /// With what was granted to this request, which was sent then. None where the grant is for it alone.
    pub fn begin(seat: LockId, grant: LockGrant, lease: Duration, sent_at: Mono) -> Option<Self> {
        let last = Token::new(grant.token.get().saturating_add(u64::from(grant.tokens).saturating_sub(1)))?;
        (grant.tokens > 1).then_some(Self { seat, token: grant.token, last, begun: sent_at, lease })
    }

    /// What the store calls the hold.
    pub fn seat(&self) -> LockId {
        self.seat
    }

    /// The last token of the block: nothing that comes later has a smaller one.
    pub fn last(&self) -> Token {
        self.last
    }

    /// When it is over at the latest.
    pub fn ends_at(&self) -> Mono {
        self.begun + TURN_SPAN.min(self.lease / 10)
    }

    /// Until when whoever has the seat may act (R2).
    pub fn valid_until(&self) -> Mono {
        self.begun + valid_span(self.lease)
    }

    /// Gives the seat to the next request, for as long a lease. Its token; none when the turn is over.
    pub fn pass(&mut self, now: Mono, lease: Duration) -> Option<Token> {
        if now >= self.ends_at() || lease != self.lease || self.token >= self.last {
            return None;
        }
        self.token = Token::new(self.token.get() + 1)?;
        Some(self.token)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Duration = Duration::from_secs(30);

    fn turn(tokens: u32) -> Option<LockTurn> {
        let grant = LockGrant { token: Token::new(100).unwrap(), holds: 1, tokens };
        LockTurn::begin(LockId::from_u128(1), grant, LEASE, Mono::from_nanos(1_000))
    }

    #[test]
    fn a_turn_is_so_many_requests_under_rising_tokens_and_none_after_the_block() {
        assert_eq!(turn(1), None);
        let (mut turn, now) = (turn(TURN_MAX).unwrap(), Mono::from_nanos(2_000));
        let tokens: Vec<u64> = std::iter::from_fn(|| turn.pass(now, LEASE)).map(Token::get).collect();
        assert_eq!(tokens, (101..100 + u64::from(TURN_MAX)).collect::<Vec<_>>());
        assert_eq!(turn.last().get(), 100 + u64::from(TURN_MAX) - 1);
    }

    #[test]
    fn a_turn_ends_in_time_and_goes_to_nobody_who_was_promised_otherwise() {
        let turn = turn(TURN_MAX).unwrap();
        assert_eq!(turn.clone().pass(turn.ends_at(), LEASE), None);
        assert_eq!(turn.clone().pass(Mono::from_nanos(2_000), LEASE * 2), None, "the seat's lease is another");
        assert!(turn.valid_until().since(turn.ends_at()) > valid_span(LEASE) * 9 / 10, "a promise is hardly shorter");
        let short = LockTurn { lease: Duration::from_millis(100), ..turn };
        assert_eq!(short.ends_at().since(Mono::from_nanos(1_000)), Duration::from_millis(10));
    }
}
