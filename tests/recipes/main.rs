//! The recipes of docs/fencing.md and docs/jobs.md that can be run here are run as they stand there.

mod dapr;
mod fencing;
mod schedulers;

use std::fs;

/// The code block of a page, in a language, that contains `mark`.
fn recipe(page: &str, language: &str, mark: &str) -> String {
    let page = fs::read_to_string(testkit::root().join("docs").join(page)).unwrap();
    let begins = format!("```{language}\n");
    let blocks = page.split(&begins).skip(1).filter_map(|rest| rest.split("```").next());
    blocks.filter(|block| block.contains(mark)).map(str::to_owned).next().expect("the page has this recipe")
}
