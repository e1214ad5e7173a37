//! The README shows the examples as they are.

#[test]
fn the_readme_shows_the_examples_verbatim() {
    let readme = include_str!("../README.md");
    for (name, text) in [
        ("leader", include_str!("../examples/leader.rs")),
        ("terminated", include_str!("../examples/terminated.rs")),
        ("lock", include_str!("../examples/lock.rs")),
        ("jobs", include_str!("../examples/jobs.rs")),
    ] {
        assert!(readme.contains(&format!("```rust\n{text}```\n")), "examples/{name}.rs");
    }
}
