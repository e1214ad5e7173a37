//! The access token of the pod's service account, from the metadata server (Workload Identity has one of its own).

use serde::Deserialize;

use super::exchange::ExchangeRequest;
use super::{Credential, after_seconds, variable};

#[derive(Deserialize)]
struct Answer {
    access_token: String,
    expires_in: u64,
}

/// Asks for it. Near its end the server gives the next one.
pub async fn fetch() -> Result<Credential, String> {
    let host = variable("GCE_METADATA_HOST").unwrap_or_else(|| "metadata.google.internal".to_owned());
    let url = format!("http://{host}/computeMetadata/v1/instance/service-accounts/default/token");
    let answer: Answer = ExchangeRequest::get(&url, &[("Metadata-Flavor", "Google")]).json().await.map_err(|why| {
        format!("{why}; the metadata server gives a token where the node or the pod has a service account")
    })?;
    Ok(Credential { user: None, ends_at: after_seconds(answer.expires_in), secret: answer.access_token.into() })
}
