//! Rust source as the compiler sees it: which paths it names, which macros it calls, how long its functions are.

use proc_macro2::{TokenStream, TokenTree};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

/// What a file says.
#[derive(Default)]
pub struct Facts {
    /// Every path named, as segments, `crate`, `self` and `super` resolved where they begin it.
    pub paths: Vec<Named>,
    /// Every macro called.
    pub macros: Vec<Named>,
    /// Every function outside test modules: name, first line, number of lines without the rows of a match table.
    pub functions: Vec<(String, usize, usize)>,
    /// Lines of `#[ignore]` attributes without a reason.
    pub bare_ignores: Vec<usize>,
    /// `mod x;`: the modules that are files of their own, as paths from the crate's root.
    pub mod_files: Vec<Vec<String>>,
}

/// A path at a line.
pub struct Named {
    pub segments: Vec<String>,
    pub line: usize,
    /// Inside `#[cfg(test)]` or `#[test]`.
    pub in_test: bool,
}

/// Reads a file. `module` is where it stands: `["role", "handle"]`; empty for a crate's root.
pub fn facts(text: &str, module: &[&str]) -> Facts {
    let file = syn::parse_file(text).unwrap_or_else(|error| panic!("{module:?} does not parse: {error}"));
    let module = module.iter().map(|&s| s.to_owned()).collect();
    let mut reader = Reader { module, test_depth: 0, facts: Facts::default() };
    reader.visit_file(&file);
    reader.facts
}

/// Where a file of `src/` stands: `src/role/handle.rs` and `src/role/handle/mod.rs` are both `["role", "handle"]`.
pub fn module_of(path: &str) -> Vec<&str> {
    let inner = path.trim_start_matches("src/").trim_end_matches(".rs");
    let mut segments: Vec<&str> = inner.split('/').collect();
    if matches!(segments.last(), Some(&("mod" | "lib" | "main"))) {
        segments.pop();
    }
    segments
}

/// An arm of more lines is code of its own, not a row of a table.
const ROW_LINES_MAX: usize = 10;

struct Reader {
    module: Vec<String>,
    test_depth: usize,
    facts: Facts,
}

impl Reader {
    fn name(&mut self, segments: Vec<String>, line: usize) {
        let resolved = self.resolve(segments);
        self.facts.paths.push(Named { segments: resolved, line, in_test: self.test_depth > 0 });
    }

    /// `self::a`, `super::a` and `crate::a` as `crate::<module>::a`; others as they are.
    fn resolve(&self, segments: Vec<String>) -> Vec<String> {
        let supers = segments.iter().take_while(|s| *s == "super").count();
        let from_self = usize::from(segments.first().is_some_and(|s| s == "self"));
        if supers + from_self == 0 {
            return segments;
        }
        let up = self.module.len().saturating_sub(supers);
        let here = self.module[..up].iter().cloned();
        let rest = segments.into_iter().skip(supers + from_self);
        std::iter::once("crate".to_owned()).chain(here).chain(rest).collect()
    }

    fn use_tree(&mut self, tree: &syn::UseTree, prefix: &[String]) {
        let with = |ident: &syn::Ident| [prefix, &[ident.to_string()]].concat();
        match tree {
            syn::UseTree::Path(path) => self.use_tree(&path.tree, &with(&path.ident)),
            syn::UseTree::Name(name) => self.name(with(&name.ident), name.ident.span().start().line),
            syn::UseTree::Rename(rename) => self.name(with(&rename.ident), rename.ident.span().start().line),
            syn::UseTree::Glob(glob) => self.name(prefix.to_vec(), glob.span().start().line),
            syn::UseTree::Group(group) => group.items.iter().for_each(|item| self.use_tree(item, prefix)),
        }
    }

    /// Macros keep their tokens unread, so paths in them are found by their shape: `a::b::c`.
    fn tokens(&mut self, tokens: TokenStream) {
        let mut run: Vec<String> = Vec::new();
        let (mut colons, mut line) = (0, 0);
        for token in tokens {
            match token {
                TokenTree::Ident(ident) if run.is_empty() || colons == 2 => {
                    line = if run.is_empty() { ident.span().start().line } else { line };
                    run.push(ident.to_string());
                    colons = 0;
                }
                TokenTree::Punct(punct) if punct.as_char() == ':' && !run.is_empty() => colons += 1,
                other => {
                    self.end_run(&mut run, line);
                    colons = 0;
                    match other {
                        TokenTree::Group(group) => self.tokens(group.stream()),
                        TokenTree::Ident(ident) => {
                            line = ident.span().start().line;
                            run.push(ident.to_string());
                        }
                        _ => {}
                    }
                }
            }
        }
        self.end_run(&mut run, line);
    }

    fn end_run(&mut self, run: &mut Vec<String>, line: usize) {
        let segments = std::mem::take(run);
        if segments.len() > 1 {
            self.name(segments, line);
        }
    }

    fn function(&mut self, signature: &syn::Signature, block: &syn::Block) {
        if self.test_depth == 0 {
            let (first, last) = (signature.span().start().line, block.span().end().line);
            self.facts.functions.push((signature.ident.to_string(), first, last - first + 1 - table_lines(block)));
        }
    }
}

/// How many lines the rows of a match table have: a function that is nothing else, but for what it binds first. Its
/// arms are read one by one, and splitting them would take away that the compiler counts them.
fn table_lines(block: &syn::Block) -> usize {
    let Some((syn::Stmt::Expr(syn::Expr::Match(table), None), bindings)) = block.stmts.split_last() else { return 0 };
    let lines = |arm: &syn::Arm| arm.span().end().line - arm.span().start().line + 1;
    let rows = table.arms.iter().map(lines);
    let is_table = bindings.iter().all(|statement| matches!(statement, syn::Stmt::Local(_)));
    if is_table && rows.clone().all(|lines| lines <= ROW_LINES_MAX) { rows.sum() } else { 0 }
}

/// Whether what has these attributes is compiled for tests only: `#[cfg(test)]`, `#[cfg(all(test, …))]`, `#[test]`,
/// `#[tokio::test]`.
pub fn is_test_only(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        syn::Meta::List(list) => {
            let condition = list.tokens.to_string().replace(' ', "");
            list.path.is_ident("cfg") && (condition == "test" || condition.starts_with("all(test,"))
        }
        syn::Meta::Path(path) => path.segments.last().is_some_and(|s| s.ident == "test"),
        syn::Meta::NameValue(_) => false,
    })
}

impl<'ast> Visit<'ast> for Reader {
    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        self.use_tree(&item.tree, &[]);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let segments = path.segments.iter().map(|s| s.ident.to_string()).collect();
        self.name(segments, path.span().start().line);
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        let segments = call.path.segments.iter().map(|s| s.ident.to_string()).collect();
        let line = call.path.span().start().line;
        self.facts.macros.push(Named { segments, line, in_test: self.test_depth > 0 });
        self.tokens(call.tokens.clone());
        visit::visit_macro(self, call);
    }

    fn visit_attribute(&mut self, attribute: &'ast syn::Attribute) {
        if matches!(&attribute.meta, syn::Meta::Path(path) if path.is_ident("ignore")) {
            self.facts.bare_ignores.push(attribute.span().start().line);
        }
        visit::visit_attribute(self, attribute);
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        let tests = usize::from(is_test_only(&item.attrs));
        self.test_depth += tests;
        self.module.push(item.ident.to_string());
        if item.content.is_none() {
            self.facts.mod_files.push(self.module.clone());
        }
        visit::visit_item_mod(self, item);
        self.module.pop();
        self.test_depth -= tests;
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        let tests = usize::from(is_test_only(&item.attrs));
        self.test_depth += tests;
        self.function(&item.sig, &item.block);
        visit::visit_item_fn(self, item);
        self.test_depth -= tests;
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.function(&item.sig, &item.block);
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        if let Some(block) = &item.default {
            self.function(&item.sig, block);
        }
        visit::visit_trait_item_fn(self, item);
    }
}

#[test]
fn the_reader_sees_paths_in_uses_types_calls_and_macros() {
    let text = "use crate::{store::{self, Redis as R}, role::*};\nfn f(x: crate::api::X) {\n crate::app::go();\n \
                log!(\"{}\", [crate::jobs::now()]);\n super::clock::now();\n}\n\
                #[cfg(test)] mod tests { use super::*; fn g() { super::h() } }";
    let seen = facts(text, &["cli"]);
    let named = |wanted: &str| seen.paths.iter().any(|p| p.segments.join("::") == wanted);
    for wanted in [
        "crate::store::self",
        "crate::store::Redis",
        "crate::role",
        "crate::api::X",
        "crate::app::go",
        "crate::jobs::now",
        "crate::clock::now",
        "crate::cli",
        "crate::cli::h",
    ] {
        assert!(named(wanted), "{wanted} was not seen");
    }
    assert_eq!(seen.functions, [("f".to_owned(), 2, 5)]);
}
