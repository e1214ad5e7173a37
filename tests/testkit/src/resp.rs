//! A client for the few commands that tests send behind the store's back. Blocking, RESP2, no frills: it shares nothing
//! with the client under test.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// What Redis answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    Text(String),
    Error(String),
    Number(i64),
    Nil,
    List(Vec<Reply>),
}

impl Reply {
    /// The text of a text reply.
    ///
    /// # Panics
    /// When it is another kind of reply.
    pub fn text(self) -> String {
        match self {
            Self::Text(text) => text,
            other => panic!("expected a text, got {other:?}"),
        }
    }

    /// The number of a numeric reply.
    ///
    /// # Panics
    /// When it is another kind of reply.
    pub fn number(self) -> i64 {
        match self {
            Self::Number(number) => number,
            other => panic!("expected a number, got {other:?}"),
        }
    }

    /// A list of texts (nil as the empty text).
    ///
    /// # Panics
    /// When it is another kind of reply.
    pub fn texts(self) -> Vec<String> {
        match self {
            Self::List(items) => {
                items.into_iter().map(|item| if item == Self::Nil { String::new() } else { item.text() }).collect()
            }
            other => panic!("expected a list, got {other:?}"),
        }
    }
}

/// One connection.
pub struct Connection {
    reader: BufReader<TcpStream>,
}

impl Connection {
    /// Connects to a port of this machine.
    pub fn open(port: u16) -> std::io::Result<Self> {
        let stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(Duration::from_secs(10)))?;
        Ok(Self { reader: BufReader::new(stream) })
    }

    /// Whether the other side has closed it, as far as has arrived.
    pub fn is_closed(&self) -> bool {
        let stream = self.reader.get_ref();
        // Between commands nothing is to be read, so that this waits for nothing.
        let look = stream.set_nonblocking(true).and_then(|()| stream.peek(&mut [0]));
        let restored = stream.set_nonblocking(false);
        restored.is_err() || !matches!(look, Err(error) if error.kind() == std::io::ErrorKind::WouldBlock)
    }

    /// Sends a command and reads its reply.
    pub fn command(&mut self, words: &[&str]) -> std::io::Result<Reply> {
        let mut request = format!("*{}\r\n", words.len());
        for word in words {
            request.push_str(&format!("${}\r\n{word}\r\n", word.len()));
        }
        self.reader.get_mut().write_all(request.as_bytes())?;
        self.read()
    }

    /// Reads the next reply, for commands that have several.
    pub fn read(&mut self) -> std::io::Result<Reply> {
        let mut line = String::new();
        if self.reader.read_line(&mut line)? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        let malformed = || std::io::Error::other(format!("malformed reply {line:?}"));
        let (kind, rest) = line.trim_end().split_at_checked(1).ok_or_else(malformed)?;
        let number = || rest.parse::<i64>().map_err(|_| malformed());
        Ok(match kind {
            "+" => Reply::Text(rest.to_owned()),
            "-" => Reply::Error(rest.to_owned()),
            ":" => Reply::Number(number()?),
            "$" => match usize::try_from(number()?) {
                Err(_) => Reply::Nil,
                Ok(length) => {
                    let mut bytes = vec![0; length + 2];
                    self.reader.read_exact(&mut bytes)?;
                    bytes.truncate(length);
                    Reply::Text(String::from_utf8_lossy(&bytes).into_owned())
                }
            },
            "*" => match usize::try_from(number()?) {
                Err(_) => Reply::Nil,
                Ok(length) => Reply::List((0..length).map(|_| self.read()).collect::<std::io::Result<_>>()?),
            },
            _ => return Err(malformed()),
        })
    }
}
