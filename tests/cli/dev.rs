//! `baton dev`, and `baton resign` beside it.

use rustix::process::Signal;
use testkit::redis::RedisServer;

use crate::bench::{Bench, Running, dev_port, one_leader, role_at};

async fn dev(port: u16, more: &[&str]) -> (Bench, Running) {
    let bench = Bench::new().with("BATON_API", &format!("127.0.0.1:{port}"));
    let port = port.to_string();
    let running = bench.start(&[&["dev", "--port", &port], more].concat());
    running.says("Ctrl-C ends it").await;
    (bench, running)
}

#[tokio::test]
async fn three_replicas_elect_one_at_once_and_ctrl_c_hands_over_and_ends() {
    let port = dev_port();
    let (_bench, mut dev) = dev(port, &[]).await;
    let (leader, token) = one_leader(port, 3, None).await;
    dev.says(&format!("dev-{leader} leads (token {token})")).await;
    let others = (0..3).filter(|n| *n != leader);
    for n in others {
        dev.says(&format!("dev-{n} follows dev-{leader}")).await;
        assert_eq!(role_at(port + n).await.unwrap()["holder"], format!("dev-{leader}"));
    }
    assert!(!dev.lines().iter().any(|line| line.contains("guarded")), "{:#?}", dev.lines());
    dev.signal(Signal::INT);
    assert_eq!(dev.ends().await, 0);
    dev.says("ending").await;
    dev.says(&format!("dev-{leader} hands over")).await;
}

#[tokio::test]
async fn the_first_lines_are_commands_that_work() {
    let port = dev_port();
    let (_bench, dev) = dev(port, &["--role", "billing"]).await;
    for part in [
        format!("curl -s localhost:{port}/leader/billing"),
        format!("BATON_API=127.0.0.1:{port} {} resign billing", env!("CARGO_BIN_EXE_baton")),
        format!("dev kill 0 --port {port}"),
    ] {
        dev.says(&part).await;
    }
}

#[tokio::test]
async fn resign_finds_the_leader_among_the_replicas_and_another_leads() {
    let port = dev_port();
    let (bench, dev) = dev(port, &["--lease", "3s"]).await;
    let (mut leader, mut token) = one_leader(port, 3, None).await;
    // At least once the leader is not the replica that is asked first.
    for _ in 0..2 {
        let seen = dev.lines().len();
        let said = bench.baton(&["resign", "scheduler"]).await.ends_with(0);
        assert_eq!(said.out, format!("scheduler: dev-{leader} hands over\n"));
        dev.says_after(seen, &format!("dev-{leader} hands over: resigned")).await;
        let (next, greater) = one_leader(port, 3, Some(leader)).await;
        assert!(greater > token, "{greater} after {token}");
        (leader, token) = (next, greater);
    }
}

#[tokio::test]
async fn resign_asks_only_the_replica_that_is_named() {
    let port = dev_port();
    let (bench, _dev) = dev(port, &["--replicas", "2"]).await;
    let (leader, _) = one_leader(port, 2, None).await;
    let follower = format!("127.0.0.1:{}", port + 1 - leader);
    let said = bench.baton(&["resign", "scheduler", "--api", &follower]).await.ends_with(1);
    assert!(said.err.contains(&format!("dev-{leader} does")), "{}", said.err);
}

#[tokio::test]
async fn a_killed_leader_is_followed_after_its_lease_and_replaced_by_a_new_one() {
    let port = dev_port();
    let (bench, dev) = dev(port, &["--lease", "2s"]).await;
    let (leader, token) = one_leader(port, 3, None).await;
    let (number, first) = (leader.to_string(), port.to_string());
    let kill = ["dev", "kill", &number, "--port", &first];
    let said = bench.baton(&kill).await.ends_with(0);
    assert!(said.out.starts_with(&format!("dev-{leader} is gone")), "{}", said.out);
    assert!(role_at(port + leader).await.is_none(), "a dead replica answers nothing");
    assert!(bench.baton(&kill).await.ends_with(64).err.contains("dead already"));
    dev.says(&format!("dev-{leader} is gone (killed); a new one starts in 3 s")).await;
    dev.says(&format!("nobody leads until the lease of dev-{leader} has run out")).await;
    let (_, greater) = one_leader(port, 3, Some(leader)).await;
    assert!(greater > token, "{greater} after {token}");
    dev.says(&format!("dev-{leader} is new")).await;
    assert_eq!(role_at(port + leader).await.unwrap()["identity"], format!("dev-{leader}"));
}

#[tokio::test]
async fn kill_says_which_replicas_there_are_and_whether_anything_runs() {
    let port = dev_port();
    let (bench, _dev) = dev(port, &["--replicas", "2"]).await;
    let said = bench.baton(&["dev", "kill", "2", "--port", &port.to_string()]).await.ends_with(64);
    assert!(said.err.contains("there are dev-0 to dev-1"), "{}", said.err);
    let said = bench.baton(&["dev", "kill", "0", "--port", "9"]).await.ends_with(69);
    assert!(said.err.contains("no `baton dev` answers for port 9"), "{}", said.err);
}

#[tokio::test]
async fn a_taken_port_is_named_and_ends_with_69() {
    let (bench, port) = (Bench::new(), dev_port());
    for taken in [port + 1, port + 102] {
        let _taken = std::net::TcpListener::bind(("127.0.0.1", taken)).unwrap();
        let said = bench.baton(&["dev", "--port", &port.to_string()]).await.ends_with(69);
        assert!(said.err.contains(&format!("127.0.0.1:{taken}")) && said.err.contains("--port"), "{}", said.err);
    }
}

#[tokio::test]
async fn flags_that_cannot_be_are_refused_in_the_words_of_the_configuration() {
    let bench = Bench::new();
    let said = bench.baton(&["dev", "--lease", "5"]).await.ends_with(64);
    assert!(said.err.contains("roles[0].leaseDuration") && said.err.contains("no unit"), "{}", said.err);
    let said = bench.baton(&["dev", "--redis", "http://u:hunter2@host"]).await.ends_with(64);
    assert!(said.err.contains("store.redis.url") && !said.err.contains("hunter2"), "{}", said.err);
    let said = bench.baton(&["dev", "--role", "a", "--role", "a"]).await.ends_with(64);
    assert!(said.err.contains("roles[1].name"), "{}", said.err);
}

#[tokio::test]
async fn over_a_real_redis_the_replicas_elect_through_it() {
    let (server, port) = (RedisServer::start(), dev_port());
    let (bench, dev) = dev(port, &["--redis", &server.url(), "--lease", "2s", "--replicas", "2"]).await;
    let (leader, token) = one_leader(port, 2, None).await;
    assert!(server.command(&["PTTL", "baton:{scheduler}:lease"]).number() > 0);
    bench.baton(&["dev", "kill", &leader.to_string(), "--port", &port.to_string()]).await.ends_with(0);
    let (_, greater) = one_leader(port, 2, Some(leader)).await;
    assert!(greater > token, "{greater} after {token}");
    dev.says(&format!("dev-{} leads (token {greater})", 1 - leader)).await;
}

#[tokio::test]
async fn a_second_signal_ends_it_though_promises_stand() {
    let port = dev_port();
    let (_bench, mut dev) = dev(port, &["--replicas", "1", "--lease", "1h"]).await;
    // The question is answered with a promise of 20 minutes.
    assert_eq!(one_leader(port, 1, None).await.0, 0);
    dev.signal(Signal::TERM);
    dev.says("dev-0 hands over: shutdown").await;
    dev.signal(Signal::TERM);
    assert_eq!(dev.ends().await, 0);
}

#[tokio::test]
async fn a_socket_that_a_killed_dev_left_behind_is_in_nobodys_way() {
    let port = dev_port();
    let (bench, mut first) = dev(port, &["--replicas", "1"]).await;
    first.signal(Signal::KILL);
    assert_eq!(first.ends().await, 137);
    let number = port.to_string();
    let kill = ["dev", "kill", "0", "--port", &number];
    bench.baton(&kill).await.ends_with(69);
    let second = bench.start(&["dev", "--replicas", "1", "--port", &number]);
    second.says("dev-0 leads").await;
    bench.baton(&kill).await.ends_with(0);
    second.says("dev-0 is gone").await;
}
