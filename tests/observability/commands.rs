//! Commands as runbooks have them: `baton`'s are parsed by the binary itself, `redis-cli`'s are run on a real server,
//! and `kubectl`'s are held against the verbs and options listed here, for there is no cluster to try them on.

use std::process::{Command, Stdio};

use testkit::redis::RedisServer;

/// The Redis of the runbooks' commands.
const REDIS: &str = "redis://redis:6379/0";

/// kubectl's verbs with the options that take a value, and those that do not, as `kubectl VERB --help` lists them.
const KUBECTL: &[(&str, &[&str], &[&str])] = &[
    ("exec", &["--namespace", "--container"], &[]),
    ("get", &["--namespace", "--selector", "--output", "--sort-by"], &[]),
    ("describe", &["--namespace", "--selector"], &[]),
    ("logs", &["--namespace", "--selector", "--container", "--since", "--tail"], &["--prefix", "--previous"]),
    ("top", &["--namespace", "--selector"], &["--containers"]),
];

/// A line of a shell, taken apart at spaces that no quotes hold together.
fn words(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quote = None;
    for character in line.chars() {
        match (quote, character) {
            (None, '\'' | '"') => quote = Some(character),
            (Some(open), _) if open == character => quote = None,
            (None, ' ') => words.push(String::new()),
            _ => words.last_mut().unwrap().push(character),
        }
    }
    assert_eq!(quote, None, "an open quote: {line}");
    words.retain(|word| !word.is_empty());
    words
}

/// The command line as clap reads it: what stands before `--help` must be sound, and then nothing is done.
fn baton(words: &[String]) -> Result<(), String> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_baton"));
    let output = command.args(words).arg("--help").stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.success() { Ok(()) } else { Err(said) }
}

fn redis_cli(words: &[String], redis: &RedisServer) -> Result<(), String> {
    if words.get(..2) != Some(&["-u".to_owned(), REDIS.to_owned()]) {
        return Err(format!("it does not begin with -u {REDIS}"));
    }
    let url = redis.url();
    let output = Command::new("redis-cli").args(["-u", &url]).args(&words[2..]).stdin(Stdio::null()).output();
    let output = output.expect("redis-cli is installed (Debian: apt install redis-tools)");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let is_error = said.starts_with("ERR") || said.starts_with("(error)") || said.starts_with("NOPERM");
    if output.status.success() && !is_error { Ok(()) } else { Err(said) }
}

fn kubectl(words: &[String]) -> Result<(), String> {
    let (ours, inner) = match words.iter().position(|word| word == "--") {
        Some(at) => (&words[..at], &words[at + 1..]),
        None => (words, &[][..]),
    };
    let verb = |word: &String| KUBECTL.iter().find(|(verb, ..)| verb == word);
    let (_, valued, plain) = ours.iter().find_map(verb).ok_or("no verb that is known here")?;
    let mut rest = ours.iter();
    let mut free = 0;
    while let Some(word) = rest.next() {
        if valued.contains(&word.as_str()) {
            rest.next().filter(|value| !value.starts_with("--")).ok_or(format!("{word} without a value"))?;
        } else if word.starts_with('-') && !plain.contains(&word.as_str()) {
            return Err(format!("{word} is no option of its verb"));
        } else if !word.starts_with('-') {
            free += 1;
        }
    }
    match (words[..].contains(&"exec".to_owned()), inner) {
        // The verb and the pod. The image has nothing but this program.
        (true, [program, inner @ ..]) if program == "/baton" && free == 2 => baton(inner),
        (false, []) if free <= 3 => Ok(()),
        _ => Err("it says too much or too little".to_owned()),
    }
}

/// What is wrong with a command.
pub fn check(line: &str, redis: &RedisServer) -> Result<(), String> {
    let words = words(line);
    match words.split_first() {
        Some((program, rest)) if program == "baton" => baton(rest),
        Some((program, rest)) if program == "redis-cli" => redis_cli(rest, redis),
        Some((program, rest)) if program == "kubectl" => kubectl(rest),
        _ => Err("no command that is known here".to_owned()),
    }
}

#[test]
fn a_bad_command_is_found() {
    let redis = RedisServer::start();
    for good in [
        "baton status --watch",
        "redis-cli -u redis://redis:6379/0 pttl 'baton:{a}:lease'",
        "kubectl --namespace shop exec deploy/shop --container baton -- /baton status --jobs",
        "kubectl --namespace shop get pods --output wide",
    ] {
        assert_eq!(check(good, &redis), Ok(()), "{good}");
    }
    for bad in [
        "baton state",
        "baton status --look",
        "redis-cli -h redis ping",
        "redis-cli -u redis://redis:6379/0 pttl",
        "redis-cli -u redis://redis:6379/0 looklog",
        "kubectl --namespace shop exec deploy/shop --container baton -- baton status",
        "kubectl --namespace shop exec deploy/shop --container baton -- /baton look",
        "kubectl --namespace shop look pods",
        "kubectl --namespace shop get pods --watchful",
        "kubectl get pods --namespace --output wide",
        "curl localhost",
    ] {
        assert!(check(bad, &redis).is_err(), "{bad}");
    }
}
