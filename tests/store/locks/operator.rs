//! An operator's list of all names, and what is said to whose lock is ended.

use super::*;

/// Every name that has a record, in their order.
pub(super) async fn all_names(store: &RedisStore) -> Vec<LockName> {
    let (mut names, mut from) = (Vec::new(), 0);
    loop {
        let (page, next) = store.names(from).await.expect("an answer");
        names.extend(page);
        from = next;
        if from == 0 {
            names.sort();
            names.dedup();
            return names;
        }
    }
}

#[tokio::test]
async fn names_are_found_among_many_other_keys_a_few_at_a_time() {
    let redis = RedisServer::start();
    let store = connected(&redis.url()).await;
    let others = "for i = 1, 5000 do redis.call('SET', 'app:' .. i, '') end";
    redis.command(&["EVAL", others, "0"]);
    redis.command(&["SET", "baton:{locks}:lock:", "no name is empty"]);
    let mut wanted = Vec::new();
    for number in 1..=60 {
        let name = format!("order {number}/ü");
        granted(&store, ask(&name, number)).await;
        wanted.extend(names(&[&name]));
    }
    wanted.sort();
    let (page, next) = store.names(0).await.expect("an answer");
    assert!(next > 0 && page.len() < 60, "it is one look of many: {} names", page.len());
    assert_eq!(all_names(&store).await, wanted);
    let elsewhere = store_with(&in_database(&redis, 1));
    until_up(&elsewhere).await;
    assert_eq!(all_names(&elsewhere).await, [], "another database has others");
}

#[tokio::test]
async fn who_holds_and_who_waits_hear_of_an_unlock() {
    let redis = RedisServer::start();
    let store = connected(&redis.url()).await;
    let (mut holder, mut waiter) = (listening(&store, 1).await, listening(&store, 2).await);
    let token = granted(&store, ask("a b", 1)).await.token;
    assert!(is_held(&store, waiting("a b", 2)).await);
    let UnlockReply::Unlocked { holder: Some(had) } = store.unlock(unlocking("a b", token)).await.expect("an answer")
    else {
        panic!("it was held under {token}")
    };
    assert_eq!((&*had.owner, &*had.identity, had.token), ("owner 1", "web 1", token));
    let name = names(&["a b"]).remove(0);
    assert_eq!(next(&mut holder).await, WakeNews::Unlocked { id: id(1), name });
    assert_eq!(next(&mut waiter).await, wake("a b", 2));
    let after = granted(&store, waiting("a b", 2)).await.token;
    assert!(after > token);
    let differs = store.unlock(unlocking("a b", token)).await.expect("an answer");
    assert!(matches!(differs, UnlockReply::Differs { holders } if holders[0].token == after));
}

#[tokio::test]
async fn a_redis_whose_memory_is_full_can_be_unlocked() {
    let redis = RedisServer::start();
    let store = connected(&redis.url()).await;
    let token = granted(&store, ask("a", 1)).await.token;
    redis.command(&["CONFIG", "SET", "maxmemory", "1"]);
    let unlocked = store.unlock(unlocking("a", token)).await;
    assert!(matches!(unlocked, Ok(UnlockReply::Unlocked { holder: Some(_) })), "{unlocked:?}");
    redis.command(&["CONFIG", "SET", "maxmemory", "0"]);
    granted(&store, ask("a", 2)).await;
}
