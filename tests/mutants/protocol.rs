//! Mutants of the protocol against its unit tests, and against the simulation where those do not notice.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;

use serde_json::Value;

use crate::survivors::Key;
use crate::switches::{self, Listed, Written};
use crate::trial::{Tests, Verdict, each};

/// What is built: the protocol and the simulation alone, so that nothing else is waited for.
const MANIFEST: &str = r#"[workspace]

[package]
name = "baton"
version = "0.1.0"
edition = "2024"

[lib]
doctest = false

[dev-dependencies]
fastrand = "2"
serde_json = "1"

[profile.dev]
opt-level = 1
debug = false

[[test]]
name = "simulation"
path = "tests/simulation/main.rs"
"#;

/// Which of its bodies a function takes.
const LIBRARY: &str = "pub mod protocol;

pub fn mutant() -> u32 {
    static MUTANT: std::sync::LazyLock<u32> =
        std::sync::LazyLock::new(|| std::env::var(\"BATON_MUTANT\").map_or(0, |number| number.parse().unwrap()));
    *MUTANT
}
";

/// Seeds of mixed faults: a mutant that many seeds are needed for is not told from none.
const SEEDS: &str = "100";
/// The worlds with faults. Not those of `holes`, whose seeds are moved by whatever draws another random number; nor the
/// tables, which take minutes.
const WORLDS: &[&str] = &["no_mix_of_faults", "one_upon_another", "reloads"];

/// What notices a mutant.
struct Binaries {
    units: PathBuf,
    simulation: PathBuf,
}

/// Every mutant of the protocol and what becomes of it. `only`: [`crate::is_among`].
pub fn verdicts(root: &Path, only: &str) -> Vec<(Key, Verdict)> {
    let cargo_mutants = tool(root);
    let plain = package(root, &root.join("target/mutants/plain"));
    let all = listed(&cargo_mutants, &plain);
    let (binaries, written, unviable) = built(root, &all);
    let wanted = |number: &usize| crate::is_among(&all[*number - 1].file, only);
    let at_once = thread::available_parallelism().map_or(2, usize::from);
    let numbers: Vec<usize> = written.keys().copied().filter(wanted).collect();
    println!("{} mutants, {} of them do not compile; {} are tried", all.len(), unviable.len(), numbers.len());
    assert_eq!(judge(&binaries, &all[0], 0), Verdict::Survived, "all tests pass without a mutant");
    let mut verdicts: BTreeMap<usize, Verdict> =
        (1..=all.len()).filter(wanted).map(|number| (number, Verdict::Unviable)).collect();
    verdicts.extend(each(&numbers, at_once, |number| judge(&binaries, &all[number - 1], number)));
    let others = (1..=all.len()).filter(|number| !written.contains_key(number) && !unviable.contains(number));
    let others: Vec<usize> = others.filter(wanted).collect();
    verdicts.extend(one_by_one(&cargo_mutants, &plain, &all, &others));
    keyed(root, &all, verdicts)
}

fn keyed(root: &Path, all: &[Listed], verdicts: BTreeMap<usize, Verdict>) -> Vec<(Key, Verdict)> {
    let mut seen: BTreeMap<(String, String, String), usize> = BTreeMap::new();
    let mut in_order: Vec<(&Listed, Verdict)> =
        verdicts.into_iter().map(|(number, verdict)| (&all[number - 1], verdict)).collect();
    in_order.sort_by_key(|(mutant, _)| (mutant.file.clone(), mutant.order()));
    let key = |(mutant, verdict): (&Listed, Verdict)| {
        let text = fs::read_to_string(root.join(&mutant.file)).expect("a source");
        let (file, line, what) = (mutant.file.clone(), mutant.line(&text).to_owned(), mutant.what().to_owned());
        let nth = seen.entry((file.clone(), line.clone(), what.clone())).or_default();
        *nth += 1;
        (Key { file, line, what, nth: *nth }, verdict)
    };
    in_order.into_iter().map(key).collect()
}

/// cargo-mutants, built first if need be.
fn tool(root: &Path) -> PathBuf {
    let output = Command::new(root.join(".ci/mutants")).stderr(Stdio::inherit()).output().expect("a script");
    assert!(output.status.success(), "there is no cargo-mutants");
    PathBuf::from(String::from_utf8(output.stdout).expect("a path").trim())
}

/// A package with the protocol and the simulation, as they are.
fn package(root: &Path, to: &Path) -> PathBuf {
    if to.join("src").exists() {
        fs::remove_dir_all(to.join("src")).expect("ours");
        fs::remove_dir_all(to.join("tests")).expect("ours");
    }
    for folder in ["src/protocol", "tests/simulation"] {
        copy(&root.join(folder), &to.join(folder));
    }
    fs::write(to.join("Cargo.toml"), MANIFEST).expect("ours");
    fs::copy(root.join("Cargo.lock"), to.join("Cargo.lock")).expect("ours");
    fs::write(to.join("src/lib.rs"), LIBRARY).expect("ours");
    to.to_owned()
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("below target/");
    for entry in fs::read_dir(from).expect("a folder of ours") {
        let entry = entry.expect("a folder of ours");
        let (path, to) = (entry.path(), to.join(entry.file_name()));
        if path.is_dir() {
            copy(&path, &to);
        } else {
            fs::copy(&path, &to).expect("below target/");
        }
    }
}

fn listed(cargo_mutants: &Path, package: &Path) -> Vec<Listed> {
    let arguments = ["mutants", "--list", "--json", "-f", "src/protocol/**", "-E", "impl .*(Debug|Display)"];
    let output = Command::new(cargo_mutants).args(arguments).current_dir(package).output().expect("it runs");
    serde_json::from_slice(&output.stdout).expect("a list of mutants")
}

/// The tests with all mutants in them; where each mutant is, and which of them do not compile.
fn built(root: &Path, all: &[Listed]) -> (Binaries, Written, BTreeSet<usize>) {
    let package = package(root, &root.join("target/mutants/switched"));
    let files: BTreeSet<&str> = all.iter().map(|mutant| mutant.file.as_str()).collect();
    let mut unviable = BTreeSet::new();
    loop {
        let written: Written =
            files.iter().flat_map(|file| switches::write(root, &package, file, all, &unviable)).collect();
        match build(&package) {
            Ok(binaries) => return (binaries, written, unviable),
            Err(errors) => {
                let before = unviable.len();
                for (file, line, text) in errors {
                    let of = written.iter().find(|(_, (of, lines))| *of == file && lines.contains(&line));
                    unviable.insert(*of.unwrap_or_else(|| panic!("{file}:{line} is no mutant's: {text}")).0);
                }
                assert!(unviable.len() > before, "each round finds some");
            }
        }
    }
}

/// The test binaries, or where the compiler complains.
fn build(package: &Path) -> Result<Binaries, Vec<(String, usize, String)>> {
    let output = Command::new(env!("CARGO"))
        .args(["test", "--no-run", "--message-format=json"])
        .env("RUSTFLAGS", "--cap-lints allow")
        .current_dir(package)
        .stderr(Stdio::null())
        .output()
        .expect("cargo runs");
    let (mut errors, mut binaries) = (Vec::new(), BTreeMap::new());
    for line in String::from_utf8(output.stdout).expect("JSON").lines() {
        let message: Value = serde_json::from_str(line).expect("JSON");
        if let Some(path) = message["executable"].as_str() {
            binaries.insert(message["target"]["name"].as_str().unwrap_or_default().to_owned(), PathBuf::from(path));
        }
        let told = &message["message"];
        let places = told["spans"].as_array().into_iter().flatten().filter(|span| span["is_primary"] == true);
        for place in places.filter(|_| told["level"] == "error") {
            let line = place["line_start"].as_u64().and_then(|line| usize::try_from(line).ok());
            let file = place["file_name"].as_str().unwrap_or_default();
            errors.push((file.to_owned(), line.unwrap_or_default(), told["rendered"].to_string()));
        }
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    assert!(output.status.success(), "the package of mutants builds");
    let mut take = |name| binaries.remove(name).expect("it was built");
    Ok(Binaries { units: take("baton"), simulation: take("simulation") })
}

/// First the tests of its own folder, which notice most mutants; then all.
fn judge(binaries: &Binaries, mutant: &Listed, number: usize) -> Verdict {
    let Binaries { units, simulation } = binaries;
    let units = Tests { binary: units, name: "unit tests", processor_seconds: 5, seconds: 600 };
    let simulation = Tests { binary: simulation, name: "the simulation", processor_seconds: 1200, seconds: 3600 };
    let number = number.to_string();
    let environment = [("BATON_MUTANT", number.as_str()), ("BATON_SIM_SEEDS", SEEDS)];
    let folder = mutant.file.trim_start_matches("src/").trim_end_matches(".rs");
    let folder = folder.splitn(3, '/').take(2).collect::<Vec<_>>().join("::");
    let trials: [(Tests, &[&str]); 3] = [(units, &[folder.as_str()][..]), (units, &[]), (simulation, WORLDS)];
    let mut verdicts = trials.iter().map(|(tests, arguments)| tests.judge(arguments, &environment));
    verdicts.find(|verdict| *verdict != Verdict::Survived).unwrap_or(Verdict::Survived)
}

/// Where a function cannot have several bodies cargo-mutants builds each mutant by itself: against the unit tests, and
/// those that survive against the simulation.
fn one_by_one(cargo_mutants: &Path, package: &Path, all: &[Listed], numbers: &[usize]) -> Vec<(usize, Verdict)> {
    let out = package.join("mutants.out");
    if out.exists() {
        fs::remove_dir_all(&out).expect("ours");
    }
    if numbers.is_empty() {
        return Vec::new();
    }
    let names: Vec<String> = numbers.iter().map(|number| format!("^{}$", escaped(&all[*number - 1].name))).collect();
    let run = |more: &[&str], tests: &[&str]| {
        let status = Command::new(cargo_mutants)
            .args(["mutants", "--colors=never", "--cap-lints=true", "--build-timeout=600"])
            .args(more)
            .args(names.iter().flat_map(|name| ["-F", name]))
            .arg("--")
            .args(tests)
            .env("BATON_SIM_SEEDS", SEEDS)
            .current_dir(package)
            .status();
        // 2: some were missed. 3: some went on in circles.
        let code = status.expect("it runs").code();
        assert!(matches!(code, Some(0 | 2 | 3)), "cargo-mutants ended with {code:?}");
    };
    let told = |file: &str| fs::read_to_string(out.join(file)).expect("cargo-mutants writes it");
    run(&["--timeout=120"], &["--lib"]);
    let mut verdicts: BTreeMap<String, Verdict> = BTreeMap::new();
    let mut take = |file, verdict| verdicts.extend(told(file).lines().map(|name| (name.to_owned(), verdict)));
    take("caught.txt", Verdict::Killed("unit tests"));
    take("timeout.txt", Verdict::Stopped);
    take("unviable.txt", Verdict::Unviable);
    if !told("missed.txt").is_empty() {
        let worlds: Vec<&str> = ["--test", "simulation", "--"].iter().chain(WORLDS).copied().collect();
        run(&["--iterate", "--timeout=600"], &worlds);
        take("caught.txt", Verdict::Killed("the simulation"));
        take("timeout.txt", Verdict::Stopped);
        take("missed.txt", Verdict::Survived);
    }
    let verdict = |number: &usize| {
        let name = &all[*number - 1].name;
        (*number, *verdicts.get(name).unwrap_or_else(|| panic!("cargo-mutants says nothing of {name}")))
    };
    numbers.iter().map(verdict).collect()
}

/// As a regular expression that fits nothing else.
fn escaped(name: &str) -> String {
    let escape =
        |letter: char| if r"\.+*?()|[]{}^$".contains(letter) { format!("\\{letter}") } else { letter.to_string() };
    name.chars().map(escape).collect()
}
