//! A sidecar whose answers a test decides: as much of `/leader` as clients need, in time or not.
//!
//! What it promises is written down as clients are to count it: from when they asked, of which this side knows when the
//! request came.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use testkit::wait::{PATIENCE, found_within, last_for};

/// Nanoseconds of the clock that clients tell their times by.
pub type Nanos = u64;

/// Time as `CLOCK_MONOTONIC` has it, the same in every process.
pub fn now() -> Nanos {
    let now = clock_gettime(ClockId::Monotonic);
    u64::try_from(now.tv_sec).unwrap() * 1_000_000_000 + u64::try_from(now.tv_nsec).unwrap()
}

pub fn nanos(span: Duration) -> Nanos {
    u64::try_from(span.as_nanos()).unwrap()
}

/// How it is answered who leads. Only the first three are answers that promise anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answers {
    Well,
    Late(Duration),
    /// Byte after byte, taking this long for all of it.
    Slowly(Duration),
    /// Nothing is said, by any call, until this changes.
    Never,
    /// 200 with something that is no JSON.
    Garbled,
    /// A leader's answer that breaks off.
    CutShort,
    /// A leader's answer with 500.
    Failing,
    /// 307, to where a leader's answer is.
    Elsewhere,
    /// The connection is closed instead.
    Closed,
    /// A leader's answer with another token than its connection has been told.
    OfAnother,
    /// 410
    HoldEnded,
}

/// The tokens of answers that promise nothing.
const WRONG: u64 = 96;
/// How often what has changed is looked for.
const LOOK: Duration = Duration::from_millis(2);
/// How long who does not lead waits for the lead.
const WAIT: Duration = Duration::from_millis(300);

#[derive(Clone, Copy, Debug)]
pub struct Lead {
    pub token: u64,
    pub valid_for: Duration,
}

#[derive(Clone, Copy, Debug)]
pub struct Promise {
    pub token: u64,
    pub until: Nanos,
}

/// `drained` or `resign`, and of which connection.
#[derive(Clone, Debug)]
pub struct Post {
    pub word: String,
    pub hold: Option<String>,
    pub at: Nanos,
}

struct State {
    lead: Option<Lead>,
    answers: Answers,
    /// Lines of holds say that the lead is good for a minute.
    boasts: bool,
    /// Nobody gets in.
    away: bool,
    /// The connections by which clients show that they live, and the token of each.
    holds: BTreeMap<String, u64>,
    opened: u64,
    /// When clients closed theirs, without having said that they have stopped.
    closed: Vec<Nanos>,
    asked: usize,
    promises: Vec<Promise>,
    posts: Vec<Post>,
    streams: Vec<TcpStream>,
}

pub struct Sidecar {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
}

impl Sidecar {
    pub fn start() -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(Mutex::new(State {
            lead: None,
            answers: Answers::Well,
            boasts: false,
            away: false,
            holds: BTreeMap::new(),
            opened: 0,
            closed: Vec::new(),
            asked: 0,
            promises: Vec::new(),
            posts: Vec::new(),
            streams: Vec::new(),
        }));
        let shared = Arc::clone(&state);
        // The threads live as long as the test's process: there is no state of the machine behind them.
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let mut state = shared.lock().unwrap();
                if !state.away {
                    state.streams.push(stream.try_clone().unwrap());
                    let state = Arc::clone(&shared);
                    thread::spawn(move || {
                        serve(&stream, &state);
                        // There is another handle of it. Who has left has left.
                        let _ = stream.shutdown(Shutdown::Both);
                    });
                }
            }
        });
        Self { address, state }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// It leads with this token from now on, and promises for so long at a time.
    pub fn lead(&self, token: u64, valid_for: Duration) {
        self.state().lead = Some(Lead { token, valid_for });
    }

    /// It leads no longer, and says so.
    pub fn follow(&self) {
        self.state().lead = None;
    }

    /// Returns how often it was asked until now.
    pub fn answer(&self, answers: Answers) -> usize {
        let mut state = self.state();
        state.answers = answers;
        state.asked
    }

    pub fn boast(&self) {
        self.state().boasts = true;
    }

    /// The connections end by which clients show that they live, and nothing is known of them any more.
    pub fn end_holds(&self) {
        self.state().holds.clear();
    }

    /// All connections end, and nobody gets in until [`Sidecar::come_back`].
    pub fn go_away(&self) {
        let mut state = self.state();
        state.away = true;
        state.holds.clear();
        for stream in state.streams.drain(..) {
            // Who has left has left.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    pub fn come_back(&self) {
        self.state().away = false;
    }

    /// How often it was asked who leads.
    pub fn asked(&self) -> usize {
        self.state().asked
    }

    pub fn promises(&self) -> Vec<Promise> {
        self.state().promises.clone()
    }

    /// When nothing that was promised stands any more.
    pub fn promised_until(&self) -> Nanos {
        self.state().promises.iter().map(|promise| promise.until).max().unwrap_or(0)
    }

    pub fn posts(&self) -> Vec<Post> {
        self.state().posts.clone()
    }

    /// When clients closed their connections without having said that they have stopped.
    pub fn closed(&self) -> Vec<Nanos> {
        self.state().closed.clone()
    }

    /// How many clients show by a connection that they live.
    pub fn holds(&self) -> usize {
        self.state().holds.len()
    }
}

struct Request {
    method: String,
    path: String,
    hold: Option<String>,
}

fn serve(stream: &TcpStream, state: &Mutex<State>) {
    stream.set_nodelay(true).unwrap();
    let mut reader = BufReader::new(stream);
    while let Some(request) = read(&mut reader) {
        let came_at = now();
        found_within(PATIENCE, || (state.lock().unwrap().answers != Answers::Never).then_some(()));
        // The client may be gone; that is its right.
        let goes_on = match (request.method.as_str(), request.path.as_str()) {
            ("GET", "/leader/scheduler/hold") => return hold(stream, state),
            ("GET", "/leader/scheduler") => leader(stream, state, request.hold.as_deref(), came_at),
            ("GET", "/elsewhere") => respond(stream, "200 OK", &led(WRONG, 5_000)),
            ("POST", path) => {
                let mut state = state.lock().unwrap();
                let word = path.trim_start_matches("/leader/scheduler/").to_owned();
                let was_there = request.hold.as_ref().is_none_or(|hold| state.holds.remove(hold).is_some());
                state.posts.push(Post { word, hold: request.hold, at: now() });
                respond(stream, if was_there { "202 Accepted" } else { "410 Gone" }, "{}")
            }
            _ => respond(stream, "404 Not Found", "{}"),
        };
        if !goes_on {
            return;
        }
    }
}

/// One request; none at the end of the connection.
fn read(reader: &mut BufReader<&TcpStream>) -> Option<Request> {
    let mut head = String::new();
    while reader.read_line(&mut head).is_ok_and(|read| read > 2) {}
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<u64>().unwrap())
    });
    let mut body = Vec::new();
    reader.take(length.unwrap_or(0)).read_to_end(&mut body).ok()?;
    let mut words = head.split_whitespace();
    let (method, target) = (words.next()?, words.next()?);
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let hold = query.split('&').find_map(|pair| pair.strip_prefix("hold="));
    Some(Request { method: method.to_owned(), path: path.to_owned(), hold: hold.map(str::to_owned) })
}

/// Whether the connection goes on.
fn respond(mut stream: &TcpStream, status: &str, body: &str) -> bool {
    let head = format!("HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n", body.len());
    stream.write_all(format!("{head}\r\n{body}").as_bytes()).is_ok()
}

fn led(token: u64, valid_for_ms: u128) -> String {
    let who = r#""role":"scheduler","leader":true,"state":"leading","identity":"web-0","holder":"web-0""#;
    let rest = r#""since":"2026-11-20T10:00:00Z","index":17,"reason":null"#;
    format!("{{{who},\"token\":{token},\"valid_for_ms\":{valid_for_ms},{rest}}}")
}

fn followed() -> String {
    let who = r#""role":"scheduler","leader":false,"state":"standby","identity":"web-0","holder":"web-1""#;
    let rest = r#""since":"2026-11-20T10:00:00Z","index":16,"reason":"web-1 leads""#;
    format!("{{{who},\"token\":null,\"valid_for_ms\":null,{rest}}}")
}

fn leader(mut stream: &TcpStream, state: &Mutex<State>, hold: Option<&str>, came_at: Nanos) -> bool {
    let answers = state.lock().unwrap().answers;
    if let Answers::Late(delay) = answers {
        last_for(delay);
    }
    let mut state = state.lock().unwrap();
    state.asked += 1;
    let of_hold = hold.map(|hold| state.holds.get(hold).copied());
    let Some(lead) = state.lead.filter(|lead| of_hold.flatten().is_none_or(|token| token == lead.token)) else {
        return respond(stream, "200 OK", &followed());
    };
    let right = led(lead.token, lead.valid_for.as_millis());
    if answers == Answers::HoldEnded || of_hold == Some(None) {
        return respond(stream, "410 Gone", r#"{"type":"urn:baton:problem:hold-ended","status":410}"#);
    }
    if matches!(answers, Answers::Well | Answers::Late(_) | Answers::Slowly(_)) {
        let until = came_at + nanos(lead.valid_for);
        state.promises.push(Promise { token: lead.token, until });
    }
    // Others ask meanwhile.
    drop(state);
    match answers {
        Answers::Well | Answers::Late(_) => respond(stream, "200 OK", &right),
        Answers::Slowly(span) => {
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", right.len());
            let pace = span / u32::try_from(right.len()).unwrap();
            stream.write_all(head.as_bytes()).is_ok()
                && right.bytes().all(|byte| {
                    last_for(pace);
                    stream.write_all(&[byte]).is_ok()
                })
        }
        Answers::Garbled => respond(stream, "200 OK", "leader: true"),
        Answers::CutShort => {
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", right.len());
            let _ = stream.write_all(format!("{head}{}", &right[..right.len() / 2]).as_bytes());
            false
        }
        Answers::Failing => respond(stream, "500 Internal Server Error", &right),
        Answers::Elsewhere => {
            let head = "HTTP/1.1 307 Temporary Redirect\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n\r\n";
            stream.write_all(head.as_bytes()).is_ok()
        }
        Answers::OfAnother => respond(stream, "200 OK", &led(WRONG, lead.valid_for.as_millis())),
        Answers::Closed | Answers::HoldEnded | Answers::Never => false,
    }
}

/// One line after the other, until the client is gone.
fn hold(mut stream: &TcpStream, state: &Mutex<State>) {
    let Some(lead) = found_within(WAIT, || state.lock().unwrap().lead) else {
        respond(stream, "409 Conflict", r#"{"type":"urn:baton:problem:not-leading","status":409}"#);
        return;
    };
    let (name, valid_for_ms) = {
        let mut state = state.lock().unwrap();
        state.opened += 1;
        let name = format!("{}-{}", lead.token, state.opened);
        state.holds.insert(name.clone(), lead.token);
        (name, if state.boasts { 60_000 } else { lead.valid_for.as_millis() })
    };
    let line = |answer: String| {
        let line = format!("{},\"hold\":\"{name}\"}}\n", answer.trim_end_matches('}'));
        format!("{:x}\r\n{line}\r\n", line.len())
    };
    let head = "HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n";
    let mut goes_on = stream.write_all(head.as_bytes()).is_ok();
    let mut told_at = 0;
    let mut told_of_loss = false;
    stream.set_read_timeout(Some(LOOK)).unwrap();
    while goes_on && !is_closed(stream) {
        let state = state.lock().unwrap();
        if !state.holds.contains_key(&name) {
            let _ = stream.write_all(b"0\r\n\r\n");
            return;
        }
        let leads = state.lead.is_some_and(|now| now.token == lead.token);
        // A sidecar that stands still says nothing here, either.
        let speaks = state.answers != Answers::Never;
        drop(state);
        if speaks && leads && now() > told_at + nanos(lead.valid_for) / 2 {
            told_at = now();
            goes_on = stream.write_all(line(led(lead.token, valid_for_ms)).as_bytes()).is_ok();
        } else if speaks && !leads && !told_of_loss {
            told_of_loss = true;
            goes_on = stream.write_all(line(followed()).as_bytes()).is_ok();
        }
    }
    let mut state = state.lock().unwrap();
    if state.holds.remove(&name).is_some() {
        state.closed.push(now());
    }
}

/// Waits a moment for the client's end.
fn is_closed(mut stream: &TcpStream) -> bool {
    match stream.read(&mut [0]) {
        Ok(read) => read == 0,
        Err(error) => !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
    }
}
