//! Help, versions, exit codes, and the commands that need nothing but a file.

use crate::bench::{Bench, dev_port};

const COMMANDS: [&str; 11] =
    ["run", "dev", "exec", "status", "resign", "jobs", "check-config", "schema", "audit", "purge", "quorum"];

#[tokio::test]
async fn the_help_lists_every_command_and_what_it_is_for() {
    let said = Bench::new().baton(&["--help"]).await.ends_with(0);
    for command in COMMANDS {
        let line = said.out.lines().find(|line| line.split_whitespace().next() == Some(command));
        assert!(line.is_some_and(|line| line.split_whitespace().count() > 3), "{command} in {}", said.out);
    }
    assert!(said.out.contains("Exit codes:"), "{}", said.out);
}

#[tokio::test]
async fn every_command_has_a_help_of_its_own_and_most_an_example() {
    let bench = Bench::new();
    for command in COMMANDS {
        let said = bench.baton(&["help", command]).await.ends_with(0);
        assert!(said.out.contains(&format!("Usage: baton {command}")), "{}", said.out);
        let plain = ["run", "schema"].contains(&command);
        assert!(plain || said.out.contains("Example"), "{}", said.out);
    }
}

#[tokio::test]
async fn bad_usage_ends_with_64_and_says_what_would_be_right() {
    let bench = Bench::new();
    assert!(bench.baton(&[]).await.ends_with(64).err.contains("Usage: baton"));
    assert!(bench.baton(&["statsu"]).await.ends_with(64).err.contains("'status'"));
    assert!(bench.baton(&["resign"]).await.ends_with(64).err.contains("<ROLE>"));
    assert!(bench.baton(&["resign", "Not-A-Role"]).await.ends_with(64).err.contains("DNS label"));
    assert!(bench.baton(&["resign", "a", "--cooldown", "10"]).await.ends_with(64).err.contains("no unit"));
    assert!(bench.baton(&["exec", "--role", "a"]).await.ends_with(64).err.contains("<CMD>"));
    assert!(bench.baton(&["dev", "--replicas", "0"]).await.ends_with(64).err.contains("1..=20"));
}

#[tokio::test]
async fn the_version_is_the_packages() {
    let said = Bench::new().baton(&["--version"]).await.ends_with(0);
    assert_eq!(said.out.trim_end(), concat!("baton ", env!("CARGO_PKG_VERSION")));
}

#[tokio::test]
async fn a_good_file_is_ok_in_one_line() {
    let bench = Bench::new();
    let file =
        bench.file("c.yaml", "store: { redis: { url: 'redis://r:6379/0' } }\nroles: [{ name: a }, { name: b }]\n");
    let said = bench.baton(&["check-config", &file]).await.ends_with(0);
    assert_eq!(said.out, format!("{file}: ok: identity web-0, store redis, 2 roles (a, b)\n"));
    assert_eq!(said.err, "");
}

#[tokio::test]
async fn a_bad_file_is_told_with_every_problem_and_its_place() {
    let bench = Bench::new();
    let file =
        bench.file("c.yaml", "store:\n  redis:\n    uri: x\nroles:\n  - name: Bad_Name\n    leaseDuration: 15\n");
    let said = bench.baton(&["check-config", &file]).await.ends_with(64);
    for place in [format!("{file}:3:"), format!("{file}:5:"), format!("{file}:6:")] {
        assert!(said.err.contains(&place), "{place} in {}", said.err);
    }
    assert!(said.err.contains("roles[0].leaseDuration"), "{}", said.err);
    assert_eq!(said.out, "");
    bench.baton(&["check-config", "/no/such/file"]).await.ends_with(64);
    bench.baton(&["run", "--config", &file]).await.ends_with(64);
}

#[tokio::test]
async fn a_secret_file_that_is_absent_is_warned_of_where_a_file_is_only_checked() {
    let bench = Bench::new();
    let text = "store: { redis: { url: 'redis://r:6379/0', passwordFile: /no/such/secret } }\nroles: [{ name: a }]\n";
    let file = bench.file("c.yaml", text);
    let said = bench.baton(&["check-config", &file]).await.ends_with(0);
    assert!(said.err.starts_with("warning: ") && said.err.contains("/no/such/secret"), "{}", said.err);
    assert!(bench.baton(&["run", "--config", &file]).await.ends_with(64).err.contains("/no/such/secret"));
}

#[tokio::test]
async fn the_schema_is_json_that_knows_the_keys() {
    let said = Bench::new().baton(&["schema"]).await.ends_with(0);
    assert!(said.json()["properties"]["roles"].is_object(), "{}", said.out);
}

#[tokio::test]
async fn a_taken_port_ends_run_with_69_and_is_named() {
    let (bench, port) = (Bench::new(), dev_port());
    let _taken = std::net::TcpListener::bind(("127.0.0.1", port)).unwrap();
    let listen = format!("api: {{ listen: '127.0.0.1:{port}' }}\ntelemetry: {{ listen: '127.0.0.1:{}' }}\n", port + 1);
    let file = bench.file("c.yaml", &format!("{listen}store: {{ memory: {{}} }}\nroles: [{{ name: a }}]\n"));
    let said = bench.baton(&["run", "--config", &file]).await.ends_with(69);
    assert!(said.err.contains(&format!("api.listen cannot listen on 127.0.0.1:{port}")), "{}", said.err);
}

#[tokio::test]
async fn the_steps_from_one_list_of_members_to_another_are_printed_for_a_file() {
    let bench = Bench::new();
    let list = |members: &str| format!("store: {{ quorum: {{ members: [{members}] }} }}\nroles: [{{ name: a }}]\n");
    let three = "{ url: 'redis://:pw@r-0' }, { url: 'redis://r-1' }, { url: 'redis://r-2:6380' }";
    let file = bench.file("c.yaml", &list(three));
    let said = bench.baton(&["quorum", "replace", "r-2:6380", "r-3", "--config", &file]).await.ends_with(0).out;
    let steps = [
        "1. Start r-3:6379, empty.",
        "2. Write into",
        "- r-0:6379: as it is",
        "- r-2:6380: with `leaving: true`",
        "- r-3:6379: a new entry, with `joining: true`",
        "3. Write into",
        "- r-3:6379\n",
        "4. End r-2:6380.",
    ];
    let mut rest = said.as_str();
    for step in steps {
        let missing = || panic!("{step:?} is missing, or out of order:\n{said}");
        let (_, after) = rest.split_once(step).unwrap_or_else(missing);
        rest = after;
    }
    assert!(!said.contains("pw"), "{said}");
    let more = bench.baton(&["quorum", "add", "redis://r-3", "r-4:7000", "--config", &file]).await.ends_with(0).out;
    assert!(more.contains("r-4:7000: a new entry") && !more.contains("leaving: true"), "{more}");
    let even = bench.baton(&["quorum", "add", "r-3", "--config", &file]).await.ends_with(0).out;
    assert!(even.contains("4 members bear no more failures than 3"), "{even}");
    for (change, why) in [
        (["replace", "r-9", "r-3"], "r-9:6379 is no member; the members are r-0:6379, r-1:6379, r-2:6380"),
        (["replace", "r-0", "r-1"], "r-1:6379 is a member already"),
        (["replace", "r-2:6380", "redis://r-2:6380/1"], "r-2:6380 is a member already"),
        (["add", "r-3", "redis://R-3:6379/1"], "r-3:6379/1 is named twice"),
        (["remove", "r-0", "r-1"], "there would be 1 members; a quorum has 3 to 9"),
        (["replace", "r-0", "not a host"], "is no server"),
    ] {
        let words = [&["quorum"], &change[..], &["--config", &file]].concat();
        let told = bench.baton(&words).await.ends_with(64).err;
        assert!(told.contains(why), "{told}");
    }
    let changing = bench.file("d.yaml", &list(&format!("{three}, {{ url: 'redis://r-3', joining: true }}")));
    let told = bench.baton(&["quorum", "add", "r-4", "--config", &changing]).await.ends_with(64).err;
    assert!(told.contains("a change is under way"), "{told}");
    let single = bench.file("e.yaml", "store: { redis: { url: 'redis://r' } }\nroles: [{ name: a }]\n");
    assert!(bench.baton(&["quorum", "add", "r-4", "--config", &single]).await.ends_with(64).err.contains("no quorum"));
}
