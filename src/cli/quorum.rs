//! `baton quorum`: how to get from one list of members to another.

use std::collections::BTreeSet;
use std::path::Path;

use baton::base::process::Exit;
use baton::config::{Environment, QuorumConfig, StoreConfig, server_of};
use baton::protocol::Seat;
use clap::{Args, Subcommand};

use super::output::{complain, say};
use super::{Code, ConfigFile, load};

/// Print the steps that change the members of a quorum
///
/// Which members there are is a part of what makes one leader: two lists may have
/// majorities that share no member. So a list is changed over both at once. This reads
/// the file, and nothing else: it prints what to write into it, on every replica, and
/// when.
///
/// Ends with 0, or with 64 when the change makes no sense.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
#[command(after_help = "Examples:
  baton quorum replace redis-2:6379 redis-3:6379 --config config.yaml
  baton quorum add redis-3:6379 redis-4:6379 --config config.yaml
  baton quorum remove redis-3:6379 redis-4:6379 --config config.yaml")]
pub struct QuorumArgs {
    #[command(subcommand)]
    change: Change,
}

#[derive(Debug, Subcommand)]
enum Change {
    /// One member for another
    Replace {
        /// The member that goes: host, or host:port
        old: String,
        /// The one that comes: host, host:port or URL
        new: String,
        #[command(flatten)]
        file: ConfigFile,
    },
    /// More members
    Add {
        /// Those that come: host, host:port or URL
        #[arg(required = true)]
        new: Vec<String>,
        #[command(flatten)]
        file: ConfigFile,
    },
    /// Fewer members
    Remove {
        /// Those that go: host, or host:port
        #[arg(required = true)]
        old: Vec<String>,
        #[command(flatten)]
        file: ConfigFile,
    },
}

/// How many members a list has.
const MEMBERS: std::ops::RangeInclusive<usize> = 3..=9;

/// Prints the steps.
pub fn quorum(args: QuorumArgs) -> Code {
    let (old, new, file) = match args.change {
        Change::Replace { old, new, file } => (vec![old], vec![new], file),
        Change::Add { new, file } => (Vec::new(), new, file),
        Change::Remove { old, file } => (old, Vec::new(), file),
    };
    let config = match load(&file.config, &Environment::process()) {
        Ok(loaded) => loaded.config,
        Err(code) => return code,
    };
    let StoreConfig::Quorum(quorum) = config.store() else {
        complain(format_args!("{}: store: is no quorum: it has no members", file.config.display()));
        return Exit::Usage.into();
    };
    match steps(quorum, &old, &new, &file.config) {
        Ok(steps) => {
            say(steps);
            Exit::Well.into()
        }
        Err(why) => {
            complain(format_args!("{}: store.quorum.members: {why}", file.config.display()));
            Exit::Usage.into()
        }
    }
}

fn steps(quorum: &QuorumConfig, old: &[String], new: &[String], file: &Path) -> Result<String, String> {
    if quorum.seats.iter().any(|seat| *seat != Seat::Stays) {
        return Err(
            "a change is under way, with members that are joining or leaving: let every replica have this list, \
                    then remove the members that are leaving and the words `joining: true`; after that begin the next"
                .to_owned(),
        );
    }
    let member = |server: &str| quorum.names.iter().find(|name| host_and_port(name) == host_and_port(server));
    let mut leaving = BTreeSet::new();
    for server in named(old)? {
        let unknown = || format!("{server} is no member; the members are {}", quorum.names.join(", "));
        leaving.insert(member(&server).ok_or_else(unknown)?.clone());
    }
    let joining = named(new)?;
    if let Some(known) = joining.iter().find_map(|server| member(server)) {
        return Err(format!("{known} is a member already"));
    }
    let count = quorum.names.len() + joining.len() - leaving.len();
    if !MEMBERS.contains(&count) {
        return Err(format!("there would be {count} members; a quorum has {} to {}", MEMBERS.start(), MEMBERS.end()));
    }
    let (staying, file) = (quorum.names.iter().filter(|name| !leaving.contains(*name)), file.display());
    let staying: Vec<&str> = staying.map(String::as_str).collect();
    let list = |names: &BTreeSet<String>| names.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
    let mut steps = Vec::new();
    if !joining.is_empty() {
        steps.push(format!("Start {}, empty.", list(&joining)));
    }
    let mut words: Vec<String> = staying.iter().map(|name| format!("{name}: as it is")).collect();
    words.extend(leaving.iter().map(|name| format!("{name}: with `leaving: true`")));
    words.extend(joining.iter().map(|name| format!("{name}: a new entry, with `joining: true`")));
    steps.push(format!(
        "Write into {file}, store.quorum.members:\n     - {}\n   Roll that out to every replica, one after the other, \
         and wait until all of them run with it, no pod from before is left (also none that is\n   still terminating), \
         and `baton status` tells of a leader of every role.",
        words.join("\n     - ")
    ));
    let mut after: Vec<&str> = staying.clone();
    after.extend(joining.iter().map(String::as_str));
    steps.push(format!(
        "Write into {file}, store.quorum.members:\n     - {}\n   without `joining` and `leaving`, and roll that out in \
         the same way.",
        after.join("\n     - ")
    ));
    if !leaving.is_empty() {
        steps.push(format!("End {}.", list(&leaving)));
    }
    let numbered = steps.iter().enumerate().map(|(at, step)| format!("{}. {step}", at + 1));
    let even = count.is_multiple_of(2);
    let remark = format!("{count} members bear no more failures than {}, and cost more.", count - 1);
    Ok(numbered.chain(even.then_some(remark)).collect::<Vec<_>>().join("\n"))
}

/// Servers by host and port, each once.
fn named(given: &[String]) -> Result<BTreeSet<String>, String> {
    let mut names: BTreeSet<String> = BTreeSet::new();
    for text in given {
        let name = server_of(text).ok_or_else(|| format!("{text} is no server; write it as host:port"))?;
        if names.iter().any(|other| host_and_port(other) == host_and_port(&name)) {
            return Err(format!("{name} is named twice"));
        }
        names.insert(name);
    }
    Ok(names)
}

/// What makes a server one: its databases are no servers of their own.
fn host_and_port(name: &str) -> &str {
    name.split('/').next().unwrap_or(name)
}
