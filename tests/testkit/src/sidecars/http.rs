//! As much HTTP as an app speaks: blocking, one connection, requests one after the other.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Longer than any answer takes, a long poll's and a paused sidecar's included.
const PATIENCE: Duration = Duration::from_secs(40);

/// An answer.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub body: String,
}

/// A connection that is kept.
pub struct Connection {
    reader: BufReader<TcpStream>,
    address: SocketAddr,
}

impl Connection {
    /// Connects.
    pub fn open(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect_timeout(&address, PATIENCE)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(Self { reader: BufReader::new(stream), address })
    }

    /// One request and its whole answer. `line`: method and target.
    pub fn ask(&mut self, line: &str, body: &str) -> io::Result<Answer> {
        self.try_ask(line, body).map_err(|error| match error.kind() {
            // What Linux says when the time for reading is over: "Resource temporarily unavailable".
            io::ErrorKind::WouldBlock => io::Error::new(io::ErrorKind::TimedOut, format!("silent for {PATIENCE:?}")),
            _ => error,
        })
    }

    fn try_ask(&mut self, line: &str, body: &str) -> io::Result<Answer> {
        self.send(line, body)?;
        let (status, length) = self.head()?;
        // 204 has no body, and says nothing of its length.
        let bytes = match length.or((status == 204).then_some(0)) {
            Some(length) => self.read(length)?,
            None => self.chunks()?,
        };
        Ok(Answer { status, body: String::from_utf8(bytes).map_err(|_| malformed("not UTF-8"))? })
    }

    /// Sends a request.
    pub fn send(&mut self, line: &str, body: &str) -> io::Result<()> {
        let address = self.address;
        let mut request = format!("{line} HTTP/1.1\r\nHost: {address}\r\n");
        if !body.is_empty() {
            request += &format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len());
        }
        request += "\r\n";
        request += body;
        self.reader.get_mut().write_all(request.as_bytes())
    }

    /// The status and, where it is given, the length of what follows.
    pub fn head(&mut self) -> io::Result<(u16, Option<usize>)> {
        let status = self.line()?.split(' ').nth(1).and_then(|code| code.parse().ok());
        let status = status.ok_or_else(|| malformed("a status line"))?;
        let mut length = None;
        loop {
            let line = self.line()?;
            if line.is_empty() {
                return Ok((status, length));
            }
            if let Some((name, value)) = line.split_once(':')
                && name.eq_ignore_ascii_case("content-length")
            {
                length = value.trim().parse().ok();
            }
        }
    }

    fn read(&mut self, length: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; length];
        self.reader.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    /// A body that comes in pieces, each after its length.
    fn chunks(&mut self) -> io::Result<Vec<u8>> {
        let mut body = Vec::new();
        loop {
            let length = usize::from_str_radix(&self.line()?, 16).map_err(|_| malformed("the length of a piece"))?;
            body.extend(self.read(length)?);
            self.line()?;
            if length == 0 {
                return Ok(body);
            }
        }
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
