//! The repository's files.

use std::path::PathBuf;

/// Where one is.
pub fn path(path: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// Its text.
pub fn text(file: &str) -> String {
    std::fs::read_to_string(path(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

/// The names of a folder's files that end so, sorted, without that end.
pub fn names_in(folder: &str, end: &str) -> Vec<String> {
    let entries = std::fs::read_dir(path(folder)).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned());
    let mut names: Vec<String> = names.filter_map(|name| name.strip_suffix(end).map(str::to_owned)).collect();
    names.sort();
    names
}
