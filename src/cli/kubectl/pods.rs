//! The pods of a workload, and commands in them, by way of kubectl.

use std::process::{self, Stdio};

use baton::base::process::Exit;
use serde::Deserialize;
use serde_json::Value;

use super::super::Code;

/// The kinds that a name alone may be of.
const KINDS: [&str; 3] = ["deployment", "statefulset", "daemonset"];

/// Why something could not be asked or done.
#[derive(Debug, thiserror::Error)]
pub enum Trouble {
    /// There is no kubectl.
    #[error("kubectl cannot be run: {0}")]
    NoKubectl(std::io::Error),
    /// Its own words.
    #[error("{words}")]
    Failed { words: String, code: Option<i32> },
    /// What it said is not what it should say.
    #[error("{what} is not what was asked for: {error}")]
    Strange { what: String, error: serde_json::Error },
    /// The workload is not one, or has nothing to ask.
    #[error("{0}")]
    Workload(String),
}

impl Trouble {
    pub fn code(&self) -> Code {
        match self {
            Self::Workload(_) => Exit::Usage.into(),
            Self::NoKubectl(_) | Self::Failed { .. } | Self::Strange { .. } => Exit::Unavailable.into(),
        }
    }
}

/// A pod whose sidecar runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pod {
    pub name: String,
}

/// How to call kubectl, and the sidecar.
#[derive(Debug)]
pub struct Kubectl {
    /// For every call.
    pub options: Vec<String>,
    /// The sidecar's container, and its program there.
    pub container: String,
    pub program: String,
}

impl Kubectl {
    /// The running pods of a workload, by name.
    ///
    /// # Errors
    /// When there is none, or the cluster cannot be asked.
    pub fn pods(&self, workload: &str) -> Result<Vec<Pod>, Trouble> {
        let found: PodList = match workload.split_once('/') {
            Some(("pod" | "pods" | "po", name)) => {
                let pod = self.get(&[&format!("pod/{name}")])?;
                PodList { items: vec![pod] }
            }
            _ => self.get(&["pods", "--selector", &self.selector(workload)?])?,
        };
        let runs = |pod: &PodObject| pod.metadata.deletion_timestamp.is_none() && pod.status.phase == "Running";
        let names = found.items.into_iter().filter(runs).map(|pod| Pod { name: pod.metadata.name });
        let mut pods: Vec<Pod> = names.collect();
        pods.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        if pods.is_empty() {
            return Err(Trouble::Workload(format!("{workload} has no running pod")));
        }
        Ok(pods)
    }

    /// What a workload selects its pods by.
    fn selector(&self, workload: &str) -> Result<String, Trouble> {
        let named = workload.contains('/');
        let names: Vec<String> =
            if named { vec![workload.to_owned()] } else { KINDS.map(|kind| format!("{kind}/{workload}")).to_vec() };
        let mut arguments: Vec<&str> = names.iter().map(String::as_str).collect();
        if !named {
            arguments.push("--ignore-not-found");
        }
        let found: Found = self.get(&arguments)?;
        let mut objects = match found {
            Found::Many { items } => items,
            Found::One(object) => vec![*object],
            Found::Nothing {} => vec![],
        };
        match (objects.pop(), objects.pop()) {
            (Some(object), None) => object.spec.selector.text().ok_or_else(|| {
                Trouble::Workload(format!(
                    "{workload} selects no pods: name a Deployment, StatefulSet, DaemonSet or pod"
                ))
            }),
            (None, _) => Err(Trouble::Workload(format!(
                "there is no Deployment, StatefulSet or DaemonSet {workload} in this namespace"
            ))),
            (Some(_), Some(_)) => Err(Trouble::Workload(format!(
                "{workload} is the name of several kinds: say deploy/{workload}, sts/… or ds/…"
            ))),
        }
    }

    /// `baton COMMAND` in a pod; what it printed. A code of 1 is an answer, too.
    ///
    /// # Errors
    /// When it printed no JSON.
    pub fn ask(&self, pod: &Pod, command: &str, arguments: &[String]) -> Result<Value, Trouble> {
        let (output, error) = match self.output(&self.exec(pod, command, arguments)) {
            Ok(output) => (output, None),
            Err((Trouble::Failed { words, code: Some(1) }, output)) => (output, Some(words)),
            Err((trouble, _)) => return Err(trouble),
        };
        serde_json::from_slice(&output).map_err(|strange| match error {
            Some(words) if !words.is_empty() => Trouble::Failed { words, code: Some(1) },
            _ => Trouble::Strange { what: format!("baton {command}"), error: strange },
        })
    }

    /// The same for a person to read: its code is this program's.
    ///
    /// # Errors
    /// When kubectl cannot be run.
    pub fn run(&self, pod: &Pod, command: &str, arguments: &[String]) -> Result<Code, Trouble> {
        let status = self.call(&self.exec(pod, command, arguments)).stdin(Stdio::null()).status();
        let code = status.map_err(Trouble::NoKubectl)?.code().and_then(|code| u8::try_from(code).ok());
        Ok(code.map_or(Exit::Unavailable.into(), Code))
    }

    /// The same in any of a workload's pods.
    ///
    /// # Errors
    /// When there is none, or kubectl cannot be run.
    pub fn any(&self, workload: &str, command: &str, arguments: &[String]) -> Result<Code, Trouble> {
        let pods = self.pods(workload)?;
        self.run(&pods[0], command, arguments)
    }

    fn exec(&self, pod: &Pod, command: &str, arguments: &[String]) -> Vec<String> {
        let words = ["exec", &pod.name, "--container", &self.container, "--", &self.program, command];
        words.iter().map(|word| (*word).to_owned()).chain(arguments.iter().cloned()).collect()
    }

    fn get<T: for<'de> Deserialize<'de>>(&self, arguments: &[&str]) -> Result<T, Trouble> {
        let words = ["get", "--output", "json"].iter().chain(arguments).map(|word| (*word).to_owned());
        let output = self.output(&words.collect::<Vec<_>>()).map_err(|(trouble, _)| trouble)?;
        let text: &[u8] = if output.is_empty() { b"{}" } else { &output };
        serde_json::from_slice(text).map_err(|error| Trouble::Strange { what: "kubectl's answer".to_owned(), error })
    }

    /// What it printed, also when it failed.
    fn output(&self, arguments: &[String]) -> Result<Vec<u8>, (Trouble, Vec<u8>)> {
        let run = self.call(arguments).stdin(Stdio::null()).output();
        let output = run.map_err(|error| (Trouble::NoKubectl(error), Vec::new()))?;
        if output.status.success() {
            return Ok(output.stdout);
        }
        let words = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        Err((Trouble::Failed { words, code: output.status.code() }, output.stdout))
    }

    fn call(&self, arguments: &[String]) -> process::Command {
        let mut command = process::Command::new("kubectl");
        command.args(&self.options).args(arguments);
        command
    }
}

#[derive(Debug, Deserialize)]
struct PodList {
    items: Vec<PodObject>,
}

#[derive(Debug, Deserialize)]
struct PodObject {
    metadata: PodMetadata,
    #[serde(default)]
    status: PodStatus,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct PodMetadata {
    name: String,
    deletion_timestamp: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
struct PodStatus {
    #[serde(default)]
    phase: String,
}

/// What `kubectl get` prints for several names: a list, the only one there is, or nothing.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Found {
    Many { items: Vec<WorkloadObject> },
    One(Box<WorkloadObject>),
    Nothing {},
}

#[derive(Debug, Deserialize)]
struct WorkloadObject {
    spec: WorkloadSpec,
}

#[derive(Debug, Deserialize)]
struct WorkloadSpec {
    #[serde(default)]
    selector: LabelSelector,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct LabelSelector {
    #[serde(default)]
    match_labels: std::collections::BTreeMap<String, String>,
    #[serde(default)]
    match_expressions: Vec<Requirement>,
}

#[derive(Debug, Deserialize)]
struct Requirement {
    key: String,
    operator: Operator,
    #[serde(default)]
    values: Vec<String>,
}

#[derive(Debug, Deserialize)]
enum Operator {
    In,
    NotIn,
    Exists,
    DoesNotExist,
}

impl LabelSelector {
    /// As `--selector` takes it; none when it selects nothing.
    fn text(&self) -> Option<String> {
        let labels = self.match_labels.iter().map(|(key, value)| format!("{key}={value}"));
        let expressions = self.match_expressions.iter().map(|Requirement { key, operator, values }| match operator {
            Operator::In => format!("{key} in ({})", values.join(",")),
            Operator::NotIn => format!("{key} notin ({})", values.join(",")),
            Operator::Exists => key.clone(),
            Operator::DoesNotExist => format!("!{key}"),
        });
        let all: Vec<String> = labels.chain(expressions).collect();
        (!all.is_empty()).then(|| all.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_are_written_as_kubectl_takes_them() {
        let selector: LabelSelector = serde_json::from_str(
            r#"{"matchLabels": {"app": "shop", "tier": "back"}, "matchExpressions": [
                {"key": "track", "operator": "In", "values": ["a", "b"]}, {"key": "old", "operator": "DoesNotExist"},
                {"key": "new", "operator": "Exists"}, {"key": "zone", "operator": "NotIn", "values": ["c"]}]}"#,
        )
        .unwrap();
        assert_eq!(selector.text().as_deref(), Some("app=shop,tier=back,track in (a,b),!old,new,zone notin (c)"));
        assert_eq!(LabelSelector::default().text(), None);
    }
}
