//! The URL of a Redis, judged as the Redis client will read it. No message here holds any part of the URL, for a
//! mistake in it may have moved the password anywhere.

use secrecy::SecretString;
use serde_json::Value;
use url::{ParseError, Url};

use super::section::{Definitions, Kind, Reader, Shape};
use super::value::text_like;

const SCHEMES: &str = "redis:, rediss: (TLS), redis-sentinel:, rediss-sentinel:, redis-cluster: or rediss-cluster:";
const EXAMPLE: &str = "write it as redis://host:6379/0";

/// How many servers stand behind a URL, and in which order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Deployment {
    Single,
    Sentinel,
    Cluster,
}

/// What a good URL says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct UrlFacts {
    pub(super) deployment: Deployment,
    pub(super) tls: bool,
    pub(super) names_user: bool,
    pub(super) has_password: bool,
    /// Any password, that for the sentinels included.
    pub(super) holds_secret: bool,
}

/// As a value of the file: a secret, for it may hold a password.
pub(super) struct RedisUrl;

impl Shape for RedisUrl {
    fn schema(&self, _: &mut Definitions) -> Value {
        text_like("^(redis|rediss|valkey|valkeys)(-sentinel|-cluster)?://.+$")
    }
}

impl Kind for RedisUrl {
    type Value<'a> = (SecretString, UrlFacts);

    fn read<'a>(&self, at: &Reader<'a>) -> Option<(SecretString, UrlFacts)> {
        let text = at.text()?;
        let facts = inspect(text).map_err(|problems| problems.into_iter().for_each(|why| at.problem(why))).ok()?;
        if facts.holds_secret && !at.is_from_environment() {
            at.warning("holds a password in plain text; better passwordFile, or `${ENV}` in its place");
        }
        Some((SecretString::from(text), facts))
    }
}

/// Judges a URL.
///
/// # Errors
/// Everything that is wrong with it.
pub(super) fn inspect(text: &str) -> Result<UrlFacts, Vec<String>> {
    let url = Url::parse(text).map_err(|error| {
        vec![if error == ParseError::RelativeUrlWithoutBase {
            format!("is not a URL: it has no scheme; {EXAMPLE}")
        } else {
            // The error's own words name a part of a URL, never its text.
            format!("is not a URL: {error}; {EXAMPLE}, with special characters of a password percent-encoded")
        }]
    })?;
    let Some((deployment, tls)) = scheme(url.scheme()) else {
        return Err(vec![format!("has an unknown scheme; use {SCHEMES}, as in redis://host:6379/0")]);
    };
    if url.host_str().is_none_or(str::is_empty) {
        return Err(vec![format!("names no host; {EXAMPLE}")]);
    }
    let mut problems = Vec::new();
    if url.fragment().is_some() {
        problems.push("holds a `#`; in a password write it as %23".to_owned());
    }
    if ![url.username(), url.password().unwrap_or_default()].into_iter().all(decodes) {
        problems.push("has a user or password that is not UTF-8 once its percent-encoding is undone".to_owned());
    }
    check_database(&url, deployment, &mut problems);
    check_query(&url, deployment, &mut problems);
    if !problems.is_empty() {
        return Err(problems);
    }
    let has_password = url.password().is_some_and(|password| !password.is_empty());
    Ok(UrlFacts {
        deployment,
        tls,
        names_user: !url.username().is_empty(),
        has_password,
        holds_secret: has_password || url.query_pairs().any(|(key, _)| key == "sentinelPassword"),
    })
}

/// Which server a good URL leads to: host, in lower case, and port. Two databases of one server are the same server.
pub(super) fn server(text: &str) -> Option<(String, u16)> {
    const REDIS_PORT: u16 = 6379;
    let url = Url::parse(text).ok()?;
    Some((url.host_str()?.to_ascii_lowercase(), url.port().unwrap_or(REDIS_PORT)))
}

/// The same of what a person writes: a host, a host and port, or a URL.
pub fn server_of(text: &str) -> Option<String> {
    let url = if text.contains("://") { text.to_owned() } else { format!("redis://{text}") };
    inspect(&url).ok().map(|_| place(&url))
}

/// Where a good URL leads to, in words that tell no secret: host and port, and the database unless it is the first.
pub(super) fn place(text: &str) -> String {
    let (host, port) = server(text).unwrap_or_default();
    let database = Url::parse(text).map(|url| url.path().trim_start_matches('/').to_owned()).unwrap_or_default();
    if database.is_empty() || database == "0" { format!("{host}:{port}") } else { format!("{host}:{port}/{database}") }
}

fn scheme(scheme: &str) -> Option<(Deployment, bool)> {
    let (base, deployment) = match scheme.split_once('-') {
        None => (scheme, Deployment::Single),
        Some((base, "sentinel")) => (base, Deployment::Sentinel),
        Some((base, "cluster")) => (base, Deployment::Cluster),
        Some(_) => return None,
    };
    match base {
        "redis" | "valkey" => Some((deployment, false)),
        "rediss" | "valkeys" => Some((deployment, true)),
        _ => None,
    }
}

fn check_database(url: &Url, deployment: Deployment, problems: &mut Vec<String>) {
    let database = url.path().strip_prefix('/').unwrap_or(url.path());
    if database.is_empty() {
        return;
    }
    match database.parse::<u8>() {
        Err(_) => problems.push("has a path that is not a database; write a number from 0 to 255, as in /0".to_owned()),
        Ok(0) => {}
        Ok(_) if deployment == Deployment::Cluster => {
            problems.push("names a database, but a cluster has only database 0; remove it".to_owned());
        }
        Ok(_) => {}
    }
}

fn check_query(url: &Url, deployment: Deployment, problems: &mut Vec<String>) {
    let known: &[&str] = match deployment {
        Deployment::Single => &[],
        Deployment::Cluster => &["node"],
        Deployment::Sentinel => &["node", "sentinelServiceName", "sentinelUsername", "sentinelPassword"],
    };
    let mut named = false;
    for (key, value) in url.query_pairs() {
        named |= key == "sentinelServiceName" && !value.is_empty();
        if !known.contains(&key.as_ref()) {
            problems.push(match known {
                [] => {
                    "has a query (`?…`), which only redis-sentinel: and redis-cluster: have; in a password write `?` \
                       as %3F"
                        .to_owned()
                }
                _ => format!("has an unknown query parameter; known are {}", known.join(", ")),
            });
        } else if key == "node" {
            let good =
                value.split_once(':').is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok());
            if !good {
                problems.push("has a `node` that is not host:port".to_owned());
            }
        }
    }
    if deployment == Deployment::Sentinel && !named {
        problems.push("names no service; add ?sentinelServiceName=… with the name that the sentinels watch".to_owned());
    }
    problems.dedup();
}

/// Whether a text is UTF-8 after its percent-encoding is undone, which the client insists on.
fn decodes(text: &str) -> bool {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        let hex = |digit: u8| char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok());
        match after {
            [high, low, after @ ..] if *first == b'%' => match (hex(*high), hex(*low)) {
                (Some(high), Some(low)) => {
                    bytes.push(high * 16 + low);
                    rest = after;
                    continue;
                }
                _ => bytes.push(*first),
            },
            _ => bytes.push(*first),
        }
        rest = after;
    }
    std::str::from_utf8(&bytes).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_urls_that_the_client_reads_are_accepted() {
        let facts = |text| inspect(text).unwrap_or_else(|problems| panic!("{text}: {problems:?}"));
        for (text, deployment, tls) in [
            ("redis://redis", Deployment::Single, false),
            ("redis://redis:6379/0", Deployment::Single, false),
            ("redis://[::1]:6379/255", Deployment::Single, false),
            ("rediss://redis.example.com:6380", Deployment::Single, true),
            ("valkeys://v", Deployment::Single, true),
            ("redis-sentinel://s:26379/1?sentinelServiceName=main&node=t:26379", Deployment::Sentinel, false),
            ("rediss-cluster://c:6379?node=d:6379", Deployment::Cluster, true),
        ] {
            assert_eq!((facts(text).deployment, facts(text).tls), (deployment, tls), "{text}");
        }
        let with_user = facts("redis://app:p%40ss@redis:6379");
        assert!(with_user.names_user && with_user.has_password && with_user.holds_secret);
        let with_password = facts("redis://:p@redis");
        assert!(!with_password.names_user && with_password.has_password);
        let for_sentinels = facts("redis-sentinel://s?sentinelServiceName=m&sentinelPassword=p");
        assert!(!for_sentinels.has_password && for_sentinels.holds_secret);
    }

    #[test]
    fn what_is_wrong_is_told_without_the_url() {
        for (text, fragment) in [
            ("redis", "no scheme"),
            ("hunter2:6379", "unknown scheme"),
            ("http://hunter2", "unknown scheme"),
            ("redis+unix:///hunter2", "unknown scheme"),
            ("redis-hunter2://x", "unknown scheme"),
            ("redis:", "names no host"),
            ("redis://", "names no host"),
            ("redis:///0", "names no host"),
            ("redis://x:hunter2", "invalid port"),
            ("redis://:hunter2#x@host", "not a URL"),
            ("redis://host#hunter2", "%23"),
            ("redis://:hunter2%ff@host", "UTF-8"),
            ("redis://host/hunter2", "database"),
            ("redis://host/256", "database"),
            ("redis://host/0/", "database"),
            ("redis-cluster://host/1", "only database 0"),
            ("redis://host?hunter2=1", "query"),
            ("redis-cluster://host?node=hunter2", "host:port"),
            ("redis-cluster://host?hunter2=1", "known are node"),
            ("redis-sentinel://host", "sentinelServiceName"),
            ("redis-sentinel://host?sentinelServiceName=", "sentinelServiceName"),
        ] {
            let problems = inspect(text).expect_err(text).join("; ");
            assert!(problems.contains(fragment), "{text}: {problems}");
            assert!(!problems.contains("hunter2"), "{text}: {problems}");
        }
    }
}
