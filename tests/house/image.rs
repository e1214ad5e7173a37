//! The image, which docker and `make image` make of one description: that they agree, and that the build has what it
//! needs.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::tree::{root, rust_files};

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap()
}

/// The stages of a Dockerfile: the words of `FROM`, and the instructions after them.
fn stages(dockerfile: &str) -> Vec<(String, Vec<String>)> {
    let lines = dockerfile.lines().filter(|line| !line.trim_start().starts_with('#') && !line.is_empty());
    let whole = lines.collect::<Vec<_>>().join("\n").replace("\\\n", "");
    let mut stages: Vec<(String, Vec<String>)> = Vec::new();
    for line in whole.lines() {
        match (line.strip_prefix("FROM "), stages.last_mut()) {
            (Some(from), _) => stages.push((from.to_owned(), Vec::new())),
            (None, Some((_, instructions))) => instructions.push(line.to_owned()),
            (None, None) => {} // arguments before the first image
        }
    }
    stages
}

/// What of a stage begins with a word, without the word.
fn said<'a>(stage: &'a [String], word: &str) -> Vec<&'a str> {
    stage.iter().filter_map(|line| line.strip_prefix(word)?.strip_prefix(' ')).collect()
}

pub fn in_cargo_toml(key: &str) -> String {
    let manifest: BTreeMap<String, String> = read("Cargo.toml")
        .lines()
        .filter_map(|line| line.split_once(" = "))
        .map(|(key, value)| (key.to_owned(), value.trim_matches('"').to_owned()))
        .collect();
    manifest[key].clone()
}

#[test]
fn the_image_with_a_shell_differs_by_its_base_only() {
    let stages = stages(&read("Dockerfile"));
    let (shell, last) = (&stages[stages.len() - 2], &stages[stages.len() - 1]);
    assert_eq!((shell.0.as_str(), last.0.as_str()), ("${SHELL_IMAGE} AS shell", "${RUNTIME_IMAGE}"));
    let without_runs = |stage: &[String]| stage.iter().filter(|line| !line.starts_with("RUN ")).cloned().collect();
    let same: Vec<String> = without_runs(&last.1);
    assert_eq!(without_runs(&shell.1), same);
    assert_eq!(last.1, same, "distroless has nothing that could be run");
}

#[test]
fn the_dockerfile_says_what_cargo_toml_says() {
    let text = read("Dockerfile");
    let stages = stages(&text);
    let last = &stages[stages.len() - 1].1;
    assert!(said(last, "ARG").contains(&format!("VERSION={}", in_cargo_toml("version")).as_str()));
    let label = |name: &str| {
        let labels = said(last, "LABEL").join(" ");
        let value = labels.split(&format!("org.opencontainers.image.{name}=\"")).nth(1).expect(name).to_owned();
        value.split('"').next().unwrap().to_owned()
    };
    assert_eq!(label("licenses"), in_cargo_toml("license"));
    assert!(in_cargo_toml("description").starts_with(&label("description")), "{}", label("description"));
    let arguments =
        ["version", "revision", "source"].map(|name| (label(name), format!("${{{}}}", name.to_uppercase())));
    assert!(arguments.iter().all(|(label, argument)| label == argument), "{arguments:?}");
    let (user, group) = said(last, "USER")[0].split_once(':').unwrap();
    assert!(
        user.parse::<u32>().unwrap() > 0 && group.parse::<u32>().is_ok(),
        "Kubernetes must see that it is not root"
    );
    // cargo-deny looks at what is linked on the platforms of the image.
    assert!(read("deny.toml").contains(r#"targets = ["x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"]"#));
    // The benchmark weighs what is copied.
    let weighed = read("benches/baton/parts/footprint.rs");
    let copied = said(last, "COPY").join(" ");
    let names =
        copied.split(' ').filter_map(|path| path.strip_prefix('/')).map(|path| path.rsplit('/').next().unwrap());
    let missing: Vec<&str> =
        names.filter(|name| !matches!(*name, "" | "baton") && !weighed.contains(&format!("\"{name}\""))).collect();
    assert_eq!(missing, Vec::<&str>::new(), "in the image, and not in its figures");
}

/// A file inside the layer or the archive, by `tar`.
fn from_tar(archive: &Path, name: &str) -> Vec<u8> {
    let output = Command::new("tar").arg("-xOf").arg(archive).arg(name).output().unwrap();
    assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

fn succeeds(program: &str, arguments: &[&str]) -> bool {
    Command::new(program).args(arguments).output().is_ok_and(|output| output.status.success())
}

/// Makes an image of a small program, which has the libraries that Baton has, or fewer.
fn made(archive: &Path) {
    let mut command = Command::new(root().join(".ci/image"));
    command.args(["--no-run", "--binary", "/bin/true", "--output"]).arg(archive).env("REVISION", "0a1b2c");
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn make_image_makes_what_the_dockerfile_says_and_always_the_same() {
    let needed = [("dpkg-query", &["--status", "ca-certificates", "tzdata"][..]), ("python3", &["--version"])];
    if !needed.iter().all(|(program, arguments)| succeeds(program, arguments)) {
        eprintln!("notice: not tested: the image is made of Debian's packages, by Python");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let archive = folder.path().join("image.tar");
    made(&archive);
    let blob =
        |listed: &Value| from_tar(&archive, &format!("blobs/{}", listed["digest"].as_str().unwrap().replace(':', "/")));
    let index: Value = serde_json::from_slice(&from_tar(&archive, "index.json")).unwrap();
    let manifest: Value = serde_json::from_slice(&blob(&index["manifests"][0])).unwrap();
    let image: Value = serde_json::from_slice(&blob(&manifest["config"])).unwrap();
    let config = &image["config"];
    let stages = stages(&read("Dockerfile"));
    let last = &stages[stages.len() - 1].1;
    for (key, word) in [("Entrypoint", "ENTRYPOINT"), ("Cmd", "CMD")] {
        assert_eq!(config[key], serde_json::from_str::<Value>(said(last, word)[0]).unwrap());
    }
    assert_eq!(config["User"], said(last, "USER")[0]);
    assert_eq!(config["ExposedPorts"], json!({format!("{}/tcp", said(last, "EXPOSE")[0]): {}}));
    let labels = config["Labels"].as_object().unwrap();
    assert_eq!(labels["org.opencontainers.image.version"], in_cargo_toml("version").as_str());
    assert_eq!(labels["org.opencontainers.image.revision"], "0a1b2c");
    assert_eq!(labels.len(), said(last, "LABEL")[0].matches("org.opencontainers.image.").count());

    let layer = folder.path().join("layer.tar");
    fs::write(&layer, blob(&manifest["layers"][0])).unwrap();
    let listed = Command::new("tar").arg("-tf").arg(&layer).output().unwrap();
    let names: BTreeSet<String> = String::from_utf8(listed.stdout).unwrap().lines().map(str::to_owned).collect();
    for name in ["baton", "etc/ssl/certs/ca-certificates.crt", "usr/share/zoneinfo/Europe/Berlin", "home/nonroot/"] {
        assert!(names.contains(name), "{name}");
    }
    for library in ["libc.so.6", "ld-linux-"] {
        assert!(names.iter().any(|name| name.rsplit('/').next().unwrap().starts_with(library)), "{library}");
    }
    assert!(String::from_utf8(from_tar(&layer, "etc/passwd")).unwrap().contains("\nnonroot:x:65532:65532:"));
    let licences = String::from_utf8(from_tar(&layer, "usr/share/doc/baton/THIRD-PARTY-LICENSES")).unwrap();
    for linked in ["\nThe Rust standard library ", "\ntokio 1.", "\nring 0.", "\nkube 5.", "\nunsafe-libyaml 0."] {
        assert!(licences.contains(linked), "{linked}");
    }
    assert!(!licences.contains("\nsyn "), "macros are no part of the program");

    let again = folder.path().join("again.tar");
    made(&again);
    assert!(fs::read(&archive).unwrap() == fs::read(&again).unwrap(), "the same files make the same image");
}

/// Paths that `.dockerignore` leaves for the build.
fn context() -> Vec<String> {
    read(".dockerignore").lines().filter_map(|line| line.strip_prefix('!')).map(str::to_owned).collect()
}

#[test]
fn the_build_has_what_it_needs_and_nothing_besides() {
    let context = context();
    assert!(read(".dockerignore").lines().any(|line| line == "*"), "all else is left out");
    let missing: Vec<&String> = context.iter().filter(|path| !root().join(path).exists()).collect();
    assert_eq!(missing, Vec::<&String>::new());
    for stage in stages(&read("Dockerfile")) {
        let run = said(&stage.1, "RUN").join(" ");
        let scripts = run.split([' ', ';']).filter(|word| word.starts_with(".ci/"));
        assert_eq!(
            scripts.filter(|word| !context.iter().any(|path| path == word)).collect::<Vec<_>>(),
            Vec::<&str>::new()
        );
    }
    // What the source includes stands in the source.
    for file in rust_files("src/") {
        for included in file.text.split("include_str!(\"").skip(1).filter_map(|rest| rest.split('"').next()) {
            let path = root().join(&file.path).parent().unwrap().join(included).canonicalize().unwrap();
            assert!(path.starts_with(root().canonicalize().unwrap().join("src")), "{}: {included}", file.path);
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let mut copy = Command::new("cp");
    assert!(
        copy.current_dir(root())
            .args(["-r", "--parents"])
            .args(&context)
            .arg(folder.path())
            .status()
            .unwrap()
            .success()
    );
    let cargo = Command::new(env!("CARGO"))
        .args(["metadata", "--offline", "--locked", "--no-deps", "--format-version", "1"])
        .current_dir(folder.path())
        .output()
        .unwrap();
    assert!(cargo.status.success(), "{}", String::from_utf8_lossy(&cargo.stderr));
}
