//! Tests wait for states with a bound, and sleep for a fault's own duration only: in testkit, and nowhere else.

use syn::spanned::Spanned;
use syn::visit::{self, Visit};

use crate::assert_none;
use crate::source::is_test_only;
use crate::tree::{TextFile, rust_files};

/// What all helpers that wait are made of: they look again and again, for so long at the most.
const POLLS: [&str; 2] = ["found_within", "wait_until"];
const BOUNDS: &[&str] = &["time::timeout(bound", "elapsed() >= bound"];
/// What lets a fault last.
const FAULT: &str = "last_for";
const FOLDER: &str = "tests/testkit/src/";

struct Reader<'a> {
    file: &'a TextFile,
    test_depth: usize,
    complaints: Vec<String>,
}

impl Reader<'_> {
    fn function(&mut self, attributes: &[syn::Attribute], signature: &syn::Signature, block: &syn::Block) {
        let (first, last) = (block.span().start().line, block.span().end().line);
        let body: Vec<&str> = self.file.text.lines().take(last).skip(first - 1).collect();
        let sleeps = body.iter().any(|line| line.contains("::sleep("));
        let has_bound = BOUNDS.iter().any(|bound| body.iter().any(|line| line.contains(bound)));
        let is_helper = self.file.path.starts_with(FOLDER) && !is_test_only(attributes);
        let polls = POLLS.iter().any(|poll| signature.ident == poll);
        let wrong = match () {
            () if self.test_depth == 0 || !sleeps => return,
            () if is_helper && signature.ident == FAULT => return,
            () if is_helper && polls && has_bound => return,
            () if is_helper && polls => "sleeps without a bound",
            () => "sleeps: wait for a state with testkit's helpers, or let a fault last",
        };
        self.complaints.push(format!("{}:{first}: {} {wrong}", self.file.path, signature.ident));
    }
}

impl<'ast> Visit<'ast> for Reader<'_> {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        let tests = usize::from(is_test_only(&item.attrs));
        self.test_depth += tests;
        visit::visit_item_mod(self, item);
        self.test_depth -= tests;
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.function(&item.attrs, &item.sig, &item.block);
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.function(&item.attrs, &item.sig, &item.block);
        visit::visit_impl_item_fn(self, item);
    }
}

fn check(file: &TextFile) -> Vec<String> {
    let is_test = file.path.starts_with("tests/") || file.path.contains("/tests/") || file.path.ends_with("/tests.rs");
    let mut reader = Reader { file, test_depth: usize::from(is_test), complaints: Vec::new() };
    reader.visit_file(&syn::parse_file(&file.text).expect("it parses"));
    reader.complaints
}

#[test]
fn tests_wait_for_states_with_a_bound_and_sleep_only_as_long_as_a_fault_lasts() {
    // This file's examples are text, and its rule a string.
    let checked = rust_files("").into_iter().filter(|file| file.path != "tests/house/sleeps.rs");
    assert_none("sleeps", checked.flat_map(|file| check(&file)).collect());
}

#[test]
fn the_checker_of_sleeps_complains_about_bad_examples() {
    let complaints = |path: &str, text: &str| check(&TextFile { path: path.to_owned(), text: text.to_owned() }).len();
    let nap = "thread::sleep(NAP);";
    let kit = "tests/testkit/src/a.rs";
    let polls = |name: &str| format!("fn {name}() {{ while begun.elapsed() >= bound {{ {nap} }} }}");
    assert_eq!(complaints(kit, &polls("found_within")), 0);
    assert_eq!(complaints(kit, &polls("until")), 1, "one more of the same");
    assert_eq!(complaints("tests/a.rs", &polls("found_within")), 1, "one more of the same");
    assert_eq!(complaints(kit, &format!("fn found_within() {{ loop {{ look(); {nap} }} }}")), 1, "no bound");
    assert_eq!(complaints(kit, &format!("fn last_for(span: Duration) {{ {nap} }}")), 0);
    assert_eq!(complaints("tests/a.rs", &format!("fn last_for(span: Duration) {{ {nap} }}")), 1);
    assert_eq!(complaints("tests/a.rs", &format!("#[test] fn a_lease_ends() {{ {nap} }}")), 1, "hopes");
    assert_eq!(complaints("tests/a.rs", &format!("impl X {{ fn look(&self) {{ {nap} }} }}")), 1);
    assert_eq!(complaints("src/a.rs", &format!("fn back_off() {{ {nap} }}")), 0, "no test");
    assert_eq!(complaints("src/a/tests/b.rs", &format!("fn pause() {{ {nap} }}")), 1);
    assert_eq!(complaints("src/a.rs", &format!("#[cfg(test)] mod tests {{ fn pause() {{ {nap} }} }}")), 1);
}
