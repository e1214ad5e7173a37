//! What the templates of a run's body stand for.

use super::Assignment;
use crate::protocol::jobs::Wall;

/// `template` with `{{run}}`, `{{job}}`, `{{scheduledTime}}`, `{{attempt}}` and `{{token}}` replaced by their values,
/// none of which holds anything that JSON would have to escape; `{{shard}}` by the number of the shard; and `{{data}}`
/// by what the run was given, which is JSON itself (`null` where it is nothing). All else stays as it is.
pub fn fill(template: &str, assignment: &Assignment) -> String {
    let mut filled = String::with_capacity(template.len());
    let mut rest = template;
    while let Some((before, after)) = rest.split_once("{{") {
        filled.push_str(before);
        let named = after.split_once("}}").and_then(|(name, behind)| Some((value(name, assignment)?, behind)));
        match named {
            Some((value, behind)) => {
                filled.push_str(&value);
                rest = behind;
            }
            None => {
                // One brace only: the second may be the first of another pair.
                filled.push('{');
                rest = &rest[before.len() + 1..];
            }
        }
    }
    filled.push_str(rest);
    filled
}

fn value(name: &str, assignment: &Assignment) -> Option<String> {
    Some(match name {
        "run" => assignment.run.to_string(),
        "job" => assignment.run.job.job().to_owned(),
        "shard" => assignment.shard.map(|number| number.to_string()).unwrap_or_default(),
        "scheduledTime" => rfc3339(assignment.scheduled),
        "attempt" => assignment.attempt.to_string(),
        "token" => assignment.token.to_string(),
        "data" => assignment.data.as_deref().unwrap_or("null").to_owned(),
        _ => return None,
    })
}

/// `2026-11-20T02:00:00Z`, with a fraction where there is one.
pub fn rfc3339(moment: Wall) -> String {
    let ms = i64::try_from(moment.as_millis()).unwrap_or(i64::MAX);
    // No clock comes near the end of jiff's time, in the year 9999.
    jiff::Timestamp::from_millisecond(ms).unwrap_or(jiff::Timestamp::MAX).to_string()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::tests::assignment;
    use super::*;

    #[test]
    fn a_template_is_filled_in_once_and_what_it_does_not_know_stays() {
        let assignment = assignment();
        let filled = |template| fill(template, &assignment);
        assert_eq!(
            filled(r#"{"run":"{{run}}","at":"{{scheduledTime}}","n":{{attempt}},"token":{{token}}}"#),
            r#"{"run":"nightly-1763690400","at":"2025-11-21T02:00:00Z","n":2,"token":1763690400000007}"#
        );
        assert_eq!(filled("{{job}}{{job}}"), "nightlynightly");
        for same in ["", "{{", "}}", "{{runs}}", "{{ run }}", "{{run}", "{}{ {", "{{\u{e9}}}"] {
            assert_eq!(filled(same), same);
        }
        assert_eq!(filled("{{{job}}}"), "{nightly}");
        assert_eq!(filled("{{x}}{{{{job}}"), "{{x}}{{nightly");
    }

    #[test]
    fn what_a_run_was_given_stands_there_as_it_came_and_is_no_template() {
        let given = |data: Option<&str>| Assignment { data: data.map(Arc::from), ..assignment() };
        assert_eq!(fill("{\"given\":{{data}}}", &given(None)), "{\"given\":null}");
        assert_eq!(fill("[{{data}},{{attempt}}]", &given(Some(r#"{"a":"{{run}}"}"#))), r#"[{"a":"{{run}}"},2]"#);
    }

    #[test]
    fn a_run_of_a_shard_knows_its_number() {
        let mut assignment = Assignment { shard: Some(3), ..assignment() };
        assignment.run.job = assignment.run.job.on_shard(3);
        assert_eq!(fill("{{job}} {{shard}} {{run}}", &assignment), "nightly 3 nightly/3-1763690400");
    }

    #[test]
    fn moments_are_told_in_utc() {
        assert_eq!(rfc3339(Wall::from_millis(1_763_690_400_123)), "2025-11-21T02:00:00.123Z");
        assert_eq!(rfc3339(Wall::from_millis(u64::MAX)), "9999-12-30T22:00:00.999999999Z");
    }
}
