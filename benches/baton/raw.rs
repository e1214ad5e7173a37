//! Clients without a library between them and the socket, for measurements in which the client must cost little: HTTP/1
//! and Redis, one request at a time on one connection.

use std::io::{Error, ErrorKind};
use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// One connection, and what has been read of it and not used.
struct Stream {
    socket: TcpStream,
    read: Vec<u8>,
    filled: usize,
}

impl Stream {
    async fn connect(address: SocketAddr) -> Result<Self, Error> {
        let socket = TcpStream::connect(address).await?;
        socket.set_nodelay(true)?;
        Ok(Self { socket, read: vec![0; 4096], filled: 0 })
    }

    fn seen(&self) -> &[u8] {
        &self.read[..self.filled]
    }

    async fn more(&mut self) -> Result<(), Error> {
        if self.filled == self.read.len() {
            self.read.resize(self.filled * 2, 0);
        }
        match self.socket.read(&mut self.read[self.filled..]).await? {
            0 => Err(ErrorKind::UnexpectedEof.into()),
            more => {
                self.filled += more;
                Ok(())
            }
        }
    }
}

fn odd(what: &[u8]) -> Error {
    Error::other(format!("not understood: {:?}", String::from_utf8_lossy(what)))
}

/// HTTP/1.1.
pub struct Http {
    address: SocketAddr,
    stream: Stream,
    request: Vec<u8>,
}

impl Http {
    pub async fn connect(address: SocketAddr) -> Result<Self, Error> {
        Ok(Self { address, stream: Stream::connect(address).await?, request: Vec::new() })
    }

    async fn ask(&mut self, method: &str, path: &str, body: &str) -> Result<(), Error> {
        use std::io::Write as _;
        self.request.clear();
        let (length, host) = (body.len(), self.address);
        write!(
            self.request,
            "{method} {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nContent-Length: \
             {length}\r\n\r\n{body}"
        )?;
        self.stream.filled = 0;
        self.stream.socket.write_all(&self.request).await
    }

    /// The status and the body of an answer that tells its length.
    pub async fn send(&mut self, method: &str, path: &str, body: &str) -> Result<(u16, &str), Error> {
        self.ask(method, path, body).await?;
        let head = loop {
            if let Some(at) = self.stream.seen().windows(4).position(|four| four == b"\r\n\r\n") {
                break at + 4;
            }
            self.stream.more().await?;
        };
        let text = std::str::from_utf8(&self.stream.read[..head]).map_err(Error::other)?;
        let status = text.get(9..12).and_then(|code| code.parse().ok()).ok_or_else(|| odd(text.as_bytes()))?;
        let length = text.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
        });
        // 204 has no body and says nothing of it.
        let end = head + length.or((status == 204).then_some(0)).ok_or_else(|| odd(text.as_bytes()))?;
        while self.stream.filled < end {
            self.stream.more().await?;
        }
        Ok((status, std::str::from_utf8(&self.stream.read[head..end]).map_err(Error::other)?))
    }

    /// Asks for a stream without an end.
    pub async fn open(&mut self, path: &str) -> Result<(), Error> {
        self.ask("GET", path, "").await
    }

    /// Waits for more of it, and forgets that.
    pub async fn forget(&mut self) -> Result<(), Error> {
        self.stream.filled = 0;
        self.stream.more().await
    }

    /// Reads on until this has come, and forgets all that came until now.
    pub async fn until(&mut self, text: &str) -> Result<(), Error> {
        while !self.stream.seen().windows(text.len()).any(|part| part == text.as_bytes()) {
            self.stream.more().await?;
        }
        self.stream.filled = 0;
        Ok(())
    }
}

/// RESP2.
pub struct Redis {
    stream: Stream,
    request: Vec<u8>,
}

impl Redis {
    pub async fn connect(address: SocketAddr) -> Result<Self, Error> {
        Ok(Self { stream: Stream::connect(address).await?, request: Vec::new() })
    }

    /// The reply to a command, as it came. An error reply is an error.
    pub async fn command(&mut self, words: &[&str]) -> Result<&[u8], Error> {
        use std::io::Write as _;
        self.request.clear();
        write!(self.request, "*{}\r\n", words.len())?;
        for word in words {
            write!(self.request, "${}\r\n{word}\r\n", word.len())?;
        }
        self.stream.filled = 0;
        self.stream.socket.write_all(&self.request).await?;
        let end = loop {
            match reply_end(self.stream.seen(), 0)? {
                Some(end) => break end,
                None => self.stream.more().await?,
            }
        };
        let reply = &self.stream.read[..end];
        if reply.starts_with(b"-") { Err(odd(reply)) } else { Ok(reply) }
    }
}

/// Where the reply ends that begins there; none while a part of it is still out.
fn reply_end(bytes: &[u8], from: usize) -> Result<Option<usize>, Error> {
    let Some(line) = bytes[from..].windows(2).position(|two| two == b"\r\n") else { return Ok(None) };
    let (line, after) = (&bytes[from..from + line], from + line + 2);
    let number = || {
        let digits = std::str::from_utf8(line.get(1..).unwrap_or_default()).map_err(Error::other)?;
        digits.parse::<i64>().map_err(|_| odd(line))
    };
    match line.first() {
        Some(b'+' | b'-' | b':') => Ok(Some(after)),
        Some(b'$') => {
            let end = usize::try_from(number()?).map_or(after, |length| after + length + 2);
            Ok((bytes.len() >= end).then_some(end))
        }
        Some(b'*') => {
            let mut end = after;
            for _ in 0..number()?.max(0) {
                match reply_end(bytes, end)? {
                    Some(next) => end = next,
                    None => return Ok(None),
                }
            }
            Ok(Some(end))
        }
        _ => Err(odd(line)),
    }
}
