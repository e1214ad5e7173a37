//! R8: what is published is heard, and what may have been missed is told.

use baton::base::Subscription;
use baton::protocol::{Announcement, AnnouncementKind, Holder};
use baton::store::News;
use testkit::proxy::{Network, Proxy};
use testkit::redis::{Data, RedisServer};
use testkit::resp::Reply;
use testkit::{wait_until, wait_until_async};

use super::*;

async fn next(news: &mut Subscription<News>) -> News {
    within("news", news.recv()).await.expect("the store lives")
}

fn said(kind: AnnouncementKind, token: Token, count: u64, audience: u32, identity: &str) -> News {
    let holder = Holder { session: SessionId::from_u128(1), identity: Arc::from(identity) };
    News::Said(Box::new(Announcement { kind, token, count, holder, audience }))
}

fn subscribers(redis: &RedisServer, role: &str) -> i64 {
    let channel = format!("baton:{{{role}}}:news");
    match redis.command(&["PUBSUB", "NUMSUB", &channel]) {
        Reply::List(mut items) => items.remove(1).number(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn every_listener_hears_grant_heartbeat_and_release() {
    let redis = RedisServer::start();
    let store = connected(&redis.url()).await;
    let (mut one, mut other) = (store.subscribe(&role(), None), store.subscribe(&role(), None));
    let mut elsewhere = store.subscribe(&RoleName::new("other").expect("a label"), None);
    for news in [&mut one, &mut other, &mut elsewhere] {
        assert_eq!(next(news).await, News::Gap);
    }
    let identity: Arc<str> = Arc::from("web 0 – é");
    let (token, count) = win(&store, CampaignRequest { identity: Arc::clone(&identity), ..unguarded(1, 1) }).await;
    let request = RenewRequest { identity: Arc::clone(&identity), audience: 41, guard: false, ..renewal(1, 1, token) };
    match renew(&store, request).await {
        RenewReply::Renewed { audience, .. } => assert_eq!(audience, 1, "one connection, however many listen to it"),
        other => panic!("{other:?}"),
    }
    release(&store, ReleaseRequest { audience: 7, ..giving_back(1, 1, token) }).await;
    for news in [&mut one, &mut other] {
        assert_eq!(next(news).await, said(AnnouncementKind::Grant, token, count, 0, &identity));
        assert_eq!(next(news).await, said(AnnouncementKind::Heartbeat, token, count + 1, 41, &identity));
        assert_eq!(next(news).await, said(AnnouncementKind::Release, token, count + 2, 7, &identity));
    }
    assert!(elsewhere.try_recv().is_err(), "another role's news");
}

#[tokio::test]
async fn a_late_listener_is_told_of_its_gap_and_the_first_is_not_disturbed() {
    let redis = RedisServer::start();
    let store = connected(&redis.url()).await;
    let mut first = store.subscribe(&role(), None);
    assert_eq!(next(&mut first).await, News::Gap);
    let mut second = store.subscribe(&role(), None);
    assert_eq!(next(&mut second).await, News::Gap);
    let (token, count) = win(&store, unguarded(1, 1)).await;
    let grant = said(AnnouncementKind::Grant, token, count, 0, "web-1");
    assert_eq!((next(&mut first).await, next(&mut second).await), (grant.clone(), grant));
}

#[tokio::test]
async fn a_role_that_nobody_listens_to_is_unsubscribed() {
    let redis = RedisServer::start();
    let store = connected(&redis.url()).await;
    let (one, two) = (store.subscribe(&role(), None), store.subscribe(&role(), None));
    let mut kept = store.subscribe(&RoleName::new("kept").expect("a label"), None);
    wait_until(BOUND, "subscribed", || subscribers(&redis, "scheduler") == 1 && subscribers(&redis, "kept") == 1).await;
    drop(one);
    drop(two);
    wait_until(BOUND, "unsubscribed", || subscribers(&redis, "scheduler") == 0).await;
    assert_eq!((subscribers(&redis, "kept"), next(&mut kept).await), (1, News::Gap));
    let mut again = store.subscribe(&role(), None);
    assert_eq!(next(&mut again).await, News::Gap);
    win(&store, unguarded(1, 1)).await;
    assert!(matches!(next(&mut again).await, News::Said(_)));
}

#[tokio::test]
async fn a_role_that_nobody_listens_to_is_unsubscribed_however_much_is_heard_of_others() {
    let redis = RedisServer::start();
    let store = impatient(&redis.url()).await;
    let gone = store.subscribe(&role(), None);
    let mut kept = store.subscribe(&RoleName::new("kept").expect("a label"), None);
    wait_until(BOUND, "subscribed", || subscribers(&redis, "scheduler") == 1 && subscribers(&redis, "kept") == 1).await;
    assert_eq!(next(&mut kept).await, News::Gap);
    drop(gone);
    let message = format!("v1 heartbeat 7 1 0 {:032x} web-1", 1);
    wait_until_async(BOUND, "unsubscribed", async || {
        redis.command(&["PUBLISH", "baton:{kept}:news", &message]);
        assert!(matches!(next(&mut kept).await, News::Said(_)));
        subscribers(&redis, "scheduler") == 0
    })
    .await;
}

#[tokio::test]
async fn a_new_subscription_after_a_restart_tells_everybody_of_the_gap() {
    let mut redis = RedisServer::start();
    let store = connected(&redis.url()).await;
    let (mut one, mut other) =
        (store.subscribe(&role(), None), store.subscribe(&RoleName::new("other").expect("a label"), None));
    assert_eq!((next(&mut one).await, next(&mut other).await), (News::Gap, News::Gap));
    redis.restart(Data::Lost);
    assert_eq!((next(&mut one).await, next(&mut other).await), (News::Gap, News::Gap));
    until_up(&store).await;
    win(&store, unguarded(1, 1)).await;
    assert!(matches!(next(&mut one).await, News::Said(_)), "and hears again");
}

#[tokio::test]
async fn listening_may_begin_before_redis_is_there() {
    let mut redis = RedisServer::start();
    redis.kill();
    let store = store_with(&config(&redis.url()));
    let mut news = store.subscribe(&role(), None);
    until_down(&store, "refused").await;
    assert!(news.try_recv().is_err(), "nothing is subscribed yet");
    redis.start_again();
    assert_eq!(next(&mut news).await, News::Gap);
}

#[tokio::test]
async fn an_idle_subscription_in_a_black_hole_is_noticed() {
    let redis = RedisServer::start();
    let proxy = Proxy::start(redis.entry_port()).await;
    let store = impatient(&proxy.url()).await;
    let mut news = store.subscribe(&role(), None);
    assert_eq!(next(&mut news).await, News::Gap);
    let before = proxy.accepted();
    proxy.set(Network::Stalled);
    // Nothing is sent but the subscription's own signs of life.
    wait_until(BOUND, "the subscription tries another connection", || proxy.accepted() > before).await;
    proxy.set(Network::Good);
    assert_eq!(next(&mut news).await, News::Gap);
}

#[tokio::test]
async fn a_subscription_on_which_something_is_heard_asks_for_no_sign_of_life_and_an_idle_one_does() {
    let redis = RedisServer::start();
    // It asks after two seconds of silence.
    let store = RedisStore::connect(&config(&redis.url()), ms(5_000), 7).expect("the configuration is good");
    let mut news = store.subscribe(&role(), None);
    assert_eq!(next(&mut news).await, News::Gap);
    let pings = || calls(&redis, "ping");
    let message = format!("v1 heartbeat 7 1 0 {:032x} web-1", 1);
    let before = pings();
    let mut pace = tokio::time::interval(ms(100));
    for _ in 0..26 {
        pace.tick().await;
        redis.command(&["PUBLISH", "baton:{scheduler}:news", &message]);
        assert!(matches!(next(&mut news).await, News::Said(_)));
    }
    assert_eq!(pings(), before, "in more than two seconds");
    wait_until(BOUND, "a PING once nothing is heard any more", || pings() > before).await;
}

#[tokio::test]
async fn a_gap_is_told_when_the_subscription_alone_was_closed() {
    let redis = RedisServer::start();
    let store = connected(&redis.url()).await;
    let mut news = store.subscribe(&role(), None);
    assert_eq!(next(&mut news).await, News::Gap);
    redis.command(&["CLIENT", "KILL", "TYPE", "pubsub"]);
    assert_eq!(next(&mut news).await, News::Gap);
}

#[tokio::test]
async fn foreign_messages_on_our_channel_are_not_heard() {
    let redis = RedisServer::start();
    let store = connected(&redis.url()).await;
    let mut news = store.subscribe(&role(), None);
    assert_eq!(next(&mut news).await, News::Gap);
    for message in ["hello", "v1 grant x 1 0 ff web", "v9 grant 1 1 0 ff web", ""] {
        assert_eq!(redis.command(&["PUBLISH", "baton:{scheduler}:news", message]), Reply::Number(1));
    }
    let (token, count) = win(&store, unguarded(1, 1)).await;
    assert_eq!(next(&mut news).await, said(AnnouncementKind::Grant, token, count, 0, "web-1"));
}

#[tokio::test]
async fn a_subscription_does_not_stay_at_a_server_that_commands_have_left() {
    let (first, second) = (RedisServer::start(), RedisServer::start());
    let proxy = Proxy::start(first.entry_port()).await;
    let store = connected(&proxy.url()).await;
    let mut news = store.subscribe(&role(), None);
    assert_eq!(next(&mut news).await, News::Gap);
    // As a Service does whose pod was exchanged: what is connected stays, what connects goes elsewhere.
    proxy.lead_to(second.entry_port());
    first.command(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
    assert_eq!(next(&mut news).await, News::Gap);
    let (token, count) = win(&store, unguarded(1, 1)).await;
    assert_eq!(next(&mut news).await, said(AnnouncementKind::Grant, token, count, 0, "web-1"));
}
