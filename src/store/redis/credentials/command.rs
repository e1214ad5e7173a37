//! A program that prints a token: alone, or in JSON with whose it is and when it ends.
//!
//! No shell reads its arguments. It has the sidecar's environment, no input, and the sidecar's standard error for what
//! it has to say to people. It runs in a process group of its own, which ends with it.

use std::process::Stdio;

use jiff::Timestamp;
use serde::Deserialize;
use tokio::io::AsyncReadExt;
use tokio::process::Command;

use super::{Credential, after_seconds, jwt};
use crate::base::Child;
use crate::config::TokenCommand;

/// More is no token.
const BYTES_MAX: u64 = 64 << 10;

/// What it prints, if it prints JSON.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Printed {
    token: String,
    username: Option<String>,
    expires_at: Option<Timestamp>,
}

/// Runs it, and reads what it prints. Whoever drops the future kills it.
pub async fn run(config: &TokenCommand) -> Result<Credential, String> {
    let (program, arguments) = config.argv.split_first().ok_or("there is no program")?;
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit());
    let mut child = Child::start(command).map_err(|error| format!("{program} cannot be started: {error}"))?;
    let mut printed = Vec::new();
    if let (Some(stdout), _) = child.output() {
        let read = stdout.take(BYTES_MAX + 1).read_to_end(&mut printed).await;
        read.map_err(|error| format!("what {program} prints cannot be read: {error}"))?;
    }
    if printed.len() as u64 > BYTES_MAX {
        return Err(format!("{program} prints more than {BYTES_MAX} bytes: it is to print a token, and nothing else"));
    }
    let status = child.ended().await.map_err(|error| format!("{program}: {error}"))?;
    child.cleared().await;
    if !status.success() {
        return Err(format!("{program} failed ({status}): what it wrote to its standard error says why"));
    }
    read(&printed, config).map_err(|why| format!("{program} {why}"))
}

/// No message repeats what was printed.
fn read(printed: &[u8], config: &TokenCommand) -> Result<Credential, String> {
    let text = std::str::from_utf8(printed).map_err(|_| "prints what is no text".to_owned())?.trim();
    let printed = if text.starts_with('{') {
        serde_json::from_str(text).map_err(|error| {
            let (line, column) = (error.line(), error.column());
            format!(
                "prints JSON that is not {{\"token\": …, \"username\": …, \"expiresAt\": \"2026-01-01T00:00:00Z\"}}: \
                 see line {line}, column {column}"
            )
        })?
    } else {
        Printed { token: text.to_owned(), username: None, expires_at: None }
    };
    if printed.token.is_empty() || printed.token.contains(char::is_whitespace) {
        return Err("is to print a token, in one word, or JSON with one: it prints something else".to_owned());
    }
    let ends_at = printed.expires_at.or_else(|| jwt::ends_at(&printed.token));
    let ends_at = ends_at.or_else(|| after_seconds(config.lifetime.as_secs()));
    Ok(Credential { user: printed.username, secret: printed.token.into(), ends_at })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use jiff::SignedDuration;
    use secrecy::ExposeSecret;

    use super::*;
    use crate::base::clock::wall_time;

    fn read(printed: &str) -> Result<Credential, String> {
        let (timeout, lifetime) = (Duration::from_secs(1), Duration::from_secs(600));
        super::read(printed.as_bytes(), &TokenCommand { argv: Vec::new(), timeout, lifetime })
    }

    #[test]
    fn a_token_is_read_alone_and_from_json() {
        let alone = read("a-token\n").unwrap();
        assert_eq!((alone.user.as_deref(), alone.secret.expose_secret()), (None, "a-token"));
        let left = alone.ends_at.unwrap().duration_since(wall_time());
        assert!(left > SignedDuration::from_secs(590) && left <= SignedDuration::from_secs(600), "{left}");
        let whole = r#"{"token": "a-token", "username": "baton", "expiresAt": "2026-01-02T03:04:05Z", "more": 1}"#;
        let whole = read(whole).unwrap();
        assert_eq!((whole.user.as_deref(), whole.secret.expose_secret()), (Some("baton"), "a-token"));
        assert_eq!(whole.ends_at, "2026-01-02T03:04:05Z".parse().ok());
        // {"exp": 1300819380}
        let jwt = read("e30.eyJleHAiOiAxMzAwODE5MzgwfQ.c2ln").unwrap();
        assert_eq!(jwt.ends_at, Timestamp::from_second(1_300_819_380).ok(), "it says itself when it ends");
    }

    #[test]
    fn what_is_no_token_is_refused_and_not_repeated() {
        for printed in [
            "",
            "hunter2 and more",
            "{",
            r#"{"token": ""}"#,
            r#"{"token": "hunter2", "expiresAt": "hunter2"}"#,
            r#"{"hunter2": 1}"#,
        ] {
            let why = read(printed).unwrap_err();
            assert!(why.starts_with("prints JSON that is not") || why.starts_with("is to print a token"), "{why}");
            assert!(!why.contains("hunter2"), "{why}");
        }
    }
}
