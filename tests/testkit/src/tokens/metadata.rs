//! Stands in for what gives tokens and keys over HTTP: a metadata service, an agent, STS, Entra ID.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// A request.
#[derive(Clone, Debug, Default)]
pub struct Asked {
    pub method: String,
    /// Path and query.
    pub target: String,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    pub body: String,
}

impl Asked {
    pub fn header(&self, name: &str) -> &str {
        self.headers.iter().find(|(given, _)| given == name).map_or("", |(_, value)| value)
    }
}

type Answer = dyn Fn(&Asked) -> (u16, String) + Send + Sync;

/// The stand-in. Its thread ends with the test.
pub struct Metadata {
    address: SocketAddr,
    answer: Arc<Mutex<Arc<Answer>>>,
}

impl Metadata {
    /// Answers with a status and a body.
    ///
    /// # Panics
    /// When there is no port.
    pub fn start(answer: impl Fn(&Asked) -> (u16, String) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("bound");
        let answer: Arc<Mutex<Arc<Answer>>> = Arc::new(Mutex::new(Arc::new(answer)));
        let answers = Arc::clone(&answer);
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let answer = Arc::clone(&answers.lock().unwrap_or_else(PoisonError::into_inner));
                // Whoever asked may have gone.
                thread::spawn(move || drop(serve(stream, &*answer)));
            }
        });
        Self { address, answer }
    }

    /// From now on it answers so.
    pub fn answer(&self, answer: impl Fn(&Asked) -> (u16, String) + Send + Sync + 'static) {
        *self.answer.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(answer);
    }

    /// Host and port.
    pub fn authority(&self) -> String {
        self.address.to_string()
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

fn serve(stream: TcpStream, answer: &Answer) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let mut words = line.split_whitespace().map(str::to_owned);
    let mut asked = Asked {
        method: words.next().unwrap_or_default(),
        target: words.next().unwrap_or_default(),
        ..Asked::default()
    };
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let Some((name, value)) = line.split_once(':') else { break };
        asked.headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    let length = asked.header("content-length").parse().unwrap_or(0);
    reader.by_ref().take(length).read_to_string(&mut asked.body)?;
    let (status, body) = answer(&asked);
    let head = format!("HTTP/1.1 {status} Told\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
    reader.into_inner().write_all(format!("{head}{body}").as_bytes())
}
