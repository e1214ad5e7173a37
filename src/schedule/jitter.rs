//! A schedule that is moved by a few seconds, so that jobs with the same one do not all start at once.

use std::time::Duration;

use crate::protocol::{Random, fingerprint};

/// How far a job's slots are moved: whole seconds from zero to `within`, always the same for a name, on every replica
/// and in every release, and spread evenly over many names.
pub fn offset_of(name: &str, within: Duration) -> Duration {
    // What spreads similar names is the roll that begins with the fingerprint.
    let rolled = Random::new(fingerprint(name.as_bytes())).between(Duration::ZERO, within + Duration::from_secs(1));
    Duration::from_secs(rolled.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_one_offset_for_ever() {
        let offset = |name| offset_of(name, Duration::from_secs(30)).as_secs();
        assert_eq!([offset("nightly-report"), offset("sweep"), offset("a")], [8, 7, 14]);
    }

    #[test]
    fn names_are_spread_over_the_whole_jitter() {
        let mut counts = [0_u32; 31];
        for number in 0..31_000 {
            let offset = offset_of(&format!("job-{number}"), Duration::from_secs(30)).as_secs();
            counts[usize::try_from(offset).unwrap()] += 1;
        }
        assert!(counts.iter().all(|count| (850..1_150).contains(count)), "{counts:?}");
    }
}
