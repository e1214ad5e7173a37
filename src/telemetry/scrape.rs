//! A scrape, piece by piece: what has no role first made and then told, what has roles made for some of them at a time.

use std::collections::BTreeMap;

use prometheus::TextEncoder;
use prometheus::proto::MetricFamily;

use super::labels::Reading;
use super::metrics::Metrics;
use super::roles::RoleFamily;
use crate::protocol::RoleName;

/// How many roles are in one piece.
const ROLES_MAX: usize = 100;

/// See the module.
pub struct Scrape {
    /// What is still to be told, the last first.
    parts: Vec<Part>,
    readings: BTreeMap<RoleName, Reading>,
}

/// A family, or what is left of it.
enum Part {
    Built(Box<MetricFamily>),
    /// The roles after this one.
    OfRoles(RoleFamily, Option<RoleName>),
}

impl Scrape {
    /// With these families besides those of roles.
    pub(super) fn new(families: Vec<MetricFamily>, readings: Vec<Reading>) -> Self {
        let built = families.into_iter().map(|family| (family.name().to_owned(), Part::Built(Box::new(family))));
        let of_roles = RoleFamily::ALL.map(|family| (family.describe().0.to_owned(), Part::OfRoles(family, None)));
        let mut parts: Vec<_> = built.chain(of_roles).collect();
        parts.sort_by(|a, b| b.0.cmp(&a.0));
        let parts = parts.into_iter().map(|(_, part)| part).collect();
        let readings = readings.into_iter().map(|reading| (reading.role.clone(), reading)).collect();
        Self { parts, readings }
    }

    /// Whether it is long enough for pieces to be worth their while.
    pub fn is_long(&self) -> bool {
        self.readings.len() > ROLES_MAX
    }

    /// All of it.
    ///
    /// # Errors
    /// As [`Metrics::render`].
    pub fn text(mut self, metrics: &Metrics) -> prometheus::Result<String> {
        let mut text = String::new();
        while let Some(piece) = self.next_piece(metrics)? {
            text.push_str(&piece);
        }
        Ok(text)
    }

    /// The next piece of text, of the same metrics each time; none at the end. It may be empty.
    ///
    /// # Errors
    /// As [`Metrics::render`].
    pub fn next_piece(&mut self, metrics: &Metrics) -> prometheus::Result<Option<String>> {
        let Some(part) = self.parts.pop() else { return Ok(None) };
        match part {
            Part::Built(family) => encode(*family, true).map(Some),
            Part::OfRoles(family, after) => {
                let roles = metrics.some_roles(after.as_ref(), ROLES_MAX);
                if roles.len() == ROLES_MAX {
                    self.parts.push(Part::OfRoles(family, roles.last().cloned()));
                }
                encode(roles.family(family, &self.readings), after.is_none()).map(Some)
            }
        }
    }
}

/// A family's text; without its help and type where it goes on.
fn encode(family: MetricFamily, begins: bool) -> prometheus::Result<String> {
    let mut text = String::new();
    // A family without a role yet has nothing to say, and its encoder refuses to say it.
    if !family.get_metric().is_empty() {
        TextEncoder::new().encode_utf8(&[family], &mut text)?;
    }
    if !begins {
        let head: usize = text.split_inclusive('\n').take_while(|line| line.starts_with('#')).map(str::len).sum();
        text.drain(..head);
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;

    #[test]
    fn many_roles_come_in_pieces_and_none_is_left_out_or_told_twice() {
        let metrics = Metrics::new(Timestamp::UNIX_EPOCH);
        let name = |n: usize| RoleName::new(format!("role-{n}")).unwrap();
        let count = ROLES_MAX * 2 + ROLES_MAX / 2;
        (0..count).for_each(|n| metrics.add_role(&name(n)));
        let readings: Vec<Reading> = (0..count).map(|n| Reading { role: name(n), leading: None }).collect();
        let mut scrape = metrics.scrape(readings.clone(), true).unwrap();
        assert!(scrape.is_long());
        let (mut text, mut longest) = (String::new(), 0);
        while let Some(piece) = scrape.next_piece(&metrics).unwrap() {
            longest = longest.max(piece.len());
            text.push_str(&piece);
        }
        assert!(longest < text.len() / 4, "a piece of {longest} bytes, of {}", text.len());
        for family in ["baton_leader", "baton_transitions_total", "baton_renewal_duration_seconds_count"] {
            let mut series: Vec<&str> = text.lines().filter(|line| line.starts_with(&format!("{family}{{"))).collect();
            series.sort_unstable();
            series.dedup();
            assert_eq!(series.len(), count, "{family}");
        }
        for head in ["# HELP baton_leader ", "# TYPE baton_leader "] {
            assert_eq!(text.matches(head).count(), 1, "{head}");
        }
    }

    #[test]
    fn a_number_of_roles_that_fills_its_pieces_ends_with_them() {
        let metrics = Metrics::new(Timestamp::UNIX_EPOCH);
        (0..ROLES_MAX).for_each(|n| metrics.add_role(&RoleName::new(format!("role-{n}")).unwrap()));
        let text = metrics.render(&[], true).unwrap();
        assert_eq!(text.lines().filter(|line| line.starts_with("baton_leader{")).count(), ROLES_MAX);
        assert!(!metrics.scrape(Vec::new(), true).unwrap().is_long());
    }
}
