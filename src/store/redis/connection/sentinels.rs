//! What the Sentinels have to do with a connection that was not made. fred says little of it: a name that none of them
//! knows looks like a Sentinel that hangs. So each is asked anew, and what they say is told.

use fred::types::Value;
use fred::types::config::ServerConfig;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;

use super::cluster::NodeAddress;
use super::link::Link;
use super::settings::Settings;
use crate::store::StoreError;

/// The Sentinels of a URL.
pub struct Sentinels {
    nodes: Vec<NodeAddress>,
    service: String,
}

/// What one of them knows.
enum SentinelAnswer {
    /// This is the master.
    Master(String),
    /// No master has that name.
    Unknown,
    /// It was not found out.
    Failed(StoreError),
}

impl Sentinels {
    /// Those of this configuration, if it has any.
    pub fn of(server: &ServerConfig, nodes: Vec<NodeAddress>) -> Option<Self> {
        let ServerConfig::Sentinel { service_name, .. } = server else { return None };
        Some(Self { nodes, service: service_name.clone() })
    }

    /// Says of a failed attempt to connect whose trouble it is: the master's, if some Sentinel names one, else theirs.
    pub async fn explain(&self, settings: &Settings, error: StoreError) -> StoreError {
        let mut answers: FuturesUnordered<_> = self.nodes.iter().map(|node| self.ask(settings, node)).collect();
        let mut others = Vec::new();
        while let Some((at, answer)) = answers.next().await {
            match answer {
                // The first is enough: another may hang.
                SentinelAnswer::Master(master) => return of_the_master(&master, &settings.endpoint, error),
                SentinelAnswer::Unknown => others.push((at, None)),
                SentinelAnswer::Failed(why) => others.push((at, Some(why))),
            }
        }
        self.of_the_sentinels(others)
    }

    async fn ask(&self, settings: &Settings, node: &NodeAddress) -> (String, SentinelAnswer) {
        let at = node.to_string();
        let answer = match self.look_up(settings, node).await {
            Ok(Some(master)) => SentinelAnswer::Master(master),
            Ok(None) => SentinelAnswer::Unknown,
            Err(error) => SentinelAnswer::Failed(error),
        };
        (at, answer)
    }

    async fn look_up(&self, settings: &Settings, node: &NodeAddress) -> Result<Option<String>, StoreError> {
        let link = Link::open_sentinel(settings, node).await?;
        let words: Vec<Value> = vec!["GET-MASTER-ADDR-BY-NAME".into(), self.service.as_str().into()];
        let reply = link.command("SENTINEL", words, settings.command_timeout).await.map_err(|failure| failure.error)?;
        let address: Option<Vec<String>> = reply.convert().ok();
        Ok(address.filter(|parts| parts.len() == 2).map(|parts| parts.join(":")))
    }

    fn of_the_sentinels(&self, answers: Vec<(String, Option<StoreError>)>) -> StoreError {
        if answers.iter().all(|(_, why)| why.is_none()) {
            let places: Vec<String> = answers.into_iter().map(|(at, _)| at).collect();
            return StoreError::Refused {
                reason: format!(
                    "no Sentinel ({}) knows a master called {}: check sentinelServiceName in the URL against SENTINEL \
                     MASTERS",
                    places.join(", "),
                    self.service
                ),
            };
        }
        let refused =
            answers.iter().any(|(_, why)| matches!(why, Some(StoreError::Refused { .. } | StoreError::Denied { .. })));
        let words = answers.into_iter().map(|(at, why)| match why {
            None => format!("{at} knows no master called {}", self.service),
            Some(StoreError::Refused { reason } | StoreError::Denied { reason }) => {
                format!("{at}: {}", for_a_sentinel(&reason))
            }
            Some(StoreError::Unreachable { reason }) => reason,
            Some(why @ (StoreError::Unknown { .. } | StoreError::Garbage { .. })) => format!("{at}: {why}"),
        });
        let words: Vec<String> = words.collect();
        let reason = format!("no Sentinel names a master: {}", words.join("; "));
        if refused { StoreError::Refused { reason } } else { StoreError::Unreachable { reason } }
    }
}

/// Where a password for the Sentinels belongs, instead of that for the Redis behind them.
fn for_a_sentinel(reason: &str) -> String {
    match reason {
        _ if reason.contains("WRONGPASS") => {
            "wrong user or password for the Sentinel (WRONGPASS): check sentinelUsername and sentinelPassword of the \
             URL"
            .to_owned()
        }
        _ if reason.contains("NOAUTH") => {
            "the Sentinel asks for a password and got none (NOAUTH): set sentinelPassword in the URL, and \
             sentinelUsername if it has users"
                .to_owned()
        }
        _ => reason.to_owned(),
    }
}

fn of_the_master(master: &str, endpoint: &str, error: StoreError) -> StoreError {
    let of = |reason: String| {
        let reason = reason.strip_prefix(&format!("{endpoint}: ")).unwrap_or(&reason).to_owned();
        format!("the master that the Sentinels name, {master}: {reason}")
    };
    match error {
        StoreError::Unreachable { reason } => StoreError::Unreachable { reason: of(reason) },
        StoreError::Refused { reason } => StoreError::Refused { reason: of(reason) },
        StoreError::Denied { reason } => StoreError::Denied { reason: of(reason) },
        error @ (StoreError::Unknown { .. } | StoreError::Garbage { .. }) => error,
    }
}
