//! Installs a peer by its own script, unless it is installed from the very same sources already.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::root;

/// How long an installation may take, as `timeout` reads it.
const BOUND: &str = "600";

/// The peers, and the folder of `benches/peers` that each comes from.
const PEERS: [(&str, &str); 11] = [
    ("hyper", "hyper"),
    ("redisson", "java"),
    ("redis-py", "redis-py"),
    ("shedlock", "java"),
    ("rslock", "rslock"),
    ("redsync", "go"),
    ("client-go", "go"),
    ("etcd", "go"),
    ("net-http", "go"),
    ("curator", "java"),
    ("apiserver", "apiserver"),
];

/// An installed peer.
#[derive(Clone, Debug)]
pub struct Peer {
    pub name: &'static str,
    /// Where `run`, and perhaps `serve`, are.
    pub folder: PathBuf,
    /// What it is, in words.
    pub version: String,
}

/// A peer that cannot take part.
#[derive(Clone, Debug)]
pub struct Missing {
    pub peer: &'static str,
    pub why: String,
}

/// Installs a peer.
///
/// # Panics
/// When there is none of that name.
pub fn install(name: &str) -> Result<Peer, Missing> {
    let known = PEERS.iter().find(|(peer, _)| *peer == name);
    let (name, source) = *known.unwrap_or_else(|| panic!("there is no peer {name}"));
    let (source, folder) = (root().join("benches/peers").join(source), root().join("target/bench-peers").join(name));
    let (stamp, wanted) = (folder.join("stamp"), fingerprint(&source));
    if fs::read_to_string(&stamp).is_ok_and(|there| there == wanted) {
        return Ok(Peer { name, version: version(&folder), folder });
    }
    let missing = |why: String| Missing { peer: name, why };
    // Half of an earlier one may be there. It may also not: then there is nothing to remove.
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).map_err(|error| missing(error.to_string()))?;
    let mut command = Command::new("timeout");
    command.arg(BOUND).arg(source.join("install.sh")).arg(&folder).arg(name).stdin(Stdio::null());
    let output = command.output().map_err(|error| missing(error.to_string()))?;
    if !output.status.success() {
        let (said, log) = (String::from_utf8_lossy(&output.stderr), folder.with_extension("log"));
        fs::write(&log, said.as_bytes()).map_err(|error| missing(error.to_string()))?;
        let last = said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("it says nothing");
        return Err(missing(format!("{}: {}", output.status, last.trim())));
    }
    fs::write(&stamp, wanted).map_err(|error| missing(error.to_string()))?;
    Ok(Peer { name, version: version(&folder), folder })
}

fn version(folder: &Path) -> String {
    fs::read_to_string(folder.join("version")).unwrap_or_default().trim().to_owned()
}

/// Changes with every file of the folder.
fn fingerprint(folder: &Path) -> String {
    let (mut files, mut hasher) = (Vec::new(), DefaultHasher::new());
    collect(folder, &mut files);
    files.sort();
    for file in files {
        file.hash(&mut hasher);
        fs::read(&file).unwrap_or_default().hash(&mut hasher);
    }
    format!("{:016x}\n", hasher.finish())
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() { collect(&path, files) } else { files.push(path) }
    }
}
