//! `GET /events`

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use baton::base::clock::{BootClock, Clock, SharedClock};
use baton::protocol::Mono;
use serde_json::Value;

use crate::client::{Client, PATIENCE, ask};
use crate::stage::{Cue, Server, Staged, follower_fixture, leader_fixture};

/// One Server-Sent Event, or a comment.
#[derive(Debug, Default)]
struct Event {
    name: Option<String>,
    id: Option<String>,
    data: String,
    comment: Option<String>,
}

struct Events {
    client: Client,
    text: String,
}

impl Events {
    async fn open(server: &Server, headers: &[(&str, &str)]) -> Self {
        let mut client = Client::connect(server.address).await;
        let head = client.head("GET /events", headers);
        client.send(head.as_bytes()).await;
        let reply = client.reply_head().await;
        assert_eq!((reply.status, reply.header("content-type")), (200, Some("text/event-stream")));
        assert_eq!(reply.header("cache-control"), Some("no-store"));
        let mut events = Self { client, text: String::new() };
        let greeting = events.next().await.unwrap();
        assert!(greeting.comment.is_some() && greeting.name.is_none(), "{greeting:?}");
        events
    }

    async fn next(&mut self) -> Option<Event> {
        while !self.text.contains("\n\n") {
            self.text += &String::from_utf8(self.client.chunk().await?).unwrap();
        }
        let rest = self.text.split_off(self.text.find("\n\n").unwrap() + 2);
        let mut event = Event::default();
        for line in std::mem::replace(&mut self.text, rest).lines().filter(|line| !line.is_empty()) {
            let (field, value) = line.split_once(':').unwrap();
            match field {
                "event" => event.name = Some(value.trim().to_owned()),
                "id" => event.id = Some(value.trim().to_owned()),
                "data" => event.data += value,
                "" => event.comment = Some(value.to_owned()),
                "retry" => assert!(value.trim().parse::<u64>().is_ok(), "{line}"),
                other => panic!("{other} is not a field of an event"),
            }
        }
        Some(event)
    }

    /// The next event of a role.
    async fn role(&mut self) -> (Value, Option<String>) {
        let reading = async {
            loop {
                let event = self.next().await.expect("the stream goes on");
                if event.name.as_deref() == Some("role") {
                    return (serde_json::from_str(&event.data).unwrap(), event.id);
                }
            }
        };
        // Heartbeats keep a stream open that tells nothing.
        tokio::time::timeout(PATIENCE, reading).await.unwrap_or_else(|_| panic!("no event of a role for {PATIENCE:?}"))
    }
}

#[tokio::test]
async fn the_stream_begins_with_every_role_and_goes_on_with_every_change() {
    let a = Staged::new("a", Duration::from_secs(60), Cue::Rival("web-2"));
    let b = Staged::new("b", Duration::from_secs(60), Cue::Rival("web-2"));
    a.until(|snapshot| snapshot.view.holder.is_some()).await;
    b.until(|snapshot| snapshot.view.holder.is_some()).await;
    let server = Server::start(&[&a, &b]).await;
    let mut events = Events::open(&server, &[]).await;
    let (first, first_id) = events.role().await;
    let (second, second_id) = events.role().await;
    assert_eq!((&first["role"], &second["role"]), (&"a".into(), &"b".into()));
    assert_eq!((first_id.is_none(), second_id.is_some()), (true, true), "only the last of a batch carries the id");
    a.cue(Cue::Silence).await;
    let (changed, changed_id) = events.role().await;
    assert_eq!((&changed["role"], changed["index"].as_u64() > first["index"].as_u64()), (&"a".into(), true));
    assert_ne!(changed_id, second_id);
}

#[tokio::test]
async fn while_leading_the_promise_is_repeated_before_it_runs_out() {
    let (_role, server) = leader_fixture().await;
    let mut events = Events::open(&server, &[]).await;
    let clock = crate::stage::clock();
    let (mut last, _) = events.role().await;
    assert_eq!(last["leader"], true);
    for _ in 0..4 {
        let told_at = clock.now();
        let (next, _) = events.role().await;
        let valid_for = Duration::from_millis(last["valid_for_ms"].as_u64().unwrap());
        assert!(clock.now().since(told_at) < valid_for, "{last} was not repeated in time");
        assert_eq!((&next["leader"], &next["index"]), (&last["leader"], &last["index"]));
        last = next;
    }
}

#[tokio::test]
async fn the_end_of_a_term_is_told_though_nobody_asked() {
    let role = Staged::new("scheduler", Duration::from_secs(1), Cue::Grant);
    role.until_leading().await;
    let server = Server::start(&[&role]).await;
    let mut events = Events::open(&server, &[]).await;
    assert_eq!(events.role().await.0["leader"], true);
    role.cue(Cue::Silence).await;
    while events.role().await.0["leader"] == true {}
}

#[tokio::test]
async fn a_leader_that_was_named_is_taken_back_when_what_is_known_of_it_has_expired() {
    let (role, server) = follower_fixture().await;
    let mut events = Events::open(&server, &[]).await;
    assert_eq!(events.role().await.0["holder"], "web-2");
    // The role's task is gone: nobody will say that the holder is not known any more.
    role.end();
    while events.role().await.0["holder"] != Value::Null {}
}

#[tokio::test]
async fn a_client_that_comes_back_is_told_only_what_it_missed() {
    let role = Staged::new("scheduler", Duration::from_secs(60), Cue::Rival("web-2"));
    role.until(|snapshot| snapshot.view.holder.is_some()).await;
    let server = Server::start_with(&[&role], |plan| plan.heartbeat = Duration::from_millis(50)).await;
    let (_, id) = Events::open(&server, &[]).await.role().await;
    let id = id.unwrap();
    let mut again = Events::open(&server, &[("Last-Event-ID", &id)]).await;
    for _ in 0..2 {
        let event = again.next().await.unwrap();
        assert!(event.comment.is_some() && event.name.is_none(), "nothing has changed, but told {event:?}");
    }
    role.cue(Cue::Silence).await;
    assert_ne!(again.role().await.1.as_ref(), Some(&id));
    let mut stale = Events::open(&server, &[("Last-Event-ID", &id)]).await;
    assert_eq!(stale.role().await.0["role"], "scheduler", "the role has changed since that id");
    let mut foreign = Events::open(&server, &[("Last-Event-ID", "no id of ours")]).await;
    assert_eq!(foreign.role().await.0["role"], "scheduler");
}

#[tokio::test]
async fn a_leader_that_comes_back_is_told_its_promise_whatever_it_knows() {
    let (_role, server) = leader_fixture().await;
    let (_, id) = Events::open(&server, &[]).await.role().await;
    let mut again = Events::open(&server, &[("Last-Event-ID", &id.unwrap())]).await;
    assert_eq!(again.role().await.0["leader"], true);
}

#[tokio::test]
async fn a_quiet_stream_has_heartbeats() {
    let role = Staged::new("scheduler", Duration::from_secs(60), Cue::Rival("web-2"));
    role.until(|snapshot| snapshot.view.holder.is_some()).await;
    let server = Server::start_with(&[&role], |plan| plan.heartbeat = Duration::from_millis(50)).await;
    let mut events = Events::open(&server, &[]).await;
    events.role().await;
    for _ in 0..3 {
        assert!(events.next().await.unwrap().comment.is_some());
    }
}

#[tokio::test]
async fn a_role_that_a_reload_adds_joins_the_open_streams() {
    let (old, server) = follower_fixture().await;
    let mut events = Events::open(&server, &[]).await;
    assert_eq!(events.role().await.0["role"], "scheduler");
    let new = Staged::new("reports", Duration::from_secs(60), Cue::Rival("web-2"));
    server.roles.replace(vec![old.handle.clone(), new.handle.clone()], None);
    while events.role().await.0["role"] != "reports" {}
}

#[tokio::test]
async fn a_client_that_goes_away_takes_its_stream_with_it() {
    let (role, server) = follower_fixture().await;
    let watchers_before = role.watchers();
    let mut events = Events::open(&server, &[]).await;
    events.role().await;
    role.until_watchers(|watchers| watchers > watchers_before).await;
    drop(events);
    role.until_watchers(|watchers| watchers == watchers_before).await;
}

#[tokio::test]
async fn shutting_down_ends_the_streams() {
    let (_role, server) = follower_fixture().await;
    let mut events = Events::open(&server, &[]).await;
    events.role().await;
    server.shut_down().await;
    while events.next().await.is_some() {}
}

#[tokio::test]
async fn many_streams_are_told_of_one_change() {
    let (role, server) = follower_fixture().await;
    let mut streams = Vec::new();
    for _ in 0..50 {
        let mut events = Events::open(&server, &[]).await;
        events.role().await;
        streams.push(events);
    }
    role.cue(Cue::Silence).await;
    let index = crate::client::ask_until(server.address, "GET /leader", |reply| reply.json()["state"] == "unreachable");
    let index = index.await.json()["index"].clone();
    for events in &mut streams {
        while events.role().await.0["index"] != index {}
    }
    assert_eq!(ask(server.address, "GET /leader").await.status, 200);
}

/// Counts how often it is read: once at least by whoever looks at how a role stands.
#[derive(Debug, Default)]
struct CountingClock(AtomicUsize);

impl Clock for CountingClock {
    fn now(&self) -> Mono {
        self.0.fetch_add(1, Ordering::Relaxed);
        BootClock.now()
    }
}

#[tokio::test]
async fn a_change_of_one_role_among_many_costs_a_stream_no_look_at_the_others() {
    const ROLES: usize = 1_000;
    let clock = Arc::new(CountingClock::default());
    let by = || Arc::clone(&clock) as SharedClock;
    // No renewal is due, nor any promise half over, while this lasts.
    let lease = Duration::from_secs(3_600);
    let roles: Vec<Staged> = (0..ROLES).map(|n| Staged::by(by(), &format!("role-{n:04}"), lease, Cue::Grant)).collect();
    for role in &roles {
        role.until_leading().await;
    }
    let server = Server::start(&roles.iter().collect::<Vec<_>>()).await;
    let mut events = Events::open(&server, &[]).await;
    for _ in 0..ROLES {
        assert_eq!(events.role().await.0["leader"], true);
    }
    let before = clock.0.load(Ordering::Relaxed);
    for role in &roles[500..510] {
        role.cue(Cue::Rival("web-2")).await;
        assert_eq!(role.handle.resign(None).await, Ok(()));
        while events.role().await.0["leader"] == true {}
    }
    let looks = clock.0.load(Ordering::Relaxed) - before;
    assert!(looks < ROLES, "{looks} looks for ten changes");
}
