//! Words that stay true: links lead somewhere, every page can be found, commands exist, the changelog knows the
//! version.

use std::collections::BTreeSet;
use std::process::Command;

use crate::assert_none;
use crate::tree::{TextFile, files, root};

/// A page without what stands in code: that is neither a link nor a heading.
fn prose(text: &str) -> String {
    let mut fenced = false;
    let mut out = String::new();
    for line in text.lines() {
        let fence = line.trim_start().starts_with("```");
        if !fenced && !fence {
            // Every second part stands between back-ticks. Headings keep theirs, for their anchors.
            let spans = line.split('`').enumerate();
            let kept: Vec<&str> = spans.filter(|(i, _)| i % 2 == 0 || line.starts_with('#')).map(|(_, s)| s).collect();
            out.push_str(&kept.concat());
        }
        out.push('\n');
        fenced ^= fence;
    }
    out
}

/// The targets of `[text](target)` with their lines.
fn links(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (number, line) in (1..).zip(prose(text).lines()) {
        for part in line.split("](").skip(1) {
            let target = part.split([')', ' ']).next().unwrap_or_default();
            found.push((number, target.to_owned()));
        }
    }
    found
}

/// The anchors of a page's headings, spelled as GitHub does.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut anchors = BTreeSet::new();
    for line in prose(text).lines().filter(|line| line.starts_with('#')) {
        let title = line.trim_start_matches('#').trim().to_lowercase();
        let kept = title.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        let slug: String = kept.map(|c| if c == ' ' { '-' } else { c }).collect();
        let taken = (1..).map(|n| format!("{slug}-{n}")).find(|next| !anchors.contains(next));
        anchors.insert(if anchors.contains(&slug) { taken.unwrap_or_default() } else { slug });
    }
    anchors
}

/// Where a link of a page leads: the path from the root.
fn resolve(page: &str, target: &str) -> String {
    let folder = page.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut segments: Vec<&str> = folder.split('/').filter(|s| !s.is_empty()).collect();
    for segment in target.split('/') {
        match segment {
            "" | "." => {}
            ".." => drop(segments.pop()),
            name => segments.push(name),
        }
    }
    segments.join("/")
}

fn is_web(target: &str) -> bool {
    target.contains("://") || target.starts_with("mailto:")
}

fn check_links(pages: &[TextFile], exists: &dyn Fn(&str) -> bool) -> Vec<String> {
    let mut complaints = Vec::new();
    for page in pages {
        for (line, target) in links(&page.text).into_iter().filter(|(_, target)| !is_web(target)) {
            let (file, anchor) = target.split_once('#').unwrap_or((&target, ""));
            let path = if file.is_empty() { page.path.clone() } else { resolve(&page.path, file) };
            if !exists(&path) {
                complaints.push(format!("{}:{line}: {target} leads nowhere", page.path));
            } else if let Some(other) = pages.iter().find(|other| other.path == path)
                && !anchor.is_empty()
                && !anchors(&other.text).contains(anchor)
            {
                complaints.push(format!("{}:{line}: {path} has no heading #{anchor}", page.path));
            }
        }
    }
    complaints
}

/// The pages below `docs/` that cannot be reached by links from the README.
fn check_reachable(pages: &[TextFile]) -> Vec<String> {
    let mut reached = BTreeSet::new();
    let mut open = vec!["README.md".to_owned()];
    while let Some(path) = open.pop() {
        if reached.insert(path.clone())
            && let Some(page) = pages.iter().find(|page| page.path == path)
        {
            let targets = links(&page.text).into_iter().map(|(_, target)| target).filter(|target| !is_web(target));
            open.extend(targets.map(|t| resolve(&path, t.split('#').next().unwrap_or_default())));
        }
    }
    let lost = pages.iter().filter(|page| page.path.starts_with("docs/") && !reached.contains(&page.path));
    lost.map(|page| format!("{}: no way leads here from README.md", page.path)).collect()
}

/// Languages in which `baton` may be a variable's name.
const PROGRAMS: [&str; 6] = ["go", "java", "js", "python", "rust", "ts"];

/// The subcommands that a page lets people type: the word after `baton ` or `cargo run … -- ` at the beginning of code.
fn commands(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let (mut fenced, mut is_program) = (false, false);
    for (number, line) in (1..).zip(text.lines()) {
        if let Some(language) = line.trim_start().strip_prefix("```") {
            fenced = !fenced;
            is_program = fenced && language.split_whitespace().next().is_some_and(|word| PROGRAMS.contains(&word));
            continue;
        }
        if is_program {
            continue;
        }
        let spans: Vec<&str> = if fenced { vec![line] } else { line.split('`').skip(1).step_by(2).collect() };
        for span in spans {
            let span = span.trim().trim_start_matches("$ ");
            let typed = span.strip_prefix("baton ");
            let run = span.strip_prefix("cargo run ").and_then(|rest| rest.split_once("-- "));
            let run = run.filter(|(options, _)| !options.contains("--example")).map(|(_, rest)| rest);
            let word = typed.or(run).and_then(|rest| rest.split_whitespace().next());
            found.extend(word.filter(|word| !word.starts_with('-')).map(|word| (number, word.to_owned())));
        }
    }
    found
}

fn check_commands(pages: &[TextFile], known: &BTreeSet<String>) -> Vec<String> {
    let typed = pages.iter().flat_map(|page| commands(&page.text).into_iter().map(move |found| (page, found)));
    let unknown = typed.filter(|(_, (_, word))| !known.contains(word));
    unknown.map(|(page, (line, word))| format!("{}:{line}: there is no `baton {word}`", page.path)).collect()
}

/// Folders whose files comments and pages name from the root.
const NAMED_FROM_THE_ROOT: [&str; 5] = ["src/", "tests/", "benches/", "docs/", "charts/"];

/// Complaints about what stands between back-ticks and looks like a path from the root.
fn check_paths(file: &TextFile, exists: &dyn Fn(&str) -> bool) -> Vec<String> {
    let is_path = |span: &&str| {
        let plain = span.chars().all(|c| c.is_ascii_alphanumeric() || "/_.-".contains(c));
        plain && NAMED_FROM_THE_ROOT.iter().any(|folder| span.starts_with(folder))
    };
    let mut complaints = Vec::new();
    for (number, line) in (1..).zip(file.text.lines()) {
        let lost = line.split('`').skip(1).step_by(2).filter(is_path).filter(|path| !exists(path));
        complaints.extend(lost.map(|path| format!("{}:{number}: there is no {path}", file.path)));
    }
    complaints
}

/// The subcommands that `baton --help` lists.
fn listed_commands(help: &str) -> BTreeSet<String> {
    let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let listed = listed.take_while(|line| !line.is_empty());
    listed.filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect()
}

fn pages() -> Vec<TextFile> {
    let pages: Vec<TextFile> = files().into_iter().filter(|file| file.has_extension(&["md"])).collect();
    assert!(pages.iter().any(|page| page.path == "README.md"));
    pages
}

#[test]
fn every_link_leads_to_a_file_and_a_heading() {
    assert_none("links", check_links(&pages(), &|path| root().join(path).exists()));
}

#[test]
fn every_path_that_a_comment_or_a_page_names_is_there() {
    let named = files().into_iter().filter(|file| file.has_extension(&["rs", "lua", "md", "toml", "yaml"]));
    // The house's own examples are of files that never were.
    let named = named.filter(|file| !file.path.starts_with("tests/house/"));
    let complaints = named.flat_map(|file| check_paths(&file, &|path| root().join(path).exists()));
    assert_none("paths", complaints.collect());
}

#[test]
fn every_page_can_be_found_from_the_readme() {
    assert_none("pages", check_reachable(&pages()));
}

#[test]
fn every_command_in_the_docs_is_in_the_help() {
    let help = Command::new(env!("CARGO_BIN_EXE_baton")).arg("--help").output().unwrap();
    let known = listed_commands(&String::from_utf8(help.stdout).unwrap());
    assert!(known.contains("run") && known.contains("dev"), "`baton --help` lists {known:?}");
    assert_none("commands", check_commands(&pages(), &known));
}

#[test]
fn the_changelog_knows_this_version() {
    let changelog = files().into_iter().find(|file| file.path == "CHANGELOG.md").unwrap().text;
    let heading = format!("## {}", env!("CARGO_PKG_VERSION"));
    assert!(changelog.lines().any(|line| line.starts_with(&heading)), "no heading {heading:?} in CHANGELOG.md");
}

#[test]
fn the_word_checkers_complain_about_bad_examples() {
    let page = |path: &str, text: &str| TextFile { path: path.to_owned(), text: text.to_owned() };
    let pages = [
        page(
            "README.md",
            "# Top `x`, and: more\n[a](docs/a.md#two-words) [self](#top-x-and-more) [web](https://x.y/#z)\n",
        ),
        page("docs/a.md", "## Two words\n## Two words\n[up](../README.md) [twice](#two-words-1) `[code](no.md)`\n"),
        page("docs/lost.md", "[b](b.md) [c](../README.md#none)\n```\n[code](no.md)\n```\n"),
    ];
    let exists = |path: &str| pages.iter().any(|page| page.path == path);
    let complaints = check_links(&pages, &exists);
    assert_eq!(complaints.len(), 2, "{complaints:?}");
    assert!(complaints[0].contains("b.md leads nowhere") && complaints[1].contains("#none"));
    assert_eq!(check_reachable(&pages), ["docs/lost.md: no way leads here from README.md"]);

    let comment = page("src/a.rs", "// See `src/a.rs`, `src/gone/`, `tests/a b.rs` and `lease/gone.rs`.\n");
    assert_eq!(check_paths(&comment, &|path| path == "src/a.rs"), ["src/a.rs:1: there is no src/gone/"]);

    let help = "Baton\n\nCommands:\n  run   Runs\n  dev   Tries\n\nOptions:\n  -h\n";
    let known = listed_commands(help);
    assert_eq!(known.iter().collect::<Vec<_>>(), ["dev", "run"]);
    let text = "Type `baton run --config x` or `baton fly`. The baton is passed.\n```sh\ncargo run --release -- swim\n\
                cargo run --example other -- sink\n```\n```python app.py\nbaton = Baton()\n```\nBy `baton = `.\n";
    let complaints = check_commands(&[page("a.md", text)], &known);
    assert_eq!(
        complaints,
        ["a.md:1: there is no `baton fly`", "a.md:3: there is no `baton swim`", "a.md:9: there is no `baton =`",]
    );
}
