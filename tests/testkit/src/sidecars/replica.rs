//! One replica: a `baton run` process that may be killed, paused, ended and started again.

use std::fs::{File, OpenOptions};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::place::Place;
use crate::ports::free_port;
use crate::sidecars::claims::Who;
use crate::sidecars::http::{Answer, ask, ask_with};
use crate::wait::until;

/// The role that every scenario is about.
pub const ROLE: &str = "scheduler";
/// Where its lease is.
pub const LEASE_KEY: &str = "baton:{scheduler}:lease";

/// A role's timings, in milliseconds.
#[derive(Clone, Copy, Debug)]
pub struct Lease {
    pub duration: u64,
    pub renew: u64,
    pub margin: u64,
    pub validity: u64,
}

impl Lease {
    /// As short as a busy machine allows: for scenarios in which leases end.
    pub const SHORT: Self = Self { duration: 2_000, renew: 600, margin: 200, validity: 500 };
    /// For scenarios in which a leader must survive a machine that is busy with starting servers, too.
    pub const LONGER: Self = Self { duration: 6_000, renew: 1_500, margin: 300, validity: 500 };
    /// For scenarios in which a leader must survive something that takes a moment.
    pub const LONG: Self = Self { duration: 4_000, renew: 1_000, margin: 300, validity: 500 };

    pub fn duration(&self) -> Duration {
        Duration::from_millis(self.duration)
    }

    /// The entry of the role `name` in a configuration, with further keys.
    pub fn role(&self, name: &str, more: &str) -> String {
        let Self { duration, renew, margin, validity } = self;
        format!(
            "  - {{ name: {name}, leaseDuration: {duration}ms, renewPeriod: {renew}ms, stepDownMargin: {margin}ms, \
             answerValidity: {validity}ms{more} }}\n"
        )
    }
}

/// What a replica's configuration says besides its ports.
#[derive(Clone, Debug)]
pub struct Settings {
    pub identity: String,
    pub redis_url: String,
    /// Further keys of `store.redis`, each with a comma before it.
    pub redis_more: String,
    /// Which kubeconfig leads to the leases, where they are in Kubernetes.
    pub kubeconfig: Option<PathBuf>,
    /// Another store than these say, as it stands after `store:`.
    pub store: Option<String>,
    /// Where the bearer token of the app's listener is, if it wants one.
    pub token_file: Option<PathBuf>,
    /// Where it runs.
    pub place: Place,
    /// What it has for `/etc/resolv.conf`, if not the machine's.
    pub resolv_conf: Option<PathBuf>,
    /// The entries of `roles`.
    pub roles: String,
    /// Further sections, each on its line.
    pub more: String,
    /// Variables besides the test's own.
    pub env: Vec<(String, String)>,
}

impl Settings {
    /// Of web-`number`, which campaigns for the usual role.
    pub fn new(number: usize, redis_url: String, lease: Lease) -> Self {
        let roles = lease.role(ROLE, "");
        Self {
            identity: format!("web-{number}"),
            redis_url,
            redis_more: String::new(),
            store: None,
            kubeconfig: None,
            token_file: None,
            place: Place::here(),
            resolv_conf: None,
            roles,
            more: String::new(),
            env: Vec::new(),
        }
    }

    /// The same, telling Kubernetes what these keys of `kubernetes:` switch on, for the pod of its identity's name.
    pub fn telling(mut self, what: &[&str], kubeconfig: PathBuf, namespace: &str, uid: &str) -> Self {
        let flags: Vec<String> = what.iter().map(|key| format!("{key}: true")).collect();
        self.more = format!("kubernetes: {{ {} }}\n", flags.join(", "));
        self.kubeconfig = Some(kubeconfig);
        let pod = [("POD_NAME", self.identity.as_str()), ("POD_NAMESPACE", namespace), ("POD_UID", uid)];
        self.env = pod.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        self
    }

    /// The same on another store, told by its section of the configuration, at a place of its own.
    pub fn on_store(number: usize, store: String, place: Place, lease: Lease) -> Self {
        Self { store: Some(store), place, ..Self::new(number, String::new(), lease) }
    }

    /// Of web-`number` on a quorum of the Redis servers with these URLs.
    pub fn on_quorum(number: usize, urls: &[String], lease: Lease) -> Self {
        let members: Vec<String> = urls.iter().map(|url| format!("{{ url: \"{url}\" }}")).collect();
        // A campaign takes up to two.
        let (members, timeout_ms) = (members.join(", "), lease.renew * 2 / 5);
        let store = format!("{{ quorum: {{ members: [{members}], commandTimeout: {timeout_ms}ms }} }}");
        Self { store: Some(store), ..Self::new(number, String::new(), lease) }
    }

    /// The same with leases in Kubernetes.
    pub fn on_kubernetes(number: usize, kubeconfig: PathBuf, lease: Lease) -> Self {
        let store = "{ kubernetes: { commandTimeout: 400ms } }".to_owned();
        Self { kubeconfig: Some(kubeconfig), ..Self::on_store(number, store, Place::here(), lease) }
    }
}

/// See the module. Killed when dropped.
pub struct Replica {
    number: usize,
    start: usize,
    child: Option<Child>,
    dir: TempDir,
    /// Where the configuration is; a symbolic link for scenarios that swap it.
    pub config: PathBuf,
    pub settings: Settings,
    api: SocketAddr,
    telemetry: SocketAddr,
}

impl Replica {
    /// Starts one.
    pub fn start(number: usize, settings: Settings) -> Self {
        let dir = TempDir::new().expect("a temporary directory");
        let nowhere = SocketAddr::from(([127, 0, 0, 1], 0));
        let config = dir.path().join("config.yaml");
        let mut replica =
            Self { number, start: 0, child: None, dir, config, settings, api: nowhere, telemetry: nowhere };
        replica.start_again();
        replica
    }

    /// Which start of which replica is running, or ran last.
    pub fn who(&self) -> Who {
        Who { replica: self.number, start: self.start }
    }

    /// Where the app asks.
    pub fn api(&self) -> SocketAddr {
        self.api
    }

    /// Where the kubelet and Prometheus ask.
    pub fn telemetry(&self) -> SocketAddr {
        self.telemetry
    }

    /// From its next start on it has this section `store`.
    pub fn configure_store(&mut self, store: String) {
        self.settings.store = Some(store);
    }

    /// The configuration with these roles.
    pub fn config_with(&self, roles: &str) -> String {
        let Settings { identity, redis_url, redis_more, store, token_file, more, .. } = &self.settings;
        let (api, telemetry) = (self.api, self.telemetry);
        let redis = || format!("{{ redis: {{ url: \"{redis_url}\", commandTimeout: 400ms{redis_more} }} }}");
        let store = store.clone().unwrap_or_else(redis);
        let token = token_file.as_ref().map_or(String::new(), |file| format!(", tokenFile: {}", file.display()));
        format!(
            "identity: {identity}\napi: {{ listen: {api}{token} }}\ntelemetry: {{ listen: {telemetry} }}\n\
             store: {store}\nroles:\n{roles}\
             log: {{ level: debug, format: text }}\n{more}"
        )
    }

    /// Starts a new process, on new ports, and waits until it listens.
    ///
    /// # Panics
    /// When it is running, or does not start.
    pub fn start_again(&mut self) {
        assert!(self.child.is_none(), "replica {} is running", self.number);
        self.start += 1;
        // Somebody else may take a free port before the replica does; it then ends with this code.
        const TAKEN: i32 = 69;
        for _ in 0..5 {
            self.api = SocketAddr::from(([127, 0, 0, 1], self.settings.place.run(free_port)));
            self.telemetry = SocketAddr::from(([127, 0, 0, 1], self.settings.place.run(free_port)));
            std::fs::write(&self.config, self.config_with(&self.settings.roles)).expect("a configuration");
            self.child = Some(self.launch());
            let mut ended = None;
            until("a replica listens", || {
                ended = self.child.as_mut().and_then(|child| child.try_wait().expect("our own child can be asked"));
                let listens = || [self.api, self.telemetry].iter().all(|at| TcpStream::connect(at).is_ok());
                ended.is_some() || self.settings.place.run(listens)
            });
            match ended {
                None => return,
                Some(status) => assert_eq!(status.code(), Some(TAKEN), "{}", self.log()),
            }
        }
        panic!("no port was free for long enough: {}", self.log());
    }

    fn launch(&self) -> Child {
        let log = || OpenOptions::new().create(true).append(true).open(self.log_path()).expect("a log file");
        let files: [File; 2] = [log(), log()];
        let [out, err] = files.map(Stdio::from);
        let mut command = match &self.settings.resolv_conf {
            None => Command::new(crate::baton()),
            Some(file) => crate::dns::command(file, crate::baton()),
        };
        command.arg("run").arg("--config").arg(&self.config).stdin(Stdio::null()).stdout(out).stderr(err);
        command.envs(self.settings.env.iter().cloned());
        if let Some(kubeconfig) = &self.settings.kubeconfig {
            command.env("KUBECONFIG", kubeconfig).env_remove("KUBERNETES_SERVICE_HOST");
        }
        self.settings.place.run(|| command.spawn()).expect("the sidecar starts")
    }

    fn log_path(&self) -> PathBuf {
        self.dir.path().join("log")
    }

    /// What it has logged, in all its starts.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.log_path()).unwrap_or_default()
    }

    /// Whether a line with these words was logged.
    pub fn has_logged(&self, words: &[&str]) -> bool {
        self.log().lines().any(|line| words.iter().all(|word| line.contains(word)))
    }

    /// Asks its listener for the app.
    pub fn ask(&self, line: &str, body: &str) -> Answer {
        let api = self.api;
        self.settings.place.run(|| ask(api, line, body))
    }

    /// The same with headers of its own.
    pub fn ask_with(&self, line: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        let api = self.api;
        self.settings.place.run(|| ask_with(api, line, headers, body))
    }

    /// The value of a series in `/metrics`, whatever the order of its labels.
    pub fn metric(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        let telemetry = self.telemetry;
        let text = self.settings.place.run(|| ask(telemetry, "GET /metrics", "")).body;
        let pairs: Vec<String> = labels.iter().map(|(label, value)| format!("{label}=\"{value}\"")).collect();
        let is_it = |series: &str| {
            series.split('{').next() == Some(name) && pairs.iter().all(|pair| series.contains(pair.as_str()))
        };
        let value = text.lines().filter_map(|line| line.rsplit_once(' ')).find(|(series, _)| is_it(series));
        value.and_then(|(_, value)| value.parse().ok())
    }

    /// The same for a series of the role that every scenario is about.
    ///
    /// # Panics
    /// When it is not there: every series is, from the start.
    pub fn role_metric(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let value = self.metric(name, &[&[("role", ROLE)], labels].concat());
        value.unwrap_or_else(|| panic!("there is no {name} with {labels:?}"))
    }

    /// Whether a process is there, paused or not.
    pub fn is_running(&mut self) -> bool {
        self.child.as_mut().is_some_and(|child| child.try_wait().expect("our own child can be asked").is_none())
    }

    /// Sends a signal.
    ///
    /// # Panics
    /// When there is no process.
    pub fn signal(&self, signal: Signal) {
        let child = self.child.as_ref().expect("the replica runs");
        kill_process(Pid::from_child(child), signal).expect("our own child takes signals");
    }

    /// SIGKILL.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            // Both fail only when it has ended already.
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Waits until it has ended by itself.
    ///
    /// # Panics
    /// When it does not.
    pub fn wait_end(&mut self) -> ExitStatus {
        let mut child = self.child.take().expect("the replica runs");
        let mut status = None;
        until("a replica has ended", || {
            status = child.try_wait().expect("our own child can be asked");
            status.is_some()
        });
        status.expect("waited for")
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        self.kill();
        if std::thread::panicking() {
            let log = self.log();
            let tail: Vec<&str> = log.lines().rev().take(400).collect();
            eprintln!("--- the log of replica {}", self.number);
            for line in tail.iter().rev() {
                eprintln!("{line}");
            }
        }
    }
}
