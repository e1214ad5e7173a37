//! What one member of a quorum makes of keys that are not its own or not as it wrote them, and of a clock that was
//! stepped.

use baton::protocol::{MemberCampaignReply, MemberReply, MemberRequest, RaiseRequest};
use testkit::profile::{Profile, Profiled};
use testkit::redis::RedisServer;
use testkit::resp::Reply;

use super::members::connected_by;
use super::*;

const LEASE_KEY: &str = "baton:{scheduler}:lease";
const RECORD_KEY: &str = "baton:{scheduler}:record";

fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).expect("small")
}

/// Everything that a member is asked for.
fn requests() -> [MemberRequest; 4] {
    let token = Token::new(7).expect("small");
    let raise = RaiseRequest {
        candidate: candidate(1, 1),
        identity: Arc::from("web-1"),
        token,
        lease_duration: LEASE,
        guard: true,
    };
    [
        MemberRequest::Campaign(ask(1, 1)),
        MemberRequest::Raise(raise),
        MemberRequest::Renew(renewal(1, 1, token)),
        MemberRequest::Release(giving_back(1, 1, token)),
    ]
}

#[tokio::test]
async fn what_somebody_else_wrote_is_told_and_left_alone() {
    let redis = RedisServer::start_with(&["--enable-debug-command", "yes"]);
    let [(_, member)] = connected_by(&redis.url(), ["a, b, c"]).await;
    for key in [LEASE_KEY, RECORD_KEY] {
        redis.command(&["FLUSHALL"]);
        redis.command(&["SET", key, "x"]);
        let before = redis.command(&["DEBUG", "DIGEST"]);
        for request in requests() {
            is_garbage(member.ask_stamped(&role(), &request).await, key, "not a hash");
            assert_eq!(redis.command(&["DEBUG", "DIGEST"]), before, "{request:?}");
        }
    }
}

/// It told the connection: a script that may grant or extend something asks again.
#[tokio::test]
async fn a_member_that_tells_no_script_its_generation_grants_and_extends_nothing() {
    let redis = RedisServer::start();
    let profile = Profile { untold_in_scripts: &["master_replid"], ..Profile::NONE };
    let proxy = Profiled::start(redis.port(), profile).await;
    let [(_, member)] = connected_by(&proxy.url(), ["a, b, c"]).await;
    let [campaign, raise, renew, _] = requests();
    for request in [campaign, raise, renew] {
        let refused = member.ask_stamped(&role(), &request).await;
        assert!(
            matches!(&refused, Err(StoreError::Refused { reason }) if reason.contains("master_replid")),
            "{request:?}: {refused:?}"
        );
        assert_eq!(redis.command(&["DBSIZE"]), Reply::Number(0), "nothing is written");
    }
}

/// Cut anew at every question it would end as late as the last of them.
#[tokio::test]
async fn an_objection_that_a_step_of_the_clock_has_cut_begins_with_the_first_question() {
    let redis = RedisServer::start();
    let [(_, member), (_, elsewhere)] = connected_by(&redis.url(), ["a, b, c", "a, b, d"]).await;
    let renewal = MemberRequest::Renew(renewal(1, 1, Token::new(7).expect("small")));
    member.ask_stamped(&role(), &renewal).await.expect("an answer");
    let ahead = now_us(&redis) + 10 * micros(LEASE);
    // Its holder has given it back: no other moment of the record is ahead, too.
    let stepped = ["until", "0", "guard_until", "0", "guard_cause", "", "listed_until", &ahead.to_string()];
    redis.command(&[["HSET", RECORD_KEY].as_slice(), &stepped].concat());
    let asked = elsewhere.ask_stamped(&role(), &MemberRequest::Campaign(ask(2, 1))).await.expect("an answer").reply;
    let MemberReply::Campaign(MemberCampaignReply::Unlisted { remaining, .. }) = asked else { panic!("{asked:?}") };
    assert!(remaining <= LEASE * 2, "{remaining:?}");
    let stored: u64 = redis.command(&["HGET", RECORD_KEY, "listed_until"]).text().parse().expect("a moment");
    assert!(stored <= now_us(&redis) + 2 * micros(LEASE), "{stored} of {ahead}");
}

/// Whoever has it may lead. For how long is asked again, so no more is told than a lease of this store.
#[tokio::test]
async fn a_lease_of_another_store_is_an_objection_where_it_can_be_read() {
    let redis = RedisServer::start();
    let ([(_, member)], store) = (connected_by(&redis.url(), ["a, b, c"]).await, connected(&redis.url()).await);
    let (token, _) = win(&store, unguarded(1, 1)).await;
    let asked = async |lease_duration| {
        let request = CampaignRequest { lease_duration, ..unguarded(2, 1) };
        member.ask_stamped(&role(), &MemberRequest::Campaign(request)).await.map(|stamped| stamped.reply)
    };
    for lease in [LEASE / 2, LEASE * 2] {
        let answer = asked(lease).await;
        let Ok(MemberReply::Campaign(MemberCampaignReply::Held { holder, token: theirs, remaining, confirmed })) =
            answer
        else {
            panic!("{answer:?}")
        };
        assert_eq!((holder.session, theirs, confirmed), (candidate(1, 1).session, token, true));
        assert!(remaining <= lease.min(LEASE) && remaining >= LEASE / 2, "{remaining:?} of {lease:?}");
    }
    for change in [
        ["PERSIST", LEASE_KEY].as_slice(),
        &["HSET", LEASE_KEY, "token", "x"],
        &["HSET", LEASE_KEY, "session", "x"],
        &["HDEL", LEASE_KEY, "identity"],
    ] {
        redis.command(&["DEL", LEASE_KEY, RECORD_KEY]);
        win(&store, unguarded(1, 1)).await;
        redis.command(change);
        let refused = asked(LEASE).await.expect_err("it cannot be read").to_string();
        assert!(refused.contains("a replica whose store is redis"), "{change:?}: {refused}");
    }
}

#[tokio::test]
async fn the_last_token_is_granted_and_none_after_it() {
    let redis = RedisServer::start();
    let [(_, member)] = connected_by(&redis.url(), ["a, b, c"]).await;
    let floor = Token::new(Token::LIMIT - 2).expect("below 2^53");
    let asked = async |session| {
        let request = MemberRequest::Campaign(CampaignRequest { floor, ..unguarded(session, 1) });
        member.ask_stamped(&role(), &request).await.map(|stamped| stamped.reply)
    };
    let answer = asked(1).await;
    let Ok(MemberReply::Campaign(MemberCampaignReply::Granted { token, .. })) = answer else { panic!("{answer:?}") };
    assert_eq!(token.get(), Token::LIMIT - 1);
    let release = MemberRequest::Release(giving_back(1, 1, Token::NONE));
    member.ask_stamped(&role(), &release).await.expect("an answer");
    let refused = asked(2).await;
    assert!(matches!(&refused, Err(StoreError::Refused { reason }) if reason.contains("2^53")), "{refused:?}");
}
