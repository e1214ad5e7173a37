//! All mutants of the protocol in one package, each behind a number: built once instead of once for each.
//!
//! cargo-mutants says which there are (`--list --json`). A function has the body of each of its mutants beside its own,
//! and takes the one whose number is in `BATON_MUTANT`. What does not compile so is told by the compiler, line by line,
//! and left out.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::ops::Range;
use std::path::Path;

use serde::Deserialize;
use syn::spanned::Spanned;
use syn::visit::Visit;

/// A mutant as cargo-mutants lists it.
#[derive(Clone, Debug, Deserialize)]
pub struct Listed {
    pub file: String,
    /// `FILE:LINE:COLUMN: what is done`
    pub name: String,
    replacement: String,
    span: Extent,
}

/// Lines and columns are counted from 1, columns in characters.
#[derive(Clone, Debug, Deserialize)]
struct Extent {
    start: Place,
    end: Place,
}

#[derive(Clone, Debug, Deserialize)]
struct Place {
    line: usize,
    column: usize,
}

impl Listed {
    /// What is done, without the place.
    pub fn what(&self) -> &str {
        self.name.splitn(4, ':').last().unwrap_or_default().trim()
    }

    /// The line that it begins on, in this text of its file.
    pub fn line<'a>(&self, text: &'a str) -> &'a str {
        text.lines().nth(self.span.start.line - 1).unwrap_or_default().trim()
    }

    /// Where it comes in its file.
    pub fn order(&self) -> (usize, usize) {
        (self.span.start.line, self.span.start.column)
    }

    fn bytes(&self, text: &str) -> Range<usize> {
        let offset = |place: &Place| {
            let before: usize = text.split_inclusive('\n').take(place.line - 1).map(str::len).sum();
            let line = &text[before..];
            before + line.char_indices().nth(place.column - 1).map_or(line.len(), |(at, _)| at)
        };
        offset(&self.span.start)..offset(&self.span.end)
    }
}

/// Bodies of functions that are no part of another's, and whether they can have several: not where they are evaluated
/// by the compiler, or have a type that only the body tells.
#[derive(Default)]
struct Bodies(Vec<(Range<usize>, bool)>);

impl Bodies {
    fn add(&mut self, signature: &syn::Signature, block: &syn::Block) {
        let tells_type = match &signature.output {
            syn::ReturnType::Type(_, returned) => matches!(**returned, syn::Type::ImplTrait(_)),
            syn::ReturnType::Default => false,
        };
        self.0.push((block.span().byte_range(), signature.constness.is_none() && !tells_type));
    }
}

impl<'a> Visit<'a> for Bodies {
    fn visit_item_fn(&mut self, function: &'a syn::ItemFn) {
        self.add(&function.sig, &function.block);
    }

    fn visit_impl_item_fn(&mut self, function: &'a syn::ImplItemFn) {
        self.add(&function.sig, &function.block);
    }

    fn visit_trait_item_fn(&mut self, function: &'a syn::TraitItemFn) {
        if let Some(block) = &function.default {
            self.add(&function.sig, block);
        }
    }
}

/// Where the body of each mutant is in what was written, by its number: its file and its lines.
pub type Written = BTreeMap<usize, (String, Range<usize>)>;

/// Writes this file of `from` below `to` with its mutants, but for those that are left out. They are numbered by their
/// place in the list, from 1.
pub fn write(from: &Path, to: &Path, file: &str, all: &[Listed], left_out: &BTreeSet<usize>) -> Written {
    let text = fs::read_to_string(from.join(file)).expect("a source that cargo-mutants has read");
    let mine = (1..).zip(all).filter(|(number, mutant)| mutant.file == file && !left_out.contains(number));
    let (switched, lines) = switched(&text, mine);
    fs::write(to.join(file), switched).expect("below target/");
    lines.into_iter().map(|(number, lines)| (number, (file.to_owned(), lines))).collect()
}

fn switched<'a>(
    text: &str,
    mutants: impl Iterator<Item = (usize, &'a Listed)>,
) -> (String, BTreeMap<usize, Range<usize>>) {
    let mut bodies = Bodies::default();
    bodies.visit_file(&syn::parse_file(text).expect("it compiles"));
    let mut of_body: BTreeMap<usize, Vec<(usize, &Listed)>> = BTreeMap::new();
    for (number, mutant) in mutants {
        let span = mutant.bytes(text);
        let holds =
            |(body, can_switch): &(Range<usize>, bool)| *can_switch && body.start < span.start && span.end < body.end;
        if let Some(at) = bodies.0.iter().position(holds) {
            of_body.entry(at).or_default().push((number, mutant));
        }
    }
    let (mut out, mut lines, mut done) = (String::new(), BTreeMap::new(), 0);
    for (at, mutants) in of_body {
        let body = bodies.0[at].0.clone();
        out += &text[done..body.start];
        out += "{ match crate::mutant() {\n";
        for (number, mutant) in mutants {
            let span = mutant.bytes(text);
            let begin = out.lines().count() + 1;
            out += &format!(
                "{number} => {}{}{}\n",
                &text[body.start..span.start],
                mutant.replacement,
                &text[span.end..body.end]
            );
            lines.insert(number, begin..out.lines().count() + 1);
        }
        out += &format!("_ => {} }} }}", &text[body.clone()]);
        done = body.end;
    }
    (out + &text[done..], lines)
}

#[test]
fn a_function_has_the_bodies_of_its_mutants_beside_its_own() {
    let text = "const fn a() -> u8 { 1 + 1 }\nfn b(c: u8) -> bool {\n    c < 1\n}\n";
    let mutant = |line, from, to, replacement: &str| Listed {
        file: "a.rs".to_owned(),
        name: "a.rs:3:7: replace < with <= in b".to_owned(),
        replacement: replacement.to_owned(),
        span: Extent { start: Place { line, column: from }, end: Place { line, column: to } },
    };
    let all = [mutant(1, 24, 25, "-"), mutant(3, 7, 8, "<="), mutant(3, 5, 10, "true")];
    let (out, lines) = switched(text, (1..).zip(&all));
    let expected = [
        "const fn a() -> u8 { 1 + 1 }\nfn b(c: u8) -> bool { match crate::mutant() {\n",
        "2 => {\n    c <= 1\n}\n",
        "3 => {\n    true\n}\n",
        "_ => {\n    c < 1\n} } }\n",
    ];
    assert_eq!(out, expected.concat());
    assert_eq!(lines, BTreeMap::from([(2, 3..6), (3, 6..9)]));
    assert_eq!((all[1].what(), all[1].line(text)), ("replace < with <= in b", "c < 1"));
}
