//! `store.quorum`: what it becomes, and what is refused.

use std::time::Duration;

use baton::config::{Guard, QuorumConfig, Required, Secret, StoreConfig};
use baton::protocol::Seats;
use secrecy::ExposeSecret;

use crate::support::{check, good, refused};

const ROLES: &str = "roles:\n  - name: scheduler\n";

/// A file with this under `store.quorum`, which stands from line 4 on.
fn file(quorum: &str) -> String {
    format!("identity: web-0\nstore:\n  quorum:\n{quorum}{ROLES}")
}

fn members(urls: &[&str]) -> String {
    let lines: String = urls.iter().map(|url| format!("      - {{ url: '{url}' }}\n")).collect();
    format!("    members:\n{lines}")
}

const THREE: [&str; 3] = ["redis://a", "redis://b:6380/1", "redis://c"];

fn quorum(text: &str) -> QuorumConfig {
    let StoreConfig::Quorum(quorum) = good(text).store().clone() else { panic!("no quorum:\n{text}") };
    *quorum
}

#[test]
fn members_share_what_is_given_once_and_have_defaults_for_the_rest() {
    let small = quorum(&file(&members(&THREE)));
    assert_eq!((small.members.len(), small.required, small.guard()), (3, Required::Majority, Guard::Strict));
    assert_eq!(small.command_timeout(), Duration::from_millis(500));
    assert!(small.members.iter().all(|member| member.key_prefix == "baton" && member.replication.acks == 0));
    assert_eq!(small.members[1].url.expose_secret(), THREE[1]);
    let hasty = file(&members(&THREE)).replace("- name: scheduler", "- { name: a, leaseDuration: 3s }");
    assert_eq!(quorum(&hasty).command_timeout(), Duration::from_millis(250), "a quarter of the renewal period");
    let own = "    members:\n      - { url: 'redis://a', username: one, password: '${PW:-1}' }\n      \
               - { url: 'redis://:${PW:-2}@b' }\n      - { url: 'redis://c' }\n    keyPrefix: shop\n    \
               commandTimeout: 900ms\n    required: all\n    guard: off\n";
    let all = quorum(&file(own));
    assert_eq!(
        (all.required, all.guard(), all.command_timeout()),
        (Required::All, Guard::Off, Duration::from_millis(900))
    );
    assert!(all.members.iter().all(|member| member.key_prefix == "shop"));
    let password = |member: usize| match &all.members[member].password {
        Some(Secret::Value(secret)) => Some(secret.expose_secret().to_owned()),
        _ => None,
    };
    assert_eq!((password(0).as_deref(), password(1), password(2)), (Some("1"), None, None));
}

#[test]
fn a_quorum_that_is_none_is_refused_with_every_problem_at_once() {
    let path = "store.quorum.members";
    refused(&file(&members(&THREE[..2])), &[(4, path, "has 2; a quorum takes 3 or more")]);
    let hosts: Vec<String> = (0..10).map(|host| format!("redis://h{host}")).collect();
    let hosts: Vec<&str> = hosts.iter().map(String::as_str).collect();
    refused(&file(&members(&hosts)), &[(4, path, "has 10; more than 9")]);
    refused("identity: a\nstore: { quorum: {} }\nroles: [{ name: a }]\n", &[(2, path, "is missing")]);
    let wrong = [
        "redis://a/0",
        "redis://A:6379/1",
        "redis-sentinel://s?sentinelServiceName=m",
        "rediss-cluster://c",
        "http://d",
    ];
    let more = "    commandTimeout: 3s\n    required: most\n    replicas: 1\n";
    refused(
        &file(&(members(&wrong) + more)),
        &[
            (6, "store.quorum.members[1].url", "has the host and port of members[0]: they are one server"),
            (7, "store.quorum.members[2].url", "leads to Sentinels; members are single, independent masters"),
            (8, "store.quorum.members[3].url", "leads to a cluster; members are single, independent masters"),
            (9, "store.quorum.members[4].url", "unknown scheme"),
            (10, "store.quorum.commandTimeout", "less than 2.5s, half of the renewPeriod (role scheduler)"),
            (11, "store.quorum.required", "write one of `majority`, `all`"),
            (12, "store.quorum.replicas", "unknown key"),
        ],
    );
    let twice = file(&members(&THREE)) + "store: {}\n";
    refused(&twice, &[(10, "store", "is given twice")]);
    let locks = file(&members(&THREE)) + "locks: {}\n";
    refused(&locks, &[(10, "locks", "cannot be had with this store: locks need one queue and one clock of record")]);
    let two = file(&members(&THREE)).replace("roles:", "  memory: {}\nroles:");
    refused(&two, &[(2, "store", "has two stores, quorum and memory; keep exactly one")]);
}

#[test]
fn credentials_and_certificates_are_checked_for_each_member() {
    let mixed = "    members:\n      - { url: 'redis://:p@a', password: q }\n      \
                 - { url: 'rediss://b', passwordFile: /nowhere/pass }\n      - { url: 'rediss://c' }\n    tls: {}\n";
    refused(
        &file(mixed),
        &[
            (5, "store.quorum.members[0].password", "the url names a password too"),
            (6, "store.quorum.members[1].passwordFile", "cannot be read"),
            (8, "store.quorum.tls", "does not ask for TLS"),
        ],
    );
}

#[test]
fn what_is_doubtful_is_a_warning() {
    let warnings = |text: &str| {
        let warnings = check(text).unwrap_or_else(|error| panic!("{error}")).warnings;
        warnings.into_iter().map(|warning| format!("{}: {}", warning.path, warning.message)).collect::<Vec<_>>()
    };
    assert!(warnings(&file(&members(&THREE))).is_empty());
    let even = [&THREE[..], &["redis://d"]].concat();
    let told = warnings(&file(&(members(&even) + "    required: all\n    guard: off\n")));
    assert_eq!(told.len(), 3, "{told:?}");
    for words in ["members: has 4, an even number", "required: all: while one member is down", "guard: off"] {
        assert!(told.iter().any(|warning| warning.contains(words)), "{words}: {told:?}");
    }
}

/// Members with words of their own.
fn listed(members: &[(&str, &str)]) -> String {
    let line = |(url, words): &(&str, &str)| format!("      - {{ url: '{url}'{words} }}\n");
    file(&format!("    members:\n{}", members.iter().map(line).collect::<String>()))
}

#[test]
fn a_list_that_is_being_changed_is_two_lists() {
    let plain = quorum(&file(&members(&THREE)));
    assert_eq!((plain.lists().as_str(), plain.seats()), ("a:6379, b:6380/1, c:6379", Seats::majority(3)));
    let changing = quorum(&listed(&[
        ("redis://:${PW:-secret}@D/0", ", joining: true"),
        ("redis://a", ""),
        ("redis://b:6380/1", ", joining: false"),
        ("redis://c", ", leaving: true"),
    ]));
    assert_eq!(changing.lists(), "a:6379, b:6380/1, c:6379|a:6379, b:6380/1, d:6379", "in any order, without secrets");
    assert!(!changing.seats().are_enough([0, 2]) && changing.seats().are_enough([1, 2]));
    assert!(changing.seats().are_enough([0, 1, 3]));
}

#[test]
fn each_of_the_two_lists_is_a_quorum() {
    let path = "store.quorum.members";
    let three = [("redis://a", ""), ("redis://b", ""), ("redis://c", ", leaving: true")];
    refused(&listed(&three), &[(4, path, "has 2 that are not leaving; a quorum takes 3")]);
    let from_outside = [("redis://a", ""), ("redis://b", ""), ("redis://c", ", leaving: '${GOING:-true}'")];
    refused(&listed(&from_outside), &[(4, path, "has 2 that are not leaving; a quorum takes 3")]);
    let joins = [("redis://a", ""), ("redis://b", ""), ("redis://c", ", joining: true")];
    refused(&listed(&joins), &[(4, path, "has 2 that are not joining; a quorum takes 3")]);
    let [a, b, c] = [("redis://a", ""), ("redis://b", ""), ("redis://c", "")];
    let both = [a, b, c, ("redis://d", ", joining: true, leaving: true")];
    refused(&listed(&both), &[(8, "store.quorum.members[3]", "is joining and leaving")]);
    let word = [a, b, ("redis://c", ", leaving: soon")];
    refused(&listed(&word), &[(7, "store.quorum.members[2].leaving", "neither true nor false")]);
    let twice = [a, b, ("redis://c", ", leaving: true"), ("redis://C:6379", ", joining: true")];
    refused(&listed(&twice), &[(8, "store.quorum.members[3].url", "the host and port of members[2]")]);
}
