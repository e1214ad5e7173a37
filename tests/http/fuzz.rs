//! Random requests made from the description: always a well-formed answer with a described status, and never a panic.

use std::time::Duration;

use serde_json::Value;

use crate::client::Client;
use crate::contract::check_reply;
use crate::schema::OpenApi;
use crate::stage::{Cue, Server, Staged};

const REQUESTS: usize = 4_000;

/// A seed replays its run.
struct Rolls(fastrand::Rng);

impl Rolls {
    fn next(&mut self) -> u64 {
        self.0.u64(..)
    }

    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % bound as u64).unwrap()
    }

    fn one_in(&mut self, odds: usize) -> bool {
        self.below(odds) == 0
    }

    fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())].clone()
    }

    fn text(&mut self, alphabet: &str, length_max: usize) -> String {
        let letters: Vec<char> = alphabet.chars().collect();
        (0..self.below(length_max + 1)).map(|_| self.pick(&letters)).collect()
    }
}

/// What may stand in a request target without ending it.
const TARGET: &str = "abz019-._~%/?=&;:@!$'()*+,";
const HEADER: &str = "abz019 -._~%/?=&;:@!$'()*+,\"\\{}[]<>";

#[derive(Debug)]
struct Request {
    line: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

fn example(openapi: &OpenApi, parameter: &Value) -> String {
    let example = &openapi.resolve(parameter)["example"];
    example.as_str().map_or_else(|| example.to_string(), str::to_owned)
}

/// A call of the description with some of its parameters, a few of them spoilt.
fn request(
    rolls: &mut Rolls,
    openapi: &OpenApi,
    path: &str,
    method: &str,
    parameters: &[&Value],
    body: bool,
) -> Request {
    let mut target = path.to_owned();
    let (mut query, mut headers) = (Vec::new(), Vec::new());
    for parameter in parameters {
        let name = parameter["name"].as_str().unwrap();
        let value = if rolls.one_in(3) { rolls.text("abz019-msh", 12) } else { example(openapi, parameter) };
        // A lock may be waited for for an hour.
        let value = if name == "wait" && path.starts_with("/locks") { value.replace(['m', 'h'], "s") } else { value };
        // Nobody here waits for long.
        let value = if name == "wait" { value.replace("30s", "5ms") } else { value };
        match parameter["in"].as_str().unwrap() {
            "path" => target = target.replace(&format!("{{{name}}}"), &value),
            _ if rolls.one_in(2) => {}
            "query" => query.push(format!("{name}={value}")),
            _ => headers.push((name.to_owned(), value)),
        }
    }
    // Who names an index and no end waits for half a minute, if that is the role's.
    let has = |query: &[String], name: &str| query.iter().any(|pair| pair.starts_with(name));
    if has(&query, "index=") && !has(&query, "wait=") {
        query.push("wait=5ms".to_owned());
    }
    if rolls.one_in(10) {
        target += &rolls.text(TARGET, 20);
    }
    if rolls.one_in(10) {
        query.push(rolls.text(TARGET, 20));
    }
    if !query.is_empty() {
        target = format!("{target}?{}", query.join("&"));
    }
    let methods = ["GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH", "TRACE", "BATON"];
    let method = if rolls.one_in(8) { rolls.pick(&methods) } else { method };
    if rolls.one_in(10) {
        let names = ["Accept", "Authorization", "Origin", "Host", "Range", "If-None-Match", "Content-Type", "X-Any"];
        headers.push((rolls.pick(&names).to_owned(), rolls.text(HEADER, 30)));
    }
    let bodies: [&[u8]; 15] = [
        b"",
        b"{}",
        br#"{"cooldown":"1ms"}"#,
        br#"{"cooldown":1}"#,
        br#"{"owner":"me","lease":"100ms","permits":2}"#,
        br#"{"names":["a","orders"],"wait":"5ms","lease":"100ms"}"#,
        br#"{"lease":"100ms","fair":true,"wait":"1ms"}"#,
        br#"{"names":[]}"#,
        br#"{"succeeded":true,"note":"done","attempt":1}"#,
        br#"{"attempt":2}"#,
        br#"{"resourceId":"a","lockOwner":"me","expiryInSeconds":1}"#,
        br#"{"resourceId":"a||b","lockOwner":"me","expiryInSeconds":"60"}"#,
        b"[",
        b"\xff\xfe\x00",
        &[b'x'; 70_000],
    ];
    let takes_body = body;
    let mut body = if body || rolls.one_in(10) { rolls.pick(&bodies).to_vec() } else { Vec::new() };
    // What nobody reads is cut off with its connection, and may take the end of a long answer with it.
    body.truncate(if takes_body { usize::MAX } else { 1_000 });
    if !body.is_empty() && !rolls.one_in(4) && !headers.iter().any(|(name, _)| name == "Content-Type") {
        headers.push(("Content-Type".into(), "application/json".into()));
    }
    Request { line: format!("{method} {target}"), headers, body }
}

/// The operation that a request line hits, if any; an unknown path or method has the errors that all share.
fn operation<'a>(openapi: &'a OpenApi, line: &str, fallback: &'a Value) -> &'a Value {
    let (method, target) = line.split_once(' ').unwrap();
    let path = target.split('?').next().unwrap();
    let fits = |template: &str| {
        let (wanted, given): (Vec<_>, Vec<_>) = (template.split('/').collect(), path.split('/').collect());
        wanted.len() == given.len() && wanted.iter().zip(&given).all(|(w, g)| w.starts_with('{') || w == g)
    };
    let found = openapi.operations().into_iter().find(|(template, m, _, _)| fits(template) && m == method);
    found.map_or(fallback, |(_, _, _, operation)| operation)
}

#[tokio::test]
async fn random_requests_are_answered_as_described() {
    let openapi = OpenApi::parse(include_str!("../../src/api/openapi.yaml"));
    let seed = std::env::var("BATON_FUZZ_SEED").map_or(20_261_120, |seed| seed.parse().unwrap());
    let mut rolls = Rolls(fastrand::Rng::with_seed(seed));
    let leading = Staged::new("scheduler", Duration::from_secs(3), Cue::Grant);
    let following = Staged::new("reports", Duration::from_secs(3), Cue::Rival("web-2"));
    let server = Server::start(&[&leading, &following]).await;
    server.roles.replace(vec![leading.handle.clone(), following.handle.clone()], Some(crate::stage::name("scheduler")));
    // An unknown path is answered as an unknown role is, an unknown method as everywhere.
    let fallback = openapi.root.pointer("/paths/~1leader~1{role}/get").unwrap();
    let operations = openapi.operations();
    let mut statuses = std::collections::BTreeMap::<u16, usize>::new();
    let mut client = Client::connect(server.address).await;
    for at in 0..REQUESTS {
        let (path, method, item, described) = rolls.pick(&operations);
        let parameters = openapi.parameters(item, described);
        let takes_body = described.get("requestBody").is_some();
        let request = request(&mut rolls, &openapi, path, &method, &parameters, takes_body);
        let place = format!("BATON_FUZZ_SEED={seed}, request {at}: {:?} {:?}", request.line, request.headers);
        let headers: Vec<_> = request.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let target = request.line.strip_prefix("GET ").map(|target| target.split('?').next().unwrap_or_default());
        if target.is_some_and(|path| path.starts_with("/events") || path.ends_with("/hold")) {
            // A stream has no end to read to.
            client = Client::connect(server.address).await;
            let head = client.head(&request.line, &headers);
            client.send(head.as_bytes()).await;
            let reply = client.reply_head().await;
            *statuses.entry(reply.status).or_default() += 1;
            assert!([200, 400, 403, 404, 409].contains(&reply.status), "{place}: {reply:?}");
            client = Client::connect(server.address).await;
            continue;
        }
        let reply = client.ask_with(&request.line, &headers, &request.body).await;
        *statuses.entry(reply.status).or_default() += 1;
        let described = operation(&openapi, &request.line, fallback);
        check_reply(&openapi, described, &reply, request.line.starts_with("HEAD "), &place);
        if reply.header("connection") == Some("close") || reply.status == 413 || !request.body.is_empty() {
            client = Client::connect(server.address).await;
        }
    }
    for expected in [200, 201, 202, 400, 403, 404, 405, 409, 410, 413, 415, 503] {
        assert!(statuses.contains_key(&expected), "no request met {expected}: {statuses:?}");
    }
    assert_eq!(client.ask("GET /leader/reports").await.status, 200, "the server is as well as before");
}

#[tokio::test]
async fn every_form_of_a_request_target_is_answered() {
    let seed = std::env::var("BATON_FUZZ_SEED").map_or(20_261_121, |seed| seed.parse().unwrap());
    let mut rolls = Rolls(fastrand::Rng::with_seed(seed));
    let role = Staged::new("scheduler", Duration::from_secs(3), Cue::Rival("web-2"));
    let server = Server::start(&[&role]).await;
    let host = server.address.to_string();
    let methods = ["GET", "POST", "HEAD", "OPTIONS", "CONNECT", "PRI", "get", "G=T", ""];
    let versions = ["HTTP/1.1", "HTTP/1.0", "HTTP/2.0", "HTTP/1.1 ", ""];
    let mut statuses = std::collections::BTreeMap::<u16, usize>::new();
    for at in 0..1_500 {
        let path = rolls.text(TARGET, 12);
        let targets = [
            "*".to_owned(),
            String::new(),
            host.clone(),
            "evil.example:443".to_owned(),
            format!("http://{host}"),
            format!("http://{host}?{path}"),
            format!("http://{host}/{path}"),
            format!("http://user@{host}/leader"),
            format!("https://evil.example/{path}"),
            "http://".to_owned(),
            format!("/{path}"),
            format!("?{path}"),
            format!("//{path}"),
            format!("/leader/{path}#x"),
            format!("/leader/{}", "\u{e4}\u{1f980}"),
        ];
        let version = if rolls.one_in(3) { rolls.pick(&versions) } else { versions[0] };
        let (method, target) = (rolls.pick(&methods), rolls.pick(&targets));
        let mut client = Client::connect(server.address).await;
        client
            .send(format!("{method} {target} {version}\r\nHost: {host}\r\nConnection: close\r\n\r\n").as_bytes())
            .await;
        let place = format!("BATON_FUZZ_SEED={seed}, request {at}: {method:?} {target:?} {version:?}");
        let head = tokio::spawn(async move { client.reply_head().await }).await;
        let reply = head.unwrap_or_else(|_| panic!("{place}: no answer"));
        *statuses.entry(reply.status).or_default() += 1;
        assert!([200, 400, 403, 404, 405, 409, 503].contains(&reply.status), "{place}: {reply:?}");
    }
    assert!([200, 400, 403, 404, 405].iter().all(|status| statuses.contains_key(status)), "{statuses:?}");
    assert_eq!(Client::connect(server.address).await.ask("GET /leader").await.status, 200);
}
