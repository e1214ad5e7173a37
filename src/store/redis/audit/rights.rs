//! What Baton's user may do on a Redis, found out by doing it: on keys that no role can have, and that are removed
//! again. The scripts about ledgers of jobs need no other right than those of roles.

use std::time::Duration;

use fred::types::Value;

use crate::base::clock::{BootClock, Clock};
use crate::config::{AckMode, Replication};
use crate::store::StoreError;
use crate::store::redis::connection::{CommandFailure, Link};
use crate::store::redis::namespace::Namespace;
use crate::store::redis::scripts::{
    CAMPAIGN, Keys, MEMBER_CAMPAIGN, MEMBER_PURGE, MEMBER_RAISE, MEMBER_RELEASE, MEMBER_RENEW, PURGE, RELEASE, RENEW,
    Script,
};
use crate::store::redis::{Deadline, attempt};

/// What the scripts of locks do and those of roles do not, after the key; none of it makes a key that is absent.
const LOCK_QUESTIONS: [(&str, &[&str]); 12] = [
    ("GET", &[]),
    ("SET", &["v", "XX"]),
    ("HGETALL", &[]),
    ("HLEN", &[]),
    ("HDEL", &["v"]),
    ("ZADD", &["XX", "1", "v"]),
    ("ZCARD", &[]),
    ("ZRANGE", &["0", "0"]),
    ("ZRANK", &["v"]),
    ("ZREM", &["v"]),
    ("ZREMRANGEBYSCORE", &["0", "0"]),
    ("ZSCORE", &["v"]),
];

/// Tries out rights on one connection.
pub(super) struct Trial<'a> {
    link: &'a Link,
    timeout: Duration,
    keys: Keys,
    /// A key in the same slot which no script looks at.
    spare: String,
    is_member: bool,
}

impl<'a> Trial<'a> {
    /// With these keys, at the node that has their slot. `is_member`: of a quorum, which has scripts of its own.
    pub fn new(link: &'a Link, timeout: Duration, keys: Keys, is_member: bool) -> Self {
        let spare = format!("{}.spare", keys.record);
        Self { link, timeout, keys, spare, is_member }
    }

    /// Everything that is in the way; nothing when all is well. What a script lacks Redis 7.0 does not name, so its
    /// commands are tried one by one first.
    pub async fn problems(&self, replication: Replication) -> Vec<StoreError> {
        let mut problems = Vec::new();
        for (command, args) in self.removals() {
            problems.extend(self.forbidden(command, args).await);
        }
        // Written only where it can be removed again.
        if problems.len() < self.removals().len() {
            problems.extend(self.forbidden("HSET", vec![self.spare(), "v".into(), "1".into()]).await);
            for (command, args) in self.removals() {
                self.forbidden(command, args).await;
            }
        }
        for (command, args) in self.questions() {
            problems.extend(self.forbidden(command, args).await);
        }
        // The same words for several commands: keys, channels.
        problems.dedup();
        let may_all = problems.is_empty();
        if replication.acks > 0 {
            let (command, args) = match replication.mode {
                AckMode::Wait => ("WAIT", vec!["0".into(), "1".into()]),
                AckMode::WaitAof => ("WAITAOF", vec!["0".into(), "0".into(), "1".into()]),
            };
            problems.extend(self.ask(command, args).await.err());
        }
        let term = if self.is_member { self.member_term().await } else { self.term().await }.err().filter(|_| may_all);
        let listening = self.listen().await.err();
        for error in term.into_iter().chain(listening) {
            if !problems.contains(&error) {
                problems.push(error);
            }
        }
        problems
    }

    /// What is in the way of locks alone: their scripts do more than those of roles. Nothing is written.
    pub async fn lock_problems(&self) -> Vec<StoreError> {
        if self.is_member {
            // A quorum has no locks.
            return Vec::new();
        }
        let mut problems = Vec::new();
        for (command, args) in LOCK_QUESTIONS {
            let args = std::iter::once(self.spare()).chain(args.iter().map(|word| Value::from(*word))).collect();
            problems.extend(self.forbidden(command, args).await);
        }
        problems
    }

    /// What is in the way of a list of all locks. The key is no cursor, which is said after the rights were looked at.
    pub async fn list_problem(&self) -> Option<StoreError> {
        self.forbidden("SCAN", vec![self.spare()]).await
    }

    fn spare(&self) -> Value {
        Value::from(self.spare.as_str())
    }

    /// What the scripts do, each on its own.
    fn questions(&self) -> Vec<(&'static str, Vec<Value>)> {
        vec![
            ("TIME", Vec::new()),
            ("INFO", vec!["server".into()]),
            ("EXISTS", vec![self.spare()]),
            ("HMGET", vec![self.spare(), "v".into()]),
            ("PTTL", vec![self.spare()]),
            ("PUBLISH", vec![self.keys.channel.as_str().into(), "".into()]),
        ]
    }

    /// Either of them removes what was written.
    fn removals(&self) -> [(&'static str, Vec<Value>); 2] {
        [("PEXPIRE", vec![self.spare(), "1".into()]), ("DEL", vec![self.spare()])]
    }

    /// The refusal, when the user may not do this. Anything else that may be wrong, the term tells better.
    async fn forbidden(&self, command: &'static str, args: Vec<Value>) -> Option<StoreError> {
        let refused = self.ask(command, args).await.err()?;
        matches!(&refused, StoreError::Refused { reason } if reason.contains("NOPERM")).then_some(refused)
    }

    async fn ask(&self, command: &'static str, args: Vec<Value>) -> Result<Value, StoreError> {
        self.link.command(command, args, self.timeout).await.map_err(|failure: CommandFailure| failure.error)
    }

    /// One whole term, then none of it is left.
    async fn term(&self) -> Result<(), StoreError> {
        let me = ["00000000000000000000000000000001", "1", "baton audit"].map(str::to_owned);
        // A lease of one second, so that nothing stays for long if this breaks off.
        let campaign = [&me[..], &["1000", "0", "0", "", "", "", ""].map(str::to_owned)].concat();
        let granted = self.script(&CAMPAIGN, &campaign).await?;
        let token = granted.get(2).cloned().unwrap_or_default();
        let renew = [&me[..2], &renewal(&token), &["?".to_owned()]].concat();
        let renewed = self.script(&RENEW, &renew).await;
        let release = [&me[..2], &[token, "0".to_owned()]].concat();
        let released = self.script(&RELEASE, &release).await;
        let purged = self.script(&PURGE, &[]).await;
        renewed.and(released).and(purged).map(drop)
    }

    /// The same with a member's scripts.
    async fn member_term(&self) -> Result<(), StoreError> {
        let me = ["00000000000000000000000000000001", "1", "baton audit"].map(str::to_owned);
        let campaign = [&me[..], &["1000", "0", "0", "", "", ""].map(str::to_owned)].concat();
        let granted = self.script(&MEMBER_CAMPAIGN, &campaign).await?;
        let token = granted.get(2).cloned().unwrap_or_default();
        let raise = [&me[..], &["1000", "0", &token, ""].map(str::to_owned)].concat();
        let raised = self.script(&MEMBER_RAISE, &raise).await;
        let renew = [&me[..2], &renewal(&token), &["", "?"].map(str::to_owned)].concat();
        let renewed = self.script(&MEMBER_RENEW, &renew).await;
        let release = [&me[..2], &[token, "0".to_owned()]].concat();
        let released = self.script(&MEMBER_RELEASE, &release).await;
        let purged = self.script(&MEMBER_PURGE, &[]).await;
        raised.and(renewed).and(released).and(purged).map(drop)
    }

    async fn listen(&self) -> Result<(), StoreError> {
        let channels = [self.keys.channel.as_str().into()];
        self.link.subscribe(&channels, self.timeout).await.map_err(|failure| failure.error)?;
        self.link.unsubscribe(&channels, self.timeout).await.map_err(|failure| failure.error)
    }

    async fn script(&self, script: &Script, args: &[String]) -> Result<Vec<String>, StoreError> {
        let mut replies = Vec::new();
        let call = self.keys.call(script, args.to_vec());
        for command in ["EVAL", "EVALSHA"] {
            replies.push(
                attempt(&call, self.link, Deadline::after(self.timeout), false, command)
                    .await
                    .map_err(|failure| failure.error)?,
            );
        }
        replies.swap_remove(0).convert().map_err(|_| StoreError::Refused { reason: "a script was not run".to_owned() })
    }
}

/// What a renewal of this term is asked with, after whose it is.
fn renewal(token: &str) -> [String; 6] {
    let message = format!("v1 heartbeat {token} 2 0 00000000000000000000000000000001 baton audit");
    ["1000", token, "1", "2", &message, "1"].map(str::to_owned)
}

/// Keys that no role can have: a role's name has no dot.
pub(super) fn trial_keys(namespace: &Namespace) -> Keys {
    Keys::of(namespace, &format!("audit.{}", BootClock.now().as_nanos()))
}
