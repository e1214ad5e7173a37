//! What the operations amount to: the judge in `judge/` is Porcupine with two models, a lock and a counter.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use testkit::root;

use crate::history::Operation;

/// Of one epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// No order of holds, one after the other, explains what the libraries said.
    pub two_holders: bool,
    /// No order of increments explains what was read and written: one is lost.
    pub plain_lost: bool,
    pub fenced_lost: bool,
}

/// What runs write down.
pub fn folder() -> PathBuf {
    let folder = root().join("target/jepsen");
    fs::create_dir_all(&folder).expect("target can be written");
    folder
}

/// The judge's program, built if it is not there.
///
/// # Panics
/// When it cannot be built.
fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let program = folder().join("judge");
        let mut command = Command::new("go");
        command.args(["build", "-trimpath", "-buildvcs=false", "-o"]).arg(&program).arg(".");
        let status = command.current_dir(root().join("tests/jepsen/judge")).stdin(Stdio::null()).status();
        assert!(status.expect("Go is installed").success(), "the judge cannot be built");
        program
    })
}

/// Judges, by epoch. The operations stay in `target/jepsen/NAME.jsonl`.
///
/// # Panics
/// When the judge fails, or cannot decide.
pub fn judge(name: &str, operations: &[Operation]) -> BTreeMap<usize, Verdict> {
    let line = |operation| serde_json::to_string(operation).expect("JSON") + "\n";
    let path = folder().join(format!("{name}.jsonl"));
    fs::write(&path, operations.iter().map(line).collect::<String>()).expect("target can be written");
    let output = Command::new(program()).stdin(File::open(&path).expect("just written")).output().expect("it is built");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut verdicts: BTreeMap<usize, Verdict> = BTreeMap::new();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let [epoch, of, result] = words[..] else { panic!("the judge says {line:?}") };
        let verdict = verdicts.entry(epoch.parse().expect("an epoch")).or_default();
        let is_broken = match result {
            "Ok" => false,
            "Illegal" => true,
            other => panic!("{path:?}: the judge says {other} of {epoch} {of}"),
        };
        match of {
            "lock" => verdict.two_holders = is_broken,
            "plain" => verdict.plain_lost = is_broken,
            "fenced" => verdict.fenced_lost = is_broken,
            other => panic!("there is no {other}"),
        }
    }
    verdicts
}

#[cfg(test)]
mod tests {
    use crate::history::{Entry, Epoch, Event, operations};

    use super::*;

    const EPOCH: Epoch = Epoch { number: 1, from: 0, to: 1_000 };

    fn judged(name: &str, told: &[(usize, Event)], killed: &[(usize, u64)]) -> Verdict {
        let entries: Vec<Entry> = told.iter().map(|&(client, event)| Entry { client, event }).collect();
        let killed = killed.iter().copied().collect();
        judge(&format!("test-{name}"), &operations(&entries, &[EPOCH], &killed)).remove(&1).unwrap_or_default()
    }

    fn held(client: usize, call: u64) -> (usize, Event) {
        (client, Event::Held { call, back: call + 1, until: None })
    }

    fn until(client: usize, call: u64, until: u64) -> (usize, Event) {
        (client, Event::Held { call, back: call + 1, until: Some(until) })
    }

    fn lost(client: usize, call: u64) -> (usize, Event) {
        (client, Event::Lost { call })
    }

    fn is_held_by_two(name: &str, told: &[(usize, Event)], killed: &[(usize, u64)]) -> bool {
        judged(name, told, killed).two_holders
    }

    #[test]
    fn a_lock_that_goes_from_one_to_the_other_and_back_is_held_by_one_at_a_time() {
        let told = [held(1, 10), held(1, 20), held(2, 30), held(2, 40), lost(1, 50), lost(2, 60), held(1, 70)];
        assert!(!is_held_by_two("turns", &told, &[]), "asked before another had it, and not since");
    }

    #[test]
    fn who_says_yes_before_and_after_another_does_held_it_together_with_it() {
        assert!(is_held_by_two("pause", &[held(1, 10), held(2, 30), held(2, 40), held(1, 50)], &[]));
        let told = [held(1, 10), held(2, 30), held(2, 40), lost(1, 45), held(1, 50)];
        assert!(!is_held_by_two("noticed", &told, &[]), "it has said no in between");
    }

    #[test]
    fn a_claim_with_an_end_stands_until_then_or_until_its_process_is_killed() {
        let told = [until(1, 10, 30), held(2, 40), held(2, 50)];
        assert!(!is_held_by_two("ended", &told, &[]));
        let told = [until(1, 10, 45), held(2, 40), held(2, 50)];
        assert!(is_held_by_two("stands", &told, &[]));
        assert!(!is_held_by_two("killed", &told, &[(1, 35)]));
    }

    /// Reads this at `call`, and writes one more until `back`.
    fn step(client: usize, call: u64, read: u64, back: Option<u64>, accepted: bool) -> Vec<(usize, Event)> {
        let begin = Event::Begin { call, epoch: 1, plain: read, fenced: Some(read) };
        let end = back.map(|back| (client, Event::End { back, accepted }));
        [(client, begin)].into_iter().chain(end).collect()
    }

    #[test]
    fn two_increments_of_one_value_lose_one_unless_one_was_refused() {
        let verdict = |name, steps: &[Vec<(usize, Event)>]| {
            let Verdict { plain_lost, fenced_lost, .. } = judged(name, &steps.concat(), &[]);
            (plain_lost, fenced_lost)
        };
        let first = step(1, 10, 0, Some(20), true);
        let whole = [first.clone(), step(2, 30, 1, Some(40), true), step(1, 50, 2, Some(60), true)];
        assert_eq!(verdict("whole", &whole), (false, false));
        let late = [step(1, 10, 0, Some(90), true), step(2, 30, 0, Some(40), true), step(2, 50, 1, Some(60), true)];
        assert_eq!(verdict("late", &late), (true, true));
        let refused = [step(1, 10, 0, Some(90), false), step(2, 30, 0, Some(40), true)];
        assert_eq!(verdict("refused", &refused), (true, false));
        let unknown = [first.clone(), step(2, 30, 1, None, false), step(3, 50, 1, Some(60), true)];
        assert_eq!(verdict("unknown", &unknown), (false, false), "never written");
        let unknown = [first, step(2, 30, 1, None, false), step(3, 50, 2, Some(60), true)];
        assert_eq!(verdict("written", &unknown), (false, false), "written");
    }
}
