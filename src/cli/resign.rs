//! `baton resign`: asks the leader to hand over.

use baton::base::process::Exit;
use baton::protocol::RoleName;
use clap::Args;
use hyper::StatusCode;

use super::client::{Api, ApiArgs, ClientError, RoleAnswer};
use super::output::{complain, say};
use super::{Code, block_on, dev};

/// Hand a role over to another replica
///
/// Asks the sidecar on this machine to give the role up. It says `leader: false` at
/// once, keeps the lease until the last promise it gave has run out, and releases;
/// another replica leads within milliseconds, and this one stays out for the cooldown.
///
/// Only the leader can resign: another replica's sidecar names it, and then the exit
/// code is 1. Among the replicas of `baton dev` the leader is found by itself, unless
/// --api names one of them.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
#[command(after_help = "Examples:\n  baton resign scheduler\n  baton resign scheduler --cooldown 10m")]
pub struct ResignArgs {
    /// The role to hand over
    #[arg(value_name = "ROLE")]
    role: RoleName,
    #[command(flatten)]
    api: ApiArgs,
    /// How long to stay out, such as 30s or 10m [default: one renewPeriod]
    #[arg(long, value_name = "DURATION", value_parser = cooldown)]
    cooldown: Option<String>,
}

/// A duration as the sidecar takes it; it knows the bounds.
fn cooldown(text: &str) -> Result<String, String> {
    baton::config::parse_duration(text).map(|span| format!("{}ms", span.as_millis()))
}

/// What one sidecar said.
enum Outcome {
    HandsOver(RoleAnswer),
    /// It does not lead; its words.
    DoesNotLead(String),
    /// It has no such role, or takes no such cooldown; its words.
    Refused(String),
}

/// Asks, and says what came of it.
pub fn resign(args: ResignArgs) -> Code {
    block_on(async {
        let first = ask_address(&args).await;
        // A person who names an address means that replica and no other.
        let elsewhere =
            args.api.api.is_none() && matches!(first, Err(ClientError::NoAnswer { .. }) | Ok(Outcome::DoesNotLead(_)));
        let found = if elsewhere { ask_dev_set(&args).await } else { None };
        let outcome = found.map_or(first, Ok);
        report(&args.role, outcome)
    })
}

async fn ask_address(args: &ResignArgs) -> Result<Outcome, ClientError> {
    ask(&args.api.open()?, args).await
}

/// The leader among the replicas of the `baton dev` that the address belongs to; none when there is no such set,
/// or when none of it leads.
async fn ask_dev_set(args: &ResignArgs) -> Option<Outcome> {
    let address = args.api.address();
    let port: u16 = address.trim_end_matches('/').rsplit_once(':')?.1.parse().ok()?;
    for address in dev::addresses(port).await? {
        let Ok(api) = args.api.at(&address) else { continue };
        if let Ok(outcome @ Outcome::HandsOver(_)) = ask(&api, args).await {
            return Some(outcome);
        }
    }
    None
}

async fn ask(api: &Api, args: &ResignArgs) -> Result<Outcome, ClientError> {
    let body = args.cooldown.as_ref().map(|span| format!("{{\"cooldown\":\"{span}\"}}")).unwrap_or_default();
    let reply = api.post(&format!("/leader/{}/resign", args.role), body).await?;
    match reply.status {
        StatusCode::ACCEPTED => Ok(Outcome::HandsOver(reply.json()?)),
        StatusCode::CONFLICT => Ok(Outcome::DoesNotLead(reply.problem())),
        StatusCode::NOT_FOUND | StatusCode::BAD_REQUEST => Ok(Outcome::Refused(reply.problem())),
        _ => Err(api.foreign(reply.problem())),
    }
}

fn report(role: &RoleName, outcome: Result<Outcome, ClientError>) -> Code {
    match outcome {
        Ok(Outcome::HandsOver(answer)) => {
            say(format_args!("{}: {} hands over", answer.role, answer.identity));
            Exit::Well.into()
        }
        Ok(Outcome::DoesNotLead(words)) => {
            complain(format_args!("{role}: {words}: resign beside the leader"));
            Code::NO
        }
        Ok(Outcome::Refused(words)) => {
            complain(format_args!("baton resign: {words}"));
            Exit::Usage.into()
        }
        Err(error) => {
            complain(format_args!("baton resign: {error}"));
            error.code()
        }
    }
}
