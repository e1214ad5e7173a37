//! A sidecar whose answers the test decides: as little HTTP as the clients need.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use testkit::wait::last_for;

/// What `GET /leader/scheduler` is answered with.
#[derive(Clone, Copy)]
pub enum Answer {
    /// Another leads.
    Follower,
    /// 200 with something that is no JSON.
    Garbage,
    /// 500 with a body that would pass for a leader's.
    Failure,
    /// This replica leads.
    Leader { token: u64, valid_for_ms: u64, delay: Duration },
}

struct State {
    answer: Answer,
    asked: usize,
    posts: Vec<String>,
}

pub struct Sidecar {
    url: String,
    state: Arc<Mutex<State>>,
}

impl Sidecar {
    pub fn start() -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let url = format!("http://{}/leader/scheduler", listener.local_addr().unwrap());
        let state = Arc::new(Mutex::new(State { answer: Answer::Follower, asked: 0, posts: Vec::new() }));
        let shared = Arc::clone(&state);
        // Both threads live as long as the test's process: there is no state of the machine behind them.
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let state = Arc::clone(&shared);
                std::thread::spawn(move || serve(stream, &state));
            }
        });
        Self { url, state }
    }

    pub fn url(&self) -> &str {
        &self.url
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// Answers so from now on. Returns how often it was asked until now.
    pub fn answer_with(&self, answer: Answer) -> usize {
        let mut state = self.state();
        state.answer = answer;
        state.asked
    }

    /// How often `GET` was asked and answered.
    pub fn asked(&self) -> usize {
        self.state().asked
    }

    /// The last segments of the paths that were posted to, in order.
    pub fn posts(&self) -> Vec<String> {
        self.state().posts.clone()
    }
}

/// One request a connection: the answer says `Connection: close`.
fn serve(stream: TcpStream, state: &Mutex<State>) {
    let mut reader = BufReader::new(&stream);
    let mut request = String::new();
    let mut length = 0;
    while reader.read_line(&mut request).is_ok_and(|read| read > 2) {
        let line = request.lines().last().unwrap_or_default().to_ascii_lowercase();
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
    }
    let mut body = vec![0; length];
    if reader.read_exact(&mut body).is_err() {
        return;
    }
    let words: Vec<&str> = request.split_whitespace().take(2).collect();
    let (status, body) = match words[..] {
        ["GET", "/leader/scheduler"] => get(state),
        ["POST", path] => {
            let word = path.strip_prefix("/leader/scheduler/").unwrap_or(path);
            state.lock().unwrap().posts.push(word.to_owned());
            ("202 Accepted", String::new())
        }
        _ => ("404 Not Found", String::new()),
    };
    let head = format!("HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n", body.len());
    // The client may be gone; that is its right.
    let _ = (&stream).write_all(format!("{head}Connection: close\r\n\r\n{body}").as_bytes());
}

fn get(state: &Mutex<State>) -> (&'static str, String) {
    let answer = state.lock().unwrap().answer;
    if let Answer::Leader { delay, .. } = answer {
        last_for(delay);
    }
    let leader = |token: u64, valid_for_ms: u64| {
        let whole = r#"{"role":"scheduler","leader":true,"state":"leading","identity":"web-0","holder":"web-0",
            "token":T,"valid_for_ms":V,"since":"2026-11-20T10:00:00Z","index":17,"reason":null}"#;
        one_line(whole).replace("T,", &format!("{token},")).replace("V,", &format!("{valid_for_ms},"))
    };
    let follower = r#"{"role":"scheduler","leader":false,"state":"standby","identity":"web-0","holder":"web-1",
        "token":null,"valid_for_ms":null,"since":"2026-11-20T10:00:00Z","index":16,"reason":"web-1 leads"}"#;
    let reply = match answer {
        Answer::Follower => ("200 OK", one_line(follower)),
        Answer::Garbage => ("200 OK", "leader: true".to_owned()),
        Answer::Failure => ("500 Internal Server Error", leader(97, 5_000)),
        Answer::Leader { token, valid_for_ms, .. } => ("200 OK", leader(token, valid_for_ms)),
    };
    state.lock().unwrap().asked += 1;
    reply
}

/// JSON as the sidecar writes it: in one line.
fn one_line(json: &str) -> String {
    json.lines().map(str::trim).collect()
}
