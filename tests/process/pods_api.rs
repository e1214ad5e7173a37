//! A Kubernetes API server, as much of it as a watch of pods needs. On threads of its own, at a free port, over plain
//! HTTP.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use serde_json::{Value, json};

/// The only namespace.
pub const NAMESPACE: &str = "shop";

/// How often a watch looks whether its client or the server is gone.
const ROUND: Duration = Duration::from_millis(200);

#[derive(Default)]
struct World {
    pods: BTreeMap<String, Value>,
    /// Every change: what kind, and the pod after it.
    events: Vec<(&'static str, Value)>,
    /// What was asked, by method and path.
    asked: Vec<String>,
    forbids: bool,
    stopped: bool,
}

#[derive(Default)]
struct Shared {
    world: Mutex<World>,
    changed: Condvar,
}

impl Shared {
    fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().expect("nobody panics while it is held")
    }

    fn change(&self, change: impl FnOnce(&mut World)) {
        change(&mut self.world());
        self.changed.notify_all();
    }
}

/// See the module. Ends when dropped.
pub struct PodsApi {
    shared: Arc<Shared>,
    port: u16,
    thread: Option<JoinHandle<()>>,
}

impl PodsApi {
    /// Starts one without any pod.
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("it is bound").port();
        let shared = Arc::new(Shared::default());
        let serving = Arc::clone(&shared);
        let thread = thread::spawn(move || {
            for connection in listener.incoming().map_while(Result::ok) {
                if serving.world().stopped {
                    return;
                }
                let shared = Arc::clone(&serving);
                // Ends by itself, soon after the server. What a client does that goes away is not looked at.
                thread::spawn(move || drop(answer(connection, &shared)));
            }
        });
        Self { shared, port, thread: Some(thread) }
    }

    /// Writes a kubeconfig that leads here, and says where it is.
    pub fn kubeconfig(&self, dir: &Path) -> PathBuf {
        let path = dir.join("kubeconfig");
        let text = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "test",
            "clusters": [{"name": "test", "cluster": {"server": format!("http://127.0.0.1:{}", self.port)}}],
            "users": [{"name": "test", "user": {"token": "correct-horse"}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test", "namespace": NAMESPACE}}],
        });
        std::fs::write(&path, text.to_string()).expect("a kubeconfig");
        path
    }

    /// A pod is as this says from now on.
    pub fn put(&self, pod: &Value) {
        let name = pod["metadata"]["name"].as_str().expect("a name").to_owned();
        self.shared.change(|world| {
            let known = world.pods.insert(name, pod.clone()).is_some();
            world.events.push((if known { "MODIFIED" } else { "ADDED" }, pod.clone()));
        });
    }

    /// The object of a pod is gone.
    pub fn remove(&self, name: &str) {
        self.shared.change(|world| {
            let pod = world.pods.remove(name).expect("it is there");
            world.events.push(("DELETED", pod));
        });
    }

    /// Forbids everything from now on, or nothing.
    pub fn forbid(&self, forbids: bool) {
        self.shared.change(|world| world.forbids = forbids);
    }

    /// What was asked so far.
    pub fn asked(&self) -> Vec<String> {
        self.shared.world().asked.clone()
    }

    /// Whether somebody watches this pod, or has.
    pub fn is_watched(&self, pod: &str) -> bool {
        self.asked().iter().any(|asked| asked.contains(&format!("metadata.name%3D{pod}&")))
    }
}

impl Drop for PodsApi {
    fn drop(&mut self) {
        self.shared.change(|world| world.stopped = true);
        // Wakes the thread that waits for connections.
        drop(TcpStream::connect(("127.0.0.1", self.port)));
        if let Some(thread) = self.thread.take() {
            assert!(thread.join().is_ok() || thread::panicking(), "the API service panicked");
        }
    }
}

/// Answers one request, and closes the connection.
fn answer(connection: TcpStream, shared: &Shared) -> std::io::Result<()> {
    let mut reader = BufReader::new(connection.try_clone()?);
    let mut first = String::new();
    reader.read_line(&mut first)?;
    let mut line = String::new();
    while reader.read_line(&mut line)? > 2 {
        line.clear();
    }
    let asked = first.trim_end().trim_end_matches(" HTTP/1.1").to_owned();
    shared.change(|world| world.asked.push(asked.clone()));
    let watched = asked
        .strip_prefix(&format!("GET /api/v1/namespaces/{NAMESPACE}/pods?"))
        .filter(|query| query.contains("watch=true"))
        .and_then(|query| query.split_once("fieldSelector=metadata.name%3D"))
        .map(|(_, name)| name.split('&').next().unwrap_or_default().to_owned());
    let mut connection = connection;
    match watched {
        Some(_) if shared.world().forbids => refuse(&mut connection, 403, "Forbidden", "pods is forbidden"),
        Some(name) => watch(&mut connection, &name, shared),
        None => refuse(&mut connection, 404, "NotFound", "the server could not find the requested resource"),
    }
}

fn refuse(connection: &mut TcpStream, code: u16, reason: &str, message: &str) -> std::io::Result<()> {
    let body = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message,
                      "reason": reason, "code": code})
    .to_string();
    let length = body.len();
    write!(
        connection,
        "HTTP/1.1 {code} {reason}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\
         connection: close\r\n\r\n{body}"
    )
}

/// Begins with what there is, and goes on with every change.
fn watch(connection: &mut TcpStream, name: &str, shared: &Shared) -> std::io::Result<()> {
    write!(connection, "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n")?;
    let mut world = shared.world();
    let mut next = world.events.len();
    let mut lines: Vec<Value> =
        world.pods.get(name).map(|pod| json!({"type": "ADDED", "object": pod})).into_iter().collect();
    loop {
        let new = world.events[next..].iter().filter(|(_, pod)| pod["metadata"]["name"] == name);
        lines.extend(new.map(|(kind, pod)| json!({"type": kind, "object": pod})));
        next = world.events.len();
        if world.stopped {
            return Ok(());
        }
        drop(world);
        for line in lines.drain(..) {
            let line = format!("{line}\n");
            write!(connection, "{:x}\r\n{line}\r\n", line.len())?;
        }
        connection.flush()?;
        let held = shared.world();
        world = if held.events.len() > next {
            held
        } else {
            shared.changed.wait_timeout(held, ROUND).expect("nobody panics while it is held").0
        };
    }
}
