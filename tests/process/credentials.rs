//! Credentials that end, on real sidecars: live connections are told of each new one before the present one ends, so
//! that a proxy which closes every other connection has none to close, and the leader stays what it is.

use std::path::PathBuf;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use testkit::cluster::Cluster;
use testkit::profile::Profile;
use testkit::redis::RedisServer;
use testkit::sidecars::group;
use testkit::sidecars::replica::{Lease, Replica, Settings};
use testkit::tokens::{Asked, CuttingProxy, Metadata, Token, Tokens, USER};
use testkit::wait::{until, until_some, until_within};

/// How long a token lasts.
const LIFE: Duration = Duration::from_secs(2);
/// In `make test`.
const SHORT: Duration = Duration::from_secs(8);
const ADMIN: [&str; 2] = ["--requirepass", "admin"];
/// What no log may hold, besides tokens.
const SECRETS: [&str; 4] = ["a-federated-token", "a-secret-key", "a-session-token", "X-Amz-Signature"];

type Variables<'v> = &'v [(&'v str, String)];

/// What the replicas stand on. Fields end in this order.
struct Stage {
    proxy: CuttingProxy,
    tokens: Tokens,
    redis: RedisServer,
    folder: TempDir,
    /// Whatever gives tokens over HTTP.
    metadata: Option<Metadata>,
}

type Group = group::Group<Stage>;

impl Stage {
    fn new(life: Duration) -> Self {
        let redis = RedisServer::start_with(&ADMIN);
        let tokens = Tokens::start(&redis, life);
        let proxy = CuttingProxy::start(redis.port(), &tokens);
        Self { proxy, tokens, redis, folder: TempDir::new().expect("a temporary directory"), metadata: None }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A file with a token, which is written anew in time.
    fn kept(&mut self, written: fn(&Token) -> String) -> PathBuf {
        let file = self.file("token");
        let every = self.tokens.life() / 8;
        self.tokens.keep_in(&file, every, written);
        file
    }

    fn with_metadata(mut self, metadata: Metadata) -> Self {
        self.metadata = Some(metadata);
        self
    }
}

/// Two replicas with this `auth`, at this URL.
fn start(stage: Stage, url: &str, auth: &str, env: &[(&str, String)]) -> Group {
    let mut group = Group::new(stage, 2);
    for number in 0..2 {
        let env = env.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        let redis_more = format!(", {auth}");
        group.add(Settings { redis_more, env, ..Settings::new(number, url.to_owned(), Lease::LONG) });
    }
    group
}

/// What a stretch of time with ending tokens is to show.
fn keeps_its_term(what: &str, group: Group, span: Duration) {
    let term = group.leader();
    let leader = term.who.replica;
    let renewed = |group: &Group| group.replicas[leader].role_metric("baton_renewals_total", &[("outcome", "ok")]);
    let (begun, before) = (Instant::now(), renewed(&group));
    until_within(span * 3 + Duration::from_secs(30), "so many credentials have ended", || {
        let stood_still = group.tokens.stood_still();
        let late = format!("{what}: a connection showed no newer credential in time ({stood_still:?} not let run)");
        assert_eq!(group.proxy.cut(), 0, "{late}");
        begun.elapsed() >= span
    });
    group.still_leads(&term, Duration::ZERO);
    let tokens = |replica: &Replica, outcome: &str| {
        let labels = [("store", "leases"), ("outcome", outcome)];
        replica.metric("baton_credential_renewals_total", &labels).expect("it is there from the start")
    };
    for replica in &group.replicas {
        // Each lasts two seconds, and no longer than half of that is one kept.
        let had = tokens(replica, "ok");
        assert!(had >= span.as_secs_f64() / LIFE.as_secs_f64(), "{what}: only {had} credentials");
        assert_eq!(tokens(replica, "refused"), 0.0, "{what}");
        assert!(!replica.has_logged(&["the subscription ended"]), "{what}: the subscription was lost");
        assert!(!replica.has_logged(&["the connection was closed"]), "{what}: a connection was lost");
    }
    let (ok, replica) = (renewed(&group) - before, &group.replicas[leader]);
    for outcome in ["lost", "error", "unknown"] {
        let count = replica.metric("baton_renewals_total", &[("outcome", outcome)]).unwrap_or(0.0);
        assert_eq!(count, 0.0, "{what}: renewals that ended with {outcome}");
    }
    assert!(ok >= span.as_secs_f64() / 2.0, "{what}: only {ok} renewals");
    assert_eq!(group.apps.terms().len(), 1, "{what}: a term was lost");
    nothing_is_told(what, &group);
    let (issued, accepted) = (group.tokens.issued().len(), group.proxy.accepted());
    let measured = format!("{issued} tokens, {accepted} connections, {} cut, {ok} renewals, ", group.proxy.cut());
    group.finish(what, &measured);
}

fn nothing_is_told(what: &str, group: &Group) {
    let issued = group.tokens.issued();
    for replica in &group.replicas {
        let told = format!("{}{}", replica.log(), metrics(replica));
        let secrets = issued.iter().map(|token| token.text.as_str()).chain(SECRETS);
        for secret in secrets {
            assert!(!told.contains(secret), "{what}: {secret} is told");
        }
    }
}

fn metrics(replica: &Replica) -> String {
    testkit::sidecars::http::ask(replica.telemetry(), "GET /metrics", "").body
}

fn of_a_file(span: Duration) {
    let mut stage = Stage::new(LIFE);
    let file = stage.kept(|token| token.text.clone());
    let url = stage.proxy.url();
    let auth = format!("username: {USER}, auth: {{ file: \"{}\" }}", file.display());
    keeps_its_term("a file", start(stage, &url, &auth, &[]), span);
}

fn of_a_command(span: Duration) {
    let mut stage = Stage::new(LIFE);
    let file = stage.kept(|token| {
        let expires = jiff::Timestamp::try_from(token.expires).expect("a time");
        format!(r#"{{"token": "{}", "username": "{USER}", "expiresAt": "{expires}"}}"#, token.text)
    });
    let url = stage.proxy.url();
    let auth = format!("auth: {{ command: {{ argv: [cat, \"{}\"] }} }}", file.display());
    keeps_its_term("a command", start(stage, &url, &auth, &[]), span);
}

/// The metadata server of Google Cloud.
fn of_gcp(span: Duration) {
    let stage = Stage::new(LIFE + Duration::from_millis(500));
    let issue = stage.tokens.issuer();
    let metadata = Metadata::start(move |asked| {
        let is_asked = asked.target == "/computeMetadata/v1/instance/service-accounts/default/token"
            && asked.header("metadata-flavor") == "Google";
        if !is_asked {
            return (403, String::new());
        }
        let token = issue().text;
        (200, format!(r#"{{"access_token": "{token}", "expires_in": {}, "token_type": "Bearer"}}"#, LIFE.as_secs()))
    });
    let env = [("GCE_METADATA_HOST", metadata.authority())];
    let url = stage.proxy.url();
    let auth = format!("username: {USER}, auth: {{ gcp: {{}} }}");
    keeps_its_term("gcp", start(stage.with_metadata(metadata), &url, &auth, &env), span);
}

/// The token endpoint of Entra ID, by the token of workload identity. The user is the token's object id.
fn of_entra(span: Duration) {
    let stage = Stage::new(LIFE + Duration::from_millis(500));
    let issue = stage.tokens.issuer();
    let metadata = Metadata::start(move |asked| {
        let has = |field: &str| asked.body.split('&').any(|given| given == field);
        let is_asked = asked.method == "POST"
            && asked.target == "/a-tenant/oauth2/v2.0/token"
            && has("client_id=a-client")
            && has("grant_type=client_credentials")
            && has("scope=https%3A%2F%2Fredis.azure.com%2F.default")
            && has("client_assertion_type=urn%3Aietf%3Aparams%3Aoauth%3Aclient-assertion-type%3Ajwt-bearer")
            && has("client_assertion=a-federated-token");
        if !is_asked {
            return (400, r#"{"error": "invalid_client", "error_description": "AADSTS700016: not known"}"#.to_owned());
        }
        (200, format!(r#"{{"access_token": "{}", "expires_in": {}}}"#, issue().text, LIFE.as_secs()))
    });
    let assertion = stage.file("assertion");
    std::fs::write(&assertion, "a-federated-token\n").expect("a file");
    let env = [
        ("AZURE_AUTHORITY_HOST", metadata.url() + "/"),
        ("AZURE_FEDERATED_TOKEN_FILE", assertion.display().to_string()),
        ("AZURE_CLIENT_ID", "a-client".to_owned()),
        ("AZURE_TENANT_ID", "a-tenant".to_owned()),
    ];
    let url = stage.proxy.url();
    keeps_its_term("entra", start(stage.with_metadata(metadata), &url, "auth: { entra: {} }", &env), span);
}

/// The managed identity of a machine.
fn of_a_managed_identity(span: Duration) {
    let stage = Stage::new(LIFE + Duration::from_millis(500));
    let issue = stage.tokens.issuer();
    let metadata = Metadata::start(move |asked| {
        let target = "/metadata/identity/oauth2/token?api-version=2018-02-01&resource=https%3A%2F%2Fredis.azure.com\
                      &client_id=a-client";
        if asked.target != target || asked.header("metadata") != "true" {
            return (400, r#"{"error": "invalid_request"}"#.to_owned());
        }
        (200, format!(r#"{{"access_token": "{}", "expires_in": "{}"}}"#, issue().text, LIFE.as_secs()))
    });
    let env = [("AZURE_POD_IDENTITY_AUTHORITY_HOST", metadata.url())];
    let url = stage.proxy.url();
    let auth = "auth: { entra: { clientId: a-client } }";
    keeps_its_term("a managed identity", start(stage.with_metadata(metadata), &url, auth, &env), span);
}

/// Keys that end, as STS, agents and metadata services give them: which session tokens are good is known to the proxy,
/// which stands in for a service that checks signatures. That they are right, the vectors say.
struct Keys {
    given: Arc<Mutex<Vec<(String, Instant)>>>,
}

impl Keys {
    fn new() -> Self {
        Self { given: Arc::default() }
    }

    /// A proxy which takes requests to connect that were signed with these, while they last.
    fn proxy(&self, stage: &Stage) -> CuttingProxy {
        let given = Arc::clone(&self.given);
        CuttingProxy::start_admitting(stage.redis.port(), &stage.tokens, "my-cache/?", move |signed| {
            let given = given.lock().expect("no panic while it is held");
            let is_known = |(token, ends_at): &(String, Instant)| {
                signed.contains(&format!("X-Amz-Security-Token={token}&")) && Instant::now() < *ends_at
            };
            signed.contains("Action=connect")
                && signed.contains(&format!("User={USER}&"))
                && signed.contains("%2Feu-central-1%2Felasticache%2Faws4_request")
                && given.iter().any(is_known)
        })
    }

    /// Gives the next: its session token, and when it ends.
    fn giver(&self) -> impl Fn() -> (String, String) + Send + Sync + use<> {
        let given = Arc::clone(&self.given);
        move || {
            let mut given = given.lock().expect("no panic while it is held");
            let token = format!("a-session-token-{}", given.len());
            given.push((token.clone(), Instant::now() + LIFE));
            let ends = jiff::Timestamp::now() + jiff::SignedDuration::try_from(LIFE).expect("a span");
            (token, format!("{ends:.3}"))
        }
    }
}

const SIGNED: &str = "username: baton, auth: { awsIam: { cluster: My-Cache, region: eu-central-1 } }";

fn of_aws(
    what: &str,
    span: Duration,
    metadata: impl Fn(&Asked, &dyn Fn() -> (String, String)) -> Option<String> + Send + Sync + 'static,
    env: impl Fn(&Stage, &str) -> Vec<(&'static str, String)>,
) {
    let mut stage = Stage::new(LIFE);
    let keys = Keys::new();
    stage.proxy = keys.proxy(&stage);
    let give = keys.giver();
    let metadata = Metadata::start(move |asked| match metadata(asked, &give) {
        Some(body) => (200, body),
        None => (403, "<Code>AccessDenied</Code><Message>no</Message>".to_owned()),
    });
    let env = env(&stage, &metadata.url());
    let url = stage.proxy.url();
    keeps_its_term(what, start(stage.with_metadata(metadata), &url, SIGNED, &env), span);
}

fn told_keys((token, ends): (String, String)) -> String {
    let keys = r#""AccessKeyId": "AKIDEXAMPLE", "SecretAccessKey": "a-secret-key""#;
    format!(r#"{{"Code": "Success", {keys}, "Token": "{token}", "Expiration": "{ends}"}}"#)
}

/// A web identity (IRSA), by STS.
fn of_a_web_identity(span: Duration) {
    let metadata = |asked: &Asked, give: &dyn Fn() -> (String, String)| {
        let has = |field: &str| asked.body.split('&').any(|given| given == field);
        let is_asked = asked.method == "POST"
            && has("Action=AssumeRoleWithWebIdentity")
            && has("RoleArn=arn%3Aaws%3Aiam%3A%3A1%3Arole%2Fbaton")
            && has("WebIdentityToken=a-federated-token");
        let (token, ends) = is_asked.then(give)?;
        Some(format!(
            "<AssumeRoleWithWebIdentityResponse><AssumeRoleWithWebIdentityResult><Credentials>\
             <SessionToken>{token}</SessionToken><SecretAccessKey>a-secret-key</SecretAccessKey>\
             <Expiration>{ends}</Expiration><AccessKeyId>AKIDEXAMPLE</AccessKeyId></Credentials>\
             </AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>"
        ))
    };
    of_aws("a web identity", span, metadata, |stage, url| {
        let file = stage.file("identity");
        std::fs::write(&file, "a-federated-token").expect("a file");
        vec![
            ("AWS_WEB_IDENTITY_TOKEN_FILE", file.display().to_string()),
            ("AWS_ROLE_ARN", "arn:aws:iam::1:role/baton".to_owned()),
            ("AWS_ENDPOINT_URL_STS", url.to_owned()),
        ]
    });
}

/// The agent of Pod Identity.
fn of_a_pod_identity(span: Duration) {
    let metadata = |asked: &Asked, give: &dyn Fn() -> (String, String)| {
        let is_asked = asked.target == "/v1/credentials" && asked.header("authorization") == "a-federated-token";
        is_asked.then(|| told_keys(give()))
    };
    of_aws("a pod identity", span, metadata, |stage, url| {
        let file = stage.file("identity");
        std::fs::write(&file, "a-federated-token").expect("a file");
        vec![
            ("AWS_CONTAINER_CREDENTIALS_FULL_URI", format!("{url}/v1/credentials")),
            ("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", file.display().to_string()),
        ]
    });
}

/// The metadata of a machine.
fn of_a_machine(span: Duration) {
    let metadata = |asked: &Asked, give: &dyn Fn() -> (String, String)| {
        let roles = "/latest/meta-data/iam/security-credentials/";
        let is_known = asked.header("x-aws-ec2-metadata-token") == "a-metadata-token";
        match (asked.method.as_str(), asked.target.as_str()) {
            ("PUT", "/latest/api/token") if asked.header("x-aws-ec2-metadata-token-ttl-seconds") == "21600" => {
                Some("a-metadata-token".to_owned())
            }
            ("GET", target) if is_known && target == roles => Some("a-role\n".to_owned()),
            ("GET", target) if is_known && target.strip_prefix(roles) == Some("a-role") => Some(told_keys(give())),
            _ => None,
        }
    };
    of_aws("a machine's metadata", span, metadata, |_, url| {
        vec![("AWS_EC2_METADATA_SERVICE_ENDPOINT", url.to_owned())]
    });
}

#[test]
fn tokens_of_a_file_end_and_nothing_else_does() {
    of_a_file(SHORT);
}

#[test]
fn tokens_of_a_command_end_and_nothing_else_does() {
    of_a_command(SHORT);
}

#[test]
fn tokens_of_google_cloud_end_and_nothing_else_does() {
    of_gcp(SHORT);
}

#[test]
fn tokens_of_entra_id_end_and_nothing_else_does() {
    of_entra(SHORT);
    of_a_managed_identity(SHORT);
}

#[test]
fn signed_requests_to_connect_end_and_nothing_else_does() {
    of_a_web_identity(SHORT);
    of_a_pod_identity(SHORT);
    of_a_machine(SHORT);
}

/// Belongs to `make chaos`.
#[test]
#[ignore = "ten minutes"]
fn minutes_of_ending_credentials() {
    let seconds = std::env::var("BATON_CREDENTIALS_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(600);
    let runs: [fn(Duration); 4] = [of_a_file, of_a_command, of_a_web_identity, of_entra];
    // One after the other: a machine with eight sidecars at once may stand still for longer than a token lasts.
    runs.iter().for_each(|run| run(Duration::from_secs(seconds) / 4));
}

/// Without RESP3 a connection that is subscribed takes no AUTH.
#[test]
fn without_resp3_the_subscription_moves_before_its_token_ends() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let mut stage = Stage::new(LIFE);
    let file = stage.kept(|token| token.text.clone());
    let proxy_port = stage.proxy.port();
    let profile = Profile { name: "no RESP3", has_resp3: false, ..Profile::NONE };
    let profiled = runtime.block_on(testkit::profile::Profiled::start(proxy_port, profile));
    let url = profiled.url();
    let (end, ended) = tokio::sync::oneshot::channel::<()>();
    let serving = std::thread::spawn(move || runtime.block_on(ended));
    let auth = format!("username: {USER}, auth: {{ file: \"{}\" }}", file.display());
    let group = start(stage, &url, &auth, &[]);
    group.leader();
    let before = group.proxy.accepted();
    until("the subscription has moved again and again", || group.proxy.accepted() >= before + 8);
    keeps_its_term("no RESP3", group, SHORT);
    let _ = end.send(());
    let _ = serving.join();
}

/// What is connected stays so, and what has to connect uses the present credential for as long as Redis takes it.
#[test]
fn a_renewal_that_fails_ends_nothing() {
    let stage = Stage::new(Duration::from_secs(600));
    let issue = stage.tokens.issuer();
    let gives = move |_: &Asked| (200, format!(r#"{{"access_token": "{}", "expires_in": 2}}"#, issue().text));
    let gives = Arc::new(gives);
    let first = Arc::clone(&gives);
    let metadata = Metadata::start(move |asked| first(asked));
    let env = [("GCE_METADATA_HOST", metadata.authority())];
    let url = stage.proxy.url();
    let auth = format!("username: {USER}, auth: {{ gcp: {{}} }}");
    let group = start(stage.with_metadata(metadata), &url, &auth, &env);
    let metadata = group.metadata.as_ref().expect("there is one");
    let term = group.leader();
    metadata.answer(|_| (503, "out of order".to_owned()));
    let failed = |replica: &Replica| {
        let labels = [("store", "leases"), ("outcome", "failed")];
        replica.metric("baton_credential_renewals_total", &labels).unwrap_or(0.0)
    };
    let [one, other] = &group.replicas[..] else { panic!("there are two") };
    until("renewals fail", || failed(one) >= 4.0 && failed(other) >= 4.0);
    for replica in [one, other] {
        assert!(replica.has_logged(&["WARN", "no credential for Redis can be had", "status 503"]));
        assert!(!replica.has_logged(&["the subscription ended"]), "nothing was closed");
    }
    let follower = &group.replicas[1 - term.who.replica];
    until("the reason says so, too", || {
        let reason = follower.ask("GET /leader", "").json()["reason"].to_string();
        reason.contains("no newer credential can be had (the present one ends at 20") && reason.contains("auth.gcp")
    });
    group.still_leads(&term, Duration::ZERO);
    let before = group.proxy.accepted();
    group.redis.command(&["CLIENT", "KILL", "USER", USER]);
    until("all are connected again", || group.proxy.accepted() >= before + 4);
    group.still_leads(&term, Lease::LONG.duration());
    metadata.answer(move |asked| gives(asked));
    for replica in [one, other] {
        until("all is well again", || replica.has_logged(&["there is a credential for Redis again"]));
    }
    group.still_leads(&term, Duration::ZERO);
    nothing_is_told("renewals that fail", &group);
    group.finish("renewals that fail", "");
}

/// How often a server was told AUTH, HELLO not counted.
fn auths(redis: &RedisServer) -> u64 {
    let text = redis.command(&["INFO", "commandstats"]).text();
    let line = text.lines().find(|line| line.starts_with("cmdstat_auth:")).unwrap_or_default();
    line.split(['=', ',']).nth(1).and_then(|calls| calls.parse().ok()).unwrap_or(0)
}

#[test]
fn every_connection_to_every_server_is_told() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let cluster = runtime.block_on(Cluster::start(&[]));
    let (locks, jobs) = (RedisServer::start(), RedisServer::start());
    let folder = TempDir::new().expect("a temporary directory");
    let file = folder.path().join("password");
    std::fs::write(&file, "the-first-password").expect("a file");
    for server in cluster.nodes.iter().chain([&locks, &jobs]) {
        let rules = ["reset", "on", "~*", "&*", "+@all", ">the-first-password", ">the-second-password"];
        server.command(&[&["ACL", "SETUSER", USER], &rules[..]].concat());
    }
    let login = format!("username: {USER}, passwordFile: \"{}\"", file.display());
    let own = |redis: &RedisServer| format!("{{ redis: {{ url: \"{}\", {login} }} }}", redis.url());
    let more = format!("locks: {{ store: {} }}\njobsStore: {}\n", own(&locks), own(&jobs));
    let settings = Settings::new(0, cluster.url(), Lease::LONG);
    let replica = Replica::start(0, Settings { redis_more: format!(", {login}"), more, ..settings });
    until("it leads", || replica.ask("GET /leader", "").json()["leader"] == true);
    for own in ["baton_locks_store_up", "baton_jobs_store_up"] {
        until(own, || replica.metric(own, &[]) == Some(1.0));
    }
    let told = || [cluster.nodes.iter().map(auths).sum::<u64>(), auths(&locks), auths(&jobs)];
    let before = told();
    std::fs::write(&file, "the-second-password").expect("a file");
    // In the cluster to any node, to the role's, and the subscription; elsewhere for commands, and the subscription.
    let are_told =
        |now: [u64; 3]| now.iter().zip(before).zip([3, 2, 2]).all(|((now, then), links)| *now >= then + links);
    until("all are told", || are_told(told()));
    assert!(!replica.has_logged(&["the subscription ended"]), "and none is opened anew");
}

/// A refused AUTH leaves a connection as it was, and so do we.
#[test]
fn a_password_file_that_changes_is_told_to_live_connections() {
    let redis = RedisServer::start_with(&ADMIN);
    let folder = TempDir::new().expect("a temporary directory");
    let file = folder.path().join("password");
    let write = |password: &str| std::fs::write(&file, password).expect("a file");
    let acl = |rules: &[&str]| drop(redis.command(&[&["ACL", "SETUSER", USER], rules].concat()));
    acl(&["reset", "on", "~*", "&*", "+@all", ">the-first-password", ">the-second-password"]);
    write("the-first-password\n");
    let redis_more = format!(", username: {USER}, passwordFile: \"{}\"", file.display());
    let settings = Settings { redis_more, ..Settings::new(0, redis.url(), Lease::LONG) };
    let replica = Replica::start(0, settings);
    let leads = || replica.ask("GET /leader", "").json()["leader"] == true;
    until("it leads", leads);
    let before = auths(&redis);
    write("the-second-password\n");
    // The commands' connection and the subscription.
    until("both connections are told", || auths(&redis) >= before + 2);
    write("a-wrong-password\n");
    let refused = || replica.metric("baton_credential_renewals_total", &[("store", "leases"), ("outcome", "refused")]);
    until("both refusals are counted", || refused() == Some(2.0));
    assert!(replica.has_logged(&["WARN", "Redis refuses the new credential", "check passwordFile"]));
    let said = replica.log().lines().filter(|line| line.contains("refuses the new credential")).count();
    assert_eq!(said, 1, "it is said once");
    assert!(leads() && !replica.has_logged(&["the subscription ended"]), "nothing was lost");
    for password in ["the-first-password", "the-second-password", "a-wrong-password"] {
        assert!(!replica.log().contains(password), "{password} is told");
    }
}

/// What a stranger reads who has set something up wrong.
#[test]
fn what_keeps_tokens_away_is_told_everywhere() {
    let redis = RedisServer::start_with(&ADMIN);
    let denied = Metadata::start(|_| (403, "<Code>AccessDenied</Code><Message>not this pod</Message>".to_owned()));
    let ended = Metadata::start(|_| (200, r#"{"access_token": "an-old-token", "expires_in": 0}"#.to_owned()));
    let folder = TempDir::new().expect("a temporary directory");
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).expect("a file");
        path.display().to_string()
    };
    let (identity, wrong) = (file("identity", "a-federated-token"), file("token", "a-wrong-token"));
    let of_a_role = [
        ("AWS_WEB_IDENTITY_TOKEN_FILE", identity.clone()),
        ("AWS_ROLE_ARN", "arn:aws:iam::1:role/baton".to_owned()),
        ("AWS_ENDPOINT_URL_STS", denied.url()),
    ];
    let failing = "auth: { command: { argv: [sh, -c, \"echo a-printed-token; exit 3\"] } }";
    let cases: [(&str, Variables<'_>, &[&str]); 8] = [
        ("auth: { file: /nowhere/token }", &[], &["auth.file cannot be read", "/nowhere/token"]),
        (&format!("auth: {{ file: \"{wrong}\" }}"), &[], &["WRONGPASS", "check what writes auth.file"]),
        ("auth: { command: { argv: [/nowhere/program] } }", &[], &["/nowhere/program cannot be started"]),
        (failing, &[], &["auth.command: sh failed (exit status: 3)"]),
        (SIGNED, &of_a_role, &["STS does not let this pod", "AccessDenied: not this pod", "trust policy"]),
        (
            "auth: { gcp: {} }",
            &[("GCE_METADATA_HOST", ended.authority())],
            &["auth.gcp gives a token that ended", "clock"],
        ),
        (
            "auth: { gcp: {} }",
            &[("GCE_METADATA_HOST", denied.authority())],
            &["auth.gcp", "status 403", "service account"],
        ),
        (
            "auth: { entra: {} }",
            &[("AZURE_FEDERATED_TOKEN_FILE", identity.clone())],
            &["auth.entra", "AZURE_CLIENT_ID", "workload identity"],
        ),
    ];
    for (auth, env, says) in cases {
        let env: Vec<(String, String)> = env.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        let redis_more = format!(", {auth}");
        let replica =
            Replica::start(0, Settings { redis_more, env: env.clone(), ..Settings::new(0, redis.url(), Lease::SHORT) });
        let has_all = |text: &str| says.iter().all(|word| text.contains(word));
        let reason = until_some(&format!("{auth}: {says:?} is the reason"), || {
            let reason = replica.ask("GET /leader", "").json()["reason"].as_str().unwrap_or_default().to_owned();
            has_all(&reason).then_some(reason)
        });
        until(&format!("{auth}: the log says so, too"), || {
            replica.log().lines().any(|line| line.contains("WARN") && has_all(line))
        });
        let config = replica.config.display().to_string();
        let audited = Command::new(env!("CARGO_BIN_EXE_baton")).args(["audit", "--config", &config]).envs(env).output();
        let audited = audited.expect("it runs");
        let report =
            format!("{}{}", String::from_utf8_lossy(&audited.stdout), String::from_utf8_lossy(&audited.stderr));
        assert!(has_all(&report) && !audited.status.success(), "{auth}: {report}");
        for secret in ["a-printed-token", "a-wrong-token", "a-federated-token", "an-old-token"] {
            let told = format!("{reason}{report}{}", replica.log());
            assert!(!told.contains(secret), "{auth}: {secret} is told");
        }
    }
}
