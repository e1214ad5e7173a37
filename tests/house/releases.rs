//! What the workflows call before they publish, with stubs in the place of programs that would ask the world: what
//! fails there must fail loudly.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output};

use crate::image::in_cargo_toml;
use crate::tree::root;

/// Runs a script of `.ci` with stubs in the place of programs: each a name and what its shell does.
fn with_stubs(script: &str, arguments: &[&str], stubs: &[(&str, &str)], environment: &[(&str, &str)]) -> Output {
    let folder = tempfile::tempdir().unwrap();
    for (name, body) in stubs {
        let path = folder.path().join(name);
        fs::write(&path, format!("#!/bin/sh\n{body}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap());
    let mut command = Command::new(root().join(".ci").join(script));
    command
        .args(arguments)
        .env_remove("CI")
        .env_remove("GITHUB_ACTIONS")
        .envs(environment.iter().copied())
        .env("PATH", path);
    command.output().unwrap()
}

#[test]
fn a_digest_that_cannot_be_looked_up_is_a_failure() {
    let digest = format!("sha256:{}", "0a".repeat(32));
    let good = with_stubs("pins", &[], &[("docker", &format!("echo {digest}"))], &[]);
    let expected = ["rust=rust", "runtime=gcr.io/distroless/cc-debian12", "shell=debian"]
        .map(|beginning| format!("{beginning}@{digest}\n"))
        .concat();
    assert_eq!((String::from_utf8(good.stdout).unwrap(), good.status.code()), (expected, Some(0)));
    for stub in ["exit 1", "echo", "echo sha256:0a"] {
        let bad = with_stubs("pins", &[], &[("docker", stub)], &[]);
        assert!(!bad.status.success() && bad.stdout.is_empty(), "{stub}: {:?}", String::from_utf8_lossy(&bad.stdout));
    }
}

/// What Krew would fetch is what the manifest names, and in it is the program under kubectl's name.
#[test]
fn the_plugins_manifest_names_its_archives_by_their_hashes() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    for architecture in ["amd64", "arm64"] {
        fs::write(file(architecture), format!("#!/bin/sh\necho {architecture}\n")).unwrap();
    }
    let url = "https://github.com/example/baton/releases/download/v1.2.3";
    let made = with_stubs("krew", &["1.2.3", url, folder.path().to_str().unwrap()], &[], &[]);
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let manifest: serde_yaml::Value = serde_yaml::from_str(&fs::read_to_string(file("baton.yaml")).unwrap()).unwrap();
    assert_eq!((&manifest["spec"]["version"], &manifest["metadata"]["name"]), (&"v1.2.3".into(), &"baton".into()));
    assert_eq!(manifest["spec"]["homepage"], "https://github.com/example/baton");
    let run = |program: &str, arguments: &[&str]| {
        let output = Command::new(program).args(arguments).current_dir(folder.path()).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    for (platform, architecture) in manifest["spec"]["platforms"].as_sequence().unwrap().iter().zip(["amd64", "arm64"])
    {
        let archive = format!("kubectl-baton-linux-{architecture}.tar.gz");
        assert_eq!(platform["selector"]["matchLabels"]["arch"], architecture);
        assert_eq!(platform["uri"], format!("{url}/{archive}"));
        assert_eq!(run("sha256sum", &[&archive]), format!("{}  {archive}\n", platform["sha256"].as_str().unwrap()));
        run("tar", &["-xzf", &archive]);
        assert_eq!(run(&format!("./{}", platform["bin"].as_str().unwrap()), &[]), format!("{architecture}\n"));
    }
}

#[test]
fn a_tag_is_the_version_of_everything() {
    let right = format!("v{}", in_cargo_toml("version"));
    let code = |tag: &str| with_stubs("tag", &[tag], &[], &[]).status.code();
    assert_eq!(code(&right), Some(0));
    for wrong in ["v9.9.9", right.trim_start_matches('v'), &format!("{right}.1"), &right[..right.len() - 1]] {
        assert_eq!(code(wrong), Some(1), "{wrong}");
    }
}

#[test]
fn advisories_are_not_skipped_in_githubs_workflows() {
    let deny = fs::read_to_string(root().join(".ci/deny")).unwrap();
    let version = deny.lines().find_map(|line| line.strip_prefix("version=").map(str::to_owned)).unwrap();
    let away = format!("case \"$*\" in --version) echo cargo-deny {version} ;; 'fetch db') exit 1 ;; esac");
    let deny = |environment: &[(&str, &str)]| with_stubs("deny", &[], &[("cargo-deny", &away)], environment);
    let here = deny(&[]);
    assert!(here.status.success() && String::from_utf8_lossy(&here.stdout).contains("SKIPPED"));
    assert!(deny(&[("CI", "true")]).status.success(), "elsewhere the database may be out of reach");
    assert_eq!(deny(&[("GITHUB_ACTIONS", "true")]).status.code(), Some(1));
}

/// The images are pushed as what was built, with the same arguments, and only when that is asked for.
#[test]
fn what_is_pushed_was_started_before() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let stub = "echo \"$*\" >>\"$LOG\"; case \"$*\" in *Healthcheck*) echo null ;; *.User*) echo 65532:65532 ;; esac";
    let calls = |arguments: &[&str]| {
        let _ = fs::remove_file(&log);
        let environment = [("LOG", log.to_str().unwrap()), ("PLATFORM", "linux/arm64"), ("VERSION", "1.2.3")];
        let output = with_stubs("container", arguments, &[("docker", stub)], &environment);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        fs::read_to_string(&log).unwrap()
    };
    assert!(!calls(&[]).contains("--push"));
    let calls = calls(&["push", "example.com/baton:1.2.3"]);
    let pushed = ["baton:1.2.3-arm64", "baton:1.2.3-shell-arm64", "baton:1.2.3-symbols-arm64"];
    assert!(pushed.iter().all(|name| calls.contains(&format!("--tag example.com/{name} ."))), "{calls}");
    assert!(calls.find("--push").unwrap() > calls.rfind("run --rm").unwrap(), "{calls}");
    let builds = calls.lines().filter(|line| line.starts_with("buildx build"));
    assert!(builds.clone().count() == 5, "{calls}");
    assert!(builds.clone().all(|line| line.contains("--platform linux/arm64 --build-arg VERSION=1.2.3")), "{calls}");
}
