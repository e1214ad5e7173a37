//! Tokens of Entra ID: by the token that Kubernetes projects into the pod (workload identity), or for the managed
//! identity of the machine.

use hyper::Method;
use serde::Deserialize;
use serde_json::Value;

use super::exchange::ExchangeRequest;
use super::{Credential, after_seconds, jwt, variable};
use crate::config::{EntraConfig, Secret};
use secrecy::ExposeSecret;

const AUTHORITY: &str = "https://login.microsoftonline.com/";
const METADATA: &str = "http://169.254.169.254";
const ASSERTION_TYPE: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";

/// See the module.
pub struct Entra(EntraConfig);

#[derive(Deserialize)]
struct Answer {
    access_token: String,
    /// A number from the authority, a text from metadata services.
    expires_in: Option<Value>,
    /// In seconds since 1970, which is all that some metadata services tell.
    expires_on: Option<Value>,
}

impl Entra {
    pub fn new(config: &EntraConfig) -> Self {
        Self(config.clone())
    }

    /// Asks for the next token. Its user is the identity's object id.
    pub async fn fetch(&self) -> Result<Credential, String> {
        let answer = match variable("AZURE_FEDERATED_TOKEN_FILE") {
            Some(file) => self.federated(file).await?,
            None => self.managed().await?,
        };
        let token = answer.access_token;
        let number = |value: &Value| value.as_u64().or_else(|| value.as_str()?.parse().ok());
        let ends_at = answer.expires_in.as_ref().and_then(number).and_then(after_seconds);
        let ends_on = || {
            let second = answer.expires_on.as_ref().and_then(number)?;
            jiff::Timestamp::from_second(i64::try_from(second).ok()?).ok()
        };
        let ends_at = ends_at.or_else(ends_on).or_else(|| jwt::ends_at(&token));
        Ok(Credential { user: jwt::object_id(&token), ends_at, secret: token.into() })
    }

    async fn federated(&self, file: String) -> Result<Answer, String> {
        let given = |configured: &Option<String>, name: &str, key: &str| {
            let missing = || format!("neither {key} nor {name} says which: is the pod labelled for workload identity?");
            configured.clone().or_else(|| variable(name)).ok_or_else(missing)
        };
        let client_id = given(&self.0.client_id, "AZURE_CLIENT_ID", "clientId")?;
        let tenant_id = given(&self.0.tenant_id, "AZURE_TENANT_ID", "tenantId")?;
        let assertion = Secret::File(file.into()).read();
        let assertion = assertion.map_err(|error| format!("AZURE_FEDERATED_TOKEN_FILE cannot be read: {error}"))?;
        let authority = variable("AZURE_AUTHORITY_HOST").unwrap_or_else(|| AUTHORITY.to_owned());
        let url = format!("{}/{tenant_id}/oauth2/v2.0/token", authority.trim_end_matches('/'));
        let form = [
            ("client_id", client_id.as_str()),
            ("scope", self.0.scope.as_str()),
            ("client_assertion_type", ASSERTION_TYPE),
            ("client_assertion", assertion.expose_secret()),
            ("grant_type", "client_credentials"),
        ];
        ExchangeRequest { method: Method::POST, url: &url, headers: &[], form: &form }.json().await
    }

    async fn managed(&self) -> Result<Answer, String> {
        let resource = self.0.scope.strip_suffix("/.default").unwrap_or(&self.0.scope);
        let client_id = self.0.client_id.clone().or_else(|| variable("AZURE_CLIENT_ID"));
        let url = |base: &str, version: &str| {
            let mut query = url::form_urlencoded::Serializer::new(String::new());
            query.append_pair("api-version", version).append_pair("resource", resource);
            if let Some(client_id) = &client_id {
                query.append_pair("client_id", client_id);
            }
            format!("{base}?{}", query.finish())
        };
        if let (Some(endpoint), Some(header)) = (variable("IDENTITY_ENDPOINT"), variable("IDENTITY_HEADER")) {
            let headers = [("X-IDENTITY-HEADER", header.as_str())];
            return ExchangeRequest::get(&url(&endpoint, "2019-08-01"), &headers).json().await;
        }
        let host = variable("AZURE_POD_IDENTITY_AUTHORITY_HOST").unwrap_or_else(|| METADATA.to_owned());
        let base = format!("{}/metadata/identity/oauth2/token", host.trim_end_matches('/'));
        ExchangeRequest::get(&url(&base, "2018-02-01"), &[("Metadata", "true")]).json().await.map_err(|why| {
            format!(
                "{why}; there is no AZURE_FEDERATED_TOKEN_FILE, so the machine's managed identity was asked for: label \
                 the pod for workload identity, or give the machine an identity"
            )
        })
    }
}
