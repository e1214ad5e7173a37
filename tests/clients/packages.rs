//! Every client in every cell, and the table of docs/clients.md. `make clients` builds the packages, and runs this.

use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use testkit::wait::until;

use crate::cells::{CELLS, Outcome};
use crate::client::{Client, Event, Form, unallowed};
use crate::sidecar::{Answers, Sidecar, now};
use crate::{client, go_client, java_client, node_client};

const PAGE: &str = "docs/clients.md";
const BEGIN: &str = "<!-- conformance:begin -->\n";
const END: &str = "<!-- conformance:end -->";

struct Contestant {
    name: &'static str,
    form: Form,
    command: Box<dyn Fn() -> Command + Send + Sync>,
    /// What it was built into.
    _built: Option<tempfile::TempDir>,
}

/// What `make clients` has built, if it has; a path is one below clients/.
fn package(name: &'static str, program: &'static [&'static str]) -> Option<Contestant> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("clients");
    let is_path = |word: &&&str| word.contains('/');
    if !program.iter().filter(is_path).all(|path| folder.join(path).exists()) {
        return None;
    }
    let command = move || {
        let words = program.iter().map(|word| if is_path(&word) { folder.join(word) } else { word.into() });
        let words: Vec<_> = words.collect();
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]);
        command
    };
    Some(Contestant { name, form: Form::Package, command: Box::new(command), _built: None })
}

fn smallest(name: &'static str, command: impl Fn() -> Command + Send + Sync + 'static) -> Contestant {
    Contestant { name, form: Form::Smallest, command: Box::new(command), _built: None }
}

/// All that there are, and whether they can run here.
fn contestants() -> Vec<(&'static str, Option<Contestant>)> {
    let script = |program: &'static str, file: &'static str| {
        let command = move || {
            let mut command = Command::new(program);
            command.arg(client(file));
            command
        };
        (file, Some(smallest(file, command)))
    };
    let go = go_client().map(|(built, _)| {
        let program = built.path().join("leader");
        Contestant { _built: Some(built), ..smallest("leader.go", move || Command::new(&program)) }
    });
    let java = java_client().map(|_| smallest("Leader.java", || java_client().expect("it was there")));
    let node = node_client().map(|_| smallest("leader.mjs", || node_client().expect("it was there")));
    let all = vec![
        ("Python", package("Python", &["python/.venv/bin/python", "python/conformance/with_threads.py"])),
        ("asyncio", package("asyncio", &["python/.venv/bin/python", "python/conformance/with_asyncio.py"])),
        ("Go", package("Go", &["go/dist/conformance"])),
        ("Java", package("Java", &["java/conformance.sh"])),
        ("Node.js", package("Node.js", &["node", "node/dist/conformance/main.js"])),
        ("Rust", package("Rust", &["rust/target/debug/examples/conformance"])),
        script("python3", "leader.py"),
        script("sh", "leader.sh"),
        ("leader.go", go),
        ("Leader.java", java),
        ("leader.mjs", node),
    ];
    let only = std::env::var("BATON_CLIENTS_ONLY").unwrap_or_default();
    all.into_iter().filter(|(name, _)| only.is_empty() || only.split(',').any(|wanted| wanted == *name)).collect()
}

/// None: it is not for clients of this form.
fn outcomes(contestant: &Contestant) -> Vec<Option<Outcome>> {
    let cells = CELLS.iter().map(|cell| {
        if contestant.form == Form::Smallest && !cell.for_smallest {
            return None;
        }
        let sidecar = Sidecar::start();
        let client = Client::start((contestant.command)(), contestant.form, &sidecar);
        println!("{}: {}", contestant.name, cell.name);
        Some(cell.run(sidecar, client, contestant.form))
    });
    cells.collect()
}

fn table(names: &[&str], all: &[Vec<Option<Outcome>>]) -> String {
    let row = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let head: Vec<String> = std::iter::once("what happens").chain(names.iter().copied()).map(str::to_owned).collect();
    let mut text = row(head.clone()) + &format!("|{}\n", "---|".repeat(head.len()));
    for (at, cell) in CELLS.iter().enumerate() {
        let told = all.iter().map(|outcomes| match outcomes[at] {
            None => String::new(),
            Some(outcome) => outcome.late.as_millis().to_string(),
        });
        text += &row(std::iter::once(cell.name.to_owned()).chain(told).collect());
    }
    let works = all.iter().map(|outcomes| outcomes.iter().flatten().map(|outcome| outcome.works).sum::<usize>());
    let works = works.map(|works| works.to_string());
    text + &row(std::iter::once("pieces of work in all".to_owned()).chain(works).collect())
}

#[test]
#[ignore = "make clients: needs what it builds"]
fn no_client_works_when_nothing_allows_it() {
    let (here, missing): (Vec<_>, Vec<_>) = contestants().into_iter().partition(|(_, one)| one.is_some());
    for (name, _) in &missing {
        println!("left out: {name} cannot run here, or make clients has not built it");
    }
    let contestants: Vec<Contestant> = here.into_iter().filter_map(|(_, one)| one).collect();
    let all: Vec<_> = thread::scope(|scope| {
        let running: Vec<_> = contestants.iter().map(|one| scope.spawn(|| outcomes(one))).collect();
        running.into_iter().map(thread::ScopedJoinHandle::join).collect()
    });
    let failed: Vec<_> =
        contestants.iter().zip(&all).filter(|(_, told)| told.is_err()).map(|(one, _)| one.name).collect();
    assert_eq!(failed, [""; 0], "they do not do what they should: see above");
    let all: Vec<Vec<Option<Outcome>>> = all.into_iter().map(Result::unwrap).collect();
    let names: Vec<&str> = contestants.iter().map(|one| one.name).collect();
    let table = table(&names, &all);
    println!("{table}");
    let late = all.iter().flatten().flatten().filter(|outcome| !outcome.late.is_zero());
    assert_eq!(late.count(), 0, "work was begun after its validity:\n{table}");
    let is_whole = missing.is_empty() && std::env::var_os("BATON_CLIENTS_ONLY").is_none();
    if is_whole && std::env::var_os("BATON_CLIENTS_WRITE").is_some() {
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).join(PAGE);
        let text = std::fs::read_to_string(&page).unwrap();
        let (before, rest) = text.split_once(BEGIN).expect("the table has a place");
        let (_, after) = rest.split_once(END).expect("its place ends");
        std::fs::write(&page, format!("{before}{BEGIN}{table}{END}{after}")).unwrap();
    }
}

/// A package's client that counts from when an answer comes.
const CARELESS: &str = r#"
import http.client, json, os, sys, time
address = os.environ["BATON_URL"].removeprefix("http://")
hold = http.client.HTTPConnection(address)
hold.request("GET", f"/leader/{sys.argv[1]}/hold")
name = json.loads(hold.getresponse().readline())["hold"]
asks = http.client.HTTPConnection(address)
while True:
    asks.request("GET", f"/leader/{sys.argv[1]}?hold={name}")
    answer = json.load(asks.getresponse())
    print(json.dumps({"is": "works", "token": answer["token"], "at": time.monotonic_ns()}), flush=True)
"#;

#[test]
fn a_client_that_counts_from_the_answer_is_caught() {
    let sidecar = Sidecar::start();
    sidecar.lead(7, Duration::from_millis(300));
    sidecar.answer(Answers::Late(Duration::from_millis(500)));
    let mut command = Command::new("python3");
    command.args(["-c", CARELESS]);
    let mut client = Client::start(command, Form::Package, &sidecar);
    until("it works", || client.works(7, 0) > 0);
    let late = unallowed(&sidecar, client.events());
    assert!(late.iter().all(|(token, after)| (*token, *after > Duration::from_millis(150)) == (7, true)), "{late:?}");
    assert!(!late.is_empty());
}

#[test]
fn work_without_a_promise_is_seen() {
    let sidecar = Sidecar::start();
    assert_eq!(unallowed(&sidecar, &[Event::Begins { token: 7, at: 1 }, Event::Left { at: 2 }]), []);
    let at = now();
    let seen = unallowed(&sidecar, &[Event::Works { token: 7, at }]);
    assert_eq!(seen, [(7, Duration::from_nanos(at))], "nothing was promised");
    sidecar.lead(7, Duration::from_mins(1));
    sidecar.answer(Answers::Well);
    let mut ask = Command::new("curl");
    ask.args(["--silent", "--noproxy", "*", &format!("{}/leader/scheduler", sidecar.url())]);
    assert!(ask.output().unwrap().status.success());
    let until = sidecar.promised_until();
    let works = [until, until + 1_000_000].map(|at| Event::Works { token: 7, at });
    assert_eq!(unallowed(&sidecar, &works), [(7, Duration::from_millis(1))]);
    assert_eq!(unallowed(&sidecar, &[Event::Works { token: 8, at: until }]), [(8, Duration::from_nanos(until))]);
}
