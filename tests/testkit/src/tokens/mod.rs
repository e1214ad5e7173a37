//! A Redis whose passwords end: what is issued is one of a user's passwords for as long as it lasts, and the proxy
//! before it closes every connection whose last token has ended, as services do.

mod metadata;
mod proxy;

pub use metadata::{Asked, Metadata};
pub use proxy::CuttingProxy;

use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use crate::redis::RedisServer;
use crate::resp::{Connection, Reply};
use crate::wait::Ending;

/// The user that tokens are for.
pub const USER: &str = "baton";
/// How often ended tokens are looked for.
const LOOK: Duration = Duration::from_millis(20);
/// Who looks so late was not let run: the machine is busy with something else.
const LATE: Duration = Duration::from_millis(100);

/// A token, and when it ends.
#[derive(Clone, Debug)]
pub struct Token {
    pub text: String,
    ends_at: Instant,
    pub expires: SystemTime,
}

impl Token {
    /// In seconds since 1970.
    pub fn expires_s(&self) -> f64 {
        self.expires.duration_since(UNIX_EPOCH).expect("after 1970").as_secs_f64()
    }
}

/// Issues them. Ends when dropped.
pub struct Tokens {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

struct Shared {
    control: Mutex<Connection>,
    issued: Mutex<Vec<Token>>,
    life: Duration,
    clock: Mutex<Clock>,
    ending: Ending,
}

/// Time that stands still while this process does: a token of two seconds cannot be renewed by who is not let run.
struct Clock {
    looked_at: Instant,
    stood_still: Duration,
}

impl Clock {
    /// For how long it has stood still, until now.
    fn stood_still(&self) -> Duration {
        let since = self.looked_at.elapsed();
        self.stood_still + if since > LATE { since - LOOK } else { Duration::ZERO }
    }
}

impl Shared {
    fn clock(&self) -> MutexGuard<'_, Clock> {
        self.clock.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Instant {
        Instant::now() - self.clock().stood_still()
    }

    fn look(&self) {
        let mut clock = self.clock();
        *clock = Clock { stood_still: clock.stood_still(), looked_at: Instant::now() };
    }

    fn issued(&self) -> MutexGuard<'_, Vec<Token>> {
        self.issued.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, rule: &str) {
        let mut control = self.control.lock().unwrap_or_else(PoisonError::into_inner);
        let reply = control.command(&["ACL", "SETUSER", USER, rule]).expect("the test's Redis answers");
        assert_eq!(reply, Reply::Text("OK".to_owned()));
    }

    /// From now on Redis takes it. Once, though two connections may show it at the same moment.
    fn admit(&self, text: &str) -> Token {
        let mut issued = self.issued();
        if let Some(known) = issued.iter().find(|token| token.text == text) {
            return known.clone();
        }
        let (ends_at, expires) = (self.now() + self.life, SystemTime::now() + self.life);
        let token = Token { text: text.to_owned(), ends_at, expires };
        self.set(&format!(">{text}"));
        issued.push(token.clone());
        token
    }

    fn issue(&self) -> Token {
        let expires = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970") + self.life;
        let id = fastrand::u64(..);
        let claims = format!(r#"{{"exp": {:.3}, "oid": "{USER}", "jti": "{id:016x}"}}"#, expires.as_secs_f64());
        self.admit(&format!("e30.{}.c2lnbmF0dXJl", URL_SAFE_NO_PAD.encode(claims)))
    }

    /// Redis takes none any more that has ended.
    fn reap(&self) {
        let mut done = 0;
        while !self.ending.within(LOOK) {
            self.look();
            let over: Vec<Token> = {
                let (issued, now) = (self.issued(), self.now());
                issued[done..].iter().take_while(|token| token.ends_at <= now).cloned().collect()
            };
            for token in over {
                self.set(&format!("<{}", token.text));
                done += 1;
            }
        }
    }
}

impl Tokens {
    /// For a Redis with a password of its own; each lasts for `life`.
    ///
    /// # Panics
    /// When that Redis does not answer.
    pub fn start(redis: &RedisServer, life: Duration) -> Self {
        let control = redis.connect().expect("the test's Redis answers");
        let issued = Mutex::default();
        let clock = Mutex::new(Clock { looked_at: Instant::now(), stood_still: Duration::ZERO });
        let shared = Arc::new(Shared { control: Mutex::new(control), issued, life, clock, ending: Ending::default() });
        for rule in ["reset", "on", "~*", "&*", "+@all"] {
            shared.set(rule);
        }
        let reaping = Arc::clone(&shared);
        let threads = vec![thread::spawn(move || reaping.reap())];
        Self { shared, threads }
    }

    /// Issues one.
    pub fn issue(&self) -> Token {
        self.shared.issue()
    }

    /// Issues them from other threads.
    pub fn issuer(&self) -> impl Fn() -> Token + Send + Sync + use<> {
        let shared = Arc::clone(&self.shared);
        move || shared.issue()
    }

    /// Writes one into a file now, and then a new one again and again, as `written` has it.
    pub fn keep_in(&mut self, file: &Path, every: Duration, written: fn(&Token) -> String) {
        let (shared, file) = (Arc::clone(&self.shared), file.to_owned());
        let write = move || {
            let fresh = file.with_extension("new");
            // As a whole, since it may be read while it is written.
            fs::write(&fresh, written(&shared.issue())).expect("a file for the token");
            fs::rename(&fresh, &file).expect("replaced");
        };
        write();
        let shared = Arc::clone(&self.shared);
        self.threads.push(thread::spawn(move || {
            while !shared.ending.within(every) {
                write();
            }
        }));
    }

    /// Every one so far.
    pub fn issued(&self) -> Vec<Token> {
        self.shared.issued().clone()
    }

    /// For how long the machine did not let this process run, all in all; their time stands still then.
    pub fn stood_still(&self) -> Duration {
        self.shared.clock().stood_still()
    }

    /// How long each lasts.
    pub fn life(&self) -> Duration {
        self.shared.life
    }
}

impl Drop for Tokens {
    fn drop(&mut self) {
        self.shared.ending.tell();
        for thread in self.threads.drain(..) {
            // Without it tokens would not end, and the test show nothing.
            assert!(thread.join().is_ok() || thread::panicking(), "a thread that issues or ends tokens panicked");
        }
    }
}
