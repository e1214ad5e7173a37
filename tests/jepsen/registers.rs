//! The resource that the lock is to protect: two registers in this process, outside all faults, on a socket of the file
//! system. One takes every write; the other refuses those with a token that is smaller than one it has seen. Both are
//! read together and written together. Every fault has registers of its own, the epoch, which begin with 0.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::thread;

use tempfile::TempDir;

#[derive(Clone, Copy, Debug, Default)]
struct Pair {
    plain: u64,
    fenced: u64,
    /// The greatest token that was seen.
    fence: u64,
}

impl Pair {
    /// Whether this token may read and write what is fenced. The first thing that it does is to raise the fence.
    fn admits(&mut self, token: &str) -> bool {
        let Ok(token) = token.parse() else { return false };
        self.fence = self.fence.max(token);
        self.fence == token
    }
}

/// See the module.
pub struct Registers {
    pairs: Arc<Mutex<Vec<Pair>>>,
    dir: TempDir,
}

impl Registers {
    /// With the registers of the first epoch.
    pub fn start() -> Self {
        let dir = TempDir::new().expect("a temporary directory");
        let registers = Self { pairs: Arc::new(Mutex::new(vec![Pair::default()])), dir };
        let listener = UnixListener::bind(registers.path()).expect("a socket");
        let pairs = Arc::clone(&registers.pairs);
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let pairs = Arc::clone(&pairs);
                // An error is a worker that has ended.
                thread::spawn(move || drop(serve(&stream, &pairs)));
            }
        });
        registers
    }

    pub fn path(&self) -> PathBuf {
        self.dir.path().join("registers")
    }

    /// Begins the next epoch; its number.
    pub fn next(&self) -> usize {
        let mut pairs = self.pairs.lock().expect("nobody panics with it");
        pairs.push(Pair::default());
        pairs.len() - 1
    }
}

fn serve(stream: &UnixStream, pairs: &Mutex<Vec<Pair>>) -> std::io::Result<()> {
    for line in BufReader::new(stream).lines() {
        let answer = answer(&line?, &mut pairs.lock().expect("nobody panics with it"));
        let mut output = stream;
        output.write_all(format!("{answer}\n").as_bytes())?;
    }
    Ok(())
}

/// `read TOKEN`, or `write EPOCH PLAIN FENCED TOKEN`.
fn answer(line: &str, pairs: &mut [Pair]) -> String {
    let words: Vec<&str> = line.split(' ').collect();
    match words[..] {
        ["read", token] => {
            let epoch = pairs.len() - 1;
            let pair = &mut pairs[epoch];
            let fenced = if pair.admits(token) { pair.fenced.to_string() } else { "refused".to_owned() };
            format!("{epoch} {} {fenced}", pair.plain)
        }
        ["write", epoch, plain, fenced, token] => {
            let pair = &mut pairs[epoch.parse::<usize>().expect("an epoch")];
            pair.plain = plain.parse().expect("a number");
            let fenced = fenced.parse().ok().filter(|_| pair.admits(token));
            pair.fenced = fenced.unwrap_or(pair.fenced);
            if fenced.is_some() { "accepted" } else { "refused" }.to_owned()
        }
        _ => panic!("{line:?}: no order"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fenced_register_refuses_a_smaller_token_from_the_first_read_of_a_greater_one_on() {
        let mut pairs = vec![Pair::default()];
        let mut said = |line| answer(line, &mut pairs);
        assert_eq!(said("read 5"), "0 0 0");
        assert_eq!(said("write 0 1 1 5"), "accepted");
        assert_eq!(said("read 6"), "0 1 1");
        assert_eq!(said("write 0 2 2 5"), "refused");
        assert_eq!(said("read 5"), "0 2 refused", "the plain one was written");
        assert_eq!(said("write 0 3 2 6"), "accepted");
        assert_eq!(said("read -"), "0 3 refused", "without a token");
    }
}
