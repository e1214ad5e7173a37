//! Answers that are written without hyper: to a connection that is one too many, or whose request never became whole.

use std::time::Duration;

use hyper::StatusCode;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::problem::{Problem, ProblemKind};

/// How long a refused client may take to read its refusal. Short, for there may be many.
const PATIENCE: Duration = Duration::from_millis(500);

/// Says why, then closes.
pub(super) async fn refuse(stream: TcpStream, problem: &Problem) {
    // Whatever goes wrong here, the connection ends; the client would learn no more from it.
    let _ = tokio::time::timeout(PATIENCE, say(stream, problem)).await;
}

async fn say(mut stream: TcpStream, problem: &Problem) -> std::io::Result<()> {
    stream.write_all(&text(problem)).await?;
    stream.shutdown().await?;
    // Closing with unread bytes would reset the connection, and the client could lose the answer with it.
    let mut sink = [0; 1024];
    while stream.read(&mut sink).await? > 0 {}
    Ok(())
}

fn text(problem: &Problem) -> Vec<u8> {
    let status: StatusCode = problem.kind().status();
    let retry = if problem.kind() == ProblemKind::TooManyConnections { "retry-after: 1\r\n" } else { "" };
    let body = problem.to_json();
    let head = format!(
        "HTTP/1.1 {} {}\r\ncontent-type: application/problem+json\r\ncache-control: no-store\r\n{retry}\
         connection: close\r\ncontent-length: {}\r\n\r\n",
        status.as_u16(),
        status.canonical_reason().unwrap_or(""),
        body.len()
    );
    [head.as_bytes(), &body].concat()
}
