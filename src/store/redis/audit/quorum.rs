//! `baton audit` of a quorum: each member by itself, and what they are together.

use std::collections::BTreeSet;
use std::time::SystemTime;

use serde::Serialize;

use super::{AuditReport, AuditedAs, Facts, Finding, LEASE_ASSUMED, Severity, finding, look};
use crate::config::RedisConfig;
use crate::protocol::Seats;
use crate::store::redis::connection::Settings;

/// Clocks further apart than this are worth a word.
const APART_MS: u64 = 1_000;

/// What was found about a quorum.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct QuorumReport {
    /// Each member, in the order of the configuration. One that cannot be talked to has one finding, a problem.
    pub members: Vec<AuditReport>,
    /// What they are together.
    pub findings: Vec<Finding>,
    /// How many members could be talked to.
    pub answered: usize,
}

/// Looks at every member. `wall_clock` is this machine's clock, to compare with the servers'.
pub async fn audit_quorum(
    members: &[RedisConfig],
    seats: Seats,
    wall_clock: &(dyn Fn() -> SystemTime + Sync),
) -> QuorumReport {
    let looks = members.iter().map(|member| look_at(member, wall_clock));
    let (reports, facts): (Vec<AuditReport>, Vec<Option<Facts>>) =
        futures_util::future::join_all(looks).await.into_iter().unzip();
    let who: Vec<usize> = (0..facts.len()).filter(|member| facts[*member].is_some()).collect();
    let answered = who.len();
    let findings = vec![quorum(&who, seats), twins(&reports, &facts), versions(&facts), clocks(&facts)];
    QuorumReport { members: reports, findings, answered }
}

async fn look_at(config: &RedisConfig, wall_clock: &(dyn Fn() -> SystemTime + Sync)) -> (AuditReport, Option<Facts>) {
    let unusable = |endpoint: String, why: String| {
        let found = finding(Severity::Problem, why, "it does not count for the quorum", "put it right, or replace it");
        (AuditReport { endpoint, findings: vec![found] }, None)
    };
    let settings = match Settings::new(config, LEASE_ASSUMED.into(), 0) {
        Ok(settings) => settings,
        Err(error) => return unusable("a member".to_owned(), error.to_string()),
    };
    match look(config, &settings, wall_clock, AuditedAs::Member).await {
        Ok((report, facts)) => (report, Some(facts)),
        Err(error) => unusable(settings.endpoint, error.to_string()),
    }
}

fn quorum(answered: &[usize], seats: Seats) -> Finding {
    let what = seats.tell(answered.iter().copied(), "answer");
    if !seats.are_enough(answered.iter().copied()) {
        let cost = "nobody is elected, and no lease renewed";
        return finding(Severity::Problem, what, cost, "bring members back, or correct their URLs");
    }
    match seats.spare(answered) {
        0 => finding(Severity::Warning, what, "the next failure ends all leadership", "bring the others back"),
        spare => finding(Severity::Ok, what, &format!("{spare} more may fail without a change of leader"), ""),
    }
}

/// Servers that more than one member leads to.
fn twins(reports: &[AuditReport], facts: &[Option<Facts>]) -> Finding {
    let run_id = |facts: &Option<Facts>| facts.as_ref().and_then(|facts| facts.run_id.clone());
    let run_ids: Vec<Option<String>> = facts.iter().map(run_id).collect();
    let mut same = BTreeSet::new();
    for (at, id) in run_ids.iter().enumerate() {
        if let Some(first) = run_ids[..at].iter().position(|other| id.is_some() && other == id) {
            same.insert(format!("{} and {}", reports[first].endpoint, reports[at].endpoint));
        }
    }
    if same.is_empty() {
        return finding(Severity::Ok, "the members are different servers", "each is one vote", "");
    }
    let pairs: Vec<String> = same.into_iter().collect();
    finding(
        Severity::Problem,
        format!("{} are the same server", pairs.join("; ")),
        "it would be counted twice, so only the first of them counts: fewer failures are borne than it seems",
        "give each member a server of its own",
    )
}

fn versions(facts: &[Option<Facts>]) -> Finding {
    let versions: BTreeSet<_> = facts.iter().flatten().filter_map(|facts| facts.version).collect();
    let told: Vec<String> = versions.iter().map(ToString::to_string).collect();
    match told.as_slice() {
        [] => finding(Severity::Unknown, "no member tells its version", "", ""),
        [one] => finding(Severity::Ok, format!("all are Redis {one}"), "as it should be", ""),
        several => {
            finding(Severity::Note, format!("they are Redis {}", several.join(", ")), "each works by itself", "")
        }
    }
}

fn clocks(facts: &[Option<Facts>]) -> Finding {
    let offsets: Vec<i64> = facts.iter().flatten().filter_map(|facts| facts.clock_offset_ms).collect();
    let (Some(least), Some(most)) = (offsets.iter().min(), offsets.iter().max()) else {
        return finding(Severity::Unknown, "no member's clock can be read", "", "allow TIME");
    };
    let what = format!("the members' clocks are {} ms apart", most.abs_diff(*least));
    if most.abs_diff(*least) > APART_MS {
        let cost = "no time of one is compared with another's; but all of them stepping forward together would end \
                    every lease early";
        return finding(Severity::Note, what, cost, "keep them in step (NTP), slewed and not stepped");
    }
    finding(Severity::Ok, what, "as it should be", "")
}
