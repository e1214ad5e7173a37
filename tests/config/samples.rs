//! The samples in `config/` pass the check, on the machine that they are for and on any other.

use std::path::Path;

use baton::config::{AbsentFiles, check_text};

use crate::support::{environment, samples};

/// Where the samples expect their mounted secrets.
const MOUNT: &str = "/etc/baton/";

#[test]
fn every_sample_passes_the_check_with_its_files_in_place() {
    let directory = tempfile::tempdir().unwrap();
    let mount = format!("{}/", directory.path().display());
    for (name, text) in samples() {
        for word in text.split_whitespace().filter(|word| word.starts_with(MOUNT)) {
            let path = word.replace(MOUNT, &mount);
            std::fs::create_dir_all(Path::new(&path).parent().unwrap()).unwrap();
            std::fs::write(path, "-----BEGIN A SECRET\n").unwrap();
        }
        let text = text.replace(MOUNT, &mount);
        let loaded = check_text(&text, &name, &environment(&[("REDIS_PASSWORD", "p")]));
        let warnings = loaded.unwrap_or_else(|error| panic!("{error}")).warnings;
        let expected = usize::from(name == "memory.yaml");
        assert_eq!(warnings.len(), expected, "{name}: {warnings:?}");
    }
}

#[test]
fn every_sample_passes_the_check_on_a_machine_without_its_files() {
    for (name, text) in samples() {
        let elsewhere = environment(&[("REDIS_PASSWORD", "p")]).absent_files(AbsentFiles::Warn);
        let loaded = check_text(&text, &name, &elsewhere).unwrap_or_else(|error| panic!("{error}"));
        let mentioned = text.matches(MOUNT).count();
        let warned = loaded.warnings.iter().filter(|warning| warning.message.contains("not on this machine")).count();
        assert_eq!(warned, mentioned, "{name}");
    }
}
