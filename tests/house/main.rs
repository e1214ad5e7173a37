//! The house rules, as tests: floors, tidiness, and words that stay true. Each checker is a function from text to
//! complaints, and each is shown a bad example first: a checker that cannot complain proves nothing.

mod docs;
mod floors;
mod glossary;
mod image;
mod map;
mod optimisations;
mod parts;
mod releases;
mod rules;
mod scale;
mod scripts;
mod sections;
mod sleeps;
mod source;
mod tidy;
mod traits;
mod tree;
mod types;
mod workflows;

/// Fails with all complaints at once, one a line.
fn assert_none(rule: &str, complaints: Vec<String>) {
    assert!(complaints.is_empty(), "{rule}:\n  {}\n", complaints.join("\n  "));
}
