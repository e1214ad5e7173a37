//! `locks.store` and `jobsStore`: what they become, and what is refused.

use std::time::Duration;

use baton::config::{Config, Guard, LiveChanges, RedisConfig, Secret, StoreConfig, StoreUse, check_text};

use crate::support::{check, environment, good, good_with, refused};

const LEASES: &str = "identity: web-0\nroles: [{ name: scheduler }]\nstore: { kubernetes: {} }\n";
const QUORUM: &str = "identity: web-0\nroles: [{ name: scheduler }]\nstore: { quorum: { members: \
                      [{ url: 'redis://a' }, { url: 'redis://b' }, { url: 'redis://c' }] } }\n";
const JOBS: &str = "jobs: [{ name: tick, schedule: '@daily', run: { http: { url: 'http://app' } } }]\n";

/// A file with this in either section, from line 4 on.
fn file(of: StoreUse, redis: &str) -> String {
    match of {
        StoreUse::Locks => format!("{LEASES}locks:\n  store:\n    redis:\n{redis}"),
        _ => format!("{LEASES}jobsStore:\n  redis:\n{redis}{JOBS}"),
    }
}

fn own(config: &Config, of: StoreUse) -> &RedisConfig {
    match config.own_store(of) {
        Some(StoreConfig::Redis(redis)) => redis,
        other => panic!("{other:?}"),
    }
}

const BOTH: [(StoreUse, &str); 2] = [(StoreUse::Locks, "locks.store.redis"), (StoreUse::Jobs, "jobsStore.redis")];

#[test]
fn they_take_every_word_of_a_redis_and_have_its_defaults() {
    for (of, _) in BOTH {
        let config = good(&file(of, "      url: redis://own\n"));
        let plain = own(&config, of);
        assert_eq!((plain.key_prefix.as_str(), plain.guard, plain.replication.acks), ("baton", Guard::Strict, 0));
        assert_eq!(plain.command_timeout, Duration::from_secs(1), "roles renew every five seconds");
        assert!(matches!(config.store_of(of), StoreConfig::Redis(_)));
        assert!(matches!(config.store(), StoreConfig::Kubernetes(_)));
        let whole = "      url: 'rediss-sentinel://${HOST}:26379/1?sentinelServiceName=main'\n      username: u\n      \
                     password: '${PASSWORD}'\n      tls: {}\n      keyPrefix: shop\n      commandTimeout: 4s\n      \
                     replication: { acks: 2, mode: waitaof, timeout: 3s }\n      guard: off\n";
        let config = good_with(&file(of, whole), &[("HOST", "s"), ("PASSWORD", "hunter2")]);
        let all = own(&config, of);
        assert_eq!((all.key_prefix.as_str(), all.guard, all.replication.acks), ("shop", Guard::Off, 2));
        assert!(matches!(all.password, Some(Secret::Value(_))));
        assert!(!format!("{config:?}").contains("hunter2") && !format!("{config:?}").contains("26379"), "{config:?}");
    }
    let none = good(LEASES);
    assert_eq!((none.own_store(StoreUse::Locks), none.own_store(StoreUse::Jobs)), (None, None));
    assert!(matches!(none.store_of(StoreUse::Locks), StoreConfig::Kubernetes(_)));
}

#[test]
fn they_stand_beside_any_store_and_may_be_the_same_one() {
    let members = "[{ url: 'redis://a' }, { url: 'redis://b' }, { url: 'redis://c' }]";
    let own = "{ redis: { url: 'redis://a' } }";
    for store in ["redis: { url: 'redis://a' }", &format!("quorum: {{ members: {members} }}"), "kubernetes: {}"] {
        let text = format!(
            "roles: [{{ name: a }}]\nstore: {{ {store} }}\nlocks: {{ store: {own} }}\njobsStore: {own}\n{JOBS}"
        );
        let loaded = check(&text).unwrap_or_else(|error| panic!("{error}"));
        assert!(loaded.warnings.is_empty(), "{:?}", loaded.warnings);
        assert_eq!(loaded.config.stores().count(), 3);
        // One that nothing is kept in yet is there for jobs that a reload brings.
        let loaded = check(&text.replace(JOBS, "")).unwrap_or_else(|error| panic!("{error}"));
        assert!(loaded.warnings.is_empty(), "{:?}", loaded.warnings);
    }
}

#[test]
fn the_timeout_of_locks_is_bounded_by_their_lease_and_that_of_jobs_by_nothing() {
    let locks = |lease: &str, more: &str| {
        format!("{LEASES}locks: {{ lease: {lease}, store: {{ redis: {{ url: 'redis://own'{more} }} }} }}\n")
    };
    let timeout = |text: &str| own(&good(text), StoreUse::Locks).command_timeout;
    assert_eq!(timeout(&locks("30s", "")), Duration::from_secs(1));
    assert_eq!(timeout(&locks("3s", "")), Duration::from_millis(500), "half of a third of the lease");
    assert_eq!(timeout(&locks("3s", ", commandTimeout: 999ms")), Duration::from_millis(999));
    refused(
        &locks("3s", ", commandTimeout: 1s"),
        &[(4, "locks.store.redis.commandTimeout", "a third of locks.lease, 1s")],
    );
    let text = file(StoreUse::Jobs, "      url: redis://own\n      commandTimeout: 1m\n");
    assert_eq!(own(&good(&text), StoreUse::Jobs).command_timeout, Duration::from_secs(60));
}

#[test]
fn what_is_wrong_is_told_under_its_own_path() {
    for (of, path) in BOTH {
        let line = if of == StoreUse::Locks { 7 } else { 6 };
        let at = |key: &str| format!("{path}.{key}");
        refused(
            &file(of, "      url: http://own\n      usernam: u\n      commandTimeout: 0s\n      guard: maybe\n"),
            &[
                (line, &at("url"), "unknown scheme"),
                (line + 1, &at("usernam"), "did you mean `username`"),
                (line + 2, &at("commandTimeout"), "is zero"),
                (line + 3, &at("guard"), "write one of `strict`, `heard`, `off`"),
            ],
        );
        refused(
            &file(of, "      url: redis://own\n      passwordFile: /nowhere/pass\n      tls: {}\n"),
            &[(line + 1, &at("passwordFile"), "cannot be read"), (line + 2, &at("tls"), "does not ask for TLS")],
        );
        refused(&file(of, "      keyPrefix: a\n"), &[(line - 1, &at("url"), "is missing")]);
    }
    refused(
        &format!("{LEASES}locks: {{ store: {{ quorum: {{}} }} }}\njobsStore: {{ kubernetes: {{}} }}\n{JOBS}"),
        &[
            (4, "locks.store.redis", "is missing"),
            (4, "locks.store.quorum", "unknown key"),
            (5, "jobsStore.redis", "is missing"),
            (5, "jobsStore.kubernetes", "unknown key"),
        ],
    );
    refused(&format!("{LEASES}jobsStore: redis\n{JOBS}"), &[(4, "jobsStore", "write a mapping with the key `redis`")]);
    refused(
        &format!("{LEASES}locks: {{ lease: 1ms, store: {{ redis: {{ url: x }} }} }}\n"),
        &[(4, "locks.lease", "between 100ms and 24h"), (4, "locks.store.redis.url", "scheme")],
    );
}

#[test]
fn who_lacks_one_is_told_which_key_is_the_remedy() {
    refused(
        &format!("{LEASES}locks: {{ lease: 30s }}\n"),
        &[(4, "locks", "give them a Redis of their own, locks.store")],
    );
    refused(&format!("{QUORUM}{JOBS}"), &[(4, "jobs", "jobsStore, or remove them")]);
}

#[test]
fn what_is_doubtful_is_a_warning_in_words_of_what_is_kept() {
    let warnings = |of, redis: &str| {
        let text = file(of, redis);
        let warnings = check(&text).unwrap_or_else(|error| panic!("{error}")).warnings;
        warnings.into_iter().map(|warning| format!("{}: {}", warning.path, warning.message)).collect::<Vec<_>>()
    };
    let redis = "      url: redis-cluster://own\n      guard: off\n      password: plain\n";
    for (of, path) in BOTH {
        let told = warnings(of, redis);
        assert_eq!(told.len(), 3, "{told:?}");
        let words = if of == StoreUse::Locks { ["can grant a lock", "granted to two"] } else { ["claims", "no guard"] };
        for (key, words) in [("replication", words[0]), ("guard", words[1]), ("password", "plain text")] {
            let start = format!("{path}.{key}: ");
            assert!(told.iter().any(|one| one.starts_with(&start) && one.contains(words)), "{start}{words}: {told:?}");
        }
    }
}

#[test]
fn their_files_are_watched_and_a_change_asks_for_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let (one, two) = (folder.path().join("one"), folder.path().join("two"));
    for file in [&one, &two] {
        std::fs::write(file, "secret").unwrap();
    }
    let with = |locks: &std::path::Path, jobs: &std::path::Path| {
        let redis = |file: &std::path::Path| {
            format!("{{ redis: {{ url: 'redis://own', passwordFile: '{}' }} }}", file.display())
        };
        format!("{QUORUM}locks: {{ store: {} }}\njobsStore: {}\n{JOBS}", redis(locks), redis(jobs))
    };
    let loaded =
        |text: &str| check_text(text, "config.yaml", &environment(&[])).unwrap_or_else(|error| panic!("{error}"));
    let base = loaded(&with(&one, &two));
    assert_eq!(base.files, [one.clone(), two.clone()]);
    let needed = |text: &str| base.config.restart_needed(&loaded(text).config);
    assert!(needed(&with(&one, &two)).is_empty());
    assert_eq!(needed(&with(&two, &two)), ["locks"]);
    assert_eq!(needed(&with(&one, &one)), ["jobsStore"]);
    // Jobs that come with the store for them do not run before the restart, and are not said to.
    let without = loaded(QUORUM).config;
    let both = loaded(&with(&one, &two)).config;
    assert_eq!(without.restart_needed(&both), ["locks", "jobsStore"]);
    assert_eq!(without.live_changes(&both), LiveChanges::default());
    assert_eq!(both.live_changes(&without).jobs.removed.len(), 1);
}
