//! The files of the repository, as a stranger would get them.

use std::fs;
use std::path::{Path, PathBuf};

/// One text file: its path below the root, with slashes, and what is in it.
pub struct TextFile {
    pub path: String,
    pub text: String,
}

impl TextFile {
    pub fn has_extension(&self, extensions: &[&str]) -> bool {
        Path::new(&self.path).extension().and_then(|e| e.to_str()).is_some_and(|e| extensions.contains(&e))
    }
}

pub fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Every text file. Build output, git's own files and hidden folders are not the project's; `.ci` is.
pub fn files() -> Vec<TextFile> {
    let mut found = Vec::new();
    walk(&root(), &mut found);
    assert!(found.iter().any(|file| file.path == "Cargo.toml"), "the walk does not see the repository");
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found
}

/// The Rust files below one folder.
pub fn rust_files(folder: &str) -> Vec<TextFile> {
    files().into_iter().filter(|file| file.path.starts_with(folder) && file.has_extension(&["rs"])).collect()
}

fn walk(folder: &Path, found: &mut Vec<TextFile>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() {
            let ours = !name.starts_with('.') || name == ".ci";
            if ours && !matches!(name.as_str(), "target" | "node_modules" | "__pycache__") {
                walk(&path, found);
            }
        } else if name == ".git" {
            // A worktree's pointer to its repository.
        } else if let Ok(text) = fs::read_to_string(&path) {
            let path = path.strip_prefix(root()).unwrap().to_string_lossy().replace('\\', "/");
            found.push(TextFile { path, text });
        }
    }
}
