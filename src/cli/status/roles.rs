//! The roles of a running sidecar, as rows.

use jiff::Timestamp;
use serde::Deserialize;

/// `GET /status`, as far as it is shown.
#[derive(Debug, Deserialize)]
pub struct StatusAnswer {
    pub roles: Vec<RoleStatus>,
}

impl StatusAnswer {
    /// What another process was told.
    pub fn of(said: &serde_json::Value) -> Result<Self, serde_json::Error> {
        Self::deserialize(said)
    }
}

/// One role.
#[derive(Clone, Debug, Deserialize)]
pub struct RoleStatus {
    pub role: String,
    pub state: String,
    pub(super) holder: Option<String>,
    pub(super) token: Option<u64>,
    pub(super) time_left_ms: Option<u64>,
    pub(super) since: Timestamp,
    pub(super) index: u64,
    pub(super) reason: Option<String>,
    pub(super) changes: Vec<ChangeAnswer>,
}

/// One change of a role.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct ChangeAnswer {
    at: Timestamp,
    state: String,
    holder: Option<String>,
    token: Option<u64>,
    reason: Option<String>,
}

/// How many changes are shown, of all roles together.
const CHANGES_SHOWN: usize = 8;

impl RoleStatus {
    /// Whether all is well with it: this replica leads, or stands by.
    pub fn is_settled(&self) -> bool {
        matches!(self.state.as_str(), "leading" | "standby")
    }
}

pub(super) fn or_dash(text: Option<&str>) -> String {
    text.unwrap_or("-").to_owned()
}

/// A moment to the second.
pub(super) fn moment(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Tenths of a second are what a person can follow.
pub(super) fn seconds(ms: u64) -> String {
    format!("{}.{} s", ms / 1_000, ms % 1_000 / 100)
}

pub(super) fn header() -> Vec<String> {
    ["ROLE", "STATE", "HOLDER", "TOKEN", "TIME LEFT", "SINCE", "REASON"].map(str::to_owned).to_vec()
}

pub(super) fn row(role: &RoleStatus) -> Vec<String> {
    vec![
        role.role.clone(),
        role.state.clone(),
        or_dash(role.holder.as_deref()),
        or_dash(role.token.map(|token| token.to_string()).as_deref()),
        or_dash(role.time_left_ms.map(seconds).as_deref()),
        moment(role.since),
        role.reason.clone().unwrap_or_default(),
    ]
}

/// For the pods of a workload: the pod's name instead of the holder's.
pub fn pod_header() -> Vec<String> {
    ["POD", "ROLE", "STATE", "TOKEN", "TIME LEFT", "SINCE", "REASON"].map(str::to_owned).to_vec()
}

pub fn pod_row(pod: &str, role: &RoleStatus) -> Vec<String> {
    let mut row = row(role);
    row.remove(2);
    row.insert(0, pod.to_owned());
    row
}

/// The last changes of all roles, newest first.
pub(super) fn changes(roles: &[RoleStatus]) -> Vec<Vec<String>> {
    let mut all: Vec<(&str, &ChangeAnswer)> =
        roles.iter().flat_map(|role| role.changes.iter().map(|change| (role.role.as_str(), change))).collect();
    all.sort_by_key(|(_, change)| std::cmp::Reverse(change.at));
    let header = ["LAST CHANGES", "ROLE", "STATE", "HOLDER", "TOKEN", "REASON"].map(str::to_owned).to_vec();
    let row = |(role, change): &(&str, &ChangeAnswer)| {
        vec![
            moment(change.at),
            (*role).to_owned(),
            change.state.clone(),
            or_dash(change.holder.as_deref()),
            or_dash(change.token.map(|token| token.to_string()).as_deref()),
            change.reason.clone().unwrap_or_default(),
        ]
    };
    std::iter::once(header).chain(all.iter().take(CHANGES_SHOWN).map(row)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_changes_of_all_roles_come_newest_first() {
        let change = |second: i64| ChangeAnswer {
            at: Timestamp::from_second(second).unwrap(),
            state: "standby".to_owned(),
            holder: None,
            token: None,
            reason: None,
        };
        let role = |name: &str, seconds: [i64; 6]| RoleStatus {
            role: name.to_owned(),
            state: "standby".to_owned(),
            holder: None,
            token: None,
            time_left_ms: Some(61_234),
            since: Timestamp::UNIX_EPOCH,
            index: 1,
            reason: None,
            changes: seconds.map(change).to_vec(),
        };
        let roles = [role("a", [11, 9, 7, 5, 3, 1]), role("b", [12, 10, 8, 6, 4, 2])];
        let rows = changes(&roles);
        let names: Vec<&str> = rows.iter().skip(1).map(|row| row[1].as_str()).collect();
        assert_eq!(names, ["b", "a", "b", "a", "b", "a", "b", "a"]);
        assert_eq!((rows[1][0].as_str(), row(&roles[0])[4].as_str()), ("1970-01-01T00:00:12Z", "61.2 s"));
    }
}
