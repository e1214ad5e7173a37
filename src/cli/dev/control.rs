//! The socket on which other terminals talk to a running `baton dev`: a Unix domain socket in a folder that only
//! this user may enter, so that neither a web page nor another user can kill anything.
//!
//! One line a connection: `kill N` or `addresses`; one line back: `ok …` or what is wrong.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::PathBuf;
use std::time::Duration;

use rustix::process::getuid;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::time::timeout;

/// A replica is killed in milliseconds.
const PATIENCE: Duration = Duration::from_secs(5);
/// No line is longer.
const LINE_BYTES_MAX: u64 = 4_096;

/// The socket of the `baton dev` whose first replica has this port. Makes its folder where there is none.
fn path(port: u16) -> io::Result<PathBuf> {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").filter(|folder| !folder.is_empty()).map(PathBuf::from);
    let folder = match runtime {
        Some(folder) => folder.join("baton"),
        None => std::env::temp_dir().join(format!("baton-{}", getuid().as_raw())),
    };
    match DirBuilder::new().mode(0o700).create(&folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let found = std::fs::symlink_metadata(&folder)?;
    if !found.is_dir() || found.uid() != getuid().as_raw() || found.mode() & 0o077 != 0 {
        return Err(io::Error::other(format!("{} must be this user's folder, and nobody else's", folder.display())));
    }
    Ok(folder.join(format!("baton-dev-{port}.sock")))
}

/// The listening side. Its file goes with it.
#[derive(Debug)]
pub struct Control {
    listener: UnixListener,
    path: PathBuf,
}

impl Control {
    /// Listens. The replicas' ports are taken by now, so a file that is there is left over from one that was killed.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn listen(port: u16) -> io::Result<Self> {
        let path = path(port)?;
        let listener = match UnixListener::bind(&path) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                std::fs::remove_file(&path)?;
                UnixListener::bind(&path)?
            }
            bound => bound?,
        };
        Ok(Self { listener, path })
    }

    /// The next request. One that does not come in time is passed over. Cancel-safe, but for requests half read.
    pub async fn next(&self) -> Request {
        loop {
            let Ok((stream, _)) = self.listener.accept().await else {
                // Out of file descriptors, most likely: not at once again.
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            };
            let mut reader = BufReader::new(stream.take(LINE_BYTES_MAX));
            let mut line = String::new();
            if let Ok(Ok(_)) = timeout(PATIENCE, reader.read_line(&mut line)).await {
                return Request { line: line.trim_end().to_owned(), stream: reader.into_inner().into_inner() };
            }
        }
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        // Left over it does no harm.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// A line that wants another one back.
#[derive(Debug)]
pub struct Request {
    pub line: String,
    stream: UnixStream,
}

impl Request {
    pub async fn answer(mut self, line: &str) {
        // Whoever asked may have gone.
        let _ = timeout(PATIENCE, self.stream.write_all(format!("{line}\n").as_bytes())).await;
    }
}

/// Asks the `baton dev` whose first replica has this port.
///
/// # Errors
/// There is none, or it does not answer.
pub async fn ask(port: u16, line: &str) -> io::Result<String> {
    let exchange = async {
        let mut stream = UnixStream::connect(path(port)?).await?;
        stream.write_all(format!("{line}\n").as_bytes()).await?;
        let mut answer = String::new();
        stream.take(LINE_BYTES_MAX).read_to_string(&mut answer).await?;
        Ok(answer.trim_end().to_owned())
    };
    timeout(PATIENCE, exchange).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

/// The api addresses of the replicas of the `baton dev` whose first replica has this port; none when there is none.
pub async fn addresses(port: u16) -> Option<Vec<String>> {
    let answer = ask(port, "addresses").await.ok()?;
    Some(answer.strip_prefix("ok ")?.split(' ').map(str::to_owned).collect())
}
