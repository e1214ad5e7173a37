//! Of docs/fencing.md: a smaller token is refused, and what a later leader wrote stays.

use std::fs;
use std::io::Write;
use std::process::{Command, Output, Stdio};

use testkit::redis::RedisServer;
use testkit::resp::Reply;

use crate::recipe;

const TOKENS: [u64; 6] = [5, 5, 9, 7, 1_763_680_000_123_456, 1_763_680_000_123_455];
const PASSES: [bool; 6] = [true, true, true, false, true, false];

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[test]
fn the_redis_recipe_refuses_a_smaller_token() {
    let redis = RedisServer::start();
    let script = recipe("fencing.md", "lua", "FENCED");
    for (token, passes) in TOKENS.into_iter().zip(PASSES) {
        let (token, text) = (token.to_string(), format!("written with {token}"));
        match redis.ask(&["EVAL", &script, "2", "{r}:fence", "{r}:latest", &token, &text]) {
            Reply::Text(answer) => assert!(passes && answer == "OK", "{token}: {answer}"),
            Reply::Error(answer) => assert!(!passes && answer.contains("FENCED"), "{token}: {answer}"),
            other => panic!("{token}: {other:?}"),
        }
    }
    assert_eq!(redis.command(&["GET", "{r}:latest"]).text(), "written with 1763680000123456");
}

#[test]
fn the_file_recipe_refuses_a_smaller_token() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("fenced-write"), recipe("fencing.md", "sh", "flock")).unwrap();
    for (token, passes) in TOKENS.into_iter().zip(PASSES) {
        let mut command = Command::new("sh");
        command.args(["fenced-write", &token.to_string(), "report"]).current_dir(folder.path()).stdin(Stdio::piped());
        let mut writer = command.spawn().unwrap();
        // A refused writer ends without reading.
        let _ = write!(writer.stdin.take().unwrap(), "written with {token}");
        assert_eq!(writer.wait().unwrap().code(), Some(if passes { 0 } else { 75 }), "{token}");
    }
    assert_eq!(fs::read_to_string(folder.path().join("report")).unwrap(), "written with 1763680000123456");
}

#[test]
fn the_sql_recipe_refuses_a_smaller_token() {
    // SQLite reads this statement as PostgreSQL does, and comes with Python.
    let program = "import sqlite3, sys\n\
                   table, block, *tokens = sys.argv[1:]\n\
                   fence = block.split('BEGIN;')[1].split(';')[0].replace('$1', '?1')\n\
                   base = sqlite3.connect(':memory:')\n\
                   base.execute(table)\n\
                   print([bool(base.execute(fence, (int(token),)).fetchall()) for token in tokens])";
    let mut command = Command::new("python3");
    command.args([
        "-c",
        program,
        &recipe("fencing.md", "sql", "CREATE TABLE"),
        &recipe("fencing.md", "sql", "ON CONFLICT"),
    ]);
    let output = command.args(TOKENS.map(|token| token.to_string())).stdin(Stdio::null()).output().unwrap();
    assert_eq!(said(&output).trim(), "[True, True, True, False, True, False]");
}
