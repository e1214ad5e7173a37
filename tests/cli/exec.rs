//! `baton exec`: a command runs only while its replica leads, and never two at once.

use rustix::process::Signal;
use testkit::proxy::{Network, Proxy};
use testkit::redis::RedisServer;
use testkit::wait_until;

use crate::bench::{Bench, PATIENCE, Running, exists, written};

const LEASE_KEY: &str = "baton:{job}:lease";

/// A margin of a second, so that a busy machine does not decide these tests: the deadline is 3 s after a renewal, the
/// lease's end at the store 4 s.
fn config(bench: &Bench, name: &str, url: &str) -> String {
    let role = "{ name: job, leaseDuration: 4s, renewPeriod: 1s, stepDownMargin: 1s, answerValidity: 1s }";
    let store = format!("store: {{ redis: {{ url: '{url}', commandTimeout: 500ms }} }}");
    bench.file(name, &format!("identity: {name}\n{store}\nroles: [{role}]\nlog: {{ format: text }}\n"))
}

fn exec(bench: &Bench, file: &str, flags: &[&str], script: &str) -> Running {
    let head = ["exec", "--config", file, "--role", "job"];
    bench.start(&[&head, flags, &["--", "sh", "-c", script]].concat())
}

/// Writes the time in nanoseconds again and again, after its own process's id. Deaf to TERM.
fn ticking(name: &str) -> String {
    format!("trap '' TERM; echo $$ >{name}.pid; while [ -e alive ]; do date +%s%N >>{name}; sleep 0.02; done")
}

/// When the first and the last tick were written.
fn ticks(bench: &Bench, name: &str) -> (u64, u64) {
    let text = bench.read(name);
    // What a killed writer did not finish is no tick.
    let whole: Vec<u64> = text.split_inclusive('\n').filter_map(|l| l.strip_suffix('\n')?.parse().ok()).collect();
    (*whole.first().unwrap(), *whole.last().unwrap())
}

async fn pid(bench: &Bench, name: &str) -> i32 {
    written(bench, &format!("{name}.pid")).await.trim().parse().unwrap()
}

#[tokio::test]
async fn the_command_knows_its_role_token_and_identity_and_its_code_is_returned() {
    let (bench, server) = (Bench::new(), RedisServer::start());
    let file = config(&bench, "web-7", &server.url());
    let script = "echo \"$BATON_ROLE $BATON_TOKEN $BATON_IDENTITY\"; exit 7";
    let head = ["exec", "--config", &file, "--role", "job", "--"];
    let said = bench.baton(&[&head[..], &["sh", "-c", script]].concat()).await.ends_with(7);
    let words: Vec<&str> = said.out.split_whitespace().collect();
    assert_eq!((words[0], words[2]), ("job", "web-7"));
    let first: u64 = words[1].parse().unwrap();
    assert_eq!(server.command(&["EXISTS", LEASE_KEY]).number(), 0, "the lease is given back");
    let said = bench.baton(&[&head[..], &["sh", "-c", "echo $BATON_TOKEN; kill -9 $$"]].concat()).await.ends_with(137);
    assert!(said.out.trim().parse::<u64>().unwrap() > first, "{}", said.out);
}

#[tokio::test]
async fn a_command_that_cannot_be_started_is_told_as_a_shell_does() {
    let (bench, server) = (Bench::new(), RedisServer::start());
    let file = config(&bench, "c", &server.url());
    let plain = bench.file("plain", "no program\n");
    for (program, code) in [("/no/such/program", 127), (plain.as_str(), 126)] {
        let said = bench.baton(&["exec", "--config", &file, "--role", "job", "--", program]).await.ends_with(code);
        assert!(said.err.contains(&format!("{program} cannot be started")), "{}", said.err);
    }
    assert_eq!(server.command(&["EXISTS", LEASE_KEY]).number(), 0, "the lease is given back");
}

#[tokio::test]
async fn a_role_or_a_grace_that_cannot_be_is_bad_usage() {
    let (bench, server) = (Bench::new(), RedisServer::start());
    let file = config(&bench, "c", &server.url());
    let said = bench.baton(&["exec", "--config", &file, "--role", "no", "--", "true"]).await.ends_with(64);
    assert!(said.err.contains("there is no role no in it; there is job"), "{}", said.err);
    let said = bench.baton(&["exec", "--config", &file, "--role", "job", "--grace", "2s", "--", "true"]).await;
    assert!(said.ends_with(64).err.contains("--grace is 2s; it must be less than 2s"));
}

#[tokio::test]
async fn only_one_of_two_runs_its_command_and_the_other_takes_over_when_it_ends() {
    let (bench, server) = (Bench::new(), RedisServer::start());
    let (one, two) = (config(&bench, "one", &server.url()), config(&bench, "two", &server.url()));
    let mut first =
        exec(&bench, &one, &[], "echo first ready; while [ -e alive ] && [ ! -e gate ]; do sleep 0.02; done");
    first.says("first ready").await;
    let mut second = exec(&bench, &two, &[], "echo second ready");
    second.says("another replica leads").await;
    assert!(!second.lines().iter().any(|line| line.contains("second ready")));
    bench.file("gate", "");
    assert_eq!(first.ends().await, 0);
    second.says("second ready").await;
    assert_eq!(second.ends().await, 0);
}

#[tokio::test]
async fn signals_reach_the_command_and_the_lease_is_kept_until_it_has_ended() {
    let (bench, server) = (Bench::new(), RedisServer::start());
    let file = config(&bench, "c", &server.url());
    let on_term = "echo term; while [ -e alive ] && [ ! -e go ]; do sleep 0.02; done; echo done; exit 3";
    let forever = "while [ -e alive ]; do sleep 0.02; done";
    let script = format!("trap 'echo hup' HUP; trap 'echo usr1' USR1; trap '{on_term}' TERM; echo ready; {forever}");
    let mut running = exec(&bench, &file, &[], &script);
    running.says("ready").await;
    running.signal(Signal::HUP);
    running.says("hup").await;
    running.signal(Signal::USR1);
    running.says("usr1").await;
    running.signal(Signal::TERM);
    running.says("term").await;
    // Five renewals, a second apart: longer than a promise, and than the lease.
    let (mut renewals, mut left) = (0, i64::MAX);
    wait_until(PATIENCE, "it goes on renewing while the command runs", || {
        let now = server.command(&["PTTL", LEASE_KEY]).number();
        renewals += i32::from(now > left);
        left = now;
        assert!(left > 0, "the command still runs, and the lease is gone");
        renewals == 5
    })
    .await;
    bench.file("go", "");
    running.says("done").await;
    assert_eq!(running.ends().await, 3);
    assert_eq!(server.command(&["EXISTS", LEASE_KEY]).number(), 0, "the lease is given back");
}

/// Before, QUIT ended baton and not its command.
#[tokio::test]
async fn quit_reaches_the_command_and_ends_baton_after_it() {
    let (bench, server) = (Bench::new(), RedisServer::start());
    let file = config(&bench, "c", &server.url());
    let script = "trap 'echo quit' QUIT; echo ready; while [ -e alive ] && [ ! -e go ]; do sleep 0.02; done; exit 3";
    let mut running = exec(&bench, &file, &[], script);
    running.says("ready").await;
    running.signal(Signal::QUIT);
    running.says("quit").await;
    assert_eq!(server.command(&["EXISTS", LEASE_KEY]).number(), 1, "the command still runs");
    bench.file("go", "");
    assert_eq!(running.ends().await, 3);
    assert_eq!(server.command(&["EXISTS", LEASE_KEY]).number(), 0, "the lease is given back");
}

#[tokio::test]
async fn a_command_that_any_signal_ends_takes_its_whole_group_along() {
    for (signal, code) in [(Signal::TERM, 143), (Signal::INT, 130), (Signal::HUP, 129), (Signal::QUIT, 131)] {
        let (bench, server) = (Bench::new(), RedisServer::start());
        let file = config(&bench, "c", &server.url());
        // The shell takes the signal; what it started is deaf to all.
        let deaf = "trap '' TERM INT HUP QUIT; echo $$ >left.pid; while [ -e alive ]; do sleep 0.02; done";
        let script = format!("sh -c \"{}\" >/dev/null 2>&1 & trap - INT QUIT; wait", deaf.replace('$', "\\$"));
        let mut running = exec(&bench, &file, &[], &script);
        let left = pid(&bench, "left").await;
        running.signal(signal);
        assert_eq!(running.ends().await, code, "{signal:?}");
        wait_until(PATIENCE, "what it left running is gone", || !exists(left) || is_zombie(left)).await;
        assert_eq!(server.command(&["EXISTS", LEASE_KEY]).number(), 0, "{signal:?}: the lease is given back");
    }
}

#[tokio::test]
async fn a_signal_while_it_waits_to_lead_ends_it() {
    let (bench, server) = (Bench::new(), RedisServer::start());
    let (one, two) = (config(&bench, "one", &server.url()), config(&bench, "two", &server.url()));
    let first = exec(&bench, &one, &[], "echo ready; while [ -e alive ]; do sleep 0.02; done");
    first.says("ready").await;
    let mut second = exec(&bench, &two, &[], "echo never");
    second.says("another replica leads").await;
    second.signal(Signal::TERM);
    assert_eq!(second.ends().await, 143);
    assert!(!second.lines().iter().any(|line| line.contains("never")));
}

#[tokio::test]
async fn what_the_command_leaves_running_in_its_group_ends_with_it() {
    let (bench, server) = (Bench::new(), RedisServer::start());
    let file = config(&bench, "c", &server.url());
    let left = "sh -c 'echo $$ >left.pid; while [ -e alive ]; do sleep 0.02; done' >/dev/null 2>&1";
    let script = format!("{left} & while [ ! -s left.pid ]; do sleep 0.02; done");
    let mut running = exec(&bench, &file, &[], &script);
    let left = pid(&bench, "left").await;
    assert_eq!(running.ends().await, 0);
    wait_until(PATIENCE, "what it left running is gone", || !exists(left) || is_zombie(left)).await;
}

/// Ended, and waiting for whoever took it in.
fn is_zombie(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('Z'))
}

#[tokio::test]
async fn cut_off_from_redis_the_command_is_gone_before_the_lease_ends_at_the_store() {
    let (bench, server) = (Bench::new(), RedisServer::start());
    let proxy = Proxy::start(server.port()).await;
    let (one, two) = (config(&bench, "one", &proxy.url()), config(&bench, "two", &server.url()));
    let mut first = exec(&bench, &one, &[], &ticking("a"));
    let child = pid(&bench, "a").await;
    let second = exec(&bench, &two, &[], &ticking("b"));
    second.says("another replica leads").await;
    proxy.set(Network::Stalled);
    wait_until(PATIENCE, "the command is gone", || !exists(child)).await;
    assert!(server.command(&["PTTL", LEASE_KEY]).number() > 0, "its lease still stands");
    assert_eq!(first.ends().await, 137, "it was deaf to TERM: {:#?}", first.lines());
    written(&bench, "b").await;
    let (last, next) = (ticks(&bench, "a").1, ticks(&bench, "b").0);
    assert!(last < next, "a's last tick {last}, b's first {next}");
}

#[tokio::test]
async fn a_command_that_hears_term_has_its_grace_to_end_by_itself() {
    let (bench, server) = (Bench::new(), RedisServer::start());
    let proxy = Proxy::start(server.port()).await;
    let file = config(&bench, "c", &proxy.url());
    let script = "trap 'echo term; exit 5' TERM; echo ready; while [ -e alive ]; do sleep 0.02; done";
    let mut running = exec(&bench, &file, &["--grace", "1500ms"], script);
    running.says("ready").await;
    proxy.set(Network::Stalled);
    running.says("term").await;
    assert!(server.command(&["PTTL", LEASE_KEY]).number() > 1_000, "TERM comes a grace before the deadline");
    assert_eq!(running.ends().await, 5);
}

#[tokio::test]
async fn a_baton_that_stood_still_past_its_lease_kills_its_command_at_once() {
    let (bench, server) = (Bench::new(), RedisServer::start());
    let (one, two) = (config(&bench, "one", &server.url()), config(&bench, "two", &server.url()));
    let mut first = exec(&bench, &one, &[], &ticking("a"));
    let child = pid(&bench, "a").await;
    let second = exec(&bench, &two, &[], &ticking("b"));
    second.says("another replica leads").await;
    first.signal(Signal::STOP);
    written(&bench, "b").await;
    assert!(exists(child), "nobody was there to end it; the fencing token is for that");
    first.signal(Signal::CONT);
    assert_eq!(first.ends().await, 137);
    assert!(!exists(child));
    second.says("the command runs").await;
}

#[tokio::test]
async fn with_restart_the_command_starts_anew_with_the_next_lease() {
    let (bench, server) = (Bench::new(), RedisServer::start());
    let proxy = Proxy::start(server.port()).await;
    let file = config(&bench, "c", &proxy.url());
    let script = "echo \"token $BATON_TOKEN\"; echo $BATON_TOKEN >>tokens; while [ -e alive ]; do sleep 0.02; done";
    let mut running = exec(&bench, &file, &["--restart"], script);
    running.says("token ").await;
    proxy.set(Network::Stalled);
    running.says("it starts anew with the next lease").await;
    proxy.set(Network::Good);
    let tokens = || bench.read("tokens").lines().map(|line| line.parse::<u64>().unwrap()).collect::<Vec<_>>();
    wait_until(PATIENCE, "it runs again", || tokens().len() == 2).await;
    assert!(tokens()[1] >= tokens()[0], "{:?}", tokens());
    running.signal(Signal::TERM);
    assert_eq!(running.ends().await, 143);
}
