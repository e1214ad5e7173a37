//! Servers whose scripts may not ask of which generation they are (R5): the sidecar asks, and tells.

use baton::protocol::GuardCause;
use testkit::profile::{Profile, Profiled};
use testkit::redis::RedisServer;
use testkit::resp::Reply;
use testkit::{wait_until, wait_until_async};

use super::live::make_free;
use super::*;

async fn follow(server: &RedisServer, master: &RedisServer) {
    server.command(&["REPLICAOF", "127.0.0.1", &master.port().to_string()]);
    wait_until(BOUND, "the replica follows", || {
        server.command(&["INFO", "replication"]).text().contains("master_link_status:up")
    })
    .await;
}

fn promote(server: &RedisServer) {
    assert_eq!(server.command(&["REPLICAOF", "NO", "ONE"]), Reply::Text("OK".to_owned()));
}

/// The same data under the same name, as another master had it before a lease was granted: what the connection knows of
/// the server is of an earlier time, and nothing in the data says so.
#[tokio::test]
async fn a_master_that_has_followed_another_meanwhile_grants_nobody_by_what_it_was() {
    let (server, other) = (RedisServer::start(), RedisServer::start());
    let proxy = Profiled::start(server.port(), Profile::MUTE).await;
    let (plain, told) = (connected(&server.url()).await, connected(&proxy.url()).await);
    // A first replica makes a master one of another generation, so it comes before there is a record.
    follow(&other, &server).await;
    make_free(&plain).await;
    let record = |server: &RedisServer| server.command(&["HGETALL", "baton:{scheduler}:record"]);
    wait_until(BOUND, "the other has the record", || record(&other) == record(&server)).await;
    promote(&other);

    // Here a leader comes, whom the other does not know.
    win(&plain, ask(1, 2)).await;
    assert!(matches!(campaign(&told, ask(2, 1)).await, CampaignReply::Held { .. }));
    follow(&server, &other).await;
    promote(&server);

    let refused = told.campaign(&role(), ask(2, 2)).await.expect_err("it was granted by what the server was");
    assert!(refused.to_string().contains("counts for nothing"), "{refused}");
    let after = campaign(&told, ask(2, 3)).await;
    assert!(matches!(after, CampaignReply::Guarded { cause: GuardCause::Generation, .. }), "{after:?}");
}

/// Redis may come to allow it, and another server behind the same name may not: each connection finds out for itself.
#[tokio::test]
async fn what_a_server_that_says_neither_info_nor_time_in_scripts_lacks_is_named() {
    let redis = RedisServer::start();
    let profile = Profile { refused_in_scripts: &["INFO", "TIME"], ..Profile::NONE };
    let proxy = Profiled::start(redis.port(), profile).await;
    let store = store_with(&config(&proxy.url()));
    until_up(&store).await;
    let mut said = String::new();
    wait_until_async(BOUND, "the refusal is told", async || {
        said = store.campaign(&role(), ask(1, 1)).await.map_or_else(|error| error.to_string(), |_| String::new());
        !said.is_empty()
    })
    .await;
    assert!(said.contains("may not ask for the time (TIME)"), "{said}");
}

/// The same data on a server of another generation. `guard: heard` is for those that tell none; under `durability:
/// synchronous` all of them are as good as one.
#[tokio::test]
async fn a_promotion_shuts_a_role_for_who_asks_and_for_nobody_else() {
    let (server, other) = (RedisServer::start(), RedisServer::start());
    let profile = Profile { untold: &["master_replid"], ..Profile::MUTE };
    let proxy = Profiled::start(server.port(), profile).await;
    let synchronous = store_with(&RedisConfig { durability: Durability::Synchronous, ..config(&server.url()) });
    let (plain, unasked) = (connected(&server.url()).await, heard(&proxy.url()).await);
    until_up(&synchronous).await;
    make_free(&plain).await;
    let record = |server: &RedisServer| server.command(&["HGETALL", "baton:{scheduler}:record"]);
    for (away, back) in [(&other, &server), (&server, &other)] {
        follow(away, back).await;
        wait_until(BOUND, "both have the record", || record(away) == record(back)).await;
        promote(away);
    }
    for (number, store) in [(2, &synchronous), (3, &unasked)] {
        let (token, _) = win(store, ask(number, 2)).await;
        let renewed = renew(store, renewal(number, 2, token)).await;
        assert!(matches!(renewed, RenewReply::Renewed { reasserted: false, .. }), "{renewed:?}");
        assert_eq!(release(store, giving_back(number, 2, token)).await, ReleaseReply::Released);
    }
    let asked = campaign(&plain, ask(4, 2)).await;
    assert!(matches!(asked, CampaignReply::Guarded { cause: GuardCause::Generation, .. }), "{asked:?}");
}
