//! Newtypes for what must not be mixed up: names, sessions, attempts, tokens and moments.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::{Add, Sub};
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{self, AtomicU64};
use std::time::Duration;

/// The name of a role: a DNS label (`a-z`, `0-9`, `-`; at most 63 bytes), so that it fits a key, a metric label,
/// a Kubernetes label and a path segment unescaped. One shard of a role has the role's name, a slash and its number
/// (`scheduler/3`); people cannot give that name to a role, and it is a role like any other to everything else.
/// Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RoleName {
    text: Arc<str>,
    /// How long the role's own name is, and the number of the shard, where it is one.
    shard: Option<(u8, u16)>,
}

/// Why a text is not a role name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoleNameError {
    /// The offending text.
    pub given: String,
}

impl fmt::Display for RoleNameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} is not a role name: use a DNS label, 1 to 63 of a-z, 0-9 and '-', beginning and ending with a \
             letter or digit; a shard of a role is the role's name, a slash and a number",
            self.given
        )
    }
}

impl std::error::Error for RoleNameError {}

impl RoleName {
    /// Checks that `name` is a DNS label: a whole role's name, never a shard's.
    pub fn new(name: impl Into<String>) -> Result<Self, RoleNameError> {
        let given = name.into();
        let alphanumeric = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
        let bytes = given.as_bytes();
        let fits = (1..=63).contains(&bytes.len())
            && bytes.iter().all(|b| alphanumeric(*b) || *b == b'-')
            && alphanumeric(bytes[0])
            && alphanumeric(bytes[bytes.len() - 1]);
        if fits { Ok(Self { text: given.into(), shard: None }) } else { Err(RoleNameError { given }) }
    }

    /// The name of one shard of this role; of the same role when this is a shard already.
    pub fn shard(&self, number: u16) -> Self {
        let role = self.role_str();
        // At most 63 bytes, or there would be no such name.
        let length = u8::try_from(role.len()).unwrap_or(u8::MAX);
        Self { text: format!("{role}/{number}").into(), shard: Some((length, number)) }
    }

    /// Which shard this is; none for a whole role.
    pub fn shard_number(&self) -> Option<u16> {
        self.shard.map(|(_, number)| number)
    }

    /// The name of the role that this is a shard of; this name itself when it is none.
    pub fn role(&self) -> Self {
        if self.shard.is_none() { self.clone() } else { Self { text: self.role_str().into(), shard: None } }
    }

    fn role_str(&self) -> &str {
        self.shard.map_or(&*self.text, |(length, _)| &self.text[..usize::from(length)])
    }

    pub fn as_str(&self) -> &str {
        &self.text
    }
}

/// By name, the shards of a role by number: `a`, `a/2`, `a/10`, `b`.
impl Ord for RoleName {
    fn cmp(&self, other: &Self) -> Ordering {
        self.role_str().cmp(other.role_str()).then(self.shard_number().cmp(&other.shard_number()))
    }
}

impl PartialOrd for RoleName {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for RoleName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Reads the name of a role or of a shard: what people and paths may name, as against what [`RoleName::new`] lets them
/// give.
impl FromStr for RoleName {
    type Err = RoleNameError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let Some((role, number)) = text.split_once('/') else { return Self::new(text) };
        let wrong = || RoleNameError { given: text.to_owned() };
        let shard = Self::new(role).map_err(|_| wrong())?.shard(number.parse().map_err(|_| wrong())?);
        // One name for one shard: neither `01` nor `+1`.
        if *shard.text == *text { Ok(shard) } else { Err(wrong()) }
    }
}

/// One start of one process: a UUID, so that two pods that share a name never share a lease.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(u128);

impl SessionId {
    /// A session from 128 random bits (the caller's, since this floor has no randomness).
    pub const fn from_u128(bits: u128) -> Self {
        Self(bits)
    }
}

/// 32 hexadecimal digits: the form in keys, messages and logs.
impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for SessionId {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        u128::from_str_radix(text, 16).map(Self)
    }
}

/// Counts the campaigns of one session. A repeated request carries the same attempt, a new campaign a greater one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Attempt(pub u64);

impl Attempt {
    /// Whichever attempt it was: in a release in the place of a process that has ended, of whose campaigns others know
    /// only the token. No campaign is this one, for they count from 1.
    pub const ANY: Self = Self(0);

    /// The attempt after this one.
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

/// Where the campaigns of one session take their attempts from, over all its roles and for as long as it lives: none of
/// them ever comes twice, not even when a role is configured anew (R1). Clones count together.
#[derive(Clone, Debug, Default)]
pub struct Attempts(Arc<AtomicU64>);

impl Attempts {
    /// Greater than every one before it.
    pub fn take(&self) -> Attempt {
        Attempt(self.0.fetch_add(1, atomic::Ordering::Relaxed) + 1)
    }

    /// Counts on from here by itself.
    #[must_use]
    pub fn fork(&self) -> Self {
        Self(Arc::new(AtomicU64::new(self.last())))
    }

    fn last(&self) -> u64 {
        self.0.load(atomic::Ordering::Relaxed)
    }
}

/// How far they have counted.
impl Hash for Attempts {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.last().hash(state);
    }
}

/// Who asks for, or has, a lease: the session and its attempt. Never the pod's name alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Candidate {
    /// The process that asks.
    pub session: SessionId,
    /// Which of its campaigns this is.
    pub attempt: Attempt,
}

/// A fencing token: greater for every later term of a role (R3). Zero stands for "none seen yet".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(u64);

impl Token {
    /// No token: smaller than every real one.
    pub const NONE: Self = Self(0);
    /// Tokens stay below 2^53, so that a JSON client which reads numbers as doubles reads them exactly.
    pub const LIMIT: u64 = 1 << 53;

    /// A token, unless it would reach 2^53.
    pub const fn new(value: u64) -> Option<Self> {
        if value < Self::LIMIT { Some(Self(value)) } else { None }
    }

    /// The token as a number.
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// A moment on this replica's own clock, which goes on while the machine sleeps (CLOCK_BOOTTIME): nanoseconds since an
/// origin that is the same for all moments of one process, and means nothing to another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mono(u64);

impl Mono {
    /// The moment `nanos` after the origin.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since the origin.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// How long after `earlier` this is; zero when it is not after it.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Mono {
    type Output = Self;

    fn add(self, rhs: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(rhs.as_nanos()).unwrap_or(u64::MAX)))
    }
}

impl Sub<Duration> for Mono {
    type Output = Self;

    fn sub(self, rhs: Duration) -> Self {
        Self(self.0.saturating_sub(u64::try_from(rhs.as_nanos()).unwrap_or(u64::MAX)))
    }
}

/// A moment on the store's clock: microseconds since the Unix epoch, as the store believes. It may be stepped at any
/// time, so nothing that must be safe is timed by it alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StoreTime(pub u64);

impl StoreTime {
    /// The moment `span` later.
    pub fn plus(self, span: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(span.as_micros()).unwrap_or(u64::MAX)))
    }

    /// How long after `earlier` this is; zero when it is not after it.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(self.0.saturating_sub(earlier.0))
    }
}

#[cfg(test)]
mod tests {
    use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};

    use super::*;

    #[test]
    fn attempts_count_together_until_they_are_forked() {
        let hash = |attempts: &Attempts| BuildHasherDefault::<DefaultHasher>::default().hash_one(attempts);
        let attempts = Attempts::default();
        let none = hash(&attempts);
        assert_eq!([attempts.take(), attempts.clone().take(), Attempt(2).next()], [1, 2, 3].map(Attempt));
        let fork = attempts.fork();
        assert_eq!((fork.last(), hash(&fork), hash(&fork) == none), (2, hash(&attempts), false));
        assert_eq!([fork.take(), fork.take(), attempts.take()], [3, 4, 3].map(Attempt));
        assert_ne!(hash(&fork), hash(&attempts));
    }

    #[test]
    fn role_names_are_dns_labels() {
        for good in ["scheduler", "a", "0", "a-b-c", &"x".repeat(63)] {
            assert_eq!(RoleName::new(good).unwrap().as_str(), good);
        }
        for bad in ["", "-a", "a-", "A", "a.b", "a/0", "a b", "ä", &"x".repeat(64)] {
            assert_eq!(RoleName::new(bad).unwrap_err().given, bad);
        }
    }

    #[test]
    fn shards_have_names_that_only_the_program_gives() {
        let role = RoleName::new("scheduler").unwrap();
        let shard = role.shard(3);
        assert_eq!((shard.as_str(), shard.shard_number(), shard.role()), ("scheduler/3", Some(3), role.clone()));
        assert_eq!((role.shard_number(), role.role(), shard.shard(4)), (None, role.clone(), role.shard(4)));
        assert_eq!("scheduler/3".parse(), Ok(shard));
        assert_eq!("scheduler".parse(), Ok(role));
        for bad in ["a/", "/0", "a/01", "a/+1", "a/-1", "a/x", "a/0/1", "a/65536", "a//1", "A/1"] {
            assert_eq!(bad.parse::<RoleName>().unwrap_err().given, bad);
        }
    }

    #[test]
    fn shards_stand_in_the_order_of_their_numbers() {
        let mut names: Vec<RoleName> =
            ["b", "a/10", "a-b", "a/2", "a"].iter().map(|text| text.parse().unwrap()).collect();
        names.sort();
        assert_eq!(names.iter().map(RoleName::as_str).collect::<Vec<_>>(), ["a", "a/2", "a/10", "a-b", "b"]);
    }

    #[test]
    fn sessions_survive_their_text_form() {
        let session = SessionId::from_u128(0xfeed_0000_1234);
        assert_eq!(session.to_string().parse(), Ok(session));
        assert_eq!(session.to_string().len(), 32);
    }

    #[test]
    fn tokens_stop_short_of_what_a_double_holds() {
        assert_eq!(Token::new((1 << 53) - 1).map(Token::get), Some((1 << 53) - 1));
        assert_eq!(Token::new(1 << 53), None);
    }
}
