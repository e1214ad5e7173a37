//! The list of mutants that survive, `survivors.txt`, and what is said of a run.
//!
//! `[FILE]`, then for each of them `WHAT @ LINE` and the reason, further to the right; several may share one. Lines
//! have no numbers, which would change with every line above them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::trial::Verdict;

/// Which mutant.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// From the root of the project.
    pub file: String,
    /// The line that it begins on, as it was.
    pub line: String,
    pub what: String,
    /// Of several that read alike: 1 is the first.
    pub nth: usize,
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{}", self.what)?;
        if self.nth > 1 {
            write!(f, " #{}", self.nth)?;
        }
        write!(f, " @ {}", self.line)
    }
}

/// Those of the list, with the reasons.
pub fn known() -> BTreeMap<Key, String> {
    parse(include_str!("survivors.txt"))
}

fn parse(text: &str) -> BTreeMap<Key, String> {
    let (mut known, mut file, mut without) = (BTreeMap::new(), "", Vec::new());
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            file = name;
        } else if line.starts_with(' ') {
            if !without.is_empty() {
                known.extend(without.drain(..).map(|key| (key, line.trim().to_owned())));
            }
        } else {
            let (what, at) = line.split_once(" @ ").unwrap_or_else(|| panic!("{line} has no line"));
            let (what, nth) = match what.rsplit_once(" #") {
                Some((what, nth)) => (what, nth.parse().expect("a number")),
                None => (what, 1),
            };
            without.push(Key { file: file.to_owned(), line: at.to_owned(), what: what.to_owned(), nth });
        }
    }
    assert!(without.is_empty(), "without a reason: {}", without[0]);
    known
}

/// What survived and is not in the list, and what is in the list and did not survive.
pub fn compare(verdicts: &[(Key, Verdict)], known: &BTreeSet<Key>) -> Vec<String> {
    let survived: BTreeSet<&Key> =
        verdicts.iter().filter(|(_, verdict)| *verdict == Verdict::Survived).map(|(key, _)| key).collect();
    let new = survived.iter().filter(|key| !known.contains(**key));
    let mut complaints: Vec<String> = new.map(|key| format!("survived: [{}] {key}", key.file)).collect();
    let gone = known.iter().filter(|key| !survived.contains(*key));
    complaints.extend(gone.map(|key| format!("in the list, and did not survive: [{}] {key}", key.file)));
    complaints
}

/// A line for each file and one for all; returns how many of a hundred were noticed.
pub fn print(verdicts: &[(Key, Verdict)]) -> f64 {
    let mut files: BTreeMap<&str, BTreeMap<Verdict, usize>> = BTreeMap::new();
    for (key, verdict) in verdicts {
        for name in [key.file.as_str(), "together"] {
            *files.entry(name).or_default().entry(*verdict).or_default() += 1;
        }
    }
    let share = |counts: &BTreeMap<Verdict, usize>| {
        let of = |wanted| counts.get(&wanted).copied().unwrap_or_default();
        let tried = counts.values().sum::<usize>() - of(Verdict::Unviable);
        100.0 * (tried - of(Verdict::Survived)) as f64 / tried.max(1) as f64
    };
    for (file, counts) in &files {
        println!("{:5.1} %  {file}  {counts:?}", share(counts));
    }
    files.get("together").map_or(100.0, share)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_may_share_a_reason_and_each_has_one() {
        let known =
            parse("# why\n[a.rs]\n! gone @ a | b @ c\n! gone #2 @ d\n    The\n    same.\n\n[b.lua]\nx @ y\n  z\n");
        let told: Vec<String> = known.iter().map(|(key, reason)| format!("{} {key}: {reason}", key.file)).collect();
        assert_eq!(told, ["a.rs ! gone @ a | b @ c: The", "a.rs ! gone #2 @ d: The", "b.lua x @ y: z"]);
        assert!(std::panic::catch_unwind(|| parse("[a.rs]\n! gone @ a\n")).is_err());
    }

    #[test]
    fn what_is_not_in_the_list_and_what_is_no_more_is_told() {
        let key = |line: &str| Key { file: "a.rs".to_owned(), line: line.to_owned(), what: "x".to_owned(), nth: 1 };
        let verdicts = [
            (key("new"), Verdict::Survived),
            (key("known"), Verdict::Survived),
            (key("killed"), Verdict::Killed("unit tests")),
        ];
        let known = BTreeSet::from([key("known"), key("killed")]);
        assert_eq!(
            compare(&verdicts, &known),
            ["survived: [a.rs] x @ new", "in the list, and did not survive: [a.rs] x @ killed"]
        );
        assert!((print(&verdicts) - 100.0 / 3.0).abs() < 0.01);
    }
}
