//! `auth:` of a Redis: exactly one source, in place of a password.

use std::path::PathBuf;
use std::time::Duration;

use baton::config::{AuthConfig, AwsIamConfig, AwsService, EntraConfig, StoreConfig, TokenCommand};

use crate::support::{BASE, check, good, problems};

fn base(more: &str) -> String {
    BASE.replace("url: redis://redis:6379/0", &format!("url: rediss://redis:6379/0\n    {more}"))
}

fn auth(more: &str) -> AuthConfig {
    match good(&base(more)).store() {
        StoreConfig::Redis(redis) => redis.auth.clone().expect("it has some"),
        other => panic!("{other:?}: {more}"),
    }
}

#[test]
fn each_source_becomes_what_it_says() {
    assert_eq!(auth("auth: { file: /run/token }"), AuthConfig::File(PathBuf::from("/run/token")));
    let command = |timeout_s, lifetime_s| {
        let (timeout, lifetime) = (Duration::from_secs(timeout_s), Duration::from_secs(lifetime_s));
        AuthConfig::Command(TokenCommand { argv: vec!["token".to_owned(), "-q".to_owned()], timeout, lifetime })
    };
    assert_eq!(auth("auth: { command: { argv: [token, -q] } }"), command(10, 600));
    assert_eq!(auth("auth: { command: { argv: [token, -q], timeout: 3s, lifetime: 1h } }"), command(3, 3_600));
    let aws = |region: Option<&str>, service, serverless| {
        let region = region.map(str::to_owned);
        AuthConfig::AwsIam(AwsIamConfig { cluster: "my-cache".to_owned(), region, service, serverless })
    };
    let usual = auth("username: baton\n    auth: { awsIam: { cluster: My-Cache } }");
    assert_eq!(usual, aws(None, AwsService::ElastiCache, false));
    let serverless =
        "username: baton\n    auth: { awsIam: { cluster: my-cache, region: eu-central-1, serverless: true } }";
    assert_eq!(auth(serverless), aws(Some("eu-central-1"), AwsService::ElastiCache, true));
    let memorydb = "username: baton\n    auth: { awsIam: { cluster: my-cache, service: memorydb } }";
    assert_eq!(auth(memorydb), aws(None, AwsService::MemoryDb, false));
    let entra = |client_id: Option<&str>, tenant_id: Option<&str>, scope: &str| {
        let (client_id, tenant_id) = (client_id.map(str::to_owned), tenant_id.map(str::to_owned));
        AuthConfig::Entra(EntraConfig { client_id, tenant_id, scope: scope.to_owned() })
    };
    assert_eq!(auth("auth: { entra: {} }"), entra(None, None, "https://redis.azure.com/.default"));
    assert_eq!(auth("auth: { entra: { clientId: a, tenantId: b, scope: c } }"), entra(Some("a"), Some("b"), "c"));
    assert_eq!(auth("auth: { gcp: {} }"), AuthConfig::Gcp);
    assert_eq!(auth("auth:\n      gcp:"), AuthConfig::Gcp);
}

#[test]
fn every_redis_may_have_one() {
    let members = ["a", "b", "c"].map(|host| format!("{{ url: 'rediss://{host}', auth: {{ gcp: }} }}")).join(", ");
    let quorum = BASE.replace(
        "  redis:\n    url: redis://redis:6379/0\n",
        &format!("  quorum: {{ members: [{members}], commandTimeout: 500ms }}\n"),
    );
    let config = good(&quorum);
    let StoreConfig::Quorum(quorum) = config.store() else { panic!("{config:?}") };
    assert!(quorum.members.iter().all(|member| member.auth == Some(AuthConfig::Gcp)));
    let own = "locks: { store: { redis: { url: rediss://own, auth: { gcp: } } } }\n\
               jobsStore: { redis: { url: rediss://own, auth: { gcp: } } }\n";
    assert!(check(&format!("{BASE}{own}")).expect("good").warnings.is_empty());
}

#[test]
fn mistakes_are_told_where_they_are() {
    let at = "store.redis.auth";
    for (more, path, fragment) in [
        ("auth: {}", at, "names no source; write exactly one"),
        ("auth: { file: /a, gcp: {} }", at, "has 2 sources, file and gcp; keep exactly one"),
        ("auth: { files: /a }", "store.redis.auth.files", "did you mean `file`?"),
        (
            "password: ${REDIS_PASSWORD:-p}\n    auth: { gcp: {} }",
            at,
            "is given beside a password; keep one of the two",
        ),
        ("auth: { command: {} }", "store.redis.auth.command.argv", "is missing"),
        ("auth: { command: { argv: [] } }", "store.redis.auth.command.argv", "is empty; write the program"),
        ("auth: { command: { argv: [a], timeout: 2m } }", "store.redis.auth.command.timeout", "at most 1m"),
        ("auth: { command: { argv: [a], lifetime: 10ms } }", "store.redis.auth.command.lifetime", "between 1s and 24h"),
        ("auth: { awsIam: { cluster: c } }", "store.redis.auth.awsIam", "signs for one user: name it, as username"),
        (
            "username: u\n    auth: { awsIam: { cluster: c.cache.amazonaws.com } }",
            "store.redis.auth.awsIam.cluster",
            "not the host of its endpoint",
        ),
        (
            "username: u\n    auth: { awsIam: { cluster: c, service: memorydb, serverless: true } }",
            "store.redis.auth.awsIam.serverless",
            "MemoryDB has no serverless clusters",
        ),
        (
            "username: u\n    auth: { awsIam: { cluster: c, service: s3 } }",
            "store.redis.auth.awsIam.service",
            "`memorydb`",
        ),
    ] {
        let told = problems(&base(more), &[]);
        let places: Vec<_> = told.iter().map(|(_, path, message)| (path.as_str(), message.as_str())).collect();
        assert!(
            matches!(*places, [(told, message)] if told == path && message.contains(fragment)),
            "{more}: {places:?}"
        );
    }
    let in_url = BASE.replace("redis://redis", "redis://:p@redis").replace("/0", "/0\n    auth: { file: /dev/null }");
    assert!(problems(&in_url, &[])[0].2.contains("beside a password"), "a password of the URL counts");
}

#[test]
fn what_will_only_work_later_or_elsewhere_is_a_warning() {
    let warnings = |text: &str| {
        let found = check(text).unwrap_or_else(|error| panic!("{error}")).warnings;
        found.into_iter().map(|warning| warning.message).collect::<Vec<_>>()
    };
    let absent = warnings(&base("auth: { file: /nowhere/token }"));
    assert!(matches!(&*absent, [one] if one.contains("/nowhere/token cannot be read yet")), "{absent:?}");
    let plain = warnings(&base("auth: { gcp: {} }").replace("rediss:", "redis:"));
    assert!(matches!(&*plain, [one] if one.contains("begin the url with `rediss`")), "{plain:?}");
    assert!(warnings(&base("username: u\n    auth: { awsIam: { cluster: c } }")).is_empty());
}

#[test]
fn no_argument_is_shown() {
    let shown = format!("{:?}", auth("auth: { command: { argv: [token, a-secret-argument] } }"));
    assert!(shown.contains("token") && !shown.contains("a-secret-argument"), "{shown}");
}
