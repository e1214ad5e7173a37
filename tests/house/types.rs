//! Types: one public name means one thing, and what a type can do is told where the type is.

use std::collections::BTreeMap;

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};

use crate::assert_none;
use crate::source::module_of;
use crate::tree::rust_files;

/// Public names that are given to more than one type, and why.
const SHARED_NAMES: &[(&str, &str)] = &[("Traces", "one is compiled with the feature `otel`, the other without")];

/// Types whose `impl` blocks are in files of others, and why.
const SPREAD_TYPES: &[(&str, &str)] = &[];

/// What a file tells of types.
#[derive(Default)]
struct Types {
    /// `pub struct`, `enum`, `trait` and `type`, outside of tests.
    public: Vec<String>,
    /// Every one, whoever may name it.
    all: Vec<String>,
    /// `impl X { … }`: the type's name. Implementations of traits may be where the trait is.
    inherent: Vec<String>,
}

impl Types {
    fn define(&mut self, visibility: &syn::Visibility, name: &syn::Ident) {
        self.all.push(name.to_string());
        if matches!(visibility, syn::Visibility::Public(_)) {
            self.public.push(name.to_string());
        }
    }

    fn define_in(&mut self, tokens: TokenStream) {
        let mut last = String::new();
        for token in tokens {
            match token {
                TokenTree::Group(group) => {
                    last.clear();
                    self.define_in(group.stream());
                }
                TokenTree::Ident(name) if matches!(last.as_str(), "enum" | "struct") => {
                    self.all.push(name.to_string());
                    self.public.push(name.to_string());
                    last.clear();
                }
                TokenTree::Ident(word) => last = word.to_string(),
                TokenTree::Punct(_) | TokenTree::Literal(_) => last.clear(),
            }
        }
    }
}

impl<'ast> Visit<'ast> for Types {
    fn visit_item_struct(&mut self, item: &'ast syn::ItemStruct) {
        self.define(&item.vis, &item.ident);
    }

    fn visit_item_enum(&mut self, item: &'ast syn::ItemEnum) {
        self.define(&item.vis, &item.ident);
    }

    fn visit_item_trait(&mut self, item: &'ast syn::ItemTrait) {
        self.define(&item.vis, &item.ident);
    }

    fn visit_item_type(&mut self, item: &'ast syn::ItemType) {
        self.define(&item.vis, &item.ident);
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        if item.trait_.is_none()
            && let syn::Type::Path(path) = &*item.self_ty
            && let Some(last) = path.path.segments.last()
        {
            self.inherent.push(last.ident.to_string());
        }
    }

    /// A macro's `enum X` is defined where the macro is written.
    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        self.define_in(call.tokens.clone());
    }

    /// Tests name their stages as they like.
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if item.ident != "tests" {
            visit::visit_item_mod(self, item);
        }
    }
}

fn types_in(text: &str) -> Types {
    let mut types = Types::default();
    types.visit_file(&syn::parse_file(text).expect("it compiles"));
    types
}

/// Complaints about names that several files give to types: path and text of each.
fn check_names(files: &[(String, Types)], shared: &[(&str, &str)]) -> Vec<String> {
    let mut places: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (path, types) in files {
        types.public.iter().for_each(|name| places.entry(name).or_default().push(path));
    }
    let excused = |name: &str| shared.iter().any(|(other, _)| *other == name);
    let twice = |name: &str| places.get(name).is_some_and(|paths| paths.len() > 1);
    let many = places.iter().filter(|(name, paths)| paths.len() > 1 && !excused(name));
    let many = many.map(|(name, paths)| format!("{name} is another thing in each of {}", paths.join(", ")));
    let idle = shared.iter().filter(|(name, _)| !twice(name)).map(|(name, _)| format!("{name} needs no excuse"));
    many.chain(idle).collect()
}

/// Complaints about `impl` blocks outside the file of their type and what is below it: its module's files.
fn check_impls(files: &[(String, Types)], spread: &[(&str, &str)]) -> Vec<String> {
    let homes = |name: &str| -> Vec<Vec<&str>> {
        let defining = files.iter().filter(|(_, types)| types.all.iter().any(|other| other == name));
        defining.map(|(path, _)| module_of(path)).collect()
    };
    let mut found: Vec<(&str, String)> = Vec::new();
    for (path, types) in files {
        for name in &types.inherent {
            let at_home = homes(name).iter().any(|home| module_of(path).starts_with(home));
            if !at_home {
                found.push((name, format!("{path} says what {name} can do, which is defined elsewhere")));
            }
        }
    }
    let idle = spread.iter().filter(|(name, _)| !found.iter().any(|(other, _)| other == name));
    let idle: Vec<String> = idle.map(|(name, _)| format!("{name} needs no excuse")).collect();
    let excused = |name: &str| spread.iter().any(|(other, _)| *other == name);
    found.into_iter().filter(|(name, _)| !excused(name)).map(|(_, words)| words).chain(idle).collect()
}

fn all() -> Vec<(String, Types)> {
    let files = rust_files("src/").into_iter().filter(|file| !file.path.contains("/tests"));
    files.map(|file| (file.path.clone(), types_in(&file.text))).collect()
}

#[test]
fn a_public_name_means_one_thing() {
    assert_none("one public name, one meaning", check_names(&all(), SHARED_NAMES));
}

#[test]
fn what_a_type_can_do_is_told_where_the_type_is() {
    assert_none("impl blocks are in the type's file, or below it", check_impls(&all(), SPREAD_TYPES));
}

#[test]
fn the_checkers_of_types_complain_about_bad_examples() {
    let files = |texts: &[(&str, &str)]| -> Vec<(String, Types)> {
        texts.iter().map(|(path, text)| ((*path).to_owned(), types_in(text))).collect()
    };
    let two = files(&[("src/a.rs", "pub struct Answer;"), ("src/b.rs", "pub enum Answer {}")]);
    assert_eq!(check_names(&two, &[]).len(), 1);
    assert_eq!(check_names(&two, &[("Answer", "two sides")]).len(), 0);
    assert_eq!(check_names(&two[..1], &[("Answer", "two sides")]).len(), 1, "an excuse that nobody needs");
    let hidden = files(&[("src/a.rs", "pub struct A;"), ("src/b.rs", "struct A; mod tests { pub struct A; }")]);
    assert_eq!(check_names(&hidden, &[]).len(), 0);
    let made = files(&[("src/a.rs", "macro_rules! m { () => { pub enum A {} } }"), ("src/b.rs", "pub struct A;")]);
    assert_eq!(check_names(&made, &[]).len(), 1);

    let impls = |texts: &[(&str, &str)]| check_impls(&files(texts), &[]).len();
    assert_eq!(impls(&[("src/a/mod.rs", "struct A;"), ("src/a/b.rs", "impl super::A {}")]), 0);
    assert_eq!(impls(&[("src/a.rs", "struct A;"), ("src/b.rs", "impl A {}")]), 1);
    assert_eq!(impls(&[("src/a.rs", "struct A;"), ("src/b.rs", "impl Display for A {}")]), 0);
}
