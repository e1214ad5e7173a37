//! `baton locks` and `baton unlock`: all locks of the store, and the end of one of them.

use std::collections::BTreeMap;

use baton::base::process::Exit;
use baton::protocol::{LockName, LockNameError, Token};
use clap::Args;
use hyper::{Method, StatusCode};
use serde::Deserialize;
use serde_json::Value;

use super::client::{Api, ApiArgs, ClientError, Reply};
use super::output::{columns, complain, say};
use super::status::locks::{LockAnswer, table};
use super::{Code, Format, block_on};

/// Show all locks of the store that are held or waited for
///
/// Asks the sidecar on this machine. `baton status` shows those that are used through it;
/// this shows those of all replicas. A lock that is taken or given back meanwhile may be
/// missing.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
#[command(after_help = "Examples:\n  baton locks\n  baton locks -o json | jq -r '.[].name'")]
pub struct LocksArgs {
    #[command(flatten)]
    api: ApiArgs,
    /// How to print it
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t = Format::Table)]
    output: Format,
}

/// End a lock, whoever holds it
///
/// Names the token that `baton locks` shows: if another holds the lock meanwhile, nothing
/// happens and the exit code is 1. The lock is free at once; whoever has it next has a
/// greater token. Its holder is told, and cannot extend it any more, but may still act on
/// it until then: make sure that it has stopped.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
#[command(after_help = "Examples:\n  baton unlock orders/42 --token 1763680000123456")]
pub struct UnlockArgs {
    /// The lock to end
    #[arg(value_name = "NAME", value_parser = lock_name)]
    name: LockName,
    /// The token of its holder
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..Token::LIMIT))]
    token: u64,
    #[command(flatten)]
    api: ApiArgs,
}

fn lock_name(text: &str) -> Result<LockName, LockNameError> {
    LockName::new(text)
}

/// `GET /locks?all=true`.
#[derive(Debug, Deserialize)]
struct PageAnswer {
    locks: Vec<Value>,
    next: Option<String>,
}

/// `DELETE /locks/{name}`, as far as it is told.
#[derive(Debug, Deserialize)]
struct UnlockAnswer {
    holder: Option<HolderAnswer>,
}

#[derive(Debug, Deserialize)]
struct HolderAnswer {
    owner: Option<String>,
    identity: String,
}

/// What there is instead of an answer.
enum Refusal {
    Client(ClientError),
    /// What the sidecar says, and what to end with.
    Said(String, Code),
}

impl From<ClientError> for Refusal {
    fn from(error: ClientError) -> Self {
        Self::Client(error)
    }
}

/// What an answer that is not 200 says.
fn refused(api: &Api, reply: &Reply) -> Refusal {
    match reply.status {
        StatusCode::CONFLICT => Refusal::Said(reply.problem(), Code::NO),
        StatusCode::SERVICE_UNAVAILABLE => Refusal::Said(reply.problem(), Exit::Unavailable.into()),
        StatusCode::NOT_IMPLEMENTED | StatusCode::BAD_REQUEST => Refusal::Said(reply.problem(), Exit::Usage.into()),
        _ => Refusal::Client(api.foreign(reply.problem())),
    }
}

fn report(command: &str, outcome: Result<(), Refusal>) -> Code {
    match outcome {
        Ok(()) => Exit::Well.into(),
        Err(Refusal::Client(error)) => {
            complain(format_args!("baton {command}: {error}"));
            error.code()
        }
        Err(Refusal::Said(words, code)) => {
            complain(format_args!("baton {command}: {words}"));
            code
        }
    }
}

/// Asks page by page, and shows them all.
pub fn locks(args: &LocksArgs) -> Code {
    block_on(async { report("locks", show(args).await) })
}

async fn show(args: &LocksArgs) -> Result<(), Refusal> {
    let api = args.api.open()?;
    // A lock may be on two pages.
    let mut locks: BTreeMap<String, Value> = BTreeMap::new();
    let mut after = Some("0".to_owned());
    while let Some(page) = after {
        let reply = api.get(&format!("/locks?all=true&after={page}")).await?;
        if reply.status != StatusCode::OK {
            return Err(refused(&api, &reply));
        }
        let page: PageAnswer = reply.json()?;
        let named = |lock: Value| Some((lock["name"].as_str()?.to_owned(), lock));
        locks.extend(page.locks.into_iter().filter_map(named));
        after = page.next;
    }
    let all = Value::from_iter(locks.into_values());
    match args.output {
        Format::Json => say(all),
        Format::Table => {
            let locks: Vec<LockAnswer> = serde_json::from_value(all).map_err(|error| api.foreign(error.to_string()))?;
            say(if locks.is_empty() { "no lock is held".to_owned() } else { columns(&table(&locks)).join("\n") })
        }
    };
    Ok(())
}

/// Asks, and says whose it was.
pub fn unlock(args: &UnlockArgs) -> Code {
    block_on(async { report("unlock", end(args).await) })
}

async fn end(args: &UnlockArgs) -> Result<(), Refusal> {
    let (api, name) = (args.api.open()?, args.name.as_str());
    let body = format!("{{\"token\":{}}}", args.token);
    let reply = api.ask(Method::DELETE, &format!("/locks/{}", encoded(name)), &[], body).await?;
    if reply.status != StatusCode::OK {
        return Err(refused(&api, &reply));
    }
    let answer: UnlockAnswer = reply.json()?;
    match answer.holder {
        Some(HolderAnswer { owner: Some(owner), identity }) => {
            say(format_args!("{name}: taken from {owner} on {identity}"))
        }
        Some(HolderAnswer { owner: None, identity }) => say(format_args!("{name}: taken from {identity}")),
        None => say(format_args!("{name}: it was ended before")),
    };
    Ok(())
}

/// A name as one segment of a path.
fn encoded(name: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    name.bytes().map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}
