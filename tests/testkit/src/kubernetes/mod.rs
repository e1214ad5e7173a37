//! A Kubernetes API server, as much of it as Baton needs: Leases and pods with versions and watches, pods that are
//! patched, Events that are made, real Status bodies; and the faults that a real one has. On a thread of its own, at a
//! free port, over plain HTTP.

mod pods;
mod watching;

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;

use bytes::Bytes;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::{oneshot, watch};

/// The namespace that its kubeconfig names.
pub const NAMESPACE: &str = "shop";

/// What is done to requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Answers with this code and a real Status.
    Answer(u16),
    /// 429 with this Retry-After, in seconds.
    TooMany(u64),
    /// Closes the connection, and does nothing.
    CutBefore,
    /// Does what was asked, and closes the connection without an answer.
    CutAfter,
    /// Answers nothing until the fault is taken back, and then does nothing.
    Silent,
    /// Does what was asked, and answers nothing until the fault is taken back.
    SilentAfter,
    /// Answers 200 and no more: a watch that ends at once.
    Empty,
}

/// Which requests a fault meets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Meets {
    /// `get`, `create`, `update`, `delete`, `watch`; empty for all.
    pub verbs: Vec<&'static str>,
    /// How many; none for all until it is taken back.
    pub times: Option<u32>,
}

/// Which object: of what resource, in which namespace, by which name.
type Key = (&'static str, String, String);

#[derive(Default)]
struct World {
    version: u64,
    /// Leases and pods.
    objects: BTreeMap<Key, Value>,
    /// The Events that were made, in their order.
    told: Vec<Value>,
    /// Every change: version, kind, which object, and the object after it.
    events: Vec<(u64, &'static str, Key, Value)>,
    faults: Vec<(Fault, Meets)>,
    /// How often they were taken back.
    heals: u64,
    /// Every request so far: verb and name; of what is neither a Lease nor a pod nor an Event `other` and the path.
    requests: Vec<(&'static str, String)>,
    /// Verbs that RBAC forbids.
    forbidden: BTreeSet<&'static str>,
    /// Who may not ask at all.
    rejects_credentials: bool,
    /// Authorization headers seen.
    tokens: Vec<String>,
}

impl World {
    fn next_version(&mut self) -> u64 {
        self.version += 1 + self.version % 3;
        self.version
    }

    /// Puts an object, and tells the watches.
    fn put(&mut self, key: Key, mut object: Value) -> Value {
        let version = self.next_version();
        object["metadata"]["resourceVersion"] = json!(version.to_string());
        let kind = if self.objects.contains_key(&key) { "MODIFIED" } else { "ADDED" };
        self.events.push((version, kind, key.clone(), object.clone()));
        self.objects.insert(key, object.clone());
        object
    }

    fn remove(&mut self, key: &Key) -> Option<Value> {
        let mut object = self.objects.remove(key)?;
        let version = self.next_version();
        object["metadata"]["resourceVersion"] = json!(version.to_string());
        self.events.push((version, "DELETED", key.clone(), object.clone()));
        Some(object)
    }

    fn strike(&mut self, verb: &str) -> Option<Fault> {
        let at = self.faults.iter().position(|(_, meets)| meets.verbs.is_empty() || meets.verbs.contains(&verb))?;
        let (fault, meets) = &mut self.faults[at];
        let fault = fault.clone();
        if let Some(times) = &mut meets.times {
            *times -= 1;
            if *times == 0 {
                self.faults.remove(at);
            }
        }
        Some(fault)
    }
}

/// What the requests' tasks share.
struct Shared {
    world: Mutex<World>,
    /// Changes with every change of the world.
    changed: watch::Sender<u64>,
    /// How often watches were ended, and how.
    ended: watch::Sender<(u64, bool)>,
}

impl Shared {
    fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().expect("nobody panics while it is held")
    }

    fn change<T>(&self, change: impl FnOnce(&mut World) -> T) -> T {
        let result = change(&mut self.world());
        self.changed.send_modify(|count| *count += 1);
        result
    }
}

/// See the module. Ends when dropped.
pub struct FakeApi {
    shared: Arc<Shared>,
    port: u16,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
    dir: tempfile::TempDir,
}

impl FakeApi {
    /// Starts one without any object.
    pub fn start() -> Self {
        let shared = Arc::new(Shared {
            world: Mutex::new(World { version: 1_000, ..World::default() }),
            changed: watch::Sender::new(0),
            ended: watch::Sender::new((0, false)),
        });
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        listener.set_nonblocking(true).expect("a socket that does not block");
        let port = listener.local_addr().expect("it is bound").port();
        let (stop, stopped) = oneshot::channel();
        let serving = Arc::clone(&shared);
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(async {
                tokio::select! {
                    () = serve(listener, serving) => {}
                    // An error means that its owner is gone: the same.
                    _ = stopped => {}
                }
            });
        });
        let dir = tempfile::tempdir().expect("a temporary directory");
        Self { shared, port, stop: Some(stop), thread: Some(thread), dir }
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// A kubeconfig that leads here.
    pub fn kubeconfig(&self) -> PathBuf {
        let path = self.dir.path().join("kubeconfig");
        write_kubeconfig(&path, self.port, NAMESPACE);
        path
    }

    /// Lets requests fail until [`Self::heal`].
    pub fn fail(&self, verbs: &[&'static str], fault: Fault) {
        self.shared.change(|world| world.faults.push((fault, Meets { verbs: verbs.to_vec(), times: None })));
    }

    /// Lets so many requests fail.
    pub fn fail_times(&self, verbs: &[&'static str], times: u32, fault: Fault) {
        let meets = Meets { verbs: verbs.to_vec(), times: Some(times) };
        self.shared.change(|world| world.faults.push((fault, meets)));
    }

    /// Takes every fault back.
    pub fn heal(&self) {
        self.shared.change(|world| {
            world.faults.clear();
            world.heals += 1;
        });
    }

    /// What RBAC forbids from now on.
    pub fn forbid(&self, verbs: &[&'static str]) {
        self.shared.change(|world| world.forbidden = verbs.iter().copied().collect());
    }

    /// Whether credentials are taken.
    pub fn reject_credentials(&self, reject: bool) {
        self.shared.change(|world| world.rejects_credentials = reject);
    }

    /// Ends every watch, as an expired version does, or by closing its connection.
    pub fn end_watches(&self, gone: bool) {
        self.shared.ended.send_modify(|ended| *ended = (ended.0 + 1, gone));
    }

    /// The object now.
    pub fn lease(&self, name: &str) -> Option<Value> {
        self.shared.world().objects.get(&key("leases", name)).cloned()
    }

    /// Makes or changes an object, as another client does, or a person.
    pub fn edit(&self, name: &str, edit: impl FnOnce(&mut Value)) {
        self.shared.change(|world| {
            let mut object = world.objects.get(&key("leases", name)).cloned().unwrap_or_else(|| {
                json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "spec": {},
                       "metadata": {"name": name, "namespace": NAMESPACE, "uid": format!("uid-{name}")}})
            });
            edit(&mut object);
            world.put(key("leases", name), object);
        });
    }

    /// Deletes an object behind everybody's back.
    pub fn delete(&self, name: &str) -> bool {
        self.shared.change(|world| world.remove(&key("leases", name)).is_some())
    }

    /// Makes a pod with this uid.
    pub fn make_pod(&self, name: &str, uid: &str) {
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {
            "name": name, "namespace": NAMESPACE, "uid": uid, "labels": {"app": "web"},
        }});
        self.put_pod(&pod);
    }

    /// A pod is as this says from now on.
    pub fn put_pod(&self, pod: &Value) {
        let name = pod["metadata"]["name"].as_str().expect("a name");
        self.shared.change(|world| world.put(key("pods", name), pod.clone()));
    }

    /// The object of a pod is gone.
    pub fn delete_pod(&self, name: &str) {
        self.shared.change(|world| world.remove(&key("pods", name))).expect("the pod is there");
    }

    /// Changes a pod, as a person does.
    pub fn edit_pod(&self, name: &str, edit: impl FnOnce(&mut Value)) {
        self.shared.change(|world| {
            let mut pod = world.objects.get(&key("pods", name)).cloned().expect("the pod is there");
            edit(&mut pod);
            world.put(key("pods", name), pod);
        });
    }

    /// A pod as it is.
    pub fn pod(&self, name: &str) -> Value {
        self.shared.world().objects.get(&key("pods", name)).cloned().unwrap_or(Value::Null)
    }

    /// The Events that were made so far.
    pub fn told(&self) -> Vec<Value> {
        self.shared.world().told.clone()
    }

    /// How many requests of this verb were made for this object.
    pub fn count(&self, verb: &str, name: &str) -> usize {
        self.shared.world().requests.iter().filter(|(v, n)| *v == verb && n == name).count()
    }

    /// Every request so far: verb and name; `other` and the path where it was for something else than objects.
    pub fn asked(&self) -> Vec<(&'static str, String)> {
        self.shared.world().requests.clone()
    }

    /// The credentials of the last request.
    pub fn last_token(&self) -> Option<String> {
        self.shared.world().tokens.last().cloned()
    }
}

impl Drop for FakeApi {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            // It has ended already when nobody takes this.
            let _ = stop.send(());
        }
        if let Some(thread) = self.thread.take() {
            assert!(thread.join().is_ok() || std::thread::panicking(), "the API service panicked");
        }
    }
}

/// A kubeconfig with this address and namespace, and a token.
pub fn write_kubeconfig(path: &Path, port: u16, namespace: &str) {
    let text = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "test",
        "clusters": [{"name": "test", "cluster": {"server": format!("http://127.0.0.1:{port}")}}],
        "users": [{"name": "test", "user": {"token": "correct-horse"}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test", "namespace": namespace}}],
    });
    std::fs::write(path, text.to_string()).expect("a kubeconfig");
}

fn key(resource: &'static str, name: &str) -> Key {
    (resource, NAMESPACE.to_owned(), name.to_owned())
}

async fn serve(listener: std::net::TcpListener, shared: Arc<Shared>) {
    let listener = TcpListener::from_std(listener).expect("a listener");
    loop {
        let Ok((connection, _)) = listener.accept().await else { continue };
        let shared = Arc::clone(&shared);
        tokio::spawn(async move {
            let service = service_fn(move |request| answer(request, Arc::clone(&shared)));
            // A client that goes away is none of ours.
            let _ =
                hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(connection), service).await;
        });
    }
}

type Reply = Response<BoxBody<Bytes, Infallible>>;

/// The whole body at once.
fn whole(code: u16, body: &Value) -> Reply {
    let body = Full::new(Bytes::from(body.to_string())).boxed();
    let response = Response::builder().status(code).header("content-type", "application/json");
    response.body(body).expect("a response")
}

fn status(code: u16, reason: &str, kind: &str, name: &str, message: &str) -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message,
           "reason": reason, "details": {"name": name, "group": "coordination.k8s.io", "kind": kind}, "code": code})
}

fn cut() -> io::Error {
    io::Error::other("the connection is cut")
}

/// What a request is about.
struct Asked {
    resource: &'static str,
    verb: &'static str,
    namespace: String,
    name: String,
    query: BTreeMap<String, String>,
}

impl Asked {
    fn key(&self) -> Key {
        (self.resource, self.namespace.clone(), self.name.clone())
    }
}

fn read_path(request: &Request<Incoming>) -> Option<Asked> {
    let query: BTreeMap<String, String> = url::form_urlencoded::parse(request.uri().query().unwrap_or("").as_bytes())
        .map(|(key, value)| (key.into_owned(), value.into_owned()))
        .collect();
    let path = request.uri().path();
    let roots = [
        ("/apis/coordination.k8s.io/v1/namespaces/", "leases"),
        ("/api/v1/namespaces/", "pods"),
        ("/apis/events.k8s.io/v1/namespaces/", "events"),
    ];
    let (rest, resource) = roots.iter().find_map(|(root, resource)| Some((path.strip_prefix(root)?, *resource)))?;
    let mut parts = rest.split('/');
    let (namespace, plural, name) = (parts.next()?, parts.next()?, parts.next().unwrap_or(""));
    if plural != resource {
        return None;
    }
    let watches = query.get("watch").is_some_and(|word| word == "true" || word == "1");
    let verb = match request.method().as_str() {
        "GET" if watches => "watch",
        "GET" => "get",
        "POST" => "create",
        "PUT" => "update",
        "DELETE" => "delete",
        "PATCH" => "patch",
        _ => return None,
    };
    let selected = query.get("fieldSelector").and_then(|text| text.strip_prefix("metadata.name="));
    let name = selected.unwrap_or(name).to_owned();
    Some(Asked { resource, verb, namespace: namespace.to_owned(), name, query })
}

async fn answer(request: Request<Incoming>, shared: Arc<Shared>) -> Result<Reply, io::Error> {
    let token = request.headers().get("authorization").and_then(|value| value.to_str().ok()).unwrap_or("").to_owned();
    let asked = read_path(&request);
    let path = request.uri().path().to_owned();
    let body = request.into_body().collect().await.map_err(io::Error::other)?.to_bytes();
    let Some(mut asked) = asked else {
        shared.world().requests.push(("other", path.clone()));
        if let Some(reply) = other_path(&path, &body, &shared) {
            return Ok(reply);
        }
        let message = "the server could not find the requested resource";
        return Ok(whole(404, &status(404, "NotFound", "", "", message)));
    };
    let object: Value = serde_json::from_slice(&body).unwrap_or(Value::Null);
    if asked.verb == "create" {
        asked.name = object["metadata"]["name"].as_str().unwrap_or("").to_owned();
    }
    let (fault, denied) = {
        let mut world = shared.world();
        world.requests.push((asked.verb, asked.name.clone()));
        world.tokens.push(token);
        (world.strike(asked.verb), denied(&world, &asked))
    };
    if let Some(denied) = denied {
        let code = u16::try_from(denied["code"].as_u64().expect("a number")).expect("a code");
        return Ok(whole(code, &denied));
    }
    match fault {
        None => {}
        Some(Fault::CutBefore) => return Err(cut()),
        Some(Fault::CutAfter) => {
            perform(&asked, object, &shared);
            return Err(cut());
        }
        Some(Fault::Silent) => {
            healed(&shared).await;
            return Err(cut());
        }
        Some(Fault::SilentAfter) => {
            perform(&asked, object, &shared);
            healed(&shared).await;
            return Err(cut());
        }
        Some(Fault::TooMany(seconds)) => {
            let mut reply = whole(
                429,
                &status(429, "TooManyRequests", asked.resource, &asked.name, "too many requests, try again"),
            );
            reply.headers_mut().insert("retry-after", seconds.to_string().parse().expect("a header"));
            return Ok(reply);
        }
        Some(Fault::Empty) => return Ok(Response::new(Full::new(Bytes::new()).boxed())),
        Some(Fault::Answer(code)) => {
            let reason = match code {
                409 => "Conflict",
                422 => "Invalid",
                500 => "InternalError",
                503 => "ServiceUnavailable",
                _ => "",
            };
            let message = format!("told to answer {code}");
            return Ok(whole(code, &status(code, reason, asked.resource, &asked.name, &message)));
        }
    }
    if asked.verb == "watch" {
        return Ok(watching::watch_stream(&asked, &shared));
    }
    Ok(perform(&asked, object, &shared))
}

/// What is asked besides Leases: the version, and reviews of rights.
fn other_path(path: &str, body: &Bytes, shared: &Shared) -> Option<Reply> {
    let world = shared.world();
    if world.rejects_credentials {
        return Some(whole(401, &status(401, "Unauthorized", "", "", "Unauthorized")));
    }
    match path {
        "/version" => Some(whole(200, &json!({"major": "1", "minor": "33", "gitVersion": "v1.33.4"}))),
        "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews" => {
            let mut review: Value = serde_json::from_slice(body).ok()?;
            let verb = review["spec"]["resourceAttributes"]["verb"].as_str()?;
            let allowed = !world.forbidden.contains(verb);
            review["status"] = json!({"allowed": allowed});
            Some(whole(201, &review))
        }
        _ => None,
    }
}

fn denied(world: &World, asked: &Asked) -> Option<Value> {
    let Asked { resource, verb, namespace, name, .. } = asked;
    if world.rejects_credentials {
        return Some(status(401, "Unauthorized", "", "", "Unauthorized"));
    }
    if world.forbidden.contains(verb) {
        let message = format!(
            "{resource} \"{name}\" is forbidden: User \"system:serviceaccount:{namespace}:web\" cannot {verb} resource \
             \"{resource}\" in the namespace \"{namespace}\""
        );
        return Some(status(403, "Forbidden", resource, name, &message));
    }
    if *verb == "create" && namespace != NAMESPACE {
        return Some(status(
            404,
            "NotFound",
            "namespaces",
            namespace,
            &format!("namespaces \"{namespace}\" not found"),
        ));
    }
    None
}

/// Waits until every fault is taken back.
async fn healed(shared: &Shared) {
    let mut changed = shared.changed.subscribe();
    let before = shared.world().heals;
    while shared.world().heals == before {
        if changed.changed().await.is_err() {
            return;
        }
    }
}

fn perform(asked: &Asked, mut object: Value, shared: &Shared) -> Reply {
    match (asked.resource, asked.verb) {
        ("pods", "patch") => return shared.change(|world| pods::patch(world, &asked.name, &object)),
        ("events", _) => return shared.change(|world| pods::tell(world, object)),
        _ => {}
    }
    let (key, name, kind) = (asked.key(), &asked.name, asked.resource);
    shared.change(|world| {
        let present = world.objects.get(&key).cloned();
        let missing = || whole(404, &status(404, "NotFound", kind, name, &format!("{kind} \"{name}\" not found")));
        match (asked.verb, present) {
            ("create", Some(_)) => {
                let message = format!("{kind} \"{name}\" already exists");
                whole(409, &status(409, "AlreadyExists", kind, name, &message))
            }
            ("create", None) => {
                object["metadata"]["uid"] = json!(format!("uid-{}", world.version));
                object["metadata"]["namespace"] = json!(asked.namespace);
                whole(201, &world.put(key, object))
            }
            (_, None) => missing(),
            ("get", Some(present)) => whole(200, &present),
            ("update", Some(present)) => {
                let version = &object["metadata"]["resourceVersion"];
                if version.is_null() {
                    let message = "metadata.resourceVersion: Invalid value: 0x0: must be specified for an update";
                    return whole(422, &status(422, "Invalid", kind, name, message));
                }
                if *version != present["metadata"]["resourceVersion"] {
                    let message = "Operation cannot be fulfilled: the object has been modified; please apply your \
                                   changes to the latest version and try again";
                    return whole(409, &status(409, "Conflict", kind, name, message));
                }
                whole(200, &world.put(key, object))
            }
            ("delete", Some(present)) => {
                let wanted = &object["preconditions"]["resourceVersion"];
                if !wanted.is_null() && *wanted != present["metadata"]["resourceVersion"] {
                    return whole(409, &status(409, "Conflict", kind, name, "the precondition does not hold"));
                }
                world.remove(&key);
                whole(200, &json!({"kind": "Status", "apiVersion": "v1", "status": "Success"}))
            }
            (verb, _) => panic!("{verb} is not performed"),
        }
    })
}
