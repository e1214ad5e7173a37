//! `baton audit`: what this Redis can and cannot promise, and what would change that.
//!
//! Most of it is read from INFO. What only CONFIG tells is reported as unknown where CONFIG is forbidden, never as
//! good. The rights are tried out with the scripts themselves on keys that no role can have, and that are removed
//! again.

mod promises;
mod quorum;
mod rights;
mod words;

pub use quorum::{QuorumReport, audit_quorum};

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fred::types::Value;
use serde::Serialize;

use self::promises::promises;
use self::rights::{Trial, trial_keys};
use self::words::{FaultWords, words};
use super::connection::{
    CommandFailure, Info, Link, NO_WAIT, Settings, Target, Untold, VERSION_MIN, Version, fetch_info,
};
use crate::base::clock::{BootClock, Clock};
use crate::config::{Durability, Guard, RedisConfig, StoreUse};
use crate::store::StoreError;

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// As it should be.
    Ok,
    /// Worth knowing.
    Note,
    /// Could not be found out.
    Unknown,
    /// Works, but some fault costs more than it has to.
    Warning,
    /// Baton does not work, or breaks a promise.
    Problem,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Ok => "ok",
            Self::Note => "note",
            Self::Unknown => "unknown",
            Self::Warning => "warning",
            Self::Problem => "problem",
        })
    }
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// What was found.
    pub what: String,
    /// What that means for Baton's promises.
    pub cost: String,
    /// What would help; empty when nothing needs to.
    pub remedy: String,
}

/// Everything that was found, in a fixed order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AuditReport {
    /// Host and port.
    pub endpoint: String,
    /// The findings.
    pub findings: Vec<Finding>,
}

impl AuditReport {
    /// The worst of the findings.
    pub fn worst(&self) -> Severity {
        self.findings.iter().map(|finding| finding.severity).max().unwrap_or(Severity::Unknown)
    }
}

fn finding(severity: Severity, what: impl Into<String>, cost: &str, remedy: &str) -> Finding {
    Finding { severity, what: what.into(), cost: cost.to_owned(), remedy: remedy.to_owned() }
}

/// Nothing here depends on a role's lease; this only bounds how long a silent connection is waited for.
const LEASE_ASSUMED: Duration = Duration::from_secs(15);
const PINGS: usize = 12;

/// What a server is to Baton.
#[derive(Clone, Copy)]
enum AuditedAs<'u> {
    /// A member of a quorum.
    Member,
    /// The whole store of these, of which the first names its faults.
    StoreOf(&'u [StoreUse]),
}

impl AuditedAs<'_> {
    fn main(self) -> StoreUse {
        match self {
            Self::Member => StoreUse::Leases,
            Self::StoreOf(uses) => uses.first().copied().unwrap_or(StoreUse::Leases),
        }
    }

    fn is_member(self) -> bool {
        matches!(self, Self::Member)
    }

    fn has_locks(self) -> bool {
        matches!(self, Self::StoreOf(uses) if uses.contains(&StoreUse::Locks))
    }
}

/// Looks at the Redis of `config`, which keeps `uses`. `wall_clock` is this machine's clock, to compare with the
/// server's.
///
/// # Errors
/// When there is no talking to it: not reached, not let in, or a URL or TLS file that is unusable.
pub async fn audit(
    config: &RedisConfig,
    uses: &[StoreUse],
    wall_clock: &(dyn Fn() -> SystemTime + Sync),
) -> Result<AuditReport, StoreError> {
    let subject = AuditedAs::StoreOf(uses);
    let settings = Settings::new(config, LEASE_ASSUMED.into(), 0).map_err(|error| {
        let reason = error.in_section(subject.main().redis_key(), "url").to_string();
        StoreError::Refused { reason }
    })?;
    Ok(look(config, &settings, wall_clock, subject).await?.0)
}

/// What the members of a quorum are compared by.
struct Facts {
    run_id: Option<String>,
    version: Option<Version>,
    clock_offset_ms: Option<i64>,
}

/// Looks at one server, which is the whole store or a member of a quorum.
async fn look(
    config: &RedisConfig,
    settings: &Settings,
    wall_clock: &(dyn Fn() -> SystemTime + Sync),
    subject: AuditedAs<'_>,
) -> Result<(AuditReport, Facts), StoreError> {
    let words = words(subject.main());
    let keys = trial_keys(&settings.namespace);
    let link = Link::open(settings, Target::MasterOf(keys.slot())).await?;
    let timeout = settings.command_timeout;
    let info = fetch_info(&link, timeout).await?;
    let probe = Probe { link: &link, timeout };
    let mut findings = vec![version(&info), role(&info, words), mode(&info, words)];
    let appendfsync = probe.setting("appendfsync").await;
    findings.push(persistence(&info, appendfsync.as_deref(), config, subject.main()));
    findings.push(generation(&info, config));
    findings.push(memory(&info, words));
    findings.push(match config.durability {
        _ if subject.is_member() => no_replicas(&info),
        Durability::Asynchronous => replicas(&info, config.replication.acks, probe.has_wait().await, words),
        Durability::Synchronous => {
            finding(Severity::Ok, format!("a replica that takes over knows of {}", words.each), BY_ITS_LOG, "")
        }
    });
    findings.push(writes_need_replicas(probe.setting("min-replicas-to-write").await.as_deref(), words));
    let clock_offset_ms = probe.clock_offset_ms(wall_clock).await;
    findings.push(clock(clock_offset_ms));
    findings.push(latency(probe.latencies().await?, timeout));
    let trial = Trial::new(&link, timeout, keys, subject.is_member());
    let problems = trial.problems(config.replication).await;
    let (of_locks, of_list) = match subject.has_locks() {
        true => (trial.lock_problems().await, trial.list_problem().await),
        false => (Vec::new(), None),
    };
    findings.extend(rights(problems, of_locks, of_list, subject.main()));
    findings.extend(dialect(&link, settings));
    findings.push(neighbours(&info, words));
    if let AuditedAs::StoreOf(uses) = subject {
        let is_broken = findings.iter().any(|finding| finding.severity == Severity::Problem);
        findings.extend(promises(&info, config, uses, is_broken));
    }
    let facts = Facts { run_id: info.process(), version: info.version(), clock_offset_ms };
    Ok((AuditReport { endpoint: settings.endpoint.clone(), findings }, facts))
}

fn version(info: &Info) -> Finding {
    let what = info.name().unwrap_or_else(|| "Redis of an unknown version".to_owned());
    match info.version() {
        Some(version) if version >= VERSION_MIN => finding(Severity::Ok, what, "the scripts work", ""),
        Some(_) => finding(Severity::Problem, what, "Baton does not work with it", "use Redis 6.2 or later"),
        None => finding(Severity::Unknown, what, "Baton needs Redis 6.2 or later", "see what answers at this address"),
    }
}

fn role(info: &Info, words: &FaultWords) -> Finding {
    if let Some(several) = info.several_masters() {
        return finding(Severity::Problem, several, "two leaders at once", "");
    }
    match info.get("role") {
        Some("master") => finding(Severity::Ok, "it is a master", "it takes writes", ""),
        Some(_) => finding(
            Severity::Problem,
            "it is a replica",
            &format!("it takes no writes: {}", words.stopped),
            "point the URL at the master, or use a redis-sentinel: URL",
        ),
        None => finding(Severity::Unknown, "its role is not told", "a replica takes no writes", "allow INFO"),
    }
}

fn mode(info: &Info, words: &FaultWords) -> Finding {
    match info.mode() {
        Some("standalone") => finding(Severity::Ok, "it runs alone, or with replicas", "the ordinary case", ""),
        Some("cluster") => finding(
            Severity::Note,
            "it is part of a cluster",
            words.moving,
            "use a redis-cluster: URL; a small Redis of its own serves Baton better",
        ),
        Some("sentinel") => finding(
            Severity::Problem,
            "it is a Sentinel, not a Redis",
            "it keeps no data",
            "use a redis-sentinel: URL with sentinelServiceName",
        ),
        other => finding(Severity::Unknown, format!("its mode is {}", other.unwrap_or("not told")), "", ""),
    }
}

/// What cannot be seen from here.
const BY_ITS_LOG: &str = "as durability: synchronous says of it; nothing here can look whether that is true";

fn persistence(info: &Info, appendfsync: Option<&str>, config: &RedisConfig, of: StoreUse) -> Finding {
    if config.durability == Durability::Synchronous {
        return finding(Severity::Ok, "no restart and no failover forgets what it has acknowledged", BY_ITS_LOG, "");
    }
    let words = words(of);
    let (what, cost) = match (info.get("aof_enabled"), appendfsync) {
        (Some("1"), Some("always")) => {
            return finding(Severity::Ok, "append-only file, synced always", "a restart forgets nothing", "");
        }
        (Some("1"), Some(fsync)) => {
            let cost = "a crash of its machine may forget what was written last".to_owned();
            (format!("append-only file, synced {fsync}"), cost)
        }
        (Some("1"), None) => {
            return finding(
                Severity::Unknown,
                "append-only file; how often it is synced cannot be read (CONFIG is forbidden)",
                "unless it is synced always, a crash of its machine may forget what was written last",
                "allow CONFIG GET, or look there",
            );
        }
        (Some("0"), _) => ("no append-only file".to_owned(), format!("a restart may forget {}", words.kept)),
        _ => {
            return finding(
                Severity::Unknown,
                "its persistence is not told",
                &format!("a restart may forget {}", words.kept),
                "allow INFO",
            );
        }
    };
    match (of, config.guard) {
        (StoreUse::Jobs, _) => finding(
            Severity::Warning,
            what,
            &format!("{cost}; {}", words.forgotten),
            "appendonly yes with appendfsync always, or everysec if a second's claims may be forgotten",
        ),
        (StoreUse::Leases | StoreUse::Locks, Guard::Strict) => finding(
            Severity::Note,
            what,
            &format!("{cost}; {}", words.forgotten),
            "appendonly yes with appendfsync always, if that time matters",
        ),
        (StoreUse::Leases | StoreUse::Locks, Guard::Heard) => finding(
            Severity::Warning,
            format!("{what}, and the guard goes by what is heard"),
            &format!("{cost}; {}", words.forgotten_heard),
            "guard: strict, where it tells its generation, or appendonly yes with appendfsync always",
        ),
        (StoreUse::Leases | StoreUse::Locks, Guard::Off) => finding(
            Severity::Problem,
            format!("{what}, and the guard is off"),
            &format!("{cost}; {}", words.forgotten_unguarded),
            "guard: strict, or appendonly yes with appendfsync always",
        ),
    }
}

fn generation(info: &Info, config: &RedisConfig) -> Finding {
    let unasked = |cost| finding(Severity::Note, "it is not asked for its generation", cost, "");
    match (config.guard_in_force(), info.untold(config.replication.acks)) {
        (Guard::Heard, _) if config.durability == Durability::Synchronous => unasked(BY_ITS_LOG),
        (Guard::Heard, _) => unasked("the guard notices what somebody has heard of, and that everything was forgotten"),
        (Guard::Strict | Guard::Off, None) => {
            let what = "it tells its generation (INFO)";
            finding(Severity::Ok, what, "the guard notices what may have forgotten a lease", "")
        }
        (Guard::Strict, Some(untold)) => {
            finding(Severity::Problem, untold.what(), "Baton does not work with it under guard: strict", Untold::REMEDY)
        }
        (Guard::Off, Some(untold)) => {
            finding(Severity::Note, untold.what(), "the guard is off, so nothing is lost by that", "")
        }
    }
}

fn memory(info: &Info, words: &FaultWords) -> Finding {
    let (used, max) = (info.number("used_memory"), info.number("maxmemory"));
    match (info.get("maxmemory_policy"), info.evicting_policy()) {
        (None, _) => finding(
            Severity::Unknown,
            "its eviction policy is not told",
            &format!("an evicting Redis may drop {}", words.kept),
            "see that maxmemory-policy is noeviction",
        ),
        (Some(_), Some(policy)) => finding(
            Severity::Warning,
            format!("maxmemory-policy is {policy}"),
            &format!("short of memory it may drop {}: {}", words.kept, words.evicted),
            "maxmemory-policy noeviction, or a Redis of its own for Baton",
        ),
        (Some(_), None) => match (used, max) {
            (Some(used), Some(max)) if max > 0 && used > max / 10 * 9 => finding(
                Severity::Warning,
                format!("{used} of {max} bytes are used, and nothing is evicted"),
                &format!("once its memory is full it takes no more writes: {}", words.stopped),
                "raise maxmemory, or give Baton a Redis of its own",
            ),
            _ => {
                let cost = format!("{} stay", words.kept);
                finding(Severity::Ok, "nothing is evicted, and there is room", &cost, "")
            }
        },
    }
}

fn replicas(info: &Info, acks: u32, has_wait: bool, words: &FaultWords) -> Finding {
    let Some(connected) = info.number("connected_slaves") else {
        return finding(
            Severity::Unknown,
            "its replicas are not told",
            "replication.acks may not be met",
            "allow INFO",
        );
    };
    let what = format!("{connected} replicas are connected, {acks} must acknowledge");
    if u64::from(acks) > connected {
        return finding(Severity::Problem, what, words.stopped, "add replicas, or lower replication.acks");
    }
    match (connected, acks) {
        (0, _) => finding(Severity::Ok, what, &format!("when it fails there is no failover; {}", words.without_it), ""),
        (_, 0) => finding(
            Severity::Warning,
            what,
            &format!("in a split network with the old master still reached by some, {}", words.split),
            if has_wait {
                "replication.acks: 1 (or more); or, if it acknowledges by a log (MemoryDB), durability: synchronous"
            } else {
                "it has no WAIT, without which replication.acks cannot be had: use a Redis that has it, if that matters"
            },
        ),
        // Both masters with their own acknowledgements: only two majorities have a server in common.
        _ if 2 * (u64::from(acks) + 1) <= connected + 1 => finding(
            Severity::Warning,
            what,
            &format!("in a split network an old and a new master can both have enough replicas: {}", words.split),
            &format!(
                "replication.acks: {}, for the master and those that acknowledge must be more than half of the {} \
                 servers",
                connected.div_ceil(2),
                connected + 1
            ),
        ),
        _ => finding(Severity::Ok, what, &format!("a promoted replica knows of {}", words.each), ""),
    }
}

/// A member of a quorum has none.
fn no_replicas(info: &Info) -> Finding {
    match info.replicas() {
        None => finding(Severity::Unknown, "its replicas are not told", "a member has none", "allow INFO"),
        Some(0) => finding(Severity::Ok, "it has no replicas", "as a member should", ""),
        Some(count) => finding(
            Severity::Problem,
            format!("{count} replicas are connected"),
            "a failover to one of them would hand on what the quorum has not agreed to: two leaders at once",
            "members without replicas; more members instead",
        ),
    }
}

fn writes_need_replicas(setting: Option<&str>, words: &FaultWords) -> Finding {
    let what = |n: &str| format!("min-replicas-to-write is {n}");
    match setting {
        None => finding(
            Severity::Unknown,
            "min-replicas-to-write cannot be read (CONFIG is forbidden)",
            "above 0, Redis takes no writes while too few replicas are connected",
            "allow CONFIG GET, or look there",
        ),
        Some("0") => finding(Severity::Ok, what("0"), "a lost replica stops no write", ""),
        Some(n) => {
            finding(Severity::Note, what(n), &format!("with fewer replicas it takes no writes: {}", words.stopped), "")
        }
    }
}

fn clock(offset_ms: Option<i64>) -> Finding {
    const FAR_MS: u64 = 24 * 3600 * 1000;
    match offset_ms {
        None => finding(Severity::Unknown, "its clock cannot be read", "", "allow TIME"),
        Some(ms) if ms.unsigned_abs() > FAR_MS => finding(
            Severity::Warning,
            format!("its clock is {ms} ms off from this machine's"),
            "tokens begin at its clock; if it is set right later they still rise, but no longer look like times",
            "set the clocks",
        ),
        Some(ms) if ms.unsigned_abs() > 1_000 => finding(
            Severity::Note,
            format!("its clock is {ms} ms off from this machine's"),
            "nothing is timed by comparing them",
            "set the clocks, so that logs can be compared",
        ),
        Some(ms) => {
            finding(Severity::Ok, format!("its clock is {ms} ms off from this machine's"), "as it should be", "")
        }
    }
}

fn latency(mut taken: Vec<Duration>, timeout: Duration) -> Finding {
    taken.sort_unstable();
    let (Some(longest), Some(median)) = (taken.last().copied(), taken.get(taken.len() / 2).copied()) else {
        return finding(Severity::Unknown, "no PING was answered", "", "");
    };
    let what = format!("a PING takes {median:.1?}, at most {longest:.1?} of {} tries", taken.len());
    if longest > timeout / 2 {
        return finding(
            Severity::Warning,
            what,
            "commands come close to commandTimeout: some will be given up for lost",
            "a nearer Redis, or a longer commandTimeout, with longer leases where they bound it",
        );
    }
    finding(Severity::Ok, what, "far below commandTimeout", "")
}

fn rights(
    problems: Vec<StoreError>,
    mut of_locks: Vec<StoreError>,
    of_list: Option<StoreError>,
    of: StoreUse,
) -> Vec<Finding> {
    of_locks.retain(|problem| !problems.contains(problem));
    of_locks.dedup();
    if problems.is_empty() && of_locks.is_empty() && of_list.is_none() {
        let what = "its user may do all that Baton does";
        return vec![finding(Severity::Ok, what, "tried with the scripts themselves", "")];
    }
    let tell = |problem, severity, means| match problem {
        // Each refusal says what would help.
        StoreError::Refused { reason } | StoreError::Denied { reason } => finding(severity, reason, means, ""),
        StoreError::Unknown { .. } | StoreError::Unreachable { .. } | StoreError::Garbage { .. } => {
            finding(Severity::Unknown, problem.to_string(), "what the user may do was not found out", "")
        }
    };
    let problems = problems.into_iter().map(|p| tell(p, Severity::Problem, "Baton cannot work, or cannot listen"));
    let (grade, means) = match of {
        StoreUse::Leases | StoreUse::Jobs => (Severity::Warning, "roles work, locks do not"),
        StoreUse::Locks => (Severity::Problem, "locks do not work"),
    };
    let of_locks = of_locks.into_iter().map(|p| tell(p, grade, means));
    let only_list = "all works but the list of all locks";
    let of_list = of_list.map(|problem| tell(problem, Severity::Warning, only_list));
    problems.chain(of_locks).chain(of_list).collect()
}

/// What it lacks that Baton can do without. Known only after the scripts were tried.
fn dialect(link: &Link, settings: &Settings) -> Vec<Finding> {
    let told = finding(
        Severity::Note,
        "its scripts may not ask for INFO",
        "the sidecar asks beside them, before and after: one INFO more for each campaign and each request for a lock",
        "",
    );
    let plain = finding(Severity::Note, "it has no RESP3", "RESP2 is spoken, which costs nothing", "");
    let told = link.is_told().then_some(told);
    told.into_iter().chain((!settings.has_resp3()).then_some(plain)).collect()
}

fn neighbours(info: &Info, words: &FaultWords) -> Finding {
    let keys = |line: &str| line.split(',').find_map(|part| part.strip_prefix("keys=")?.parse::<u64>().ok());
    let total: u64 = (0..16).filter_map(|db| info.get(&format!("db{db}")).and_then(keys)).sum();
    if total > 1_000 {
        return finding(
            Severity::Note,
            format!("it holds {total} keys"),
            &format!("others use it, too: their load delays requests, their FLUSHALL drops {}", words.kept),
            "a small Redis of its own for Baton",
        );
    }
    finding(Severity::Ok, format!("it holds {total} keys"), "hardly anything besides Baton's", "")
}

/// Questions to one server.
struct Probe<'a> {
    link: &'a Link,
    timeout: Duration,
}

impl Probe<'_> {
    async fn ask(&self, command: &'static str, args: Vec<Value>) -> Result<Value, CommandFailure> {
        self.link.command(command, args, self.timeout).await
    }

    /// One value of CONFIG; none when it is forbidden or unknown.
    async fn setting(&self, name: &str) -> Option<String> {
        let reply = self.ask("CONFIG", vec!["GET".into(), name.into()]).await.ok()?;
        let pairs: std::collections::HashMap<String, String> = reply.convert().ok()?;
        pairs.get(name).cloned()
    }

    /// Whether replicas can be waited for. What its user may not do here is said where that is needed.
    async fn has_wait(&self) -> bool {
        let asked = self.ask("WAIT", vec!["0".into(), "1".into()]).await;
        !asked.is_err_and(|failure| matches!(failure.error, StoreError::Refused { reason } if reason == NO_WAIT))
    }

    async fn clock_offset_ms(&self, wall_clock: &(dyn Fn() -> SystemTime + Sync)) -> Option<i64> {
        let sent = BootClock.now();
        let reply: Vec<String> = self.ask("TIME", Vec::new()).await.ok()?.convert().ok()?;
        let half = BootClock.now().since(sent) / 2;
        let ours_us = i64::try_from((wall_clock() - half).duration_since(UNIX_EPOCH).ok()?.as_micros()).ok()?;
        let (seconds, micros): (i64, i64) = (reply.first()?.parse().ok()?, reply.get(1)?.parse().ok()?);
        Some((seconds.checked_mul(1_000_000)? + micros - ours_us) / 1_000)
    }

    async fn latencies(&self) -> Result<Vec<Duration>, StoreError> {
        let mut taken = Vec::with_capacity(PINGS);
        for _ in 0..PINGS {
            let sent = BootClock.now();
            self.ask("PING", Vec::new()).await.map_err(|failure| failure.error)?;
            taken.push(BootClock.now().since(sent));
        }
        Ok(taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn acknowledgements_are_judged_by_how_many_replicas_there_are() {
        let judged = |connected: u64, acks| {
            let info = Info::parse(&format!("role:master\r\nconnected_slaves:{connected}\r\n"));
            replicas(&info, acks, true, words(StoreUse::Leases)).severity
        };
        for (connected, acks, severity) in [
            (0, 0, Severity::Ok),
            (0, 1, Severity::Problem),
            (1, 0, Severity::Warning),
            (1, 1, Severity::Ok),
            (2, 1, Severity::Ok),
            (3, 1, Severity::Warning),
            (3, 2, Severity::Ok),
            (4, 2, Severity::Ok),
            (5, 2, Severity::Warning),
            (2, 3, Severity::Problem),
        ] {
            assert_eq!(judged(connected, acks), severity, "{acks} of {connected}");
        }
    }
}
