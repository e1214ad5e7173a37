//! `jobsDapr:`

use std::time::Duration;

use super::jobs::ROLE;
use super::runs::{self, TIMEOUT};
use super::section::{Group, Key, Reader, Section, key, required};
use super::value::Text;
use crate::protocol::RoleName;

/// `jobsDapr:`
#[derive(Clone, Debug, PartialEq)]
pub struct DaprJobsConfig {
    /// Whose leader runs the jobs that are made through Dapr's API; one of `roles`.
    pub role: RoleName,
    /// Where the app listens, without a query.
    pub url: url::Url,
    /// How long a delivery may take.
    pub timeout: Duration,
}

pub(super) const JOBS_DAPR: Key<Group> =
    key("jobsDapr", Group(&SECTION), "Answer Dapr's Jobs API, too, and deliver its jobs to the app.");
const URL: Key<Text> = required(
    "url",
    Text::like("^[hH][tT][tT][pP][sS]?://.+$"),
    "Where the app listens: `http://127.0.0.1:8080`. A job is delivered to `/job/<name>` there. Without user and \
     password.",
);

const SECTION: Section = Section::new("JobsDapr", "Dapr's Jobs API on the app's listener.", &[&URL, &ROLE, &TIMEOUT]);

/// What is there, with its role.
pub(super) fn read(s: &Reader<'_>, role: Option<RoleName>) -> Option<DaprJobsConfig> {
    let (url, timeout) = (runs::url(s, &URL, "write it as http://127.0.0.1:8080"), s.get(&TIMEOUT));
    let url = url?;
    if url.query().is_some() {
        s.at(&URL).problem("holds a `?…`; write the address alone, and `/job/<name>` is put behind it");
        return None;
    }
    Some(DaprJobsConfig { role: role?, url, timeout })
}
