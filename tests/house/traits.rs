//! Seams: an adapter of a store, and the protocol's own, answers every question itself. With a default one could be
//! forgotten, and its store be run under the rules of another.

use syn::visit::{self, Visit};

use crate::assert_none;
use crate::tree::rust_files;

/// Where a forgotten method costs safety.
const SEAMS: &[&str] = &["src/store/", "src/protocol/"];

/// Methods with a body, as `Trait::method`.
#[derive(Default)]
struct Defaults(Vec<String>);

impl<'ast> Visit<'ast> for Defaults {
    fn visit_item_trait(&mut self, item: &'ast syn::ItemTrait) {
        for member in &item.items {
            if matches!(item.vis, syn::Visibility::Public(_))
                && let syn::TraitItem::Fn(method) = member
                && method.default.is_some()
            {
                self.0.push(format!("{}::{}", item.ident, method.sig.ident));
            }
        }
        visit::visit_item_trait(self, item);
    }
}

fn check(path: &str, text: &str) -> Vec<String> {
    let mut defaults = Defaults::default();
    defaults.visit_file(&syn::parse_file(text).expect("it compiles"));
    defaults.0.into_iter().map(|method| format!("{path}: {method} has a default")).collect()
}

#[test]
fn a_seam_has_no_defaults() {
    let files = rust_files("src/").into_iter().filter(|file| SEAMS.iter().any(|seam| file.path.starts_with(seam)));
    assert_none("every adapter says it itself", files.flat_map(|file| check(&file.path, &file.text)).collect());
}

#[test]
fn the_checker_of_seams_complains_about_bad_examples() {
    assert_eq!(check("a.rs", "pub trait Store { fn rules(&self) -> Rules; }").len(), 0);
    assert_eq!(
        check("a.rs", "pub trait Store { fn rules(&self) -> Rules { Rules::REDIS } }"),
        ["a.rs: Store::rules has a default"]
    );
}
