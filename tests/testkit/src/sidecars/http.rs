//! As much HTTP as an app speaks, and no more help than it has: blocking, over plain sockets, one connection, requests
//! one after the other.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;

/// Longer than most answers take, a long poll's and a paused sidecar's included.
const PATIENCE: Duration = Duration::from_secs(40);

/// An answer.
#[derive(Clone, Debug)]
pub struct Answer {
    pub status: u16,
    headers: Vec<(String, String)>,
    pub body: String,
}

impl Answer {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(given, _)| given.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// # Panics
    /// When the body is none.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The end of a problem's `type`.
    pub fn problem(&self) -> String {
        self.json()["type"].as_str().and_then(|uri| uri.rsplit(':').next()).unwrap_or_default().to_owned()
    }
}

/// A connection that is kept.
pub struct Connection {
    reader: BufReader<TcpStream>,
    address: SocketAddr,
    patience: Duration,
}

impl Connection {
    /// Connects.
    pub fn open(address: SocketAddr) -> io::Result<Self> {
        Self::open_for(address, PATIENCE)
    }

    /// Connects, for answers that take no longer than this.
    pub fn open_for(address: SocketAddr, patience: Duration) -> io::Result<Self> {
        let stream = TcpStream::connect_timeout(&address, patience)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(patience))?;
        Ok(Self { reader: BufReader::new(stream), address, patience })
    }

    /// One request and its whole answer. `line`: method and target.
    pub fn ask(&mut self, line: &str, body: &str) -> io::Result<Answer> {
        let asked = self.send(line, body).and_then(|()| self.head()).and_then(|head| self.rest(head));
        asked.map_err(|error| match error.kind() {
            // What Linux says when the time for reading is over: "Resource temporarily unavailable".
            io::ErrorKind::WouldBlock => {
                io::Error::new(io::ErrorKind::TimedOut, format!("silent for {:?}", self.patience))
            }
            _ => error,
        })
    }

    /// Sends a request.
    pub fn send(&mut self, line: &str, body: &str) -> io::Result<()> {
        self.send_with(line, &[], body)
    }

    /// The same with headers of its own.
    pub fn send_with(&mut self, line: &str, headers: &[(&str, &str)], body: &str) -> io::Result<()> {
        let mut request = format!("{line} HTTP/1.1\r\nHost: {}\r\n", self.address);
        request.extend(headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")));
        if !body.is_empty() {
            request += &format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len());
        }
        self.reader.get_mut().write_all(format!("{request}\r\n{body}").as_bytes())
    }

    /// Status and headers. What follows is read by [`Self::rest`] or, where it has no end, by [`Self::chunk`].
    pub fn head(&mut self) -> io::Result<Answer> {
        let status = self.line()?.split(' ').nth(1).and_then(|code| code.parse().ok());
        let status = status.ok_or_else(|| malformed("a status line"))?;
        let mut headers = Vec::new();
        loop {
            let line = self.line()?;
            let Some((name, value)) = line.split_once(':') else {
                return Ok(Answer { status, headers, body: String::new() });
            };
            headers.push((name.to_owned(), value.trim().to_owned()));
        }
    }

    /// The body of an answer that has an end.
    pub fn rest(&mut self, mut answer: Answer) -> io::Result<Answer> {
        let length = answer.header("content-length").map(str::parse);
        let body = match length {
            // It has no body, and says nothing of its length.
            _ if answer.status == 204 => Vec::new(),
            Some(length) => self.read(length.map_err(|_| malformed("a length"))?)?,
            None => {
                let mut body = Vec::new();
                while let Some(chunk) = self.chunk()? {
                    body.extend(chunk);
                }
                body
            }
        };
        answer.body = String::from_utf8(body).map_err(|_| malformed("not UTF-8"))?;
        Ok(answer)
    }

    /// The next piece of a body that comes in pieces; none at its end.
    pub fn chunk(&mut self) -> io::Result<Option<Vec<u8>>> {
        let length = usize::from_str_radix(&self.line()?, 16).map_err(|_| malformed("the length of a piece"))?;
        let piece = self.read(length)?;
        self.line()?;
        Ok((length > 0).then_some(piece))
    }

    fn read(&mut self, length: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; length];
        self.reader.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    /// The next line of a stream, without its end.
    pub fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        if self.reader.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(line.trim_end().to_owned())
    }
}

fn malformed(what: &str) -> io::Error {
    io::Error::other(format!("malformed answer: {what}"))
}

/// One request on a connection of its own.
///
/// # Panics
/// When there is no answer.
pub fn ask(address: SocketAddr, line: &str, body: &str) -> Answer {
    let answer = Connection::open(address).and_then(|mut connection| connection.ask(line, body));
    answer.unwrap_or_else(|error| panic!("{line}: {error}"))
}

/// The same with headers of its own.
///
/// # Panics
/// When there is no answer.
pub fn ask_with(address: SocketAddr, line: &str, headers: &[(&str, &str)], body: &str) -> Answer {
    let answer = Connection::open(address).and_then(|mut connection| {
        connection.send_with(line, headers, body)?;
        let head = connection.head()?;
        connection.rest(head)
    });
    answer.unwrap_or_else(|error| panic!("{line}: {error}"))
}
