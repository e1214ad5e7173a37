//! As much HTTP as an app speaks, and no more help than it has: blocking, over plain sockets.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;

/// Longer than any answer takes.
const PATIENCE: Duration = Duration::from_secs(90);

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

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The end of a problem's `type`.
    pub fn problem(&self) -> String {
        self.json()["type"].as_str().and_then(|uri| uri.rsplit(':').next()).unwrap_or_default().to_owned()
    }
}

/// A connection.
pub struct Connection {
    reader: BufReader<TcpStream>,
    address: SocketAddr,
}

fn malformed(what: &str) -> io::Error {
    io::Error::other(format!("malformed answer: {what}"))
}

impl Connection {
    pub fn open(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect_timeout(&address, PATIENCE)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(Self { reader: BufReader::new(stream), address })
    }

    /// Sends a request. `line`: method and target.
    pub fn send(&mut self, line: &str, body: &str) -> io::Result<()> {
        let mut request = format!("{line} HTTP/1.1\r\nHost: {}\r\n", self.address);
        if !body.is_empty() {
            request += &format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len());
        }
        self.reader.get_mut().write_all(format!("{request}\r\n{body}").as_bytes())
    }

    /// Status and headers. The body of a stream follows by [`Self::chunk`].
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

    /// One request and its whole answer.
    pub fn ask(&mut self, line: &str, body: &str) -> io::Result<Answer> {
        self.send(line, body)?;
        let mut answer = self.head()?;
        self.body(&mut answer)?;
        Ok(answer)
    }

    /// The body of an answer that has an end.
    pub fn body(&mut self, answer: &mut Answer) -> io::Result<()> {
        if answer.status != 204 {
            let length = answer.header("content-length").and_then(|length| length.parse().ok());
            let mut bytes = vec![0; length.ok_or_else(|| malformed("no length"))?];
            self.reader.read_exact(&mut bytes)?;
            answer.body = String::from_utf8(bytes).map_err(|_| malformed("not UTF-8"))?;
        }
        Ok(())
    }

    /// The next piece of a stream; none at its end.
    pub fn chunk(&mut self) -> io::Result<Option<Value>> {
        let size = usize::from_str_radix(&self.line()?, 16).map_err(|_| malformed("a chunk's size"))?;
        let mut bytes = vec![0; size + 2];
        self.reader.read_exact(&mut bytes)?;
        if size == 0 {
            return Ok(None);
        }
        serde_json::from_slice(&bytes[..size]).map(Some).map_err(|_| malformed("a line that is no JSON"))
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        if self.reader.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(line.trim_end().to_owned())
    }
}

/// Takes a lock for as long as the connection lasts: the connection and the first line, or the refusal.
pub fn hold(address: SocketAddr, name: &str, query: &str) -> io::Result<Result<(Connection, Value), Answer>> {
    let mut connection = Connection::open(address)?;
    connection.send(&format!("GET /locks/{name}/hold?{query}"), "")?;
    let mut answer = connection.head()?;
    if answer.status != 200 {
        connection.body(&mut answer)?;
        return Ok(Err(answer));
    }
    let grant = connection.chunk()?.ok_or_else(|| malformed("a hold without a line"))?;
    Ok(Ok((connection, grant)))
}

/// One request on a connection of its own.
///
/// # Panics
/// When there is no answer.
pub fn ask(address: SocketAddr, line: &str, body: &str) -> Answer {
    let answer = Connection::open(address).and_then(|mut connection| connection.ask(line, body));
    answer.unwrap_or_else(|error| panic!("{line}: {error}"))
}
