//! The configuration: a section is one file. Its keys, with their bounds and defaults, are stated beside it and listed
//! once; only the file as a whole lists keys of others.

use std::collections::BTreeMap;

use syn::visit::{self, Visit};

use crate::assert_none;
use crate::tree::rust_files;

const FOLDER: &str = "src/config/";
/// The section that is the file as a whole.
const WHOLE: &str = "Baton configuration";
/// Keys that sections of other files list, too, and why.
const SHARED: &[(&str, &str)] = &[
    ("ACTIVE_DEADLINE", "a job that is made at run time is a job"),
    ("AUTH", "it has a file of its own, and belongs to every Redis, a member of a quorum included"),
    ("BACKOFF", "a job that is made at run time is a job"),
    ("FINISH_WITHIN", "a job that is made at run time is a job"),
    ("KEY_PREFIX", "members of a quorum share one"),
    ("ON_INTERRUPT", "a job that is made at run time is a job"),
    ("PASSWORD", "a member is a Redis"),
    ("PASSWORD_FILE", "a member is a Redis"),
    ("ROLE", "a job that is made at run time is a job"),
    ("RUN", "what a job runs is a section of its own"),
    ("STARTING_DEADLINE", "a job that is made at run time is a job"),
    ("SUSPEND", "a job that is made at run time is a job"),
    ("TIMEOUT", "what is delivered for Dapr is a request"),
    ("TIME_ZONE", "a job that is made at run time is a job"),
    ("USERNAME", "a member is a Redis"),
    ("USERNAME_FILE", "a member is a Redis"),
];

/// What a file tells of sections.
#[derive(Default)]
struct Sections {
    /// Every `const X: Key<…>`.
    keys: Vec<String>,
    /// Every `Section::new(title, …, &[&X, &other::Y])`: its title and its keys, as paths.
    sections: Vec<(String, Vec<Vec<String>>)>,
}

impl<'ast> Visit<'ast> for Sections {
    fn visit_item_const(&mut self, item: &'ast syn::ItemConst) {
        if let syn::Type::Path(path) = &*item.ty
            && path.path.segments.last().is_some_and(|last| last.ident == "Key")
        {
            self.keys.push(item.ident.to_string());
        }
        visit::visit_item_const(self, item);
    }

    fn visit_expr_call(&mut self, call: &'ast syn::ExprCall) {
        let callee = |path: &syn::Path| path.segments.iter().map(|s| s.ident.to_string()).collect::<Vec<_>>();
        if let syn::Expr::Path(path) = &*call.func
            && callee(&path.path) == ["Section", "new"]
            && let Some(syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(title), .. })) = call.args.first()
            && let Some(syn::Expr::Reference(list)) = call.args.last()
            && let syn::Expr::Array(list) = &*list.expr
        {
            let paths = list.elems.iter().filter_map(|key| match key {
                syn::Expr::Reference(key) => match &*key.expr {
                    syn::Expr::Path(path) => Some(callee(&path.path)),
                    _ => None,
                },
                _ => None,
            });
            self.sections.push((title.value(), paths.collect()));
        }
        visit::visit_expr_call(self, call);
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if item.ident != "tests" {
            visit::visit_item_mod(self, item);
        }
    }
}

fn sections_in(text: &str) -> Sections {
    let mut sections = Sections::default();
    sections.visit_file(&syn::parse_file(text).expect("it compiles"));
    sections
}

/// Where a key is stated that a section of this file lists.
fn home(files: &[(String, Sections)], path: &str, key: &[String]) -> Option<String> {
    let name = &key[key.len() - 1];
    let module = (key.len() > 1).then(|| format!("{FOLDER}{}.rs", key[0]));
    let states = |file: &&(String, Sections)| file.1.keys.contains(name);
    let here = || files.iter().filter(|(other, _)| other == path).find(states);
    match module {
        Some(module) => files.iter().filter(|(other, _)| *other == module).find(states),
        None => here().or_else(|| files.iter().find(states)),
    }
    .map(|(path, _)| path.clone())
}

fn check(files: &[(String, Sections)], shared: &[(&str, &str)]) -> Vec<String> {
    let mut titles: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut listed: Vec<(String, String)> = Vec::new();
    let mut complaints = Vec::new();
    for (path, file) in files {
        for (title, keys) in &file.sections {
            titles.entry(title).or_default().push(path);
            for key in keys {
                let (name, home) = (key[key.len() - 1].clone(), home(files, path, key).unwrap_or_default());
                let excused = title == WHOLE || shared.iter().any(|(other, _)| *other == name);
                if home != *path && !excused {
                    complaints.push(format!("{path}: the section {title} lists {name} of {home:?}"));
                }
                listed.push((home, name));
            }
        }
    }
    let many = titles.iter().filter(|(_, paths)| paths.len() > 1);
    complaints.extend(many.map(|(title, paths)| format!("the section {title} is in {}", paths.join(", "))));
    for (path, file) in files {
        for key in &file.keys {
            if !listed.iter().any(|(home, name)| (home, name) == (path, key)) {
                complaints.push(format!("{path}: the key {key} is in no section"));
            }
        }
    }
    complaints
}

#[test]
fn a_section_is_one_file_and_a_key_is_stated_once() {
    let files = rust_files(FOLDER).into_iter().filter(|file| !file.path.contains("tests"));
    let files: Vec<(String, Sections)> = files.map(|file| (file.path.clone(), sections_in(&file.text))).collect();
    assert!(files.iter().any(|(_, file)| file.sections.iter().any(|(title, _)| title == WHOLE)));
    assert_none("one section, one file", check(&files, SHARED));
}

#[test]
fn the_checker_of_sections_complains_about_bad_examples() {
    let complaints = |a: &str, b: &str| {
        let file = |name: &str, text: &str| (format!("{FOLDER}{name}.rs"), sections_in(text));
        check(&[file("a", a), file("b", b)], &[("C", "why")]).len()
    };
    let (key, section) = ("const A: Key<Group> = key(\"a\");", "const S: Section = Section::new(\"A\", \"\", &[&A]);");
    assert_eq!(complaints(&format!("{key}{section}"), ""), 0);
    assert_eq!(complaints(section, key), 1, "a key of another file");
    assert_eq!(complaints(&section.replace("&A", "&C"), &key.replace(" A", " C")), 0, "with a reason");
    assert_eq!(complaints(&format!("{key}{section}"), "const S: Section = Section::new(\"A\", \"\", &[]);"), 1);
    let whole = section.replace("\"A\"", "\"Baton configuration\"").replace("&A", "&b::A");
    assert_eq!(complaints(&whole, key), 0, "the file as a whole");
    assert_eq!(complaints(&format!("{whole}{section}{key}"), key), 0);
    assert_eq!(complaints(&format!("{key}{section}"), key), 1, "a key in no section");
}
