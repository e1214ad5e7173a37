//! A proxy before a Redis that refuses what a service refuses: a claim about that service, and no test of it.
//!
//! Commands pass one by one, so that a refusal is answered in its turn. What scripts may not ask for is refused inside
//! them: they run with a `redis` of the profile's own. Before the nodes of a cluster there is one for each, by whose
//! ports they are told of.

use std::collections::{HashMap, VecDeque};
use std::fmt::Write as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::sync::{Arc, Mutex, OnceLock, mpsc};
use std::thread;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Builder;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::place::Place;
use crate::resp::Connection;

/// What a service refuses, or tells otherwise than Redis.
#[derive(Clone, Copy, Debug)]
pub struct Profile {
    /// How the page calls it.
    pub name: &'static str,
    /// Without it HELLO is unknown.
    pub has_resp3: bool,
    /// Commands, of one word or two, that are unknown.
    pub refused: &'static [&'static str],
    /// Commands that scripts may not call.
    pub refused_in_scripts: &'static [&'static str],
    /// Fields that INFO does not tell clients.
    pub untold: &'static [&'static str],
    /// Fields that INFO does not tell scripts.
    pub untold_in_scripts: &'static [&'static str],
    /// Fields that INFO tells besides, or otherwise.
    pub told: &'static [(&'static str, &'static str)],
}

/// What runs in the place of a part of scripts, where `make mutants` tries a mutant of it: the part, and the same with
/// a fault.
pub fn mutant() -> Option<&'static (String, String)> {
    static MUTANT: OnceLock<Option<(String, String)>> = OnceLock::new();
    let text = |name| std::env::var(name).ok();
    MUTANT.get_or_init(|| text("BATON_MUTANT_OF").zip(text("BATON_MUTANT"))).as_ref()
}

impl Profile {
    /// Refuses nothing.
    pub const NONE: Self = Self {
        name: "nothing refused",
        has_resp3: true,
        refused: &[],
        refused_in_scripts: &[],
        untold: &[],
        untold_in_scripts: &[],
        told: &[],
    };

    /// Scripts may not ask which server it is, as on Redis Software.
    pub const MUTE: Self = Self { name: "no INFO in scripts", refused_in_scripts: &["INFO"], ..Self::NONE };

    fn refuses(&self, words: &[Vec<u8>]) -> bool {
        let word = |at: usize| words.get(at).map(|w| String::from_utf8_lossy(w).to_uppercase()).unwrap_or_default();
        let hello = !self.has_resp3 && word(0) == "HELLO";
        hello || self.refused.iter().any(|name| *name == word(0) || *name == format!("{} {}", word(0), word(1)))
    }

    fn changes_scripts(&self) -> bool {
        !self.refused_in_scripts.is_empty() || !self.untold_in_scripts.is_empty() || mutant().is_some()
    }

    /// A script that has this profile's `redis`, if it names anything that is refused or told otherwise.
    fn wrapped(&self, script: &str) -> String {
        let script = &mutant().map_or_else(|| script.to_owned(), |(part, fault)| script.replacen(part, fault, 1));
        // What is called may stand in an argument. Everything else is left as it is, and costs what it costs.
        let calls = |name: &&str| script.contains(&format!("call('{name}'")) || script.contains("call(ARGV");
        let hides = !self.untold_in_scripts.is_empty() && calls(&"INFO");
        if !hides && !self.refused_in_scripts.iter().any(calls) {
            return script.to_owned();
        }
        let (mut refused, mut hidden) = (String::new(), String::new());
        for name in self.refused_in_scripts {
            let _ = write!(refused, "{name}=true,");
        }
        for field in self.untold_in_scripts {
            let _ = write!(hidden, "'{field}',");
        }
        format!(
            "local redis=(function(r,no,hidden) local w='This Redis command is not allowed from script' \
             return setmetatable({{\
             call=function(c,...) if no[string.upper(c)] then error('ERR '..w) end local a=r.call(c,...) \
             if c=='INFO' then for _,f in ipairs(hidden) do a=string.gsub(a,f..':','') end end return a end,\
             pcall=function(c,...) if no[string.upper(c)] then return r.error_reply('ERR '..w) end \
             return r.pcall(c,...) end}},{{__index=r}}) end)(redis,{{{refused}}},{{{hidden}}})\n{script}"
        )
    }

    fn info(&self, text: &str) -> String {
        let field = |line: &str| line.split_once(':').map(|(name, _)| name.to_owned()).unwrap_or_default();
        let is_kept = |line: &&str| {
            let field = field(line);
            !self.untold.contains(&field.as_str()) && !self.told.iter().any(|(name, _)| *name == field)
        };
        let mut kept: Vec<String> = text.lines().filter(is_kept).map(str::to_owned).collect();
        kept.extend(self.told.iter().map(|(name, value)| format!("{name}:{value}")));
        kept.join("\r\n") + "\r\n"
    }
}

/// A proxy in front of one port. Ends when dropped.
pub struct Profiled {
    port: u16,
    target: Arc<AtomicU16>,
    shared: Arc<Shared>,
    acceptor: JoinHandle<()>,
}

/// What all connections of a proxy share.
struct Shared {
    profile: Profile,
    scripts: Scripts,
    /// The port of each node, and of what stands before it.
    ports: Arc<[(u16, u16)]>,
    /// Scripts may ask for everything.
    lets_ask: AtomicBool,
    /// Where scripts and their answers are kept.
    recording: Option<Recording>,
}

/// A script that was asked for, and what the server answered; nothing where it did not.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// The command's words.
    pub words: Vec<String>,
    /// In the order of the answers.
    pub reply: Option<String>,
}

/// In the order in which the proxy was answered.
pub type Recording = Arc<Mutex<Vec<Recorded>>>;

impl Profiled {
    /// Listens on a free port and passes on to the Redis at `target`.
    ///
    /// # Panics
    /// When there is no free port.
    pub async fn start(target: u16, profile: Profile) -> Self {
        Self::start_all(Ipv4Addr::LOCALHOST, &[target], profile).await.remove(0)
    }

    /// One in front of each of these, which may be nodes of a cluster; they listen at this address.
    ///
    /// # Panics
    /// When there is no free port.
    pub async fn start_all(ip: Ipv4Addr, targets: &[u16], profile: Profile) -> Vec<Self> {
        Self::start_recording(ip, targets, profile, None).await
    }

    async fn start_recording(
        ip: Ipv4Addr,
        targets: &[u16],
        profile: Profile,
        recording: Option<Recording>,
    ) -> Vec<Self> {
        let (mut listeners, mut ports) = (Vec::new(), Vec::new());
        for target in targets {
            let listener = TcpListener::bind((ip, 0)).await.expect("a free port");
            ports.push((*target, listener.local_addr().expect("it is bound").port()));
            listeners.push(listener);
        }
        let all: Arc<[(u16, u16)]> = ports.into();
        let one = |(listener, (target, port)): (TcpListener, &(u16, u16))| {
            let shared = Arc::new(Shared {
                profile,
                scripts: Scripts::default(),
                ports: Arc::clone(&all),
                lets_ask: AtomicBool::new(false),
                recording: recording.clone(),
            });
            Self::start_on(listener, *port, *target, shared)
        };
        listeners.into_iter().zip(all.iter()).map(one).collect()
    }

    fn start_on(listener: TcpListener, port: u16, target: u16, shared: Arc<Shared>) -> Self {
        let target = Arc::new(AtomicU16::new(target));
        let (leads_to, served) = (Arc::clone(&target), Arc::clone(&shared));
        let acceptor = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let target = SocketAddr::from(([127, 0, 0, 1], leads_to.load(Ordering::Relaxed)));
                tokio::spawn(serve(client, target, Arc::clone(&served)));
            }
        });
        Self { port, target, shared, acceptor }
    }

    /// Scripts run as they are from now on, without what refuses in their place. A client that has learnt what they may
    /// not ask goes on without asking; what it asks instead can be measured then, and not what this proxy adds.
    pub fn let_scripts_ask(&self) {
        self.shared.lets_ask.store(true, Ordering::Relaxed);
    }

    /// New connections lead to this port: a service has failed over.
    pub fn lead_to(&self, target: u16) {
        self.target.store(target, Ordering::Relaxed);
    }

    /// The URL of the Redis behind it.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/0", self.port)
    }

    /// The port to connect to.
    pub fn port(&self) -> u16 {
        self.port
    }
}

impl Drop for Profiled {
    fn drop(&mut self) {
        self.acceptor.abort();
    }
}

/// Proxies in front of the servers of one place, for tests that wait by themselves. End when dropped.
pub struct Front {
    proxies: Vec<Profiled>,
    ip: Ipv4Addr,
    /// Tells the thread that serves them to end.
    _end: oneshot::Sender<()>,
}

impl Front {
    /// One in front of each of these ports at this place.
    ///
    /// # Panics
    /// When there is no free port.
    pub fn start(place: &Place, targets: &[u16], profile: Profile) -> Self {
        Self::start_with(place, targets, profile, None)
    }

    /// One in front of this port that refuses nothing, and keeps the scripts that pass.
    ///
    /// # Panics
    /// When there is no free port.
    pub fn recording(place: &Place, target: u16) -> (Self, Recording) {
        let recording = Recording::default();
        (Self::start_with(place, &[target], Profile::NONE, Some(Arc::clone(&recording))), recording)
    }

    fn start_with(place: &Place, targets: &[u16], profile: Profile, recording: Option<Recording>) -> Self {
        let (ip, targets) = (place.ip(), targets.to_vec());
        let (tell, told) = mpsc::channel();
        let (end, ended) = oneshot::channel::<()>();
        // The threads of a place stay there, with the sockets that they make.
        place.run(move || {
            thread::spawn(move || {
                let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
                runtime.block_on(async move {
                    // Both fail only when nobody is there any more.
                    let _ = tell.send(Profiled::start_recording(ip, &targets, profile, recording).await);
                    let _ = ended.await;
                });
            })
        });
        Self { proxies: told.recv().expect("it starts"), ip, _end: end }
    }

    /// Where clients reach each of the servers, in their order.
    pub fn addresses(&self) -> Vec<String> {
        self.proxies.iter().map(|proxy| format!("{}:{}", self.ip, proxy.port)).collect()
    }

    /// The URL of the first.
    pub fn url(&self) -> String {
        format!("redis://{}/0", self.addresses()[0])
    }

    /// The port of the first.
    pub fn port(&self) -> u16 {
        self.proxies[0].port()
    }

    /// New connections to the first lead to this port: a service has failed over.
    pub fn lead_to(&self, target: u16) {
        self.proxies[0].lead_to(target);
    }
}

/// The texts of scripts that clients have brought, as this profile runs them, by the hash of what was brought.
type Scripts = Arc<Mutex<HashMap<String, String>>>;

/// What the next answers to a client are.
enum Next {
    /// As the server answers.
    Theirs,
    /// The same, of INFO.
    Info,
    /// The same, of CLUSTER.
    Cluster,
    Ours(String),
    /// As the server answers, and it is kept with this command.
    Kept(Vec<String>),
}

async fn serve(client: TcpStream, target: SocketAddr, shared: Arc<Shared>) {
    let Ok(server) = TcpStream::connect(target).await else { return };
    // Neither matters where it fails: the tests would only be slower.
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let due = Due::new((VecDeque::new(), to_client));
    // What a client that has gone has asked for is answered all the same; the server closes when it has done that.
    let ask = async {
        let _ = ask(from_client, to_server, target, &shared, &due).await;
        std::future::pending::<()>().await;
    };
    tokio::select! {
        () = ask => {}
        _ = answer(from_server, &shared, &due) => {}
    }
    for next in due.into_inner().0 {
        if let Next::Kept(words) = next {
            keep(&shared, words, None);
        }
    }
}

fn keep(shared: &Shared, words: Vec<String>, reply: Option<String>) {
    if let Some(recording) = &shared.recording {
        recording.lock().expect("no panic while it is held").push(Recorded { words, reply });
    }
}

type Due = tokio::sync::Mutex<(VecDeque<Next>, OwnedWriteHalf)>;

async fn ask(
    from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    target: SocketAddr,
    shared: &Shared,
    due: &Due,
) -> std::io::Result<()> {
    let Shared { profile, scripts, lets_ask, .. } = shared;
    let mut from = BufReader::new(from);
    loop {
        let mut words = read_command(&mut from).await?;
        let name = String::from_utf8_lossy(&words[0]).to_uppercase();
        if profile.refuses(&words) {
            let refusal = format!("-ERR unknown command '{}', with args beginning with: \r\n", name);
            pass(due, Next::Ours(refusal)).await?;
            continue;
        }
        let is_script = name == "EVAL" || name == "EVALSHA";
        if is_script && profile.changes_scripts() && !lets_ask.load(Ordering::Relaxed) {
            let text = String::from_utf8_lossy(&words[1]).into_owned();
            let known = scripts.lock().expect("no panic while it is held").get(&text).cloned();
            let wrapped = match (name.as_str(), known) {
                ("EVALSHA", Some(wrapped)) => wrapped,
                ("EVALSHA", None) => {
                    pass(due, Next::Ours("-NOSCRIPT No matching script.\r\n".to_owned())).await?;
                    continue;
                }
                _ => {
                    let wrapped = profile.wrapped(&text);
                    let sha = Connection::open(target.port())?.command(&["SCRIPT", "LOAD", &text])?.text();
                    scripts.lock().expect("no panic while it is held").insert(sha, wrapped.clone());
                    wrapped
                }
            };
            words[0] = b"EVAL".to_vec();
            words[1] = wrapped.into_bytes();
        }
        match name.as_str() {
            // They are answered by messages, not by replies.
            "SUBSCRIBE" | "UNSUBSCRIBE" => {}
            "INFO" => due.lock().await.0.push_back(Next::Info),
            "CLUSTER" => due.lock().await.0.push_back(Next::Cluster),
            _ if is_script && shared.recording.is_some() => {
                let words = words.iter().map(|word| String::from_utf8_lossy(word).into_owned()).collect();
                due.lock().await.0.push_back(Next::Kept(words));
            }
            _ => due.lock().await.0.push_back(Next::Theirs),
        }
        let mut request = format!("*{}\r\n", words.len()).into_bytes();
        for word in words {
            request.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
            request.extend_from_slice(&word);
            request.extend_from_slice(b"\r\n");
        }
        to.write_all(&request).await?;
    }
}

/// Puts our answer in its turn.
async fn pass(due: &Due, next: Next) -> std::io::Result<()> {
    let mut due = due.lock().await;
    due.0.push_back(next);
    flush(&mut due).await
}

/// Sends what is ours at the head.
async fn flush(due: &mut (VecDeque<Next>, OwnedWriteHalf)) -> std::io::Result<()> {
    while let Some(Next::Ours(_)) = due.0.front() {
        if let Some(Next::Ours(text)) = due.0.pop_front() {
            due.1.write_all(text.as_bytes()).await?;
        }
    }
    Ok(())
}

async fn answer(from: OwnedReadHalf, shared: &Shared, due: &Due) -> std::io::Result<()> {
    let mut from = BufReader::new(from);
    loop {
        let mut frame = Vec::new();
        read_frame(&mut from, &mut frame).await?;
        let mut due = due.lock().await;
        // Where nobody hears it any more, what else was asked for is answered all the same.
        if is_message(&frame) {
            let _ = due.1.write_all(&frame).await;
            continue;
        }
        frame = match due.0.pop_front() {
            Some(Next::Info) => told_info(&frame, shared.profile),
            Some(Next::Cluster) => led_through(&frame, &shared.ports),
            Some(Next::Kept(words)) => {
                keep(shared, words, Some(String::from_utf8_lossy(&frame).into_owned()));
                frame
            }
            // Another node has the slot.
            _ if frame.starts_with(b"-MOVED ") || frame.starts_with(b"-ASK ") => led_through(&frame, &shared.ports),
            _ => frame,
        };
        let _ = due.1.write_all(&frame).await;
        let _ = flush(&mut due).await;
    }
}

/// What comes without being asked for: RESP3 marks it, RESP2 does not.
fn is_message(frame: &[u8]) -> bool {
    let kinds = ["message", "subscribe", "unsubscribe"];
    let begins = |kind: &str| frame.starts_with(format!("*3\r\n${}\r\n{kind}\r\n", kind.len()).as_bytes());
    frame.starts_with(b">") || kinds.iter().any(|kind| begins(kind))
}

fn told_info(frame: &[u8], profile: Profile) -> Vec<u8> {
    let text = String::from_utf8_lossy(frame);
    let Some((head, body)) = text.split_once("\r\n") else { return frame.to_vec() };
    if head.starts_with('-') {
        return frame.to_vec();
    }
    let body = profile.info(body.strip_prefix("txt:").unwrap_or(body));
    format!("${}\r\n{body}\r\n", body.len()).into_bytes()
}

/// The same frame with the ports of the proxies in the place of the nodes': in errors, in the text of `CLUSTER NODES`,
/// and where `CLUSTER SLOTS` and `SHARDS` have a number behind an address or behind its name.
fn led_through(frame: &[u8], ports: &[(u16, u16)]) -> Vec<u8> {
    let text = String::from_utf8_lossy(frame);
    let (mut rest, mut told, mut is_port) = (&*text, String::new(), false);
    while let Some((line, after)) = rest.split_once("\r\n") {
        rest = after;
        let (kind, value) = line.split_at_checked(1).unwrap_or_default();
        let length = value.parse::<usize>().ok().filter(|_| matches!(kind, "$" | "="));
        if let Some((body, after)) = length.and_then(|length| rest.split_at_checked(length)) {
            rest = after.strip_prefix("\r\n").unwrap_or(after);
            is_port = body == "port" || body.parse::<Ipv4Addr>().is_ok();
            let body = ports
                .iter()
                .fold(body.to_owned(), |body, (node, proxy)| body.replace(&format!(":{node}@"), &format!(":{proxy}@")));
            let _ = write!(told, "{kind}{}\r\n{body}\r\n", body.len());
            continue;
        }
        let proxy = |port: &str| ports.iter().find(|(node, _)| node.to_string() == port).map(|(_, proxy)| *proxy);
        let proxied = match (kind, line.rsplit_once(':')) {
            (":", Some((before, port))) if is_port => proxy(port).map(|port| format!("{before}:{port}")),
            ("-", Some((before, port))) => proxy(port).map(|port| format!("{before}:{port}")),
            _ => None,
        };
        told += &proxied.unwrap_or_else(|| line.to_owned());
        told += "\r\n";
        is_port = false;
    }
    told.into_bytes()
}

fn malformed() -> std::io::Error {
    std::io::Error::other("this is no RESP")
}

async fn read_line(from: &mut BufReader<OwnedReadHalf>) -> std::io::Result<String> {
    let mut line = Vec::new();
    if from.read_until(b'\n', &mut line).await? == 0 {
        return Err(std::io::ErrorKind::UnexpectedEof.into());
    }
    String::from_utf8(line).map_err(|_| malformed())
}

fn count(line: &str) -> std::io::Result<usize> {
    line.get(1..).and_then(|digits| digits.trim_end().parse().ok()).ok_or_else(malformed)
}

async fn read_command(from: &mut BufReader<OwnedReadHalf>) -> std::io::Result<Vec<Vec<u8>>> {
    let line = read_line(from).await?;
    if !line.starts_with('*') {
        // Some clients greet like a person at a terminal.
        return Ok(line.split_whitespace().map(|word| word.as_bytes().to_vec()).collect());
    }
    let words = count(&line)?;
    let mut all = Vec::with_capacity(words);
    for _ in 0..words {
        let mut word = vec![0; count(&read_line(from).await?)? + 2];
        from.read_exact(&mut word).await?;
        word.truncate(word.len() - 2);
        all.push(word);
    }
    if all.is_empty() { Err(malformed()) } else { Ok(all) }
}

/// Reads one frame of RESP2 or RESP3, as it is.
async fn read_frame(from: &mut BufReader<OwnedReadHalf>, into: &mut Vec<u8>) -> std::io::Result<()> {
    let mut frames = 1;
    while frames > 0 {
        frames -= 1;
        let line = read_line(from).await?;
        into.extend_from_slice(line.as_bytes());
        if line.get(1..).is_some_and(|rest| rest.starts_with('-')) {
            // Nothing, of either kind.
            continue;
        }
        match line.as_bytes().first() {
            Some(b'$' | b'=' | b'!') => {
                let mut body = vec![0; count(&line)? + 2];
                from.read_exact(&mut body).await?;
                into.extend_from_slice(&body);
            }
            Some(b'*' | b'>' | b'~') => frames += count(&line)?,
            Some(b'%') => frames += 2 * count(&line)?,
            Some(b'|') => frames += 2 * count(&line)? + 1,
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn led(frame: &str) -> String {
        String::from_utf8(led_through(frame.as_bytes(), &[(10_001, 40_001), (9_002, 40_002)])).expect("it was text")
    }

    #[test]
    fn nodes_of_a_cluster_are_told_of_by_the_ports_of_their_proxies_and_slots_stay() {
        let node = |port: u16| format!("*3\r\n$9\r\n127.0.0.1\r\n:{port}\r\n$2\r\nid\r\n");
        let slots = |ports: [u16; 2]| format!("*1\r\n*4\r\n:10001\r\n:16383\r\n{}{}", node(ports[0]), node(ports[1]));
        assert_eq!(led(&slots([10_001, 9_002])), slots([40_001, 40_002]));
        let shards = |port: u16| format!("%2\r\n$4\r\nport\r\n:{port}\r\n$18\r\nreplication-offset\r\n:10001\r\n");
        assert_eq!(led(&shards(9_002)), shards(40_002));
    }

    #[test]
    fn what_is_longer_in_a_text_is_counted_and_refusals_lead_through_the_proxies_too() {
        let nodes = |length: usize, port: u16| format!("${length}\r\nid 127.0.0.1:{port}@19002 master\n\r\n");
        assert_eq!(led(&nodes(31, 9_002)), nodes(32, 40_002));
        assert_eq!(led("-MOVED 10001 127.0.0.1:10001\r\n"), "-MOVED 10001 127.0.0.1:40001\r\n");
        assert_eq!(led("-ASK 5 127.0.0.1:7000\r\n"), "-ASK 5 127.0.0.1:7000\r\n");
    }
}
