//! `kubectl baton`: this program under the name `kubectl-baton`, for the sidecars of a workload in a cluster. Whatever
//! lets a person use kubectl (contexts, plugins for credentials, proxies) does for this, too: kubectl is what it calls.

mod pods;

use std::path::PathBuf;

use baton::base::process::Exit;
use baton::protocol::RoleName;
use clap::{Args, Parser, Subcommand};
use serde_json::{Value, json};

use self::pods::{Kubectl, Pod, Trouble};
use super::output::{columns, complain, say};
use super::status::{RoleStatus, StatusAnswer, pod_header, pod_row};
use super::{Code, EXIT_CODES, Format};

/// The name under which kubectl finds this program.
pub const PROGRAM: &str = "kubectl-baton";

/// The sidecars of a workload: who leads, jobs, locks, and what their store is worth.
///
/// A workload is deploy/shop, sts/shop, ds/shop, pod/shop-0, or a name alone, which then has to be of
/// one Deployment, StatefulSet or DaemonSet. It needs the rights to get the workload, to list
/// its pods, and to exec into them.
#[derive(Debug, Parser)]
#[command(name = PROGRAM, bin_name = "kubectl baton", version, verbatim_doc_comment)]
#[command(arg_required_else_help = true, after_help = EXIT_CODES)]
pub struct Plugin {
    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(subcommand)]
    command: Command,
}

/// Which cluster, and what the sidecar is called there.
#[derive(Debug, Args)]
struct ClusterArgs {
    /// The namespace [default: the context's]
    #[arg(short, long, value_name = "NAME", global = true)]
    namespace: Option<String>,
    /// kubectl's context [default: the current one]
    #[arg(long, value_name = "NAME", global = true)]
    context: Option<String>,
    /// kubectl's configuration [default: as for kubectl]
    #[arg(long, value_name = "FILE", global = true)]
    kubeconfig: Option<PathBuf>,
    /// The sidecar's container
    #[arg(short, long, value_name = "NAME", global = true, default_value = "baton")]
    container: String,
    /// Where Baton's program is in that container
    #[arg(long, value_name = "PATH", global = true, default_value = "/baton")]
    program: String,
    /// The file in that container with the bearer token, where `api.tokenFile` is set
    #[arg(long, value_name = "FILE", global = true)]
    token_file: Option<String>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show what each role is to each pod
    ///
    /// Ends with 0 when every role is settled in every pod, with 1 when one is not or a pod
    /// does not answer, with 69 when none does.
    #[command(verbatim_doc_comment, after_help = "Example:\n  kubectl baton status deploy/shop --namespace shop")]
    Status {
        #[arg(value_name = "WORKLOAD")]
        workload: String,
        /// How to print it
        #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t = Format::Table)]
        output: Format,
    },
    /// Hand a role over: asks the pod that leads it
    #[command(after_help = "Example:\n  kubectl baton resign deploy/shop scheduler --cooldown 10m")]
    Resign {
        #[arg(value_name = "WORKLOAD")]
        workload: String,
        /// The role to hand over
        #[arg(value_name = "ROLE")]
        role: RoleName,
        /// How long it stays out, such as 30s or 10m [default: one renewPeriod]
        #[arg(long, value_name = "DURATION")]
        cooldown: Option<String>,
    },
    /// `baton jobs` in one of the pods; kubectl's options come first
    #[command(after_help = "Example:\n  kubectl baton jobs deploy/shop run nightly-report")]
    Jobs(Inside),
    /// `baton locks` in one of the pods
    #[command(after_help = "Example:\n  kubectl baton locks deploy/shop --all")]
    Locks(Inside),
    /// `baton unlock` in one of the pods
    #[command(after_help = "Example:\n  kubectl baton unlock deploy/shop orders --token 5430870807")]
    Unlock(Inside),
    /// `baton audit` in one of the pods
    #[command(after_help = "Example:\n  kubectl baton audit deploy/shop")]
    Audit(Inside),
}

/// A command of Baton's own that one of the pods runs.
#[derive(Debug, Args)]
struct Inside {
    #[arg(value_name = "WORKLOAD")]
    workload: String,
    /// What follows the command
    #[arg(value_name = "ARGUMENT", trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

/// Does what the command line says.
pub fn kubectl(plugin: Plugin) -> Code {
    let ClusterArgs { namespace, context, kubeconfig, container, program, token_file } = plugin.cluster;
    let mut options = Vec::new();
    for (option, value) in [("--namespace", namespace), ("--context", context)] {
        options.extend(value.map(|value| format!("{option}={value}")));
    }
    options.extend(kubeconfig.map(|file| format!("--kubeconfig={}", file.display())));
    let kubectl = Kubectl { options, container, program };
    let token: Vec<String> = token_file.map(|file| format!("--token-file={file}")).into_iter().collect();
    let outcome = match plugin.command {
        Command::Status { workload, output } => status(&kubectl, &workload, &token, output),
        Command::Resign { workload, role, cooldown } => resign(&kubectl, &workload, &token, &role, cooldown),
        Command::Jobs(inside) => kubectl.any(&inside.workload, "jobs", &[inside.arguments, token].concat()),
        Command::Locks(inside) => kubectl.any(&inside.workload, "locks", &[inside.arguments, token].concat()),
        Command::Unlock(inside) => kubectl.any(&inside.workload, "unlock", &[inside.arguments, token].concat()),
        Command::Audit(inside) => kubectl.any(&inside.workload, "audit", &inside.arguments),
    };
    outcome.unwrap_or_else(|trouble| {
        complain(format_args!("kubectl baton: {trouble}"));
        trouble.code()
    })
}

/// What a pod's sidecar said of its roles.
type Said = (Pod, Result<Value, Trouble>);

fn ask_all(kubectl: &Kubectl, workload: &str, token: &[String]) -> Result<Vec<Said>, Trouble> {
    let arguments = [&["-o".to_owned(), "json".to_owned()], token].concat();
    let ask = |pod: Pod| {
        let said = kubectl.ask(&pod, "status", &arguments);
        (pod, said)
    };
    Ok(kubectl.pods(workload)?.into_iter().map(ask).collect())
}

fn roles(said: &Value) -> Vec<RoleStatus> {
    StatusAnswer::of(said).map(|answer| answer.roles).unwrap_or_default()
}

fn status(kubectl: &Kubectl, workload: &str, token: &[String], output: Format) -> Result<Code, Trouble> {
    let all = ask_all(kubectl, workload, token)?;
    match output {
        Format::Json => {
            let pod = |(pod, said): &Said| match said {
                Ok(said) => json!({"pod": pod.name, "status": said}),
                Err(trouble) => json!({"pod": pod.name, "error": trouble.to_string()}),
            };
            say(json!({"pods": all.iter().map(pod).collect::<Vec<_>>()}));
        }
        Format::Table => {
            let mut rows = vec![pod_header()];
            for (pod, said) in &all {
                rows.extend(said.iter().flat_map(roles).map(|role| pod_row(&pod.name, &role)));
            }
            columns(&rows).iter().all(say);
            for (pod, said) in &all {
                if let Err(trouble) = said {
                    complain(format_args!("{}: {trouble}", pod.name));
                }
            }
        }
    }
    let answered = all.iter().filter_map(|(_, said)| said.as_ref().ok());
    let settled = answered.clone().all(|said| roles(said).iter().all(RoleStatus::is_settled));
    Ok(match answered.count() {
        0 => Exit::Unavailable.into(),
        count if count == all.len() && settled => Exit::Well.into(),
        _ => Code::NO,
    })
}

fn resign(
    kubectl: &Kubectl,
    workload: &str,
    token: &[String],
    role: &RoleName,
    cooldown: Option<String>,
) -> Result<Code, Trouble> {
    let all = ask_all(kubectl, workload, token)?;
    let leads = |(_, said): &&Said| {
        said.iter().flat_map(roles).any(|status| status.role == role.as_str() && status.state == "leading")
    };
    let Some((leader, _)) = all.iter().find(leads) else {
        for (pod, said) in &all {
            if let Err(trouble) = said {
                complain(format_args!("{}: {trouble}", pod.name));
            }
        }
        complain(format_args!("{role}: none of the {} pods of {workload} leads it", all.len()));
        return Ok(Code::NO);
    };
    let cooldown = cooldown.map(|span| format!("--cooldown={span}"));
    let arguments: Vec<String> =
        std::iter::once(role.to_string()).chain(cooldown).chain(token.iter().cloned()).collect();
    kubectl.run(leader, "resign", &arguments)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_plugins_command_line_is_sound() {
        Plugin::command().debug_assert();
    }

    #[test]
    fn what_follows_a_command_of_the_sidecars_own_is_passed_on() {
        let words = ["kubectl-baton", "-n", "shop", "jobs", "deploy/shop", "run", "report", "-o", "json"];
        let plugin = Plugin::try_parse_from(words).unwrap();
        assert_eq!(plugin.cluster.namespace.as_deref(), Some("shop"));
        let Command::Jobs(inside) = plugin.command else { panic!("jobs") };
        assert_eq!(
            (inside.workload.as_str(), inside.arguments),
            ("deploy/shop", ["run", "report", "-o", "json"].map(str::to_owned).to_vec())
        );
    }
}
