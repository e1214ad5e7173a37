//! The recipes of docs/fencing.md that can be run here are run as they stand there: a smaller token is refused, and
//! what a later leader wrote stays.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

const TOKENS: [u64; 6] = [5, 5, 9, 7, 1_763_680_000_123_456, 1_763_680_000_123_455];
const PASSES: [bool; 6] = [true, true, true, false, true, false];

/// The code block in a language that contains `mark`.
fn recipe(language: &str, mark: &str) -> String {
    let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/fencing.md")).unwrap();
    let begins = format!("```{language}\n");
    let blocks = page.split(&begins).skip(1).filter_map(|rest| rest.split("```").next());
    blocks.filter(|block| block.contains(mark)).map(str::to_owned).next().expect("the page has this recipe")
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// A Redis of the test's own, on a socket in a folder of its own. Killed when dropped.
struct Redis {
    server: Child,
    socket: String,
}

impl Redis {
    fn start(folder: &Path) -> Self {
        let socket = folder.join("redis.sock").display().to_string();
        let mut command = Command::new("redis-server");
        command.args(["--port", "0", "--save", "", "--unixsocket", &socket]).current_dir(folder);
        let server = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
        let redis = Self { server, socket };
        let begun = Instant::now();
        while !said(&redis.ask(&["PING"])).contains("PONG") {
            assert!(begun.elapsed() < Duration::from_secs(30), "redis-server does not answer");
            std::thread::sleep(Duration::from_millis(5));
        }
        redis
    }

    fn ask(&self, arguments: &[&str]) -> Output {
        Command::new("redis-cli").args(["-s", &self.socket]).args(arguments).stdin(Stdio::null()).output().unwrap()
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

#[test]
fn the_redis_recipe_refuses_a_smaller_token() {
    let folder = tempfile::tempdir().unwrap();
    let redis = Redis::start(folder.path());
    let script = recipe("lua", "FENCED");
    for (token, passes) in TOKENS.into_iter().zip(PASSES) {
        let (token, text) = (token.to_string(), format!("written with {token}"));
        let answer = said(&redis.ask(&["EVAL", &script, "2", "{r}:fence", "{r}:latest", &token, &text]));
        assert_eq!(answer.trim() == "OK", passes, "{token}: {answer}");
        assert_eq!(answer.contains("FENCED"), !passes, "{token}: {answer}");
    }
    let stands = said(&redis.ask(&["GET", "{r}:latest"]));
    assert_eq!(stands.trim(), "written with 1763680000123456");
}

#[test]
fn the_file_recipe_refuses_a_smaller_token() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("fenced-write"), recipe("sh", "flock")).unwrap();
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
    command.args(["-c", program, &recipe("sql", "CREATE TABLE"), &recipe("sql", "ON CONFLICT")]);
    let output = command.args(TOKENS.map(|token| token.to_string())).stdin(Stdio::null()).output().unwrap();
    assert_eq!(said(&output).trim(), "[True, True, True, False, True, False]");
}
