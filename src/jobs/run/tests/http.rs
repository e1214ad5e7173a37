//! Requests as runs.

use std::time::Duration;

use secrecy::SecretString;
use tokio::net::TcpListener;

use super::super::{CancelReason, Ended, Order};
use super::server::{Do, Server, answer, post};
use super::stage::{Stage, failed, succeeded, until};
use crate::base::clock::{BootClock, Clock};
use crate::config::{HttpRun, Secret};

/// A timeout that is waited for.
const SOON: Duration = Duration::from_secs(1);

fn header(name: &str, value: &str) -> (String, Secret) {
    (name.to_owned(), Secret::Value(SecretString::from(value)))
}

/// How a run ends whose app does this.
async fn end_of(script: Vec<Do>, change: impl FnOnce(&mut HttpRun)) -> Ended {
    let (stage, server) = (Stage::calm().await, Server::start(script).await);
    let mut run = server.run();
    change(&mut run);
    stage.begin(run.into()).ends().await
}

fn say(text: &str) -> Do {
    Do::Say(text.to_owned())
}

#[tokio::test]
async fn the_app_is_told_which_attempt_it_is_and_its_answer_is_the_note() {
    let (stage, server) = (Stage::calm().await, Server::start(answer("200 OK", "7 rows\nand more\n")).await);
    let mut run = server.run();
    run.body = Some(r#"{"run":"{{run}}","n":{{attempt}}}"#.to_owned());
    run.headers = vec![header("Authorization", "Bearer hunter2-hunter2"), header("baton-attempt", "99")];
    assert_eq!(stage.begin(run.into()).ends().await, succeeded("7 rows and more"));
    let requests = server.requests();
    let (head, body) = requests[0].split_once("\r\n\r\n").unwrap();
    let mut lines: Vec<&str> = head.lines().collect();
    assert_eq!(lines.remove(0), "POST /jobs/nightly?x=1 HTTP/1.1");
    lines.sort_unstable();
    let host = format!("host: 127.0.0.1:{}", server.port);
    let agent = format!("user-agent: baton/{}", env!("CARGO_PKG_VERSION"));
    let wanted = [
        "authorization: Bearer hunter2-hunter2",
        "baton-attempt: 2",
        "baton-fencing-token: 1763690400000007",
        "baton-run-id: nightly-1763690400",
        "baton-scheduled-time: 2025-11-21T02:00:00Z",
        "connection: close",
        "content-length: 34",
        "content-type: application/json",
        &host,
        "idempotency-key: nightly-1763690400",
        &agent,
    ];
    assert_eq!(lines, wanted);
    assert_eq!(body, r#"{"run":"nightly-1763690400","n":2}"#);
}

#[tokio::test]
async fn a_body_is_framed_and_typed_unless_the_configuration_says_otherwise() {
    let (stage, server) = (Stage::calm().await, Server::start(answer("204 No Content", "")).await);
    let done = Ended::Succeeded { note: None };
    let headers = vec![header("Content-Type", "text/csv"), header("Host", "app"), header("Content-Length", "1")];
    let runs = [
        server.run(),
        HttpRun { method: "GET".to_owned(), ..server.run() },
        HttpRun { body: Some("{{job}} now".to_owned()), ..server.run() },
        HttpRun { method: "PUT".to_owned(), body: Some("a,b".to_owned()), headers, ..server.run() },
    ];
    for run in runs {
        assert_eq!(stage.begin(run.into()).ends().await, done);
    }
    let requests = server.requests();
    assert!(requests[0].contains("content-length: 0\r\n") && !requests[0].contains("content-type"), "{}", requests[0]);
    assert!(!requests[1].contains("content-length"), "{}", requests[1]);
    assert!(
        requests[2].contains("content-type: text/plain; charset=utf-8\r\n") && requests[2].ends_with("nightly now")
    );
    for part in ["PUT ", "content-type: text/csv\r\n", "host: app\r\n", "content-length: 3\r\n", "\r\n\r\na,b"] {
        assert!(requests[3].contains(part), "{part} is not in {}", requests[3]);
    }
}

#[tokio::test]
async fn what_a_run_was_given_is_its_body_or_stands_in_it() {
    let (stage, server) = (Stage::calm().await, Server::start(answer("204 No Content", "")).await);
    let runs = [
        server.run(),
        HttpRun { body: Some("{\"run\":\"{{run}}\",\"rows\":{{data}}}".to_owned()), ..server.run() },
        HttpRun { method: "GET".to_owned(), ..server.run() },
    ];
    for run in runs {
        assert_eq!(stage.begin_given(run.into(), Some("[1, {}]")).ends().await, Ended::Succeeded { note: None });
    }
    let requests = server.requests();
    assert!(requests[0].contains("content-type: application/json\r\n") && requests[0].ends_with("\r\n\r\n[1, {}]"));
    assert!(requests[1].ends_with("{\"run\":\"nightly-1763690400\",\"rows\":[1, {}]}"), "{}", requests[1]);
    assert!(requests[2].ends_with("\r\n\r\n"), "{}", requests[2]);
}

#[tokio::test]
async fn the_status_decides_and_the_note_says_why() {
    let long = "x".repeat(10_000);
    let cut = format!("status 418 I'm a teapot: {}…", "x".repeat(172));
    for (head, body, wanted) in [
        (
            "500 Internal Server Error",
            "{\"error\":\n \"no disk\"}",
            r#"status 500 Internal Server Error: {"error": "no disk"}"#,
        ),
        ("404 Not Found", "", "status 404 Not Found"),
        ("503 Service Unavailable", "\u{0}\u{1}binary", "status 503 Service Unavailable"),
        ("799 Odd", "hm", "status 799: hm"),
        ("418 Teapot", long.as_str(), cut.as_str()),
    ] {
        assert_eq!(end_of(answer(head, body), |_| {}).await, failed(wanted));
    }
    assert_eq!(
        end_of(answer("409 Conflict", "done"), |run| run.success = vec![200..=204, 409..=409]).await,
        succeeded("done")
    );
    assert_eq!(
        end_of(answer("206 Partial Content", ""), |run| run.success = vec![200..=204]).await,
        failed("status 206 Partial Content")
    );
    let chunked = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n";
    assert_eq!(end_of(vec![say(chunked)], |_| {}).await, succeeded("abcde"));
    assert_eq!(end_of(vec![say("HTTP/1.0 200 OK\r\n\r\nuntil the end")], |_| {}).await, succeeded("until the end"));
}

#[tokio::test]
async fn a_redirect_is_not_followed_and_the_note_says_where_it_led() {
    let other = Server::start(answer("200 OK", "")).await;
    let head = format!("307 Temporary Redirect\r\nlocation: http://u:pw@127.0.0.1:{}/login?token=s3cret#x", other.port);
    let wanted = format!(
        "status 307 Temporary Redirect: it leads to http://127.0.0.1:{}/login, and redirects are not followed",
        other.port
    );
    assert_eq!(end_of(answer(&head, "moved"), |_| {}).await, failed(&wanted));
    assert!(other.requests().is_empty());
    assert_eq!(end_of(answer("304 Not Modified", ""), |_| {}).await, failed("status 304 Not Modified"));
}

#[tokio::test]
async fn what_takes_too_long_is_told_by_how_far_it_came() {
    let at = |script| end_of(script, |run| run.timeout = SOON);
    assert!(matches!(at(vec![Do::Hold]).await, Ended::Failed { note } if note.starts_with("no answer from 127.0.0.1:")
        && note.ends_with(" within 1s")));
    let slow = vec![say("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nslow"), Do::Hold];
    assert_eq!(at(slow).await, failed("status 200, but the answer was not whole within 1s"));

    // A listener whose queue is full answers no connection.
    let stage = Stage::calm().await;
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let port = socket.local_addr().unwrap().port();
    let listener: TcpListener = socket.listen(1).unwrap();
    let connect = || tokio::net::TcpStream::connect(("127.0.0.1", port));
    let mut queued = Vec::new();
    while let Ok(stream) = tokio::time::timeout(SOON, connect()).await {
        queued.push(stream.unwrap());
    }
    let run = HttpRun { timeout: SOON, ..post(&format!("http://127.0.0.1:{port}/")) };
    let wanted = format!("no connection to 127.0.0.1:{port} within 1s");
    assert_eq!(stage.begin(run.into()).ends().await, failed(&wanted));
    drop(listener);
}

#[tokio::test]
async fn a_connection_that_fails_is_told_in_words() {
    let stage = Stage::calm().await;
    let port = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
    let refused = post(&format!("http://localhost:{port}/"));
    let wanted = format!("nothing listens at localhost:{port}: the connection was refused");
    assert_eq!(stage.begin(refused.into()).ends().await, failed(&wanted));
    // No label of a name is longer than 63 bytes: it takes no server to know that.
    let absent = "a".repeat(64);
    match stage.begin(post(&format!("http://{absent}/")).into()).ends().await {
        Ended::Failed { note } => assert!(note.starts_with(&format!("{absent} cannot be resolved: ")), "{note}"),
        other => panic!("{other:?}"),
    }
    for (script, wanted) in [
        (vec![], "closed the connection before its answer was whole"),
        (
            vec![say("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nshort")],
            "closed the connection before its answer was whole",
        ),
        (vec![say("SSH-2.0-OpenSSH_9.6\r\n\r\n")], "answers no HTTP/1.1"),
    ] {
        match end_of(script, |_| {}).await {
            Ended::Failed { note } => assert!(note.starts_with("127.0.0.1:") && note.contains(wanted), "{note}"),
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn secrets_that_the_app_repeats_are_not_in_the_note() {
    let echo = answer("401 Unauthorized", "unknown token hunter2-hunter2, Bearer");
    let headers = vec![header("Authorization", "Bearer hunter2-hunter2")];
    assert_eq!(
        end_of(echo, |run| run.headers = headers).await,
        failed("status 401 Unauthorized: unknown token ***, Bearer")
    );
    for (name, secret, wanted) in [
        ("X-Key", Secret::File("/no/such/key".into()), "the header X-Key cannot be sent: /no/such/key: No such file"),
        (
            "X-Key",
            Secret::Value(SecretString::from("hunter2\nhunter2")),
            "the header X-Key cannot be sent: its value holds",
        ),
    ] {
        match end_of(vec![], |run| run.headers = vec![(name.to_owned(), secret)]).await {
            Ended::Failed { note } => assert!(note.starts_with(wanted) && !note.contains("hunter2"), "{note}"),
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn a_large_answer_is_read_to_its_end_and_not_kept() {
    let flood = 8 << 20;
    let head = say(&format!("HTTP/1.1 200 OK\r\ncontent-length: {flood}\r\n\r\n"));
    match end_of(vec![head, Do::Flood(flood)], |_| {}).await {
        Ended::Succeeded { note: Some(note) } => assert_eq!(note, format!("{}…", "x".repeat(197))),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn an_accepted_run_lasts_until_the_app_says_how_it_ended() {
    let (stage, server) = (Stage::calm().await, Server::start(answer("202 Accepted", "queued")).await);
    let row = |note: &str| Order::Complete(Ok(Some(note.to_owned())));
    for (word, wanted) in [
        (row(" 7 rows\n"), succeeded("7 rows")),
        (row(""), Ended::Succeeded { note: None }),
        (Order::Complete(Ok(None)), Ended::Succeeded { note: None }),
        (Order::Complete(Err("no disk".to_owned())), failed("no disk")),
        (Order::Cancel(CancelReason::Deadline), Ended::Cancelled),
    ] {
        let running = stage.begin(server.run().into());
        running.is_accepted().await;
        running.order(word);
        assert_eq!(running.ends().await, wanted);
    }
    assert!(server.run().success[0].contains(&202), "the range is no word on it");
}

/// Fire and forget.
#[tokio::test]
async fn without_a_heartbeat_timeout_202_is_a_status_like_any_other() {
    let (stage, server) = (Stage::calm().await, Server::start(answer("202 Accepted", "queued")).await);
    for (success, wanted) in [
        (vec![202..=202], succeeded("queued")),
        (vec![200..=299], succeeded("queued")),
        (vec![200..=200], failed("status 202 Accepted: queued")),
    ] {
        let run = HttpRun { success, heartbeat_timeout: None, ..server.run() };
        assert_eq!(stage.begin(run.into()).ends().await, wanted);
    }
}

#[tokio::test]
async fn an_accepted_run_fails_when_its_app_falls_silent() {
    let (stage, server) = (Stage::calm().await, Server::start(answer("202 Accepted", "")).await);
    let clock = BootClock;
    let run = HttpRun { heartbeat_timeout: Some(Duration::from_secs(3)), ..server.run() };
    let running = stage.begin(run.into());
    running.is_accepted().await;
    // Much less than the timeout, much more than a timer's grain: so late would the end come too soon without it.
    let accepted_at = clock.now();
    until("the app is silent for a while", || clock.now().since(accepted_at) >= SOON / 2).await;
    let beat_at = clock.now();
    running.order(Order::Heartbeat);
    assert_eq!(running.ends().await, failed("accepted, but neither a heartbeat nor a completion within 3s"));
    let silent = clock.now().since(beat_at);
    assert!(silent >= Duration::from_secs(3), "{silent:?}");
}

#[tokio::test]
async fn an_answer_that_says_202_and_never_ends_is_accepted_all_the_same() {
    let script = vec![say("HTTP/1.1 202 Accepted\r\ncontent-length: 9\r\n\r\nslow"), Do::Hold];
    let (stage, server) = (Stage::calm().await, Server::start(script).await);
    for timeout in [SOON, Duration::from_secs(15)] {
        let running = stage.begin(HttpRun { timeout, ..server.run() }.into());
        running.is_accepted().await;
        running.order(Order::Complete(Ok(None)));
        assert_eq!(running.ends().await, Ended::Succeeded { note: None });
    }
    server.sees_it_go().await;
}

#[tokio::test]
async fn a_completion_that_comes_before_the_answer_counts() {
    for script in [answer("202 Accepted", ""), answer("500 Internal Server Error", ""), vec![]] {
        let (stage, mut script) = (Stage::calm().await, script);
        let gate = stage.files.path().join("gate");
        script.insert(0, Do::Await(gate.clone()));
        let server = Server::start(script).await;
        let running = stage.begin(server.run().into());
        server.is_asked().await;
        running.order(Order::Complete(Ok(Some("quick".to_owned()))));
        until("the word is taken", || running.has_taken_orders()).await;
        assert!(running.goes_on(), "the app has not answered");
        std::fs::write(gate, "").unwrap();
        assert_eq!(running.ends().await, succeeded("quick"));
    }
}

#[tokio::test]
async fn a_cancelled_request_is_dropped_at_once() {
    let half = vec![say("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nslow"), Do::Hold];
    for script in [vec![Do::Hold], half] {
        let (stage, server) = (Stage::calm().await, Server::start(script).await);
        let running = stage.begin(server.run().into());
        server.is_asked().await;
        running.order(Order::Cancel(CancelReason::Replaced));
        assert_eq!(running.ends().await, Ended::Cancelled);
        server.sees_it_go().await;
    }
}

#[tokio::test]
async fn a_dropped_attempt_closes_its_connection() {
    let (stage, server) = (Stage::calm().await, Server::start(vec![Do::Hold]).await);
    let running = stage.begin(server.run().into());
    server.is_asked().await;
    running.drop_it().await;
    server.sees_it_go().await;
}

#[tokio::test]
async fn an_attempt_goes_on_when_nobody_is_left_to_give_orders() {
    let stage = Stage::calm().await;
    let gate = stage.files.path().join("gate");
    let script = [vec![Do::Await(gate.clone())], answer("200 OK", "done")].concat();
    let server = Server::start(script).await;
    let running = stage.begin(server.run().into()).without_orders();
    server.is_asked().await;
    std::fs::write(gate, "").unwrap();
    assert_eq!(running.ends().await, succeeded("done"));
}
