//! Changes of the file are noticed, and nothing else is.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use baton::config::{Config, Reload, Watcher};
use tempfile::TempDir;

use crate::support::{BASE, environment};

/// Long enough for any machine; reached only by a failure.
const BOUND: Duration = Duration::from_secs(20);

/// A directory laid out as the kubelet lays out a mounted ConfigMap: `config.yaml` links to `..data/config.yaml`, and
/// `..data` links to the directory of one generation.
struct Mount {
    directory: TempDir,
    generation: u32,
}

impl Mount {
    fn new(config: &str) -> Self {
        let mut mount = Self { directory: tempfile::tempdir().unwrap(), generation: 0 };
        mount.update(&[("config.yaml", config)]);
        symlink("..data/config.yaml", mount.path("config.yaml")).unwrap();
        mount
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// A new generation, moved into place in one step, and the old one removed.
    fn update(&mut self, files: &[(&str, &str)]) {
        let old = format!("..2026_11_20_10_00_00.{}", self.generation);
        self.generation += 1;
        let new = format!("..2026_11_20_10_00_00.{}", self.generation);
        std::fs::create_dir(self.path(&new)).unwrap();
        for (name, content) in files {
            std::fs::write(self.path(&new).join(name), content).unwrap();
        }
        symlink(&new, self.path("..data_tmp")).unwrap();
        std::fs::rename(self.path("..data_tmp"), self.path("..data")).unwrap();
        if self.generation > 1 {
            std::fs::remove_dir_all(self.path(&old)).unwrap();
        }
    }

    fn watcher(&self) -> Watcher {
        watcher(&self.path("config.yaml"))
    }
}

/// Watches a file that is good now. Most tests look by hand, so that they say when.
fn watcher(path: &Path) -> Watcher {
    let environment = Arc::new(environment(&[]));
    let loaded = Config::load(path, &environment).unwrap_or_else(|error| panic!("{error}"));
    Watcher::new(path, environment, &loaded)
}

fn changed(look: Option<Reload>) -> Box<baton::config::Loaded> {
    match look {
        Some(Reload::Changed(loaded)) => loaded,
        other => panic!("not a change: {other:?}"),
    }
}

fn refused(look: Option<Reload>) -> String {
    match look {
        Some(Reload::Refused(error)) => error.to_string(),
        other => panic!("not a refusal: {other:?}"),
    }
}

fn named(role: &str) -> String {
    BASE.replace("scheduler", role)
}

#[tokio::test]
async fn a_moved_configmap_is_noticed_by_waiting_for_it() {
    let mut mount = Mount::new(BASE);
    let mut changes = mount.watcher().every(Duration::from_millis(5)).unwrap();
    for role in ["first", "second"] {
        mount.update(&[("config.yaml", &named(role))]);
        let reload = tokio::time::timeout(BOUND, changes.next()).await.expect("the change was not noticed");
        assert_eq!(changed(Some(reload)).config.roles()[0].name.as_str(), role);
    }
}

#[test]
fn the_same_content_in_a_new_generation_is_no_change() {
    let mut mount = Mount::new(BASE);
    let mut watcher = mount.watcher();
    assert!(watcher.look().is_none());
    mount.update(&[("config.yaml", BASE)]);
    assert!(watcher.look().is_none());
}

#[test]
fn what_changed_between_loading_and_watching_is_told_first() {
    let mut mount = Mount::new(BASE);
    let environment = Arc::new(environment(&[]));
    let path = mount.path("config.yaml");
    let loaded = Config::load(&path, &environment).unwrap();
    mount.update(&[("config.yaml", &named("meanwhile"))]);
    let mut watcher = Watcher::new(&path, environment, &loaded);
    assert_eq!(changed(watcher.look()).config.roles()[0].name.as_str(), "meanwhile");
}

#[test]
fn a_bad_file_is_refused_once_per_content_and_the_next_good_one_is_told() {
    let mut mount = Mount::new(BASE);
    let mut watcher = mount.watcher();
    mount.update(&[("config.yaml", "roles: []\n")]);
    assert!(refused(watcher.look()).contains("at least one role"));
    assert!(watcher.look().is_none());
    mount.update(&[("config.yaml", "rolls: []\n")]);
    assert!(refused(watcher.look()).contains("did you mean `roles`?"));
    assert!(watcher.look().is_none());
    mount.update(&[("config.yaml", BASE)]);
    assert!(changed(watcher.look()).rotated.is_empty(), "the good one again, after a bad one");
    assert!(watcher.look().is_none());
}

#[test]
fn a_file_that_is_gone_for_a_moment_is_no_change() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("config.yaml");
    std::fs::write(&path, BASE).unwrap();
    let mut watcher = watcher(&path);
    for _ in 0..3 {
        std::fs::remove_file(&path).unwrap();
        assert!(watcher.look().is_none() && watcher.look().is_none());
        std::fs::write(&path, BASE).unwrap();
        assert!(watcher.look().is_none());
    }
}

#[test]
fn a_file_that_stays_away_is_refused_once_and_its_return_is_told() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("config.yaml");
    std::fs::write(&path, BASE).unwrap();
    let mut watcher = watcher(&path);
    std::fs::remove_file(&path).unwrap();
    assert!(watcher.look().is_none() && watcher.look().is_none());
    assert!(refused(watcher.look()).contains("cannot be read"));
    for _ in 0..5 {
        assert!(watcher.look().is_none());
    }
    std::fs::write(&path, BASE).unwrap();
    changed(watcher.look());
}

#[test]
fn a_rotated_secret_is_told_and_which_it_was() {
    let secrets = tempfile::tempdir().unwrap();
    let (user, password) = (secrets.path().join("user"), secrets.path().join("password"));
    std::fs::write(&user, "app").unwrap();
    std::fs::write(&password, "one").unwrap();
    let files = format!("/0\n    usernameFile: {}\n    passwordFile: {}", user.display(), password.display());
    let mount = Mount::new(&BASE.replace("/0", &files));
    let mut watcher = mount.watcher();
    assert!(watcher.look().is_none());
    std::fs::write(&password, "two").unwrap();
    let loaded = changed(watcher.look());
    assert_eq!(loaded.rotated.as_slice(), std::slice::from_ref(&password));
    assert!(watcher.look().is_none());
    std::fs::write(&password, "").unwrap();
    assert!(refused(watcher.look()).contains("is empty; it must hold the secret"));
    assert!(watcher.look().is_none());
    std::fs::write(&password, "three").unwrap();
    assert_eq!(changed(watcher.look()).rotated, [password]);
}

#[test]
fn a_secret_that_arrives_after_the_file_that_names_it_is_noticed() {
    let secrets = tempfile::tempdir().unwrap();
    let password = secrets.path().join("password");
    let mut mount = Mount::new(BASE);
    let mut watcher = mount.watcher();
    let naming = BASE.replace("/0", &format!("/0\n    passwordFile: {}", password.display()));
    mount.update(&[("config.yaml", &naming)]);
    assert!(refused(watcher.look()).contains("it must exist"));
    assert!(watcher.look().is_none());
    std::fs::write(&password, "s3cret").unwrap();
    assert_eq!(changed(watcher.look()).files, [password]);
}
