//! What these tests share: running the binary to its end or beside the test, and the files that it is given.

use std::path::PathBuf;
use std::process::Stdio;
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use testkit::{found_within, wait_until, within};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};

/// Longer than the longest lease here and a start on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// A folder of a test's own, and commands that are run in it.
pub struct Bench {
    folder: TempDir,
    variables: Vec<(&'static str, String)>,
}

/// What a command said, and its exit code (128 + the signal that killed it).
#[derive(Debug)]
pub struct Said {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Said {
    /// Checks the exit code, and shows everything when it is another.
    #[track_caller]
    pub fn ends_with(self, code: i32) -> Self {
        assert_eq!(self.code, code, "{self:#?}");
        self
    }

    /// Standard output as JSON.
    #[track_caller]
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error} in {:?}", self.out))
    }
}

impl Bench {
    pub fn new() -> Self {
        let folder = TempDir::new().unwrap();
        // What a killed `baton exec` leaves running looks for it, and so ends with the test.
        std::fs::write(folder.path().join("alive"), "").unwrap();
        // The control socket of `baton dev` goes here, so that tests do not meet each other's.
        let runtime = folder.path().to_string_lossy().into_owned();
        Self { folder, variables: vec![("XDG_RUNTIME_DIR", runtime), ("POD_NAME", "web-0".to_owned())] }
    }

    /// A variable for every command from now on.
    pub fn with(mut self, name: &'static str, value: &str) -> Self {
        self.variables.push((name, value.to_owned()));
        self
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a file and returns its path.
    pub fn file(&self, name: &str, text: &str) -> String {
        let path = self.path(name);
        std::fs::write(&path, text).unwrap();
        path.to_string_lossy().into_owned()
    }

    /// What is in a file; nothing as long as it is not there.
    pub fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.program(env!("CARGO_BIN_EXE_baton"));
        command.args(arguments);
        command
    }

    fn program(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.env_remove("BATON_API").current_dir(self.folder.path());
        command.envs(self.variables.iter().map(|(name, value)| (*name, value.as_str())));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        command
    }

    /// Runs the binary to its end.
    pub async fn baton(&self, arguments: &[&str]) -> Said {
        self.run(env!("CARGO_BIN_EXE_baton"), arguments).await
    }

    /// Runs a program to its end.
    pub async fn run(&self, program: &str, arguments: &[&str]) -> Said {
        let output = tokio::time::timeout(PATIENCE, self.program(program).args(arguments).output()).await;
        let output = output.unwrap_or_else(|_| panic!("{arguments:?} does not end")).unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Said { code: code(output.status), out: text(&output.stdout), err: text(&output.stderr) }
    }

    /// Runs the binary beside the test.
    pub fn start(&self, arguments: &[&str]) -> Running {
        Self::beside(self.command(arguments), arguments)
    }

    /// The same on a terminal of its own.
    pub fn on_terminal(&self, arguments: &[&str]) -> Running {
        let line = format!("exec {} {}", env!("CARGO_BIN_EXE_baton"), arguments.join(" "));
        let mut command = self.program("script");
        command.args(["--quiet", "--return", "--flush", "--command", &line, "/dev/null"]);
        Self::beside(command, arguments)
    }

    fn beside(mut command: Command, arguments: &[&str]) -> Running {
        let mut child = command.spawn().unwrap();
        let lines = Arc::new(Mutex::new(Vec::new()));
        collect(child.stdout.take().unwrap(), Arc::clone(&lines));
        collect(child.stderr.take().unwrap(), Arc::clone(&lines));
        Running { child, lines, arguments: arguments.join(" ") }
    }
}

fn collect(from: impl AsyncRead + Unpin + Send + 'static, into: Arc<Mutex<Vec<String>>>) {
    tokio::spawn(async move {
        let mut lines = BufReader::new(from).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            into.lock().unwrap().push(line);
        }
    });
}

fn code(status: std::process::ExitStatus) -> i32 {
    use std::os::unix::process::ExitStatusExt;
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0))
}

/// A process beside the test. Killed when dropped.
pub struct Running {
    child: Child,
    lines: Arc<Mutex<Vec<String>>>,
    arguments: String,
}

impl Running {
    /// What it has printed so far.
    pub fn lines(&self) -> Vec<String> {
        self.lines.lock().unwrap().clone()
    }

    /// Waits until it has printed a line with `part` in it, and returns that line.
    pub async fn says(&self, part: &str) -> String {
        self.says_after(0, part).await
    }

    /// The same among what it printed after the first `seen` lines.
    pub async fn says_after(&self, seen: usize, part: &str) -> String {
        let find = async || self.lines().into_iter().skip(seen).find(|line| line.contains(part));
        let found = found_within(PATIENCE, find).await;
        found.unwrap_or_else(|| panic!("`{}` does not say {part:?}, but: {:#?}", self.arguments, self.lines()))
    }

    pub fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.child.id().unwrap().try_into().unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    /// Waits for its end, and returns its exit code.
    pub async fn ends(&mut self) -> i32 {
        match tokio::time::timeout(PATIENCE, self.child.wait()).await {
            Ok(status) => code(status.unwrap()),
            Err(_) => panic!("`{}` does not end; it said {:#?}", self.arguments, self.lines()),
        }
    }
}

/// Waits until a file has something in it, and returns that.
pub async fn written(bench: &Bench, name: &str) -> String {
    wait_until(PATIENCE, &format!("{name} is written"), || bench.read(name).ends_with('\n')).await;
    bench.read(name)
}

/// Whether a process is there, ended and not waited for included.
pub fn exists(pid: i32) -> bool {
    rustix::process::test_kill_process(Pid::from_raw(pid).unwrap()).is_ok()
}

/// Ports for `baton dev`: its first one. Below what the system hands out by itself, and in blocks, so that neither
/// other processes nor other tests are met.
pub fn dev_port() -> u16 {
    const BLOCKS: u16 = 60;
    static TAKEN: AtomicU16 = AtomicU16::new(0);
    for _ in 0..BLOCKS {
        let block = TAKEN.fetch_add(1, Ordering::Relaxed) + u16::try_from(std::process::id() % 60).unwrap();
        let port = 20_000 + block % BLOCKS * 200;
        let ports = (0..4).flat_map(|n| [port + n, port + 100 + n]);
        if ports.map(|port| std::net::TcpListener::bind(("127.0.0.1", port))).all(|bound| bound.is_ok()) {
            return port;
        }
    }
    panic!("no free ports");
}

/// The only role of a sidecar as it answers an app, which is a promise where it leads; none as long as it does not
/// answer.
pub async fn role_at(port: u16) -> Option<serde_json::Value> {
    let answer = within("an answer", ask(port, "GET /roles", "")).await?;
    let body = answer.split_once("\r\n\r\n")?.1;
    let roles: serde_json::Value = serde_json::from_str(body).unwrap_or_else(|error| panic!("{error} in {answer}"));
    Some(roles[0].clone())
}

/// The whole answer to one request of an app; none when nobody listens.
pub async fn ask(port: u16, line: &str, body: &str) -> Option<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await.ok()?;
    let head = format!("{line} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n");
    let head = format!("{head}Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    stream.write_all(head.as_bytes()).await.ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.ok()?;
    Some(answer)
}

/// Waits until exactly one of the replicas leads, and it is not `but`; returns its number and its token.
pub async fn one_leader(port: u16, replicas: u16, but: Option<u16>) -> (u16, u64) {
    let one = async || {
        let mut leaders = Vec::new();
        for n in 0..replicas {
            let answer = role_at(port + n).await;
            leaders.extend(answer.and_then(|role| role["token"].as_u64()).map(|token| (n, token)));
        }
        match leaders[..] {
            [(n, token)] if Some(n) != but => Some((n, token)),
            _ => None,
        }
    };
    let found = found_within(PATIENCE, one).await;
    found.unwrap_or_else(|| panic!("no other leader than {but:?} within {PATIENCE:?}"))
}
