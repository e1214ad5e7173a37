//! A Redis of a test's own: a free port, a directory that goes away, killed when dropped.

use std::cell::RefCell;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::place::Place;
use super::profile::{Front, Profile, mutant};
use super::resp::{Connection, Reply};
use super::wait::found_within;

/// What a restart does with the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Data {
    /// Saved before, loaded after.
    Kept,
    /// Forgotten.
    Lost,
}

/// A running server, or one that was stopped and may be started again on the same port.
pub struct RedisServer {
    child: Option<Child>,
    place: Place,
    port: u16,
    dir: TempDir,
    options: Vec<String>,
    environment: Vec<(String, String)>,
    password: Option<String>,
    control: RefCell<Option<Connection>>,
    /// What those go through who ask by its URL, where a mutant of a script is tried.
    front: Option<Front>,
}

/// The server that the tests start: `redis-server`, or what `BATON_REDIS_SERVER` names, such as a Valkey.
pub fn program() -> std::ffi::OsString {
    std::env::var_os("BATON_REDIS_SERVER").unwrap_or_else(|| "redis-server".into())
}

/// What it says of itself, such as `Redis server v=7.0.15 sha=00000000:0 malloc=jemalloc-5.3.0 …`: the first word, and
/// its version.
fn said() -> &'static (String, String) {
    static SAID: OnceLock<(String, String)> = OnceLock::new();
    SAID.get_or_init(|| {
        let said = Command::new(program()).arg("--version").output().expect("it says its version");
        let said = String::from_utf8_lossy(&said.stdout).into_owned();
        let word = |text: &str| text.split_whitespace().next().map(str::to_owned);
        let version = said.split("v=").nth(1).and_then(word);
        word(&said).zip(version).unwrap_or_else(|| panic!("no version in {said}"))
    })
}

/// Which server it is, such as `Valkey 9.1.2`.
///
/// # Panics
/// When it does not run.
pub fn name() -> String {
    let (name, version) = said();
    format!("{name} {version}")
}

/// Its version, as it counts.
///
/// # Panics
/// When it does not run.
pub fn version() -> (u32, u32) {
    let mut numbers = said().1.split('.').map(|number| number.parse().expect("a number"));
    (numbers.next().expect("its major version"), numbers.next().expect("its minor version"))
}

/// Whether it was built with TLS. Says so where it was not, for the tests that are left out then.
///
/// # Panics
/// When it is not on the `PATH`.
pub fn has_tls() -> bool {
    let program = PathBuf::from(program());
    let path = std::env::var_os("PATH").unwrap_or_default();
    // A path that is whole already stays what it is.
    let file = std::env::split_paths(&path).map(|folder| folder.join(&program)).find(|file| file.is_file());
    let text = std::fs::read(file.expect("it is there")).expect("a program can be read");
    let function = b"SSL_CTX_new";
    let has_tls = text.windows(function.len()).any(|window| window == function);
    if !has_tls {
        println!("notice: not tested, since this server was built without TLS");
    }
    has_tls
}

impl RedisServer {
    /// A server without persistence.
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    /// A server with these options on its command line, such as `["--maxmemory", "2mb"]`. `--requirepass` is used by
    /// [`Self::command`], too.
    ///
    /// # Panics
    /// When there is no redis-server, or it does not start.
    pub fn start_with(options: &[&str]) -> Self {
        Self::start_under(&[], options)
    }

    /// The same with these environment variables.
    ///
    /// # Panics
    /// When there is no redis-server, or it does not start.
    pub fn start_under(environment: &[(&str, &str)], options: &[&str]) -> Self {
        Self::start_at(&Place::here(), environment, options)
    }

    /// The same at this place.
    ///
    /// # Panics
    /// When there is no redis-server, or it does not start.
    pub fn start_at(place: &Place, environment: &[(&str, &str)], options: &[&str]) -> Self {
        let password = options.iter().position(|o| *o == "--requirepass").map(|at| options[at + 1].to_owned());
        let mut server = Self {
            child: None,
            place: place.clone(),
            port: 0,
            dir: TempDir::new().expect("a temporary directory"),
            options: options.iter().map(|o| (*o).to_owned()).collect(),
            environment: environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
            password,
            control: RefCell::new(None),
            front: None,
        };
        // Somebody else may take a free port before Redis does; then Redis says so and ends.
        for _ in 0..10 {
            server.port = place.server_port();
            if server.launch() {
                server.front = mutant().map(|_| Front::start(place, &[server.port], Profile::NONE));
                return server;
            }
        }
        panic!("no redis-server would start: {}", server.log());
    }

    /// The port it listens on.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The port of its URL: not its own where a mutant of a script is tried.
    pub fn entry_port(&self) -> u16 {
        self.front.as_ref().map_or(self.port, Front::port)
    }

    /// Where others reach it.
    pub fn host(&self) -> String {
        self.place.ip().to_string()
    }

    /// Its URL, without credentials.
    pub fn url(&self) -> String {
        format!("redis://{}:{}/0", self.place.ip(), self.entry_port())
    }

    /// Sends a command, on a connection of its own. One that the server closed since the last command, as Sentinels
    /// make it do, is opened again.
    ///
    /// # Panics
    /// When there is no answer. An error reply is returned.
    pub fn command(&self, words: &[&str]) -> Reply {
        if let Some(cached) = self.control.borrow_mut().as_mut().filter(|cached| !cached.is_closed()) {
            return cached.command(words).unwrap_or_else(|error| panic!("{words:?}: {error}"));
        }
        let mut fresh = self.connect().expect("the test's Redis answers");
        let reply = fresh.command(words).unwrap_or_else(|error| panic!("{words:?}: {error}"));
        *self.control.borrow_mut() = Some(fresh);
        reply
    }

    /// The same for what may be said twice: a server whose connections others close, as Sentinels have a former master
    /// do, may close this one under the command, and is then asked again on another.
    ///
    /// # Panics
    /// When ten connections in a row end so.
    pub fn ask(&self, words: &[&str]) -> Reply {
        for _ in 0..10 {
            let cached = self.control.borrow_mut().take().filter(|cached| !cached.is_closed());
            let Some(mut connection) = cached.or_else(|| self.connect().ok()) else { continue };
            if let Ok(reply) = connection.command(words) {
                *self.control.borrow_mut() = Some(connection);
                return reply;
            }
        }
        panic!("{words:?}: no connection lasted for an answer");
    }

    /// Whether it was started and not stopped since. A paused server runs.
    pub fn is_running(&self) -> bool {
        self.child.is_some()
    }

    /// SIGKILL. Nothing is saved.
    pub fn kill(&mut self) {
        self.control.borrow_mut().take();
        if let Some(mut child) = self.child.take() {
            // Both fail only when it has ended already.
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Stops it; `Data::Kept` saves first.
    pub fn stop(&mut self, data: Data) {
        if data == Data::Kept {
            assert_eq!(self.command(&["SAVE"]), Reply::Text("OK".to_owned()));
        }
        self.kill();
        if data == Data::Lost {
            for file in ["dump.rdb", "appendonlydir", "appendonly.aof"] {
                let path = self.dir.path().join(file);
                let _ = if path.is_dir() { std::fs::remove_dir_all(&path) } else { std::fs::remove_file(&path) };
            }
        }
    }

    /// Starts it again on its port.
    ///
    /// # Panics
    /// When it does not start.
    pub fn start_again(&mut self) {
        assert!(self.child.is_none(), "it is running");
        assert!(self.launch(), "redis-server would not start again: {}", self.log());
    }

    /// Stops and starts it.
    pub fn restart(&mut self, data: Data) {
        self.stop(data);
        self.start_again();
    }

    /// SIGSTOP: it keeps its connections and answers nothing.
    pub fn pause(&self) {
        self.signal(Signal::STOP);
    }

    /// SIGCONT.
    pub fn resume(&self) {
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) {
        let child = self.child.as_ref().expect("it is running");
        kill_process(Pid::from_child(child), signal).expect("our own child takes signals");
    }

    fn launch(&mut self) -> bool {
        let mut command = Command::new(program());
        command
            .args(["--port", &self.port.to_string(), "--save", "", "--daemonize", "no", "--protected-mode", "no"])
            // A replica that cannot go on where it was is served at once, not only after five seconds.
            .args(["--repl-diskless-sync-delay", "0"])
            .arg("--bind")
            .args(self.place.addresses())
            // Whole, or it would be made in our own directory first.
            .arg("--logfile")
            .arg(self.log_path())
            .arg("--dir")
            .arg(self.dir.path())
            .args(self.options_known())
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        match self.place.run(|| command.spawn()) {
            Ok(child) => self.child = Some(child),
            Err(error) => panic!("redis-server cannot be started ({error}); `make test` installs it"),
        }
        self.wait_for_start()
    }

    /// Before 7.0 DEBUG was allowed without being asked for.
    fn options_known(&self) -> Vec<&str> {
        let mut options: Vec<&str> = self.options.iter().map(String::as_str).collect();
        let at = options.iter().position(|option| *option == "--enable-debug-command");
        if let Some(at) = at.filter(|_| version() < (7, 0)) {
            options.drain(at..at + 2);
        }
        options
    }

    /// False when it ended instead.
    fn wait_for_start(&mut self) -> bool {
        let found = found_within(Duration::from_secs(20), || {
            let child = self.child.as_mut().expect("launched");
            if child.try_wait().expect("our own child can be asked").is_some() {
                return Some(false);
            }
            let answer = self.connect().and_then(|mut connection| connection.command(&["PING"]));
            matches!(answer, Ok(Reply::Text(_))).then_some(true)
        });
        match found {
            Some(true) => return true,
            Some(false) => self.child = None,
            None => self.kill(),
        }
        false
    }

    /// Another connection, let in as [`Self::command`] is.
    pub fn connect(&self) -> std::io::Result<Connection> {
        let port = self.port;
        let mut connection = self.place.run(|| Connection::open(port))?;
        if let Some(password) = &self.password {
            connection.command(&["AUTH", password])?;
        }
        Ok(connection)
    }

    fn log_path(&self) -> PathBuf {
        self.dir.path().join("redis.log")
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.log_path()).unwrap_or_default()
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        self.kill();
    }
}
