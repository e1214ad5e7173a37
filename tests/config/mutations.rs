//! Whatever the file holds, checking it ends in a configuration or in problems, never in a panic.

use baton::config::{AbsentFiles, check_text};

use crate::support::{BASE, environment, samples};

/// Every run tries the same texts; another seed tries others.
const SEED: u64 = 0x5eed_0001;
const ROUNDS: usize = 3_000;

/// xorshift64*: enough to mix texts up.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        usize::try_from(self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33).unwrap() % end.max(1)
    }

    fn one<'a, T: ?Sized>(&mut self, choices: &[&'a T]) -> &'a T {
        choices[self.below(choices.len())]
    }
}

/// What YAML, durations, URLs and expansion find hard.
const PIECES: &[&str] = &[
    "{",
    "}",
    "[",
    "]",
    ":",
    ": ",
    "- ",
    "?",
    "? ",
    "&a ",
    "*a",
    "!t ",
    "!!str ",
    "|",
    ">",
    "|2\n",
    "%",
    "@",
    "`",
    "\"",
    "'",
    "#",
    "\t",
    "\n",
    "\r",
    "\n  ",
    "\n---\n",
    "\n...\n",
    "%YAML 1.2\n---\n",
    "${",
    "${A}",
    "${A:-",
    "$$",
    "$(",
    "0s",
    "1e999s",
    "18446744073709551616",
    "-1",
    ".inf",
    ".nan",
    "0x10",
    "~",
    "null",
    "true",
    "off",
    "\u{0}",
    "\u{7f}",
    "\u{feff}",
    "\u{2028}",
    "ä",
    "👑",
    "redis://",
    "redis://[",
    "redis://:%ff@a",
    "://",
    "<<: *a",
    "9999999999999999999h",
    "0.0000000001h",
    "\\x",
];

fn mutate(random: &mut Random, text: &str) -> String {
    let mut chars: Vec<char> = text.chars().collect();
    for _ in 0..=random.below(4) {
        let at = random.below(chars.len() + 1);
        let to = (at + random.below(12)).min(chars.len());
        match random.below(5) {
            0 => drop(chars.drain(at..to)),
            1 => drop(chars.splice(at..at, random.one(PIECES).chars())),
            2 => drop(chars.splice(at..to, random.one(PIECES).chars())),
            3 => {
                let copy: Vec<char> = chars[at..to].to_vec();
                let target = random.below(chars.len() + 1);
                drop(chars.splice(target..target, copy));
            }
            _ => chars.truncate(at.max(1)),
        }
    }
    chars.into_iter().collect()
}

#[test]
fn no_text_makes_the_check_panic() {
    let mut texts: Vec<String> = samples().into_iter().map(|(_, text)| text).collect();
    texts.push(BASE.to_owned());
    let environment = environment(&[("A", "\u{0}: [")]).absent_files(AbsentFiles::Warn);
    let mut random = Random(SEED);
    let (mut good, mut bad) = (0, 0);
    for round in 0..ROUNDS {
        let base = random.below(texts.len());
        let text = mutate(&mut random, &texts[base]);
        // Shown by the harness only if the check panics.
        println!("round {round}: {text:?}");
        match check_text(&text, "config.yaml", &environment) {
            Ok(_) => good += 1,
            Err(error) => {
                bad += 1;
                assert!(!error.problems().is_empty(), "refused without a reason: {text:?}");
                assert!(error.problems().iter().all(|problem| !problem.message.is_empty()), "{text:?}");
                // What libyaml takes for the end of a line.
                let lines = text.matches(['\n', '\r', '\u{85}', '\u{2028}', '\u{2029}']).count() + 1;
                let within = error.problems().iter().all(|problem| problem.line.is_none_or(|line| line <= lines));
                assert!(within, "a line beyond the file: {text:?}\n{error}");
            }
        }
    }
    assert!(good > 50 && bad > 50, "the mutations try too little: {good} good, {bad} bad");
}

#[test]
fn deep_and_wide_texts_are_refused_not_overflowed() {
    for text in [
        // Nested flow collections cost libyaml the square of their depth, so not too deep here.
        "[".repeat(10_000),
        "{a: ".repeat(5_000),
        "- ".repeat(50_000),
        format!("identity: {}", "[".repeat(127)),
        format!("{}1{}", "{a: ".repeat(127), "}".repeat(127)),
        format!("{}1{}", "[".repeat(500), "]".repeat(500)),
        format!("roles: [{}]", "a, ".repeat(60_000)),
        format!("roles: [{}]", "{}, ".repeat(120_000)),
        format!("{}: 1", "k".repeat(500_000)),
        "a: 1\n".repeat(50_000),
    ] {
        let Err(error) = check_text(&text, "config.yaml", &environment(&[])) else { panic!("accepted") };
        assert!((1..=100).contains(&error.problems().len()), "{}", error.problems().len());
        assert!(error.to_string().lines().count() <= 102);
    }
}
