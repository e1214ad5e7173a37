//! The recipes of docs/locks.md are run as they stand there.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::sidecar::{GUARD, Sidecar, Store};

/// The code block in a language that contains `mark`, for this sidecar.
fn recipe(language: &str, mark: &str, sidecar: &Sidecar) -> String {
    let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/locks.md")).unwrap();
    let begins = format!("```{language}\n");
    let mut blocks = page.split(&begins).skip(1).filter_map(|rest| rest.split("```").next());
    let block = blocks.find(|block| block.contains(mark)).expect("the page has this recipe");
    let address = sidecar.api.to_string();
    block.replace("localhost:4040", &address).replace("127.0.0.1:4040", &address)
}

#[test]
fn the_python_recipe_works_under_the_lock_and_gives_it_back() {
    let sidecar = Sidecar::start("web-0", Store::Memory, GUARD);
    let work = "def work(token, until):\n    \
                held = json.loads(call('GET', '/locks/orders')[2])['holders'][0]\n    \
                return held['token'] == token and until > time.monotonic() + 1\n\
                print(with_lock('orders', work))\n";
    let program = recipe("python", "with_lock", &sidecar) + work;
    let output = Command::new("python3").args(["-c", &program]).stdin(Stdio::null()).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "True", "{output:?}");
    sidecar.until_like("orders", 0, 0);
}

#[test]
fn the_shell_recipe_works_under_the_lock_and_frees_it() {
    let sidecar = Sidecar::start("web-0", Store::Memory, GUARD);
    let folder = tempfile::tempdir().unwrap();
    let nightly = format!("#!/bin/sh\ncurl -s http://{}/locks/nightly > seen\n", sidecar.api);
    fs::write(folder.path().join("nightly.sh"), nightly).unwrap();
    let script = recipe("sh", "mkfifo", &sidecar).replace("./nightly.sh", "sh nightly.sh");
    let run = || {
        let mut command = Command::new("sh");
        command.args(["-c", &script]).current_dir(folder.path()).stdin(Stdio::null());
        assert!(command.output().unwrap().status.success());
        fs::read_to_string(folder.path().join("seen")).ok()
    };
    let seen = run().expect("the work was done");
    assert!(seen.contains("\"token\""), "while the lock was held: {seen}");
    sidecar.until_like("nightly", 0, 0);
    fs::remove_file(folder.path().join("seen")).unwrap();
    let (id, _) = sidecar.take("nightly", r#"{"lease":"1h"}"#);
    assert_eq!(run(), None, "not while another has it");
    assert_eq!(sidecar.release("nightly", &id), 204);
}
