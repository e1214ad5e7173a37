//! Leads, from the real sidecar.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::time::{Duration, Instant};

use crate::support::{AT_ONCE, Dev, free_ports, until, url, within};
use baton_sidecar::{Baton, Error, Lost, Scope};

#[tokio::test]
async fn another_leads_as_soon_as_a_lead_was_left() {
    let dev = Dev::start().await;
    let (replica, lead) = dev.lead(Scope::Pod).await;
    let token = lead.token().unwrap();
    let cancellation = lead.cancellation();
    assert!(!cancellation.is_cancelled());
    let left = Instant::now();
    lead.leave().await;
    assert!(cancellation.is_cancelled());
    let next = dev.baton(1 - replica);
    let next = within("the other leads", next.leading("scheduler")).await.unwrap();
    assert!(next.token().unwrap() > token);
    assert!(left.elapsed() < AT_ONCE, "it waited until the promise had run out");
}

#[tokio::test]
async fn a_lead_that_is_dropped_is_left() {
    let dev = Dev::start().await;
    let (replica, lead) = dev.lead(Scope::Pod).await;
    let left = Instant::now();
    drop(lead);
    let next = dev.baton(1 - replica);
    let next = within("the other leads", next.leading("scheduler")).await.unwrap();
    assert!(next.token().is_ok());
    assert!(left.elapsed() < AT_ONCE, "it waited until the promise had run out");
}

#[tokio::test]
async fn while_a_replica_leads_no_other_does() {
    let dev = Dev::start().await;
    let (replica, lead) = dev.lead(Scope::Process).await;
    let next = dev.baton(1 - replica);
    let waits = tokio::time::timeout(Duration::from_secs(1), next.leading("scheduler").into_future()).await;
    assert!(waits.is_err(), "it leads beside another");
    assert!(lead.token().is_ok());
}

#[tokio::test]
async fn a_lead_that_is_resigned_is_over() {
    let dev = Dev::start().await;
    let (replica, lead) = dev.lead(Scope::Pod).await;
    let work = lead.run(std::future::pending::<()>());
    let resign = async { dev.call(replica, "POST", "/leader/scheduler/resign", "") };
    let (lost, resigned) = within("the work is ended", async { tokio::join!(work, resign) }).await;
    assert_eq!(resigned.map(|(status, _)| status), Some(202));
    assert_eq!(lost, Err(Lost::Told));
    within("it is cancelled", lead.cancelled()).await;
    assert_eq!(lead.token(), Err(Lost::Told), "there is no token any more");
    assert_eq!(lead.run(async {}).await, Err(Lost::Told));
    lead.leave().await;
    let next = dev.baton(1 - replica);
    let next = within("the other leads, once this has stopped", next.leading("scheduler")).await.unwrap();
    assert!(next.token().is_ok());
}

#[tokio::test]
async fn what_the_work_returns_is_returned() {
    let dev = Dev::start().await;
    let (_, lead) = dev.lead(Scope::Pod).await;
    assert_eq!(lead.run(async { lead.token() }).await, Ok(lead.token()));
}

#[tokio::test]
async fn a_lead_without_its_sidecar_is_over() {
    let dev = Dev::start().await;
    let (_, lead) = dev.lead(Scope::Pod).await;
    drop(dev);
    within("it is cancelled", lead.cancelled()).await;
    assert!(lead.token().is_err());
    within("leaving takes no longer than a second or so", lead.leave()).await;
}

#[test]
fn a_lead_without_its_runtime_is_over() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (_dev, lead) = runtime.block_on(async {
        let dev = Dev::start().await;
        let (_, lead) = dev.lead(Scope::Process).await;
        (dev, lead)
    });
    assert!(lead.token().is_ok());
    drop(runtime);
    assert_eq!(lead.token(), Err(Lost::Disconnected));
}

#[tokio::test]
async fn the_sidecar_may_come_later() {
    let port = free_ports();
    let mut begun = tokio::spawn(async move {
        let baton = [Baton::new().url(url(port)), Baton::new().url(url(port + 1))];
        tokio::select! {
            lead = baton[0].leading("scheduler") => lead,
            lead = baton[1].leading("scheduler") => lead,
        }
    });
    let soon = tokio::time::timeout(Duration::from_millis(200), &mut begun).await;
    assert!(soon.is_err(), "nobody is there");
    let _dev = Dev::start_at(port, "10m");
    let lead = within("it leads", begun).await.unwrap().unwrap();
    assert!(lead.token().is_ok());
}

#[tokio::test]
async fn a_role_that_there_is_not_is_told() {
    let dev = Dev::start().await;
    let error = within("it is refused", dev.baton(0).leading("schedular")).await.unwrap_err();
    let Error::Refused { status, kind, detail } = error else { panic!("{error}") };
    assert_eq!((status, &*kind), (404, "urn:baton:problem:unknown-role"));
    assert!(detail.contains("schedular"), "{detail}");
}

#[tokio::test]
async fn a_url_that_is_none_is_told() {
    let error = Baton::new().url("localhost").leading("scheduler").await.unwrap_err();
    assert!(matches!(error, Error::BadUrl(url) if url == "localhost"));
}

#[tokio::test]
async fn a_token_file_that_cannot_be_read_is_told() {
    let missing = std::env::temp_dir().join("baton-sidecar-there-is-no-such-file");
    let baton = Baton::new().url(url(free_ports())).token_file(&missing);
    let error = within("it is told", baton.leading("scheduler")).await.unwrap_err();
    assert!(matches!(error, Error::TokenFile { path, .. } if path == missing));
}

#[tokio::test]
async fn a_token_that_is_refused_is_told() {
    let file = std::env::temp_dir().join(format!("baton-sidecar-{}", std::process::id()));
    std::fs::write(&file, "secret\n").unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let seen = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let head: Vec<String> =
            BufReader::new(&stream).lines().map_while(Result::ok).take_while(|line| !line.is_empty()).collect();
        stream.write_all(b"HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\n\r\n").unwrap();
        head
    });
    let baton = Baton::new().url(url(port)).token_file(&file);
    let error = within("it is refused", baton.leading("scheduler")).await.unwrap_err();
    std::fs::remove_file(&file).unwrap();
    assert!(matches!(error, Error::Refused { status: 401, .. }), "{error}");
    let head = seen.join().unwrap();
    assert!(head.contains(&"authorization: Bearer secret".to_owned()), "{head:?}");
    assert_eq!(head[0], "GET /leader/scheduler/hold?wait=30s&scope=pod HTTP/1.1");
}

#[tokio::test]
async fn a_lead_outlasts_what_is_promised_at_once() {
    // 1666 ms, as baton dev does it.
    let dev = Dev::start_with("5s").await;
    let (_, lead) = dev.lead(Scope::Pod).await;
    let begun = Instant::now();
    until("it leads for longer", || {
        assert!(lead.token().is_ok());
        begun.elapsed() > Duration::from_secs(4)
    })
    .await;
}
