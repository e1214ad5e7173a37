//! The password that ElastiCache and MemoryDB take with IAM: a request to connect, signed by the pod's role, that holds
//! for fifteen minutes. Where the keys come from is asked in the order of AWS's own tools: variables, a web identity
//! (IRSA), the agent of Pod Identity, the machine's metadata.

use std::time::Duration;

use hyper::Method;
use jiff::Timestamp;
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use tokio::sync::Mutex;
use url::{Host, Url};

use super::exchange::{ExchangeRequest, tag};
use super::sigv4::{EMPTY_SHA256, Scope, SigningKey, presigned};
use super::{Credential, variable};
use crate::base::clock::wall_time;
use crate::config::{AwsIamConfig, Secret};

/// How long a signed request holds: the longest that AWS takes.
const LIFETIME: Duration = Duration::from_secs(15 * 60);
/// Where the agent of containers on ECS is.
const CONTAINERS: &str = "http://169.254.170.2";
const METADATA: &str = "http://169.254.169.254";
const METADATA_TOKEN_TTL: (&str, &str) = ("X-aws-ec2-metadata-token-ttl-seconds", "21600");

/// See the module.
pub struct AwsIam {
    config: AwsIamConfig,
    /// The keys that were had last.
    keys: Mutex<Option<AccessKeys>>,
}

/// What requests are signed with.
#[derive(Clone)]
struct AccessKeys {
    id: String,
    secret: SecretString,
    session_token: Option<SecretString>,
    ends_at: Option<Timestamp>,
}

/// As agents and metadata services tell them.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct ToldKeys {
    access_key_id: String,
    secret_access_key: String,
    token: Option<String>,
    expiration: Option<Timestamp>,
}

impl From<ToldKeys> for AccessKeys {
    fn from(told: ToldKeys) -> Self {
        Self {
            id: told.access_key_id,
            secret: told.secret_access_key.into(),
            session_token: told.token.map(SecretString::from),
            ends_at: told.expiration,
        }
    }
}

impl AccessKeys {
    /// Whether what is signed with them now holds for as long as it says.
    fn outlast(&self, now: Timestamp) -> bool {
        self.ends_at.is_none_or(|at| now.checked_add(LIFETIME).is_ok_and(|end| end < at))
    }
}

impl AwsIam {
    pub fn new(config: &AwsIamConfig) -> Self {
        Self { config: config.clone(), keys: Mutex::default() }
    }

    /// Signs the next request to connect.
    pub async fn sign(&self, user: &str) -> Result<Credential, String> {
        let region = self.config.region.clone().or_else(|| variable("AWS_REGION"));
        let region = region.or_else(|| variable("AWS_DEFAULT_REGION"));
        let region = region.ok_or("no region is known: set region, or the variable AWS_REGION")?;
        let keys = self.keys(&region).await?;
        let now = wall_time();
        let ends_at = now.checked_add(LIFETIME).ok();
        let ends_at = [ends_at, keys.ends_at].into_iter().flatten().min();
        let secret = SecretString::from(connect_request(&self.config, user, &region, &keys, now));
        Ok(Credential { user: None, secret, ends_at })
    }

    /// The keys of before, while they last.
    async fn keys(&self, region: &str) -> Result<AccessKeys, String> {
        let mut kept = self.keys.lock().await;
        if let Some(keys) = kept.as_ref().filter(|keys| keys.ends_at.is_some() && keys.outlast(wall_time())) {
            return Ok(keys.clone());
        }
        let fetched = fetch_keys(region).await?;
        *kept = Some(fetched.clone());
        Ok(fetched)
    }
}

/// As docs.aws.amazon.com/AmazonElastiCache/latest/dg/auth-iam.html and MemoryDB's page of that name have it: the
/// signed URL of a GET, without its scheme.
fn connect_request(config: &AwsIamConfig, user: &str, region: &str, keys: &AccessKeys, at: Timestamp) -> String {
    let mut parameters = vec![("Action", "connect"), ("User", user)];
    if config.serverless {
        parameters.push(("ResourceType", "ServerlessCache"));
    }
    let session_token = keys.session_token.as_ref().map(ExposeSecret::expose_secret);
    let key = SigningKey { id: &keys.id, secret: keys.secret.expose_secret(), session_token };
    let scope = Scope { at, region, service: config.service.as_str() };
    let expires_s = u32::try_from(LIFETIME.as_secs()).unwrap_or(u32::MAX);
    presigned(&key, &scope, (&config.cluster, "/"), &parameters, expires_s, EMPTY_SHA256)
}

async fn fetch_keys(region: &str) -> Result<AccessKeys, String> {
    if let (Some(id), Some(secret)) = (variable("AWS_ACCESS_KEY_ID"), variable("AWS_SECRET_ACCESS_KEY")) {
        let session_token = variable("AWS_SESSION_TOKEN").map(SecretString::from);
        return Ok(AccessKeys { id, secret: secret.into(), session_token, ends_at: None });
    }
    if let (Some(file), Some(role)) = (variable("AWS_WEB_IDENTITY_TOKEN_FILE"), variable("AWS_ROLE_ARN")) {
        return assume_role(region, file, &role).await;
    }
    let relative = variable("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI").map(|path| format!("{CONTAINERS}{path}"));
    if let Some(url) = relative.or_else(|| variable("AWS_CONTAINER_CREDENTIALS_FULL_URI")) {
        return ask_agent(&url).await;
    }
    if variable("AWS_EC2_METADATA_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true")) {
        return Err("no AWS credentials: set the role of the pod's service account (IRSA), or associate one with it \
                    (Pod Identity)"
            .to_owned());
    }
    ask_metadata().await.map_err(|why| {
        format!(
            "{why}; the variables name neither keys, nor a web identity (IRSA), nor an agent (Pod Identity), so the \
             machine's metadata was asked: give the pod's service account a role, or let pods reach the metadata"
        )
    })
}

/// For the token that Kubernetes projects into the pod.
async fn assume_role(region: &str, file: String, role: &str) -> Result<AccessKeys, String> {
    let token = Secret::File(file.into()).read();
    let token = token.map_err(|error| format!("AWS_WEB_IDENTITY_TOKEN_FILE cannot be read: {error}"))?;
    let suffix = if region.starts_with("cn-") { "amazonaws.com.cn" } else { "amazonaws.com" };
    let endpoint = variable("AWS_ENDPOINT_URL_STS").unwrap_or_else(|| format!("https://sts.{region}.{suffix}/"));
    let session = variable("AWS_ROLE_SESSION_NAME").unwrap_or_else(|| "baton".to_owned());
    let form = [
        ("Action", "AssumeRoleWithWebIdentity"),
        ("Version", "2011-06-15"),
        ("RoleArn", role),
        ("RoleSessionName", &session),
        ("WebIdentityToken", token.expose_secret()),
    ];
    let asked = ExchangeRequest { method: Method::POST, url: &endpoint, headers: &[], form: &form }.send().await;
    let answer = asked.map_err(|why| {
        format!("STS does not let this pod assume the role of AWS_ROLE_ARN: {why}; check that role's trust policy")
    })?;
    let part = |name: &str| tag(&answer, name).map(str::to_owned).ok_or("STS answered without keys");
    Ok(AccessKeys {
        id: part("AccessKeyId")?,
        secret: part("SecretAccessKey")?.into(),
        session_token: Some(part("SessionToken")?.into()),
        ends_at: part("Expiration")?.parse().ok(),
    })
}

/// The agent of Pod Identity, or of ECS.
async fn ask_agent(url: &str) -> Result<AccessKeys, String> {
    if !is_near(url) {
        return Err("AWS_CONTAINER_CREDENTIALS_FULL_URI leads elsewhere, without TLS: keys are taken only from this \
                    machine, or by https"
            .to_owned());
    }
    let authorization = match variable("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE") {
        Some(file) => {
            let read = Secret::File(file.into()).read();
            let unreadable = |error| format!("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE cannot be read: {error}");
            Some(read.map_err(unreadable)?.expose_secret().to_owned())
        }
        None => variable("AWS_CONTAINER_AUTHORIZATION_TOKEN"),
    };
    let header = authorization.as_deref().map(|value| ("Authorization", value));
    let told: ToldKeys = ExchangeRequest::get(url, header.as_slice()).json().await?;
    Ok(told.into())
}

/// As AWS's own tools decide: keys do not cross a network in the clear.
fn is_near(url: &str) -> bool {
    let Ok(url) = Url::parse(url) else { return false };
    let agents = ["169.254.170.2", "169.254.170.23", "fd00:ec2::23"];
    let is_here = match url.host() {
        Some(Host::Ipv4(address)) => address.is_loopback() || agents.contains(&address.to_string().as_str()),
        Some(Host::Ipv6(address)) => address.is_loopback() || agents.contains(&address.to_string().as_str()),
        Some(Host::Domain(name)) => name == "localhost",
        None => false,
    };
    url.scheme() == "https" || (url.scheme() == "http" && is_here)
}

/// The machine's own, by the second version of its service.
async fn ask_metadata() -> Result<AccessKeys, String> {
    let base = variable("AWS_EC2_METADATA_SERVICE_ENDPOINT").unwrap_or_else(|| METADATA.to_owned());
    let base = base.trim_end_matches('/');
    let url = format!("{base}/latest/api/token");
    let token =
        ExchangeRequest { method: Method::PUT, url: &url, headers: &[METADATA_TOKEN_TTL], form: &[] }.send().await?;
    let headers = [("X-aws-ec2-metadata-token", token.trim())];
    let roles = format!("{base}/latest/meta-data/iam/security-credentials/");
    let role = ExchangeRequest::get(&roles, &headers)
        .send()
        .await
        .map_err(|why| format!("{why} (has the machine a role?)"))?;
    let url = format!("{roles}{}", role.lines().next().unwrap_or_default().trim());
    let told: ToldKeys = ExchangeRequest::get(&url, &headers).json().await?;
    Ok(told.into())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::config::AwsService;

    fn keys(session_token: Option<&str>, ends_at: Option<&str>) -> AccessKeys {
        AccessKeys {
            id: "AKIDEXAMPLE".to_owned(),
            secret: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY".into(),
            session_token: session_token.map(SecretString::from),
            ends_at: ends_at.map(|at| at.parse().unwrap()),
        }
    }

    /// Held against what botocore 1.44.8 signs for the same:
    /// `SigV4QueryAuth(Credentials(…), service, "eu-central-1", expires=900)` of a GET to `http://CLUSTER/`.
    #[test]
    fn a_request_to_connect_is_signed_as_botocore_signs_it() {
        let at: Timestamp = "2026-01-02T03:04:05Z".parse().unwrap();
        for (cluster, service, serverless, user, token, signature) in [
            (
                "my-group",
                AwsService::ElastiCache,
                false,
                "baton user",
                Some("tok/en+=="),
                "3832228714303ed37eb1fa66b12b8762d36ca1b0b025a02d300d0c74fbb1690e",
            ),
            (
                "my-cache",
                AwsService::ElastiCache,
                true,
                "baton",
                None,
                "0d1b806f93e320462162c2d53bb64552ab7ffc0da1dff1847e0af69700334ba7",
            ),
            (
                "my-cluster",
                AwsService::MemoryDb,
                false,
                "baton",
                None,
                "f707e3f9f610904ef7b1af83a265345844bb22837cf8e67276daf3ced9544376",
            ),
        ] {
            let config = AwsIamConfig { cluster: cluster.to_owned(), region: None, service, serverless };
            let url = connect_request(&config, user, "eu-central-1", &keys(token, None), at);
            let (to, query) = url.split_once('?').unwrap();
            assert_eq!(to, format!("{cluster}/"));
            let parts: BTreeSet<&str> = query.split('&').collect();
            let credential =
                format!("X-Amz-Credential=AKIDEXAMPLE%2F20260102%2Feu-central-1%2F{}%2Faws4_request", service.as_str());
            for part in [
                "Action=connect",
                &format!("User={}", user.replace(' ', "%20")),
                "X-Amz-Algorithm=AWS4-HMAC-SHA256",
                &credential,
                "X-Amz-Date=20260102T030405Z",
                "X-Amz-Expires=900",
                "X-Amz-SignedHeaders=host",
                &format!("X-Amz-Signature={signature}"),
            ] {
                assert!(parts.contains(part), "{part} in {url}");
            }
            assert_eq!(parts.contains("ResourceType=ServerlessCache"), serverless, "{url}");
            assert_eq!(parts.contains("X-Amz-Security-Token=tok%2Fen%2B%3D%3D"), token.is_some(), "{url}");
        }
    }

    #[test]
    fn keys_are_kept_for_as_long_as_what_they_sign_holds() {
        let now = "2026-01-02T03:00:00Z".parse().unwrap();
        assert!(keys(None, Some("2026-01-02T03:15:01Z")).outlast(now));
        assert!(!keys(None, Some("2026-01-02T03:15:00Z")).outlast(now));
        assert!(keys(None, None).outlast(now));
    }

    #[test]
    fn keys_are_not_taken_over_a_network_in_the_clear() {
        for near in [
            "http://169.254.170.23/v1/credentials",
            "http://[fd00:ec2::23]/v1/credentials",
            "http://127.0.0.1:1/",
            "http://localhost/",
            "https://elsewhere.example/",
        ] {
            assert!(is_near(near), "{near}");
        }
        for far in ["http://elsewhere.example/", "http://10.0.0.1/", "ftp://127.0.0.1/", "nonsense"] {
            assert!(!is_near(far), "{far}");
        }
    }
}
