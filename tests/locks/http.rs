//! What an app asks of its sidecar, which may be to wait for a lock.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use serde_json::Value;
use testkit::sidecars::http::{Answer, Connection};

/// Longer than any request here waits.
const PATIENCE: Duration = Duration::from_secs(90);

/// Takes a lock for as long as the connection lasts: the connection and the first line, or the refusal.
pub fn hold(address: SocketAddr, name: &str, query: &str) -> io::Result<Result<(Connection, Value), Answer>> {
    let mut connection = Connection::open_for(address, PATIENCE)?;
    connection.send(&format!("GET /locks/{name}/hold?{query}"), "")?;
    let head = connection.head()?;
    if head.status != 200 {
        return Ok(Err(connection.rest(head)?));
    }
    let grant = told(&mut connection)?.ok_or(io::ErrorKind::UnexpectedEof)?;
    Ok(Ok((connection, grant)))
}

/// The next line of a hold; none at its end.
pub fn told(hold: &mut Connection) -> io::Result<Option<Value>> {
    let line = hold.chunk()?;
    line.map(|line| serde_json::from_slice(&line).map_err(io::Error::other)).transpose()
}

/// One request on a connection of its own.
///
/// # Panics
/// When there is no answer.
pub fn ask(address: SocketAddr, line: &str, body: &str) -> Answer {
    let answer = Connection::open_for(address, PATIENCE).and_then(|mut connection| connection.ask(line, body));
    answer.unwrap_or_else(|error| panic!("{line}: {error}"))
}
