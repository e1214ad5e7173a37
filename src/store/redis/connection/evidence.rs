//! Which generation a server is of (R5), for scripts that may not ask it themselves.
//!
//! Redis's own scripts ask for INFO in the step that grants. Where that is forbidden, as on Redis Software and Redis
//! Cloud, the sidecar asks on the same connection and tells the script what it was answered, and asks again behind it.
//! A replication id never comes back, so that a server which tells the same before and after was of that generation in
//! between; if it tells another, the script's answer counts for nothing.

use super::info::Info;

/// What a server told of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evidence {
    replication_id: String,
    /// How many times replicas have synchronised with it, where acknowledgements are asked for.
    synchronised: Option<u64>,
    uptime_s: u64,
}

impl Evidence {
    /// What INFO tells. What is not told is empty, and the script says so.
    pub fn of(info: &Info, acks: bool) -> Self {
        let synchronised = || Some(info.number("sync_full")? + info.number("sync_partial_ok")?);
        Self {
            replication_id: info.get("master_replid").unwrap_or_default().to_owned(),
            synchronised: if acks { synchronised() } else { None },
            uptime_s: info.number("uptime_in_seconds").unwrap_or(0),
        }
    }

    /// The last argument of generation_told.lua.
    pub fn words(&self) -> String {
        let synchronised = self.synchronised.map_or_else(String::new, |times| times.to_string());
        format!("{} {synchronised} {}", self.replication_id, self.uptime_s)
    }

    /// Whether this is the generation that was told before.
    pub fn is_still(&self, before: &Self) -> bool {
        (&self.replication_id, self.synchronised) == (&before.replication_id, before.synchronised)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_generation_is_the_id_and_with_acknowledgements_who_has_come_and_not_for_how_long_it_is_up() {
        let told = |text: &str, acks| Evidence::of(&Info::parse(&text.replace(' ', "\r\n")), acks);
        let before = "master_replid:5b2f sync_full:1 sync_partial_ok:2 uptime_in_seconds:7";
        assert_eq!(told(before, true).words(), "5b2f 3 7");
        assert_eq!(told(before, false).words(), "5b2f  7");
        assert_eq!(told("redis_version:7.0.15", true).words(), "  0");
        for (after, with, without) in [
            ("master_replid:5b2f sync_full:1 sync_partial_ok:2 uptime_in_seconds:8", true, true),
            ("master_replid:5b2f sync_full:1 sync_partial_ok:3 uptime_in_seconds:8", false, true),
            ("master_replid:9c00 sync_full:1 sync_partial_ok:2 uptime_in_seconds:8", false, false),
        ] {
            assert_eq!(told(after, true).is_still(&told(before, true)), with, "{after}");
            assert_eq!(told(after, false).is_still(&told(before, false)), without, "{after}");
        }
    }
}
